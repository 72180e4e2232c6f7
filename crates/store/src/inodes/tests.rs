//! Inodes against a plain map, wherever they are.

use super::*;
use crate::cold::class;
use crate::cold::testing::{Imaged, Keeper, Shelf, Upkeep, upkeep};
use crate::pieces::PIECE_LOOKS;
use onpath_wire::codec::Blob;
use onpath_wire::ids::{Birth, Generation};
use onpath_wire::limits::REFUSED_MAX;
use onpath_wire::name::Name;
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
        (0u16..2, 1u32..3, 0u16..8).prop_map(|(slot, birth, count)| InodeId::new(
            Slot(slot * 17),
            Birth(birth),
            count,
            Kind::File
        )),
    ]
}

type Writes = (Option<LogSeq>, Option<Refused>);

/// What is known of a file's writes: mostly nothing, as long as their data node answers none by itself.
fn writes() -> impl Strategy<Value = Writes> {
    let refused = prop_oneof![
        2 => Just(None),
        1 => prop::collection::btree_set(number(), 0..=REFUSED_MAX)
            .prop_map(|set| Refused::of(set.into_iter().map(LogSeq).collect()).unwrap()),
    ];
    prop_oneof![2 => Just((None, None)), 3 => (prop::option::of(number().prop_map(LogSeq)), refused)]
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
    let writes = writes();
    let name = prop::option::of("[a-z]{1,40}|[x]{255}");
    (id(), small, large, times, prop::collection::vec(any::<u8>(), 0..600), name, writes).prop_map(
        |(id, small, large, times, target, name, writes)| {
            let (kind, mode, uid, gid, nlink, rdev, cut) = small;
            let (size, blocks, blocks_version, parent, entries, generation) = large;
            let (atime, mtime, ctime, btime, stamp) = times;
            let target = if kind == Kind::Symlink { target } else { Vec::new() };
            let name = name.filter(|_| kind == Kind::Directory).map(|name| Name::new(name.as_bytes()).unwrap());
            let (merged, refused) = if kind == Kind::File { writes } else { (None, None) };
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
                parent: InodeId(parent % (1 << 53)),
                entries,
                generation: Generation(generation),
                cut: cut as u32,
                target: Blob(target),
                name,
                merged,
                refused,
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
    Writes(InodeId, Writes),
    /// Sets an extended attribute, or with an empty value removes it.
    Xattr(InodeId, u8, Vec<u8>),
    /// So many further names in a directory.
    Further(InodeId, InodeId, u32),
    Upkeep(Upkeep),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => inode().prop_map(Step::Put),
        1 => id().prop_map(Step::Remove),
        3 => upkeep().prop_map(Step::Upkeep),
        3 => (id(), 0u8..2, prop::collection::vec(any::<u8>(), 0..3)).prop_map(|(id, n, v)| Step::Xattr(id, n, v)),
        3 => (id(), 1u64..4, 0u32..3).prop_map(|(id, dir, names)| Step::Further(id, InodeId(dir << 40), names)),
        2 => (id(), writes()).prop_map(|(id, writes)| Step::Writes(id, writes)),
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

/// Inodes, extended attributes by inode and name, and numbers of further names by inode and directory.
#[derive(Clone, Default)]
struct Model {
    inodes: BTreeMap<InodeId, Inode>,
    xattrs: BTreeMap<InodeId, BTreeMap<u8, Vec<u8>>>,
    further: BTreeMap<(InodeId, InodeId), u32>,
}

fn xattr_name(number: u8) -> XattrName {
    XattrName::new(format!("user.{number}").as_bytes()).unwrap()
}

fn check_xattrs(inodes: &mut Inodes, model: &Model, id: InodeId) {
    let expected = model.xattrs.get(&id).cloned().unwrap_or_default();
    let expected = expected.into_iter().map(|(number, value)| (xattr_name(number), value)).collect::<Vec<_>>();
    let found = inodes.xattrs(id).into_iter().flat_map(|set| set.iter());
    assert_eq!(found.map(|(name, value)| (name.clone(), value.to_vec())).collect::<Vec<_>>(), expected);
}

fn check_further(inodes: &Inodes, model: &Model, id: InodeId) {
    let dirs = model.further.range((id, InodeId(0))..=(id, InodeId(u64::MAX))).map(|((_, dir), names)| (*dir, *names));
    for dir in (1..4).map(|dir| InodeId(dir << 40)) {
        assert_eq!(inodes.further(id, dir), model.further.get(&(id, dir)).copied().unwrap_or(0));
        let any = inodes.any_further(id, dir);
        assert_eq!(any.is_some(), dirs.clone().next().is_some());
        assert!(any.is_none_or(|any| dirs.clone().any(|(dir, _)| dir == any)));
    }
}

fn check(inodes: &mut Inodes, model: &Model, id: InodeId) {
    check_further(inodes, model, id);
    if id.0.is_multiple_of(4) {
        check_xattrs(inodes, model, id);
    }
    let expected = model.inodes.get(&id);
    assert!(expected.is_some() || !inodes.is_in_memory(id));
    assert_eq!(inodes.get(id).as_ref(), expected);
    assert_eq!(inodes.is_in_memory(id), expected.is_some());
    assert_eq!(inodes.contains(id), expected.is_some());
    let flags = if model.xattrs.contains_key(&id) { attr::flag::XATTRS } else { 0 };
    assert_eq!(inodes.attr(id), expected.map(|inode| AttrWire { flags, ..AttrWire::of(inode) }));
    assert_eq!(inodes.kind(id), expected.map(|i| i.kind));
    assert_eq!(inodes.nlink(id), expected.map(|i| i.nlink));
    assert_eq!(inodes.access(id), expected.map(|i| Access { mode: i.mode, uid: i.uid, gid: i.gid, acls: None }));
    let data = expected.map(|i| DataRef { generation: i.generation, cut: i.cut, btime: i.btime });
    assert_eq!(inodes.data_ref(id), data);
    check_xattrs(inodes, model, id);
}

const ALL: RangeInclusive<Slot> = Slot(0)..=Slot(u16::MAX);

impl Imaged for Inodes {
    fn begin(&mut self) {
        self.begin_image(ALL);
    }
    fn more(&mut self, piece: &mut Piece, changes: &mut Changes) -> bool {
        self.more_of_image(piece, changes)
    }
    fn settle(&mut self, kept: bool, piece: &mut Piece) -> bool {
        Inodes::settle(self, ALL, kept, piece)
    }
    fn forget(&mut self) {
        Inodes::forget(self, ALL);
    }
}

/// The store is as the model.
fn check_shelf(keeper: &Keeper<Model>, model: &Model) {
    let mut loaded = Inodes::default();
    for (key, value) in keeper.shelf.all() {
        match key[0] {
            class::INODE => loaded.load(&key[1..], &value).unwrap(),
            class::FURTHER => loaded.load_further(&key[1..], &value).unwrap(),
            _ => loaded.load_xattrs(&key[1..], &value).unwrap(),
        }
    }
    assert_eq!(loaded.xattrs_in_slots(ALL).count(), model.xattrs.len());
    let further: BTreeMap<_, _> = loaded.further_in_slots(ALL).map(|(id, dir, names)| ((id, dir), names)).collect();
    assert_eq!(further, model.further);
    model.inodes.keys().for_each(|&id| check(&mut loaded, model, id));
    assert_eq!(loaded.in_slots(ALL).len(), model.inodes.len());
}

fn apply(inodes: &mut Inodes, keeper: &mut Keeper<Model>, all: &mut Model, step: Step) -> InodeId {
    if let Step::Upkeep(what) = step {
        let kept = keeper.upkeep(what, inodes, all);
        kept.iter().for_each(|model| check_shelf(keeper, model));
        return InodeId::ROOT;
    }
    let model = &mut all.inodes;
    match step {
        Step::Upkeep(_) => unreachable!("done above"),
        Step::Put(inode) => {
            let born = !model.contains_key(&inode.id) && inode.size % 2 == 0;
            inodes.put(&inode, born);
            let id = inode.id;
            model.insert(id, inode);
            id
        }
        Step::Remove(id) => {
            assert_eq!(inodes.remove(id), model.remove(&id).is_some());
            all.xattrs.remove(&id);
            id
        }
        Step::Xattr(id, number, value) => {
            if !model.contains_key(&id) {
                return id;
            }
            if value.is_empty() {
                inodes.remove_xattr(id, &xattr_name(number));
                all.xattrs.entry(id).or_default().remove(&number);
                all.xattrs.retain(|_, set| !set.is_empty());
            } else {
                inodes.set_xattr(id, &xattr_name(number), &value);
                all.xattrs.entry(id).or_default().insert(number, value);
            }
            id
        }
        Step::Further(id, dir, names) => {
            inodes.set_further(id, dir, names);
            all.further.insert((id, dir), names);
            all.further.retain(|_, names| *names > 0);
            id
        }
        Step::Touch(id, count, stamp) => {
            let dir = model.get_mut(&id).filter(|i| i.is_dir() && i.nlink < u32::MAX - 2 && i.entries < u64::MAX - 2);
            if let Some(dir) = dir {
                touch(dir, count, stamp);
                assert!(inodes.touch_dir(id, count.into(), count.into(), Stamp(stamp)));
            }
            id
        }
        Step::Writes(id, (merged, refused)) => {
            let Some(file) = model.get_mut(&id).filter(|i| i.kind == Kind::File) else { return id };
            (file.merged, file.refused) = (merged, refused.clone());
            assert!(inodes.set_writes(id, merged, refused));
            id
        }
        Step::Merge(id, size, blocks, version, kill, stamp) => {
            let Some(file) = model.get_mut(&id).filter(|i| i.kind == Kind::File) else { return id };
            if version > file.blocks_version {
                (file.blocks, file.blocks_version) = (blocks.into(), version);
            }
            let killed = if file.mode & 0o010 != 0 { 0o6000 } else { 0o4000 };
            file.mode &= !if kill { killed } else { 0 };
            file.size = size;
            if Stamp(stamp) > file.mtime_stamp {
                (file.mtime, file.mtime_stamp) = (time_of(Stamp(stamp)), Stamp(stamp));
            }
            file.ctime = file.ctime.max(time_of(Stamp(stamp)));
            assert!(inodes.merged(id, size, blocks.into(), version, kill, Stamp(stamp)));
            id
        }
    }
}

proptest! {
    /// Packed inodes come back in full, whatever their values, and change as the rules say.
    #[test]
    fn inodes_are_a_map(steps in prop::collection::vec(step(), 1..60)) {
        let (mut inodes, mut keeper, mut model) = (Inodes::default(), Keeper::default(), Model::default());
        inodes.attach(keeper.shelf.clone());
        for step in steps {
            let id = apply(&mut inodes, &mut keeper, &mut model, step);
            check(&mut inodes, &model, id);
            prop_assert_eq!(inodes.len(), model.inodes.len() as u64);
            prop_assert_eq!(inodes.blocks(), model.inodes.values().map(|i| i.blocks).sum::<u64>());
        }
        model.inodes.keys().for_each(|&id| check(&mut inodes, &model, id)); // now all are in memory
        for slots in [Slot(0)..=Slot(0), Slot(1)..=Slot(1), Slot(17)..=Slot(17), ALL] {
            let ids: Vec<InodeId> = model.inodes.keys().copied().filter(|id| slots.contains(&id.slot())).collect();
            prop_assert_eq!(inodes.in_slots(slots), ids);
        }
        for what in [Upkeep::Lose, Upkeep::Image, Upkeep::Keep] {
            apply(&mut inodes, &mut keeper, &mut model, Step::Upkeep(what));
        }
        check_shelf(&keeper, &model);
    }
}

/// However many names a file has, memory keeps none of their directories that the store has, and who removes one after the other finds
/// the next at once.
#[test]
fn a_file_with_many_names_costs_memory_until_they_are_stored() {
    const DIRS: u64 = 60_000;
    let (id, shelf) = (InodeId::new(Slot(3), Birth(1), 1, Kind::File), Arc::new(Shelf::default()));
    let mut inodes = Inodes::default();
    inodes.attach(shelf.clone());
    inodes.put(&Inode::new(id, Kind::File), true);
    (1..=DIRS).for_each(|dir| inodes.set_further(id, InodeId(dir << 16), 1));
    let before = inodes.memory().total();
    let (mut changes, mut pieces) = (Changes::default(), 1);
    inodes.begin_image(ALL);
    while inodes.more_of_image(&mut Piece::default(), &mut changes) {
        pieces += 1;
    }
    assert!(pieces > DIRS as usize / PIECE_LOOKS, "{pieces} pieces");
    shelf.keep(&changes);
    while Inodes::settle(&mut inodes, ALL, true, &mut Piece::default()) {}
    Inodes::forget(&mut inodes, ALL);
    assert_eq!(inodes.further_in_slots(ALL).count(), 0);
    assert!(inodes.memory().total() < before / 10, "{} of {before} bytes are left", inodes.memory().total());
    let mut dir = InodeId(0);
    for _ in 0..DIRS {
        dir = inodes.any_further(id, dir).expect("there are more");
        assert_eq!(inodes.further(id, dir), 1);
        inodes.set_further(id, dir, 0);
    }
    assert_eq!(inodes.any_further(id, dir), None);
}

#[test]
fn absent_inodes_do_not_change() {
    let mut inodes = Inodes::default();
    assert!(!inodes.touch_dir(InodeId::ROOT, 1, 0, Stamp(5)));
    assert!(!inodes.merged(InodeId::ROOT, 1, 1, 1, false, Stamp(5)));
    assert!(!inodes.set_writes(InodeId::ROOT, Some(LogSeq(1)), None));
    assert!(!inodes.remove(InodeId::ROOT));
}

/// What a file takes that nobody knows writes of is what it took before there was a place for them.
#[test]
fn writes_take_room_only_where_some_are_known() {
    let id = InodeId::new(Slot(3), Birth(1), 1, Kind::File);
    let times = Inode { btime: 5, ctime: 6, mtime: 6, mtime_stamp: Stamp(6), ..Inode::new(id, Kind::File) };
    let file = Inode { size: 7, blocks: 1, ..times };
    let refused = Refused::of(vec![LogSeq(3), LogSeq(1 << 60)]).unwrap();
    let units = |file: &Inode| Packed::of(file).units();
    assert_eq!(units(&file), 8);
    assert_eq!(units(&Inode { merged: Some(LogSeq(0)), ..file.clone() }), 9);
    assert_eq!(units(&Inode { merged: Some(LogSeq(9)), refused, ..file.clone() }), 12);
    let mut inodes = Inodes::default();
    inodes.put(&file, true);
    let before = inodes.memory();
    inodes.set_writes(id, Some(LogSeq(9)), None);
    inodes.set_writes(id, None, None);
    assert_eq!(
        (inodes.get(id), inodes.memory().total() - inodes.memory().free),
        (Some(file), before.total() - before.free)
    );
}

#[test]
fn only_files_have_writes() {
    let id = InodeId::new(Slot(3), Birth(1), 1, Kind::Fifo);
    let stored = |inode: &Inode| Inodes::decode(&inode_key(id)[1..], &inode.to_stored()).map(drop);
    let fifo = Inode::new(id, Kind::Fifo);
    assert_eq!(stored(&fifo), Ok(()));
    let refused = Err(WireError::Bad("writes of what is no file"));
    assert_eq!(stored(&Inode { merged: Some(LogSeq(1)), ..fifo.clone() }), refused);
    assert_eq!(stored(&Inode { refused: Refused::of(vec![LogSeq(1)]).unwrap(), ..fifo }), refused);
}

#[test]
fn an_explicit_time_is_neither_overtaken_nor_sticks() {
    let mut inodes = Inodes::default();
    let dir = Inode { mtime: 5_000, mtime_stamp: Stamp(200), ctime: 200, ..Inode::new(InodeId::ROOT, Kind::Directory) };
    inodes.put(&dir, true);
    inodes.touch_dir(dir.id, 1, 0, Stamp(150));
    assert_eq!(inodes.get(dir.id).map(|i| (i.mtime, i.ctime, i.entries)), Some((5_000, 200, 1)));
    inodes.touch_dir(dir.id, 1, 1, Stamp(300));
    assert_eq!(inodes.get(dir.id).map(|i| (i.mtime, i.ctime, i.nlink)), Some((300, 300, 3)));
}

#[test]
fn counts_that_contradict_go_as_far_as_they_can() {
    let mut inodes = Inodes::default();
    let dir = Inode { nlink: 2, ..Inode::new(InodeId::ROOT, Kind::Directory) };
    inodes.put(&dir, true);
    assert!(inodes.touch_dir(dir.id, -1, 0, Stamp(5)), "a name of an empty directory");
    assert!(inodes.touch_dir(dir.id, -1, -3, Stamp(6)), "more directories than there are links");
    assert_eq!(inodes.get(dir.id).map(|i| (i.entries, i.nlink, i.mtime)), Some((0, 0, 6)));
    assert!(inodes.touch_dir(dir.id, i64::MAX, i64::MAX, Stamp(7)));
    assert!(inodes.touch_dir(dir.id, i64::MAX, i64::MAX, Stamp(7)));
    assert!(inodes.touch_dir(dir.id, i64::MAX, 0, Stamp(8)));
    assert_eq!(inodes.get(dir.id).map(|i| (i.entries, i.nlink, i.mtime)), Some((u64::MAX, u32::MAX, 8)));
    let file = Inode::new(InodeId(9), Kind::File);
    inodes.put(&file, true);
    assert!(inodes.touch_dir(file.id, 1, 1, Stamp(9)));
    assert_eq!(inodes.get(file.id).map(|i| (i.entries, i.nlink)), Some((0, file.nlink)));
}
