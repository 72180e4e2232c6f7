//! Locks.
#![allow(unsafe_code)]

use super::super::through;
use super::{R, call, zeroed};
use std::os::fd::{AsFd, AsRawFd};

pub fn flock(fd: impl AsFd, operation: i32) -> R {
    through::kernel_only(&fd);
    call!(libc::flock(fd.as_fd().as_raw_fd(), operation)).map(drop)
}

/// One of the lock commands (`F_SETLK`, `F_OFD_SETLKW` …) on bytes `start..start + length` (0: to the end of everything).
pub fn lock(fd: impl AsFd, command: i32, kind: i32, start: i64, length: i64) -> R<libc::flock> {
    through::kernel_only(&fd);
    let mut raw: libc::flock = zeroed();
    raw.l_type = kind as i16;
    raw.l_whence = libc::SEEK_SET as i16;
    raw.l_start = start;
    raw.l_len = length;
    call!(libc::fcntl(fd.as_fd().as_raw_fd(), command, &mut raw)).map(|_| raw)
}
