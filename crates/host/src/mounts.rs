//! What mounts have told of themselves ([`onpath_wire::report`]): who they are, and what all of them have done.
//!
//! What is added to the sum is what a mount has done since its last report, so that the sum never becomes less while this process lives,
//! whoever leaves; and a mount that goes on as another session is still the same.

use crate::node::Counters;
use crate::sys;
use onpath_wire::ids::SessionId;
use onpath_wire::report::{KINDS_MAX, LATENCY_CLASSES, MountIs, MountReport, OperationReport, latency_bound};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;

/// Mounts that are known at the same time; reports of further ones are counted and dropped.
pub const MOUNTS_MAX: usize = 4_096;
/// A mount that was not heard of for so long has left.
pub const LEFT_AFTER: Duration = Duration::from_secs(60);
/// Longest name of a machine, and longest path, of which there is a report, bytes.
const TEXT_BYTES_MAX: usize = 4_096;
/// Longest name of a kind of operation, bytes.
const NAME_BYTES_MAX: usize = 24;

/// What there was of one kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// Those that were refused.
    pub refused: u64,
    /// Those that failed.
    pub failed: u64,
    /// What all of them took, nanoseconds.
    pub nanoseconds: u64,
    /// All of them by the class of their latency.
    pub latencies: BTreeMap<u8, u64>,
}

/// Operations by their kind.
pub type Operations = BTreeMap<String, Operation>;

impl Operation {
    /// How many there were.
    pub fn count(&self) -> u64 {
        sum(self.latencies.values().copied())
    }

    fn add_since(&mut self, now: &Operation, before: &Operation) {
        let add = |sum: &mut u64, now: u64, before: u64| *sum = sum.saturating_add(now.saturating_sub(before));
        add(&mut self.refused, now.refused, before.refused);
        add(&mut self.failed, now.failed, before.failed);
        add(&mut self.nanoseconds, now.nanoseconds, before.nanoseconds);
        for (class, count) in &now.latencies {
            let earlier = before.latencies.get(class).copied().unwrap_or_default();
            add(self.latencies.entry(*class).or_default(), *count, earlier);
        }
    }
}

/// A mount may tell any numbers: a sum of them does not overflow.
fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Operations as a mount or a role tells them; what is no name of a kind is left out.
pub(crate) fn operations(told: &[OperationReport]) -> Operations {
    let plain = |name: &str| {
        let letters = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        letters && (1..=NAME_BYTES_MAX).contains(&name.len())
    };
    let operation = |told: &OperationReport| {
        let name = String::from_utf8(told.name.0.clone()).ok().filter(|name| plain(name))?;
        let known = told.latencies.iter().filter(|latency| usize::from(latency.class) < LATENCY_CLASSES);
        let latencies = known.map(|latency| (latency.class, latency.count)).collect();
        let OperationReport { refused, failed, nanoseconds, .. } = *told;
        Some((name, Operation { refused, failed, nanoseconds, latencies }))
    };
    told.iter().take(KINDS_MAX).filter_map(operation).collect()
}

/// Adds operations to a sum of others.
pub(crate) fn add(sum: &mut Operations, more: &Operations) {
    for (name, operation) in more {
        sum.entry(name.clone()).or_default().add_since(operation, &Operation::default());
    }
}

/// A mount that has told who it is.
#[derive(Clone, Debug)]
pub struct Mounted {
    /// Who it is.
    pub is: MountIs,
    /// Its present session.
    pub session: SessionId,
    /// When it was last heard of, monotonic microseconds.
    pub heard_us: u64,
    /// Operations that it has answered.
    pub operations: u64,
    /// Operations a second between its last two reports; of the mount of this process 0, since whoever asks can look twice.
    pub per_second: f64,
    /// Requests that wait for their answers.
    pub waiting: u32,
    /// For how long the oldest of them has waited, milliseconds.
    pub oldest_ms: u64,
    /// It is that of this process.
    pub is_own: bool,
}

/// Operations of all kinds.
fn count(operations: &Operations) -> u64 {
    sum(operations.values().map(Operation::count))
}

struct Known {
    is: MountIs,
    session: SessionId,
    heard_us: u64,
    left: bool,
    last: Operations,
    per_second: f64,
    waiting: u32,
    oldest_ms: u64,
}

#[derive(Default)]
struct Told {
    known: HashMap<u64, Known>,
    sum: Operations,
    refused: u64,
}

