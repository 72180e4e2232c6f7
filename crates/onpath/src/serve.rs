//! `onpath serve --config FILE`: runs the roles of one host of a cluster.

use crate::background::BackgroundArgs;
use crate::cli::absolute;
use crate::cluster::config::{Cluster, Host};
use crate::inspect::served_by;
use crate::kernel_switch::InKernel;
use crate::metrics::MetricsArgs;
use crate::progress::Progress;
use crate::signals;
use anyhow::{Context, bail, ensure};
use clap::Args;
use onpath_client::key::{self, KeyFile};
use onpath_client::url;
use onpath_host::member::{KernelSwitch, Member, MemberConfig, Strange};
use onpath_host::progress::{Stage, Unwatched, Watcher};
use onpath_host::server::{CHECKPOINT_BYTES, ServerOptions, TrackingOptions};
use onpath_host::udp::{ClusterIs, HostIs};
use onpath_wire::codec::Blob;
use onpath_wire::shown::Shown;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use thiserror::Error;

/// Arguments of `onpath serve`.
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// The configuration of the cluster, the same on every host; `onpath cluster init` writes one.
    #[arg(long, env = "ONPATH_CONFIG", default_value = "/etc/onpath/cluster.toml", value_name = "FILE")]
    config: PathBuf,
    /// Which of its hosts this is [default: the one with the name of this machine, or the only one].
    #[arg(long, env = "ONPATH_HOST", value_name = "NAME")]
    host: Option<String>,
    /// The directory of this host shall take the place of the one that it had, which is lost: what was in that is gone. Without this the
    /// other hosts take nothing from it.
    #[arg(long)]
    replace_lost_directory: bool,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    background: BackgroundArgs,
}

pub(crate) fn run(args: ServeArgs) -> anyhow::Result<()> {
    let progress = Arc::new(Progress::of_server("starting"));
    let cluster = Cluster::read(&args.config)?;
    let host = this_host(&cluster, &args)?;
    host.directory.as_deref().map_or(Ok(()), refuse_mounts)?;
    let subject = host.directory.clone().unwrap_or_else(|| PathBuf::from(&host.name));
    let Some(ready) = args.background.begin(&subject, &progress)? else { return Ok(()) };
    let (sender, receiver) = channel();
    let strange = {
        let sender = sender.clone();
        Box::new(move |by, why| _ = sender.send(Asked::Refused(by, why)))
    };
    signals::forward_with_reload(sender, Asked::End, Asked::Reload)?;
    let metrics = args.metrics.bind()?;
    let (watcher, replaces) = (progress.clone(), args.replace_lost_directory);
    let config = MemberConfig { replaces, strange, watcher, ..member(&cluster, host)? };
    let keys = config.keys.clone();
    if keys.is_none() {
        tracing::warn!(
            "this cluster has no key: whoever can send UDP to it is a client, and is believed to be any user"
        );
    } else if cluster.shows_writes_in_clear_text() {
        tracing::warn!(
            "who can read the datagrams of this cluster learns sizes and times of files that are written: visibility_clear_text = true"
        );
    }
    let (sealed, caches) = (keys.is_some(), config.cache.is_some());
    if caches && sealed {
        tracing::warn!(
            "who can read the datagrams of this cluster learns names' attributes that are asked for often: cache_clear_text = true"
        );
    } else if cluster.cache.is_some() && !caches {
        tracing::warn!(
            "the switch answers nothing from its cache, since messages are sealed: cache_clear_text = true would let it"
        );
    }
    let member = Member::start(config)?;
    // It is told other keys as long as this host serves.
    let keyring = Arc::new(member.keyring());
    if let (Some(keys), Some(file)) = (keys, &cluster.key_file) {
        key::follow(file, keys, Arc::downgrade(&keyring), |keyring, keys| keyring(keys))?;
    }
    progress.finish();
    metrics.serve(member.node(), "serve")?;
    ready.announce(&format!("onpath: serving {} as {}", cluster.name, host.name));
    let mut present = cluster.clone();
    let mut arrivals = Arrivals::of(&cluster, &member);
    loop {
        let asked = match arrivals.look() {
            None => receiver.recv()?,
            Some(pause) => match receiver.recv_timeout(pause) {
                Err(RecvTimeoutError::Timeout) => continue,
                asked => asked?,
            },
        };
        match asked {
            Asked::End => return Ok(member.stop()?),
            Asked::Refused(by, why) => return Err(Refused::of(&cluster, host, by, why).into()),
            Asked::Reload => {}
        }
        let now = Cluster::read(&args.config).map_err(anyhow::Error::from);
        match now.and_then(|now| reload(&member, sealed, &present, &now)) {
            Ok(taken) => present = taken,
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "the configuration is not taken; that of before goes on");
            }
        }
    }
}

