//! What of all that processes tell is shown.

use super::health::{self, State};
use super::reading::{Host, Reading};
use onpath_host::metrics;
use serde::Serialize;
use serde_json::Value;

/// Mounts and hosts that are shown one by one; of further ones only their number.
const LINES_MAX: usize = 16;

/// For how long the rate of a mount's last report counts, seconds.
const RATE_SECONDS: f64 = 3.0;

/// How a file system is.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    pub(super) what: String,
    pub(super) state: State,
    /// Why it is not healthy, in sentences.
    pub(super) reasons: Vec<String>,
    pub(super) capacity: Capacity,
    pub(super) operations_per_second: f64,
    pub(super) requests_running: u64,
    pub(super) pending: Pending,
    pub(super) slow: Vec<Slow>,
    pub(super) mounts: Vec<MountLine>,
    pub(super) mounts_present: usize,
    pub(super) hosts: Vec<HostLine>,
    pub(super) hosts_known: usize,
}

/// Space, and what is in it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Capacity {
    pub(super) size_bytes: u64,
    pub(super) free_bytes: u64,
    pub(super) inodes: u64,
}

/// What will be done later.
#[derive(Debug, Default, Serialize)]
pub(super) struct Pending {
    /// Updates that owners have not applied, and for how long the oldest has waited, seconds.
    pub(super) updates: u64,
    pub(super) oldest_seconds: f64,
    /// Batches of the journal that are not on stable storage.
    pub(super) volatile_batches: u64,
    /// Bytes of the journal that no checkpoint has, and from how many on one is due.
    pub(super) checkpoint_bytes: u64,
    pub(super) checkpoint_due_bytes: u64,
    pub(super) checkpoint_age_seconds: f64,
}

/// A mount whose requests wait.
#[derive(Debug, Serialize)]
pub(super) struct Slow {
    pub(super) mount: String,
    pub(super) waiting: u64,
    pub(super) oldest_seconds: f64,
}

/// A mount.
#[derive(Debug, Serialize)]
pub(super) struct MountLine {
    pub(super) mount: String,
    pub(super) pid: u64,
    pub(super) version: String,
    /// The name of the key that it has come with, if that is its own.
    pub(super) key: Option<String>,
    pub(super) age_seconds: f64,
    pub(super) operations_per_second: f64,
    pub(super) heard_seconds: f64,
}

/// A process that serves.
#[derive(Debug, Serialize)]
pub(super) struct HostLine {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) roles: String,
    pub(super) answers: bool,
    /// For how long no other host has heard anything of it, if it does not answer, seconds.
    pub(super) silent_seconds: Option<f64>,
    pub(super) version: Option<String>,
    pub(super) age_seconds: Option<f64>,
    pub(super) size_bytes: u64,
    pub(super) free_bytes: u64,
}

/// A counter of all roles of a kind in one report, as the tables say that they become one.
pub(super) fn counter(report: &Value, role: &str, name: &str) -> u64 {
    let metric = metrics::group(role).and_then(|group| group.metric(name)).expect("the tables have what is shown");
    let roles = report["counters"].as_object().into_iter().flatten();
    let values = roles.filter(|(known, _)| known.split('-').next() == Some(role));
    let values = values.filter_map(|(_, counters)| counters[name].as_u64());
    values.reduce(|one, other| metric.kind.together(one, other)).unwrap_or_default()
}

impl Summary {
    pub(super) fn of(reading: &Reading) -> Summary {
        // Nobody knows what others tell: no sum is more than what can be shown.
        let sum = |role: &str, name: &str| {
            let told = reading.reports().map(|(_, report)| counter(report, role, name));
            told.fold(0_u64, u64::saturating_add)
        };
        let highest = |role: &str, name: &str| {
            reading.reports().map(|(_, report)| counter(report, role, name)).max().unwrap_or(0)
        };
        let all = reading.mounts();
        let (state, reasons) = health::judge(reading);
        let per_second: f64 = all.iter().map(|mount| rate(mount)).sum();
        let own: f64 = reading.hosts.iter().map(|host| host.own_per_second).sum();
        Summary {
            what: reading.what.clone(),
            state,
            reasons,
            capacity: Capacity {
                size_bytes: sum("disk", "size_bytes"),
                free_bytes: sum("disk", "free_bytes"),
                inodes: sum("shard", "inodes"),
            },
            operations_per_second: per_second + own,
            requests_running: sum("shard", "requests_running"),
            pending: Pending {
                updates: sum("shard", "entries_pending"),
                oldest_seconds: highest("shard", "entries_pending_oldest_us") as f64 / 1e6,
                volatile_batches: sum("journal", "appended_lsn").saturating_sub(sum("journal", "durable_lsn")),
                checkpoint_bytes: highest("checkpoint", "journal_bytes"),
                checkpoint_due_bytes: highest("checkpoint", "journal_bytes_due"),
                checkpoint_age_seconds: highest("checkpoint", "age_ms") as f64 / 1e3,
            },
            slow: all.iter().filter_map(|mount| slow(mount)).collect(),
            mounts_present: all.len(),
            mounts: all.iter().take(LINES_MAX).map(|mount| line(own, mount)).collect(),
            hosts_known: reading.hosts.len(),
            hosts: reading.hosts.iter().take(LINES_MAX).map(|host| host_line(host, reading)).collect(),
        }
    }
}

