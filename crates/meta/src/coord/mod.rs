//! The coordinator module: sessions, directory renames and tracking epochs, at the shard that owns slot 0 (design.md, "Roles and operations").

pub(crate) mod alone;
pub(crate) mod cache;
pub(crate) mod renames;
pub(crate) mod sessions;
pub(crate) mod tracking;
pub(crate) mod turns;

use alone::Alone;
use onpath_kernel::Gauge;
use onpath_wire::disk::map::MapImage;
use onpath_wire::disk::record::{Effect, Member, MemberKind};
use onpath_wire::ids::{NodeId, SessionId, SessionNumber, ShardId, Term, TxnId, term_of_seq};
use onpath_wire::limits::{LEASE_SLACK_MS, SESSION_LEASE_MS};
use std::collections::{BTreeMap, BTreeSet};
use turns::Turns;

/// The session at the address of a member.
pub(crate) fn session_of(node: NodeId, kind: MemberKind) -> Option<SessionId> {
    match kind {
        MemberKind::Mount => node.as_session(),
    }
}

/// State of the coordinator module; the registry is durable, leases and the rename lock are not.
#[derive(Default)]
pub(crate) struct Coordinator {
    /// Sessions that were ever registered and are not buried: whoever was declared dead stays so, also after a restart, until every
    /// shard has heard of it.
    sessions: BTreeMap<SessionId, Member>,
    /// The map of the file system, once it is recorded.
    pub(crate) map: Option<MapImage>,
    /// When each live session's lease ends, monotonic microseconds.
    leases: BTreeMap<SessionId, u64>,
    /// The session of this process, if it has a mount of its own: the last that was given to it.
    pub(crate) resident: Option<SessionNumber>,
    /// Who is alone in the file system.
    pub(crate) alone: Alone,
    /// Who may move directories now, and next.
    pub(crate) turns: Turns,
    pub(crate) rename_watched: bool,
    /// Turns of other shards that are waited for: a copy of a question whose first one waits is dropped.
    rename_waits: BTreeSet<TxnId>,
    /// Of each shard, the last term that asked for a turn: what earlier ones asked for is over.
    rename_terms: BTreeMap<ShardId, Term>,
    /// [`crate::shard::Job::WatchSwitch`] runs.
    watches_switch: bool,
    /// What data nodes are told of tracking epochs.
    tracked: tracking::DataNodes,
    /// The lease of the cache.
    cache: cache::Lease,
    /// Changes of the registry in this term.
    changes: u32,
}

/// Whether a shard has asked in a later term than that of this attempt.
fn is_outlived(terms: &BTreeMap<ShardId, Term>, from: ShardId, guard: TxnId) -> bool {
    terms.get(&from).is_some_and(|last| term_of_seq(guard.seq.0) < *last)
}

impl Coordinator {
    /// A record says that a session lives or is dead.
    pub(crate) fn registered(&mut self, session: SessionId, member: &Member) {
        self.changes = self.changes.wrapping_add(1);
        if member.alive || self.is_alive(member.number) {
            self.sessions.insert(session, member.clone());
        } else {
            self.sessions.remove(&session);
        }
        self.leases.remove(&session);
    }

    /// A session of an image.
    pub(crate) fn load(&mut self, session: SessionId, member: Member) {
        self.sessions.insert(session, member);
    }

    /// What a record of a session's death says: the second one that it is forgotten. None of one that is not registered.
    fn death_of(&self, session: SessionNumber) -> Option<Effect> {
        let member = Member { alive: false, ..self.member(session)?.clone() };
        Some(Effect::Member { node: NodeId::session(session.id()), member })
    }

    /// The registry's word on a session, which is not that on others that had or will have its id.
    fn member(&self, session: SessionNumber) -> Option<&Member> {
        self.sessions.get(&session.id()).filter(|member| member.number == session)
    }

    /// Whether another session has the id of this one.
    fn is_taken(&self, session: SessionNumber) -> bool {
        self.sessions.contains_key(&session.id()) && self.member(session).is_none()
    }

    /// Its tables.
    pub(crate) fn gauges(&self, operations: usize, all: &mut Vec<Gauge>) {
        all.push(Gauge::queue("renames of directories", usize::from(self.turns.holder().is_some()), 1));
        all.push(Gauge::queue("renames that wait for their turn", self.turns.waiting(), operations));
    }

    /// The registry, for an image.
    pub(crate) fn members(&self) -> impl Iterator<Item = (SessionId, &Member)> {
        self.sessions.iter().map(|(&session, member)| (session, member))
    }

