//! Read: the bytes of a range as of one moment, checked against their CRCs.
//!
//! Locks: none. Blocks are never overwritten, and freed ones are not used again while a read that began before is going
//! on ([`crate::space`]), so the blocks found in one synchronous step stay what they are. Journals nothing. Upholds R-20: stale
//! reads are refused, those of a newer cut wait for its trim. A hole reads as zeros, and the reply ends with the last
//! byte written in the range.

use crate::content::{BLOCK, KEEP_ALL, Segment};
use crate::disk::{DiskOp, DiskResult, Results};
use crate::state::{self, Caller, NodeCx, State};
use bytes::Bytes;
use onpath_kernel::Need;
use onpath_wire::Errno;
use onpath_wire::checksum::crc32c;
use onpath_wire::data::DataReply;
use onpath_wire::ids::{DataId, RecordSeq};
use onpath_wire::limits::BLOCK_BYTES;
use smallvec::SmallVec;

pub(crate) struct ReadJob {
    pub(crate) from: Caller,
    pub(crate) data: DataId,
    pub(crate) cut: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
}

pub(crate) type Segments = SmallVec<[Segment; 1]>;

pub(crate) async fn read(cx: &NodeCx, job: ReadJob) {
    if let Some(reply) = state::refusal(state::enter(cx, job.data, job.cut).await) {
        return cx.with(|core| state::refuse(core, job.from, &reply));
    }
    let after = cx.with(|core| core.state.tail.last(job.data.inode));
    let bytes = bytes(cx, &job).await;
    cx.with(|core| finish(core, &job, bytes, after));
}

/// The bytes of the range as of now, up to the last one written in it.
pub(crate) async fn bytes(cx: &NodeCx, job: &ReadJob) -> Result<Bytes, Errno> {
    let segments = cx.with(|core| find(&mut core.state, job.data, job.offset, job.bytes.into()));
    let read = match segments.is_empty() {
        true => Ok((segments, Results::new())),
        false => fetch(cx, segments).await,
    };
    read.map(|(segments, results)| assemble(job, &segments, &results))
}

fn finish(core: &mut state::Node, job: &ReadJob, bytes: Result<Bytes, Errno>, after: RecordSeq) {
    match bytes {
        Ok(bulk) => {
            core.state.counters.reads += 1;
            state::answer(core, job.from, &DataReply::Bytes, bulk, after, Need::ByDestination);
        }
        Err(errno) => state::refuse(core, job.from, &DataReply::Failed { errno }),
    }
}

/// The segments that have bytes of a range.
fn find(state: &mut State, data: DataId, offset: u64, bytes: u64) -> Segments {
    let Some(file) = state.index.file(data).filter(|_| bytes > 0) else { return Segments::new() };
    let (first, last) = (offset / BLOCK_BYTES, (offset + bytes - 1) / BLOCK_BYTES);
    file.content.segments(first as u32, last as u32, state.config.file_blocks)
}

/// Reads segments and checks their CRCs.
pub(crate) async fn fetch(cx: &NodeCx, segments: Segments) -> Result<(Segments, Results), Errno> {
    let (group, read) = cx.with(|core| {
        let state = &core.state;
        let ops: SmallVec<[DiskOp; 1]> = segments.iter().map(|segment| read_op(state, segment)).collect();
        (state::issue(core, ops.into_iter()), core.state.space.begin_read())
    });
    let results = state::results(cx, group).await;
    let bad = segments.iter().zip(&results).map(|(segment, result)| bad_blocks(segment, result)).sum::<u64>();
    cx.with(|core| {
        let now_us = core.now.mono_us;
        core.state.space.end_read(read, now_us);
        core.state.counters.bad_blocks += bad;
    });
    let failed = results.iter().any(|result| !matches!(result, DiskResult::Bytes(_)));
    if failed || bad > 0 { Err(Errno::EIO) } else { Ok((segments, results)) }
}

fn read_op(state: &State, segment: &Segment) -> DiskOp {
    let (file, offset) = state.place(segment.extent.phys);
    DiskOp::Read { file, offset, len: (segment.extent.crcs.len() * BLOCK) as u32 }
}

fn bad_blocks(segment: &Segment, result: &DiskResult) -> u64 {
    let DiskResult::Bytes(bytes) = result else { return 0 };
    let crcs = &segment.extent.crcs;
    if bytes.len() != crcs.len() * BLOCK {
        return crcs.len() as u64;
    }
    bytes.chunks_exact(BLOCK).zip(crcs).filter(|(block, crc)| crc32c(block) != **crc).count() as u64
}

/// The bytes of the range: without a copy where one segment has them all.
fn assemble(job: &ReadJob, segments: &Segments, results: &Results) -> Bytes {
    let range = job.offset..job.offset + u64::from(job.bytes);
    let parts = segments.iter().zip(results).filter_map(|(segment, result)| {
        let DiskResult::Bytes(bytes) = result else { return None };
        let start = u64::from(segment.extent.start) * BLOCK_BYTES;
        let len = if segment.keep == KEEP_ALL { bytes.len() } else { usize::from(segment.keep) } as u64;
        let (from, to) = (start.max(range.start), (start + len).min(range.end));
        (from < to).then(|| (from, bytes.slice((from - start) as usize..(to - start) as usize)))
    });
    let parts: SmallVec<[(u64, Bytes); 1]> = parts.collect();
    match parts.as_slice() {
        [] => Bytes::new(),
        [(from, bytes)] if *from == range.start => bytes.clone(),
        [.., (last, bytes)] => {
            let mut whole = vec![0; (last - range.start) as usize + bytes.len()];
            for (from, bytes) in &parts {
                let at = (from - range.start) as usize;
                whole[at..at + bytes.len()].copy_from_slice(bytes);
            }
            whole.into()
        }
    }
}
