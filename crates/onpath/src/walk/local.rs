//! Trees of the operating system, by descriptors.

use super::tree::{Attributes, Tree};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What this system has mounted.
#[derive(Default)]
pub(crate) struct Local {
    /// The one root, if it is open already: then its path is for messages only.
    pub(crate) opened: Option<OwnedFd>,
}

/// Where a name is looked up.
pub(crate) fn at(dir: Option<&OwnedFd>) -> BorrowedFd<'_> {
    dir.map_or(CWD, OwnedFd::as_fd)
}

impl From<&Stat> for Attributes {
    fn from(stat: &Stat) -> Attributes {
        Attributes {
            device: stat.st_dev,
            inode: stat.st_ino,
            kind: FileType::from_raw_mode(stat.st_mode),
            permissions: stat.st_mode & 0o7777,
            links: stat.st_nlink,
            uid: stat.st_uid,
            gid: stat.st_gid,
            bytes: stat.st_size.cast_unsigned(),
            blocks: stat.st_blocks.cast_unsigned(),
            mtime: stat.st_mtime,
        }
    }
}

/// The entries of an open directory.
pub(crate) struct Names(Dir);

impl Iterator for Names {
    type Item = Result<(CString, FileType), Errno>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.0.read()? {
                Ok(entry) if entry.file_name() == c"." || entry.file_name() == c".." => {}
                Ok(entry) => return Some(Ok((entry.file_name().to_owned(), entry.file_type()))),
                Err(errno) => return Some(Err(errno)),
            }
        }
    }
}

impl Tree for Local {
    type Dir = OwnedFd;
    type Names = Names;

    fn root(&self, path: &Path, follow: bool) -> Result<PathBuf, Errno> {
        if !follow {
            return Ok(path.to_owned());
        }
        path.canonicalize().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
    }

    fn told(&self, path: PathBuf) -> PathBuf {
        path
    }

    fn open(&self, dir: Option<&OwnedFd>, name: &CStr) -> Result<(OwnedFd, Attributes), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match (dir, &self.opened) {
            (None, Some(root)) => rustix::fs::openat(root, c".", flags, Mode::empty()),
            _ => rustix::fs::openat(at(dir), name, flags, Mode::empty()),
        }?;
        let stat = rustix::fs::fstat(&fd)?;
        Ok((fd, (&stat).into()))
    }

    fn names(&self, dir: &OwnedFd) -> Result<Names, Errno> {
        let mut names = Dir::new(rustix::io::fcntl_dupfd_cloexec(dir, 0)?)?;
        // The copy of the descriptor reads on where the last reader was.
        names.rewind();
        Ok(Names(names))
    }

    fn stat(&self, dir: Option<&OwnedFd>, name: &CStr) -> Result<Attributes, Errno> {
        rustix::fs::statat(at(dir), name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| (&stat).into())
    }

    fn remove(&self, dir: Option<&OwnedFd>, name: &CStr, is_dir: bool) -> Result<(), Errno> {
        let flags = if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(at(dir), name, flags)
    }

    fn chmod(
        &self,
        dir: Option<&OwnedFd>,
        name: &CStr,
        mode: &dyn Fn(&Attributes) -> Option<u32>,
    ) -> Result<Option<Attributes>, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(at(dir), name, flags, Mode::empty())?;
        change_mode(fd.as_fd(), mode)
    }

    fn chmod_dir(&self, dir: &OwnedFd, mode: &dyn Fn(&Attributes) -> Option<u32>) -> Result<Option<Attributes>, Errno> {
        change_mode(dir.as_fd(), mode)
    }

    fn chown(&self, dir: Option<&OwnedFd>, name: &CStr, uid: Option<u32>, gid: Option<u32>) -> Result<(), Errno> {
        let (uid, gid) = (uid.map(rustix::fs::Uid::from_raw), gid.map(rustix::fs::Gid::from_raw));
        rustix::fs::chownat(at(dir), name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn attribute(&self, dir: &OwnedFd, name: &CStr, bytes_max: usize) -> Option<Vec<u8>> {
        let mut value = vec![0; bytes_max];
        let length = rustix::fs::fgetxattr(dir, name, &mut value[..]).ok()?;
        value.truncate(length);
        Some(value)
    }
}

/// Through the descriptor, so that nobody can put a symbolic link in its place meanwhile.
fn change_mode(fd: BorrowedFd<'_>, mode: &dyn Fn(&Attributes) -> Option<u32>) -> Result<Option<Attributes>, Errno> {
    let is = Attributes::from(&rustix::fs::fstat(fd)?);
    let Some(mode) = (is.kind != FileType::Symlink).then(|| mode(&is)).flatten() else { return Ok(None) };
    // fchmod(2) refuses what is open by O_PATH.
    rustix::fs::chmod(format!("/proc/self/fd/{}", fd.as_raw_fd()), Mode::from_raw_mode(mode))?;
    Ok(Some(is))
}

/// A path as calls take it.
pub(super) fn c_path(path: &Path) -> Result<CString, Errno> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)
}
