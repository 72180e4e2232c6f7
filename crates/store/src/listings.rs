//! The listings of a shard: `(directory, cookie) → (name, child, kind)` at the directory's owner (design.md, "Objects and places").
//!
//! An entry keeps its cookie as long as it lives, whatever comes and goes around it, so that one present
//! throughout a scan is returned exactly once. Directories without entries take no memory.

use crate::arena::{Arena, Handle, Memory};
use crate::cold::{Below, Changes, Cold, Unsaved, entry_key, flag, id_of, listing_prefix, near_prefix};
use crate::inodes::ids_of;
use crate::leaf::Entry;
use crate::names::NameValue;
use crate::pieces::{Piece, Pieces, Walk, is_yet_to_leave};
use crate::slots::SlotTables;
use crate::tree::{Forest, Root, Spot};
use onpath_wire::WireError;
use onpath_wire::disk::Stored;
use onpath_wire::disk::objects::EntryObject;
use onpath_wire::hash::inode_hash;
use onpath_wire::ids::{Birth, Cookie, InodeId, Slot};
use onpath_wire::inode::Kind;
use onpath_wire::limits::NAME_BYTES_MAX;
use onpath_wire::name::Name;
use onpath_wire::reply::DirEntry;
use onpath_wire::secrets::CookieKey;
use smallvec::SmallVec;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// What an entry counts for in a page beyond its name, bytes.
const PAGE_ENTRY_BYTES: usize = 32;
const HEAD_UNITS: usize = 3;

/// The listings of all slots of a shard.
#[derive(Debug)]
pub struct Listings {
    key: CookieKey,
    cookie_of: fn(&CookieKey, &[u8]) -> Cookie,
    tables: SlotTables,
    heads: Arena,
    forest: Forest,
    below: Below,
    gone: Unsaved<(InodeId, Cookie)>,
    pieces: Pieces,
    stop: Stop,
}

/// Where a walk through tables of directories is inside a table.
#[derive(Debug, Default)]
struct Stop {
    /// Directories of the table that it has not seen, or not all of the last one.
    dirs: Vec<InodeId>,
    /// It goes on from here in the last one.
    from: u64,
}

/// What is known of a directory: `id:8 | entries:8 | root:4 | 1 if the root is an index:4`.
#[derive(Clone, Copy)]
struct Head {
    dir: InodeId,
    entries: u64,
    root: Root,
}

impl Head {
    fn read(bytes: &[u8]) -> Head {
        let (words, _) = bytes.as_chunks::<4>();
        let word = |i: usize| u32::from_le_bytes(words[i]);
        let long = |i: usize| u64::from(word(i)) | u64::from(word(i + 1)) << 32;
        let root = if word(5) == 1 { Root::Index(word(4)) } else { Root::Leaf(Handle(word(4))) };
        Head { dir: InodeId(long(0)), entries: long(2), root }
    }

    fn write(&self, bytes: &mut [u8]) {
        let (root, index) = match self.root {
            Root::Leaf(handle) => (handle.0, 0u32),
            Root::Index(index) => (index, 1),
        };
        bytes[..8].copy_from_slice(&self.dir.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.entries.to_le_bytes());
        bytes[16..20].copy_from_slice(&root.to_le_bytes());
        bytes[20..24].copy_from_slice(&index.to_le_bytes());
    }
}

/// Where a name is in a listing, or where it would go.
enum Place {
    /// In memory.
    At(Spot),
    /// In the store.
    Below(Cookie, NameValue),
    /// Nowhere.
    Free(Cookie),
}

fn value_bytes(name: &[u8], value: NameValue) -> Vec<u8> {
    let name = Name::new(name).expect("only names are entries");
    EntryObject { name, child: value.child, kind: value.kind }.to_stored()
}

/// An entry as the store keeps it.
fn object_of(dir: InodeId, entry: &Entry<'_>) -> (Vec<u8>, Vec<u8>) {
    (entry_key(dir, entry.cookie), value_bytes(entry.name, entry.value))
}

