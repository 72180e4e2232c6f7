//! A hash table of entries of `W` words each, in pages, that grows by a part at a time.
//!
//! Where an entry is its *place* says, 36 bits of a hash: the first [`DEPTH_MAX`] choose a *segment*, the last 16, its *fragment*, the group of
//! slots at which a search in it begins (linear probing, over the segment's pages as a ring). A segment that is full gets one more page; one
//! with all pages is split in two, by one bit of the place more (extendible hashing). So at most [`SEGMENT_PAGES`] pages are looked at by any
//! change, however large the table is, and no second copy of it exists while it grows.

use super::pages::{PAGE_WORDS, Pages, Slabs};
use alloc::vec::Vec;
use core::marker::PhantomData;

/// Bits of a place.
const PLACE_BITS: u32 = 36;
/// Bits of a place that may choose a segment.
const DEPTH_MAX: u32 = 20;
/// Pages that a segment has at most.
const SEGMENT_PAGES: usize = 16;
/// Pages that a split needs beyond those that it frees, at most.
pub(super) const SPLIT_PAGES: usize = 4;

/// How entries of `W` words lie in a page: in groups that begin at multiples of a cache line.
pub(super) trait Entry<const W: usize> {
    /// Bits of its places that may choose a segment.
    const DEPTH: u32 = DEPTH_MAX;
    /// Words of a group.
    const STRIDE: usize;
    /// Entries of a group.
    const GROUP: usize;

    /// The fragment of an entry of a group; none if it is free.
    fn fragment(group: &[u64], at: usize) -> Option<u16>;

    /// The words of an entry of a group.
    fn words(group: &[u64], at: usize) -> &[u64; W];

    /// As [`words`](Entry::words); they do not change what the entry is found by.
    fn words_mut(group: &mut [u64], at: usize) -> &mut [u64; W];

    /// Writes an entry.
    fn put(group: &mut [u64], at: usize, fragment: u16, words: &[u64; W]);

    /// Frees an entry.
    fn free(group: &mut [u64], at: usize);
}

/// What a group has.
enum Seen {
    This(usize),
    Free,
    Others,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    pages: [u32; SEGMENT_PAGES],
    count: u8,
    depth: u8,
    used: u32,
}

/// Where an entry is, until the table changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot {
    segment: u32,
    slot: u32,
}

#[derive(Debug)]
pub(super) struct Table<E, const W: usize> {
    /// The segment of each beginning of a place, of `depth` bits.
    directory: Vec<u32>,
    depth: u32,
    segments: Vec<Segment>,
    /// Entries that are on the way.
    scratch: Vec<(u16, [u64; W])>,
    upper: Vec<(u16, [u64; W])>,
    entry: PhantomData<E>,
}

impl<E: Entry<W>, const W: usize> Table<E, W> {
    /// Groups of a page.
    const GROUPS: usize = PAGE_WORDS / E::STRIDE;

    /// One that has nothing, and needs a page for its first entry.
    pub(super) fn new() -> Table<E, W> {
        let first = Segment { pages: [0; SEGMENT_PAGES], count: 0, depth: 0, used: 0 };
        Table {
            directory: alloc::vec![0],
            depth: 0,
            segments: alloc::vec![first],
            scratch: Vec::new(),
            upper: Vec::new(),
            entry: PhantomData,
        }
    }

    #[inline]
    fn segment_of(&self, place: u64) -> u32 {
        self.directory[(place >> (PLACE_BITS - self.depth)) as usize]
    }

    /// Groups of a segment.
    #[inline]
    fn groups(segment: &Segment) -> usize {
        usize::from(segment.count) * Self::GROUPS
    }

    /// Entries that so many pages hold: 27 of 32 slots.
    fn most(pages: usize) -> usize {
        pages * Self::GROUPS * E::GROUP * 27 / 32
    }

