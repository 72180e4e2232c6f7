//! Handles and open inodes: pure tables.
//!
//! A home knows only that a session has an inode open, not how often (design.md, "Sessions"): the first open registers it, the
//! last close releases it. In between the session counts. While a release is under way an open of the same inode waits,
//! and a release waits while the inode is opened again after a restart: else the later message could overtake.

use crate::fs::{Handle, OpenMode};
use crate::limits::HANDLES_MAX;
use crate::ops::kept::LossNumber;
use crate::ops::pages::Pages;
use hashbrown::HashMap;
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::data::MergePart;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, Term};
use onpath_wire::inode::Kind;
use onpath_wire::limits::{OPENS_PER_SESSION_MAX, memory};
use onpath_wire::reply::DataRef;
use onpath_wire::request::open;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// What is under way at the home of an open inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Busy {
    #[default]
    No,
    /// The last close is being told.
    Releasing,
    /// The open is being registered again after a restart, by so many restorations: one for each term.
    Restoring(u32),
}

impl Busy {
    /// One more restoration begins; false if the inode is being released, which needs none.
    pub(crate) fn begin_restoring(&mut self) -> bool {
        *self = match *self {
            Busy::No => Busy::Restoring(1),
            Busy::Restoring(n) => Busy::Restoring(n + 1),
            Busy::Releasing => return false,
        };
        true
    }

    /// One restoration has its answer.
    pub(crate) fn end_restoring(&mut self) {
        *self = match *self {
            Busy::Restoring(1) => Busy::No,
            Busy::Restoring(n) => Busy::Restoring(n - 1),
            other => panic!("{other:?} instead of a restoration that began"),
        };
    }
}

/// What a read needs to know of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Where its bytes are.
    pub(crate) data: DataRef,
    pub(crate) size: u64,
    pub(crate) atime: i64,
    pub(crate) mtime: i64,
    pub(crate) ctime: i64,
}

impl Known {
    pub(crate) fn of(attr: &AttrWire, data: DataRef) -> Known {
        Known { data, size: attr.size, atime: attr.atime, mtime: attr.mtime, ctime: attr.ctime }
    }
}

/// What a thread's read(2) has heard from the home before its READ. Good for one READ of that thread, and only as long as
/// the mount has heard nothing newer: the kernel takes a READ that ends early as the end of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fresh {
    pub(crate) pid: u32,
    pub(crate) until_us: u64,
    pub(crate) known: Known,
}

/// What is known of a file, whose bytes are where the session has last heard, as of every moment of an era: [`crate::ops::exact`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exact {
    pub(crate) era: u64,
    pub(crate) size: u64,
    pub(crate) atime: i64,
    pub(crate) mtime: i64,
    pub(crate) ctime: i64,
}

/// An inode of which this session has, or is opening or closing, handles.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenInode {
    /// Handles, and opens under way.
    pub(crate) refs: u32,
    /// The home knows, or may know, that this session has it open.
    pub(crate) registered: bool,
    pub(crate) busy: Busy,
    /// Where the bytes are, as last heard from the home, and in which term of it: a home that has lost power may know
    /// of an older generation than before, and then that is the one that counts.
    pub(crate) data: DataRef,
    told_in: Term,
    /// What the home has said last that the data node may answer writes by.
    pub(crate) part: Option<Box<MergePart>>,
    /// The largest end of a write of these bytes that the data node has answered: the home may not know it. 0 if there is none.
    pub(crate) answered_end: u64,
    mtime: i64,
    ctime: i64,
    /// The change after which the home was told of a read.
    accessed_after: i64,
    pub(crate) fresh: Option<Fresh>,
    pub(crate) exact: Option<Exact>,
    /// Changes under way after which the file may be longer.
    pub(crate) growing: u32,
    /// Handles, and opens under way, by which it may be mapped and changed, and what the home believes of that.
    pub(crate) mappers: u32,
    pub(crate) pages: Pages,
    /// Pages of it were written back since that was told.
    pub(crate) wrote_pages: bool,
    pub(crate) ever_wrote_pages: bool,
    /// Others may have changed pages of it in memory.
    pub(crate) beside_pages: bool,
    /// This thread has just opened it for writing, and heard that it has no extended attributes; until when that counts.
    without_xattrs: Option<(u32, u64)>,
}

