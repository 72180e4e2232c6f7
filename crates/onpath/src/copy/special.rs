//! Symbolic links, fifos, sockets and devices.

use super::attributes;
use super::copier::Job;
use super::object::{Destination, Facts, Object};
use crate::walk::{Failure, to};
use rustix::fs::FileType;
use std::ffi::CStr;

pub(super) fn copy<D: Destination>(job: &Job<'_, D>, source: &impl Object) -> Result<D::Object, Failure> {
    let is = source.is();
    let target = match is.kind {
        FileType::Symlink => Some(source.target().map_err(to("read"))?),
        _ => None,
    };
    let there = job.to.find(job.dir, job.name).ok().filter(|there| is_copy(there, is, target.as_deref()));
    if let Some(there) = there
        && attributes::renew(source, is, &there, job.done)?
    {
        job.done.skipped.add(1);
        return Ok(there);
    }
    let made = job.to.make(job.dir, job.name, is, target.as_deref())?;
    attributes::copy(source, is, &made, job.done)?;
    job.to.place(job.dir, job.name, is, &made)?;
    (if is.kind == FileType::Symlink { &job.done.symlinks } else { &job.done.special }).add(1);
    Ok(made)
}

/// Whether that is what the copy would be; `target`: of a symbolic link.
pub(super) fn is_copy(there: &impl Object, source: &Facts, target: Option<&CStr>) -> bool {
    there.is().kind == source.kind
        && match target {
            Some(target) => there.target().is_ok_and(|there| there.as_c_str() == target),
            None => there.is().rdev == source.rdev,
        }
}
