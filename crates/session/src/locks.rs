//! File locks that this session holds or waits for: pure tables. The home decides who gets what; the session remembers,
//! to take its locks again after a restart of the home (DESIGN §6) and to know whether a close has any to drop.

use crate::fs::Caller;
use crate::limits::HELD_LOCKS_MAX;
use onpath_wire::ids::{InodeId, RequestSeq};
use onpath_wire::request::{FileLock, LockKind};
use std::collections::BTreeMap;

/// Locks held, by inode; the ranges of one owner and space never overlap.
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

    /// What the home has granted or removed.
    pub(crate) fn apply(&mut self, id: InodeId, lock: FileLock) {
        let held = self.inodes.entry(id).or_default();
        self.ranges -= held.len();
        let mut after: Vec<FileLock> = Vec::with_capacity(held.len() + 2);
        for old in held.drain(..) {
            if (old.flock, old.owner) != (lock.flock, lock.owner) || old.end < lock.start || lock.end < old.start {
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
    pub(crate) fn drop_owner(&mut self, id: InodeId, flock: bool, owner: u64) -> bool {
        let Some(held) = self.inodes.get_mut(&id) else { return false };
        let before = held.len();
        held.retain(|l| (l.flock, l.owner) != (flock, owner));
        let gone = before - held.len();
        self.ranges -= gone;
        if held.is_empty() {
            self.inodes.remove(&id);
        }
        gone > 0
    }

    pub(crate) fn owner_has_any(&self, id: InodeId, flock: bool, owner: u64) -> bool {
        self.inodes.get(&id).is_some_and(|held| held.iter().any(|l| (l.flock, l.owner) == (flock, owner)))
    }

    pub(crate) fn of(&self, id: InodeId) -> &[FileLock] {
        self.inodes.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Inodes with locks that `mine` accepts, in order.
    pub(crate) fn inodes(&self, mine: impl Fn(InodeId) -> bool) -> impl Iterator<Item = InodeId> {
        self.inodes.keys().copied().filter(move |&id| mine(id))
    }
}

/// A lock that the home has queued; `Granted` follows under its sequence number.
#[derive(Clone, Debug)]
pub(crate) struct WaitingLock {
    pub(crate) unique: u64,
    pub(crate) caller: Caller,
    pub(crate) id: InodeId,
    pub(crate) lock: FileLock,
    /// The caller got a signal and the home is asked to give up.
    pub(crate) cancelling: bool,
    /// The caller has been answered EINTR (the home could not be reached): a grant is given back.
    pub(crate) answered: bool,
    /// A new sequence number is being asked for, the old one has become too old for the window.
    pub(crate) renewing: bool,
}

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
        let ranges: Vec<_> = held.of(id).iter().map(|l| (l.owner, l.start, l.end)).collect();
        assert_eq!(ranges, [(1, 0, 9), (1, 20, 99), (2, 50, 60)]);
        assert!(held.drop_owner(id, false, 1) && !held.drop_owner(id, false, 1));
        held.apply(id, lock(LockKind::Unlock, 0, u64::MAX, 2));
        assert_eq!((held.of(id).len(), held.ranges), (0, 0));
    }

    #[test]
    fn a_new_lock_replaces_what_it_covers() {
        let (mut held, id) = (HeldLocks::default(), InodeId(5));
        held.apply(id, lock(LockKind::Read, 0, u64::MAX, 1));
        held.apply(id, lock(LockKind::Write, 0, u64::MAX, 1));
        assert_eq!(held.of(id), [lock(LockKind::Write, 0, u64::MAX, 1)]);
        held.apply(id, FileLock { flock: true, ..lock(LockKind::Write, 0, u64::MAX, 1) });
        assert_eq!(held.of(id).len(), 2, "flock and fcntl are spaces of their own");
    }
}