/// An open handle.
#[derive(Clone, Debug)]
pub(crate) struct OpenHandle {
    pub(crate) id: InodeId,
    pub(crate) directory: bool,
    pub(crate) mode: OpenMode,
    /// It bypasses the page cache, so that its READs do not follow a question for attributes.
    pub(crate) direct: bool,
    /// Owners that took fcntl locks through it: released with it, because of locks of an open file (F_OFD_SETLK) nothing else tells.
    pub(crate) lock_owners: SmallVec<[u64; 1]>,
    /// The session has lost what it had of the file: all but a close says EIO.
    pub(crate) lost: bool,
    /// The last loss of which an fsync by it has told, or by others before it was opened.
    pub(crate) told_loss: LossNumber,
}

const _: () = assert!(
    2 * (size_of::<(InodeId, OpenInode)>() + size_of::<(u32, Option<OpenHandle>)>()) as u64 <= memory::OPEN_AT_SESSION
);

/// The tables.
#[derive(Default, Debug)]
pub(crate) struct Opens {
    inodes: HashMap<InodeId, OpenInode>,
    handles: Vec<(u32, Option<OpenHandle>)>,
    free: Vec<u32>,
    /// Some handle has lock owners: most sessions never look.
    any_lock_owner: bool,
}

impl Opens {
    /// Counts an open that begins; false if the table is full.
    pub(crate) fn enter(&mut self, id: InodeId) -> Result<&mut OpenInode, Errno> {
        if self.inodes.len() >= OPENS_PER_SESSION_MAX && !self.inodes.contains_key(&id) {
            return Err(Errno::ENFILE);
        }
        if self.handles.len() - self.free.len() >= HANDLES_MAX {
            return Err(Errno::ENFILE);
        }
        let inode = self.inodes.entry(id).or_default();
        if inode.busy == Busy::Releasing {
            return Err(Errno::EIO); // an open waits for the release before it: this is no new inode, as its home says
        }
        inode.refs += 1;
        Ok(inode)
    }

    /// Counts a close or a failed open; true if the home must now be told.
    pub(crate) fn leave(&mut self, id: InodeId) -> bool {
        let inode = self.inodes.get_mut(&id).expect("what is closed was open");
        inode.refs -= 1;
        if inode.refs > 0 {
            return false;
        }
        if !inode.registered && inode.busy == Busy::No {
            self.inodes.remove(&id);
            return false;
        }
        true
    }

    /// Gives out a handle of an inode counted by [`Opens::enter`].
    pub(crate) fn add(&mut self, handle: OpenHandle) -> Handle {
        let at = self.free.pop().unwrap_or_else(|| {
            self.handles.push((0, None));
            (self.handles.len() - 1) as u32
        });
        let (version, place) = &mut self.handles[at as usize];
        assert!(place.is_none(), "a free handle is empty");
        *version = version.wrapping_add(1);
        *place = Some(handle);
        Handle(u64::from(*version) << 32 | u64::from(at))
    }

    /// A handle that is of use.
    pub(crate) fn get(&mut self, handle: Handle) -> Result<&mut OpenHandle, Errno> {
        self.find(handle).and_then(|open| if open.lost { Err(Errno::EIO) } else { Ok(open) })
    }

    /// Whatever is known of an inode's open handles counts no more.
    pub(crate) fn lose(&mut self, id: InodeId) {
        let open = self.handles.iter_mut().filter_map(|(_, open)| open.as_mut());
        open.filter(|open| open.id == id).for_each(|open| open.lost = true);
    }

    /// A handle that was given out, to be closed.
    pub(crate) fn find(&mut self, handle: Handle) -> Result<&mut OpenHandle, Errno> {
        match self.handles.get_mut(handle.0 as u32 as usize) {
            Some((version, Some(open))) if u64::from(*version) == handle.0 >> 32 => Ok(open),
            _ => Err(Errno::EBADF),
        }
    }

    /// Handles given out.
    pub(crate) fn handles(&self) -> usize {
        self.handles.len() - self.free.len()
    }

    /// Takes a handle back; its inode is still counted.
    pub(crate) fn take(&mut self, handle: Handle) -> Result<OpenHandle, Errno> {
        self.find(handle)?;
        let at = handle.0 as u32;
        self.free.push(at);
        let open = self.handles[at as usize].1.take().expect("looked at above");
        if open.mode.maps()
            && let Some(inode) = self.inodes.get_mut(&open.id)
        {
            inode.mappers -= 1;
        }
        Ok(open)
    }

