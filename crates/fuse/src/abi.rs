//! The kernel's side of the mount: structures, opcodes and flag bits of the FUSE protocol, versions 7.31 to 7.45.
//!
//! Field names are the kernel's own (`include/uapi/linux/fuse.h`), so that its documentation applies. Structures are read
//! by copy and written as bytes through `zerocopy`; none has hidden padding, which the derives check.
#![allow(missing_docs, reason = "the kernel's header documents these names; what differs from it is commented")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Protocol major version. Another major is refused.
pub const KERNEL_VERSION: u32 = 7;
/// The newest minor version we speak; the smaller of ours and the kernel's counts.
pub const KERNEL_MINOR_VERSION: u32 = 45;
/// The oldest minor version accepted (Linux 5.4): `MAX_PAGES`, `PARALLEL_DIROPS` and full-size structures are certain.
pub const KERNEL_MINOR_VERSION_MIN: u32 = 31;
/// Node id of the root directory.
pub const ROOT_ID: u64 = 1;

macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident { $($field:ident : $ty:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub struct $name { $(pub $field: $ty),* }
    )*};
}

structures! {
    InHeader { len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32, total_extlen: u16, padding: u16 }
    OutHeader { len: u32, error: i32, unique: u64 }

    Attr {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, nlink: u32,
        uid: u32, gid: u32, rdev: u32, blksize: u32, flags: u32,
    }
    SxTime { tv_sec: i64, tv_nsec: u32, reserved: i32 }
    Statx {
        mask: u32, blksize: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16, spare0: u16,
        ino: u64, size: u64, blocks: u64, attributes_mask: u64,
        atime: SxTime, btime: SxTime, ctime: SxTime, mtime: SxTime,
        rdev_major: u32, rdev_minor: u32, dev_major: u32, dev_minor: u32, spare2: [u64; 14],
    }
    Kstatfs {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64,
        bsize: u32, namelen: u32, frsize: u32, padding: u32, spare: [u32; 6],
    }
    FileLock { start: u64, end: u64, kind: u32, pid: u32 }

    InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32 }
    /// What follows `InitIn` when `INIT_EXT` is set.
    InitInExt { flags2: u32, unused: [u32; 11] }
    InitOut {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion_threshold: u16,
        max_write: u32, time_gran: u32, max_pages: u16, map_alignment: u16, flags2: u32, max_stack_depth: u32,
        request_timeout: u16, unused: [u16; 11],
    }

    EntryOut {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32, attr_valid_nsec: u32, attr: Attr,
    }
    ForgetIn { nlookup: u64 }
    ForgetOne { nodeid: u64, nlookup: u64 }
    BatchForgetIn { count: u32, dummy: u32 }
    GetattrIn { getattr_flags: u32, dummy: u32, fh: u64 }
    AttrOut { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr }
    StatxIn { getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32 }
    StatxOut { attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], stat: Statx }
    MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32 }
    MkdirIn { mode: u32, umask: u32 }
    RenameIn { newdir: u64 }
    Rename2In { newdir: u64, flags: u32, padding: u32 }
    LinkIn { oldnodeid: u64 }
    SetattrIn {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
    OpenIn { flags: u32, open_flags: u32 }
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    OpenOut { fh: u64, open_flags: u32, backing_id: i32 }
    ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64 }
    FlushIn { fh: u64, unused: u32, padding: u32, lock_owner: u64 }
    ReadIn { fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    WriteIn { fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    WriteOut { size: u32, padding: u32 }
    FsyncIn { fh: u64, fsync_flags: u32, padding: u32 }
    /// Without `SETXATTR_EXT`, which is not negotiated.
    SetxattrIn { size: u32, flags: u32 }
    GetxattrIn { size: u32, padding: u32 }
    GetxattrOut { size: u32, padding: u32 }
    LkIn { fh: u64, owner: u64, lk: FileLock, lk_flags: u32, padding: u32 }
    LkOut { lk: FileLock }
    AccessIn { mask: u32, padding: u32 }
    InterruptIn { unique: u64 }
    IoctlIn { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32 }
    PollIn { fh: u64, kh: u64, flags: u32, events: u32 }
    PollOut { revents: u32, padding: u32 }
    FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32 }
    LseekIn { fh: u64, offset: u64, whence: u32, padding: u32 }
    LseekOut { offset: u64 }
    CopyFileRangeIn { fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64 }
    CopyFileRangeOut { bytes_copied: u64 }
    /// A directory entry without its name; the record is padded to 8 bytes.
    Dirent { ino: u64, off: u64, namelen: u32, kind: u32 }
    ExtHeader { size: u32, kind: u32 }

    NotifyInvalInodeOut { ino: u64, off: i64, len: i64 }
    NotifyInvalEntryOut { parent: u64, namelen: u32, flags: u32 }
    NotifyDeleteOut { parent: u64, child: u64, namelen: u32, padding: u32 }
}

