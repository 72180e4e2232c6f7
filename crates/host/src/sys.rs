//! The few system calls that the standard library does not offer, each behind a safe function.

#![allow(unsafe_code)]

use crate::clock::{CLOCK, Reading};
use crate::held;
use bytes::BytesMut;
use onpath_kernel::Now;
use onpath_wire::identity::GIDS_MAX;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

fn clock(id: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that outlives the call.
    let result = unsafe { libc::clock_gettime(id, &raw mut time) };
    assert_eq!(result, 0, "clocks of Linux do not fail");
    time
}

/// The clock that only goes forward, microseconds.
#[inline]
pub fn mono_us() -> u64 {
    let mono = clock(libc::CLOCK_MONOTONIC);
    mono.tv_sec as u64 * 1_000_000 + mono.tv_nsec as u64 / 1_000
}

fn ns(time: libc::timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Both clocks of the system, read one after the other.
pub(crate) fn reading() -> Reading {
    Reading { wall_ns: ns(clock(libc::CLOCK_REALTIME)), mono_ns: ns(clock(libc::CLOCK_MONOTONIC)) }
}

/// How long a thread takes it that both clocks go on as fast as each other, ns: then only one has to be read.
const TOGETHER_NS: i64 = 1_000_000;

thread_local! {
    /// Until when this thread takes it so, by the clock that only goes forward, and what the wall clock is ahead of that, ns.
    static AHEAD: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
}

/// Both clocks, read now; the wall clock as this process shows it. A step of that is seen within [`TOGETHER_NS`].
pub fn now() -> Now {
    let mut mono_ns = ns(clock(libc::CLOCK_MONOTONIC));
    let (until_ns, mut ahead_ns) = AHEAD.get();
    if mono_ns >= until_ns {
        let read = CLOCK.read(reading);
        (mono_ns, ahead_ns) = (read.mono_ns, read.wall_ns - read.mono_ns);
        AHEAD.set((mono_ns + TOGETHER_NS, ahead_ns));
    }
    Now { mono_us: mono_ns as u64 / 1_000, wall_ns: (mono_ns + ahead_ns) as u64 }
}

/// From now on this thread gives way to others of the process, and the more so the higher `nice` is; as far as the system lets it.
pub fn give_way(nice: i32) {
    // SAFETY: the call takes numbers only; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}

/// The name of a user, if the system has one.
pub(crate) fn user_name(uid: u32) -> Option<String> {
    let mut room = vec![0; USER_BYTES_MAX];
    // SAFETY: all-zero bytes are a valid passwd.
    let mut user: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: all buffers are valid, of the length that is told, and outlive the call.
    unsafe { libc::getpwuid_r(uid, &raw mut user, room.as_mut_ptr(), room.len(), &raw mut found) };
    if found.is_null() || user.pw_name.is_null() {
        return None;
    }
    // SAFETY: the call has found a user: its name is a C string in `room`.
    let name = unsafe { std::ffi::CStr::from_ptr(user.pw_name) };
    name.to_str().ok().map(str::to_owned)
}

/// Room for what the system knows of a user, bytes.
const USER_BYTES_MAX: usize = 64 << 10;

/// Bytes from the system's random generator.
pub fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    assert!(N <= 256, "longer reads may be interrupted");
    // SAFETY: the buffer is valid for N bytes.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    if got == N as isize { Ok(bytes) } else { Err(io::Error::last_os_error()) }
}

/// Reads `len` bytes at an offset behind those that `bytes` has, into memory that is not cleared before.
pub fn read_exact_at(file: &File, mut offset: u64, len: usize, bytes: &mut BytesMut) -> io::Result<()> {
    bytes.reserve(len);
    let mut missing = len;
    while missing > 0 {
        let room = &mut bytes.spare_capacity_mut()[..missing];
        // SAFETY: `room` is memory of this length that the call may write to.
        let got = unsafe { libc::pread(file.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), offset as libc::off_t) };
        match got {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            1.. => {
                // SAFETY: the call has written `got` bytes, at most as many as there was room for.
                unsafe { bytes.set_len(bytes.len() + got as usize) };
                offset += got as u64;
                missing -= got as usize;
            }
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    Ok(())
}

/// Reserves `bytes` of disk space for a file and makes it so long.
pub fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    // SAFETY: no memory is passed.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Size and free space (for this process) of the file system that holds the directory `path`, bytes. What is kept for others, as ext4's
/// reserve or a quota, counts in neither, as df(1) has it: a disk that has nothing left for this process is full.
pub fn space(path: &Path) -> io::Result<(u64, u64)> {
    let stat = rustix::fs::fstatvfs(held::folder(path)?)?;
    let used = stat.f_blocks.saturating_sub(stat.f_bfree);
    Ok(((used + stat.f_bavail) * stat.f_frsize, stat.f_bavail * stat.f_frsize))
}

/// The process at the other end of a stream, as of its connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its id; 0 if it is in a pid namespace of which this one sees nothing. Others may have it by now.
    pub pid: i32,
    /// Its effective user id.
    pub uid: u32,
    /// Its effective group id.
    pub gid: u32,
}

/// Who is at the other end of a stream.
pub fn peer(stream: &UnixStream) -> io::Result<Peer> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    // SAFETY: the option is a ucred, for which any bytes are one.
    unsafe { peer_option(stream, libc::SO_PEERCRED, std::slice::from_mut(&mut credentials)) }?;
    let libc::ucred { pid, uid, gid } = credentials;
    Ok(Peer { pid, uid, gid })
}

