//! open, create, flush, release. Every open asks the home for permission; the first one of an inode registers it there,
//! the last close releases it in the background: nobody waits for a RELEASE (design.md, "Sessions"), so a few are told together.

use crate::fs::{FsOp, FsReply, FsResult, Handle, OpenMode, Opened};
use crate::limits::{RELEASES_MAX, WITHOUT_XATTRS_US};
use crate::locks::LockOwner;
use crate::op::{Op, attr, born, entry};
use crate::opens::{Busy, OpenHandle};
use crate::ops::attr::marked;
use crate::ops::{halves, later, lock, pages, restore};
use crate::state::{Job, Later, State, WaitKey};
use onpath_kernel::Core;
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::codec::Blob;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, RequestSeq};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::reply::DataRef;
use onpath_wire::request::{NewNode, Request, open};
use smallvec::SmallVec;

fn flags(mode: OpenMode) -> u32 {
    let bits = [
        (mode.read, open::READ),
        (mode.write, open::WRITE),
        (mode.exec, open::EXEC),
        (mode.truncate, open::TRUNCATE),
        (mode.exclusive, open::EXCLUSIVE),
        (mode.kill_suidgid, open::KILL_SUIDGID),
        (mode.maps(), open::MAP),
    ];
    bits.iter().filter(|(on, _)| *on).fold(0, |flags, (_, bit)| flags | bit)
}

/// Opens a file.
pub(crate) async fn open(op: &mut Op, id: InodeId, mode: OpenMode) -> FsResult {
    if let Some(result) = halves::second(op, id, mode).await {
        return result;
    }
    let (_, opened) = open_inode(op, id, OpenMode { exclusive: false, ..mode }).await?;
    Ok(FsReply::Opened(opened))
}

/// Opens a directory: read permission is checked here, once.
pub(crate) async fn opendir(op: &mut Op, id: InodeId, noatime: bool) -> FsResult {
    let mode = OpenMode { read: true, noatime, ..OpenMode::default() };
    let (_, opened) = open_inode(op, id, mode).await?;
    Ok(FsReply::Opened(opened))
}

/// Asks the home of an inode for permission, and for its name in the list of open inodes if it is not there. A switch may permit it instead.
async fn open_inode(op: &mut Op, id: InodeId, mode: OpenMode) -> Result<(AttrWire, Opened), Errno> {
    let key = WaitKey::Inode(id);
    let entered = op
        .wait(key, |core| match core.state.opens.inode(id) {
            Some(inode) if inode.busy == Busy::Releasing => None,
            _ => Some(core.state.opens.enter(id).map(|inode| inode.registered)),
        })
        .await?;
    let register = if entered? { 0 } else { open::REGISTER };
    if mode.maps() {
        op.with(|core| pages::begin_open(core, id));
    }
    let mode = op.with(|core| core.state.opening_as(mode));
    let result = op.ask(Request::Open { id, flags: flags(mode) | register }).await.and_then(attr);
    let result = result.and_then(|told| if told.0.id == id { Ok(told) } else { Err(Errno::EIO) });
    let (pid, by_switch) = (op.caller.pid, op.answered == RequestSeq(0));
    op.with(|core| {
        let opens = &mut core.state.opens;
        let inode = opens.inode(id).expect("counted above");
        match result {
            Ok((attr, data, shared)) => {
                inode.registered |= !by_switch;
                inode.beside_pages |= shared;
                if !inode.registered {
                    restore::register_soon(core, id);
                }
                let shared = shared || mode.append;
                let handle = add(core, &attr, data, mode, shared, pid);
                Ok((attr, Opened { handle, shared }))
            }
            Err(errno) => {
                // Given up without an answer: the home may have registered it.
                inode.registered |= matches!(errno, Errno::EINTR | Errno::EIO) && register != 0;
                if mode.maps() {
                    pages::end_open(core, id);
                }
                if core.state.opens.leave(id) {
                    core.state.releases += 1;
                    core.start(Job::Close { id });
                }
                Err(errno)
            }
        }
    })
}

