//! What a copy needs of an inode, and of the places that it reads and makes: here by descriptors, there by calls of a client.

use super::links::First;
use crate::walk::{Failure, Tree};
use onpath_client::Metadata;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};

/// Tells inodes apart: device and number.
pub(super) type Id = (u64, u64);

/// What stands for the device of a file system that is not mounted: a copy knows one of these at most.
const DEVICE: u64 = u64::MAX;

/// A time, as a file system keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// Since 1970.
    pub(super) seconds: i64,
    pub(super) nanoseconds: i64,
}

/// What stat(2) tells of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) id: Id,
    pub(super) kind: FileType,
    /// With setuid, setgid and sticky.
    pub(super) permissions: u32,
    pub(super) links: u64,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Bytes.
    pub(super) size: u64,
    /// Of 512 bytes, on disk.
    pub(super) blocks: u64,
    pub(super) rdev: u64,
    pub(super) accessed: Moment,
    pub(super) modified: Moment,
}

impl From<&Stat> for Facts {
    fn from(stat: &Stat) -> Facts {
        let moment = |seconds, nanoseconds: u64| Moment { seconds, nanoseconds: nanoseconds.cast_signed() };
        Facts {
            id: (stat.st_dev, stat.st_ino),
            kind: FileType::from_raw_mode(stat.st_mode),
            permissions: stat.st_mode & 0o7777,
            links: stat.st_nlink,
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: stat.st_size.cast_unsigned(),
            blocks: stat.st_blocks.cast_unsigned(),
            rdev: stat.st_rdev,
            accessed: moment(stat.st_atime, stat.st_atime_nsec),
            modified: moment(stat.st_mtime, stat.st_mtime_nsec),
        }
    }
}

impl From<&Metadata> for Facts {
    fn from(is: &Metadata) -> Facts {
        let moment = |ns: i64| Moment { seconds: ns.div_euclid(NANOSECONDS), nanoseconds: ns.rem_euclid(NANOSECONDS) };
        Facts {
            id: (DEVICE, is.ino),
            kind: FileType::from_raw_mode(is.mode()),
            permissions: is.permissions,
            links: is.nlink.into(),
            uid: is.uid,
            gid: is.gid,
            size: is.size,
            blocks: is.blocks,
            rdev: is.rdev,
            accessed: moment(is.atime),
            modified: moment(is.mtime),
        }
    }
}

/// In a second.
pub(super) const NANOSECONDS: i64 = 1_000_000_000;

/// The names of extended attributes.
pub(super) type XattrNames = BTreeSet<CString>;

/// An inode that a name has led to: everything is done to it, whatever has got the name since.
pub(super) trait Object: Sized {
    /// What it was when it was found or opened.
    fn is(&self) -> &Facts;
    /// What it is now.
    fn now(&self) -> Result<Facts, Errno>;
    /// The target of a symbolic link.
    fn target(&self) -> Result<CString, Errno>;

    /// The same file with its bytes, to be read.
    fn open(&self) -> Result<Self, Errno>;
    /// Fills the buffer, as far as the file goes.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<usize, Errno>;
    /// Where the next data begins, or with `hole` the next hole: ENXIO behind the last.
    fn seek(&self, from: u64, hole: bool) -> Result<u64, Errno>;
    /// Writes all of it.
    fn write_at(&self, bytes: &[u8], at: u64) -> Result<(), Errno>;
    fn set_size(&self, bytes: u64) -> Result<(), Errno>;
    /// What was written is on stable storage, and is read from there again where that can be had.
    fn settle(&self) -> Result<(), Errno>;

    /// Whether EPERM of [`Object::chown`] is no failure: who copies may not give files away there.
    fn keeps_its_owner(&self) -> bool;
    fn chown(&self, uid: u32, gid: u32) -> Result<(), Errno>;
    fn chmod(&self, permissions: u32) -> Result<(), Errno>;
    fn set_times(&self, accessed: Moment, modified: Moment) -> Result<(), Errno>;
    /// None where there are none.
    fn xattrs(&self) -> Result<XattrNames, Errno>;
    /// None if it has gone since it was listed.
    fn xattr(&self, name: &CStr) -> Result<Option<Vec<u8>>, Errno>;
    fn set_xattr(&self, name: &CStr, value: &[u8]) -> Result<(), Errno>;
    fn remove_xattr(&self, name: &CStr) -> Result<(), Errno>;
}

/// A tree that can be copied.
pub(super) trait Source: Tree {
    type Object: Object;

    /// What has that name in a directory.
    fn find(&self, dir: &Self::Dir, name: &CStr) -> Result<Self::Object, Errno>;
    /// A directory itself.
    fn itself(&self, dir: &Self::Dir) -> Result<Self::Object, Errno>;
}

/// A directory that becomes a copy.
pub(super) trait Destination: Sync {
    type Object: Object;
    /// A directory of it.
    type Dir: Send + Sync;
    /// A name of it, to be made later.
    type Name: Place;
    /// A copy to which further names shall lead.
    type Made: Clone + Send + Sync;

    /// Its top.
    fn top(&self) -> Result<Self::Dir, Errno>;
    /// A directory itself.
    fn itself(&self, dir: &Self::Dir) -> Result<Self::Object, Errno>;
    /// What has that name in a directory.
    fn find(&self, dir: &Self::Dir, name: &CStr) -> Result<Self::Object, Errno>;
    /// Makes a directory that only its owner may enter, or opens the one that is there: then true.
    fn directory(&self, dir: &Self::Dir, name: &CStr) -> Result<(Self::Dir, bool), Failure>;

    /// Begins the copy of a file in this state, or goes on with the one that an earlier run has begun. It has no name that anybody knows.
    fn begin(&self, dir: &Self::Dir, name: &CStr, source: &Facts) -> Result<Self::Object, Failure>;
    /// Begins the copy of something else; `target`: of a symbolic link.
    fn make(
        &self,
        dir: &Self::Dir,
        name: &CStr,
        source: &Facts,
        target: Option<&CStr>,
    ) -> Result<Self::Object, Failure>;
    /// Gives what was begun its name.
    fn place(&self, dir: &Self::Dir, name: &CStr, source: &Facts, begun: &Self::Object) -> Result<(), Failure>;
    /// Removes what was begun of a file in this state.
    fn discard(&self, dir: &Self::Dir, name: &CStr, source: &Facts) -> Result<(), Failure>;

    /// For further names.
    fn made(&self, object: &Self::Object) -> Result<Self::Made, Failure>;
    /// A name in a directory, whose path from the top is `path`.
    fn name(&self, dir: &Self::Dir, path: &Path, name: &CStr) -> Result<Self::Name, Failure>;
    /// Makes it a name of the copy `first`, which is complete. False if it was one.
    fn link(&self, first: &First<Self>, dir: &Self::Dir, name: &Self::Name) -> Result<bool, Failure>;
    /// The same of a name whose directory is complete.
    fn link_later(&self, first: &First<Self>, name: &Self::Name) -> Result<bool, Failure>;

    /// Everything in a directory is copied. `was_there`: before this run, too.
    fn filled(&self, dir: &Self::Dir, was_there: bool) -> Result<(), Failure>;
    /// The directory has its owner, mode and times.
    fn complete(&self, dir: &Self::Dir) -> Result<(), Failure>;
}

/// Where a name is.
pub(super) trait Place: Send + Sync {
    /// From the destination's top.
    fn path(&self) -> PathBuf;
}

/// Whether who copies is root of this machine.
pub(super) fn we_are_root() -> bool {
    rustix::process::geteuid().is_root()
}
