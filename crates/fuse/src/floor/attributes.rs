//! Attributes, extended attributes, and figures of the whole file system.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, StatxFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::FloorFs;
use super::table::Place;
use crate::abi;
use crate::reply::Replier;
use crate::request::{Header, Operation, SetAttributes, SetTime};

/// Largest value of an extended attribute, and largest list of names, the kernel passes.
const XATTR_BYTES_MAX: usize = 64 << 10;

pub(super) fn attr(stat: &Stat) -> abi::Attr {
    abi::Attr {
        ino: stat.st_ino,
        size: stat.st_size.cast_unsigned(),
        blocks: stat.st_blocks.cast_unsigned(),
        atime: stat.st_atime.cast_unsigned(),
        mtime: stat.st_mtime.cast_unsigned(),
        ctime: stat.st_ctime.cast_unsigned(),
        atimensec: stat.st_atime_nsec as u32,
        mtimensec: stat.st_mtime_nsec as u32,
        ctimensec: stat.st_ctime_nsec as u32,
        mode: stat.st_mode,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u32,
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}

fn timestamp(time: Option<SetTime>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        Some(SetTime::Now) => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
        Some(SetTime::At { seconds, nanoseconds }) => Timespec { tv_sec: seconds, tv_nsec: i64::from(nanoseconds) },
    }
}

/// A path to an inode, for calls that take paths only. `follow`: a link at its end is the way, not the goal.
struct ProcPath {
    path: Vec<u8>,
    follow: bool,
}

fn proc_path(place: &Place) -> ProcPath {
    let number = |descriptor: &OwnedFd| format!("/proc/self/fd/{}", descriptor.as_raw_fd()).into_bytes();
    match place {
        Place::Descriptor(descriptor) => ProcPath { path: number(descriptor), follow: true },
        Place::Name(directory, name) => {
            let path = [&number(directory), &b"/"[..], name.to_bytes()].concat();
            ProcPath { path, follow: false }
        }
    }
}

impl FloorFs {
    pub(super) fn attribute_operation(&self, header: &Header, operation: &Operation<'_>, replier: Replier) {
        let nodeid = header.nodeid;
        let place = match self.nodes.place(nodeid) {
            Ok(place) => place,
            Err(errno) => return replier.error(errno),
        };
        match *operation {
            Operation::Getattr { .. } => match self.stat(nodeid, &place) {
                Ok(stat) => replier.attr(&attr(&stat), Duration::ZERO),
                Err(errno) => replier.error(errno),
            },
            Operation::Statx { flags, mask, .. } => match statx(&place, flags, mask) {
                Ok(stat) => replier.statx(&stat, Duration::ZERO),
                Err(errno) => replier.error(errno),
            },
            Operation::Setattr(set) => match self.set_attributes(nodeid, &place, &set) {
                Ok(stat) => replier.attr(&attr(&stat), Duration::ZERO),
                Err(errno) => replier.error(errno),
            },
            Operation::Statfs => match rustix::fs::fstatvfs(place.at().0) {
                Ok(stat) => replier.statfs(&abi::Kstatfs {
                    blocks: stat.f_blocks,
                    bfree: stat.f_bfree,
                    bavail: stat.f_bavail,
                    files: stat.f_files,
                    ffree: stat.f_ffree,
                    bsize: stat.f_bsize as u32,
                    namelen: stat.f_namemax as u32,
                    frsize: stat.f_frsize as u32,
                    ..abi::Kstatfs::default()
                }),
                Err(errno) => replier.error(errno),
            },
            Operation::Setxattr { name, value, flags } => {
                replier.unit(set_xattr(&place, name, value, XattrFlags::from_bits_retain(flags)));
            }
            Operation::Getxattr { name, size } => read_xattr(size, replier, |value| get_xattr(&place, name, value)),
            Operation::Listxattr { size } => read_xattr(size, replier, |list| list_xattr(&place, list)),
            Operation::Removexattr { name } => replier.unit(remove_xattr(&place, name)),
            _ => replier.error(Errno::NOSYS),
        }
    }

    fn stat(&self, nodeid: u64, place: &Place) -> Result<Stat, Errno> {
        match place {
            Place::Descriptor(descriptor) => rustix::fs::fstat(descriptor),
            Place::Name(directory, name) => {
                let stat = rustix::fs::statat(directory, &**name, AtFlags::SYMLINK_NOFOLLOW)?;
                self.nodes.check(nodeid, &stat)?;
                Ok(stat)
            }
        }
    }

