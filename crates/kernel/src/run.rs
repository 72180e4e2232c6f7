//! The executor: reused pinned boxes, a no-op waker, one FIFO ready queue.

use crate::calls::Answer;
use crate::cx::{Core, Cx, OpId, OpState, Protocol, Unsynced, lend};
use crate::gauge::Gauge;
use crate::locks::LockTable;
use crate::role::{Input, Now, Output};
use onpath_wire::ids::RequestSeq;
use onpath_wire::limits::{OPERATIONS_MAX, SHARDS_MAX};
use onpath_wire::packet::Packet;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Keys that an operation locks at a time.
const KEYS_MAX: usize = 16;
/// Peers that an operation asks at a time: all shards and the switch, or a data node.
const PEERS_MAX: usize = SHARDS_MAX as usize + 1;

/// A place that runs one operation after another in the same box.
trait Place<P: Protocol>: Send {
    fn start(&mut self, cx: Cx<P>, job: P::Job);
    /// True when the operation has ended.
    fn poll(&mut self) -> bool;
}

struct TypedPlace<M, F> {
    make: M,
    future: Pin<Box<Option<F>>>,
}

impl<P, M, F> Place<P> for TypedPlace<M, F>
where
    P: Protocol,
    M: Fn(Cx<P>, P::Job) -> F + Send,
    F: Future<Output = ()> + Send,
{
    fn start(&mut self, cx: Cx<P>, job: P::Job) {
        let future = (self.make)(cx, job);
        self.future.as_mut().set(Some(future));
    }

    fn poll(&mut self) -> bool {
        let future = self.future.as_mut().as_pin_mut().expect("only a running operation is polled");
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => false,
            Poll::Ready(()) => {
                self.future.as_mut().set(None);
                true
            }
        }
    }
}

/// Runs the operations of one role.
pub struct Kernel<P: Protocol> {
    /// Lent to operations while they run; gone once one of them has panicked.
    core: RefCell<Option<Box<Core<P>>>>,
    places: Vec<Box<dyn Place<P>>>,
    running: Vec<bool>,
    free: Vec<u32>,
    new_place: Box<dyn Fn() -> Box<dyn Place<P>> + Send>,
    place_bytes: usize,
    /// Outputs of what has run, taken out in the kernel's last look at the core.
    outputs: VecDeque<Output<P::Out>>,
    /// The next deadline, as of then.
    deadline: Option<u64>,
    /// Somebody has looked at the core since, so that there may be more.
    looked: Cell<bool>,
}

/// What runs next.
enum Next<J> {
    Op(u32),
    Job(J),
}

