//! Calls: a message that is repeated until its answer comes or its time is over.

use crate::role::Need;
use onpath_wire::ids::{NodeId, RecordSeq, RequestSeq};
use onpath_wire::limits::{CALL_RETRY_US, CALL_RETRY_US_MAX};
use onpath_wire::packet::Packet;
use std::collections::BTreeMap;

/// How a call ended.
#[derive(Debug)]
pub enum Answer {
    /// The answer.
    Packet(Packet),
    /// Its deadline passed without one.
    TimedOut,
}

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

/// Calls in progress, by sequence number (so that retries have one order).
#[derive(Default, Debug)]
pub(crate) struct Calls {
    pub(crate) open: BTreeMap<RequestSeq, Call>,
    next_retry_us: Option<u64>,
}

impl Calls {
    pub(crate) fn open(&mut self, seq: RequestSeq, call: Call) {
        self.note(call.retry_at_us.min(call.deadline_us));
        let before = self.open.insert(seq, call);
        assert!(before.is_none(), "call {seq} opened twice");
    }

    fn note(&mut self, at_us: u64) {
        self.next_retry_us = Some(self.next_retry_us.map_or(at_us, |t| t.min(at_us)));
    }

    /// When something must be sent again or given up; may be early, never late.
    pub(crate) fn next(&self) -> Option<u64> {
        if self.open.is_empty() { None } else { self.next_retry_us }
    }

    /// Sequence numbers of calls that are due at `now_us`; each has its next retry set.
    pub(crate) fn due(&mut self, now_us: u64) -> Vec<RequestSeq> {
        if self.next().is_none_or(|at| at > now_us) {
            return Vec::new();
        }
        self.next_retry_us = None;
        let mut due = Vec::new();
        let mut next = None::<u64>;
        for (&seq, call) in &mut self.open {
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
