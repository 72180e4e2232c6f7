//! A directory in 40 bytes, of which three and the fragments of their places are a group of two cache lines.
//!
//! | word | bits |
//! |---|---|
//! | 0 | id 53, length of a short name 4 (15: a long one), used lately 1, a ghost 1 |
//! | 1 | parent 53, children that are held 11 ([`CROWD`]: they are counted beside) |
//! | 2 | grant 64 |
//! | 3 | number of the access part 24, bytes 9 to 13 of a short name, or the length of a long one |
//! | 4 | the first 8 bytes of a short name, or where a long one is 32 and 32 bits more of its hash |
//!
//! The first word of a group has 17 bits for each: its fragment, and that it is there.
//!
//! A *ghost* is a directory that is held no longer, whose children nobody else could count. No name leads to it.

use super::table::Entry;
use crate::types::{DirId, Grant};

/// Bytes of the longest name that a record holds itself.
pub(super) const SHORT_MAX: usize = 13;
/// A count of children from which on they are counted beside.
pub(super) const CROWD: u64 = (1 << 11) - 1;
/// Access parts that can be told apart.
pub(super) const ACCESSES_MAX: usize = 1 << 24;

const ID_BITS: u32 = 53;
const ID_MASK: u64 = (1 << ID_BITS) - 1;
const LONG: u64 = 15;
const USED: u64 = 1 << 57;
const GHOST: u64 = 1 << 58;
/// What of the first word a key is compared with: ghosts have none.
const KIND_MASK: u64 = LONG | GHOST >> ID_BITS;
const ACCESS_MASK: u64 = (1 << 24) - 1;
const NAME_SHIFT: u32 = 24;
/// Bits of a fragment in the first word of a group.
const TAG_BITS: usize = 17;
const THERE: u64 = 1 << 16;

pub(super) type Words = [u64; 5];

/// Marks tables of records.
#[derive(Debug)]
pub(super) struct Records;

impl Entry<5> for Records {
    const STRIDE: usize = 16;
    const GROUP: usize = 3;

    #[inline]
    fn fragment(group: &[u64], at: usize) -> Option<u16> {
        let tag = group[0] >> (TAG_BITS * at);
        (tag & THERE != 0).then_some(tag as u16)
    }

    #[inline]
    fn words(group: &[u64], at: usize) -> &Words {
        &group[1..].as_chunks().0[at]
    }

    #[inline]
    fn words_mut(group: &mut [u64], at: usize) -> &mut Words {
        &mut group[1..].as_chunks_mut().0[at]
    }

    fn put(group: &mut [u64], at: usize, fragment: u16, words: &Words) {
        Self::free(group, at);
        group[0] |= (u64::from(fragment) | THERE) << (TAG_BITS * at);
        *Self::words_mut(group, at) = *words;
    }

    fn free(group: &mut [u64], at: usize) {
        group[0] &= !(((1 << TAG_BITS) - 1) << (TAG_BITS * at));
    }
}

/// A name as a record is compared with: where it lies is not part of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) parent: DirId,
    /// 36 bits.
    pub(super) place: u64,
    kind: u64,
    third: u64,
    fourth: u64,
    fourth_mask: u64,
}

impl Key {
    #[inline]
    pub(super) fn new(parent: DirId, name: &[u8], hash: u64) -> Key {
        let place = hash >> 28;
        if name.len() <= SHORT_MAX {
            let (first, rest) = short(name);
            let third = first << NAME_SHIFT;
            Key { parent, place, kind: name.len() as u64, third, fourth: rest, fourth_mask: u64::MAX }
        } else {
            let third = (name.len() as u64) << NAME_SHIFT;
            let fourth = hash & u64::from(u32::MAX);
            Key { parent, place, kind: LONG, third, fourth, fourth_mask: u64::from(u32::MAX) }
        }
    }

    /// Whether the record can have this name and is no ghost: surely if the name is short.
    #[inline]
    pub(super) fn fits(&self, words: &Words) -> bool {
        words[1] & ID_MASK == self.parent.0
            && words[3] & !ACCESS_MASK == self.third
            && words[4] & self.fourth_mask == self.fourth
            && words[0] >> ID_BITS & KIND_MASK == self.kind
    }

    #[inline]
    pub(super) fn is_long(&self) -> bool {
        self.kind == LONG
    }
}

/// The first eight and the other five bytes, the latter first.
#[inline]
fn short(name: &[u8]) -> (u64, u64) {
    match name.first_chunk() {
        Some(first) => (padded(&name[8..]), u64::from_le_bytes(*first)),
        None => (0, padded(name)),
    }
}

/// A number of less than eight bytes, by two that overlap.
#[inline]
fn padded(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)));
        return first | last << (8 * (len - 4));
    }
    let mut word = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        word |= u64::from(byte) << (8 * at);
    }
    word
}

/// A record of this id and key, without children.
pub(super) fn new(id: DirId, key: &Key, long_at: u32, grant: Grant, access: u32) -> Words {
    let at = if key.is_long() { u64::from(long_at) << 32 } else { 0 };
    [id.0 | key.kind << ID_BITS, key.parent.0, grant.packed(), key.third | u64::from(access), key.fourth | at]
}

