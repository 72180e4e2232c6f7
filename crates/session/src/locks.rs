//! File locks that this session holds or waits for: pure tables. The home decides who gets what; the session remembers,
//! to take its locks again after a restart of the home (design.md, "Sessions") and to know whether a close has any to drop.

use crate::fs::Caller;
use crate::limits::HELD_LOCKS_MAX;
use onpath_wire::ids::{InodeId, RequestSeq};
use onpath_wire::limits::memory;
use onpath_wire::request::{FileLock, LockKind};
use std::collections::{BTreeMap, BTreeSet};

/// Whose locks on which inode: owners are told apart by space (flock or fcntl) too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LockOwner {
    pub(crate) id: InodeId,
    pub(crate) flock: bool,
    pub(crate) owner: u64,
}

impl LockOwner {
    pub(crate) fn of(id: InodeId, lock: &FileLock) -> LockOwner {
        LockOwner { id, flock: lock.flock, owner: lock.owner }
    }

    fn has(&self, lock: &FileLock) -> bool {
        (lock.flock, lock.owner) == (self.flock, self.owner)
    }
}

/// Locks held, by inode; the ranges of one owner never overlap.
#[derive(Default, Debug)]
pub(crate) struct HeldLocks {
    inodes: BTreeMap<InodeId, Vec<FileLock>>,
    ranges: usize,
    /// Calls that weaken write locks to read locks, by the caller's number: nobody knows whether the home has done it yet.
    weakening: BTreeMap<u64, Weakening>,
}

/// A call under way that makes read locks of an owner's write locks.
#[derive(Debug)]
struct Weakening {
    owner: LockOwner,
    lock: FileLock,
    /// Whether a home that has forgotten them was told of read locks since.
    claimed: bool,
}

impl HeldLocks {
    /// Whether a further lock may be asked for: it can split a range in two.
    pub(crate) fn has_room(&self) -> bool {
        self.ranges + 2 <= HELD_LOCKS_MAX
    }

    /// Ranges locked.
    pub(crate) fn len(&self) -> usize {
        self.ranges
    }

    /// What the home has granted or removed.
    pub(crate) fn apply(&mut self, id: InodeId, lock: FileLock) {
        let held = self.inodes.entry(id).or_default();
        self.ranges -= held.len();
        let mut after: Vec<FileLock> = Vec::with_capacity(held.len() + 2);
        for old in held.drain(..) {
            if !LockOwner::of(id, &lock).has(&old) || old.end < lock.start || lock.end < old.start {
                after.push(old);
                continue;
            }
            if old.start < lock.start {
                after.push(FileLock { end: lock.start - 1, ..old });
            }
            if old.end > lock.end {
                after.push(FileLock { start: lock.end + 1, ..old });
            }
        }
        if lock.kind != LockKind::Unlock {
            after.push(lock);
        }
        self.ranges += after.len();
        if after.is_empty() {
            self.inodes.remove(&id);
        } else {
            self.inodes.insert(id, after);
        }
    }

    /// Forgets all locks of an owner; false if there were none.
    pub(crate) fn drop_owner(&mut self, owner: LockOwner) -> bool {
        let Some(held) = self.inodes.get_mut(&owner.id) else { return false };
        let before = held.len();
        held.retain(|lock| !owner.has(lock));
        let gone = before - held.len();
        self.ranges -= gone;
        if held.is_empty() {
            self.inodes.remove(&owner.id);
        }
        gone > 0
    }

    /// Forgets all locks; on which inodes there were any.
    pub(crate) fn forget_all(&mut self) -> BTreeSet<InodeId> {
        self.ranges = 0;
        std::mem::take(&mut self.inodes).into_keys().collect()
    }

    pub(crate) fn any(&self, owner: LockOwner) -> bool {
        self.inodes.get(&owner.id).is_some_and(|held| held.iter().any(|lock| owner.has(lock)))
    }

    /// The locks of an owner.
    fn of(&self, owner: LockOwner) -> impl Iterator<Item = &FileLock> {
        let held = self.inodes.get(&owner.id).map_or(&[][..], Vec::as_slice);
        held.iter().filter(move |lock| owner.has(lock))
    }

