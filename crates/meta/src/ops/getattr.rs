//! GETATTR and its relatives: attributes of an inode at its home.
//!
//! Semantics: exact, of a directory too (every update that has returned is applied first, R-4).
//! Locks: the inode, shared. Journals: nothing.

use super::{Req, Step, Stop, named};
use crate::dir::collect;
use crate::files::table::Looked;
use crate::files::{holders, many};
use crate::state::{keys, packets};
use crate::{Core, Cx};
use onpath_kernel::Mode;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, ShardId};
use onpath_wire::inode::Kind;
use onpath_wire::limits::ATTRS_ASKED_MAX;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;

pub(crate) async fn run(cx: &Cx, req: &Req, id: InodeId) -> Step {
    named::lock_shown(cx, id, &req.looked).await;
    if cx.with(|core| core.state.inodes.kind(id)) == Some(Kind::Directory) {
        collect::collect(cx, id, req.tracked).await;
    }
    cx.with(|core| attr(core, id, false))
}

/// Which bytes a file has.
pub(crate) async fn data_ref(cx: &Cx, req: &Req, id: InodeId) -> Step {
    named::lock_shown(cx, id, &req.looked).await;
    cx.with(|core| attr(core, id, false))
}

/// Attributes as they are; ESTALE makes the kernel look the path up again.
pub(crate) fn attr(core: &mut Core, id: InodeId, shared: bool) -> Step {
    match core.state.inodes.shown(id) {
        Some((attr, data)) => Ok(Reply::Attr { attr, data, shared }),
        None => Err(Stop::Errno(Errno::ESTALE)),
    }
}

/// Inodes that one request reads from the store, at most: meanwhile the shard does nothing else.
const COLD_MAX: usize = 64;

/// Attributes of many inodes as they are: for listings, where directories need not be exact. Of lent files data nodes are asked, all at once;
/// nobody else is waited for: an inode that is being changed, perhaps by what has returned elsewhere, is left out, and so is what it would take
/// long to read, or a data node does not tell soon. Of more than fit an answer nothing is told.
pub(crate) async fn many(cx: &Cx, ids: &[InodeId]) -> Step {
    if ids.len() > ATTRS_ASKED_MAX {
        return Err(Errno::EINVAL.into());
    }
    let collected = many::collect(cx, ids).await;
    let mut cold = 0;
    let mut look = |core: &mut Core, id| {
        let key = keys::inode(id);
        let is_exact = || core.is_free([(key, Mode::Shared)]) && !holders::hides(&core.state, id);
        if !collected.contains(&id) && !is_exact() {
            return None;
        }
        if !core.state.inodes.is_in_memory(id) {
            cold += 1;
            if cold > COLD_MAX {
                return None;
            }
        }
        core.rest_on_object(cx.op(), key);
        core.state.told(id)
    };
    cx.with(|core| Ok(Reply::Attrs { attrs: ids.iter().map(|&id| look(core, id)).collect() }))
}

/// A name's site asks for the attributes of an inode that lives here.
pub(crate) async fn home_read(cx: &Cx, from: ShardId, seq: RequestSeq, id: InodeId) {
    named::lock_shown(cx, id, &Looked::default()).await;
    cx.with(|core| packets::answer_home_read(core, cx.op(), from, seq, id));
}

/// The parent of a directory, for the walk that refuses cycles. It takes no lock: whoever holds this one may wait for the
/// attempt that walks, and while it has the rename lock no directory gets another parent.
pub(crate) fn parent_of(cx: &Cx, from: ShardId, seq: RequestSeq, dir: InodeId) {
    cx.with(|core| {
        let all = core.state.record_seq;
        core.rest_on(cx.op(), all);
        let parent = core.state.inodes.get(dir).map(|inode| inode.parent);
        packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &Peer::ParentIs { parent });
    });
}
