//! Data of files.
#![allow(unsafe_code)]

use super::super::through;
use super::{R, c, call, owned};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

pub fn read(fd: impl AsFd, count: usize) -> R<Vec<u8>> {
    if let Some(open) = through::of(&fd) {
        return open.read(count);
    }
    let mut buffer = vec![0_u8; count];
    let got = call!(libc::read(fd.as_fd().as_raw_fd(), buffer.as_mut_ptr().cast(), count))?;
    buffer.truncate(got as usize);
    Ok(buffer)
}

pub fn pread(fd: impl AsFd, count: usize, offset: i64) -> R<Vec<u8>> {
    if let Some(open) = through::of(&fd) {
        return open.pread(count, offset);
    }
    let mut buffer = vec![0_u8; count];
    let got = call!(libc::pread(fd.as_fd().as_raw_fd(), buffer.as_mut_ptr().cast(), count, offset))?;
    buffer.truncate(got as usize);
    Ok(buffer)
}

/// pread into the caller's memory, which O_DIRECT wants aligned.
pub fn pread_into(fd: impl AsFd, buffer: &mut [u8], offset: i64) -> R<usize> {
    if let Some(open) = through::of(&fd) {
        let read = open.pread(buffer.len(), offset)?;
        buffer[..read.len()].copy_from_slice(&read);
        return Ok(read.len());
    }
    call!(libc::pread(fd.as_fd().as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), offset)).map(|n| n as usize)
}

pub fn write(fd: impl AsFd, bytes: impl AsRef<[u8]>) -> R<usize> {
    if let Some(open) = through::of(&fd) {
        return open.write(bytes.as_ref());
    }
    let bytes = bytes.as_ref();
    call!(libc::write(fd.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len())).map(|n| n as usize)
}

/// Writes a byte from an address where there is nothing.
pub fn write_from_nowhere(fd: impl AsFd) -> R<usize> {
    through::kernel_only(&fd);
    call!(libc::write(fd.as_fd().as_raw_fd(), std::ptr::without_provenance(1), 1)).map(|n| n as usize)
}

pub fn pwrite(fd: impl AsFd, bytes: impl AsRef<[u8]>, offset: i64) -> R<usize> {
    if let Some(open) = through::of(&fd) {
        return open.pwrite(bytes.as_ref(), offset);
    }
    let bytes = bytes.as_ref();
    call!(libc::pwrite(fd.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), offset)).map(|n| n as usize)
}

pub fn lseek(fd: impl AsFd, offset: i64, whence: i32) -> R<i64> {
    if let Some(open) = through::of(&fd) {
        return open.lseek(offset, whence);
    }
    call!(libc::lseek(fd.as_fd().as_raw_fd(), offset, whence))
}

pub fn fsync(fd: impl AsFd) -> R {
    if let Some(open) = through::of(&fd) {
        return open.sync();
    }
    call!(libc::fsync(fd.as_fd().as_raw_fd())).map(drop)
}

pub fn fdatasync(fd: impl AsFd) -> R {
    if let Some(open) = through::of(&fd) {
        return open.sync();
    }
    call!(libc::fdatasync(fd.as_fd().as_raw_fd())).map(drop)
}

pub fn fallocate(fd: impl AsFd, mode: i32, offset: i64, length: i64) -> R {
    if let Some(open) = through::of(&fd) {
        return open.allocate(mode, offset, length);
    }
    call!(libc::fallocate(fd.as_fd().as_raw_fd(), mode, offset, length)).map(drop)
}

pub fn copy_file_range(from: impl AsFd, to: impl AsFd, count: usize) -> R<usize> {
    if let Some((from, to)) = through::both_of(&from, &to) {
        return to.copy(&from, count);
    }
    let (from, to) = (from.as_fd().as_raw_fd(), to.as_fd().as_raw_fd());
    call!(libc::copy_file_range(from, std::ptr::null_mut(), to, std::ptr::null_mut(), count, 0)).map(|n| n as usize)
}

pub fn copy_range(
    from: impl AsFd,
    mut from_offset: i64,
    to: impl AsFd,
    mut offset: i64,
    count: usize,
    flags: u32,
) -> R<usize> {
    if let Some((from, to)) = through::both_of(&from, &to) {
        return to.copy_range(&from, from_offset, offset, count, flags);
    }
    let (from, to) = (from.as_fd().as_raw_fd(), to.as_fd().as_raw_fd());
    call!(libc::copy_file_range(from, &raw mut from_offset, to, &raw mut offset, count, flags)).map(|n| n as usize)
}

pub fn sendfile(to: impl AsFd, from: impl AsFd, mut offset: i64, count: usize) -> R<usize> {
    through::kernel_only(&from);
    through::kernel_only(&to);
    let (from, to) = (from.as_fd().as_raw_fd(), to.as_fd().as_raw_fd());
    call!(libc::sendfile(to, from, &raw mut offset, count)).map(|n| n as usize)
}

/// What name_to_handle_at(2) gives: its length, its type, and bytes.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct FileHandle {
    bytes: u32,
    kind: i32,
    handle: [u8; 128],
}

pub fn handle_of(path: impl AsRef<Path>) -> R<FileHandle> {
    through::kernel_only_path(&path);
    let (path, mut mount_id) = (c(path), 0);
    let mut handle = FileHandle { bytes: 128, kind: 0, handle: [0; 128] };
    let (handle_ptr, id_ptr) = (&raw mut handle, &raw mut mount_id);
    call!(libc::syscall(libc::SYS_name_to_handle_at, libc::AT_FDCWD, path.as_ptr(), handle_ptr, id_ptr, 0))?;
    Ok(handle)
}

/// `mount` is any descriptor of the file system.
pub fn open_by_handle(mount: impl AsFd, handle: &FileHandle, flags: i32) -> R<OwnedFd> {
    through::kernel_only(&mount);
    let mount = mount.as_fd().as_raw_fd();
    call!(libc::syscall(libc::SYS_open_by_handle_at, mount, &raw const *handle, flags)).map(|fd| owned(fd as i32))
}

pub fn dup(fd: impl AsFd) -> R<OwnedFd> {
    call!(libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3)).map(owned)
}

/// The file's status flags (`O_APPEND` …).
pub fn fcntl_getfl(fd: impl AsFd) -> R<i32> {
    through::kernel_only(&fd);
    call!(libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_GETFL))
}

pub fn fcntl_setfl(fd: impl AsFd, flags: i32) -> R {
    through::kernel_only(&fd);
    call!(libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_SETFL, flags)).map(drop)
}
