//! The index that a path node uses: records of 40 bytes *are* the table of children, and short names are inside.
//!
//! | part | what | bytes a directory |
//! |---|---|---|
//! | `table`, `record` | records, keyed by (parent, name), three in 128 bytes | 42.7 / 0.8 |
//! | `ids` | where the record of an id is | 8 / 0.8 |
//! | `names` | names of more than 13 bytes | their length, up to the next 8 |
//! | `accesses` | access parts, each once | – |
//! | `beside` | children of directories that are not held, or have 2047 and more | – |

mod accesses;
mod beside;
mod ids;
mod map;
mod names;
mod pages;
mod record;
mod table;
mod walk;

pub use map::IdMap;
pub use pages::{Heap, PAGE_BYTES, Page, Slabs};

use crate::api::{Bound, Index, Memory};
use crate::hash::Secret;
use crate::types::{Access, DirId, Directory, Grant, IndexError, NameBuf, Part, check_access, check_grant};
use crate::walk::{Ask, Check, Walk};
use accesses::Accesses;
use alloc::vec::Vec;
use beside::Beside;
use ids::Ids;
use names::Names;
use pages::Pages;
use record::{CROWD, Key, Records, Stored, Words};
use table::{SPLIT_PAGES, Slot, Table};

/// Pages that a change may need: for a record, its id, and a long name.
const CHANGE_PAGES: usize = 2 * SPLIT_PAGES + 1;
/// A crowd is counted in its record again when it is down to this.
const NO_CROWD: u64 = CROWD / 2;

/// See the [module](self). `S` gives it its memory.
#[derive(Debug)]
pub struct Hi<S> {
    secret: Secret,
    pages: Pages<S>,
    records: Table<Records, 5>,
    ids: Ids,
    names: Names,
    accesses: Accesses,
    beside: Beside,
    len: usize,
    /// Where the search for candidates goes on.
    hand: (usize, usize),
}

impl<S: Slabs> Hi<S> {
    /// An empty one that writes to at most `limit_bytes` of its slabs, in whole pages.
    pub fn new(secret: Secret, source: S, limit_bytes: usize) -> Hi<S> {
        Hi {
            secret,
            pages: Pages::new(source, (limit_bytes / PAGE_BYTES).min(names::NAME_PAGES_MAX)),
            records: Table::new(),
            ids: Ids::new(),
            names: Names::new(),
            accesses: Accesses::new(),
            beside: Beside::new(),
            len: 0,
            hand: (0, 0),
        }
    }

    fn key(&self, parent: DirId, name: &[u8]) -> Key {
        Key::new(parent, name, self.secret.of_name(parent, name))
    }

    /// The record of this key, whose name this is.
    #[inline]
    fn find(&self, key: &Key, name: &[u8]) -> Option<Slot> {
        self.records.find(&self.pages, key.place, |words| {
            key.fits(words) && (!key.is_long() || is_long_name(&self.pages, words, name))
        })
    }

    /// The record of an id, and its entry among the ids.
    #[inline]
    fn find_id(&self, id: DirId) -> Option<(Slot, Slot)> {
        let mut record = None;
        let entry = self.ids.find(&self.pages, Ids::tag(&self.secret, id), |place| {
            record = self.records.find(&self.pages, place, |words| record::id(words) == id);
            record.is_some()
        })?;
        Some((record?, entry))
    }

    #[inline]
    fn part(&self, words: &Words) -> Part {
        Part {
            id: record::id(words),
            parent: record::parent(words),
            access: self.accesses.get(record::access(words)),
            grant: record::grant(words),
        }
    }

    fn name_of(&self, words: &Words) -> NameBuf {
        match record::name(words) {
            Stored::Short(bytes, len) => NameBuf::new(&bytes[..len]),
            Stored::Long { at, len } => Names::read(&self.pages, at, len),
        }
    }

