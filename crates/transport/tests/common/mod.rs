//! Two endpoints and the way between them on virtual time: bandwidth, delay, a bounded queue, loss, reordering, doubles.

#![allow(dead_code)]

pub(crate) mod fuzz;

use onpath_transport::{Agreed, Config, Delivered, EndpointId, Key, Keyring, Keys, Peer, Room, Transmit};
use onpath_wire::{NodeId, Packet};
use std::collections::BTreeMap;
use std::sync::Arc;

/// UDP payload of an Ethernet frame.
pub(crate) const PAYLOAD: usize = 1_472;

/// A generator of numbers, the same on every machine (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

pub(crate) fn config(me: u32, boot: u64, key: Option<Key>) -> Arc<Config> {
    Arc::new(Config {
        cluster: 1,
        me: EndpointId(me),
        boot,
        keyring: Keyring::new(key.map(Keys::one)),
        room: Room::default(),
    })
}

/// Endpoints 1 (boot 11) and 2 (boot 22) that know each other.
pub(crate) fn pair(key: Option<Key>) -> (Peer, Peer) {
    let mut a = Peer::new(config(1, 11, key.clone()), EndpointId(2), PAYLOAD);
    let mut b = Peer::new(config(2, 22, key), EndpointId(1), PAYLOAD);
    a.set_boot(22, Agreed::new([5; 32]));
    b.set_boot(11, Agreed::new([5; 32]));
    (a, b)
}

/// A message whose bytes tell its name and their places.
pub(crate) fn packet(name: u64, head: usize, bulk: usize) -> Packet {
    let byte = |at: usize| (name.wrapping_mul(31) + at as u64 * 7 + (at as u64 >> 8)) as u8;
    let mut head: Vec<u8> = (0..head).map(byte).collect();
    if let Some(front) = head.first_chunk_mut::<8>() {
        *front = name.to_le_bytes();
    }
    Packet::encoded(head, (0..bulk).map(byte).collect::<Vec<u8>>().into())
}

/// The name of a message that is whole.
pub(crate) fn name_of(packet: &Packet) -> u64 {
    let name = u64::from_le_bytes(*packet.head.first_chunk().expect("a head with a name"));
    assert_eq!(*packet, self::packet(name, packet.head.len(), packet.bulk.len()), "message {name} is damaged");
    name
}

/// All datagrams that a peer sends now.
pub(crate) fn drain(peer: &mut Peer, now_us: u64) -> Vec<Vec<u8>> {
    let (mut out, mut all) = (Transmit::default(), Vec::new());
    while peer.poll_transmit(now_us, &mut out) {
        let datagrams: Vec<Vec<u8>> = out.datagrams().map(<[u8]>::to_vec).collect();
        assert!(datagrams.len() <= 64 && out.buf.len() <= 65_400, "a run is too long");
        all.extend(datagrams);
    }
    all
}

/// What a way does to datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// Bytes a millisecond.
    pub(crate) bytes_per_ms: u64,
    pub(crate) delay_us: u64,
    pub(crate) queue_bytes: u64,
    pub(crate) lost_percent: u64,
    pub(crate) doubled_percent: u64,
    /// Longer datagrams disappear.
    pub(crate) datagram_bytes: usize,
    /// Held up by up to three times the delay.
    pub(crate) held_up_percent: u64,
}

impl Way {
    /// 1 Gb/s over 100 µs, with a queue of 256 KiB that loses nothing else.
    pub(crate) const GOOD: Way = Way {
        bytes_per_ms: 125_000,
        delay_us: 100,
        queue_bytes: 256 << 10,
        lost_percent: 0,
        doubled_percent: 0,
        held_up_percent: 0,
        datagram_bytes: PAYLOAD,
    };
}

/// Two endpoints with a way in each direction.
pub(crate) struct World {
    pub(crate) now_us: u64,
    pub(crate) peers: [Peer; 2],
    pub(crate) way: Way,
    /// What has been delivered to each.
    pub(crate) delivered: [Vec<Delivered>; 2],
    /// Datagrams that each has sent, and bytes that the queue of each had no room for.
    pub(crate) sent: [u64; 2],
    pub(crate) overflowed: [u64; 2],
    /// Datagrams that the way did not take.
    pub(crate) too_long: [u64; 2],
    /// Nobody is at the other end: datagrams to it disappear.
    pub(crate) dead: bool,
    dice: Dice,
    free_ns: [u64; 2],
    under_way: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    count: u64,
}

