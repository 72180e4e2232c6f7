//! Mounts and namespaces.
#![allow(unsafe_code)]

use super::super::through;
use super::{R, c, call};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// Detaches whatever is mounted on the path, never waiting for it.
pub fn detach(path: impl AsRef<Path>) -> R {
    call!(libc::umount2(c(path).as_ptr(), libc::MNT_DETACH)).map(drop)
}

/// Ends the connection of the file system mounted on the path: whoever waits for it gets an error.
pub fn abort(path: impl AsRef<Path>) -> R {
    call!(libc::umount2(c(path).as_ptr(), libc::MNT_FORCE)).map(drop)
}

pub fn bind_mount(from: impl AsRef<Path>, to: impl AsRef<Path>) -> R {
    through::kernel_only_path(&from);
    let none = std::ptr::null();
    call!(libc::mount(c(from).as_ptr(), c(to).as_ptr(), none, libc::MS_BIND, none.cast())).map(drop)
}

pub fn remount_bind(path: impl AsRef<Path>, flags: u64) -> R {
    let flags = libc::MS_REMOUNT | libc::MS_BIND | flags;
    call!(libc::mount(std::ptr::null(), c(path).as_ptr(), std::ptr::null(), flags, std::ptr::null())).map(drop)
}

/// Makes every mount of the calling thread's mount namespace private to it.
pub fn make_mounts_private() -> R {
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    call!(libc::mount(std::ptr::null(), c("/").as_ptr(), std::ptr::null(), flags, std::ptr::null())).map(drop)
}

/// From now on the calling thread's root and working directory are there; it shares them with nobody.
pub fn chroot(path: impl AsRef<Path>) -> R {
    through::kernel_only_path(&path);
    call!(libc::chroot(c(path).as_ptr()))?;
    call!(libc::chdir(c("/").as_ptr())).map(drop)
}

/// The calling thread is in this network namespace from now on.
pub fn enter_network(namespace: impl AsFd) -> R {
    call!(libc::setns(namespace.as_fd().as_raw_fd(), libc::CLONE_NEWNET)).map(drop)
}

pub fn unshare(flags: i32) -> R {
    call!(libc::unshare(flags)).map(drop)
}