/// Tells what the mount of this process has done.
pub type OwnSource = Box<dyn Fn() -> MountReport + Send + Sync>;

/// The mounts that a process knows.
#[derive(Default)]
pub struct Mounts {
    own: OnceLock<(SessionId, OwnSource)>,
    told: Mutex<Told>,
}

impl Mounts {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().expect("sums do not panic")
    }

    /// There is a mount in this process; said once.
    pub fn have_own(&self, session: SessionId, source: OwnSource) {
        assert!(self.own.set((session, source)).is_ok(), "one mount a process");
    }

    /// A mount of another process tells what it has done.
    pub fn tell(&self, session: SessionId, report: &MountReport) {
        self.told().tell(session, report, sys::mono_us());
    }

    /// That session is over, and so is its mount, unless it tells more.
    pub fn left(&self, session: SessionId) {
        self.told().known.values_mut().filter(|known| known.session == session).for_each(|known| known.left = true);
    }

    /// What the mount of this process has done.
    pub fn own_operations(&self) -> Operations {
        self.own.get().map(|(_, source)| operations(&source().operations)).unwrap_or_default()
    }

    /// What all other mounts have done that have told.
    pub fn told_operations(&self) -> Operations {
        self.told().sum.clone()
    }

    /// All mounts that have not left.
    pub fn present(&self) -> Vec<Mounted> {
        let now_us = sys::mono_us();
        let own = self.own.get().map(|(session, source)| {
            let report = source();
            Mounted {
                session: *session,
                heard_us: now_us,
                operations: count(&operations(&report.operations)),
                per_second: 0.0,
                waiting: report.waiting,
                oldest_ms: report.oldest_ms,
                is: report.is,
                is_own: true,
            }
        });
        let mut told = self.told();
        told.let_go(now_us);
        let others = told.known.values().filter(|known| !known.left).map(|known| Mounted {
            is: known.is.clone(),
            session: known.session,
            heard_us: known.heard_us,
            operations: count(&known.last),
            per_second: known.per_second,
            waiting: known.waiting,
            oldest_ms: known.oldest_ms,
            is_own: false,
        });
        let mut all: Vec<Mounted> = own.into_iter().chain(others).collect();
        all.sort_by_key(|mounted| mounted.session);
        all
    }

    /// Counters of the mount of this process, and of all others together, and of those who told them.
    pub fn status(&self) -> Vec<(String, Counters)> {
        let own = self.own.get().map(|_| ("mount".to_owned(), counters(&self.own_operations())));
        let (sum, refused) = {
            let told = self.told();
            (told.sum.clone(), told.refused)
        };
        let present = self.present().len() as u64;
        let totals = [("present", present), ("reports_refused", refused)];
        let told = (!sum.is_empty()).then(|| ("told".to_owned(), counters(&sum)));
        let totals = ("mounts".to_owned(), totals.map(|(name, value)| (name.to_owned(), value)).into());
        own.into_iter().chain(told).chain([totals]).collect()
    }
}

impl Told {
    fn tell(&mut self, session: SessionId, report: &MountReport, now_us: u64) {
        let MountIs { id, machine, mountpoint, version, .. } = &report.is;
        if [machine, mountpoint, version].iter().any(|text| text.0.len() > TEXT_BYTES_MAX) {
            self.refused += 1;
            return;
        }
        let id = *id;
        if !self.known.contains_key(&id) && self.known.len() >= MOUNTS_MAX {
            self.let_go(now_us);
            self.known.retain(|_, known| !known.left);
            if self.known.len() >= MOUNTS_MAX {
                self.refused += 1;
                return;
            }
        }
        let now = operations(&report.operations);
        let known = self.known.entry(id).or_insert_with(|| Known {
            is: MountIs::default(),
            session,
            heard_us: now_us,
            left: false,
            last: Operations::new(),
            per_second: 0.0,
            waiting: 0,
            oldest_ms: 0,
        });
        if report.is.uptime_ms < known.is.uptime_ms {
            return; // a later one came before it
        }
        let nothing = Operation::default();
        for (name, operation) in &now {
            if self.sum.len() >= KINDS_MAX && !self.sum.contains_key(name) {
                continue; // no kernel has so many
            }
            let before = known.last.get(name).unwrap_or(&nothing);
            self.sum.entry(name.clone()).or_default().add_since(operation, before);
        }
        let (more, took_ms) =
            (count(&now).saturating_sub(count(&known.last)), report.is.uptime_ms - known.is.uptime_ms);
        *known = Known {
            is: report.is.clone(),
            session,
            heard_us: now_us,
            left: report.leaves,
            last: now,
            per_second: more as f64 * 1_000.0 / took_ms.max(1) as f64,
            waiting: report.waiting,
            oldest_ms: report.oldest_ms,
        };
    }