/// Machine and mountpoint of a mount.
pub(super) fn name(mount: &Value) -> String {
    let text = |name: &str| mount[name].as_str().unwrap_or_default();
    format!("{}:{}", text("machine"), text("mountpoint"))
}

pub(super) fn seconds(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default() / 1e3
}

/// Operations per second of a mount of another process; of one that has fallen silent nobody knows.
fn rate(mount: &Value) -> f64 {
    let told = mount["per_second"].as_f64().unwrap_or_default();
    if seconds(&mount["heard_ms"]) < RATE_SECONDS { told } else { 0.0 }
}

/// A mount one of whose requests has waited for more than a second.
fn slow(mount: &Value) -> Option<Slow> {
    let oldest_seconds = seconds(&mount["oldest_ms"]);
    let waiting = mount["waiting"].as_u64().unwrap_or_default();
    (oldest_seconds >= 1.0).then(|| Slow { mount: name(mount), waiting, oldest_seconds })
}

/// A mount; `own`: operations per second of that which is of the process itself.
fn line(own: f64, mount: &Value) -> MountLine {
    let own = if mount["own"] == true { own } else { 0.0 };
    MountLine {
        mount: name(mount),
        pid: mount["pid"].as_u64().unwrap_or_default(),
        version: mount["version"].as_str().unwrap_or_default().to_owned(),
        key: mount["key"].as_str().map(str::to_owned),
        age_seconds: seconds(&mount["uptime_ms"]),
        operations_per_second: rate(mount) + own,
        heard_seconds: seconds(&mount["heard_ms"]),
    }
}

fn host_line(host: &Host, reading: &Reading) -> HostLine {
    let report = host.report.as_ref();
    let of = |name| report.map_or(0, |report| counter(report, "disk", name));
    HostLine {
        name: host.name.clone(),
        address: host.address.clone(),
        roles: roles(host),
        answers: host.answers,
        silent_seconds: if host.answers { None } else { reading.silent_for(host) },
        version: report.and_then(|report| report["version"].as_str()).map(str::to_owned),
        age_seconds: report.map(|report| seconds(&report["uptime_ms"])),
        size_bytes: of("size_bytes"),
        free_bytes: of("free_bytes"),
    }
}

fn roles(host: &Host) -> String {
    let mut all = Vec::new();
    match (&host.shards[..], &host.report) {
        ([], Some(report)) if host.address.is_empty() => {
            let roles = report["counters"].as_object().into_iter().flatten();
            let shards = roles.filter(|(role, _)| role.starts_with("shard-")).count();
            all.push(format!("{shards} shard{}, data", if shards == 1 { "" } else { "s" }));
        }
        ([], _) => {}
        ([one], _) => all.push(format!("shard {one}")),
        (many @ [first, .., last], _) if many.windows(2).all(|two| two[0].checked_add(1) == Some(two[1])) => {
            all.push(format!("shards {first}–{last}"));
        }
        (many, _) => all.push(format!("shards {}", many.iter().map(u16::to_string).collect::<Vec<_>>().join(" "))),
    }
    all.extend(host.data.then(|| "data".to_owned()));
    all.extend(host.switch.then(|| "switch".to_owned()));
    all.extend(host.path.then(|| "path node".to_owned()));
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn shards_are_shown_as_they_are_told() {
        let shown = |shards: &[u16]| roles(&Host { shards: shards.to_vec(), ..Host::default() });
        assert_eq!((shown(&[4]), shown(&[4, 5, 6])), ("shard 4".to_owned(), "shards 4–6".to_owned()));
        for (odd, words) in
            [(&[1, 0][..], "shards 1 0"), (&[0, 5, 2], "shards 0 5 2"), (&[u16::MAX, 0], "shards 65535 0")]
        {
            assert_eq!(shown(odd), words);
        }
    }

    #[test]
    fn sums_of_what_is_told_do_not_overflow() {
        let report = json!({"counters": {"shard-0": {"inodes": u64::MAX}, "disk": {"size_bytes": u64::MAX}}});
        let host = Host { answers: true, report: Some(report), ..Host::default() };
        let reading = Reading { what: "told".to_owned(), hosts: vec![host.clone(), host], is_cluster: true, why: None };
        let Capacity { size_bytes, inodes, .. } = Summary::of(&reading).capacity;
        assert_eq!((size_bytes, inodes), (u64::MAX, u64::MAX));
    }
}
