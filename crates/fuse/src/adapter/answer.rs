//! Session answers as replies to the kernel.

use onpath_session::fs::{FsReply, FsResult, Handle, Opened, Totals};
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::inode::Kind;
use onpath_wire::limits::{BLOCK_BYTES, NAME_BYTES_MAX};
use onpath_wire::reply::DirEntry;
use onpath_wire::request::FileLock;
use rustix::fs::StatxFlags;
use rustix::io::Errno;

use super::Expected;
use super::caching::{Valid, named};
use super::convert::{F_UNLCK, LOCK_KINDS, os};
use super::nodes::{self, node_id};
use super::numbers::Numbers;
use super::protected::depends;
use crate::abi::{self, fopen};
use crate::reply::{DirectoryBuffer, DirectoryEntry, Entry, Replier};

/// The size of reads and writes that programs are advised to use: stdio buffers so much, and each write is a request.
const PREFERRED_IO_BYTES: u32 = 128 << 10;

/// Gives the kernel its answer, which it may cache as `valid` says.
pub(super) fn answer(replier: Replier, expected: Expected, result: FsResult, valid: Valid, numbers: Numbers) {
    match (expected, result) {
        (_, Err(errno)) => replier.error(os(errno)),
        (Expected::Page { size, plus }, Ok(FsReply::Dir(entries))) => {
            list(replier, size, plus, entries.iter().map(|entry| (entry, None)), (valid, numbers));
        }
        (Expected::Page { size, plus: true }, Ok(FsReply::DirPlus(entries))) => {
            list(replier, size, true, entries.iter().map(|(entry, attr)| (entry, attr.as_ref())), (valid, numbers));
        }
        (Expected::OpenFile { .. }, Ok(FsReply::Opened(opened))) => replier.opened(&file(opened)),
        (Expected::OpenFile { .. }, Ok(FsReply::Created { attr, opened, .. })) => {
            replier.created(&entry(&attr, valid, numbers), &file(opened));
        }
        (Expected::OpenNameless { .. }, Ok(FsReply::Created { attr, opened, .. })) => {
            // Its link count is 0, by which the kernel knows that O_EXCL forbids a name.
            let nameless = Entry { attr: attributes(&attr, numbers), ..entry(&attr, Valid::default(), numbers) };
            replier.created(&nameless, &file(opened));
        }
        (Expected::OpenDirectory, Ok(FsReply::Opened(opened))) => {
            replier.opened(&crate::reply::Opened { handle: opened.handle.0, flags: 0 });
        }
        (Expected::Xattr { size }, Ok(FsReply::Value(value))) => replier.xattr(size, &value),
        (Expected::Statx, Ok(FsReply::Attr { attr, btime })) => {
            replier.statx(&extended(&attr, btime, numbers), valid.attributes)
        }
        (Expected::Copy { wide }, Ok(FsReply::Copied(bytes))) => replier.copied(bytes, wide),
        // No inode: the kernel remembers that there is none by this name.
        (Expected::Name, Ok(FsReply::Missing)) if !valid.name.is_zero() => {
            replier.entry(&Entry { entry_valid: valid.name, ..Entry::default() });
        }
        (Expected::Name, Ok(FsReply::Missing)) => replier.error(Errno::NOENT),
        (_, Ok(reply)) => simple(replier, &reply, valid, numbers),
    }
}

fn simple(replier: Replier, reply: &FsReply, valid: Valid, numbers: Numbers) {
    match reply {
        FsReply::Done => replier.ok(),
        FsReply::Entry(attr) | FsReply::Linked(attr) => replier.entry(&entry(attr, valid, numbers)),
        FsReply::Attr { attr, .. } => replier.attr(&attributes(attr, numbers), valid.attributes),
        FsReply::Target(target) => replier.data(target),
        FsReply::Data(parts) => {
            let parts: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
            replier.data_parts(&parts);
        }
        FsReply::Written(bytes) => replier.written(*bytes),
        FsReply::Position(offset) => replier.position(*offset),
        FsReply::StatFs(totals) => replier.statfs(&statfs(totals)),
        FsReply::LockIs(conflict) => replier.lock(&lock(conflict.as_ref())),
        FsReply::Missing
        | FsReply::Resolved { .. }
        | FsReply::Copied(_)
        | FsReply::Opened(_)
        | FsReply::Created { .. }
        | FsReply::Dir(_)
        | FsReply::DirPlus(_)
        | FsReply::Value(_) => {
            tracing::error!(unique = replier.unique(), "the session's answer does not fit the request");
            replier.error(Errno::IO);
        }
    }
}

/// Handles of files that another session has open bypass the page cache. Every close is told (never `fopen::NOFLUSH`): it drops the
/// record locks of the closing process, whoever else has the descriptor.
fn file(opened: Opened) -> crate::reply::Opened {
    let flags = if opened.shared { fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES } else { 0 };
    let Handle(handle) = opened.handle;
    crate::reply::Opened { handle, flags }
}

