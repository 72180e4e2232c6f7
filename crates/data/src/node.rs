//! The data node as its host sees it: inputs in, outputs out.

use crate::disk::{DiskOp, DiskResult, Ticket};
use crate::index::Verdict;
use crate::ops::allocate::AllocateJob;
use crate::ops::copy::CopyJob;
use crate::ops::write::{self, WriteJob};
use crate::ops::{self, Job, merge, read::ReadJob, sync, tell, trim};
use crate::recover::{Suspects, Undone};
use crate::state::{self, Caller, DataConfig, DataCounters, DataIn, DataOut, Node, State};
use crate::table;
use crate::tickets;
use crate::window::Seen;
use bytes::Bytes;
use onpath_kernel::{Input, Kernel, Now, Output, Role};
use onpath_wire::data::{Allocation, Asker, DataCounted, DataReply, DataRequest};
use onpath_wire::disk::block::PendingMerge;
use onpath_wire::disk::record::Counter;
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{DataId, InodeId, LogSeq, NodeClass, RecordSeq, RequestSeq, SessionId};
use onpath_wire::limits::{BLOCK_BYTES, FILE_BYTES_MAX, IO_BYTES_MAX, OPERATIONS_MAX};
use onpath_wire::report::OperationReport;
use onpath_wire::{Errno, Packet};
use std::collections::BTreeMap;

/// A data node. Made, then loaded and replayed, then started, then driven as a [`Role`].
pub struct DataNode {
    pub(crate) kernel: Kernel<State>,
    pub(crate) suspects: Option<Suspects>,
    /// Files of which blocks were put back since the last checkpoint: their homes count others.
    pub(crate) recount: BTreeMap<DataId, Undone>,
    /// Power was lost before this start.
    pub(crate) lost_power: bool,
}

impl DataNode {
    /// An empty node.
    pub fn new(config: DataConfig) -> DataNode {
        let first_call = RequestSeq(config.term.first_seq());
        let kernel = Kernel::new(State::new(config), first_call, false, ops::run);
        DataNode { kernel, suspects: None, recount: BTreeMap::new(), lost_power: false }
    }

    /// What happened since the start.
    pub fn counters(&self) -> DataCounters {
        self.kernel.with(|core| DataCounters { punched_blocks: core.state.space.punched, ..core.state.counters })
    }

    /// What it knows of a lent file, for people: named numbers, none if it has no part of it and no writes that the home has not learned.
    pub fn inspect(&self, file: InodeId) -> Vec<(&'static str, u64)> {
        self.kernel.with(|core| core.state.parts.inspect(file))
    }

    /// Requests that it has answered, or the home of the file for it, by their kind.
    pub fn operations(&self) -> Vec<OperationReport> {
        self.kernel.with(|core| core.state.meter.operations())
    }

    /// Most operations that were in progress at a time; a place is kept for each.
    pub fn places(&self) -> usize {
        self.kernel.places()
    }

    /// Memory of such a place, without the bytes that its operation carries.
    pub fn place_bytes(&self) -> usize {
        self.kernel.place_bytes()
    }

    /// Whether free blocks still take space on the disk; they are punched as time passes and records become durable.
    pub fn reclaiming(&self) -> bool {
        self.kernel.with(|core| core.state.space.pending())
    }

    /// Whether writes are refused with ENOSPC, since the journal has no room for their records. What frees space goes on.
    pub fn disk_full(&mut self, full: bool) {
        self.kernel.with(|core| core.state.full = full);
    }

    /// The last record made or replayed; 0 before the first one ever.
    pub fn last_record(&self) -> RecordSeq {
        self.kernel.with(|core| core.state.index.last)
    }

    /// All writes up to this position are applied by their homes and trimmed; 0 if none is known to be.
    pub fn floor(&self) -> LogSeq {
        self.kernel.with(|core| core.state.index.counts.floor())
    }

    /// Up to where its records have reserved numbers of this kind; 0 if they have none.
    pub fn reserved(&self, counter: Counter) -> u64 {
        self.kernel.with(|core| core.state.index.counts.reserved(counter))
    }
}

impl Role for DataNode {
    type In = DataIn;
    type Out = DataOut;

    fn handle(&mut self, now: Now, input: Input<DataIn>) {
        self.kernel.handle(now, input, |core, input| match input {
            Input::Packet(packet) => on_packet(core, packet),
            Input::Tick => on_tick(core),
            Input::Durable(seq) => {
                let now_us = core.now.mono_us;
                core.state.tail.durable(seq);
                core.state.space.durable(seq, now_us);
            }
            Input::Own(DataIn::DiskDone { ticket, result }) => on_disk(core, ticket, result),
        });
    }

    fn poll_output(&mut self) -> Option<Output<DataOut>> {
        self.kernel.poll_output()
    }

