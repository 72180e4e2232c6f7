//! What an operation sees: its state inside `with`, and the four things it may await.

use crate::calls::{Answer, Answers, Call, Calls};
use crate::locks::{Key, Keys, LockTable, Mode, normalize};
use crate::role::{Need, Now, Output};
use crate::timers::Timers;
use hashbrown::HashMap;
use onpath_wire::ids::{NodeId, RecordSeq, RequestSeq};
use onpath_wire::packet::Packet;
use smallvec::SmallVec;
use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::task::Poll;

/// A running operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct OpId(pub(crate) u32);

impl OpId {
    /// The first of all, in their order.
    pub const MIN: OpId = OpId(0);
    /// The last of all.
    pub const MAX: OpId = OpId(u32::MAX);
}

/// The state that operations of a role share, and the types of its edges.
pub trait Protocol: Send + Sized + 'static {
    /// What starts an operation.
    type Job: Send + 'static;
    /// Inputs of this class of role.
    type In;
    /// Outputs of this class of role.
    type Out: Send;

    /// A call is about to be sent again: renew what has changed since (a peer's term, say).
    fn resend(&mut self, _to: NodeId, _packet: &mut Packet) {}
}

/// What one operation holds and waits for.
#[derive(Default, Debug)]
pub(crate) struct OpState {
    pub(crate) keys: Keys,
    /// Locks are in the table (the operation has waited since it took them).
    pub(crate) entered: bool,
    pub(crate) answers: Vec<Option<Answer>>,
    pub(crate) unanswered: usize,
    pub(crate) slept: bool,
    /// Last record of this operation, and the last one it has seen the effects of.
    pub(crate) reflects: RecordSeq,
}

/// The kernel's and the role's state, reached only inside [`Cx::with`].
pub struct Core<P: Protocol> {
    /// The role's own state.
    pub state: P,
    /// The clocks, as of the input being handled.
    pub now: Now,
    pub(crate) locks: LockTable,
    pub(crate) calls: Calls,
    pub(crate) timers: Timers,
    pub(crate) parked: HashMap<u64, SmallVec<[u32; 2]>>,
    pub(crate) ready: VecDeque<u32>,
    pub(crate) jobs: VecDeque<P::Job>,
    pub(crate) ops: Vec<OpState>,
    pub(crate) outputs: VecDeque<Output<P::Out>>,
    pub(crate) next_call: RequestSeq,
    pub(crate) unsynced: Option<Unsynced>,
}

/// The objects changed in the not yet durable tail, so that replies about others need not wait.
#[derive(Default, Debug)]
pub(crate) struct Unsynced {
    pub(crate) last: HashMap<Key, RecordSeq>,
    pub(crate) order: VecDeque<(RecordSeq, Key)>,
}

impl<P: Protocol> Core<P> {
    /// Starts a further operation once the present one waits or ends.
    pub fn start(&mut self, job: P::Job) {
        self.jobs.push_back(job);
    }

    /// Lets everybody who waits in [`Cx::until`] on this key look again, in order of arrival.
    pub fn wake(&mut self, key: u64) {
        if let Some(ops) = self.parked.remove(&key) {
            self.ready.extend(ops);
        }
    }

    /// Emits a journal record of `op`; `touched` are the keys of the objects that it changes.
    pub fn append(&mut self, op: OpId, seq: RecordSeq, bytes: Vec<u8>, touched: impl IntoIterator<Item = Key>) {
        self.outputs.push_back(Output::Append { seq, bytes });
        self.ops[op.0 as usize].reflects = seq;
        if let Some(unsynced) = &mut self.unsynced {
            for key in touched {
                unsynced.last.insert(key, seq);
                unsynced.order.push_back((seq, key));
            }
        }
    }

    /// Emits a journal record of no operation (a role's first words).
    pub fn append_unasked(&mut self, seq: RecordSeq, bytes: Vec<u8>) {
        self.outputs.push_back(Output::Append { seq, bytes });
    }

    /// Emits a message that reflects what `op` has locked and recorded.
    pub fn send(&mut self, op: OpId, to: NodeId, packet: Packet) {
        let after = self.reflects(op);
        self.outputs.push_back(Output::Send { to, packet, after, need: Need::ByDestination });
    }

