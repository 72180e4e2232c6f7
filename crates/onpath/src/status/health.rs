//! Whether a file system is healthy, and if not why.

use super::reading::{Host, Reading};
use super::screen::age;
use super::summary::{counter, name, seconds};
use onpath_host::server::DATA_RESERVE_BYTES;
use onpath_wire::ids::Birth;
use onpath_wire::shown::Shown;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// How a file system is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// There is nothing to do.
    Healthy,
    /// It serves, but somebody should look.
    Degraded,
    /// It does not serve.
    Down,
}

impl State {
    pub(super) fn exit_code(self) -> u8 {
        match self {
            State::Healthy => 0,
            State::Degraded => 3,
            State::Down => 4,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            State::Healthy => "healthy",
            State::Degraded => "degraded",
            State::Down => "down",
        }
    }
}

/// A mount that was not heard of for so long does not answer, seconds: each tells once a second what it did.
const MOUNT_SILENT_SECONDS: f64 = 5.0;
/// A host that another one has not heard of for so long, seconds: who has nothing to say is greeted once a second.
const HOST_SILENT_SECONDS: f64 = 3.0;
/// Requests wait for too long, seconds.
const SLOW_SECONDS: f64 = 5.0;
/// Updates are pending for too long, seconds: they are pushed after a fraction of one.
const PENDING_SECONDS: f64 = 10.0;
/// With less than this the data node writes nothing, bytes: its reserve, and what may be under way.
const FULL_BYTES: u64 = 2 * DATA_RESERVE_BYTES;
/// A disk is nearly full with less than this part of it free.
const FREE_PART: f64 = 0.1;
/// Of births so many are taken that somebody should know, per cent.
const BIRTHS_PERCENT: f64 = 90.0;
/// A checkpoint is late when so many times as much of the journal waits for it as makes it due.
const CHECKPOINT_LATE: u64 = 3;

/// How it is, and all that is wrong.
pub(super) fn judge(reading: &Reading) -> (State, Vec<String>) {
    let mut reasons: Vec<String> = reading.why.iter().cloned().collect();
    if !reading.hosts.iter().any(|host| host.answers && (host.report.is_some() || reading.is_cluster)) {
        reasons.extend(silence(reading));
        return (State::Down, reasons);
    }
    for host in &reading.hosts {
        reasons.extend(of_host(host, reading));
    }
    reasons.extend(unheard(reading));
    reasons.extend(switches(reading));
    reasons.extend(reading.mounts().into_iter().filter_map(of_mount));
    let state = if reasons.is_empty() { State::Healthy } else { State::Degraded };
    (state, reasons)
}

/// Why nobody tells anything.
fn silence(reading: &Reading) -> Option<String> {
    if reading.why.is_some() {
        return None;
    }
    let errors: BTreeSet<&str> = reading.hosts.iter().filter_map(|host| host.error.as_deref()).collect();
    let errors = errors.into_iter().collect::<Vec<_>>().join("; ");
    Some(match (reading.is_cluster, errors.as_str()) {
        (false, _) => "The process that serves it does not answer within 5 s: look at its log, and whether its disk hangs.".to_owned(),
        (true, "") => "No host answers: is `onpath serve` running there, and does UDP come through? With a key, hosts answer only those who have it (--key-file).".to_owned(),
        (true, errors) => format!("No host answers: {errors}."),
    })
}

fn of_host(host: &Host, reading: &Reading) -> Vec<String> {
    let mut reasons = Vec::new();
    let who = if reading.is_cluster { format!("Host {}", host.name.shown()) } else { "It".to_owned() };
    let Some(report) = &host.report else {
        reasons.push(match (&host.error, host.answers) {
            (Some(error), _) => format!("Host {} cannot be asked: {error}.", host.name.shown()),
            (None, true) => {
                format!("Host {} answers, but does not tell how it is: its roles or its disk hang.", host.name.shown())
            }
            (None, false) => {
                let since = reading.silent_for(host).map(|heard| format!(", and was last heard of {} ago", age(heard)));
                format!(
                    "Host {} does not answer{}{}.",
                    host.name.shown(),
                    since.unwrap_or_default(),
                    what_is_lost(host)
                )
            }
        });
        return reasons;
    };
    let of = |role, name| counter(report, role, name);
    let (size, free) = (of("disk", "size_bytes"), of("disk", "free_bytes"));
    if of("host", "disk_full") > 0 {
        reasons.push(format!("{who} has a full disk: only what frees space is done until there is room."));
    } else if size > 0 && free < FULL_BYTES {
        reasons.push(format!(
            "{who} has a full disk: no bytes are written until there is room, since the rest is for its journal."
        ));
    } else if size > 0 && (free as f64) < FREE_PART * size as f64 {
        let used = 100.0 * (1.0 - free as f64 / size as f64);
        reasons.push(format!("{who} has used {used:.0} % of its disk."));
    }
    let (waiting, due) = (of("checkpoint", "journal_bytes"), of("checkpoint", "journal_bytes_due"));
    if due > 0 && waiting >= due.saturating_mul(CHECKPOINT_LATE) {
        let times = waiting / due;
        reasons.push(format!(
            "{who} is late with its checkpoint: {times} times as much of the journal waits for it as should."
        ));
    }
    reasons.extend(of_births(&who, of("shard", "births_reserved")));
    let (pending, oldest) = (of("shard", "entries_pending"), of("shard", "entries_pending_oldest_us") as f64 / 1e6);
    if oldest >= PENDING_SECONDS {
        reasons.push(format!(
            "{who} has {pending} updates pending, the oldest for {oldest:.0} s: owners of directories do not take them."
        ));
    }
    reasons
}

