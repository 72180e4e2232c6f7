//! Symbolic links, fifos, sockets and devices.

use super::attributes::{self, Place};
use super::copier::Done;
use super::part;
use crate::walk::{Failure, to};
use rustix::fs::{AtFlags, FileType, Mode, Stat};
use rustix::io::Errno;
use std::ffi::CString;

pub(super) fn copy(source: Place<'_>, stat: &Stat, copy: Place<'_>, done: &Done) -> Result<(), Failure> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    let target = match kind {
        FileType::Symlink => Some(read_link(source).map_err(to("read"))?),
        _ => None,
    };
    if is_there(stat, target.as_ref(), copy) {
        done.skipped.add(1);
        return attributes::copy(source, stat, copy, done);
    }
    let name = part::name(copy.name, stat);
    let part = Place { at: copy.at, name: &name };
    match make(stat, target.as_ref(), part) {
        Err(Errno::EXIST) => {
            rustix::fs::unlinkat(part.at, part.name, AtFlags::empty()).map_err(to("remove an unfinished copy of"))?;
            make(stat, target.as_ref(), part)
        }
        result => result,
    }
    .map_err(to("make the copy of"))?;
    attributes::copy(source, stat, part, done)?;
    rustix::fs::renameat(part.at, part.name, copy.at, copy.name).map_err(to("name the copy of"))?;
    (if kind == FileType::Symlink { &done.symlinks } else { &done.special }).add(1);
    Ok(())
}

fn read_link(place: Place<'_>) -> rustix::io::Result<CString> {
    rustix::fs::readlinkat(place.at, place.name, Vec::new())
}

fn is_there(stat: &Stat, target: Option<&CString>, copy: Place<'_>) -> bool {
    let Ok(there) = copy.stat() else { return false };
    let kind = FileType::from_raw_mode(stat.st_mode);
    let same_kind = FileType::from_raw_mode(there.st_mode) == kind;
    same_kind
        && match target {
            Some(target) => read_link(copy).is_ok_and(|there| there == *target),
            None => there.st_rdev == stat.st_rdev,
        }
}

fn make(stat: &Stat, target: Option<&CString>, part: Place<'_>) -> rustix::io::Result<()> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    match target {
        Some(target) => rustix::fs::symlinkat(target, part.at, part.name),
        None => rustix::fs::mknodat(part.at, part.name, kind, Mode::RUSR | Mode::WUSR, stat.st_rdev),
    }
}
