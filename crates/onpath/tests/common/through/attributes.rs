//! Attributes, by the client.
#![allow(unsafe_code)]

use super::{At, Ids, Link, Where, caller, done_by_client};
use crate::common::sys::{R, Stat, Time, at};
use onpath_client::{Metadata, Time as Told};

/// The device that the client's file system is told to be on.
const DEVICE: u64 = libc::makedev(0, 0xfff);

fn time(ns: i64) -> Time {
    at(ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000))
}

pub fn stat_of(is: &Metadata) -> Stat {
    Stat {
        dev: DEVICE,
        ino: is.ino,
        mode: is.mode(),
        nlink: is.nlink.into(),
        uid: is.uid,
        gid: is.gid,
        rdev: is.rdev,
        size: is.size as i64,
        blocks: is.blocks as i64,
        blksize: 4096,
        atime: time(is.atime),
        mtime: time(is.mtime),
        ctime: time(is.ctime),
    }
}

/// Says a change of times to `change`, as utimensat(2) takes it.
pub fn change_times(times: [Time; 2], change: impl FnOnce(Told, Told) -> R) -> R {
    let told = |time: Time| match time.ns {
        libc::UTIME_NOW => Ok(Told::Now),
        libc::UTIME_OMIT => Ok(Told::Keep),
        0..1_000_000_000 => Ok(Told::At(time.s.saturating_mul(1_000_000_000).saturating_add(time.ns))),
        _ => Err(libc::EINVAL),
    };
    change(told(times[0])?, told(times[1])?)
}

impl At {
    fn metadata(&self, link: Link) -> R<Metadata> {
        let me = caller(Ids::Effective);
        done_by_client(match &self.0 {
            Where::Open(open) => open.inode(&me).stat(),
            _ => {
                let (client, path) = self.place()?;
                if link == Link::Follow { client.stat(&me, path) } else { client.lstat(&me, path) }
            }
        })
    }

    pub fn stat(&self, link: Link) -> R<Stat> {
        self.metadata(link).map(|is| stat_of(&is))
    }

    /// All that a client is told.
    pub fn statx(&self, flags: i32) -> R<libc::statx> {
        let known = libc::AT_SYMLINK_NOFOLLOW | libc::AT_STATX_FORCE_SYNC | libc::AT_STATX_DONT_SYNC;
        if flags & !known != 0 {
            return Err(libc::EINVAL);
        }
        let link = if flags & libc::AT_SYMLINK_NOFOLLOW != 0 { Link::Itself } else { Link::Follow };
        let is = self.metadata(link)?;
        let moment = |ns| {
            let Time { s, ns } = time(ns);
            // SAFETY: as below.
            let mut moment: libc::statx_timestamp = unsafe { std::mem::zeroed() };
            (moment.tv_sec, moment.tv_nsec) = (s, ns as u32);
            moment
        };
        // SAFETY: a structure of integers, of which all zeros is a value.
        let mut told: libc::statx = unsafe { std::mem::zeroed() };
        told.stx_mask = libc::STATX_BASIC_STATS | if is.btime.is_some() { libc::STATX_BTIME } else { 0 };
        (told.stx_blksize, told.stx_nlink, told.stx_uid, told.stx_gid) = (4096, is.nlink, is.uid, is.gid);
        (told.stx_mode, told.stx_ino, told.stx_size, told.stx_blocks) = (is.mode() as u16, is.ino, is.size, is.blocks);
        (told.stx_atime, told.stx_mtime, told.stx_ctime) = (moment(is.atime), moment(is.mtime), moment(is.ctime));
        told.stx_btime = moment(is.btime.unwrap_or(0));
        (told.stx_rdev_major, told.stx_rdev_minor) = (libc::major(is.rdev), libc::minor(is.rdev));
        (told.stx_dev_major, told.stx_dev_minor) = (libc::major(DEVICE), libc::minor(DEVICE));
        Ok(told)
    }

    pub fn statvfs(&self) -> R<libc::statvfs> {
        let (client, path) = self.place()?;
        let room = done_by_client(client.statfs(&caller(Ids::Effective), path))?;
        // SAFETY: a structure of integers, of which all zeros is a value.
        let mut told: libc::statvfs = unsafe { std::mem::zeroed() };
        (told.f_bsize, told.f_frsize, told.f_namemax) = (4096, 4096, 255);
        (told.f_blocks, told.f_bfree, told.f_bavail) = (room.blocks, room.blocks_free, room.blocks_free);
        // A file system has room for inodes as long as it has room.
        told.f_files = room.inodes + room.blocks_free;
        (told.f_ffree, told.f_favail) = (room.blocks_free, room.blocks_free);
        Ok(told)
    }

    /// What the tests allow a mount is what a client may do, too: it is not told of all that a kernel holds.
    pub fn file_system_type(&self) -> R<i64> {
        self.metadata(Link::Follow).map(|_| libc::FUSE_SUPER_MAGIC)
    }

    pub fn access(&self, mode: i32, ids: Ids) -> R {
        let (client, path) = self.place()?;
        done_by_client(client.access(&caller(ids), path, mode as u32))
    }

    pub fn chmod(&self, mode: u32) -> R {
        let me = caller(Ids::Effective);
        match &self.0 {
            Where::Open(open) => done_by_client(open.inode(&me).chmod(mode)),
            _ => self.place().and_then(|(client, path)| done_by_client(client.chmod(&me, path, mode))),
        }
    }

    pub fn fchmodat2(&self, mode: u32, flags: i32) -> R {
        match flags {
            0 => self.chmod(mode),
            libc::AT_SYMLINK_NOFOLLOW => done_by_client(self.inode(Link::Itself)?.chmod(mode)),
            _ => Err(libc::EINVAL),
        }
    }

    pub fn chown(&self, uid: u32, gid: u32, link: Link) -> R {
        let (me, given) = (caller(Ids::Effective), |id| Some(id).filter(|id| *id != u32::MAX));
        let (client, path) = self.place()?;
        done_by_client(client.chown(&me, path, given(uid), given(gid), link))
    }

    pub fn truncate(&self, size: i64) -> R {
        let (client, path) = self.place()?;
        let size = u64::try_from(size).map_err(|_| libc::EINVAL)?;
        done_by_client(client.truncate(&caller(Ids::Effective), path, size))
    }

    pub fn utimens(&self, times: [Time; 2], link: Link) -> R {
        let (client, path) = self.place()?;
        change_times(times, |atime, mtime| {
            done_by_client(client.utimens(&caller(Ids::Effective), path, atime, mtime, link))
        })
    }
}
