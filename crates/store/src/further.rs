//! Directories of files with several names, a side table: a file with one name has its directory in its inode and is not in it.
//!
//! An inode says where one of its names is, this table where the *further* ones are, and how many in each directory. Each directory of a
//! file is an object of the store, read when it is asked for: neither a record nor a step grows with the number of names.

use crate::cold::{Changes, Cold, Unsaved, further_key, id_bytes, id_of};
use crate::inodes::ids_of;
use crate::pieces::Piece;
use onpath_wire::WireError;
use onpath_wire::disk::Stored;
use onpath_wire::disk::objects::FurtherObject;
use onpath_wire::ids::{InodeId, Slot};
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds, RangeInclusive};

/// A file, and a directory.
type Key = (InodeId, InodeId);

/// Numbers of further names, as far as they are in memory.
#[derive(Debug, Default)]
pub(crate) struct FurtherTable {
    /// Never 0.
    names: BTreeMap<Key, u32>,
    unsaved: Unsaved<Key>,
}

/// All directories of these files.
fn of(ids: RangeInclusive<InodeId>) -> RangeInclusive<Key> {
    (*ids.start(), InodeId(0))..=(*ids.end(), InodeId(u64::MAX))
}

/// An object of the store; `key` without its class.
pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<(InodeId, InodeId, u32), WireError> {
    let (id, dir) = key.split_first_chunk::<8>().ok_or(WireError::Truncated)?;
    let dir = <[u8; 8]>::try_from(dir).map_err(|_| WireError::Bad("key of further names"))?;
    match FurtherObject::from_stored(value)?.names {
        0 => Err(WireError::Bad("number of further names")),
        names => Ok((id_of(*id), id_of(dir), names)),
    }
}

impl FurtherTable {
    /// Whether memory knows how many there are, whatever the store says.
    pub(crate) fn knows(&self, id: InodeId, dir: InodeId) -> bool {
        self.names.contains_key(&(id, dir)) || self.unsaved.contains(&(id, dir))
    }

    /// How many further names a file has in a directory.
    pub(crate) fn count(&self, id: InodeId, dir: InodeId, cold: Option<&dyn Cold>) -> u32 {
        if self.knows(id, dir) {
            return self.names.get(&(id, dir)).copied().unwrap_or(0);
        }
        let stored = cold.and_then(|cold| cold.get(&further_key(id, dir)));
        stored
            .map_or(0, |value| FurtherObject::from_stored(&value).expect("the store gives back what was written").names)
    }

    /// A directory in which a file has further names, if there is one: the first after `dir`, so that who removes one name after the
    /// other does not pass over all that are gone, again and again.
    pub(crate) fn any(&self, id: InodeId, dir: InodeId, cold: Option<&dyn Cold>) -> Option<InodeId> {
        let after = (Bound::Excluded((id, dir)), Bound::Included((id, InodeId(u64::MAX))));
        let first = |range: (Bound<Key>, Bound<Key>)| self.names.range(range).next().map(|((_, dir), _)| *dir);
        let here = first(after).or_else(|| first((Bound::Included((id, InodeId(0))), Bound::Included((id, dir)))));
        here.or_else(|| self.any_stored(id, dir, cold?))
    }

    fn any_stored(&self, id: InodeId, dir: InodeId, cold: &dyn Cold) -> Option<InodeId> {
        let place = further_key(id, dir);
        let prefix = &place[..place.len() - id_bytes(dir).len()];
        let mut found = None;
        for from in [&place[..], prefix] {
            cold.scan(prefix, from, &mut |key, _| {
                let other = key.last_chunk().map(|dir| id_of(*dir));
                found = other.filter(|other| !self.knows(id, *other));
                found.is_none()
            });
            if found.is_some() {
                break;
            }
        }
        found
    }

    /// Takes an object of the store unless a newer one is here.
    pub(crate) fn load(&mut self, id: InodeId, dir: InodeId, names: u32) {
        if !self.knows(id, dir) {
            self.names.insert((id, dir), names);
        }
    }

    /// A file has so many further names in a directory; `later`: the image under way is not to have that.
    pub(crate) fn set(&mut self, id: InodeId, dir: InodeId, names: u32, later: bool) {
        if later {
            self.unsaved.put_off((id, dir))
        } else {
            self.unsaved.add((id, dir))
        }
        match names {
            0 => drop(self.names.remove(&(id, dir))),
            names => drop(self.names.insert((id, dir), names)),
        }
    }

    /// An image under way takes what it is to have of what is about to change.
    pub(crate) fn leave_early(&mut self, id: InodeId, dir: InodeId, changes: &mut Changes) {
        if self.unsaved.leave_early(&(id, dir)) {
            self.take((id, dir), changes);
        }
    }

    fn take(&self, key: Key, changes: &mut Changes) {
        let place = further_key(key.0, key.1);
        match self.names.get(&key) {
            Some(&names) => changes.put.push((place, FurtherObject { names }.to_stored())),
            None => changes.removed.push(place),
        }
    }

    /// A piece of what has changed for files of some slots since their last image; false if there was nothing.
    pub(crate) fn more_of_image(
        &mut self,
        slots: RangeInclusive<Slot>,
        piece: &mut Piece,
        changes: &mut Changes,
    ) -> bool {
        let keys = self.unsaved.leave_some(of(ids_of(slots)), piece.takes());
        piece.take(keys.len());
        keys.iter().for_each(|&key| self.take(key, changes));
        !keys.is_empty()
    }

    /// No image is under way any more.
    pub(crate) fn end(&mut self) {
        self.unsaved.end();
    }

    /// The store has (`kept`) or will not have the last image of these slots; false if there was nothing to settle.
    pub(crate) fn settle(&mut self, slots: RangeInclusive<Slot>, kept: bool, piece: &mut Piece) -> bool {
        let settled = self.unsaved.settle_some(of(ids_of(slots)), kept, piece.takes());
        piece.take(settled);
        settled > 0
    }

    /// Forgets what the store has too, of files of some slots.
    pub(crate) fn forget(&mut self, slots: RangeInclusive<Slot>) {
        let (range, unsaved) = (of(ids_of(slots)), &self.unsaved);
        self.names.extract_if(range, |key, _| !unsaved.contains(key)).for_each(drop);
    }

    /// Files of some slots with their directories, sorted.
    pub(crate) fn in_slots(&self, slots: RangeInclusive<Slot>) -> impl Iterator<Item = (InodeId, InodeId, u32)> {
        let range: (Bound<Key>, Bound<Key>) = {
            let range = of(ids_of(slots));
            (range.start_bound().cloned(), range.end_bound().cloned())
        };
        self.names.range(range).map(|(&(id, dir), &names)| (id, dir, names))
    }

    /// Bytes in use, about.
    pub(crate) fn bytes(&self) -> u64 {
        const ENTRY_BYTES: u64 = size_of::<(Key, u32)>() as u64 * 3 / 2; // nodes of a tree are two thirds full
        ENTRY_BYTES * self.names.len() as u64 + self.unsaved.bytes(0)
    }
}
