//! Write: new blocks, then the record that makes them current, then the home hears of it.
//!
//! A block of which only a part is written is read back and merged first; a hole merges as zeros. The home answers the
//! session; the node itself answers only *Stale* and errors, after which nothing of the write is there. ENOSPC only comes
//! when the space of removed files, which comes back a little after they are gone, does not suffice.
//! Locks: the one or two chunks, shared by writes of whole blocks, alone by those that merge; they are held until the record is made, not
//! while the home is told. Journals `Written`. Upholds R-20 (checked again in the step that records), R-17 (repeated requests).

use crate::content::{BLOCK, CHUNK_BLOCKS, KEEP_ALL, Segment};
use crate::disk::{DiskOp, DiskResult};
use crate::index::Verdict;
use crate::ops::{merge, read};
use crate::space::{Run, Runs};
use crate::state::{self, Caller, Node, NodeCx};
use bytes::Bytes;
use onpath_kernel::{Key, Mode};
use onpath_wire::Errno;
use onpath_wire::block::{DataRecord, Extent, PendingMerge};
use onpath_wire::checksum::crc32c;
use onpath_wire::data::DataReply;
use onpath_wire::hash::inode_hash;
use onpath_wire::ids::{DataId, RecordSeq, SessionId};
use onpath_wire::limits::BLOCK_BYTES;
use smallvec::SmallVec;

/// Tries of a write on a full disk, besides the first.
const RECLAIM_ROUNDS: u32 = 4;
/// Pause before the next try, microseconds: longer than a flush of the journal, after which freed space can be had.
const RECLAIM_WAIT_US: u64 = 250_000;

pub(crate) struct WriteJob {
    pub(crate) from: Caller,
    pub(crate) session: SessionId,
    pub(crate) data: DataId,
    pub(crate) cut: u32,
    pub(crate) offset: u64,
    pub(crate) kill_suidgid: bool,
    pub(crate) append: bool,
    pub(crate) bytes: Bytes,
}

pub(crate) async fn write(cx: &NodeCx, job: WriteJob) {
    match record(cx, &job).await {
        Ok(seq) => {
            cx.unlock_all();
            merge::tell(cx, seq, job.merge()).await;
        }
        Err(reply) => cx.with(|core| {
            core.state.running.remove(&(job.session, job.from.seq));
            refuse(core, &job, &reply);
        }),
    }
}

/// Answers a write that is not done, and never will be.
pub(crate) fn refuse(core: &mut Node, job: &WriteJob, reply: &DataReply) {
    if let DataReply::Failed { errno } = reply {
        core.state.note_failed(job.session, job.from.seq, *errno);
    }
    state::refuse(core, job.from, reply);
}

impl WriteJob {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    fn first(&self) -> u32 {
        (self.offset / BLOCK_BYTES) as u32
    }

    fn last(&self) -> u32 {
        ((self.end() - 1) / BLOCK_BYTES) as u32
    }

    /// What the home is told.
    pub(crate) fn merge(&self) -> PendingMerge {
        PendingMerge {
            data: self.data,
            cut: self.cut,
            end: self.end(),
            session: self.session,
            request: self.from.seq,
            oldest: self.from.oldest,
            kill_suidgid: self.kill_suidgid,
            append: self.append.then_some(self.offset),
        }
    }

    /// The blocks of which only a part is written: the first, the last, or one that is both.
    fn edges(&self) -> SmallVec<[u32; 2]> {
        let mut edges = SmallVec::new();
        if !self.offset.is_multiple_of(BLOCK_BYTES) {
            edges.push(self.first());
        }
        if !self.end().is_multiple_of(BLOCK_BYTES) && edges.last() != Some(&self.last()) {
            edges.push(self.last());
        }
        edges
    }

    fn locks(&self, mode: Mode) -> SmallVec<[(Key, Mode); 2]> {
        let (first, last) = (self.first() / CHUNK_BLOCKS, self.last() / CHUNK_BLOCKS);
        let hash = inode_hash(self.data.inode);
        (first..=last).map(|chunk| (Key(hash.wrapping_add(u64::from(chunk))), mode)).collect()
    }
}

