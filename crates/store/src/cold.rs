//! What of a shard's objects is not in memory: an ordered store keeps what the last checkpoint had (design.md, "Durability").
//!
//! The tables are a layer over it: an object that is in memory is newer or the same, one that was removed since the checkpoint
//! is among a table's *removed* keys, and anything else is as the store has it. So a table may forget any object that has not
//! changed since the checkpoint, and read it again when it is asked for.
//!
//! Keys begin with the class of the object; ids come with their slots last, so that what is born together lies together.

use onpath_wire::hash::inode_hash;
use onpath_wire::ids::{Birth, Cookie, InodeId, SLOT_SHIFT};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;

/// The objects of one role as the last checkpoint has them. Reading cannot fail: who implements it ends the process when the disk
/// does not give back what was written, as it does when the journal fails (design.md, "Durability").
pub trait Cold: Send + Sync {
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;
    /// Calls `each` with every key that begins with `prefix` and is not below `from`, in order, until it returns false.
    fn scan(&self, prefix: &[u8], from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool);
}

/// Classes of objects that a table keeps: the first byte of a key.
pub mod class {
    /// An inode.
    pub const INODE: u8 = 1;
    /// A name.
    pub const NAME: u8 = 2;
    /// An entry of a listing.
    pub const ENTRY: u8 = 3;
    /// All extended attributes of an inode. In `rest` the same class is one attribute, as checkpoints of before have it.
    pub const XATTR: u8 = 8;
    /// The number of further names of a file in a directory.
    pub const FURTHER: u8 = 9;
}

/// Bits of what a table knows of an object.
pub(crate) mod flag {
    /// Changed since the last image of its range.
    pub(crate) const DIRTY: u8 = 0x80;
    /// In an image that is not kept yet.
    pub(crate) const LEAVING: u8 = 0x40;
    /// The store has it, maybe in an older form.
    pub(crate) const COLD: u8 = 0x20;
    /// Asked for since the table last looked for something to forget.
    pub(crate) const USED: u8 = 0x10;
    /// Not to be forgotten.
    pub(crate) const HELD: u8 = DIRTY | LEAVING;

    /// The store has (`kept`) or will not have the image that the object is in.
    pub(crate) fn settle(flags: &mut u8, kept: bool) {
        if *flags & LEAVING != 0 {
            *flags = *flags & !LEAVING | if kept { COLD } else { DIRTY };
        }
    }

    /// Whether the object can be forgotten and was not asked for since the last time.
    pub(crate) fn forget(flags: &mut u8) -> bool {
        let used = *flags & USED != 0;
        *flags &= !USED;
        !used && *flags & (HELD | COLD) == COLD
    }
}

/// Keys of which the store has something else than the table, or nothing: what was removed, or has changed otherwise, until an image
/// with that is kept.
#[derive(Debug)]
pub struct Unsaved<K> {
    /// Since the last image.
    fresh: BTreeSet<K>,
    /// In an image that is not kept yet.
    leaving: BTreeSet<K>,
    /// Since the image under way began, which is yet to take some of the fresh ones.
    later: BTreeSet<K>,
}

impl<K> Default for Unsaved<K> {
    fn default() -> Self {
        Unsaved { fresh: BTreeSet::new(), leaving: BTreeSet::new(), later: BTreeSet::new() }
    }
}

impl<K: Ord + Clone> Unsaved<K> {
    /// This object has changed.
    pub fn add(&mut self, key: K) {
        self.fresh.insert(key);
    }

    /// This object has changed while the image of its range is under way: that is for the next one.
    pub fn put_off(&mut self, key: K) {
        self.later.insert(key);
    }

    /// Takes a fresh key into the image under way; whether it was one.
    pub(crate) fn leave_early(&mut self, key: &K) -> bool {
        let fresh = self.fresh.take(key);
        fresh.map(|key| self.leaving.insert(key)).is_some()
    }

    /// No image is under way any more.
    pub(crate) fn end(&mut self) {
        self.fresh.append(&mut self.later);
    }

    fn sets(&self) -> [&BTreeSet<K>; 3] {
        [&self.fresh, &self.leaving, &self.later]
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sets().iter().all(|set| set.is_empty())
    }

    /// Bytes in memory, about; a key has `more` of them beside itself.
    pub fn bytes(&self, more: usize) -> u64 {
        // Nodes of a tree are two thirds full.
        let keys: usize = self.sets().iter().map(|set| set.len()).sum();
        (keys * (size_of::<K>() * 3 / 2 + more)) as u64
    }

    /// Whether the store has not, or not surely, what the table has of this key.
    pub fn contains(&self, key: &K) -> bool {
        self.sets().iter().any(|set| set.contains(key))
    }

    /// Whether this object has changed since the last image.
    pub fn is_fresh(&self, key: &K) -> bool {
        self.fresh.contains(key)
    }

    /// Whether there is one in a range.
    pub fn any(&self, range: impl RangeBounds<K> + Clone) -> bool {
        self.sets().iter().any(|set| !set.is_empty() && set.range(range.clone()).next().is_some())
    }

