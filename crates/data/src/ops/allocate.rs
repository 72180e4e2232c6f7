//! Allocate: fallocate(2). Holes get places that are kept for them, whole blocks become holes, or both.
//!
//! Reserving takes real space of the disk below before anything is recorded, so ENOSPC comes before any effect, and a write to
//! a reserved block needs none. Blocks of which only a part is punched or zeroed are read, and written anew elsewhere.
//! Locks: the chunks of those blocks, alone. What lies between is not locked, however long it is: it changes in the step that records,
//! and a write that has read there before begins anew ([`write::are_same`]).
//! Journals `Changed`. Upholds as a write does.

use crate::content::{BLOCK, CHUNK_BLOCKS};
use crate::disk::{DiskOp, DiskResult};
use crate::index::Verdict;
use crate::ops::write::{self, CHANGED_ROUNDS, Edges, RECLAIM_ROUNDS, RECLAIM_WAIT_US, error_of, failed};
use crate::space::{Run, Runs};
use crate::state::{self, Caller, Node, NodeCx};
use bytes::Bytes;
use onpath_kernel::{Key, Mode};
use onpath_wire::Errno;
use onpath_wire::checksum::crc32c;
use onpath_wire::data::{Allocation, DataReply};
use onpath_wire::disk::block::{BlockRange, DataRecord, Extent, PendingMerge, ReservedRun};
use onpath_wire::ids::{DataId, RecordSeq, SessionId};
use onpath_wire::limits::{BLOCK_BYTES, RESERVED_RUNS_MAX};
use smallvec::SmallVec;

/// Disk operations of one allocation: places in so many pieces are none.
const OPS_MAX: usize = 1 << 15;

#[derive(Clone, Debug)]
pub(crate) struct AllocateJob {
    pub(crate) from: Caller,
    pub(crate) session: SessionId,
    pub(crate) data: DataId,
    pub(crate) cut: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) how: Allocation,
    pub(crate) end: u64,
    pub(crate) kill_suidgid: bool,
}

pub(crate) async fn allocate(cx: &NodeCx, job: AllocateJob) {
    let recorded = record(cx, &job).await;
    write::conclude(cx, job.from, job.merge(), recorded).await;
}

impl AllocateJob {
    /// What the home is told.
    pub(crate) fn merge(&self) -> PendingMerge {
        PendingMerge {
            data: self.data,
            cut: self.cut,
            end: self.end,
            session: self.session,
            request: self.from.seq,
            oldest: self.from.oldest,
            kill_suidgid: self.kill_suidgid,
            append: None,
            part: None,
        }
    }

    /// The first block that it touches, and the last one.
    fn touched(&self) -> (u32, u32) {
        let last = self.offset + (self.bytes - 1);
        ((self.offset / BLOCK_BYTES) as u32, (last / BLOCK_BYTES) as u32)
    }

    /// The blocks that lose all their bytes.
    fn hole(&self) -> Option<BlockRange> {
        let (first, end) = (self.offset.div_ceil(BLOCK_BYTES), (self.offset + self.bytes) / BLOCK_BYTES);
        let hole = || BlockRange { first: first as u32, last: (end - 1) as u32 };
        (self.how != Allocation::Reserve && first < end).then(hole)
    }

    /// The blocks that lose some of their bytes.
    fn edges(&self) -> SmallVec<[u32; 2]> {
        let (first, last) = self.touched();
        let whole = |block: u32| self.hole().is_some_and(|hole| (hole.first..=hole.last).contains(&block));
        let mut edges = SmallVec::new();
        if self.how != Allocation::Reserve {
            edges.extend([first, last].into_iter().filter(|&block| !whole(block)));
            edges.dedup();
        }
        edges
    }

    /// Runs of blocks that it reserves, as (first, count).
    fn gaps(&self, core: &mut Node) -> Result<Vec<(u32, u64)>, DataReply> {
        let (first, last) = self.touched();
        let empty = crate::content::Content::Empty;
        let content = core.state.index.file(self.data).map_or(&empty, |file| &file.content);
        let hole = self.hole().filter(|_| self.how == Allocation::Zero);
        let gaps: Vec<_> = match (self.how, hole) {
            (Allocation::Punch, _) => Vec::new(),
            (_, None) => content.gaps(first, last).take(RESERVED_RUNS_MAX + 1).collect(),
            (_, Some(BlockRange { first: a, last: b })) => {
                let before = (first < a).then(|| content.gaps(first, a - 1)).into_iter().flatten();
                let after = (b < last).then(|| content.gaps(b + 1, last)).into_iter().flatten();
                before.chain([(a, u64::from(b - a) + 1)]).chain(after).collect()
            }
        };
        if gaps.len() > RESERVED_RUNS_MAX { Err(failed(Errno::ENOSPC)) } else { Ok(gaps) }
    }
}

