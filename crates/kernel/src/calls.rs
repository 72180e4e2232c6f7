//! Calls: a message that is repeated until its answer comes or its time is over.

use crate::role::Need;
use onpath_wire::ids::{NodeId, RecordSeq, RequestSeq};
use onpath_wire::limits::{CALL_RETRY_US, CALL_RETRY_US_MAX};
use onpath_wire::packet::Packet;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// How a call ended.
#[derive(Debug)]
pub enum Answer {
    /// The answer.
    Packet(Packet),
    /// Its deadline passed without one.
    TimedOut,
}

/// The answers to a group of calls, in the order of the calls.
pub type Answers = SmallVec<[Answer; 1]>;

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) op: u32,
    pub(crate) place: usize,
    pub(crate) to: NodeId,
    pub(crate) packet: Packet,
    pub(crate) after: RecordSeq,
    pub(crate) need: Need,
    pub(crate) retry_at_us: u64,
    pub(crate) pause_us: u64,
    pub(crate) deadline_us: u64,
}

impl Call {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        op: u32,
        place: usize,
        to: NodeId,
        packet: Packet,
        after: RecordSeq,
        need: Need,
        now_us: u64,
        deadline_us: u64,
    ) -> Call {
        let retry_at_us = now_us + CALL_RETRY_US;
        Call { op, place, to, packet, after, need, retry_at_us, pause_us: CALL_RETRY_US, deadline_us }
    }
}

/// Calls in progress, in order of their sequence numbers (so that retries have one order).
///
/// Numbers only grow and most answers come in order, so a queue of places is cheaper than a tree.
#[derive(Default, Debug)]
pub(crate) struct Calls {
    order: VecDeque<(RequestSeq, u32)>,
    places: Vec<Option<Call>>,
    free: Vec<u32>,
    next_retry_us: Option<u64>,
}

impl Calls {
    pub(crate) fn open(&mut self, seq: RequestSeq, call: Call) {
        assert!(self.order.back().is_none_or(|(last, _)| *last < seq), "call {seq} is not newer than the last one");
        self.note(call.retry_at_us.min(call.deadline_us));
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Some(call);
                place
            }
            None => {
                self.places.push(Some(call));
                (self.places.len() - 1) as u32
            }
        };
        self.order.push_back((seq, place));
    }

    fn note(&mut self, at_us: u64) {
        self.next_retry_us = Some(self.next_retry_us.map_or(at_us, |t| t.min(at_us)));
    }

    fn find(&self, seq: RequestSeq) -> Option<(usize, u32)> {
        let &(first, place) = self.order.front()?;
        if first == seq {
            return Some((0, place));
        }
        let at = self.order.binary_search_by_key(&seq, |(seq, _)| *seq).ok()?;
        Some((at, self.order[at].1))
    }

    pub(crate) fn get_mut(&mut self, seq: RequestSeq) -> Option<&mut Call> {
        let (_, place) = self.find(seq)?;
        self.places[place as usize].as_mut()
    }

    pub(crate) fn remove(&mut self, seq: RequestSeq) -> Option<Call> {
        let (at, place) = self.find(seq)?;
        self.order.remove(at);
        if self.order.is_empty() {
            self.next_retry_us = None;
        }
        self.free.push(place);
        self.places[place as usize].take()
    }

    /// The oldest one.
    pub(crate) fn first(&self) -> Option<RequestSeq> {
        self.order.front().map(|(seq, _)| *seq)
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Sequence numbers of all calls, in order, and their peers.
    pub(crate) fn all(&self) -> Vec<(RequestSeq, NodeId)> {
        let of = |place: u32| self.places[place as usize].as_ref().expect("an open call has its place");
        self.order.iter().map(|(seq, place)| (*seq, of(*place).to)).collect()
    }

    /// Sequence numbers of all calls to a peer, in order.
    pub(crate) fn to(&self, to: NodeId) -> Vec<RequestSeq> {
        self.all().into_iter().filter(|(_, peer)| *peer == to).map(|(seq, _)| seq).collect()
    }

    /// When something must be sent again or given up; may be early, never late.
    pub(crate) fn next(&self) -> Option<u64> {
        self.next_retry_us
    }

    /// Sequence numbers of calls that are due at `now_us`; each has its next retry set.
    pub(crate) fn due(&mut self, now_us: u64) -> Vec<RequestSeq> {
        if self.next().is_none_or(|at| at > now_us) {
            return Vec::new();
        }
        self.next_retry_us = None;
        let mut due = Vec::new();
        let mut next = None::<u64>;
        for &(seq, place) in &self.order {
            let call = self.places[place as usize].as_mut().expect("an open call has its place");
            if call.retry_at_us <= now_us || call.deadline_us <= now_us {
                due.push(seq);
                call.pause_us = (call.pause_us * 2).min(CALL_RETRY_US_MAX);
                call.retry_at_us = now_us + call.pause_us;
            }
            let at = call.retry_at_us.min(call.deadline_us);
            next = Some(next.map_or(at, |t| t.min(at)));
        }
        self.next_retry_us = next;
        due
    }
}
