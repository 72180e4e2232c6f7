//! Attributes, access(2) and readlink: one question to the inode's home.

use crate::fs::{FsReply, FsResult, Handle};
use crate::limits::FRESH_US;
use crate::op::{Op, attr, done};
use crate::opens::{Fresh, Known};
use crate::ops::later;
use crate::session::SessionOut;
use crate::state::{Later, State, WaitKey};
use onpath_kernel::Core;
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::caller::cap;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, Stamp};
use onpath_wire::limits::FILE_BYTES_MAX;
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, SetAttr, set};

/// Attributes that the mount is about to see. `own`: of a change that this session made.
pub(crate) fn seen(op: &Op, attr: AttrWire, own: bool) -> AttrWire {
    op.with(|core| {
        observe(core, &attr, own);
        marked(core, attr)
    })
}

/// The attributes, unsettled if their home has yet to hear that the file was read.
pub(crate) fn marked(core: &Core<State>, mut attr: AttrWire) -> AttrWire {
    let state = &core.state;
    if state.accessing.contains(&attr.id) || state.later.contains(&Later::Accessed(attr.id)) {
        attr.flags |= flag::UNSETTLED;
    }
    attr
}

fn observe(core: &mut Core<State>, attr: &AttrWire, own: bool) {
    if core.state.opens.observe(attr, own) {
        core.emit(SessionOut::Invalidate { id: attr.id });
    }
}

/// Attributes of an inode; of a directory exact. What a read(2) asks through its `handle` holds for the read itself too.
pub(crate) async fn getattr(op: &mut Op, id: InodeId, handle: Option<Handle>) -> FsResult {
    // On a network the question could overtake an access time that is being told.
    let told = |core: &mut Core<State>| (!core.state.accessing.contains(&id)).then_some(());
    if op.with(told).is_none() {
        op.wait(WaitKey::Told(id), told).await?;
    }
    let (attr, data, _) = attr(op.ask(Request::GetAttr { id }).await?)?;
    let pid = op.caller.pid;
    op.with(|core| {
        core.state.learn(id, data);
        observe(core, &attr, false);
        if let Some(handle) = handle.filter(|_| pid != 0) {
            let until_us = core.now.mono_us + FRESH_US;
            core.state.opens.freshen(handle, &attr, Fresh { pid, until_us, known: Known::of(&attr, data) });
        }
        Ok(FsReply::Attr { attr: marked(core, attr), btime: data.btime })
    })
}

/// Changes attributes. Through a handle open for writing the size may be changed whatever the mode is now (ftruncate(2)).
pub(crate) async fn setattr(op: &mut Op, id: InodeId, mut set: SetAttr, handle: Option<Handle>) -> FsResult {
    if set.valid & set::SIZE != 0 && set.size > FILE_BYTES_MAX {
        return Err(Errno::EFBIG);
    }
    set.valid &= !set::OPEN_FOR_WRITE;
    if set.valid & set::SIZE != 0 && op.with(|core| core.state.always_kills()) {
        set.valid |= set::KILL_SUIDGID;
    }
    if let Some(handle) = handle {
        let open = op.with(|core| core.state.opens.get(handle).cloned())?;
        if open.mode.write && open.id == id {
            set.valid |= set::OPEN_FOR_WRITE;
        }
    }
    // Who gives a file away needs a capability, whoever owns it: it is told at once.
    if set.valid & set::UID != 0 && set.uid != op.caller.uid {
        Box::pin(op.read_caller(&[], cap::CHOWN)).await?;
    }
    let written = op.with(|core| core.state.opens.inode(id).map(|inode| (inode.data, inode.answered_end)));
    if written.is_some() && set.valid & set::SIZE == 0 {
        set.valid |= set::KNOWS_END;
    }
    let (mut attr, data, shared) = attr(op.ask(Request::SetAttr { id, set }).await?)?;
    // What this session has written, of which the home may not have heard, changes the rest by and by.
    if let Some((_, end)) =
        written.filter(|written| written.0 == data && written.1 > 0 && set.valid & set::KNOWS_END != 0)
    {
        attr.size = attr.size.max(end);
        attr.flags |= flag::UNSETTLED;
    }
    op.with(|core| {
        core.state.learn(id, data);
        // What is written from now on comes after this change, whatever clocks say (V-7).
        if let Some(part) = core.state.opens.inode(id).and_then(|inode| inode.part.as_mut()) {
            part.stamp = part.stamp.max(Stamp(attr.ctime as u64));
        }
        observe(core, &attr, !shared);
        Ok(FsReply::Attr { attr: marked(core, attr), btime: data.btime })
    })
}

/// access(2) for the uid of the request, the real one.
pub(crate) async fn access(op: &mut Op, id: InodeId, mask: u32) -> FsResult {
    done(op.ask(Request::Access { id, mask }).await?)?;
    Ok(FsReply::Done)
}

/// Target of a symlink.
pub(crate) async fn readlink(op: &mut Op, id: InodeId) -> FsResult {
    match op.ask(Request::ReadLink { id }).await? {
        Reply::Target { target, due } => {
            op.with(|core| later::accessed(core, id, due, true));
            Ok(FsReply::Target(target.0))
        }
        _ => Err(Errno::EIO),
    }
}

/// A file was read: its access time moves, lazily and whatever becomes of it (R-19: relatime, kept by the client).
pub(crate) async fn accessed(op: &mut Op, id: InodeId) {
    let set = SetAttr { valid: set::ATIME | set::ATIME_NOW | set::READ, ..SetAttr::default() };
    // A file that is gone has no access time; an unreachable home hears of the next read.
    _ = op.ask(Request::SetAttr { id, set }).await;
    op.with(|core| {
        let told = core.state.accessing.iter().position(|told| *told == id).expect("noted when this began");
        core.state.accessing.swap_remove(told);
        core.wake(WaitKey::Told(id).hash());
    });
}
