//! The directories that the command line names, opened once: what others put in place of a name afterwards leads nowhere else.

use anyhow::Context;
use onpath_wire::shown::Shown;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Symbolic links in a path that are followed (Linux).
const LINKS_MAX: usize = 40;

/// As much of a path as is there.
pub(super) struct Argument {
    fd: OwnedFd,
    /// Names that are missing, from the first one on.
    missing: VecDeque<CString>,
}

impl Argument {
    /// Goes along the path by descriptors. Root follows only links that belong to root: any other user's may have been put there just now.
    pub(super) fn find(path: &Path) -> anyhow::Result<Argument> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let start = |path: &Path| if path.is_absolute() { "/" } else { "." };
        let open = |at: BorrowedFd<'_>, name: &[u8]| rustix::fs::openat(at, name, flags, Mode::empty());
        let mut fd = open(CWD, start(path).as_bytes())?;
        let mut names = names(path);
        let mut links = 0;
        while let Some(name) = names.pop_front() {
            let below = match open(fd.as_fd(), name.to_bytes()) {
                Err(Errno::NOENT) if !names.iter().any(|name| name.as_c_str() == c"..") => {
                    names.push_front(name);
                    return Ok(Argument { fd, missing: names });
                }
                result => result?,
            };
            let stat = rustix::fs::fstat(&below)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => fd = below,
                FileType::Symlink => {
                    let of_others = rustix::process::geteuid().is_root() && stat.st_uid != 0;
                    anyhow::ensure!(
                        !of_others,
                        "{} is a symbolic link of user {}, which root does not follow: give the path that it leads to",
                        path_of(fd.as_fd())?.join(OsStr::from_bytes(name.to_bytes())).shown(),
                        stat.st_uid
                    );
                    links += 1;
                    anyhow::ensure!(links <= LINKS_MAX, Errno::LOOP);
                    let target = rustix::fs::readlinkat(&below, c"", Vec::new())?;
                    let target = Path::new(OsStr::from_bytes(target.to_bytes()));
                    if target.is_absolute() {
                        fd = open(CWD, b"/")?;
                    }
                    for name in self::names(target).into_iter().rev() {
                        names.push_front(name);
                    }
                }
                _ => anyhow::bail!("{} is not a directory: name the directory to copy", path.shown()),
            }
        }
        Ok(Argument { fd, missing: names })
    }

    /// The path, without links; what is missing as it was given.
    pub(super) fn path(&self) -> anyhow::Result<PathBuf> {
        let mut path = path_of(self.fd.as_fd())?;
        path.extend(self.missing.iter().map(|name| OsStr::from_bytes(name.to_bytes())));
        Ok(path)
    }

    /// Whether all of it is there.
    pub(super) fn is_there(&self) -> bool {
        self.missing.is_empty()
    }

    /// The path of what is there.
    pub(super) fn existing(&self) -> anyhow::Result<PathBuf> {
        path_of(self.fd.as_fd())
    }

    /// The directory itself, which must be there.
    pub(super) fn open(self) -> anyhow::Result<OwnedFd> {
        anyhow::ensure!(self.missing.is_empty(), Errno::NOENT);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.fd, c".", flags, Mode::empty())?)
    }

    /// The same, with the directories made that are missing.
    pub(super) fn make(mut self) -> anyhow::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        while let Some(name) = self.missing.pop_front() {
            match rustix::fs::mkdirat(&self.fd, &name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno).context("mkdir"),
            }
            self.fd = rustix::fs::openat(&self.fd, &name, flags, Mode::empty())?;
        }
        self.open()
    }
}

fn names(path: &Path) -> VecDeque<CString> {
    let parts = path.as_os_str().as_bytes().split(|byte| *byte == b'/');
    let names = parts.filter(|name| !name.is_empty() && *name != b".");
    names.map(|name| CString::new(name).unwrap_or_default()).collect()
}

/// Where the directory is now.
pub(super) fn path_of(fd: BorrowedFd<'_>) -> anyhow::Result<PathBuf> {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let path = rustix::fs::readlinkat(CWD, link, Vec::new()).context("/proc/self/fd")?;
    Ok(PathBuf::from(OsStr::from_bytes(path.to_bytes())))
}

/// Opens a directory below another one, going through directories only.
pub(super) fn below(top: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut fd = rustix::fs::openat(top, c".", flags, Mode::empty())?;
    for name in names(path) {
        if name.as_c_str() == c".." {
            return Err(Errno::XDEV);
        }
        fd = rustix::fs::openat(&fd, &name, flags, Mode::empty())?;
    }
    Ok(fd)
}

/// Flags for calls that take a descriptor alone.
pub(super) const ITSELF: AtFlags = AtFlags::EMPTY_PATH;
