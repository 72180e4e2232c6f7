//! unlink: removes a name that is no directory.
//!
//! Semantics: write and search permission, sticky rule; the last name of a file that somebody has open makes it
//! an orphan (nlink 0), else it is gone with its bytes. A name whose inode lives elsewhere is a transaction.
//! Locks: name and inode, exclusive. Journals: name, change-log entry, inode. Rules.

use super::{Req, Step, begin, datapending, named, opens};
use crate::dir::site::{self, Gone};
use crate::state::commit::{Effects, commit};
use crate::state::further;
use crate::txn::coordinator;
use crate::txn::unlink::What;
use crate::{Core, Cx, access, txn};
use onpath_kernel::{Mode, OpId};
use onpath_store::Named;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::{Answer, Effect};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{DataId, InodeId, Stamp};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::peer::{Access, part};

pub(crate) async fn run(cx: &Cx, req: &Req, parent: InodeId, name: &Name) -> Step {
    let at = named::here(cx, parent, name)?;
    for attempt in 0.. {
        let found = named::lock(cx, &at, Mode::Exclusive).await;
        if found.is_none_or(|found| cx.with(|core| core.state.is_home(found.child))) {
            let dir = site::grant(cx, parent, part::BOTH).await;
            return cx.with(|core| step(core, cx.op(), req, dir, &at));
        }
        if let Some(reply) = Box::pin(txn::unlink::attempt(cx, req, parent, name, What::File, attempt)).await? {
            return Ok(reply);
        }
        cx.unlock_all();
        coordinator::back_off(cx, attempt).await?;
    }
    unreachable!("attempts are bounded by back_off")
}

fn step(core: &mut Core, op: OpId, req: &Req, dir: Result<Access, Gone>, at: &Named<'_>) -> Step {
    begin(core, req)?;
    let dir = dir?;
    access::search(req, &dir)?;
    let found = core.state.names.get(at).ok_or(Errno::ENOENT)?;
    access::modify(req, &dir)?;
    let inode = core.state.inodes.get(found.child).ok_or(Errno::EIO)?;
    access::sticky(req, &dir, (inode.uid, inode.gid))?;
    if found.kind == Kind::Directory {
        return Err(Errno::EISDIR.into());
    }
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    let (parent, name) = (at.parent(), at.name());
    let log = core.state.log(parent, -1, 0);
    let mut effects = Effects::new();
    effects.push(Effect::DropName { parent, name: name.clone(), child: found.child, kind: found.kind, log });
    let dropped = remove_link(core, inode, parent, stamp, &mut effects);
    let reply = commit(core, op, req, stamp, Answer::Done, effects);
    drop_data(core, dropped);
    Ok(reply)
}

/// A name is taken over by another inode: the one that had it stays an orphan for a moment. Who looked the name up just
/// before must find it, or a program that opens a file which is being replaced again and again fails with ESTALE.
pub(crate) fn replace_link(
    core: &mut Core,
    mut inode: Inode,
    parent: InodeId,
    stamp: Stamp,
    effects: &mut Effects,
) -> Option<DataId> {
    if inode.nlink > 1 || inode.is_dir() {
        return remove_link(core, inode, parent, stamp, effects);
    }
    inode.nlink = 0;
    inode.ctime = stamp.0 as i64;
    opens::linger(core, inode.id);
    effects.push(Effect::PutInode { inode });
    None
}

/// One name fewer, in this directory: the inode lives on, is an orphan, or is gone. Returns the bytes that go with it.
pub(crate) fn remove_link(
    core: &mut Core,
    mut inode: Inode,
    parent: InodeId,
    stamp: Stamp,
    effects: &mut Effects,
) -> Option<DataId> {
    if inode.is_dir() {
        inode.nlink = 0;
    } else {
        further::removed(core, &mut inode, parent, effects);
    }
    inode.ctime = stamp.0 as i64;
    if inode.nlink == 0 && !inode.is_dir() {
        opens::linger_if_opened(core, inode.id);
    }
    let kept = inode.nlink > 0 || core.state.opens.is_kept(inode.id);
    if kept || !datapending::may_go(core, &inode) {
        effects.push(Effect::PutInode { inode });
        return None;
    }
    drop_inode(&inode, effects)
}

/// Whether a data node may have bytes of an inode.
pub(super) fn was_written(inode: &Inode) -> bool {
    inode.kind == Kind::File && (inode.blocks_version > 0 || inode.size > 0 || inode.generation.0 > 0)
}

/// The inode goes for good; its bytes too, if it ever had any.
pub(crate) fn drop_inode(inode: &Inode, effects: &mut Effects) -> Option<DataId> {
    effects.push(Effect::DropInode { id: inode.id });
    was_written(inode).then(|| {
        let data = DataId { inode: inode.id, generation: inode.generation };
        effects.push(Effect::DataPending { data, cut: 0, size: 0, keep_reserved: false, drop: true });
        data
    })
}

/// Tells the data node, once the record is durable (design.md, "Data").
pub(crate) fn drop_data(core: &mut Core, dropped: Option<DataId>) {
    if let Some(data) = dropped {
        datapending::drop_later(core, data);
    }
}
