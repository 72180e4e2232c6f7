//! What the processes of a file system tell of themselves, as far as they do in time.

use crate::cli::{absolute, directory};
use crate::cluster::config::{Cluster, HOSTS_MAX};
use crate::inspect::served_by;
use onpath_client::{key, url};
use onpath_host::stream::{StreamError, request_status};
use onpath_host::udp::{Keys, ask_report, ask_status};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Between two looks at the mount of a process, from which its operations per second are told.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// How long a look at a path may take.
const LOOKED_WITHIN: Duration = Duration::from_millis(500);
/// How long a second look may take.
const SECOND_LOOK: Duration = Duration::from_millis(800);

/// A process that serves.
#[derive(Clone, Debug, Default)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) number: u16,
    pub(super) address: String,
    pub(super) shards: Vec<u16>,
    pub(super) data: bool,
    pub(super) switch: bool,
    pub(super) path: bool,
    /// It answers, whether it has told its report or not.
    pub(super) answers: bool,
    /// What it has told.
    pub(super) report: Option<Value>,
    /// Operations per second of its own mount.
    pub(super) own_per_second: f64,
    /// Why it cannot be asked.
    pub(super) error: Option<String>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Reading {
    /// What was asked for.
    pub(super) what: String,
    pub(super) hosts: Vec<Host>,
    /// They are the hosts of a cluster, asked over the network.
    pub(super) is_cluster: bool,
    /// Why nothing was asked.
    pub(super) why: Option<String>,
}

impl Reading {
    /// Not even who is to be asked could be found out in time.
    pub(super) fn of_nothing(what: &Path) -> Reading {
        let why = "what it is could not be found out within 5 s: a disk or a mount on the way to it hangs".to_owned();
        Reading { what: what.to_string_lossy().into_owned(), hosts: vec![], is_cluster: false, why: Some(why) }
    }

    /// The hosts that have told a report, each with that.
    pub(super) fn reports(&self) -> impl Iterator<Item = (&Host, &Value)> + Clone {
        self.hosts.iter().filter_map(|host| Some((host, host.report.as_ref()?)))
    }

    /// The mounts that hosts have told of, each once.
    pub(super) fn mounts(&self) -> Vec<&Value> {
        mounts_of(self.reports().map(|(_, report)| report))
    }

    /// For how long none of the others has heard anything of a host, seconds. One that has just started knows no longer than that.
    pub(super) fn silent_for(&self, host: &Host) -> Option<f64> {
        let heard = self.reports().filter_map(|(_, report)| {
            let mut known = report["hosts"].as_array()?.iter();
            known.find(|other| other["name"] == host.name.as_str())?["heard_ms"].as_f64()
        });
        heard.min_by(f64::total_cmp).map(|milliseconds| milliseconds / 1e3)
    }
}

/// The mounts of which these reports tell, each once. The host with the first shard knows which there are; without it those are taken of
/// which others have heard, as who has heard of them last tells of them.
pub(crate) fn mounts_of<'a>(reports: impl Iterator<Item = &'a Value> + Clone) -> Vec<&'a Value> {
    let best = reports.clone().find(|report| adds_up(report));
    let told = best.map_or_else(|| reports.collect(), |best| vec![best]);
    let mut all: BTreeMap<Option<&str>, &Value> = BTreeMap::new();
    for mount in told.into_iter().filter_map(|report| report["mounts"].as_array()).flatten() {
        let known = all.entry(mount["id"].as_str()).or_insert(mount);
        if mount["heard_ms"].as_u64() < known["heard_ms"].as_u64() {
            *known = mount;
        }
    }
    let mut all: Vec<&Value> = all.into_values().collect();
    all.sort_by_key(|mount| mount["session"].as_u64());
    all
}

/// Whether mounts tell the process of this report what they do: it has the first shard, or there is no other one.
pub(crate) fn adds_up(report: &Value) -> bool {
    let has_first = |host: &Value| host["shards"].as_array().into_iter().flatten().any(|shard| shard == 0);
    report["hosts"].is_null() || this_of(report).is_some_and(has_first)
}

/// Whether it is a cluster, whose hosts tell over the network, and no process of this machine.
pub(crate) fn is_cluster(what: &Path) -> anyhow::Result<bool> {
    let path = absolute(what)?;
    let of_hosts = url::is_url(what) || served_by(&path).is_ok_and(|source| url::is_url(&source) && !is_dir(&path));
    Ok(of_hosts || path.is_file() && Cluster::read(&path).is_ok())
}

/// The reports of all hosts of a cluster that tell, within that time.
pub(crate) fn reports_of(what: &Path, key_file: Option<&Path>, within: Duration) -> anyhow::Result<Vec<Value>> {
    let reading = read(what, key_file, Look { end: Instant::now() + within, rates: false })?;
    let silent = reading.hosts.iter().filter(|host| host.report.is_none()).count();
    let reports: Vec<Value> = reading.hosts.into_iter().filter_map(|host| host.report).collect();
    anyhow::ensure!(!reports.is_empty(), "none of {silent} hosts tells what it does: `onpath status` says more");
    Ok(reports)
}

