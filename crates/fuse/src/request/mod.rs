//! Requests of the kernel as typed values that borrow from the buffer they were read into.
//!
//! [`Request::parse`] is total: bytes that are no request give a [`ParseError`], which the event loop answers with EIO.

mod parse;
#[cfg(test)]
mod tests;

use std::ffi::CStr;
use std::fmt;

use zerocopy::FromBytes;

use crate::abi;
use crate::transport::Payload;

pub use parse::ParseError;

/// Who asks, about what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the operation.
    pub opcode: u32,
    /// Number of the request; the reply repeats it. Bit 63 marks a repetition after a RESEND.
    pub unique: u64,
    /// The inode the request is about; for names, the directory that holds them.
    pub nodeid: u64,
    /// User id that counts for access to files (the real one for access(2)).
    pub uid: u32,
    /// Group id that counts for access to files.
    pub gid: u32,
    /// Thread id of the caller; 0 if it is not visible from our pid namespace.
    pub pid: u32,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Who asks, about what.
    pub header: Header,
    /// With requests that create something: the parent's group as the kernel knows it, if the caller is in it beside its
    /// primary group. `None` does not say that the caller is not a member.
    pub supplementary_group: Option<u32>,
    /// What is asked.
    pub operation: Operation<'a>,
}

/// A timestamp of SETATTR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The server's present time.
    Now,
    /// Seconds since 1970 (negative before) and nanoseconds.
    At {
        /// Seconds.
        seconds: i64,
        /// Nanoseconds, below 10^9.
        nanoseconds: u32,
    },
}

/// The attributes that SETATTR changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Handle the change is made through (ftruncate, futimens).
    pub handle: Option<u64>,
    /// Permission bits with file type.
    pub mode: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size in bytes.
    pub size: Option<u64>,
    /// New access time.
    pub atime: Option<SetTime>,
    /// New modification time.
    pub mtime: Option<SetTime>,
    /// New change time (sent with write-back caching only).
    pub ctime: Option<SetTime>,
    /// Owner of mandatory locks, with a change of size.
    pub lock_owner: Option<u64>,
    /// Clear suid, and sgid where the group may execute.
    pub kill_suidgid: bool,
}

/// A record lock or flock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// Handle of the file.
    pub handle: u64,
    /// Owner: one number per file table (fcntl), per open file (OFD, flock).
    pub owner: u64,
    /// First byte.
    pub start: u64,
    /// Last byte, inclusive; `i64::MAX as u64` means to the end.
    pub end: u64,
    /// F_RDLCK, F_WRLCK or F_UNLCK.
    pub kind: u32,
    /// Process id of the caller, for F_GETLK by others.
    pub pid: u32,
    /// flock(2): a lock space of its own.
    pub flock: bool,
}

/// The inodes of FORGET and BATCH_FORGET.
#[derive(Clone, Copy)]
pub struct Forgets<'a>(pub(crate) &'a [u8]);

impl Forgets<'_> {
    /// The inodes and how many lookups of each are taken back.
    pub fn iter(&self) -> impl Iterator<Item = abi::ForgetOne> {
        let size = size_of::<abi::ForgetOne>();
        self.0.chunks_exact(size).filter_map(|bytes| abi::ForgetOne::read_from_bytes(bytes).ok())
    }
}

