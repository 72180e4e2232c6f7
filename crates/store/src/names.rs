//! The names of a shard: `(parent, name) → (child, kind)`, the authority for lookup (DESIGN §2).
//!
//! A record is `parent:8 | child:8 | kind:1 | length:1 | name`, 40 bytes for a name of 20.

use crate::arena::{Arena, Handle, Memory, units_of};
use crate::slots::SlotTables;
use onpath_wire::hash::{name_hash, site_of_hash};
use onpath_wire::ids::{InodeId, Slot};
use onpath_wire::inode::Kind;
use onpath_wire::limits::NAME_BYTES_MAX;
use onpath_wire::name::Name;
use std::ops::RangeInclusive;

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

impl Names {
    #[inline]
    fn find(&self, hash: u64, parent: InodeId, name: &[u8]) -> Option<Handle> {
        self.tables.find(site_of_hash(hash), hash, |h| is(self.arena.at(h), parent, name))
    }

    /// What the name leads to; `hash` is its [`name_hash`].
    #[inline]
    pub fn get(&self, hash: u64, parent: InodeId, name: &[u8]) -> Option<NameValue> {
        self.find(hash, parent, name).map(|handle| value_of(self.arena.at(handle)))
    }

    /// Makes the name lead to `value`, and returns what it led to before.
    pub fn put(&mut self, hash: u64, parent: InodeId, name: &[u8], value: NameValue) -> Option<NameValue> {
        assert_eq!(hash, name_hash(parent, name), "hash of another name");
        assert!((1..=NAME_BYTES_MAX).contains(&name.len()), "name of {} bytes", name.len());
        if let Some(handle) = self.find(hash, parent, name) {
            let record = self.arena.at_mut(handle);
            let old = value_of(record);
            set_value(record, value);
            return Some(old);
        }
        let handle = self.arena.alloc(units_of(NAME + name.len()));
        let record = self.arena.at_mut(handle);
        record[..CHILD].copy_from_slice(&parent.0.to_le_bytes());
        set_value(record, value);
        record[LENGTH] = name.len() as u8;
        record[NAME..NAME + name.len()].copy_from_slice(name);
        self.tables.insert(site_of_hash(hash), hash, handle);
        self.len += 1;
        None
    }

    /// Removes the name, and returns what it led to.
    pub fn remove(&mut self, hash: u64, parent: InodeId, name: &[u8]) -> Option<NameValue> {
        let arena = &self.arena;
        let handle = self.tables.remove(site_of_hash(hash), hash, |h| is(arena.at(h), parent, name))?;
        let old = value_of(self.arena.at(handle));
        self.arena.free(handle, units_of(NAME + name.len()));
        self.len -= 1;
        Some(old)
    }

    /// Number of names.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The names of some slots, sorted by slot, parent and name.
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

    /// Bytes in use.
    pub fn memory(&self) -> Memory {
        let arena = self.arena.memory();
        Memory { tables: arena.tables + self.tables.bytes(), ..arena }
    }
}

fn owned(record: &[u8]) -> (InodeId, Name, NameValue) {
    let name = Name::new(name_of(record)).expect("only checked names are stored");
    (parent_of(record), name, value_of(record))
}

#[cfg(test)]
mod tests {
    use super::*;
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
            assert_eq!(names.put(name_hash(parent, name), parent, name, file(i as u64)), None);
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

    proptest! {
        /// Names behave as a map, whatever their lengths.
        #[test]
        fn names_are_a_map(steps in prop::collection::vec((0u64..3, 0usize..40, value(), 0u8..4), 1..300)) {
            let (mut names, mut model) = (Names::default(), BTreeMap::new());
            for (parent, number, value, operation) in steps {
                let name = format!("{number:0width$}", width = number % 3 * 120 + 1).into_bytes();
                let (parent, key) = (InodeId(parent), (InodeId(parent), name.clone()));
                let hash = name_hash(parent, &name);
                match operation {
                    0 => prop_assert_eq!(names.remove(hash, parent, &name), model.remove(&key)),
                    1 => prop_assert_eq!(names.get(hash, parent, &name), model.get(&key).copied()),
                    _ => prop_assert_eq!(names.put(hash, parent, &name, value), model.insert(key, value)),
                }
                prop_assert_eq!(names.len(), model.len() as u64);
            }
            let mut all = names.in_slots(Slot(0)..=Slot(u16::MAX));
            let halves = [names.in_slots(Slot(0)..=Slot(29_999)), names.in_slots(Slot(30_000)..=Slot(u16::MAX))];
            prop_assert_eq!(&all, &halves.concat());
            all.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
            let all = all.into_iter().map(|(parent, name, value)| ((parent, name.as_bytes().to_vec()), value));
            prop_assert_eq!(all.collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        }
    }
}