    /// The parts of a lock's range where its owner holds nothing, each to be unlocked.
    pub(crate) fn not_held(&self, owner: LockOwner, lock: &FileLock) -> Vec<FileLock> {
        let mut held: Vec<_> = self.of(owner).map(|held| (held.start, held.end)).collect();
        held.sort_unstable();
        let (mut free, mut start) = (vec![], Some(lock.start));
        for (from, to) in held {
            let Some(at) = start.filter(|at| from <= lock.end && *at <= to) else { continue };
            if at < from {
                free.push((at, from - 1));
            }
            start = to.checked_add(1);
        }
        free.extend(start.filter(|start| *start <= lock.end).map(|start| (start, lock.end)));
        free.into_iter().map(|(start, end)| FileLock { kind: LockKind::Unlock, start, end, ..*lock }).collect()
    }

    /// A call asks for a lock. If that weakens a lock which is held, others may have been granted theirs on the strength of it before
    /// the answer arrives: until [`HeldLocks::asked`] only the weaker one is claimed.
    pub(crate) fn asks(&mut self, unique: u64, id: InodeId, lock: FileLock) {
        let owner = LockOwner::of(id, &lock);
        let weaker = |held: &FileLock| held.kind == LockKind::Write && held.start <= lock.end && lock.start <= held.end;
        if lock.kind == LockKind::Read && self.of(owner).any(weaker) {
            self.weakening.insert(unique, Weakening { owner, lock, claimed: false });
        }
    }

    /// The call of [`HeldLocks::asks`] has ended. True if weaker locks have been claimed meanwhile than are held without it.
    pub(crate) fn asked(&mut self, unique: u64) -> bool {
        self.weakening.remove(&unique).is_some_and(|call| call.claimed)
    }

    /// What an owner claims at a home that has forgotten its locks.
    pub(crate) fn claim(&mut self, owner: LockOwner) -> Vec<FileLock> {
        let mut claim: Vec<FileLock> = self.of(owner).copied().collect();
        for call in self.weakening.values_mut().filter(|call| call.owner == owner) {
            call.claimed = true;
            claim = claim.into_iter().flat_map(|held| weaken(held, &call.lock)).collect();
        }
        claim
    }

    /// Owners of locks on inodes that `mine` accepts.
    pub(crate) fn owners(&self, mine: impl Fn(InodeId) -> bool) -> BTreeSet<LockOwner> {
        let inodes = self.inodes.iter().filter(|(id, _)| mine(**id));
        inodes.flat_map(|(&id, held)| held.iter().map(move |lock| LockOwner::of(id, lock))).collect()
    }
}

/// A lock in up to three parts, where a read lock takes the place of the middle one.
fn weaken(held: FileLock, by: &FileLock) -> impl Iterator<Item = FileLock> {
    let (start, end) = (held.start.max(by.start), held.end.min(by.end));
    let weaker = held.kind == LockKind::Write && start <= end;
    let before = (weaker && held.start < start).then(|| FileLock { end: start - 1, ..held });
    let after = (weaker && end < held.end).then(|| FileLock { start: end + 1, ..held });
    let middle = if weaker { FileLock { kind: LockKind::Read, start, end, ..held } } else { held };
    before.into_iter().chain([middle]).chain(after)
}

/// A lock that the home has queued; `Granted` follows under its sequence number.
#[derive(Clone, Debug)]
pub(crate) struct WaitingLock {
    pub(crate) unique: u64,
    pub(crate) caller: Caller,
    pub(crate) id: InodeId,
    pub(crate) lock: FileLock,
    /// Whether it waits for holders too, and not only until the home knows whether there are any.
    pub(crate) wait: bool,
    /// The caller got a signal and the home is asked to give up.
    pub(crate) cancelling: bool,
    /// The caller has been answered EINTR (the home could not be reached): a grant is given back.
    pub(crate) answered: bool,
    /// It is given up because it is part of a deadlock.
    pub(crate) deadlocked: bool,
    /// Whether it is a process's, and not that of an open file, once that is known.
    pub(crate) process: Option<bool>,
    /// A new sequence number is being asked for, the old one has become too old for the window.
    pub(crate) renewing: bool,
}

const _: () = assert!(2 * size_of::<WaitingLock>() as u64 <= memory::LOCK_AT_SESSION);

