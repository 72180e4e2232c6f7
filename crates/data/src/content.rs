//! Where the blocks of one generation of a file are, packed.
//!
//! A file of one block (most files) is held in place; others have, per 4 MiB chunk, an array of (physical block, CRC)
//! over the blocks between the first and the last one written there: 8 bytes for 4 KiB of file.

use crate::reserved::Reserved;
use onpath_wire::disk::block::{Extent, Mapping, ReservedRun};
use onpath_wire::limits::{BLOCK_BYTES, CHUNK_BYTES};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Bytes of a block.
pub(crate) const BLOCK: usize = BLOCK_BYTES as usize;
/// Blocks of a chunk.
pub(crate) const CHUNK_BLOCKS: u32 = (CHUNK_BYTES / BLOCK_BYTES) as u32;
/// The whole block counts.
pub(crate) const KEEP_ALL: u16 = BLOCK as u16;
/// [`Mapping::keep`] of a block that has a place and no bytes.
pub(crate) const KEEP_NONE: u16 = 0;
/// No physical block: a hole.
const HOLE: Slot = Slot { phys: u32::MAX, crc: 0 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    phys: u32,
    crc: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Chunk {
    /// Block of the chunk that `slots[0]` is about.
    base: u16,
    /// Slots that are holes.
    holes: u16,
    slots: Vec<Slot>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Many {
    /// Chunks with blocks, by number. Files grow at their end, so a sorted vector is both smallest and fast.
    chunks: Vec<(u32, Chunk)>,
    masks: BTreeMap<u32, u16>,
    reserved: Option<Box<Reserved>>,
}

/// The blocks of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Content {
    /// Nothing is written.
    #[default]
    Empty,
    /// One block.
    One { keep: u16, block: u32, phys: u32, crc: u32 },
    /// More.
    Many(Box<Many>),
}

/// Consecutive blocks that one disk read returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) extent: Extent,
    /// As in [`Mapping`]; a partly trimmed block has a segment of its own.
    pub(crate) keep: u16,
}

impl Chunk {
    fn get(&self, at: u16) -> Option<Slot> {
        let i = at.checked_sub(self.base)?;
        self.slots.get(i as usize).copied().filter(|slot| *slot != HOLE)
    }

    fn set(&mut self, at: u16, slot: Slot) {
        if self.slots.is_empty() {
            self.base = at;
        }
        if at < self.base {
            let missing = (self.base - at) as usize;
            self.slots.splice(0..0, std::iter::repeat_n(HOLE, missing));
            self.base = at;
            self.holes += missing as u16;
        }
        let i = (at - self.base) as usize;
        if i >= self.slots.len() {
            self.holes += (i + 1 - self.slots.len()) as u16;
            self.slots.resize(i + 1, HOLE);
        }
        self.holes = self.holes + u16::from(slot == HOLE) - u16::from(self.slots[i] == HOLE);
        self.slots[i] = slot;
    }

    fn is_empty(&self) -> bool {
        usize::from(self.holes) == self.slots.len()
    }

    /// The first block of it from `at` on that is a hole, or that is none.
    fn next(&self, at: u32, hole: bool) -> Option<u32> {
        let end = u32::from(self.base) + self.slots.len() as u32;
        if hole && at >= u32::from(self.base) && self.holes == 0 {
            return Some(at.max(end)).filter(|&block| block < CHUNK_BLOCKS);
        }
        if hole && (at < u32::from(self.base) || at >= end) {
            return Some(at);
        }
        let from = at.saturating_sub(self.base.into()).min(self.slots.len() as u32) as usize;
        let found = self.slots[from..].iter().position(|slot| (*slot == HOLE) == hole);
        match found {
            Some(i) => Some(u32::from(self.base) + (from + i) as u32),
            None => Some(end).filter(|&block| hole && block < CHUNK_BLOCKS),
        }
    }

