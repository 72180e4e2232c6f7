//! The file system interface of a session: what a mount (or any embedding program) asks, and what it gets.
//!
//! Shaped after FUSE's requests because the kernel is the most demanding caller, but free of its ABI.
#![allow(missing_docs)] // the variants and fields of FsOp are named after their system calls

pub mod describe;

use bytes::Bytes;
use onpath_wire::attr::AttrWire;
use onpath_wire::caller as wire;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{Cookie, InodeId};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::reply::DirEntry;
use onpath_wire::request::{FileLock, SetAttr};
use onpath_wire::xattr::XattrName;
use std::num::NonZeroU64;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Caller {
    /// Effective user id (for access(2) the real one).
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Thread id, from which the host reads supplementary groups and capabilities when they decide; 0 if unknown.
    pub pid: u32,
    /// A supplementary gid known to be the caller's (FUSE's CREATE_SUPP_GROUP extension).
    pub known_group: Option<u32>,
    /// The host lets everybody link to everything: proc(5), fs.protected_hardlinks.
    pub free_links: bool,
}

impl Caller {
    /// What is known of it before anything is read.
    pub fn told(&self) -> wire::Caller {
        let groups = wire::Groups { member: self.known_group.into_iter().collect(), ..wire::Groups::default() };
        wire::Caller { uid: self.uid, gid: self.gid, groups, caps: wire::Caps::default(), free_links: self.free_links }
    }
}

/// One request. `unique` names it in the reply and in an interrupt.
#[derive(Clone, Debug)]
pub struct FsRequest {
    /// Unique among requests in progress of this session.
    pub unique: u64,
    /// Who asks.
    pub caller: Caller,
    /// What is asked.
    pub op: FsOp,
    /// It is asked of what ways led to that the session kept in this state. ERESTART, and nothing has happened, if it has heard since that they
    /// may not be right: the path is to be resolved again.
    pub by_ways: Option<WaysAt>,
}

/// A state of the ways that a session keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaysAt(NonZeroU64);

impl WaysAt {
    /// In it nothing was heard yet.
    pub const NOTHING: WaysAt = WaysAt(NonZeroU64::MIN);

    /// The one after it.
    pub(crate) fn next(self) -> WaysAt {
        WaysAt(self.0.checked_add(1).expect("64 bits do not run out"))
    }

    /// As a number, for who keeps it in one.
    pub fn number(self) -> u64 {
        self.0.get()
    }

    /// Of a number; none of 0.
    pub fn of(number: u64) -> Option<WaysAt> {
        NonZeroU64::new(number).map(WaysAt)
    }
}

/// A handle of an open file or directory, given out by the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Handle(pub u64);

/// What an open asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct OpenMode {
    /// Read access.
    pub read: bool,
    /// Write access.
    pub write: bool,
    /// Execution (needs x instead of r).
    pub exec: bool,
    /// O_TRUNC.
    pub truncate: bool,
    /// O_APPEND: every write goes to the end of the file, decided by the file's home.
    pub append: bool,
    /// O_EXCL, with create.
    pub exclusive: bool,
    /// Clear setuid and setgid with O_TRUNC (the caller lacks CAP_FSETID).
    pub kill_suidgid: bool,
    /// O_NOATIME: reading leaves the access time alone.
    pub noatime: bool,
    /// Nothing keeps pages of it in memory, so it is not mapped either.
    pub direct: bool,
}

impl OpenMode {
    /// Whether a file that is opened so may be mapped and changed in memory.
    pub fn maps(self) -> bool {
        self.read && self.write && !self.direct
    }

    /// O_RDWR.
    pub const READ_WRITE: OpenMode = OpenMode {
        read: true,
        write: true,
        exec: false,
        truncate: false,
        append: false,
        exclusive: false,
        kill_suidgid: false,
        noatime: false,
        direct: false,
    };
}

