//! The table of the mounts that have told of themselves, and the sum of what they did.
//!
//! What is added to the sum is what a mount has done since its last report, so that the sum never becomes less while this process lives,
//! whoever leaves; and a mount that goes on as another session is still the same. Of a mount that may have been counted before, by a former
//! process or by this one before it had to be forgotten, only what it does from now on counts: something may be missed then, but nothing
//! counts twice.

use super::Mounted;
use super::operations::{Operation, Operations, operations};
use onpath_wire::ids::SessionNumber;
use onpath_wire::report::{KINDS_MAX, MountIs, MountReport};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Mounts that are known at the same time; reports of further ones are counted and dropped.
pub const MOUNTS_MAX: usize = 4_096;
/// A mount that was not heard of for so long has left, unless its stream is open.
pub const LEFT_AFTER: Duration = Duration::from_secs(60);
/// A mount that was not heard of for so long is silent, microseconds: each tells once a second what it did.
const SILENT_US: u64 = 5_000_000;
/// Longest name of a machine, and longest path, of which there is a report, bytes.
const TEXT_BYTES_MAX: usize = 4_096;

/// Who tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Teller {
    /// Its session.
    pub(super) session: SessionNumber,
    /// The name of the key that it has come with, if that is its own.
    pub(super) key: Option<Arc<str>>,
    pub(super) way: Way,
}

/// How a mount tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By a stream, which ends with it.
    Stream,
    /// By datagrams, which just do not come any more.
    Datagrams,
}

struct Known {
    is: MountIs,
    by: Teller,
    heard_us: u64,
    left: bool,
    last: Operations,
    answered: u64,
    /// Another host is told its operations, and adds them up.
    elsewhere: bool,
    per_second: f64,
    waiting: u32,
    oldest_ms: u64,
}

pub(super) struct Told {
    known: HashMap<u64, Known>,
    /// Which of them is that of a session.
    of: HashMap<SessionNumber, u64>,
    sum: Operations,
    refused: u64,
    /// No mount that began later was ever forgotten, or told a former process.
    since_us: u64,
}

impl Told {
    /// That of a process which begins now.
    pub(super) fn since(now_us: u64) -> Told {
        Told { known: HashMap::new(), of: HashMap::new(), sum: Operations::new(), refused: 0, since_us: now_us }
    }

