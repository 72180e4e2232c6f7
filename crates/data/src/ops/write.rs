//! Write: new blocks, then the record that makes them current, then the home hears of it.
//!
//! A block of which only a part is written is read back and merged first; a hole merges as zeros. The home answers the
//! session; the node itself answers only *Stale* and errors, after which nothing of the write is there. ENOSPC only comes
//! when the space of removed files, which comes back a little after they are gone, does not suffice.
//! Locks: the one or two chunks, shared by writes of whole blocks, alone by those that merge or find places that were reserved; they are
//! held until the record is made, not while the home is told. A punch may come in between all the same: then the write begins anew.
//! Journals `Written`. Upholds R-20 and R-24 (checked again in the step that records), R-17 (repeated requests).

use crate::content::{BLOCK, CHUNK_BLOCKS, KEEP_ALL, Segment};
use crate::disk::{DiskOp, DiskResult};
use crate::index::Verdict;
use crate::ops::{kinds, merge, read};
use crate::parts;
use crate::space::Run;
use crate::state::{self, Caller, Node, NodeCx};
use crate::table;
use bytes::Bytes;
use onpath_kernel::{Key, Mode};
use onpath_wire::Errno;
use onpath_wire::checksum::crc32c;
use onpath_wire::data::{DataReply, MergePart};
use onpath_wire::disk::block::{DataRecord, Extent, Mapping, PendingMerge, ReservedRun};
use onpath_wire::hash::inode_hash;
use onpath_wire::ids::{DataId, RecordSeq, SessionId};
use onpath_wire::limits::BLOCK_BYTES;
use onpath_wire::report::Outcome;
use smallvec::SmallVec;

/// Tries of a write on a full disk, besides the first.
pub(crate) const RECLAIM_ROUNDS: u32 = 4;
/// Times that the blocks which a write merges with may be others when it comes to record, before its session asks again.
pub(crate) const CHANGED_ROUNDS: u32 = 16;
/// Pause before the next try, microseconds: longer than a flush of the journal, after which freed space can be had.
pub(crate) const RECLAIM_WAIT_US: u64 = 250_000;

pub(crate) struct WriteJob {
    pub(crate) from: Caller,
    pub(crate) session: SessionId,
    pub(crate) data: DataId,
    pub(crate) cut: u32,
    pub(crate) offset: u64,
    pub(crate) kill_suidgid: bool,
    pub(crate) append: bool,
    /// The merge part that its session shows.
    pub(crate) part: Option<MergePart>,
    pub(crate) bytes: Bytes,
}

pub(crate) async fn write(cx: &NodeCx, job: WriteJob) {
    match record(cx, &job).await {
        Ok(Done { seq, answered: true }) => cx.with(|core| {
            core.state.running.remove(&(job.session, job.from.seq));
            table::answer(core, job.from, job.data, job.cut, seq);
        }),
        recorded => conclude(cx, job.from, job.merge(), recorded.map(|done| done.seq)).await,
    }
}

/// A write that is recorded.
#[derive(Clone, Copy)]
struct Done {
    seq: RecordSeq,
    /// By this node, which has the file's merge part; else its home answers.
    answered: bool,
}

/// Tells the home of what is recorded, or the session that nothing is.
pub(crate) async fn conclude(cx: &NodeCx, from: Caller, merge: PendingMerge, recorded: Result<RecordSeq, DataReply>) {
    match recorded {
        Ok(seq) => {
            cx.unlock_all();
            merge::tell(cx, seq, merge, None).await;
            cx.with(|core| kinds::count(core, from, Outcome::Ok));
        }
        Err(reply) => cx.with(|core| {
            core.state.running.remove(&(merge.session, merge.request));
            refuse(core, from, merge.session, &reply);
        }),
    }
}

/// Answers a write that is not done, and never will be.
pub(crate) fn refuse(core: &mut Node, from: Caller, session: SessionId, reply: &DataReply) {
    if let DataReply::Failed { errno } = reply {
        core.state.note_failed(session, from.seq, *errno);
    }
    state::refuse(core, from, reply);
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
            part: None,
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

    /// Whether a place is kept for one of its blocks.
    fn is_reserved(&self, core: &mut Node) -> bool {
        let file = core.state.index.file(self.data);
        file.is_some_and(|file| file.content.reserved(self.first(), self.last()).next().is_some())
    }

    fn locks(&self, mode: Mode) -> SmallVec<[(Key, Mode); 2]> {
        let (first, last) = (self.first() / CHUNK_BLOCKS, self.last() / CHUNK_BLOCKS);
        (first..=last).map(|chunk| (chunk_key(self.data, chunk), mode)).collect()
    }
}

