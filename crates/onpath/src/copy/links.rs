//! Inodes of several names: each is copied once, under the name that comes first.

use super::attributes::Place;
use crate::walk::{Failure, to};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The inodes of which not all names were seen yet: a row each.
#[derive(Default)]
pub(super) struct Links {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    inodes: HashMap<(u64, u64), Inode>,
    /// Names that wait for their first one, with it.
    waiting: Vec<(PathBuf, PathBuf)>,
}

struct Inode {
    /// The copy under its first name.
    first: PathBuf,
    complete: bool,
    /// Names that were not seen yet.
    unseen: u64,
}

impl Links {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None: the caller copies the inode, to `copy`, and then calls [`Links::settle`]. Else the copy of its first name, if that is
    /// complete; if it is not, `copy` is noted for the end.
    pub(super) fn claim(&self, stat: &Stat, copy: &Path) -> Option<Option<PathBuf>> {
        let mut state = self.state();
        let State { inodes, waiting } = &mut *state;
        let key = (stat.st_dev, stat.st_ino);
        let Some(inode) = inodes.get_mut(&key) else {
            let unseen = stat.st_nlink.saturating_sub(1);
            inodes.insert(key, Inode { first: copy.to_owned(), complete: false, unseen });
            return None;
        };
        inode.unseen = inode.unseen.saturating_sub(1);
        if !inode.complete {
            waiting.push((inode.first.clone(), copy.to_owned()));
            return Some(None);
        }
        let first = inode.first.clone();
        if inode.unseen == 0 {
            inodes.remove(&key);
        }
        Some(Some(first))
    }

    /// The claimed inode is copied, or its copy has failed: then the next name that comes claims it again.
    pub(super) fn settle(&self, stat: &Stat, complete: bool) {
        let mut state = self.state();
        let key = (stat.st_dev, stat.st_ino);
        match state.inodes.get_mut(&key) {
            Some(inode) if complete && inode.unseen > 0 => inode.complete = true,
            _ => _ = state.inodes.remove(&key),
        }
    }

    /// The names that are still to be made, with the first ones.
    pub(super) fn rest(&self) -> Vec<(PathBuf, PathBuf)> {
        std::mem::take(&mut self.state().waiting)
    }
}

/// Makes `name` a name of the copy at `first`. False if it was one.
pub(super) fn link(first: &Path, name: &Path) -> Result<bool, Failure> {
    let of = rustix::fs::lstat(first).map_err(to("find the first copy of"))?;
    let (dir, last) = (name.parent().unwrap_or(Path::new("/")), name.file_name().unwrap_or_default());
    let last = CString::new(last.as_bytes()).expect("a file name has no zeros");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir, flags, Mode::empty()).map_err(to("open the directory of"))?;
    let times = rustix::fs::fstat(&dir).map_err(to("stat the directory of"))?;
    match (Place { at: dir.as_fd(), name: &last }).stat() {
        Ok(there) if (there.st_dev, there.st_ino) == (of.st_dev, of.st_ino) => return Ok(false),
        Ok(there) => {
            // What is there keeps its name until the link takes it over.
            let part = super::part::name(&last, &there);
            _ = rustix::fs::unlinkat(&dir, &part, AtFlags::empty());
            rustix::fs::linkat(CWD, first, &dir, &part, AtFlags::empty()).map_err(to("link"))?;
            rustix::fs::renameat(&dir, &part, &dir, &last).map_err(to("rename a link to"))?;
        }
        Err(Errno::NOENT) => rustix::fs::linkat(CWD, first, &dir, &last, AtFlags::empty()).map_err(to("link"))?,
        Err(errno) => return Err(Failure { action: "stat", errno }),
    }
    // The directory may have got its times already.
    let time = |tv_sec, nanoseconds: u64| Timespec { tv_sec, tv_nsec: nanoseconds.cast_signed() };
    let times = Timestamps {
        last_access: time(times.st_atime, times.st_atime_nsec),
        last_modification: time(times.st_mtime, times.st_mtime_nsec),
    };
    rustix::fs::futimens(&dir, &times).map_err(to("give its times to the directory of"))?;
    Ok(true)
}
