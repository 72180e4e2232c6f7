//! The inodes of a shard, packed (see `packed`), and the two changes of one that are made in place.

mod beside;

use crate::arena::{Arena, Handle, Memory};
use crate::cold::{Below, Changes, Cold, Unsaved, class, flag, id_of, inode_key};
use crate::further::FurtherTable;
use crate::packed::{Packed, Record, touch_record};
use crate::pieces::{Piece, Pieces, is_yet_to_leave};
use crate::slots::{GROUP_SLOTS, SlotTables};
use crate::xattrs::XattrTable;
use onpath_wire::WireError;
use onpath_wire::attr::{self, AttrWire};
use onpath_wire::disk::Stored;
use onpath_wire::disk::inode::{Inode, Refused};
use onpath_wire::hash::inode_hash;
use onpath_wire::ids::{InodeId, LogSeq, Slot, Stamp};
use onpath_wire::inode::Kind;
use onpath_wire::limits::SLOTS;
use onpath_wire::peer::Access;
use onpath_wire::reply::DataRef;
use onpath_wire::xattr::XattrName;
use std::ops::RangeInclusive;
use std::sync::Arc;

const S_ISUID: u16 = 0o4000;
const S_ISGID: u16 = 0o2000;
const S_IXGRP: u16 = 0o010;

/// Ranges of slots of which inodes are counted apart, by the highest bits of a slot.
pub const RANGES: u32 = 64;

/// What is counted of the inodes of a range, whether they are in memory or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Inodes.
    pub inodes: u64,
    /// Sum of their 4 KiB blocks.
    pub blocks: u64,
}

/// The inodes of all slots of a shard.
#[derive(Debug)]
pub struct Inodes {
    tables: SlotTables,
    arena: Arena,
    xattrs: XattrTable,
    further: FurtherTable,
    counts: [Count; RANGES as usize],
    below: Below,
    gone: Unsaved<InodeId>,
    pieces: Pieces,
}

impl Default for Inodes {
    fn default() -> Self {
        let (tables, arena, xattrs, further, below, gone, pieces) = Default::default();
        Inodes { tables, arena, xattrs, further, counts: [Count::default(); RANGES as usize], below, gone, pieces }
    }
}

/// A stamp as a time, ns since 1970.
fn time_of(stamp: Stamp) -> i64 {
    i64::try_from(stamp.0).unwrap_or(i64::MAX)
}

/// An inode of a table as the store keeps it; `near`: a slot of the table.
fn object_of(record: Record<'_>, near: Slot) -> (Vec<u8>, Vec<u8>) {
    let inode = record.whole(record.id(near).slot());
    (inode_key(inode.id), inode.to_stored())
}

/// The range of an inode.
fn range_of(id: InodeId) -> usize {
    id.slot().0 as usize * RANGES as usize / SLOTS
}

impl Inodes {
    /// From now on what is not in memory is as this store has it.
    pub fn attach(&mut self, cold: Arc<dyn Cold>) {
        self.xattrs.attach(&*cold);
        self.below.set(cold);
    }

    /// The store.
    pub fn attached(&self) -> Option<Arc<dyn Cold>> {
        self.below.shared()
    }

    /// The place of an inode that is in memory.
    #[inline]
    fn find(&mut self, id: InodeId, flags: u8) -> Option<Handle> {
        let arena = &self.arena;
        self.tables.flag(id.slot(), inode_hash(id), flags, |h| Record(arena.at(h)).order(id))
    }

    /// The place of an inode, read from the store if need be.
    #[inline]
    fn place(&mut self, id: InodeId, flags: u8) -> Option<Handle> {
        self.find(id, flags).or_else(|| self.fetch(id, flags))
    }

    /// What an image under way is to have of an inode that is about to change.
    fn leave_early(&mut self, id: InodeId) {
        if self.pieces.covers(id.slot()) {
            let Inodes { tables, arena, pieces, .. } = self;
            let order = |handle| Record(arena.at(handle)).order(id);
            let object = |handle| object_of(Record(arena.at(handle)), id.slot());
            tables.look(id.slot(), inode_hash(id), order, |handle, flags| pieces.leave_early(flags, || object(handle)));
        }
    }