/// Asks all that have to do with `what` until `end`.
pub(super) fn read(what: &Path, key_file: Option<&Path>, how: Look) -> anyhow::Result<Reading> {
    if url::is_url(what) {
        return of_url(&what.to_string_lossy(), key_file, how);
    }
    let path = absolute(what)?;
    // The table of mounts is looked at first, since a look at the path may hang if it is on one.
    if let Ok(source) = served_by(&path) {
        if url::is_url(&source) {
            return of_url(&source.to_string_lossy(), key_file, how);
        }
        if !is_dir(&path) {
            return of_dir(&source, how);
        }
    }
    if path.is_file()
        && let Ok(cluster) = Cluster::read(&path)
    {
        return of_cluster(&cluster, how);
    }
    of_dir(&directory(&path)?, how)
}

/// Whether a file system keeps its state there. On a mount that hangs nobody can tell: then it is that mount which is asked for.
fn is_dir(path: &Path) -> bool {
    let (sender, receiver) = channel();
    let path = path.to_owned();
    let look = move || _ = sender.send(path.join("superblock").exists() || path.join("socket").exists());
    let looks = std::thread::Builder::new().name("look".into()).spawn(look).is_ok();
    looks && receiver.recv_timeout(LOOKED_WITHIN).unwrap_or(false)
}

/// How a file system is looked at.
#[derive(Clone, Copy)]
pub(super) struct Look {
    /// What does not come by then is left out.
    pub(super) end: Instant,
    /// Operations per second of a mount of the process itself are wanted, for which it is asked twice.
    pub(super) rates: bool,
}

pub(super) fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

fn of_dir(dir: &Path, how: Look) -> anyhow::Result<Reading> {
    let what = dir.to_string_lossy().into_owned();
    let asked = dir.to_owned();
    let ask = move |patience| match request_status(&asked, patience) {
        Ok(text) => Ok(Some(text)),
        Err(StreamError::Io(_) | StreamError::Ended) => Ok(None),
        Err(error) => Err(error.into()),
    };
    let mut host = Host { name: "here".to_owned(), answers: true, ..Host::default() };
    let (hosts, why) = match look(&ask, how) {
        Ok((report, own_per_second)) => {
            if let Some(this) = report.as_ref().and_then(|report| this_of(report)) {
                host = Host { answers: true, ..host_of(this) };
            }
            (vec![Host { report, own_per_second, ..host }], None)
        }
        Err(error) if is_refusal(&error) => return Err(error),
        Err(error) => (vec![], Some(error.to_string())),
    };
    Ok(Reading { what, hosts, is_cluster: false, why })
}

/// Whether the process that serves would tell nothing to whoever asks.
fn is_refusal(error: &anyhow::Error) -> bool {
    !matches!(error.downcast_ref(), Some(StreamError::NotServed { .. }))
}

/// The host that has told a report, as that says; none of a file system in one process.
fn this_of(report: &Value) -> Option<&Value> {
    report["hosts"].as_array()?.iter().find(|host| host["this"] == true)
}

fn of_cluster(cluster: &Cluster, how: Look) -> anyhow::Result<Reading> {
    let keys = key::keys_of(cluster.key_file.as_deref())?;
    let host = |host: &crate::cluster::config::Host| Host {
        name: host.name.clone(),
        number: host.number,
        address: host.place(),
        shards: host.shards.clone(),
        data: host.data,
        switch: host.switch_port.is_some(),
        path: host.path.is_some(),
        ..Host::default()
    };
    let hosts = ask_all(cluster.hosts.iter().map(host).collect(), keys.as_ref(), how);
    Ok(Reading { what: cluster.name.clone(), hosts, is_cluster: true, why: None })
}

/// The hosts that a URL names, and all that they know.
pub(super) fn of_url(url: &str, key_file: Option<&Path>, how: Look) -> anyhow::Result<Reading> {
    let keys = key::keys_of(key_file)?;
    let named = url::hosts(url)?.into_iter();
    let named =
        named.map(|address| Host { name: address.to_string(), address: address.to_string(), ..Host::default() });
    // Those that the URL names know the others.
    let half = Look { end: Instant::now() + left(how.end) / 2, ..how };
    let named = ask_all(named.collect(), keys.as_ref(), half);
    let known = named.iter().find_map(|host| hosts_of(host.report.as_ref()?));
    let hosts = match known {
        None => named,
        Some(known) => {
            let (asked, others): (Vec<Host>, Vec<Host>) = known
                .into_iter()
                .partition(|host| named.iter().any(|named| named.report.is_some() && named.address == host.address));
            let report_of = |host: Host| {
                let named = named.iter().find(|named| named.address == host.address).expect("it was asked");
                Host { answers: true, report: named.report.clone(), own_per_second: named.own_per_second, ..host }
            };
            let mut all: Vec<Host> = asked.into_iter().map(report_of).collect();
            all.extend(ask_all(others, keys.as_ref(), how));
            all.sort_by_key(|host| host.number);
            all
        }
    };
    Ok(Reading { what: url.to_owned(), hosts, is_cluster: true, why: None })
}

