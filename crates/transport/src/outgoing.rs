//! Messages that leave in fragments: each fragment is sent until it is acknowledged, or the message has had its time.

use crate::congestion::Congestion;
use crate::counters::Counters;
use crate::limits::{
    MESSAGE_GIVE_UP_US, MESSAGE_TIME_US, OUTGOING_MAX, QUEUE_GIVE_UP_US, REORDER_DATAGRAMS, SILENT_TIMEOUTS,
};
use crate::part::{Ack, Shape, put_fragment};
use onpath_wire::{NodeId, Packet};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unsent,
    UnderWay,
    Lost,
    Arrived,
}

/// A fragment, and the datagram that it was last sent in.
#[derive(Clone, Copy, Debug)]
struct Piece {
    number: u64,
    state: State,
}

/// A message of which fragments are under way.
#[derive(Debug)]
struct Active {
    shape: Shape,
    packet: Packet,
    pieces: Vec<Piece>,
    /// Those before it have been sent.
    unsent: u32,
    /// Those before it have arrived.
    base: u32,
    begun_us: u64,
    progress_us: u64,
}

/// A message that waits for its turn.
#[derive(Debug)]
struct Waiting {
    since_us: u64,
    to: NodeId,
    packet: Packet,
}

/// A fragment sent, in the order of datagrams.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    at_us: u64,
    id: u64,
    index: u32,
}

/// A fragment to send next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    at: usize,
    index: u32,
    /// Bytes of the message in it.
    pub(crate) bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Outgoing {
    stride: u16,
    last_id: u64,
    waiting: VecDeque<Waiting>,
    active: VecDeque<Active>,
    flight: VecDeque<Sent>,
    lost: VecDeque<(u64, u32)>,
    /// Fragments sent again at the end of everything, to be sent once more: no later datagram would tell that they are lost again.
    doubles: VecDeque<(u64, u32)>,
    /// The highest number of a datagram that has arrived.
    arrived: u64,
    /// Fragments that may leave whatever window and pacer say, after a timeout.
    probes: u32,
    /// Since when the timer runs.
    timer_from_us: u64,
    /// Bytes of all these messages.
    bytes: usize,
}

fn size(packet: &Packet) -> usize {
    packet.head.len() + packet.bulk.len()
}

impl Active {
    fn piece_bytes(&self, index: u32) -> u64 {
        let stride = usize::from(self.shape.stride);
        stride.min(self.shape.bytes() - index as usize * stride) as u64
    }

    /// Whether it is news that this fragment has arrived.
    fn arrive(&mut self, index: u32, congestion: &mut Congestion) -> bool {
        let bytes = self.piece_bytes(index);
        let Some(piece) = self.pieces.get_mut(index as usize) else { return false };
        match piece.state {
            State::Arrived | State::Unsent => return false,
            State::UnderWay => congestion.in_flight -= bytes,
            State::Lost => {}
        }
        piece.state = State::Arrived;
        true
    }

    /// Marks all that an acknowledgement tells of; gives how many are new.
    fn arrive_all(&mut self, ack: &Ack<'_>, congestion: &mut Congestion) -> u64 {
        let count = self.pieces.len() as u32;
        let base = if ack.complete { count } else { ack.base.min(count) };
        let mut news = 0;
        for index in self.base..base {
            news += u64::from(self.arrive(index, congestion));
        }
        self.base = self.base.max(base);
        for (i, mut word) in ack.words().enumerate() {
            while word != 0 {
                let index = ack.base + 64 * i as u32 + word.trailing_zeros();
                word &= word - 1;
                if index < count {
                    news += u64::from(self.arrive(index, congestion));
                }
            }
        }
        news
    }

    fn leave(&self, congestion: &mut Congestion) {
        for (index, piece) in self.pieces.iter().enumerate() {
            if piece.state == State::UnderWay {
                congestion.in_flight -= self.piece_bytes(index as u32);
            }
        }
    }

    fn gives_up_us(&self) -> u64 {
        (self.progress_us + MESSAGE_GIVE_UP_US).min(self.begun_us + MESSAGE_TIME_US)
    }
}

