//! Kernel requests as session requests.

use std::ffi::CStr;

use onpath_session::fs::{Caller, FsOp, FsRequest, Handle, OpenMode};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{Cookie, InodeId};
use onpath_wire::inode::Kind;
use onpath_wire::limits::TARGET_BYTES_MAX;
use onpath_wire::name::Name;
use onpath_wire::request::{FileLock, LockKind, SetAttr, set};
use onpath_wire::xattr::XattrName;
use rustix::fs::OFlags;

use super::nodes::inode_id;
use super::{Expected, Prepared, protected};
use crate::reply::Replier;
use crate::request::{LockRequest, Operation, Request, SetAttributes, SetTime};

/// The kernel's mark of an open by execve(2), beside the flags of open(2).
const FMODE_EXEC: u32 = 0x20;
/// Largest count that the 32-bit COPY_FILE_RANGE can answer, in whole pages.
const COPY_BYTES_MAX: u64 = u32::MAX as u64 & !4095;
/// Kinds of lseek(2) that the kernel passes on.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;
/// Kind of a lock request that removes a lock.
pub(super) const F_UNLCK: u32 = 2;
/// F_RDLCK, F_WRLCK, F_UNLCK of fcntl(2).
pub(super) const LOCK_KINDS: [LockKind; 3] = [LockKind::Read, LockKind::Write, LockKind::Unlock];
/// A record of READDIRPLUS takes at least four times what the session counts for its entry.
const PLUS_SIZE_FACTOR: u32 = 4;

pub(super) fn os(errno: Errno) -> rustix::io::Errno {
    rustix::io::Errno::from_raw_os_error(errno.raw())
}

/// The session's request, or `None` if the answer is given already.
pub(super) fn convert(request: &Request<'_>, replier: Replier) -> Option<Prepared> {
    let header = request.header;
    let expected = expected(request);
    match operation(request) {
        Ok(op) => {
            let links = matches!(op, FsOp::Link { .. });
            let caller = Caller {
                uid: header.uid,
                gid: header.gid,
                pid: header.pid,
                known_group: request.supplementary_group,
                free_links: links && !protected::levels().keeps_links(),
            };
            Some(Prepared {
                replier,
                request: FsRequest { unique: header.unique, caller, op, by_ways: None },
                expected,
            })
        }
        Err(errno) => {
            replier.error(os(errno));
            None
        }
    }
}

fn expected(request: &Request<'_>) -> Expected {
    match request.operation {
        Operation::Lookup { .. } => Expected::Name,
        Operation::Getattr { .. } => Expected::Attributes,
        Operation::Statx { .. } => Expected::Statx,
        Operation::Statfs => Expected::Totals,
        Operation::CopyFileRange { wide, .. } => Expected::Copy { wide },
        Operation::Open { flags, .. } | Operation::Create { flags, .. } => {
            Expected::OpenFile { read_write: is_read_write(flags) }
        }
        Operation::Tmpfile { flags, .. } => Expected::OpenNameless { read_write: is_read_write(flags) },
        Operation::Opendir { .. } => Expected::OpenDirectory,
        Operation::Getxattr { size, .. } | Operation::Listxattr { size } => Expected::Xattr { size },
        Operation::Readdir { size, .. } => Expected::Page { size, plus: false },
        Operation::Readdirplus { size, .. } => Expected::Page { size, plus: true },
        _ => Expected::Simple,
    }
}