    fn set_attributes(&self, nodeid: u64, place: &Place, set: &SetAttributes) -> Result<Stat, Errno> {
        let (directory, name, flags) = place.at();
        if let Some(mode) = set.mode {
            // The kernel asks for no change of a symbolic link's mode, so following does no harm.
            rustix::fs::chmod(proc_path(place).path, Mode::from_raw_mode(mode))?;
        }
        if set.uid.is_some() || set.gid.is_some() {
            let (uid, gid) = (set.uid.map(Uid::from_raw), set.gid.map(Gid::from_raw));
            rustix::fs::chownat(directory, name, uid, gid, flags)?;
        }
        if let Some(size) = set.size {
            match set.handle.map(|handle| self.file(handle)).transpose()? {
                Some(file) => rustix::fs::ftruncate(&file, size)?,
                None => {
                    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
                    let file = rustix::fs::open(proc_path(place).path, flags, Mode::empty())?;
                    rustix::fs::ftruncate(&file, size)?;
                }
            }
        }
        if set.atime.is_some() || set.mtime.is_some() {
            let times = Timestamps { last_access: timestamp(set.atime), last_modification: timestamp(set.mtime) };
            rustix::fs::utimensat(directory, name, &times, flags)?;
        }
        self.stat(nodeid, place)
    }
}

fn set_xattr(place: &Place, name: &CStr, value: &[u8], flags: XattrFlags) -> Result<(), Errno> {
    match proc_path(place) {
        ProcPath { path, follow: true } => rustix::fs::setxattr(path, name, value, flags),
        ProcPath { path, follow: false } => rustix::fs::lsetxattr(path, name, value, flags),
    }
}

fn get_xattr(place: &Place, name: &CStr, value: &mut [u8]) -> Result<usize, Errno> {
    match proc_path(place) {
        ProcPath { path, follow: true } => rustix::fs::getxattr(path, name, value),
        ProcPath { path, follow: false } => rustix::fs::lgetxattr(path, name, value),
    }
}

fn list_xattr(place: &Place, list: &mut [u8]) -> Result<usize, Errno> {
    match proc_path(place) {
        ProcPath { path, follow: true } => rustix::fs::listxattr(path, list),
        ProcPath { path, follow: false } => rustix::fs::llistxattr(path, list),
    }
}

fn remove_xattr(place: &Place, name: &CStr) -> Result<(), Errno> {
    match proc_path(place) {
        ProcPath { path, follow: true } => rustix::fs::removexattr(path, name),
        ProcPath { path, follow: false } => rustix::fs::lremovexattr(path, name),
    }
}

fn read_xattr(asked: u32, replier: Replier, read: impl FnOnce(&mut [u8]) -> Result<usize, Errno>) {
    let mut value = vec![0; XATTR_BYTES_MAX];
    match read(&mut value) {
        Ok(length) => replier.xattr(asked, &value[..length]),
        Err(errno) => replier.error(errno),
    }
}

fn statx(place: &Place, flags: u32, mask: u32) -> Result<abi::Statx, Errno> {
    let (directory, name, at_flags) = place.at();
    let flags = AtFlags::from_bits_retain(flags) | at_flags;
    let stat = rustix::fs::statx(directory, name, flags, StatxFlags::from_bits_retain(mask))?;
    let time =
        |time: &rustix::fs::StatxTimestamp| abi::SxTime { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec, reserved: 0 };
    Ok(abi::Statx {
        mask: stat.stx_mask,
        blksize: stat.stx_blksize,
        attributes: stat.stx_attributes.bits(),
        nlink: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        mode: stat.stx_mode,
        ino: stat.stx_ino,
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        attributes_mask: stat.stx_attributes_mask.bits(),
        atime: time(&stat.stx_atime),
        btime: time(&stat.stx_btime),
        ctime: time(&stat.stx_ctime),
        mtime: time(&stat.stx_mtime),
        rdev_major: stat.stx_rdev_major,
        rdev_minor: stat.stx_rdev_minor,
        dev_major: stat.stx_dev_major,
        dev_minor: stat.stx_dev_minor,
        ..abi::Statx::default()
    })
}