fn value_from(bytes: &[u8]) -> Result<(Name, NameValue), WireError> {
    let EntryObject { name, child, kind } = EntryObject::from_stored(bytes)?;
    Ok((name, NameValue { child, kind }))
}

/// The cookie at the end of an entry's key.
fn cookie_of_key(key: &[u8]) -> Cookie {
    Cookie(u64::from_be_bytes(*key.last_chunk().expect("a key of an entry ends with its cookie")))
}

impl Listings {
    /// No listings; cookies are hashed with `key`.
    pub fn new(key: CookieKey) -> Listings {
        Listings::with_cookies(key, CookieKey::cookie)
    }

    fn with_cookies(key: CookieKey, cookie_of: fn(&CookieKey, &[u8]) -> Cookie) -> Listings {
        let (tables, heads, forest, below, gone) = Default::default();
        let (pieces, stop) = Default::default();
        Listings { key, cookie_of, tables, heads, forest, below, gone, pieces, stop }
    }

    /// From now on what is not in memory is as this store has it.
    pub fn attach(&mut self, cold: Arc<dyn Cold>) {
        self.below.set(cold);
    }

    /// Directories of this birth or a later one have no entry in a store that this table did not put there.
    pub fn set_since(&mut self, since: Birth) {
        self.below.set_since(since);
    }

    #[inline]
    fn handle(&self, dir: InodeId) -> Option<Handle> {
        self.tables.find(dir.slot(), inode_hash(dir), |h| Head::read(self.heads.at(h)).dir.cmp(&dir))
    }

    #[inline]
    fn head(&self, dir: InodeId) -> Option<Head> {
        self.handle(dir).map(|handle| Head::read(self.heads.at(handle)))
    }

    /// Finds a name among the entries of its hash, or the lowest free disambiguator.
    fn place(&self, dir: InodeId, root: Option<Root>, name: &[u8]) -> Place {
        let base = (self.cookie_of)(&self.key, name);
        let mut taken: SmallVec<[Cookie; 8]> = SmallVec::new();
        if let Some(root) = root {
            let mut spot = self.forest.seek(root, base.0);
            while let Some(cookie) = self.forest.cookie(root, &mut spot) {
                if cookie.hash47() != base.hash47() {
                    break;
                }
                if self.forest.name(spot) == name {
                    return Place::At(spot);
                }
                taken.push(cookie);
                spot = spot.after();
            }
        }
        if let Some(cold) = self.below.of(dir)
            && let Some((cookie, value)) = self.find_below(cold, dir, base, name, &mut taken)
        {
            return Place::Below(cookie, value);
        }
        let mut free = base;
        taken.iter().for_each(|&cookie| free = if cookie == free { Cookie(free.0 + 1) } else { free });
        assert_eq!(free.hash47(), base.hash47(), "more names of one cookie hash than disambiguators");
        Place::Free(free)
    }

    /// Finds a name in the store among the entries of its hash; else what is taken there is `taken` too, in order.
    #[cold]
    fn find_below(
        &self,
        cold: &dyn Cold,
        dir: InodeId,
        base: Cookie,
        name: &[u8],
        taken: &mut SmallVec<[Cookie; 8]>,
    ) -> Option<(Cookie, NameValue)> {
        let (mut found, in_memory) = (None, taken.len());
        cold.scan(&near_prefix(dir, base), &entry_key(dir, base), &mut |key, value| {
            let cookie = cookie_of_key(key);
            if cookie.hash47() != base.hash47() {
                return false;
            }
            if taken[..in_memory].contains(&cookie) || self.gone.contains(&(dir, cookie)) {
                return true;
            }
            let (other, value) = value_from(value).expect("the store gives back what was written");
            if other.as_bytes() == name {
                found = Some((cookie, value));
            }
            taken.push(cookie);
            found.is_none()
        });
        taken.sort_unstable();
        found
    }

    /// What the store will be asked for if this name is put or removed: the beginning of keys.
    pub fn foresee(&self, dir: InodeId, name: &[u8]) -> Option<Vec<u8>> {
        self.below.of(dir).map(|_| near_prefix(dir, (self.cookie_of)(&self.key, name)))
    }

