//! Seek: where the next data or the next hole begins, by whole blocks (lseek(2) SEEK_DATA, SEEK_HOLE).
//!
//! Empty chunks are passed over without a look at their blocks, and so are full ones. Reserved blocks without bytes are holes. The size of
//! the file is its home's business. Locks: none. Journals nothing. Upholds R-20 as a read does.

use crate::state::{self, Caller, NodeCx};
use bytes::Bytes;
use onpath_kernel::Need;
use onpath_wire::data::DataReply;
use onpath_wire::ids::DataId;
use onpath_wire::limits::BLOCK_BYTES;

pub(crate) async fn seek(cx: &NodeCx, from: Caller, (data, cut): (DataId, u32), offset: u64, hole: bool) {
    if let Some(reply) = state::refusal(state::enter(cx, data, cut).await) {
        return cx.with(|core| state::refuse(core, from, &reply));
    }
    cx.with(|core| {
        let first = (offset / BLOCK_BYTES) as u32;
        let found = match core.state.index.file(data) {
            Some(file) => file.content.next(first, hole),
            None => hole.then_some(first),
        };
        let offset = found.map(|block| (u64::from(block) * BLOCK_BYTES).max(offset));
        let after = core.state.tail.last(data.inode);
        state::answer(core, from, &DataReply::Position { offset }, Bytes::new(), after, Need::ByDestination);
    });
}
