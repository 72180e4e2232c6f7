//! The coordinator module: sessions and directory renames, at the shard that owns slot 0 (DESIGN §1).

pub(crate) mod renames;
pub(crate) mod sessions;

use onpath_wire::ids::{SessionId, ShardId};
use onpath_wire::peer::TxnId;
use std::collections::BTreeMap;

/// State of the coordinator module; the registry is durable, leases and the rename lock are not.
#[derive(Default)]
pub(crate) struct Coordinator {
    /// Sessions that were ever registered and are not buried, and whether they live.
    sessions: BTreeMap<SessionId, bool>,
    /// When each live session's lease ends, monotonic microseconds.
    leases: BTreeMap<SessionId, u64>,
    /// Ids up to here were given out.
    highest: SessionId,
    /// Who may move directories now.
    pub(crate) rename_holder: Option<(ShardId, TxnId)>,
    pub(crate) rename_watched: bool,
}

impl Coordinator {
    /// A record says that a session lives or is dead.
    pub(crate) fn registered(&mut self, session: SessionId, alive: bool) {
        self.highest = self.highest.max(session);
        if alive {
            self.sessions.insert(session, true);
        } else {
            self.sessions.remove(&session);
            self.leases.remove(&session);
        }
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

    /// Live sessions.
    pub(crate) fn live(&self) -> usize {
        self.sessions.len()
    }

    /// Whether an id was given out before.
    pub(crate) fn was_given(&self, session: SessionId) -> bool {
        session <= self.highest
    }
}
