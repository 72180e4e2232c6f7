//! The table of ids alone, for indexes that keep their directories elsewhere.

use super::CHANGE_PAGES;
use super::ids::Ids;
use super::pages::{Heap, Pages};
use crate::hash::Secret;
use crate::types::{DirId, IndexError};

/// Numbers of 32 bits by ids, which it does not keep itself: who uses it says whose number one is. Grows by a part at a time.
#[derive(Debug)]
pub struct IdMap {
    secret: Secret,
    pages: Pages<Heap>,
    ids: Ids,
}

impl IdMap {
    /// An empty one, of at most so many bytes.
    pub fn new(secret: Secret, limit_bytes: usize) -> IdMap {
        IdMap { secret, pages: Pages::new(Heap, limit_bytes / super::PAGE_BYTES), ids: Ids::new() }
    }

    /// The number of an id: `is_its` tells it from those of others.
    #[inline]
    pub fn get(&self, id: DirId, mut is_its: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut number = None;
        self.ids.find(&self.pages, Ids::tag(&self.secret, id), |found| {
            number = Some(found as u32).filter(|&found| is_its(found));
            number.is_some()
        })?;
        number
    }

    /// Sees to it that these ids, which may have numbers already, can be [put](IdMap::put) next.
    pub fn reserve(&mut self, ids: [DirId; 2]) -> Result<(), IndexError> {
        self.pages.ensure(2 * CHANGE_PAGES)?;
        let room = ids.iter().all(|&id| self.ids.has_room(Ids::tag(&self.secret, id)));
        if room { Ok(()) } else { Err(IndexError::Full) }
    }

    /// Notes the number of an id that has none.
    pub fn put(&mut self, id: DirId, number: u32) -> Result<(), IndexError> {
        let tag = Ids::tag(&self.secret, id);
        self.pages.ensure(CHANGE_PAGES)?;
        if !self.ids.has_room(tag) {
            return Err(IndexError::Full);
        }
        self.ids.put(&mut self.pages, tag, number.into());
        Ok(())
    }

    /// Notes another number of an id that has this one.
    pub fn change(&mut self, id: DirId, before: u32, number: u32) {
        let tag = Ids::tag(&self.secret, id);
        if let Some(at) = self.ids.find(&self.pages, tag, |found| found == u64::from(before)) {
            self.ids.set(&mut self.pages, at, tag, number.into());
        }
    }

    /// Forgets the number of an id that has this one.
    pub fn remove(&mut self, id: DirId, number: u32) {
        let tag = Ids::tag(&self.secret, id);
        if let Some(at) = self.ids.find(&self.pages, tag, |found| found == u64::from(number)) {
            self.ids.remove(&mut self.pages, at);
        }
    }

    /// Bytes that it has: reserved, and touched at some time.
    pub fn memory(&self) -> (usize, usize) {
        let (reserved, touched) = self.pages.memory();
        (reserved + self.ids.memory(), touched + self.ids.memory())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_changed_and_forgotten() {
        let mut map = IdMap::new(Secret::new([4; 16]), 1 << 20);
        for id in 1..=5_000 {
            map.put(DirId(id), id as u32).unwrap();
        }
        for id in (1..=5_000).step_by(2) {
            map.change(DirId(id), id as u32, id as u32 + 10_000);
        }
        for id in (1..=5_000).step_by(3) {
            map.remove(DirId(id), if id % 2 == 1 { id as u32 + 10_000 } else { id as u32 });
        }
        for id in 1..=5_000u32 {
            let expected = (id % 3 != 1).then_some(if id % 2 == 1 { id + 10_000 } else { id });
            assert_eq!(map.get(DirId(id.into()), |number| number % 10_000 == id), expected);
        }
        let mut small = IdMap::new(Secret::new([4; 16]), 3 * super::super::PAGE_BYTES);
        assert_eq!(small.put(DirId(1), 1), Err(IndexError::Full));
    }
}