#[inline]
pub(super) fn id(words: &Words) -> DirId {
    DirId(words[0] & ID_MASK)
}

#[inline]
pub(super) fn parent(words: &Words) -> DirId {
    DirId(words[1] & ID_MASK)
}

#[inline]
pub(super) fn grant(words: &Words) -> Grant {
    Grant::unpacked(words[2])
}

#[inline]
pub(super) fn access(words: &Words) -> u32 {
    (words[3] & ACCESS_MASK) as u32
}

pub(super) fn set_access(words: &mut Words, access: u32, grant: Grant) {
    words[2] = grant.packed();
    words[3] = words[3] & !ACCESS_MASK | u64::from(access);
}

/// Children, at most [`CROWD`].
pub(super) fn children(words: &Words) -> u64 {
    words[1] >> ID_BITS
}

pub(super) fn set_children(words: &mut Words, count: u64) {
    words[1] = words[1] & ID_MASK | count << ID_BITS;
}

pub(super) fn is_used(words: &Words) -> bool {
    words[0] & USED != 0
}

pub(super) fn set_used(words: &mut Words, used: bool) {
    words[0] = words[0] & !USED | if used { USED } else { 0 };
}

pub(super) fn is_ghost(words: &Words) -> bool {
    words[0] & GHOST != 0
}

pub(super) fn set_ghost(words: &mut Words) {
    words[0] |= GHOST;
}

/// A name as its record has it.
pub(super) enum Stored {
    Short([u8; 16], usize),
    Long { at: u32, len: usize },
}

pub(super) fn name(words: &Words) -> Stored {
    let (more, first) = (words[3] >> NAME_SHIFT, words[4]);
    match words[0] >> ID_BITS & LONG {
        LONG => Stored::Long { at: (first >> 32) as u32, len: more as usize },
        len => {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&first.to_le_bytes());
            bytes[8..].copy_from_slice(&more.to_le_bytes());
            Stored::Short(bytes, len as usize)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_gives_back_what_it_was_made_of() {
        let grant = Grant { term: Grant::TERM_MAX, count: Grant::COUNT_MAX };
        for len in 0..=SHORT_MAX {
            let bytes = &b"\xff\x01cdefghijkl\xfe"[..len];
            let key = Key::new(DirId(5), bytes, 0xfedc_ba98_7654_3210);
            let mut words = new(DirId::MAX, &key, 7, grant, ACCESSES_MAX as u32 - 1);
            assert!(key.fits(&words) && !key.is_long());
            set_children(&mut words, CROWD);
            set_used(&mut words, true);
            assert!(key.fits(&words) && is_used(&words) && children(&words) == CROWD);
            assert_eq!((id(&words), parent(&words), self::grant(&words)), (DirId::MAX, DirId(5), grant));
            assert_eq!(access(&words), ACCESSES_MAX as u32 - 1);
            set_access(&mut words, 3, Grant::default());
            assert_eq!((access(&words), self::grant(&words)), (3, Grant::default()));
            let Stored::Short(stored, n) = name(&words) else { panic!("a short name") };
            assert_eq!(&stored[..n], bytes);
            set_ghost(&mut words);
            assert!(is_ghost(&words) && !key.fits(&words) && id(&words) == DirId::MAX);
        }
    }

    #[test]
    fn another_name_or_parent_does_not_fit() {
        let words = new(DirId(9), &Key::new(DirId(5), b"name", 1 << 40), 0, Grant::default(), 1);
        for (parent, name) in [(6, &b"name"[..]), (5, b"nam"), (5, b"name\0"), (5, b"nama")] {
            assert!(!Key::new(DirId(parent), name, 1 << 40).fits(&words), "{parent} {name:?}");
        }
        let long = Key::new(DirId(5), &[b'x'; 14], 1);
        let words = new(DirId(9), &long, u32::MAX, Grant::default(), 1);
        assert!(long.fits(&words) && !Key::new(DirId(5), &[b'x'; 15], 1).fits(&words));
        assert!(!Key::new(DirId(5), &[b'x'; 14], 2).fits(&words));
        assert!(matches!(name(&words), Stored::Long { at: u32::MAX, len: 14 }));
    }

    #[test]
    fn entries_of_a_group_do_not_disturb_each_other() {
        let mut group = [0; 16];
        let words = |at: u64| [at + 1, u64::MAX, 0, u64::MAX, at];
        for order in [[0, 1, 2], [2, 1, 0]] {
            for at in order {
                Records::put(&mut group, at, u16::MAX - at as u16, &words(7));
                Records::put(&mut group, at, at as u16, &words(at as u64));
            }
            for at in 0..3 {
                assert_eq!(Records::fragment(&group, at), Some(at as u16));
                assert_eq!(*Records::words(&group, at), words(at as u64));
            }
            Records::free(&mut group, 1);
            assert_eq!([0, 1, 2].map(|at| Records::fragment(&group, at).is_some()), [true, false, true]);
        }
    }
}
