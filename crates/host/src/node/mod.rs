//! The runtime of a process: roles behind mutexes, run inline by whatever thread has a message for them
//! (design.md, "Roles and operations"). Upholds R-16's output gate.
//!
//! A message is put into the inbox of its role; then whoever gets the role's mutex drains the inbox in order.
//! Messages to other roles of the process enter their inboxes before the lock is released; the same thread
//! goes on with them afterwards, from a list, never by recursion. Everything that may enter the operating
//! system (disk operations, replies to a mount, other processes) happens outside the lock.

mod background;
mod cell;
mod keep;
mod links;
mod shown;
mod timer;
mod work;

#[cfg(test)]
mod tests;

use crate::journal::{Commit, Journal, JournalError, JournalEvents};
use crate::mounts::Mounts;
use crate::report::Section;
use background::Background;
use cell::{AnyCell, Cell};
pub use links::Link;
use links::Links;
use onpath_kernel::gate::OutputGate;
use onpath_kernel::{Need, Role};
use onpath_store::Recoverable;
use onpath_wire::ids::{InodeId, Lsn, NodeClass, NodeId, SessionId};
use onpath_wire::packet::Packet;
use onpath_wire::report::OperationReport;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Instant;
use timer::Timer;
use work::Work;

/// Counters with their names.
pub type Counters = Vec<(String, u64)>;

/// Tells counters of something that is no role of the runtime.
pub type CounterSource = Box<dyn Fn() -> Counters + Send + Sync>;

/// A role as this runtime keeps it.
pub trait HostedRole: Role<In: Send, Out: Send> + Send + 'static {
    /// Counters for `onpath status`.
    fn status(&self) -> Counters {
        Vec::new()
    }
    /// Operations that it has answered, by their kind.
    fn operations(&self) -> Vec<OperationReport> {
        Vec::new()
    }
    /// What the role knows of a directory.
    fn inspect(&self, _dir: InodeId) -> Counters {
        Vec::new()
    }
    /// The role's durable state, if it has any of its own.
    fn recoverable(&mut self) -> Option<&mut dyn Recoverable> {
        None
    }
    /// From now on only what frees space may be recorded (`true`), or everything again.
    fn disk_full(&mut self, _full: bool) {}
}

/// What executes a role's own outputs, outside its lock. Several threads call it at once, and outputs of two
/// inputs may be executed in either order: a role that needs an order waits for completions. An effect never waits
/// for the journal: the thread that flushes it may be the one that executes the effect.
pub trait Effects<R: Role>: Send + Sync + 'static {
    /// Executes one output; what comes of it at once is pushed to `done` and becomes inputs of the role.
    fn perform(&self, out: R::Out, done: &mut Vec<R::In>);
    /// Whether executing it may take so long that the thread which brought the message should not wait.
    fn is_slow(&self, _out: &R::Out) -> bool {
        false
    }
}

/// Effects of a role that has no outputs of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEffects;

impl<R: Role<Out = ()>> Effects<R> for NoEffects {
    fn perform(&self, (): (), _done: &mut Vec<R::In>) {}
}

/// What a process does besides its roles when the journal needs it.
pub trait HostHooks: Send + Sync {
    /// Makes data files durable; called before each flush of the journal.
    fn flush_data(&self) -> io::Result<()>;
    /// The journal has become full, or has room again.
    fn space(&self, full: bool);
    /// The journal has failed; nothing is answered any more. The process should say so and end.
    fn failed(&self, why: &str);
}

/// Somebody who follows the journal's growth: the checkpointer.
pub trait FlushWatch: Send + Sync {
    /// A flush is done; `journal_bytes` were appended since the start of the process.
    fn flushed(&self, journal_bytes: u64);
    /// The journal has become full, or has room again.
    fn space(&self, full: bool);
}

/// A typed handle to a role of the process, for its own inputs.
pub struct Port<R: HostedRole> {
    cell: Arc<Cell<R>>,
}

impl<R: HostedRole> Clone for Port<R> {
    fn clone(&self) -> Self {
        Port { cell: self.cell.clone() }
    }
}

impl<R: HostedRole> Port<R> {
    /// The address of the role.
    pub fn address(&self) -> NodeId {
        self.cell.address()
    }
}

/// An output that waits for its record to be durable.
struct Held {
    to: NodeId,
    packet: Packet,
}

/// Collects the roles of a process.
pub struct NodeBuilder {
    cells: Vec<Arc<dyn AnyCell>>,
    shards: Vec<Option<usize>>,
    data: Vec<Option<usize>>,
    sessions: Vec<(NodeId, usize)>,
    switches: Vec<Option<usize>>,
    paths: Vec<Option<usize>>,
    controllers: Vec<Option<usize>>,
    among_others: bool,
}