/// Supplementary groups of the process at the other end of a stream, as of its connect.
pub fn peer_groups(stream: &UnixStream) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; GROUPS_ROOM];
    loop {
        // SAFETY: the option is some gids.
        match unsafe { peer_option(stream, libc::SO_PEERGROUPS, &mut groups) } {
            Ok(bytes) => {
                groups.truncate(bytes / size_of::<u32>());
                return Ok(groups);
            }
            // It has more.
            Err(error) if error.raw_os_error() == Some(libc::ERANGE) && groups.len() < GIDS_MAX => {
                groups.resize(GIDS_MAX, 0);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Gids that a process usually has at most.
const GROUPS_ROOM: usize = 64;
/// What holds on to the process at the other end of a stream, so that its id becomes no other process's; an error where the system does not
/// know (before Linux 6.5), or the process is over.
pub fn peer_handle(stream: &UnixStream) -> io::Result<OwnedFd> {
    const SO_PEERPIDFD: libc::c_int = 77;
    let mut handle: libc::c_int = -1;
    // SAFETY: the option is a number.
    unsafe { peer_option(stream, SO_PEERPIDFD, std::slice::from_mut(&mut handle)) }?;
    // SAFETY: the call has opened it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(handle) })
}

/// Whether the process of a handle still runs.
pub fn still_runs(process: &impl AsRawFd) -> bool {
    let mut poll = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: `poll` is one valid pollfd.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 0 }
}

/// Reads what the system tells of the other end of a stream; gives the bytes.
///
/// # Safety
/// Any bytes must be a valid `T`.
unsafe fn peer_option<T>(stream: &UnixStream, option: libc::c_int, into: &mut [T]) -> io::Result<usize> {
    let mut len = size_of_val(into) as libc::socklen_t;
    // SAFETY: the buffer and its length are valid and outlive the call.
    let result = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, option, into.as_mut_ptr().cast(), &raw mut len)
    };
    if result == 0 { Ok(len as usize) } else { Err(io::Error::last_os_error()) }
}

/// Sends as much of `parts` as the socket takes at once; `WouldBlock` if that is nothing.
pub fn send_at_once(stream: &UnixStream, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: all-zero bytes are a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len();
    // SAFETY: an IoSlice has the layout of an iovec; the slices outlive the call, which only reads them.
    let sent =
        unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    if sent >= 0 { Ok(sent as usize) } else { Err(io::Error::last_os_error()) }
}

/// Makes a listening socket refuse everybody, also one who waits in accept(2) for it.
pub fn stop_listening(listener: &UnixListener) {
    // SAFETY: no memory is passed.
    if unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) } != 0 {
        tracing::warn!(error = %io::Error::last_os_error(), "cannot shut a listening socket down");
    }
}

/// Waits until a descriptor can be written or is closed at the other end.
pub fn wait_writable(file: &impl AsRawFd) -> io::Result<()> {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: `poll` is one valid pollfd.
    match unsafe { libc::poll(&raw mut poll, 1, -1) } {
        n if n >= 0 => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            error => Err(error),
        },
    }
}

/// Whether an error says that there is no space left (or a quota is used up).
pub fn is_no_space(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

/// Makes the entries of a directory durable.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::fsync(held::folder(path)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_a_full_disk() {
        let said = |errno| is_no_space(&io::Error::from_raw_os_error(errno));
        assert!(said(libc::ENOSPC) && said(libc::EDQUOT) && !said(libc::EIO));
    }

    #[test]
    fn system_calls_answer() {
        let (early, late) = (now(), now());
        assert!(early.mono_us <= late.mono_us && early.wall_ns > 1_600_000_000_000_000_000);
        assert_ne!(random_bytes::<16>().unwrap(), random_bytes::<16>().unwrap());
        let (total, free) = space(Path::new("/")).unwrap();
        assert!(total >= free && total > 0);
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"0123456789").unwrap();
        let mut bytes = BytesMut::from(&b"ab"[..]);
        read_exact_at(&file, 2, 3, &mut bytes).unwrap();
        assert_eq!(bytes, b"ab234"[..]);
        let beyond = read_exact_at(&file, 8, 3, &mut bytes).unwrap_err();
        assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof);
        let (a, _b) = UnixStream::pair().unwrap();
        let (me, pid) = (rustix::process::geteuid().as_raw(), std::process::id() as i32);
        assert!(matches!(peer(&a).unwrap(), Peer { uid, pid: of, .. } if uid == me && of == pid));
        let groups: Vec<u32> = rustix::process::getgroups().unwrap().iter().map(|gid| gid.as_raw()).collect();
        assert_eq!(peer_groups(&a).unwrap(), groups);
        assert!(peer_handle(&a).is_ok_and(|process| still_runs(&process)));
        wait_writable(&a).unwrap();
    }
}
