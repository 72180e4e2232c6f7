//! Trim and Drop: homes take bytes away. Calls, answered when the record is made; repeated ones are answered again.
//!
//! No block is written: what a trim leaves of its last block is remembered as a length, so that it also works on a full
//! disk. Locks: none; a write in progress under an older cut finds itself stale when it comes to record.
//! Journals `Trimmed`, `Dropped`, `Voided`. Upholds R-20.

use crate::index::Verdict;
use crate::state::{self, Caller, Node};
use bytes::Bytes;
use onpath_kernel::Need;
use onpath_wire::data::DataReply;
use onpath_wire::disk::block::DataRecord;
use onpath_wire::ids::{DataId, RecordSeq, Term};
use onpath_wire::limits::FILE_BYTES_MAX;

/// `term`: of the home that says so; `keep_reserved`: blocks that are only reserved stay. A generation that is newer than `data`'s and of an
/// earlier term may be void: then this trim must be known when `data`'s counts again.
pub(crate) fn trim(
    core: &mut Node,
    from: Caller,
    term: Term,
    (data, cut): (DataId, u32),
    size: u64,
    keep_reserved: bool,
) {
    let index = &mut core.state.index;
    let known = match index.file(data) {
        Some(file) => file.cut >= cut,
        None => index.verdict(data, cut) == Verdict::Stale && index.newest(data.inode).is_none_or(|g| g.term() >= term),
    };
    if !known {
        let size = size.min(FILE_BYTES_MAX);
        state::record(core, &DataRecord::Trimmed { data, cut, size, keep_reserved });
    }
    trimmed(core, from, data);
}

pub(crate) fn drop_all(core: &mut Node, from: Caller, all: &[DataId]) {
    let mut after = RecordSeq(0);
    for &data in all {
        if !core.state.index.is_dropped(data) {
            state::record(core, &DataRecord::Dropped { data });
        }
        after = after.max(core.state.tail.last(data.inode));
    }
    let reply = DataReply::Trimmed { blocks: 0, version: core.state.index.last.0 };
    state::answer(core, from, &reply, Bytes::new(), after, Need::ByDestination);
}

/// The home has forgotten this generation in a power loss, and nobody was told of anything in it: the one before it counts.
pub(crate) fn void(core: &mut Node, data: DataId) {
    if core.state.index.file(data).is_some() {
        state::record(core, &DataRecord::Voided { data });
    }
}

fn trimmed(core: &mut Node, from: Caller, data: DataId) {
    let (blocks, version) = (core.state.index.blocks_of(data), core.state.index.last.0);
    let after = core.state.tail.last(data.inode);
    let reply = DataReply::Trimmed { blocks, version };
    state::answer(core, from, &reply, Bytes::new(), after, Need::ByDestination);
}
