//! A small tree, as those see it who change it and who walk in it. Names and inodes are those of the file system.
//!
//! Who changes it may do everything, who walks owns nothing, and is named in every ACL.

use onpath_session::fs::FsOp;
use onpath_wire::acl::{Acl, AclEntry, Who};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::request::{SetAttr, rename, set};
use onpath_wire::xattr::{ACL_ACCESS, XattrName};
use std::collections::BTreeMap;

/// Who walks.
pub(crate) const WALKER: u32 = 4_001;
/// A group of theirs, which nobody knows who is not told.
pub(crate) const GROUP: u32 = 4_100;
/// The group to which everything belongs at first: they are not in it.
const OTHERS: u32 = 0;
/// Bits that let who walks search a directory, and change it: the tree is somebody else's.
const SEARCH: u16 = 0o001;
const CHANGE: u16 = 0o003;

/// What an inode is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Is {
    Directory,
    File,
    /// It leads there.
    Link(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Inode {
    is: Is,
    mode: u16,
    /// What an ACL lets who walks do, if there is one.
    acl: Option<u16>,
    /// It belongs to a group of those who walk.
    of_group: bool,
}

impl Inode {
    fn new(is: Is, mode: u16) -> Inode {
        Inode { is, mode, acl: None, of_group: false }
    }

    /// Whether who walks has all these permissions. What an ACL grants is limited by its mask, which the bits of the group are.
    fn lets(&self, wanted: u16) -> bool {
        let bits = if self.of_group { self.mode >> 3 } else { self.mode };
        let has = self.acl.map_or(bits, |acl| acl & self.mode >> 3);
        has & wanted == wanted
    }
}

/// Where a name is.
pub(crate) type Place = (InodeId, Name);

/// A change, and who makes it may do anything but in [`Change::Make`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
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
    /// It belongs to a group of those who walk, or to one in which they are not.
    Chgrp {
        id: InodeId,
        of_group: bool,
    },
    /// An ACL gives these permissions to who walks, and `mode` becomes those of all others; or there is none any more.
    Acl {
        id: InodeId,
        acl: Option<(u16, u16)>,
    },
}

impl Change {
    /// Its system call.
    pub(crate) fn op(&self) -> FsOp {
        let acl_name = || XattrName::new(ACL_ACCESS).expect("a short name");
        match self.clone() {
            Change::Make { at: (parent, name), is, mode, .. } => {
                let (kind, target) = match is {
                    Is::Directory => (Kind::Directory, vec![]),
                    Is::File => (Kind::File, vec![]),
                    Is::Link(target) => (Kind::Symlink, target),
                };
                FsOp::Make { parent, name, kind, mode, umask: 0, rdev: 0, target }
            }
            Change::Link { id, at: (parent, name) } => FsOp::Link { id, parent, name },
            Change::Unlink((parent, name)) => FsOp::Unlink { parent, name },
            Change::Rmdir((parent, name)) => FsOp::Rmdir { parent, name },
            Change::Rename { from: (from_parent, from), to: (parent, name), flags } => {
                FsOp::Rename { from_parent, from, parent, name, flags }
            }
            Change::Chmod { id, mode } => {
                let set = SetAttr { valid: set::MODE, mode, ..SetAttr::default() };
                FsOp::SetAttr { id, set, handle: None }
            }
            Change::Chgrp { id, of_group } => {
                let set = SetAttr { valid: set::GID, gid: if of_group { GROUP } else { OTHERS }, ..SetAttr::default() };
                FsOp::SetAttr { id, set, handle: None }
            }
            Change::Acl { id, acl: None } => FsOp::RemoveXattr { id, name: acl_name() },
            Change::Acl { id, acl: Some((walks, mode)) } => {
                FsOp::SetXattr { id, name: acl_name(), value: acl(walks, mode).to_xattr(), flags: 0 }
            }
        }
    }
}

/// An ACL of this mode that gives these permissions to who walks.
fn acl(walks: u16, mode: u16) -> Acl {
    let (owner, group, other) = (mode >> 6 & 7, mode >> 3 & 7, mode & 7);
    let user = Who::User(WALKER);
    let perms =
        [(Who::Owner, owner), (user, walks), (Who::OwningGroup, group), (Who::Mask, group), (Who::Other, other)];
    Acl::new(perms.map(|(who, perm)| AclEntry { who, perm }).into()).expect("entries in order")
}

/// The tree at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tree {
    names: BTreeMap<Place, InodeId>,
    inodes: BTreeMap<InodeId, Inode>,
}

impl Tree {
    /// A root in which everybody may do everything.
    pub(crate) fn new() -> Tree {
        Tree::of(InodeId::ROOT, 0o777)
    }

    /// A directory alone.
    pub(crate) fn of(top: InodeId, mode: u16) -> Tree {
        let inodes = BTreeMap::from([(top, Inode::new(Is::Directory, mode))]);
        Tree { names: BTreeMap::new(), inodes }
    }

