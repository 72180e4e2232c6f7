//! What there is when a situation of paths begins, and who does what then: in labels, of which each stands for one name.

use super::walk::Names;
use crate::scenario::{Scenario, make, rename};
use crate::users::tree::{Is, Tree};
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
    /// Nothing has this name if there is none.
    what: Option<What>,
}

struct What {
    kind: Kind,
    home: u16,
    mode: u16,
    target: &'static str,
}

/// A directory that everybody may search.
pub(super) const fn dir(path: &'static str, site: u16, home: u16) -> Has {
    Has { path, site, what: Some(What { kind: Kind::Directory, home, mode: 0o755, target: "" }) }
}

/// A directory in which everybody may make things.
pub(super) const fn open_dir(path: &'static str, site: u16, home: u16) -> Has {
    Has { path, site, what: Some(What { kind: Kind::Directory, home, mode: 0o777, target: "" }) }
}

/// A directory that nobody may search.
pub(super) const fn closed_dir(path: &'static str, site: u16, home: u16) -> Has {
    Has { path, site, what: Some(What { kind: Kind::Directory, home, mode: 0o700, target: "" }) }
}

pub(super) const fn file(path: &'static str, site: u16, home: u16) -> Has {
    Has { path, site, what: Some(What { kind: Kind::File, home, mode: 0o644, target: "" }) }
}

/// A link that leads from the root on.
pub(super) const fn link(path: &'static str, site: u16, target: &'static str) -> Has {
    Has { path, site, what: Some(What { kind: Kind::Symlink, home: site, mode: 0o777, target }) }
}

/// A name that nothing has yet.
pub(super) const fn free(path: &'static str, site: u16) -> Has {
    Has { path, site, what: None }
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
    /// Where things are changed is known by the ids that directories had at the beginning.
    Rename(&'static str, &'static str),
    Exchange(&'static str, &'static str),
    Chmod(&'static str, u16),
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

/// Who does these things, one after the other: in a session that keeps ways, or does not.
pub(super) struct Program {
    pub(super) keeps: bool,
    pub(super) acts: &'static [Act],
}

/// A situation.
pub(crate) struct Scene {
    pub(super) tree: &'static [Has],
    pub(super) programs: &'static [Program],
    /// Paths that each session follows before it begins, until path nodes hold them and ways are kept.
    pub(super) known: &'static [&'static str],
    /// What has gone wrong by then.
    pub(super) begin: fn(&mut Scenario, &Placed),
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
        for Has { path, site, what } in all {
            let (parent, label) = split(path);
            let dir = placed.id(parent);
            let name = sc.name_at(dir, *site, label);
            if let Some(what) = what {
                let id = put(sc, (dir, &name), *site, what);
                placed.ids.insert(path, id);
                let is = match what.kind {
                    Kind::Directory => Is::Directory,
                    Kind::Symlink => Is::Link(what.target.into()),
                    _ => Is::File,
                };
                placed.tree.put((dir, name.clone()), id, is, what.mode);
            }
            placed.names.insert(label, name);
        }
        placed
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