/// What a write locks of a chunk.
pub(crate) fn chunk_key(data: DataId, chunk: u32) -> Key {
    Key(inode_hash(data.inode).wrapping_add(u64::from(chunk)))
}

/// All until the record is made; an error leaves nothing behind.
async fn record(cx: &NodeCx, job: &WriteJob) -> Result<Done, DataReply> {
    if let Some(reply) = state::refusal(state::enter(cx, job.data, job.cut).await) {
        return Err(reply);
    }
    if !job.append {
        parts::wait(cx, job.data.inode, job.part).await;
    }
    let edges = job.edges();
    // A reserved block is written in place, by one write at a time.
    let alone = !edges.is_empty() || cx.with(|core| job.is_reserved(core));
    cx.lock_all(job.locks(if alone { Mode::Exclusive } else { Mode::Shared })).await;
    for _ in 0..CHANGED_ROUNDS {
        let before = match edges.is_empty() {
            true => SmallVec::new(),
            false => read_edges(cx, job.data, &edges).await.map_err(failed)?,
        };
        if let Some(done) = place_and_commit(cx, job, &Blocks::new(job, before), alone).await? {
            return Ok(done);
        }
    }
    Err(failed(Errno::EAGAIN))
}

/// Writes the blocks and records them; nothing if what they were made from has changed meanwhile.
async fn place_and_commit(
    cx: &NodeCx,
    job: &WriteJob,
    blocks: &Blocks,
    alone: bool,
) -> Result<Option<Done>, DataReply> {
    let mut round = 0;
    loop {
        let Issued { targets, group, claim } =
            cx.with(|core| blocks.issue(core, job, alone)).ok_or(failed(Errno::ENOSPC))?;
        let results = state::results(cx, group).await;
        if let Some(claim) = claim {
            cx.with(|core| {
                let now_us = core.now.mono_us;
                core.state.space.end_read(claim, now_us);
            });
        }
        let error = results.into_iter().find_map(error_of);
        let full = matches!(error, Some(Errno::ENOSPC | Errno::EDQUOT));
        if !(full && round < RECLAIM_ROUNDS && cx.with(|core| reclaim(core, free_of(&targets), round))) {
            return cx.with(|core| commit(core, job, blocks, &targets, error));
        }
        round += 1;
        let until_us = cx.with(|core| core.now.mono_us) + RECLAIM_WAIT_US;
        cx.sleep_until(until_us).await;
    }
}

/// Where some consecutive blocks of a write go.
#[derive(Clone, Copy)]
struct Target {
    run: Run,
    /// To the place that was kept for them.
    reserved: bool,
}

type Targets = SmallVec<[Target; 2]>;

/// A write that the disk has.
struct Issued {
    targets: Targets,
    group: u64,
    /// Nobody else gets a place that is being written, even if it is not kept for its block any more.
    claim: Option<u64>,
}

/// What was allocated for a write.
fn free_of(targets: &Targets) -> impl Iterator<Item = Run> + '_ {
    targets.iter().filter(|target| !target.reserved).map(|target| target.run)
}

/// Makes the disk get back what is free, and gives the places back; false if there is nothing to wait for. At first
/// there always is: files may have been removed whose drops are on their way.
pub(crate) fn reclaim(core: &mut Node, runs: impl Iterator<Item = Run>, round: u32) -> bool {
    if round > 0 && !core.state.space.pending() {
        return false;
    }
    runs.for_each(|run| core.state.space.give_back(run));
    core.state.space.hurry(core.now.mono_us);
    true
}

pub(crate) fn error_of(result: DiskResult) -> Option<Errno> {
    match result {
        DiskResult::Done => None,
        DiskResult::Failed(errno) => Some(errno),
        DiskResult::Bytes(_) | DiskResult::Space { .. } => Some(Errno::EIO),
    }
}

