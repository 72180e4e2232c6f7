//! The listing of one directory: leaves in cookie order, one for a small directory, else found by an index of
//! their lowest cookies. Leaves and indexes of all listings of a shard live in one [`Forest`].

use crate::arena::{Arena, Handle, Memory};
use crate::leaf::{Entry, HEADER, LEAF_BYTES_MAX, Leaf, LeafMut, entry_bytes, leaf_units};
use crate::names::NameValue;
use crate::pieces::Piece;
use onpath_wire::ids::Cookie;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};

/// A leaf with fewer bytes is joined to a neighbour if they fit together.
const LEAF_BYTES_LOW: usize = LEAF_BYTES_MAX / 4;
/// What an index takes for a leaf, bytes: eleven 12-byte pairs a node, about seven of them in use.
const INDEX_BYTES_A_LEAF: u64 = 22;

type Index = BTreeMap<u64, Handle>;

/// Where the entries of a directory are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// In one leaf.
    Leaf(Handle),
    /// In the leaves of this index; its first key is 0.
    Index(u32),
}

/// A place in a listing, good until the listing changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    /// The leaf's key in the index; 0 if there is only one.
    low: u64,
    leaf: Handle,
    position: usize,
}

/// The leaves and indexes of the listings of a shard.
#[derive(Debug, Default)]
pub(crate) struct Forest {
    arena: Arena,
    indexes: Vec<Index>,
    free_indexes: Vec<u32>,
}

impl Forest {
    /// A listing with one entry.
    pub(crate) fn plant(&mut self, entry: &Entry<'_>) -> Root {
        let leaf = self.new_leaf(HEADER + entry_bytes(entry.name));
        self.leaf_mut(leaf).insert(0, entry);
        Root::Leaf(leaf)
    }

    /// Frees a listing.
    pub(crate) fn fell(&mut self, root: Root) {
        match root {
            Root::Leaf(leaf) => self.free_leaf(leaf),
            Root::Index(index) => {
                let leaves = std::mem::take(&mut self.indexes[index as usize]);
                leaves.into_values().for_each(|leaf| self.free_leaf(leaf));
                self.free_indexes.push(index);
            }
        }
    }

    /// The place of the first entry whose cookie is at least this, or the end of the leaf before it.
    #[inline]
    pub(crate) fn seek(&self, root: Root, cookie: u64) -> Spot {
        let (low, leaf) = match root {
            Root::Leaf(leaf) => (0, leaf),
            Root::Index(index) => {
                let below = self.indexes[index as usize].range(..=cookie).next_back();
                below.map(|(&low, &leaf)| (low, leaf)).expect("the first key of an index is 0")
            }
        };
        Spot { low, leaf, position: self.leaf(leaf).lower_bound(cookie) }
    }

    /// The cookie at a place, or the first of the next leaf at the end of one. The place moves to its entry.
    #[inline]
    pub(crate) fn cookie(&self, root: Root, spot: &mut Spot) -> Option<Cookie> {
        if spot.position == self.leaf(spot.leaf).count() {
            *spot = self.next_leaf(root, spot.low)?;
        }
        Some(Cookie(self.leaf(spot.leaf).cookie(spot.position)))
    }

    /// The name at a place to which [`Forest::cookie`] has moved.
    #[inline]
    pub(crate) fn name(&self, spot: Spot) -> &[u8] {
        self.leaf(spot.leaf).name(spot.position)
    }

