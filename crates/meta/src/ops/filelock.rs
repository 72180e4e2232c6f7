//! File locks of one shard's inodes: a pure automaton for flock(2) and fcntl(2) (design.md, "Sessions").
//!
//! fcntl locks are byte ranges that an owner may split, merge, up- and downgrade; flock locks cover the whole file
//! and have a space of their own. Waiting requests are granted in order of arrival as far as they do not conflict.
//!
//! The table is volatile. After a restart new locks on inodes of before are *withheld* until their former holders had time
//! to take theirs again: whoever asks is queued, and whoever would not wait for a holder learns then whether there is one.

use hashbrown::HashMap;
use onpath_kernel::Gauge;
use onpath_wire::ids::{Birth, InodeId, RequestSeq, SessionId, Stamp};
use onpath_wire::limits::{LOCKS_PER_INODE_MAX, WAIT_EDGES_MAX, memory};
use onpath_wire::reply::WaitEdge;
use onpath_wire::request::{FileLock, LockKind, Locker};
use std::collections::{BTreeSet, VecDeque};

/// Confirmed waits are looked through when there are more than so many, and twice as many as were left the last time.
const CONFIRMED_SWEPT_MIN: usize = 256;

/// Whose lock: owners of different sessions differ.
type Owner = (SessionId, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    session: SessionId,
    lock: FileLock,
    /// Numbers the grant.
    grant: u64,
}

/// A request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) session: SessionId,
    pub(crate) seq: RequestSeq,
    pub(crate) lock: FileLock,
    /// Whether it waits for holders too, and not only to learn whether there are any.
    pub(crate) wait: bool,
    /// Since when.
    pub(crate) since: Stamp,
    /// Its session has said that it is a process's, and not that of an open file, which never counts as deadlocked (fcntl(2)).
    pub(crate) confirmed: bool,
}

#[derive(Default, Debug)]
struct Locks {
    held: Vec<Held>,
    waiting: VecDeque<Waiting>,
    /// The number of the last grant.
    grants: u64,
}

const _: () = assert!(2 * (size_of::<Waiting>() + size_of::<(InodeId, Locks)>()) as u64 <= memory::LOCK_AT_HOME);

/// All file locks.
#[derive(Default, Debug)]
pub(crate) struct FileLocks {
    inodes: HashMap<InodeId, Locks>,
    /// New locks on inodes born before this term are withheld.
    withheld_before: Option<Birth>,
    /// Where owners wait by what their sessions have confirmed. Ended waits go when they are come across.
    confirmed: BTreeSet<(Locker, InodeId)>,
    /// So many of them are looked through for ended ones.
    confirmed_swept: usize,
}

/// How a lock is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Now or not at all; this is its request.
    Now(RequestSeq),
    /// It may wait.
    Wait(RequestSeq),
    /// It was held in a former term.
    Again,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Granted,
    Conflict,
    /// Somebody is in the way, or may be.
    Queued,
    TooMany,
}

impl Locks {
    fn conflict(&self, session: SessionId, lock: &FileLock) -> Option<FileLock> {
        let owner = (session, lock.owner);
        self.in_the_way(owner, lock).next().map(|h| h.lock)
    }

    /// What others hold that conflicts with this lock.
    fn in_the_way(&self, owner: Owner, lock: &FileLock) -> impl Iterator<Item = &Held> {
        let lock = *lock;
        self.held.iter().filter(move |h| {
            h.lock.flock == lock.flock
                && (h.session, h.lock.owner) != owner
                && h.lock.start <= lock.end
                && lock.start <= h.lock.end
                && (h.lock.kind == LockKind::Write || lock.kind == LockKind::Write)
        })
    }

