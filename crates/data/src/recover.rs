//! Checkpoint images, replay and start (design.md, "Durability").
//!
//! A power loss may keep a record of the journal's tail whose blocks never reached the disk. Of the records replayed after
//! [`DataNode::begin_tail`] every block is read once at start; one whose CRC does not fit is put back to what the
//! file had there before: the old bytes, or a hole. With it goes the whole write, and every later one of the file, which may
//! rest on it: none of them was durable. So a power loss leaves a write whole or not at all, and never an error. Homes that had
//! heard of an append that is undone hear of that, first of all, and the file ends where it did before.

use crate::content::{BLOCK, KEEP_ALL, KEEP_NONE};
use crate::index::{Index, RANGES, range_of};
use crate::node::DataNode;
use crate::objects;
use crate::ops::Job;
use crate::parts;
use crate::sound;
use crate::space::{Run, Space};
use crate::state::{self, State};
use crate::table;
use crate::used::Used;
use crate::window::Seen;
use onpath_kernel::{Input, Now};
use onpath_store::{Cold, FORGET_PARTS, Image, ObjectCheck, Recoverable, StoreError};
use onpath_wire::checksum::crc32c;
use onpath_wire::data::{Recorded, UndoneAppend};
use onpath_wire::disk::block::{
    BlockRange, DataRecord, Extent, Mapping, PendingMerge, RecordedMerge, ReservedRun, UndoneWrite,
};
use onpath_wire::ids::{Birth, DataId, Generation, RecordSeq, TrackingEpoch};
use onpath_wire::limits::{BLOCK_BYTES, UNDONE_MAX};
use onpath_wire::{Errno, Stored};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Reads one block of a data file, at start and in checks: (file, offset in bytes, where to).
pub type BlockReader<'a> = dyn FnMut(u32, u64, &mut [u8]) -> Result<(), Errno> + 'a;

/// What a start found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Started {
    /// Blocks of the journal's tail whose bytes had not reached the disk, put back to what was there before.
    pub restored_blocks: u64,
    /// Writes of which the homes are told again.
    pub merges: u64,
    /// Blocks in use.
    pub blocks: u64,
    /// Data files up to the last of these blocks.
    pub files: u32,
}

/// What a block may be: by which record, and where; the trusted mapping from before the tail comes first.
type Chain = Vec<(RecordSeq, Option<Mapping>)>;

/// Undone appends of a file, by the records of the writes.
pub(crate) type Undone = BTreeMap<RecordSeq, UndoneAppend>;

/// Candidates for each block written in the tail.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    chains: BTreeMap<(DataId, u32), Chain>,
    writes: BTreeMap<RecordSeq, PendingMerge>,
    /// Blocks by the records that wrote them, for those that turn out to be durable.
    order: VecDeque<(RecordSeq, (DataId, u32))>,
    /// Places that were kept, for which the disk may have lost the space again.
    kept: Vec<(DataId, ReservedRun)>,
}

impl Suspects {
    /// A record of the tail is about to be applied.
    fn note(&mut self, index: &mut Index, seq: RecordSeq, record: &DataRecord) {
        match record {
            DataRecord::Written { merge, extents, .. } => self.written(index, seq, merge, None, extents),
            DataRecord::Changed { merge, hole, extents, reserved, .. } => {
                self.written(index, seq, merge, *hole, extents);
                self.kept.extend(reserved.iter().map(|&run| (merge.data, run)));
            }
            DataRecord::Trimmed { data, size, .. } => self.trimmed(*data, *size),
            DataRecord::Dropped { data } => {
                let oldest = DataId { inode: data.inode, generation: Generation(0) };
                self.remove((oldest, 0), (*data, u32::MAX));
            }
            DataRecord::Restored { data, block, .. } => self.remove((*data, *block), (*data, *block)),
            DataRecord::Voided { data } => self.remove((*data, 0), (*data, u32::MAX)),
            DataRecord::Settled { .. }
            | DataRecord::Floor { .. }
            | DataRecord::Reserved { .. }
            | DataRecord::PowerLost { .. } => {}
        }
    }

