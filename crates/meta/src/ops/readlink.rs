//! readlink: the target of a symlink. Locks: the inode, shared. Journals: nothing.

use super::readdir::atime_is_due;
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
    let due = cx.with(|core| atime_is_due(&inode, core.now.wall_ns));
    Ok(Reply::Target { target: inode.target, due })
}
