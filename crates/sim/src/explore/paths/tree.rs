//! A small tree, as those see it who change it and who walk in it. Names and inodes are those of the file system.

use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use onpath_wire::request::rename;
use std::collections::BTreeMap;

/// Bits that let who walks search a directory, and change it: the tree is somebody else's.
const SEARCH: u16 = 0o001;
const CHANGE: u16 = 0o003;

/// What an inode is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Is {
    Directory,
    File,
    /// It leads there.
    Link(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Inode {
    is: Is,
    mode: u16,
}

/// Where a name is.
pub(super) type Place = (InodeId, Name);

/// A change, and who makes it may do anything but in [`Change::Make`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// `by_walker`: who makes it has to be allowed to.
    Make {
        at: Place,
        is: Is,
        mode: u16,
        by_walker: bool,
    },
    Link {
        id: InodeId,
        at: Place,
    },
    Unlink(Place),
    Rmdir(Place),
    Rename {
        from: Place,
        to: Place,
        flags: u32,
    },
    Chmod {
        id: InodeId,
        mode: u16,
    },
}

/// The tree at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Tree {
    names: BTreeMap<Place, InodeId>,
    inodes: BTreeMap<InodeId, Inode>,
}

impl Tree {
    /// A root in which everybody may do everything.
    pub(super) fn new() -> Tree {
        let root = Inode { is: Is::Directory, mode: 0o777 };
        Tree { names: BTreeMap::new(), inodes: BTreeMap::from([(InodeId::ROOT, root)]) }
    }

    /// Puts something new there.
    pub(super) fn put(&mut self, at: Place, id: InodeId, is: Is, mode: u16) {
        self.names.insert(at, id);
        self.inodes.insert(id, Inode { is, mode });
    }

    pub(super) fn has(&self, id: InodeId) -> bool {
        self.inodes.contains_key(&id)
    }

    pub(super) fn mode(&self, id: InodeId) -> Option<u16> {
        self.inodes.get(&id).map(|inode| inode.mode)
    }

    pub(super) fn child(&self, dir: InodeId, name: &Name) -> Option<InodeId> {
        self.names.get(&(dir, name.clone())).copied()
    }

    fn is_directory(&self, id: InodeId) -> bool {
        self.inodes.get(&id).is_some_and(|inode| inode.is == Is::Directory)
    }

    /// Whether who walks may look up a name in it.
    pub(super) fn is_open(&self, dir: InodeId) -> bool {
        self.is_directory(dir) && self.mode(dir).is_some_and(|mode| mode & SEARCH != 0)
    }

    /// To which directory these names lead who walks.
    pub(super) fn follow(&self, from: InodeId, names: &[Name]) -> Option<InodeId> {
        let start = Some(from).filter(|from| self.is_directory(*from))?;
        names.iter().try_fold(start, |dir, name| {
            let child = self.is_open(dir).then(|| self.child(dir, name)).flatten()?;
            self.is_directory(child).then_some(child)
        })
    }

    /// Where a link leads; none if it is not there any more.
    pub(super) fn target(&self, id: InodeId) -> Option<&[u8]> {
        match &self.inodes.get(&id)?.is {
            Is::Link(target) => Some(target),
            _ => None,
        }
    }

    fn is_empty(&self, dir: InodeId) -> bool {
        self.names.keys().all(|(parent, _)| *parent != dir)
    }

    fn is_below(&self, mut id: InodeId, top: InodeId) -> bool {
        while id != top {
            match self.names.iter().find(|(_, is)| **is == id) {
                Some(((parent, _), _)) => id = *parent,
                None => return false,
            }
        }
        true
    }

    /// For what a change may be refused: it succeeds if there is nothing.
    pub(super) fn refusals(&self, change: &Change) -> Vec<Errno> {
        let mut why = vec![];
        let there = |(dir, name): &Place| self.child(*dir, name);
        match change {
            Change::Make { at, by_walker, .. } => {
                self.refuses_new(at, &mut why);
                if *by_walker && self.mode(at.0).is_some_and(|mode| mode & CHANGE != CHANGE) {
                    why.push(Errno::EACCES);
                }
            }
            Change::Link { id, at } => {
                self.refuses_new(at, &mut why);
                if !self.has(*id) {
                    why.extend([Errno::ENOENT, Errno::ESTALE]);
                }
            }
            Change::Unlink(at) => match there(at) {
                None => why.push(Errno::ENOENT),
                Some(id) if self.is_directory(id) => why.push(Errno::EISDIR),
                Some(_) => {}
            },
            Change::Rmdir(at) => match there(at) {
                None => why.push(Errno::ENOENT),
                Some(id) if !self.is_directory(id) => why.push(Errno::ENOTDIR),
                Some(id) if !self.is_empty(id) => why.push(Errno::ENOTEMPTY),
                Some(_) => {}
            },
            Change::Rename { from, to, flags } => self.refuses_rename(from, to, *flags, &mut why),
            Change::Chmod { id, .. } if !self.has(*id) => why.extend([Errno::ENOENT, Errno::ESTALE]),
            Change::Chmod { .. } => {}
        }
        why
    }

    fn refuses_new(&self, (dir, name): &Place, why: &mut Vec<Errno>) {
        if !self.has(*dir) {
            why.push(Errno::ENOENT);
        } else if self.child(*dir, name).is_some() {
            why.push(Errno::EEXIST);
        }
    }

    fn refuses_rename(&self, from: &Place, to: &Place, flags: u32, why: &mut Vec<Errno>) {
        let exchanges = flags & rename::EXCHANGE != 0;
        if !self.has(to.0) {
            why.push(Errno::ENOENT);
        }
        let Some(moved) = self.child(from.0, &from.1) else { return why.push(Errno::ENOENT) };
        if self.is_below(to.0, moved) {
            why.push(Errno::EINVAL);
        }
        let Some(other) = self.child(to.0, &to.1) else {
            return why.extend(exchanges.then_some(Errno::ENOENT));
        };
        if self.is_below(from.0, other) {
            why.push(if exchanges { Errno::EINVAL } else { Errno::ENOTEMPTY });
        }
        if exchanges || moved == other {
            return;
        }
        match (self.is_directory(moved), self.is_directory(other)) {
            (true, false) => why.push(Errno::ENOTDIR),
            (false, true) => why.push(Errno::EISDIR),
            (true, true) if !self.is_empty(other) => why.push(Errno::ENOTEMPTY),
            _ => {}
        }
    }

    /// Makes a change that is not refused. `made`: what it has made.
    pub(super) fn change(&mut self, change: &Change, made: InodeId) {
        match change.clone() {
            Change::Make { at, is, mode, .. } => self.put(at, made, is, mode),
            Change::Link { id, at } => _ = self.names.insert(at, id),
            Change::Unlink(at) | Change::Rmdir(at) => self.remove(&at),
            Change::Rename { from, to, flags } => {
                let (moved, other) = (self.names[&from], self.names.get(&to).copied());
                if flags & rename::EXCHANGE != 0 {
                    self.names.extend([(from, other.expect("it is not refused")), (to, moved)]);
                } else if other != Some(moved) {
                    self.remove(&to);
                    self.names.remove(&from);
                    self.names.insert(to, moved);
                }
            }
            Change::Chmod { id, mode } => self.inodes.get_mut(&id).expect("it is not refused").mode = mode,
        }
    }

    fn remove(&mut self, at: &Place) {
        let Some(id) = self.names.remove(at) else { return };
        if self.names.values().all(|other| *other != id) {
            self.inodes.remove(&id);
        }
    }
}