    /// Blocks become others, and those with bytes that are punched become holes. Places are kept for a hole or given up without
    /// being noted: it reads as zeros either way.
    fn written(
        &mut self,
        index: &mut Index,
        seq: RecordSeq,
        merge: &PendingMerge,
        hole: Option<BlockRange>,
        extents: &[Extent],
    ) {
        let file = index.file(merge.data);
        self.writes.insert(seq, *merge);
        if let (Some(BlockRange { first, last }), Some(file)) = (hole, file) {
            let mut from = Some(first);
            while let Some(block) = from.and_then(|from| file.content.next(from, false)).filter(|&b| b <= last) {
                self.candidate(merge.data, block, file.content.get(block), (seq, None));
                from = block.checked_add(1);
            }
        }
        for Extent { start, phys, crcs } in extents {
            for (i, &crc) in (0u32..).zip(crcs) {
                let (block, to) = (start + i, Mapping { phys: phys + i, crc, keep: KEEP_ALL });
                let before = file.and_then(|file| file.content.mapping(block));
                self.candidate(merge.data, block, before, (seq, Some(to)));
            }
        }
    }

    fn candidate(&mut self, data: DataId, block: u32, before: Option<Mapping>, now: (RecordSeq, Option<Mapping>)) {
        let chain = self.chains.entry((data, block)).or_insert_with(|| vec![(RecordSeq(0), before)]);
        // A hole for which a place is kept since, or is not any more.
        chain.last_mut().expect("not empty").1 = before;
        chain.push(now);
        self.order.push_back((now.0, (data, block)));
    }

    fn trimmed(&mut self, data: DataId, size: u64) {
        let blocks = size.div_ceil(BLOCK_BYTES);
        let rest = (size % BLOCK_BYTES) as u16;
        if rest > 0 {
            let cut = self.chains.get_mut(&(data, (blocks - 1) as u32)).into_iter().flatten();
            cut.filter_map(|(_, m)| m.as_mut()).for_each(|m| m.keep = m.keep.min(rest));
        }
        if let Ok(first) = u32::try_from(blocks) {
            self.remove((data, first), (data, u32::MAX));
        }
    }

    fn remove(&mut self, first: (DataId, u32), last: (DataId, u32)) {
        while let Some((&key, _)) = self.chains.range(first..=last).next() {
            self.chains.remove(&key);
        }
    }

    /// What the blocks of a file may be.
    fn of(&self, data: DataId) -> impl Iterator<Item = (&(DataId, u32), &Chain)> {
        self.chains.range((data, 0)..=(data, u32::MAX))
    }

    /// The files of which a write is not there, and the first such write of each.
    fn first_lost(&self, used: &Used, arrived: &mut impl FnMut(&Mapping) -> bool) -> BTreeMap<DataId, RecordSeq> {
        let mut first = BTreeMap::new();
        for (&(data, _), chain) in &self.chains {
            let Some(((_, Some(newest)), earlier)) = chain.split_last() else { continue };
            if !arrived(newest)
                && let Some((at, _)) = fallback(earlier, Some(newest.phys), used, arrived)
            {
                let lost = chain[at + 1].0;
                first.entry(data).and_modify(|first: &mut RecordSeq| *first = lost.min(*first)).or_insert(lost);
            }
        }
        for (&data, first) in &mut first {
            while let Some(before) = self.lost_before(data, *first, used, arrived) {
                *first = before;
            }
        }
        first
    }

    /// With all writes of a file from `first` on undone: an earlier one that is then seen not to be there.
    fn lost_before(
        &self,
        data: DataId,
        first: RecordSeq,
        used: &Used,
        arrived: &mut impl FnMut(&Mapping) -> bool,
    ) -> Option<RecordSeq> {
        let lost = self.of(data).filter_map(|(_, chain)| {
            let kept = chain.partition_point(|(seq, _)| *seq < first);
            let (at, _) = fallback(&chain[..kept], place_now(chain), used, arrived).filter(|_| kept < chain.len())?;
            (at + 1 < kept).then(|| chain[at + 1].0)
        });
        lost.min()
    }

