//! The lock table: all keys of an operation at once, first come first served, so nothing deadlocks or starves.
//!
//! Pure automaton. Every key has one queue in order of arrival; an operation runs when on each of its keys it
//! is compatible with everyone before it. Locks of an operation that never waits are never put into the table.

use hashbrown::HashMap;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// What is locked: a 64-bit hash of a name or an inode id (two things of one hash share their lock).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Key(pub u64);

/// How it is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Mode {
    /// Together with other readers.
    Shared,
    /// Alone.
    Exclusive,
}

/// Keys of one operation.
pub type Keys = SmallVec<[(Key, Mode); 4]>;

#[derive(Debug)]
struct Waiter {
    op: u32,
    mode: Mode,
    granted: bool,
}

#[derive(Default, Debug)]
pub(crate) struct LockTable {
    queues: HashMap<Key, VecDeque<Waiter>>,
    /// Keys on which an operation still waits.
    missing: HashMap<u32, usize>,
}

/// Sorts, and merges several wishes for one key into the stronger.
#[inline]
pub(crate) fn normalize(keys: &mut Keys) {
    if keys.len() < 2 {
        return;
    }
    keys.sort_unstable_by_key(|&(key, mode)| (key, std::cmp::Reverse(mode)));
    keys.dedup_by_key(|&mut (key, _)| key);
}

impl LockTable {
    /// Whether all keys could be had at once now.
    pub(crate) fn free(&self, keys: &Keys) -> bool {
        self.queues.is_empty()
            || keys.iter().all(|(key, mode)| {
                self.queues
                    .get(key)
                    .is_none_or(|queue| *mode == Mode::Shared && queue.iter().all(|w| w.mode == Mode::Shared))
            })
    }

    /// Queues the operation on all its keys; true when it has them all.
    pub(crate) fn enter(&mut self, op: u32, keys: &Keys) -> bool {
        let mut missing = 0;
        for &(key, mode) in keys {
            let queue = self.queues.entry(key).or_default();
            let granted = match mode {
                Mode::Shared => queue.iter().all(|w| w.mode == Mode::Shared),
                Mode::Exclusive => queue.is_empty(),
            };
            missing += usize::from(!granted);
            queue.push_back(Waiter { op, mode, granted });
        }
        if missing > 0 {
            self.missing.insert(op, missing);
        }
        missing == 0
    }

    /// Whether the operation still waits.
    pub(crate) fn waits(&self, op: u32) -> bool {
        self.missing.contains_key(&op)
    }

    /// Takes the operation out of all its queues; `ready` hears of those that now have all they need.
    pub(crate) fn leave(&mut self, op: u32, keys: &Keys, mut ready: impl FnMut(u32)) {
        self.missing.remove(&op);
        for (key, _) in keys {
            let Some(queue) = self.queues.get_mut(key) else { continue };
            queue.retain(|w| w.op != op);
            if queue.is_empty() {
                self.queues.remove(key);
                continue;
            }
            let mut shared_only = true;
            for (i, w) in queue.iter_mut().enumerate() {
                let now = if w.mode == Mode::Shared { shared_only } else { i == 0 };
                shared_only &= w.mode == Mode::Shared;
                if now && !w.granted {
                    w.granted = true;
                    let left = self.missing.get_mut(&w.op).expect("a waiter misses keys");
                    *left -= 1;
                    if *left == 0 {
                        self.missing.remove(&w.op);
                        ready(w.op);
                    }
                }
                if !now {
                    break;
                }
            }
        }
    }

    /// Number of keys with a queue.
    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(list: &[(u64, Mode)]) -> Keys {
        let mut keys: Keys = list.iter().map(|&(k, m)| (Key(k), m)).collect();
        normalize(&mut keys);
        keys
    }

    #[test]
    fn readers_share_and_a_writer_waits_its_turn() {
        use Mode::{Exclusive, Shared};
        let mut table = LockTable::default();
        let (read, write) = (keys(&[(1, Shared)]), keys(&[(1, Exclusive), (2, Exclusive)]));
        assert!(table.enter(1, &read) && table.enter(2, &read));
        assert!(!table.enter(3, &write) && table.waits(3));
        assert!(!table.enter(4, &read), "a later reader must not starve the writer");
        assert!(!table.free(&keys(&[(2, Shared)])));
        let mut woken = vec![];
        table.leave(1, &read, |op| woken.push(op));
        assert!(woken.is_empty());
        table.leave(2, &read, |op| woken.push(op));
        assert_eq!(woken, [3]);
        table.leave(3, &write, |op| woken.push(op));
        assert_eq!(woken, [3, 4]);
        table.leave(4, &read, |_| ());
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn the_stronger_wish_for_one_key_counts() {
        use Mode::{Exclusive, Shared};
        assert_eq!(keys(&[(1, Shared), (1, Exclusive)]).as_slice(), &[(Key(1), Exclusive)]);
    }

    #[test]
    fn a_waiter_in_the_middle_may_leave() {
        use Mode::{Exclusive, Shared};
        let mut table = LockTable::default();
        let (read, write) = (keys(&[(1, Shared)]), keys(&[(1, Exclusive)]));
        assert!(table.enter(1, &read));
        assert!(!table.enter(2, &write) && !table.enter(3, &read));
        let mut woken = vec![];
        table.leave(2, &write, |op| woken.push(op));
        assert_eq!(woken, [3]);
    }
}
