//! Merge parts: of which files this node answers writes by itself, and what their homes have yet to learn (V-1 to V-3).
//!
//! A part is taken up in the step that records a write, and only there. Parts are volatile: a node that has started again has none, and
//! takes none of a home's until that has said which it gave last (V-3a). Writes that were answered are recorded as such, so that their homes
//! learn them after a restart too, and a repeated request is answered again.
//! Bounds: [`MERGE_PARTS_MAX`] parts, [`ANSWERED_MAX`] writes; beyond them homes answer.

use crate::index::Index;
use crate::ops::Job;
use crate::planted::{self, Planted};
use crate::state::{self, Node, NodeCx, State};
use crate::table;
use hashbrown::HashMap;
use onpath_kernel::Gauge;
use onpath_wire::data::{Answered, MergePart, ReturnedPart};
use onpath_wire::disk::block::RecordedMerge;
use onpath_wire::ids::{DataId, InodeId, LogSeq, RecordSeq, ShardId};
use onpath_wire::limits::{ANSWERED_MAX, MERGE_PARTS_MAX};
use std::collections::{BTreeMap, BTreeSet};

/// A part that this node has.
#[derive(Clone, Copy, Debug)]
struct Held {
    part: MergePart,
    data: DataId,
    cut: u32,
    /// When a write was answered by it last, microseconds.
    used_us: u64,
}

/// Which parts of a home do not count.
#[derive(Clone, Copy, Debug, Default)]
struct Floor {
    /// None up to this one.
    upto: MergePart,
    /// The home is asked which it gave last.
    asked: bool,
    /// It has said that to this process: before, none counts. What it says of its own accord may have been said to a former one, and come
    /// late.
    answered: bool,
}

/// What a node has and owes.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    held: HashMap<InodeId, Held>,
    floors: BTreeMap<ShardId, Floor>,
    /// Writes that were answered, and whose homes have not learned them.
    unlearned: BTreeMap<InodeId, Unlearned>,
    writes: usize,
    /// Writes that were told to homes, which answer them, and have not.
    chained: HashMap<InodeId, u32>,
    /// Homes that are being told.
    telling: BTreeSet<ShardId>,
    /// Parts that are not used are looked for.
    sweeping: bool,
    /// Homes have learned something since they were told of a floor.
    learned: bool,
}

/// Answered writes of a file that its home has not learned.
#[derive(Debug, Default)]
struct Unlearned {
    writes: BTreeSet<RecordSeq>,
    /// Those of each generation and cut together, in order, without blocks and version. Each answer that a table shows has them, so that they
    /// are kept, not counted each time.
    sums: Vec<Answered>,
}

impl Unlearned {
    /// Adds a later write, unless its record is gone; whether it is new.
    fn add(&mut self, index: &Index, inode: InodeId, seq: RecordSeq) -> bool {
        if let Some(&recorded) = index.range(inode).merges.get(&seq) {
            self.sum(LogSeq(seq.0), recorded);
        }
        self.writes.insert(seq)
    }

    fn sum(&mut self, last: LogSeq, RecordedMerge { merge, stamp }: RecordedMerge) {
        match self.sums.last_mut().filter(|sum| (sum.data, sum.cut) == (merge.data, merge.cut)) {
            Some(sum) => {
                sum.end = sum.end.max(merge.end);
                sum.kill_suidgid |= merge.kill_suidgid;
                sum.stamp = sum.stamp.max(stamp);
                sum.last = last;
            }
            None => {
                let (data, cut, end, kill_suidgid) = (merge.data, merge.cut, merge.end, merge.kill_suidgid);
                self.sums.push(Answered { data, cut, end, blocks: 0, version: 0, kill_suidgid, last, stamp });
            }
        }
    }
}

