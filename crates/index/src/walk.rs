//! Walks: how a path is followed, and what stops it.

use crate::types::{Access, DirId, Part};

/// Walks that [`Index::walk_many`](crate::Index::walk_many) keeps under way.
pub const LANES: usize = 8;

/// Whether a caller may search a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Search {
    /// It may.
    Allowed,
    /// It may not: EACCES.
    Denied,
    /// Nobody can say here: an ACL, or a group of which it is not known whether the caller is a member.
    Unknown,
}

/// The class of a caller at a directory: the first that fits, as POSIX has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// The caller owns it.
    Owner,
    /// The caller is a member of its group.
    Group,
    /// Neither.
    Other,
}

/// Who walks.
pub trait Check {
    /// Whether the caller may search this directory. Asked of each directory in which a name is looked up, in order.
    fn search(&mut self, dir: DirId, access: &Access) -> Search;

    /// The class of the caller at this directory; none if that is not known, and for who passes permission bits. An index with reachability
    /// bits asks it of the last directory of a path, and checks step by step if there is none.
    fn class(&self, access: &Access) -> Option<Class> {
        let _ = access;
        None
    }
}

impl<F: FnMut(DirId, &Access) -> Search> Check for F {
    #[inline]
    fn search(&mut self, dir: DirId, access: &Access) -> Search {
        self(dir, access)
    }
}

/// Why a walk ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// All components were found.
    Found,
    /// The next component is not held: it may exist all the same, be no directory, or be "..".
    Missing,
    /// The caller may not search the last directory.
    Denied,
    /// Whether the caller may search the last directory cannot be said here.
    Unknown,
    /// The directory from which to walk is not held.
    NoStart,
}

/// How far a walk came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walk {
    /// Why it ended.
    pub end: End,
    /// The last directory that was found; none after [`End::NoStart`].
    pub last: Option<Part>,
    /// Where in the path the first component begins that was not found; the length of the path if there is none.
    pub at: usize,
    /// Components that were found.
    pub depth: usize,
    /// Reachability bits granted it: nobody was asked for each directory.
    pub speculated: bool,
}

impl Walk {
    /// One from a directory that is not held.
    pub const NO_START: Walk = Walk { end: End::NoStart, last: None, at: 0, depth: 0, speculated: false };

    /// One that has begun.
    #[inline]
    pub fn from(start: Part) -> Walk {
        Walk { end: End::Found, last: Some(start), ..Walk::NO_START }
    }
}

/// One walk of several.
#[derive(Clone, Debug)]
pub struct Ask<'p, C> {
    /// Where it begins.
    pub from: DirId,
    /// What it follows.
    pub path: &'p [u8],
    /// Who walks.
    pub check: C,
    /// How far it came.
    pub walk: Walk,
}

impl<'p, C> Ask<'p, C> {
    /// One that is to be walked.
    pub fn new(from: DirId, path: &'p [u8], check: C) -> Ask<'p, C> {
        Ask { from, path, check, walk: Walk::NO_START }
    }
}

/// Whether the walk may look into its last directory; else it has ended.
#[inline]
pub(crate) fn may_pass<C: Check>(walk: &mut Walk, part: &Part, at: usize, check: &mut C) -> bool {
    walk.at = at;
    walk.end = match check.search(part.id, &part.access) {
        Search::Allowed => return true,
        Search::Denied => End::Denied,
        Search::Unknown => End::Unknown,
    };
    false
}
