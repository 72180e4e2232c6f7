//! The side that lists: grants, and applying change-logs.

use super::group::{self, Group};
use super::holders::{Holder, Holders};
use super::site::Gone;
use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::commit::{Effects, commit_own};
use crate::state::{keys, packets};
use crate::{Core, Cx};
use hashbrown::HashMap;
use onpath_kernel::OpId;
use onpath_store::Inodes;
use onpath_wire::disk::log::Entry;
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::{InodeId, JobId, LogSeq, NodeId, RequestSeq, ShardId, Stamp};
use onpath_wire::inode::Kind;
use onpath_wire::limits::GRANT_WAITERS_MAX;
use onpath_wire::name::Name;
use onpath_wire::peer::{Access, Batch, GrantResult, LogEntry, PathPart, Peer, part};
use onpath_wire::tracking::Form;
use std::collections::VecDeque;

/// What the owner knows of a directory's holders. Volatile: after a restart everybody may be one.
#[derive(Default, Debug)]
pub(crate) struct OwnerDir {
    pub(crate) holders: Holders,
    /// The collect or recall that runs, and the parts that it takes back.
    pub(crate) job: Option<(JobId, u8)>,
    /// Parts kept sealed for a transaction's next attempt: they are not granted.
    pub(crate) sealing: u8,
    /// Clients may keep ways through it: a path part was granted since they were last told to forget them (P-5).
    pub(crate) told: bool,
    /// They are being told.
    pub(crate) telling: bool,
    waiting: VecDeque<(Holder, RequestSeq, u8)>,
    /// *sync*: append parts are granted write-through, and whoever holds one has it so.
    through: bool,
    /// Reads that each found an update or two since the one before.
    alternations: u8,
    /// Pushes since the last read.
    pushes: u16,
    /// When entries were last collected, monotonic microseconds.
    collected_us: u64,
    /// The later one of the times that a reader has seen: what is applied later is younger.
    shown: Stamp,
    /// Who decides on *sync*.
    policy: SyncPolicy,
}

/// Which directories go into *sync* (design.md, "The life of an update").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SyncPolicy {
    /// Those of which reads and updates alternate, as long as they do.
    #[default]
    Auto,
    /// None.
    Never,
    /// All, always.
    Always,
}

/// Alternations of reads and updates after which a directory goes into *sync*.
const SYNC_AFTER: u8 = 4;
/// Updates that a read may find and still count as alternating with them.
const SYNC_ENTRIES: u64 = 2;
/// Pushes without a read after which a directory leaves *sync*.
const SYNC_PUSHES: u16 = 32;

impl OwnerDir {
    fn recalls(&self, parts: u8) -> bool {
        !planted::is(Planted::GrantDuringCollect)
            && (self.sealing & parts != 0
                || self.telling && parts & part::PATH != 0
                || self.job.is_some_and(|(_, recalled)| recalled & parts != 0))
    }

    /// When entries were last collected, monotonic microseconds; 0 for never.
    pub(crate) fn collected_us(&self) -> u64 {
        self.collected_us
    }

    /// Whether everything that others hold is write-through.
    pub(crate) fn is_through(&self) -> bool {
        self.through
    }

    /// Whether reads and updates alternate so much that the next read should take all append parts back.
    pub(crate) fn wants_sync(&self) -> bool {
        self.policy == SyncPolicy::Auto && self.alternations >= SYNC_AFTER && !self.through
    }

    /// A reader has found so many updates. If nobody holds the append part now, the directory may change to *sync*: true then.
    pub(crate) fn found(&mut self, entries: u64) -> bool {
        self.alternations = match entries {
            0 => self.alternations,
            1..=SYNC_ENTRIES => self.alternations.saturating_add(1),
            _ => 0,
        };
        self.pushes = 0;
        let nobody = self.holders.knows(part::APPEND) && self.holders.is_free(part::APPEND);
        let changes = nobody && self.wants_sync();
        self.through |= changes;
        changes
    }

    /// A reader found everything applied.
    pub(crate) fn read(&mut self) {
        self.pushes = 0;
    }

    /// An update was pushed. True if there are so many between two reads that the directory leaves *sync*.
    fn pushed(&mut self) -> bool {
        self.pushes = self.pushes.saturating_add(1);
        let leaves = self.through && self.policy == SyncPolicy::Auto && self.pushes > SYNC_PUSHES;
        if leaves {
            (self.through, self.alternations) = (false, 0);
        }
        leaves
    }