pub(crate) fn failed(errno: Errno) -> DataReply {
    DataReply::Failed { errno }
}

/// Whether somebody else has written at or beyond the end that an append has reserved. Then its session reserves the new end: what has
/// returned is not written over (schedule G14).
fn overtaken(core: &mut Node, job: &WriteJob, blocks: &Blocks) -> bool {
    let first = blocks.edges.iter().find(|edge| edge.block == job.first());
    let before = first.map_or(&[][..], |edge| &edge.before);
    let file = core.state.index.file(job.data);
    job.append && file.is_some_and(|file| file.reaches_beyond(job.offset, before))
}

/// The synchronous step: checks again, records, frees what is replaced.
fn commit(
    core: &mut Node,
    job: &WriteJob,
    blocks: &Blocks,
    targets: &Targets,
    error: Option<Errno>,
) -> Result<Option<Done>, DataReply> {
    let current = core.state.index.verdict(job.data, job.cut) == Verdict::Current;
    let same = blocks.same(core, job, targets);
    let late = core.state.is_late(job.from, core.now.wall_ns).then_some(Errno::EAGAIN);
    let error = error.or(late);
    let current = current && !overtaken(core, job, blocks);
    if error.is_some() || !current || !same {
        free_of(targets).for_each(|run| core.state.space.give_back(run));
        return match error {
            Some(errno) => Err(failed(errno)),
            None if current => Ok(None),
            None => Err(DataReply::Stale),
        };
    }
    let mut at = 0;
    let extents = targets.iter().map(|Target { run, .. }| {
        let crcs = &blocks.crcs[at..at + run.len as usize];
        at += crcs.len();
        Extent { start: job.first() + (at - crcs.len()) as u32, phys: run.start, crcs: SmallVec::from_slice(crcs) }
    });
    let extents: Vec<Extent> = extents.collect();
    // An append ends a reservation of its home.
    let part = if job.append { None } else { parts::take_up(core, job.data, job.cut, job.part) };
    let stamp = core.state.stamp(core.now.wall_ns);
    let merge = PendingMerge { part, ..job.merge() };
    let seq = state::record(core, &DataRecord::Written { merge, stamp, extents });
    if part.is_some() {
        parts::note(core, job.data.inode, seq);
    }
    core.state.counters.writes += 1;
    let (first, last) = (targets[0].run, targets[targets.len() - 1].run);
    blocks.merged_head().into_iter().for_each(|block| core.state.cache.keep(first.start, block));
    blocks.merged_tail().into_iter().for_each(|block| core.state.cache.keep(last.start + last.len - 1, block));
    Ok(Some(Done { seq, answered: part.is_some() }))
}

/// A partly written block and what was in it before.
pub(crate) struct Edge {
    pub(crate) block: u32,
    /// Where it was; none for a hole.
    pub(crate) at: Option<Mapping>,
    pub(crate) before: Bytes,
}

pub(crate) type Edges = SmallVec<[Edge; 2]>;

/// Whether these blocks still are where they were.
pub(crate) fn are_same(core: &mut Node, data: DataId, edges: &Edges) -> bool {
    let file = core.state.index.file(data);
    edges.iter().all(|edge| file.and_then(|file| file.content.get(edge.block)) == edge.at)
}

/// The former bytes of partly written blocks; none for holes.
pub(crate) async fn read_edges(cx: &NodeCx, data: DataId, blocks: &[u32]) -> Result<Edges, Errno> {
    let mut found = Edges::new();
    let mut missing = read::Segments::new();
    cx.with(|core| {
        let state = &mut core.state;
        let file = state.index.file(data);
        for &block in blocks {
            let Some(m) = file.and_then(|file| file.content.get(block)) else {
                found.push(Edge { block, at: None, before: Bytes::new() });
                continue;
            };
            state.counters.merged_blocks += 1;
            let extent = Extent { start: block, phys: m.phys, crcs: SmallVec::from_slice(&[m.crc]) };
            match state.cache.get(m.phys) {
                Some(bytes) => {
                    found.push(Edge { block, at: Some(m), before: bytes.slice(..usize::from(m.keep)) });
                }
                None => missing.push(Segment { extent, keep: m.keep }),
            }
        }
    });
    if !missing.is_empty() {
        let (segments, results) = read::fetch(cx, missing).await?;
        for (Segment { extent, keep }, result) in segments.iter().zip(results) {
            let DiskResult::Bytes(bytes) = result else { return Err(Errno::EIO) };
            let at = Some(Mapping { phys: extent.phys, crc: extent.crcs[0], keep: *keep });
            found.push(Edge { block: extent.start, at, before: bytes.slice(..usize::from(*keep)) });
        }
    }
    Ok(found)
}

