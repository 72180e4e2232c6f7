//! What a copy leaves in its destination while it is not complete: a mark, and parts.
//!
//! The mark is a directory at the top that only its user may enter. It stays until everything is on stable storage, and says under which
//! boot the copy was begun and with which key names of parts are made. Its name is drawn: `.onpath-copying-` and 32 digits. It is one if
//! it says so itself in the file `mark` and both belong to who copies; anything else of such a name is a file like all others.
//!
//! A part is made beside the place of what it is going to be. Its name tells, to who knows the key, that it is one: so nobody guesses the
//! name of one before it is made, and no file of a user is taken for one.

use super::argument::path_of;
use super::here::discard;
use super::inode::Inode;
use super::object::{Destination, Facts, Object};
use crate::walk::{Failure, to_copy};
use anyhow::Context;
use onpath_wire::shown::Shown;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// What its name begins with.
const PREFIX: &str = ".onpath-copying-";
/// Hexadecimal digits after that.
const DIGITS: usize = 32;
/// What names of parts begin with, before as many digits.
const PART_PREFIX: &[u8] = b".onpath-part-";
/// The file in the mark that says what it is.
pub(super) const MARK: &CStr = c"mark";
/// Most bytes of that.
const MARK_BYTES_MAX: usize = 256;

/// A copy that is under way.
pub(super) struct Staging {
    destination: OwnedFd,
    /// The first one's key is used; others were left by runs that were interrupted.
    marks: Vec<Mark>,
    resumed: bool,
    another_boot: bool,
}

/// A directory that says that a copy is under way.
struct Mark {
    name: CString,
    fd: OwnedFd,
    owner: u32,
    boot: String,
    key: Key,
}

/// By which names of parts are known.
#[derive(Clone, Copy)]
pub(super) struct Key(u64);

impl Key {
    /// The name of the part for the copy of this very state of a source: of another state it is another name.
    fn part(self, name: &CStr, source: &Facts) -> CString {
        let mut hash = Xxh3::with_seed(self.0);
        hash.update(name.to_bytes());
        let Facts { modified, size, .. } = source;
        let state = [modified.seconds, modified.nanoseconds, size.cast_signed()];
        state.iter().for_each(|number| hash.update(&number.to_le_bytes()));
        let state = format!("{:016x}", hash.digest());
        let name = [PART_PREFIX, state.as_bytes(), self.check(state.as_bytes()).as_bytes()].concat();
        CString::new(name).expect("ASCII without zeros")
    }

    fn check(self, state: &[u8]) -> String {
        format!("{:016x}", xxh3_64_with_seed(state, self.0))
    }

    /// Whether it is a name made with this key.
    pub(super) fn made(self, name: &CStr) -> bool {
        let digits = name.to_bytes().strip_prefix(PART_PREFIX).filter(|digits| digits.len() == DIGITS);
        digits.is_some_and(|digits| {
            let (state, check) = digits.split_at(DIGITS / 2);
            self.check(state).as_bytes() == check
        })
    }
}

impl Staging {
    /// Takes over what interrupted runs have left in the destination, or marks it. On stable storage when this returns.
    pub(super) fn begin(destination: OwnedFd) -> anyhow::Result<Staging> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").context("which boot this is")?;
        let us = rustix::process::geteuid().as_raw();
        let mut marks = found_in(destination.as_fd()).context("list the destination")?;
        // Another run may be at work.
        marks.retain(|mark| mark.owner == us && lock(&mark.fd).is_ok());
        let resumed = !marks.is_empty();
        let another_boot = marks.iter().any(|mark| mark.boot.trim() != boot.trim());
        if !resumed {
            let made = make(destination.as_fd(), &boot);
            let path = || path_of(destination.as_fd()).unwrap_or_default();
            marks.push(made.with_context(|| format!("cannot begin a copy in {}", path().shown()))?);
        }
        let staging = Staging { destination, marks, resumed, another_boot };
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

    /// The name under which the copy of this state of a source is made.
    pub(super) fn part(&self, name: &CStr, source: &Facts) -> CString {
        self.marks[0].key.part(name, source)
    }

    /// Removes parts that an earlier run left in a directory, of states that their sources are not in any more.
    pub(super) fn remove_parts(&self, dir: BorrowedFd<'_>) -> Result<(), Failure> {
        if self.resumed {
            for entry in Dir::read_from(dir).map_err(to_copy("list the copy of"))? {
                let entry = entry.map_err(to_copy("list the copy of"))?;
                if self.marks.iter().any(|mark| mark.key.made(entry.file_name())) {
                    discard(dir, entry.file_name())?;
                }
            }
        }
        Ok(())
    }

    /// Brings everything to stable storage; then, if it is all there, the destination needs no mark any more.
    pub(super) fn finish(&self, complete: bool) -> anyhow::Result<()> {
        self.sync()?;
        if complete {
            let top = self.top().and_then(|top| self.itself(&top)).context("times of the destination")?;
            for mark in &self.marks {
                self.remove(mark).with_context(|| format!("cannot remove {}", mark.name.to_string_lossy().shown()))?;
            }
            top.set_times(top.is.accessed, top.is.modified).context("times of the destination")?;
            self.sync()?;
        }
        Ok(())
    }