    /// Counts a child of `parent` more or less.
    fn count_child(&mut self, parent: DirId, more: bool) {
        if parent == DirId::NONE {
            return;
        }
        let changed = |count: u64| if more { count + 1 } else { count.saturating_sub(1) };
        let Some((at, _)) = self.find_id(parent) else {
            let count = changed(self.beside.get(&self.pages, &self.secret, parent));
            return self.beside.set(&mut self.pages, &self.secret, parent, count);
        };
        let count = record::children(self.records.get(&self.pages, at));
        if count < CROWD {
            return self.set_children(parent, at, changed(count));
        }
        let count = self.beside.get(&self.pages, &self.secret, parent);
        if count == 0 {
            return; // there was no memory to count it beside: it stays a crowd
        }
        let count = changed(count);
        if count > NO_CROWD {
            return self.beside.set(&mut self.pages, &self.secret, parent, count);
        }
        self.beside.set(&mut self.pages, &self.secret, parent, 0);
        self.set_children(parent, at, count);
    }

    /// Children of a directory that are held.
    fn children(&self, id: DirId, own: Option<Slot>) -> u64 {
        let count = own.map_or(0, |at| record::children(self.records.get(&self.pages, at)));
        if count == 0 || count == CROWD { count.max(self.beside.get(&self.pages, &self.secret, id)) } else { count }
    }

    /// Whether `id` is `parent` or above it.
    fn is_above(&self, id: DirId, parent: DirId) -> bool {
        let mut above = Some(parent);
        for _ in 0..=self.len {
            match above {
                Some(DirId::NONE) | None => return false,
                Some(at) if at == id => return true,
                Some(at) => above = self.get(at).map(|part| part.parent),
            }
        }
        true // a circle that was made while nobody could count children
    }

    /// Writes a count to a record, or beside it if it is a crowd.
    fn set_children(&mut self, id: DirId, at: Slot, count: u64) {
        if count >= CROWD {
            self.beside.set(&mut self.pages, &self.secret, id, count);
        }
        record::set_children(self.records.get_mut(&mut self.pages, at), count.min(CROWD));
    }

    /// Takes a record out, and all that leads to it. Its children are counted beside from now on.
    fn take(&mut self, (record, entry): (Slot, Slot)) -> Part {
        let words = *self.records.get(&self.pages, record);
        let part = self.part(&words);
        self.ids.remove(&mut self.pages, entry);
        self.records.remove(&mut self.pages, record);
        if let Stored::Long { at, len } = record::name(&words) {
            self.names.remove(&mut self.pages, at, len);
        }
        self.accesses.give_back(&self.secret, record::access(&words));
        self.len -= 1;
        let children = record::children(&words);
        if children > 0 && children < CROWD {
            self.beside.set(&mut self.pages, &self.secret, part.id, children);
        }
        self.count_child(part.parent, false);
        part
    }

    /// Puts a record that is not there. There is room.
    fn put(&mut self, directory: &Directory<'_>, key: &Key, access: u32) {
        let long_at = if key.is_long() { self.names.put(&mut self.pages, directory.name) } else { 0 };
        let words = record::new(directory.id, key, long_at, directory.grant, access);
        let secret = self.secret;
        self.records.put(&mut self.pages, key.place, &words, |pages, words| place_of(pages, &secret, words));
        self.ids.put(&mut self.pages, Ids::tag(&self.secret, directory.id), key.place);
        self.len += 1;
        self.count_child(directory.parent, true);
        let children = self.beside.get(&self.pages, &self.secret, directory.id);
        if children > 0
            && let Some((at, _)) = self.find_id(directory.id)
        {
            if children < CROWD {
                self.beside.set(&mut self.pages, &self.secret, directory.id, 0);
            }
            self.set_children(directory.id, at, children);
        }
    }

    /// Whether a directory can be put, so that nothing is refused half-way.
    fn make_room(&mut self, id: DirId, key: &Key) -> Result<(), IndexError> {
        self.pages.ensure(CHANGE_PAGES)?;
        if self.records.has_room(key.place) && self.ids.has_room(Ids::tag(&self.secret, id)) {
            Ok(())
        } else {
            Err(IndexError::Full)
        }
    }
}

fn is_long_name<S: Slabs>(pages: &Pages<S>, words: &Words, name: &[u8]) -> bool {
    matches!(record::name(words), Stored::Long { at, .. } if Names::is(pages, at, name))
}

/// The place of a record, from its parent and name.
fn place_of<S: Slabs>(pages: &Pages<S>, secret: &Secret, words: &Words) -> u64 {
    let parent = record::parent(words);
    let hash = match record::name(words) {
        Stored::Short(bytes, len) => secret.of_name(parent, &bytes[..len]),
        Stored::Long { at, len } => secret.of_name(parent, Names::read(pages, at, len).as_bytes()),
    };
    hash >> 28
}

