//! One role of the process: its inbox, its lock, and what a thread does that holds the lock.
//!
//! A message inside the process does not wait for the disk, but what it says may not be durable yet. Where replies wait
//! for durability (`--commit sync`), it therefore carries the journal position that it rests on, and from then on
//! whatever its receiver says rests on that too.

use super::{Counters, Effects, HostedRole, Node, Work};
use crate::sys;
use onpath_kernel::{Input, Need, Output, Role};
use onpath_store::batch::BatchBuilder;
use onpath_store::{Image, Recoverable};
use onpath_wire::ids::{InodeId, Lsn, NodeClass, NodeId, RecordSeq};
use onpath_wire::limits::INBOX_MAX;
use onpath_wire::packet::Packet;
use onpath_wire::report::OperationReport;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::time::Instant;

/// Inputs that a thread handles before it releases the lock and executes what came of them.
const INPUTS_PER_HOLD: usize = 64;
/// No deadline.
pub(super) const NEVER: u64 = u64::MAX;
/// The counter that tells how long inputs had to wait for upkeep at most, microseconds.
const LONGEST: &str = "longest_upkeep_us";
const POISONED: &str = "a role that panicked is not used again";

/// How `status` calls a role.
pub(super) fn name(address: NodeId) -> String {
    let class = match address.class() {
        Some(NodeClass::Shard) => "shard",
        Some(NodeClass::Data) => "data",
        Some(NodeClass::Session) => "session",
        Some(NodeClass::Switch) => "switch",
        Some(NodeClass::Path) => "path",
        Some(NodeClass::Controller) => "controller",
        None => "unknown",
    };
    format!("{class}-{}", address.number())
}

/// A role of any kind.
pub(super) trait AnyCell: Send + Sync {
    fn address(&self) -> NodeId;
    /// Puts a message into the inbox; false if that is full.
    fn push(&self, packet: Packet) -> bool;
    /// A deadline has passed.
    fn tick(&self);
    /// Batches up to `lsn` are durable; true if the role waits to hear so.
    fn durable(&self, lsn: Lsn) -> bool;
    /// A message that rests on batch `lsn` is about to be pushed.
    fn hear(&self, lsn: Lsn);
    /// The highest batch that a message of this process rested on.
    fn heard(&self) -> Lsn;
    /// Drains the inbox, unless another thread is about to.
    fn run(&self, node: &Node, work: &mut Work);
    /// The same, with a message behind all that waits; it need not wait itself where nobody runs the role.
    fn take(&self, packet: Packet, node: &Node, work: &mut Work);
    /// When the role is to be asked for its next deadline at the latest, monotonic microseconds, or [`NEVER`].
    fn deadline(&self) -> u64;
    fn status(&self) -> Counters;
    fn operations(&self) -> Vec<OperationReport>;
    fn inspect(&self, dir: InodeId) -> Counters;
    /// Messages in the inbox, and their bytes.
    fn waiting_messages(&self) -> (u64, u64);
    fn ranges(&self) -> Option<u32>;
    fn recoverable(&self, act: &mut dyn FnMut(&mut dyn Recoverable));
    fn begin_image(&self, node: &Node, range: u32) -> Option<(Image, Lsn)>;
}

struct Outgoing {
    to: NodeId,
    packet: Packet,
    after: RecordSeq,
    need: Need,
}

/// Own outputs of one run: nearly always none or one.
type Owns<R> = SmallVec<[<R as Role>::Out; 1]>;
/// Inputs that need not pass the inbox: nearly always none or one.
type Given<R> = SmallVec<[Input<<R as Role>::In>; 1]>;

/// What the role's lock protects.
struct Core<R: HostedRole> {
    role: R,
    inputs: VecDeque<Input<R::In>>,
    batch: BatchBuilder,
    sends: Vec<Outgoing>,
    owns: Owns<R>,
    /// Last record and lsn of each batch that is not durable yet, in order.
    tail: VecDeque<(RecordSeq, Lsn)>,
    appended: RecordSeq,
    full: bool,
}

/// A role of the process.
pub(super) struct Cell<R: HostedRole> {
    this: Weak<Cell<R>>,
    address: NodeId,
    index: usize,
    inbox: Mutex<VecDeque<Input<R::In>>>,
    /// Something has come for the role that who holds its lock may not have seen. It is only exchanged: of two threads that do so
    /// at once the later one knows what the earlier one has done before.
    unseen: AtomicBool,
    core: Mutex<Core<R>>,
    effects: Arc<dyn Effects<R>>,
    deadline: AtomicU64,
    ticked: AtomicBool,
    /// The journal is durable up to here, as far as this role has been told to look.
    durable: AtomicU64,
    /// Whether the role has records that are not durable.
    has_tail: AtomicBool,
    /// Messages of other roles of the process rest on this batch or earlier ones. One position for all: a reply that
    /// rests on less waits for at most one flush too many. 0 where no reply waits.
    heard: AtomicU64,
    /// Longest time for which the lock was held for something else than inputs, microseconds.
    longest: AtomicU64,
}