    fn remove(&self, mark: &Mark) -> rustix::io::Result<()> {
        rustix::fs::unlinkat(&mark.fd, MARK, AtFlags::empty())?;
        match rustix::fs::unlinkat(&self.destination, &mark.name, AtFlags::REMOVEDIR) {
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

fn lock(fd: &OwnedFd) -> rustix::io::Result<()> {
    rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive)
}

/// Names and keys of the copies that are under way into `top`, whoever makes them.
pub(super) fn under_way(top: BorrowedFd<'_>) -> rustix::io::Result<Vec<(CString, Key)>> {
    Ok(found_in(top)?.into_iter().map(|mark| (mark.name, mark.key)).collect())
}

fn found_in(top: BorrowedFd<'_>) -> rustix::io::Result<Vec<Mark>> {
    Ok(named_so(top)?.into_iter().filter_map(|name| recognize(top, name)).collect())
}

/// Whether a mark may have that name.
pub(super) fn is_named_so(name: &CStr) -> bool {
    let digits = name.to_bytes().strip_prefix(PREFIX.as_bytes());
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit))
}

fn named_so(top: BorrowedFd<'_>) -> rustix::io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(top)? {
        let entry = entry?;
        if is_named_so(entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn first_line(name: &CStr) -> String {
    format!("this marks a copy by onpath, {}", name.to_string_lossy())
}

/// The mark of that name, if it is one.
fn recognize(top: BorrowedFd<'_>, name: CString) -> Option<Mark> {
    let dir = Inode::find(top, &name).ok()?;
    let mark = Inode::find(dir.fd(), MARK).ok()?;
    let (key, boot) = read(&name, &dir.is, &mark)?;
    let (fd, owner) = (dir.open_as(OFlags::RDONLY | OFlags::DIRECTORY).ok()?, dir.is.uid);
    Some(Mark { name, fd, owner, boot, key })
}

/// The key and the boot that the file `mark` tells, if it is what it says, in a directory of that name.
pub(super) fn read(name: &CStr, dir: &Facts, mark: &impl Object) -> Option<(Key, String)> {
    let is = mark.is();
    let kinds = (dir.kind, is.kind) == (FileType::Directory, FileType::RegularFile);
    if !kinds || dir.uid != is.uid || is.links != 1 {
        return None;
    }
    let mut bytes = vec![0; MARK_BYTES_MAX];
    let length = mark.open().ok()?.read_at(&mut bytes, 0).ok()?;
    let (key, boot) = parse(name, &bytes[..length])?;
    Some((key, boot.to_owned()))
}

/// The key and the boot in a mark of that name.
fn parse<'a>(name: &CStr, bytes: &'a [u8]) -> Option<(Key, &'a str)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (key, boot) = text.strip_prefix(&first_line(name))?.strip_prefix('\n')?.split_once('\n')?;
    Some((Key(u64::from_str_radix(key, 16).ok()?), boot))
}

/// Whether these bytes are a mark.
#[cfg(feature = "fuzzing")]
pub(crate) fn is_mark(bytes: &[u8]) -> bool {
    parse(c"fuzz", bytes).is_some()
}

fn make(top: BorrowedFd<'_>, boot: &str) -> anyhow::Result<Mark> {
    let drawn = u128::from_le_bytes(onpath_host::sys::random_bytes()?);
    let name = CString::new(format!("{PREFIX}{drawn:032x}"))?;
    rustix::fs::mkdirat(top, &name, Mode::RWXU)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(top, &name, flags, Mode::empty())?;
    let owner = rustix::fs::fstat(&fd)?.st_uid;
    anyhow::ensure!(owner == rustix::process::geteuid().as_raw(), "what was made there belongs to user {owner}");
    // Default access control lists have had their say. Where modes are fixed this fails or does nothing.
    _ = rustix::fs::fchmod(&fd, Mode::RWXU);
    lock(&fd)?;
    let key = Key(u64::from_le_bytes(onpath_host::sys::random_bytes()?));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mark = rustix::fs::openat(&fd, MARK, flags, Mode::RUSR | Mode::WUSR)?;
    let text = format!("{}\n{:016x}\n{boot}", first_line(&name), key.0);
    let written = rustix::io::write(&mark, text.as_bytes())?;
    anyhow::ensure!(written == text.len(), Errno::NOSPC);
    Ok(Mark { name, fd, owner, boot: boot.to_owned(), key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_the_key_knows_a_part() {
        let stat = Facts::from(&rustix::fs::stat("/proc/self/exe").unwrap());
        let (ours, other) = (Key(1), Key(2));
        let part = ours.part(c"name", &stat);
        assert_ne!(part, other.part(c"name", &stat));
        assert_ne!(part, ours.part(c"eman", &stat));
        assert!(ours.made(&part) && !other.made(&part));
        for name in
            [c"", c".onpath-part-", c".onpath-part-0123456789abcdef", c".onpath-part-0123456789abcdef0123456789abcdef"]
        {
            assert!(!ours.made(name), "{name:?}");
        }
    }
}