impl<P: Protocol> Kernel<P> {
    /// A kernel over `state` in which `make` turns a job into its operation. With `track_unsynced`, replies
    /// carry the last record that the objects they speak of rest on (needed where outputs wait for the disk).
    pub fn new<M, F>(state: P, first_call: RequestSeq, track_unsynced: bool, make: M) -> Self
    where
        M: Fn(Cx<P>, P::Job) -> F + Send + Clone + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let core = Core {
            state,
            now: Now::default(),
            locks: LockTable::default(),
            calls: Default::default(),
            timers: Default::default(),
            parked: Default::default(),
            ready: VecDeque::new(),
            jobs: VecDeque::new(),
            ops: Vec::new(),
            outputs: VecDeque::new(),
            next_call: first_call,
            unsynced: track_unsynced.then(Unsynced::default),
        };
        let new_place = Box::new(move || -> Box<dyn Place<P>> {
            Box::new(TypedPlace { make: make.clone(), future: Box::pin(None) })
        });
        Kernel {
            core: RefCell::new(Some(Box::new(core))),
            places: vec![],
            running: vec![],
            free: vec![],
            new_place,
            place_bytes: size_of::<Option<F>>() + size_of::<TypedPlace<M, F>>() + size_of::<OpState>(),
            outputs: VecDeque::new(),
            deadline: None,
            looked: Cell::new(false),
        }
    }

    /// The role's state, between inputs.
    pub fn with<T>(&self, f: impl FnOnce(&mut Core<P>) -> T) -> T {
        self.looked.set(true);
        f(present(&mut self.core.borrow_mut()))
    }

    /// Most operations that were in progress at a time; a place is kept for each.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Memory that the place of an operation takes, without what the operation puts on the heap, bytes.
    pub fn place_bytes(&self) -> usize {
        self.place_bytes
    }

    /// How full the kernel's own queues are, between inputs. `renews`: the role calls somebody now and then though nobody asks
    /// anything; `further_keys`: those that operations have locked, or wait for, beyond what usual ones do.
    pub fn gauges(&self, renews: bool, further_keys: usize) -> [Gauge; 6] {
        let mut core = self.core.borrow_mut();
        let core = present(&mut core);
        let running = self.places.len() - self.free.len();
        [
            // Requests, and what a role does of its own accord.
            Gauge::table("operations", running, 2 * OPERATIONS_MAX),
            Gauge::queue("runnable operations", core.ready.len() + core.jobs.len(), 0),
            Gauge::queue("keys locked", core.locks.len(), running * KEYS_MAX + further_keys),
            Gauge { transient: !renews, ..Gauge::queue("calls", core.calls.len(), running * PEERS_MAX) },
            Gauge::table("keys waited for", core.parked.len(), running),
            Gauge::table("timers", core.timers.len(), running),
        ]
    }

    /// Takes an input: `on_input` turns it into changes, answers and jobs; then everything runnable runs.
    pub fn handle(&mut self, now: Now, input: Input<P::In>, on_input: impl FnOnce(&mut Core<P>, Input<P::In>)) {
        let core = present(self.core.get_mut());
        core.now = now;
        if let Input::Durable(seq) = input {
            core.durable(seq);
        }
        on_input(core, input);
        expire(core);
        let mut next = next(core, &mut self.outputs, &mut self.deadline);
        while let Some(work) = next {
            let op = match work {
                Next::Op(op) => op,
                Next::Job(job) => self.start(job),
            };
            next = self.poll(op);
        }
        self.looked.set(false);
    }

    fn start(&mut self, job: P::Job) -> u32 {
        let op = self.free.pop().unwrap_or_else(|| {
            self.places.push((self.new_place)());
            self.running.push(false);
            present(self.core.get_mut()).ops.push(OpState::default());
            (self.places.len() - 1) as u32
        });
        self.running[op as usize] = true;
        self.places[op as usize].start(Cx { op: OpId(op), of: PhantomData }, job);
        op
    }

    fn poll(&mut self, op: u32) -> Option<Next<P::Job>> {
        // An operation may be woken twice (by a lock and a condition, say) and have ended at the first.
        let ended = self.running[op as usize].then(|| {
            let core = self.core.take().expect(GONE);
            let (core, ended) = lend(core, || self.places[op as usize].poll());
            self.core.replace(Some(core));
            ended
        });
        let core = present(self.core.get_mut());
        let state = &mut core.ops[op as usize];
        if ended == Some(true) {
            assert_eq!(state.unanswered, 0, "an operation ended with calls open");
            if state.entered {
                core.locks.leave(op, &state.keys, |next| core.ready.push_back(next));
            }
            state.keys.clear();
            state.entered = false;
            state.reflects = Default::default();
            self.running[op as usize] = false;
            self.free.push(op);
        } else if ended == Some(false) && !state.entered && !state.keys.is_empty() {
            state.entered = true;
            let held = core.locks.enter(op, &state.keys);
            assert!(held, "locks were free when they were taken and nothing ran since");
        }
        next(core, &mut self.outputs, &mut self.deadline)
    }

    /// The next output, in order.
    pub fn poll_output(&mut self) -> Option<Output<P::Out>> {
        if self.outputs.is_empty() && self.looked.get() {
            move_all(&mut present(self.core.get_mut()).outputs, &mut self.outputs);
        }
        self.outputs.pop_front()
    }

    /// All outputs so far, in order.
    pub fn take_outputs(&mut self, into: &mut VecDeque<Output<P::Out>>) {
        move_all(&mut self.outputs, into);
        move_all(&mut present(self.core.get_mut()).outputs, into);
    }

    /// The next deadline, monotonic microseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.looked.get() { deadline(present(&mut self.core.borrow_mut())) } else { self.deadline }
    }
}

const GONE: &str = "a role that panicked is not used again";

/// The core, while no operation runs.
fn present<P: Protocol>(core: &mut Option<Box<Core<P>>>) -> &mut Core<P> {
    core.as_mut().expect(GONE)
}

/// What runs next. When there is nothing, the outputs and the deadline are taken out, as the core is at hand.
fn next<P: Protocol>(
    core: &mut Core<P>,
    outputs: &mut VecDeque<Output<P::Out>>,
    until: &mut Option<u64>,
) -> Option<Next<P::Job>> {
    if let Some(op) = core.ready.pop_front() {
        return Some(Next::Op(op));
    }
    if let Some(job) = core.jobs.pop_front() {
        return Some(Next::Job(job));
    }
    move_all(&mut core.outputs, outputs);
    *until = deadline(core);
    None
}

/// Moves all outputs behind others. Mostly there are no others, and then nothing is copied.
fn move_all<T>(from: &mut VecDeque<T>, to: &mut VecDeque<T>) {
    if to.is_empty() {
        std::mem::swap(from, to);
    } else {
        to.append(from);
    }
}

fn deadline<P: Protocol>(core: &Core<P>) -> Option<u64> {
    match (core.timers.next(), core.calls.next()) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Wakes sleepers and repeats or gives up calls whose time has come.
fn expire<P: Protocol>(core: &mut Core<P>) {
    let now_us = core.now.mono_us;
    while let Some(op) = core.timers.pop(now_us) {
        core.ops[op as usize].slept = true;
        core.ready.push_back(op);
    }
    for seq in core.calls.due(now_us) {
        if core.calls.get_mut(seq).is_some_and(|call| call.deadline_us > now_us) {
            core.resend(seq);
        } else if let Some(call) = core.calls.remove(seq) {
            core.finish_call(call.op, call.place, Answer::TimedOut);
        }
    }
}

/// The packet of an answered call.
impl Answer {
    /// The packet, or nothing after a timeout.
    pub fn packet(self) -> Option<Packet> {
        match self {
            Answer::Packet(packet) => Some(packet),
            Answer::TimedOut => None,
        }
    }
}