    fn next_deadline(&self) -> Option<u64> {
        let own = self.kernel.with(|core| [core.state.space.next_deadline(), core.state.settle_at_us]);
        own.into_iter().flatten().chain(self.kernel.next_deadline()).min()
    }
}

fn on_tick(core: &mut Node) {
    let now_us = core.now.mono_us;
    core.state.space.tick(now_us);
    punch(core);
    if core.state.settle_at_us.is_some_and(|at| at <= now_us) {
        merge::settle(core);
    }
}

/// Hands out as many punches as the host may have.
pub(crate) fn punch(core: &mut Node) {
    loop {
        let ticket = core.state.disk.ticket();
        let Some(run) = core.state.space.next_punch(ticket) else { return };
        let (file, offset) = core.state.place(run.start);
        let op = DiskOp::Punch { file, offset, len: u64::from(run.len) * BLOCK_BYTES };
        core.emit(DataOut::Disk { ticket, op });
    }
}

fn on_disk(core: &mut Node, ticket: Ticket, result: DiskResult) {
    // A punch that failed leaves bytes that nobody reads; its blocks are as good as any.
    if core.state.space.end_punch(ticket) {
        punch(core);
    } else if let Some(group) = core.state.disk.done(ticket, result) {
        core.wake(group);
    }
}

fn on_packet(core: &mut Node, packet: Packet) {
    let Ok(header) = packet.header() else {
        core.state.counters.rejected += 1;
        return;
    };
    let request = match (header.kind(), header.source.class()) {
        (MessageKind::PeerAnswer, Some(NodeClass::Shard)) => None,
        (MessageKind::Data, Some(class)) => match packet.body::<DataRequest>() {
            Ok(request) if may_ask(request.describe().by, class) => Some(request),
            _ => return core.state.counters.rejected += 1,
        },
        _ => return core.state.counters.rejected += 1,
    };
    // Of nobody else is a clock followed.
    if !core.state.observe(header.stamp, core.now.wall_ns) {
        core.state.counters.skewed += 1;
        return;
    }
    match request {
        Some(request) => match tickets::request(core, &header, request, packet.bound) {
            Ok(request) => on_request(core, &header, request, packet),
            Err(reply) => refuse_unheard(core, &header, &reply),
        },
        None => drop(core.answer(header.seq, packet)),
    }
}

/// Answers what is not looked at any further.
fn refuse_unheard(core: &mut Node, header: &Header, reply: &DataReply) {
    core.state.counters.rejected += 1;
    let (kind, since_us) = (DataCounted::Read, core.now.mono_us);
    let (node, seq, oldest, until_ns) = (header.source, header.seq, header.oldest(), header.until_ns());
    state::refuse(core, Caller { node, seq, oldest, until_ns, kind, since_us }, reply);
}

fn may_ask(asker: Asker, class: NodeClass) -> bool {
    match asker {
        Asker::Session => class == NodeClass::Session,
        Asker::Home => class == NodeClass::Shard,
        Asker::Any => true,
    }
}

fn on_request(core: &mut Node, header: &Header, request: DataRequest, packet: Packet) {
    let (what, until_ns, since_us) = (request.describe(), header.until_ns(), core.now.mono_us);
    let (node, kind) = (header.source, what.counted);
    let from = Caller { node, seq: header.seq, oldest: header.oldest(), until_ns, kind, since_us };
    // What a lost process had executed may be forgotten: a late copy must not be executed beside what came after it.
    let term = core.state.config.term;
    if what.writes && header.term != term {
        return state::refuse(core, from, &DataReply::NewTerm { term });
    }
    match request {
        DataRequest::Write { .. } | DataRequest::Allocate { .. } | DataRequest::Copy { .. } => {
            let session = node.as_session().expect("checked by class");
            change(core, from, session, request, packet.bulk);
        }
        DataRequest::Seek { data, cut, offset, hole } => {
            let job = Job::Seek { from, data, cut, offset, hole };
            on_look(core, from, (data, cut), range_error(offset, 1), job);
        }
        DataRequest::Read { data, cut, offset, bytes } => {
            let error = range_error(offset, bytes as usize);
            on_look(core, from, (data, cut), error, Job::Read(ReadJob { from, data, cut, offset, bytes }));
        }
        DataRequest::Trim { data, cut, size, keep_reserved } => {
            trim::trim(core, from, header.term, (data, cut), size, keep_reserved);
        }
        DataRequest::Drop { all } => trim::drop_all(core, from, &all),
        DataRequest::Sync { data } => sync::sync(core, from, data),
        DataRequest::Space => core.start(Job::Space { from }),
        DataRequest::Kept => sync::kept(core, from),
        DataRequest::HandOver { inode, floor } => tell::hand_over(core, from, inode, floor),
        DataRequest::HandOverAll { floor, from: begin } => tell::hand_over_all(core, from, floor, begin),
        DataRequest::Collect { inode } => tell::collect(core, from, inode),
        DataRequest::CollectMany { inodes } => tell::collect_many(core, from, &inodes),
        DataRequest::Track { tracking, term } => table::track(core, from, tracking, term),
        DataRequest::Shown { .. } => unreachable!("it was taken out"),
    }
}

