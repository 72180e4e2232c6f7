//! Messages that come in fragments: put together in bounded memory, delivered once, acknowledged.

use crate::counters::Counters;
use crate::error::ReceiveError;
use crate::limits::{
    ACK_DELAY_US, ACK_EVERY, ACK_WORDS_MAX, COMPLETED_ACKS_MAX, COMPLETED_REMEMBERED, INCOMING_BYTES_ALL_MAX,
    INCOMING_BYTES_MAX, INCOMING_IDLE_US, INCOMING_MAX, SHARE,
};
use crate::part::{ACK_BYTES_MAX, AckFront, Fragment, Shape, put_ack};
use crate::window::{Seen, Window};
use bytes::Bytes;
use onpath_wire::Packet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An incomplete message.
#[derive(Debug)]
struct Incoming {
    shape: Shape,
    /// A bit for each fragment.
    got: Vec<u64>,
    arrived: u32,
    /// The first fragment that is missing.
    base: u32,
    head: Vec<u8>,
    bulk: Vec<u8>,
    /// Datagram with the newest fragment, and when it came.
    newest: (u64, u64),
    /// Fragments since the last acknowledgement.
    unsaid: u32,
    /// When they are acknowledged at the latest.
    due_us: Option<u64>,
}

/// A completed message to acknowledge.
#[derive(Debug)]
struct Completed {
    id: u64,
    newest: (u64, u64),
    due_us: u64,
}

/// Bytes that incomplete messages of all peers together may take.
#[derive(Clone, Debug)]
pub struct Room(Arc<Taken>);

#[derive(Debug)]
struct Taken {
    bytes: AtomicUsize,
    max: usize,
}

