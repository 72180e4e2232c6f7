//! The inodes of a shard, packed (see `packed`), and the two changes of one that are made in place.

use crate::arena::{Arena, Handle, Memory};
use crate::packed::{Packed, Record, touch_record};
use crate::slots::{GROUP_SLOTS, SlotTables};
use onpath_wire::attr::AttrWire;
use onpath_wire::codec::Blob;
use onpath_wire::hash::inode_hash;
use onpath_wire::ids::{InodeId, Slot, Stamp};
use onpath_wire::inode::{Inode, Kind};
use onpath_wire::peer::Access;
use onpath_wire::reply::DataRef;
use std::ops::RangeInclusive;

const S_ISUID: u16 = 0o4000;
const S_ISGID: u16 = 0o2000;
const S_IXGRP: u16 = 0o010;

/// The inodes of all slots of a shard.
#[derive(Debug, Default)]
pub struct Inodes {
    tables: SlotTables,
    arena: Arena,
    len: u64,
    blocks: u64,
}

/// A stamp as a time, ns since 1970.
fn time_of(stamp: Stamp) -> i64 {
    i64::try_from(stamp.0).unwrap_or(i64::MAX)
}

impl Inodes {
    #[inline]
    fn find(&self, id: InodeId) -> Option<Handle> {
        self.tables.find(id.slot(), inode_hash(id), |h| Record(self.arena.at(h)).is(id))
    }