fn operation(request: &Request<'_>) -> Result<FsOp, Errno> {
    let id = inode_id(request.header.nodeid);
    Ok(match request.operation {
        // By these the kernel finds again what it has forgotten, for open_by_handle_at(2) and NFS.
        Operation::Lookup { name } if name == c"." => FsOp::LookupId { id },
        Operation::Lookup { name } if name == c".." => FsOp::LookupParent { id },
        Operation::Lookup { name } => FsOp::Lookup { parent: id, name: checked(name)? },
        Operation::Getattr { handle } | Operation::Statx { handle, .. } => {
            FsOp::GetAttr { id, handle: handle.map(Handle) }
        }
        Operation::Setattr(attributes) => {
            FsOp::SetAttr { id, set: set_attr(&attributes), handle: attributes.handle.map(Handle) }
        }
        Operation::Readlink => FsOp::ReadLink { id },
        Operation::Symlink { .. } | Operation::Mknod { .. } | Operation::Mkdir { .. } => make(id, &request.operation)?,
        Operation::Unlink { name } => FsOp::Unlink { parent: id, name: checked(name)? },
        Operation::Rmdir { name } => FsOp::Rmdir { parent: id, name: checked(name)? },
        Operation::Rename { name, new_parent, new_name, flags } => FsOp::Rename {
            from_parent: id,
            from: checked(name)?,
            parent: inode_id(new_parent),
            name: checked(new_name)?,
            flags,
        },
        Operation::Link { inode, name } => FsOp::Link { id: inode_id(inode), parent: id, name: checked(name)? },
        Operation::Open { flags, kill_suidgid } => FsOp::Open { id, mode: open_mode(flags, kill_suidgid) },
        Operation::Create { name, flags, mode, umask, kill_suidgid } => FsOp::Create {
            parent: id,
            name: checked(name)?,
            mode: permissions(mode),
            umask: permissions(umask),
            open: open_mode(flags, kill_suidgid),
        },
        Operation::Tmpfile { flags, mode, umask } => FsOp::TmpFile {
            parent: id,
            mode: permissions(mode),
            umask: permissions(umask),
            open: open_mode(flags, false),
        },
        Operation::Opendir { flags } => {
            FsOp::OpenDir { id, noatime: OFlags::from_bits_retain(flags).contains(OFlags::NOATIME) }
        }
        Operation::Statfs => FsOp::StatFs,
        Operation::Access { mask } => FsOp::Access { id, mask },
        Operation::Setxattr { name, value, flags } => {
            FsOp::SetXattr { id, name: XattrName::new(name.to_bytes())?, value: value.to_vec(), flags }
        }
        Operation::Getxattr { name, size } => {
            FsOp::GetXattr { id, name: XattrName::new(name.to_bytes())?, probe: size == 0 }
        }
        Operation::Listxattr { .. } => FsOp::ListXattr { id },
        Operation::Removexattr { name } => FsOp::RemoveXattr { id, name: XattrName::new(name.to_bytes())? },
        _ => return handle_operation(&request.operation),
    })
}

fn handle_operation(operation: &Operation<'_>) -> Result<FsOp, Errno> {
    Ok(match *operation {
        // What bypasses the page cache names an owner of locks.
        Operation::Read { handle, offset, size, lock_owner, .. } => {
            FsOp::Read { handle: Handle(handle), offset, bytes: size, page: lock_owner.is_none() }
        }
        Operation::Write { handle, offset, data, flags, kill_suidgid, from_cache, .. } => {
            // The descriptor's flags of now; a page that is written back has its place, whatever they say.
            let append = flags & OFlags::APPEND.bits() != 0 && !from_cache;
            let data = data.to_bytes();
            FsOp::Write { handle: Handle(handle), offset, data, append, kill_suidgid, page: from_cache }
        }
        Operation::Flush { handle, lock_owner } => FsOp::Flush { handle: Handle(handle), lock_owner },
        Operation::Release { handle, flock_owner, .. } => FsOp::Release { handle: Handle(handle), flock_owner },
        Operation::Fallocate { handle, offset, length, mode } => {
            FsOp::Allocate { handle: Handle(handle), mode, offset, bytes: length }
        }
        Operation::Lseek { handle, offset, whence } => seek(handle, offset, whence)?,
        Operation::CopyFileRange { flags: 0, handle, offset, to_handle, to_offset, length, wide, .. } => FsOp::Copy {
            from: Handle(handle),
            from_offset: offset,
            handle: Handle(to_handle),
            offset: to_offset,
            bytes: if wide { length } else { length.min(COPY_BYTES_MAX) },
        },
        Operation::CopyFileRange { .. } => return Err(Errno::EINVAL),
        Operation::Fsync { handle, .. } | Operation::Fsyncdir { handle, .. } => FsOp::Fsync { handle: Handle(handle) },
        Operation::Readdir { handle, offset, size } => {
            FsOp::ReadDir { handle: Handle(handle), after: Cookie(offset), bytes: size }
        }
        Operation::Readdirplus { handle, offset, size } => {
            FsOp::ReadDirPlus { handle: Handle(handle), after: Cookie(offset), bytes: size / PLUS_SIZE_FACTOR }
        }
        Operation::Releasedir { handle, .. } => FsOp::ReleaseDir { handle: Handle(handle) },
        Operation::Getlk(lock) => FsOp::TestLock { handle: Handle(lock.handle), lock: file_lock(&lock)? },
        Operation::Setlk { lock, wait } => FsOp::SetLock { handle: Handle(lock.handle), lock: file_lock(&lock)?, wait },
        Operation::Ioctl { .. } => return Err(Errno::ENOTTY),
        _ => return Err(Errno::ENOSYS),
    })
}

