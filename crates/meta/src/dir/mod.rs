//! Directories as SwitchFS §5 keeps them: updates go to change-logs at the names' sites, grants tell the owner
//! who may have some, and whoever reads a directory collects first.
//!
//! `site` is the side that appends, `owner` the side that lists, `collect` the job between them, `push` what
//! empties change-logs unasked. `tracker` is what differs between the tracking forms; `mark` and `group` are what the
//! network form does at a site and at an owner, `epoch` when which form counts.

mod ages;
pub(crate) mod collect;
pub(crate) mod epoch;
mod gate;
pub(crate) mod group;
pub(crate) mod holders;
pub(crate) mod inspect;
pub(crate) mod leases;
pub(crate) mod load;
pub(crate) mod mark;
pub(crate) mod owner;
pub(crate) mod push;
pub(crate) mod site;
pub(crate) mod tracker;
pub(crate) mod ways;

use crate::bounds::ShardBounds;
use crate::planted::{self, Planted};
use ages::Ages;
use group::Group;
use hashbrown::HashMap;
use leases::Leases;
use onpath_kernel::Gauge;
use onpath_wire::ids::{InodeId, JobId, LogSeq, NodeId, ShardId, Term};
use onpath_wire::innet::Fingerprint;
use onpath_wire::limits::{BATCH_ENTRIES_MAX, GRANT_WAITERS_MAX};
use onpath_wire::map::ClusterMap;
use onpath_wire::peer::{Batch, DirBatch, LogEntry};
use owner::OwnerDir;
use site::SiteDir;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use ways::Forgotten;

/// Both sides of the directory protocol at this shard.
#[derive(Default)]
pub(crate) struct Directories {
    /// Directories in which names of this shard are (durable: their change-logs).
    pub(crate) site: HashMap<InodeId, SiteDir>,
    /// Directories whose home this is (volatile).
    pub(crate) owner: HashMap<InodeId, OwnerDir>,
    /// Groups of those directories, as the switch knows them (volatile).
    pub(crate) groups: HashMap<Fingerprint, Group>,
    /// Collects of groups that run.
    pub(crate) collecting: usize,
    /// Change-logs, by directory; never an empty one.
    logs: BTreeMap<InodeId, VecDeque<LogEntry>>,
    /// Entries in all of them.
    entries: usize,
    /// Keys that are locked since hidden entries are about them.
    pub(crate) concealed: usize,
    /// Directories whose updates wait for room in the change-logs.
    starved: BTreeSet<InodeId>,
    /// Where the change-log of a directory was trimmed last, above our own floor.
    trimmed: BTreeMap<InodeId, LogSeq>,
    /// Everything of ours up to here is applied and trimmed, and every owner knows.
    own_floor: LogSeq,
    /// What of whom is applied.
    watermarks: BTreeMap<(InodeId, ShardId), LogSeq>,
    /// Everything of a site, or of a data node's writes, up to here is applied.
    floors: BTreeMap<NodeId, LogSeq>,
    log_seq: u64,
    job: u64,
    /// Path parts granted in this term.
    path_grants: u64,
    /// Leases of path nodes.
    pub(crate) leases: Leases,
    /// What clients hear that keep ways.
    pub(crate) forgotten: Forgotten,
    /// Change-logs to be pushed when idle: due time, directory, and an entry that still being there tells it.
    pub(crate) idle: VecDeque<(u64, InodeId, LogSeq)>,
    pub(crate) pushing: BTreeSet<InodeId>,
    /// Directories in the order in which grants of them were installed.
    pub(crate) held_order: VecDeque<InodeId>,
    pub(crate) pusher_runs: bool,
    pub(crate) floor_runs: bool,
    /// Entries up to here are of a former term: shown when their owner has applied them.
    recovered: LogSeq,
    /// For how long entries have been pending.
    ages: Ages,
}

impl Directories {
    /// The next position of this shard's change-logs.
    pub(crate) fn next_log_seq(&mut self, term: Term) -> LogSeq {
        self.log_seq = self.log_seq.max(term.first_seq()) + 1;
        LogSeq(self.log_seq)
    }

    /// A name for a collect or recall, never reused.
    pub(crate) fn next_job(&mut self, term: Term) -> JobId {
        self.job = self.job.max(term.first_seq()) + 1;
        JobId(self.job)
    }

    /// The number of the next path part that is granted.
    pub(crate) fn next_path_grant(&mut self) -> u64 {
        self.path_grants += 1;
        self.path_grants
    }

    /// After recovery: everything in the change-logs is of a former term.
    pub(crate) fn begin_term(&mut self, now_us: u64) {
        self.recovered = self.logs.values().filter_map(|log| log.back()).map(|e| e.seq).max().unwrap_or_default();
        self.note(now_us, self.recovered);
        self.leases.begin_term(now_us);
    }

    /// An entry was appended at that position.
    fn note(&mut self, now_us: u64, seq: LogSeq) {
        let mut ages = std::mem::take(&mut self.ages);
        ages.note(now_us, seq, || self.floor_now());
        self.ages = ages;
    }

