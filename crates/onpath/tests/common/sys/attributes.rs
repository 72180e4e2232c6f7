//! Attributes.
#![allow(unsafe_code)]

use super::super::through;
use super::super::through::{Ids, Link};
use super::{NOW, R, Stat, Time, c, call, from_raw, zeroed};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

pub fn chmod(path: impl AsRef<Path>, mode: u32) -> R {
    if let Some(at) = through::path(&path) {
        return at.chmod(mode);
    }
    call!(libc::chmod(c(path).as_ptr(), mode)).map(drop)
}

pub fn fchmod(fd: impl AsFd, mode: u32) -> R {
    if let Some(open) = through::of(&fd) {
        return open.chmod(mode);
    }
    call!(libc::fchmod(fd.as_fd().as_raw_fd(), mode)).map(drop)
}

pub fn fchmodat2(path: impl AsRef<Path>, mode: u32, flags: i32) -> R {
    if let Some(at) = through::path(&path) {
        return at.fchmodat2(mode, flags);
    }
    let path = c(path);
    call!(libc::syscall(libc::SYS_fchmodat2, libc::AT_FDCWD, path.as_ptr(), mode, flags)).map(drop)
}

pub fn chown(path: impl AsRef<Path>, uid: u32, gid: u32) -> R {
    if let Some(at) = through::path(&path) {
        return at.chown(uid, gid, Link::Follow);
    }
    call!(libc::chown(c(path).as_ptr(), uid, gid)).map(drop)
}

pub fn lchown(path: impl AsRef<Path>, uid: u32, gid: u32) -> R {
    if let Some(at) = through::path(&path) {
        return at.chown(uid, gid, Link::Itself);
    }
    call!(libc::lchown(c(path).as_ptr(), uid, gid)).map(drop)
}

pub fn fchown(fd: impl AsFd, uid: u32, gid: u32) -> R {
    if let Some(open) = through::of(&fd) {
        return open.chown(uid, gid);
    }
    call!(libc::fchown(fd.as_fd().as_raw_fd(), uid, gid)).map(drop)
}

pub fn truncate(path: impl AsRef<Path>, size: i64) -> R {
    if let Some(at) = through::path(&path) {
        return at.truncate(size);
    }
    call!(libc::truncate(c(path).as_ptr(), size)).map(drop)
}

pub fn ftruncate(fd: impl AsFd, size: i64) -> R {
    if let Some(open) = through::of(&fd) {
        return open.truncate(size);
    }
    call!(libc::ftruncate(fd.as_fd().as_raw_fd(), size)).map(drop)
}

fn spec(times: [Time; 2]) -> [libc::timespec; 2] {
    times.map(|t| libc::timespec { tv_sec: t.s, tv_nsec: t.ns })
}

/// `[atime, mtime]`, following symlinks.
pub fn utimens(path: impl AsRef<Path>, times: [Time; 2]) -> R {
    if let Some(at) = through::path(&path) {
        return at.utimens(times, Link::Follow);
    }
    call!(libc::utimensat(libc::AT_FDCWD, c(path).as_ptr(), spec(times).as_ptr(), 0)).map(drop)
}

/// `[atime, mtime]` of the symlink itself.
pub fn lutimens(path: impl AsRef<Path>, times: [Time; 2]) -> R {
    if let Some(at) = through::path(&path) {
        return at.utimens(times, Link::Itself);
    }
    call!(libc::utimensat(libc::AT_FDCWD, c(path).as_ptr(), spec(times).as_ptr(), libc::AT_SYMLINK_NOFOLLOW)).map(drop)
}

/// utimensat with a null pointer: both times now.
pub fn touch(path: impl AsRef<Path>) -> R {
    if let Some(at) = through::path(&path) {
        return at.utimens([NOW, NOW], Link::Follow);
    }
    call!(libc::utimensat(libc::AT_FDCWD, c(path).as_ptr(), std::ptr::null(), 0)).map(drop)
}

pub fn futimens(fd: impl AsFd, times: [Time; 2]) -> R {
    if let Some(open) = through::of(&fd) {
        return open.utimens(times);
    }
    call!(libc::futimens(fd.as_fd().as_raw_fd(), spec(times).as_ptr())).map(drop)
}

pub fn stat(path: impl AsRef<Path>) -> R<Stat> {
    if let Some(at) = through::path(&path) {
        return at.stat(Link::Follow);
    }
    let mut raw: libc::stat = zeroed();
    call!(libc::stat(c(path).as_ptr(), &mut raw)).map(|_| from_raw(&raw))
}

pub fn lstat(path: impl AsRef<Path>) -> R<Stat> {
    if let Some(at) = through::path(&path) {
        return at.stat(Link::Itself);
    }
    let mut raw: libc::stat = zeroed();
    call!(libc::lstat(c(path).as_ptr(), &mut raw)).map(|_| from_raw(&raw))
}

pub fn fstat(fd: impl AsFd) -> R<Stat> {
    if let Some(open) = through::of(&fd) {
        return open.stat();
    }
    let mut raw: libc::stat = zeroed();
    call!(libc::fstat(fd.as_fd().as_raw_fd(), &mut raw)).map(|_| from_raw(&raw))
}

pub fn statx(path: impl AsRef<Path>, flags: i32, mask: u32) -> R<libc::statx> {
    if let Some(at) = through::path(&path) {
        return at.statx(flags);
    }
    let mut raw: libc::statx = zeroed();
    call!(libc::statx(libc::AT_FDCWD, c(path).as_ptr(), flags, mask, &mut raw)).map(|_| raw)
}

pub fn statvfs(path: impl AsRef<Path>) -> R<libc::statvfs> {
    if let Some(at) = through::path(&path) {
        return at.statvfs();
    }
    let mut raw: libc::statvfs = zeroed();
    call!(libc::statvfs(c(path).as_ptr(), &mut raw)).map(|_| raw)
}

/// One of the `…_MAGIC` constants.
pub fn file_system_type(path: impl AsRef<Path>) -> R<i64> {
    if let Some(at) = through::path(&path) {
        return at.file_system_type();
    }
    let mut raw: libc::statfs = zeroed();
    call!(libc::statfs(c(path).as_ptr(), &mut raw)).map(|_| raw.f_type)
}

pub fn access(path: impl AsRef<Path>, mode: i32) -> R {
    if let Some(at) = through::path(&path) {
        return at.access(mode, Ids::Real);
    }
    call!(libc::access(c(path).as_ptr(), mode)).map(drop)
}

/// access(2) with the effective ids.
pub fn eaccess(path: impl AsRef<Path>, mode: i32) -> R {
    if let Some(at) = through::path(&path) {
        return at.access(mode, Ids::Effective);
    }
    let path = c(path);
    call!(libc::syscall(libc::SYS_faccessat2, libc::AT_FDCWD, path.as_ptr(), mode, libc::AT_EACCESS)).map(drop)
}

pub fn chdir(path: impl AsRef<Path>) -> R {
    if let Some(at) = through::path(&path) {
        return at.chdir();
    }
    call!(libc::chdir(c(path).as_ptr()))?;
    through::enter(None);
    Ok(())
}
