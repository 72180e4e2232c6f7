//! What there is when a situation of paths begins, and who does what then: in labels, of which each stands for one name.

use super::walk::Names;
use crate::scenario::{Scenario, make, rename};
use crate::users::tree::{Change, Is, Tree};
use onpath_session::fs::FsOp;
use onpath_wire::codec::Blob;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::reply::Reply;
use onpath_wire::request::{NewNode, Request};
use std::collections::BTreeMap;

/// Something that is there, or a name that nothing has.
pub(super) struct Has {
    /// Labels from the root on.
    path: &'static str,
    /// The site of its name.
    site: u16,
    /// Bytes that its name has at least.
    width: usize,
    /// Nothing has this name if there is none.
    what: Option<What>,
}

struct What {
    kind: Kind,
    home: u16,
    mode: u16,
    /// It belongs to a group of those who walk.
    of_group: bool,
    target: &'static str,
}

impl Has {
    const fn new(path: &'static str, site: u16, kind: Kind, home: u16, mode: u16) -> Has {
        Has { path, site, width: 0, what: Some(What { kind, home, mode, of_group: false, target: "" }) }
    }

    /// The same with a name of so many bytes, and one or two more. Of names that long an index holds those of each multiple of eight in a page of
    /// its own, so that few of them take all its room.
    pub(super) const fn wide(self, width: usize) -> Has {
        Has { width, ..self }
    }
}

/// A directory that everybody may search.
pub(super) const fn dir(path: &'static str, site: u16, home: u16) -> Has {
    Has::new(path, site, Kind::Directory, home, 0o755)
}

/// A directory in which everybody may make things.
pub(super) const fn open_dir(path: &'static str, site: u16, home: u16) -> Has {
    Has::new(path, site, Kind::Directory, home, 0o777)
}

/// A directory that nobody may search.
pub(super) const fn closed_dir(path: &'static str, site: u16, home: u16) -> Has {
    Has::new(path, site, Kind::Directory, home, 0o700)
}

/// A directory that a group may search in which those are who walk, and nobody else.
pub(super) const fn group_dir(path: &'static str, site: u16, home: u16) -> Has {
    let what = What { kind: Kind::Directory, home, mode: 0o750, of_group: true, target: "" };
    Has { path, site, width: 0, what: Some(what) }
}

pub(super) const fn file(path: &'static str, site: u16, home: u16) -> Has {
    Has::new(path, site, Kind::File, home, 0o644)
}

/// A link that leads from the root on.
pub(super) const fn link(path: &'static str, site: u16, target: &'static str) -> Has {
    let what = What { kind: Kind::Symlink, home: site, mode: 0o777, of_group: false, target };
    Has { path, site, width: 0, what: Some(what) }
}

/// A name that nothing has yet.
pub(super) const fn free(path: &'static str, site: u16) -> Has {
    Has { path, site, width: 0, what: None }
}

/// What somebody does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// A path is followed by somebody who owns nothing, and what it leads to is looked at.
    Walk(&'static str),
    /// The same, and a directory is made under the last name.
    MakeAt(&'static str),
    /// A path is followed as far as a path node leads, and no further.
    Lead(&'static str),
    /// Who walks looks the last name up in its directory.
    Look(&'static str),
    /// Who walks asks for the attributes of what was there at the beginning.
    Stat(&'static str),
    /// Where things are changed is known by the ids that directories had at the beginning.
    Rename(&'static str, &'static str),
    Exchange(&'static str, &'static str),
    Chmod(&'static str, u16),
    /// A directory is given to a group of those who walk, or to one in which they are not.
    Chgrp(&'static str, bool),
    /// An ACL names who walks, with these permissions.
    Acl(&'static str, u16),
    Mkdir(&'static str),
    Create(&'static str),
    /// A link, and where it leads.
    Symlink(&'static str, &'static str),
    /// A further name, the second one.
    Link(&'static str, &'static str),
    Unlink(&'static str),
    Rmdir(&'static str),
}

/// Who does these things, one after the other.
pub(super) struct Program {
    pub(super) of: Of,
    pub(super) acts: &'static [Act],
}

/// Whose program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// A session that keeps no ways.
    Asking,
    /// A session that keeps ways.
    Keeping,
    /// One more thread of the session before.
    Same,
}

/// A situation.
pub(crate) struct Scene {
    pub(super) tree: &'static [Has],
    pub(super) programs: &'static [Program],
    /// Paths that each session follows before it begins, until path nodes hold them and ways are kept.
    pub(super) known: &'static [&'static str],
    /// What has gone wrong by then.
    pub(super) begin: fn(&mut Scenario, &mut Placed),
}

/// What was put where.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placed {
    pub(super) names: Names,
    /// By labels from the root on.
    pub(super) ids: BTreeMap<&'static str, InodeId>,
    pub(super) tree: Tree,
}

/// The labels of a directory, and the last one.
pub(super) fn split(path: &'static str) -> (&'static str, &'static str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl Placed {
    /// Puts everything where it is to be.
    pub(super) fn new(sc: &mut Scenario, all: &[Has]) -> Placed {
        let mut placed = Placed { tree: Tree::new(), ..Placed::default() };
        placed.ids.insert("", InodeId::ROOT);
        for Has { path, site, width, what } in all {
            let (parent, label) = split(path);
            let dir = placed.id(parent);
            let name = sc.name_at(dir, *site, &format!("{label:-<width$}"));
            if let Some(what) = what {
                let id = put(sc, (dir, &name), *site, what);
                placed.ids.insert(path, id);
                let is = match what.kind {
                    Kind::Directory => Is::Directory,
                    Kind::Symlink => Is::Link(what.target.into()),
                    _ => Is::File,
                };
                placed.tree.put((dir, name.clone()), id, is, what.mode);
                if what.of_group {
                    placed.set(sc, &Change::Chgrp { id, of_group: true });
                }
            }
            placed.names.insert(label, name);
        }
        placed
    }

    /// Attributes are changed by somebody of whom no session hears.
    pub(super) fn set(&mut self, sc: &mut Scenario, change: &Change) {
        let FsOp::SetAttr { id, set, .. } = change.op() else { panic!("{change:?} changes attributes") };
        sc.must(Request::SetAttr { id, set });
        self.tree.change(change, InodeId::NONE);
    }

    /// The inode that had this path first.
    pub(super) fn id(&self, path: &str) -> InodeId {
        *self.ids.get(path).unwrap_or_else(|| panic!("{path:?} is part of the situation"))
    }

    pub(super) fn place(&self, path: &'static str) -> (InodeId, Name) {
        let (parent, label) = split(path);
        (self.id(parent), self.names[label].clone())
    }

    /// The names of a path.
    pub(super) fn way(&self, path: &str) -> Vec<Name> {
        path.split('/').map(|label| self.names[label].clone()).collect()
    }
}

fn put(sc: &mut Scenario, (dir, name): (InodeId, &Name), site: u16, what: &What) -> InodeId {
    let first = if what.home == site { name.clone() } else { sc.name_at(dir, what.home, "first") };
    let request = match what.kind {
        Kind::Symlink => {
            let target = Blob(what.target.into());
            let node = NewNode { kind: what.kind, mode: what.mode, umask: 0, rdev: 0, target, open: 0 };
            Request::Create { parent: dir, name: first.clone(), node }
        }
        kind => make(dir, &first, kind, what.mode),
    };
    let Reply::Entry { attr, .. } = sc.must(request) else { panic!("it is made") };
    if first != *name {
        sc.must(rename((dir, &first), (dir, name)));
    }
    attr.id
}