    /// All of them, some perhaps twice.
    pub fn iter(&self) -> impl Iterator<Item = &K> {
        self.sets().into_iter().flatten()
    }

    /// Keys of a range go into an image; sorted.
    pub fn leave(&mut self, range: impl RangeBounds<K>) -> Vec<K> {
        self.leave_some(range, usize::MAX)
    }

    /// The same of the first keys of the range, as many as given.
    pub(crate) fn leave_some(&mut self, range: impl RangeBounds<K>, most: usize) -> Vec<K> {
        let all: Vec<K> = self.fresh.extract_if(range, |_| true).take(most).collect();
        self.leaving.extend(all.iter().cloned());
        all
    }

    /// The image of a range is `kept`, or not; whether there was something in it. An object that has changed again by then is in the
    /// same or the next image, and an image's removals come before what it puts.
    pub fn settle(&mut self, range: impl RangeBounds<K>, kept: bool) -> bool {
        self.settle_some(range, kept, usize::MAX) > 0
    }

    /// The same of the first keys of the range, as many as given; how many there were.
    pub(crate) fn settle_some(&mut self, range: impl RangeBounds<K>, kept: bool, most: usize) -> usize {
        let keys: Vec<K> = self.leaving.extract_if(range, |_| true).take(most).collect();
        let settled = keys.len();
        if !kept {
            self.fresh.extend(keys);
        }
        settled
    }
}

/// By how much ids are turned in keys: the slot comes last.
const TURN: u32 = u64::BITS - SLOT_SHIFT;

/// An id as it stands in keys.
pub fn id_bytes(id: InodeId) -> [u8; 8] {
    id.0.rotate_left(TURN).to_be_bytes()
}

/// The id of a key's bytes.
pub fn id_of(bytes: [u8; 8]) -> InodeId {
    InodeId(u64::from_be_bytes(bytes).rotate_right(TURN))
}

/// Bytes that the keys of one class have in common that belong to one directory, or inode: the class and the id.
pub const OWNER_BYTES: usize = 1 + size_of::<InodeId>();

/// Key of an inode.
pub(crate) fn inode_key(id: InodeId) -> Vec<u8> {
    [&[class::INODE][..], &id_bytes(id)].concat()
}

/// Key of an inode's extended attributes.
pub(crate) fn xattrs_key(id: InodeId) -> Vec<u8> {
    [&[class::XATTR][..], &id_bytes(id)].concat()
}

/// Key of the further names of a file in a directory.
pub(crate) fn further_key(id: InodeId, dir: InodeId) -> Vec<u8> {
    [&[class::FURTHER][..], &id_bytes(id), &id_bytes(dir)].concat()
}

/// Key of a name.
pub(crate) fn name_key(parent: InodeId, name: &[u8]) -> Vec<u8> {
    [&[class::NAME][..], &id_bytes(parent), name].concat()
}

/// What the keys of a directory's entries begin with.
pub(crate) fn listing_prefix(dir: InodeId) -> Vec<u8> {
    [&[class::ENTRY][..], &id_bytes(dir)].concat()
}

/// Bytes of an entry's key that the entries of one cookie hash have in common. Entries of a neighbouring hash may have them too.
const NEAR_BYTES: usize = 15;

/// What the keys of the entries begin with that may be of a cookie's hash.
pub(crate) fn near_prefix(dir: InodeId, cookie: Cookie) -> Vec<u8> {
    let mut key = entry_key(dir, cookie);
    key.truncate(NEAR_BYTES);
    key
}

/// Key of an entry.
pub(crate) fn entry_key(dir: InodeId, cookie: Cookie) -> Vec<u8> {
    [&[class::ENTRY][..], &id_bytes(dir), &cookie.0.to_be_bytes()].concat()
}

/// Bits of a [`Below`]'s filter.
const FILTER_BITS: u64 = 1 << 19;

/// The store below a table, and what it surely does not have.
#[derive(Clone)]
pub(crate) struct Below {
    cold: Option<Arc<dyn Cold>>,
    /// Directories of this birth or a later one have nothing in the store that was not forgotten by the table.
    since: Birth,
    /// Which of those have lost something, by their hashes; empty if none has.
    forgotten: Vec<u64>,
}

impl Default for Below {
    /// The store may have anything, until it is known what is too young for that.
    fn default() -> Self {
        Below { cold: None, since: Birth::NEVER, forgotten: Vec::new() }
    }
}

impl fmt::Debug for Below {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Below").field("cold", &self.cold.is_some()).field("since", &self.since).finish_non_exhaustive()
    }
}

impl Below {
    /// From now on the store is this.
    pub(crate) fn set(&mut self, cold: Arc<dyn Cold>) {
        self.cold = Some(cold);
    }

    /// What is of this birth or a later one is not in the store yet.
    pub(crate) fn set_since(&mut self, since: Birth) {
        self.since = since;
    }

    /// The store.
    pub(crate) fn store(&self) -> Option<&dyn Cold> {
        self.cold.as_deref()
    }

    /// The store, to keep.
    pub(crate) fn shared(&self) -> Option<Arc<dyn Cold>> {
        self.cold.clone()
    }

