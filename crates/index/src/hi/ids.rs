//! Where the record of an id is: eight bytes an id, of which 36 bits are the place of the record and 27 of the hash of the id. Records move
//! within their segment without a change here.

use super::pages::{Pages, Slabs};
use super::table::{Entry, Slot, Table};
use crate::hash::Secret;
use crate::types::DirId;

/// Marks tables of places of records.
#[derive(Debug)]
struct Places;

const RECORD_BITS: u32 = 36;
const RECORD_MASK: u64 = (1 << RECORD_BITS) - 1;
/// Bits of the hash that choose the slot.
const FRAGMENT_BITS: u32 = 11;

impl Entry<1> for Places {
    const DEPTH: u32 = 16;
    const STRIDE: usize = 8;
    const GROUP: usize = 8;

    #[inline]
    fn fragment(group: &[u64], at: usize) -> Option<u16> {
        (group[at] != 0).then_some(place(tag(group[at])) as u16)
    }

    #[inline]
    fn words(group: &[u64], at: usize) -> &[u64; 1] {
        &group.as_chunks().0[at]
    }

    #[inline]
    fn words_mut(group: &mut [u64], at: usize) -> &mut [u64; 1] {
        &mut group.as_chunks_mut().0[at]
    }

    fn put(group: &mut [u64], at: usize, _: u16, words: &[u64; 1]) {
        group[at] = words[0];
    }

    fn free(group: &mut [u64], at: usize) {
        group[at] = 0;
    }
}

/// 27 bits of a hash, above one that tells the entry from a free one.
#[inline]
fn tag(word: u64) -> u64 {
    word >> (RECORD_BITS + 1)
}

/// 16 bits that choose a segment, four of nothing, and 16 for the slot.
#[inline]
fn place(tag: u64) -> u64 {
    let fragment = tag & ((1 << FRAGMENT_BITS) - 1);
    (tag >> FRAGMENT_BITS) << 20 | fragment << (16 - FRAGMENT_BITS)
}

/// An entry.
fn word(tag: u64, record: u64) -> u64 {
    tag << (RECORD_BITS + 1) | 1 << RECORD_BITS | record
}

#[derive(Debug)]
pub(super) struct Ids {
    table: Table<Places, 1>,
}

impl Ids {
    pub(super) fn new() -> Ids {
        Ids { table: Table::new() }
    }

    /// The tag of an id.
    #[inline]
    pub(super) fn tag(secret: &Secret, id: DirId) -> u64 {
        secret.of_number(id.0) >> 37
    }

    pub(super) fn has_room(&self, tag: u64) -> bool {
        self.table.has_room(place(tag))
    }

    /// The entry of an id: `is_there` says whether its record is at this place.
    #[inline]
    pub(super) fn find<S: Slabs>(
        &self,
        pages: &Pages<S>,
        tag: u64,
        mut is_there: impl FnMut(u64) -> bool,
    ) -> Option<Slot> {
        self.table.find(pages, place(tag), |words| self::tag(words[0]) == tag && is_there(words[0] & RECORD_MASK))
    }

    pub(super) fn put<S: Slabs>(&mut self, pages: &mut Pages<S>, tag: u64, record: u64) {
        self.table.put(pages, place(tag), &[word(tag, record)], |_, words| place(self::tag(words[0])));
    }

    /// Writes another place to an entry of this tag.
    pub(super) fn set<S: Slabs>(&mut self, pages: &mut Pages<S>, at: Slot, tag: u64, record: u64) {
        *self.table.get_mut(pages, at) = [word(tag, record)];
    }

    pub(super) fn remove<S: Slabs>(&mut self, pages: &mut Pages<S>, at: Slot) {
        self.table.remove(pages, at);
    }

    pub(super) fn memory(&self) -> usize {
        self.table.memory()
    }
}