/// Waiting locks, by the sequence number of their request.
pub(crate) type WaitingLocks = BTreeMap<RequestSeq, WaitingLock>;

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(kind: LockKind, start: u64, end: u64, owner: u64) -> FileLock {
        FileLock { flock: false, kind, start, end, owner, pid: 1 }
    }

    #[test]
    fn what_is_not_held_of_a_range() {
        let (mut held, id) = (HeldLocks::default(), InodeId(5));
        let owner = LockOwner { id, flock: false, owner: 1 };
        let free = |held: &HeldLocks, start, end| {
            let free = held.not_held(owner, &lock(LockKind::Write, start, end, 1));
            assert!(free.iter().all(|lock| lock.kind == LockKind::Unlock && lock.owner == 1));
            free.iter().map(|lock| (lock.start, lock.end)).collect::<Vec<_>>()
        };
        assert_eq!(free(&held, 0, u64::MAX), [(0, u64::MAX)]);
        held.apply(id, lock(LockKind::Write, 50, 59, 1));
        held.apply(id, lock(LockKind::Read, 10, 19, 1));
        held.apply(id, lock(LockKind::Write, 0, u64::MAX, 2));
        assert_eq!(free(&held, 0, u64::MAX), [(0, 9), (20, 49), (60, u64::MAX)]);
        assert_eq!(free(&held, 15, 55), [(20, 49)]);
        assert_eq!(free(&held, 12, 15), []);
        assert_eq!(free(&held, 5, 9), [(5, 9)]);
        assert_eq!(free(&held, 20, 30), [(20, 30)]);
        held.apply(id, lock(LockKind::Write, 60, u64::MAX, 1));
        assert_eq!(free(&held, 50, u64::MAX), []);
    }

    #[test]
    fn unlocking_the_middle_leaves_both_ends() {
        let (mut held, id) = (HeldLocks::default(), InodeId(5));
        held.apply(id, lock(LockKind::Write, 0, 99, 1));
        held.apply(id, lock(LockKind::Read, 50, 60, 2));
        held.apply(id, lock(LockKind::Unlock, 10, 19, 1));
        let (one, two) = (LockOwner { id, flock: false, owner: 1 }, LockOwner { id, flock: false, owner: 2 });
        let ranges: Vec<_> = held.of(one).map(|l| (l.start, l.end)).collect();
        assert_eq!(ranges, [(0, 9), (20, 99)]);
        assert_eq!(held.owners(|_| true).into_iter().collect::<Vec<_>>(), [one, two]);
        assert!(held.drop_owner(one) && !held.drop_owner(one));
        held.apply(id, lock(LockKind::Unlock, 0, u64::MAX, 2));
        assert_eq!((held.any(two), held.ranges), (false, 0));
    }

    #[test]
    fn a_new_lock_replaces_what_it_covers() {
        let (mut held, id) = (HeldLocks::default(), InodeId(5));
        held.apply(id, lock(LockKind::Read, 0, u64::MAX, 1));
        held.apply(id, lock(LockKind::Write, 0, u64::MAX, 1));
        let write = lock(LockKind::Write, 0, u64::MAX, 1);
        assert_eq!(held.of(LockOwner::of(id, &write)).collect::<Vec<_>>(), [&write]);
        held.apply(id, FileLock { flock: true, ..write });
        assert_eq!(held.ranges, 2, "flock and fcntl are spaces of their own");
    }

    #[test]
    fn a_lock_that_is_being_weakened_is_claimed_as_the_weaker_one() {
        let (mut held, id) = (HeldLocks::default(), InodeId(5));
        let read = lock(LockKind::Read, 10, 19, 1);
        let owner = LockOwner::of(id, &read);
        held.apply(id, lock(LockKind::Write, 0, 99, 1));
        held.apply(id, lock(LockKind::Read, 200, 299, 1));
        let whole = held.claim(owner);
        let claimed =
            |held: &mut HeldLocks| -> Vec<_> { held.claim(owner).iter().map(|l| (l.kind, l.start, l.end)).collect() };
        held.asks(7, id, lock(LockKind::Read, 200, 210, 1));
        held.asks(8, id, lock(LockKind::Write, 10, 19, 1));
        assert_eq!(held.claim(owner), whole, "neither weakens anything");
        held.asks(9, id, read);
        let (r, w) = (LockKind::Read, LockKind::Write);
        assert_eq!(claimed(&mut held), [(w, 0, 9), (r, 10, 19), (w, 20, 99), (r, 200, 299)]);
        assert!(held.asked(9) && !held.asked(9) && !held.asked(7));
        assert_eq!(held.claim(owner), whole);
    }
}