    /// The same of its extended attributes; whether an image is under way.
    fn xattrs_leave_early(&mut self, id: InodeId) -> bool {
        let covers = self.pieces.covers(id.slot());
        if covers {
            self.xattrs.leave_early(id, self.pieces.early());
        }
        covers
    }

    /// The place of an inode that changes now.
    fn changing(&mut self, id: InodeId) -> Option<Handle> {
        self.leave_early(id);
        self.place(id, self.pieces.changed(id.slot()))
    }

    /// The store has, or may have, an inode that is gone.
    fn is_gone(&mut self, id: InodeId) {
        if self.pieces.covers(id.slot()) { self.gone.put_off(id) } else { self.gone.add(id) }
    }

    /// An inode as the store has it, and the table lacks it.
    fn stored(&self, id: InodeId) -> Option<Inode> {
        let value = self.below.store().filter(|_| !self.gone.contains(&id))?.get(&inode_key(id))?;
        Some(Inode::from_stored(&value).expect("the store gives back what was written"))
    }

    #[cold]
    fn fetch(&mut self, id: InodeId, flags: u8) -> Option<Handle> {
        let inode = self.stored(id)?;
        self.below.store().into_iter().for_each(|cold| self.xattrs.fetch(id, cold));
        Some(self.insert(&Packed::of(&inode), id, flag::COLD | flags))
    }

    /// The key that the store will be asked for if this inode, born before, is looked at or changed.
    pub fn foresee(&self, id: InodeId) -> Option<Vec<u8>> {
        self.below.store().map(|_| inode_key(id))
    }

    fn insert(&mut self, packed: &Packed<'_>, id: InodeId, flags: u8) -> Handle {
        let handle = self.arena.alloc(packed.units());
        packed.write(self.arena.at_mut(handle));
        let Inodes { tables, arena, .. } = self;
        let record = |handle| Record(arena.at(handle));
        tables.insert(id.slot(), inode_hash(id), (handle, flags), |one, other| {
            record(one).order(record(other).id(id.slot()))
        });
        handle
    }