/// All until the record is made; an error leaves nothing behind.
async fn record(cx: &NodeCx, job: &WriteJob) -> Result<RecordSeq, DataReply> {
    if let Some(reply) = state::refusal(state::enter(cx, job.data, job.cut).await) {
        return Err(reply);
    }
    let edges = job.edges();
    cx.lock_all(job.locks(if edges.is_empty() { Mode::Shared } else { Mode::Exclusive })).await;
    let edges = match edges.is_empty() {
        true => SmallVec::new(),
        false => read_edges(cx, job, edges).await.map_err(failed)?,
    };
    let blocks = Blocks::new(job, edges);
    let mut round = 0;
    loop {
        let (runs, group) = cx.with(|core| blocks.issue(core)).ok_or(failed(Errno::ENOSPC))?;
        let results = state::results(cx, group).await;
        let error = results.into_iter().find_map(error_of);
        let full = matches!(error, Some(Errno::ENOSPC | Errno::EDQUOT));
        if !(full && round < RECLAIM_ROUNDS && cx.with(|core| reclaim(core, &runs, round))) {
            return cx.with(|core| commit(core, job, &blocks, &runs, error));
        }
        round += 1;
        let until_us = cx.with(|core| core.now.mono_us) + RECLAIM_WAIT_US;
        cx.sleep_until(until_us).await;
    }
}

/// Makes the disk get back what is free, and gives the places back; false if there is nothing to wait for. At first
/// there always is: files may have been removed whose drops are on their way.
fn reclaim(core: &mut Node, runs: &[Run], round: u32) -> bool {
    if round > 0 && !core.state.space.pending() {
        return false;
    }
    runs.iter().for_each(|&run| core.state.space.give_back(run));
    core.state.space.hurry(core.now.mono_us);
    true
}

fn error_of(result: DiskResult) -> Option<Errno> {
    match result {
        DiskResult::Done => None,
        DiskResult::Failed(errno) => Some(errno),
        DiskResult::Bytes(_) | DiskResult::Space { .. } => Some(Errno::EIO),
    }
}

fn failed(errno: Errno) -> DataReply {
    DataReply::Failed { errno }
}

/// The synchronous step: checks again, records, frees what is replaced.
fn commit(
    core: &mut Node,
    job: &WriteJob,
    blocks: &Blocks,
    runs: &[Run],
    error: Option<Errno>,
) -> Result<RecordSeq, DataReply> {
    let current = core.state.index.verdict(job.data, job.cut) == Verdict::Current;
    if error.is_some() || !current {
        runs.iter().for_each(|&run| core.state.space.give_back(run));
        return Err(error.map_or(DataReply::Stale, failed));
    }
    let mut at = 0;
    let extents = runs.iter().map(|run| {
        let crcs = &blocks.crcs[at..at + run.len as usize];
        at += crcs.len();
        Extent { start: job.first() + (at - crcs.len()) as u32, phys: run.start, crcs: SmallVec::from_slice(crcs) }
    });
    let extents: Vec<Extent> = extents.collect();
    let stamp = core.state.stamp(core.now.wall_ns);
    let seq = state::record(core, &DataRecord::Written { merge: job.merge(), stamp, extents });
    core.state.counters.writes += 1;
    let (first, last) = (runs[0], runs[runs.len() - 1]);
    blocks.merged_head().into_iter().for_each(|block| core.state.cache.keep(first.start, block));
    blocks.merged_tail().into_iter().for_each(|block| core.state.cache.keep(last.start + last.len - 1, block));
    Ok(seq)
}

/// A partly written block and what was in it before.
struct Edge {
    block: u32,
    before: Bytes,
}