impl<S: Slabs> Index for Hi<S> {
    fn bind(&mut self, directory: &Directory<'_>) -> Result<Bound, IndexError> {
        directory.check()?;
        let key = self.key(directory.parent, directory.name);
        let own = self.find_id(directory.id);
        let before = own.map(|(record, _)| self.part(self.records.get(&self.pages, record)));
        let there = self.find(&key, directory.name);
        if let (Some((record, _)), Some(at)) = (own, there)
            && record == at
        {
            self.change(record, directory.access, directory.grant)?;
            return Ok(Bound { before, displaced: None });
        }
        if self.children(directory.id, own.map(|(record, _)| record)) > 0
            && self.is_above(directory.id, directory.parent)
        {
            return Err(IndexError::Circle);
        }
        self.make_room(directory.id, &key)?;
        let access = self.accesses.take(&self.secret, directory.access)?;
        let displaced = there.map(|at| record::id(self.records.get(&self.pages, at)));
        if let Some(own) = own {
            self.take(own);
        }
        let displaced = displaced.and_then(|id| self.remove(id));
        self.put(directory, &key, access);
        Ok(Bound { before, displaced })
    }

    fn set_access(&mut self, id: DirId, access: Access, grant: Grant) -> Result<bool, IndexError> {
        check_access(&access)?;
        check_grant(&grant)?;
        match self.find_id(id) {
            Some((record, _)) => self.change(record, access, grant).map(|()| true),
            None => Ok(false),
        }
    }

    fn remove(&mut self, id: DirId) -> Option<Part> {
        let found = self.find_id(id)?;
        Some(self.take(found))
    }

    fn get(&self, id: DirId) -> Option<Part> {
        let (record, _) = self.find_id(id)?;
        Some(self.part(self.records.get(&self.pages, record)))
    }

    fn name(&self, id: DirId) -> Option<NameBuf> {
        let (record, _) = self.find_id(id)?;
        Some(self.name_of(self.records.get(&self.pages, record)))
    }

    fn child(&self, parent: DirId, name: &[u8]) -> Option<Part> {
        if parent == DirId::NONE {
            return None; // the root is nobody's child
        }
        let record = self.find(&self.key(parent, name), name)?;
        Some(self.part(self.records.get(&self.pages, record)))
    }

    fn walk<C: Check>(&mut self, from: DirId, path: &[u8], check: &mut C) -> Walk {
        self.walk_one(from, path, check)
    }

    fn walk_many<C: Check>(&mut self, asks: &mut [Ask<'_, C>]) {
        self.walk_lanes(asks);
    }

    fn candidates(&mut self, count: usize, found: &mut Vec<(DirId, Grant)>) {
        // In two rounds everybody is seen twice. Who is found counts as used: it is not found again unless it stays.
        let (mut looks, end) = (2 * self.records.round(), found.len().saturating_add(count));
        while found.len() < end
            && let Some((slot, words)) = self.records.next(&self.pages, &mut self.hand, &mut looks)
        {
            let (id, grant, used) = (record::id(words), record::grant(words), record::is_used(words));
            if record::children(words) > 0 || id == DirId::ROOT {
                continue;
            }
            record::set_used(self.records.get_mut(&mut self.pages, slot), !used);
            if !used {
                found.push((id, grant));
            }
        }
    }

    fn each(&self, each: &mut dyn FnMut(&Directory<'_>)) {
        for words in self.records.all(&self.pages) {
            let (Part { id, parent, access, grant }, name) = (self.part(words), self.name_of(words));
            each(&Directory { id, parent, name: name.as_bytes(), access, grant });
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory(&self) -> Memory {
        let (reserved, touched) = self.pages.memory();
        let rest = self.records.memory() + self.ids.memory() + self.beside.memory() + self.accesses.memory();
        Memory { reserved: reserved + rest, touched: touched + rest }
    }
}

impl<S: Slabs> Hi<S> {
    fn change(&mut self, record: Slot, access: Access, grant: Grant) -> Result<(), IndexError> {
        let number = self.accesses.take(&self.secret, access)?;
        let words = self.records.get_mut(&mut self.pages, record);
        let before = record::access(words);
        record::set_access(words, number, grant);
        self.accesses.give_back(&self.secret, before);
        Ok(())
    }
}