    /// Makes `lock` the only word of its owner on its bytes.
    fn set(&mut self, session: SessionId, lock: FileLock) {
        let owner: Owner = (session, lock.owner);
        self.grants += 1;
        let grant = self.grants;
        let mut kept = Vec::with_capacity(self.held.len() + 2);
        let mut merged = lock;
        for held in self.held.drain(..) {
            let same = (held.session, held.lock.owner) == owner && held.lock.flock == lock.flock;
            let touches =
                held.lock.start <= lock.end.saturating_add(1) && lock.start <= held.lock.end.saturating_add(1);
            if !same || !touches {
                kept.push(held);
            } else if held.lock.kind == lock.kind {
                merged.start = merged.start.min(held.lock.start);
                merged.end = merged.end.max(held.lock.end);
            } else {
                // Another kind: what lies outside the new range stays as it was.
                if held.lock.start < lock.start {
                    let end = held.lock.end.min(lock.start - 1);
                    kept.push(Held { session, lock: FileLock { end, ..held.lock }, grant });
                }
                if held.lock.end > lock.end {
                    let start = held.lock.start.max(lock.end + 1);
                    kept.push(Held { session, lock: FileLock { start, ..held.lock }, grant });
                }
            }
        }
        if lock.kind != LockKind::Unlock {
            kept.push(Held { session, lock: merged, grant });
        }
        kept.sort_by_key(|h| (h.lock.flock, h.lock.start, h.session, h.lock.owner));
        self.held = kept;
    }

    /// Confirmed waits of an owner.
    fn confirmed(&self, of: Locker) -> impl Iterator<Item = &Waiting> {
        let mine = move |w: &&Waiting| w.session == of.session && w.lock.owner == of.owner && !w.lock.flock;
        self.waiting.iter().filter(mine).filter(|w| w.confirmed)
    }

    /// Whether this very request waits: it is a copy.
    fn waits(&self, session: SessionId, ask: Ask) -> bool {
        let (Ask::Now(seq) | Ask::Wait(seq)) = ask else { return false };
        self.waiting.iter().any(|w| (w.session, w.seq) == (session, seq))
    }

    fn queue(&mut self, waiting: Waiting) -> Outcome {
        self.waiting.push_back(waiting);
        Outcome::Queued
    }

    fn grant_waiting(&mut self, granted: &mut Vec<Waiting>) {
        let mut still = VecDeque::new();
        while let Some(waiting) = self.waiting.pop_front() {
            if self.conflict(waiting.session, &waiting.lock).is_none() {
                self.set(waiting.session, waiting.lock);
                granted.push(waiting);
            } else {
                still.push_back(waiting);
            }
        }
        self.waiting = still;
    }
}

impl FileLocks {
    /// Locks on the inode that has the most.
    pub(crate) fn gauges(&self, all: &mut Vec<Gauge>) {
        let most = self.inodes.values().map(|locks| locks.held.len() + locks.waiting.len()).max();
        all.push(Gauge::table("locks on an inode", most.unwrap_or(0), LOCKS_PER_INODE_MAX));
    }

    /// Takes, waits for or frees a lock; `granted` gets the waiting requests that this lets through.
    pub(crate) fn set(
        &mut self,
        id: InodeId,
        session: SessionId,
        lock: FileLock,
        ask: Ask,
        since: Stamp,
        granted: &mut Vec<Waiting>,
    ) -> Outcome {
        let withheld = self.withholds(id);
        let locks = self.inodes.entry(id).or_default();
        let conflict = locks.conflict(session, &lock).is_some();
        if conflict && matches!(ask, Ask::Now(_)) {
            // Refused, whatever number it had when it began to wait to learn this: nothing of it may be granted later.
            locks.waiting.retain(|w| w.wait || (w.session, w.lock) != (session, lock));
        }
        if locks.waits(session, ask) {
            return Outcome::Queued;
        }
        if lock.kind != LockKind::Unlock && locks.held.len() + locks.waiting.len() >= LOCKS_PER_INODE_MAX {
            return Outcome::TooMany;
        }
        let blocked = lock.kind != LockKind::Unlock && (conflict || withheld && ask != Ask::Again);
        let outcome = match ask {
            _ if !blocked => {
                locks.set(session, lock);
                if !withheld {
                    locks.grant_waiting(granted);
                }
                Outcome::Granted
            }
            Ask::Now(seq) if !conflict => {
                locks.queue(Waiting { session, seq, lock, wait: false, since, confirmed: false })
            }
            Ask::Now(_) | Ask::Again => Outcome::Conflict,
            Ask::Wait(seq) => {
                if lock.flock && conflict {
                    // A conversion first gives up the old lock, as flock(2) says.
                    locks.set(session, FileLock { kind: LockKind::Unlock, ..lock });
                    if !withheld {
                        locks.grant_waiting(granted);
                    }
                }
                locks.queue(Waiting { session, seq, lock, wait: true, since, confirmed: false })
            }
        };
        self.tidy(id);
        outcome
    }

