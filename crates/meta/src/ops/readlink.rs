//! readlink: the target of a symlink. Locks: the inode, shared. Journals: nothing.

use super::{Step, named};
use crate::Cx;
use onpath_kernel::Mode;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::reply::Reply;

pub(crate) async fn run(cx: &Cx, id: InodeId) -> Step {
    named::lock_inode(cx, id, Mode::Shared).await;
    let inode = cx.with(|core| core.state.inodes.get(id)).ok_or(Errno::ESTALE)?;
    if inode.kind != Kind::Symlink {
        return Err(Errno::EINVAL.into());
    }
    Ok(Reply::Target { target: inode.target })
}