    /// Makes the blocks `first..=last` of it holes.
    fn clear(&mut self, first: u32, last: u32, freed: &mut impl FnMut(u32, u32)) {
        let base = u32::from(self.base);
        let from = first.saturating_sub(base).min(self.slots.len() as u32) as usize;
        let to = (last + 1).saturating_sub(base).min(self.slots.len() as u32) as usize;
        for slot in self.slots[from..to.max(from)].iter_mut().filter(|slot| **slot != HOLE) {
            freed(slot.phys, 1);
            *slot = HOLE;
            self.holes += 1;
        }
    }
}

impl Many {
    fn chunk_mut(&mut self, number: u32) -> &mut Chunk {
        let place = match self.chunks.last() {
            Some((last, _)) if *last == number => self.chunks.len() - 1,
            _ => match self.chunks.binary_search_by_key(&number, |(n, _)| *n) {
                Ok(place) => place,
                Err(place) => {
                    if self.chunks.capacity() == 0 {
                        self.chunks.reserve_exact(1);
                    }
                    self.chunks.insert(place, (number, Chunk { base: 0, holes: 0, slots: Vec::new() }));
                    place
                }
            },
        };
        &mut self.chunks[place].1
    }

    fn get(&self, block: u32) -> Option<Mapping> {
        let place = self.chunks.binary_search_by_key(&(block / CHUNK_BLOCKS), |(n, _)| *n).ok()?;
        let Slot { phys, crc } = self.chunks[place].1.get((block % CHUNK_BLOCKS) as u16)?;
        let keep = if self.masks.is_empty() { KEEP_ALL } else { self.masks.get(&block).copied().unwrap_or(KEEP_ALL) };
        Some(Mapping { phys, crc, keep })
    }

    /// Where a block is, or its place is kept.
    fn place(&self, block: u32) -> Option<u32> {
        let reserved = || self.reserved.as_ref().and_then(|reserved| reserved.get(block));
        self.get(block).map(|m| m.phys).or_else(reserved)
    }

    /// The block is in neither way there afterwards.
    fn unset(&mut self, block: u32) {
        if let Some(reserved) = &mut self.reserved {
            reserved.remove(block, block, &mut |_, _| ());
        }
        if let Ok(place) = self.chunks.binary_search_by_key(&(block / CHUNK_BLOCKS), |(n, _)| *n) {
            let chunk = &mut self.chunks[place].1;
            let at = block % CHUNK_BLOCKS;
            chunk.clear(at, at, &mut |_, _| ());
            if chunk.is_empty() {
                self.chunks.remove(place);
            }
        }
        self.masks.remove(&block);
    }

    fn set(&mut self, block: u32, to: Option<Mapping>) {
        match to {
            Some(Mapping { phys, keep: KEEP_NONE, .. }) => {
                self.unset(block);
                self.reserve(ReservedRun { start: block, phys, len: 1 });
            }
            None => self.unset(block),
            Some(Mapping { phys, crc, keep }) => {
                if let Some(reserved) = &mut self.reserved {
                    reserved.remove(block, block, &mut |_, _| ());
                }
                self.chunk_mut(block / CHUNK_BLOCKS).set((block % CHUNK_BLOCKS) as u16, Slot { phys, crc });
                if keep < KEEP_ALL {
                    self.masks.insert(block, keep);
                } else if !self.masks.is_empty() {
                    self.masks.remove(&block);
                }
            }
        }
    }

    fn reserve(&mut self, run: ReservedRun) {
        self.reserved.get_or_insert_default().insert(run);
    }

