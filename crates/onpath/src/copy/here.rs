//! Both sides of a copy on this system: directories that are open.

use super::argument::below;
use super::inode::Inode;
use super::links::First;
use super::object::{Destination, Facts, Id, Object, Place, Source};
use super::special::is_copy;
use super::staging::Staging;
use crate::walk::{Failure, Local, to, to_copy};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A name in the destination. Its directory is known by number, too: somebody may move another one there.
pub(super) struct Name {
    /// From the destination's top.
    dir: PathBuf,
    dir_id: Id,
    name: CString,
}

impl Place for Name {
    fn path(&self) -> PathBuf {
        self.dir.join(OsStr::from_bytes(self.name.to_bytes()))
    }
}

fn itself(dir: &OwnedFd) -> Result<Inode, Errno> {
    Inode::of(rustix::io::fcntl_dupfd_cloexec(dir, 0)?)
}

impl Source for Local {
    type Object = Inode;

    fn find(&self, dir: &OwnedFd, name: &CStr) -> Result<Inode, Errno> {
        Inode::find(dir.as_fd(), name)
    }

    fn itself(&self, dir: &OwnedFd) -> Result<Inode, Errno> {
        itself(dir)
    }
}

impl Destination for Staging {
    type Object = Inode;
    type Dir = OwnedFd;
    type Name = Name;
    type Made = Id;

    fn top(&self) -> Result<OwnedFd, Errno> {
        rustix::io::fcntl_dupfd_cloexec(self.destination(), 0)
    }

    fn itself(&self, dir: &OwnedFd) -> Result<Inode, Errno> {
        itself(dir)
    }

    fn find(&self, dir: &OwnedFd, name: &CStr) -> Result<Inode, Errno> {
        Inode::find(dir.as_fd(), name)
    }