    /// For how long the oldest entry has been pending at least, microseconds.
    pub(crate) fn oldest_pending(&self, now_us: u64) -> u64 {
        if self.entries == 0 { 0 } else { self.ages.oldest(now_us, self.floor_now()) }
    }

    /// Directories with unapplied entries.
    pub(crate) fn unapplied(&self) -> Vec<InodeId> {
        self.logs.keys().copied().collect()
    }

    /// Whether entries of a former term wait for the owner: then no name of the directory is shown here.
    pub(crate) fn hidden(&self, dir: InodeId) -> bool {
        self.recovered > LogSeq(0) && self.holds_entry(dir, self.recovered)
    }

    /// What the unapplied entries of a directory are about.
    pub(crate) fn children(&self, dir: InodeId) -> impl Iterator<Item = InodeId> + '_ {
        self.logs.get(&dir).into_iter().flatten().map(|entry| entry.child)
    }

    /// Appends an entry.
    pub(crate) fn append(&mut self, dir: InodeId, entry: LogEntry) {
        self.log_seq = self.log_seq.max(entry.seq.0);
        let log = self.logs.entry(dir).or_default();
        assert!(log.back().is_none_or(|last| last.seq < entry.seq), "change-log positions grow");
        log.push_back(entry);
        self.entries += 1;
    }

    /// Whether a record may append to the change-log of `dir`, beside those of so many promises. No push is begun but of a log
    /// that was let in here, so pushes of logs that are empty by now keep others out.
    fn has_room(&self, dir: InodeId, bounds: &ShardBounds, promises: usize) -> bool {
        let kept = push::RECORD_ENTRIES_MAX * (promises + 1);
        let another =
            self.logs.len() + kept <= bounds.logs && self.logs.len() + self.pushing.len() + kept <= 2 * bounds.logs;
        self.entries + kept <= bounds.log_entries && (another || self.logs.contains_key(&dir))
    }

    /// The owner has applied the change-log up to here.
    pub(crate) fn trim(&mut self, dir: InodeId, upto: LogSeq) {
        if let Some(log) = self.logs.get_mut(&dir) {
            while log.front().is_some_and(|entry| entry.seq <= upto) {
                log.pop_front();
                self.entries -= 1;
            }
            if log.is_empty() {
                self.logs.remove(&dir);
            }
        }
        if upto > self.own_floor {
            let at = self.trimmed.entry(dir).or_default();
            *at = (*at).max(upto);
        }
    }

    /// Entries of a directory that the owner has not applied.
    pub(crate) fn log_len(&self, dir: InodeId) -> usize {
        self.logs.get(&dir).map_or(0, VecDeque::len)
    }

    /// The first unapplied entries, and whether more follow.
    pub(crate) fn batch(&self, dir: InodeId) -> (Batch, bool) {
        let before = self.trimmed.get(&dir).copied().unwrap_or_default();
        let Some(log) = self.logs.get(&dir) else { return (Batch { before, entries: Vec::new() }, false) };
        let entries: Vec<_> = log.iter().take(BATCH_ENTRIES_MAX).cloned().collect();
        let more = entries.len() < log.len();
        (Batch { before, entries }, more)
    }

    /// A directory of ours is gone for good: nobody is granted anything of it any more.
    pub(crate) fn forget_owned(&mut self, dir: InodeId, group: Fingerprint) {
        if self.owner.get(&dir).is_none_or(OwnerDir::is_busy) {
            return;
        }
        self.owner.remove(&dir);
        if self.groups.get_mut(&group).is_some_and(|known| known.leaves(dir)) {
            self.groups.remove(&group);
        }
    }

    /// Position of the first entry that the owner has not applied.
    pub(crate) fn first_entry(&self, dir: InodeId) -> Option<LogSeq> {
        self.logs.get(&dir).and_then(VecDeque::front).map(|first| first.seq)
    }

    /// Position of the last one.
    pub(crate) fn last_entry(&self, dir: InodeId) -> Option<LogSeq> {
        self.logs.get(&dir).and_then(VecDeque::back).map(|last| last.seq)
    }

    /// Whether the owner has not yet applied this entry, as far as we know, or one before it.
    pub(crate) fn holds_entry(&self, dir: InodeId, seq: LogSeq) -> bool {
        self.first_entry(dir).is_some_and(|first| first <= seq)
    }

    /// Directories of a group with unapplied entries.
    fn logs_of<'a>(&'a self, map: &'a ClusterMap, group: Fingerprint) -> impl Iterator<Item = InodeId> + 'a {
        let in_slots = self.logs.range(InodeId::of_slots(map.slots_of(group)));
        in_slots.map(|(&dir, _)| dir).filter(move |&dir| map.fingerprint(dir) == group)
    }

    /// Whether there are unapplied entries of a group.
    pub(crate) fn has_entries(&self, map: &ClusterMap, group: Fingerprint) -> bool {
        self.logs_of(map, group).next().is_some()
    }

    /// The first unapplied entries of each directory of a group, and whether more follow.
    pub(crate) fn batches_of(&self, map: &ClusterMap, group: Fingerprint) -> (Vec<DirBatch>, bool) {
        let (mut batches, mut more, mut room) = (Vec::new(), false, BATCH_ENTRIES_MAX);
        for dir in self.logs_of(map, group) {
            let (mut batch, follow) = self.batch(dir);
            more |= follow || batch.entries.len() > room;
            batch.entries.truncate(room);
            room -= batch.entries.len();
            batches.push(DirBatch { dir, batch });
        }
        (batches, more)
    }

    /// Everything of a site's change-logs, or of the writes of a data node's files, is applied up to here.
    pub(crate) fn floor(&self, from: NodeId) -> LogSeq {
        self.floors.get(&from).copied().unwrap_or_default()
    }

    /// What of `from`'s change-log for `dir` is applied here.
    pub(crate) fn watermark(&self, dir: InodeId, from: ShardId) -> LogSeq {
        let floor = self.floor(NodeId::shard(from));
        self.watermarks.get(&(dir, from)).copied().unwrap_or_default().max(floor)
    }

    /// Records what is applied.
    pub(crate) fn set_watermark(&mut self, dir: InodeId, from: ShardId, upto: LogSeq) {
        let at = self.watermarks.entry((dir, from)).or_default();
        *at = (*at).max(upto);
    }

    /// Watermarks up to here need not be kept. Those of a data node are with its files.
    pub(crate) fn raise_floor(&mut self, from: NodeId, upto: LogSeq) {
        let floor = self.floors.entry(from).or_default();
        *floor = (*floor).max(upto);
        let floor = *floor;
        if let Some(site) = from.as_shard() {
            self.watermarks.retain(|&(_, shard), at| shard != site || *at > floor);
        }
    }

    /// All owners know that everything of ours up to here is applied.
    pub(crate) fn raise_own_floor(&mut self, upto: LogSeq) {
        self.own_floor = self.own_floor.max(upto);
        let floor = self.own_floor;
        self.trimmed.retain(|_, at| *at > floor);
    }

    /// The highest position below which everything of ours is applied and trimmed.
    pub(crate) fn floor_now(&self) -> LogSeq {
        let logs = self.logs.values().filter(|_| !planted::is(Planted::FloorOverEntries));
        let first = logs.filter_map(|log| log.front()).map(|e| e.seq.0).min();
        LogSeq(first.map_or(self.log_seq, |seq| seq - 1))
    }

    /// Number of positions remembered above the floor.
    pub(crate) fn trimmed_len(&self) -> usize {
        self.trimmed.len()
    }

    /// Change-logs, for an image.
    pub(crate) fn logs(&self) -> impl Iterator<Item = (InodeId, Vec<LogEntry>)> + '_ {
        self.logs.iter().map(|(&dir, log)| (dir, log.iter().cloned().collect()))
    }

    /// Trimmed positions, for an image.
    pub(crate) fn trimmed(&self) -> impl Iterator<Item = (InodeId, LogSeq)> + '_ {
        self.trimmed.iter().map(|(&dir, &at)| (dir, at))
    }

    /// Floors of sites and our own, for an image.
    pub(crate) fn floors(&self, me: NodeId) -> impl Iterator<Item = (NodeId, LogSeq)> + '_ {
        self.floors.iter().map(|(&from, &at)| (from, at)).chain([(me, self.own_floor)])
    }

    /// Watermarks of the directories of a range, for an image.
    pub(crate) fn watermarks_in(&self, range: u32) -> impl Iterator<Item = ((InodeId, ShardId), LogSeq)> + '_ {
        let (first, last) = InodeId::of_slots(crate::state::recover::slots_of(range)).into_inner();
        let here = self.watermarks.range((first, ShardId(0))..=(last, ShardId(u16::MAX)));
        here.map(|(&id, &at)| (id, at))
    }

    /// Its queues.
    pub(crate) fn gauges(&self, operations: usize, bounds: &ShardBounds, all: &mut Vec<Gauge>) {
        let waiting = self.owner.values().map(OwnerDir::waiters).max();
        all.extend([
            Gauge::queue("nodes that wait for a grant of a directory", waiting.unwrap_or(0), GRANT_WAITERS_MAX),
            Gauge::queue("recalls", self.owner.values().filter(|table| table.is_busy()).count(), operations),
            Gauge::queue("collects", self.groups.values().filter(|group| group.collecting()).count(), operations),
            Gauge::queue("change-logs", self.logs.len(), bounds.logs),
            Gauge::queue("entries of change-logs", self.entries, bounds.log_entries),
            Gauge::queue("change-logs that are idle", self.idle.len(), bounds.logs),
            Gauge::queue("change-logs that are pushed", self.pushing.len(), 2 * bounds.logs),
            Gauge::queue("directories whose updates wait for room", self.starved.len(), operations),
        ]);
    }

    /// Unapplied entries in all change-logs.
    pub(crate) fn pending(&self) -> usize {
        self.entries
    }
}
