//! The listings of a shard: `(directory, cookie) → (name, child, kind)` at the directory's owner (DESIGN §2).
//!
//! An entry keeps its cookie as long as it lives, whatever comes and goes around it, so that one present
//! throughout a scan is returned exactly once. Directories without entries take no memory.

use crate::arena::{Arena, Handle, Memory};
use crate::leaf::Entry;
use crate::names::NameValue;
use crate::slots::SlotTables;
use crate::tree::{Forest, Root, Spot};
use onpath_wire::hash::{CookieKey, inode_hash};
use onpath_wire::ids::{Cookie, InodeId, Slot};
use onpath_wire::inode::Kind;
use onpath_wire::limits::NAME_BYTES_MAX;
use onpath_wire::name::Name;
use onpath_wire::reply::DirEntry;
use std::ops::RangeInclusive;

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
    At(Spot),
    Free(Cookie, Spot),
}

impl Listings {
    /// No listings; cookies are hashed with `key`.
    pub fn new(key: CookieKey) -> Listings {
        Listings::with_cookies(key, CookieKey::cookie)
    }

    fn with_cookies(key: CookieKey, cookie_of: fn(&CookieKey, &[u8]) -> Cookie) -> Listings {
        let (tables, heads, forest) = Default::default();
        Listings { key, cookie_of, tables, heads, forest }
    }

    #[inline]
    fn handle(&self, dir: InodeId) -> Option<Handle> {
        self.tables.find(dir.slot(), inode_hash(dir), |h| Head::read(self.heads.at(h)).dir == dir)
    }

    #[inline]
    fn head(&self, dir: InodeId) -> Option<Head> {
        self.handle(dir).map(|handle| Head::read(self.heads.at(handle)))
    }

    fn plant(&mut self, dir: InodeId, entry: &Entry<'_>) {
        let head = Head { dir, entries: 1, root: self.forest.plant(entry) };
        let handle = self.heads.alloc(HEAD_UNITS);
        head.write(self.heads.at_mut(handle));
        self.tables.insert(dir.slot(), inode_hash(dir), handle);
    }

    /// Finds a name among the entries of its hash, or the lowest free disambiguator and its place.
    fn place(&self, root: Root, name: &[u8]) -> Place {
        let base = (self.cookie_of)(&self.key, name);
        let start = self.forest.seek(root, base.0);
        let (mut free, mut spot) = (base, start);
        while let Some(cookie) = self.forest.cookie(root, &mut spot) {
            if cookie.hash47() != base.hash47() {
                break;
            }
            if self.forest.name(spot) == name {
                return Place::At(spot);
            }
            if cookie == free {
                free = Cookie(free.0 + 1);
            }
            spot = spot.after();
        }
        assert_eq!(free.hash47(), base.hash47(), "more names of one cookie hash than disambiguators");
        let spot = if free == base { start } else { self.forest.seek(root, free.0) };
        Place::Free(free, spot)
    }

    fn insert(&mut self, handle: Handle, spot: Spot, entry: &Entry<'_>) {
        let mut head = Head::read(self.heads.at(handle));
        self.forest.insert(&mut head.root, spot, entry);
        head.entries += 1;
        head.write(self.heads.at_mut(handle));
    }

    /// Puts a name into a directory; true if it is new there, else only what it leads to is replaced.
    pub fn put(&mut self, dir: InodeId, name: &[u8], child: InodeId, kind: Kind) -> bool {
        assert!(dir.is_some() && (1..=NAME_BYTES_MAX).contains(&name.len()), "name of {} bytes in {dir:?}", name.len());
        let value = NameValue { child, kind };
        let Some(handle) = self.handle(dir) else {
            self.plant(dir, &Entry { cookie: (self.cookie_of)(&self.key, name), value, name });
            return true;
        };
        match self.place(Head::read(self.heads.at(handle)).root, name) {
            Place::At(spot) => {
                self.forest.set_value(spot, value);
                false
            }
            Place::Free(cookie, spot) => {
                self.insert(handle, spot, &Entry { cookie, value, name });
                true
            }
        }
    }

