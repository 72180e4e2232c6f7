//! fsync: answered when everything recorded of the inode is durable.
//!
//! Of a directory every append holder's entries come first: a collect brings them, and their records were durable
//! before they left another process.

use super::{Req, Step, Stop, named};
use crate::Cx;
use crate::dir::collect;
use crate::planted::{self, Planted};
use crate::state::packets;
use onpath_kernel::Mode;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::reply::Reply;

pub(crate) async fn run(cx: &Cx, req: &Req, id: InodeId) -> Step {
    named::lock_inode(cx, id, Mode::Shared).await;
    match cx.with(|core| core.state.inodes.kind(id)) {
        None => return Err(Errno::ESTALE.into()),
        Some(Kind::Directory) if planted::is(Planted::SyncWithoutCollect) => {}
        Some(Kind::Directory) => collect::collect(cx, id, req.tracked).await,
        Some(_) => {}
    }
    cx.with(|core| packets::reply_durably(core, req, &Reply::Done));
    Err(Stop::Answered)
}