impl Default for NodeBuilder {
    fn default() -> Self {
        NodeBuilder::new()
    }
}

impl NodeBuilder {
    /// No roles yet.
    pub fn new() -> NodeBuilder {
        NodeBuilder {
            cells: vec![],
            shards: vec![],
            data: vec![],
            sessions: vec![],
            switches: vec![],
            paths: vec![],
            controllers: vec![],
            among_others: false,
        }
    }

    /// Roles on other hosts exist, which live on when this host loses power: shards and data nodes as well as sessions.
    pub fn among_others(&mut self) {
        self.among_others = true;
    }

    /// Adds a role under its address.
    pub fn add<R: HostedRole>(&mut self, address: NodeId, role: R, effects: impl Effects<R>) -> Port<R> {
        let index = self.cells.len();
        let table = match address.class() {
            Some(NodeClass::Shard) => Some(&mut self.shards),
            Some(NodeClass::Data) => Some(&mut self.data),
            Some(NodeClass::Switch) => Some(&mut self.switches),
            Some(NodeClass::Path) => Some(&mut self.paths),
            Some(NodeClass::Controller) => Some(&mut self.controllers),
            Some(NodeClass::Session) => None,
            None => panic!("{address:?} is no address of a role that runs here"),
        };
        let taken = match table {
            Some(table) => {
                let number = address.number() as usize;
                table.resize(table.len().max(number + 1), None);
                table[number].replace(index).is_some()
            }
            None => {
                let taken = self.sessions.iter().any(|(a, _)| *a == address);
                self.sessions.push((address, index));
                taken
            }
        };
        assert!(!taken, "two roles under {address:?}");
        let cell = Cell::new(address, index, role, Arc::new(effects));
        self.cells.push(cell.clone());
        Port { cell }
    }

    /// Runs `f` on a role before it runs.
    pub fn with_role<R: HostedRole, T>(&self, port: &Port<R>, f: impl FnOnce(&mut R) -> T) -> T {
        port.cell.with_role(f)
    }

    /// Starts the runtime. Roles that have records need a `journal` (recovered, not started).
    pub fn start(self, commit: Commit, journal: Option<Journal>, hooks: Arc<dyn HostHooks>) -> Arc<Node> {
        let durable = journal.as_ref().map_or(Lsn(0), Journal::durable);
        let node = Arc::new(Node {
            cells: self.cells,
            shards: self.shards,
            data: self.data,
            sessions: self.sessions.into_iter().map(|(address, index)| (AtomicU32::new(address.0), index)).collect(),
            switches: self.switches,
            paths: self.paths,
            controllers: self.controllers,
            among_others: self.among_others,
            commit,
            journal,
            hooks,
            gate: Mutex::new(OutputGate::new(durable)),
            links: Links::default(),
            timer: Timer::default(),
            background: Background::default(),
            full: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            failure: OnceLock::new(),
            lost: AtomicU64::new(0),
            watch: OnceLock::new(),
            threads: Mutex::default(),
            sources: Mutex::default(),
            mounts: Mounts::default(),
            sections: Mutex::default(),
            started: Instant::now(),
        });
        if let Some(journal) = &node.journal {
            journal.start(Arc::new(Events { node: Arc::downgrade(&node) }));
        }
        let mut threads = node.threads.lock().expect("starting does not panic");
        threads.push(timer::start(&node));
        threads.extend(background::start(&node));
        drop(threads);
        // A role may have something to say before its first input. They say it in the order in which they were added: until
        // a role has run it has no deadline that the timer could see, and nothing that a flush could make durable.
        let mut work = Work::default();
        (0..node.cells.len()).for_each(|index| {
            node.cells[index].tick();
            work.add(index);
        });
        node.execute(&mut work);
        node
    }
}

/// The runtime of a process.
pub struct Node {
    cells: Vec<Arc<dyn AnyCell>>,
    shards: Vec<Option<usize>>,
    data: Vec<Option<usize>>,
    /// Their addresses may change ([`Node::rename`]).
    sessions: Vec<(AtomicU32, usize)>,
    switches: Vec<Option<usize>>,
    paths: Vec<Option<usize>>,
    controllers: Vec<Option<usize>>,
    among_others: bool,
    commit: Commit,
    journal: Option<Journal>,
    hooks: Arc<dyn HostHooks>,
    gate: Mutex<OutputGate<Held>>,
    links: Links,
    timer: Timer,
    background: Background,
    full: AtomicBool,
    stopped: AtomicBool,
    failure: OnceLock<String>,
    /// Messages to nobody or into full inboxes.
    lost: AtomicU64,
    watch: OnceLock<Arc<dyn FlushWatch>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Further lines of the status, by their name.
    sources: Mutex<BTreeMap<String, CounterSource>>,
    mounts: Mounts,
    /// Further parts of the report.
    sections: Mutex<BTreeMap<&'static str, Section>>,
    started: Instant,
}

