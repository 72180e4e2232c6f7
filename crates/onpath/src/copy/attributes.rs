//! Owner, mode, extended attributes (so access control lists, too) and times of what was copied: all by descriptors.

use super::argument::ITSELF;
use super::copier::Done;
use super::inode::{Inode, path};
use crate::walk::{Failure, to, to_copy};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Stat, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::os::fd::BorrowedFd;

/// Most bytes of a list of names and of a value (Linux).
const XATTR_BYTES_MAX: usize = 64 << 10;

/// Whether the times are the same.
pub(super) fn same_mtime(a: &Stat, b: &Stat) -> bool {
    (a.st_mtime, a.st_mtime_nsec) == (b.st_mtime, b.st_mtime_nsec)
}

/// The times that these attributes tell.
pub(super) fn times(stat: &Stat) -> Timestamps {
    let time = |tv_sec, nanoseconds: u64| Timespec { tv_sec, tv_nsec: nanoseconds.cast_signed() };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

/// Gives what was there already, as a copy, what `source` has. False if that must not be done: root changes nothing that has further
/// names, for these may be anybody's. Then it is to be copied anew.
pub(super) fn renew(source: BorrowedFd<'_>, stat: &Stat, there: &Inode, done: &Done) -> Result<bool, Failure> {
    let have = &there.stat;
    if have.st_nlink > 1 && rustix::process::geteuid().is_root() {
        let same_owner = (have.st_uid, have.st_gid, have.st_mode) == (stat.st_uid, stat.st_gid, stat.st_mode);
        return Ok(same_owner && same_mtime(have, stat) && same_xattrs(source, there.fd())?);
    }
    copy(source, stat, there.fd(), done).map(|()| true)
}

/// Gives `copy` what `source` has; `stat` are the attributes of the source. In this order: a change of owner takes set-id bits and
/// capabilities, an access control list decides over the mode, and everything but the last changes times.
pub(super) fn copy(source: BorrowedFd<'_>, stat: &Stat, copy: BorrowedFd<'_>, done: &Done) -> Result<(), Failure> {
    let have = rustix::fs::fstat(copy).map_err(to_copy("stat the copy of"))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if (have.st_uid, have.st_gid) != (stat.st_uid, stat.st_gid) {
        let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        match rustix::fs::chownat(copy, c"", Some(uid), Some(gid), ITSELF) {
            Err(Errno::PERM) if !rustix::process::geteuid().is_root() => done.owners_lost.add(1),
            result => result.map_err(to_copy("give its owner to the copy of"))?,
        }
    }
    if kind != FileType::Symlink {
        let now = rustix::fs::fstat(copy).map_err(to_copy("stat the copy of"))?;
        if now.st_mode & 0o7777 != stat.st_mode & 0o7777 {
            let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
            // fchmod(2) refuses what is open by O_PATH.
            rustix::fs::chmod(path(copy), mode).map_err(to_copy("give its mode to the copy of"))?;
        }
    }
    xattrs(source, copy, done)?;
    rustix::fs::utimensat(CWD, path(copy), &times(stat), AtFlags::empty())
        .map_err(to_copy("give its times to the copy of"))
}

/// The copy gets the source's, no others.
fn xattrs(source: BorrowedFd<'_>, copy: BorrowedFd<'_>, done: &Done) -> Result<(), Failure> {
    let (from, to_path) = (path(source), path(copy));
    let wanted = names(&from).map_err(to("list the extended attributes of"))?;
    let have = names(&to_path).unwrap_or_default();
    for name in &wanted {
        let Some(value) = value(&from, name).map_err(to("read an extended attribute of"))? else { continue };
        if have.contains(name) && value_is(&to_path, name, &value) {
            continue;
        }
        match rustix::fs::setxattr(&to_path, name, &value, XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM | Errno::INVAL) => done.xattrs_lost.add(1),
            result => result.map_err(to_copy("give an extended attribute to the copy of"))?,
        }
    }
    for name in have.difference(&wanted) {
        // What the destination gives to all its files may not be ours to take.
        _ = rustix::fs::removexattr(&to_path, name);
    }
    Ok(())
}

fn same_xattrs(source: BorrowedFd<'_>, copy: BorrowedFd<'_>) -> Result<bool, Failure> {
    let (from, to_path) = (path(source), path(copy));
    let wanted = names(&from).map_err(to("list the extended attributes of"))?;
    if wanted != names(&to_path).unwrap_or_default() {
        return Ok(false);
    }
    for name in &wanted {
        let value = value(&from, name).map_err(to("read an extended attribute of"))?;
        if value.is_some_and(|value| !value_is(&to_path, name, &value)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// None where there are none.
fn names(path: &CStr) -> rustix::io::Result<BTreeSet<CString>> {
    // Nearly everything has none: that needs no memory.
    match rustix::fs::listxattr_query(path) {
        Ok(0) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(BTreeSet::new()),
        other => other?,
    };
    let mut list = vec![0u8; XATTR_BYTES_MAX];
    let length = rustix::fs::listxattr(path, &mut list[..])?;
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| CString::new(name).expect("split at zeros")).collect())
}

/// None if it has gone since it was listed.
fn value(path: &CStr, name: &CStr) -> rustix::io::Result<Option<Vec<u8>>> {
    let mut value = vec![0u8; XATTR_BYTES_MAX];
    match rustix::fs::getxattr(path, name, &mut value[..]) {
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
