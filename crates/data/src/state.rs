//! What the operations of a data node share, and the steps that several of them take.

use crate::cache::BlockCache;
use crate::disk::{Disk, DiskOp, DiskResult, Results, Ticket};
use crate::index::{Index, Verdict};
use crate::ops::Job;
use crate::ops::kinds;
use crate::parts::Parts;
use crate::space::{Run, Space};
use crate::table::Table;
use bytes::Bytes;
use hashbrown::{HashMap, HashSet};
use onpath_kernel::{Core, Cx, Meter, Need, Protocol};
use onpath_wire::data::{DataCounted, DataReply};
use onpath_wire::disk::block::{DATA_FILE_HEADER_BYTES, DataRecord};
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{DataId, InodeId, NodeClass, NodeId, RecordSeq, RequestSeq, SessionId, Slot, Stamp, Term};
use onpath_wire::innet::InNet;
use onpath_wire::limits::BLOCK_BYTES;
use onpath_wire::secrets::TicketKey;
use onpath_wire::{ClusterMap, Errno, Packet, Stored};
use std::collections::{BTreeMap, VecDeque};

/// Requests that wait for homes: for the trim of a newer cut, beyond them EAGAIN, or for answers to writes, beyond them the home answers.
pub(crate) const HOME_WAITERS_MAX: usize = 1_024;
/// Writes whose homes have answered that make one record.
pub(crate) const SETTLE_BATCH: usize = 256;
/// An answer of a home is recorded at the latest after so long, microseconds.
pub(crate) const SETTLE_AFTER_US: u64 = 100_000;

/// Failed writes remembered, of all sessions.
pub(crate) const FAILURES_MAX: usize = 16_384;

/// Who a data node is.
#[derive(Clone, Debug)]
pub struct DataConfig {
    /// Its number among the data nodes.
    pub node: u16,
    /// The term of this start.
    pub term: Term,
    /// Where the homes of inodes are.
    pub map: ClusterMap,
    /// Cluster number: the low half of the fsid.
    pub cluster: u32,
    /// Blocks (4 KiB) of one data file; never changes for a file system.
    pub file_blocks: u32,
    /// Data files that exist, numbered from 0: a checkpoint that says a block of another one is in use is refused.
    pub files: u32,
    /// What homes make the tickets of bound sessions with.
    pub tickets: TicketKey,
    /// Sessions may outlive this process, and are answered before what they are told is on stable storage: they hear on which record it rests.
    pub outlived: bool,
    /// Homes are told of answered writes a little later, of many files together (V-12); else at once, of each file alone.
    pub deferred: bool,
}

/// What happened at a node since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataCounters {
    /// Writes recorded.
    pub writes: u64,
    /// Of them, or of repeated ones: answered by the merge part of their file.
    pub answered: u64,
    /// Of these answers: through a switch that shows them.
    pub installed: u64,
    /// Reads answered with bytes.
    pub reads: u64,
    /// Blocks read back and merged because only a part of them was written.
    pub merged_blocks: u64,
    /// Requests refused as stale.
    pub stale: u64,
    /// Duplicates of writes, not executed again.
    pub duplicates: u64,
    /// Blocks whose checksum did not fit.
    pub bad_blocks: u64,
    /// Messages dropped because their sender's clock is too far ahead.
    pub skewed: u64,
    /// Messages dropped: undecodable, or from somebody who may not send them.
    pub rejected: u64,
    /// Blocks given back to the file system below.
    pub punched_blocks: u64,
}

/// The last record of inodes changed in the not yet durable tail.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    last: HashMap<InodeId, RecordSeq>,
    order: VecDeque<(RecordSeq, InodeId)>,
}

impl Tail {
    fn note(&mut self, inode: InodeId, seq: RecordSeq) {
        self.last.insert(inode, seq);
        self.order.push_back((seq, inode));
    }

    /// The last record that what is known of the inode rests on, 0 if that is durable.
    pub(crate) fn last(&self, inode: InodeId) -> RecordSeq {
        self.last.get(&inode).copied().unwrap_or_default()
    }

    pub(crate) fn durable(&mut self, upto: RecordSeq) {
        while let Some(&(seq, inode)) = self.order.front().filter(|(seq, _)| *seq <= upto) {
            self.order.pop_front();
            if self.last.get(&inode) == Some(&seq) {
                self.last.remove(&inode);
            }
        }
    }
}