/// Gives out a handle of an inode that is counted already.
pub(crate) fn add(
    core: &mut Core<State>,
    attr: &AttrWire,
    data: DataRef,
    mode: OpenMode,
    direct: bool,
    pid: u32,
) -> Handle {
    core.state.learn(attr.id, data);
    if mode.write && !direct && attr.flags & flag::XATTRS == 0 {
        let until_us = core.now.mono_us + WITHOUT_XATTRS_US;
        core.state.opens.note_without_xattrs(attr.id, pid, until_us);
    }
    if core.state.opens.observe(attr, false) {
        core.emit(crate::session::SessionOut::Invalidate { id: attr.id });
    }
    let directory = attr.kind == Kind::Directory;
    let told_loss = core.state.unsynced.told_loss(attr.id);
    let lock_owners = SmallVec::new();
    core.state.opens.add(OpenHandle { id: attr.id, directory, mode, direct, lock_owners, lost: false, told_loss })
}

/// open(2) with O_CREAT of a name that the caller believes missing.
pub(crate) async fn create(op: &mut Op, parent: InodeId, name: Name, mode: u16, umask: u16, how: OpenMode) -> FsResult {
    let open = flags(how) | open::REGISTER;
    let node = NewNode { kind: Kind::File, mode, umask, rdev: 0, target: Blob::default(), open };
    let (attr, data, fresh, part) = born(op.ask(Request::Create { parent, name, node }).await?)?;
    if !fresh {
        return open_existing(op, &attr, how).await;
    }
    let pid = op.caller.pid;
    op.with(|core| {
        let result = created(core, attr, data, how, pid);
        if let Some(inode) = core.state.opens.inode(attr.id) {
            inode.part = part.map(Box::new);
        }
        result
    })
}

/// open(2) with O_TMPFILE: any shard can give birth to what has no name, so each in turn does.
pub(crate) async fn tmpfile(op: &mut Op, parent: InodeId, mode: u16, umask: u16, how: OpenMode) -> FsResult {
    let open = flags(how) | open::REGISTER;
    let node = NewNode { kind: Kind::File, mode, umask, rdev: 0, target: Blob::default(), open };
    let slot = op.with(|core| {
        core.state.nameless += 1;
        core.state.config.map.site(parent, &core.state.nameless.to_le_bytes())
    });
    let (attr, data, _) = entry(op.ask(Request::TmpFile { parent, slot, node }).await?)?;
    let pid = op.caller.pid;
    op.with(|core| created(core, attr, data, how, pid))
}

/// A handle of an inode that this request has made.
fn created(core: &mut Core<State>, attr: AttrWire, data: DataRef, how: OpenMode, pid: u32) -> FsResult {
    core.state.opens.enter(attr.id)?.registered = true;
    if how.maps() {
        pages::begin_open(core, attr.id);
    }
    // Who only writes a new file has no use for its page cache, and without it the kernel does not ask for capabilities.
    let direct = how.append || !how.read;
    let handle = add(core, &attr, data, how, direct, pid);
    Ok(FsReply::Created { attr, opened: Opened { handle, shared: direct }, fresh: true })
}

/// Somebody else made the name first: its inode may live elsewhere, and its home decides who may open it.
async fn open_existing(op: &mut Op, attr: &AttrWire, how: OpenMode) -> FsResult {
    const STICKY: u8 = flag::STICKY_FOR_ALL | flag::STICKY_FOR_GROUP;
    match attr.kind {
        // The mount decides with a LOOKUP whether somebody else's may be opened with O_CREAT.
        Kind::File if attr.flags & STICKY != 0 && attr.uid != op.caller.uid => return Err(Errno::ESTALE),
        Kind::File => {}
        Kind::Directory => return Err(Errno::EISDIR),
        // The kernel looks the name up again, and then follows the symlink or opens the device itself.
        _ => return Err(Errno::ESTALE),
    }
    let how = OpenMode { exclusive: false, ..how };
    let (attr, opened) = open_inode(op, attr.id, how).await?;
    let attr = op.with(|core| marked(core, attr));
    Ok(FsReply::Created { attr, opened, fresh: false })
}

