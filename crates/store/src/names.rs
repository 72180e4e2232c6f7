//! The names of a shard: `(parent, name) → (child, kind)`, the authority for lookup (design.md, "Objects and places").
//!
//! A record is `parent:8 | child:8 | kind:1 | length:1 | name`, 40 bytes for a name of 20.

use crate::arena::{Arena, Handle, Memory, units_of};
use crate::cold::{Below, Changes, Cold, Unsaved, flag, id_of, name_key};
use crate::pieces::{Piece, Pieces, is_yet_to_leave};
use crate::slots::SlotTables;
use onpath_wire::WireError;
use onpath_wire::disk::Stored;
use onpath_wire::disk::objects::NameObject;
use onpath_wire::hash::{name_hash, site_of_hash};
use onpath_wire::ids::{Birth, InodeId, Slot};
use onpath_wire::inode::Kind;
use onpath_wire::limits::NAME_BYTES_MAX;
use onpath_wire::name::Name;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameValue {
    /// The inode.
    pub child: InodeId,
    /// Its type.
    pub kind: Kind,
}

/// The names of all slots of a shard.
#[derive(Debug, Default)]
pub struct Names {
    tables: SlotTables,
    arena: Arena,
    len: u64,
    below: Below,
    gone: Unsaved<GoneName>,
    pieces: Pieces,
}

const CHILD: usize = 8;
const KIND: usize = 16;
const LENGTH: usize = 17;
const NAME: usize = 18;

#[inline]
fn word(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*record[at..].first_chunk().expect("a record is longer than its words"))
}

#[inline]
fn name_of(record: &[u8]) -> &[u8] {
    &record[NAME..NAME + record[LENGTH] as usize]
}

#[inline]
fn parent_of(record: &[u8]) -> InodeId {
    InodeId(word(record, 0))
}

#[inline]
fn is(record: &[u8], parent: InodeId, name: &[u8]) -> bool {
    parent_of(record) == parent && name_of(record) == name
}

#[inline]
fn value_of(record: &[u8]) -> NameValue {
    let kind = Kind::from_mode(u32::from(record[KIND]) << 12).expect("only known kinds are stored");
    NameValue { child: InodeId(word(record, CHILD)), kind }
}

fn set_value(record: &mut [u8], value: NameValue) {
    record[CHILD..KIND].copy_from_slice(&value.child.0.to_le_bytes());
    record[KIND] = value.kind.d_type();
}

/// Bytes of a name in that set, about.
const GONE_NAME_BYTES: usize = 32;

/// What a name is found by in the set of those that are gone: ordered by slot.
type GoneName = (u64, InodeId, Box<[u8]>);

fn value_bytes(value: NameValue) -> Vec<u8> {
    NameObject { child: value.child, kind: value.kind }.to_stored()
}

/// A name as the store keeps it.
fn object_of(record: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (name_key(parent_of(record), name_of(record)), value_bytes(value_of(record)))
}

fn value_from(bytes: &[u8]) -> Result<NameValue, WireError> {
    let NameObject { child, kind } = NameObject::from_stored(bytes)?;
    Ok(NameValue { child, kind })
}

impl Names {
    /// From now on what is not in memory is as this store has it.
    pub fn attach(&mut self, cold: Arc<dyn Cold>) {
        self.below.set(cold);
    }

    /// Directories of this birth or a later one have no name in a store that this table did not put there.
    pub fn set_since(&mut self, since: Birth) {
        self.below.set_since(since);
    }

    #[inline]
    fn find(&mut self, hash: u64, parent: InodeId, name: &[u8], flags: u8) -> Option<Handle> {
        let arena = &self.arena;
        self.tables.flag(site_of_hash(hash), hash, flags, |h| is(arena.at(h), parent, name))
    }

    /// A name as the store has it, and the table lacks it.
    #[inline]
    fn stored(&self, hash: u64, parent: InodeId, name: &[u8]) -> Option<NameValue> {
        let cold = self.below.of(parent)?;
        self.ask(cold, hash, parent, name)
    }

    #[cold]
    fn ask(&self, cold: &dyn Cold, hash: u64, parent: InodeId, name: &[u8]) -> Option<NameValue> {
        if !self.gone.is_empty() && self.gone.contains(&(hash, parent, name.into())) {
            return None;
        }
        let value = cold.get(&name_key(parent, name))?;
        Some(value_from(&value).expect("the store gives back what was written"))
    }