/// What homes are told of in time.
pub(crate) struct Due {
    /// Parts of each home that nobody has used for a while, and that were given back.
    pub(crate) idle: BTreeMap<ShardId, Vec<ReturnedPart>>,
    /// All answered writes up to here are learned; none if no home learned any since that was told.
    pub(crate) floor: Option<LogSeq>,
    /// There is nothing more to look after.
    pub(crate) over: bool,
}

impl Parts {
    /// Its tables.
    pub(crate) fn gauges(&self) -> [Gauge; 2] {
        [
            Gauge::table("merge parts", self.held.len(), MERGE_PARTS_MAX),
            Gauge::queue("answered writes to be learned by homes", self.writes, ANSWERED_MAX),
        ]
    }

    /// Answered writes to be learned by homes.
    pub(crate) fn owed_writes(&self) -> usize {
        self.writes
    }

    /// Named numbers of a file: its part, and the answered writes that its home has not learned.
    pub(crate) fn inspect(&self, inode: InodeId) -> Vec<(&'static str, u64)> {
        let held = self.held.get(&inode).map(|held| ("merge_part_held", held.part.number));
        let unlearned = self.unlearned.get(&inode).map(|of_file| ("writes_not_learned", of_file.writes.len() as u64));
        held.into_iter().chain(unlearned).collect()
    }

    /// The number of the part of this file, if the node has one; it may be shown a newer one.
    fn number(&mut self, data: DataId, cut: u32, shown: Option<MergePart>, now_us: u64) -> Option<u64> {
        let held = self.held.get_mut(&data.inode).filter(|held| (held.data, held.cut) == (data, cut))?;
        (held.used_us, held.part) = (now_us, held.part.max(shown.unwrap_or_default()));
        Some(held.part.number)
    }

    /// A home has said that no part up to this one counts.
    pub(crate) fn raise_floor(&mut self, home: ShardId, floor: MergePart) {
        let known = self.floors.entry(home).or_default();
        known.upto = floor.max(known.upto);
    }

    /// A home has said which part it gave last.
    pub(crate) fn gave(&mut self, home: ShardId, last: MergePart) {
        self.raise_floor(home, last);
        self.floors.entry(home).or_default().answered = true;
    }

    /// A home takes the part of a file back.
    pub(crate) fn give_back(&mut self, home: ShardId, inode: InodeId, floor: MergePart) {
        if self.held.get(&inode).is_some_and(|held| held.part.is_upto(floor)) {
            self.held.remove(&inode);
        }
        self.raise_floor(home, floor);
    }

    /// A home takes all parts of terms before that of this floor back.
    pub(crate) fn give_back_all(&mut self, home: ShardId, floor: MergePart, is_home: impl Fn(InodeId) -> bool) {
        self.held.retain(|&inode, held| held.part.term >= floor.term || !is_home(inode));
        self.raise_floor(home, floor);
    }

    /// No part of a home up to this one counts; none if no part at all does.
    pub(crate) fn floor(&self, home: ShardId) -> Option<MergePart> {
        let floor = self.floors.get(&home).copied().unwrap_or_default();
        (floor.answered || planted::is(Planted::PartsOfFormerLife)).then_some(floor.upto)
    }

    /// The home of a file is told of a write, which it answers; whether this node has a part of the file or has answered writes of it that the home has
    /// yet to learn.
    pub(crate) fn begin_chain(&mut self, inode: InodeId) -> bool {
        *self.chained.entry(inode).or_default() += 1;
        self.held.contains_key(&inode) || self.unlearned.contains_key(&inode)
    }

    /// It has answered; whether it has answered all.
    pub(crate) fn end_chain(&mut self, inode: InodeId) -> bool {
        let left = self.chained.get_mut(&inode).expect("it was told");
        *left -= 1;
        let all = *left == 0;
        if all {
            self.chained.remove(&inode);
        }
        all
    }

    /// Whether the home of a file decides writes that it was told of, without asking this node.
    fn is_chained(&self, inode: InodeId) -> bool {
        self.chained.contains_key(&inode) && !planted::is(Planted::TakesUpBesideChain)
    }

