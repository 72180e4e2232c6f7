//! Operations of a data node, one file each.

pub(crate) mod merge;
pub(crate) mod read;
pub(crate) mod space;
pub(crate) mod sync;
pub(crate) mod trim;
pub(crate) mod write;

use crate::state::{self, Caller, NodeCx};
use onpath_wire::block::{DataRecord, Mapping, PendingMerge};
use onpath_wire::ids::{DataId, RecordSeq};

/// What starts an operation.
pub(crate) enum Job {
    Write(write::WriteJob),
    Read(read::ReadJob),
    /// Tell the home of a write that was recorded before (by a lost process, or by an earlier packet of a duplicate).
    Merge {
        seq: RecordSeq,
        merge: PendingMerge,
    },
    Trim {
        from: Caller,
        data: DataId,
        cut: u32,
        size: u64,
    },
    Drop {
        from: Caller,
        data: DataId,
    },
    Space {
        from: Caller,
    },
    /// Record which homes have answered.
    Settle,
    /// At start: a block's bytes never reached the disk.
    Restore {
        data: DataId,
        block: u32,
        to: Option<Mapping>,
    },
}

/// Runs an operation.
pub(crate) async fn run(cx: NodeCx, job: Job) {
    match job {
        Job::Write(job) => write::write(&cx, job).await,
        Job::Read(job) => read::read(&cx, job).await,
        Job::Merge { seq, merge } => merge::repeat(&cx, seq, merge).await,
        Job::Trim { from, data, cut, size } => trim::trim(&cx, from, data, cut, size),
        Job::Drop { from, data } => trim::drop_data(&cx, from, data),
        Job::Space { from } => space::space(&cx, from).await,
        Job::Settle => merge::settle(&cx),
        Job::Restore { data, block, to } => cx.with(|core| {
            state::record(core, cx.op(), &DataRecord::Restored { data, block, to });
        }),
    }
}
