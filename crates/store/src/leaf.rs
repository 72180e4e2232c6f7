//! A leaf of a listing: entries of one directory, sorted by cookie, in one block of the arena.
//!
//! `count:2 | heap:2 | units of the block:2 | held:2`, then for each entry `cookie:8 | offset:2` in cookie order;
//! from the end of the block downwards the heap of `child:8 | flags:4 bits, kind:4 bits | length:1 | name`. Offsets count
//! from the end of the block, so that a leaf is moved to a larger block by two copies. The heap has no holes. A leaf is *held*
//! if an entry may have changed since the last checkpoint.

use crate::arena::UNIT_BYTES;
use crate::cold::flag;
use crate::names::NameValue;
use onpath_wire::ids::{Cookie, InodeId};
use onpath_wire::inode::Kind;
use std::ops::Range;

const HEAP: usize = 2;
const UNITS: usize = 4;
const IS_HELD: usize = 6;
/// The part of an entry's byte of flags and kind that is the kind.
const KIND_MASK: u8 = 0x0f;
/// Bytes of an empty leaf.
pub(crate) const HEADER: usize = 8;
const SLOT: usize = 10;
const OFFSET: usize = 8;
const KIND: usize = 8;
const LENGTH: usize = 9;
const NAME: usize = 10;

/// Largest leaf, bytes.
pub(crate) const LEAF_BYTES_MAX: usize = 2048;
/// Sizes of leaves, units. They are few, so that what a growing leaf leaves behind fits another one.
const SIZES: [usize; 8] = [6, 8, 12, 16, 24, 32, 48, 64];
/// Above those, sizes are multiples of this, units.
const STEP: usize = 32;

/// Bytes that an entry takes.
pub(crate) fn entry_bytes(name: &[u8]) -> usize {
    SLOT + NAME + name.len()
}

/// The size of the smallest leaf that holds `bytes` with its header, units.
pub(crate) fn leaf_units(bytes: usize) -> usize {
    assert!(bytes <= LEAF_BYTES_MAX, "leaf of {bytes} bytes");
    let units = bytes.div_ceil(UNIT_BYTES);
    SIZES.into_iter().find(|&size| size >= units).unwrap_or_else(|| units.next_multiple_of(STEP))
}

#[inline]
fn short(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes(*bytes[at..].first_chunk().expect("inside the leaf")) as usize
}

fn set_short(bytes: &mut [u8], at: usize, value: usize) {
    let value = u16::try_from(value).expect("a leaf is smaller than 64 KiB");
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

#[inline]
fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("inside the leaf"))
}

/// An entry as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// Position.
    pub(crate) cookie: Cookie,
    /// What the name leads to.
    pub(crate) value: NameValue,
    /// The name.
    pub(crate) name: &'a [u8],
    /// Bits of [`flag`].
    pub(crate) flags: u8,
}

/// A leaf to read: exactly its block.
#[derive(Clone, Copy)]
pub(crate) struct Leaf<'a>(&'a [u8]);

impl<'a> Leaf<'a> {
    /// The leaf at the start of `bytes`.
    #[inline]
    pub(crate) fn at(bytes: &'a [u8]) -> Leaf<'a> {
        Leaf(&bytes[..short(bytes, UNITS) * UNIT_BYTES])
    }

    /// Size of its block, units.
    pub(crate) fn units(self) -> usize {
        self.0.len() / UNIT_BYTES
    }

    /// Number of entries.
    #[inline]
    pub(crate) fn count(self) -> usize {
        short(self.0, 0)
    }

    /// Whether an entry may have changed since the last checkpoint.
    #[inline]
    pub(crate) fn is_held(self) -> bool {
        short(self.0, IS_HELD) != 0
    }

    /// Bytes in use, header included.
    pub(crate) fn used(self) -> usize {
        HEADER + self.count() * SLOT + short(self.0, HEAP)
    }

    /// Whether an entry of this name fits without a larger block.
    pub(crate) fn has_room(self, name: &[u8]) -> bool {
        self.used() + entry_bytes(name) <= self.0.len()
    }

    /// Cookie of an entry.
    #[inline]
    pub(crate) fn cookie(self, index: usize) -> u64 {
        long(self.0, HEADER + index * SLOT)
    }

    #[inline]
    fn offset(self, index: usize) -> usize {
        short(self.0, HEADER + index * SLOT + OFFSET)
    }

    #[inline]
    fn payload(self, index: usize) -> &'a [u8] {
        let bytes = &self.0[self.0.len() - self.offset(index)..];
        &bytes[..NAME + bytes[LENGTH] as usize]
    }