    /// All that there is, the one that stands under no name too.
    pub(crate) fn ids(&self) -> impl Iterator<Item = InodeId> + '_ {
        self.inodes.keys().copied()
    }

    /// Where something is, if it has a name.
    pub(crate) fn place(&self, id: InodeId) -> Option<&Place> {
        self.names.iter().find(|(_, is)| **is == id).map(|(place, _)| place)
    }

    /// The names that lead to something from where names begin.
    pub(crate) fn way(&self, mut id: InodeId) -> Vec<Name> {
        let mut names = vec![];
        while let Some((parent, name)) = self.place(id) {
            names.push(name.clone());
            id = *parent;
        }
        names.reverse();
        names
    }

    /// What was made has an id now.
    pub(crate) fn names_made(&mut self, unmade: InodeId, id: InodeId) {
        if let Some(inode) = self.inodes.remove(&unmade) {
            self.inodes.insert(id, inode);
        }
        self.names.values_mut().filter(|is| **is == unmade).for_each(|is| *is = id);
        let below = |(place, is): (Place, InodeId)| (if place.0 == unmade { (id, place.1) } else { place }, is);
        self.names = std::mem::take(&mut self.names).into_iter().map(below).collect();
    }

    /// Puts something new there.
    pub(crate) fn put(&mut self, at: Place, id: InodeId, is: Is, mode: u16) {
        self.names.insert(at, id);
        self.inodes.insert(id, Inode::new(is, mode));
    }

    pub(crate) fn has(&self, id: InodeId) -> bool {
        self.inodes.contains_key(&id)
    }

    pub(crate) fn mode(&self, id: InodeId) -> Option<u16> {
        self.inodes.get(&id).map(|inode| inode.mode)
    }

    pub(crate) fn child(&self, dir: InodeId, name: &Name) -> Option<InodeId> {
        self.names.get(&(dir, name.clone())).copied()
    }

    fn is_directory(&self, id: InodeId) -> bool {
        self.inodes.get(&id).is_some_and(|inode| inode.is == Is::Directory)
    }

    /// Whether who walks may look up a name in it.
    pub(crate) fn is_open(&self, dir: InodeId) -> bool {
        self.is_directory(dir) && self.inodes[&dir].lets(SEARCH)
    }

    /// To which directory these names lead who walks.
    pub(crate) fn follow(&self, from: InodeId, names: &[Name]) -> Option<InodeId> {
        let start = Some(from).filter(|from| self.is_directory(*from))?;
        names.iter().try_fold(start, |dir, name| {
            let child = self.is_open(dir).then(|| self.child(dir, name)).flatten()?;
            self.is_directory(child).then_some(child)
        })
    }

    /// Where a link leads; none if it is not there any more.
    pub(crate) fn target(&self, id: InodeId) -> Option<&[u8]> {
        match &self.inodes.get(&id)?.is {
            Is::Link(target) => Some(target),
            _ => None,
        }
    }

    pub(crate) fn is_empty(&self, dir: InodeId) -> bool {
        self.names.keys().all(|(parent, _)| *parent != dir)
    }

    pub(crate) fn is_below(&self, mut id: InodeId, top: InodeId) -> bool {
        while id != top {
            match self.place(id) {
                Some((parent, _)) => id = *parent,
                None => return false,
            }
        }
        true
    }

    /// Whether a change is of what has no name any more. Its home may have it still, as it has what is open: then the change succeeds, and
    /// nobody sees it.
    pub(crate) fn is_of_gone(&self, change: &Change) -> bool {
        matches!(change, Change::Chmod { id, .. } | Change::Chgrp { id, .. } | Change::Acl { id, .. } if !self.has(*id))
    }

    /// For what a change may be refused: it succeeds if there is nothing.
    pub(crate) fn refusals(&self, change: &Change) -> Vec<Errno> {
        let mut why = vec![];
        let there = |(dir, name): &Place| self.child(*dir, name);
        match change {
            Change::Make { at, by_walker, .. } => {
                self.refuses_new(at, &mut why);
                if *by_walker && self.inodes.get(&at.0).is_some_and(|dir| !dir.lets(CHANGE)) {
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
            Change::Chmod { id, .. } | Change::Chgrp { id, .. } | Change::Acl { id, .. } if !self.has(*id) => {
                why.extend([Errno::ENOENT, Errno::ESTALE]);
            }
            Change::Chmod { .. } | Change::Chgrp { .. } | Change::Acl { .. } => {}
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
    pub(crate) fn change(&mut self, change: &Change, made: InodeId) {
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
            Change::Chgrp { id, of_group } => self.inodes.get_mut(&id).expect("it is not refused").of_group = of_group,
            Change::Acl { id, acl } => {
                let inode = self.inodes.get_mut(&id).expect("it is not refused");
                inode.acl = acl.map(|(perm, _)| perm);
                inode.mode = acl.map_or(inode.mode, |(_, mode)| mode);
            }
        }
    }

    fn remove(&mut self, at: &Place) {
        let Some(id) = self.names.remove(at) else { return };
        if self.names.values().all(|other| *other != id) {
            self.inodes.remove(&id);
        }
    }
}