    /// Emits a message that rests on this record, whoever asked.
    pub fn send_after(&mut self, to: NodeId, packet: Packet, after: RecordSeq, need: Need) {
        self.outputs.push_back(Output::Send { to, packet, after, need });
    }

    /// Asks for a flush: somebody waits until what was recorded so far is durable.
    pub fn flush(&mut self) {
        self.outputs.push_back(Output::Flush);
    }

    /// Emits something of this role's own.
    pub fn emit(&mut self, out: P::Out) {
        self.outputs.push_back(Output::Own(out));
    }

    /// The last record that what `op` has locked rests on.
    pub fn reflects(&self, op: OpId) -> RecordSeq {
        let state = &self.ops[op.0 as usize];
        let Some(unsynced) = &self.unsynced else { return state.reflects };
        let locked = state.keys.iter().filter_map(|(key, _)| unsynced.last.get(key)).max().copied();
        state.reflects.max(locked.unwrap_or_default())
    }

    /// From now on, what `op` sends rests on this record as well.
    pub fn rest_on(&mut self, op: OpId, seq: RecordSeq) {
        let state = &mut self.ops[op.0 as usize];
        state.reflects = state.reflects.max(seq);
    }

    /// From now on, what `op` sends rests on the last change of this object as well.
    pub fn rest_on_object(&mut self, op: OpId, key: Key) {
        if let Some(&seq) = self.unsynced.as_ref().and_then(|unsynced| unsynced.last.get(&key)) {
            self.rest_on(op, seq);
        }
    }

    /// Records up to here are durable: they hold nothing back any more.
    pub(crate) fn durable(&mut self, seq: RecordSeq) {
        let Some(unsynced) = &mut self.unsynced else { return };
        while let Some(&(at, key)) = unsynced.order.front().filter(|(at, _)| *at <= seq) {
            unsynced.order.pop_front();
            if unsynced.last.get(&key) == Some(&at) {
                unsynced.last.remove(&key);
            }
        }
    }

    /// Whether these locks could be had now: enough for a change made in the same synchronous step.
    pub fn is_free(&self, keys: impl IntoIterator<Item = (Key, Mode)>) -> bool {
        self.locks.free(&collect(keys))
    }

    /// Number of operations in progress.
    pub fn operations(&self) -> usize {
        self.ops.iter().filter(|op| !op.keys.is_empty() || op.unanswered > 0).count()
    }

    /// An answer to a call has come; false if nobody waits for it (a duplicate, or one given up).
    pub fn answer(&mut self, seq: RequestSeq, packet: Packet) -> bool {
        let Some(call) = self.calls.remove(seq) else { return false };
        self.finish_call(call.op, call.place, Answer::Packet(packet));
        true
    }

    /// The destination and packet of a call in progress.
    pub fn open_call(&mut self, seq: RequestSeq) -> Option<(NodeId, &mut Packet)> {
        self.calls.get_mut(seq).map(|call| (call.to, &mut call.packet))
    }

    /// All calls in progress, in order, and to whom.
    pub fn open_calls(&self) -> Vec<(RequestSeq, NodeId)> {
        self.calls.all()
    }

    /// Oldest call in progress.
    pub fn oldest_call(&self) -> Option<RequestSeq> {
        self.calls.first()
    }

    /// Number of calls in progress.
    pub fn calls_open(&self) -> usize {
        self.calls.len()
    }

    /// Sends every call to `to` again now (its term has changed, a stream was rebuilt).
    pub fn resend_all(&mut self, to: NodeId) {
        self.calls.to(to).into_iter().for_each(|seq| self.resend(seq));
    }

    pub(crate) fn resend(&mut self, seq: RequestSeq) {
        let Some(call) = self.calls.get_mut(seq) else { return };
        self.state.resend(call.to, &mut call.packet);
        let (to, packet, after, need) = (call.to, call.packet.clone(), call.after, call.need);
        self.outputs.push_back(Output::Send { to, packet, after, need });
    }