    /// Removes a name from a directory; false if it is not there.
    pub fn remove(&mut self, dir: InodeId, name: &[u8]) -> bool {
        let Some(handle) = self.handle(dir) else { return false };
        let mut head = Head::read(self.heads.at(handle));
        let Place::At(spot) = self.place(head.root, name) else { return false };
        if head.entries == 1 {
            self.drop_dir(dir);
            return true;
        }
        self.forest.remove(&mut head.root, spot);
        head.entries -= 1;
        head.write(self.heads.at_mut(handle));
        true
    }

    /// A name's position, and what it leads to.
    pub fn get(&self, dir: InodeId, name: &[u8]) -> Option<(Cookie, NameValue)> {
        let root = self.head(dir)?.root;
        let Place::At(spot) = self.place(root, name) else { return None };
        let entry = self.forest.entry(spot);
        Some((entry.cookie, entry.value))
    }

    /// Entries after a position: at least one if there is any, and as many as fit `bytes` at 32 bytes and the
    /// name's length each; and whether nothing follows them.
    pub fn page(&self, dir: InodeId, after: Cookie, bytes: usize) -> (Vec<DirEntry>, bool) {
        let mut page = Vec::new();
        let Some(first) = after.0.checked_add(1) else { return (page, true) };
        let mut sum = 0;
        for entry in self.entries(dir, first) {
            sum += PAGE_ENTRY_BYTES + entry.name.len();
            if sum > bytes && !page.is_empty() {
                return (page, false);
            }
            page.push(owned(entry));
        }
        (page, true)
    }

    fn entries(&self, dir: InodeId, first: u64) -> impl Iterator<Item = Entry<'_>> {
        let root = self.head(dir).map(|head| head.root);
        root.into_iter().flat_map(move |root| self.forest.entries(root, self.forest.seek(root, first)))
    }

    /// Number of entries of a directory.
    pub fn len(&self, dir: InodeId) -> u64 {
        self.head(dir).map_or(0, |head| head.entries)
    }

    /// Whether a directory has no entries.
    pub fn is_empty(&self, dir: InodeId) -> bool {
        self.handle(dir).is_none()
    }

    /// Forgets all entries of a directory.
    pub fn drop_dir(&mut self, dir: InodeId) {
        let heads = &self.heads;
        let found = self.tables.remove(dir.slot(), inode_hash(dir), |h| Head::read(heads.at(h)).dir == dir);
        let Some(handle) = found else { return };
        self.forest.fell(Head::read(self.heads.at(handle)).root);
        self.heads.free(handle, HEAD_UNITS);
    }

    /// Puts back an entry of an image at its position. False, and nothing is done, if the position is taken
    /// or is none of this name: the image then is of another file system.
    pub fn restore(&mut self, dir: InodeId, cookie: Cookie, name: &[u8], child: InodeId, kind: Kind) -> bool {
        if (self.cookie_of)(&self.key, name).hash47() != cookie.hash47() {
            return false;
        }
        let entry = Entry { cookie, value: NameValue { child, kind }, name };
        let Some(handle) = self.handle(dir) else {
            self.plant(dir, &entry);
            return true;
        };
        let root = Head::read(self.heads.at(handle)).root;
        let spot = self.forest.seek(root, cookie.0);
        if self.forest.cookie(root, &mut spot.clone()) == Some(cookie) {
            return false;
        }
        self.insert(handle, spot, &entry);
        true
    }

    /// The directories of some slots that have entries, sorted.
    pub fn dirs_in_slots(&self, slots: RangeInclusive<Slot>) -> Vec<InodeId> {
        let dirs = self.tables.handles(slots.clone()).map(|h| Head::read(self.heads.at(h)).dir);
        let mut dirs: Vec<InodeId> = dirs.filter(|dir| slots.contains(&dir.slot())).collect();
        dirs.sort_unstable();
        dirs
    }

    /// All entries of a directory in order.
    pub fn all(&self, dir: InodeId) -> impl Iterator<Item = DirEntry> {
        self.entries(dir, 0).map(owned)
    }

    /// Bytes in use; those of indexes of large directories are an estimate.
    pub fn memory(&self) -> Memory {
        let (heads, forest) = (self.heads.memory(), self.forest.memory());
        Memory {
            records: heads.records + forest.records,
            free: heads.free + forest.free,
            tables: heads.tables + forest.tables + self.tables.bytes(),
        }
    }
}

