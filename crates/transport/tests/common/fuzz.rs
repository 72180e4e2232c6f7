//! Hostile input for a peer: random bytes, and valid datagrams in which something was changed, at random or where it hurts.

use super::{Dice, PAYLOAD, config, drain, packet};
use onpath_transport::handshake::To;
use onpath_transport::{Agreed, Delivered, EndpointId, HEAD_BYTES, Key, Peer, handshake, limits, peek};
use onpath_wire::NodeId;
use onpath_wire::checksum::crc32c;

/// What became of the inputs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) inputs: u64,
    pub(crate) taken: u64,
    pub(crate) delivered: u64,
}

/// Valid datagrams of endpoint 1 with parts of all kinds.
fn samples(key: Option<Key>) -> Vec<Vec<u8>> {
    let mut a = Peer::new(config(1, 11, key.clone()), EndpointId(2), PAYLOAD);
    let mut b = Peer::new(config(2, 22, key.clone()), EndpointId(1), PAYLOAD);
    a.set_boot(22, Agreed::new([5; 32]));
    b.set_boot(11, Agreed::new([5; 32]));
    let hello = handshake::make(&config(1, 11, key.clone()), To { cluster: 1, boot: 22, key: None }, 0, b"hello");
    let (mut all, mut delivered) = (vec![hello], Vec::new());
    for name in 0..6 {
        b.send(0, NodeId(1), packet(name, 80, 9_000)).expect("room");
        a.send(0, NodeId(2), packet(name, 80, 5_000)).expect("room");
    }
    for datagram in drain(&mut b, 0).iter_mut().step_by(2) {
        a.receive(0, datagram, &mut delivered).expect("it is whole");
    }
    for name in 0..20 {
        a.send(0, NodeId(2), packet(name, 72 + name as usize * 9, 30)).expect("room");
    }
    all.extend(drain(&mut a, 500));
    all.push(a.single(NodeId(2), &packet(9, 80, 100)).expect("it fits"));
    all
}

/// A value that is likely to be at some border.
fn edge(dice: &mut Dice) -> u64 {
    let borders = [0_u64, 1, 7, 8, 255, 256, 1 << 15, 1 << 20, 3 << 20, 1 << 31, 1 << 32, 1 << 63];
    borders[dice.below(borders.len() as u64) as usize].wrapping_add(dice.below(3)).wrapping_sub(1)
}

fn mutate(datagram: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let at = dice.below(datagram.len() as u64) as usize;
        match dice.below(7) {
            0 => datagram[at] ^= 1 << dice.below(8),
            1 => datagram[at] = dice.next() as u8,
            2 | 3 => {
                // A field of a part, or of the header.
                let at = at / 4 * 4;
                let value = edge(dice).to_le_bytes();
                let width = [1, 2, 4, 8][dice.below(4) as usize].min(datagram.len() - at);
                datagram[at..at + width].copy_from_slice(&value[..width]);
            }
            4 => datagram.truncate(at.max(1)),
            5 => datagram.extend((0..dice.below(64)).map(|_| dice.next() as u8)),
            _ => {
                let from = dice.below(datagram.len() as u64) as usize;
                let bytes = (dice.below(64) as usize).min(datagram.len() - at).min(datagram.len() - from);
                datagram.copy_within(from..from + bytes, at);
            }
        }
    }
}

/// Makes length and checksum fit, and the number new, so that the parts are looked at.
fn repair(datagram: &mut [u8], number: u64) {
    if datagram.len() >= HEAD_BYTES {
        let length = datagram.len() as u32;
        datagram[16..24].copy_from_slice(&number.to_le_bytes());
        datagram[40..44].copy_from_slice(&length.to_le_bytes());
        datagram[12..16].fill(0);
        let check = crc32c(datagram);
        datagram[12..16].copy_from_slice(&check.to_le_bytes());
    }
}

/// Throws inputs at a peer until `more` says no; asserts bounds all the way.
pub(crate) fn run(seed: u64, key: Option<Key>, mut more: impl FnMut(u64) -> bool) -> Outcome {
    let (mut dice, mut outcome, sealed) = (Dice(seed), Outcome::default(), key.is_some());
    let samples = samples(key.clone());
    let handshakes = config(2, 22, key.clone());
    let (mut input, mut delivered) = (Vec::new(), Vec::<Delivered>::new());
    let fresh = || {
        let mut peer = Peer::new(config(2, 22, key.clone()), EndpointId(1), PAYLOAD);
        peer.set_boot(11, Agreed::new([5; 32]));
        // Something under way, so that acknowledgements meet it.
        (0..3).for_each(|name| peer.send(0, NodeId(1), packet(name, 80, 9_000)).expect("room"));
        drain(&mut peer, 0);
        peer
    };
    let mut peer = fresh();
    while more(outcome.inputs) {
        outcome.inputs += 1;
        let (now_us, number) = (outcome.inputs, outcome.inputs);
        let sample = &samples[dice.below(samples.len() as u64) as usize];
        input.clear();
        if dice.percent(2) {
            input.extend((0..dice.below(200)).map(|_| dice.next() as u8));
        } else {
            input.extend_from_slice(sample);
            mutate(&mut input, &mut dice);
        }
        let repaired = !sealed && dice.percent(90);
        if repaired {
            repair(&mut input, number);
        }
        let same = samples.contains(&input);
        let opened = peek(&input).and_then(|head| handshake::open(&handshakes, &head, &mut input.clone()));
        assert!(opened.is_err() || repaired || same, "a handshake that was changed was opened");
        if peer.receive(now_us, &mut input, &mut delivered).is_ok() {
            outcome.taken += 1;
            assert!(repaired || same, "a datagram that was changed was taken");
        }
        outcome.delivered += delivered.len() as u64;
        delivered.clear();
        let (messages, bytes) = peer.incomplete();
        assert!(messages <= limits::INCOMING_MAX && bytes <= limits::INCOMING_BYTES_MAX);
        if outcome.inputs.is_multiple_of(256) {
            drain(&mut peer, now_us);
            peer.next_deadline();
        }
        if outcome.inputs.is_multiple_of(65_536) {
            peer = fresh();
        }
    }
    outcome
}
