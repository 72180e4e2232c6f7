//! The directory in the destination in which a copy makes everything before it gets its name.
//!
//! It is closed to everybody else, so nobody can put anything in place of what is made there. It stays until everything is on stable storage
//! and says under which boot the copy was begun. Its name is drawn: `.onpath-copying-` and 32 digits. It is one if it says so itself in
//! `mark` and both belong to who copies; anything else of such a name is a file like all others.

use super::argument::path_of;
use super::inode::Inode;
use crate::walk::Failure;
use anyhow::Context;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Timestamps};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use xxhash_rust::xxh3::Xxh3;

/// What its name begins with.
const PREFIX: &str = ".onpath-copying-";
/// Hexadecimal digits after that.
const DIGITS: usize = 32;
/// The file in it that says what it is.
const MARK: &CStr = c"mark";
/// Most bytes of that.
const MARK_BYTES_MAX: usize = 256;

/// A copy that is under way.
pub(super) struct Staging {
    destination: OwnedFd,
    /// The first is ours; others were left by runs that were interrupted.
    dirs: Vec<Held>,
    another_boot: bool,
}

struct Held {
    name: CString,
    fd: OwnedFd,
}

impl Staging {
    /// Takes over what interrupted runs have left in the destination, or makes a new one. On stable storage when this returns.
    pub(super) fn begin(destination: OwnedFd) -> anyhow::Result<Staging> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").context("which boot this is")?;
        let mut staging = Staging { destination, dirs: Vec::new(), another_boot: false };
        let us = rustix::process::geteuid().as_raw();
        for name in named_so(staging.destination.as_fd()).context("list the destination")? {
            let Some((fd, owner, begun)) = recognize(staging.destination.as_fd(), &name) else { continue };
            // Another run may be at work in it.
            if owner == us && rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok() {
                staging.another_boot |= begun.trim() != boot.trim();
                staging.dirs.push(Held { name, fd });
            }
        }
        if staging.dirs.is_empty() {
            let made = make(staging.destination.as_fd(), &boot);
            let shown = || path_of(staging.destination.as_fd()).unwrap_or_default().display().to_string();
            staging.dirs.push(made.with_context(|| format!("cannot begin a copy in {}", shown()))?);
        }
        staging.sync()?;
        Ok(staging)
    }

    /// Whether the machine was restarted since: then names may have survived whose bytes did not.
    pub(super) fn is_of_another_boot(&self) -> bool {
        self.another_boot
    }

    pub(super) fn destination(&self) -> BorrowedFd<'_> {
        self.destination.as_fd()
    }

    /// Where parts are made.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.dirs[0].fd.as_fd()
    }

    /// Names what was made.
    pub(super) fn place(&self, part: &CStr, dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Failure> {
        rustix::fs::renameat(self.fd(), part, dir, name).map_err(|errno| match errno {
            Errno::XDEV => Failure { action: "copy (another file system is mounted in the destination)", errno },
            errno => Failure { action: "name the copy of", errno },
        })
    }

    /// Removes a part, if there is one.
    pub(super) fn discard(&self, part: &CStr) -> Result<(), Failure> {
        match rustix::fs::unlinkat(self.fd(), part, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Failure { action: "remove an unfinished copy of", errno }),
        }
    }

    /// Brings everything to stable storage; then, if it is all there, the destination needs no mark any more.
    pub(super) fn finish(&self, complete: bool) -> anyhow::Result<()> {
        self.sync()?;
        if complete {
            let times = times(self.destination.as_fd()).context("times of the destination")?;
            for held in &self.dirs {
                self.remove(held).with_context(|| format!("cannot remove {}", held.name.to_string_lossy()))?;
            }
            rustix::fs::futimens(&self.destination, &times).context("times of the destination")?;
            self.sync()?;
        }
        Ok(())
    }

    fn remove(&self, held: &Held) -> rustix::io::Result<()> {
        let entries: Vec<CString> = Dir::read_from(&held.fd)?
            .map(|entry| entry.map(|entry| entry.file_name().to_owned()))
            .collect::<rustix::io::Result<_>>()?;
        // The mark comes last: without it nobody knows what this is.
        let parts = entries.iter().map(CString::as_c_str).filter(|name| ![c".", c"..", MARK].contains(name));
        for name in parts.chain([MARK]) {
            rustix::fs::unlinkat(&held.fd, name, AtFlags::empty())?;
        }
        match rustix::fs::unlinkat(&self.destination, &held.name, AtFlags::REMOVEDIR) {
            // Somebody has moved it away.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::NOTEMPTY) => Ok(()),
            result => result,
        }
    }

    /// syncfs(2) is not passed on by a FUSE mount, fsync(2) of a directory is: Onpath then flushes everything.
    fn sync(&self) -> anyhow::Result<()> {
        let synced = rustix::fs::syncfs(&self.destination).and_then(|()| rustix::fs::fsync(&self.destination));
        synced.context("cannot bring the copy to stable storage")
    }
}