    /// Whether a block was written in the tail.
    pub(crate) fn contains(&self, data: DataId, block: u32) -> bool {
        self.chains.contains_key(&(data, block))
    }

    /// Records up to `upto` were durable after all.
    fn durable(&mut self, upto: RecordSeq) {
        while self.writes.first_entry().is_some_and(|first| *first.key() <= upto) {
            self.writes.pop_first();
        }
        while let Some((seq, key)) = self.order.pop_front_if(|(seq, _)| *seq <= upto) {
            let Some(chain) = self.chains.get_mut(&key) else { continue };
            if chain[1].0 == seq {
                chain.remove(0);
            }
            if chain.len() == 1 {
                self.chains.remove(&key);
            }
        }
    }
}

impl DataNode {
    /// Records replayed from now on were not known to be durable when the last process ended.
    pub fn begin_tail(&mut self) {
        self.suspects.get_or_insert_default();
    }

    /// Records up to `upto` were durable then after all, as a later part of the journal says.
    pub fn tail_was_durable(&mut self, upto: RecordSeq) {
        self.suspects.iter_mut().for_each(|suspects| suspects.durable(upto));
        self.kernel.with(|core| core.state.kept = core.state.kept.max(upto));
    }

    /// Power was lost before this start: what others were told of records of the tail may be gone.
    pub fn power_was_lost(&mut self) {
        self.lost_power = true;
    }

    /// Begins to serve, after load and replay. The host has made durable what it replayed (else a second loss could
    /// bring back records whose freed blocks are in use again) and appends what this emits before anything else. `since`: files of
    /// inodes of an earlier birth may be in the checkpoint.
    pub fn start(&mut self, now: Now, since: Birth, reader: &mut BlockReader<'_>) -> Started {
        let suspects = self.suspects.take().unwrap_or_default();
        let restored = self.restore_lost(now, reader, &suspects);
        let kept = self.kernel.with(|core| still_kept(&mut core.state.index, &suspects.kept));
        self.kernel.with(|core| {
            let state = &mut core.state;
            assert!(state.next_record > state.index.last, "a start has a newer term than all its records");
            state.index.set_since(since);
            state.space = Space::new(state.config.file_blocks);
            state.space.rebuild(state.index.map.used(), state.config.files);
        });
        let merges = self.kernel.with(|core| {
            let merges = core.state.index.ranges.iter().flat_map(|range| range.merges.iter());
            merges.map(|(&seq, &recorded)| (seq, recorded)).collect::<Vec<_>>()
        });
        let n = merges.len() as u64;
        let recount = self.take_recount();
        let lost_power = self.lost_power;
        self.kernel.handle(now, Input::Tick, |core, _| {
            core.state.kept_since = core.state.index.counts.power_lost();
            if lost_power {
                let term = core.state.config.term;
                state::record(core, &DataRecord::PowerLost { term });
            }
            table::ask(core, TrackingEpoch(0));
            recount.into_iter().for_each(|(data, undone)| core.start(Job::Recount(data, undone)));
            kept.chunks(KEEP_AT_ONCE).for_each(|runs| core.start(Job::Keep(runs.to_vec())));
            for (seq, RecordedMerge { merge, stamp }) in merges {
                if merge.part.is_some() {
                    parts::note(core, merge.data.inode, seq);
                    continue;
                }
                core.state.running.insert((merge.session, merge.request));
                core.start(Job::Merge { seq, merge, again: (stamp.0 > 0).then_some(Recorded { seq, stamp }) });
            }
            crate::node::punch(core);
        });
        self.kernel.with(|core| {
            let State { index, config, .. } = &core.state;
            let files = index.map.used().end().div_ceil(config.file_blocks.into()) as u32;
            Started { restored_blocks: restored, merges: n, blocks: index.map.blocks(), files }
        })
    }