fn entry(attr: &AttrWire, valid: Valid, numbers: Numbers) -> Entry {
    let mut attributes = attributes(attr, numbers);
    // Of nlink 0 the kernel concludes that the inode is dead. A name leads to it, so this can only be an old value.
    attributes.nlink = attributes.nlink.max(if attr.kind == Kind::Directory { 2 } else { 1 });
    let apart = attr.flags & flag::APART != 0;
    if apart && attributes.rdev != 0 {
        attributes.rdev = nowhere(attributes.rdev);
    }
    Entry {
        nodeid: if apart { nodes::apart(attr.id) } else { node_id(attr.id) },
        generation: 0,
        attr: attributes,
        entry_valid: valid.name,
        attr_valid: valid.attributes,
    }
}

/// The number of a device that nobody has, in place of another one: major 0, and not the 0:0 of an overlay's whiteout. The kernel takes it from
/// the first answer about a node, opens it and shows it.
fn nowhere(rdev: u32) -> u32 {
    const MAJOR: u32 = 0xf_ff00;
    (rdev & !MAJOR).max(1)
}

/// Seconds (as the kernel's structure holds them, two's complement) and nanoseconds of a time in nanoseconds.
fn time(nanoseconds: i64) -> (u64, u32) {
    const SECOND: i64 = 1_000_000_000;
    (nanoseconds.div_euclid(SECOND).cast_unsigned(), nanoseconds.rem_euclid(SECOND) as u32)
}

fn attributes(attr: &AttrWire, numbers: Numbers) -> abi::Attr {
    let ((atime, atimensec), (mtime, mtimensec), (ctime, ctimensec)) =
        (time(attr.atime), time(attr.mtime), time(attr.ctime));
    abi::Attr {
        ino: numbers.of(attr.id),
        size: attr.size,
        blocks: attr.blocks(),
        atime,
        mtime,
        ctime,
        atimensec,
        mtimensec,
        ctimensec,
        mode: attr.kind.mode_bits() | u32::from(attr.mode),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev(),
        blksize: PREFERRED_IO_BYTES,
        flags: 0,
    }
}

/// The same for statx(2), everything and the time of birth. The kernel knows its device itself.
fn extended(attr: &AttrWire, btime: i64, numbers: Numbers) -> abi::Statx {
    let basic = attributes(attr, numbers);
    let time = |nanoseconds| {
        let (seconds, tv_nsec) = time(nanoseconds);
        abi::SxTime { tv_sec: seconds.cast_signed(), tv_nsec, reserved: 0 }
    };
    abi::Statx {
        mask: (StatxFlags::BASIC_STATS | StatxFlags::BTIME).bits(),
        blksize: basic.blksize,
        nlink: basic.nlink,
        uid: basic.uid,
        gid: basic.gid,
        mode: basic.mode as u16,
        ino: basic.ino,
        size: basic.size,
        blocks: basic.blocks,
        atime: time(attr.atime),
        btime: time(btime),
        ctime: time(attr.ctime),
        mtime: time(attr.mtime),
        rdev_major: (basic.rdev >> 8) & 0xfff,
        rdev_minor: (basic.rdev & 0xff) | (basic.rdev >> 12) & 0xf_ff00,
        ..abi::Statx::default()
    }
}

/// Inodes have no limit of their own: as many can be made as there are free blocks.
fn statfs(totals: &Totals) -> abi::Kstatfs {
    abi::Kstatfs {
        blocks: totals.blocks,
        bfree: totals.blocks_free,
        bavail: totals.blocks_free,
        files: totals.inodes.saturating_add(totals.blocks_free),
        ffree: totals.blocks_free,
        bsize: BLOCK_BYTES as u32,
        namelen: NAME_BYTES_MAX as u32,
        frsize: BLOCK_BYTES as u32,
        ..abi::Kstatfs::default()
    }
}

fn lock(conflict: Option<&FileLock>) -> abi::FileLock {
    match conflict {
        None => abi::FileLock { kind: F_UNLCK, ..abi::FileLock::default() },
        Some(lock) => {
            let kind = LOCK_KINDS.iter().position(|kind| *kind == lock.kind).map_or(F_UNLCK, |kind| kind as u32);
            abi::FileLock { start: lock.start, end: lock.end, kind, pid: lock.pid }
        }
    }
}

/// The page. Entries that do not fit come with the next request. Attributes that the kernel may not keep are not worth their inodes; what a name
/// leads to that depends on who looks is left to their LOOKUP.
fn list<'a>(
    replier: Replier,
    size: u32,
    plus: bool,
    entries: impl Iterator<Item = (&'a DirEntry, Option<&'a AttrWire>)>,
    (valid, numbers): (Valid, Numbers),
) {
    let mut buffer = if plus { DirectoryBuffer::plus(size) } else { DirectoryBuffer::plain(size) };
    for (listed, attr) in entries {
        let record = DirectoryEntry {
            inode: numbers.of(listed.child),
            next: listed.cookie.0,
            kind: u32::from(listed.kind.d_type()),
            name: listed.name.as_bytes(),
        };
        let is_kept = |attr: &&AttrWire| attr.nlink > 0 && !valid.name.is_zero() && !depends(attr);
        let has_room = match attr.filter(is_kept) {
            Some(attr) => {
                let valid = Valid { attributes: named(attr, valid.attributes), ..valid };
                buffer.push_with_inode(&entry(attr, valid, numbers), &record)
            }
            None => buffer.push(&record),
        };
        if !has_room {
            break;
        }
    }
    replier.data(buffer.as_bytes());
}