    /// A file is read whose last change is of `ctime`; true once for every change.
    pub(crate) fn note_access(&mut self, id: InodeId, ctime: i64) -> bool {
        let Some(inode) = self.inodes.get_mut(&id) else { return false };
        std::mem::replace(&mut inode.accessed_after, ctime) != ctime
    }

    /// Remembers what a thread has heard through this handle, until its READ comes.
    pub(crate) fn freshen(&mut self, handle: Handle, attr: &AttrWire, fresh: Fresh) {
        let Ok(open) = self.get(handle) else { return };
        let (id, cached) = (open.id, !open.direct && !open.directory);
        if let Some(inode) = self.inodes.get_mut(&id).filter(|i| cached && attr.id == id && i.ctime == attr.ctime) {
            inode.fresh = Some(fresh);
        }
    }

    /// What this thread has just heard through this handle, once.
    pub(crate) fn take_fresh(&mut self, handle: Handle, pid: u32, now_us: u64) -> Option<Known> {
        let open = self.get(handle).ok().filter(|open| !open.direct)?;
        let id = open.id;
        let fresh = &mut self.inodes.get_mut(&id)?.fresh;
        let known = fresh.as_ref().filter(|f| f.pid == pid && now_us <= f.until_us)?.known;
        *fresh = None;
        Some(known)
    }

    /// A thread has opened a file for writing through the page cache, and it has no extended attributes.
    pub(crate) fn note_without_xattrs(&mut self, id: InodeId, pid: u32, until_us: u64) {
        if let Some(inode) = self.inodes.get_mut(&id) {
            inode.without_xattrs = Some((pid, until_us));
        }
    }

    /// Whether this thread has just heard that it has none, once.
    pub(crate) fn take_without_xattrs(&mut self, id: InodeId, pid: u32, now_us: u64) -> bool {
        let heard = self.inodes.get_mut(&id).and_then(|inode| inode.without_xattrs.take());
        heard.is_some_and(|(by, until_us)| by == pid && now_us <= until_us)
    }

    /// Whether some handle of an inode is open for writing.
    pub(crate) fn is_open_for_write(&self, id: InodeId) -> bool {
        let mut open = self.handles.iter().filter_map(|(_, open)| open.as_ref());
        self.inodes.contains_key(&id) && open.any(|open| open.id == id && open.mode.write)
    }

    /// Bits of [`onpath_wire::request::open`] for what handles of an inode are good for.
    pub(crate) fn rights(&self, id: InodeId) -> u32 {
        let open = self.handles.iter().filter_map(|(_, open)| open.as_ref()).filter(|open| open.id == id);
        let bits = |mode: OpenMode| [(mode.read, open::READ), (mode.write, open::WRITE), (mode.exec, open::EXEC)];
        open.flat_map(|open| bits(open.mode)).filter(|(on, _)| *on).fold(0, |all, (_, bit)| all | bit)
    }

    /// `owner` takes an fcntl lock through this handle.
    pub(crate) fn note_lock_owner(&mut self, handle: Handle, owner: u64) {
        if let Ok(open) = self.get(handle)
            && !open.lock_owners.contains(&owner)
        {
            open.lock_owners.push(owner);
            self.any_lock_owner = true;
        }
    }

    /// `owner` has lost its fcntl locks on an inode, through whichever handle it took them.
    pub(crate) fn forget_lock_owner(&mut self, id: InodeId, owner: u64) {
        if !self.any_lock_owner {
            return;
        }
        let mut left = false;
        for open in self.handles.iter_mut().filter_map(|(_, open)| open.as_mut()) {
            if open.id == id {
                open.lock_owners.retain(|other| *other != owner);
            }
            left |= !open.lock_owners.is_empty();
        }
        self.any_lock_owner = left;
    }

    pub(crate) fn inode(&mut self, id: InodeId) -> Option<&mut OpenInode> {
        self.inodes.get_mut(&id)
    }

    pub(crate) fn forget(&mut self, id: InodeId) {
        self.inodes.remove(&id);
    }

    /// Inodes of which there are handles, in order of their ids, and whether the mount may have cached pages by one of them.
    pub(crate) fn open(&self) -> Vec<(InodeId, bool)> {
        let mut all = BTreeMap::new();
        for open in self.handles.iter().filter_map(|(_, open)| open.as_ref()) {
            *all.entry(open.id).or_insert(false) |= !open.direct && !open.directory;
        }
        all.into_iter().collect()
    }

