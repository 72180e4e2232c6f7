//! The state towards one other endpoint: what waits for it, what is under way, what has come from it.

mod receive;
mod transmit;

pub use transmit::Transmit;

use crate::congestion::Congestion;
use crate::counters::Counters;
use crate::error::SendError;
use crate::exchange::Agreed;
use crate::head::{CHECK_AT, EndpointId, HEAD_BYTES, Head, flag};
use crate::keys::Keyring;
use crate::limits::{
    BULK_BYTES_MAX, DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MIN, HEAD_BYTES_MAX, NUMBER_MAX, QUEUED_BYTES_MAX,
    QUEUED_MESSAGES_MAX, SEGMENTS_MAX, WINDOW,
};
use crate::losses::Losses;
use crate::outgoing::Outgoing;
use crate::part::{FRAGMENT_AT, MESSAGE_AT, PART_BYTES, part_bytes, put_message};
use crate::reassembly::{Reassembly, Room};
use crate::seal::{Key, Seal, TAG_BYTES};
use crate::window::Window;
use onpath_wire::checksum::crc32c;
use onpath_wire::{NodeId, Packet};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// What an endpoint is towards all others.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of the cluster.
    pub cluster: u32,
    /// This endpoint.
    pub me: EndpointId,
    /// Random name of this start, not 0.
    pub boot: u64,
    /// The keys of the cluster, if datagrams are to be sealed.
    pub keyring: Keyring,
    /// What incomplete messages of all peers may take.
    pub room: Room,
}

/// What datagrams to and from one start of a peer are sealed and opened with, each with the name of its key.
#[derive(Debug)]
struct Seals {
    /// Of the keys that they are made of.
    version: u64,
    send: (u32, Seal),
    open: SmallVec<[(u32, Seal); 1]>,
}

/// A message that has arrived, and for which of our nodes.
pub type Delivered = (NodeId, Packet);

/// Bytes of the part that a whole message of `bytes` is.
fn message_parts(bytes: usize) -> usize {
    part_bytes(MESSAGE_AT - PART_BYTES + bytes)
}

/// Bytes of parts that fit a datagram with a tag of `tag` bytes.
fn parts_of(datagram_bytes_max: usize, tag: usize) -> usize {
    let datagram = datagram_bytes_max.clamp(DATAGRAM_BYTES_MIN, DATAGRAM_BYTES_MAX);
    (datagram - HEAD_BYTES - tag) / 8 * 8
}

/// State towards one other endpoint. Takes the time, gives bytes; does nothing by itself.
///
/// A process has at most one of it for each endpoint: number and boot of a datagram must never repeat. If it forgets a peer and meets it
/// again in the same life, it goes on with [`Peer::resume`].
#[derive(Debug)]
pub struct Peer {
    config: Arc<Config>,
    peer: EndpointId,
    boot: Option<u64>,
    /// The last datagram's number.
    number: u64,
    /// Most bytes of parts in a datagram, a multiple of 8.
    parts_max: usize,
    /// What was agreed with that start of it.
    agreed: Option<Agreed>,
    /// Name of the key that it has shown.
    shown: Option<u32>,
    seals: Option<Seals>,
    window: Window<{ WINDOW / 64 }>,
    losses: Losses,
    messages: VecDeque<(NodeId, Packet)>,
    messages_bytes: usize,
    outgoing: Outgoing,
    /// Whether fragments leave next, if both they and others could.
    fragments_first: bool,
    congestion: Congestion,
    reassembly: Reassembly,
    counters: Counters,
}

impl Peer {
    /// A peer of which nothing is known yet. `datagram_bytes_max` is the UDP payload that fits the way there.
    pub fn new(config: Arc<Config>, peer: EndpointId, datagram_bytes_max: usize) -> Peer {
        Peer::resume(config, peer, datagram_bytes_max, 0)
    }

    /// A peer that was forgotten in this life; `number` is what [`Peer::number`] was.
    pub fn resume(config: Arc<Config>, peer: EndpointId, datagram_bytes_max: usize, number: u64) -> Peer {
        let tag = if config.keyring.seals() { TAG_BYTES } else { 0 };
        let parts_max = parts_of(datagram_bytes_max, tag);
        Peer {
            peer,
            boot: None,
            number,
            parts_max,
            agreed: None,
            shown: None,
            seals: None,
            window: Window::new(),
            losses: Losses::default(),
            messages: VecDeque::new(),
            messages_bytes: 0,
            outgoing: Outgoing::new(parts_max - FRAGMENT_AT),
            fragments_first: false,
            congestion: Congestion::new(HEAD_BYTES + parts_max + tag),
            reassembly: Reassembly::new(config.room.clone()),
            counters: Counters::default(),
            config,
        }
    }

