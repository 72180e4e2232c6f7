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
use onpath_wire::ids::{Birth, InodeId, Slot};
use onpath_wire::inode::Kind;
use onpath_wire::limits::NAME_BYTES_MAX;
use onpath_wire::name::Name;
use onpath_wire::secrets::{NameKey, Placement};
use std::cmp::Ordering;
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

/// A name, and where it is: at which slot by the secret that clients know, in which place of the tables by a key that they do not.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    parent: InodeId,
    name: &'a Name,
    slot: Slot,
    hash: u64,
}

impl<'a> Named<'a> {
    /// Its directory.
    pub fn parent(&self) -> InodeId {
        self.parent
    }

    /// The name itself.
    pub fn name(&self) -> &'a Name {
        self.name
    }

    /// Its slot.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Its hash, which no client can foresee.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// The names of all slots of a shard.
#[derive(Debug)]
pub struct Names {
    placement: Placement,
    key: NameKey,
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

/// What a record is found by.
#[inline]
fn key_of(record: &[u8]) -> (InodeId, &[u8]) {
    (parent_of(record), name_of(record))
}

/// The order of a record towards a name.
#[inline]
fn order(record: &[u8], at: &Named<'_>) -> Ordering {
    key_of(record).cmp(&(at.parent, at.name.as_bytes()))
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
type GoneName = (Slot, InodeId, Box<[u8]>);

fn gone(at: &Named<'_>) -> GoneName {
    (at.slot, at.parent, at.name.as_bytes().into())
}

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
    /// No names.
    pub fn new(placement: Placement, key: NameKey) -> Names {
        let (tables, arena, len, below, gone, pieces) = Default::default();
        Names { placement, key, tables, arena, len, below, gone, pieces }
    }

    /// What hashes names inside.
    pub fn key(&self) -> NameKey {
        self.key
    }

    /// Where a name is, whether it is there or not.
    #[inline]
    pub fn at<'a>(&self, parent: InodeId, name: &'a Name) -> Named<'a> {
        let bytes = name.as_bytes();
        Named { parent, name, slot: self.placement.site(parent, bytes), hash: self.key.hash(parent, bytes) }
    }

    /// From now on what is not in memory is as this store has it.
    pub fn attach(&mut self, cold: Arc<dyn Cold>) {
        self.below.set(cold);
    }

    /// Directories of this birth or a later one have no name in a store that this table did not put there.
    pub fn set_since(&mut self, since: Birth) {
        self.below.set_since(since);
    }

    #[inline]
    fn find(&mut self, at: &Named<'_>, flags: u8) -> Option<Handle> {
        let arena = &self.arena;
        self.tables.flag(at.slot, at.hash, flags, |h| order(arena.at(h), at))
    }

    /// A name as the store has it, and the table lacks it.
    #[inline]
    fn stored(&self, at: &Named<'_>) -> Option<NameValue> {
        let cold = self.below.of(at.parent)?;
        self.ask(cold, at)
    }

    #[cold]
    fn ask(&self, cold: &dyn Cold, at: &Named<'_>) -> Option<NameValue> {
        if !self.gone.is_empty() && self.gone.contains(&gone(at)) {
            return None;
        }
        let value = cold.get(&name_key(at.parent, at.name.as_bytes()))?;
        Some(value_from(&value).expect("the store gives back what was written"))
    }

    /// What the name leads to.
    #[inline]
    pub fn get(&mut self, at: &Named<'_>) -> Option<NameValue> {
        if let Some(handle) = self.find(at, flag::USED) {
            return Some(value_of(self.arena.at(handle)));
        }
        let value = self.stored(at)?;
        self.insert(at, value, flag::COLD | flag::USED);
        Some(value)
    }

    /// What an image under way is to have of a name that is about to change.
    fn leave_early(&mut self, at: &Named<'_>) {
        if self.pieces.covers(at.slot) {
            let Names { tables, arena, pieces, .. } = self;
            let object = |handle| object_of(arena.at(handle));
            let order = |handle| order(arena.at(handle), at);
            tables.look(at.slot, at.hash, order, |handle, flags| pieces.leave_early(flags, || object(handle)));
        }
    }

    /// The store has, or may have, a name that is gone.
    fn is_gone(&mut self, at: &Named<'_>) {
        if self.pieces.covers(at.slot) { self.gone.put_off(gone(at)) } else { self.gone.add(gone(at)) }
    }

    /// Makes the name lead to `value`.
    ///
    /// Whether the store has one of that name is not asked: a name that is not in memory counts as if it had, so that a later
    /// removal is not lost.
    pub fn put(&mut self, at: &Named<'_>, value: NameValue) {
        self.leave_early(at);
        let changed = self.pieces.changed(at.slot);
        if let Some(handle) = self.find(at, changed) {
            return set_value(self.arena.at_mut(handle), value);
        }
        let cold = if self.below.of(at.parent).is_some() { flag::COLD } else { 0 };
        self.insert(at, value, changed | cold);
    }

    /// A name of the store; `key` without its class, here and below.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<(InodeId, Name, NameValue), WireError> {
        let (parent, name) = key.split_first_chunk().ok_or(WireError::Truncated)?;
        let name = Name::new(name).map_err(|_| WireError::Bad("file name"))?;
        Ok((id_of(*parent), name, value_from(value)?))
    }

    /// Whether memory has a name or knows that it is gone, whatever the store says.
    pub fn knows(&self, at: &Named<'_>) -> bool {
        let arena = &self.arena;
        self.tables.find(at.slot, at.hash, |h| order(arena.at(h), at)).is_some()
            || (!self.gone.is_empty() && self.gone.contains(&gone(at)))
    }

    /// Takes a name of the store into memory unless a newer one is there.
    pub fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), WireError> {
        let (parent, name, value) = Names::decode(key, value)?;
        let at = self.at(parent, &name);
        if !self.knows(&at) {
            self.insert(&at, value, flag::COLD);
        }
        Ok(())
    }

    /// The key that the store will be asked for if this name is removed.
    pub fn foresee(&self, parent: InodeId, name: &[u8]) -> Option<Vec<u8>> {
        self.below.of(parent).map(|_| name_key(parent, name))
    }

    fn insert(&mut self, at: &Named<'_>, value: NameValue, flags: u8) {
        let Named { parent, slot, hash, .. } = *at;
        let name = at.name.as_bytes();
        let handle = self.arena.alloc(units_of(NAME + name.len()));
        let record = self.arena.at_mut(handle);
        record[..CHILD].copy_from_slice(&parent.0.to_le_bytes());
        set_value(record, value);
        record[LENGTH] = name.len() as u8;
        record[NAME..NAME + name.len()].copy_from_slice(name);
        let Names { tables, arena, .. } = self;
        tables.insert(slot, hash, (handle, flags), |one, other| key_of(arena.at(one)).cmp(&key_of(arena.at(other))));
        self.len += 1;
    }

    /// Removes the name; false if it is not there.
    pub fn remove(&mut self, at: &Named<'_>) -> bool {
        self.leave_early(at);
        let arena = &self.arena;
        let found = self.tables.remove(at.slot, at.hash, |h| order(arena.at(h), at));
        match found {
            Some((handle, flags)) => {
                self.arena.free(handle, units_of(NAME + at.name.as_bytes().len()));
                self.len -= 1;
                if flags & (flag::COLD | flag::LEAVING) != 0 {
                    self.is_gone(at);
                }
            }
            None => {
                if self.stored(at).is_none() {
                    return false;
                }
                self.is_gone(at);
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
            (self.placement.site(parent, name), parent, name)
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
            let keys = gone.leave_some(names_of(walk.slots()), piece.takes());
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
            let settled = gone.settle_some(names_of(walk.slots()), kept, piece.takes());
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
fn names_of(slots: RangeInclusive<Slot>) -> RangeInclusive<GoneName> {
    let first = (*slots.start(), InodeId(0), Box::default());
    first..=(*slots.end(), InodeId(u64::MAX), [0xff; NAME_BYTES_MAX + 1].into())
}

fn owned(record: &[u8]) -> (InodeId, Name, NameValue) {
    let name = Name::new(name_of(record)).expect("only checked names are stored");
    (parent_of(record), name, value_of(record))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cold::testing::{Imaged, Keeper, Upkeep, upkeep};
    use onpath_wire::secrets::Secrets;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn none() -> Names {
        let secrets = Secrets::of_seed(7);
        Names::new(secrets.placement, secrets.inner.names())
    }

    fn numbered() -> impl Iterator<Item = Name> {
        (0u32..).map(|i| Name::new(format!("{i:x}").as_bytes()).unwrap())
    }

    fn file(child: u64) -> NameValue {
        NameValue { child: InodeId(child), kind: Kind::File }
    }

    #[test]
    fn names_of_one_directory_and_slot_are_told_apart() {
        let parent = InodeId(77);
        let mut names = none();
        let in_slot = |name: &Name| names.at(parent, name).slot() == Slot(5);
        let all: Vec<Name> = numbered().filter(in_slot).take(100).collect();
        for (i, name) in all.iter().enumerate() {
            names.put(&names.at(parent, name), file(i as u64));
        }
        for (i, name) in all.iter().enumerate() {
            assert_eq!(names.get(&names.at(parent, name)), Some(file(i as u64)));
        }
        assert_eq!(names.get(&names.at(InodeId(78), &all[0])), None);
    }

    /// 10^5 names for which a planted key has one hash: each is found, and of the others only few are looked at (`slots`).
    #[test]
    fn names_of_one_hash_are_found_in_few_steps() {
        let (mut names, parent) = (none(), InodeId(77));
        let planted = |name| Named { parent, name, slot: Slot(5), hash: 0x1230 };
        let all: Vec<Name> = numbered().take(100_000).collect();
        all.iter().zip(0..).for_each(|(name, child)| names.put(&planted(name), file(child)));
        for (name, child) in all.iter().zip(0..) {
            assert_eq!(names.get(&planted(name)), Some(file(child)));
            let steps = std::cell::Cell::new(0);
            let arena = &names.arena;
            names.tables.find(Slot(5), 0x1230, |handle| {
                steps.set(steps.get() + 1);
                order(arena.at(handle), &planted(name))
            });
            assert!(steps.get() <= 20, "{} records are read for {name:?}", steps.get());
        }
        assert!(all.iter().all(|name| names.remove(&planted(name))) && names.is_empty());
    }

    /// Who knows placement can aim names at a slot, but not at a place of its table.
    #[test]
    fn where_a_name_is_in_a_table_says_nothing_of_its_slot() {
        let names = none();
        let aimed = numbered().filter(|name| names.at(InodeId(77), name).slot() == Slot(5)).take(64);
        let places: std::collections::BTreeSet<u64> =
            aimed.map(|name| names.at(InodeId(77), &name).hash() >> 48).collect();
        assert!(places.len() > 56, "{places:?}");
    }

    fn value() -> impl Strategy<Value = NameValue> {
        let kinds =
            [Kind::Fifo, Kind::CharDevice, Kind::Directory, Kind::BlockDevice, Kind::File, Kind::Symlink, Kind::Socket];
        (0..1u64 << 53, prop::sample::select(kinds.to_vec()))
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
        let mut loaded = none();
        keeper.shelf.all().iter().for_each(|(key, value)| loaded.load(&key[1..], value).unwrap());
        let all = loaded.in_slots(ALL).into_iter();
        assert_eq!(
            all.map(|(parent, name, value)| ((parent, name.as_bytes().to_vec()), value)).collect::<Model>(),
            kept
        );
    }

    proptest! {
        /// Names behave as a map, whatever their lengths and hashes, and wherever they are.
        #[test]
        fn names_are_a_map(
            since in 0u32..2,
            collide in any::<bool>(),
            steps in prop::collection::vec((0u64..3, 0usize..40, value(), 0u8..5, upkeep()), 1..300),
        ) {
            let (mut names, mut keeper, mut model) = (none(), Keeper::default(), Model::new());
            names.attach(keeper.shelf.clone());
            names.set_since(Birth(since));
            for (parent, number, value, operation, upkeep) in steps {
                let name = format!("{number:0width$}", width = number % 3 * 120 + 1);
                let name = Name::new(name.as_bytes()).unwrap();
                let (parent, key) = (InodeId(parent), (InodeId(parent), name.as_bytes().to_vec()));
                let mut at = names.at(parent, &name);
                if collide {
                    at = Named { slot: Slot(5), hash: 0, ..at };
                }
                match operation {
                    0 => prop_assert_eq!(names.remove(&at), model.remove(&key).is_some()),
                    1 => prop_assert_eq!(names.get(&at), model.get(&key).copied()),
                    2 => care(&mut names, &mut keeper, &model, upkeep),
                    _ => {
                        names.put(&at, value);
                        model.insert(key, value);
                    }
                }
                prop_assert!(names.len() <= model.len() as u64);
            }
            [Upkeep::Lose, Upkeep::Image, Upkeep::Keep].into_iter().for_each(|what| care(&mut names, &mut keeper, &model, what));
            let mut loaded = none();
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