    /// Whether a write that shows a part may take it up when the home has answered the writes of the file that it was told.
    fn waits(&self, inode: InodeId, home: ShardId, part: MergePart) -> bool {
        self.is_chained(inode)
            && !self.held.contains_key(&inode)
            && self.floor(home).is_some_and(|floor| !part.is_upto(floor))
    }

    /// A write that was answered is recorded.
    fn note(&mut self, index: &Index, inode: InodeId, seq: RecordSeq) {
        self.writes += usize::from(self.unlearned.entry(inode).or_default().add(index, inode, seq));
    }

    /// A home has learned the writes of a file up to this position; their records.
    pub(crate) fn learned(&mut self, index: &Index, inode: InodeId, last: LogSeq) -> Vec<RecordSeq> {
        let Some(mut of_file) = self.unlearned.remove(&inode) else { return Vec::new() };
        let left = of_file.writes.split_off(&RecordSeq(last.0 + 1));
        let learned = of_file.writes;
        self.writes -= learned.len() + left.len();
        left.into_iter().for_each(|seq| self.note(index, inode, seq));
        self.learned |= !learned.is_empty();
        learned.into_iter().collect()
    }

    /// Whether the home of a file has yet to learn answered writes up to this position.
    pub(crate) fn owes(&self, inode: InodeId, upto: LogSeq) -> bool {
        self.unlearned.get(&inode).and_then(|of_file| of_file.writes.first()).is_some_and(|first| first.0 <= upto.0)
    }

    /// The last answered write of a file that its home has yet to learn.
    pub(crate) fn last_owed(&self, inode: InodeId) -> Option<LogSeq> {
        self.unlearned.get(&inode).and_then(|of_file| of_file.writes.last()).map(|last| LogSeq(last.0))
    }

    /// All files of which there is such a write.
    pub(crate) fn owed(&self) -> Vec<(InodeId, LogSeq)> {
        self.unlearned.keys().filter_map(|&inode| Some((inode, self.last_owed(inode)?))).collect()
    }

    /// Nobody tells this home any more.
    pub(crate) fn end_telling(&mut self, home: ShardId) {
        self.telling.remove(&home);
    }

    /// What has been idle since `since_us` is given back: in the same step no later write can be answered by it.
    pub(crate) fn due(&mut self, since_us: u64, index: &Index, home: impl Fn(InodeId) -> ShardId) -> Due {
        let unlearned = &self.unlearned;
        let idle = self.held.extract_if(|inode, held| held.used_us <= since_us && !unlearned.contains_key(inode));
        let mut parts: Vec<_> = idle.map(|(inode, held)| ReturnedPart { inode, part: held.part }).collect();
        parts.sort_unstable_by_key(|returned| returned.inode);
        let mut idle: BTreeMap<ShardId, Vec<ReturnedPart>> = BTreeMap::new();
        for returned in parts {
            let home = home(returned.inode);
            self.raise_floor(home, returned.part);
            idle.entry(home).or_default().push(returned);
        }
        let first = self.unlearned.values().filter_map(|of_file| of_file.writes.first()).min();
        let floor = first.map_or(index.last.0, |first| first.0 - 1);
        let floor = std::mem::take(&mut self.learned).then_some(LogSeq(floor));
        let over = self.held.is_empty() && self.unlearned.is_empty() && floor.is_none();
        self.sweeping = !over;
        Due { idle, floor, over }
    }
}

/// Whether the node may answer a write that it is about to record, by the part that it has or by the one that it is shown (V-1): the file's
/// generation and cut are what it was told, and readers will be shown it.
pub(crate) fn take_up(core: &mut Node, data: DataId, cut: u32, shown: Option<MergePart>) -> Option<u64> {
    held(core, data, cut, shown).filter(|_| table::may_answer(core, data, cut))
}