impl<R: HostedRole> Cell<R> {
    pub(super) fn new(address: NodeId, index: usize, role: R, effects: Arc<dyn Effects<R>>) -> Arc<Cell<R>> {
        let core = Core {
            role,
            inputs: VecDeque::new(),
            batch: BatchBuilder::default(),
            sends: vec![],
            owns: SmallVec::new(),
            tail: VecDeque::new(),
            appended: RecordSeq(0),
            full: false,
        };
        Arc::new_cyclic(|this| Cell {
            this: this.clone(),
            address,
            index,
            inbox: Mutex::default(),
            unseen: AtomicBool::new(false),
            core: Mutex::new(core),
            effects,
            deadline: AtomicU64::new(NEVER),
            ticked: AtomicBool::new(false),
            durable: AtomicU64::new(0),
            has_tail: AtomicBool::new(false),
            heard: AtomicU64::new(0),
            longest: AtomicU64::new(0),
        })
    }

    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Puts an input into the inbox. Not bounded here: own inputs answer own outputs or come from callers
    /// who wait for the answer, so their number is that of operations in progress.
    pub(super) fn push_own(&self, input: R::In) {
        self.inbox.lock().expect(POISONED).push_back(Input::Own(input));
        self.show();
    }

    pub(super) fn with_role<T>(&self, f: impl FnOnce(&mut R) -> T) -> T {
        let mut core = self.core.lock().expect(POISONED);
        let begin = Instant::now();
        let done = f(&mut core.role);
        self.longest.fetch_max(begin.elapsed().as_micros() as u64, Ordering::Relaxed);
        done
    }

    /// Something has come for the role. Whoever finds its lock taken afterwards may rely on who holds it.
    fn show(&self) {
        self.unseen.swap(true, Ordering::AcqRel);
    }

    /// Whether something has come for the role that nobody has seen, asked after its lock was released.
    fn waiting(&self) -> bool {
        self.unseen.fetch_or(false, Ordering::AcqRel) // an exchange, too
    }

    /// Handles what waits for the role, at most [`INPUTS_PER_HOLD`] inputs of the inbox, and then `given`.
    fn handle_inputs(&self, core: &mut Core<R>, given: Given<R>, node: &Node) {
        self.take_inputs(core);
        // Read only now: a reading from before the inputs were taken may be older than what their senders have seen.
        let now = sys::now();
        let full = node.full.load(Ordering::Relaxed);
        if core.full != full {
            core.full = full;
            core.role.disk_full(full);
        }
        if let Some(seq) = self.newly_durable(core) {
            core.role.handle(now, Input::Durable(seq));
        }
        if self.ticked.load(Ordering::Relaxed) && self.ticked.swap(false, Ordering::AcqRel) {
            core.role.handle(now, Input::Tick);
        }
        while let Some(input) = core.inputs.pop_front() {
            core.role.handle(now, input);
        }
        given.into_iter().for_each(|input| core.role.handle(now, input));
    }

    fn take_inputs(&self, core: &mut Core<R>) {
        if !self.unseen.load(Ordering::Relaxed) || !self.unseen.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut inbox = self.inbox.lock().expect(POISONED);
        if inbox.len() <= INPUTS_PER_HOLD {
            std::mem::swap(&mut *inbox, &mut core.inputs);
        } else {
            core.inputs.extend(inbox.drain(..INPUTS_PER_HOLD));
            self.show();
        }
    }

    fn newly_durable(&self, core: &mut Core<R>) -> Option<RecordSeq> {
        let durable = Lsn(self.durable.load(Ordering::Acquire));
        let mut last = None;
        while let Some((seq, _)) = core.tail.pop_front_if(|(_, lsn)| *lsn <= durable) {
            last = Some(seq);
        }
        if last.is_some() && core.tail.is_empty() {
            self.has_tail.store(false, Ordering::Release);
        }
        last
    }

