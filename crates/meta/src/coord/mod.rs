//! The coordinator module: sessions, directory renames and tracking epochs, at the shard that owns slot 0 (DESIGN §1).

pub(crate) mod renames;
pub(crate) mod sessions;
pub(crate) mod tracking;

use onpath_kernel::Gauge;
use onpath_wire::ids::{SessionId, ShardId};
use onpath_wire::peer::TxnId;
use std::collections::{BTreeMap, BTreeSet};

/// Buried sessions that are remembered one by one; below the oldest of them everything counts as buried.
const BURIED_MAX: usize = 4_096;

/// State of the coordinator module; the registry is durable, leases and the rename lock are not.
#[derive(Default)]
pub(crate) struct Coordinator {
    /// Sessions that were ever registered and are not buried, and whether they live.
    sessions: BTreeMap<SessionId, bool>,
    /// When each live session's lease ends, monotonic microseconds.
    leases: BTreeMap<SessionId, u64>,
    /// Sessions that died in this term: a late copy of their first request must not bring them back without their locks
    /// and opens. Those that died before are kept out by their requests' term.
    buried: BTreeSet<SessionId>,
    /// All ids up to here that do not live count as buried.
    buried_upto: SessionId,
    /// Who may move directories now.
    pub(crate) rename_holder: Option<(ShardId, TxnId)>,
    pub(crate) rename_watched: bool,
    /// Nobody may move directories since a former term.
    pub(crate) turns_known: bool,
}

impl Coordinator {
    /// A record says that a session lives or is dead.
    pub(crate) fn registered(&mut self, session: SessionId, alive: bool) {
        if alive {
            self.sessions.insert(session, true);
            return;
        }
        self.sessions.remove(&session);
        self.leases.remove(&session);
        self.buried.insert(session);
        if self.buried.len() > BURIED_MAX {
            self.buried_upto = self.buried_upto.max(self.buried.pop_first().expect("more than none"));
        }
    }

    /// Its tables.
    pub(crate) fn gauges(&self, all: &mut Vec<Gauge>) {
        all.push(Gauge::table("sessions buried", self.buried.len(), BURIED_MAX));
        all.push(Gauge::queue("renames of directories", usize::from(self.rename_holder.is_some()), 1));
    }

    /// The registry, for an image.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = (SessionId, bool)> + '_ {
        self.sessions.iter().map(|(&session, &alive)| (session, alive))
    }

    /// After a restart every live session gets a full lease to come back.
    pub(crate) fn begin(&mut self, now_us: u64) {
        let live: Vec<_> = self.sessions.keys().copied().collect();
        live.into_iter().for_each(|session| self.renew(session, now_us));
    }

    /// Whether a session is registered and alive.
    pub(crate) fn lives(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Extends a lease.
    pub(crate) fn renew(&mut self, session: SessionId, now_us: u64) {
        self.leases.insert(session, now_us + onpath_wire::limits::SESSION_LEASE_MS * 1_000);
    }

    /// Sessions whose lease is over.
    pub(crate) fn expired(&self, now_us: u64) -> Vec<SessionId> {
        self.leases.iter().filter(|(_, end)| **end <= now_us).map(|(&session, _)| session).collect()
    }

    /// A session's death is under way: its lease is no longer looked at.
    pub(crate) fn expire(&mut self, session: SessionId) {
        self.leases.remove(&session);
    }

    /// Sessions that live and whose death is not under way, in order.
    pub(crate) fn expected(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.leases.keys().copied().filter(|session| self.sessions.contains_key(session))
    }

    /// Live sessions.
    pub(crate) fn live(&self) -> usize {
        self.sessions.len()
    }

    /// Whether a session has died. One that has not may attach for the first time, in whatever order sessions come.
    pub(crate) fn is_buried(&self, session: SessionId) -> bool {
        session <= self.buried_upto || self.buried.contains(&session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_stay_dead_however_many_they_are() {
        let mut coordinator = Coordinator::default();
        let ids = || (1..=3 * BURIED_MAX as u32).map(SessionId);
        ids().for_each(|session| coordinator.registered(session, true));
        ids().rev().for_each(|session| coordinator.registered(session, false));
        assert!(ids().all(|session| coordinator.is_buried(session)));
        assert_eq!(coordinator.buried.len(), BURIED_MAX);
        assert!(!coordinator.is_buried(SessionId(3 * BURIED_MAX as u32 + 1)));
    }
}
