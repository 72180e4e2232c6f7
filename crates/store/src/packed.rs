//! The packed form of an inode: 8-byte words, of which those with a usual value are left out.
//!
//! The first word tells which words follow: `low 41 bits of the id | present:23`, `uid:32 | mode:16 | nlink:16`,
//! parent, birth time, then the present ones in the order of their bits. Of a symlink follow the length of its
//! target and the target, of a directory the length of its name, a byte, and the name, of a file the positions of
//! refused writes. The high bits of an id are those of its table (see `slots`).
//!
//! A file takes 64 bytes, or 72 if its group has another number than its owner: what a first write and a first
//! read change has its place from birth, so that a million files that live on do not leave a million holes.

use crate::arena::UNIT_BYTES;
use crate::slots::GROUP_SLOTS;
use onpath_wire::WireError;
use onpath_wire::codec::Blob;
use onpath_wire::disk::inode::{Inode, Refused};
use onpath_wire::ids::{Generation, InodeId, LogSeq, SLOT_SHIFT, Slot, Stamp};
use onpath_wire::inode::Kind;
use onpath_wire::limits::TARGET_BYTES_MAX;
use onpath_wire::name::Name;
use onpath_wire::peer::Access;
use std::cmp::Ordering;

/// Words that every inode has.
const WORDS_MIN: usize = 4;
/// Bits, in the order of their words.
mod bit {
    /// `gid:32 | nlink:32`; else the gid is the uid, and nlink fits 16 bits.
    pub(super) const GID_NLINK: u32 = 1;
    /// Generation; else 0.
    pub(super) const GENERATION: u32 = 1 << 1;
    /// Change time; else the birth time.
    pub(super) const CTIME: u32 = 1 << 2;
    /// Modification time; else the change time.
    pub(super) const MTIME: u32 = 1 << 3;
    /// Stamp of the modification time; else the modification time, or with [`STAMP_IS_CTIME`] the change time.
    pub(super) const MTIME_STAMP: u32 = 1 << 4;
    /// Access time; else the birth time.
    pub(super) const ATIME: u32 = 1 << 5;
    /// Size; else 0.
    pub(super) const SIZE: u32 = 1 << 6;
    /// Low halves of blocks and their version; else 0.
    pub(super) const BLOCKS: u32 = 1 << 7;
    /// High halves of blocks and their version; else 0.
    pub(super) const BLOCKS_HIGH: u32 = 1 << 8;
    /// Entries; else 0.
    pub(super) const ENTRIES: u32 = 1 << 9;
    /// `cut:32 | rdev:32`; else 0.
    pub(super) const CUT_RDEV: u32 = 1 << 10;
    /// A bit without a word: the modification time was set explicitly in the last change.
    pub(super) const STAMP_IS_CTIME: u32 = 1 << 11;
    /// Up to where writes are known; else that is not remembered. Behind all words of before, as is the next one: who asks for none of
    /// both need not know of them.
    pub(super) const MERGED: u32 = 1 << 12;
    /// How many writes were refused; else none.
    pub(super) const REFUSED: u32 = 1 << 13;
    /// Both.
    pub(super) const WRITES: u32 = MERGED | REFUSED;
    /// All bits that stand for words.
    pub(super) const WORDS: u32 = ((1 << 14) - 1) & !STAMP_IS_CTIME;
    /// Number of bits that stand for words.
    pub(super) const COUNT: usize = WORDS.count_ones() as usize;
}
const WORDS_MAX: usize = WORDS_MIN + bit::COUNT + 1;
/// Number of bits of an id that a record has; the others are those for [`bit`]s.
const ID_BITS: u32 = SLOT_SHIFT + GROUP_SLOTS.ilog2();
const ID_MASK: u64 = (1 << ID_BITS) - 1;
const _: () = assert!(ID_BITS == 41);
const TYPE_SHIFT: u32 = 12;
const MODE_MASK: u16 = (1 << TYPE_SHIFT) - 1;