    fn punch(&mut self, first: u32, last: u32, freed: &mut impl FnMut(u32, u32)) {
        if let Some(reserved) = &mut self.reserved {
            reserved.remove(first, last, freed);
        }
        let from = self.chunks.partition_point(|(number, _)| *number < first / CHUNK_BLOCKS);
        let to = self.chunks.partition_point(|(number, _)| *number <= last / CHUNK_BLOCKS);
        for (number, chunk) in &mut self.chunks[from..to] {
            let start = *number * CHUNK_BLOCKS;
            chunk.clear(first.saturating_sub(start), (last - start).min(CHUNK_BLOCKS - 1), freed);
        }
        let mut at = 0;
        self.chunks.retain(|(_, chunk)| {
            at += 1;
            !((from + 1..=to).contains(&at) && chunk.is_empty())
        });
        while let Some((&block, _)) = self.masks.range(first..=last).next() {
            self.masks.remove(&block);
        }
        self.tidy();
    }

    fn tidy(&mut self) {
        if self.reserved.as_ref().is_some_and(|reserved| reserved.is_empty()) {
            self.reserved = None;
        }
    }

    fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.reserved.is_none()
    }

    fn next(&self, from: u32, hole: bool) -> Option<u32> {
        let mut number = from / CHUNK_BLOCKS;
        let mut at = from % CHUNK_BLOCKS;
        let first = self.chunks.partition_point(|(n, _)| *n < number);
        for (n, chunk) in &self.chunks[first..] {
            if *n > number {
                if hole {
                    return Some(number * CHUNK_BLOCKS + at);
                }
                (number, at) = (*n, 0);
            }
            if let Some(found) = chunk.next(at, hole) {
                return Some(number * CHUNK_BLOCKS + found);
            }
            (number, at) = (number + 1, 0);
        }
        (hole && number <= u32::MAX / CHUNK_BLOCKS).then(|| number * CHUNK_BLOCKS + at)
    }

    fn blocks(&self) -> impl Iterator<Item = (u32, Mapping)> + '_ {
        self.chunks.iter().flat_map(move |(number, chunk)| {
            let first = number * CHUNK_BLOCKS + u32::from(chunk.base);
            let mapped = chunk.slots.iter().enumerate().filter(|(_, slot)| **slot != HOLE);
            mapped.map(move |(i, slot)| {
                let block = first + i as u32;
                let keep = self.masks.get(&block).copied().unwrap_or(KEEP_ALL);
                (block, Mapping { phys: slot.phys, crc: slot.crc, keep })
            })
        })
    }

    fn cut(&mut self, blocks: u64, reserved_too: bool, freed: &mut impl FnMut(u32, u32)) {
        if let (Some(reserved), Ok(first), true) = (&mut self.reserved, u32::try_from(blocks), reserved_too) {
            reserved.remove(first, u32::MAX, freed);
            self.tidy();
        }
        while let Some((number, chunk)) = self.chunks.last_mut() {
            let first = u64::from(*number) * u64::from(CHUNK_BLOCKS) + u64::from(chunk.base);
            let stay = blocks.saturating_sub(first).min(chunk.slots.len() as u64) as usize;
            chunk.slots.drain(stay..).filter(|slot| *slot != HOLE).for_each(|slot| freed(slot.phys, 1));
            chunk.holes = chunk.slots.iter().filter(|slot| **slot == HOLE).count() as u16;
            if !chunk.is_empty() {
                chunk.slots.shrink_to_fit();
                break;
            }
            self.chunks.pop();
        }
        while let Some(entry) = self.masks.last_entry().filter(|entry| u64::from(*entry.key()) >= blocks) {
            entry.remove();
        }
    }
}

impl Content {
    /// Where a block is, unless it is a hole.
    #[inline]
    pub(crate) fn get(&self, block: u32) -> Option<Mapping> {
        match self {
            Content::Empty => None,
            Content::One { keep, block: at, phys, crc } => {
                (*at == block).then_some(Mapping { phys: *phys, crc: *crc, keep: *keep })
            }
            Content::Many(many) => many.get(block),
        }
    }

    /// Where a block is, with bytes or without.
    pub(crate) fn place(&self, block: u32) -> Option<u32> {
        match self {
            Content::Many(many) => many.place(block),
            _ => self.get(block).map(|m| m.phys),
        }
    }

