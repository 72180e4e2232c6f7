//! Messages that make no sense: valid ones in which something was changed, and random bytes.

#![allow(dead_code, reason = "the test and the example use different parts")]

pub(crate) mod cluster;
pub(crate) mod decoders;
pub(crate) mod flights;
pub(crate) mod mounts;
pub(crate) mod questions;

use onpath_wire::data::{DataReply, DataRequest, Merge};
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{NodeClass, NodeId};
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;
use onpath_wire::request::RequestBody;
use onpath_wire::tracking::{SwitchCommand, SwitchStatus};

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

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn one<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// A value that is likely to be at some border.
pub(crate) fn edge(dice: &mut Dice) -> u64 {
    let borders = [
        0_u64,
        1,
        2,
        4,
        8,
        64,
        255,
        256,
        4096,
        65_535,
        1 << 16,
        1 << 20,
        1 << 22,
        1 << 24,
        1 << 31,
        1 << 32,
        1 << 40,
        16 << 40,
        1 << 47,
        1 << 48,
        1 << 63,
    ];
    dice.one(&borders).wrapping_add(dice.below(3) as u64).wrapping_sub(1)
}

/// Changes bytes at a few places; `values` are words that mean something to whoever reads them.
pub(crate) fn mutate(bytes: &mut Vec<u8>, values: &[u64], dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        if bytes.is_empty() {
            return bytes.push(dice.next() as u8);
        }
        let at = dice.below(bytes.len());
        match dice.below(8) {
            0 => bytes[at] ^= 1 << dice.below(8),
            1 => bytes[at] = dice.next() as u8,
            2 | 3 => {
                let value = edge(dice).to_le_bytes();
                let width = [1, 2, 4, 8][dice.below(4)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&value[..width]);
            }
            4 | 5 if !values.is_empty() => {
                let value = dice.one(values).to_le_bytes();
                let width = value.len().min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&value[..width]);
            }
            4 | 5 => bytes.truncate(at),
            6 => bytes.extend((0..dice.below(64)).map(|_| dice.next() as u8)),
            _ => {
                let from = dice.below(bytes.len());
                let count = dice.below(64).min(bytes.len() - at).min(bytes.len() - from);
                bytes.copy_within(from..from + count, at);
            }
        }
    }
}

/// Whether the body is one that a role at `to` would decode.
pub(crate) fn decodes(to: NodeId, packet: &Packet) -> bool {
    let Ok(header) = packet.header() else { return false };
    match (header.kind(), to.class()) {
        (MessageKind::Request, _) => packet.body::<RequestBody>().is_ok(),
        (MessageKind::Peer, _) => packet.body::<Peer>().is_ok(),
        (MessageKind::Data, Some(NodeClass::Shard)) => packet.body::<Merge>().is_ok(),
        (MessageKind::Data, _) => packet.body::<DataRequest>().is_ok(),
        (MessageKind::Switch, _) => packet.body::<SwitchCommand>().is_ok(),
        (MessageKind::PeerAnswer, _) => {
            packet.body::<Peer>().is_ok() || packet.body::<DataReply>().is_ok() || packet.body::<SwitchStatus>().is_ok()
        }
        (MessageKind::Reply, _) => packet.body::<Reply>().is_ok(),
        (MessageKind::DataReply, _) => packet.body::<DataReply>().is_ok(),
    }
}
