//! What a name led to when it was looked up: everything done to it later is done to that, whatever has got the name meanwhile.

use super::argument::ITSELF;
use super::object::{Facts, Moment, Object, XattrNames, we_are_root};
use rustix::fs::{Advice, AtFlags, CWD, Gid, Mode, OFlags, SeekFrom, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Most bytes of a list of names and of a value (Linux).
const XATTR_BYTES_MAX: usize = 64 << 10;

/// An inode of this system, mostly open by O_PATH: so nothing happens in a device or fifo.
pub(super) struct Inode {
    fd: OwnedFd,
    pub(super) is: Facts,
}

impl Inode {
    /// What is open.
    pub(super) fn of(fd: OwnedFd) -> rustix::io::Result<Inode> {
        let is = (&rustix::fs::fstat(&fd)?).into();
        Ok(Inode { fd, is })
    }

    /// What has that name in the directory; a symbolic link is that itself.
    pub(super) fn find(at: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<Inode> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Inode::of(rustix::fs::openat(at, name, flags, Mode::empty())?)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Opens a regular file or a directory.
    pub(super) fn open_as(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        rustix::fs::open(self.path(), flags | OFlags::CLOEXEC, Mode::empty())
    }

    /// Gives it one name more.
    pub(super) fn link(&self, dir: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
        rustix::fs::linkat(CWD, self.path(), dir, name, AtFlags::SYMLINK_FOLLOW)
    }

    /// Whether who copies has made it, and nobody has given it a second name.
    pub(super) fn is_ours(&self) -> bool {
        self.is.uid == rustix::process::geteuid().as_raw() && self.is.links == 1
    }

    /// A path that leads to the very inode, for calls that take no descriptor, or none that was opened by O_PATH.
    fn path(&self) -> CString {
        CString::new(format!("/proc/self/fd/{}", self.fd.as_raw_fd())).expect("a number has no zeros")
    }
}

impl Object for Inode {
    fn is(&self) -> &Facts {
        &self.is
    }

    fn now(&self) -> Result<Facts, Errno> {
        Ok((&rustix::fs::fstat(&self.fd)?).into())
    }

    fn target(&self) -> Result<CString, Errno> {
        rustix::fs::readlinkat(&self.fd, c"", Vec::new())
    }

    fn open(&self) -> Result<Inode, Errno> {
        Inode::of(self.open_as(OFlags::RDONLY | OFlags::NONBLOCK)?)
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
        let mut filled = 0;
        while filled < buffer.len() {
            match rustix::io::pread(&self.fd, &mut buffer[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(filled)
    }

    fn seek(&self, from: u64, hole: bool) -> Result<u64, Errno> {
        rustix::fs::seek(&self.fd, if hole { SeekFrom::Hole(from) } else { SeekFrom::Data(from) })
    }

    fn write_at(&self, mut bytes: &[u8], mut at: u64) -> Result<(), Errno> {
        while !bytes.is_empty() {
            match rustix::io::pwrite(&self.fd, bytes, at) {
                Ok(0) => return Err(Errno::IO),
                Ok(written) => {
                    bytes = &bytes[written..];
                    at += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn set_size(&self, bytes: u64) -> Result<(), Errno> {
        rustix::fs::ftruncate(&self.fd, bytes)
    }

    fn settle(&self) -> Result<(), Errno> {
        rustix::fs::fsync(&self.fd)?;
        // Advice: where it is not taken, pages of the cache are compared.
        _ = rustix::fs::fadvise(&self.fd, 0, None, Advice::DontNeed);
        Ok(())
    }

    fn keeps_its_owner(&self) -> bool {
        !we_are_root()
    }

    fn chown(&self, uid: u32, gid: u32) -> Result<(), Errno> {
        rustix::fs::chownat(&self.fd, c"", Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), ITSELF)
    }

    fn chmod(&self, permissions: u32) -> Result<(), Errno> {
        // fchmod(2) refuses what is open by O_PATH.
        rustix::fs::chmod(self.path(), Mode::from_raw_mode(permissions))
    }

    fn set_times(&self, accessed: Moment, modified: Moment) -> Result<(), Errno> {
        let time = |moment: Moment| Timespec { tv_sec: moment.seconds, tv_nsec: moment.nanoseconds };
        let times = Timestamps { last_access: time(accessed), last_modification: time(modified) };
        rustix::fs::utimensat(CWD, self.path(), &times, AtFlags::empty())
    }

    fn xattrs(&self) -> Result<XattrNames, Errno> {
        let path = self.path();
        // Nearly everything has none: that needs no memory.
        match rustix::fs::listxattr_query(&path) {
            Ok(0) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(XattrNames::new()),
            other => other?,
        };
        let mut list = vec![0u8; XATTR_BYTES_MAX];
        let length = rustix::fs::listxattr(&path, &mut list[..])?;
        let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| CString::new(name).expect("split at zeros")).collect())
    }

    fn xattr(&self, name: &CStr) -> Result<Option<Vec<u8>>, Errno> {
        let mut value = vec![0u8; XATTR_BYTES_MAX];
        match rustix::fs::getxattr(self.path(), name, &mut value[..]) {
            Ok(length) => {
                value.truncate(length);
                Ok(Some(value))
            }
            Err(Errno::NODATA) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    fn set_xattr(&self, name: &CStr, value: &[u8]) -> Result<(), Errno> {
        rustix::fs::setxattr(self.path(), name, value, XattrFlags::empty())
    }

    fn remove_xattr(&self, name: &CStr) -> Result<(), Errno> {
        rustix::fs::removexattr(self.path(), name)
    }
}