impl Node {
    /// Delivers a message and runs everything that it makes runnable.
    pub fn deliver(&self, to: NodeId, packet: Packet) {
        let mut work = Work::default();
        self.route(to, packet, &mut work);
        self.execute(&mut work);
    }

    /// Delivers messages that came together, before any of their roles runs.
    pub fn deliver_all(&self, mut messages: impl ExactSizeIterator<Item = (NodeId, Packet)>) {
        let mut work = Work::default();
        let stopped = self.stopped.load(Ordering::Acquire);
        let role = |to, packet: &Packet| self.local(to).filter(|_| !packet.wants_switch() && !stopped);
        match (messages.len(), messages.next()) {
            // Usually there is one, and nobody runs its role.
            (1, Some((to, packet))) if let Some(index) = role(to, &packet) => {
                self.cells[index].take(packet, self, &mut work);
            }
            (_, first) => {
                first.into_iter().chain(messages).for_each(|(to, packet)| self.route(to, packet, &mut work));
            }
        }
        self.execute(&mut work);
    }

    /// Gives a role an input of its own kind and runs everything that it makes runnable.
    pub fn submit<R: HostedRole>(&self, port: &Port<R>, input: R::In) {
        port.cell.push_own(input);
        let mut work = Work::default();
        work.add(port.cell.index());
        self.execute(&mut work);
    }

    /// A session goes on under another id: messages to that address are its own from now on.
    pub fn rename<R: HostedRole>(&self, port: &Port<R>, session: SessionId) {
        let mine = self.sessions.iter().find(|(_, index)| *index == port.cell.index());
        let (address, _) = mine.expect("a session of this process");
        address.store(NodeId::session(session).0, Ordering::Release);
    }

    /// Runs `f` on a role under its lock, between inputs.
    pub fn with_role<R: HostedRole, T>(&self, port: &Port<R>, f: impl FnOnce(&mut R) -> T) -> T {
        let result = port.cell.with_role(f);
        self.resume(port.cell.index());
        result
    }

    /// Whoever found the role locked has left its message there: look after it.
    fn resume(&self, index: usize) {
        let mut work = Work::default();
        work.add(index);
        self.execute(&mut work);
    }

    fn execute(&self, work: &mut Work) {
        while let Some(index) = work.next() {
            if self.stopped.load(Ordering::Acquire) {
                return;
            }
            self.cells[index].run(self, work);
        }
        if !work.remote.is_empty() {
            self.send_remote(work);
        }
    }

    /// Whether a role is in this process.
    pub fn has(&self, role: NodeId) -> bool {
        self.local(role).is_some()
    }

    fn local(&self, to: NodeId) -> Option<usize> {
        let number = to.number() as usize;
        match to.class()? {
            NodeClass::Shard => self.shards.get(number).copied().flatten(),
            NodeClass::Data => self.data.get(number).copied().flatten(),
            NodeClass::Switch => self.switches.get(number).copied().flatten(),
            NodeClass::Path => self.paths.get(number).copied().flatten(),
            NodeClass::Controller => self.controllers.get(number).copied().flatten(),
            NodeClass::Session => {
                let is_it = |(address, _): &&(AtomicU32, usize)| address.load(Ordering::Acquire) == to.0;
                self.sessions.iter().find(is_it).map(|(_, index)| *index)
            }
        }
    }

    /// Brings a released message on its way: by the switch if it wants to pass one, which another process may have.
    fn route(&self, to: NodeId, packet: Packet, work: &mut Work) {
        // For others a switch is behind its port.
        let switch = || if self.among_others { None } else { self.local(packet.switch) };
        let index = if packet.wants_switch() { switch() } else { self.local(to) };
        let Some(index) = index else {
            work.remote.push((to, packet));
            return;
        };
        self.leave(index, packet, work);
    }