    fn insert(&mut self, dir: InodeId, entry: &Entry<'_>) {
        let Some(handle) = self.handle(dir) else {
            let head = Head { dir, entries: 1, root: self.forest.plant(entry) };
            let handle = self.heads.alloc(HEAD_UNITS);
            head.write(self.heads.at_mut(handle));
            let Listings { tables, heads, .. } = self;
            let dir_of = |handle| Head::read(heads.at(handle)).dir;
            return tables
                .insert(dir.slot(), inode_hash(dir), (handle, 0), |one, other| dir_of(one).cmp(&dir_of(other)));
        };
        let mut head = Head::read(self.heads.at(handle));
        let spot = self.forest.seek(head.root, entry.cookie.0);
        self.forest.insert(&mut head.root, spot, entry);
        head.entries += 1;
        head.write(self.heads.at_mut(handle));
    }

    /// Puts a name into a directory; true if it is new there, else only what it leads to is replaced.
    pub fn put(&mut self, dir: InodeId, name: &[u8], child: InodeId, kind: Kind) -> bool {
        assert!(dir.is_some() && (1..=NAME_BYTES_MAX).contains(&name.len()), "name of {} bytes in {dir:?}", name.len());
        let (value, changed) = (NameValue { child, kind }, self.pieces.changed(dir.slot()));
        match self.place(dir, self.head(dir).map(|head| head.root), name) {
            Place::At(spot) => {
                let flags = self.leave_early(dir, spot) | changed;
                self.forest.set_value(spot, value, flags);
                false
            }
            Place::Below(cookie, _) => {
                self.insert(dir, &Entry { cookie, value, name, flags: changed | flag::COLD });
                false
            }
            Place::Free(cookie) => {
                self.insert(dir, &Entry { cookie, value, name, flags: changed });
                true
            }
        }
    }

    /// An image under way takes what it is to have of an entry that is about to change; the flags that the entry has then.
    fn leave_early(&mut self, dir: InodeId, spot: Spot) -> u8 {
        let Listings { forest, pieces, .. } = self;
        let entry = forest.entry(spot);
        let mut flags = entry.flags;
        if pieces.covers(dir.slot()) {
            pieces.leave_early(&mut flags, || object_of(dir, &entry));
        }
        flags
    }

    /// The store has, or may have, an entry that is gone.
    fn is_gone(&mut self, dir: InodeId, cookie: Cookie) {
        if self.pieces.covers(dir.slot()) { self.gone.put_off((dir, cookie)) } else { self.gone.add((dir, cookie)) }
    }

    /// Removes a name from a directory; false if it is not there.
    pub fn remove(&mut self, dir: InodeId, name: &[u8]) -> bool {
        match self.place(dir, self.head(dir).map(|head| head.root), name) {
            Place::At(spot) => {
                let (cookie, flags) = (self.forest.entry(spot).cookie, self.leave_early(dir, spot));
                if flags & (flag::COLD | flag::LEAVING) != 0 {
                    self.is_gone(dir, cookie);
                }
                self.take_out(dir, spot);
                true
            }
            Place::Below(cookie, _) => {
                self.is_gone(dir, cookie);
                true
            }
            Place::Free(_) => false,
        }
    }

    fn take_out(&mut self, dir: InodeId, spot: Spot) {
        let handle = self.handle(dir).expect("the entry is in memory");
        let mut head = Head::read(self.heads.at(handle));
        if head.entries == 1 {
            return self.uproot(dir);
        }
        self.forest.remove(&mut head.root, spot);
        head.entries -= 1;
        head.write(self.heads.at_mut(handle));
    }

    /// A name's position, and what it leads to.
    pub fn get(&self, dir: InodeId, name: &[u8]) -> Option<(Cookie, NameValue)> {
        match self.place(dir, self.head(dir).map(|head| head.root), name) {
            Place::At(spot) => Some((self.forest.entry(spot).cookie, self.forest.entry(spot).value)),
            Place::Below(cookie, value) => Some((cookie, value)),
            Place::Free(_) => None,
        }
    }