    /// The entry at a place to which [`Forest::cookie`] has moved.
    #[inline]
    pub(crate) fn entry(&self, spot: Spot) -> Entry<'_> {
        self.leaf(spot.leaf).entry(spot.position)
    }

    /// All entries from a place on.
    pub(crate) fn entries(&self, root: Root, mut spot: Spot) -> impl Iterator<Item = Entry<'_>> {
        std::iter::from_fn(move || {
            self.cookie(root, &mut spot)?;
            let entry = self.entry(spot);
            spot = spot.after();
            Some(entry)
        })
    }

    /// Replaces what an entry leads to, and its flags.
    pub(crate) fn set_value(&mut self, spot: Spot, value: NameValue, flags: u8) {
        self.leaf_mut(spot.leaf).set_value(spot.position, value, flags);
    }

    /// Shows every entry of the leaves that are held, from the one on where this cookie belongs, and sets the flags that are given
    /// back; until the piece is over. Where to go on, unless that was all.
    pub(crate) fn each_held(
        &mut self,
        root: Root,
        from: u64,
        piece: &mut Piece,
        mut each: impl FnMut(&Entry<'_>, &mut Piece) -> u8,
    ) -> Option<u64> {
        let Forest { arena, indexes, .. } = self;
        let mut visit = |leaf: Handle, piece: &mut Piece| {
            piece.look(1);
            if Leaf::at(arena.at(leaf)).is_held() {
                piece.look(Leaf::at(arena.at(leaf)).count());
                LeafMut::at(arena.at_mut(leaf)).each(|entry| each(entry, piece));
            }
        };
        let index = match root {
            Root::Leaf(leaf) => {
                visit(leaf, piece);
                return None;
            }
            Root::Index(index) => &indexes[index as usize],
        };
        let first = index.range(..=from).next_back().map_or(0, |(&low, _)| low);
        for (&low, &leaf) in index.range(first..) {
            if piece.is_over() {
                return Some(low);
            }
            visit(leaf, piece);
        }
        None
    }

    /// Frees all leaves that are not held; how many entries they had, and what remains of the listing.
    pub(crate) fn forget(&mut self, root: Root) -> (u64, Option<Root>) {
        let Root::Index(number) = root else {
            let Root::Leaf(leaf) = root else { unreachable!("a root is a leaf or an index") };
            if self.leaf(leaf).is_held() {
                return (0, Some(root));
            }
            let entries = self.leaf(leaf).count() as u64;
            self.free_leaf(leaf);
            return (entries, None);
        };
        let index = std::mem::take(&mut self.indexes[number as usize]);
        let (mut forgotten, mut kept) = (0, Index::new());
        for (low, leaf) in index {
            if self.leaf(leaf).is_held() {
                // What lies below the first leaf belongs to it.
                kept.insert(if kept.is_empty() { 0 } else { low }, leaf);
            } else {
                forgotten += self.leaf(leaf).count() as u64;
                self.free_leaf(leaf);
            }
        }
        if kept.len() > 1 {
            self.indexes[number as usize] = kept;
            return (forgotten, Some(root));
        }
        self.free_indexes.push(number);
        (forgotten, kept.into_values().next().map(Root::Leaf))
    }

    /// Inserts an entry at the place that `seek` gave for its cookie.
    pub(crate) fn insert(&mut self, root: &mut Root, spot: Spot, entry: &Entry<'_>) {
        let leaf = self.leaf(spot.leaf);
        let bytes = leaf.used() + entry_bytes(entry.name);
        if leaf.has_room(entry.name) {
            self.leaf_mut(spot.leaf).insert(spot.position, entry);
        } else if bytes <= LEAF_BYTES_MAX {
            let leaf = self.resize(root, spot.low, spot.leaf, bytes);
            self.leaf_mut(leaf).insert(spot.position, entry);
        } else {
            self.split(root, spot);
            let spot = self.seek(*root, entry.cookie.0);
            // A half and one more entry always fit a leaf.
            self.insert(root, spot, entry);
        }
    }

    /// Removes an entry; a listing must keep at least one.
    pub(crate) fn remove(&mut self, root: &mut Root, spot: Spot) {
        self.leaf_mut(spot.leaf).remove(spot.position);
        let leaf = self.leaf(spot.leaf);
        let (used, units) = (leaf.used(), leaf.units());
        if used < LEAF_BYTES_LOW && self.join(root, spot.low, spot.leaf) {
            return;
        }
        if leaf_units(used) * 2 <= units {
            self.resize(root, spot.low, spot.leaf, used);
        }
    }

    /// Bytes in use; those of indexes are an estimate.
    pub(crate) fn memory(&self) -> Memory {
        let leaves: u64 = self.indexes.iter().map(|index| index.len() as u64).sum();
        let indexes = self.indexes.capacity() * size_of::<Index>() + self.free_indexes.capacity() * size_of::<u32>();
        let arena = self.arena.memory();
        Memory { tables: arena.tables + leaves * INDEX_BYTES_A_LEAF + indexes as u64, ..arena }
    }

    #[inline]
    fn leaf(&self, leaf: Handle) -> Leaf<'_> {
        Leaf::at(self.arena.at(leaf))
    }

    #[inline]
    fn leaf_mut(&mut self, leaf: Handle) -> LeafMut<'_> {
        LeafMut::at(self.arena.at_mut(leaf))
    }

    fn new_leaf(&mut self, bytes: usize) -> Handle {
        let units = leaf_units(bytes);
        let leaf = self.arena.alloc(units);
        LeafMut::new(self.arena.at_mut(leaf), units);
        leaf
    }

    fn free_leaf(&mut self, leaf: Handle) {
        let units = self.leaf(leaf).units();
        self.arena.free(leaf, units);
    }

    fn next_leaf(&self, root: Root, low: u64) -> Option<Spot> {
        let Root::Index(index) = root else { return None };
        let (&low, &leaf) = self.indexes[index as usize].range((Bound::Excluded(low), Bound::Unbounded)).next()?;
        assert!(self.leaf(leaf).count() > 0, "empty leaf in an index");
        Some(Spot { low, leaf, position: 0 })
    }

    fn previous_leaf(&self, root: Root, low: u64) -> Option<(u64, Handle)> {
        let Root::Index(index) = root else { return None };
        self.indexes[index as usize].range(..low).next_back().map(|(&low, &leaf)| (low, leaf))
    }

    fn relink(&mut self, root: &mut Root, low: u64, leaf: Handle) {
        match root {
            Root::Leaf(only) => *only = leaf,
            Root::Index(index) => {
                self.indexes[*index as usize].insert(low, leaf);
            }
        }
    }

    /// Moves a leaf to a block that holds `bytes`.
    fn resize(&mut self, root: &mut Root, low: u64, leaf: Handle, bytes: usize) -> Handle {
        let units = leaf_units(bytes);
        let to = self.arena.alloc(units);
        let (from, target) = self.arena.two(leaf, to);
        Leaf::at(from).copy_to(target, units);
        self.free_leaf(leaf);
        self.relink(root, low, to);
        to
    }

    /// Cuts a full leaf into two.
    fn split(&mut self, root: &mut Root, spot: Spot) {
        let leaf = self.leaf(spot.leaf);
        let (middle, count) = (leaf.middle(), leaf.count());
        let second_low = leaf.cookie(middle);
        let first = self.extract(spot.leaf, 0..middle);
        let second = self.extract(spot.leaf, middle..count);
        self.free_leaf(spot.leaf);
        if let Root::Leaf(_) = root {
            *root = self.new_index(first);
        }
        self.relink(root, spot.low, first);
        self.relink(root, second_low, second);
    }

    fn extract(&mut self, leaf: Handle, range: Range<usize>) -> Handle {
        let part = self.new_leaf(self.leaf(leaf).bytes_of(range.clone()));
        let (from, to) = self.arena.two(leaf, part);
        LeafMut::at(to).append(Leaf::at(from), range);
        part
    }

    fn new_index(&mut self, first: Handle) -> Root {
        let index = self.free_indexes.pop().unwrap_or_else(|| {
            self.indexes.push(Index::new());
            u32::try_from(self.indexes.len() - 1).expect("fewer indexes than handles")
        });
        self.indexes[index as usize].insert(0, first);
        Root::Index(index)
    }

    /// Joins a small leaf with the next or the previous one, if they fit together.
    fn join(&mut self, root: &mut Root, low: u64, leaf: Handle) -> bool {
        let next = self.next_leaf(*root, low).map(|next| ((low, leaf), (next.low, next.leaf)));
        let previous = self.previous_leaf(*root, low).map(|previous| (previous, (low, leaf)));
        let bytes = |first, second| self.leaf(first).used() + self.leaf(second).used() - HEADER;
        let fits = |&((_, first), (_, second)): &((u64, Handle), (u64, Handle))| bytes(first, second) <= LEAF_BYTES_MAX;
        let Some(((low, first), (second_low, second))) = next.into_iter().chain(previous).find(fits) else {
            assert!(self.leaf(leaf).count() > 0, "an empty leaf fits any neighbour");
            return false;
        };
        let joined = self.resize(root, low, first, bytes(first, second));
        let (from, to) = self.arena.two(second, joined);
        let from = Leaf::at(from);
        LeafMut::at(to).append(from, 0..from.count());
        self.free_leaf(second);
        self.unlink(root, second_low, joined);
        true
    }

    /// Takes a leaf out of an index, and the index away when one leaf remains.
    fn unlink(&mut self, root: &mut Root, low: u64, remaining: Handle) {
        let Root::Index(number) = *root else { unreachable!("only an index has two leaves") };
        let index = &mut self.indexes[number as usize];
        assert!(low > 0 && index.remove(&low).is_some(), "leaf {low:x} is not in its index");
        if index.len() == 1 {
            index.clear();
            self.free_indexes.push(number);
            *root = Root::Leaf(remaining);
        }
    }
}

impl Spot {
    /// The place after the entry here.
    pub(crate) fn after(self) -> Spot {
        Spot { position: self.position + 1, ..self }
    }
}
