//! Sync: everything that the node has of a file is on stable storage when the answer leaves.
//!
//! The answer rests on the file's last record and needs that durable. The host flushes the dirty data files before
//! every flush of the journal, so a durable record's blocks are durable too. Locks: none. Journals nothing.

use crate::state::{self, Caller, Node};
use bytes::Bytes;
use onpath_kernel::Need;
use onpath_wire::data::DataReply;
use onpath_wire::ids::DataId;

pub(crate) fn sync(core: &mut Node, from: Caller, data: DataId) {
    let after = core.state.tail.last(data.inode);
    state::answer(core, from, &DataReply::Synced, Bytes::new(), after, Need::Durable);
}