    /// Whether a job runs, or somebody waits for one.
    pub(crate) fn is_busy(&self) -> bool {
        self.job.is_some() || self.sealing != 0 || self.telling || self.has_waiters()
    }

    /// Shards and path nodes that wait for grants.
    pub(crate) fn waiters(&self) -> usize {
        self.waiting.len()
    }

    /// Whether somebody waits for grants.
    pub(crate) fn has_waiters(&self) -> bool {
        !self.waiting.is_empty()
    }
}

/// The table of a directory; a directory born in this start begins with a known, empty one.
pub(crate) fn table(core: &mut Core, dir: InodeId) -> &mut OwnerDir {
    let born_now = core.state.births.is_new(dir);
    let alone = core.state.config.map.shards() == 1 || planted::is(Planted::EmptyTableAfterRestart);
    let no_paths = core.state.config.ends_path_nodes
        || !core.state.config.map.has_path_nodes()
        || planted::is(Planted::EmptyTableAfterRestart);
    let (map, policy) = (&core.state.config.map, core.state.config.sync);
    let inodes = &mut core.state.inodes;
    let dirs = &mut core.state.dirs;
    dirs.owner.entry(dir).or_insert_with(|| {
        dirs.groups.entry(map.fingerprint(dir)).or_default().joins(dir);
        let known = |part: u8, is_known: bool| if born_now || is_known { part } else { 0 };
        let holders = Holders::known(known(part::BOTH, alone) | known(part::PATH, no_paths));
        let shown = if born_now { Stamp(0) } else { latest(inodes, dir) };
        let (through, told) = (policy == SyncPolicy::Always, !born_now && !no_paths);
        OwnerDir { holders, shown, told, through, policy, ..OwnerDir::default() }
    })
}

/// The later one of a directory's times. mtime counts as when it was set, and a rename of the directory moves ctime alone.
fn latest(inodes: &mut Inodes, dir: InodeId) -> Stamp {
    let inode = inodes.get(dir);
    inode.map_or(Stamp(0), |inode| inode.mtime_stamp.max(Stamp(inode.ctime.max(0) as u64)))
}

/// The access part of a live directory of this shard.
fn alive(core: &mut Core, dir: InodeId) -> Option<Access> {
    let live = core.state.inodes.kind(dir) == Some(Kind::Directory) && core.state.inodes.nlink(dir) != Some(0);
    if live { core.state.inodes.access(dir) } else { None }
}

/// Whether parts are taken back right now, or the directory is promised to be removed: nothing is granted.
fn withheld(core: &Core, dir: InodeId, parts: u8) -> bool {
    let collects = || {
        core.state.dirs.collecting > 0
            && core.state.dirs.groups.get(&core.state.config.map.fingerprint(dir)).is_some_and(Group::collecting)
    };
    core.state.txns.is_sealed(dir)
        || parts & part::PATH != 0 && core.state.txns.is_moving(dir) && !planted::is(Planted::GrantedWhileMoving)
        || core.state.dirs.owner.get(&dir).is_some_and(|table| table.recalls(parts))
        || parts & part::APPEND != 0 && !planted::is(Planted::GrantDuringCollect) && collects()
}

/// The owner's own parts: there unless a job takes them back.
pub(crate) fn own(core: &mut Core, dir: InodeId, parts: u8) -> Option<Result<Access, Gone>> {
    if withheld(core, dir, parts) {
        table(core, dir); // the end of a job of the group wakes those who have one
        return None;
    }
    Some(alive(core, dir).ok_or(Gone))
}

/// A site, or a path node, asks for parts.
pub(crate) fn asked(cx: &Cx, from: Holder, seq: RequestSeq, dir: InodeId, parts: u8) {
    cx.with(|core| {
        let may_hold = if from.node.as_shard().is_some() { part::BOTH } else { part::PATH };
        let is_me = from.node == NodeId::shard(core.state.me());
        if !core.state.is_home(dir) || is_me || parts == 0 || parts & !may_hold != 0 {
            core.state.counters.malformed += 1;
            return;
        }
        if !withheld(core, dir, parts) {
            return answer(core, cx.op(), from, seq, dir, parts);
        }
        let waiting = &mut table(core, dir).waiting;
        if waiting.len() < GRANT_WAITERS_MAX && !waiting.contains(&(from, seq, parts)) {
            waiting.push_back((from, seq, parts)); // else the site repeats its request
        }
    });
}

