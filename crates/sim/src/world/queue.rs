//! Virtual time: what happens next, ordered by (time, order of arrangement).

use super::faults::FaultEnd;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use xxhash_rust::xxh3::xxh3_64;

/// Something that will happen. `life` voids what was arranged for a process before it crashed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Event {
    /// A message on the network arrives.
    Arrive(u32),
    /// A server looks into its queue of messages from its own process.
    Drain { process: u16, server: u16, life: u32 },
    /// A server's deadline.
    Tick { process: u16, server: u16, life: u32 },
    /// A flush of a journal ends.
    Flushed { process: u16, life: u32 },
    /// A disk operation of a data node ends.
    Disk { process: u16, op: u32, life: u32 },
    /// The commit interval of a process ends.
    Interval { process: u16, life: u32 },
    /// A process images some more ranges.
    Checkpoint { process: u16, life: u32 },
    /// The switch fails or comes back.
    Switch,
    /// A crashed process starts again.
    Restart { process: u16 },
    /// A client looks what it must send again.
    Client(u16),
    /// A session's deadline.
    Session(u16),
    /// Nothing is left of what a session's kernel had cached when it was to share.
    Shared(u16),
    /// A fault ends.
    FaultEnds(FaultEnd),
    /// A system call that found no space is made again.
    Again { session: u16, unique: u64 },
}

/// Events to come.
#[derive(Default, Debug)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    arranged: u64,
    /// Events of one time happen in an order of their own.
    unordered: bool,
}

impl Queue {
    /// Arranges an event for `at_ns`.
    pub(crate) fn push(&mut self, at_ns: u64, event: Event) {
        self.arranged = if self.unordered { u64::MAX } else { self.arranged + 1 };
        self.heap.push(Reverse((at_ns, self.arranged, event)));
    }

    /// The next event and its time.
    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }

    /// From now on the order of arrangement does not count.
    pub(crate) fn forget_order(&mut self) {
        self.unordered = true;
    }

    /// A hash of what is arranged.
    pub(crate) fn digest(&self) -> u64 {
        let hash = |(at, _, event): &(u64, u64, Event)| xxh3_64(format!("{at}{event:?}").as_bytes());
        self.heap.iter().fold(0, |sum, Reverse(entry)| sum.wrapping_add(hash(entry)))
    }

    /// When the next event is due.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }
}
