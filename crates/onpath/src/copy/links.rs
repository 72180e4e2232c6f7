//! Inodes of several names: each is copied once, under the name that comes first.

use super::argument::below;
use super::inode::{Id, Inode, id};
use super::staging::{Staging, discard, place, times};
use crate::walk::{Failure, to};
use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The inodes of which not all names were seen yet: a row each.
#[derive(Default)]
pub(super) struct Links {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    inodes: HashMap<Id, Inodes>,
    /// Names that wait for their first one, with it.
    waiting: Vec<(Arc<First>, Name)>,
}

struct Inodes {
    first: Arc<First>,
    /// Names that were not seen yet.
    unseen: u64,
}

/// A name in the destination. Its directory is known by number, too: somebody may move another one there.
pub(super) struct Name {
    /// From the destination's top.
    pub(super) dir: PathBuf,
    pub(super) dir_id: Id,
    pub(super) name: CString,
}

impl Name {
    pub(super) fn path(&self) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        self.dir.join(std::ffi::OsStr::from_bytes(self.name.to_bytes()))
    }
}

/// The copy under its first name.
pub(super) struct First {
    name: Name,
    /// Its inode, once it is complete.
    made: OnceLock<Id>,
}

/// What is to be done with a name.
pub(super) enum Claim {
    /// Copy the inode, then call [`Links::settle`].
    Copy,
    /// Make it a name of this.
    Link(Arc<First>),
    /// Nothing now: the first name is being copied.
    Later,
}

impl Links {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name of the inode has come.
    pub(super) fn claim(&self, stat: &Stat, name: Name) -> Claim {
        let mut state = self.state();
        let State { inodes, waiting } = &mut *state;
        let Some(inode) = inodes.get_mut(&id(stat)) else {
            let unseen = stat.st_nlink.saturating_sub(1);
            let first = Arc::new(First { name, made: OnceLock::new() });
            inodes.insert(id(stat), Inodes { first, unseen });
            return Claim::Copy;
        };
        inode.unseen = inode.unseen.saturating_sub(1);
        let first = inode.first.clone();
        if first.made.get().is_none() {
            waiting.push((first, name));
            return Claim::Later;
        }
        if inode.unseen == 0 {
            inodes.remove(&id(stat));
        }
        Claim::Link(first)
    }

    /// The claimed inode is copied; None: its copy has failed, then the next name that comes claims it again.
    pub(super) fn settle(&self, stat: &Stat, made: Option<Id>) {
        let mut state = self.state();
        let Some(inode) = state.inodes.get(&id(stat)) else { return };
        let unseen = inode.unseen;
        if let Some(made) = made {
            // Only who has claimed it comes here.
            _ = inode.first.made.set(made);
        }
        if made.is_none() || unseen == 0 {
            state.inodes.remove(&id(stat));
        }
    }

    /// The names that are still to be made, with the first ones.
    pub(super) fn rest(&self) -> Vec<(Arc<First>, Name)> {
        std::mem::take(&mut self.state().waiting)
    }
}

/// Makes a name that had to wait. False if it was there.
pub(super) fn link_later(first: &First, name: &Name, staging: &Staging) -> Result<bool, Failure> {
    let dir = below(staging.destination(), &name.dir).map_err(to("open the directory of"))?;
    if id(&rustix::fs::fstat(&dir).map_err(to("stat the directory of"))?) != name.dir_id {
        return Err(Failure::new("link (another directory has got the place of its own)", Errno::STALE));
    }
    link(first, dir.as_fd(), name, staging)
}

/// Makes `name`, in `dir`, a name of the copy `first`. False if it was one.
pub(super) fn link(first: &First, dir: BorrowedFd<'_>, name: &Name, staging: &Staging) -> Result<bool, Failure> {
    let made = first.made.get().ok_or(Errno::NOENT).map_err(to("find the first copy of"))?;
    let of = below(staging.destination(), &first.name.dir)
        .and_then(|dir| Inode::find(dir.as_fd(), &first.name.name))
        .map_err(to("find the first copy of"))?;
    if of.id() != *made {
        return Err(Failure::new("link (something else has got the place of its first copy)", Errno::STALE));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(dir, c".", flags, Mode::empty()).map_err(to("open the directory of"))?;
    let times = times(dir.as_fd()).map_err(to("stat the directory of"))?;
    match Inode::find(dir.as_fd(), &name.name) {
        Ok(there) if there.id() == of.id() => return Ok(false),
        Ok(there) => {
            // What is there keeps its name until the link takes it over.
            let part = staging.part(&name.name, &there.stat);
            discard(dir.as_fd(), &part)?;
            of.link(dir.as_fd(), &part).map_err(to("link"))?;
            place(dir.as_fd(), &part, &name.name)?;
        }
        Err(Errno::NOENT) => of.link(dir.as_fd(), &name.name).map_err(to("link"))?,
        Err(errno) => return Err(Failure::new("stat", errno)),
    }
    // The directory may have got its times already.
    rustix::fs::futimens(&dir, &times).map_err(to("give its times to the directory of"))?;
    Ok(true)
}