    #[inline]
    fn record(&mut self, id: InodeId) -> Option<Record<'_>> {
        self.place(id, flag::USED).map(|handle| Record(self.arena.at(handle)))
    }

    /// Whether this inode is there, and can be had without asking the store.
    pub fn is_in_memory(&mut self, id: InodeId) -> bool {
        self.find(id, flag::USED).is_some()
    }

    /// Brings those of these inodes that are in memory nearer to the processor: none is looked for after the other, so that it waits for
    /// several at a time.
    pub fn come_nearer(&mut self, ids: impl Iterator<Item = InodeId>) {
        let found = ids.filter(|id| self.find(*id, 0).is_some()).count();
        std::hint::black_box(found);
    }

    /// Whether there is such an inode.
    pub fn contains(&mut self, id: InodeId) -> bool {
        self.record(id).is_some()
    }

    /// All of an inode.
    pub fn get(&mut self, id: InodeId) -> Option<Inode> {
        self.record(id).map(|record| record.whole(id.slot()))
    }

    /// Its attributes; allocates nothing.
    pub fn attr(&mut self, id: InodeId) -> Option<AttrWire> {
        self.shown(id).map(|(attr, _)| attr)
    }

    /// Where its bytes are.
    pub fn data_ref(&mut self, id: InodeId) -> Option<DataRef> {
        self.shown(id).map(|(_, data)| data)
    }

    /// What replies show of it: its attributes, and where its bytes are. Allocates nothing.
    pub fn shown(&mut self, id: InodeId) -> Option<(AttrWire, DataRef)> {
        let xattrs = self.has_xattrs(id);
        let record = self.record(id)?;
        let inode = record.unpack(id.slot());
        let mut attr = AttrWire::of(&inode);
        if attr.kind == Kind::Symlink {
            attr.size = record.target().len() as u64;
        }
        attr.flags = if xattrs { attr::flag::XATTRS } else { 0 };
        Some((attr, DataRef { generation: inode.generation, cut: inode.cut, btime: inode.btime }))
    }

    /// Its type.
    pub fn kind(&mut self, id: InodeId) -> Option<Kind> {
        self.record(id).map(Record::kind)
    }

    /// Its links.
    pub fn nlink(&mut self, id: InodeId) -> Option<u32> {
        self.record(id).map(Record::nlink)
    }

    /// What a check needs to know of it.
    pub fn access(&mut self, id: InodeId) -> Option<Access> {
        let acls = self.acls(id);
        Some(Access { acls, ..self.record(id)?.access() })
    }

    /// Inserts or replaces an inode; `born`: there never was one of this id, so the store is not asked for it.
    pub fn put(&mut self, inode: &Inode, born: bool) {
        let id = inode.id;
        assert!(id.is_some(), "inode without an id");
        self.leave_early(id);
        let changed = self.pieces.changed(id.slot());
        let found = if born { self.find(id, changed) } else { self.place(id, changed) };
        let packed = Packed::of(inode);
        let count = &mut self.counts[range_of(id)];
        count.blocks += inode.blocks;
        match found {
            Some(handle) => {
                count.blocks -= Record(self.arena.at(handle)).blocks();
                self.rewrite(id, handle, &packed);
            }
            None => {
                count.inodes += 1;
                self.insert(&packed, id, changed);
            }
        }
    }

    /// An object of the store; `key` without its class, here and below.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Inode, WireError> {
        let inode = Inode::from_stored(value)?;
        if id_of(*key.first_chunk().ok_or(WireError::Truncated)?) != inode.id {
            return Err(WireError::Bad("key of an inode"));
        }
        Inodes::check(&inode)?;
        Ok(inode)
    }

    /// Why an inode is none that there can be.
    pub fn check(inode: &Inode) -> Result<(), WireError> {
        Packed::check(inode)
    }

    /// Calls `each` with the inodes that the store has, in the order of its keys, from behind this one on or from the first one, until it returns
    /// false. Some of them may be in memory too, or gone.
    pub fn stored_after(&self, after: Option<InodeId>, each: &mut dyn FnMut(InodeId) -> bool) {
        let first = after.map_or_else(|| vec![class::INODE], |after| [&inode_key(after)[..], &[0]].concat());
        let Some(store) = self.below.store() else { return };
        store.scan(&[class::INODE], &first, &mut |key, _| key[1..].first_chunk().is_none_or(|key| each(id_of(*key))));
    }

    /// Whether memory has an inode or knows that it is gone, whatever the store says.
    pub fn knows(&self, id: InodeId) -> bool {
        let arena = &self.arena;
        self.tables.find(id.slot(), inode_hash(id), |h| Record(arena.at(h)).order(id)).is_some()
            || self.gone.contains(&id)
    }

    /// Takes an object of the store into memory unless a newer one is there; it is counted already.
    pub fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), WireError> {
        let inode = Inodes::decode(key, value)?;
        if !self.knows(inode.id) {
            self.insert(&Packed::of(&inode), inode.id, flag::COLD);
        }
        Ok(())
    }

    /// Writes the record over an old one, or elsewhere if its length has changed.
    fn rewrite(&mut self, id: InodeId, old: Handle, packed: &Packed<'_>) {
        let units = Record(self.arena.at(old)).units();
        let mut handle = old;
        if units != packed.units() {
            self.arena.free(old, units);
            handle = self.arena.alloc(packed.units());
            let Inodes { tables, arena, .. } = self;
            tables.replace(id.slot(), inode_hash(id), (old, handle), |h| Record(arena.at(h)).order(id));
        }
        packed.write(self.arena.at_mut(handle));
    }

    /// Removes an inode with its extended attributes; false if it is absent.
    pub fn remove(&mut self, id: InodeId) -> bool {
        self.leave_early(id);
        let later = self.xattrs_leave_early(id);
        self.xattrs.remove_all(id, later);
        let arena = &self.arena;
        let found = self.tables.remove(id.slot(), inode_hash(id), |h| Record(arena.at(h)).order(id));
        let blocks = match found {
            Some((handle, flags)) => {
                if flags & (flag::COLD | flag::LEAVING) != 0 {
                    self.is_gone(id);
                }
                let record = Record(self.arena.at(handle));
                let (blocks, units) = (record.blocks(), record.units());
                self.arena.free(handle, units);
                blocks
            }
            None => {
                let Some(inode) = self.stored(id) else { return false };
                self.is_gone(id);
                self.xattrs.remove_stored(id, later);
                inode.blocks
            }
        };
        let count = &mut self.counts[range_of(id)];
        count.inodes -= 1;
        count.blocks -= blocks;
        true
    }

    /// Changes an inode in place.
    fn update(&mut self, id: InodeId, handle: Handle, change: impl FnOnce(&mut Inode)) {
        let mut inode = Record(self.arena.at(handle)).whole(id.slot());
        let count = &mut self.counts[range_of(id)];
        count.blocks -= inode.blocks;
        change(&mut inode);
        count.blocks += inode.blocks;
        self.rewrite(id, handle, &Packed::of(&inode));
    }

    /// A directory heard of changed names: counts move by `dcount` and `dnlink`, times up to `stamp`.
    /// False if it is absent. On a disk whose names contradict its counts, or that calls a file a directory, counts go as far as they can,
    /// and fsck tells it.
    pub fn touch_dir(&mut self, id: InodeId, dcount: i64, dnlink: i64, stamp: Stamp) -> bool {
        let Some(handle) = self.changing(id) else { return false };
        if dnlink == 0 && touch_record(self.arena.at_mut(handle), dcount, stamp) {
            return true;
        }
        self.update(id, handle, |dir| {
            if dir.is_dir() {
                dir.entries = dir.entries.saturating_add_signed(dcount);
                let nlink = i64::from(dir.nlink).saturating_add(dnlink);
                dir.nlink = nlink.clamp(0, u32::MAX.into()) as u32;
            }
            if stamp > dir.mtime_stamp {
                dir.mtime = time_of(stamp);
                dir.mtime_stamp = stamp;
            }
            dir.ctime = dir.ctime.max(time_of(stamp));
        });
        true
    }

    /// Bytes were written: `size` as given, `blocks` only if their version is newer, times up to `stamp`, as a time may have been set since;
    /// setuid and, if the group may execute, setgid are cleared on demand, file capabilities always. False if it is absent.
    pub fn merged(
        &mut self,
        id: InodeId,
        size: u64,
        blocks: u64,
        version: u64,
        kill_suidgid: bool,
        stamp: Stamp,
    ) -> bool {
        let Some(handle) = self.changing(id) else { return false };
        self.update(id, handle, |file| {
            file.size = size;
            if version > file.blocks_version {
                file.blocks = blocks;
                file.blocks_version = version;
            }
            if kill_suidgid {
                let setgid = if file.mode & S_IXGRP != 0 { S_ISGID } else { 0 };
                file.mode &= !(S_ISUID | setgid);
            }
            if stamp > file.mtime_stamp {
                file.mtime = time_of(stamp);
                file.mtime_stamp = stamp;
            }
            file.ctime = file.ctime.max(time_of(stamp));
        });
        if self.has_xattrs(id) {
            self.remove_xattr(id, &XattrName::capability());
        }
        true
    }

    /// What is known of a file's writes: up to where, and which were refused. False if it is absent.
    pub fn set_writes(&mut self, id: InodeId, merged: Option<LogSeq>, refused: Option<Refused>) -> bool {
        let Some(handle) = self.changing(id) else { return false };
        self.update(id, handle, |file| (file.merged, file.refused) = (merged, refused));
        true
    }

    /// Number of inodes.
    pub fn len(&self) -> u64 {
        self.counts.iter().map(|count| count.inodes).sum()
    }

    /// Whether there is no inode.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sum of their 4 KiB blocks.
    pub fn blocks(&self) -> u64 {
        self.counts.iter().map(|count| count.blocks).sum()
    }

    /// Number of inodes in memory.
    pub fn resident(&self) -> u64 {
        self.tables.len()
    }

    /// What is counted of a range.
    pub fn count(&self, range: u32) -> Count {
        self.counts[range as usize]
    }

    /// Takes the count of a range from a checkpoint. Only before any change.
    pub fn set_count(&mut self, range: u32, count: Count) {
        self.counts[range as usize] = count;
    }

    /// The inodes of some slots that are in memory, sorted.
    pub fn in_slots(&self, slots: RangeInclusive<Slot>) -> Vec<InodeId> {
        let firsts =
            (slots.start().0 / GROUP_SLOTS..=slots.end().0 / GROUP_SLOTS).map(|table| Slot(table * GROUP_SLOTS));
        let ids = firsts
            .flat_map(|first| self.tables.handles(first..=first).map(move |h| Record(self.arena.at(h)).id(first)));
        let mut ids: Vec<InodeId> = ids.filter(|id| slots.contains(&id.slot())).collect();
        ids.sort_unstable();
        ids
    }

    /// Begins an image: what has changed in these whole tables of slots since their last one.
    pub fn begin_image(&mut self, slots: RangeInclusive<Slot>) {
        self.pieces.begin(slots);
    }

    /// Adds a piece of the image; whether there is more of it.
    pub fn more_of_image(&mut self, piece: &mut Piece, changes: &mut Changes) -> bool {
        let Inodes { tables, arena, xattrs, further, gone, pieces, .. } = self;
        let Some(walk) = pieces.image(changes) else { return false };
        while !piece.is_over() {
            if let Some(table) = walk.table() {
                let looked = tables.visit(table, |handle, flags| {
                    if is_yet_to_leave(*flags) {
                        *flags = *flags & !flag::DIRTY | flag::LEAVING;
                        piece.take(1);
                        changes.put.push(object_of(Record(arena.at(handle)), table));
                    }
                });
                piece.look(looked);
                continue;
            }
            let ids = gone.leave_some(ids_of(walk.slots()), piece.takes());
            piece.take(ids.len());
            let none = ids.is_empty();
            changes.removed.extend(ids.into_iter().map(inode_key));
            if none
                && !xattrs.more_of_image(walk.slots(), piece, changes)
                && !further.more_of_image(walk.slots(), piece, changes)
            {
                gone.end();
                xattrs.end();
                further.end();
                pieces.end();
                return false;
            }
        }
        true
    }

    /// The store has (`kept`) or will not have the last image of these slots. Whether there is more to settle of it.
    pub fn settle(&mut self, slots: RangeInclusive<Slot>, kept: bool, piece: &mut Piece) -> bool {
        let Inodes { tables, xattrs, further, gone, pieces, .. } = self;
        let (failed, walk) = pieces.settle(slots, kept);
        if failed {
            gone.end();
            xattrs.end();
            further.end();
        }
        while !piece.is_over() {
            if let Some(table) = walk.table() {
                piece.look(tables.visit(table, |_, flags| flag::settle(flags, kept)));
                continue;
            }
            let settled = gone.settle_some(ids_of(walk.slots()), kept, piece.takes());
            piece.take(settled);
            let none = settled == 0 && !xattrs.settle(walk.slots(), kept, piece);
            if none && !further.settle(walk.slots(), kept, piece) {
                pieces.settled();
                return false;
            }
        }
        true
    }

    /// Forgets what the store has too and nobody has asked for lately, in these whole tables of slots.
    pub fn forget(&mut self, slots: RangeInclusive<Slot>) {
        let arena = &mut self.arena;
        self.tables.forget(slots.clone(), |handle, flags| {
            let forget = flag::forget(flags);
            if forget {
                let units = Record(arena.at(handle)).units();
                arena.free(handle, units);
            }
            forget
        });
        let Inodes { xattrs, tables, arena, .. } = self;
        let there = |id: InodeId| tables.find(id.slot(), inode_hash(id), |h| Record(arena.at(h)).order(id)).is_some();
        xattrs.forget(slots.clone(), |id| !there(id));
        self.further.forget(slots);
    }

    /// Bytes in use.
    pub fn memory(&self) -> Memory {
        let arena = self.arena.memory();
        let side = self.xattrs.bytes() + self.further.bytes();
        let own = self.tables.bytes() + side + self.below.bytes() + self.gone.bytes(0);
        Memory { tables: arena.tables + own, ..arena }
    }
}

/// All ids of some slots.
pub(crate) fn ids_of(slots: RangeInclusive<Slot>) -> RangeInclusive<InodeId> {
    InodeId::of_slots(slots)
}

#[cfg(test)]
mod tests;