    /// Entries after a position: at least one if there is any, and as many as fit `bytes` at 32 bytes and the
    /// name's length each; and whether nothing follows them.
    pub fn page(&self, dir: InodeId, after: Cookie, bytes: usize) -> (Vec<DirEntry>, bool) {
        let mut page = Page { entries: Vec::new(), room: bytes, full: false };
        let Some(first) = after.0.checked_add(1) else { return (page.entries, true) };
        let mut memory = self.entries(dir, first).peekable();
        if let Some(cold) = self.below.of(dir) {
            cold.scan(&listing_prefix(dir), &entry_key(dir, Cookie(first)), &mut |key, value| {
                let cookie = cookie_of_key(key);
                while let Some(entry) = memory.next_if(|entry| entry.cookie < cookie) {
                    if !page.push(|| owned(entry), entry.name.len()) {
                        return false;
                    }
                }
                if memory.peek().is_some_and(|entry| entry.cookie == cookie) || self.gone.contains(&(dir, cookie)) {
                    return true;
                }
                let (name, value) = value_from(value).expect("the store gives back what was written");
                let length = name.as_bytes().len();
                page.push(|| DirEntry { child: value.child, kind: value.kind, cookie, name }, length)
            });
        }
        for entry in memory {
            if page.full || !page.push(|| owned(entry), entry.name.len()) {
                break;
            }
        }
        (page.entries, !page.full)
    }