    /// Sessions of the registry, and whether they live.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = (SessionNumber, bool)> + '_ {
        self.sessions.values().map(|member| (member.number, member.alive))
    }

    /// After a restart every live session gets a full lease to come back, but those that were in this process have ended with it. Those
    /// that are dead, of whom not everybody has heard.
    pub(crate) fn begin(&mut self, term: Term, now_us: u64) -> Vec<SessionNumber> {
        self.cache.begin(now_us);
        self.presume_alone(term, now_us);
        self.turns.begin(term);
        let mut dead = vec![];
        for Member { number, alive, resident, .. } in self.sessions.clone().into_values() {
            match alive && !resident {
                true => self.renew(number, now_us),
                false => dead.push(number),
            }
            if resident {
                self.alone.over(number, false, now_us);
            }
        }
        dead
    }

    /// Whether a session is registered and was not declared dead.
    fn is_alive(&self, session: SessionNumber) -> bool {
        self.member(session).is_some_and(|member| member.alive)
    }

    /// A shard asks for a turn; false if it has asked before and waits, or if it has started again since it asked.
    fn begins_to_wait(&mut self, from: ShardId, guard: TxnId) -> bool {
        let last = self.rename_terms.entry(from).or_default();
        *last = (*last).max(term_of_seq(guard.seq.0));
        !self.is_outlived(from, guard) && self.rename_waits.insert(guard)
    }

    /// Whether a shard has started again since it asked for this turn.
    fn is_outlived(&self, from: ShardId, guard: TxnId) -> bool {
        is_outlived(&self.rename_terms, from, guard)
    }

    /// Gives the next turn at moving directories, if there is somebody to give it to.
    fn give_turn(&mut self) {
        let Coordinator { turns, rename_terms, .. } = self;
        turns.give(|(from, guard)| is_outlived(rename_terms, from, guard));
    }

    /// Whether a session is registered and its death is not under way.
    pub(crate) fn lives(&self, session: SessionNumber) -> bool {
        self.member(session).is_some() && self.leases.contains_key(&session.id())
    }

    /// Extends a lease. It is kept for longer than the session may act, so that nothing of it is executed after its death.
    pub(crate) fn renew(&mut self, session: SessionNumber, now_us: u64) {
        self.leases.insert(session.id(), now_us + (SESSION_LEASE_MS + LEASE_SLACK_MS) * 1_000);
    }

    /// Extends every lease by so much.
    pub(crate) fn prolong(&mut self, us: u64) {
        self.leases.values_mut().for_each(|end| *end += us);
    }

    /// Sessions whose lease is over.
    pub(crate) fn expired(&self, now_us: u64) -> Vec<SessionNumber> {
        let over = self.leases.iter().filter(|(_, end)| **end <= now_us);
        over.filter_map(|(session, _)| Some(self.sessions.get(session)?.number)).collect()
    }

    /// A session's death is under way: its lease is no longer looked at.
    pub(crate) fn expire(&mut self, session: SessionNumber) {
        if self.member(session).is_some() {
            self.leases.remove(&session.id());
        }
    }

    /// Sessions that live and whose death is not under way, in order.
    pub(crate) fn expected(&self) -> impl Iterator<Item = SessionNumber> + '_ {
        self.leases.keys().filter_map(|session| Some(self.sessions.get(session)?.number))
    }

    /// Sessions registered.
    pub(crate) fn registered_sessions(&self) -> usize {
        self.sessions.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::ids::{RequestSeq, Stamp};

    fn member(number: SessionNumber, alive: bool) -> Member {
        let (incarnation, kind, key) = (Stamp(7), MemberKind::Mount, None);
        Member { incarnation, number, resident: false, kind, key, alive }
    }

    fn of(members: &[Member]) -> Coordinator {
        let mut registry = Coordinator::default();
        members.iter().for_each(|member| registry.registered(member.number.id(), member));
        registry
    }

    #[test]
    fn whoever_is_declared_dead_stays_dead_until_everybody_has_heard_of_it() {
        let (alive, dead) = (SessionNumber(1), SessionNumber(2));
        let mut before = of(&[member(alive, true), member(dead, true)]);
        let record = before.death_of(dead).expect("it is registered");
        assert_eq!(record, Effect::Member { node: NodeId::session(dead.id()), member: member(dead, false) });
        before.registered(dead.id(), &member(dead, false));
        let mut after = Coordinator::default();
        before.members().for_each(|(session, member)| after.load(session, member.clone()));
        assert_eq!(after.begin(Term(1), 0), [dead]);
        assert!(after.lives(alive) && !after.lives(dead));
        assert_eq!(after.death_of(dead), Some(record), "of the same life");
        after.registered(dead.id(), &member(dead, false));
        assert_eq!(after.sessions().collect::<Vec<_>>(), [(alive, true)]);
        assert_eq!(after.death_of(dead), None);
    }

    #[test]
    fn a_session_in_the_process_of_the_registry_ends_with_it() {
        let (resident, other) = (SessionNumber(1), SessionNumber(2));
        let mut after = of(&[Member { resident: true, ..member(resident, true) }, member(other, true)]);
        assert_eq!(after.begin(Term(2), 0), [resident]);
        assert!(after.lives(other) && !after.lives(resident));
        let mut alone = of(&[Member { resident: true, ..member(resident, true) }]);
        assert_eq!(alone.begin(Term(2), 0), [resident]);
        assert!(alone.alone.is_free(0), "its mount has ended too, with what it had cached");
    }

    #[test]
    fn who_has_an_id_is_not_who_had_it() {
        let mut after = of(&[member(SessionNumber(9), true)]);
        after.begin(Term(1), 0);
        let former = SessionNumber(9);
        let later = SessionNumber::of(former.id(), SessionNumber::MAX.request(RequestSeq(1)));
        assert!(after.lives(former) && !after.lives(later) && after.is_taken(later) && !after.is_taken(former));
        assert_eq!(after.death_of(later), None);
        after.expire(later);
        assert!(after.lives(former));
    }

    #[test]
    fn only_sessions_are_mounts() {
        assert_eq!(session_of(NodeId::session(SessionId(9)), MemberKind::Mount), Some(SessionId(9)));
        assert_eq!(session_of(NodeId::data(9), MemberKind::Mount), None);
    }
}
