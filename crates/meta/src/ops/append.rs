//! O_APPEND: one reservation of a file's end at a time, so that appends of several sessions do not overlap.
//!
//! Semantics: the size moves when the bytes are there, so no reader sees a hole (design.md, "Data"). A reservation ends
//! with the write's Merge, by being given back, or with its session. Volatile: after a restart, or the death of its
//! session, a write that it allowed may still be on its way. Data nodes refuse it where others have written meanwhile, and its
//! session reserves anew. Locks: the inode, shared. Journals: nothing; a cut that is raised the inode and the trim at its size.

use super::{Req, Step, Stop, begin, datapending, named, pages};
use crate::files::holders;
use crate::state::commit::commit_own;
use crate::state::keys;
use crate::{Core, Cx};
use onpath_kernel::{Mode, OpId};
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::Effect;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{DataId, InodeId};
use onpath_wire::inode::Kind;
use onpath_wire::reply::Reply;

pub(crate) async fn reserve(cx: &Cx, req: &Req, id: InodeId) -> Step {
    cx.with(|core| begin(core, req))?;
    cx.with(|core| core.state.opens.want_end(id, req.session));
    let granted = cx.until(keys::inode(id).0, |core| core.state.opens.reserve(id, req.session, req.seq)).await;
    if !granted {
        return Err(Stop::Over); // the session has given up waiting
    }
    pages::written_back(cx, req, id, false).await;
    named::lock_inode(cx, id, Mode::Shared).await;
    holders::revoke(cx, id).await;
    cx.with(|core| {
        let inode = core.state.inodes.get(id).filter(|inode| inode.kind == Kind::File);
        let Some(inode) = inode else {
            give_back(core, id, req);
            return Err(Errno::ESTALE.into());
        };
        let data = core.state.inodes.data_ref(id).expect("the inode is here");
        Ok(Reply::Reserved { offset: inode.size, data })
    })
}

/// Writes under what sessions know of the file so far will not count, unless they have come to the home.
pub(super) fn raise_cut(core: &mut Core, op: OpId, mut inode: Inode) {
    inode.cut += 1;
    let data = DataId { inode: inode.id, generation: inode.generation };
    let (cut, size) = (inode.cut, inode.size);
    let pending = Effect::DataPending { data, cut, size, keep_reserved: true, drop: false };
    commit_own(core, op, vec![Effect::PutInode { inode }, pending]);
    datapending::trim_later(core, data, cut);
}

pub(crate) fn unreserve(cx: &Cx, req: &Req, id: InodeId) -> Step {
    cx.with(|core| {
        begin(core, req)?;
        give_back(core, id, req);
        Ok(Reply::Done)
    })
}

fn give_back(core: &mut Core, id: InodeId, req: &Req) {
    if core.state.opens.unreserve(id, req.session) {
        core.wake(keys::inode(id).0);
    }
}