    /// Puts a message into a role's inbox.
    fn leave(&self, index: usize, packet: Packet, work: &mut Work) {
        if self.cells[index].push(packet) {
            work.add(index);
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether what is lost of the journal here is lost to this role too: its own records are in it, or, of a session, it ends with the
    /// machine.
    fn same_journal(&self, role: NodeId) -> bool {
        match role.class() {
            Some(NodeClass::Session) => !self.among_others,
            _ => self.has(role),
        }
    }

    /// Whether a message must wait until its record is durable; else "appended" is enough, which with a
    /// mapped journal is the same as "written".
    fn must_be_durable(&self, to: NodeId, need: Need) -> bool {
        let sync = self.commit == Commit::Sync;
        match (need, to.class()) {
            (Need::Durable | Need::DurableInTime, _) => true,
            (Need::Nothing, _) => false,
            // Under `interval` a client may have seen what a power loss takes.
            (Need::ByDestination, Some(NodeClass::Session)) => sync,
            (Need::IfOutlived, Some(NodeClass::Session)) | (Need::AsForClient, _) => sync || !self.same_journal(to),
            (_, _) => !self.same_journal(to),
        }
    }

    /// Whether messages inside the process say what they rest on: one that leaves may have to wait for it, a client's reply under
    /// `sync`, and one to a role of another journal always.
    fn carries_positions(&self) -> bool {
        self.commit == Commit::Sync || self.among_others
    }

    /// Brings a message on its way inside the process whose content rests on batch `lsn`.
    fn route_resting_on(&self, lsn: Lsn, to: NodeId, packet: Packet, work: &mut Work) {
        if let Some(index) = self.local(to) {
            self.cells[index].hear(lsn); // before the message can be taken
        }
        self.route(to, packet, work);
    }

    /// Sends a message that rests on batch `lsn` once that is durable.
    fn send_when_durable(&self, lsn: Lsn, to: NodeId, packet: Packet, need: Need, work: &mut Work) {
        let passed = self.gate.lock().expect("the gate does not panic").pass(lsn, Held { to, packet });
        match passed {
            Some(Held { to, packet }) => self.route(to, packet, work),
            None if matches!(need, Need::DurableInTime | Need::InTime) => {} // the next flush will do
            None => self.journal.as_ref().expect("only a journal gives out batches").flush_soon(),
        }
    }

    /// Makes `watch` follow the journal's growth; once.
    pub fn watch_flushes(&self, watch: Arc<dyn FlushWatch>) {
        assert!(self.watch.set(watch).is_ok(), "one watch follows the journal");
    }

    /// The journal of the process.
    pub fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    /// Why the process has stopped serving, if it has.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// What each role knows of a directory; roles that know nothing are left out.
    pub fn inspect(&self, dir: InodeId) -> Vec<(String, Counters)> {
        let mut all = vec![];
        for (index, cell) in self.cells.iter().enumerate() {
            all.push((cell::name(cell.address()), cell.inspect(dir)));
            self.resume(index);
        }
        all.retain(|(_, known)| !known.is_empty());
        all
    }

    /// Stops serving, without a flush: what a crash would leave is left.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.timer.stop();
        self.background.stop();
        let threads: Vec<_> = self.threads.lock().expect("starting does not panic").drain(..).collect();
        for thread in threads {
            if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
                tracing::error!("a thread of the runtime panicked");
            }
        }
        if let Some(journal) = &self.journal {
            journal.stop();
        }
    }

    /// Flushes the journal.
    pub fn flush(&self) -> Result<(), JournalError> {
        self.journal.as_ref().map_or(Ok(Lsn(0)), Journal::flush_wait).map(drop)
    }

    /// Flushes the journal and stops serving.
    pub fn close(&self) -> Result<(), JournalError> {
        let result = self.flush();
        self.stop();
        result
    }

    fn fail(&self, why: &str) {
        self.stopped.store(true, Ordering::Release);
        if self.failure.set(why.to_owned()).is_ok() {
            self.hooks.failed(why);
        }
    }
}

/// What the journal tells the runtime.
struct Events {
    node: Weak<Node>,
}

impl JournalEvents for Events {
    fn flush_data(&self) -> io::Result<()> {
        self.node.upgrade().map_or(Ok(()), |node| node.hooks.flush_data())
    }

    fn durable(&self, lsn: Lsn) {
        let Some(node) = self.node.upgrade() else { return };
        let mut work = Work::default();
        let released = {
            let mut gate = node.gate.lock().expect("the gate does not panic");
            let (in_order, released): (Vec<_>, Vec<_>) =
                gate.advance(lsn).into_iter().partition(|held| held.packet.keeps_order());
            in_order.into_iter().for_each(|Held { to, packet }| node.route(to, packet, &mut work));
            if !work.remote.is_empty() {
                node.send_remote(&mut work); // before a later one passes the gate, which is open for it now
            }
            released
        };
        released.into_iter().for_each(|Held { to, packet }| node.route(to, packet, &mut work));
        for (index, cell) in node.cells.iter().enumerate() {
            if cell.durable(lsn) {
                work.add(index);
            }
        }
        node.execute(&mut work);
        if let (Some(watch), Some(journal)) = (node.watch.get(), &node.journal) {
            watch.flushed(journal.status().bytes);
        }
    }

    fn space(&self, full: bool) {
        let Some(node) = self.node.upgrade() else { return };
        node.full.store(full, Ordering::Release);
        node.hooks.space(full);
        if let Some(watch) = node.watch.get() {
            watch.space(full);
        }
    }

    fn failed(&self, why: &str) {
        if let Some(node) = self.node.upgrade() {
            node.fail(why);
        }
    }
}
