//! Sync: everything that the node has of a file is on stable storage when the answer leaves.
//!
//! The answer rests on the file's last record and needs that durable. The host flushes the dirty data files before
//! every flush of the journal, so a durable record's blocks are durable too. Locks: none. Journals nothing.

use crate::state::{self, Caller, Node};
use bytes::Bytes;
use onpath_kernel::Need;
use onpath_wire::data::DataReply;
use onpath_wire::ids::{DataId, RecordSeq};

/// What of former terms is there, for a session that was told of writes in one of them.
pub(crate) fn kept(core: &mut Node, from: Caller) {
    let reply = DataReply::Kept { since: core.state.kept_since, upto: core.state.kept };
    state::answer(core, from, &reply, Bytes::new(), RecordSeq(0), Need::ByDestination);
}

pub(crate) fn sync(core: &mut Node, from: Caller, data: DataId) {
    let after = core.state.tail.last(data.inode);
    state::answer(core, from, &DataReply::Synced, Bytes::new(), after, Need::Durable);
}