    /// Undoes writes of the tail of which some bytes are not there, and what was written to the same files after them.
    fn restore_lost(&mut self, now: Now, reader: &mut BlockReader<'_>, suspects: &Suspects) -> u64 {
        let mut lost = Vec::new();
        self.kernel.with(|core| {
            let mut used = core.state.index.map.used().clone();
            let mut bytes = vec![0; BLOCK];
            let mut arrived = |m: &Mapping| {
                let (file, offset) = core.state.place(m.phys);
                reader(file, offset, &mut bytes).is_ok() && crc32c(&bytes) == m.crc
            };
            for (data, first) in suspects.first_lost(&used, &mut arrived) {
                for (&(_, block), chain) in suspects.of(data) {
                    let kept = &chain[..chain.partition_point(|(seq, _)| *seq < first)];
                    if kept.len() == chain.len() {
                        continue;
                    }
                    let now = place_now(chain);
                    if let Some((at, to)) = fallback(kept, now, &used, &mut arrived) {
                        let taken = to.filter(|m| m.keep > KEEP_NONE || now != Some(m.phys));
                        taken.into_iter().for_each(|m| assert!(used.insert(m.phys), "the place is free"));
                        let writes = chain[at + 1..].iter();
                        let undone =
                            |&(record, _): &(RecordSeq, _)| UndoneWrite { record, merge: suspects.writes[&record] };
                        lost.push((data, block, to, writes.map(undone).collect()));
                    }
                }
            }
        });
        let n = lost.len() as u64;
        let recount = &mut self.recount;
        self.kernel.handle(now, Input::Tick, |core, _| {
            for (data, block, to, writes) in lost {
                let restored = DataRecord::Restored { data, block, to, writes };
                let seq = state::record(core, &restored);
                note_undone(recount, seq, &restored);
            }
        });
        n
    }

    /// The files of which homes hear first of all, and their undone appends that were not done again.
    fn take_recount(&mut self) -> Vec<(DataId, Vec<UndoneAppend>)> {
        let recount = std::mem::take(&mut self.recount);
        self.kernel.with(|core| {
            let index = &mut core.state.index;
            let mut again = |data: DataId, undone: &UndoneAppend| {
                let cut = index.file(data).map_or(0, |file| file.cut);
                index.seen(undone.session, undone.request, data, cut) == Seen::Done
            };
            let of = |(data, undone): (DataId, Undone)| {
                let last = undone.into_values().rev().filter(|undone| !again(data, undone)).take(UNDONE_MAX);
                (data, last.collect())
            };
            recount.into_iter().map(of).collect()
        })
    }
}

/// What of these runs still is reserved.
fn still_kept(index: &mut Index, kept: &[(DataId, ReservedRun)]) -> Vec<Run> {
    let still = |(data, run): &(DataId, ReservedRun)| {
        let (start, phys) = (run.start, run.phys);
        let now: Vec<ReservedRun> = match index.file(*data) {
            Some(file) => file.content.reserved(start, start + (run.len - 1)).collect(),
            None => Vec::new(),
        };
        now.into_iter().filter(move |now| now.phys.checked_sub(phys) == Some(now.start - start))
    };
    kept.iter().flat_map(still).map(|run| Run { start: run.phys, len: run.len }).collect()
}

/// Remembers what a record has put back, for the home.
fn note_undone(recount: &mut BTreeMap<DataId, Undone>, seq: RecordSeq, record: &DataRecord) {
    let DataRecord::Restored { data, writes, .. } = record else { return };
    let of = recount.entry(*data).or_default();
    for &UndoneWrite { record, merge: PendingMerge { end, session, request, append, .. } } in writes {
        if let Some(from) = append {
            of.entry(record).or_insert(UndoneAppend { at: seq.0, from, end, session, request });
        }
    }
}

