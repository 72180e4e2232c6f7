//! Maps that are made once, of any size (see `spill`).

use super::spill::{Cursor, Sorter, Spill, Table};
use onpath_wire::disk::Stored;
use onpath_wire::ids::{DataId, Generation, InodeId};
use onpath_wire::name::Name;
use std::marker::PhantomData;
use std::rc::Rc;

/// What maps are sorted by: as bytes in the order of the values.
pub(super) trait Key: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(bytes: &[u8]) -> Option<Self>;
}

impl Key for InodeId {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_be_bytes());
    }

    fn take(bytes: &[u8]) -> Option<InodeId> {
        Some(InodeId(u64::from_be_bytes(bytes.try_into().ok()?)))
    }
}

impl Key for Name {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn take(bytes: &[u8]) -> Option<Name> {
        Name::new(bytes).ok()
    }
}

impl Key for DataId {
    fn put(&self, out: &mut Vec<u8>) {
        Key::put(&self.inode, out);
        out.extend_from_slice(&self.generation.0.to_be_bytes());
    }

    fn take(bytes: &[u8]) -> Option<DataId> {
        let (inode, generation) = bytes.split_first_chunk::<8>()?;
        let generation = Generation(u64::from_be_bytes(generation.try_into().ok()?));
        Some(DataId { inode: Key::take(inode)?, generation })
    }
}

/// What comes first has bytes of one length.
impl<B: Key> Key for (InodeId, B) {
    fn put(&self, out: &mut Vec<u8>) {
        Key::put(&self.0, out);
        Key::put(&self.1, out);
    }

    fn take(bytes: &[u8]) -> Option<(InodeId, B)> {
        let (first, rest) = bytes.split_first_chunk::<8>()?;
        Some((Key::take(first)?, Key::take(rest)?))
    }
}

fn bytes_of(key: &impl Key) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    Key::put(key, &mut bytes);
    bytes
}

/// A map that is being made, of keys that are all different.
#[derive(Debug)]
pub(super) struct Sorting<K, V> {
    sorter: Sorter,
    key: Vec<u8>,
    value: Vec<u8>,
    of: PhantomData<(K, V)>,
}

impl<K: Key, V: Stored> Sorting<K, V> {
    pub(super) fn new(spill: &Rc<Spill>) -> Sorting<K, V> {
        Sorting { sorter: Sorter::new(spill), key: Vec::new(), value: Vec::new(), of: PhantomData }
    }

    pub(super) fn push(&mut self, key: &K, value: &V) {
        self.key.clear();
        self.value.clear();
        Key::put(key, &mut self.key);
        Stored::store(value, &mut self.value);
        self.sorter.push(&self.key, &self.value);
    }

    pub(super) fn finish(self) -> Sorted<K, V> {
        Sorted { table: self.sorter.finish(), of: PhantomData }
    }
}

/// Values by key. Whoever uses it must ask afterwards whether the [`Spill`] is sound.
#[derive(Debug)]
pub(super) struct Sorted<K, V> {
    table: Table,
    of: PhantomData<(K, V)>,
}

impl<K: Key + PartialEq, V: Stored> Sorted<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<V> {
        let key = bytes_of(key);
        let cursor = self.table.from(&key);
        let (_, value) = cursor.peek().filter(|(other, _)| *other == key)?;
        self.decoded(V::from_stored(value).ok())
    }

    pub(super) fn contains_key(&self, key: &K) -> bool {
        let key = bytes_of(key);
        self.table.from(&key).peek().is_some_and(|(other, _)| other == key)
    }

    pub(super) fn len(&self) -> u64 {
        self.table.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// In the order of the keys.
    pub(super) fn iter(&self) -> Iter<'_, K, V> {
        Iter { map: self, cursor: self.table.from(&[]) }
    }

    /// Those of which the key begins with this, or is not below it.
    pub(super) fn from(&self, first: &impl Key) -> Iter<'_, K, V> {
        Iter { map: self, cursor: self.table.from(&bytes_of(first)) }
    }

    fn decoded<T>(&self, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.table.spill().damaged("an entry does not decode");
        }
        value
    }
}

/// The entries of a map from somewhere on.
pub(super) struct Iter<'a, K, V> {
    map: &'a Sorted<K, V>,
    cursor: Cursor<'a>,
}

impl<K: Key + PartialEq, V: Stored> Iterator for Iter<'_, K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        let (key, value) = self.cursor.peek()?;
        let entry = <K as Key>::take(key).zip(V::from_stored(value).ok());
        self.cursor.advance();
        self.map.decoded(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_the_order_of_their_keys() {
        let spill = Spill::new(&std::env::temp_dir(), 0);
        let name = |text: &str| Name::new(text.as_bytes()).expect("a name");
        let mut wanted = Vec::new();
        for id in [1, 255, 256, u64::MAX] {
            wanted.extend(["a", "a\x01", "ab", "b", "\u{ff}"].map(|text| ((InodeId(id), name(text)), id)));
        }
        assert!(wanted.is_sorted());
        let mut map = Sorting::new(&spill);
        wanted.iter().rev().for_each(|(key, value)| map.push(key, value));
        let map: Sorted<(InodeId, Name), u64> = map.finish();
        assert_eq!(map.iter().collect::<Vec<_>>(), wanted);
        assert_eq!((map.get(&(InodeId(255), name("ab"))), map.get(&(InodeId(2), name("ab")))), (Some(255), None));
        assert_eq!(map.from(&InodeId(256)).next(), Some(wanted[10].clone()));
        assert!(map.contains_key(&wanted[3].0) && !map.is_empty() && map.len() == 20);
        spill.sound().expect("nothing failed");
    }
}