/// The operations.
#[derive(Clone, Debug)]
pub enum FsOp {
    /// → `Entry`, `Missing`; ENOENT.
    Lookup { parent: InodeId, name: Name },
    /// An inode by its id alone, as a file handle names it (lookup of "."). → `Entry`; ESTALE.
    LookupId { id: InodeId },
    /// Follows names from a directory on, as far as a path node knows them and the caller may search. → `Resolved`; with `look` also
    /// `Entry`, `Missing` or an error, of the last name, or `Attr` of a file if all was said at once. `kept`: ways that the session keeps may lead
    Resolve { from: InodeId, names: Vec<Name>, look: bool, kept: bool },
    /// The parent of a directory (lookup of ".."). → `Entry`
    LookupParent { id: InodeId },
    /// `handle`: the file whose read(2) through the page cache begins with this. → `Attr`
    GetAttr { id: InodeId, handle: Option<Handle> },
    /// `handle`: the descriptor it came through, if any. → `Attr`
    SetAttr { id: InodeId, set: SetAttr, handle: Option<Handle> },
    /// → `Target`
    ReadLink { id: InodeId },
    /// mknod, mkdir, symlink. → `Entry`
    Make { parent: InodeId, name: Name, kind: Kind, mode: u16, umask: u16, rdev: u32, target: Vec<u8> },
    /// open(2) with O_CREAT of a name that the caller believes missing. → `Created`
    Create { parent: InodeId, name: Name, mode: u16, umask: u16, open: OpenMode },
    /// open(2) with O_TMPFILE; `open.exclusive`: it never gets a name. → `Created`
    TmpFile { parent: InodeId, mode: u16, umask: u16, open: OpenMode },
    /// → `Linked`
    Link { id: InodeId, parent: InodeId, name: Name },
    /// → `Done`
    Unlink { parent: InodeId, name: Name },
    /// → `Done`
    Rmdir { parent: InodeId, name: Name },
    /// `flags`: renameat2(2). → `Done`
    Rename { from_parent: InodeId, from: Name, parent: InodeId, name: Name, flags: u32 },
    /// → `Opened`
    Open { id: InodeId, mode: OpenMode },
    /// `page`: the mount keeps it in memory, where it may be changed. → `Data`
    Read { handle: Handle, offset: u64, bytes: u32, page: bool },
    /// `append`: the descriptor has O_APPEND now, so `offset` is only a guess (never with `page`). `kill_suidgid`: clear setuid and
    /// setgid. `page`: it was changed in memory and is written back. → `Written`
    Write { handle: Handle, offset: u64, data: Bytes, append: bool, kill_suidgid: bool, page: bool },
    /// close(2) of one descriptor: drops the fcntl locks of `lock_owner`. → `Done`
    Flush { handle: Handle, lock_owner: u64 },
    /// Last close of a handle. `flock_owner`: whose flock(2) locks go with it. → `Done`
    Release { handle: Handle, flock_owner: Option<u64> },
    /// fallocate(2) with its `mode`. → `Done`
    Allocate { handle: Handle, mode: u32, offset: u64, bytes: u64 },
    /// Where the next data begins, or with `hole` the next hole (SEEK_DATA, SEEK_HOLE). → `Position`
    Seek { handle: Handle, offset: u64, hole: bool },
    /// copy_file_range(2), short at the end of the source and where it is long. → `Copied`
    Copy { from: Handle, from_offset: u64, handle: Handle, offset: u64, bytes: u64 },
    /// fsync or fdatasync of a file or directory. → `Done`
    Fsync { handle: Handle },
    /// → `Opened`
    OpenDir { id: InodeId, noatime: bool },
    /// Entries after a cookie, at most about `bytes` of them; "." and ".." come first. → `Dir`
    ReadDir { handle: Handle, after: Cookie, bytes: u32 },
    /// The same with attributes, one message a shard more. → `DirPlus`
    ReadDirPlus { handle: Handle, after: Cookie, bytes: u32 },
    /// → `Done`
    ReleaseDir { handle: Handle },
    /// → `StatFs`
    StatFs,
    /// access(2): 4 r, 2 w, 1 x. → `Done`
    Access { id: InodeId, mask: u32 },
    /// `flags` as of setxattr(2). → `Done`
    SetXattr { id: InodeId, name: XattrName, value: Vec<u8>, flags: u32 },
    /// `probe`: the caller wants to know the length only. → `Value`
    GetXattr { id: InodeId, name: XattrName, probe: bool },
    /// Names, each with a NUL behind it. → `Value`
    ListXattr { id: InodeId },
    /// → `Done`
    RemoveXattr { id: InodeId, name: XattrName },
    /// F_GETLK. → `LockIs`
    TestLock { handle: Handle, lock: FileLock },
    /// F_SETLK, F_SETLKW, flock. → `Done`
    SetLock { handle: Handle, lock: FileLock, wait: bool },
    /// The caller of request `unique` got a signal: a waiting lock ends with EINTR (the home decides the race). No reply of its own.
    Interrupt { unique: u64 },
}

/// Totals for statfs(2), in 4 KiB blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Totals {
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Inodes in use.
    pub inodes: u64,
}

/// How an opened handle may be cached (what the kernel does with it: kernel-fuse.md, "Bytes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The handle.
    pub handle: Handle,
    /// The caller should bypass its page cache: another session has the inode open, or it was opened with O_APPEND (a write through
    /// the page cache may become several requests, between which others append), or it is a new file that is only written.
    pub shared: bool,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub enum FsReply {
    /// Done, nothing to say.
    Done,
    /// A name's inode.
    Entry(AttrWire),
    /// There is no such name, and everybody may search its directory.
    Missing,
    /// How far names led: to this directory, by so many of them. The others are to be looked up one by one. `by_ways`: that was so once, as kept
    /// ways have it; who asks next for something there says that it rests on them.
    Resolved { dir: InodeId, names: usize, by_ways: Option<WaysAt> },
    /// The inode of a further name. Its change time is not exact.
    Linked(AttrWire),
    /// Attributes, and when the inode was made, nanoseconds since 1970.
    Attr { attr: AttrWire, btime: i64 },
    /// Target of a symlink.
    Target(Vec<u8>),
    /// Opened.
    Opened(Opened),
    /// Created (or found, without O_EXCL) and opened. `fresh`: this request made it.
    Created { attr: AttrWire, opened: Opened, fresh: bool },
    /// Bytes read; fewer than asked at the end of the file.
    Data(Vec<Bytes>),
    /// Bytes written.
    Written(u32),
    /// Where data or a hole begins.
    Position(u64),
    /// Bytes copied.
    Copied(u64),
    /// A page of a listing.
    Dir(Vec<DirEntry>),
    /// The same with attributes: none of a child that vanishes, changes just now or is slow to read, nor in a directory that not everybody may
    /// search.
    DirPlus(Vec<(DirEntry, Option<AttrWire>)>),
    /// Value of an extended attribute, or names of several.
    Value(Vec<u8>),
    /// Totals.
    StatFs(Totals),
    /// F_GETLK: the conflicting lock.
    LockIs(Option<FileLock>),
}

/// What comes back to the mount.
pub type FsResult = Result<FsReply, Errno>;
