//! The coordinator module: sessions, directory renames and tracking epochs, at the shard that owns slot 0 (DESIGN §1).

pub(crate) mod renames;
pub(crate) mod sessions;
pub(crate) mod tracking;

use onpath_kernel::Gauge;
use onpath_wire::ids::{SessionId, ShardId};
use onpath_wire::peer::TxnId;
use std::collections::{BTreeMap, BTreeSet};

/// State of the coordinator module; the registry is durable, leases and the rename lock are not.
#[derive(Default)]
pub(crate) struct Coordinator {
    /// Sessions that were ever registered and are not buried.
    sessions: BTreeSet<SessionId>,
    /// When each live session's lease ends, monotonic microseconds.
    leases: BTreeMap<SessionId, u64>,
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
            self.sessions.insert(session);
            return;
        }
        self.sessions.remove(&session);
        self.leases.remove(&session);
    }

    /// Its tables.
    pub(crate) fn gauges(&self, all: &mut Vec<Gauge>) {
        all.push(Gauge::queue("renames of directories", usize::from(self.rename_holder.is_some()), 1));
    }

    /// The registry, for an image.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.sessions.iter().copied()
    }

    /// After a restart every live session gets a full lease to come back.
    pub(crate) fn begin(&mut self, now_us: u64) {
        self.sessions.clone().into_iter().for_each(|session| self.renew(session, now_us));
    }

    /// Whether a session is registered and its death is not under way.
    pub(crate) fn lives(&self, session: SessionId) -> bool {
        self.leases.contains_key(&session)
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
        self.leases.keys().copied()
    }

    /// Live sessions.
    pub(crate) fn live(&self) -> usize {
        self.sessions.len()
    }
}