/// The state of a data node.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) config: DataConfig,
    pub(crate) id: NodeId,
    pub(crate) index: Index,
    pub(crate) space: Space,
    pub(crate) disk: Disk,
    pub(crate) cache: BlockCache,
    pub(crate) tail: Tail,
    pub(crate) next_record: RecordSeq,
    /// Writes in progress, until their home has answered.
    pub(crate) running: HashSet<(SessionId, RequestSeq)>,
    pub(crate) home_waiters: usize,
    /// Writes that failed: a duplicate must not succeed later. The process that would have forgotten them is another
    /// term, whose sessions have connected anew.
    failures: BTreeMap<(SessionId, RequestSeq), Errno>,
    /// Sessions of forgotten ones: they have their answers to everything before this.
    answered: BTreeMap<SessionId, RequestSeq>,
    /// The disk is full: only what frees space is recorded.
    pub(crate) full: bool,
    /// Writes whose homes have answered, not recorded yet.
    pub(crate) settled: Vec<RecordSeq>,
    pub(crate) settle_at_us: Option<u64>,
    pub(crate) parts: Parts,
    pub(crate) table: Table,
    /// The last record of former terms that no power loss can have taken.
    pub(crate) kept: RecordSeq,
    /// What was told before this term is not known to be there: power was lost since, and only the start after that knew what it took.
    pub(crate) kept_since: Term,
    stamp: Stamp,
    pub(crate) counters: DataCounters,
    pub(crate) meter: Meter,
}

impl Protocol for State {
    type Job = Job;
    type In = DataIn;
    type Out = DataOut;
}

/// What a host gives to a data node beside messages.
#[derive(Debug)]
pub enum DataIn {
    /// A disk operation has ended.
    DiskDone {
        /// Its ticket.
        ticket: Ticket,
        /// How.
        result: DiskResult,
    },
}

/// What a data node gives to its host beside messages and records.
#[derive(Debug)]
pub enum DataOut {
    /// To be done, then answered by [`DataIn::DiskDone`].
    Disk {
        /// Its name.
        ticket: Ticket,
        /// What.
        op: DiskOp,
    },
}

pub(crate) type Node = Core<State>;
pub(crate) type NodeCx = Cx<State>;

/// Where an answer goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) node: NodeId,
    pub(crate) seq: RequestSeq,
    pub(crate) oldest: RequestSeq,
    /// From when on it must not change anything, ns since 1970.
    pub(crate) until_ns: u64,
    /// As what it is counted, and when it came, monotonic microseconds.
    pub(crate) kind: DataCounted,
    pub(crate) since_us: u64,
}

/// Whether a request may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Go,
    Stale,
    /// Too many wait for trims.
    Busy,
}

impl State {
    pub(crate) fn new(config: DataConfig) -> State {
        State {
            id: NodeId::data(config.node),
            index: Index::new(u64::from(config.files) * u64::from(config.file_blocks)),
            space: Space::new(config.file_blocks),
            disk: Disk::default(),
            cache: BlockCache::default(),
            tail: Tail::default(),
            next_record: RecordSeq(config.term.first_seq() + 1),
            running: HashSet::new(),
            home_waiters: 0,
            failures: BTreeMap::new(),
            answered: BTreeMap::new(),
            full: false,
            settled: Vec::new(),
            settle_at_us: None,
            parts: Parts::default(),
            table: Table::default(),
            kept: RecordSeq(0),
            kept_since: Term(0),
            stamp: Stamp(0),
            counters: DataCounters::default(),
            meter: Meter::new(DataCounted::NAMES),
            config,
        }
    }

    /// The hybrid logical clock.
    pub(crate) fn stamp(&mut self, wall_ns: u64) -> Stamp {
        self.stamp = Stamp((self.stamp.0 + 1).max(wall_ns));
        self.stamp
    }

    /// Follows a peer's stamp; false if it is too far ahead to be believed.
    pub(crate) fn observe(&mut self, stamp: Stamp, wall_ns: u64) -> bool {
        let believed = stamp.is_believed_at(wall_ns);
        if believed {
            self.stamp = self.stamp.max(stamp);
        }
        believed
    }

    /// Whether a request comes when its session may be dead, and others may have what was its own.
    pub(crate) fn is_late(&self, from: Caller, wall_ns: u64) -> bool {
        wall_ns.max(self.stamp.0) > from.until_ns
    }

    /// A header of this node.
    pub(crate) fn header(&mut self, kind: MessageKind, seq: RequestSeq, wall_ns: u64) -> Header {
        let mut header = Header::new(kind, self.id, seq);
        header.cluster = self.config.cluster;
        header.term = self.config.term;
        header.stamp = self.stamp(wall_ns);
        header.slot = Slot(0);
        header
    }

    /// What this write failed with before; forgets what its session has seen answered.
    pub(crate) fn failed(&mut self, session: SessionId, from: Caller) -> Option<Errno> {
        let all = (session, RequestSeq(0))..(session, from.oldest);
        while let Some((&answered, _)) = self.failures.range(all.clone()).next() {
            self.failures.remove(&answered);
            self.answered.insert(session, from.oldest);
            if self.answered.len() > FAILURES_MAX {
                self.answered.pop_first();
            }
        }
        self.failures.get(&(session, from.seq)).copied()
    }

    /// Whether this is a late copy of a write that failed, and whose session knows.
    pub(crate) fn is_over(&self, session: SessionId, request: RequestSeq) -> bool {
        self.answered.get(&session).is_some_and(|oldest| request < *oldest)
    }

    /// Failed writes that are remembered.
    pub(crate) fn failures(&self) -> usize {
        self.failures.len()
    }