    /// Takes all outputs: records become a batch, then messages leave as far as the gate lets them.
    fn take_outputs(&self, core: &mut Core<R>, node: &Node, work: &mut Work) {
        let mut flush = false;
        while let Some(output) = core.role.poll_output() {
            match output {
                Output::Append { seq, bytes } => {
                    if !core.batch.fits(seq, bytes.len()) && !self.append(core, node) {
                        return;
                    }
                    core.batch.push(seq, &bytes);
                }
                // All records that it rests on are appended.
                Output::Send { to, packet, after, need } if core.batch.is_empty() => {
                    self.send(core, Outgoing { to, packet, after, need }, node, work);
                }
                Output::Send { to, packet, after, need } => core.sends.push(Outgoing { to, packet, after, need }),
                Output::Flush => flush = true,
                Output::Own(out) => core.owns.push(out),
            }
        }
        if !core.batch.is_empty() && !self.append(core, node) {
            return;
        }
        if let Some(journal) = node.journal.as_ref().filter(|_| flush) {
            journal.flush_soon();
        }
        let mut sends = std::mem::take(&mut core.sends);
        sends.drain(..).for_each(|out| self.send(core, out, node, work));
        core.sends = sends;
    }

    /// Brings a message on its way as far as the gate lets it.
    fn send(&self, core: &Core<R>, Outgoing { to, packet, after, need }: Outgoing, node: &Node, work: &mut Work) {
        let waits = node.must_be_durable(to, need);
        let lsn = if waits || node.carries_positions() { self.rests_on(core, after) } else { None };
        match lsn {
            Some(lsn) if waits => {
                // Once it waits at the gate, a flush may let it leave before this thread goes on.
                if packet.keeps_order() && work.has_ordered() {
                    node.send_remote(work);
                }
                node.send_when_durable(lsn, to, packet, need, work);
            }
            Some(lsn) => node.route_resting_on(lsn, to, packet, work),
            None => node.route(to, packet, work),
        }
    }

    /// The last batch that an output after record `after` rests on, unless that is durable.
    fn rests_on(&self, core: &Core<R>, after: RecordSeq) -> Option<Lsn> {
        let own = if after.0 > 0 { batch_of(core, after) } else { None };
        own.max(Some(self.heard()).filter(|heard| heard.0 > self.durable.load(Ordering::Acquire)))
    }

    /// Appends the batch; false if the journal has stopped, and with it this process.
    fn append(&self, core: &mut Core<R>, node: &Node) -> bool {
        let journal = node.journal.as_ref().expect("a role with records runs in a process with a journal");
        let last = core.batch.last();
        match journal.append(self.address, &mut core.batch) {
            Ok(lsn) => {
                assert!(core.appended < last, "{} appended record {last} twice", name(self.address));
                core.appended = last;
                core.tail.push_back((last, lsn));
                self.has_tail.store(true, Ordering::Release);
                true
            }
            Err(error) => {
                core.sends.clear();
                core.owns.clear();
                node.fail(&error.to_string());
                false
            }
        }
    }

    /// Executes own outputs; nobody holds the lock for it. Gives what came of them.
    fn perform(&self, owns: Owns<R>, node: &Node) -> Vec<R::In> {
        let mut done = Vec::new();
        for out in owns {
            if self.effects.is_slow(&out) {
                let cell = self.this.upgrade().expect("a running cell is alive");
                node.background.add(Box::new(move |node| {
                    let mut done = Vec::new();
                    cell.effects.perform(out, &mut done);
                    done.into_iter().for_each(|input| cell.push_own(input));
                    node.resume(cell.index);
                }));
            } else {
                self.effects.perform(out, &mut done);
            }
        }
        done
    }

    /// Runs the role, whose lock is held, on what waits for it and what is given. Gives what came of its own outputs.
    fn hold(&self, mut core: MutexGuard<'_, Core<R>>, given: Given<R>, node: &Node, work: &mut Work) -> Vec<R::In> {
        self.handle_inputs(&mut core, given, node);
        self.take_outputs(&mut core, node, work);
        let owns = std::mem::take(&mut core.owns);
        let deadline = core.role.next_deadline().unwrap_or(NEVER);
        // One that stands was told to the timer when it was published; after an earlier one the role is asked for the next.
        let earlier = deadline < self.deadline.load(Ordering::Relaxed);
        if earlier {
            self.deadline.store(deadline, Ordering::SeqCst);
        }
        if work.has_ordered() {
            node.send_remote(work); // before another thread has outputs of this role
        }
        drop(core);
        if earlier {
            node.timer.earlier(deadline);
        }
        if owns.is_empty() { Vec::new() } else { self.perform(owns, node) }
    }