/// All until the record is made; an error leaves nothing behind.
async fn record(cx: &NodeCx, job: &AllocateJob) -> Result<RecordSeq, DataReply> {
    if let Some(reply) = state::refusal(state::enter(cx, job.data, job.cut).await) {
        return Err(reply);
    }
    let edges = job.edges();
    if !edges.is_empty() {
        let mut chunks: SmallVec<[u32; 2]> = edges.iter().map(|block| block / CHUNK_BLOCKS).collect();
        chunks.dedup();
        let keys: SmallVec<[(Key, Mode); 2]> =
            chunks.iter().map(|&chunk| (write::chunk_key(job.data, chunk), Mode::Exclusive)).collect();
        cx.lock_all(keys).await;
    }
    for _ in 0..CHANGED_ROUNDS {
        let mut found = write::read_edges(cx, job.data, &edges).await.map_err(failed)?;
        found.sort_unstable_by_key(|edge| edge.block);
        if let Some(seq) = place_and_commit(cx, job, &found).await? {
            return Ok(seq);
        }
    }
    Err(failed(Errno::EAGAIN))
}

/// What an allocation takes of the disk.
struct Taken {
    /// For blocks of which a part is zeroed.
    edges: Runs,
    reserved: Runs,
}

impl Taken {
    fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.edges.iter().chain(&self.reserved).copied()
    }
}

async fn place_and_commit(cx: &NodeCx, job: &AllocateJob, edges: &Edges) -> Result<Option<RecordSeq>, DataReply> {
    let blocks = zeroed(job, edges);
    let mut round = 0;
    loop {
        let needed = cx.with(|core| job.gaps(core))?.iter().map(|(_, n)| n).sum::<u64>();
        let mut error = lacks(cx, needed).await.then_some(Errno::ENOSPC);
        let mut taken = Taken { edges: Runs::new(), reserved: Runs::new() };
        if error.is_none() {
            let issued = cx.with(|core| issue(core, &blocks, needed)).ok_or(failed(Errno::ENOSPC))?;
            taken = issued.0;
            if let Some(group) = issued.1 {
                error = state::results(cx, group).await.into_iter().find_map(error_of);
            }
        }
        let full = matches!(error, Some(Errno::ENOSPC | Errno::EDQUOT));
        if !(full && round < RECLAIM_ROUNDS && cx.with(|core| write::reclaim(core, taken.runs(), round))) {
            return cx.with(|core| commit(core, job, edges, &blocks, taken, error));
        }
        round += 1;
        let until_us = cx.with(|core| core.now.mono_us) + RECLAIM_WAIT_US;
        cx.sleep_until(until_us).await;
    }
}

/// Whether the disk has no room for so many blocks. Asked first, since an attempt would take all that there is, if only for a moment.
async fn lacks(cx: &NodeCx, blocks: u64) -> bool {
    if blocks == 0 {
        return false;
    }
    let group = cx.with(|core| state::issue(core, [DiskOp::Space].into_iter()));
    let results = state::results(cx, group).await;
    matches!(results.first(), Some(DiskResult::Space { free, .. }) if free / BLOCK_BYTES < blocks)
}

/// The blocks of which a part becomes zeros, where they have bytes there.
fn zeroed(job: &AllocateJob, edges: &Edges) -> SmallVec<[(u32, Bytes); 2]> {
    let blocks = edges.iter().filter(|edge| edge.at.is_some()).map(|edge| {
        let start = u64::from(edge.block) * BLOCK_BYTES;
        let from = job.offset.saturating_sub(start) as usize;
        let to = (job.offset + job.bytes - start).min(BLOCK_BYTES) as usize;
        (edge.block, write::merged(Some(&edge.before), from, &[0; BLOCK][..to - from]))
    });
    blocks.collect()
}