    /// What the name leads to; `hash` is its [`name_hash`].
    #[inline]
    pub fn get(&mut self, hash: u64, parent: InodeId, name: &[u8]) -> Option<NameValue> {
        if let Some(handle) = self.find(hash, parent, name, flag::USED) {
            return Some(value_of(self.arena.at(handle)));
        }
        let value = self.stored(hash, parent, name)?;
        self.insert(hash, parent, name, value, flag::COLD | flag::USED);
        Some(value)
    }

    /// What an image under way is to have of a name that is about to change.
    fn leave_early(&mut self, hash: u64, parent: InodeId, name: &[u8]) {
        let slot = site_of_hash(hash);
        if self.pieces.covers(slot) {
            let Names { tables, arena, pieces, .. } = self;
            let object = |handle| object_of(arena.at(handle));
            let is = |handle| is(arena.at(handle), parent, name);
            tables.look(slot, hash, is, |handle, flags| pieces.leave_early(flags, || object(handle)));
        }
    }

    /// The store has, or may have, a name that is gone.
    fn is_gone(&mut self, hash: u64, parent: InodeId, name: &[u8]) {
        let key = (hash, parent, name.into());
        if self.pieces.covers(site_of_hash(hash)) { self.gone.put_off(key) } else { self.gone.add(key) }
    }

    /// Makes the name lead to `value`.
    ///
    /// Whether the store has one of that name is not asked: a name that is not in memory counts as if it had, so that a later
    /// removal is not lost.
    pub fn put(&mut self, hash: u64, parent: InodeId, name: &[u8], value: NameValue) {
        self.leave_early(hash, parent, name);
        let changed = self.pieces.changed(site_of_hash(hash));
        if let Some(handle) = self.find(hash, parent, name, changed) {
            return set_value(self.arena.at_mut(handle), value);
        }
        let cold = if self.below.of(parent).is_some() { flag::COLD } else { 0 };
        self.insert(hash, parent, name, value, changed | cold);
    }