/// A cluster of hosts that tell this, of which the first one says who they are.
#[cfg(feature = "fuzzing")]
pub(super) fn of_reports(reports: &[Value]) -> Reading {
    let known = reports.first().and_then(hosts_of).unwrap_or_default();
    let mut told = reports.iter().cloned();
    let hosts = known.into_iter().map(|host| Host { answers: true, report: told.next(), ..host }).collect();
    Reading { what: "fuzz".to_owned(), hosts, is_cluster: true, why: None }
}

/// The hosts that a report tells of, if it tells of any: no more than a cluster can have, since each is asked by a thread.
fn hosts_of(report: &Value) -> Option<Vec<Host>> {
    Some(report["hosts"].as_array()?.iter().take(HOSTS_MAX.into()).map(host_of).collect())
}

/// A host as another one describes it.
fn host_of(told: &Value) -> Host {
    let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    let shards = told["shards"].as_array().into_iter().flatten().filter_map(|shard| shard.as_u64().map(|n| n as u16));
    Host {
        name: text("name"),
        number: told["number"].as_u64().unwrap_or_default() as u16,
        address: text("address"),
        shards: shards.collect(),
        data: told["data"] == true,
        switch: told["switch"] == true,
        path: told["path"] == true,
        ..Host::default()
    }
}

/// Asks hosts for their reports at the same time.
fn ask_all(hosts: Vec<Host>, keys: Option<&Keys>, how: Look) -> Vec<Host> {
    let keys = keys.cloned();
    each_asked(hosts, how.end, move |host, address| ask(host, address, keys.as_ref(), how))
}

/// Asks hosts something at the same time. Who has not answered in time, since its name cannot be resolved say, is silent.
pub(super) fn each_asked<F>(hosts: Vec<Host>, end: Instant, ask: F) -> Vec<Host>
where
    F: Fn(Host, SocketAddr) -> anyhow::Result<Host> + Clone + Send + 'static,
{
    let (sender, receiver) = channel();
    for (number, host) in hosts.iter().cloned().enumerate() {
        let (sender, ask) = (sender.clone(), ask.clone());
        let ask = move || {
            let asked = address_of(&host).and_then(|address| ask(host.clone(), address));
            _ = sender.send((number, asked.unwrap_or_else(|error| Host { error: Some(error.to_string()), ..host })));
        };
        _ = std::thread::Builder::new().name("ask".into()).spawn(ask);
    }
    drop(sender);
    let mut all = hosts;
    loop {
        match receiver.recv_timeout(left(end)) {
            Ok((number, host)) => all[number] = host,
            Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => return all,
        }
    }
}

fn address_of(host: &Host) -> anyhow::Result<SocketAddr> {
    host.address.to_socket_addrs()?.next().ok_or_else(|| anyhow::anyhow!("no address"))
}

fn ask(host: Host, address: SocketAddr, keys: Option<&Keys>, how: Look) -> anyhow::Result<Host> {
    // The endpoint answers when the roles do not.
    let alive = {
        let keys = keys.cloned();
        std::thread::spawn(move || ask_status(address, keys.as_ref()).is_ok_and(|status| status.is_some()))
    };
    let keys = keys.cloned();
    let tell = move |patience| Ok(ask_report(address, keys.as_ref(), patience)?);
    let (report, own_per_second) = look(&tell, Look { end: how.end - SECOND_LOOK, ..how })?;
    let answers = report.is_some() || alive.join().unwrap_or(false);
    Ok(Host { answers, report, own_per_second, ..host })
}

/// Asks for a report, and for another one if that tells of a mount of the process: its operations per second.
fn look(ask: &impl Fn(Duration) -> anyhow::Result<Option<String>>, how: Look) -> anyhow::Result<(Option<Value>, f64)> {
    let read = |patience| -> anyhow::Result<Option<Value>> {
        Ok(ask(patience)?.map(|text| serde_json::from_str(&text)).transpose()?)
    };
    let patience = left(how.end).saturating_sub(LOOK_AGAIN + SECOND_LOOK).max(Duration::from_millis(500));
    let Some(first) = read(patience)? else { return Ok((None, 0.0)) };
    let Some(before) = own_operations(&first).filter(|_| how.rates) else { return Ok((Some(first), 0.0)) };
    let begun = Instant::now();
    std::thread::sleep(LOOK_AGAIN);
    match read(SECOND_LOOK) {
        Ok(Some(second)) => {
            let more = own_operations(&second).unwrap_or_default().saturating_sub(before);
            Ok((Some(second), more as f64 / begun.elapsed().as_secs_f64()))
        }
        _ => Ok((Some(first), 0.0)),
    }
}

fn own_operations(report: &Value) -> Option<u64> {
    report["mounts"].as_array()?.iter().find(|mount| mount["own"] == true)?["operations"].as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_more_hosts_are_asked_than_a_cluster_has() {
        let told = |hosts: usize| hosts_of(&json!({"hosts": vec![json!({"name": "a"}); hosts]})).map(|all| all.len());
        assert_eq!((told(3), told(100_000)), (Some(3), Some(usize::from(HOSTS_MAX))));
        assert_eq!(hosts_of(&json!({"hosts": 3})).map(|all| all.len()), None);
    }
}