fn pair(low: u64, high: u64) -> u64 {
    low & u64::from(u32::MAX) | high << 32
}

fn halves(word: u64) -> (u64, u64) {
    (word & u64::from(u32::MAX), word >> 32)
}

/// Units of arena for an inode of `kind` with these words, room for those it will soon have included.
fn units(kind: Kind, present: u32, tail_bytes: usize) -> usize {
    let soon = match kind {
        Kind::File => bit::CTIME | bit::ATIME | bit::SIZE | bit::BLOCKS,
        Kind::Directory => bit::CTIME | bit::ATIME | bit::ENTRIES,
        _ => 0,
    };
    words(kind, present | soon) + tail_bytes.div_ceil(UNIT_BYTES)
}

fn words(kind: Kind, present: u32) -> usize {
    WORDS_MIN + (present & bit::WORDS).count_ones() as usize + usize::from(kind == Kind::Symlink)
}

/// An inode's words, ready to be written.
pub(crate) struct Packed<'a> {
    words: [u64; WORDS_MAX],
    len: usize,
    present: u32,
    kind: Kind,
    tail: Tail<'a>,
}

/// What follows the words.
enum Tail<'a> {
    /// A symlink's target, or nothing.
    Target(&'a [u8]),
    /// A directory's name, its length before it.
    Name(&'a [u8]),
    /// Of a file's refused writes.
    Positions(&'a [LogSeq]),
}

impl Tail<'_> {
    fn bytes(&self) -> usize {
        match self {
            Tail::Target(target) => target.len(),
            Tail::Name(name) => name.len() + 1,
            Tail::Positions(positions) => size_of_val(*positions),
        }
    }
}

impl<'a> Packed<'a> {
    /// Why an inode cannot be packed, which none is that a shard makes.
    pub(crate) fn check(i: &Inode) -> Result<(), WireError> {
        let writes = i.merged.is_some() || i.refused.is_some();
        let checks = [
            (i.id.is_some(), "number of an inode"),
            (i.mode <= MODE_MASK, "mode of an inode"),
            (i.target.0.is_empty() || i.kind == Kind::Symlink, "target of what is no symbolic link"),
            (i.target.0.len() <= TARGET_BYTES_MAX, "length of a target"),
            (i.name.is_none() || i.is_dir(), "name of what is no directory"),
            (!writes || i.kind == Kind::File, "writes of what is no file"),
        ];
        checks.into_iter().find(|(fits, _)| !fits).map_or(Ok(()), |(_, what)| Err(WireError::Bad(what)))
    }

    /// Packs an inode.
    pub(crate) fn of(i: &'a Inode) -> Packed<'a> {
        let target = i.target.0.as_slice();
        assert!(i.mode <= MODE_MASK, "mode {:o} has more than permission bits", i.mode);
        assert!(target.len() <= TARGET_BYTES_MAX, "target of {} bytes", target.len());
        assert!(target.is_empty() || i.kind == Kind::Symlink, "{:?} with a target", i.kind);
        let name = i.name.as_ref().map_or(&[][..], Name::as_bytes);
        assert!(name.is_empty() || i.is_dir(), "{:?} with a name of its own", i.kind);
        let tail = if i.is_dir() { Tail::Name(name) } else { Tail::Target(target) };
        let mut p = Packed { words: [0; WORDS_MAX], len: WORDS_MIN, present: 0, kind: i.kind, tail };
        let nlink = u16::try_from(i.nlink).unwrap_or(0);
        let mode = i.mode | u16::from(i.kind.d_type()) << TYPE_SHIFT;
        p.words[1] = u64::from(i.uid) | u64::from(mode) << 32 | u64::from(nlink) << 48;
        p.words[2] = i.parent.0;
        p.words[3] = i.btime as u64;
        let usual = i.gid == i.uid && i.nlink <= u32::from(u16::MAX);
        p.unless(usual, bit::GID_NLINK, pair(i.gid.into(), i.nlink.into()));
        p.unless(i.generation.0 == 0, bit::GENERATION, i.generation.0);
        p.unless(i.ctime == i.btime, bit::CTIME, i.ctime as u64);
        p.unless(i.mtime == i.ctime, bit::MTIME, i.mtime as u64);
        let (stamp_is_mtime, stamp_is_ctime) = (i.mtime_stamp.0 == i.mtime as u64, i.mtime_stamp.0 == i.ctime as u64);
        p.unless(stamp_is_mtime || stamp_is_ctime, bit::MTIME_STAMP, i.mtime_stamp.0);
        if stamp_is_ctime && !stamp_is_mtime {
            p.present |= bit::STAMP_IS_CTIME;
        }
        p.unless(i.atime == i.btime, bit::ATIME, i.atime as u64);
        p.unless(i.size == 0, bit::SIZE, i.size);
        let (blocks, version) = (halves(i.blocks), halves(i.blocks_version));
        p.unless(blocks.0 | version.0 == 0, bit::BLOCKS, pair(blocks.0, version.0));
        p.unless(blocks.1 | version.1 == 0, bit::BLOCKS_HIGH, pair(blocks.1, version.1));
        p.unless(i.entries == 0, bit::ENTRIES, i.entries);
        p.unless(i.cut | i.rdev == 0, bit::CUT_RDEV, pair(i.cut.into(), i.rdev.into()));
        if i.kind == Kind::Symlink {
            p.words[p.len] = target.len() as u64;
            p.len += 1;
        }
        if i.merged.is_some() || i.refused.is_some() {
            p.writes(i);
        }
        p.words[0] = i.id.0 & ID_MASK | u64::from(p.present) << ID_BITS;
        p
    }

    /// What is known of a file's writes.
    #[cold]
    fn writes(&mut self, i: &'a Inode) {
        assert!(i.kind == Kind::File, "{:?} with writes", i.kind);
        let refused = i.refused.as_ref().map_or(&[][..], Refused::positions);
        self.unless(i.merged.is_none(), bit::MERGED, i.merged.unwrap_or_default().0);
        self.unless(refused.is_empty(), bit::REFUSED, refused.len() as u64);
        self.tail = Tail::Positions(refused);
    }

    #[inline(always)]
    fn unless(&mut self, usual: bool, bit: u32, word: u64) {
        if !usual {
            self.words[self.len] = word;
            self.len += 1;
            self.present |= bit;
        }
    }

    /// Units of arena that the record takes.
    pub(crate) fn units(&self) -> usize {
        units(self.kind, self.present, self.tail.bytes())
    }

    /// Writes the record.
    pub(crate) fn write(&self, record: &mut [u8]) {
        let (words, rest) = record.split_at_mut(self.len * UNIT_BYTES);
        for (to, word) in words.chunks_exact_mut(UNIT_BYTES).zip(&self.words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        match self.tail {
            Tail::Target(target) => rest[..target.len()].copy_from_slice(target),
            Tail::Name(name) => {
                rest[0] = name.len() as u8; // names are no longer than 255 bytes
                rest[1..][..name.len()].copy_from_slice(name);
            }
            Tail::Positions(positions) => {
                for (to, position) in rest.chunks_exact_mut(UNIT_BYTES).zip(positions) {
                    to.copy_from_slice(&position.0.to_le_bytes());
                }
            }
        }
    }
}

/// A stored record; bytes may follow it.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a>(pub(crate) &'a [u8]);

impl<'a> Record<'a> {
    #[inline]
    fn word(self, index: usize) -> u64 {
        let at = index * UNIT_BYTES;
        u64::from_le_bytes(*self.0[at..].first_chunk().expect("a record is longer than its words"))
    }

    #[inline]
    fn present(self) -> u32 {
        (self.word(0) >> ID_BITS) as u32
    }

    /// The id, given a slot of its table.
    #[inline]
    pub(crate) fn id(self, slot: Slot) -> InodeId {
        let high = u64::from(slot.0 / GROUP_SLOTS) << ID_BITS;
        InodeId(high | self.word(0) & ID_MASK)
    }

    /// Its order towards `id`, among the records of its table.
    #[inline]
    pub(crate) fn order(self, id: InodeId) -> Ordering {
        (self.word(0) & ID_MASK).cmp(&(id.0 & ID_MASK))
    }

    /// File type.
    pub(crate) fn kind(self) -> Kind {
        Kind::from_mode((self.word(1) >> 32) as u32 & 0xf000).expect("only known kinds are stored")
    }

    /// Links.
    pub(crate) fn nlink(self) -> u32 {
        self.gid_nlink().1
    }

    fn gid_nlink(self) -> (u32, u32) {
        if self.present() & bit::GID_NLINK != 0 {
            let (gid, nlink) = halves(self.word(WORDS_MIN));
            (gid as u32, nlink as u32)
        } else {
            (self.word(1) as u32, (self.word(1) >> 48) as u32)
        }
    }

    /// The access part, without ACLs.
    pub(crate) fn access(self) -> Access {
        let mode = (self.word(1) >> 32) as u16 & MODE_MASK;
        Access { mode, uid: self.word(1) as u32, gid: self.gid_nlink().0, acls: None }
    }

    /// 4 KiB blocks.
    pub(crate) fn blocks(self) -> u64 {
        let present = self.present();
        let half = |bit: u32| {
            let before = (present & (bit - 1)).count_ones() as usize;
            if present & bit == 0 { 0 } else { halves(self.word(WORDS_MIN + before)).0 }
        };
        pair(half(bit::BLOCKS), half(bit::BLOCKS_HIGH))
    }

    /// A symlink's target.
    pub(crate) fn target(self) -> &'a [u8] {
        if self.kind() != Kind::Symlink {
            return &[];
        }
        let words = words(Kind::Symlink, self.present());
        &self.0[words * UNIT_BYTES..][..self.word(words - 1) as usize]
    }

    /// The name of a directory, which this is.
    fn name(self) -> &'a [u8] {
        let tail = &self.0[words(Kind::Directory, self.present()) * UNIT_BYTES..];
        &tail[1..][..usize::from(tail[0])]
    }

    /// How many writes of a file, which this is, were refused: their positions follow the words.
    fn refused_len(self) -> usize {
        match self.present() & bit::REFUSED {
            0 => 0,
            _ => self.word(words(Kind::File, self.present()) - 1) as usize,
        }
    }

    /// Up to where writes of a file, which this is, are known, and which of them were refused.
    #[cold]
    fn writes(self) -> (Option<LogSeq>, Option<Refused>) {
        let present = self.present();
        let words = words(Kind::File, present);
        let before = words - (present & bit::WRITES).count_ones() as usize;
        let merged = (present & bit::MERGED != 0).then(|| LogSeq(self.word(before)));
        let positions = (words..words + self.refused_len()).map(|at| LogSeq(self.word(at)));
        (merged, Refused::of(positions.collect()).expect("they were packed in order"))
    }

    /// Units of arena that the record takes.
    pub(crate) fn units(self) -> usize {
        let kind = self.kind();
        let tail = match kind {
            Kind::File => self.refused_len() * UNIT_BYTES,
            Kind::Directory => 1 + self.name().len(),
            _ => self.target().len(),
        };
        units(kind, self.present(), tail)
    }

    /// All of it.
    pub(crate) fn whole(self, slot: Slot) -> Inode {
        let mut inode = self.unpack(slot);
        match inode.kind {
            Kind::File if self.present() & bit::WRITES == 0 => {}
            Kind::File => (inode.merged, inode.refused) = self.writes(),
            Kind::Directory => {
                let name = self.name();
                inode.name = (!name.is_empty()).then(|| Name::new(name).expect("only names are packed as such"));
            }
            _ => inode.target = Blob(self.target().to_vec()),
        }
        inode
    }

    /// Everything but the target, the name, and what is known of writes, which stay empty: nothing is allocated.
    #[inline]
    pub(crate) fn unpack(self, slot: Slot) -> Inode {
        let mut fields = Fields { record: self, present: self.present(), next: WORDS_MIN };
        let (gid, nlink) = self.gid_nlink();
        fields.next += usize::from(fields.present & bit::GID_NLINK != 0);
        let Access { mode, uid, .. } = self.access();
        let (id, kind, parent) = (self.id(slot), self.kind(), InodeId(self.word(2)));
        let btime = self.word(3);
        let generation = Generation(fields.or(bit::GENERATION, 0));
        let ctime = fields.or(bit::CTIME, btime);
        let mtime = fields.or(bit::MTIME, ctime);
        let stamp = if fields.present & bit::STAMP_IS_CTIME != 0 { ctime } else { mtime };
        let mtime_stamp = Stamp(fields.or(bit::MTIME_STAMP, stamp));
        let atime = fields.or(bit::ATIME, btime) as i64;
        let size = fields.or(bit::SIZE, 0);
        let low = halves(fields.or(bit::BLOCKS, 0));
        let high = halves(fields.or(bit::BLOCKS_HIGH, 0));
        let entries = fields.or(bit::ENTRIES, 0);
        let (cut, rdev) = halves(fields.or(bit::CUT_RDEV, 0));
        let (cut, rdev) = (cut as u32, rdev as u32);
        let (blocks, blocks_version) = (pair(low.0, high.0), pair(low.1, high.1));
        let (btime, ctime, mtime) = (btime as i64, ctime as i64, mtime as i64);
        let target = Blob::default();
        Inode {
            id,
            kind,
            mode,
            uid,
            gid,
            nlink,
            size,
            blocks,
            blocks_version,
            atime,
            mtime,
            ctime,
            btime,
            mtime_stamp,
            rdev,
            parent,
            entries,
            generation,
            cut,
            target,
            name: None,
            merged: None,
            refused: None,
        }
    }
}

/// Changes entries and times of a directory in place if its record has the usual form before and after: one time for
/// the last change, of names. Else nothing is done, and false is returned.
pub(crate) fn touch_record(bytes: &mut [u8], dcount: i64, stamp: Stamp) -> bool {
    let record = Record(bytes);
    let usual = (record.present() & !bit::ATIME & !bit::GID_NLINK) == bit::CTIME | bit::ENTRIES;
    if !usual || record.kind() != Kind::Directory {
        return false;
    }
    let ctime_at = WORDS_MIN + usize::from(record.present() & bit::GID_NLINK != 0);
    let entries_at = ctime_at + 1 + usize::from(record.present() & bit::ATIME != 0);
    let (btime, ctime) = (record.word(3), record.word(ctime_at));
    let time = ctime.max(stamp.0);
    let entries = record.word(entries_at).checked_add_signed(dcount);
    // Stamps of today are times as they are; the birth time or no entries at all would be packed in another way.
    let in_place = ctime <= i64::MAX as u64 && stamp.0 <= i64::MAX as u64 && time != btime;
    let Some(entries) = entries.filter(|&entries| in_place && entries != 0) else { return false };
    for (at, word) in [(ctime_at, time), (entries_at, entries)] {
        bytes[at * UNIT_BYTES..][..UNIT_BYTES].copy_from_slice(&word.to_le_bytes());
    }
    true
}

/// Reads the optional words in order.
struct Fields<'a> {
    record: Record<'a>,
    present: u32,
    next: usize,
}

impl Fields<'_> {
    #[inline(always)]
    fn or(&mut self, bit: u32, usual: u64) -> u64 {
        if self.present & bit == 0 {
            return usual;
        }
        self.next += 1;
        self.record.word(self.next - 1)
    }
}