    /// The same, with [`KEEP_NONE`] for a block that is only reserved.
    pub(crate) fn mapping(&self, block: u32) -> Option<Mapping> {
        let reserved = || self.place(block).map(|phys| Mapping { phys, crc: 0, keep: KEEP_NONE });
        self.get(block).or_else(reserved)
    }

    /// Puts a block somewhere else; returns its place before.
    pub(crate) fn set(&mut self, block: u32, to: Option<Mapping>) -> Option<u32> {
        let before = self.place(block);
        match (&mut *self, to) {
            (Content::Empty, None) => {}
            (Content::Empty, Some(m)) if m.keep > KEEP_NONE => *self = Content::one(block, m),
            (Content::One { block: at, .. }, None) if *at == block => *self = Content::Empty,
            (Content::One { block: at, .. }, Some(m)) if *at == block && m.keep > KEEP_NONE => {
                *self = Content::one(block, m);
            }
            (Content::One { .. }, None) => {}
            (Content::Many(many), to) => {
                many.set(block, to);
                self.shrink();
            }
            (_, to) => self.many().set(block, to),
        }
        before
    }

    /// The same content in the form that holds anything, which alone has chunks.
    pub(crate) fn many(&mut self) -> &mut Many {
        if !matches!(self, Content::Many(_)) {
            let mut many = Box::<Many>::default();
            if let Content::One { keep, block, phys, crc } = *self {
                many.set(block, Some(Mapping { phys, crc, keep }));
            }
            *self = Content::Many(many);
        }
        let Content::Many(many) = self else { unreachable!("made above") };
        many
    }

    fn shrink(&mut self) {
        if let Content::Many(many) = self {
            many.tidy();
            if many.is_empty() {
                *self = Content::Empty;
            }
        }
    }

    /// Keeps places for blocks that have none.
    pub(crate) fn reserve(&mut self, run: ReservedRun) {
        self.many().reserve(run);
    }

    /// Makes the blocks `first..=last` a hole; their places go to `freed` as (first, count).
    pub(crate) fn punch(&mut self, first: u32, last: u32, freed: &mut impl FnMut(u32, u32)) {
        match self {
            Content::One { block, phys, .. } if (first..=last).contains(block) => {
                freed(*phys, 1);
                *self = Content::Empty;
            }
            Content::Empty | Content::One { .. } => {}
            Content::Many(many) => {
                many.punch(first, last, freed);
                self.shrink();
            }
        }
    }

