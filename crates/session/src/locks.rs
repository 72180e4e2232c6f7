//! File locks that this session holds or waits for: pure tables. The home decides who gets what; the session remembers,
//! to take its locks again after a restart of the home (DESIGN §6) and to know whether a close has any to drop.

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

    pub(crate) fn any(&self, owner: LockOwner) -> bool {
        self.inodes.get(&owner.id).is_some_and(|held| held.iter().any(|lock| owner.has(lock)))
    }

    /// The locks of an owner.
    pub(crate) fn of(&self, owner: LockOwner) -> Vec<FileLock> {
        let held = self.inodes.get(&owner.id).map_or(&[][..], Vec::as_slice);
        held.iter().filter(|lock| owner.has(lock)).copied().collect()
    }

    /// Owners of locks on inodes that `mine` accepts.
    pub(crate) fn owners(&self, mine: impl Fn(InodeId) -> bool) -> BTreeSet<LockOwner> {
        let inodes = self.inodes.iter().filter(|(id, _)| mine(**id));
        inodes.flat_map(|(&id, held)| held.iter().map(move |lock| LockOwner::of(id, lock))).collect()
    }
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
    fn unlocking_the_middle_leaves_both_ends() {
        let (mut held, id) = (HeldLocks::default(), InodeId(5));
        held.apply(id, lock(LockKind::Write, 0, 99, 1));
        held.apply(id, lock(LockKind::Read, 50, 60, 2));
        held.apply(id, lock(LockKind::Unlock, 10, 19, 1));
        let (one, two) = (LockOwner { id, flock: false, owner: 1 }, LockOwner { id, flock: false, owner: 2 });
        let ranges: Vec<_> = held.of(one).iter().map(|l| (l.start, l.end)).collect();
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
        assert_eq!(held.of(LockOwner::of(id, &write)), [write]);
        held.apply(id, FileLock { flock: true, ..write });
        assert_eq!(held.ranges, 2, "flock and fcntl are spaces of their own");
    }
}
