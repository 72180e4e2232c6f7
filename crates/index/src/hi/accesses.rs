//! Access parts, each held once: most directories have one of few.

use super::record::ACCESSES_MAX;
use crate::hash::Secret;
use crate::types::{Access, IndexError};
use alloc::vec::Vec;
use hashbrown::HashTable;

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    access: Access,
    /// Directories that have it; 0: it is free, and `access.uid` is the next free one.
    count: u32,
}

#[derive(Debug)]
pub(super) struct Accesses {
    all: Vec<Counted>,
    numbers: HashTable<u32>,
    free: u32,
    /// How many there may be.
    most: usize,
    /// What was taken last: most are as the one before.
    last: u32,
}

const NONE: u32 = u32::MAX;

fn hash(secret: &Secret, access: &Access) -> u64 {
    let Access { mode, uid, gid, acl } = *access;
    // One is a number below 2^45, the other below 2^32: no access part is hashed as another is but by chance.
    let first = secret.of_number(u64::from(uid) << 13 | u64::from(mode & 0o7777) << 1 | u64::from(acl));
    secret.of_number(first >> 1 ^ u64::from(gid))
}

impl Accesses {
    /// At most one for each so many bytes that an index may write to: they take less than an eighth of that beside.
    const BYTES_EACH: usize = 512;
    /// As many are for each index.
    const LEAST: usize = 1 << 10;

    /// Those of an index that may write to `limit_bytes`.
    pub(super) fn new(limit_bytes: usize) -> Accesses {
        let most = (limit_bytes / Accesses::BYTES_EACH).clamp(Accesses::LEAST, ACCESSES_MAX);
        Accesses { all: Vec::new(), numbers: HashTable::new(), free: NONE, most, last: 0 }
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Access {
        self.all[number as usize].access
    }

    /// The number of an access part, which one directory more has.
    pub(super) fn take(&mut self, secret: &Secret, access: Access) -> Result<u32, IndexError> {
        if let Some(last) = self.all.get_mut(self.last as usize).filter(|last| last.access == access) {
            last.count += 1;
            return Ok(self.last);
        }
        let hash_of = hash(secret, &access);
        if let Some(&number) = self.numbers.find(hash_of, |&number| self.all[number as usize].access == access) {
            self.all[number as usize].count += 1;
            self.last = number;
            return Ok(number);
        }
        self.reserve_number(secret)?;
        let new = Counted { access, count: 1 };
        let number = if self.free != NONE {
            let number = self.free;
            self.free = core::mem::replace(&mut self.all[number as usize], new).access.uid;
            number
        } else if self.all.len() < self.most {
            self.all.try_reserve(1).map_err(|_| IndexError::Full)?;
            self.all.push(new);
            (self.all.len() - 1) as u32
        } else {
            return Err(IndexError::Full);
        };
        self.last = number;
        let all = &self.all;
        self.numbers.insert_unique(hash_of, number, |&number| hash(secret, &all[number as usize].access));
        Ok(number)
    }

    fn reserve_number(&mut self, secret: &Secret) -> Result<(), IndexError> {
        let hash_of = |&number: &u32| hash(secret, &self.all[number as usize].access);
        self.numbers.try_reserve(1, hash_of).map_err(|_| IndexError::Full)
    }

    /// The number of another access part for a directory that has this one.
    pub(super) fn exchange(&mut self, secret: &Secret, number: u32, access: Access) -> Result<u32, IndexError> {
        match self.take(secret, access) {
            Ok(new) => {
                self.give_back(secret, number);
                Ok(new)
            }
            // Its own is free when nobody else has it, and then there is one to be taken.
            Err(IndexError::Full) if self.all[number as usize].count == 1 => {
                self.reserve_number(secret)?;
                self.give_back(secret, number);
                self.take(secret, access)
            }
            Err(error) => Err(error),
        }
    }

    /// One directory less has it.
    pub(super) fn give_back(&mut self, secret: &Secret, number: u32) {
        let counted = &mut self.all[number as usize];
        counted.count -= 1;
        if counted.count > 0 {
            return;
        }
        let hash_of = hash(secret, &counted.access);
        if let Ok(entry) = self.numbers.find_entry(hash_of, |&other| other == number) {
            entry.remove();
        }
        // A mode that no access part has: it equals none that is looked for.
        self.all[number as usize].access = Access { mode: u16::MAX, uid: self.free, ..Access::default() };
        self.free = number;
    }

    pub(super) fn memory(&self) -> usize {
        self.all.capacity() * size_of::<Counted>() + self.numbers.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shared_and_used_again() {
        let (secret, mut all) = (Secret::new([3; 16]), Accesses::new(1 << 20));
        let of = |uid| Access { mode: 0o755, uid, gid: 5, acl: uid % 2 == 0 };
        let first: Vec<u32> = (0..1_000).map(|uid| all.take(&secret, of(uid)).unwrap()).collect();
        let again: Vec<u32> = (0..1_000).map(|uid| all.take(&secret, of(uid)).unwrap()).collect();
        assert_eq!(first, again);
        for &number in first.iter().chain(&again[..500]) {
            all.give_back(&secret, number);
        }
        for uid in 500..1_000 {
            assert_eq!(all.take(&secret, of(uid)).unwrap(), first[uid as usize]);
        }
        for uid in 2_000..2_500 {
            assert!(all.take(&secret, of(uid)).unwrap() < 1_000, "a number that was free");
        }
        assert_eq!(all.take(&secret, of(7)).unwrap(), 1_000);
        assert_eq!(all.get(1_000), of(7));
    }

    #[test]
    fn they_are_bounded_and_a_directory_may_have_another_one_all_the_same() {
        for limit in [0, 1 << 22] {
            let (secret, mut all) = (Secret::new([3; 16]), Accesses::new(limit));
            let of = |uid| Access { mode: 0o700, uid, ..Access::default() };
            let mut count = 0;
            while all.take(&secret, of(count)).is_ok() {
                count += 1;
            }
            assert_eq!(count as usize, (limit / 512).max(1 << 10));
            assert!(all.memory() <= limit.max(1 << 19) / 8, "{} of {limit}", all.memory());
            assert_eq!(all.take(&secret, of(0)), Ok(0), "two have it");
            assert_eq!(all.exchange(&secret, 0, of(u32::MAX)), Err(IndexError::Full));
            assert_eq!((all.get(0), all.take(&secret, of(u32::MAX))), (of(0), Err(IndexError::Full)));
            for uid in count..3 * count {
                assert_eq!(all.exchange(&secret, 5, of(uid)), Ok(5));
                assert_eq!(all.get(5), of(uid));
            }
            assert_eq!(all.exchange(&secret, 5, of(0)), Ok(0));
            assert_eq!(all.take(&secret, of(u32::MAX)), Ok(5));
        }
    }
}