impl Outgoing {
    pub(crate) fn new(stride: usize) -> Outgoing {
        Outgoing {
            stride: stride as u16,
            last_id: 0,
            waiting: VecDeque::new(),
            active: VecDeque::new(),
            flight: VecDeque::new(),
            lost: VecDeque::new(),
            doubles: VecDeque::new(),
            arrived: 0,
            probes: 0,
            timer_from_us: 0,
            bytes: 0,
        }
    }

    /// From now on messages are cut into fragments of `stride` bytes. Those under way in longer ones begin again, as other messages: what
    /// has arrived of them counts no more, and one that has arrived whole arrives again.
    pub(crate) fn set_stride(&mut self, stride: usize, congestion: &mut Congestion) {
        self.stride = stride as u16;
        while let Some(at) = self.active.iter().rposition(|active| active.shape.stride > self.stride) {
            let Some(active) = self.active.remove(at) else { return };
            active.leave(congestion);
            let Active { shape, packet, begun_us, .. } = active;
            self.waiting.push_front(Waiting { since_us: begun_us, to: shape.to, packet });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.active.is_empty()
    }

    /// Messages and bytes that wait or are under way.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.waiting.len() + self.active.len(), self.bytes)
    }

    pub(crate) fn push(&mut self, now_us: u64, to: NodeId, packet: Packet) {
        self.bytes += size(&packet);
        self.waiting.push_back(Waiting { since_us: now_us, to, packet });
    }

    /// Forgets everything; gives how many messages that were.
    pub(crate) fn clear(&mut self) -> usize {
        let count = self.waiting.len() + self.active.len();
        *self = Outgoing { last_id: self.last_id, arrived: self.arrived, ..Outgoing::new(self.stride.into()) };
        count
    }

    fn find(&self, id: u64) -> Option<usize> {
        self.active.iter().position(|active| active.shape.id == id)
    }

    fn piece(&mut self, id: u64, index: u32) -> Option<(u64, &mut Piece)> {
        let at = self.find(id)?;
        let bytes = self.active[at].piece_bytes(index);
        Some((bytes, &mut self.active[at].pieces[index as usize]))
    }

    /// The fragment to send next, if window and pacer let it leave: lost ones first, then the oldest message, then what was lost once more.
    pub(crate) fn choose(&mut self, now_us: u64, congestion: &mut Congestion) -> Option<Choice> {
        let free = congestion.timeouts < SILENT_TIMEOUTS && congestion.may_leave();
        if self.probes == 0 && !free {
            return None;
        }
        let next = self.first_lost().or_else(|| self.first_unsent(now_us)).or_else(|| self.first_double())?;
        let (at, index) = next;
        let bytes = self.active[at].piece_bytes(index);
        let is_double = self.active[at].pieces[index as usize].state == State::UnderWay;
        let fits = self.probes > 0 || is_double || congestion.fits(bytes);
        fits.then_some(Choice { at, index, bytes: bytes as usize })
    }

    fn first_lost(&mut self) -> Option<(usize, u32)> {
        while let Some(&(id, index)) = self.lost.front() {
            let at = self.find(id).filter(|at| self.active[*at].pieces[index as usize].state == State::Lost);
            if let Some(at) = at {
                return Some((at, index));
            }
            self.lost.pop_front();
        }
        None
    }

    fn first_double(&mut self) -> Option<(usize, u32)> {
        while let Some(&(id, index)) = self.doubles.front() {
            let at = self.find(id).filter(|at| self.active[*at].pieces[index as usize].state == State::UnderWay);
            if let Some(at) = at {
                return Some((at, index));
            }
            self.doubles.pop_front();
        }
        None
    }

    fn has_unsent(&self) -> bool {
        self.active.iter().any(|active| (active.unsent as usize) < active.pieces.len())
    }

