//! Files in memory.
#![allow(unsafe_code)]

use super::super::through;
use super::{R, call, errno};
use std::os::fd::{AsFd, AsRawFd};

/// A mapping of the first bytes of a file, unmapped on drop.
pub struct Map {
    address: *mut u8,
    length: usize,
}

pub fn mmap(fd: impl AsFd, length: usize, protection: i32, flags: i32) -> R<Map> {
    through::kernel_only(&fd);
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: a fresh mapping at an address the kernel chooses.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, fd, 0) };
    if address == libc::MAP_FAILED { Err(errno()) } else { Ok(Map { address: address.cast(), length }) }
}

impl Map {
    pub fn get(&self, index: usize) -> u8 {
        assert!(index < self.length);
        // SAFETY: inside the mapping; volatile because the file may change under it.
        unsafe { self.address.add(index).read_volatile() }
    }

    pub fn set(&self, index: usize, byte: u8) {
        assert!(index < self.length);
        // SAFETY: inside the mapping, which the test made writable.
        unsafe { self.address.add(index).write_volatile(byte) }
    }

    /// pread(2) into the mapping: its pages are written by the kernel, so that one that a truncation took away gives EFAULT and no signal.
    pub fn pread(&self, index: usize, count: usize, from: impl AsFd, offset: i64) -> R<usize> {
        assert!(index + count <= self.length);
        // SAFETY: inside the mapping, which the test made writable.
        let target = unsafe { self.address.add(index) };
        call!(libc::pread(from.as_fd().as_raw_fd(), target.cast(), count, offset)).map(|n| n as usize)
    }

    pub fn msync(&self) -> R {
        call!(libc::msync(self.address.cast(), self.length, libc::MS_SYNC)).map(drop)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `mmap` above, not used afterwards.
        unsafe { libc::munmap(self.address.cast(), self.length) };
    }
}