/// The times that a directory has.
pub(super) fn times(dir: BorrowedFd<'_>) -> rustix::io::Result<Timestamps> {
    rustix::fs::fstat(dir).map(|stat| super::attributes::times(&stat))
}

/// Directories in `top` in which other runs make copies, whoever runs them.
pub(super) fn found_in(top: BorrowedFd<'_>) -> rustix::io::Result<Vec<CString>> {
    Ok(named_so(top)?.into_iter().filter(|name| recognize(top, name).is_some()).collect())
}

fn named_so(top: BorrowedFd<'_>) -> rustix::io::Result<Vec<CString>> {
    let is_one = |name: &CStr| {
        let digits = name.to_bytes().strip_prefix(PREFIX.as_bytes());
        digits.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit))
    };
    let mut names = Vec::new();
    for entry in Dir::read_from(top)? {
        let entry = entry?;
        if is_one(entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn first_line(name: &CStr) -> String {
    format!("a copy by onpath is made in {}", name.to_string_lossy())
}

/// If it is one: itself, its owner, and the boot that it was begun under.
fn recognize(top: BorrowedFd<'_>, name: &CStr) -> Option<(OwnedFd, u32, String)> {
    let dir = Inode::find(top, name).ok()?;
    let mark = Inode::find(dir.fd(), MARK).ok()?;
    let kinds = (dir.kind(), mark.kind()) == (FileType::Directory, FileType::RegularFile);
    if !kinds || dir.stat.st_uid != mark.stat.st_uid || mark.stat.st_nlink != 1 {
        return None;
    }
    let mut bytes = vec![0; MARK_BYTES_MAX];
    let length = rustix::io::pread(mark.open(OFlags::RDONLY).ok()?, &mut bytes, 0).ok()?;
    let text = std::str::from_utf8(&bytes[..length]).ok()?;
    let boot = text.strip_prefix(&first_line(name))?.strip_prefix('\n')?.to_owned();
    Some((dir.open(OFlags::RDONLY | OFlags::DIRECTORY).ok()?, dir.stat.st_uid, boot))
}

fn make(top: BorrowedFd<'_>, boot: &str) -> anyhow::Result<Held> {
    let drawn = u128::from_le_bytes(onpath_host::sys::random_bytes()?);
    let name = CString::new(format!("{PREFIX}{drawn:032x}"))?;
    rustix::fs::mkdirat(top, &name, Mode::RWXU)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(top, &name, flags, Mode::empty())?;
    let owner = rustix::fs::fstat(&fd)?.st_uid;
    anyhow::ensure!(owner == rustix::process::geteuid().as_raw(), "what was made there belongs to user {owner}");
    // Default access control lists and umasks have had their say. Where modes are fixed this fails or does nothing.
    _ = rustix::fs::fchmod(&fd, Mode::RWXU);
    rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mark = rustix::fs::openat(&fd, MARK, flags, Mode::RUSR | Mode::WUSR)?;
    let text = format!("{}\n{boot}", first_line(&name));
    let written = rustix::io::write(&mark, text.as_bytes())?;
    anyhow::ensure!(written == text.len(), Errno::NOSPC);
    Ok(Held { name, fd })
}

/// The name of the part for the copy of this very state of a source, at this path: of another state it is another name.
pub(super) fn part(path: &std::path::Path, stat: &rustix::fs::Stat) -> CString {
    use std::os::unix::ffi::OsStrExt;
    let mut hash = Xxh3::new();
    hash.update(path.as_os_str().as_bytes());
    let times = [stat.st_mtime, stat.st_mtime_nsec.cast_signed(), stat.st_size];
    times.iter().for_each(|number| hash.update(&number.to_le_bytes()));
    CString::new(format!("{:032x}", hash.digest128())).expect("digits have no zeros")
}