    /// The other endpoint.
    pub fn endpoint(&self) -> EndpointId {
        self.peer
    }

    /// The number of the last datagram made.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The peer's present start, if a handshake has told it.
    pub fn boot(&self) -> Option<u64> {
        self.boot
    }

    /// The peer's present start, and what was agreed with that. If it is another one than before, what was known of the former is forgotten,
    /// and fragmented messages to it are dropped.
    pub fn set_boot(&mut self, boot: u64, agreed: Agreed) {
        let former = self.boot.replace(boot);
        if former == Some(boot) {
            return;
        }
        self.agreed = Some(agreed);
        self.make_seals();
        self.window = Window::new();
        self.losses = Losses::default();
        self.reassembly = Reassembly::new(self.config.room.clone());
        self.congestion = Congestion::new(self.datagram_bytes());
        if former.is_some() {
            self.counters.messages_of_old_boot += self.outgoing.clear() as u64;
        }
    }

    /// The peer has shown that it has the key of this name: what it is sent is sealed with that, as long as it is valid.
    pub fn use_key(&mut self, id: u32) {
        if self.shown.replace(id) != Some(id) {
            self.make_seals();
        }
    }

    /// Derives what is sealed and opened with, once it is known with whom.
    fn make_seals(&mut self) {
        let (Some(boot), Some(agreed)) = (self.boot, self.agreed.as_ref()) else { return };
        let Config { keyring, cluster, me, boot: own, .. } = &*self.config;
        let version = keyring.version();
        let Some(keys) = keyring.keys() else { return };
        let sent_with = self.shown.and_then(|id| keys.named(id)).unwrap_or(&keys.first);
        let send = (sent_with.id(), Seal::new((sent_with, Some(agreed)), *cluster, *me, *own, self.peer));
        let opening = |key: &Key| (key.id(), Seal::new((key, Some(agreed)), *cluster, self.peer, boot, *me));
        // Who has shown a key of its own has that alone.
        let open = match self.shown.and_then(|id| keys.owned.get(&id)) {
            Some(owned) => std::iter::once(opening(&owned.key)).collect(),
            None => keys.all().map(opening).collect(),
        };
        self.seals = Some(Seals { version, send, open });
    }

    /// The same again if the keys have changed.
    #[inline]
    fn renew_seals(&mut self) {
        if self.seals.as_ref().is_some_and(|seals| seals.version != self.config.keyring.version()) {
            self.make_seals();
        }
    }

    /// Most bytes of a datagram.
    pub fn datagram_bytes(&self) -> usize {
        HEAD_BYTES + self.parts_max + self.tag()
    }

    /// The way there takes other datagrams than before. Messages that wait or are under way in longer ones leave anew in fragments that fit.
    /// Gives whether anything is different.
    pub fn set_datagram_bytes(&mut self, now_us: u64, datagram_bytes_max: usize) -> bool {
        let parts_max = parts_of(datagram_bytes_max, self.tag());
        let before = std::mem::replace(&mut self.parts_max, parts_max);
        if parts_max == before {
            return false;
        }
        self.outgoing.set_stride(parts_max - FRAGMENT_AT, &mut self.congestion);
        self.congestion.set_datagram(self.datagram_bytes());
        for (to, packet) in std::mem::take(&mut self.messages) {
            let bytes = packet.head.len() + packet.bulk.len();
            if message_parts(bytes) <= parts_max {
                self.messages.push_back((to, packet));
            } else {
                self.messages_bytes -= bytes;
                self.outgoing.push(now_us, to, packet);
            }
        }
        self.counters.paths_changed += 1;
        true
    }

    fn tag(&self) -> usize {
        if self.config.keyring.seals() { TAG_BYTES } else { 0 }
    }

    /// Messages and bytes that wait for this peer or are under way.
    pub fn queued(&self) -> (usize, usize) {
        let (messages, bytes) = self.outgoing.held();
        (self.messages.len() + messages, self.messages_bytes + bytes)
    }

