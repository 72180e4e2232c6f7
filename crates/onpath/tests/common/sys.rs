//! System calls as plain functions: paths in, an errno out. Thin on purpose, so that a test shows the call it makes.
#![allow(unsafe_code)]

use std::ffi::{CString, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
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

fn owned(fd: i32) -> OwnedFd {
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

fn from_raw(raw: &libc::stat) -> Stat {
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

fn zeroed<T>() -> T {
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

// --- names ---

pub fn open(path: impl AsRef<Path>, flags: i32, mode: u32) -> R<OwnedFd> {
    openat(cwd(), path, flags, mode)
}

pub fn openat(dir: impl AsFd, path: impl AsRef<Path>, flags: i32, mode: u32) -> R<OwnedFd> {
    call!(libc::openat(dir.as_fd().as_raw_fd(), c(path).as_ptr(), flags | libc::O_CLOEXEC, mode)).map(owned)
}

pub fn mkdir(path: impl AsRef<Path>, mode: u32) -> R {
    call!(libc::mkdir(c(path).as_ptr(), mode)).map(drop)
}

pub fn mkdirat(dir: impl AsFd, path: impl AsRef<Path>, mode: u32) -> R {
    call!(libc::mkdirat(dir.as_fd().as_raw_fd(), c(path).as_ptr(), mode)).map(drop)
}

pub fn rmdir(path: impl AsRef<Path>) -> R {
    call!(libc::rmdir(c(path).as_ptr())).map(drop)
}

pub fn unlink(path: impl AsRef<Path>) -> R {
    call!(libc::unlink(c(path).as_ptr())).map(drop)
}

pub fn unlinkat(dir: impl AsFd, path: impl AsRef<Path>, flags: i32) -> R {
    call!(libc::unlinkat(dir.as_fd().as_raw_fd(), c(path).as_ptr(), flags)).map(drop)
}

pub fn rename(old: impl AsRef<Path>, new: impl AsRef<Path>) -> R {
    call!(libc::rename(c(old).as_ptr(), c(new).as_ptr())).map(drop)
}

pub fn renameat2(old: impl AsRef<Path>, new: impl AsRef<Path>, flags: u32) -> R {
    let (old, new) = (c(old), c(new));
    call!(libc::renameat2(libc::AT_FDCWD, old.as_ptr(), libc::AT_FDCWD, new.as_ptr(), flags)).map(drop)
}

pub fn link(old: impl AsRef<Path>, new: impl AsRef<Path>) -> R {
    call!(libc::link(c(old).as_ptr(), c(new).as_ptr())).map(drop)
}

pub fn linkat(old: impl AsRef<Path>, new: impl AsRef<Path>, flags: i32) -> R {
    let (old, new) = (c(old), c(new));
    call!(libc::linkat(libc::AT_FDCWD, old.as_ptr(), libc::AT_FDCWD, new.as_ptr(), flags)).map(drop)
}

pub fn linkat_from(dir: impl AsFd, old: impl AsRef<Path>, new: impl AsRef<Path>, flags: i32) -> R {
    let (old, new) = (c(old), c(new));
    let from = dir.as_fd().as_raw_fd();
    call!(libc::linkat(from, old.as_ptr(), libc::AT_FDCWD, new.as_ptr(), flags)).map(drop)
}

pub fn symlink(target: impl AsRef<Path>, path: impl AsRef<Path>) -> R {
    call!(libc::symlink(c(target).as_ptr(), c(path).as_ptr())).map(drop)
}

pub fn readlink(path: impl AsRef<Path>) -> R<OsString> {
    readlink_into(path, 8192)
}

/// readlink into a buffer of that many bytes.
pub fn readlink_into(path: impl AsRef<Path>, bytes: usize) -> R<OsString> {
    let mut buffer = vec![0_u8; bytes];
    let length = call!(libc::readlink(c(path).as_ptr(), buffer.as_mut_ptr().cast(), bytes))?;
    buffer.truncate(length as usize);
    Ok(OsString::from_vec(buffer))
}

pub fn mkfifo(path: impl AsRef<Path>, mode: u32) -> R {
    call!(libc::mkfifo(c(path).as_ptr(), mode)).map(drop)
}

pub fn mknod(path: impl AsRef<Path>, mode: u32, dev: u64) -> R {
    call!(libc::mknod(c(path).as_ptr(), mode, dev)).map(drop)
}

// --- attributes ---

pub fn chmod(path: impl AsRef<Path>, mode: u32) -> R {
    call!(libc::chmod(c(path).as_ptr(), mode)).map(drop)
}

pub fn fchmod(fd: impl AsFd, mode: u32) -> R {
    call!(libc::fchmod(fd.as_fd().as_raw_fd(), mode)).map(drop)
}

pub fn fchmodat2(path: impl AsRef<Path>, mode: u32, flags: i32) -> R {
    let path = c(path);
    call!(libc::syscall(libc::SYS_fchmodat2, libc::AT_FDCWD, path.as_ptr(), mode, flags)).map(drop)
}

pub fn chown(path: impl AsRef<Path>, uid: u32, gid: u32) -> R {
    call!(libc::chown(c(path).as_ptr(), uid, gid)).map(drop)
}

pub fn lchown(path: impl AsRef<Path>, uid: u32, gid: u32) -> R {
    call!(libc::lchown(c(path).as_ptr(), uid, gid)).map(drop)
}

pub fn fchown(fd: impl AsFd, uid: u32, gid: u32) -> R {
    call!(libc::fchown(fd.as_fd().as_raw_fd(), uid, gid)).map(drop)
}

pub fn truncate(path: impl AsRef<Path>, size: i64) -> R {
    call!(libc::truncate(c(path).as_ptr(), size)).map(drop)
}

pub fn ftruncate(fd: impl AsFd, size: i64) -> R {
    call!(libc::ftruncate(fd.as_fd().as_raw_fd(), size)).map(drop)
}

fn spec(times: [Time; 2]) -> [libc::timespec; 2] {
    times.map(|t| libc::timespec { tv_sec: t.s, tv_nsec: t.ns })
}

/// `[atime, mtime]`, following symlinks.
pub fn utimens(path: impl AsRef<Path>, times: [Time; 2]) -> R {
    call!(libc::utimensat(libc::AT_FDCWD, c(path).as_ptr(), spec(times).as_ptr(), 0)).map(drop)
}

/// `[atime, mtime]` of the symlink itself.
pub fn lutimens(path: impl AsRef<Path>, times: [Time; 2]) -> R {
    call!(libc::utimensat(libc::AT_FDCWD, c(path).as_ptr(), spec(times).as_ptr(), libc::AT_SYMLINK_NOFOLLOW)).map(drop)
}

/// utimensat with a null pointer: both times now.
pub fn touch(path: impl AsRef<Path>) -> R {
    call!(libc::utimensat(libc::AT_FDCWD, c(path).as_ptr(), std::ptr::null(), 0)).map(drop)
}

pub fn futimens(fd: impl AsFd, times: [Time; 2]) -> R {
    call!(libc::futimens(fd.as_fd().as_raw_fd(), spec(times).as_ptr())).map(drop)
}

pub fn stat(path: impl AsRef<Path>) -> R<Stat> {
    let mut raw: libc::stat = zeroed();
    call!(libc::stat(c(path).as_ptr(), &mut raw)).map(|_| from_raw(&raw))
}

pub fn lstat(path: impl AsRef<Path>) -> R<Stat> {
    let mut raw: libc::stat = zeroed();
    call!(libc::lstat(c(path).as_ptr(), &mut raw)).map(|_| from_raw(&raw))
}

pub fn fstat(fd: impl AsFd) -> R<Stat> {
    let mut raw: libc::stat = zeroed();
    call!(libc::fstat(fd.as_fd().as_raw_fd(), &mut raw)).map(|_| from_raw(&raw))
}

pub fn statx(path: impl AsRef<Path>, flags: i32, mask: u32) -> R<libc::statx> {
    let mut raw: libc::statx = zeroed();
    call!(libc::statx(libc::AT_FDCWD, c(path).as_ptr(), flags, mask, &mut raw)).map(|_| raw)
}

pub fn statvfs(path: impl AsRef<Path>) -> R<libc::statvfs> {
    let mut raw: libc::statvfs = zeroed();
    call!(libc::statvfs(c(path).as_ptr(), &mut raw)).map(|_| raw)
}

/// One of the `…_MAGIC` constants.
pub fn file_system_type(path: impl AsRef<Path>) -> R<i64> {
    let mut raw: libc::statfs = zeroed();
    call!(libc::statfs(c(path).as_ptr(), &mut raw)).map(|_| raw.f_type)
}

pub fn access(path: impl AsRef<Path>, mode: i32) -> R {
    call!(libc::access(c(path).as_ptr(), mode)).map(drop)
}

/// access(2) with the effective ids.
pub fn eaccess(path: impl AsRef<Path>, mode: i32) -> R {
    let path = c(path);
    call!(libc::syscall(libc::SYS_faccessat2, libc::AT_FDCWD, path.as_ptr(), mode, libc::AT_EACCESS)).map(drop)
}

pub fn chdir(path: impl AsRef<Path>) -> R {
    call!(libc::chdir(c(path).as_ptr())).map(drop)
}

// --- data ---

pub fn read(fd: impl AsFd, count: usize) -> R<Vec<u8>> {
    let mut buffer = vec![0_u8; count];
    let got = call!(libc::read(fd.as_fd().as_raw_fd(), buffer.as_mut_ptr().cast(), count))?;
    buffer.truncate(got as usize);
    Ok(buffer)
}

pub fn pread(fd: impl AsFd, count: usize, offset: i64) -> R<Vec<u8>> {
    let mut buffer = vec![0_u8; count];
    let got = call!(libc::pread(fd.as_fd().as_raw_fd(), buffer.as_mut_ptr().cast(), count, offset))?;
    buffer.truncate(got as usize);
    Ok(buffer)
}

/// pread into the caller's memory, which O_DIRECT wants aligned.
pub fn pread_into(fd: impl AsFd, buffer: &mut [u8], offset: i64) -> R<usize> {
    call!(libc::pread(fd.as_fd().as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), offset)).map(|n| n as usize)
}

pub fn write(fd: impl AsFd, bytes: impl AsRef<[u8]>) -> R<usize> {
    let bytes = bytes.as_ref();
    call!(libc::write(fd.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len())).map(|n| n as usize)
}

/// Writes a byte from an address where there is nothing.
pub fn write_from_nowhere(fd: impl AsFd) -> R<usize> {
    call!(libc::write(fd.as_fd().as_raw_fd(), std::ptr::without_provenance(1), 1)).map(|n| n as usize)
}

pub fn pwrite(fd: impl AsFd, bytes: impl AsRef<[u8]>, offset: i64) -> R<usize> {
    let bytes = bytes.as_ref();
    call!(libc::pwrite(fd.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), offset)).map(|n| n as usize)
}

pub fn lseek(fd: impl AsFd, offset: i64, whence: i32) -> R<i64> {
    call!(libc::lseek(fd.as_fd().as_raw_fd(), offset, whence))
}

pub fn fsync(fd: impl AsFd) -> R {
    call!(libc::fsync(fd.as_fd().as_raw_fd())).map(drop)
}

pub fn fdatasync(fd: impl AsFd) -> R {
    call!(libc::fdatasync(fd.as_fd().as_raw_fd())).map(drop)
}

pub fn fallocate(fd: impl AsFd, mode: i32, offset: i64, length: i64) -> R {
    call!(libc::fallocate(fd.as_fd().as_raw_fd(), mode, offset, length)).map(drop)
}

pub fn copy_file_range(from: impl AsFd, to: impl AsFd, count: usize) -> R<usize> {
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
    let (from, to) = (from.as_fd().as_raw_fd(), to.as_fd().as_raw_fd());
    call!(libc::copy_file_range(from, &raw mut from_offset, to, &raw mut offset, count, flags)).map(|n| n as usize)
}

pub fn sendfile(to: impl AsFd, from: impl AsFd, mut offset: i64, count: usize) -> R<usize> {
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
    let (path, mut mount_id) = (c(path), 0);
    let mut handle = FileHandle { bytes: 128, kind: 0, handle: [0; 128] };
    let (handle_ptr, id_ptr) = (&raw mut handle, &raw mut mount_id);
    call!(libc::syscall(libc::SYS_name_to_handle_at, libc::AT_FDCWD, path.as_ptr(), handle_ptr, id_ptr, 0))?;
    Ok(handle)
}

/// `mount` is any descriptor of the file system.
pub fn open_by_handle(mount: impl AsFd, handle: &FileHandle, flags: i32) -> R<OwnedFd> {
    let mount = mount.as_fd().as_raw_fd();
    call!(libc::syscall(libc::SYS_open_by_handle_at, mount, &raw const *handle, flags)).map(|fd| owned(fd as i32))
}

pub fn dup(fd: impl AsFd) -> R<OwnedFd> {
    call!(libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3)).map(owned)
}

/// The file's status flags (`O_APPEND` …).
pub fn fcntl_getfl(fd: impl AsFd) -> R<i32> {
    call!(libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_GETFL))
}