    /// Whoever was silent for long has left.
    fn let_go(&mut self, now_us: u64) {
        let since = now_us.saturating_sub(LEFT_AFTER.as_micros() as u64);
        self.known.values_mut().filter(|known| known.heard_us < since).for_each(|known| known.left = true);
    }
}

/// For each kind, `KIND` operations, `KIND_refused` and `KIND_failed` of them, `KIND_ns` nanoseconds in all, and `KIND_below_NS` of them
/// that took less than NS nanoseconds, but not less than the bound before.
fn counters(operations: &Operations) -> Counters {
    let mut all = Counters::new();
    for (name, operation) in operations {
        all.push((name.clone(), operation.count()));
        all.push((format!("{name}_refused"), operation.refused));
        all.push((format!("{name}_failed"), operation.failed));
        all.push((format!("{name}_ns"), operation.nanoseconds));
        let classes = operation.latencies.iter();
        all.extend(classes.map(|(class, count)| (format!("{name}_below_{}", latency_bound((*class).into())), *count)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::codec::Blob;
    use onpath_wire::report::LatencyReport;

    fn report(id: u64, (uptime_ms, lookups): (u64, u64), leaves: bool) -> MountReport {
        let latencies = vec![LatencyReport { class: 40, count: lookups }];
        let lookup = OperationReport { name: Blob(b"lookup".to_vec()), latencies, ..OperationReport::default() };
        let evil = OperationReport { name: Blob(b"a{b=\"c".to_vec()), ..lookup.clone() };
        let is = MountIs { id, uptime_ms, ..MountIs::default() };
        MountReport { is, leaves, operations: vec![lookup, evil], ..MountReport::default() }
    }

    fn lookups(told: &Told) -> u64 {
        told.sum.values().map(Operation::count).sum()
    }

    #[test]
    fn the_sum_keeps_what_those_did_who_have_left() {
        let mut told = Told::default();
        let mut tell = |session, report: &MountReport, sum| {
            told.tell(SessionId(session), report, 0);
            assert_eq!((lookups(&told), told.sum.len()), (sum, 1));
        };
        tell(1, &report(7, (1, 3), false), 3);
        tell(1, &report(7, (3, 5), false), 5);
        tell(2, &report(8, (1, 2), false), 7);
        tell(2, &report(8, (2, 4), true), 9);
        tell(3, &report(8, (3, 4), false), 9); // the same one under another session
        tell(1, &report(7, (2, 4), false), 9); // an old report that comes late
        tell(1, &report(7, (4, 6), false), 10);
        tell(4, &report(9, (1, 1), false), 11);
    }

    #[test]
    fn numbers_that_cannot_be_are_no_harm() {
        let mut told = Told::default();
        for id in 1..=3 {
            told.tell(SessionId(1), &report(id, (1, u64::MAX), false), 0);
        }
        let more = report(4, (u64::MAX, 1), false);
        let operations = [
            more.operations.clone(),
            vec![OperationReport { name: Blob(b"read".to_vec()), ..more.operations[0].clone() }],
        ];
        told.tell(SessionId(1), &MountReport { operations: operations.concat(), ..more }, 0);
        assert_eq!(count(&told.sum), u64::MAX);
    }

    #[test]
    fn mounts_are_bounded_and_those_who_left_make_room() {
        let mut told = Told::default();
        (0..MOUNTS_MAX as u64).for_each(|id| told.tell(SessionId(1), &report(id, (1, 1), false), 1_000_000));
        told.tell(SessionId(1), &report(u64::MAX, (1, 1), false), 1_000_000);
        assert_eq!((lookups(&told), told.refused), (MOUNTS_MAX as u64, 1));
        let later_us = 1_000_001 + LEFT_AFTER.as_micros() as u64;
        told.tell(SessionId(1), &report(u64::MAX, (1, 1), false), later_us);
        assert_eq!((lookups(&told), told.known.len()), (MOUNTS_MAX as u64 + 1, 1));
    }
}