    /// Runs the role as long as something comes of what it does.
    fn run_with<'a>(&'a self, mut core: MutexGuard<'a, Core<R>>, mut given: Given<R>, node: &Node, work: &mut Work) {
        loop {
            let done = self.hold(core, given, node, work);
            let free = if done.is_empty() || !work.is_done() { None } else { self.try_core() };
            let Some(next) = free else {
                let left = !done.is_empty();
                done.into_iter().for_each(|input| self.push_own(input));
                if left || self.waiting() {
                    work.add(self.index);
                }
                return;
            };
            given = done.into_iter().map(Input::Own).collect();
            core = next;
        }
    }

    fn try_core(&self) -> Option<MutexGuard<'_, Core<R>>> {
        match self.core.try_lock() {
            Ok(core) => Some(core),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => panic!("{POISONED}"),
        }
    }
}

/// Memory that a message takes.
pub(super) fn packet_bytes(packet: &Packet) -> u64 {
    (size_of::<Packet>() + packet.head.len() + packet.bulk.len()) as u64
}

/// The batch that holds a record, unless it is durable.
fn batch_of<R: HostedRole>(core: &Core<R>, after: RecordSeq) -> Option<Lsn> {
    assert!(after <= core.appended || core.appended.0 == 0, "an output rests on record {after}, which is not appended");
    let place = core.tail.partition_point(|(seq, _)| *seq < after);
    core.tail.get(place).map(|(_, lsn)| *lsn)
}

impl<R: HostedRole> AnyCell for Cell<R> {
    fn address(&self) -> NodeId {
        self.address
    }

    fn push(&self, packet: Packet) -> bool {
        let mut inbox = self.inbox.lock().expect(POISONED);
        let room = inbox.len() < INBOX_MAX;
        if room {
            inbox.push_back(Input::Packet(packet));
        }
        drop(inbox);
        self.show();
        room
    }

    fn tick(&self) {
        // The thread that handles the tick publishes the next deadline; until then the timer need not look.
        self.deadline.store(NEVER, Ordering::SeqCst);
        self.ticked.store(true, Ordering::Release);
        self.show();
    }

    fn durable(&self, lsn: Lsn) -> bool {
        self.durable.store(lsn.0, Ordering::Release);
        self.show();
        self.has_tail.load(Ordering::Acquire)
    }

    fn hear(&self, lsn: Lsn) {
        self.heard.fetch_max(lsn.0, Ordering::AcqRel);
    }

    fn heard(&self) -> Lsn {
        Lsn(self.heard.load(Ordering::Acquire))
    }

    fn run(&self, node: &Node, work: &mut Work) {
        // Whoever holds the lock looks at the inbox again after releasing it, so nothing is left behind.
        if let Some(core) = self.try_core() {
            self.run_with(core, Given::<R>::new(), node, work);
        }
    }

    fn take(&self, packet: Packet, node: &Node, work: &mut Work) {
        match self.try_core() {
            Some(core) => self.run_with(core, Given::<R>::from_iter([Input::Packet(packet)]), node, work),
            None => node.leave(self.index, packet, work),
        }
    }

    fn deadline(&self) -> u64 {
        self.deadline.load(Ordering::SeqCst)
    }

    fn status(&self) -> Counters {
        let mut counters = self.with_role(|role| role.status());
        counters.push((LONGEST.to_owned(), self.longest.load(Ordering::Relaxed)));
        counters
    }

    fn operations(&self) -> Vec<OperationReport> {
        self.with_role(|role| role.operations())
    }

    fn inspect(&self, dir: InodeId) -> Counters {
        self.with_role(|role| role.inspect(dir))
    }

    fn waiting_messages(&self) -> (u64, u64) {
        let inbox = self.inbox.lock().expect(POISONED);
        let bytes = |input: &Input<R::In>| match input {
            Input::Packet(packet) => packet_bytes(packet),
            _ => size_of::<Input<R::In>>() as u64,
        };
        (inbox.len() as u64, inbox.iter().map(bytes).sum())
    }

    fn recoverable(&self, act: &mut dyn FnMut(&mut dyn Recoverable)) {
        self.with_role(|role| role.recoverable().map(act));
    }

    fn ranges(&self) -> Option<u32> {
        self.with_role(|role| role.recoverable().map(|r| r.ranges()))
    }

    fn begin_image(&self, node: &Node, range: u32) -> Option<(Image, Lsn)> {
        let mut core = self.core.lock().expect(POISONED);
        let begin = Instant::now();
        let image = core.role.recoverable()?.begin_image(range);
        // Under the lock all of the role's records are appended, so this covers what the image reflects.
        let lsn = node.journal.as_ref().map_or(Lsn(0), |journal| journal.appended());
        self.longest.fetch_max(begin.elapsed().as_micros() as u64, Ordering::Relaxed);
        Some((image, lsn))
    }
}