/// Free places for so many blocks; none if there are not so many.
fn allocated(core: &mut Node, blocks: u32) -> Option<Targets> {
    let runs = core.state.space.allocate(blocks)?;
    Some(runs.into_iter().map(|run| Target { run, reserved: false }).collect())
}

/// The places that are kept for blocks of a write, and free ones for the others.
fn places(core: &mut Node, job: &WriteJob) -> Option<Targets> {
    let (first, last) = (job.first(), job.last());
    let kept = core.state.index.file(job.data).map(|file| file.content.reserved(first, last).collect::<Vec<_>>());
    let mut targets = Targets::new();
    let mut at = u64::from(first);
    for kept in kept.into_iter().flatten().map(Some).chain([None]) {
        let start = kept.map_or(u64::from(last) + 1, |run| u64::from(run.start));
        if start > at {
            let Some(more) = allocated(core, (start - at) as u32) else {
                free_of(&targets).for_each(|run| core.state.space.give_back(run));
                return None;
            };
            targets.extend(more);
        }
        let Some(run) = kept else { break };
        let runs = core.state.space.within_files(Run { start: run.phys, len: run.len });
        targets.extend(runs.map(|run| Target { run, reserved: true }));
        at = start + u64::from(run.len);
    }
    Some(targets)
}

/// The blocks of a write: a merged first one, whole ones, a merged last one.
struct Blocks {
    parts: SmallVec<[Bytes; 3]>,
    crcs: SmallVec<[u32; 2]>,
    head_is_merged: bool,
    tail_is_merged: bool,
    edges: Edges,
}

impl Blocks {
    fn new(job: &WriteJob, edges: Edges) -> Blocks {
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
        Blocks { parts, crcs, head_is_merged: head_len > 0, tail_is_merged: tail_len > 0, edges }
    }

    /// Takes place for the blocks and hands them to the disk; nothing if there is no place.
    fn issue(&self, core: &mut Node, job: &WriteJob, alone: bool) -> Option<Issued> {
        let targets = if alone { places(core, job) } else { allocated(core, self.crcs.len() as u32) }?;
        let mut at = 0;
        let ops = targets.iter().map(|Target { run, reserved }| {
            let (file, offset) = core.state.place(run.start);
            at += run.len as usize;
            let bytes = self.slice(at - run.len as usize, run.len as usize);
            DiskOp::Write { file, offset, bytes, reserved: *reserved }
        });
        let ops: SmallVec<[DiskOp; 2]> = ops.collect();
        let group = state::issue(core, ops.into_iter());
        let claim = targets.iter().any(|target| target.reserved).then(|| core.state.space.begin_read());
        Some(Issued { targets, group, claim })
    }

    /// Whether what the blocks were made from, and the places kept for them, are what they were.
    fn same(&self, core: &mut Node, job: &WriteJob, targets: &Targets) -> bool {
        if !are_same(core, job.data, &self.edges) {
            return false;
        }
        let mut start = job.first();
        targets.iter().all(|&Target { run, reserved }| {
            let mut kept = || {
                let file = core.state.index.file(job.data);
                let within = file.and_then(|file| file.content.reserved(start, start + (run.len - 1)).next());
                within == Some(ReservedRun { start, phys: run.start, len: run.len })
            };
            let same = !reserved || kept();
            start = start.wrapping_add(run.len);
            same
        })
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
pub(crate) fn merged(before: Option<&Bytes>, at: usize, new: &[u8]) -> Bytes {
    let mut block = Vec::with_capacity(BLOCK);
    if let Some(before) = before {
        block.extend_from_slice(before);
    }
    block.resize(usize::from(KEEP_ALL), 0);
    block[at..at + new.len()].copy_from_slice(new);
    block.into()
}