pub fn fcntl_setfl(fd: impl AsFd, flags: i32) -> R {
    call!(libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_SETFL, flags)).map(drop)
}

// --- locks ---

pub fn flock(fd: impl AsFd, operation: i32) -> R {
    call!(libc::flock(fd.as_fd().as_raw_fd(), operation)).map(drop)
}

/// One of the lock commands (`F_SETLK`, `F_OFD_SETLKW` …) on bytes `start..start + length` (0: to the end of everything).
pub fn lock(fd: impl AsFd, command: i32, kind: i32, start: i64, length: i64) -> R<libc::flock> {
    let mut raw: libc::flock = zeroed();
    raw.l_type = kind as i16;
    raw.l_whence = libc::SEEK_SET as i16;
    raw.l_start = start;
    raw.l_len = length;
    call!(libc::fcntl(fd.as_fd().as_raw_fd(), command, &mut raw)).map(|_| raw)
}

// --- directories ---

/// One entry as getdents64 gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub ino: u64,
    /// Where the next getdents after this entry starts.
    pub next: i64,
    pub kind: u8,
    pub name: OsString,
}

/// One getdents64 into a buffer of that many bytes; empty at the end.
pub fn getdents(fd: impl AsFd, bytes: usize) -> R<Vec<Entry>> {
    let mut buffer = vec![0_u8; bytes];
    let got = call!(libc::syscall(libc::SYS_getdents64, fd.as_fd().as_raw_fd(), buffer.as_mut_ptr(), bytes))?;
    let mut rest = &buffer[..got as usize];
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let length = usize::from(u16::from_ne_bytes([rest[16], rest[17]]));
        let name = rest[19..length].split(|&b| b == 0).next().unwrap_or_default();
        entries.push(Entry {
            ino: u64::from_ne_bytes(rest[..8].try_into().expect("8 bytes")),
            next: i64::from_ne_bytes(rest[8..16].try_into().expect("8 bytes")),
            kind: rest[18],
            name: OsString::from_vec(name.to_vec()),
        });
        rest = &rest[length..];
    }
    Ok(entries)
}