    /// The store, if it may have something of this directory that the table lacks.
    #[inline]
    pub(crate) fn of(&self, dir: InodeId) -> Option<&dyn Cold> {
        let cold = self.cold.as_deref()?;
        (dir.birth() < self.since || self.has_forgotten(dir)).then_some(cold)
    }

    fn has_forgotten(&self, dir: InodeId) -> bool {
        let bit = inode_hash(dir) % FILTER_BITS;
        self.forgotten.get((bit / 64) as usize).is_some_and(|word| word >> (bit % 64) & 1 != 0)
    }

    /// The table has forgotten something of this directory.
    pub(crate) fn forgets(&mut self, dir: InodeId) {
        if self.forgotten.is_empty() {
            self.forgotten = vec![0; (FILTER_BITS / 64) as usize];
        }
        let bit = inode_hash(dir) % FILTER_BITS;
        self.forgotten[(bit / 64) as usize] |= 1 << (bit % 64);
    }

    /// Bytes of the filter.
    pub(crate) fn bytes(&self) -> u64 {
        (self.forgotten.len() * size_of::<u64>()) as u64
    }
}

/// What an image of some slots takes from a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Objects that are new or have changed.
    pub put: Vec<(Vec<u8>, Vec<u8>)>,
    /// Keys of objects that are gone.
    pub removed: Vec<Vec<u8>>,
}

impl Changes {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.removed.is_empty()
    }

    /// These too.
    pub fn add(&mut self, more: Changes) {
        self.put.extend(more.put);
        self.removed.extend(more.removed);
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::pieces::Piece;
    use std::collections::BTreeMap;
    use std::ops::Bound;
    use std::sync::Mutex;

    /// A store in memory.
    #[derive(Default)]
    pub(crate) struct Shelf(Mutex<BTreeMap<Vec<u8>, Vec<u8>>>);

    impl Shelf {
        /// Keeps an image.
        pub(crate) fn keep(&self, changes: &Changes) {
            let mut all = self.0.lock().unwrap();
            changes.removed.iter().for_each(|key| _ = all.remove(key));
            all.extend(changes.put.iter().cloned());
        }

        /// Everything in it.
        pub(crate) fn all(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
            self.0.lock().unwrap().clone().into_iter().collect()
        }
    }

    impl Cold for Shelf {
        fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
            self.0.lock().unwrap().get(key).cloned()
        }

        fn scan(&self, prefix: &[u8], from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
            let all = self.0.lock().unwrap();
            let from = (Bound::Included(from), Bound::Unbounded);
            let range = all.range::<[u8], _>(from).take_while(|(key, _)| key.starts_with(prefix));
            range.map(|(key, value)| each(key, value)).take_while(|go_on| *go_on).for_each(drop);
        }
    }

    /// What a host does to a table beside its use.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Upkeep {
        /// Begins an image, or takes one more piece of it.
        Image,
        /// Takes what is left of it, and keeps it.
        Keep,
        /// Loses it, complete or not.
        Lose,
        Forget,
    }

    /// A table of which images are taken.
    pub(crate) trait Imaged {
        fn begin(&mut self);
        fn more(&mut self, piece: &mut Piece, changes: &mut Changes) -> bool;
        fn settle(&mut self, kept: bool, piece: &mut Piece) -> bool;
        fn forget(&mut self);
    }

    /// An image that may be kept or lost later, and what was done so far; `M`: what the image is to be of.
    pub(crate) struct Keeper<M> {
        pub(crate) shelf: Arc<Shelf>,
        image: Option<(Changes, bool, M)>,
    }

    impl<M> Default for Keeper<M> {
        fn default() -> Self {
            Keeper { shelf: Arc::default(), image: None }
        }
    }

    impl<M: Clone> Keeper<M> {
        /// Does a piece of upkeep with a table that is as `now`; what the store is to be like, if it was written.
        pub(crate) fn upkeep(&mut self, what: Upkeep, table: &mut impl Imaged, now: &M) -> Option<M> {
            match what {
                Upkeep::Image => {
                    let image = self.image.get_or_insert_with(|| {
                        table.begin();
                        (Changes::default(), true, now.clone())
                    });
                    image.1 = image.1 && table.more(&mut Piece::of(3), &mut image.0);
                }
                Upkeep::Keep | Upkeep::Lose => {
                    let (mut changes, mut more, was) = self.image.take()?;
                    let kept = what == Upkeep::Keep;
                    while kept && more {
                        more = table.more(&mut Piece::of(3), &mut changes);
                    }
                    if kept {
                        self.shelf.keep(&changes);
                    }
                    while table.settle(kept, &mut Piece::of(20)) {}
                    return kept.then_some(was);
                }
                Upkeep::Forget => table.forget(),
            }
            None
        }
    }

    pub(crate) fn upkeep() -> impl proptest::strategy::Strategy<Value = Upkeep> {
        use Upkeep::{Forget, Image, Keep, Lose};
        proptest::sample::select(vec![Image, Image, Image, Image, Keep, Keep, Lose, Forget, Forget])
    }
}