/// What speaks against a range of bytes.
fn range_error(offset: u64, bytes: usize) -> Option<Errno> {
    if bytes > IO_BYTES_MAX {
        return Some(Errno::EINVAL);
    }
    offset.checked_add(bytes as u64).is_none_or(|end| end > FILE_BYTES_MAX).then_some(Errno::EFBIG)
}

/// A request of a session that changes a file.
fn change(core: &mut Node, from: Caller, session: SessionId, request: DataRequest, bytes: Bytes) {
    let full = core.state.full.then_some(Errno::ENOSPC);
    let (error, full) = match &request {
        DataRequest::Write { offset, .. } => (empty(bytes.is_empty()).or(range_error(*offset, bytes.len())), full),
        DataRequest::Allocate { offset, bytes, how, end, .. } => {
            let beyond = offset.checked_add(*bytes).is_none_or(|last| last.max(*end) > FILE_BYTES_MAX);
            let full = full.filter(|_| *how != Allocation::Punch);
            (empty(*bytes == 0).or(beyond.then_some(Errno::EFBIG)), full)
        }
        DataRequest::Copy { offset, from_offset, bytes, .. } => {
            let n = *bytes as usize;
            (empty(n == 0).or(range_error(*offset, n)).or(range_error(*from_offset, n)), full)
        }
        _ => unreachable!("no change"),
    };
    if let Some(errno) = error {
        return write::refuse(core, from, session, &DataReply::Failed { errno });
    }
    match request {
        DataRequest::Write { data, cut, offset, kill_suidgid, append, part } => {
            let job = WriteJob { from, session, data, cut, offset, kill_suidgid, append, part, bytes };
            on_change(core, from, job.merge(), full, Job::Write(job));
        }
        DataRequest::Allocate { data, cut, offset, bytes, how, end, kill_suidgid } => {
            let job = AllocateJob { from, session, data, cut, offset, bytes, how, end, kill_suidgid };
            on_change(core, from, job.merge(), full, Job::Allocate(Box::new(job)));
        }
        DataRequest::Copy { data, cut, offset, from: source, from_cut, from_offset, bytes, kill_suidgid } => {
            let source = (source, from_cut, from_offset);
            let job = CopyJob { from, session, data, cut, offset, source, bytes, kill_suidgid };
            on_change(core, from, job.merge(), full, Job::Copy(Box::new(job)));
        }
        _ => unreachable!("no change"),
    }
}

fn empty(is_empty: bool) -> Option<Errno> {
    is_empty.then_some(Errno::EINVAL)
}

/// Starts what the home will be told of by `merge`, unless it was done before or `error` speaks against it.
fn on_change(core: &mut Node, from: Caller, merge: PendingMerge, error: Option<Errno>, job: Job) {
    let PendingMerge { data, cut, session, request, .. } = merge;
    let seen = match core.state.running.contains(&(session, request)) {
        true => Seen::Answered, // it will be
        false if core.state.is_over(session, request) => Seen::Answered,
        false => core.state.index.seen(session, request, data, cut),
    };
    core.state.counters.duplicates += u64::from(seen != Seen::Never);
    match seen {
        Seen::Answered => {}
        Seen::AnsweredHere => table::answer(core, from, data, cut, RecordSeq(0)),
        Seen::Done => {
            core.state.running.insert((session, request));
            core.start(Job::Merge { seq: RecordSeq(0), merge, again: None });
        }
        Seen::Never => {
            // Refused for now, and remembered: a session that lives asks again, under another number.
            let late = core.state.is_late(from, core.now.wall_ns);
            let not_now = (late || core.state.running.len() >= OPERATIONS_MAX).then_some(Errno::EAGAIN);
            match core.state.failed(session, from).or(error).or(not_now) {
                Some(errno) => write::refuse(core, from, session, &DataReply::Failed { errno }),
                None if is_stale(core, data, cut) => state::refuse(core, from, &DataReply::Stale),
                None => {
                    core.state.running.insert((session, request));
                    core.start(job);
                }
            }
        }
    }
}

/// Starts what changes nothing, unless `error` speaks against it.
fn on_look(core: &mut Node, from: Caller, (data, cut): (DataId, u32), error: Option<Errno>, job: Job) {
    let busy = (core.state.space.reading() >= OPERATIONS_MAX).then_some(Errno::EAGAIN);
    match error.or(busy) {
        Some(errno) => state::refuse(core, from, &DataReply::Failed { errno }),
        None if is_stale(core, data, cut) => state::refuse(core, from, &DataReply::Stale),
        None => core.start(job),
    }
}

fn is_stale(core: &mut Node, data: DataId, cut: u32) -> bool {
    core.state.index.verdict(data, cut) == Verdict::Stale
}
