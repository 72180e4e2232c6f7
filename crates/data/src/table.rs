//! How writes that this node has answered are shown before their homes learn them (V-2): homes ask, or a visibility table of a switch tells.
//!
//! With a table an answer passes the switch and leaves there the sum of what the file's home has yet to learn (V-8). This node alone
//! decides what is in an entry: what it installs for one file overwrites what it has installed for another one only when all of that is
//! learned, and all files of an entry are at one node. Volatile: a node that has started again has no epoch, and answers nothing by itself
//! before the coordinator has told it of one in which no earlier process of it has installed anything. Bound: one file for each entry.

use crate::ops::Job;
use crate::parts;
use crate::planted::{self, Planted};
use crate::state::{self, Caller, Node, NodeCx};
use bytes::Bytes;
use hashbrown::HashMap;
use onpath_kernel::{Gauge, Need};
use onpath_wire::data::{DataReply, Pending};
use onpath_wire::ids::{DataId, InodeId, LogSeq, NodeId, RecordSeq, Term, TrackingEpoch};
use onpath_wire::innet::{ENTRY_BITS, InNet};
use onpath_wire::limits::OPERATIONS_MAX;
use onpath_wire::tracking::Tracking;

/// Positions of an epoch: any two of them can be compared (D-48).
const POSITIONS: u32 = i32::MAX as u32;

/// What a node knows of visibility tables.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// What the coordinator has said last; none since the start.
    tracking: Option<Tracking>,
    /// The coordinator is being asked.
    asking: bool,
    /// Homes are being told of what was answered before this epoch.
    closing: Option<TrackingEpoch>,
    /// Which file was installed last in an entry.
    files: HashMap<u32, InodeId>,
    /// The last position of this epoch.
    last: u32,
}

impl Table {
    /// A tracking epoch begins, if it is newer than what is known.
    fn begin(&mut self, tracking: Tracking) {
        if self.tracking.is_none_or(|known| tracking.epoch.is_after(known.epoch)) {
            *self = Table { tracking: Some(tracking), closing: self.closing, ..Table::default() };
        }
    }

    /// Its entries.
    pub(crate) fn gauge(&self) -> Gauge {
        Gauge::table("files in entries of visibility tables", self.files.len(), 1 << ENTRY_BITS)
    }

    /// The coordinator has said how files are tracked, and every home knows that.
    pub(crate) fn heard(&mut self, tracking: Option<Tracking>) {
        self.asking = false;
        if let Some(tracking) = tracking.filter(|tracking| !tracking.has_files()) {
            self.begin(tracking);
        }
    }
}

/// Whether this node may answer a write of these bytes now: readers will be shown it.
pub(crate) fn may_answer(core: &mut Node, data: DataId, cut: u32) -> bool {
    match core.state.table.tracking {
        None => false,
        Some(tracking) if tracking.has_files() => may_install(core, tracking, data, cut),
        Some(_) => true,
    }
}

/// Asks the coordinator how files are tracked: at a start, and when an epoch has no more positions.
pub(crate) fn ask(core: &mut Node, used_up: TrackingEpoch) {
    if !std::mem::replace(&mut core.state.table.asking, true) {
        core.start(Job::AskTracking { used_up });
    }
}

/// Whether an entry can show all that is to be learned of a file with a write of this cut; from now on that is its own (V-8).
fn may_install(core: &mut Node, tracking: Tracking, data: DataId, cut: u32) -> bool {
    if core.state.table.last >= POSITIONS {
        ask(core, tracking.epoch);
        return false;
    }
    let index = core.state.config.map.entry(data.inode).index();
    let other = core.state.table.files.get(&index).copied().filter(|other| *other != data.inode);
    let is_taken = other.is_some_and(|other| core.state.parts.last_owed(other).is_some());
    if is_taken && !planted::is(Planted::InstallsOverOthers) || !parts::owes_only(core, data, cut) {
        return false;
    }
    core.state.table.files.insert(index, data.inode);
    true
}

/// The answer to a write that was answered by this node, now or before.
pub(crate) fn answer(core: &mut Node, from: Caller, data: DataId, cut: u32, seq: RecordSeq) {
    let last = core.state.tail.last(data.inode).max(seq);
    let record = if core.state.config.outlived { last } else { RecordSeq(0) };
    let Some(owed) = core.state.parts.last_owed(data.inode) else {
        return tell(core, from, record, last, None);
    };
    let home = core.state.config.map.home(data.inode);
    // A process that has just started does not know in which way the home shows writes.
    let Some(floor) = core.state.parts.floor(home) else { return later(core, from, data.inode, owed) };
    if floor.two_phase && !planted::is(Planted::AnswersInOnePhase) {
        return record_only(core, from, (data, cut), record, last);
    }
    let tracking = core.state.table.tracking;
    if tracking.is_some_and(|tracking| !tracking.has_files()) || planted::is(Planted::AnswersPastTable) {
        return tell(core, from, record, last, None);
    }
    let tracking = tracking.filter(|tracking| may_install(core, *tracking, data, cut));
    match tracking.and_then(|tracking| install(core, tracking, from, data.inode)) {
        Some(way) => tell(core, from, record, last, Some(way)),
        None => later(core, from, data.inode, owed),
    }
}