    fn entries(&self, dir: InodeId, first: u64) -> impl Iterator<Item = Entry<'_>> {
        let root = self.head(dir).map(|head| head.root);
        root.into_iter().flat_map(move |root| self.forest.entries(root, self.forest.seek(root, first)))
    }

    /// Number of entries of a directory in memory.
    pub fn len(&self, dir: InodeId) -> u64 {
        self.head(dir).map_or(0, |head| head.entries)
    }

    /// Whether a directory has no entries in memory.
    pub fn is_empty(&self, dir: InodeId) -> bool {
        self.handle(dir).is_none()
    }

    /// The directory is gone, and with it what memory has of it. It had no entries when it lost its name.
    pub fn drop_dir(&mut self, dir: InodeId) {
        let covers = self.pieces.covers(dir.slot());
        let (mut left, mut early) = (Vec::new(), Vec::new());
        for entry in self.entries(dir, 0) {
            let leaves = covers && is_yet_to_leave(entry.flags);
            early.extend(leaves.then(|| object_of(dir, &entry)));
            left.extend((leaves || entry.flags & (flag::COLD | flag::LEAVING) != 0).then_some(entry.cookie));
        }
        self.pieces.early().put.extend(early);
        left.into_iter().for_each(|cookie| self.is_gone(dir, cookie));
        self.uproot(dir);
    }

    fn uproot(&mut self, dir: InodeId) {
        let heads = &self.heads;
        let found = self.tables.remove(dir.slot(), inode_hash(dir), |h| Head::read(heads.at(h)).dir.cmp(&dir));
        let Some((handle, _)) = found else { return };
        self.forest.fell(Head::read(self.heads.at(handle)).root);
        self.heads.free(handle, HEAD_UNITS);
    }

    /// Takes an entry of the store or of an image into memory at its position; `kept`: the store has it. False, and nothing is
    /// done, if the position is taken or is none of this name: the image then is of another file system.
    pub fn restore(&mut self, dir: InodeId, cookie: Cookie, name: &[u8], value: NameValue, kept: bool) -> bool {
        if (self.cookie_of)(&self.key, name).hash47() != cookie.hash47() {
            return false;
        }
        if self.head(dir).is_some_and(|head| self.has(head.root, cookie)) {
            return false;
        }
        self.insert(dir, &Entry { cookie, value, name, flags: if kept { flag::COLD } else { flag::DIRTY } });
        true
    }

    /// An entry of the store; `key` without its class, here and below.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<(InodeId, DirEntry), WireError> {
        let (dir, cookie) = key.split_first_chunk().ok_or(WireError::Truncated)?;
        let cookie = Cookie(u64::from_be_bytes(cookie.try_into().map_err(|_| WireError::Truncated)?));
        let (name, NameValue { child, kind }) = value_from(value)?;
        Ok((id_of(*dir), DirEntry { child, kind, cookie, name }))
    }

    /// What says whether entries of the store are at positions of their names.
    pub fn position_check(&self) -> impl Fn(&DirEntry) -> bool + use<> {
        let (key, cookie_of) = (self.key, self.cookie_of);
        move |entry| cookie_of(&key, entry.name.as_bytes()).hash47() == entry.cookie.hash47()
    }

    /// Whether memory has what is at a position or knows that nothing is, whatever the store says.
    pub fn knows(&self, dir: InodeId, cookie: Cookie) -> bool {
        self.gone.contains(&(dir, cookie)) || self.head(dir).is_some_and(|head| self.has(head.root, cookie))
    }

    /// Takes an entry of the store into memory unless a newer one is there; false, and nothing is done, if its position is none
    /// of its name.
    pub fn load(&mut self, key: &[u8], value: &[u8]) -> Result<bool, WireError> {
        let (dir, DirEntry { child, kind, cookie, name }) = Listings::decode(key, value)?;
        Ok(self.knows(dir, cookie) || self.restore(dir, cookie, name.as_bytes(), NameValue { child, kind }, true))
    }

    fn has(&self, root: Root, cookie: Cookie) -> bool {
        self.forest.cookie(root, &mut self.forest.seek(root, cookie.0)) == Some(cookie)
    }

    /// The directories of some slots that have entries in memory, sorted.
    pub fn dirs_in_slots(&self, slots: RangeInclusive<Slot>) -> Vec<InodeId> {
        let dirs = self.tables.handles(slots.clone()).map(|h| Head::read(self.heads.at(h)).dir);
        let mut dirs: Vec<InodeId> = dirs.filter(|dir| slots.contains(&dir.slot())).collect();
        dirs.sort_unstable();
        dirs
    }

    /// All entries of a directory that are in memory, in order.
    pub fn all(&self, dir: InodeId) -> impl Iterator<Item = DirEntry> {
        self.entries(dir, 0).map(owned)
    }

    /// Begins an image: what has changed in these whole tables of slots since their last one.
    pub fn begin_image(&mut self, slots: RangeInclusive<Slot>) {
        self.pieces.begin(slots);
        self.stop = Stop::default();
    }

    /// Adds a piece of the image; whether there is more of it.
    pub fn more_of_image(&mut self, piece: &mut Piece, changes: &mut Changes) -> bool {
        let Listings { tables, heads, forest, gone, pieces, stop, .. } = self;
        let Some(walk) = pieces.image(changes) else { return false };
        while !piece.is_over() {
            let take = |dir: InodeId, entry: &Entry<'_>, piece: &mut Piece| {
                if !is_yet_to_leave(entry.flags) {
                    return entry.flags;
                }
                piece.take(1);
                changes.put.push(object_of(dir, entry));
                entry.flags & !flag::DIRTY | flag::LEAVING
            };
            if stop.go_on(walk, (tables, heads, forest), piece, take) {
                continue;
            }
            let keys = gone.leave_some(entries_of(walk.slots()), piece.takes());
            if keys.is_empty() {
                gone.end();
                pieces.end();
                return false;
            }
            piece.take(keys.len());
            changes.removed.extend(keys.into_iter().map(|(dir, cookie)| entry_key(dir, cookie)));
        }
        true
    }

    /// The store has (`kept`) or will not have the last image of these slots. Whether there is more to settle of it.
    pub fn settle(&mut self, slots: RangeInclusive<Slot>, kept: bool, piece: &mut Piece) -> bool {
        let Listings { tables, heads, forest, gone, pieces, stop, .. } = self;
        let (failed, walk) = pieces.settle(slots, kept);
        if failed {
            gone.end();
            *stop = Stop::default();
        }
        while !piece.is_over() {
            let settle = |_, entry: &Entry<'_>, _: &mut Piece| {
                let mut flags = entry.flags;
                flag::settle(&mut flags, kept);
                flags
            };
            if stop.go_on(walk, (tables, heads, forest), piece, settle) {
                continue;
            }
            let settled = gone.settle_some(entries_of(walk.slots()), kept, piece.takes());
            if settled == 0 {
                pieces.settled();
                return false;
            }
            piece.take(settled);
        }
        true
    }

    /// Forgets leaves that the store has too, in these whole tables of slots.
    pub fn forget(&mut self, slots: RangeInclusive<Slot>) {
        let Listings { tables, heads, forest, below, .. } = self;
        tables.forget(slots, |handle, _| {
            let mut head = Head::read(heads.at(handle));
            let (entries, root) = forest.forget(head.root);
            if entries > 0 {
                below.forgets(head.dir);
            }
            let Some(root) = root else {
                heads.free(handle, HEAD_UNITS);
                return true;
            };
            (head.root, head.entries) = (root, head.entries - entries);
            head.write(heads.at_mut(handle));
            false
        });
    }

    /// Bytes in use; those of indexes of large directories are an estimate.
    pub fn memory(&self) -> Memory {
        let (heads, forest) = (self.heads.memory(), self.forest.memory());
        Memory {
            records: heads.records + forest.records,
            free: heads.free + forest.free,
            tables: heads.tables + forest.tables + self.tables.bytes() + self.below.bytes() + self.gone.bytes(0),
        }
    }
}

