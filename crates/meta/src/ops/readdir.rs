//! readdir: a page of a listing, in cookie order, at the directory's owner (SwitchFS §5.2.2).
//!
//! Semantics: shows every update that returned before, and is closed under real-time order; an entry that is
//! there throughout a scan is returned exactly once, since its cookie never changes.
//! Locks: the inode, shared. Journals: nothing.

use super::{Req, Step, named};
use crate::Cx;
use crate::access;
use crate::dir::collect;
use onpath_kernel::Mode;
use onpath_wire::disk::inode::Inode;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{Cookie, InodeId};
use onpath_wire::limits::IO_BYTES_MAX;
use onpath_wire::reply::Reply;

pub(crate) async fn run(cx: &Cx, req: &Req, id: InodeId, after: Cookie, bytes: u32) -> Step {
    named::lock_inode(cx, id, Mode::Shared).await;
    if !cx.with(|core| core.state.inodes.get(id).is_some_and(|inode| inode.is_dir())) {
        let known = cx.with(|core| core.state.inodes.contains(id));
        return Err(if known { Errno::ENOTDIR } else { Errno::ESTALE }.into());
    }
    collect::collect(cx, id, req.tracked).await;
    cx.with(|core| {
        let inode = core.state.inodes.get(id).ok_or(Errno::ESTALE)?;
        let flags = core.state.inodes.access(id).map_or(0, |dir| access::flags(&dir));
        let (entries, end) = core.state.listings.page(id, after, (bytes as usize).min(IO_BYTES_MAX));
        let due = after <= Cookie::DOTDOT && atime_is_due(&inode, core.now.wall_ns);
        Ok(Reply::Dir { parent: inode.parent, entries, end, due, flags })
    })
}

/// relatime: the access time follows when it is not after the last change, or a day old.
pub(super) fn atime_is_due(inode: &Inode, wall_ns: u64) -> bool {
    const DAY_NS: i64 = 24 * 3_600 * 1_000_000_000;
    inode.atime <= inode.mtime || inode.atime <= inode.ctime || inode.atime.saturating_add(DAY_NS) < wall_ns as i64
}
