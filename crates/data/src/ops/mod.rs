//! Operations of a data node, one file each.

pub(crate) mod allocate;
pub(crate) mod copy;
pub(crate) mod kinds;
pub(crate) mod merge;
pub(crate) mod read;
pub(crate) mod seek;
pub(crate) mod space;
pub(crate) mod sync;
pub(crate) mod tell;
pub(crate) mod trim;
pub(crate) mod write;

use crate::space::Run;
use crate::state::{Caller, NodeCx};
use crate::table;
use onpath_wire::data::{Recorded, UndoneAppend};
use onpath_wire::disk::block::PendingMerge;
use onpath_wire::ids::{DataId, InodeId, LogSeq, RecordSeq, ShardId, TrackingEpoch};

/// What starts an operation; what never waits is a plain function.
pub(crate) enum Job {
    Write(write::WriteJob),
    Read(read::ReadJob),
    Allocate(Box<allocate::AllocateJob>),
    Copy(Box<copy::CopyJob>),
    Seek {
        from: Caller,
        data: DataId,
        cut: u32,
        offset: u64,
        hole: bool,
    },
    /// Tell the home of a write that was recorded before (by a lost process, or by an earlier packet of a duplicate).
    Merge {
        seq: RecordSeq,
        merge: PendingMerge,
        /// The record, if it is of a lost process.
        again: Option<Recorded>,
    },
    /// Tell the home what is left after a power loss.
    Recount(DataId, Vec<UndoneAppend>),
    /// Take the space of places that are kept for blocks again: a power loss may have lost it.
    Keep(Vec<Run>),
    Space {
        from: Caller,
    },
    /// Tell a home which writes of its files were answered here.
    Tell(ShardId),
    /// Give back merge parts that are not used.
    Sweep,
    /// Ask a home which merge part it has given last.
    AskPart(ShardId),
    /// Ask the coordinator how files are tracked.
    AskTracking {
        used_up: TrackingEpoch,
    },
    /// Answer a write when its home has learned it.
    AnswerLearned {
        from: Caller,
        inode: InodeId,
        upto: LogSeq,
    },
    /// Answer the coordinator when homes have learned all that was answered before an epoch.
    Close {
        from: Caller,
        epoch: TrackingEpoch,
    },
}

/// Runs an operation.
pub(crate) async fn run(cx: NodeCx, job: Job) {
    match job {
        Job::Write(job) => write::write(&cx, job).await,
        Job::Read(job) => read::read(&cx, job).await,
        // Rare ones are boxed, so that the place of an operation stays as small as the common ones need.
        Job::Allocate(job) => Box::pin(allocate::allocate(&cx, *job)).await,
        Job::Copy(job) => Box::pin(copy::copy(&cx, *job)).await,
        Job::Seek { from, data, cut, offset, hole } => seek::seek(&cx, from, (data, cut), offset, hole).await,
        Job::Merge { seq, merge, again } => merge::tell(&cx, seq, merge, again).await,
        Job::Recount(data, undone) => merge::recount(&cx, data, undone).await,
        Job::Keep(runs) => Box::pin(allocate::keep(&cx, &runs)).await,
        Job::Space { from } => space::space(&cx, from).await,
        Job::Tell(home) => tell::tell(&cx, home).await,
        Job::Sweep => Box::pin(tell::sweep(&cx)).await,
        Job::AskPart(home) => tell::ask_part(&cx, home).await,
        Job::AskTracking { used_up } => tell::ask_tracking(&cx, used_up).await,
        Job::AnswerLearned { from, inode, upto } => table::answer_learned(&cx, from, inode, upto).await,
        Job::Close { from, epoch } => Box::pin(table::close(&cx, from, epoch)).await,
    }
}
