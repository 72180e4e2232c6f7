//! Owner, mode, extended attributes (so access control lists, too) and times of what was copied.

use super::copier::Done;
use crate::walk::{Failure, to};
use rustix::fs::{AtFlags, FileType, Gid, Mode, Stat, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Most bytes of a list of names and of a value (Linux).
const XATTR_BYTES_MAX: usize = 64 << 10;

/// Something in an open directory; "." for the directory itself.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) at: BorrowedFd<'a>,
    pub(super) name: &'a CStr,
}

impl Place<'_> {
    pub(super) fn stat(&self) -> rustix::io::Result<Stat> {
        rustix::fs::statat(self.at, self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// A path for calls that take no directory.
    fn path(&self) -> CString {
        let dir = format!("/proc/self/fd/{}/", self.at.as_raw_fd());
        CString::new([dir.as_bytes(), self.name.to_bytes()].concat()).expect("neither part has zeros")
    }
}

/// Whether the times are the same.
pub(super) fn same_mtime(a: &Stat, b: &Stat) -> bool {
    (a.st_mtime, a.st_mtime_nsec) == (b.st_mtime, b.st_mtime_nsec)
}

/// Gives `copy` what `source` has; `stat` are the attributes of the source. In this order: a change of owner takes set-id bits and
/// capabilities, an access control list decides over the mode, and everything but the last changes times.
pub(super) fn copy(source: Place<'_>, stat: &Stat, copy: Place<'_>, done: &Done) -> Result<(), Failure> {
    let have = copy.stat().map_err(to("stat the copy of"))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if (have.st_uid, have.st_gid) != (stat.st_uid, stat.st_gid) {
        let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        match rustix::fs::chownat(copy.at, copy.name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::PERM) if !rustix::process::geteuid().is_root() => done.owners_lost.add(1),
            result => result.map_err(to("give its owner to the copy of"))?,
        }
    }
    if kind != FileType::Symlink {
        let now = copy.stat().map_err(to("stat the copy of"))?;
        if now.st_mode & 0o7777 != stat.st_mode & 0o7777 {
            let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
            rustix::fs::chmodat(copy.at, copy.name, mode, AtFlags::empty())
                .map_err(to("give its mode to the copy of"))?;
        }
    }
    xattrs(source, copy, done)?;
    let time = |tv_sec, nanoseconds: u64| Timespec { tv_sec, tv_nsec: nanoseconds.cast_signed() };
    let times = Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    };
    rustix::fs::utimensat(copy.at, copy.name, &times, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(to("give its times to the copy of"))
}

/// The copy gets the source's, no others.
fn xattrs(source: Place<'_>, copy: Place<'_>, done: &Done) -> Result<(), Failure> {
    let (from, to_path) = (source.path(), copy.path());
    let wanted = names(&from).map_err(to("list the extended attributes of"))?;
    let have = names(&to_path).unwrap_or_default();
    for name in &wanted {
        let Some(value) = value(&from, name).map_err(to("read an extended attribute of"))? else { continue };
        if have.contains(name) && value_is(&to_path, name, &value) {
            continue;
        }
        match rustix::fs::lsetxattr(&to_path, name, &value, XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM | Errno::INVAL) => done.xattrs_lost.add(1),
            result => result.map_err(to("give an extended attribute to the copy of"))?,
        }
    }
    for name in have.difference(&wanted) {
        // What the destination gives to all its files may not be ours to take.
        _ = rustix::fs::lremovexattr(&to_path, name);
    }
    Ok(())
}

/// None where there are none.
fn names(path: &CStr) -> rustix::io::Result<BTreeSet<CString>> {
    // Nearly everything has none: that needs no memory.
    match rustix::fs::llistxattr_query(path) {
        Ok(0) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(BTreeSet::new()),
        other => other?,
    };
    let mut list = vec![0u8; XATTR_BYTES_MAX];
    let length = rustix::fs::llistxattr(path, &mut list[..])?;
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| CString::new(name).expect("split at zeros")).collect())
}

/// None if it has gone since it was listed.
fn value(path: &CStr, name: &CStr) -> rustix::io::Result<Option<Vec<u8>>> {
    let mut value = vec![0u8; XATTR_BYTES_MAX];
    match rustix::fs::lgetxattr(path, name, &mut value[..]) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn value_is(path: &CStr, name: &CStr, wanted: &[u8]) -> bool {
    value(path, name).is_ok_and(|value| value.as_deref() == Some(wanted))
}