    /// A name of the store; `key` without its class, here and below.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<(InodeId, Name, NameValue), WireError> {
        let (parent, name) = key.split_first_chunk().ok_or(WireError::Truncated)?;
        let name = Name::new(name).map_err(|_| WireError::Bad("file name"))?;
        Ok((id_of(*parent), name, value_from(value)?))
    }

    /// Whether memory has a name or knows that it is gone, whatever the store says; `hash` is its [`name_hash`].
    pub fn knows(&self, hash: u64, parent: InodeId, name: &[u8]) -> bool {
        let arena = &self.arena;
        self.tables.find(site_of_hash(hash), hash, |h| is(arena.at(h), parent, name)).is_some()
            || (!self.gone.is_empty() && self.gone.contains(&(hash, parent, name.into())))
    }

    /// Takes a name of the store into memory unless a newer one is there.
    pub fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), WireError> {
        let (parent, name, value) = Names::decode(key, value)?;
        let (hash, name) = (name_hash(parent, name.as_bytes()), name.as_bytes());
        if !self.knows(hash, parent, name) {
            self.insert(hash, parent, name, value, flag::COLD);
        }
        Ok(())
    }

    /// The key that the store will be asked for if this name is removed.
    pub fn foresee(&self, parent: InodeId, name: &[u8]) -> Option<Vec<u8>> {
        self.below.of(parent).map(|_| name_key(parent, name))
    }

    fn insert(&mut self, hash: u64, parent: InodeId, name: &[u8], value: NameValue, flags: u8) {
        assert_eq!(hash, name_hash(parent, name), "hash of another name");
        assert!((1..=NAME_BYTES_MAX).contains(&name.len()), "name of {} bytes", name.len());
        let handle = self.arena.alloc(units_of(NAME + name.len()));
        let record = self.arena.at_mut(handle);
        record[..CHILD].copy_from_slice(&parent.0.to_le_bytes());
        set_value(record, value);
        record[LENGTH] = name.len() as u8;
        record[NAME..NAME + name.len()].copy_from_slice(name);
        self.tables.insert(site_of_hash(hash), hash, handle, flags);
        self.len += 1;
    }

    /// Removes the name; false if it is not there.
    pub fn remove(&mut self, hash: u64, parent: InodeId, name: &[u8]) -> bool {
        self.leave_early(hash, parent, name);
        let arena = &self.arena;
        let found = self.tables.remove(site_of_hash(hash), hash, |h| is(arena.at(h), parent, name));
        match found {
            Some((handle, flags)) => {
                self.arena.free(handle, units_of(NAME + name.len()));
                self.len -= 1;
                if flags & (flag::COLD | flag::LEAVING) != 0 {
                    self.is_gone(hash, parent, name);
                }
            }
            None => {
                if self.stored(hash, parent, name).is_none() {
                    return false;
                }
                self.is_gone(hash, parent, name);
            }
        }
        true
    }

    /// Number of names in memory.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no name in memory.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The names of some slots that are in memory, sorted by slot, parent and name.
    pub fn in_slots(&self, slots: RangeInclusive<Slot>) -> Vec<(InodeId, Name, NameValue)> {
        let key = |h: Handle| {
            let (parent, name) = (parent_of(self.arena.at(h)), name_of(self.arena.at(h)));
            (site_of_hash(name_hash(parent, name)), parent, name)
        };
        let handles = self.tables.handles(slots.clone()).map(|h| (key(h), h));
        let mut found: Vec<_> = handles.filter(|((slot, ..), _)| slots.contains(slot)).collect();
        found.sort_unstable_by_key(|(key, _)| *key);
        found.into_iter().map(|(_, h)| owned(self.arena.at(h))).collect()
    }

    /// Begins an image: what has changed in these whole tables of slots since their last one.
    pub fn begin_image(&mut self, slots: RangeInclusive<Slot>) {
        self.pieces.begin(slots);
    }

    /// Adds a piece of the image; whether there is more of it.
    pub fn more_of_image(&mut self, piece: &mut Piece, changes: &mut Changes) -> bool {
        let Names { tables, arena, gone, pieces, .. } = self;
        let Some(walk) = pieces.image(changes) else { return false };
        while !piece.is_over() {
            if let Some(table) = walk.table() {
                let looked = tables.visit(table, |handle, flags| {
                    if is_yet_to_leave(*flags) {
                        *flags = *flags & !flag::DIRTY | flag::LEAVING;
                        piece.take(1);
                        changes.put.push(object_of(arena.at(handle)));
                    }
                });
                piece.look(looked);
                continue;
            }
            let keys = gone.leave_some(hashes_of(walk.slots()), piece.takes());
            if keys.is_empty() {
                gone.end();
                pieces.end();
                return false;
            }
            piece.take(keys.len());
            changes.removed.extend(keys.into_iter().map(|(_, parent, name)| name_key(parent, &name)));
        }
        true
    }

    /// The store has (`kept`) or will not have the last image of these slots. Whether there is more to settle of it.
    pub fn settle(&mut self, slots: RangeInclusive<Slot>, kept: bool, piece: &mut Piece) -> bool {
        let Names { tables, gone, pieces, .. } = self;
        let (failed, walk) = pieces.settle(slots, kept);
        if failed {
            gone.end();
        }
        while !piece.is_over() {
            if let Some(table) = walk.table() {
                piece.look(tables.visit(table, |_, flags| flag::settle(flags, kept)));
                continue;
            }
            let settled = gone.settle_some(hashes_of(walk.slots()), kept, piece.takes());
            if settled == 0 {
                pieces.settled();
                return false;
            }
            piece.take(settled);
        }
        true
    }

    /// Forgets what the store has too and nobody has asked for lately, in these whole tables of slots.
    pub fn forget(&mut self, slots: RangeInclusive<Slot>) {
        let Names { arena, below, len, tables, .. } = self;
        tables.forget(slots, |handle, flags| {
            let forget = flag::forget(flags);
            if forget {
                let record = arena.at(handle);
                below.forgets(parent_of(record));
                let units = units_of(NAME + name_of(record).len());
                arena.free(handle, units);
                *len -= 1;
            }
            forget
        });
    }

    /// Bytes in use.
    pub fn memory(&self) -> Memory {
        let arena = self.arena.memory();
        let gone = self.gone.bytes(GONE_NAME_BYTES);
        Memory { tables: arena.tables + self.tables.bytes() + self.below.bytes() + gone, ..arena }
    }
}

/// All names of some slots.
fn hashes_of(slots: RangeInclusive<Slot>) -> RangeInclusive<GoneName> {
    let first = (u64::from(slots.start().0) << 48, InodeId(0), Box::default());
    let last = u64::from(slots.end().0) << 48 | u64::MAX >> 16;
    first..=(last, InodeId(u64::MAX), [0xff; NAME_BYTES_MAX + 1].into())
}