fn answer(core: &mut Core, op: OpId, from: Holder, seq: RequestSeq, dir: InodeId, parts: u8) {
    core.rest_on_object(op, keys::inode(dir));
    let result = match alive(core, dir) {
        None => GrantResult::Gone,
        Some(access) if parts == part::PATH => match path_part(core, from, dir, access) {
            Ok(part) => GrantResult::Path { part },
            Err(NobodyThere) => return,
        },
        Some(access) => {
            let parts = parts | part::ACCESS;
            let table = table(core, dir);
            if !table.holders.grant(from, parts) {
                return; // nobody is there to hear it
            }
            let write_through = table.through;
            core.state.counters.grants_given += 1;
            GrantResult::Granted { parts, access, write_through }
        }
    };
    packets::answer_call(core, op, from.node, seq, &Peer::GrantAnswer { dir, nonce: seq.0, result });
}

/// Who has asked has begun anew since: nobody is there to hear it.
struct NobodyThere;

/// Grants the path part of a live directory.
fn path_part(core: &mut Core, to: Holder, dir: InodeId, access: Access) -> Result<PathPart, NobodyThere> {
    let table = table(core, dir);
    if !table.holders.grant(to, part::PATH) {
        return Err(NobodyThere);
    }
    table.told = true; // before anybody can pass it on
    core.state.counters.path_parts_given += 1;
    let number = core.state.dirs.next_path_grant();
    let inode = core.state.inodes.get(dir).expect("a live directory");
    let parent = inode.name.is_some().then_some(inode.parent);
    Ok(PathPart { parent, name: inode.name, access, number })
}

/// Grants the path part of a live directory of this shard, if nobody is about to take it back.
pub(crate) fn path_part_now(core: &mut Core, op: OpId, to: Holder, dir: InodeId) -> Option<PathPart> {
    if !core.state.is_home(dir) || withheld(core, dir, part::PATH) {
        return None;
    }
    let access = alive(core, dir)?;
    core.rest_on_object(op, keys::inode(dir));
    path_part(core, to, dir, access).ok()
}

/// A job is over, and the readers that waited for it have been served: now grants.
pub(crate) fn give_waiting(cx: &Cx, dir: InodeId) {
    cx.with(|core| {
        let Some(table) = core.state.dirs.owner.get_mut(&dir) else { return };
        if table.job.is_some() {
            return; // the next job's end starts this again
        }
        let waiting = std::mem::take(&mut table.waiting);
        // Of what is still sealed, the end of the seal starts this again.
        let (left, given): (VecDeque<_>, VecDeque<_>) =
            waiting.into_iter().partition(|(_, _, parts)| withheld(core, dir, *parts));
        core.state.dirs.owner.get_mut(&dir).expect("looked up").waiting = left;
        for (from, seq, parts) in given {
            answer(core, cx.op(), from, seq, dir, parts);
        }
    });
}

/// A site pushes its change-log.
pub(crate) fn pushed(cx: &Cx, from: ShardId, seq: RequestSeq, dir: InodeId, batch: Batch) {
    cx.with(|core| {
        if !core.state.is_home(dir) || from == core.state.me() {
            core.state.counters.malformed += 1;
            return;
        }
        let upto = apply_batch(core, cx.op(), dir, from, batch);
        group::applied_outside(core, dir);
        if core.state.dirs.owner.get_mut(&dir).is_some_and(OwnerDir::pushed) {
            core.start(Job::Recall(dir)); // those who hold write-through parts get others
        }
        // A copy of a push has no record of its own: its answer rests on the first one's.
        core.rest_on_object(cx.op(), keys::inode(dir));
        packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &Peer::Applied { dir, upto });
    });
}

/// A reader sees the times of a directory now.
pub(crate) fn shown(core: &mut Core, dir: InodeId) {
    let network = core.state.epochs.owner.form == Form::Network;
    if let Some(table) = core.state.dirs.owner.get_mut(&dir)
        && (network || table.through)
    {
        table.shown = latest(&mut core.state.inodes, dir); // sites keep their parts
    }
}

/// A reader's job has applied what `entries_applied` has grown by since `before`: reads and updates may alternate.
pub(crate) fn found(core: &mut Core, dir: InodeId, before: u64) {
    let entries = core.state.counters.entries_applied - before;
    let now_us = core.now.mono_us;
    let table = table(core, dir);
    table.collected_us = now_us;
    let syncs = table.found(entries);
    core.state.counters.syncs += u64::from(syncs);
}