    /// Name of an entry.
    #[inline]
    pub(crate) fn name(self, index: usize) -> &'a [u8] {
        &self.payload(index)[NAME..]
    }

    /// An entry.
    #[inline]
    pub(crate) fn entry(self, index: usize) -> Entry<'a> {
        let payload = self.payload(index);
        let kind = u32::from(payload[KIND] & KIND_MASK) << 12;
        let kind = Kind::from_mode(kind).expect("only known kinds are stored");
        Entry {
            cookie: Cookie(self.cookie(index)),
            value: NameValue { child: InodeId(long(payload, 0)), kind },
            name: &payload[NAME..],
            flags: payload[KIND] & !KIND_MASK,
        }
    }

    /// The first entry whose cookie is at least this.
    ///
    /// Counts instead of searching by halves: no branch to predict, and the lines of a cold leaf are fetched together.
    #[inline]
    pub(crate) fn lower_bound(self, cookie: u64) -> usize {
        let slots = &self.0[HEADER..HEADER + self.count() * SLOT];
        let (slots, _) = slots.as_chunks::<SLOT>();
        slots.iter().map(|slot| usize::from(long(slot, 0) < cookie)).sum()
    }

    /// Where to cut the entries into two parts of about the same size, none of them empty.
    pub(crate) fn middle(self) -> usize {
        let half = (self.used() - HEADER) / 2;
        let mut bytes = 0;
        let fits = |&i: &usize| {
            bytes += entry_bytes(self.name(i));
            bytes <= half
        };
        (0..self.count()).take_while(fits).count().clamp(1, self.count() - 1)
    }

    /// Bytes that a range of entries takes in a leaf of its own.
    pub(crate) fn bytes_of(self, range: Range<usize>) -> usize {
        HEADER + range.map(|i| entry_bytes(self.name(i))).sum::<usize>()
    }

    /// Writes a copy into a new block of `units` at the start of `bytes`.
    pub(crate) fn copy_to(self, bytes: &mut [u8], units: usize) {
        let to = &mut bytes[..units * UNIT_BYTES];
        let (slots, heap) = (HEADER + self.count() * SLOT, short(self.0, HEAP));
        assert!(slots + heap <= to.len(), "leaf does not fit");
        let start = to.len() - heap;
        to[..slots].copy_from_slice(&self.0[..slots]);
        to[start..].copy_from_slice(&self.0[self.0.len() - heap..]);
        set_short(to, UNITS, units);
    }
}

/// A leaf to write: exactly its block.
pub(crate) struct LeafMut<'a>(&'a mut [u8]);

