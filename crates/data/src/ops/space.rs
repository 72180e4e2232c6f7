//! Space: room of this node, which is that of the file system below. Locks: none. Journals nothing.

use crate::disk::{DiskOp, DiskResult};
use crate::state::{self, Caller, NodeCx};
use bytes::Bytes;
use onpath_kernel::Need;
use onpath_wire::Errno;
use onpath_wire::data::DataReply;
use onpath_wire::ids::RecordSeq;
use onpath_wire::limits::BLOCK_BYTES;

pub(crate) async fn space(cx: &NodeCx, from: Caller) {
    let group = cx.with(|core| state::issue(core, [DiskOp::Space].into_iter()));
    let results = state::results(cx, group).await;
    cx.with(|core| {
        let reply = match results.first() {
            Some(DiskResult::Space { free, .. }) => {
                let free = free / BLOCK_BYTES;
                DataReply::Space { total: core.state.index.map.blocks() + free, free }
            }
            Some(DiskResult::Failed(errno)) => DataReply::Failed { errno: *errno },
            _ => DataReply::Failed { errno: Errno::EIO },
        };
        state::answer(core, from, &reply, Bytes::new(), RecordSeq(0), Need::ByDestination);
    });
}