    /// From now on new locks on inodes of an earlier birth are withheld.
    pub(crate) fn withhold(&mut self, birth: Birth) {
        self.withheld_before = Some(birth);
    }

    /// Whether new locks on an inode are withheld.
    pub(crate) fn withholds(&self, id: InodeId) -> bool {
        self.withheld_before.is_some_and(|birth| id.birth() < birth)
    }

    /// Nothing is withheld any more: who waited for that, in order, and gets it or not.
    pub(crate) fn give(&mut self, granted: &mut Vec<Waiting>, refused: &mut Vec<Waiting>) {
        self.withheld_before = None;
        let mut ids: Vec<_> = self.inodes.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let locks = self.inodes.get_mut(&id).expect("just listed");
            locks.grant_waiting(granted);
            refused.extend(locks.waiting.iter().filter(|w| !w.wait));
            locks.waiting.retain(|w| w.wait);
        }
    }

    /// A session says that its waiting lock is a process's.
    pub(crate) fn confirm(&mut self, id: InodeId, session: SessionId, lock: &FileLock) {
        let Some(locks) = self.inodes.get_mut(&id) else { return };
        let mut found = false;
        for waiting in locks.waiting.iter_mut().filter(|w| w.wait && w.session == session && w.lock == *lock) {
            waiting.confirmed = true;
            found = true;
        }
        if found && !lock.flock {
            self.confirmed.insert((Locker { session, owner: lock.owner }, id));
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        if self.confirmed.len() > self.confirmed_swept.max(CONFIRMED_SWEPT_MIN) {
            let inodes = &self.inodes;
            self.confirmed
                .retain(|(locker, id)| inodes.get(id).is_some_and(|locks| locks.confirmed(*locker).next().is_some()));
            self.confirmed_swept = 2 * self.confirmed.len();
        }
    }

    /// For whom an owner waits here, by confirmed waits.
    pub(crate) fn waits_of(&mut self, waiter: Locker, edges: &mut Vec<WaitEdge>) {
        let of = (waiter, InodeId(0))..=(waiter, InodeId(u64::MAX));
        let ids: Vec<_> = self.confirmed.range(of).map(|(_, id)| *id).collect();
        for id in ids {
            let before = edges.len();
            for waiting in self.inodes.get(&id).into_iter().flat_map(|locks| locks.confirmed(waiter)) {
                let locks = &self.inodes[&id];
                edges.extend(locks.in_the_way((waiter.session, waiter.owner), &waiting.lock).map(|held| WaitEdge {
                    waiter,
                    seq: waiting.seq,
                    stamp: waiting.since,
                    blocker: Locker { session: held.session, owner: held.lock.owner },
                    grant: held.grant,
                }));
            }
            if edges.len() == before {
                self.confirmed.remove(&(waiter, id));
            }
        }
        edges.truncate(WAIT_EDGES_MAX);
    }

    /// The first lock in the way, for F_GETLK.
    pub(crate) fn test(&self, id: InodeId, session: SessionId, lock: &FileLock) -> Option<FileLock> {
        self.inodes.get(&id)?.conflict(session, lock)
    }

    /// Gives up waiting; the requests that waited.
    pub(crate) fn cancel(&mut self, id: InodeId, session: SessionId, lock: &FileLock) -> Vec<RequestSeq> {
        let Some(locks) = self.inodes.get_mut(&id) else { return vec![] };
        let mine = |w: &Waiting| w.session == session && w.lock == *lock;
        let cancelled = locks.waiting.iter().filter(|w| mine(w)).map(|w| w.seq).collect();
        locks.waiting.retain(|w| !mine(w));
        self.tidy(id);
        cancelled
    }

    /// Whether this session holds exactly this lock (or more).
    pub(crate) fn holds(&self, id: InodeId, session: SessionId, lock: &FileLock) -> bool {
        let covers = |h: &Held| {
            h.session == session
                && (h.lock.owner, h.lock.flock, h.lock.kind) == (lock.owner, lock.flock, lock.kind)
                && h.lock.start <= lock.start
                && h.lock.end >= lock.end
        };
        self.inodes.get(&id).is_some_and(|locks| locks.held.iter().any(covers))
    }

    /// Drops all locks and waits of those that `whose` names; all inodes, in order.
    pub(crate) fn drop_all(
        &mut self,
        only: Option<InodeId>,
        whose: impl Fn(SessionId, &FileLock) -> bool,
        granted: &mut Vec<(InodeId, Waiting)>,
    ) {
        let mut ids: Vec<_> = match only {
            Some(id) => vec![id],
            None => self.inodes.keys().copied().collect(),
        };
        ids.sort_unstable();
        for id in ids {
            let withheld = self.withholds(id);
            let Some(locks) = self.inodes.get_mut(&id) else { continue };
            locks.held.retain(|h| !whose(h.session, &h.lock));
            locks.waiting.retain(|w| !whose(w.session, &w.lock));
            let mut freed = Vec::new();
            if !withheld {
                locks.grant_waiting(&mut freed);
            }
            granted.extend(freed.into_iter().map(|w| (id, w)));
            self.tidy(id);
        }
    }

    fn tidy(&mut self, id: InodeId) {
        if self.inodes.get(&id).is_some_and(|l| l.held.is_empty() && l.waiting.is_empty()) {
            self.inodes.remove(&id);
        }
    }

    /// Locks held and waiting.
    pub(crate) fn len(&self) -> usize {
        self.inodes.values().map(|l| l.held.len() + l.waiting.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::ids::Slot;
    use onpath_wire::inode::Kind;

    const ID: InodeId = InodeId(7);

    fn lock(owner: u64, kind: LockKind, start: u64, end: u64) -> FileLock {
        FileLock { flock: false, kind, start, end, owner, pid: 1 }
    }

    fn set(locks: &mut FileLocks, session: u32, l: FileLock) -> (Outcome, Vec<Waiting>) {
        let mut granted = vec![];
        let ask = Ask::Wait(RequestSeq(owner_seq(&l)));
        let outcome = locks.set(ID, SessionId(session), l, ask, Stamp(owner_seq(&l)), &mut granted);
        (outcome, granted)
    }
    fn owner_seq(l: &FileLock) -> u64 {
        l.owner * 100 + l.start
    }

    #[test]
    fn owners_of_two_sessions_conflict_although_their_numbers_agree() {
        let mut locks = FileLocks::default();
        assert_eq!(set(&mut locks, 1, lock(5, LockKind::Write, 0, 9)).0, Outcome::Granted);
        assert_eq!(set(&mut locks, 2, lock(5, LockKind::Read, 9, 9)).0, Outcome::Queued);
        assert_eq!(set(&mut locks, 2, lock(5, LockKind::Read, 10, 19)).0, Outcome::Granted);
        let (outcome, granted) = set(&mut locks, 1, lock(5, LockKind::Unlock, 5, 9));
        assert_eq!((outcome, granted.len()), (Outcome::Granted, 1));
        assert!(locks.test(ID, SessionId(2), &lock(5, LockKind::Read, 0, 4)).is_some(), "the first half is still held");
    }

    #[test]
    fn ranges_split_merge_and_change_kind() {
        let mut locks = FileLocks::default();
        set(&mut locks, 1, lock(1, LockKind::Read, 0, 99));
        set(&mut locks, 1, lock(1, LockKind::Write, 40, 59));
        assert_eq!(locks.len(), 3);
        set(&mut locks, 1, lock(1, LockKind::Read, 40, 59));
        assert_eq!(locks.len(), 1, "neighbours of one kind merge");
        set(&mut locks, 1, lock(1, LockKind::Unlock, 0, u64::MAX));
        assert_eq!(locks.len(), 0);
    }

    #[test]
    fn after_a_restart_new_locks_wait_for_those_of_before() {
        let mut locks = FileLocks::default();
        let mut granted = vec![];
        locks.withhold(Birth(9));
        let old = InodeId::new(Slot(1), Birth(8), 1, Kind::File);
        let mut ask = |locks: &mut FileLocks, id, session, l, ask| {
            locks.set(id, SessionId(session), l, ask, Stamp(1), &mut granted)
        };
        let all = |owner| lock(owner, LockKind::Write, 0, 99);
        let [mine, theirs] = [all(1), all(2)];
        let (now, wait) = (|seq| Ask::Now(RequestSeq(seq)), |seq| Ask::Wait(RequestSeq(seq)));
        assert_eq!(ask(&mut locks, old, 2, theirs, wait(7)), Outcome::Queued, "nobody knows who had it");
        for _ in 0..2 {
            assert_eq!(ask(&mut locks, old, 2, theirs, now(8)), Outcome::Queued);
            assert_eq!(ask(&mut locks, old, 3, all(3), now(9)), Outcome::Queued);
        }
        assert_eq!(locks.len(), 3, "each once");
        assert_eq!(ask(&mut locks, old, 1, mine, Ask::Again), Outcome::Granted, "its holder takes it again");
        assert_eq!(ask(&mut locks, old, 2, theirs, now(10)), Outcome::Conflict, "this much is known");
        let free = FileLock { kind: LockKind::Unlock, ..mine };
        assert_eq!(ask(&mut locks, old, 1, free, now(11)), Outcome::Granted);
        let born_since = InodeId::new(Slot(1), Birth(9), 1, Kind::File);
        assert_eq!(ask(&mut locks, born_since, 2, theirs, now(12)), Outcome::Granted, "it had no holder before");
        assert!(granted.is_empty(), "whoever waits waits for all who held locks");
        let mut refused = vec![];
        locks.give(&mut granted, &mut refused);
        let seqs = |waits: &[Waiting]| waits.iter().map(|w| w.seq.0).collect::<Vec<_>>();
        assert_eq!(
            (seqs(&granted), seqs(&refused)),
            (vec![7], vec![9]),
            "8 asked for what 10 was refused: it will ask again"
        );
        assert!(!locks.withholds(old));
    }

    #[test]
    fn whoever_does_not_wait_for_holders_learns_of_them_after_the_grace() {
        let mut locks = FileLocks::default();
        let (mut granted, mut refused) = (vec![], vec![]);
        locks.withhold(Birth(9));
        let old = InodeId::new(Slot(1), Birth(8), 1, Kind::File);
        let all = |owner| lock(owner, LockKind::Write, 0, 99);
        let mut ask =
            |session, ask| locks.set(old, SessionId(session), all(u64::from(session)), ask, Stamp(1), &mut granted);
        assert_eq!(ask(2, Ask::Now(RequestSeq(1))), Outcome::Queued);
        assert_eq!(ask(3, Ask::Wait(RequestSeq(2))), Outcome::Queued);
        assert_eq!(ask(1, Ask::Again), Outcome::Granted);
        locks.give(&mut granted, &mut refused);
        assert!(granted.is_empty());
        assert_eq!(refused.iter().map(|w| w.session).collect::<Vec<_>>(), [SessionId(2)]);
        assert_eq!(locks.len(), 2, "held by one, waited for by another");
    }

    /// Its session goes on with the answer to the copy: what waits still would get the lock for nobody.
    #[test]
    fn a_copy_that_is_refused_leaves_nothing_that_waits() {
        let mut locks = FileLocks::default();
        let (mut granted, mut refused) = (vec![], vec![]);
        locks.withhold(Birth(9));
        let old = InodeId::new(Slot(1), Birth(8), 1, Kind::File);
        let all = |owner| lock(owner, LockKind::Write, 0, 99);
        let mut ask =
            |session, ask| locks.set(old, SessionId(session), all(u64::from(session)), ask, Stamp(1), &mut granted);
        for seq in [1, 4] {
            assert_eq!(ask(2, Ask::Now(RequestSeq(seq))), Outcome::Queued, "under a new number as well");
        }
        assert_eq!(ask(3, Ask::Wait(RequestSeq(2))), Outcome::Queued);
        assert_eq!(ask(1, Ask::Again), Outcome::Granted);
        assert_eq!(ask(3, Ask::Wait(RequestSeq(2))), Outcome::Queued);
        assert_eq!(ask(2, Ask::Now(RequestSeq(4))), Outcome::Conflict);
        assert_eq!(locks.len(), 2);
        let whose = |s: SessionId, _: &FileLock| s == SessionId(1);
        locks.drop_all(Some(old), whose, &mut vec![]);
        locks.give(&mut granted, &mut refused);
        assert_eq!((granted.len(), granted[0].session, refused.len()), (1, SessionId(3), 0));
    }

    #[test]
    fn a_copy_of_what_waits_is_never_one_too_many() {
        let mut locks = FileLocks::default();
        let all = |owner| lock(owner, LockKind::Write, 0, 99);
        assert_eq!(set(&mut locks, 1, all(1)).0, Outcome::Granted);
        assert_eq!(set(&mut locks, 2, all(2)).0, Outcome::Queued);
        let waiting = &mut locks.inodes.get_mut(&ID).expect("locked").waiting;
        waiting.resize(LOCKS_PER_INODE_MAX, Waiting { session: SessionId(3), seq: RequestSeq(1), ..waiting[0] });
        assert_eq!(set(&mut locks, 4, all(4)).0, Outcome::TooMany);
        assert_eq!(set(&mut locks, 2, all(2)).0, Outcome::Queued);
    }

    #[test]
    fn only_confirmed_waits_lead_to_holders() {
        let mut locks = FileLocks::default();
        let all = |owner| lock(owner, LockKind::Write, 0, 99);
        let locker = |session, owner| Locker { session: SessionId(session), owner };
        let edges = |locks: &mut FileLocks, of| {
            let mut edges = vec![];
            locks.waits_of(of, &mut edges);
            edges.iter().map(|e| (e.stamp.0, e.blocker)).collect::<Vec<_>>()
        };
        set(&mut locks, 1, all(1));
        set(&mut locks, 2, all(2));
        assert_eq!(edges(&mut locks, locker(2, 2)), [], "it may be that of an open file");
        for _ in 0..2 {
            locks.confirm(ID, SessionId(2), &all(2));
            assert_eq!(edges(&mut locks, locker(2, 2)), [(200, locker(1, 1))]);
        }
        let grant = |locks: &mut FileLocks| {
            let mut edges = vec![];
            locks.waits_of(locker(2, 2), &mut edges);
            edges[0].grant
        };
        let before = grant(&mut locks);
        set(&mut locks, 1, lock(1, LockKind::Read, 0, 99));
        assert_ne!(grant(&mut locks), before, "another lock of the same owner");
        set(&mut locks, 1, lock(1, LockKind::Unlock, 0, 99));
        assert_eq!(edges(&mut locks, locker(2, 2)), [], "granted");
        assert!(locks.confirmed.is_empty(), "and forgotten");
    }

    #[test]
    fn flock_and_fcntl_do_not_meet() {
        let mut locks = FileLocks::default();
        set(&mut locks, 1, lock(1, LockKind::Write, 0, u64::MAX));
        let flock = FileLock { flock: true, ..lock(2, LockKind::Write, 0, u64::MAX) };
        assert_eq!(set(&mut locks, 1, flock).0, Outcome::Granted);
    }

    #[test]
    fn a_dead_session_frees_what_it_held_and_what_it_waited_for() {
        let mut locks = FileLocks::default();
        set(&mut locks, 1, lock(1, LockKind::Write, 0, 9));
        set(&mut locks, 2, lock(2, LockKind::Write, 0, 9));
        set(&mut locks, 3, lock(3, LockKind::Write, 0, 9));
        let mut granted = vec![];
        locks.drop_all(None, |s, _| s == SessionId(2), &mut granted);
        assert!(granted.is_empty());
        locks.drop_all(None, |s, _| s == SessionId(1), &mut granted);
        assert_eq!(granted.iter().map(|(_, w)| w.session).collect::<Vec<_>>(), [SessionId(3)]);
    }
}