/// All entries from the descriptor's position on, "." and ".." left out.
pub fn entries(fd: impl AsFd) -> R<Vec<Entry>> {
    let mut all = Vec::new();
    loop {
        let page = getdents(&fd, 32 << 10)?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page.into_iter().filter(|e| e.name != "." && e.name != ".."));
    }
}

/// The sorted names in a directory, "." and ".." left out.
pub fn names(path: impl AsRef<Path>) -> R<Vec<OsString>> {
    let dir = open(path, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    let mut names: Vec<OsString> = entries(dir)?.into_iter().map(|e| e.name).collect();
    names.sort();
    Ok(names)
}

// --- memory ---

/// A mapping of the first bytes of a file, unmapped on drop.
pub struct Map {
    address: *mut u8,
    length: usize,
}

pub fn mmap(fd: impl AsFd, length: usize, protection: i32, flags: i32) -> R<Map> {
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

// --- mounts ---

/// Detaches whatever is mounted on the path, never waiting for it.
pub fn detach(path: impl AsRef<Path>) -> R {
    call!(libc::umount2(c(path).as_ptr(), libc::MNT_DETACH)).map(drop)
}

/// Ends the connection of the file system mounted on the path: whoever waits for it gets an error.
pub fn abort(path: impl AsRef<Path>) -> R {
    call!(libc::umount2(c(path).as_ptr(), libc::MNT_FORCE)).map(drop)
}

pub fn bind_mount(from: impl AsRef<Path>, to: impl AsRef<Path>) -> R {
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