/// A site's floor rises.
pub(crate) fn floor(cx: &Cx, from: NodeId, seq: RequestSeq, upto: LogSeq) {
    cx.with(|core| {
        let effects: Effects = vec![Effect::Floor { from, upto }];
        commit_own(core, cx.op(), effects);
        packets::answer_call(core, cx.op(), from, seq, &Peer::Done);
    });
}

/// Applies what is new of a batch, exactly once and in order; says up to where it is applied now.
pub(crate) fn apply_batch(core: &mut Core, op: OpId, dir: InodeId, from: ShardId, batch: Batch) -> LogSeq {
    let Some(last) = batch.entries.last().map(|entry| entry.seq) else {
        return core.state.dirs.watermark(dir, from);
    };
    if alive(core, dir).is_none() {
        return last; // late entries for a removed directory are acknowledged and dropped
    }
    let applied = core.state.dirs.watermark(dir, from);
    let applied = if planted::is(Planted::AppliedTwice) { LogSeq(0) } else { applied };
    if !planted::is(Planted::AppliedTwice) && (batch.before > applied || last <= applied) {
        return applied; // a gap is refused, a duplicate has nothing new
    }
    let fresh: Vec<LogEntry> = batch.entries.into_iter().filter(|entry| entry.seq > applied).collect();
    let fresh = if may_be(core, dir, &fresh) { fresh } else { vec![] };
    if fresh.is_empty() {
        core.state.counters.malformed += 1;
        return applied;
    }
    let counters = &mut core.state.counters;
    counters.batches_applied += 1;
    counters.entries_applied += fresh.len() as u64;
    let dcount = fresh.iter().map(|e| i64::from(e.dcount)).sum();
    let dnlink = fresh.iter().map(|e| i64::from(e.dnlink)).sum();
    // A site that keeps its parts through a collect does not hear of our clock.
    let shown = match core.state.dirs.owner.get(&dir) {
        _ if planted::is(Planted::HeldStamp) => Stamp(0),
        Some(table) => table.shown,
        None if core.state.births.is_new(dir) => Stamp(0),
        None => latest(&mut core.state.inodes, dir), // a former term may have shown all that there is
    };
    let stamp = fresh.iter().map(|e| e.stamp).max().expect("not empty").max(Stamp(shown.0 + 1));
    let before = fresh.len();
    let entries: Vec<Entry> = compact(fresh).into_iter().map(Entry::from).collect();
    core.state.counters.entries_compacted += (before - entries.len()) as u64;
    let effects: Effects = vec![Effect::AppliedLog { dir, from, upto: last, entries, dcount, dnlink, stamp }];
    commit_own(core, op, effects);
    last
}

/// Whether a directory can have heard of these entries: one name each, in order, of no later
/// time than now, and no more names gone than there are.
fn may_be(core: &mut Core, dir: InodeId, entries: &[LogEntry]) -> bool {
    let Some(inode) = core.state.inodes.get(dir) else { return false };
    let now = core.state.clock.last();
    let one = |n: i8| (-1..=1).contains(&n);
    let dcount: i64 = entries.iter().map(|entry| i64::from(entry.dcount)).sum();
    let dnlink: i64 = entries.iter().map(|entry| i64::from(entry.dnlink)).sum();
    let links = u32::try_from(i64::from(inode.nlink) + dnlink);
    entries.iter().all(|entry| one(entry.dcount) && one(entry.dnlink) && entry.stamp <= now)
        && entries.is_sorted_by(|a, b| a.seq < b.seq)
        && inode.entries.checked_add_signed(dcount).is_some()
        && links.is_ok()
}

/// Of each name only the last operation remains.
fn compact(entries: Vec<LogEntry>) -> Vec<LogEntry> {
    if entries.len() < 2 {
        return entries;
    }
    let mut last: HashMap<Name, LogSeq> = HashMap::with_capacity(entries.len());
    for entry in &entries {
        if !planted::is(Planted::FirstOperation) || !last.contains_key(&entry.name) {
            last.insert(entry.name.clone(), entry.seq);
        }
    }
    entries.into_iter().filter(|entry| last[&entry.name] == entry.seq).collect()
}

/// Wakes everybody who waits for the state of a directory.
pub(crate) fn wake(core: &mut Core, dir: InodeId) {
    core.wake(keys::grants(dir));
}