fn tell(core: &mut Node, from: Caller, record: RecordSeq, after: RecordSeq, way: Option<(NodeId, InNet)>) {
    core.state.counters.answered += 1;
    core.state.counters.installed += u64::from(way.is_some());
    let reply = (&DataReply::Written { record }, Bytes::new());
    state::answer_by(core, from, reply, after, Need::ByDestination, way);
}

/// Lets the session bring the home what that has yet to learn of a file.
fn record_only(core: &mut Node, from: Caller, (data, cut): (DataId, u32), record: RecordSeq, after: RecordSeq) {
    // What is of another cut was handed over before that began or ended.
    let all = parts::unlearned(core, data.inode);
    let Some(&writes) = all.iter().find(|of| (of.data, of.cut) == (data, cut)) else {
        return tell(core, from, record, after, None);
    };
    core.state.counters.answered += 1;
    let reply = DataReply::Recorded { record, writes };
    state::answer_by(core, from, (&reply, Bytes::new()), after, Need::ByDestination, None);
}

/// The switch that is to show what is to be learned of a file, and what is said to it.
fn install(core: &mut Node, tracking: Tracking, from: Caller, inode: InodeId) -> Option<(NodeId, InNet)> {
    let session = from.node.as_session()?;
    let writes = *parts::unlearned(core, inode).first()?;
    let pending = Pending { writes, session, request: from.seq };
    let state = &mut core.state;
    state.table.last += 1;
    let (entry, home) = (state.config.map.entry(inode), state.config.map.home(inode));
    let (switch, epoch) = tracking.table_of(entry);
    let install = (state.table.last, pending.metadata(&state.config.tickets));
    Some((switch, InNet::install(state.config.cluster, epoch, entry, install, home, Some(from.node))))
}

/// Answers when the home has learned what it is owed. If too much waits the session asks again.
fn later(core: &mut Node, from: Caller, inode: InodeId, owed: LogSeq) {
    let Some(session) = from.node.as_session() else { return };
    if core.state.running.len() < OPERATIONS_MAX && core.state.running.insert((session, from.seq)) {
        core.start(Job::AnswerLearned { from, inode, upto: owed });
    }
}

/// Answers a write when its home has learned it.
pub(crate) async fn answer_learned(cx: &NodeCx, from: Caller, inode: InodeId, upto: LogSeq) {
    learned(cx, inode, upto).await;
    cx.with(|core| {
        from.node.as_session().into_iter().for_each(|session| _ = core.state.running.remove(&(session, from.seq)));
        let last = core.state.tail.last(inode);
        let record = if core.state.config.outlived { last } else { RecordSeq(0) };
        tell(core, from, record, last, None);
    });
}

async fn learned(cx: &NodeCx, inode: InodeId, upto: LogSeq) {
    cx.until(state::cut_key(inode), |core| (!core.state.parts.owes(inode, upto)).then_some(())).await;
}

/// The coordinator tells of an epoch.
pub(crate) fn track(core: &mut Node, from: Caller, tracking: Tracking, term: Term) {
    if from.node != NodeId::shard(core.state.config.map.coordinator()) {
        core.state.counters.rejected += 1;
        return;
    }
    let own = core.state.config.term;
    if term != own {
        return state::refuse(core, from, &DataReply::NewTerm { term: own });
    }
    core.state.table.begin(tracking);
    if core.state.table.closing.replace(tracking.epoch) != Some(tracking.epoch) {
        core.start(Job::Close { from, epoch: tracking.epoch });
    }
}

/// Says that homes have learned all that was answered before an epoch.
pub(crate) async fn close(cx: &NodeCx, from: Caller, epoch: TrackingEpoch) {
    let all = cx.with(|core| core.state.parts.owed());
    for (inode, upto) in all {
        learned(cx, inode, upto).await;
    }
    cx.with(|core| {
        let closing = &mut core.state.table.closing;
        *closing = closing.filter(|other| *other != epoch);
        state::answer(core, from, &DataReply::Tracked, Bytes::new(), RecordSeq(0), Need::ByDestination);
    });
}
