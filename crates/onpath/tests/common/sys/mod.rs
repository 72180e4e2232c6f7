//! System calls as plain functions: paths in, an errno out. Thin on purpose, so that a test shows the call it makes.
#![allow(unsafe_code)]

mod attributes;
mod data;
mod directories;
mod locks;
mod memory;
mod mounts;
mod names;

pub use attributes::*;
pub use data::*;
pub use directories::*;
pub use locks::*;
pub use memory::*;
pub use mounts::*;
pub use names::*;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a call gives: its value or the errno.
pub type R<T = ()> = Result<T, i32>;

/// Runs one libc call; −1 becomes the errno.
macro_rules! call {
    ($call:expr) => {{
        // SAFETY: the functions below pass NUL-terminated paths, and buffers and structures that outlive the call, with their true
        // lengths; a wrong descriptor or flag only makes the kernel refuse.
        let result = unsafe { $call };
        if result == -1 { Err($crate::common::sys::errno()) } else { Ok(result) }
    }};
}
pub(crate) use call;

/// The errno of the calling thread.
pub fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// The path as the kernel wants it.
pub fn c(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_bytes()).expect("no NUL in a path")
}

pub(super) fn owned(fd: i32) -> OwnedFd {
    // SAFETY: the descriptor was just returned by the kernel and belongs to nobody else.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A descriptor that is not open.
pub fn bad_fd() -> BorrowedFd<'static> {
    // SAFETY: nothing is open at this number (far above the limit of open files); calls on it fail with EBADF, which is its use.
    unsafe { BorrowedFd::borrow_raw(1_000_000_000) }
}

/// The magic link to what a descriptor has open.
pub fn fd_path(fd: impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/thread-self/fd/{}", fd.as_fd().as_raw_fd()))
}

/// The directory that relative paths start from.
pub fn cwd() -> BorrowedFd<'static> {
    // SAFETY: AT_FDCWD is no descriptor but a constant the *at calls understand; it is only passed to those.
    unsafe { BorrowedFd::borrow_raw(libc::AT_FDCWD) }
}

/// A point in time as stat gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970.
    pub s: i64,
    /// Nanoseconds, 0 to 999,999,999, or `UTIME_NOW` or `UTIME_OMIT`.
    pub ns: i64,
}

/// For utimensat: now.
pub const NOW: Time = Time { s: 0, ns: libc::UTIME_NOW };
/// For utimensat: leave it.
pub const OMIT: Time = Time { s: 0, ns: libc::UTIME_OMIT };

/// Seconds and nanoseconds.
pub const fn at(s: i64, ns: i64) -> Time {
    Time { s, ns }
}

/// What stat tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub dev: u64,
    pub ino: u64,
    pub mode: u32,
    pub nlink: u64,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u64,
    pub size: i64,
    pub blocks: i64,
    pub blksize: i64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
}

impl Stat {
    /// The permission bits with suid, sgid and sticky.
    pub fn perm(&self) -> u32 {
        self.mode & 0o7777
    }

    /// One of the `S_IF…` constants.
    pub fn kind(&self) -> u32 {
        self.mode & libc::S_IFMT
    }
}

pub(super) fn from_raw(raw: &libc::stat) -> Stat {
    Stat {
        dev: raw.st_dev,
        ino: raw.st_ino,
        mode: raw.st_mode,
        nlink: raw.st_nlink,
        uid: raw.st_uid,
        gid: raw.st_gid,
        rdev: raw.st_rdev,
        size: raw.st_size,
        blocks: raw.st_blocks,
        blksize: raw.st_blksize,
        atime: at(raw.st_atime, raw.st_atime_nsec),
        mtime: at(raw.st_mtime, raw.st_mtime_nsec),
        ctime: at(raw.st_ctime, raw.st_ctime_nsec),
    }
}

pub(super) fn zeroed<T>() -> T {
    // SAFETY: used only for plain C structures of integers (stat, statvfs, flock …), for which all zeros is a value.
    unsafe { std::mem::zeroed() }
}

pub fn is_root() -> bool {
    // SAFETY: cannot fail and touches no memory.
    unsafe { libc::geteuid() == 0 }
}

pub fn umask(mask: u32) -> u32 {
    // SAFETY: cannot fail and touches no memory.
    unsafe { libc::umask(mask) }
}