/// Numbers for new inodes are never used again, so that they can end.
fn of_births(who: &str, reserved: u64) -> Option<String> {
    let all = u64::from(Birth::MAX.0);
    let cure = "copy the file system to a new one (`onpath export`, `onpath import`)";
    if reserved >= all {
        return Some(format!(
            "{who} has almost no number left for new inodes, and creating will fail with ENOSPC: {cure}."
        ));
    }
    let used = 100.0 * reserved as f64 / all as f64;
    (used >= BIRTHS_PERCENT).then(|| format!("{who} has used {used:.0} % of its numbers for new inodes: {cure}."))
}

fn what_is_lost(host: &Host) -> &'static str {
    match (host.shards.is_empty(), host.data) {
        (false, true) => ": its names and bytes cannot be reached until it is back",
        (false, false) => ": its names cannot be reached until it is back",
        (true, true) => ": its bytes cannot be reached until it is back",
        (true, false) if host.path => {
            ": clients without a mount look names up without its path node, and changes of directories wait for it for two seconds at most"
        }
        (true, false) => "",
    }
}

/// Hosts that were not asked themselves, or that answer those who ask but not another host.
fn unheard(reading: &Reading) -> Vec<String> {
    let silent = |name: &str| reading.hosts.iter().any(|host| host.name == name && !host.answers);
    let mut reasons = Vec::new();
    for (host, report) in reading.reports() {
        let others = report["hosts"].as_array().into_iter().flatten();
        for other in others.filter(|other| seconds(&other["heard_ms"]) >= HOST_SILENT_SECONDS) {
            let other_name = other["name"].as_str().unwrap_or_default();
            if !silent(other_name) {
                let for_how_long = seconds(&other["heard_ms"]);
                reasons.push(format!(
                    "Host {} has heard nothing of host {other_name} for {for_how_long:.0} s.",
                    host.name.shown()
                ));
            }
        }
    }
    reasons
}

/// Switches that shall track directories and do not.
fn switches(reading: &Reading) -> Vec<String> {
    let asks =
        |(_, report): &(&Host, &Value)| report["tracking"] == "network" && !counter_roles(report, "shard-").is_empty();
    let Some((_, report)) = reading.reports().find(asks) else { return vec![] };
    let tracked_by: Vec<u64> =
        report["tracked_by"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    let all = report["hosts"].as_array().into_iter().flatten().filter(|host| host["switch"] == true);
    let lost: Vec<&str> = all
        .filter(|host| !host["number"].as_u64().is_some_and(|number| tracked_by.contains(&number)))
        .filter_map(|host| host["name"].as_str())
        .collect();
    let by = if tracked_by.is_empty() { "their owners" } else { "the others" };
    lost.into_iter()
        .map(|name| {
            format!("Switch {name} is lost: directories are tracked by {by}, which is slower and loses nothing.")
        })
        .collect()
}

fn counter_roles<'a>(report: &'a Value, begin: &str) -> Vec<&'a String> {
    report["counters"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(role, _)| role)
        .filter(|role| role.starts_with(begin))
        .collect()
}

fn of_mount(mount: &Value) -> Option<String> {
    let (heard, oldest) = (seconds(&mount["heard_ms"]), seconds(&mount["oldest_ms"]));
    if heard >= MOUNT_SILENT_SECONDS {
        let pid = &mount["pid"];
        return Some(format!(
            "The mount {} (process {pid}) has not answered for {heard:.0} s: what it has locked or open is kept until it counts as dead.",
            name(mount).shown()
        ));
    }
    let waiting = &mount["waiting"];
    (oldest >= SLOW_SECONDS).then(|| {
        format!(
            "The mount {} has {waiting} requests without an answer, the oldest for {oldest:.0} s.",
            name(mount).shown()
        )
    })
}