impl Room {
    /// Room for so many bytes.
    pub fn new(max: usize) -> Room {
        Room(Arc::new(Taken { bytes: AtomicUsize::new(0), max }))
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Takes `bytes` for a peer that has `held` of them already; false if that would be more than its share: a peer may hold at most an
    /// [eighth](SHARE) of what is free. However many fill it, something is left for the next one.
    fn take(&self, held: usize, bytes: usize) -> bool {
        let fits = |taken: usize| {
            let free = self.0.max.saturating_sub(taken);
            (held + bytes <= free / SHARE || held == 0 && bytes <= free).then_some(taken + bytes)
        };
        self.0.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.0.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Default for Room {
    fn default() -> Room {
        Room::new(INCOMING_BYTES_ALL_MAX)
    }
}

/// All messages of one peer that come in fragments.
#[derive(Debug)]
pub(crate) struct Reassembly {
    incoming: VecDeque<Incoming>,
    bytes: usize,
    room: Room,
    completed: Window<{ COMPLETED_REMEMBERED / 64 }>,
    to_say: VecDeque<Completed>,
}

/// Writes `bytes` at `at` of a buffer that grows up to there; without a gap nothing is written twice.
fn place(buffer: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if buffer.len() < at {
        buffer.resize(at, 0);
    }
    if buffer.len() == at {
        buffer.extend_from_slice(bytes);
    } else {
        let inside = bytes.len().min(buffer.len() - at);
        buffer[at..at + inside].copy_from_slice(&bytes[..inside]);
        buffer.extend_from_slice(&bytes[inside..]);
    }
}

impl Incoming {
    fn new(shape: Shape) -> Incoming {
        Incoming {
            shape,
            got: vec![0; (shape.fragments() as usize).div_ceil(64)],
            arrived: 0,
            base: 0,
            head: Vec::with_capacity(shape.head as usize),
            bulk: Vec::with_capacity(shape.bulk as usize),
            newest: (0, 0),
            unsaid: 0,
            due_us: None,
        }
    }

    fn has(&self, index: u32) -> bool {
        self.got[index as usize / 64] & 1 << (index % 64) != 0
    }

    /// Takes a fragment that is missing.
    fn take(&mut self, fragment: &Fragment<'_>) {
        let index = fragment.index;
        self.got[index as usize / 64] |= 1 << (index % 64);
        self.arrived += 1;
        while self.base < self.shape.fragments() && self.has(self.base) {
            self.base += 1;
        }
        let (head, offset) = (self.shape.head as usize, index as usize * usize::from(self.shape.stride));
        let (in_head, in_bulk) = fragment.bytes.split_at(head.saturating_sub(offset).min(fragment.bytes.len()));
        if !in_head.is_empty() {
            place(&mut self.head, offset, in_head);
        }
        if !in_bulk.is_empty() {
            place(&mut self.bulk, offset.saturating_sub(head), in_bulk);
        }
    }

    /// When the fragment just taken is to be acknowledged: at once if the sender may wait for it.
    fn due(&self, fragment: &Fragment<'_>, filled: bool, now_us: u64) -> u64 {
        let last = fragment.index + 1 == self.shape.fragments();
        if filled || last || self.unsaid >= ACK_EVERY { now_us } else { now_us + ACK_DELAY_US }
    }

    /// Which fragments from `base` on have arrived, without the zeros behind the last one.
    fn words(&self) -> ([u64; ACK_WORDS_MAX], usize) {
        let (mut words, mut used) = ([0; ACK_WORDS_MAX], 0);
        let (first, shift) = (self.base as usize / 64, self.base % 64);
        for (i, word) in words.iter_mut().enumerate() {
            let low = self.got.get(first + i).map_or(0, |bits| bits >> shift);
            let high = self.got.get(first + i + 1).filter(|_| shift > 0).map_or(0, |bits| bits << (64 - shift));
            *word = low | high;
            if *word != 0 {
                used = i + 1;
            }
        }
        (words, used)
    }
}

impl Reassembly {
    pub(crate) fn new(room: Room) -> Reassembly {
        Reassembly { incoming: VecDeque::new(), bytes: 0, room, completed: Window::new(), to_say: VecDeque::new() }
    }

    fn find(&self, id: u64) -> Option<usize> {
        // The newest message is the one whose fragments come.
        self.incoming.iter().rposition(|incoming| incoming.shape.id == id)
    }

    /// Whether a fragment may be taken.
    ///
    /// # Errors
    /// Earlier fragments of its message say something else of it.
    pub(crate) fn check(&self, fragment: &Fragment<'_>) -> Result<(), ReceiveError> {
        match self.find(fragment.shape.id) {
            Some(at) if self.incoming[at].shape != fragment.shape => Err(ReceiveError::Conflict),
            _ => Ok(()),
        }
    }

    /// Takes a fragment that passed [`Reassembly::check`], from datagram `number`; gives the message if it is complete now.
    pub(crate) fn take(
        &mut self,
        now_us: u64,
        number: u64,
        fragment: &Fragment<'_>,
        counters: &mut Counters,
    ) -> Option<Packet> {
        let shape = fragment.shape;
        let at = match (self.find(shape.id), self.completed.seen(shape.id)) {
            (Some(at), _) => at,
            (None, Seen::New) => self.begin(shape, counters)?,
            (None, Seen::Before) => {
                counters.fragments_again += 1;
                self.say_completed(shape.id, (number, now_us), now_us);
                return None;
            }
            (None, Seen::Unknown) => {
                counters.fragments_forgotten += 1;
                return None;
            }
        };
        let incoming = &mut self.incoming[at];
        let fresh = !incoming.has(fragment.index);
        let filled = fresh && fragment.index == incoming.base && incoming.arrived > incoming.base;
        incoming.newest = incoming.newest.max((number, now_us));
        incoming.unsaid += 1;
        if fresh {
            incoming.take(fragment);
        } else {
            counters.fragments_again += 1;
        }
        if incoming.base == shape.fragments() {
            return self.complete(at, now_us);
        }
        let due_us = incoming.due(fragment, filled, now_us);
        incoming.due_us = Some(incoming.due_us.map_or(due_us, |before| before.min(due_us)));
        None
    }

    /// Makes room for a message and begins it, unless other peers have taken all; then its fragments come again.
    fn begin(&mut self, shape: Shape, counters: &mut Counters) -> Option<usize> {
        while self.incoming.len() >= INCOMING_MAX || self.bytes + shape.bytes() > INCOMING_BYTES_MAX {
            let Some(oldest) = self.incoming.pop_front() else { break };
            self.forget(&oldest);
            counters.incoming_given_up += 1;
        }
        if !self.room.take(self.bytes, shape.bytes()) {
            counters.fragments_without_room += 1;
            return None;
        }
        self.bytes += shape.bytes();
        self.incoming.push_back(Incoming::new(shape));
        Some(self.incoming.len() - 1)
    }

    fn forget(&mut self, incoming: &Incoming) {
        self.bytes -= incoming.shape.bytes();
        self.room.give_back(incoming.shape.bytes());
    }

    fn complete(&mut self, at: usize, now_us: u64) -> Option<Packet> {
        let incoming = self.incoming.remove(at)?;
        let shape = incoming.shape;
        self.forget(&incoming);
        if self.completed.seen(shape.id) == Seen::New {
            self.completed.insert(shape.id); // Else it is so old that no fragment of it is taken any more.
        }
        // The answer to a message of a few fragments comes soon; the sender of more has to go on.
        let due_us = if shape.fragments() > ACK_EVERY { now_us } else { now_us + ACK_DELAY_US };
        self.say_completed(shape.id, incoming.newest, due_us);
        Some(Packet::encoded(incoming.head, Bytes::from(incoming.bulk)))
    }

    fn say_completed(&mut self, id: u64, newest: (u64, u64), due_us: u64) {
        if let Some(completed) = self.to_say.iter_mut().find(|completed| completed.id == id) {
            completed.newest = completed.newest.max(newest);
            completed.due_us = completed.due_us.min(due_us);
            return;
        }
        if self.to_say.len() == COMPLETED_ACKS_MAX {
            self.to_say.pop_front(); // Its sender asks again.
        }
        self.to_say.push_back(Completed { id, newest, due_us });
    }

    /// When the next acknowledgement must leave.
    #[inline]
    pub(crate) fn ack_due(&self) -> Option<u64> {
        if self.incoming.is_empty() && self.to_say.is_empty() {
            return None; // as nearly always
        }
        let incoming = self.incoming.iter().filter_map(|incoming| incoming.due_us);
        incoming.chain(self.to_say.iter().map(|completed| completed.due_us)).min()
    }

    /// Puts acknowledgements into a datagram that has `room` bytes left, due or not, as many as fit; gives their number.
    pub(crate) fn put_acks(&mut self, now_us: u64, room: usize, out: &mut Vec<u8>) -> u64 {
        let (end, mut put) = (out.len() + room, 0);
        while out.len() + ACK_BYTES_MAX <= end {
            let Some(Completed { id, newest: (number, at_us), .. }) = self.to_say.pop_front() else { break };
            let delay_us = now_us.saturating_sub(at_us);
            put_ack(out, &AckFront { id, complete: true, number, delay_us, base: 0 }, &[]);
            put += 1;
        }
        for incoming in self.incoming.iter_mut().filter(|incoming| incoming.due_us.is_some()) {
            if out.len() + ACK_BYTES_MAX > end {
                break;
            }
            let ((words, used), (number, at_us)) = (incoming.words(), incoming.newest);
            let (id, delay_us) = (incoming.shape.id, now_us.saturating_sub(at_us));
            put_ack(out, &AckFront { id, complete: false, number, delay_us, base: incoming.base }, &words[..used]);
            incoming.unsaid = 0;
            incoming.due_us = None;
            put += 1;
        }
        put
    }

    /// Gives up messages of which nothing came for long.
    pub(crate) fn expire(&mut self, now_us: u64, counters: &mut Counters) {
        let (kept, idle) = std::mem::take(&mut self.incoming)
            .into_iter()
            .partition(|incoming: &Incoming| incoming.newest.1 + INCOMING_IDLE_US > now_us);
        self.incoming = kept;
        counters.incoming_given_up += idle.len() as u64;
        idle.iter().for_each(|incoming| self.forget(incoming));
    }

    /// When [`Reassembly::expire`] has something to do.
    pub(crate) fn expires(&self) -> Option<u64> {
        self.incoming.iter().map(|incoming| incoming.newest.1 + INCOMING_IDLE_US).min()
    }

    /// Messages and bytes that are incomplete.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.incoming.len(), self.bytes)
    }
}

impl Drop for Reassembly {
    fn drop(&mut self) {
        self.room.give_back(self.bytes);
    }
}
