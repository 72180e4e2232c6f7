//! access(2): whether the caller may r, w, x. Locks: the inode, shared. Journals: nothing.

use super::{Req, Step, named};
use crate::{Cx, access};
use onpath_kernel::Mode;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::reply::Reply;

pub(crate) async fn run(cx: &Cx, req: &Req, id: InodeId, mask: u32) -> Step {
    named::lock_inode(cx, id, Mode::Shared).await;
    let attr = cx.with(|core| core.state.inodes.attr(id)).ok_or(Errno::ESTALE)?;
    access::check(req, (&attr).into(), attr.kind, (mask & 7) as u16)?;
    Ok(Reply::Done)
}