    #[inline]
    fn record(&self, id: InodeId) -> Option<Record<'_>> {
        self.find(id).map(|handle| Record(self.arena.at(handle)))
    }

    /// Whether there is such an inode.
    pub fn contains(&self, id: InodeId) -> bool {
        self.record(id).is_some()
    }

    /// All of an inode.
    pub fn get(&self, id: InodeId) -> Option<Inode> {
        let record = self.record(id)?;
        Some(Inode { target: Blob(record.target().to_vec()), ..record.unpack(id.slot()) })
    }

    /// Its attributes; allocates nothing.
    pub fn attr(&self, id: InodeId) -> Option<AttrWire> {
        self.shown(id).map(|(attr, _)| attr)
    }

    /// Where its bytes are.
    pub fn data_ref(&self, id: InodeId) -> Option<DataRef> {
        self.shown(id).map(|(_, data)| data)
    }

    /// What replies show of it: its attributes, and where its bytes are. Allocates nothing.
    pub fn shown(&self, id: InodeId) -> Option<(AttrWire, DataRef)> {
        let record = self.record(id)?;
        let inode = record.unpack(id.slot());
        let mut attr = AttrWire::of(&inode);
        if attr.kind == Kind::Symlink {
            attr.size = record.target().len() as u64;
        }
        Some((attr, DataRef { generation: inode.generation, cut: inode.cut, btime: inode.btime }))
    }

    /// Its type.
    pub fn kind(&self, id: InodeId) -> Option<Kind> {
        self.record(id).map(Record::kind)
    }

    /// Its links.
    pub fn nlink(&self, id: InodeId) -> Option<u32> {
        self.record(id).map(Record::nlink)
    }

    /// What a check needs to know of it.
    pub fn access(&self, id: InodeId) -> Option<Access> {
        self.record(id).map(Record::access)
    }

    /// Inserts or replaces an inode.
    pub fn put(&mut self, inode: &Inode) {
        assert!(inode.id.is_some(), "inode without an id");
        let packed = Packed::of(inode);
        self.blocks += inode.blocks;
        if let Some(handle) = self.find(inode.id) {
            self.blocks -= Record(self.arena.at(handle)).blocks();
            self.rewrite(inode.id, handle, &packed);
            return;
        }
        let handle = self.arena.alloc(packed.units());
        packed.write(self.arena.at_mut(handle));
        self.tables.insert(inode.id.slot(), inode_hash(inode.id), handle);
        self.len += 1;
    }

    /// Writes the record over an old one, or elsewhere if its length has changed.
    fn rewrite(&mut self, id: InodeId, old: Handle, packed: &Packed<'_>) {
        let units = Record(self.arena.at(old)).units();
        let mut handle = old;
        if units != packed.units() {
            self.arena.free(old, units);
            handle = self.arena.alloc(packed.units());
            self.tables.replace(id.slot(), inode_hash(id), old, handle);
        }
        packed.write(self.arena.at_mut(handle));
    }

    /// Removes an inode; false if it is absent.
    pub fn remove(&mut self, id: InodeId) -> bool {
        let arena = &self.arena;
        let Some(handle) = self.tables.remove(id.slot(), inode_hash(id), |h| Record(arena.at(h)).is(id)) else {
            return false;
        };
        let record = Record(self.arena.at(handle));
        self.blocks -= record.blocks();
        let units = record.units();
        self.arena.free(handle, units);
        self.len -= 1;
        true
    }

    /// Changes an inode that is no symlink in place.
    fn update(&mut self, id: InodeId, handle: Handle, change: impl FnOnce(&mut Inode)) {
        let record = Record(self.arena.at(handle));
        assert!(record.target().is_empty(), "{id:?} is a symlink");
        let mut inode = record.unpack(id.slot());
        self.blocks -= inode.blocks;
        change(&mut inode);
        self.blocks += inode.blocks;
        self.rewrite(id, handle, &Packed::of(&inode));
    }

    /// A directory heard of changed names: counts move by `dcount` and `dnlink`, times up to `stamp`.
    /// False if it is absent.
    pub fn touch_dir(&mut self, id: InodeId, dcount: i64, dnlink: i64, stamp: Stamp) -> bool {
        let Some(handle) = self.find(id) else { return false };
        if dnlink == 0 && touch_record(self.arena.at_mut(handle), dcount, stamp) {
            return true;
        }
        self.update(id, handle, |dir| {
            assert!(dir.is_dir(), "{id:?} is no directory");
            dir.entries = dir.entries.checked_add_signed(dcount).expect("a directory has no fewer than 0 entries");
            let nlink = i64::from(dir.nlink) + dnlink;
            dir.nlink = u32::try_from(nlink).expect("links of a directory fit 32 bits");
            if stamp > dir.mtime_stamp {
                dir.mtime = time_of(stamp);
                dir.mtime_stamp = stamp;
            }
            dir.ctime = dir.ctime.max(time_of(stamp));
        });
        true
    }

    /// Bytes were written: `size` as given, `blocks` only if their version is newer, times become `stamp`;
    /// setuid and, if the group may execute, setgid are cleared on demand. False if it is absent.
    pub fn merged(
        &mut self,
        id: InodeId,
        size: u64,
        blocks: u64,
        version: u64,
        kill_suidgid: bool,
        stamp: Stamp,
    ) -> bool {
        let Some(handle) = self.find(id) else { return false };
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
            file.mtime = time_of(stamp);
            file.ctime = time_of(stamp);
            file.mtime_stamp = stamp;
        });
        true
    }

    /// Number of inodes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no inode.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sum of their 4 KiB blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The inodes of some slots, sorted.
    pub fn in_slots(&self, slots: RangeInclusive<Slot>) -> Vec<InodeId> {
        let firsts =
            (slots.start().0 / GROUP_SLOTS..=slots.end().0 / GROUP_SLOTS).map(|table| Slot(table * GROUP_SLOTS));
        let ids = firsts
            .flat_map(|first| self.tables.handles(first..=first).map(move |h| Record(self.arena.at(h)).id(first)));
        let mut ids: Vec<InodeId> = ids.filter(|id| slots.contains(&id.slot())).collect();
        ids.sort_unstable();
        ids
    }

    /// Bytes in use.
    pub fn memory(&self) -> Memory {
        let arena = self.arena.memory();
        Memory { tables: arena.tables + self.tables.bytes(), ..arena }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::ids::{Generation, Term};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Values that packing treats differently: usual, small and large ones.
    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), Just(1), 0..1u64 << 32, any::<u64>()]
    }

    fn time() -> impl Strategy<Value = i64> {
        prop_oneof![Just(-1), Just(1000), Just(2000), any::<i64>()]
    }

    fn id() -> impl Strategy<Value = InodeId> {
        prop_oneof![
            Just(InodeId::ROOT),
            (0u16..2, 1u32..3, 0u32..8).prop_map(|(slot, term, count)| InodeId::new(Slot(slot), Term(term), count)),
        ]
    }

    fn inode() -> impl Strategy<Value = Inode> {
        let kind = prop::sample::select(vec![
            Kind::Fifo,
            Kind::CharDevice,
            Kind::Directory,
            Kind::BlockDevice,
            Kind::File,
            Kind::Symlink,
            Kind::Socket,
        ]);
        let small = (kind, 0u16..=0o7777, number(), number(), number(), number(), number());
        let large = (number(), 0..1u64 << 50, number(), number(), 0..1u64 << 40, number());
        let times = (time(), time(), time(), time(), number());
        (id(), small, large, times, prop::collection::vec(any::<u8>(), 0..600)).prop_map(
            |(id, small, large, times, target)| {
                let (kind, mode, uid, gid, nlink, rdev, cut) = small;
                let (size, blocks, blocks_version, parent, entries, generation) = large;
                let (atime, mtime, ctime, btime, stamp) = times;
                let target = if kind == Kind::Symlink { target } else { Vec::new() };
                Inode {
                    id,
                    kind,
                    mode,
                    uid: uid as u32,
                    gid: gid as u32,
                    nlink: nlink as u32,
                    size,
                    blocks,
                    blocks_version,
                    atime,
                    mtime,
                    ctime,
                    btime,
                    mtime_stamp: Stamp(stamp),
                    rdev: rdev as u32,
                    parent: InodeId(parent),
                    entries,
                    generation: Generation(generation),
                    cut: cut as u32,
                    target: Blob(target),
                }
            },
        )
    }

    #[derive(Clone, Debug)]
    enum Step {
        Put(Inode),
        Remove(InodeId),
        Touch(InodeId, i8, u64),
        Merge(InodeId, u64, u32, u64, bool, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => inode().prop_map(Step::Put),
            1 => id().prop_map(Step::Remove),
            2 => (id(), 0i8..3, number()).prop_map(|(id, count, stamp)| Step::Touch(id, count, stamp)),
            2 => (id(), number(), any::<u32>(), number(), any::<bool>(), number())
                .prop_map(|(id, size, blocks, version, kill, stamp)| Step::Merge(id, size, blocks, version, kill, stamp)),
        ]
    }

    fn touch(dir: &mut Inode, count: i8, stamp: u64) {
        dir.entries += count as u64;
        dir.nlink += count as u32;
        if Stamp(stamp) > dir.mtime_stamp {
            (dir.mtime, dir.mtime_stamp) = (time_of(Stamp(stamp)), Stamp(stamp));
        }
        dir.ctime = dir.ctime.max(time_of(Stamp(stamp)));
    }

    fn check(inodes: &Inodes, model: &BTreeMap<InodeId, Inode>, id: InodeId) {
        let expected = model.get(&id);
        assert_eq!(inodes.get(id).as_ref(), expected);
        assert_eq!(inodes.contains(id), expected.is_some());
        assert_eq!(inodes.attr(id), expected.map(AttrWire::of));
        assert_eq!(inodes.kind(id), expected.map(|i| i.kind));
        assert_eq!(inodes.nlink(id), expected.map(|i| i.nlink));
        assert_eq!(inodes.access(id), expected.map(|i| Access { mode: i.mode, uid: i.uid, gid: i.gid }));
        let data = expected.map(|i| DataRef { generation: i.generation, cut: i.cut, btime: i.btime });
        assert_eq!(inodes.data_ref(id), data);
    }

    fn apply(inodes: &mut Inodes, model: &mut BTreeMap<InodeId, Inode>, step: Step) -> InodeId {
        match step {
            Step::Put(inode) => {
                inodes.put(&inode);
                let id = inode.id;
                model.insert(id, inode);
                id
            }
            Step::Remove(id) => {
                assert_eq!(inodes.remove(id), model.remove(&id).is_some());
                id
            }
            Step::Touch(id, count, stamp) => {
                let dir =
                    model.get_mut(&id).filter(|i| i.is_dir() && i.nlink < u32::MAX - 2 && i.entries < u64::MAX - 2);
                if let Some(dir) = dir {
                    touch(dir, count, stamp);
                    assert!(inodes.touch_dir(id, count.into(), count.into(), Stamp(stamp)));
                }
                id
            }
            Step::Merge(id, size, blocks, version, kill, stamp) => {
                let Some(file) = model.get_mut(&id).filter(|i| i.kind == Kind::File) else { return id };
                if version > file.blocks_version {
                    (file.blocks, file.blocks_version) = (blocks.into(), version);
                }
                let killed = if file.mode & 0o010 != 0 { 0o6000 } else { 0o4000 };
                file.mode &= !if kill { killed } else { 0 };
                (file.size, file.mtime_stamp) = (size, Stamp(stamp));
                (file.mtime, file.ctime) = (time_of(Stamp(stamp)), time_of(Stamp(stamp)));
                assert!(inodes.merged(id, size, blocks.into(), version, kill, Stamp(stamp)));
                id
            }
        }
    }

    proptest! {
        /// Packed inodes come back in full, whatever their values, and change as the rules say.
        #[test]
        fn inodes_are_a_map(steps in prop::collection::vec(step(), 1..60)) {
            let (mut inodes, mut model) = (Inodes::default(), BTreeMap::new());
            for step in steps {
                let id = apply(&mut inodes, &mut model, step);
                check(&inodes, &model, id);
                prop_assert_eq!(inodes.len(), model.len() as u64);
                prop_assert_eq!(inodes.blocks(), model.values().map(|i| i.blocks).sum::<u64>());
            }
            for slots in [Slot(0)..=Slot(0), Slot(1)..=Slot(1), Slot(2)..=Slot(2), Slot(0)..=Slot(u16::MAX)] {
                let ids: Vec<InodeId> = model.keys().copied().filter(|id| slots.contains(&id.slot())).collect();
                prop_assert_eq!(inodes.in_slots(slots), ids);
            }
            model.keys().for_each(|&id| check(&inodes, &model, id));
        }
    }

    #[test]
    fn absent_inodes_do_not_change() {
        let mut inodes = Inodes::default();
        assert!(!inodes.touch_dir(InodeId::ROOT, 1, 0, Stamp(5)));
        assert!(!inodes.merged(InodeId::ROOT, 1, 1, 1, false, Stamp(5)));
        assert!(!inodes.remove(InodeId::ROOT));
    }

    #[test]
    fn an_explicit_time_is_neither_overtaken_nor_sticks() {
        let mut inodes = Inodes::default();
        let dir =
            Inode { mtime: 5_000, mtime_stamp: Stamp(200), ctime: 200, ..Inode::new(InodeId::ROOT, Kind::Directory) };
        inodes.put(&dir);
        inodes.touch_dir(dir.id, 1, 0, Stamp(150));
        assert_eq!(inodes.get(dir.id).map(|i| (i.mtime, i.ctime, i.entries)), Some((5_000, 200, 1)));
        inodes.touch_dir(dir.id, 1, 1, Stamp(300));
        assert_eq!(inodes.get(dir.id).map(|i| (i.mtime, i.ctime, i.nlink)), Some((300, 300, 3)));
    }
}