    /// A write failed.
    pub(crate) fn note_failed(&mut self, session: SessionId, request: RequestSeq, errno: Errno) {
        self.failures.insert((session, request), errno);
        if self.failures.len() > FAILURES_MAX {
            self.failures.pop_first();
        }
    }

    /// The data file and the byte at which a physical block lies.
    pub(crate) fn place(&self, phys: u32) -> (u32, u64) {
        let file_blocks = self.config.file_blocks;
        (phys / file_blocks, DATA_FILE_HEADER_BYTES + u64::from(phys % file_blocks) * BLOCK_BYTES)
    }
}

/// Applies a record to the state and puts it into the journal; the state never changes otherwise.
pub(crate) fn record(core: &mut Node, record: &DataRecord) -> RecordSeq {
    let state = &mut core.state;
    let seq = state.next_record;
    state.next_record.0 += 1;
    let (index, space, cache) = (&mut state.index, &mut state.space, &mut state.cache);
    let freed = &mut |phys, n| {
        space.free(Run { start: phys, len: n }, seq);
        cache.forget(phys, n);
    };
    index.apply(seq, record, freed).expect("a record is checked before it is made");
    if let Some(inode) = record.inode() {
        state.tail.note(inode, seq);
        core.wake(cut_key(inode));
    }
    core.append_unasked(seq, record.to_stored());
    seq
}

/// Answers a request or a call.
pub(crate) fn answer(core: &mut Node, to: Caller, reply: &DataReply, bulk: Bytes, after: RecordSeq, need: Need) {
    answer_by(core, to, (reply, bulk), after, need, None);
}

/// The same through a switch, if there is one.
pub(crate) fn answer_by(
    core: &mut Node,
    to: Caller,
    (reply, bulk): (&DataReply, Bytes),
    after: RecordSeq,
    need: Need,
    way: Option<(NodeId, InNet)>,
) {
    let kind = match to.node.class() {
        Some(NodeClass::Session) => MessageKind::DataReply,
        _ => MessageKind::PeerAnswer,
    };
    kinds::count_answer(core, to, reply);
    let header = core.state.header(kind, to.seq, core.now.wall_ns);
    let packet = Packet::with_bulk(&header, reply, bulk);
    let packet = match way {
        Some((switch, innet)) => packet.through(switch, innet),
        None => packet,
    };
    core.send_after(to.node, packet, after, need);
}

/// Answers without bytes, and rests on no record.
pub(crate) fn refuse(core: &mut Node, to: Caller, reply: &DataReply) {
    if *reply == DataReply::Stale {
        core.state.counters.stale += 1;
    }
    answer(core, to, reply, Bytes::new(), RecordSeq(0), Need::ByDestination);
}

/// The refusal of a request that may not go on.
pub(crate) fn refusal(entry: Entry) -> Option<DataReply> {
    match entry {
        Entry::Go => None,
        Entry::Stale => Some(DataReply::Stale),
        Entry::Busy => Some(DataReply::Failed { errno: Errno::EAGAIN }),
    }
}

/// Waits while the request's cut is newer than told.
pub(crate) async fn enter(cx: &NodeCx, data: DataId, cut: u32) -> Entry {
    match cx.with(|core| core.state.index.verdict(data, cut)) {
        Verdict::Current => return Entry::Go,
        Verdict::Stale => return Entry::Stale,
        Verdict::Newer => {}
    }
    let look = |core: &mut Node| match core.state.index.verdict(data, cut) {
        Verdict::Newer => None,
        Verdict::Current => Some(Entry::Go),
        Verdict::Stale => Some(Entry::Stale),
    };
    wait_for_home(cx, data.inode, look).await.unwrap_or(Entry::Busy)
}

/// Waits until `look` finds what it looks for, when the home of a file has told or answered something; nothing if too many wait already.
pub(crate) async fn wait_for_home<T>(
    cx: &NodeCx,
    inode: InodeId,
    look: impl FnMut(&mut Node) -> Option<T>,
) -> Option<T> {
    let admitted = cx.with(|core| {
        let free = core.state.home_waiters < HOME_WAITERS_MAX;
        core.state.home_waiters += usize::from(free);
        free
    });
    if !admitted {
        return None;
    }
    let found = cx.until(cut_key(inode), look).await;
    cx.with(|core| core.state.home_waiters -= 1);
    Some(found)
}

/// What requests of a newer cut wait on, and who waits for the home to learn; set apart from the groups of disk operations by its top bit.
pub(crate) fn cut_key(inode: InodeId) -> u64 {
    onpath_wire::hash::inode_hash(inode) | 1 << 63
}

/// Hands disk operations to the host; [`results`] waits for all of them.
pub(crate) fn issue(core: &mut Node, ops: impl ExactSizeIterator<Item = DiskOp>) -> u64 {
    let group = core.state.disk.group(ops.len());
    for (place, op) in ops.enumerate() {
        core.emit(DataOut::Disk { ticket: Disk::ticket_in(group, place), op });
    }
    group
}

/// What came of the operations of a group.
pub(crate) async fn results(cx: &NodeCx, group: u64) -> Results {
    cx.until(group, |core| core.state.disk.take(group)).await
}
