//! What a path node holds of a directory: a *path part*: its name, its parent, and what permissions rest on.

use core::fmt;
use thiserror::Error;

/// Longest name, bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// The id of a directory: 1 to 2^53 - 1, as inode ids are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DirId(pub u64);

impl DirId {
    /// The parent of the root.
    pub const NONE: DirId = DirId(0);
    /// The root.
    pub const ROOT: DirId = DirId(1);
    /// The largest.
    pub const MAX: DirId = DirId((1 << 53) - 1);
}

/// What permissions rest on. An access ACL is not held, only that there is one: who it concerns is asked elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Access {
    /// Permission bits including setgid and sticky: at most 0o7777.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The permission bits do not say all: there is an access ACL.
    pub acl: bool,
}

/// The number of a grant. Later ones of one home are larger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Grant {
    /// Term of the home: at most [`Grant::TERM_MAX`].
    pub term: u32,
    /// Which grant of that term: at most [`Grant::COUNT_MAX`].
    pub count: u64,
}

impl Grant {
    /// The largest term.
    pub const TERM_MAX: u32 = (1 << 24) - 1;
    /// The largest count.
    pub const COUNT_MAX: u64 = (1 << 40) - 1;

    pub(crate) fn packed(self) -> u64 {
        u64::from(self.term) << 40 | self.count
    }

    pub(crate) fn unpacked(word: u64) -> Grant {
        Grant { term: (word >> 40) as u32, count: word & Grant::COUNT_MAX }
    }
}

/// A directory without its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Part {
    /// Its id.
    pub id: DirId,
    /// Its parent's; [`DirId::NONE`] of the root.
    pub parent: DirId,
    /// Its access part.
    pub access: Access,
    /// The grant by which it is held.
    pub grant: Grant,
}

/// A directory with its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Directory<'a> {
    /// Its id.
    pub id: DirId,
    /// Its parent's; [`DirId::NONE`] of the root.
    pub parent: DirId,
    /// Its name in the parent; empty of the root.
    pub name: &'a [u8],
    /// Its access part.
    pub access: Access,
    /// The grant by which it is held.
    pub grant: Grant,
}

impl<'a> Directory<'a> {
    /// The root.
    pub fn root(access: Access, grant: Grant) -> Directory<'static> {
        Directory { id: DirId::ROOT, parent: DirId::NONE, name: b"", access, grant }
    }

    /// It without its name.
    pub fn part(&self) -> Part {
        Part { id: self.id, parent: self.parent, access: self.access, grant: self.grant }
    }

    /// Whether an index can hold it: ids, numbers and name are in their ranges. The root has no name and no parent, all others have both.
    pub fn check(&self) -> Result<(), IndexError> {
        let is_root = self.id == DirId::ROOT;
        if self.id == DirId::NONE || self.id > DirId::MAX || self.parent > DirId::MAX {
            Err(IndexError::Id)
        } else if is_root != (self.parent == DirId::NONE) || self.id == self.parent {
            Err(IndexError::Parent)
        } else if is_root != self.name.is_empty() || !self.name.is_empty() && !is_name(self.name) {
            Err(IndexError::Name)
        } else {
            check_access(&self.access)?;
            check_grant(&self.grant)
        }
    }
}

/// Refuses what is no access part.
pub(crate) fn check_access(access: &Access) -> Result<(), IndexError> {
    if access.mode > 0o7777 { Err(IndexError::Mode) } else { Ok(()) }
}

/// Refuses what is no number of a grant.
pub(crate) fn check_grant(grant: &Grant) -> Result<(), IndexError> {
    if grant.term > Grant::TERM_MAX || grant.count > Grant::COUNT_MAX { Err(IndexError::Grant) } else { Ok(()) }
}

fn is_name(name: &[u8]) -> bool {
    name.len() <= NAME_BYTES_MAX && name != b"." && name != b".." && !name.iter().any(|&b| b == b'/' || b == 0)
}

/// Why something is not in the index now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum IndexError {
    /// Not an id of a directory.
    #[error("an id is 1 to 2^53 - 1")]
    Id,
    /// The root has no parent, all others have one, and none is its own.
    #[error("the root alone has no parent, and no directory is its own")]
    Parent,
    /// Not a name of a directory.
    #[error("a name has 1 to 255 bytes, none of them / or NUL, and is neither . nor ..")]
    Name,
    /// Not permission bits.
    #[error("permission bits are at most 0o7777")]
    Mode,
    /// Not a number of a grant.
    #[error("the term of a grant is below 2^24, its count below 2^40")]
    Grant,
    /// The parent lies below the directory.
    #[error("a directory cannot lie below itself")]
    Circle,
    /// No memory is left: give up some [`candidates`](crate::Index::candidates), and repeat.
    #[error("the index is full: remove directories and repeat")]
    Full,
}

/// A name, in place.
#[derive(Clone, Copy)]
pub struct NameBuf {
    bytes: [u8; NAME_BYTES_MAX],
    len: u8,
}

impl NameBuf {
    /// A copy of a name; of what is too long, its beginning.
    pub fn new(name: &[u8]) -> NameBuf {
        let len = name.len().min(NAME_BYTES_MAX);
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes[..len].copy_from_slice(&name[..len]);
        NameBuf { bytes, len: len as u8 }
    }

    /// The name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl PartialEq for NameBuf {
    fn eq(&self, other: &NameBuf) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for NameBuf {}

impl fmt::Debug for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_refused() {
        let good = Directory {
            id: DirId(2),
            parent: DirId::ROOT,
            name: &[0xff; 255],
            access: Access { mode: 0o7777, ..Access::default() },
            grant: Grant { term: Grant::TERM_MAX, count: Grant::COUNT_MAX },
        };
        assert_eq!(good.check(), Ok(()));
        assert_eq!(Directory::root(good.access, good.grant).check(), Ok(()));
        assert_eq!(Grant::unpacked(good.grant.packed()), good.grant);
        let long = [b'x'; 256];
        for (bad, error) in [
            (Directory { id: DirId::NONE, ..good }, IndexError::Id),
            (Directory { id: DirId(1 << 53), ..good }, IndexError::Id),
            (Directory { parent: DirId(1 << 53), ..good }, IndexError::Id),
            (Directory { parent: DirId::NONE, ..good }, IndexError::Parent),
            (Directory { parent: good.id, ..good }, IndexError::Parent),
            (Directory { id: DirId::ROOT, parent: DirId(2), ..good }, IndexError::Parent),
            (Directory { id: DirId::ROOT, parent: DirId::NONE, ..good }, IndexError::Name),
            (Directory { name: b"", ..good }, IndexError::Name),
            (Directory { name: b".", ..good }, IndexError::Name),
            (Directory { name: b"..", ..good }, IndexError::Name),
            (Directory { name: b"a/b", ..good }, IndexError::Name),
            (Directory { name: b"a\0", ..good }, IndexError::Name),
            (Directory { name: &long, ..good }, IndexError::Name),
            (Directory { access: Access { mode: 0o10000, ..good.access }, ..good }, IndexError::Mode),
            (Directory { grant: Grant { term: 1 << 24, count: 0 }, ..good }, IndexError::Grant),
            (Directory { grant: Grant { term: 0, count: 1 << 40 }, ..good }, IndexError::Grant),
        ] {
            assert_eq!(bad.check(), Err(error), "{bad:?}");
        }
    }
}
