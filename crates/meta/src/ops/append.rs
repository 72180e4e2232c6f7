//! O_APPEND: one reservation of a file's end at a time, so that appends of several sessions do not overlap.
//!
//! Semantics: the size moves when the bytes are there, so no reader sees a hole (DESIGN §5). A reservation ends
//! with the write's Merge, by being given back, or with its session. Volatile.

use super::{Req, Step, Stop, begin, named};
use crate::state::keys;
use crate::{Core, Cx};
use onpath_kernel::Mode;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::reply::Reply;

pub(crate) async fn reserve(cx: &Cx, req: &Req, id: InodeId) -> Step {
    cx.with(|core| begin(core, req))?;
    cx.with(|core| core.state.opens.want_end(id, req.session));
    let granted = cx.until(keys::inode(id).0, |core| core.state.opens.reserve(id, req.session)).await;
    if !granted {
        return Err(Stop::Over); // the session has given up waiting
    }
    named::lock_inode(cx, id, Mode::Shared).await;
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