/// All entries of some slots' directories.
fn entries_of(slots: RangeInclusive<Slot>) -> RangeInclusive<(InodeId, Cookie)> {
    let dirs = ids_of(slots);
    (*dirs.start(), Cookie(0))..=(*dirs.end(), Cookie(u64::MAX))
}

impl Stop {
    /// Shows `each` entry of the next held leaves, as far as the piece goes, and sets the flags that are given back; false at the
    /// end of the walk.
    fn go_on(
        &mut self,
        walk: &mut Walk,
        (tables, heads, forest): (&SlotTables, &Arena, &mut Forest),
        piece: &mut Piece,
        mut each: impl FnMut(InodeId, &Entry<'_>, &mut Piece) -> u8,
    ) -> bool {
        let Some(&dir) = self.dirs.last() else {
            let Some(table) = walk.table() else { return false };
            piece.look(1);
            self.dirs.extend(tables.handles(table..=table).map(|handle| Head::read(heads.at(handle)).dir));
            return true;
        };
        // It may have lost its last entry since.
        let handle = tables.find(dir.slot(), inode_hash(dir), |h| Head::read(heads.at(h)).dir.cmp(&dir));
        let head = handle.map(|handle| Head::read(heads.at(handle)));
        let next = head.and_then(|head| forest.each_held(head.root, self.from, piece, |e, p| each(dir, e, p)));
        self.from = next.unwrap_or(0);
        if next.is_none() {
            self.dirs.pop();
        }
        true
    }
}

/// A page of a listing that is being filled.
struct Page {
    entries: Vec<DirEntry>,
    room: usize,
    full: bool,
}

impl Page {
    /// Adds an entry, unless it is not the first and there is no room.
    fn push(&mut self, entry: impl FnOnce() -> DirEntry, name_bytes: usize) -> bool {
        let bytes = PAGE_ENTRY_BYTES + name_bytes;
        self.full = bytes > self.room && !self.entries.is_empty();
        if !self.full {
            self.room = self.room.saturating_sub(bytes);
            self.entries.push(entry());
        }
        !self.full
    }
}

fn owned(entry: Entry<'_>) -> DirEntry {
    let name = Name::new(entry.name).expect("only checked names are stored");
    DirEntry { child: entry.value.child, kind: entry.value.kind, cookie: entry.cookie, name }
}

#[cfg(test)]
mod tests;
