//! `onpath mount SOURCE MOUNTPOINT`: a further mount of a file system that `onpath dev` serves on this host, or a mount of one that
//! `onpath serve` serves on others.

use crate::background::BackgroundArgs;
use crate::cli::{CacheMode, WaitMode, directory};
use crate::metrics::MetricsArgs;
use crate::mounted::{self, Event, Target, Ways};
use crate::progress::Progress;
use crate::teller::{Own, Teller};
use clap::Args;
use onpath_client::way::Way;
use onpath_client::{key, url};
use onpath_fuse::mount::{MountOptions, ParsedOptions};
use onpath_host::journal::Commit;
use onpath_host::member::NoJournal;
use onpath_host::node::NodeBuilder;
use onpath_host::progress::{Stage, Watcher};
use onpath_session::{KeptWays, Session, SessionConfig};
use onpath_wire::identity::Identity;
use onpath_wire::ids::NodeId;
use onpath_wire::shown::Shown;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Arguments of `onpath mount`.
#[derive(Args, Debug)]
pub(crate) struct MountArgs {
    /// The DIR of the running `onpath dev`, or onpath://HOST[:PORT][,HOST…]/ of the hosts of a cluster.
    #[arg(env = "ONPATH_DIR")]
    source: PathBuf,
    /// Where to mount it.
    #[arg(env = "ONPATH_MOUNTPOINT")]
    mountpoint: PathBuf,
    /// Mount options as for mount(8); soft: requests to a server that is gone end with EIO; inode32: inode numbers of 32 bits.
    #[arg(short = 'o', env = "ONPATH_OPTIONS", value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,
    /// What this mount caches; also -o cache=….
    #[arg(long, env = "ONPATH_CACHE", value_enum, default_value = "alone")]
    cache: CacheMode,
    /// The key of the cluster, if it has one: the file that `onpath cluster init` wrote, which only root can read.
    #[arg(long, env = "ONPATH_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// How to wait for messages of the hosts of a cluster.
    #[arg(long, env = "ONPATH_WAIT", value_enum, default_value = "block")]
    wait: WaitMode,
    /// How long to look for a host that answers, seconds.
    #[arg(long, env = "ONPATH_JOIN_TIMEOUT", value_name = "SECONDS", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Mount in this mount namespace: a file, or the id of a process that is in it (for mount.onpath).
    #[arg(long, value_name = "NAMESPACE", hide = true)]
    mount_namespace: Option<PathBuf>,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    background: BackgroundArgs,
}

/// Options of a mount to which others than the hosts may answer, as who can listen on the way there; `suid` and `dev` come after them.
const UNSEALED: &str = "nosuid,nodev";

fn parsed(args: &MountArgs, unsealed: bool) -> anyhow::Result<ParsedOptions> {
    let asked = args.options.join(",");
    let options = if unsealed { [UNSEALED, &asked].join(",") } else { asked };
    Ok(MountOptions::parse(&options, &mounted::OPTIONS)?)
}

/// What is said of a mount whose key is somebody's.
fn everybody_is(Identity { uid, gids, .. }: &Identity) -> String {
    let gids: Vec<String> = gids.iter().map(u32::to_string).collect();
    let gids = gids.join(", ");
    format!("all that is done on this mount is done as uid {uid} with groups {gids}, whose key it has, whoever does it")
}

pub(crate) fn run(args: MountArgs) -> anyhow::Result<()> {
    let unsealed = url::is_url(&args.source) && key::keys_of(args.key_file.as_deref())?.is_none();
    let mut options = parsed(&args, unsealed)?;
    let caches = args.cache.chosen(&options)?;
    let progress = Progress::of_server("connecting");
    let dir = if url::is_url(&args.source) { None } else { Some(directory(&args.source)?) };
    let target = Target::new(&args.mountpoint, args.mount_namespace.as_deref())?;
    target.check("", dir.as_deref(), &args.background)?;
    let Some(ready) = args.background.begin(&target.mountpoint, &progress)? else { return Ok(()) };
    let metrics = args.metrics.bind()?;
    if dir.is_none() {
        progress.begin(Stage::uncounted("waiting for a host that answers"));
        progress.set_more(args.source.shown().to_string());
    }
    let found = dir.as_deref().unwrap_or(&args.source);
    let way = Way::find(found, args.key_file.as_deref(), Duration::from_secs(args.timeout))?;
    progress.finish();
    let source = way.source();
    let there = way.there();
    if let Some(identity) = &there.identity {
        eprintln!("onpath: {}", everybody_is(identity));
        // Whoever has the same key may answer in a host's place.
        options = parsed(&args, true)?;
    }
    let session = Session::new(SessionConfig {
        session: there.session,
        cluster: there.fsid as u32,
        map: there.map.clone(),
        soft: options.has(mounted::SOFT),
        access_times: options.mount.access_times(),
        in_halves: there.sync && !options.mount.default_permissions(),
        caches,
        identity: there.identity.clone(),
        // The kernel names files by directory and name.
        kept_ways: KeptWays::default(),
    });
    let (effects, sender, receiver) = mounted::effects(&options);
    let mut builder = NodeBuilder::new();
    let port = builder.add(NodeId::session(there.session.id()), session, effects.clone());
    // This process has no records: whether a reply may leave is decided where they are.
    let node = builder.start(Commit::Interval(1), None, Arc::new(NoJournal));
    let over = sender.clone();
    // The mount may be over already; then nobody listens.
    let over = Arc::new(move |why: &str| _ = over.send(Event::Refused(why.to_owned())));
    let connected = way.connect(&node, &port, over, args.wait.of_endpoint())?;
    effects.on_expiry(Box::new({
        let connected = connected.clone();
        move || connected.begin_anew()
    }));
    let own = Own::new(&target.mountpoint, effects.answers())?;
    node.mounts().have_own(
        there.session.id(),
        Box::new({
            let own = own.clone();
            move || own.report(false)
        }),
    );
    metrics.serve(&node, "mount")?;
    let teller = Teller::start(own, connected.clone())?;
    let ways = Ways { ready, is_lost: Some(connected.is_lost()), ending: Box::new(|| {}) };
    let mount_options = options.mount.with_source(&source);
    let served = mounted::serve(target, &mount_options, &node, &port, effects, (sender, receiver), ways);
    drop(teller);
    connected.stop();
    node.close()?;
    served
}