    fn first_unsent(&mut self, now_us: u64) -> Option<(usize, u32)> {
        let unsent = |active: &Active| (active.unsent as usize) < active.pieces.len();
        if let Some(at) = self.active.iter().position(unsent) {
            return Some((at, self.active[at].unsent));
        }
        if self.active.len() >= OUTGOING_MAX {
            return None;
        }
        let Waiting { to, packet, .. } = self.waiting.pop_front()?;
        self.last_id += 1;
        let (head, bulk) = (packet.head.len() as u32, packet.bulk.len() as u32);
        let shape = Shape { id: self.last_id, to, head, bulk, stride: self.stride };
        let pieces = vec![Piece { number: 0, state: State::Unsent }; shape.fragments() as usize];
        self.active.push_back(Active {
            shape,
            packet,
            pieces,
            unsent: 0,
            base: 0,
            begun_us: now_us,
            progress_us: now_us,
        });
        Some((self.active.len() - 1, 0))
    }

    /// Puts the chosen fragment into datagram `number`.
    pub(crate) fn put(
        &mut self,
        now_us: u64,
        choice: Choice,
        number: u64,
        out: &mut Vec<u8>,
        (congestion, counters): (&mut Congestion, &mut Counters),
    ) {
        let (at, index) = (choice.at, choice.index);
        let active = &mut self.active[at];
        put_fragment(out, &active.shape, index, &active.packet.head, &active.packet.bulk);
        let (id, piece) = (active.shape.id, &mut active.pieces[index as usize]);
        let before = std::mem::replace(piece, Piece { number, state: State::UnderWay }).state;
        match before {
            State::Unsent => active.unsent += 1,
            State::Lost => {
                self.lost.pop_front();
                if self.waiting.is_empty() && !self.has_unsent() {
                    self.doubles.push_back((id, index));
                }
            }
            State::UnderWay | State::Arrived => _ = self.doubles.pop_front(),
        }
        if before != State::Unsent {
            counters.fragments_resent += 1;
        }
        if before != State::UnderWay {
            congestion.in_flight += choice.bytes as u64;
        }
        self.flight.push_back(Sent { number, at_us: now_us, id, index });
        self.probes = self.probes.saturating_sub(1);
        self.timer_from_us = now_us;
        counters.fragments_sent += 1;
    }

    /// Takes an acknowledgement; `last` is the number of the last datagram sent.
    pub(crate) fn acknowledge(
        &mut self,
        now_us: u64,
        ack: &Ack<'_>,
        last: u64,
        (congestion, counters): (&mut Congestion, &mut Counters),
    ) {
        let Some(at) = self.find(ack.id).filter(|_| ack.number <= last) else {
            counters.acks_of_nothing += 1;
            return;
        };
        if let Ok(sent) = self.flight.binary_search_by_key(&ack.number, |sent| sent.number) {
            let passed_us = now_us.saturating_sub(self.flight[sent].at_us);
            if let Some(us) = passed_us.checked_sub(u64::from(ack.delay_us)) {
                congestion.measured(now_us, us);
            }
        }
        self.arrived = self.arrived.max(ack.number);
        let active = &mut self.active[at];
        let news = active.arrive_all(ack, congestion);
        if news > 0 {
            active.progress_us = now_us;
            congestion.timeouts = 0;
            self.probes = 0;
            congestion.count(news, 0);
        }
        if active.base as usize == active.pieces.len() {
            counters.fragmented_acknowledged += 1;
            self.remove(at, congestion);
        }
        congestion.acknowledged(ack.number, last);
    }

    fn remove(&mut self, at: usize, congestion: &mut Congestion) {
        if let Some(active) = self.active.remove(at) {
            active.leave(congestion);
            self.bytes -= size(&active.packet);
        }
    }

    /// Whether what was sent is neither acknowledged nor lost nor sent again.
    fn pending(&self, sent: &Sent) -> bool {
        self.find(sent.id).is_some_and(|at| {
            let piece = self.active[at].pieces[sent.index as usize];
            piece.state == State::UnderWay && piece.number == sent.number
        })
    }

    /// The oldest fragment under way.
    fn oldest(&mut self) -> Option<Sent> {
        while let Some(sent) = self.flight.front().copied() {
            if self.pending(&sent) {
                return Some(sent);
            }
            self.flight.pop_front();
        }
        None
    }