/// What counts instead of a block whose bytes are not there, and its place in the chain: the newest earlier one whose
/// bytes are, or a hole if the block was one before. Nothing if the bytes from before are gone too, which is damage for a reader to hear of. A place
/// that another block has taken since is not the old bytes, whatever it holds. A block that was only reserved is so again, also where it is
/// `now`, or a hole if its place is taken.
fn fallback(
    earlier: &[(RecordSeq, Option<Mapping>)],
    now: Option<u32>,
    used: &Used,
    arrived: &mut impl FnMut(&Mapping) -> bool,
) -> Option<(usize, Option<Mapping>)> {
    let mut valid = |m: &Mapping| m.keep == KEEP_NONE || !used.contains(m.phys) && arrived(m);
    let at = earlier.iter().rposition(|(_, m)| m.is_none_or(|m| valid(&m)))?;
    let is_free = |m: &Mapping| m.keep > KEEP_NONE || now == Some(m.phys) || !used.contains(m.phys);
    Some((at, earlier[at].1.filter(is_free)))
}

/// Where the newest bytes of a block are.
fn place_now(chain: &Chain) -> Option<u32> {
    chain.last().and_then(|(_, m)| *m).map(|m| m.phys)
}

/// Runs for which space is taken again at a time.
const KEEP_AT_ONCE: usize = 256;
/// Parts of what is forgotten that fall on a range.
const PARTS_OF_RANGE: u32 = FORGET_PARTS / RANGES as u32;

impl Recoverable for DataNode {
    fn ranges(&self) -> u32 {
        RANGES as u32
    }

    fn begin_image(&mut self, range: u32) -> Image {
        self.kernel.with(|core| {
            let (changes, rest) = core.state.index.image(range as usize);
            Image { upto: core.state.index.last, changes, rest }
        })
    }

    fn settle_some(&mut self, range: u32, kept: bool) -> bool {
        self.kernel.with(|core| core.state.index.settle(range as usize, kept));
        false
    }

    fn attach(&mut self, cold: Arc<dyn Cold>) -> Result<(), StoreError> {
        self.kernel.with(|core| core.state.index.attach(cold))
    }

    fn memory(&self) -> u64 {
        self.kernel.with(|core| core.state.index.bytes())
    }

    fn forget(&mut self, part: u32) {
        // A range is one part, and the others have nothing.
        let (range, rest) = (part / PARTS_OF_RANGE, part % PARTS_OF_RANGE);
        if rest == 0 {
            self.kernel.with(|core| core.state.index.forget(range as usize));
        }
    }

    fn load_object(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.kernel.with(|core| core.state.index.load_object(key, value))
    }

    fn object_check(&self) -> ObjectCheck {
        Box::new(self.kernel.with(|core| core.state.index.object_check()))
    }

    fn load(&mut self, range: u32, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let loaded = self.kernel.with(|core| core.state.index.load_rest(range as usize, key, value));
        loaded.map_err(|source| StoreError::Undecodable { what: "object of a data node's image", source })
    }

    fn loaded(&mut self, range: u32, upto: RecordSeq) {
        self.kernel.with(|core| {
            let index = &mut core.state.index;
            index.ranges[range as usize].upto = upto;
            index.last = index.last.max(upto);
        });
        self.tail_was_durable(upto); // nothing is imaged before that
    }

    fn foresee(&self, record: &[u8], asks: &mut Vec<Vec<u8>>) {
        let inode = DataRecord::from_stored(record).ok().and_then(|record| record.inode());
        asks.extend(inode.map(objects::prefix));
    }

    fn replay(&mut self, seq: RecordSeq, record: &[u8]) -> Result<(), StoreError> {
        let undecodable = |source| StoreError::Undecodable { what: "record of a data node", source };
        let record = DataRecord::from_stored(record).map_err(undecodable)?;
        sound::record(&record).map_err(undecodable)?;
        note_undone(&mut self.recount, seq, &record);
        let suspects = self.suspects.as_mut();
        let is_kept = suspects.is_none() || !self.lost_power;
        self.kernel.with(|core| {
            if is_kept {
                core.state.kept = core.state.kept.max(seq);
            }
            let index = &mut core.state.index;
            let inode = record.inode();
            if inode.is_some_and(|inode| index.ranges[range_of(inode)].upto >= seq) {
                return Ok(());
            }
            suspects.into_iter().for_each(|suspects| suspects.note(index, seq, &record));
            index.apply(seq, &record, &mut |_, _| ())
        })
    }
}