    /// The group at which a search begins.
    #[inline]
    fn home(fragment: u16, groups: usize) -> usize {
        (usize::from(fragment) * groups) >> 16
    }

    #[inline]
    fn group<'p, S: Slabs>(pages: &'p Pages<S>, segment: &Segment, group: usize) -> &'p [u64] {
        let page = pages.at(segment.pages[group / Self::GROUPS]);
        &page[group % Self::GROUPS * E::STRIDE..][..E::STRIDE]
    }

    #[inline]
    fn group_mut<'p, S: Slabs>(pages: &'p mut Pages<S>, segment: &Segment, group: usize) -> &'p mut [u64] {
        let page = pages.at_mut(segment.pages[group / Self::GROUPS]);
        &mut page[group % Self::GROUPS * E::STRIDE..][..E::STRIDE]
    }

    /// A word of each cache line at which a search for this place looks first: reading them brings the memory near.
    #[inline]
    pub(super) fn touch<S: Slabs>(&self, pages: &Pages<S>, place: u64) -> u64 {
        let segment = &self.segments[self.segment_of(place) as usize];
        let groups = Self::groups(segment);
        if groups == 0 {
            return 0;
        }
        let group = Self::group(pages, segment, Self::home(place as u16, groups));
        group[0] ^ group[E::STRIDE - 1]
    }

    /// The entry of this place that `is` it.
    #[inline]
    pub(super) fn find<S: Slabs>(
        &self,
        pages: &Pages<S>,
        place: u64,
        mut is: impl FnMut(&[u64; W]) -> bool,
    ) -> Option<Slot> {
        let number = self.segment_of(place);
        let segment = &self.segments[number as usize];
        let groups = Self::groups(segment);
        if groups == 0 {
            return None;
        }
        let mut group = Self::home(place as u16, groups);
        loop {
            let words = Self::group(pages, segment, group);
            match Self::search(words, place as u16, &mut is) {
                Seen::This(at) => return Some(Slot { segment: number, slot: (group * E::GROUP + at) as u32 }),
                Seen::Free => return None, // there is always a free one
                Seen::Others => {}
            }
            group += 1;
            if group == groups {
                group = 0;
            }
        }
    }

    #[inline]
    fn search(group: &[u64], fragment: u16, is: &mut impl FnMut(&[u64; W]) -> bool) -> Seen {
        for at in 0..E::GROUP {
            match E::fragment(group, at) {
                None => return Seen::Free,
                Some(there) if there == fragment && is(E::words(group, at)) => return Seen::This(at),
                Some(_) => {}
            }
        }
        Seen::Others
    }

    #[inline]
    pub(super) fn get<'p, S: Slabs>(&self, pages: &'p Pages<S>, at: Slot) -> &'p [u64; W] {
        let slot = at.slot as usize;
        E::words(Self::group(pages, &self.segments[at.segment as usize], slot / E::GROUP), slot % E::GROUP)
    }

    #[inline]
    pub(super) fn get_mut<'p, S: Slabs>(&self, pages: &'p mut Pages<S>, at: Slot) -> &'p mut [u64; W] {
        let slot = at.slot as usize;
        E::words_mut(Self::group_mut(pages, &self.segments[at.segment as usize], slot / E::GROUP), slot % E::GROUP)
    }

    /// Whether an entry of this place can be put, if there are pages.
    pub(super) fn has_room(&self, place: u64) -> bool {
        let segment = &self.segments[self.segment_of(place) as usize];
        let splits = u32::from(segment.depth) < E::DEPTH;
        usize::from(segment.count) < SEGMENT_PAGES || splits || (segment.used as usize) < Self::most(SEGMENT_PAGES)
    }

    /// Puts an entry that is not there. There must be [room](Table::has_room), and [`SPLIT_PAGES`] pages ensured. `place_of` tells the place
    /// of an entry that is there.
    pub(super) fn put<S: Slabs>(
        &mut self,
        pages: &mut Pages<S>,
        place: u64,
        words: &[u64; W],
        place_of: impl Fn(&Pages<S>, &[u64; W]) -> u64,
    ) {
        loop {
            let number = self.segment_of(place) as usize;
            let segment = &mut self.segments[number];
            let count = usize::from(segment.count);
            if (segment.used as usize) < Self::most(count) {
                segment.used += 1;
                Self::fill(pages, segment, place as u16, words);
                return;
            }
            if count < SEGMENT_PAGES {
                self.resize(pages, number, count + 1);
            } else {
                self.split(pages, place, &place_of);
            }
        }
    }

    fn fill<S: Slabs>(pages: &mut Pages<S>, segment: &Segment, fragment: u16, words: &[u64; W]) {
        let groups = Self::groups(segment);
        let mut group = Self::home(fragment, groups);
        loop {
            let there = Self::group_mut(pages, segment, group);
            if let Some(at) = (0..E::GROUP).find(|&at| E::fragment(there, at).is_none()) {
                return E::put(there, at, fragment, words);
            }
            group += 1;
            if group == groups {
                group = 0;
            }
        }
    }

    /// Moves all entries of a segment to the scratch, about in the order of their homes, and gives its pages back.
    fn empty<S: Slabs>(&mut self, pages: &mut Pages<S>, number: usize) {
        let segment = self.segments[number];
        self.scratch.clear();
        for group in 0..Self::groups(&segment) {
            let words = Self::group(pages, &segment, group);
            let used = (0..E::GROUP).filter_map(|at| Some((E::fragment(words, at)?, *E::words(words, at))));
            self.scratch.extend(used);
        }
        for &page in &segment.pages[..usize::from(segment.count)] {
            pages.give_back(page);
        }
    }

    fn resize<S: Slabs>(&mut self, pages: &mut Pages<S>, number: usize, count: usize) {
        self.empty(pages, number);
        let segment = &mut self.segments[number];
        segment.count = count as u8;
        for page in &mut segment.pages[..count] {
            *page = pages.take();
        }
        for (fragment, words) in &self.scratch {
            Self::fill(pages, segment, *fragment, words);
        }
    }

    fn split<S: Slabs>(&mut self, pages: &mut Pages<S>, place: u64, place_of: &impl Fn(&Pages<S>, &[u64; W]) -> u64) {
        let number = self.segment_of(place) as usize;
        let depth = u32::from(self.segments[number].depth) + 1;
        assert!(depth <= E::DEPTH, "room was found before");
        if depth > self.depth {
            self.directory = self.directory.iter().flat_map(|&segment| [segment; 2]).collect();
            self.depth = depth;
        }
        self.empty(pages, number);
        let upper = &mut self.upper;
        self.scratch.retain(|entry| {
            let is_upper = place_of(pages, &entry.1) >> (PLACE_BITS - depth) & 1 == 1;
            if is_upper {
                upper.push(*entry);
            }
            !is_upper
        });
        self.segments[number] = Self::filled(pages, &self.scratch, depth);
        let added = self.segments.len() as u32;
        self.segments.push(Self::filled(pages, &self.upper, depth));
        self.upper.clear();
        // What leads to the segment are the beginnings of places that have its own; the upper half leads to the new one.
        let span = 1usize << (self.depth - depth);
        let first = ((place >> (PLACE_BITS - depth)) | 1) as usize * span;
        self.directory[first..first + span].fill(added);
    }

    /// A segment of these entries, with some room.
    fn filled<S: Slabs>(pages: &mut Pages<S>, entries: &[(u16, [u64; W])], depth: u32) -> Segment {
        let used = entries.len();
        let count = (1..SEGMENT_PAGES).find(|&count| Self::most(count) > used + used / 16).unwrap_or(SEGMENT_PAGES);
        let mut segment =
            Segment { pages: [0; SEGMENT_PAGES], count: count as u8, depth: depth as u8, used: used as u32 };
        for page in &mut segment.pages[..count] {
            *page = pages.take();
        }
        for (fragment, words) in entries {
            Self::fill(pages, &segment, *fragment, words);
        }
        segment
    }

    /// Frees a slot, and moves those that come after it nearer to their homes.
    pub(super) fn remove<S: Slabs>(&mut self, pages: &mut Pages<S>, at: Slot) {
        let number = at.segment as usize;
        let segment = self.segments[number];
        let groups = Self::groups(&segment);
        let slots = groups * E::GROUP;
        let (mut hole, mut next) = (at.slot as usize, at.slot as usize);
        loop {
            next = if next + 1 == slots { 0 } else { next + 1 };
            let group = Self::group(pages, &segment, next / E::GROUP);
            let Some(fragment) = E::fragment(group, next % E::GROUP) else { break };
            let words = *E::words(group, next % E::GROUP);
            let home = Self::home(fragment, groups) * E::GROUP;
            // It may move unless its home lies after the hole, seen from itself backwards.
            if (next + slots - home) % slots >= (next + slots - hole) % slots {
                E::put(Self::group_mut(pages, &segment, hole / E::GROUP), hole % E::GROUP, fragment, &words);
                hole = next;
            }
        }
        E::free(Self::group_mut(pages, &segment, hole / E::GROUP), hole % E::GROUP);
        self.segments[number].used -= 1;
        self.shrink(pages, number);
    }

    /// Gives a page back from a segment that would have room with two less.
    fn shrink<S: Slabs>(&mut self, pages: &mut Pages<S>, number: usize) {
        let Segment { count, used, .. } = self.segments[number];
        let count = usize::from(count);
        if count > 2 && (used as usize) < Self::most(count - 2) || count <= 2 && used == 0 {
            let fewer = if used == 0 { 0 } else { count - 1 };
            self.resize(pages, number, fewer);
        }
    }

    /// The next used slot from a cursor on, which goes round; none after `looks` slots.
    pub(super) fn next<'p, S: Slabs>(
        &self,
        pages: &'p Pages<S>,
        cursor: &mut (usize, usize),
        looks: &mut usize,
    ) -> Option<(Slot, &'p [u64; W])> {
        while *looks > 0 {
            *looks -= 1;
            let (number, slot) = *cursor;
            let Some(segment) = self.segments.get(number) else {
                *cursor = (0, 0);
                continue;
            };
            if slot >= Self::groups(segment) * E::GROUP {
                *cursor = (number + 1, 0);
                continue;
            }
            cursor.1 += 1;
            let group = Self::group(pages, segment, slot / E::GROUP);
            if E::fragment(group, slot % E::GROUP).is_some() {
                return Some((Slot { segment: number as u32, slot: slot as u32 }, E::words(group, slot % E::GROUP)));
            }
        }
        None
    }

    /// Looks that [`next`](Table::next) needs to go round once.
    pub(super) fn round(&self) -> usize {
        self.segments.iter().map(|segment| Self::groups(segment) * E::GROUP + 1).sum::<usize>() + 1
    }

    /// All entries.
    pub(super) fn all<'p, S: Slabs>(&'p self, pages: &'p Pages<S>) -> impl Iterator<Item = &'p [u64; W]> {
        let groups = |segment: &'p Segment| (0..Self::groups(segment)).map(|at| Self::group(pages, segment, at));
        let used =
            |group: &'p [u64]| (0..E::GROUP).filter_map(|at| E::fragment(group, at).map(|_| E::words(group, at)));
        self.segments.iter().flat_map(groups).flat_map(used)
    }

    /// Bytes beside pages.
    pub(super) fn memory(&self) -> usize {
        self.directory.capacity() * size_of::<u32>()
            + self.segments.capacity() * size_of::<Segment>()
            + (self.scratch.capacity() + self.upper.capacity()) * size_of::<(u16, [u64; W])>()
    }
}
