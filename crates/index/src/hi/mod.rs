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

/// Pages that a new entry may need: for a record, its id, and a long name.
const CHANGE_PAGES: usize = 2 * SPLIT_PAGES + 1;
/// Pages that counts of children may need that come beside at a change: of the directory, of its parent, and of who had its place.
const COUNT_PAGES: usize = 3 * SPLIT_PAGES;
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
    /// An empty one that writes to at most `limit_bytes` of its slabs, in whole pages. Beside them it has an access part for each 512 bytes of
    /// that (and at least 1,024), which take less than an eighth of it, and lists of pages, less than a hundredth and half a megabyte.
    pub fn new(secret: Secret, source: S, limit_bytes: usize) -> Hi<S> {
        Hi {
            secret,
            pages: Pages::new(source, (limit_bytes / PAGE_BYTES).min(names::NAME_PAGES_MAX)),
            records: Table::new(),
            ids: Ids::new(),
            names: Names::new(),
            accesses: Accesses::new(limit_bytes),
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

    /// The record of an id, and its entry among the ids; perhaps of a ghost.
    #[inline]
    fn find_any(&self, id: DirId) -> Option<(Slot, Slot)> {
        let mut record = None;
        let entry = self.ids.find(&self.pages, Ids::tag(&self.secret, id), |place| {
            record = self.records.find(&self.pages, place, |words| record::id(words) == id);
            record.is_some()
        })?;
        Some((record?, entry))
    }

    /// The record of a directory that is held, and its entry among the ids.
    #[inline]
    fn find_id(&self, id: DirId) -> Option<(Slot, Slot)> {
        self.find_any(id).filter(|&(record, _)| !record::is_ghost(self.records.get(&self.pages, record)))
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

    /// Counts a child of `parent` more or less. One more is counted only where there is room for it. A ghost without children is gone.
    fn count_child(&mut self, parent: DirId, more: bool) {
        if parent == DirId::NONE {
            return;
        }
        let changed = |count: u64| if more { count + 1 } else { count.saturating_sub(1) };
        let Some((at, entry)) = self.find_any(parent) else {
            return self.set_beside(parent, changed(self.beside.get(&self.pages, &self.secret, parent)));
        };
        let words = self.records.get(&self.pages, at);
        let (count, is_ghost) = (record::children(words), record::is_ghost(words));
        if count < CROWD {
            self.set_children(parent, at, changed(count));
            if is_ghost && changed(count) == 0 {
                self.drop_record((at, entry));
            }
            return;
        }
        let count = changed(self.beside.get(&self.pages, &self.secret, parent));
        if count > NO_CROWD {
            return self.set_beside(parent, count);
        }
        self.set_beside(parent, 0);
        self.set_children(parent, at, count);
    }

    /// Children of a directory that are held.
    fn children(&self, id: DirId, own: Option<Slot>) -> u64 {
        let count = own.map(|at| record::children(self.records.get(&self.pages, at)));
        count.filter(|&count| count < CROWD).unwrap_or_else(|| self.beside.get(&self.pages, &self.secret, id))
    }

    /// Whether `id` is `parent` or above it. No way up has more directories than there are.
    fn is_above(&self, id: DirId, parent: DirId) -> bool {
        let parents = |&at: &DirId| self.get(at).map(|part| part.parent);
        core::iter::successors(Some(parent), parents).take(self.len + 1).any(|at| at == id)
    }

    /// Sets a count beside that is there, or for which [room](Hi::make_room) was made.
    fn set_beside(&mut self, id: DirId, count: u64) {
        let kept = self.beside.set(&mut self.pages, &self.secret, id, count);
        debug_assert!(kept, "there is room for a count that a change adds");
    }

    /// Writes a count to a record, or beside it if it is a crowd.
    fn set_children(&mut self, id: DirId, at: Slot, count: u64) {
        if count >= CROWD {
            self.set_beside(id, count);
        }
        record::set_children(self.records.get_mut(&mut self.pages, at), count.min(CROWD));
    }

    /// Takes a directory out. Its children are counted beside from now on, or, if there is no memory for that, by its ghost.
    fn take(&mut self, own: (Slot, Slot)) -> Part {
        let words = *self.records.get(&self.pages, own.0);
        let (part, children) = (self.part(&words), record::children(&words));
        self.len -= 1;
        if children == 0 || children == CROWD || self.beside.set(&mut self.pages, &self.secret, part.id, children) {
            self.drop_record(own);
        } else {
            record::set_ghost(self.records.get_mut(&mut self.pages, own.0));
        }
        self.count_child(part.parent, false);
        part
    }

    /// Takes a record out, and all that leads to it.
    fn drop_record(&mut self, (record, entry): (Slot, Slot)) {
        let words = *self.records.get(&self.pages, record);
        self.ids.remove(&mut self.pages, entry);
        self.records.remove(&mut self.pages, record);
        if let Stored::Long { at, len } = record::name(&words) {
            self.names.remove(&mut self.pages, at, len);
        }
        self.accesses.give_back(&self.secret, record::access(&words));
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
                self.set_beside(directory.id, 0);
            }
            self.set_children(directory.id, at, children);
        }
    }

    /// Whether a directory can be put, and who has its place taken out, so that nothing is refused half-way.
    fn make_room(&mut self, directory: &Directory<'_>, key: &Key, displaced: Option<DirId>) -> Result<(), IndexError> {
        self.pages.ensure(CHANGE_PAGES + COUNT_PAGES)?;
        let counted = [directory.id, directory.parent, displaced.unwrap_or_default()];
        let room = self.records.has_room(key.place)
            && self.ids.has_room(Ids::tag(&self.secret, directory.id))
            && counted.into_iter().all(|id| self.beside.has_room(&self.secret, id));
        if room { Ok(()) } else { Err(IndexError::Full) }
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
        let own = self.find_any(directory.id);
        let held = own.filter(|&(record, _)| !record::is_ghost(self.records.get(&self.pages, record)));
        let before = held.map(|(record, _)| self.part(self.records.get(&self.pages, record)));
        let there = self.find(&key, directory.name);
        if let (Some((record, _)), Some(at)) = (held, there)
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
        let displaced = there.map(|at| record::id(self.records.get(&self.pages, at)));
        self.make_room(directory, &key, displaced)?;
        let access = self.accesses.take(&self.secret, directory.access)?;
        if held.is_some() {
            self.remove(directory.id);
        } else if let Some(ghost) = own {
            let children = record::children(self.records.get(&self.pages, ghost.0));
            self.drop_record(ghost);
            if children < CROWD {
                self.set_beside(directory.id, children);
            }
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
        for words in self.records.all(&self.pages).filter(|words| !record::is_ghost(words)) {
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
        let words = self.records.get_mut(&mut self.pages, record);
        let number = self.accesses.exchange(&self.secret, record::access(words), access)?;
        record::set_access(words, number, grant);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::{End, Search};

    fn bind(index: &mut Hi<Heap>, id: u64, parent: u64, name: &[u8]) -> Result<Bound, IndexError> {
        let (access, grant) = (Access { mode: 0o755, ..Access::default() }, Grant::default());
        index.bind(&Directory { id: DirId(id), parent: DirId(parent), name, access, grant })
    }

    /// An index of a root and two directories, one in the other, of which the outer one was removed when there was no memory: its ghost is there.
    fn with_ghost() -> Hi<Heap> {
        let mut index = Hi::new(Secret::new([6; 16]), Heap, 1 << 20);
        for (id, parent, name) in [(1, 0, &b""[..]), (2, 1, b"outer"), (3, 2, b"inner"), (4, 3, b"more")] {
            bind(&mut index, id, parent, name).unwrap();
        }
        let mut taken = Vec::new();
        while index.pages.ensure(1).is_ok() {
            taken.push(index.pages.take());
        }
        assert_eq!(bind(&mut index, 5, 1, b"new"), Err(IndexError::Full));
        assert_eq!(index.remove(DirId(2)).map(|part| part.id), Some(DirId(2)));
        assert_eq!(index.beside.get(&index.pages, &index.secret, DirId(2)), 0, "no memory to count beside");
        taken.into_iter().for_each(|page| index.pages.give_back(page));
        index
    }

    fn records(index: &Hi<Heap>) -> usize {
        index.records.all(&index.pages).count()
    }

    #[test]
    fn a_directory_whose_children_nobody_could_count_is_gone_for_all_but_the_counting() {
        let mut index = with_ghost();
        assert_eq!((index.len(), records(&index)), (3, 4));
        let mut all = |_: DirId, _: &Access| Search::Allowed;
        assert_eq!(index.walk(DirId::ROOT, b"outer/inner", &mut all).end, End::Missing);
        assert_eq!(index.walk(DirId(2), b"inner", &mut all).end, End::NoStart);
        assert_eq!((index.get(DirId(2)), index.name(DirId(2)), index.child(DirId::ROOT, b"outer")), (None, None, None));
        assert_eq!(index.set_access(DirId(2), Access::default(), Grant::default()), Ok(false));
        assert_eq!(index.remove(DirId(2)), None);
        index.each(&mut |directory| assert_ne!(directory.id, DirId(2)));
        assert_eq!(bind(&mut index, 2, 4, b"circle"), Err(IndexError::Circle));
        // Another one takes its place, and it comes back elsewhere.
        assert_eq!(bind(&mut index, 6, 1, b"outer"), Ok(Bound::default()));
        assert_eq!(bind(&mut index, 2, 6, b"back"), Ok(Bound::default()));
        assert_eq!(index.walk(DirId::ROOT, b"outer/back/inner/more", &mut all).end, End::Found);
        assert_eq!((index.len(), records(&index)), (5, 5));
        assert_eq!(bind(&mut index, 2, 4, b"circle"), Err(IndexError::Circle));
    }

    #[test]
    fn a_ghost_is_gone_with_the_last_directory_below_it() {
        let mut index = with_ghost();
        bind(&mut index, 7, 2, b"other").unwrap();
        index.remove(DirId(3)).unwrap();
        assert_eq!(records(&index), 4);
        bind(&mut index, 7, 1, b"other").unwrap();
        assert_eq!((index.len(), records(&index)), (3, 3));
    }

    #[test]
    fn a_ghost_may_become_a_crowd() {
        let mut index = with_ghost();
        let many = CROWD + 10;
        for id in 0..many {
            bind(&mut index, 100 + id, 2, alloc::format!("{id}").as_bytes()).unwrap();
        }
        let held = index.len();
        bind(&mut index, 2, 1, b"crowd").unwrap();
        assert_eq!((index.len(), records(&index)), (held + 1, held + 1));
        let own = index.find_id(DirId(2)).map(|(record, _)| record);
        assert_eq!(index.children(DirId(2), own), index.len() as u64 - 3, "all but the root, itself and one below");
    }
}
