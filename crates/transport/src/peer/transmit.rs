//! What leaves, and when.

use super::Peer;
use crate::head::{HEAD_BYTES, flag};
use crate::limits::{DATAGRAM_BYTES_MAX, DOUBLE_BYTES_MAX, FILL_PART, SEGMENTS_MAX};
use crate::part::{FRAGMENT_AT, MESSAGE_AT, PART_BYTES, part_bytes, put_message};

/// A run of datagrams, one behind the other, for one send with segmentation.
#[derive(Clone, Debug, Default)]
pub struct Transmit {
    /// All datagrams.
    pub buf: Vec<u8>,
    /// Bytes of each but the last, which may be shorter.
    pub segment: usize,
}

impl Transmit {
    /// The datagrams.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.buf.chunks(self.segment.max(1))
    }
}

impl Peer {
    /// Replaces what `out` holds by the next run of datagrams. Gives whether there is one: call again until there is none, then at
    /// [`Peer::next_deadline`], and after anything was queued or received.
    pub fn poll_transmit(&mut self, now_us: u64, out: &mut Transmit) -> bool {
        out.buf.clear();
        out.segment = 0;
        let Some(boot) = self.boot.filter(|_| self.check_numbers().is_ok()) else {
            self.expire(now_us);
            return false;
        };
        self.congestion.refill(now_us);
        self.expire(now_us);
        if !self.outgoing.is_empty() {
            self.outgoing.find_lost(now_us, &mut self.congestion);
            self.outgoing.check_timer(now_us, &mut self.congestion, &mut self.counters);
        }
        let fragments_first = std::mem::take(&mut self.fragments_first);
        if !fragments_first && self.put_packed(now_us, boot, out) {
            self.fragments_first = true;
            return true;
        }
        self.put_fragments(now_us, boot, out) || fragments_first && self.put_packed(now_us, boot, out)
    }

    /// When [`Peer::poll_transmit`] has something to do without anything new. It may be past: now.
    pub fn next_deadline(&self) -> Option<u64> {
        let expires = self.reassembly.expires();
        if self.boot.is_none() {
            return expires.into_iter().chain(self.outgoing.waits_until()).min();
        }
        let queued = (!self.messages.is_empty()).then_some(0);
        let outgoing = if self.outgoing.is_empty() { None } else { self.outgoing.deadline(&self.congestion) };
        [queued, outgoing, self.reassembly.ack_due(), expires].into_iter().flatten().min()
    }

    fn expire(&mut self, now_us: u64) {
        self.reassembly.expire(now_us, &mut self.counters);
        if !self.outgoing.is_empty() {
            self.outgoing.expire(now_us, &mut self.congestion, &mut self.counters);
        }
    }

    /// Acknowledgements and whole messages. All datagrams but the last are filled up to the same size.
    fn put_packed(&mut self, now_us: u64, boot: u64, out: &mut Transmit) -> bool {
        if self.messages.is_empty() && self.reassembly.ack_due().is_none_or(|due_us| now_us < due_us) {
            return false;
        }
        let whole = self.datagram_bytes();
        for _ in 0..SEGMENTS_MAX {
            let start = out.buf.len();
            let number = self.begin(&mut out.buf);
            self.put_parts(now_us, &mut out.buf);
            let missing = self.parts_max - (out.buf.len() - start - HEAD_BYTES);
            let fits_another = start + 2 * whole <= DATAGRAM_BYTES_MAX;
            let more = !self.messages.is_empty() && fits_another && missing * FILL_PART <= self.parts_max;
            if more {
                out.buf.resize(out.buf.len() + missing, 0);
            }
            let short = start == 0 && !more && out.buf.len() <= DOUBLE_BYTES_MAX;
            let twice = short && self.losses.worth_doubling();
            self.finish(&mut out.buf, start, (number, if twice { flag::TWICE } else { 0 }), boot);
            out.segment = out.segment.max(out.buf.len() - start);
            if twice {
                self.double(out);
            }
            if !more {
                break;
            }
        }
        self.congestion.spend(out.buf.len());
        true
    }

    /// Puts a second copy behind a single datagram; whichever comes later is dropped.
    fn double(&mut self, out: &mut Transmit) {
        out.buf.extend_from_within(..);
        self.counters.datagrams_sent += 1;
        self.counters.datagrams_doubled += 1;
        self.counters.bytes_sent += out.segment as u64;
    }

    /// Fills one datagram.
    fn put_parts(&mut self, now_us: u64, out: &mut Vec<u8>) {
        let end = out.len() + self.parts_max;
        if self.reassembly.ack_due().is_some() {
            self.counters.acks_sent += self.reassembly.put_acks(now_us, self.parts_max, out);
        }
        while let Some((_, packet)) = self.messages.front() {
            let bytes = packet.head.len() + packet.bulk.len();
            if out.len() + part_bytes(MESSAGE_AT - PART_BYTES + bytes) > end {
                break;
            }
            let Some((to, packet)) = self.messages.pop_front() else { break };
            put_message(out, to, &packet.head, &packet.bulk);
            self.messages_bytes -= bytes;
            self.counters.messages_sent += 1;
        }
    }

    /// Fragments, each in a datagram of its own, as many as window and pacer let leave.
    fn put_fragments(&mut self, now_us: u64, boot: u64, out: &mut Transmit) -> bool {
        if self.outgoing.is_empty() {
            return false;
        }
        for _ in 0..SEGMENTS_MAX {
            let Some(choice) = self.outgoing.choose(now_us, &mut self.congestion) else { break };
            let start = out.buf.len();
            let size = HEAD_BYTES + part_bytes(FRAGMENT_AT - PART_BYTES + choice.bytes) + self.tag();
            if start > 0 && (size > out.segment || start + size > DATAGRAM_BYTES_MAX) {
                break;
            }
            let number = self.begin(&mut out.buf);
            let (congestion, counters) = (&mut self.congestion, &mut self.counters);
            self.outgoing.put(now_us, choice, number, &mut out.buf, (congestion, counters));
            self.finish(&mut out.buf, start, (number, 0), boot);
            self.congestion.spend(size);
            out.segment = out.segment.max(size);
            if size < out.segment {
                break;
            }
        }
        !out.buf.is_empty()
    }
}