/// The kernel decides all other kinds by itself.
fn seek(handle: u64, offset: i64, whence: u32) -> Result<FsOp, Errno> {
    let hole = match whence {
        SEEK_DATA => false,
        SEEK_HOLE => true,
        _ => return Err(Errno::EINVAL),
    };
    let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
    Ok(FsOp::Seek { handle: Handle(handle), offset, hole })
}

fn checked(name: &CStr) -> Result<Name, Errno> {
    Name::new(name.to_bytes())
}

/// Permission bits, setuid, setgid and sticky.
fn permissions(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

fn make(parent: InodeId, operation: &Operation<'_>) -> Result<FsOp, Errno> {
    let (name, kind, mode, umask, rdev, target) = match *operation {
        Operation::Symlink { name, target } => match target.to_bytes() {
            target if target.len() > TARGET_BYTES_MAX => return Err(Errno::ENAMETOOLONG),
            target => (name, Kind::Symlink, 0o777, 0, 0, target),
        },
        Operation::Mkdir { name, mode, umask } => (name, Kind::Directory, mode, umask, 0, &[][..]),
        Operation::Mknod { name, mode, umask, device } => {
            (name, Kind::from_mode(mode).ok_or(Errno::EINVAL)?, mode, umask, device, &[][..])
        }
        _ => return Err(Errno::ENOSYS),
    };
    let (mode, umask) = (permissions(mode), permissions(umask));
    Ok(FsOp::Make { parent, name: checked(name)?, kind, mode, umask, rdev, target: target.to_vec() })
}

fn is_read_write(flags: u32) -> bool {
    OFlags::from_bits_retain(flags) & OFlags::ACCMODE == OFlags::RDWR
}

fn open_mode(flags: u32, kill_suidgid: bool) -> OpenMode {
    let flags_of_open = OFlags::from_bits_retain(flags);
    let access = flags_of_open & OFlags::ACCMODE;
    let exec = flags & FMODE_EXEC != 0;
    OpenMode {
        read: access != OFlags::WRONLY && !exec,
        write: access != OFlags::RDONLY,
        exec,
        truncate: flags_of_open.contains(OFlags::TRUNC),
        append: flags_of_open.contains(OFlags::APPEND),
        exclusive: flags_of_open.contains(OFlags::EXCL),
        kill_suidgid,
        noatime: flags_of_open.contains(OFlags::NOATIME),
        direct: false, // who has O_DIRECT may map the file all the same
    }
}

/// Nanoseconds since 1970, or the nearest that fits.
fn nanoseconds(seconds: i64, nanoseconds: u32) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(nanoseconds))
}

fn set_attr(attributes: &SetAttributes) -> SetAttr {
    let time = |time: Option<SetTime>, bit: u32, now_bit: u32| match time {
        None => (0, 0),
        Some(SetTime::Now) => (bit | now_bit, 0),
        Some(SetTime::At { seconds, nanoseconds: below }) => (bit, nanoseconds(seconds, below)),
    };
    let bit = |present: bool, bit: u32| if present { bit } else { 0 };
    let (atime_bits, atime) = time(attributes.atime, set::ATIME, set::ATIME_NOW);
    let (mtime_bits, mtime) = time(attributes.mtime, set::MTIME, set::MTIME_NOW);
    let through_descriptor = attributes.size.is_some() && attributes.handle.is_some();
    let changes = atime_bits
        | mtime_bits
        | bit(attributes.mode.is_some(), set::MODE)
        | bit(attributes.uid.is_some(), set::UID)
        | bit(attributes.gid.is_some(), set::GID)
        | bit(attributes.size.is_some(), set::SIZE);
    // Nothing to set is how a chown arrives that keeps both ids: it clears the bits all the same. The kernel also sends it before some writes.
    let kill_suidgid = attributes.kill_suidgid || changes == 0 && attributes.ctime.is_none();
    SetAttr {
        valid: changes | bit(kill_suidgid, set::KILL_SUIDGID) | bit(through_descriptor, set::OPEN_FOR_WRITE),
        mode: permissions(attributes.mode.unwrap_or_default()),
        uid: attributes.uid.unwrap_or_default(),
        gid: attributes.gid.unwrap_or_default(),
        size: attributes.size.unwrap_or_default(),
        atime,
        mtime,
    }
}

fn file_lock(lock: &LockRequest) -> Result<FileLock, Errno> {
    let kind = usize::try_from(lock.kind).ok().and_then(|kind| LOCK_KINDS.get(kind));
    Ok(FileLock {
        flock: lock.flock,
        kind: *kind.ok_or(Errno::EINVAL)?,
        start: lock.start,
        end: lock.end,
        owner: lock.owner,
        pid: lock.pid,
    })
}
