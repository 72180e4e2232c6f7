//! A server of the cost model: cores with a run queue, a journal, an output gate.

use onpath_kernel::gate::OutputGate;
use onpath_wire::ids::{Lsn, NodeId};
use onpath_wire::packet::Packet;
use std::collections::VecDeque;

/// A message on its way.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) packet: Packet,
}

/// What a core does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Task {
    /// The next input of a role.
    Place(u16),
    /// A client's next step.
    Client(u32),
    /// The next packet of a switch that is a server.
    Switch,
}

pub(crate) struct Server {
    cores: u16,
    free: u16,
    ready: VecDeque<Task>,
    /// Core nanoseconds, up to `counted_ns`.
    busy_ns: u64,
    counted_ns: u64,
    pub(crate) appended: Lsn,
    pub(crate) flushing: Option<Lsn>,
    pub(crate) gate: OutputGate<Flight>,
    durable: Lsn,
}

impl Server {
    pub(crate) fn new(cores: u16) -> Server {
        assert!(cores > 0, "a server has a core");
        Server {
            cores,
            free: cores,
            ready: VecDeque::new(),
            busy_ns: 0,
            counted_ns: 0,
            appended: Lsn(0),
            flushing: None,
            gate: OutputGate::new(Lsn(0)),
            durable: Lsn(0),
        }
    }

    pub(crate) fn cores(&self) -> u16 {
        self.cores
    }

    /// Adds to the run queue.
    pub(crate) fn add(&mut self, task: Task) {
        self.ready.push_back(task);
    }

    /// A free core takes the next task.
    pub(crate) fn begin(&mut self, now_ns: u64) -> Option<Task> {
        if self.free == 0 {
            return None;
        }
        let task = self.ready.pop_front()?;
        self.count(now_ns);
        self.free -= 1;
        Some(task)
    }

    /// A core is free again.
    pub(crate) fn end(&mut self, now_ns: u64) {
        self.count(now_ns);
        self.free += 1;
        assert!(self.free <= self.cores, "a core ends only what it began");
    }

    fn count(&mut self, now_ns: u64) {
        self.busy_ns += u64::from(self.cores - self.free) * (now_ns - self.counted_ns);
        self.counted_ns = now_ns;
    }

    /// Core nanoseconds since the beginning.
    pub(crate) fn busy_ns(&mut self, now_ns: u64) -> u64 {
        self.count(now_ns);
        self.busy_ns
    }

    /// Whether a flush would make anything durable, and none runs; it begins then.
    pub(crate) fn begin_flush(&mut self) -> bool {
        let begins = self.flushing.is_none() && self.appended > self.durable;
        if begins {
            self.flushing = Some(self.appended);
        }
        begins
    }

    /// A flush has ended: up to where, and what may leave now.
    pub(crate) fn flushed(&mut self) -> (Lsn, Vec<Flight>) {
        let upto = self.flushing.take().expect("a flush ends once");
        self.durable = upto;
        (upto, self.gate.advance(upto))
    }
}
