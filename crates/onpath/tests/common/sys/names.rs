//! Names.
#![allow(unsafe_code)]

use super::super::through;
use super::{R, c, call, cwd, owned};
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

pub fn open(path: impl AsRef<Path>, flags: i32, mode: u32) -> R<OwnedFd> {
    openat(cwd(), path, flags, mode)
}

pub fn openat(dir: impl AsFd, path: impl AsRef<Path>, flags: i32, mode: u32) -> R<OwnedFd> {
    if let Some(at) = through::at(&dir, &path) {
        return at.open(flags, mode);
    }
    call!(libc::openat(dir.as_fd().as_raw_fd(), c(path).as_ptr(), flags | libc::O_CLOEXEC, mode)).map(owned)
}

pub fn mkdir(path: impl AsRef<Path>, mode: u32) -> R {
    if let Some(at) = through::path(&path) {
        return at.mkdir(mode);
    }
    call!(libc::mkdir(c(path).as_ptr(), mode)).map(drop)
}

pub fn mkdirat(dir: impl AsFd, path: impl AsRef<Path>, mode: u32) -> R {
    if let Some(at) = through::at(&dir, &path) {
        return at.mkdir(mode);
    }
    call!(libc::mkdirat(dir.as_fd().as_raw_fd(), c(path).as_ptr(), mode)).map(drop)
}

pub fn rmdir(path: impl AsRef<Path>) -> R {
    if let Some(at) = through::path(&path) {
        return at.rmdir();
    }
    call!(libc::rmdir(c(path).as_ptr())).map(drop)
}

pub fn unlink(path: impl AsRef<Path>) -> R {
    if let Some(at) = through::path(&path) {
        return at.unlink();
    }
    call!(libc::unlink(c(path).as_ptr())).map(drop)
}

pub fn unlinkat(dir: impl AsFd, path: impl AsRef<Path>, flags: i32) -> R {
    if let Some(at) = through::at(&dir, &path) {
        return at.unlinkat(flags);
    }
    call!(libc::unlinkat(dir.as_fd().as_raw_fd(), c(path).as_ptr(), flags)).map(drop)
}

pub fn rename(old: impl AsRef<Path>, new: impl AsRef<Path>) -> R {
    if let Some((old, new)) = through::both(&old, &new) {
        return old.rename(&new, 0);
    }
    call!(libc::rename(c(old).as_ptr(), c(new).as_ptr())).map(drop)
}

pub fn renameat2(old: impl AsRef<Path>, new: impl AsRef<Path>, flags: u32) -> R {
    if let Some((old, new)) = through::both(&old, &new) {
        return old.rename(&new, flags);
    }
    let (old, new) = (c(old), c(new));
    call!(libc::renameat2(libc::AT_FDCWD, old.as_ptr(), libc::AT_FDCWD, new.as_ptr(), flags)).map(drop)
}

pub fn link(old: impl AsRef<Path>, new: impl AsRef<Path>) -> R {
    if let Some((old, new)) = through::both(&old, &new) {
        return old.link(&new, 0);
    }
    call!(libc::link(c(old).as_ptr(), c(new).as_ptr())).map(drop)
}

pub fn linkat(old: impl AsRef<Path>, new: impl AsRef<Path>, flags: i32) -> R {
    if let Some((old, new)) = through::both(&old, &new) {
        return old.link(&new, flags);
    }
    let (old, new) = (c(old), c(new));
    call!(libc::linkat(libc::AT_FDCWD, old.as_ptr(), libc::AT_FDCWD, new.as_ptr(), flags)).map(drop)
}

pub fn linkat_from(dir: impl AsFd, old: impl AsRef<Path>, new: impl AsRef<Path>, flags: i32) -> R {
    if let Some((old, new)) = through::both_at(&dir, &old, &new) {
        return old.link(&new, flags);
    }
    let (old, new) = (c(old), c(new));
    let from = dir.as_fd().as_raw_fd();
    call!(libc::linkat(from, old.as_ptr(), libc::AT_FDCWD, new.as_ptr(), flags)).map(drop)
}

pub fn symlink(target: impl AsRef<Path>, path: impl AsRef<Path>) -> R {
    if let Some(at) = through::path(&path) {
        return at.symlink(target.as_ref());
    }
    call!(libc::symlink(c(target).as_ptr(), c(path).as_ptr())).map(drop)
}

pub fn readlink(path: impl AsRef<Path>) -> R<OsString> {
    readlink_into(path, 8192)
}

/// readlink into a buffer of that many bytes.
pub fn readlink_into(path: impl AsRef<Path>, bytes: usize) -> R<OsString> {
    if let Some(at) = through::path(&path) {
        return at.readlink(bytes);
    }
    let mut buffer = vec![0_u8; bytes];
    let length = call!(libc::readlink(c(path).as_ptr(), buffer.as_mut_ptr().cast(), bytes))?;
    buffer.truncate(length as usize);
    Ok(OsString::from_vec(buffer))
}

pub fn mkfifo(path: impl AsRef<Path>, mode: u32) -> R {
    if let Some(at) = through::path(&path) {
        return at.mknod(libc::S_IFIFO | mode, 0);
    }
    call!(libc::mkfifo(c(path).as_ptr(), mode)).map(drop)
}

pub fn mknod(path: impl AsRef<Path>, mode: u32, dev: u64) -> R {
    if let Some(at) = through::path(&path) {
        return at.mknod(mode, dev);
    }
    call!(libc::mknod(c(path).as_ptr(), mode, dev)).map(drop)
}