impl World {
    pub(crate) fn new(way: Way, key: Option<Key>, seed: u64) -> World {
        let (a, b) = pair(key);
        World {
            now_us: 1_000,
            peers: [a, b],
            way,
            delivered: [Vec::new(), Vec::new()],
            sent: [0; 2],
            overflowed: [0; 2],
            too_long: [0; 2],
            dead: false,
            dice: Dice(seed),
            free_ns: [0; 2],
            under_way: BTreeMap::new(),
            count: 0,
        }
    }

    pub(crate) fn send(&mut self, from: usize, packet: Packet) {
        self.peers[from].send(self.now_us, NodeId(77), packet).expect("room");
    }

    fn leave(&mut self, from: usize, datagram: Vec<u8>) {
        self.sent[from] += 1;
        let (bytes, now_ns) = (datagram.len() as u64, self.now_us * 1_000);
        let waiting_ns = self.free_ns[from].saturating_sub(now_ns);
        if waiting_ns * self.way.bytes_per_ms / 1_000_000 > self.way.queue_bytes {
            self.overflowed[from] += bytes;
            return;
        }
        self.free_ns[from] = now_ns + waiting_ns + bytes * 1_000_000 / self.way.bytes_per_ms;
        if datagram.len() > self.way.datagram_bytes {
            self.too_long[from] += 1;
            return;
        }
        if self.dead || self.dice.percent(self.way.lost_percent) {
            return;
        }
        let copies = 1 + u64::from(self.dice.percent(self.way.doubled_percent));
        for _ in 0..copies {
            let held_up = self.dice.percent(self.way.held_up_percent);
            let more_us = if held_up { self.dice.below(3 * self.way.delay_us) } else { 0 };
            let at_us = self.free_ns[from].div_ceil(1_000) + self.way.delay_us + more_us;
            self.count += 1;
            self.under_way.insert((at_us, self.count), (1 - from, datagram.clone()));
        }
    }

    /// Does all that is due now.
    fn settle(&mut self) {
        while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= self.now_us) {
            let (to, mut datagram) = entry.remove();
            let _dropped = self.peers[to].receive(self.now_us, &mut datagram, &mut self.delivered[to]);
        }
        for from in 0..2 {
            for datagram in drain(&mut self.peers[from], self.now_us) {
                self.leave(from, datagram);
            }
        }
    }

    /// Goes on until `done`, or for `for_us`; gives whether it was done.
    pub(crate) fn run(&mut self, for_us: u64, mut done: impl FnMut(&mut World) -> bool) -> bool {
        let until_us = self.now_us + for_us;
        loop {
            self.settle();
            if done(self) {
                return true;
            }
            let arrival = self.under_way.first_key_value().map(|((at_us, _), _)| *at_us);
            let deadlines = self.peers.iter().filter_map(Peer::next_deadline);
            let next = deadlines.chain(arrival).min().unwrap_or(until_us);
            // A deadline that is past although nothing leaves would be a busy loop of the host.
            assert!(next > self.now_us, "{next} at {}: {:?}", self.now_us, self.peers);
            self.now_us = next;
            if self.now_us >= until_us {
                self.now_us = until_us;
                return false;
            }
        }
    }

    /// Whether the last message delivered to one end has this name.
    pub(crate) fn last_is(&self, to: usize, name: u64) -> bool {
        let last = self.delivered[to].last();
        last.is_some_and(|(_, packet)| name_of(packet) == name)
    }

    /// Names of the messages delivered to one end.
    pub(crate) fn names(&self, to: usize) -> Vec<u64> {
        let messages = self.delivered[to].iter().map(|(node, packet)| {
            assert_eq!(*node, NodeId(77));
            name_of(packet)
        });
        messages.collect()
    }
}
