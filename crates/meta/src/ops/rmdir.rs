//! rmdir: removes an empty directory (SwitchFS §5.2.3).
//!
//! Semantics: as unlink, for directories; ENOTEMPTY after every update that has returned was applied. The
//! directory's home recalls all parts from everybody first, so nobody creates in it, or finds it by a path, while it is decided.
//! Locks: name and inode, exclusive. Journals: name, change-log entry, inode. Rules.

use super::unlink::remove_link;
use super::{Req, Step, begin, named};
use crate::dir::site::Gone;
use crate::dir::{holders, site};
use crate::planted::{self, Planted};
use crate::state::commit::{Effects, commit};
use crate::txn::coordinator;
use crate::txn::unlink::What;
use crate::{Core, Cx, access, txn};
use onpath_kernel::{Mode, OpId};
use onpath_store::Named;
use onpath_wire::disk::record::{Answer, Effect};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::peer::{Access, part};

pub(crate) async fn run(cx: &Cx, req: &Req, parent: InodeId, name: &Name) -> Step {
    let at = named::here(cx, parent, name)?;
    for attempt in 0.. {
        let found = named::lock(cx, &at, Mode::Exclusive).await;
        let child = found.filter(|f| f.kind == Kind::Directory).map(|f| f.child);
        if child.is_none_or(|child| cx.with(|core| core.state.is_home(child))) {
            return here(cx, req, &at, child).await;
        }
        if let Some(reply) = Box::pin(txn::unlink::attempt(cx, req, parent, name, What::Directory, attempt)).await? {
            return Ok(reply);
        }
        cx.unlock_all();
        coordinator::back_off(cx, attempt).await?;
    }
    unreachable!("attempts are bounded by back_off")
}

/// The directory's home is here, or there is nothing to remove.
async fn here(cx: &Cx, req: &Req, at: &Named<'_>, child: Option<InodeId>) -> Step {
    let parent = at.parent();
    loop {
        let dir = site::grant_settled(cx, parent).await;
        // Without permission nothing is recalled: a stranger must not slow a directory down.
        let sealed = cx.with(|core| {
            let refused = dir.as_ref().map_or(true, |dir| access::modify(req, dir).is_err());
            refused
                || planted::is(Planted::RmdirWithoutRecall)
                || child.is_none_or(|child| holders::is_revoked(core, child, part::ALL))
        });
        if sealed {
            return cx.with(|core| step(core, cx.op(), req, dir, at));
        }
        holders::revoke(cx, child.expect("only a directory is sealed"), part::ALL).await;
        // What was recalled stays recalled until the next await; the parent's parts may have gone meanwhile.
        if let Some(dir) = cx.with(|core| site::have_settled(core, cx.op(), parent)) {
            return cx.with(|core| step(core, cx.op(), req, dir, at));
        }
    }
}

fn step(core: &mut Core, op: OpId, req: &Req, dir: Result<Access, Gone>, at: &Named<'_>) -> Step {
    begin(core, req)?;
    let dir = dir?;
    access::search(req, &dir)?;
    let found = core.state.names.get(at).ok_or(Errno::ENOENT)?;
    access::modify(req, &dir)?;
    // A file's inode may be elsewhere: its owner, who is only asked about first in a sticky directory, does not matter.
    let missing = if found.kind == Kind::Directory { Errno::EIO } else { Errno::ENOTDIR };
    let inode = core.state.inodes.get(found.child).ok_or(missing)?;
    access::sticky(req, &dir, (inode.uid, inode.gid))?;
    if found.kind != Kind::Directory {
        return Err(Errno::ENOTDIR.into());
    }
    if inode.entries > 0 {
        return Err(Errno::ENOTEMPTY.into());
    }
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    let (parent, name) = (at.parent(), at.name());
    let log = core.state.log(parent, -1, -1);
    let mut effects = Effects::new();
    effects.push(Effect::DropName { parent, name: name.clone(), child: found.child, kind: found.kind, log });
    remove_link(core, inode, parent, stamp, &mut effects);
    let reply = commit(core, op, req, stamp, Answer::Done, effects);
    crate::dir::owner::wake(core, found.child);
    Ok(reply)
}
