//! Sessions that died in this term: their requests are not executed.
//!
//! A late copy of a request would take again what the death has given back: opens, locks, reservations. What was answered to the dead
//! stays for the same time, since a data node may tell of their writes once more. Sessions that died in a former
//! term are kept out by the term in their requests.

use onpath_kernel::Gauge;
use onpath_wire::ids::SessionNumber;
use std::collections::{HashSet, VecDeque};

/// Dead sessions that are remembered: a copy of a request has to outlive as many deaths to be taken.
const BURIED_MAX: usize = 4_096;
/// Results of theirs that are remembered.
const REPLIES_MAX: usize = 1 << 16;

/// The sessions that died last.
#[derive(Debug, Default)]
pub(crate) struct Buried {
    sessions: HashSet<SessionNumber>,
    /// With the number of results.
    in_order: VecDeque<(SessionNumber, usize)>,
    replies: usize,
    /// No number beyond it was forgotten.
    forgotten_upto: SessionNumber,
}

impl Buried {
    /// A session is dead, to which so many results were answered; the sessions that are forgotten for it.
    pub(crate) fn add(&mut self, session: SessionNumber, replies: usize) -> Vec<SessionNumber> {
        let mut forgotten = vec![];
        if !self.sessions.insert(session) {
            return forgotten;
        }
        self.in_order.push_back((session, replies));
        self.replies += replies;
        while self.in_order.len() > BURIED_MAX || self.replies > REPLIES_MAX {
            let (oldest, replies) = self.in_order.pop_front().expect("more than none");
            self.sessions.remove(&oldest);
            self.replies -= replies;
            self.forgotten_upto = self.forgotten_upto.max(oldest);
            forgotten.push(oldest);
        }
        forgotten
    }

    /// Whether a session is known to be dead.
    pub(crate) fn contains(&self, session: SessionNumber) -> bool {
        self.sessions.contains(&session)
    }

    /// Whether a session that is not alive may have died in this term: all whose death was forgotten count, so that none comes back.
    pub(crate) fn may_contain(&self, session: SessionNumber) -> bool {
        session <= self.forgotten_upto || self.contains(session)
    }

    /// Its tables.
    pub(crate) fn gauges(&self, all: &mut Vec<Gauge>) {
        all.push(Gauge::table("sessions buried", self.in_order.len(), BURIED_MAX));
        all.push(Gauge::table("replies of sessions buried", self.replies, REPLIES_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_dead_are_remembered_once_each() {
        let mut buried = Buried::default();
        let ids = || (1..=3 * BURIED_MAX as u64).rev().map(SessionNumber);
        let forgotten: Vec<_> =
            ids().flat_map(|session| [buried.add(session, 1), buried.add(session, 1)].concat()).collect();
        assert!(forgotten.into_iter().eq(ids().take(2 * BURIED_MAX)), "in the order of their deaths");
        assert_eq!(
            (buried.sessions.len(), buried.in_order.len(), buried.replies),
            (BURIED_MAX, BURIED_MAX, BURIED_MAX)
        );
        assert!(ids().skip(2 * BURIED_MAX).all(|session| buried.contains(session)));
        assert!(ids().all(|session| buried.may_contain(session)), "the dead stay dead, however many they are");
        assert!(!buried.may_contain(SessionNumber(3 * BURIED_MAX as u64 + 1)));
    }

    #[test]
    fn so_are_few_that_were_answered_much() {
        let mut buried = Buried::default();
        let forgotten: usize = (1..=100).map(|n| buried.add(SessionNumber(n), 4_000).len()).sum();
        assert_eq!((forgotten, buried.replies), (84, 64_000));
    }
}