    /// Registered inodes that `mine` accepts, in order of their ids.
    pub(crate) fn registered(&self, mine: impl Fn(InodeId) -> bool) -> Vec<InodeId> {
        let mut ids: Vec<_> =
            self.inodes.iter().filter(|(id, i)| i.registered && mine(**id)).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// These count as registered from now on, as far as they are open; those that did not, of whom homes are to hear.
    pub(crate) fn register(&mut self, mut ids: Vec<InodeId>) -> Vec<InodeId> {
        ids.retain(|id| self.inodes.get_mut(id).is_some_and(|inode| !std::mem::replace(&mut inode.registered, true)));
        ids.sort_unstable();
        ids
    }

    /// Learns from an inode's home, in this term, where its bytes are now.
    pub(crate) fn learn(&mut self, id: InodeId, told_in: Term, data: DataRef) {
        if let Some(inode) = self.inodes.get_mut(&id)
            && (inode.told_in, inode.data.generation, inode.data.cut) < (told_in, data.generation, data.cut)
        {
            (inode.told_in, inode.data, inode.part, inode.answered_end) = (told_in, data, None, 0);
            inode.exact = None;
        }
    }

    /// Learns attributes. True if pages that the mount may have cached are stale without its noticing: something changed
    /// (ctime), yet mtime, by which the kernel tells, is what it was. `own`: this session made the change.
    pub(crate) fn observe(&mut self, attr: &AttrWire, own: bool) -> bool {
        if self.inodes.is_empty() || attr.kind != Kind::File {
            return false;
        }
        let Some(inode) = self.inodes.get_mut(&attr.id) else { return false };
        inode.fresh = None;
        if attr.flags & flag::XATTRS != 0 {
            inode.without_xattrs = None;
        }
        if inode.ctime >= attr.ctime {
            return false;
        }
        let hidden = inode.ctime != 0 && inode.mtime == attr.mtime && !own;
        (inode.mtime, inode.ctime) = (attr.mtime, attr.ctime);
        hidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::disk::inode::Inode;
    use onpath_wire::ids::Generation;

    fn file(id: InodeId) -> OpenHandle {
        let (mode, lock_owners, told_loss) = (OpenMode::default(), SmallVec::new(), LossNumber::default());
        OpenHandle { id, directory: false, mode, direct: false, lock_owners, lost: false, told_loss }
    }

    #[test]
    fn a_handle_is_not_valid_after_its_close() {
        let mut opens = Opens::default();
        opens.enter(InodeId(7)).unwrap().registered = true;
        let first = opens.add(file(InodeId(7)));
        assert_eq!(opens.take(first).unwrap().id, InodeId(7));
        assert!(opens.leave(InodeId(7)), "the last close is told");
        opens.forget(InodeId(7));
        opens.enter(InodeId(8)).unwrap();
        let second = opens.add(file(InodeId(8)));
        assert_ne!(first, second);
        assert_eq!(opens.get(first).unwrap_err(), Errno::EBADF);
        assert!(!opens.leave(InodeId(8)), "an open that was never registered needs no release");
    }

    #[test]
    fn a_newer_term_of_the_home_is_believed_whatever_it_says() {
        let mut opens = Opens::default();
        opens.enter(InodeId(7)).unwrap();
        let data = |generation, cut| DataRef { generation: Generation(generation), cut, btime: 0 };
        for (term, told, then) in [
            (1, data(5, 0), data(5, 0)),
            (1, data(4, 9), data(5, 0)),
            (1, data(5, 2), data(5, 2)),
            (2, data(4, 1), data(4, 1)),
            (1, data(5, 3), data(4, 1)),
        ] {
            opens.learn(InodeId(7), Term(term), told);
            assert_eq!(opens.inode(InodeId(7)).unwrap().data, then, "term {term} says {told:?}");
        }
    }

    #[test]
    fn only_a_change_that_mtime_hides_makes_pages_stale() {
        let mut opens = Opens::default();
        let mut attr = AttrWire::of(&Inode::new(InodeId(7), Kind::File));
        (attr.mtime, attr.ctime) = (5, 5);
        assert!(!opens.observe(&attr, false), "not open");
        opens.enter(InodeId(7)).unwrap();
        assert!(!opens.observe(&attr, false), "seen for the first time");
        (attr.mtime, attr.ctime) = (9, 9);
        assert!(!opens.observe(&attr, false), "the kernel sees the new mtime");
        attr.ctime = 10;
        assert!(!opens.observe(&attr, true), "our own chmod");
        attr.ctime = 11;
        assert!(opens.observe(&attr, false), "written and set back elsewhere, or a chmod");
    }
}