    pub(crate) fn finish_call(&mut self, op: u32, place: usize, answer: Answer) {
        let state = &mut self.ops[op as usize];
        assert!(state.answers[place].is_none(), "a call is answered once");
        state.answers[place] = Some(answer);
        state.unanswered -= 1;
        if state.unanswered == 0 {
            self.ready.push_back(op);
        }
    }
}

fn collect(from: impl IntoIterator<Item = (Key, Mode)>) -> Keys {
    let mut keys = Keys::new();
    from.into_iter().for_each(|key| keys.push(key));
    normalize(&mut keys);
    keys
}

thread_local! {
    /// The core of the role whose operation runs: a future is polled without arguments, so what it works on is laid here. A mutex that
    /// both shared would be locked some ten times in each request, and never be waited for.
    static LENT: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// Runs operations of a role, which reach its core by their [`Cx`] meanwhile.
pub(crate) fn lend<P: Protocol, T>(core: Box<Core<P>>, run: impl FnOnce() -> T) -> (Box<Core<P>>, T) {
    let before = LENT.replace(Some(core));
    let result = run();
    let core = LENT.replace(before).expect("nobody else takes what is lent");
    (core.downcast().expect("it is what was lent"), result)
}

/// An operation's handle on its role.
pub struct Cx<P: Protocol> {
    pub(crate) op: OpId,
    pub(crate) of: PhantomData<fn(&mut Core<P>)>,
}

impl<P: Protocol> Cx<P> {
    /// Looks at and changes the role's state, synchronously: the only way to reach it.
    pub fn with<T>(&self, f: impl FnOnce(&mut Core<P>) -> T) -> T {
        LENT.with_borrow_mut(|lent| {
            let core = lent.as_mut().and_then(|core| core.downcast_mut());
            f(core.expect("an operation is run by its role's kernel"))
        })
    }

    /// This operation.
    pub fn op(&self) -> OpId {
        self.op
    }

    /// Locks all keys at once, once an operation; the kernel releases them when it ends. True if it had to wait, so
    /// that what was looked at before may have changed.
    pub async fn lock_all(&self, keys: impl IntoIterator<Item = (Key, Mode)>) -> bool {
        let keys = collect(keys);
        let free = self.with(|core| self.lock_or_queue(core, keys));
        if !free {
            self.locked().await;
        }
        !free
    }

    /// Locks what `look` says, which depends on what it sees; gives what it saw, which is still so.
    pub async fn lock_seen<T: PartialEq>(&self, look: impl Fn(&mut Core<P>) -> (T, Keys)) -> T {
        loop {
            let (seen, free) = self.with(|core| {
                let (seen, mut keys) = look(core);
                normalize(&mut keys);
                (seen, self.lock_or_queue(core, keys))
            });
            if free {
                return seen;
            }
            self.locked().await;
            if self.with(|core| look(core).0) == seen {
                return seen;
            }
            self.unlock_all();
        }
    }

    fn lock_or_queue(&self, core: &mut Core<P>, keys: Keys) -> bool {
        let op = self.op.0;
        let state = &mut core.ops[op as usize];
        assert!(state.keys.is_empty(), "an operation locks once, or unlocks in between");
        state.keys = keys;
        if core.locks.free(&state.keys) {
            return true; // entered into the table only if this operation comes to wait
        }
        state.entered = true;
        core.locks.enter(op, &core.ops[op as usize].keys)
    }

    async fn locked(&self) {
        let op = self.op.0;
        poll_fn(|_| if self.with(|core| core.locks.waits(op)) { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    /// Locks all keys if that needs no waiting; never queues (a participant's Prepare, R-23).
    pub fn try_lock_all(&self, keys: impl IntoIterator<Item = (Key, Mode)>) -> bool {
        let keys = collect(keys);
        self.with(|core| {
            let free = core.locks.free(&keys);
            if free {
                let state = &mut core.ops[self.op.0 as usize];
                assert!(state.keys.is_empty(), "an operation locks once, or unlocks in between");
                state.keys = keys;
            }
            free
        })
    }

    /// Releases all locks: for an attempt that starts again from nothing. What it says later still rests on what it
    /// has seen under them.
    pub fn unlock_all(&self) {
        self.with(|core| {
            let seen = core.reflects(self.op);
            core.rest_on(self.op, seen);
            let state = &mut core.ops[self.op.0 as usize];
            let keys = std::mem::take(&mut state.keys);
            if std::mem::take(&mut state.entered) {
                core.locks.leave(self.op.0, &keys, |next| core.ready.push_back(next));
            }
        });
    }

    /// Waits until `look` finds what it looks for; it is asked again whenever somebody wakes `key`.
    pub async fn until<T>(&self, key: u64, mut look: impl FnMut(&mut Core<P>) -> Option<T>) -> T {
        poll_fn(|_| {
            self.with(|core| match look(core) {
                Some(found) => Poll::Ready(found),
                None => {
                    let ops = core.parked.entry(key).or_default();
                    if !ops.contains(&self.op.0) {
                        ops.push(self.op.0);
                    }
                    Poll::Pending
                }
            })
        })
        .await
    }

    /// Sends a message and waits for its answer, repeating it as long as that takes.
    pub async fn call(&self, to: NodeId, make: impl FnOnce(&mut Core<P>, RequestSeq) -> Packet) -> Packet {
        self.call_when(to, Need::ByDestination, make).await
    }

    /// The same for a message that may only leave when the records it rests on have come so far.
    pub async fn call_when(
        &self,
        to: NodeId,
        need: Need,
        make: impl FnOnce(&mut Core<P>, RequestSeq) -> Packet,
    ) -> Packet {
        self.with(|core| self.open(core, 0, to, need, u64::MAX, make));
        match self.answers(1).await.pop() {
            Some(Answer::Packet(packet)) => packet,
            other => unreachable!("a call without deadline ended as {other:?}"),
        }
    }

    /// Sends messages to several peers and waits for all answers, at most until `deadline_us`.
    pub async fn call_all(
        &self,
        peers: &[NodeId],
        deadline_us: u64,
        make: impl FnMut(&mut Core<P>, NodeId, RequestSeq) -> Packet,
    ) -> Answers {
        self.call_all_when(peers, Need::ByDestination, deadline_us, make).await
    }

    /// The same for messages that may only leave when the records they rest on have come so far.
    pub async fn call_all_when(
        &self,
        peers: &[NodeId],
        need: Need,
        deadline_us: u64,
        mut make: impl FnMut(&mut Core<P>, NodeId, RequestSeq) -> Packet,
    ) -> Answers {
        self.with(|core| {
            for (place, &to) in peers.iter().enumerate() {
                self.open(core, place, to, need, deadline_us, |core, seq| make(core, to, seq));
            }
        });
        self.answers(peers.len()).await
    }

    fn open(
        &self,
        core: &mut Core<P>,
        place: usize,
        to: NodeId,
        need: Need,
        deadline_us: u64,
        make: impl FnOnce(&mut Core<P>, RequestSeq) -> Packet,
    ) {
        core.next_call.0 += 1;
        let seq = core.next_call;
        let packet = make(core, seq);
        let (after, now_us) = (core.reflects(self.op), core.now.mono_us);
        core.outputs.push_back(Output::Send { to, packet: packet.clone(), after, need });
        core.calls.open(seq, Call::new(self.op.0, place, to, packet, after, need, now_us, deadline_us));
        let state = &mut core.ops[self.op.0 as usize];
        assert_eq!(state.answers.len(), place, "one call or one group of calls at a time");
        state.answers.push(None);
        state.unanswered += 1;
    }

    async fn answers(&self, n: usize) -> Answers {
        poll_fn(|_| {
            self.with(|core| {
                let state = &mut core.ops[self.op.0 as usize];
                if state.unanswered > 0 {
                    return Poll::Pending;
                }
                assert_eq!(state.answers.len(), n);
                Poll::Ready(state.answers.drain(..).map(|a| a.expect("answered")).collect())
            })
        })
        .await
    }

    /// Waits until monotonic microsecond `at_us`.
    pub async fn sleep_until(&self, at_us: u64) {
        let op = self.op.0;
        self.with(|core| {
            core.ops[op as usize].slept = false;
            core.timers.add(at_us, op);
        });
        poll_fn(|_| if self.with(|core| core.ops[op as usize].slept) { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}
