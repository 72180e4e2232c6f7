//! Messages on their way, and what may be changed around what they say.

use super::cluster::SHARDS;
use super::{Dice, edge, mutate};
use onpath_wire::header::{HEADER_BYTES, MessageKind, OWN_BYTES, Of, Position};
use onpath_wire::ids::{NodeClass, NodeId, RecordSeq, RequestSeq, ShardId, Stamp, Term};
use onpath_wire::innet::{DirtySet, InNet};
use onpath_wire::packet::Packet;

/// Kinds of what hosts say to each other.
const KINDS: [MessageKind; 4] = [MessageKind::Peer, MessageKind::PeerAnswer, MessageKind::Data, MessageKind::Switch];

/// A message on its way. Clients say who they are; the others are hosts.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) packet: Packet,
}

/// Whether nothing was changed.
pub(crate) fn same(a: &Flight, b: &Flight) -> bool {
    (a.to, &a.packet) == (b.to, &b.packet)
}

/// Changes the header, what the switch reads, the bulk bytes or the receiver.
pub(crate) fn change_around(flight: &mut Flight, dice: &mut Dice) {
    let Ok(mut header) = flight.packet.header() else { return };
    let host = flight.from.class() != Some(NodeClass::Session);
    let roles: Vec<NodeId> = (0..SHARDS).map(|shard| NodeId::shard(ShardId(shard))).chain([NodeId::data(0)]).collect();
    match dice.below(12) {
        0 => header.seq = RequestSeq(header.seq.0.wrapping_add(dice.below(64) as u64).wrapping_sub(32)),
        1 => header.seq = RequestSeq(edge(dice)),
        2 => header.term = Term(dice.below(8) as u32),
        3 => {
            let somewhere = edge(dice);
            let near = header.stamp.0.saturating_add(300_000_000);
            header.stamp = Stamp(*dice.one(&[0, u64::MAX, near, somewhere]));
        }
        4 | 5 => match &mut header.of {
            Of::Request(asked) | Of::Data(asked) => {
                asked.oldest_behind = edge(dice) as u32;
                asked.taken = dice.percent(50);
                asked.made_at = dice.percent(50).then(|| Position { term: header.term, position: edge(dice) });
            }
            Of::Reply(replied) => replied.record = RecordSeq(edge(dice)),
            Of::Peer | Of::PeerAnswer | Of::DataReply | Of::Switch => {}
        },
        6 => {
            let at = HEADER_BYTES - 1 - dice.below(OWN_BYTES); // what only its kind has
            flight.packet.head[at] = dice.next() as u8;
            return;
        }
        7 if host => header.source = *dice.one(&roles),
        8 if host => {
            let answers = [MessageKind::Reply, MessageKind::DataReply, MessageKind::PeerAnswer];
            let kinds = if flight.to.class() == Some(NodeClass::Session) { &answers[..] } else { &KINDS };
            header.of = Of::new(*dice.one(kinds));
        }
        9 => flight.to = *dice.one(&roles),
        10 => {
            let bytes = dice.below(40_000);
            flight.packet.bulk = vec![3; bytes].into();
        }
        _ => {
            if let Some(innet) = &mut flight.packet.innet {
                let mut bytes = innet.bytes().to_vec();
                mutate(&mut bytes, &[], dice);
                if let Some(bytes) = bytes.first_chunk() {
                    **innet = InNet::DirtySet(DirtySet::of_bytes(bytes));
                }
            }
        }
    }
    flight.packet.restamp(&header);
}

/// What an endpoint lets through.
pub(crate) fn admits(flight: &Flight) -> bool {
    let Ok(header) = flight.packet.header() else { return false };
    match flight.from.class() {
        Some(NodeClass::Session) => {
            let asks = matches!(
                (header.kind(), flight.to.class()),
                (MessageKind::Request, Some(NodeClass::Shard)) | (MessageKind::Data, Some(NodeClass::Data))
            );
            header.source == flight.from && asks
        }
        _ => true,
    }
}
