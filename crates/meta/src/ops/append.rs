//! O_APPEND: one reservation of a file's end at a time, so that appends of several sessions do not overlap.
//!
//! Semantics: the size moves when the bytes are there, so no reader sees a hole (DESIGN §5). A reservation ends
//! with the write's Merge, by being given back, or with its session. Volatile.

use super::{Req, Step, named};
use crate::Cx;
use crate::state::keys;
use onpath_kernel::Mode;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::reply::Reply;

pub(crate) async fn reserve(cx: &Cx, req: &Req, id: InodeId) -> Step {
    cx.until(keys::inode(id).0, |core| core.state.opens.reserve(id, req.session, req.seq).then_some(())).await;
    named::lock_inode(cx, id, Mode::Shared).await;
    cx.with(|core| {
        let inode = core.state.inodes.get(id).filter(|inode| inode.kind == Kind::File);
        let Some(inode) = inode else {
            core.state.opens.unreserve(id, req.session);
            return Err(Errno::ESTALE.into());
        };
        let data = core.state.inodes.data_ref(id).expect("the inode is here");
        Ok(Reply::Reserved { offset: inode.size, data })
    })
}

pub(crate) fn unreserve(cx: &Cx, req: &Req, id: InodeId) -> Step {
    cx.with(|core| {
        if core.state.opens.unreserve(id, req.session) {
            core.wake(keys::inode(id).0);
        }
        Ok(Reply::Done)
    })
}