    fn directory(&self, parent: &OwnedFd, name: &CStr) -> Result<(OwnedFd, bool), Failure> {
        let made = match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(Failure::of_copy("make the copy of", errno)),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(parent, name, flags, Mode::empty());
        let fd = fd.map_err(to_copy("make the copy of (something else has its name)"))?;
        let stat = rustix::fs::fstat(&fd).map_err(to_copy("stat the copy of"))?;
        if made && stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(Failure::of_copy("make the copy of (somebody has put another one in its place)", Errno::STALE));
        }
        if stat.st_mode & 0o700 != 0o700 {
            // Complete already, and closed to its owner: it is opened until it is complete again.
            let mode = Mode::from_raw_mode(stat.st_mode & 0o7777 | 0o700);
            rustix::fs::fchmod(&fd, mode).map_err(to_copy("open the copy of"))?;
        }
        Ok((fd, !made))
    }

    /// A new part, or the one that an earlier run has begun.
    fn begin(&self, dir: &OwnedFd, name: &CStr, source: &Facts) -> Result<Inode, Failure> {
        let part = self.part(name, source);
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let new = || {
            let flags = flags | OFlags::CREATE | OFlags::EXCL;
            rustix::fs::openat(dir, &part, flags, Mode::RUSR | Mode::WUSR).and_then(Inode::of)
        };
        match new() {
            Err(Errno::EXIST) => {}
            result => return result.map_err(to_copy("make the copy of")),
        }
        if let Ok(begun) = rustix::fs::openat(dir, &part, flags | OFlags::NONBLOCK, Mode::empty()) {
            let begun = Inode::of(begun).map_err(to_copy("stat the copy of"))?;
            let is_file = begun.is.kind == FileType::RegularFile;
            if is_file && begun.is_ours() && begun.is.permissions & 0o077 == 0 {
                return Ok(begun);
            }
        }
        discard(dir.as_fd(), &part)?;
        new().map_err(to_copy("make the copy of"))
    }

    fn make(&self, dir: &OwnedFd, name: &CStr, source: &Facts, target: Option<&CStr>) -> Result<Inode, Failure> {
        let part = self.part(name, source);
        let make = || match target {
            Some(target) => rustix::fs::symlinkat(target, dir, &part),
            None => rustix::fs::mknodat(dir, &part, source.kind, Mode::RUSR | Mode::WUSR, source.rdev),
        };
        match make() {
            Err(Errno::EXIST) => {
                discard(dir.as_fd(), &part)?;
                make()
            }
            result => result,
        }
        .map_err(to_copy("make the copy of"))?;
        let made = Inode::find(dir.as_fd(), &part).map_err(to_copy("make the copy of"))?;
        if !is_copy(&made, source, target) || !made.is_ours() {
            let action = "make the copy of (somebody has put something else in its place)";
            return Err(Failure::of_copy(action, Errno::STALE));
        }
        Ok(made)
    }

    fn place(&self, dir: &OwnedFd, name: &CStr, source: &Facts, _begun: &Inode) -> Result<(), Failure> {
        place(dir.as_fd(), &self.part(name, source), name)
    }

    fn discard(&self, dir: &OwnedFd, name: &CStr, source: &Facts) -> Result<(), Failure> {
        discard(dir.as_fd(), &self.part(name, source))
    }

    fn made(&self, object: &Inode) -> Result<Id, Failure> {
        Ok(object.is.id)
    }

    fn name(&self, dir: &OwnedFd, path: &Path, name: &CStr) -> Result<Name, Failure> {
        let dir_id = itself(dir).map_err(to_copy("stat the copy of"))?.is.id;
        Ok(Name { dir: path.to_owned(), dir_id, name: name.to_owned() })
    }

    fn link(&self, first: &First<Staging>, dir: &OwnedFd, name: &Name) -> Result<bool, Failure> {
        let made = first.made.get().ok_or(Errno::NOENT).map_err(to("find the first copy of"))?;
        let of = below(self.destination(), &first.name.dir)
            .and_then(|dir| Inode::find(dir.as_fd(), &first.name.name))
            .map_err(to("find the first copy of"))?;
        if of.is.id != *made {
            return Err(Failure::new("link (something else has got the place of its first copy)", Errno::STALE));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(dir, c".", flags, Mode::empty()).and_then(Inode::of);
        let dir = dir.map_err(to("open the directory of"))?;
        match Inode::find(dir.fd(), &name.name) {
            Ok(there) if there.is.id == of.is.id => return Ok(false),
            Ok(there) => {
                // What is there keeps its name until the link takes it over.
                let part = self.part(&name.name, &there.is);
                discard(dir.fd(), &part)?;
                of.link(dir.fd(), &part).map_err(to("link"))?;
                place(dir.fd(), &part, &name.name)?;
            }
            Err(Errno::NOENT) => of.link(dir.fd(), &name.name).map_err(to("link"))?,
            Err(errno) => return Err(Failure::new("stat", errno)),
        }
        // The directory may have got its times already.
        let times = dir.set_times(dir.is.accessed, dir.is.modified);
        times.map_err(to("give its times to the directory of"))?;
        Ok(true)
    }

    fn link_later(&self, first: &First<Staging>, name: &Name) -> Result<bool, Failure> {
        let dir = below(self.destination(), &name.dir).map_err(to("open the directory of"))?;
        if itself(&dir).map_err(to("stat the directory of"))?.is.id != name.dir_id {
            return Err(Failure::new("link (another directory has got the place of its own)", Errno::STALE));
        }
        self.link(first, &dir, name)
    }

    fn filled(&self, dir: &OwnedFd, was_there: bool) -> Result<(), Failure> {
        if was_there { self.remove_parts(dir.as_fd()) } else { Ok(()) }
    }

    /// All of it is brought to stable storage together, at the end.
    fn complete(&self, _dir: &OwnedFd) -> Result<(), Failure> {
        Ok(())
    }
}

/// Gives a part its name.
fn place(dir: BorrowedFd<'_>, part: &CStr, name: &CStr) -> Result<(), Failure> {
    rustix::fs::renameat(dir, part, dir, name).map_err(to_copy("name the copy of"))
}

/// Removes a part, if there is one.
pub(super) fn discard(dir: BorrowedFd<'_>, part: &CStr) -> Result<(), Failure> {
    match rustix::fs::unlinkat(dir, part, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(Failure::of_copy("remove an unfinished part in the copy of", errno)),
    }
}