    /// Reserved blocks within `first..=last`, in order.
    pub(crate) fn reserved(&self, first: u32, last: u32) -> impl Iterator<Item = ReservedRun> + '_ {
        let many = if let Content::Many(many) = self { many.reserved.as_ref() } else { None };
        many.into_iter().flat_map(move |reserved| reserved.within(first, last))
    }

    /// All reserved blocks, in order.
    pub(crate) fn all_reserved(&self) -> impl Iterator<Item = ReservedRun> + '_ {
        let many = if let Content::Many(many) = self { many.reserved.as_ref() } else { None };
        many.into_iter().flat_map(|reserved| reserved.runs())
    }

    /// The first block from `from` on with bytes, or with `hole` the first without; none if there is none.
    pub(crate) fn next(&self, from: u32, hole: bool) -> Option<u32> {
        match self {
            Content::Empty => hole.then_some(from),
            Content::One { block, .. } if hole => {
                if *block == from {
                    from.checked_add(1)
                } else {
                    Some(from)
                }
            }
            Content::One { block, .. } => (*block >= from).then_some(*block),
            Content::Many(many) => many.next(from, hole),
        }
    }

    /// Runs of blocks within `first..=last` that have no place, as (first, count).
    pub(crate) fn gaps(&self, first: u32, last: u32) -> Gaps<'_> {
        Gaps { content: self, at: Some(first), last }
    }

    fn one(block: u32, m: Mapping) -> Content {
        Content::One { keep: m.keep, block, phys: m.phys, crc: m.crc }
    }

    /// Frees everything at and after byte `size`, with reserved blocks or without; what remains of the block there ends at that byte.
    pub(crate) fn trim(&mut self, size: u64, reserved_too: bool, mut freed: impl FnMut(u32, u32)) {
        let blocks = size.div_ceil(BLOCK_BYTES);
        match self {
            Content::Empty => {}
            Content::One { block, phys, .. } if u64::from(*block) >= blocks => {
                freed(*phys, 1);
                *self = Content::Empty;
            }
            Content::One { .. } => {}
            Content::Many(many) => {
                many.cut(blocks, reserved_too, &mut freed);
                if many.is_empty() {
                    *self = Content::Empty;
                }
            }
        }
        let rest = (size % BLOCK_BYTES) as u16;
        if rest == 0 {
            return;
        }
        let last = (blocks - 1) as u32;
        if let Some(m) = self.get(last) {
            self.set(last, Some(Mapping { keep: m.keep.min(rest), ..m }));
        }
    }

    /// All blocks in order.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (u32, Mapping)> + '_ {
        let (one, many) = match self {
            Content::Empty => (None, None),
            Content::One { keep, block, phys, crc } => {
                (Some((*block, Mapping { phys: *phys, crc: *crc, keep: *keep })), None)
            }
            Content::Many(many) => (None, Some(many.blocks())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// The blocks among `first..=last` as segments, each readable at once: physically consecutive, in one data file.
    pub(crate) fn segments(&self, first: u32, last: u32, file_blocks: u32) -> SmallVec<[Segment; 1]> {
        let mut segments = SmallVec::<[Segment; 1]>::new();
        for block in first..=last {
            let Some(Mapping { phys, crc, keep }) = self.get(block) else { continue };
            match segments.last_mut() {
                Some(Segment { extent: e, keep: before })
                    if *before == KEEP_ALL && keep == KEEP_ALL && follows(e, block, phys, file_blocks) =>
                {
                    e.crcs.push(crc);
                }
                _ => {
                    let extent = Extent { start: block, phys, crcs: SmallVec::from_slice(&[crc]) };
                    segments.push(Segment { extent, keep });
                }
            }
        }
        segments
    }

    /// Numbers of the chunks that have any of the blocks `first..=last`; none for a file held in place.
    pub(crate) fn chunks_in(&self, first: u32, last: u32) -> impl Iterator<Item = u32> + '_ {
        let many = if let Content::Many(many) = self { Some(many) } else { None };
        many.into_iter().flat_map(move |many| {
            let from = many.chunks.partition_point(|(number, _)| *number < first / CHUNK_BLOCKS);
            many.chunks[from..].iter().map(|(number, _)| *number).take_while(move |n| *n <= last / CHUNK_BLOCKS)
        })
    }

    /// Whether there are reserved blocks.
    pub(crate) fn has_reserved(&self) -> bool {
        matches!(self, Content::Many(many) if many.reserved.is_some())
    }

    /// Bytes that it takes beside itself, about.
    pub(crate) fn heap_bytes(&self) -> u64 {
        let Content::Many(many) = self else { return 0 };
        let chunks = many.chunks.iter().map(|(_, chunk)| chunk.slots.capacity() * size_of::<Slot>());
        let own = size_of::<Many>() + many.chunks.capacity() * size_of::<(u32, Chunk)>() + chunks.sum::<usize>();
        let reserved = many.reserved.as_ref().map_or(0, |reserved| reserved.bytes());
        (own + reserved + many.masks.len() * 16) as u64
    }

    /// The last block written.
    pub(crate) fn last(&self) -> Option<u32> {
        match self {
            Content::Empty => None,
            Content::One { block, .. } => Some(*block),
            Content::Many(many) => many.chunks.iter().rev().find_map(|(number, chunk)| {
                let i = chunk.slots.iter().rposition(|slot| *slot != HOLE)?;
                Some(number * CHUNK_BLOCKS + u32::from(chunk.base) + i as u32)
            }),
        }
    }
}

