//! Operations of a data node, one file each.

pub(crate) mod merge;
pub(crate) mod read;
pub(crate) mod space;
pub(crate) mod sync;
pub(crate) mod trim;
pub(crate) mod write;

use crate::state::{Caller, NodeCx};
use onpath_wire::block::PendingMerge;
use onpath_wire::data::UndoneAppend;
use onpath_wire::ids::{DataId, RecordSeq};

/// What starts an operation; what never waits is a plain function.
pub(crate) enum Job {
    Write(write::WriteJob),
    Read(read::ReadJob),
    /// Tell the home of a write that was recorded before (by a lost process, or by an earlier packet of a duplicate).
    Merge {
        seq: RecordSeq,
        merge: PendingMerge,
    },
    /// Tell the home what is left after a power loss.
    Recount(DataId, Vec<UndoneAppend>),
    Space {
        from: Caller,
    },
}

/// Runs an operation.
pub(crate) async fn run(cx: NodeCx, job: Job) {
    match job {
        Job::Write(job) => write::write(&cx, job).await,
        Job::Read(job) => read::read(&cx, job).await,
        Job::Merge { seq, merge } => merge::tell(&cx, seq, merge).await,
        Job::Recount(data, undone) => merge::recount(&cx, data, undone).await,
        Job::Space { from } => space::space(&cx, from).await,
    }
}
