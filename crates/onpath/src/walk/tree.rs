//! What a walk needs of a tree, and what is done to what it meets.

use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};

/// What is known of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Of the file system.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) kind: FileType,
    /// With setuid, setgid and sticky.
    pub(crate) permissions: u32,
    pub(crate) links: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) bytes: u64,
    /// Of 512 bytes, on disk.
    pub(crate) blocks: u64,
    /// Of modification, seconds since 1970.
    pub(crate) mtime: i64,
}

/// A tree: of this system, or of a file system that is not mounted. A directory that is open stays the one it is, whatever becomes of its
/// name, and no name below it is followed if it is a symbolic link. A name without a directory is that of a root, a path.
pub(crate) trait Tree: Sync {
    /// An open directory.
    type Dir: Send + Sync;
    /// Its names but `.` and `..`, and what they were when it was listed.
    type Names: Iterator<Item = Result<(CString, FileType), Errno>>;

    /// The path of a root; with `follow` of what it leads to.
    fn root(&self, path: &Path, follow: bool) -> Result<PathBuf, Errno>;

    /// A path of this tree as messages have it.
    fn told(&self, path: PathBuf) -> PathBuf;

    /// Opens a directory to read it: ENOTDIR or ELOOP for anything else.
    fn open(&self, dir: Option<&Self::Dir>, name: &CStr) -> Result<(Self::Dir, Attributes), Errno>;

    /// What is in a directory.
    fn names(&self, dir: &Self::Dir) -> Result<Self::Names, Errno>;

    /// What has that name; of a symbolic link its own attributes.
    fn stat(&self, dir: Option<&Self::Dir>, name: &CStr) -> Result<Attributes, Errno>;

    /// Removes a name, or an empty directory.
    fn remove(&self, dir: Option<&Self::Dir>, name: &CStr, is_dir: bool) -> Result<(), Errno>;

    /// Gives it the permission bits that `mode` says, if any, and says what it was like if they were changed. Symbolic links are left alone.
    fn chmod(
        &self,
        dir: Option<&Self::Dir>,
        name: &CStr,
        mode: &dyn Fn(&Attributes) -> Option<u32>,
    ) -> Result<Option<Attributes>, Errno>;

    /// The same of an open directory.
    fn chmod_dir(
        &self,
        dir: &Self::Dir,
        mode: &dyn Fn(&Attributes) -> Option<u32>,
    ) -> Result<Option<Attributes>, Errno>;

    /// Changes owner and group; of a symbolic link its own.
    fn chown(&self, dir: Option<&Self::Dir>, name: &CStr, uid: Option<u32>, gid: Option<u32>) -> Result<(), Errno>;

    /// The value of an extended attribute of a directory, if it has one that is no longer.
    fn attribute(&self, dir: &Self::Dir, name: &CStr, bytes_max: usize) -> Option<Vec<u8>>;
}