/// How often it is looked which hosts are there.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Shows at a start which hosts this one waits for, until all are there.
struct Arrivals<'a> {
    cluster: &'a Cluster,
    member: &'a Member,
    progress: Option<Progress>,
}

impl<'a> Arrivals<'a> {
    fn of(cluster: &'a Cluster, member: &'a Member) -> Arrivals<'a> {
        let progress = Progress::of_server("waiting for hosts");
        progress.begin(Stage::uncounted("waiting for hosts"));
        Arrivals { cluster, member, progress: Some(progress) }
    }

    /// Looks who is there; when to look again, unless all are.
    fn look(&mut self) -> Option<Duration> {
        let progress = self.progress.as_ref()?;
        let missing = self.member.missing();
        let hosts = self.cluster.hosts.iter().filter(|host| missing.contains(&host.number));
        let names: Vec<String> = hosts.map(|host| format!("{} ({})", host.name.shown(), host.place())).collect();
        if names.is_empty() {
            progress.finish();
            self.progress = None;
            return None;
        }
        let others = self.cluster.hosts.len() - 1;
        progress.set_more(format!("{} of {others} others do not answer: {}", names.len(), names.join(", ")));
        Some(LOOK_EVERY)
    }
}

/// A host whose directory lies on a mount of its own cluster would wait for itself. Nothing of that mount is looked at.
fn refuse_mounts(directory: &Path) -> anyhow::Result<()> {
    match served_by(&absolute(directory)?) {
        Ok(source) if url::is_url(&source) => bail!(
            "{} lies on a mount of a cluster ({}), whose hosts a host must not wait for: unmount that, or give this host another directory",
            directory.shown(),
            source.shown()
        ),
        _ => Ok(()),
    }
}

/// Why a host cannot serve together with another one.
#[derive(Debug, Error)]
enum Refused {
    /// That one knows another directory of it.
    #[error("{by} knows another directory of {host}: {} is not the one that it had. Bring that back; only if it is lost for good, with all names and bytes that were in it, start this host once with --replace-lost-directory", directory.shown())]
    Directory { by: String, host: String, directory: PathBuf },
    /// That one has heard of a later state of its directory.
    #[error("{by} has heard of a later state of the directory of {host}: {} is an old copy. Bring the present one back; only if it is lost for good, with all names and bytes that were in it, move the copy away and start this host once with --replace-lost-directory", directory.shown())]
    OldCopy { by: String, host: String, directory: PathBuf },
    /// Its new directory was formatted with other secrets.
    #[error("{by} has other secrets than {host}, whose directory {} is new: copy the key file of {by} to this host, remove what is in the directory, and start it again; where both are new, either file will do", directory.shown())]
    Secrets { by: String, host: String, directory: PathBuf },
}

impl Refused {
    fn of(cluster: &Cluster, host: &Host, by: u16, why: Strange) -> Refused {
        let by = cluster.hosts.iter().find(|host| host.number == by).map_or("another host", |host| &host.name);
        let (by, directory) = (by.to_owned(), host.directory.clone().unwrap_or_default());
        let host = host.name.clone();
        match why {
            Strange::Directory => Refused::Directory { by, host, directory },
            Strange::OldCopy => Refused::OldCopy { by, host, directory },
            Strange::Secrets => Refused::Secrets { by, host, directory },
        }
    }
}

/// What a signal, or another host, asks for.
#[derive(Clone, Copy)]
enum Asked {
    End,
    Reload,
    /// This host cannot serve together with that one.
    Refused(u16, Strange),
}