/// Takes places and hands the operations to the disk; nothing if there are not enough places.
fn issue(core: &mut Node, blocks: &[(u32, Bytes)], needed: u64) -> Option<(Taken, Option<u64>)> {
    let space = &mut core.state.space;
    let edges = space.allocate(blocks.len() as u32)?;
    let reserved = u32::try_from(needed).ok().and_then(|needed| space.allocate(needed));
    let Some(reserved) = reserved.filter(|runs| runs.len() <= OPS_MAX) else {
        edges.into_iter().for_each(|run| core.state.space.give_back(run));
        return None;
    };
    let places = edges.iter().flat_map(|run| run.start..run.start + run.len);
    let writes = places.zip(blocks).map(|(phys, (_, block))| {
        let (file, offset) = core.state.place(phys);
        DiskOp::Write { file, offset, bytes: vec![block.clone()], reserved: false }
    });
    let reserves = reserved.iter().map(|run| reserve(core, run));
    let ops: Vec<DiskOp> = writes.chain(reserves).collect();
    let group = (!ops.is_empty()).then(|| state::issue(core, ops.into_iter()));
    Some((Taken { edges, reserved }, group))
}

/// Takes the space of these places. If there is none, then writes to them have to ask for it.
pub(crate) async fn keep(cx: &NodeCx, runs: &[Run]) {
    let group = cx.with(|core| {
        let within = runs.iter().flat_map(|&run| core.state.space.within_files(run));
        let ops: Vec<DiskOp> = within.map(|run| reserve(core, &run)).collect();
        state::issue(core, ops.into_iter())
    });
    state::results(cx, group).await;
}

fn reserve(core: &Node, run: &Run) -> DiskOp {
    let (file, offset) = core.state.place(run.start);
    DiskOp::Reserve { file, offset, len: u64::from(run.len) * BLOCK_BYTES }
}

/// The synchronous step: checks again, records, gives back what is not needed.
fn commit(
    core: &mut Node,
    job: &AllocateJob,
    edges: &Edges,
    blocks: &[(u32, Bytes)],
    taken: Taken,
    error: Option<Errno>,
) -> Result<Option<RecordSeq>, DataReply> {
    let current = core.state.index.verdict(job.data, job.cut) == Verdict::Current;
    let same = write::are_same(core, job.data, edges);
    let gaps = job.gaps(core);
    let late = core.state.is_late(job.from, core.now.wall_ns).then_some(Errno::EAGAIN);
    let error = error.or(late);
    if error.is_some() || !current || !same || gaps.is_err() {
        taken.runs().for_each(|run| core.state.space.give_back(run));
        return match error {
            Some(errno) => Err(failed(errno)),
            None if !current => Err(DataReply::Stale),
            None => gaps.map(|_| None),
        };
    }
    let places = taken.edges.iter().flat_map(|run| run.start..run.start + run.len);
    let extents = places.zip(blocks).map(|(phys, (start, block))| Extent {
        start: *start,
        phys,
        crcs: SmallVec::from_slice(&[crc32c(block)]),
    });
    let extents: Vec<Extent> = extents.collect();
    let (reserved, left) = fill(&gaps.expect("checked above"), &taken.reserved);
    left.into_iter().for_each(|run| core.state.space.give_back(run));
    let stamp = core.state.stamp(core.now.wall_ns);
    let record = DataRecord::Changed { merge: job.merge(), stamp, hole: job.hole(), extents, reserved };
    core.state.counters.writes += 1;
    Ok(Some(state::record(core, &record)))
}

/// Places for gaps, and what is left of them. Gaps that have come up since the places were counted get none: somebody punched there
/// meanwhile, and may as well have done so afterwards.
fn fill(gaps: &[(u32, u64)], places: &Runs) -> (Vec<ReservedRun>, Vec<Run>) {
    let mut reserved = Vec::with_capacity(gaps.len());
    let mut left: Vec<Run> = places.iter().rev().copied().collect();
    for &(mut start, mut missing) in gaps {
        while missing > 0
            && let Some(run) = left.pop()
        {
            let len = u64::from(run.len).min(missing) as u32;
            reserved.push(ReservedRun { start, phys: run.start, len });
            if run.len > len {
                left.push(Run { start: run.start + len, len: run.len - len });
            }
            missing -= u64::from(len);
            start = start.wrapping_add(len);
        }
    }
    (reserved, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_in_order_and_what_is_left_is_given_back() {
        let places = Runs::from_slice(&[Run { start: 100, len: 3 }, Run { start: 200, len: 4 }]);
        let (reserved, left) = fill(&[(1, 2), (7, 3)], &places);
        let runs: Vec<_> = reserved.iter().map(|run| (run.start, run.phys, run.len)).collect();
        assert_eq!(runs, [(1, 100, 2), (7, 102, 1), (8, 200, 2)]);
        assert_eq!(left, [Run { start: 202, len: 2 }]);
        assert_eq!(fill(&[(5, 9)], &places).0.len(), 2, "what has come up since gets none");
    }
}
