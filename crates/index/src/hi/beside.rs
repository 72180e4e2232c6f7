//! Children of directories that are not held, and of those that have very many: how many there are, by the id of the parent.

use super::pages::{Pages, Slabs};
use super::table::{Entry, SPLIT_PAGES, Table};
use crate::hash::Secret;
use crate::types::DirId;

/// Marks tables of counts: an id and a count each.
#[derive(Debug)]
struct Counts;

const COUNT_MASK: u64 = (1 << 48) - 1;

impl Entry<2> for Counts {
    const STRIDE: usize = 8;
    const GROUP: usize = 4;

    #[inline]
    fn fragment(group: &[u64], at: usize) -> Option<u16> {
        let [id, count] = *Self::words(group, at);
        (id != 0).then_some((count >> 48) as u16)
    }

    #[inline]
    fn words(group: &[u64], at: usize) -> &[u64; 2] {
        &group.as_chunks().0[at]
    }

    #[inline]
    fn words_mut(group: &mut [u64], at: usize) -> &mut [u64; 2] {
        &mut group.as_chunks_mut().0[at]
    }

    fn put(group: &mut [u64], at: usize, _: u16, words: &[u64; 2]) {
        *Self::words_mut(group, at) = *words;
    }

    fn free(group: &mut [u64], at: usize) {
        *Self::words_mut(group, at) = [0; 2];
    }
}

#[derive(Debug)]
pub(super) struct Beside {
    table: Table<Counts, 2>,
    len: usize,
}

fn place(secret: &Secret, parent: DirId) -> u64 {
    secret.of_number(parent.0) >> 28
}

impl Beside {
    pub(super) fn new() -> Beside {
        Beside { table: Table::new(), len: 0 }
    }

    pub(super) fn get<S: Slabs>(&self, pages: &Pages<S>, secret: &Secret, parent: DirId) -> u64 {
        if self.len == 0 {
            return 0;
        }
        let found = self.table.find(pages, place(secret, parent), |words| words[0] == parent.0);
        found.map_or(0, |at| self.table.get(pages, at)[1] & COUNT_MASK)
    }

    /// Whether a count of this directory can be [set](Beside::set), if there are [`SPLIT_PAGES`] pages.
    pub(super) fn has_room(&self, secret: &Secret, parent: DirId) -> bool {
        self.table.has_room(place(secret, parent))
    }

    /// Sets a count; 0 takes no memory. False: it is a new one, and there is no memory for it.
    #[must_use]
    pub(super) fn set<S: Slabs>(&mut self, pages: &mut Pages<S>, secret: &Secret, parent: DirId, count: u64) -> bool {
        let place = place(secret, parent);
        let found = self.table.find(pages, place, |words| words[0] == parent.0);
        let second = place << 48 | count & COUNT_MASK;
        match found {
            Some(at) if count == 0 => {
                self.table.remove(pages, at);
                self.len -= 1;
            }
            Some(at) => self.table.get_mut(pages, at)[1] = second,
            None if count == 0 => {}
            None if pages.ensure(SPLIT_PAGES).is_err() || !self.table.has_room(place) => return false,
            None => {
                let place_of = |_: &Pages<S>, words: &[u64; 2]| self::place(secret, DirId(words[0]));
                self.table.put(pages, place, &[parent.0, second], place_of);
                self.len += 1;
            }
        }
        true
    }

    pub(super) fn memory(&self) -> usize {
        self.table.memory()
    }
}