/// Runs of blocks without a place.
pub(crate) struct Gaps<'a> {
    content: &'a Content,
    at: Option<u32>,
    last: u32,
}

impl Iterator for Gaps<'_> {
    type Item = (u32, u64);

    fn next(&mut self) -> Option<(u32, u64)> {
        loop {
            let first = self.content.next(self.at.filter(|&at| at <= self.last)?, true).filter(|&b| b <= self.last)?;
            let reserved = self.content.reserved(first, self.last).next();
            if let Some(run) = reserved.filter(|run| run.start == first) {
                self.at = first.checked_add(run.len);
                continue;
            }
            let data = self.content.next(first, false).map_or(u64::MAX, u64::from);
            let reserved = reserved.map_or(u64::MAX, |run| run.start.into());
            let end = data.min(reserved).min(u64::from(self.last) + 1);
            self.at = u32::try_from(end).ok();
            return Some((first, end - u64::from(first)));
        }
    }
}

/// Whether this block continues the extent, within one data file.
fn follows(e: &Extent, block: u32, phys: u32, file_blocks: u32) -> bool {
    let n = e.crcs.len() as u32;
    block - e.start == n && e.phys + n == phys && !phys.is_multiple_of(file_blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(phys: u32) -> Mapping {
        Mapping { phys, crc: phys * 3, keep: KEEP_ALL }
    }

    #[test]
    fn a_small_file_fits_into_sixteen_bytes() {
        assert_eq!(size_of::<Content>(), 16);
    }

    #[test]
    fn blocks_are_found_wherever_they_were_put() {
        let mut content = Content::default();
        for block in [5, 3, 4, 1024 * 7 + 9, 1024 * 2, 5] {
            content.set(block, Some(at(block + 100)));
        }
        let found: Vec<_> = content.blocks().map(|(block, m)| (block, m.phys)).collect();
        assert_eq!(found, [(3, 103), (4, 104), (5, 105), (2048, 2148), (7177, 7277)]);
        assert_eq!(content.get(6), None);
        assert_eq!(content.last(), Some(7177));
        assert_eq!(content.chunks_in(0, u32::MAX).collect::<Vec<_>>(), [0, 2, 7]);
        assert_eq!(content.chunks_in(1024, 1024 * 3).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_trim_frees_what_is_behind_it_and_masks_the_block_it_cuts() {
        let mut content = Content::default();
        for block in 0..3000 {
            content.set(block, Some(at(block)));
        }
        let mut freed = vec![];
        content.trim(1025 * 4096 + 10, true, |phys, n| freed.extend(phys..phys + n));
        freed.sort_unstable();
        assert_eq!(freed, (1026..3000).collect::<Vec<_>>());
        assert_eq!(content.get(1025).map(|m| m.keep), Some(10));
        content.set(1025, Some(at(9)));
        assert_eq!(content.get(1025).map(|m| m.keep), Some(KEEP_ALL));
        content.trim(0, true, |_, _| ());
        assert_eq!(content, Content::Empty);
    }

    #[test]
    fn a_segment_ends_at_a_hole_a_jump_a_mask_and_the_end_of_a_file() {
        let mut content = Content::default();
        for (block, phys) in [(0, 14), (1, 15), (2, 16), (3, 17), (5, 19), (6, 30), (7, 31)] {
            content.set(block, Some(at(phys)));
        }
        content.set(7, Some(Mapping { keep: 5, ..at(31) }));
        let segments: Vec<_> =
            content.segments(0, 9, 16).iter().map(|s| (s.extent.start, s.extent.crcs.len(), s.keep)).collect();
        assert_eq!(segments, [(0, 2, KEEP_ALL), (2, 2, KEEP_ALL), (5, 1, KEEP_ALL), (6, 1, KEEP_ALL), (7, 1, 5)]);
    }
}