/// Takes from a configuration what can change while a host serves: how directories are tracked, the switches, and which of them has a cache.
/// What is served then.
fn reload(member: &Member, sealed: bool, before: &Cluster, now: &Cluster) -> anyhow::Result<Cluster> {
    ensure!(before.fsid() == now.fsid(), "it is of another file system");
    let taken = before.with_switches_of(now);
    if taken.told() != now.told() {
        tracing::warn!("what hosts have but switches, and commit, are taken from the configuration at a start only");
    }
    member.set_hosts(taken.told(), &addresses(&taken)?);
    tracing::info!(form = ?taken.tracking, switches = ?taken.switches(), "directories shall be tracked so");
    member.set_tracking(taken.tracking, taken.switches());
    member.set_cache(taken.caches(sealed));
    Ok(taken)
}

fn this_host<'a>(cluster: &'a Cluster, args: &ServeArgs) -> anyhow::Result<&'a Host> {
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let named = args.host.as_deref();
    let guess = cluster.hosts.iter().any(|host| host.name == machine).then_some(machine.as_str());
    Ok(cluster.host(&args.config, named.or(guess))?)
}

/// Where a host is reached.
fn resolved(host: &Host) -> anyhow::Result<SocketAddr> {
    host.resolve().with_context(|| format!("host {}: address {}", host.name, host.address))
}

/// All hosts, and where they are reached.
fn addresses(cluster: &Cluster) -> anyhow::Result<Vec<(HostIs, SocketAddr)>> {
    cluster.hosts.iter().map(|host| Ok((host_is(host), resolved(host)?))).collect()
}

fn member(cluster: &Cluster, host: &Host) -> anyhow::Result<MemberConfig> {
    let hosts = addresses(cluster)?;
    let (keys, secrets) = match cluster.key_file.as_deref().map(key::read).transpose()? {
        Some(KeyFile { keys, secrets }) => (keys, secrets),
        None => (None, None),
    };
    let part = |directory| (directory, cluster.part(host, secrets));
    Ok(MemberConfig {
        number: host.number,
        part: host.directory.clone().filter(|_| host.has_state()).map(part),
        replaces: false,
        strange: Box::new(|_, _| {}),
        watcher: Arc::new(Unwatched),
        options: ServerOptions {
            shards: None,
            secrets: None,
            commit: cluster.commit,
            checkpoint_bytes: CHECKPOINT_BYTES,
            memory_bytes: host.meta_memory,
            path: host.path,
            tracking: TrackingOptions {
                form: cluster.tracking,
                switches: cluster.switches(),
                sticky_marks: cluster.sticky_marks,
                sync: cluster.sync_directories,
                files: keys.is_none() || cluster.visibility_clear_text,
            },
            writes: cluster.writes,
            deferred: cluster.deferred,
        },
        bind: resolved(host)?,
        cluster: cluster.told(),
        hosts,
        cache: cluster.caches(keys.is_some()),
        keys,
        wait: host.wait,
        kernel_switch: kernel_switch(cluster, host, resolved(host)?)?,
    })
}

/// The switch of the host in the kernel, if that is where it is.
fn kernel_switch(cluster: &Cluster, host: &Host, address: SocketAddr) -> anyhow::Result<Option<Box<dyn KernelSwitch>>> {
    let Some(port) = host.switch_port.filter(|_| !host.xdp.is_empty()) else { return Ok(None) };
    let caches = cluster.cache == Some(host.number);
    Ok(Some(Box::new(InKernel::attach(cluster.fsid() as u32, (address, port), &host.xdp, caches)?)))
}

/// A host as others are told of it.
fn host_is(host: &Host) -> HostIs {
    HostIs {
        number: host.number,
        name: Blob(host.name.clone().into_bytes()),
        address: Blob(host.place().into_bytes()),
        shards: host.shards.clone(),
        data: host.data,
        switch_port: host.switch_port.unwrap_or(0),
        path: host.path.is_some(),
    }
}

impl Cluster {
    /// What clients are told.
    fn told(&self) -> ClusterIs {
        ClusterIs {
            fsid: self.fsid(),
            name: Blob(self.name.clone().into_bytes()),
            shards: self.shards,
            sync: self.commit == onpath_host::journal::Commit::Sync,
            all: self.hosts.len() as u16,
            hosts: self.hosts.iter().map(host_is).collect(),
        }
    }
}
