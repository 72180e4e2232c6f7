//! Copy: a write of bytes that the node reads from a file of its own (copy_file_range(2)).
//!
//! The bytes are those of one moment, read as for a read; then it is a write as any other. Blocks are copied, not shared: a block belongs
//! to one file, so that freeing it needs no count that would have to survive crashes. Locks: none while it reads, then as a write. Journals
//! `Written`. Upholds R-20 for both files.

use crate::ops::read::{self, ReadJob};
use crate::ops::write::{self, WriteJob, failed};
use crate::state::{self, Caller, Entry, NodeCx};
use bytes::Bytes;
use onpath_wire::data::DataReply;
use onpath_wire::disk::block::PendingMerge;
use onpath_wire::ids::{DataId, SessionId};

pub(crate) struct CopyJob {
    pub(crate) from: Caller,
    pub(crate) session: SessionId,
    pub(crate) data: DataId,
    pub(crate) cut: u32,
    pub(crate) offset: u64,
    /// Whose bytes, under which cut, and from where on.
    pub(crate) source: (DataId, u32, u64),
    pub(crate) bytes: u32,
    pub(crate) kill_suidgid: bool,
}

impl CopyJob {
    fn write(&self, bytes: Bytes) -> WriteJob {
        let &CopyJob { from, session, data, cut, offset, kill_suidgid, .. } = self;
        WriteJob { from, session, data, cut, offset, kill_suidgid, append: false, part: None, bytes }
    }

    /// What the home is told.
    pub(crate) fn merge(&self) -> PendingMerge {
        PendingMerge { end: self.offset + u64::from(self.bytes), ..self.write(Bytes::new()).merge() }
    }
}

pub(crate) async fn copy(cx: &NodeCx, job: CopyJob) {
    match source(cx, &job).await {
        Ok(bytes) => write::write(cx, job.write(bytes)).await,
        Err(reply) => write::conclude(cx, job.from, job.merge(), Err(reply)).await,
    }
}

/// The bytes of the source, all of them: what was never written is zeros.
async fn source(cx: &NodeCx, job: &CopyJob) -> Result<Bytes, DataReply> {
    let (data, cut, offset) = job.source;
    match state::enter(cx, data, cut).await {
        Entry::Go => {}
        Entry::Stale => return Err(DataReply::SourceStale),
        busy => return Err(state::refusal(busy).expect("a request that may not go on")),
    }
    let read = ReadJob { from: job.from, data, cut, offset, bytes: job.bytes };
    let found = read::bytes(cx, &read).await.map_err(failed)?;
    if found.len() == job.bytes as usize {
        return Ok(found);
    }
    let mut whole = Vec::with_capacity(job.bytes as usize);
    whole.extend_from_slice(&found);
    whole.resize(job.bytes as usize, 0);
    Ok(whole.into())
}