macro_rules! opcodes {
    ($($name:ident = $value:literal),* $(,)?) => {
        /// Request codes.
        pub mod opcode { $(pub const $name: u32 = $value;)* }
        /// The kernel's name of an opcode, for messages.
        pub fn opcode_name(opcode: u32) -> &'static str {
            match opcode { $($value => stringify!($name),)* _ => "UNKNOWN" }
        }
    };
}

opcodes! {
    LOOKUP = 1, FORGET = 2, GETATTR = 3, SETATTR = 4, READLINK = 5, SYMLINK = 6, MKNOD = 8, MKDIR = 9, UNLINK = 10,
    RMDIR = 11, RENAME = 12, LINK = 13, OPEN = 14, READ = 15, WRITE = 16, STATFS = 17, RELEASE = 18, FSYNC = 20,
    SETXATTR = 21, GETXATTR = 22, LISTXATTR = 23, REMOVEXATTR = 24, FLUSH = 25, INIT = 26, OPENDIR = 27, READDIR = 28,
    RELEASEDIR = 29, FSYNCDIR = 30, GETLK = 31, SETLK = 32, SETLKW = 33, ACCESS = 34, CREATE = 35, INTERRUPT = 36,
    BMAP = 37, DESTROY = 38, IOCTL = 39, POLL = 40, NOTIFY_REPLY = 41, BATCH_FORGET = 42, FALLOCATE = 43,
    READDIRPLUS = 44, RENAME2 = 45, LSEEK = 46, COPY_FILE_RANGE = 47, SETUPMAPPING = 48, REMOVEMAPPING = 49,
    SYNCFS = 50, TMPFILE = 51, STATX = 52, COPY_FILE_RANGE_64 = 53,
}

/// INIT flags; bits 32 and up travel in `flags2`.
pub mod init {
    pub const ASYNC_READ: u64 = 1 << 0;
    pub const POSIX_LOCKS: u64 = 1 << 1;
    pub const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DONT_MASK: u64 = 1 << 6;
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    pub const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const WRITEBACK_CACHE: u64 = 1 << 16;
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const POSIX_ACL: u64 = 1 << 20;
    pub const ABORT_ERROR: u64 = 1 << 21;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub const SETXATTR_EXT: u64 = 1 << 29;
    pub const INIT_EXT: u64 = 1 << 30;
    pub const SECURITY_CTX: u64 = 1 << 32;
    pub const CREATE_SUPP_GROUP: u64 = 1 << 34;
    pub const HAS_EXPIRE_ONLY: u64 = 1 << 35;
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub const PASSTHROUGH: u64 = 1 << 37;
    pub const ALLOW_IDMAP: u64 = 1 << 40;
}

/// Flags in the reply to OPEN, OPENDIR, CREATE and TMPFILE.
pub mod fopen {
    pub const DIRECT_IO: u32 = 1 << 0;
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const NONSEEKABLE: u32 = 1 << 2;
    pub const CACHE_DIR: u32 = 1 << 3;
    pub const STREAM: u32 = 1 << 4;
    pub const NOFLUSH: u32 = 1 << 5;
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Bits of `SetattrIn::valid`.
pub mod fattr {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const FH: u32 = 1 << 6;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const LOCKOWNER: u32 = 1 << 9;
    pub const CTIME: u32 = 1 << 10;
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

/// Codes of messages sent without a request.
pub mod notify {
    pub const INVAL_INODE: i32 = 2;
    pub const INVAL_ENTRY: i32 = 3;
    pub const DELETE: i32 = 6;
    pub const INC_EPOCH: i32 = 8;
    /// Flag of `INVAL_ENTRY`: the next lookup asks again, mounts on the name survive.
    pub const EXPIRE_ONLY: u32 = 1 << 0;
}

/// Bit of `GetattrIn::getattr_flags` and `StatxIn::getattr_flags`: the file handle is valid.
pub const GETATTR_FH: u32 = 1 << 0;
/// Bit of `OpenIn::open_flags`: clear suid and sgid (O_TRUNC by a caller without CAP_FSETID).
pub const OPEN_KILL_SUIDGID: u32 = 1 << 0;
/// Bit of `WriteIn::write_flags`: written back from the page cache, the handle is a guess.
pub const WRITE_CACHE: u32 = 1 << 0;
/// Bit of `WriteIn::write_flags`: `lock_owner` is valid.
pub const WRITE_LOCKOWNER: u32 = 1 << 1;
/// Bit of `WriteIn::write_flags`: clear suid and sgid.
pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// Bit of `ReadIn::read_flags`: `lock_owner` is valid.
pub const READ_LOCKOWNER: u32 = 1 << 1;
/// Bit of `ReleaseIn::release_flags`: release the owner's flock.
pub const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
/// Bit of `LkIn::lk_flags`: flock(2), not fcntl(2).
pub const LK_FLOCK: u32 = 1 << 0;
/// Bit of `FsyncIn::fsync_flags`: data only.
pub const FSYNC_FDATASYNC: u32 = 1 << 0;
/// Extension type: supplementary groups of the caller.
pub const EXT_GROUPS: u32 = 32;
/// Bit of `unique` on a request that was queued again after a RESEND.
pub const UNIQUE_RESEND: u64 = 1 << 63;