impl<'a> LeafMut<'a> {
    /// The leaf at the start of `bytes`.
    #[inline]
    pub(crate) fn at(bytes: &'a mut [u8]) -> LeafMut<'a> {
        let len = short(bytes, UNITS) * UNIT_BYTES;
        LeafMut(&mut bytes[..len])
    }

    /// An empty leaf in a new block of `units` at the start of `bytes`.
    pub(crate) fn new(bytes: &'a mut [u8], units: usize) -> LeafMut<'a> {
        let bytes = &mut bytes[..units * UNIT_BYTES];
        bytes[..HEADER].fill(0);
        set_short(bytes, UNITS, units);
        LeafMut(bytes)
    }

    /// The leaf, to read.
    pub(crate) fn view(&self) -> Leaf<'_> {
        Leaf(self.0)
    }

    /// Adds entries of another leaf, all after those of this one.
    pub(crate) fn append(&mut self, from: Leaf<'_>, range: Range<usize>) {
        let (mut count, mut heap) = (self.view().count(), short(self.0, HEAP));
        let len = self.0.len();
        for i in range {
            let payload = from.payload(i);
            heap += payload.len();
            let at = HEADER + count * SLOT;
            assert!(at + SLOT + heap <= len, "no room in a leaf");
            self.0[at..at + OFFSET].copy_from_slice(&from.0[HEADER + i * SLOT..][..OFFSET]);
            set_short(self.0, at + OFFSET, heap);
            self.0[len - heap..len - heap + payload.len()].copy_from_slice(payload);
            count += 1;
        }
        set_short(self.0, 0, count);
        set_short(self.0, HEAP, heap);
        set_short(self.0, IS_HELD, usize::from(self.view().is_held() || from.is_held()));
    }

    /// Inserts an entry before the one at `index`; there must be room.
    pub(crate) fn insert(&mut self, index: usize, entry: &Entry<'_>) {
        let (count, heap) = (self.view().count(), short(self.0, HEAP));
        assert!(index <= count && self.view().has_room(entry.name), "no room in a leaf");
        let (at, end) = (HEADER + index * SLOT, HEADER + count * SLOT);
        self.0.copy_within(at..end, at + SLOT);
        let heap = heap + NAME + entry.name.len();
        self.0[at..at + OFFSET].copy_from_slice(&entry.cookie.0.to_le_bytes());
        set_short(self.0, at + OFFSET, heap);
        set_short(self.0, 0, count + 1);
        set_short(self.0, HEAP, heap);
        let start = self.0.len() - heap;
        let payload = &mut self.0[start..start + NAME + entry.name.len()];
        payload[LENGTH] = u8::try_from(entry.name.len()).expect("a name has at most 255 bytes");
        payload[NAME..].copy_from_slice(entry.name);
        self.set_value(index, entry.value, entry.flags);
    }

    /// Replaces what an entry leads to, and its flags.
    pub(crate) fn set_value(&mut self, index: usize, value: NameValue, flags: u8) {
        let start = self.0.len() - self.view().offset(index);
        self.0[start..start + KIND].copy_from_slice(&value.child.0.to_le_bytes());
        self.0[start + KIND] = value.kind.d_type() | flags & !KIND_MASK;
        if flags & flag::HELD != 0 {
            set_short(self.0, IS_HELD, 1);
        }
    }

    /// Shows every entry, and sets the flags that are given back.
    pub(crate) fn each(&mut self, mut each: impl FnMut(&Entry<'_>) -> u8) {
        let mut held = 0;
        for index in 0..self.view().count() {
            let flags = each(&self.view().entry(index));
            let at = self.0.len() - self.view().offset(index) + KIND;
            self.0[at] = self.0[at] & KIND_MASK | flags & !KIND_MASK;
            held |= flags & flag::HELD;
        }
        set_short(self.0, IS_HELD, usize::from(held != 0));
    }

    /// Removes an entry and closes the hole.
    pub(crate) fn remove(&mut self, index: usize) {
        let (count, heap) = (self.view().count(), short(self.0, HEAP));
        let (offset, bytes) = (self.view().offset(index), self.view().payload(index).len());
        let len = self.0.len();
        self.0.copy_within(len - heap..len - offset, len - heap + bytes);
        let (at, end) = (HEADER + index * SLOT, HEADER + count * SLOT);
        self.0.copy_within(at + SLOT..end, at);
        set_short(self.0, 0, count - 1);
        set_short(self.0, HEAP, heap - bytes);
        let (slots, _) = self.0[HEADER..HEADER + (count - 1) * SLOT].as_chunks_mut::<SLOT>();
        for slot in slots {
            // No branch: which entries lie below the hole is as good as random.
            let moved = u16::from_le_bytes([slot[OFFSET], slot[OFFSET + 1]]);
            let less = if usize::from(moved) > offset { bytes as u16 } else { 0 };
            slot[OFFSET..].copy_from_slice(&(moved - less).to_le_bytes());
        }
    }
}