    fn lose(&mut self, sent: Sent, congestion: &mut Congestion) {
        self.flight.pop_front();
        if let Some((bytes, piece)) = self.piece(sent.id, sent.index) {
            piece.state = State::Lost;
            congestion.in_flight -= bytes;
            self.lost.push_back((sent.id, sent.index));
        }
    }

    /// Finds what is lost: it was overtaken by many, or by any and long ago.
    pub(crate) fn find_lost(&mut self, now_us: u64, congestion: &mut Congestion) {
        let overdue_us = congestion.overdue_us();
        while let Some(sent) = self.oldest().filter(|sent| sent.number < self.arrived) {
            if self.arrived - sent.number < REORDER_DATAGRAMS && now_us < sent.at_us + overdue_us {
                return;
            }
            self.lose(sent, congestion);
            congestion.count(0, 1);
        }
    }

    fn timer_us(&self, congestion: &Congestion) -> Option<u64> {
        let silent = congestion.timeouts >= SILENT_TIMEOUTS && !self.waiting.is_empty();
        (silent || !self.active.is_empty()).then(|| self.timer_from_us + congestion.timeout_us())
    }

    /// If nothing was heard for long, lets the oldest fragments leave again.
    pub(crate) fn check_timer(&mut self, now_us: u64, congestion: &mut Congestion, counters: &mut Counters) {
        if self.timer_us(congestion).is_none_or(|timer_us| now_us < timer_us) {
            return;
        }
        congestion.timed_out();
        counters.timeouts += 1;
        self.timer_from_us = now_us;
        self.probes = if congestion.timeouts < SILENT_TIMEOUTS { 2 } else { 1 };
        for _ in 0..self.probes {
            if let Some(sent) = self.oldest() {
                self.lose(sent, congestion);
            }
        }
    }

    /// Drops messages that have had their time.
    pub(crate) fn expire(&mut self, now_us: u64, congestion: &mut Congestion, counters: &mut Counters) {
        while self.waiting.front().is_some_and(|waiting| waiting.since_us + QUEUE_GIVE_UP_US <= now_us) {
            if let Some(waiting) = self.waiting.pop_front() {
                self.bytes -= size(&waiting.packet);
                counters.messages_given_up += 1;
            }
        }
        while let Some(at) = self.active.iter().position(|active| active.gives_up_us() <= now_us) {
            self.remove(at, congestion);
            counters.messages_given_up += 1;
        }
        if self.active.is_empty() {
            self.flight.clear();
            self.lost.clear();
            self.doubles.clear();
            self.probes = 0;
        }
    }

    /// When the first message that waits is given up.
    pub(crate) fn waits_until(&self) -> Option<u64> {
        self.waiting.front().map(|waiting| waiting.since_us + QUEUE_GIVE_UP_US)
    }

    /// When something is to be done next.
    pub(crate) fn deadline(&self, congestion: &Congestion) -> Option<u64> {
        let begins = || !self.waiting.is_empty() && self.active.len() < OUTGOING_MAX;
        let more = !self.lost.is_empty() || self.has_unsent() || begins();
        let silent = congestion.timeouts >= SILENT_TIMEOUTS;
        // What the window holds back waits for an acknowledgement, what the pacer holds back for its time.
        let room = !silent && congestion.has_room(u64::from(self.stride));
        let paced = (more && room).then(|| congestion.refilled_at());
        let doubling = (!self.doubles.is_empty() && !more && !silent).then(|| congestion.refilled_at());
        let probing = (more && self.probes > 0).then_some(0);
        let overdue = self.flight.front().filter(|sent| sent.number < self.arrived);
        let overdue = overdue.map(|sent| sent.at_us + congestion.overdue_us());
        let given_up = self.active.iter().map(Active::gives_up_us).min();
        [paced, doubling, probing, overdue, self.waits_until(), given_up, self.timer_us(congestion)]
            .into_iter()
            .flatten()
            .min()
    }
}