/// Answers a close that nobody needs to hear of now, as most are: there are no locks to drop.
pub(crate) fn at_once(core: &mut Core<State>, op: &FsOp) -> Option<FsResult> {
    let (handle, owner) = match *op {
        FsOp::Flush { handle, lock_owner } => (handle, Some((false, lock_owner))),
        FsOp::Release { handle, flock_owner } => (handle, flock_owner.map(|owner| (true, owner))),
        FsOp::ReleaseDir { handle } => (handle, None),
        _ => return None,
    };
    let open = match core.state.opens.find(handle) {
        Ok(open) => open,
        Err(errno) => return Some(Err(errno)),
    };
    let (id, lock_owners) = (open.id, open.lock_owners.len());
    if owner.is_some_and(|(flock, owner)| core.state.held.any(LockOwner { id, flock, owner })) {
        return None;
    }
    if let FsOp::Flush { lock_owner, .. } = *op {
        core.state.opens.forget_lock_owner(id, lock_owner);
    } else if lock_owners > 0 || core.state.releases >= RELEASES_MAX {
        return None;
    } else {
        core.state.opens.take(handle).expect("looked at above");
        left(core, id);
    }
    Some(Ok(FsReply::Done))
}

/// A handle of an inode is gone; the last one is told to the home.
pub(crate) fn left(core: &mut Core<State>, id: InodeId) {
    if core.state.opens.leave(id) {
        core.state.releases += 1;
        later::add(core, Later::Close(id));
    }
}

/// close(2) of one descriptor: the fcntl locks of its owner go, before close returns.
pub(crate) async fn flush(op: &mut Op, handle: Handle, lock_owner: u64) -> FsResult {
    let id = op.with(|core| core.state.opens.find(handle).map(|open| open.id))?;
    // A handle that goes later must not take what this owner locks from now on.
    op.with(|core| core.state.opens.forget_lock_owner(id, lock_owner));
    lock::drop_owner(op, LockOwner { id, flock: false, owner: lock_owner }).await?;
    Ok(FsReply::Done)
}

/// The last close of a handle.
pub(crate) async fn release(op: &mut Op, handle: Handle, flock_owner: Option<u64>) -> FsResult {
    let open = op.with(|core| core.state.opens.take(handle))?;
    let mut dropped = Ok(());
    let fcntl = open.lock_owners.iter().map(|&owner| (false, owner));
    for (flock, owner) in fcntl.chain(flock_owner.map(|owner| (true, owner))) {
        dropped = dropped.and(lock::drop_owner(op, LockOwner { id: open.id, flock, owner }).await);
    }
    let wait = op.with(|core| {
        if core.state.releases < RELEASES_MAX {
            left(core, open.id);
            return false;
        }
        let last = core.state.opens.leave(open.id);
        core.state.releases += usize::from(last);
        last
    });
    if wait {
        close(op, open.id).await;
    }
    dropped.map(|()| FsReply::Done)
}

/// Tells the home that this session has closed its last handle of an inode, unless it was opened again meanwhile.
pub(crate) async fn close(op: &mut Op, id: InodeId) {
    let key = WaitKey::Inode(id);
    let mine = op
        .wait(key, |core| match core.state.opens.inode(id) {
            Some(inode) if matches!(inode.busy, Busy::Restoring(_)) => None,
            Some(inode) if inode.refs == 0 && inode.busy == Busy::No => {
                inode.busy = Busy::Releasing;
                Some(true)
            }
            _ => Some(false),
        })
        .await;
    if mine == Ok(true) {
        // Whatever the answer, the home does not count the inode as open any more, or the session is over.
        let _ = op.ask(Request::Release { id }).await;
        op.with(|core| {
            core.state.opens.forget(id);
            core.wake(key.hash());
        });
    }
    op.with(|core| core.state.releases -= 1);
}