/// The number of the part that the node has of a file, or takes up.
fn held(core: &mut Node, data: DataId, cut: u32, shown: Option<MergePart>) -> Option<u64> {
    let now_us = core.now.mono_us;
    // Whose clock is wrong does not bring the home's time with its messages.
    if shown.is_some_and(|part| !core.state.observe(part.stamp, core.now.wall_ns)) {
        core.state.counters.skewed += 1;
        return None;
    }
    let State { parts, config, .. } = &mut core.state;
    if parts.writes >= ANSWERED_MAX {
        return None;
    }
    if let Some(number) = parts.number(data, cut, shown, now_us) {
        return Some(number);
    }
    let part = shown?;
    let home = config.map.home(data.inode);
    let Some(floor) = parts.floor(home) else {
        if !std::mem::replace(&mut parts.floors.entry(home).or_default().asked, true) {
            core.start(Job::AskPart(home));
        }
        return None;
    };
    if parts.is_chained(data.inode) {
        return None;
    }
    if part.is_upto(floor) && !planted::is(Planted::FloorsForgotten) || parts.held.len() >= MERGE_PARTS_MAX {
        return None;
    }
    parts.held.insert(data.inode, Held { part, data, cut, used_us: now_us });
    Some(part.number)
}

/// Waits until a part that a write shows may be taken up: where many writes of a file are under way, those that came before it was given go by the
/// home, and all that come while one of them does would follow. If too many wait already it goes by the home, too.
pub(crate) async fn wait(cx: &NodeCx, inode: InodeId, shown: Option<MergePart>) {
    let Some(part) = shown else { return };
    let waits = move |core: &mut Node| {
        let home = core.state.config.map.home(inode);
        core.state.parts.waits(inode, home, part)
    };
    if cx.with(waits) {
        _ = state::wait_for_home(cx, inode, |core| (!waits(core)).then_some(())).await;
    }
}

/// A write that the node answers is recorded: its home will learn it.
pub(crate) fn note(core: &mut Node, inode: InodeId, seq: RecordSeq) {
    let State { parts, index, .. } = &mut core.state;
    parts.note(index, inode, seq);
    let home = core.state.config.map.home(inode);
    if core.state.parts.telling.insert(home) {
        core.start(Job::Tell(home));
    }
    if !std::mem::replace(&mut core.state.parts.sweeping, true) {
        core.start(Job::Sweep);
    }
}

/// Whether all that the home of a file has yet to learn was written under this cut, as far as there is something.
pub(crate) fn owes_only(core: &mut Node, data: DataId, cut: u32) -> bool {
    let first = core.state.parts.unlearned.get(&data.inode).and_then(|of_file| of_file.sums.first());
    first.is_none_or(|first| (first.data, first.cut) == (data, cut))
}

/// What the home of a file has yet to learn: the writes of each generation and cut together, in order.
pub(crate) fn unlearned(core: &mut Node, inode: InodeId) -> Vec<Answered> {
    let State { parts, index, .. } = &mut core.state;
    let sums = parts.unlearned.get(&inode).map_or(&[][..], |of_file| &of_file.sums);
    let version = index.last.0;
    sums.iter().map(|sum| Answered { blocks: index.blocks_of(sum.data), version, ..*sum }).collect()
}

/// The same of files of this home, from `from` on, at most so many; where those begin for which there was no room.
pub(crate) fn unlearned_by(
    core: &mut Node,
    home: ShardId,
    from: InodeId,
    most: usize,
) -> (Vec<Answered>, Option<InodeId>) {
    let State { parts, config, .. } = &core.state;
    let of_home =
        parts.unlearned.range(from..).map(|(inode, _)| *inode).filter(|inode| config.map.home(*inode) == home);
    let inodes: Vec<InodeId> = of_home.take(most + 1).collect();
    let mut all = Vec::new();
    for inode in inodes {
        let of_file = unlearned(core, inode);
        if !all.is_empty() && all.len() + of_file.len() > most {
            return (all, Some(inode));
        }
        all.extend(of_file);
    }
    (all, None)
}
