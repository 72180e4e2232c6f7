//! access(2): whether the caller may r, w, x. Locks: the inode, shared. Journals: nothing.

use super::{Req, Step, named};
use crate::Cx;
use crate::access::{self, Owned};
use onpath_kernel::Mode;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::reply::Reply;

pub(crate) async fn run(cx: &Cx, req: &Req, id: InodeId, mask: u32) -> Step {
    named::lock_inode(cx, id, Mode::Shared).await;
    cx.with(|core| {
        let attr = core.state.inodes.attr(id).ok_or(Errno::ESTALE)?;
        let acls = core.state.inodes.acls(id);
        access::check(req, Owned::shown(&attr, acls.as_deref()), attr.kind, (mask & 7) as u16)?;
        Ok(Reply::Done)
    })
}