    /// Messages from this peer that are incomplete, and the bytes set aside for them.
    pub fn incomplete(&self) -> (usize, usize) {
        self.reassembly.held()
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }

    /// Queues a message for a node of the peer. Its in-network header is not looked at.
    ///
    /// # Errors
    /// It is too long, or too much waits; it is counted as lost.
    pub fn send(&mut self, now_us: u64, to: NodeId, packet: Packet) -> Result<(), SendError> {
        let (head, bulk) = (packet.head.len(), packet.bulk.len());
        let fits = if head > HEAD_BYTES_MAX {
            Err(SendError::TooLong { bytes: head, max: HEAD_BYTES_MAX })
        } else if bulk > BULK_BYTES_MAX {
            Err(SendError::TooLong { bytes: bulk, max: BULK_BYTES_MAX })
        } else {
            let (messages, bytes) = self.queued();
            let full = messages >= QUEUED_MESSAGES_MAX || bytes + head + bulk > QUEUED_BYTES_MAX;
            if full { Err(SendError::Full) } else { Ok(()) }
        };
        if fits.is_err() {
            self.counters.messages_refused += 1;
        } else if message_parts(head + bulk) <= self.parts_max {
            self.messages_bytes += head + bulk;
            self.messages.push_back((to, packet));
        } else {
            self.outgoing.push(now_us, to, packet);
        }
        fits
    }

    /// One message alone in one datagram, to travel behind its in-network header, for which there is room.
    ///
    /// # Errors
    /// It does not fit, or the peer's boot is not known.
    pub fn single(&mut self, to: NodeId, packet: &Packet) -> Result<Vec<u8>, SendError> {
        let boot = self.boot.ok_or(SendError::NoBoot)?;
        let bytes = message_parts(packet.head.len() + packet.bulk.len());
        let header = packet.innet.as_deref().map_or(0, |innet| innet.length());
        let max = (self.parts_max - header) / 8 * 8;
        if bytes > max {
            self.counters.messages_refused += 1;
            return Err(SendError::TooLong { bytes, max });
        }
        self.check_numbers()?;
        let mut out = Vec::with_capacity(HEAD_BYTES + bytes + TAG_BYTES);
        let number = self.begin(&mut out);
        put_message(&mut out, to, &packet.head, &packet.bulk);
        self.finish(&mut out, 0, (number, 0), boot);
        self.counters.messages_sent += 1;
        Ok(out)
    }

    /// Whether another run of datagrams still has numbers.
    fn check_numbers(&self) -> Result<(), SendError> {
        if self.number < NUMBER_MAX - 2 * SEGMENTS_MAX as u64 { Ok(()) } else { Err(SendError::Exhausted) }
    }

    /// Begins a datagram: room for its header, and its number.
    #[inline]
    fn begin(&mut self, out: &mut Vec<u8>) -> u64 {
        out.extend_from_slice(&[0; HEAD_BYTES]);
        self.number += 1;
        self.number
    }

    /// Writes the header of the datagram that begins at `start`, with these flags among others, and seals it.
    #[inline]
    fn finish(&mut self, out: &mut Vec<u8>, start: usize, (number, flags): (u64, u8), to_boot: u64) {
        self.renew_seals();
        let length = (out.len() - start + self.tag()) as u32;
        let key = self.seals.as_ref().map_or(0, |seals| seals.send.0);
        let head = Head {
            flags: flags | if self.seals.is_some() { flag::SEALED } else { 0 },
            cluster: self.config.cluster,
            endpoint: self.config.me,
            check: key,
            number,
            boot: self.config.boot,
            to_boot,
            length,
        };
        let datagram = &mut out[start..];
        datagram[..HEAD_BYTES].copy_from_slice(&head.bytes());
        if let Some(Seals { send: (_, seal), .. }) = &self.seals {
            let tag = seal.seal(number, datagram);
            out.extend_from_slice(&tag);
        } else {
            let check = crc32c(datagram);
            datagram[CHECK_AT..CHECK_AT + 4].copy_from_slice(&check.to_le_bytes());
        }
        self.counters.datagrams_sent += 1;
        self.counters.bytes_sent += (out.len() - start) as u64;
    }
}
