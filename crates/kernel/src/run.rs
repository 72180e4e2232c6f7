//! The executor: reused pinned boxes, a no-op waker, one FIFO ready queue.

use crate::calls::Answer;
use crate::cx::{Core, Cx, OpId, OpState, Protocol, Unsynced};
use crate::locks::LockTable;
use crate::role::{Input, Now, Output};
use onpath_wire::ids::RequestSeq;
use onpath_wire::packet::Packet;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

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
    core: Arc<Mutex<Core<P>>>,
    places: Vec<Box<dyn Place<P>>>,
    running: Vec<bool>,
    free: Vec<u32>,
    new_place: Box<dyn Fn() -> Box<dyn Place<P>> + Send>,
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
        Kernel { core: Arc::new(Mutex::new(core)), places: vec![], running: vec![], free: vec![], new_place }
    }

    /// The role's state, between inputs.
    pub fn with<T>(&self, f: impl FnOnce(&mut Core<P>) -> T) -> T {
        f(&mut self.core.lock().expect("a role that panicked is not used again"))
    }

    /// Takes an input: `on_input` turns it into changes, answers and jobs; then everything runnable runs.
    pub fn handle(&mut self, now: Now, input: Input<P::In>, on_input: impl FnOnce(&mut Core<P>, Input<P::In>)) {
        self.with(|core| {
            core.now = now;
            if let Input::Durable(seq) = input {
                core.durable(seq);
            }
            on_input(core, input);
            expire(core);
        });
        self.run();
    }

    fn run(&mut self) {
        loop {
            let (op, job) = {
                let mut core = self.core.lock().expect("a role that panicked is not used again");
                match core.ready.pop_front() {
                    Some(op) => (Some(op), None),
                    None => (None, core.jobs.pop_front()),
                }
            };
            match (op, job) {
                (Some(op), _) => self.poll(op),
                (None, Some(job)) => self.start(job),
                (None, None) => return,
            }
        }
    }

    fn start(&mut self, job: P::Job) {
        let op = self.free.pop().unwrap_or_else(|| {
            self.places.push((self.new_place)());
            self.running.push(false);
            self.with(|core| core.ops.push(OpState::default()));
            (self.places.len() - 1) as u32
        });
        self.running[op as usize] = true;
        self.places[op as usize].start(Cx { core: self.core.clone(), op: OpId(op) }, job);
        self.poll(op);
    }

    fn poll(&mut self, op: u32) {
        // An operation may be woken twice (by a lock and a condition, say) and have ended at the first.
        if !self.running[op as usize] {
            return;
        }
        let ended = self.places[op as usize].poll();
        let mut core = self.core.lock().expect("a role that panicked is not used again");
        let core = &mut *core;
        let state = &mut core.ops[op as usize];
        if ended {
            assert_eq!(state.unanswered, 0, "an operation ended with calls open");
            if state.entered {
                core.locks.leave(op, &state.keys, |next| core.ready.push_back(next));
            }
            state.keys.clear();
            state.entered = false;
            state.reflects = Default::default();
            self.running[op as usize] = false;
            self.free.push(op);
        } else if !state.entered && !state.keys.is_empty() {
            state.entered = true;
            let held = core.locks.enter(op, &state.keys);
            assert!(held, "locks were free when they were taken and nothing ran since");
        }
    }

    /// The next output, in order.
    pub fn poll_output(&mut self) -> Option<Output<P::Out>> {
        self.with(|core| core.outputs.pop_front())
    }

    /// All outputs so far, in order.
    pub fn take_outputs(&mut self, into: &mut VecDeque<Output<P::Out>>) {
        self.with(|core| into.append(&mut core.outputs));
    }

    /// The next deadline, monotonic microseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        self.with(|core| match (core.timers.next(), core.calls.next()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        })
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
        if core.calls.open[&seq].deadline_us > now_us {
            core.resend(seq);
        } else if let Some(call) = core.calls.open.remove(&seq) {
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
