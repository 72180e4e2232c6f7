//! What a name led to when it was looked up: everything done to it later is done to that, whatever has got the name meanwhile.

use crate::walk::{Failure, to};
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Tells inodes apart: device and number.
pub(super) type Id = (u64, u64);

/// An inode, open by O_PATH: so nothing happens in a device or fifo.
pub(super) struct Inode {
    fd: OwnedFd,
    pub(super) stat: Stat,
}

impl Inode {
    /// What has that name in the directory; a symbolic link is that itself.
    pub(super) fn find(at: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<Inode> {
        let fd = rustix::fs::openat(at, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        Ok(Inode { fd, stat })
    }

    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    pub(super) fn id(&self) -> Id {
        id(&self.stat)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Opens a regular file.
    pub(super) fn open(&self, flags: OFlags) -> Result<OwnedFd, Failure> {
        rustix::fs::open(path(self.fd()), flags | OFlags::CLOEXEC, Mode::empty()).map_err(to("open"))
    }

    /// Gives it one name more.
    pub(super) fn link(&self, dir: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
        rustix::fs::linkat(CWD, path(self.fd()), dir, name, rustix::fs::AtFlags::SYMLINK_FOLLOW)
    }
}

pub(super) fn id(stat: &Stat) -> Id {
    (stat.st_dev, stat.st_ino)
}

/// A path that leads to the very inode, for calls that take no descriptor, or none that was opened by O_PATH.
pub(super) fn path(fd: BorrowedFd<'_>) -> CString {
    CString::new(format!("/proc/self/fd/{}", fd.as_raw_fd())).expect("a number has no zeros")
}

/// Whether who copies has made it, and nobody has given it a second name.
pub(super) fn is_ours(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_nlink == 1
}