/// The former bytes of partly written blocks, in order of the blocks.
async fn read_edges(cx: &NodeCx, job: &WriteJob, edges: SmallVec<[u32; 2]>) -> Result<SmallVec<[Edge; 2]>, Errno> {
    let mut found = SmallVec::<[Edge; 2]>::new();
    let mut missing = read::Segments::new();
    cx.with(|core| {
        let state = &mut core.state;
        let file = state.index.file(job.data);
        for &block in &edges {
            let Some(m) = file.and_then(|file| file.content.get(block)) else { continue };
            state.counters.merged_blocks += 1;
            let extent = Extent { start: block, phys: m.phys, crcs: SmallVec::from_slice(&[m.crc]) };
            match state.cache.get(m.phys) {
                Some(bytes) => found.push(Edge { block, before: bytes.slice(..usize::from(m.keep)) }),
                None => missing.push(Segment { extent, keep: m.keep }),
            }
        }
    });
    if !missing.is_empty() {
        let (segments, results) = read::fetch(cx, missing).await?;
        for (segment, result) in segments.iter().zip(results) {
            let DiskResult::Bytes(bytes) = result else { return Err(Errno::EIO) };
            found.push(Edge { block: segment.extent.start, before: bytes.slice(..usize::from(segment.keep)) });
        }
    }
    Ok(found)
}

/// The blocks of a write: a merged first one, whole ones, a merged last one.
struct Blocks {
    parts: SmallVec<[Bytes; 3]>,
    crcs: SmallVec<[u32; 2]>,
    head_is_merged: bool,
    tail_is_merged: bool,
}

impl Blocks {
    fn new(job: &WriteJob, edges: SmallVec<[Edge; 2]>) -> Blocks {
        let (bytes, len) = (&job.bytes, job.bytes.len());
        let head = (job.offset % BLOCK_BYTES) as usize;
        let head_len = if head == 0 { 0 } else { (BLOCK - head).min(len) };
        let tail_len = (len - head_len) % BLOCK;
        let before = |block: u32| edges.iter().find(|edge| edge.block == block).map(|edge| &edge.before);
        let mut parts = SmallVec::<[Bytes; 3]>::new();
        if head_len > 0 {
            parts.push(merged(before(job.first()), head, &bytes[..head_len]));
        }
        if head_len + tail_len < len {
            parts.push(bytes.slice(head_len..len - tail_len));
        }
        if tail_len > 0 {
            parts.push(merged(before(job.last()), 0, &bytes[len - tail_len..]));
        }
        let crcs = parts.iter().flat_map(|part| part.chunks_exact(BLOCK)).map(crc32c).collect();
        Blocks { parts, crcs, head_is_merged: head_len > 0, tail_is_merged: tail_len > 0 }
    }

    /// Takes place for the blocks and hands them to the disk; nothing if there is no place.
    fn issue(&self, core: &mut Node) -> Option<(Runs, u64)> {
        let runs = core.state.space.allocate(self.crcs.len() as u32)?;
        let mut at = 0;
        let ops = runs.iter().map(|run| {
            let (file, offset) = core.state.place(run.start);
            at += run.len as usize;
            DiskOp::Write { file, offset, bytes: self.slice(at - run.len as usize, run.len as usize) }
        });
        let ops: SmallVec<[DiskOp; 2]> = ops.collect();
        let group = state::issue(core, ops.into_iter());
        Some((runs, group))
    }

    /// `n` blocks from block `from` of the write on.
    fn slice(&self, from: usize, n: usize) -> Vec<Bytes> {
        let (mut skip, mut left) = (from * BLOCK, n * BLOCK);
        let mut slices = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let start = skip.min(part.len());
            let end = part.len().min(start + left);
            skip -= start;
            left -= end - start;
            if start < end {
                slices.push(part.slice(start..end));
            }
        }
        slices
    }

    fn merged_head(&self) -> Option<Bytes> {
        self.head_is_merged.then(|| self.parts[0].clone())
    }

    fn merged_tail(&self) -> Option<Bytes> {
        self.tail_is_merged.then(|| self.parts[self.parts.len() - 1].clone())
    }
}

/// A block with new bytes at `at` over the former ones, zeros elsewhere.
fn merged(before: Option<&Bytes>, at: usize, new: &[u8]) -> Bytes {
    let mut block = Vec::with_capacity(BLOCK);
    if let Some(before) = before {
        block.extend_from_slice(before);
    }
    block.resize(usize::from(KEEP_ALL), 0);
    block[at..at + new.len()].copy_from_slice(new);
    block.into()
}