fn owned(entry: Entry<'_>) -> DirEntry {
    let name = Name::new(entry.name).expect("only checked names are stored");
    DirEntry { child: entry.value.child, kind: entry.value.kind, cookie: entry.cookie, name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const DIR: InodeId = InodeId(0x1234_0000_0100_0001);

    /// Nearly all names share one of four hashes.
    fn narrow(key: &CookieKey, name: &[u8]) -> Cookie {
        Cookie::of_hash(key.cookie(name).hash47() % 4 + 1)
    }

    fn listings(narrowed: bool) -> Listings {
        let key = CookieKey([3; 16]);
        if narrowed { Listings::with_cookies(key, narrow) } else { Listings::new(key) }
    }

    fn names_of(listings: &Listings) -> Vec<(Vec<u8>, Cookie)> {
        listings.all(DIR).map(|entry| (entry.name.as_bytes().to_vec(), entry.cookie)).collect()
    }

    fn page_through(listings: &Listings, bytes: usize) -> Vec<DirEntry> {
        let (mut all, mut after) = (Vec::new(), Cookie(0));
        loop {
            let (page, end) = listings.page(DIR, after, bytes);
            assert!(page.is_sorted_by_key(|entry| entry.cookie) && (end || !page.is_empty()));
            after = page.last().map_or(after, |entry| entry.cookie);
            all.extend(page);
            if end {
                return all;
            }
        }
    }

    #[test]
    fn colliding_entries_stay_where_they_are() {
        let mut listings = listings(true);
        let names: Vec<String> = (0..400).map(|i| format!("name {i}")).collect();
        names.iter().for_each(|name| assert!(listings.put(DIR, name.as_bytes(), InodeId(9), Kind::File)));
        let before: BTreeMap<Vec<u8>, Cookie> = names_of(&listings).into_iter().collect();
        names.iter().step_by(3).for_each(|name| assert!(listings.remove(DIR, name.as_bytes())));
        assert!(names_of(&listings).iter().all(|(name, cookie)| before[name] == *cookie));
        let lowest = |cookies: &[Cookie], hash: u64| {
            (0..).map(|i| Cookie(hash << 15 | i)).find(|c| !cookies.contains(c)).expect("there is a free one")
        };
        for i in 400..500 {
            let cookies: Vec<Cookie> = names_of(&listings).into_iter().map(|(_, cookie)| cookie).collect();
            let name = format!("name {i}").into_bytes();
            assert!(listings.put(DIR, &name, InodeId(9), Kind::File));
            let hash = narrow(&listings.key, &name).hash47();
            assert_eq!(listings.get(DIR, &name).map(|(cookie, _)| cookie), Some(lowest(&cookies, hash)));
        }
    }

    #[test]
    fn a_replaced_entry_keeps_its_cookie() {
        let mut listings = listings(false);
        assert!(listings.put(DIR, b"a", InodeId(1), Kind::File));
        let (cookie, _) = listings.get(DIR, b"a").unwrap();
        assert!(!listings.put(DIR, b"a", InodeId(2), Kind::Symlink));
        let value = NameValue { child: InodeId(2), kind: Kind::Symlink };
        assert_eq!(listings.get(DIR, b"a"), Some((cookie, value)));
    }

    #[test]
    fn pages_have_at_least_one_entry_and_at_most_the_bytes() {
        let mut listings = listings(false);
        assert_eq!(listings.page(DIR, Cookie(0), 100), (Vec::new(), true));
        (0..10).for_each(|i| assert!(listings.put(DIR, &[b'a' + i], InodeId(1), Kind::File)));
        let length = |bytes| listings.page(DIR, Cookie::DOTDOT, bytes).0.len();
        assert_eq!([length(0), length(33), length(65), length(66), length(1000)], [1, 1, 1, 2, 10]);
        assert!(!listings.page(DIR, Cookie(0), 9 * 33).1 && listings.page(DIR, Cookie(0), 10 * 33).1);
        assert_eq!(listings.page(DIR, Cookie(u64::MAX), 100), (Vec::new(), true));
    }

    #[test]
    fn an_image_of_another_key_is_refused() {
        let mut listings = listings(false);
        let cookie = listings.key.cookie(b"a");
        assert!(listings.restore(DIR, cookie, b"a", InodeId(1), Kind::File));
        assert!(!listings.restore(DIR, cookie, b"a", InodeId(1), Kind::File));
        assert!(!listings.restore(DIR, Cookie(cookie.0 + (1 << 15)), b"a", InodeId(1), Kind::File));
        assert_eq!(listings.len(DIR), 1);
    }

    #[test]
    fn dropped_directories_leave_nothing() {
        let mut listings = listings(false);
        (0..5000u32).for_each(|i| assert!(listings.put(DIR, format!("{i}").as_bytes(), InodeId(1), Kind::File)));
        assert_eq!(listings.dirs_in_slots(DIR.slot()..=DIR.slot()), [DIR]);
        listings.drop_dir(DIR);
        assert_eq!((listings.len(DIR), listings.is_empty(DIR), listings.get(DIR, b"1")), (0, true, None));
        assert!(listings.dirs_in_slots(DIR.slot()..=DIR.slot()).is_empty());
        let memory = listings.memory();
        assert!(memory.records - memory.free < 64, "{memory:?}");
    }

    /// A listing as a plain map.
    type Model = BTreeMap<u64, (Vec<u8>, u64)>;

    fn model_put(model: &mut Model, base: Cookie, name: &[u8], child: u64) -> bool {
        if let Some((_, value)) = model.values_mut().find(|(other, _)| other == name) {
            *value = child;
            return false;
        }
        let cookie = (base.0..).find(|cookie| !model.contains_key(cookie)).expect("there is a free one");
        model.insert(cookie, (name.to_vec(), child));
        true
    }

    fn model_of(listings: &Listings) -> Model {
        listings.all(DIR).map(|e| (e.cookie.0, (e.name.as_bytes().to_vec(), e.child.0))).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
        /// A listing behaves as a map ordered by cookie: while it grows to many leaves, and while it shrinks.
        #[test]
        fn listings_are_ordered_maps(
            narrowed in any::<bool>(),
            long in 1usize..=255,
            steps in prop::collection::vec((0u32..400, 0u8..10), 200..1200),
            bytes in 1usize..3000,
        ) {
            let (mut listings, mut model) = (listings(narrowed), Model::new());
            let half = steps.len() / 2;
            for (i, (number, dice)) in steps.into_iter().enumerate() {
                let name = format!("{number:0width$}", width = if number % 3 == 0 { long } else { 1 }).into_bytes();
                let puts = if i < half { 8 } else { 2 };
                if dice < puts {
                    let base = (listings.cookie_of)(&listings.key, &name);
                    let new = listings.put(DIR, &name, InodeId(i as u64), Kind::File);
                    prop_assert_eq!(new, model_put(&mut model, base, &name, i as u64));
                } else {
                    let cookie = model.iter().find(|(_, (other, _))| *other == name).map(|(&cookie, _)| cookie);
                    prop_assert_eq!(listings.get(DIR, &name).map(|(cookie, _)| cookie.0), cookie);
                    prop_assert_eq!(listings.remove(DIR, &name), cookie.is_some());
                    cookie.map(|cookie| model.remove(&cookie));
                }
                prop_assert_eq!(listings.len(DIR), model.len() as u64);
                if i % 50 == 0 || i == half {
                    prop_assert_eq!(&model_of(&listings), &model);
                }
            }
            prop_assert_eq!(&model_of(&listings), &model);
            prop_assert_eq!(page_through(&listings, bytes), listings.all(DIR).collect::<Vec<_>>());
            let mut restored = self::listings(narrowed);
            for entry in listings.all(DIR) {
                prop_assert!(restored.restore(DIR, entry.cookie, entry.name.as_bytes(), entry.child, entry.kind));
            }
            prop_assert_eq!(&model_of(&restored), &model);
            for (name, _) in model.into_values() {
                prop_assert!(listings.remove(DIR, &name) && restored.remove(DIR, &name));
            }
            for memory in [listings.memory(), restored.memory()] {
                prop_assert!(memory.records - memory.free < 64, "{:?}", memory);
            }
        }
    }
}