impl fmt::Debug for Forgets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// What the kernel asks for. Names never contain NUL or '/' and are never empty; their length is not limited here.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "fields follow the system calls they come from; what differs is commented")]
pub enum Operation<'a> {
    Lookup {
        name: &'a CStr,
    },
    /// No reply.
    Forget {
        lookups: u64,
    },
    /// No reply.
    BatchForget {
        forgets: Forgets<'a>,
    },
    Getattr {
        handle: Option<u64>,
    },
    Statx {
        handle: Option<u64>,
        flags: u32,
        mask: u32,
    },
    Setattr(SetAttributes),
    Readlink,
    Symlink {
        name: &'a CStr,
        target: &'a CStr,
    },
    /// `mode` is as the caller gave it: `umask` is still to be applied, unless a default ACL takes its place.
    Mknod {
        name: &'a CStr,
        mode: u32,
        umask: u32,
        device: u32,
    },
    Mkdir {
        name: &'a CStr,
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a CStr,
    },
    Rmdir {
        name: &'a CStr,
    },
    /// RENAME and RENAME2; `flags` are those of renameat2(2).
    Rename {
        name: &'a CStr,
        new_parent: u64,
        new_name: &'a CStr,
        flags: u32,
    },
    /// A new name for inode `inode` in the directory of the header.
    Link {
        inode: u64,
        name: &'a CStr,
    },
    /// `flags` as of open(2), FMODE_EXEC (0x20) for execve. `kill_suidgid` goes with O_TRUNC.
    Open {
        flags: u32,
        kill_suidgid: bool,
    },
    Opendir {
        flags: u32,
    },
    Create {
        name: &'a CStr,
        flags: u32,
        mode: u32,
        umask: u32,
        kill_suidgid: bool,
    },
    /// A file without a name in the directory of the header.
    Tmpfile {
        flags: u32,
        mode: u32,
        umask: u32,
    },
    Read {
        handle: u64,
        offset: u64,
        size: u32,
        flags: u32,
        lock_owner: Option<u64>,
    },
    /// `from_cache`: written back by the kernel, the handle is a guess and the caller's ids are not the writer's.
    Write {
        handle: u64,
        offset: u64,
        data: Payload<'a>,
        flags: u32,
        lock_owner: Option<u64>,
        kill_suidgid: bool,
        from_cache: bool,
    },
    Readdir {
        handle: u64,
        offset: u64,
        size: u32,
    },
    Readdirplus {
        handle: u64,
        offset: u64,
        size: u32,
    },
    Statfs,
    Flush {
        handle: u64,
        lock_owner: u64,
    },
    /// `flock_owner`: the handle held a flock, release it.
    Release {
        handle: u64,
        flags: u32,
        flock_owner: Option<u64>,
    },
    Releasedir {
        handle: u64,
        flags: u32,
    },
    Fsync {
        handle: u64,
        data_only: bool,
    },
    Fsyncdir {
        handle: u64,
        data_only: bool,
    },
    Setxattr {
        name: &'a CStr,
        value: &'a [u8],
        flags: u32,
    },
    /// `size` 0 asks for the length of the value.
    Getxattr {
        name: &'a CStr,
        size: u32,
    },
    /// `size` 0 asks for the length of the list.
    Listxattr {
        size: u32,
    },
    Removexattr {
        name: &'a CStr,
    },
    Getlk(LockRequest),
    Setlk {
        lock: LockRequest,
        wait: bool,
    },
    Access {
        mask: u32,
    },
    /// The caller of request `unique` got a signal. No reply.
    Interrupt {
        unique: u64,
    },
    Init {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u64,
    },
    Destroy,
    Ioctl {
        handle: u64,
        flags: u32,
        command: u32,
        argument: u64,
        input: &'a [u8],
        output_size: u32,
    },
    Poll {
        handle: u64,
        poll_handle: u64,
        flags: u32,
        events: u32,
    },
    Fallocate {
        handle: u64,
        offset: u64,
        length: u64,
        mode: u32,
    },
    Lseek {
        handle: u64,
        offset: i64,
        whence: u32,
    },
    /// COPY_FILE_RANGE (reply: 32-bit count) and COPY_FILE_RANGE_64 (`wide`: 64-bit count).
    CopyFileRange {
        handle: u64,
        offset: u64,
        to_inode: u64,
        to_handle: u64,
        to_offset: u64,
        length: u64,
        flags: u64,
        wide: bool,
    },
    /// Answered ENOSYS.
    Unknown {
        opcode: u32,
    },
}