    pub(super) fn sum(&self) -> &Operations {
        &self.sum
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether a report is of the mount that its session has: of one, and of none that others have come with, by another key. A mount that
    /// goes on as another session is still the same.
    fn is_its(&self, by: &Teller, id: u64) -> bool {
        let is_other = self.of.get(&by.session).is_some_and(|other| *other != id);
        !is_other && self.known.get(&id).is_none_or(|known| known.by.key == by.key)
    }

    pub(super) fn tell(&mut self, by: Teller, report: &MountReport, now_us: u64) {
        let MountIs { id, machine, mountpoint, version, .. } = &report.is;
        let is_short = [machine, mountpoint, version].iter().all(|text| text.0.len() <= TEXT_BYTES_MAX);
        if !is_short || !self.is_its(&by, *id) || !self.known.contains_key(id) && !self.make_room(now_us) {
            self.refused += 1;
            return;
        }
        let now = operations(&report.operations);
        let began_us = now_us.saturating_sub(report.is.uptime_ms.saturating_mul(1_000));
        let counted_before = began_us < self.since_us;
        let known = self.known.entry(*id).or_insert_with(|| Known {
            is: MountIs::default(),
            by: by.clone(),
            heard_us: now_us,
            left: false,
            last: if counted_before { now.clone() } else { Operations::new() },
            answered: 0,
            elsewhere: report.elsewhere,
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
            (report.answered.saturating_sub(known.answered), report.is.uptime_ms - known.is.uptime_ms);
        if known.by.session != by.session {
            self.of.remove(&known.by.session);
        }
        self.of.insert(by.session, *id);
        *known = Known {
            is: report.is.clone(),
            by,
            heard_us: now_us,
            left: report.leaves,
            last: now,
            answered: report.answered,
            elsewhere: report.elsewhere,
            per_second: more as f64 * 1_000.0 / took_ms.max(1) as f64,
            waiting: report.waiting,
            oldest_ms: report.oldest_ms,
        };
    }

    /// Forgets those who have left, if the table is full. They may come back: one that was only silent, or whose stream was broken.
    fn make_room(&mut self, now_us: u64) -> bool {
        if self.known.len() < MOUNTS_MAX {
            return true;
        }
        self.let_go(now_us);
        self.known.retain(|_, known| !known.left);
        self.of.retain(|_, id| self.known.contains_key(id));
        let has_room = self.known.len() < MOUNTS_MAX;
        if has_room {
            self.since_us = now_us;
        }
        has_room
    }

    /// The stream of that session is over.
    pub(super) fn left(&mut self, session: SessionNumber) {
        self.known.values_mut().filter(|known| known.by.session == session).for_each(|known| known.left = true);
    }

    /// Whoever was silent for long has left.
    fn let_go(&mut self, now_us: u64) {
        let since = now_us.saturating_sub(LEFT_AFTER.as_micros() as u64);
        let silent = |known: &&mut Known| known.by.way == Way::Datagrams && known.heard_us < since;
        self.known.values_mut().filter(silent).for_each(|known| known.left = true);
    }

    /// All that have not left.
    pub(super) fn present(&mut self, now_us: u64) -> Vec<Mounted> {
        self.let_go(now_us);
        let mounted = |known: &Known| Mounted {
            is: known.is.clone(),
            session: known.by.session.id(),
            key: known.by.key.clone(),
            heard_us: known.heard_us,
            operations: known.answered,
            per_second: known.per_second,
            waiting: known.waiting,
            oldest_ms: known.oldest_ms,
            is_own: false,
        };
        self.known.values().filter(|known| !known.left).map(mounted).collect()
    }

    /// How many have not left of those that tell what they do, and how many of them are silent.
    pub(super) fn counted(&mut self, now_us: u64) -> [u64; 2] {
        self.let_go(now_us);
        let present = || self.known.values().filter(|known| !known.left && !known.elsewhere);
        let silent = present().filter(|known| known.heard_us + SILENT_US <= now_us).count();
        [present().count() as u64, silent as u64]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::codec::Blob;
    use onpath_wire::ids::SessionId;
    use onpath_wire::report::{LatencyReport, OperationReport};

    fn report(id: u64, (uptime_ms, lookups): (u64, u64), leaves: bool) -> MountReport {
        let latencies = vec![LatencyReport { class: 40, count: lookups }];
        let lookup = OperationReport { name: Blob(b"lookup".to_vec()), latencies, ..OperationReport::default() };
        let evil = OperationReport { name: Blob(b"a{b=\"c".to_vec()), ..lookup.clone() };
        let is = MountIs { id, uptime_ms, ..MountIs::default() };
        MountReport { is, leaves, operations: vec![lookup, evil], ..MountReport::default() }
    }

    fn by(session: u64, way: Way) -> Teller {
        Teller { session: SessionNumber(session), key: None, way }
    }

    fn lookups(told: &Told) -> u64 {
        told.sum.values().map(Operation::count).sum()
    }

    #[test]
    fn the_sum_keeps_what_those_did_who_have_left() {
        let mut told = Told::since(0);
        let mut tell = |session, report: &MountReport, sum| {
            told.tell(by(session, Way::Datagrams), report, 10_000);
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

    /// Whoever has one key and one session fills no table, and does not pass for others.
    #[test]
    fn a_session_is_that_of_one_mount() {
        let mut told = Told::since(0);
        let as_alice = |session| Teller { key: Some("alice".into()), ..by(session, Way::Datagrams) };
        for id in 1..=2 * MOUNTS_MAX as u64 {
            told.tell(as_alice(1), &report(id, (1, 1), false), 1_000_000);
        }
        assert_eq!((told.known.len(), told.refused), (1, 2 * MOUNTS_MAX as u64 - 1));
        told.tell(by(2, Way::Datagrams), &report(9_999, (1, 1), false), 1_000_000);
        // Nor after it has left.
        told.tell(as_alice(1), &report(1, (2, 1), true), 1_000_000);
        told.tell(as_alice(1), &report(2, (1, 1), false), 1_000_000);
        assert_eq!((told.known.len(), told.present(1_000_000).len()), (2, 1));
        // The mount of somebody else, by its number.
        told.tell(as_alice(3), &report(9_999, (9, 1_000), true), 1_000_000);
        let [mounted] = told.present(1_000_000).try_into().expect("one");
        assert_eq!((mounted.session, mounted.key, lookups(&told)), (SessionId(2), None, 2));
        // It may go on as another session, and then has that one no more.
        told.tell(as_alice(4), &report(1, (3, 1), false), 1_000_000);
        told.tell(as_alice(4), &report(2, (1, 1), false), 1_000_000);
        assert_eq!((told.known.len(), told.of.len()), (2, 2));
        let keys: Vec<_> = told.present(1_000_000).into_iter().filter_map(|mounted| mounted.key).collect();
        assert_eq!(keys, [Arc::from("alice")]);
    }

    #[test]
    fn numbers_that_cannot_be_are_no_harm() {
        let mut told = Told::since(0);
        for id in 1..=3 {
            told.tell(by(id, Way::Datagrams), &report(id, (1, u64::MAX), false), 10_000);
        }
        let more = report(4, (1, 1), false);
        let operations = [
            more.operations.clone(),
            vec![OperationReport { name: Blob(b"read".to_vec()), ..more.operations[0].clone() }],
        ];
        told.tell(by(4, Way::Datagrams), &MountReport { operations: operations.concat(), ..more }, 10_000);
        assert_eq!(told.sum.values().map(Operation::count).fold(0, u64::saturating_add), u64::MAX);
    }

    fn fill(told: &mut Told, way: Way, now_us: u64) {
        (0..MOUNTS_MAX as u64).for_each(|id| told.tell(by(id, way), &report(id, (1, 1), false), now_us));
    }

    #[test]
    fn mounts_are_bounded_and_those_who_left_make_room() {
        let mut told = Told::since(0);
        fill(&mut told, Way::Datagrams, 1_000_000);
        told.tell(by(9_999, Way::Datagrams), &report(u64::MAX, (1, 1), false), 1_000_000);
        assert_eq!((lookups(&told), told.refused), (MOUNTS_MAX as u64, 1));
        let later_us = 1_000_001 + LEFT_AFTER.as_micros() as u64;
        told.tell(by(9_999, Way::Datagrams), &report(u64::MAX, (0, 1), false), later_us);
        assert_eq!((lookups(&told), told.known.len()), (MOUNTS_MAX as u64 + 1, 1));
    }

    #[test]
    fn one_that_had_to_be_forgotten_and_comes_back_is_not_counted_twice() {
        let mut told = Told::since(0);
        fill(&mut told, Way::Datagrams, 1_000_000);
        let later_us = 2_000_000 + LEFT_AFTER.as_micros() as u64;
        told.tell(by(9_999, Way::Datagrams), &report(u64::MAX, (0, 1), false), later_us);
        let back = |lookups| report(7, (1 + later_us / 1_000 - 1_000, lookups), false);
        told.tell(by(7, Way::Datagrams), &back(5), later_us);
        assert_eq!(lookups(&told), MOUNTS_MAX as u64 + 1);
        told.tell(by(7, Way::Datagrams), &back(9), later_us);
        assert_eq!(lookups(&told), MOUNTS_MAX as u64 + 5, "what it does from now on counts");
    }

    #[test]
    fn one_that_has_told_a_former_process_is_counted_from_now_on() {
        let mut told = Told::since(5_000_000);
        told.tell(by(1, Way::Datagrams), &report(7, (3_000, 100), false), 6_000_000);
        told.tell(by(1, Way::Datagrams), &report(7, (4_000, 103), false), 7_000_000);
        told.tell(by(2, Way::Datagrams), &report(8, (1_500, 20), false), 7_000_000);
        assert_eq!(lookups(&told), 23);
    }

    #[test]
    fn one_that_tells_another_host_is_known_and_not_counted() {
        let mut told = Told::since(0);
        let other = |answered| MountReport { answered, ..report(7, (answered, 5), false) }.to_others();
        told.tell(by(1, Way::Datagrams), &other(1_000), 2_000_000);
        told.tell(by(1, Way::Datagrams), &other(3_000), 4_000_000);
        let [mounted] = told.present(4_000_000).try_into().expect("one");
        assert_eq!((mounted.operations, mounted.per_second), (3_000, 1_000.0));
        assert_eq!((told.counted(20_000_000), lookups(&told)), ([0, 0], 0));
    }

    #[test]
    fn one_whose_stream_is_open_is_silent_and_not_gone() {
        let mut told = Told::since(0);
        fill(&mut told, Way::Stream, 1_000_000);
        let later_us = 2 * LEFT_AFTER.as_micros() as u64;
        assert_eq!(told.counted(1_000_000), [MOUNTS_MAX as u64, 0]);
        assert_eq!(told.counted(later_us), [MOUNTS_MAX as u64; 2]);
        told.tell(by(9_999, Way::Stream), &report(u64::MAX, (0, 1), false), later_us);
        assert_eq!((told.known.len(), told.refused), (MOUNTS_MAX, 1), "none of them makes room");
        told.left(SessionNumber(3));
        assert_eq!(told.counted(later_us), [MOUNTS_MAX as u64 - 1; 2]);
    }
}