fn owned(record: &[u8]) -> (InodeId, Name, NameValue) {
    let name = Name::new(name_of(record)).expect("only checked names are stored");
    (parent_of(record), name, value_of(record))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cold::testing::{Imaged, Keeper, Upkeep, upkeep};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn file(child: u64) -> NameValue {
        NameValue { child: InodeId(child), kind: Kind::File }
    }

    #[test]
    fn names_of_one_directory_and_slot_are_told_apart() {
        let parent = InodeId(77);
        let in_slot = |i: &u32| site_of_hash(name_hash(parent, &i.to_be_bytes())) == Slot(5);
        let bytes: Vec<[u8; 4]> = (0x2020_2020..).filter(in_slot).take(100).map(u32::to_be_bytes).collect();
        let mut names = Names::default();
        for (i, name) in bytes.iter().enumerate() {
            names.put(name_hash(parent, name), parent, name, file(i as u64));
        }
        for (i, name) in bytes.iter().enumerate() {
            assert_eq!(names.get(name_hash(parent, name), parent, name), Some(file(i as u64)));
        }
        let hash = name_hash(InodeId(78), &bytes[0]);
        assert_eq!(names.get(hash, InodeId(78), &bytes[0]), None);
    }

    #[test]
    #[should_panic(expected = "hash of another name")]
    fn a_wrong_hash_is_a_bug() {
        Names::default().put(1, InodeId::ROOT, b"a", file(2));
    }

    fn value() -> impl Strategy<Value = NameValue> {
        let kinds =
            [Kind::Fifo, Kind::CharDevice, Kind::Directory, Kind::BlockDevice, Kind::File, Kind::Symlink, Kind::Socket];
        (any::<u64>(), prop::sample::select(kinds.to_vec()))
            .prop_map(|(child, kind)| NameValue { child: InodeId(child), kind })
    }

    const ALL: RangeInclusive<Slot> = Slot(0)..=Slot(u16::MAX);

    type Model = BTreeMap<(InodeId, Vec<u8>), NameValue>;

    impl Imaged for Names {
        fn begin(&mut self) {
            self.begin_image(ALL);
        }
        fn more(&mut self, piece: &mut Piece, changes: &mut Changes) -> bool {
            self.more_of_image(piece, changes)
        }
        fn settle(&mut self, kept: bool, piece: &mut Piece) -> bool {
            Names::settle(self, ALL, kept, piece)
        }
        fn forget(&mut self) {
            Names::forget(self, ALL);
        }
    }

    fn care(names: &mut Names, keeper: &mut Keeper<Model>, model: &Model, what: Upkeep) {
        let Some(kept) = keeper.upkeep(what, names, model) else { return };
        let mut loaded = Names::default();
        keeper.shelf.all().iter().for_each(|(key, value)| loaded.load(&key[1..], value).unwrap());
        let all = loaded.in_slots(ALL).into_iter();
        assert_eq!(
            all.map(|(parent, name, value)| ((parent, name.as_bytes().to_vec()), value)).collect::<Model>(),
            kept
        );
    }

    proptest! {
        /// Names behave as a map, whatever their lengths, and wherever they are.
        #[test]
        fn names_are_a_map(
            since in 0u32..2,
            steps in prop::collection::vec((0u64..3, 0usize..40, value(), 0u8..5, upkeep()), 1..300),
        ) {
            let (mut names, mut keeper, mut model) = (Names::default(), Keeper::default(), Model::new());
            names.attach(keeper.shelf.clone());
            names.set_since(Birth(since));
            for (parent, number, value, operation, upkeep) in steps {
                let name = format!("{number:0width$}", width = number % 3 * 120 + 1).into_bytes();
                let (parent, key) = (InodeId(parent), (InodeId(parent), name.clone()));
                let hash = name_hash(parent, &name);
                match operation {
                    0 => prop_assert_eq!(names.remove(hash, parent, &name), model.remove(&key).is_some()),
                    1 => prop_assert_eq!(names.get(hash, parent, &name), model.get(&key).copied()),
                    2 => care(&mut names, &mut keeper, &model, upkeep),
                    _ => {
                        names.put(hash, parent, &name, value);
                        model.insert(key, value);
                    }
                }
                prop_assert!(names.len() <= model.len() as u64);
            }
            [Upkeep::Lose, Upkeep::Image, Upkeep::Keep].into_iter().for_each(|what| care(&mut names, &mut keeper, &model, what));
            let mut loaded = Names::default();
            for (key, value) in keeper.shelf.all() {
                loaded.load(&key[1..], &value).unwrap();
            }
            let mut all = loaded.in_slots(ALL);
            let halves = [loaded.in_slots(Slot(0)..=Slot(29_999)), loaded.in_slots(Slot(30_000)..=Slot(u16::MAX))];
            prop_assert_eq!(&all, &halves.concat());
            all.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
            let all = all.into_iter().map(|(parent, name, value)| ((parent, name.as_bytes().to_vec()), value));
            prop_assert_eq!(all.collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        }
    }
}
