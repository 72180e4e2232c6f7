//! Symbolic links, fifos, sockets and devices.

use super::attributes;
use super::copier::{Job, Made};
use super::inode::{Inode, is_ours};
use super::staging;
use crate::walk::{Failure, to, to_copy};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use std::ffi::{CStr, CString};

pub(super) fn copy(job: &Job<'_>, source: &Inode) -> Result<Made, Failure> {
    let kind = source.kind();
    let target = match kind {
        FileType::Symlink => Some(read_link(source).map_err(to("read"))?),
        _ => None,
    };
    let there = Inode::find(job.dir, job.name).ok().filter(|there| is_there(source, target.as_ref(), there));
    if let Some(there) = there
        && attributes::renew(source.fd(), &source.stat, &there, job.done)?
    {
        job.done.skipped.add(1);
        return Ok(there.id());
    }
    let name = job.staging.part(job.name, &source.stat);
    match make(job, source, target.as_ref(), &name) {
        Err(Errno::EXIST) => {
            staging::discard(job.dir, &name)?;
            make(job, source, target.as_ref(), &name)
        }
        result => result,
    }
    .map_err(to_copy("make the copy of"))?;
    let made = Inode::find(job.dir, &name).map_err(to_copy("make the copy of"))?;
    if !is_there(source, target.as_ref(), &made) || !is_ours(&made.stat) {
        return Err(Failure::of_copy("make the copy of (somebody has put something else in its place)", Errno::STALE));
    }
    attributes::copy(source.fd(), &source.stat, made.fd(), job.done)?;
    staging::place(job.dir, &name, job.name)?;
    (if kind == FileType::Symlink { &job.done.symlinks } else { &job.done.special }).add(1);
    Ok(made.id())
}

fn read_link(inode: &Inode) -> rustix::io::Result<CString> {
    rustix::fs::readlinkat(inode.fd(), c"", Vec::new())
}

fn is_there(source: &Inode, target: Option<&CString>, there: &Inode) -> bool {
    there.kind() == source.kind()
        && match target {
            Some(target) => read_link(there).is_ok_and(|there| there == *target),
            None => there.stat.st_rdev == source.stat.st_rdev,
        }
}

fn make(job: &Job<'_>, source: &Inode, target: Option<&CString>, name: &CStr) -> rustix::io::Result<()> {
    match target {
        Some(target) => rustix::fs::symlinkat(target, job.dir, name),
        None => {
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::mknodat(job.dir, name, source.kind(), mode, source.stat.st_rdev)
        }
    }
}
