//! What an operation comes to, and the copies that a packet makes (D-16, D-17, D-23, D-34, D-108).

use super::counters::{Counter, Counters};
use super::header::Copy;
use super::planted::{Planted, planted};
use super::routing::Routes;
use onpath_wire::NodeId;
use onpath_wire::ids::ShardId;
use onpath_wire::innet::InNet;

/// Most copies of a packet (D-23, D-108).
pub const COPIES_MAX: usize = 2;

/// To whom a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deliver {
    /// Nobody: it is dropped.
    Nobody,
    /// Its destination.
    Destination,
    /// The shard that sent it.
    Shard,
    /// That shard and, if there is one, its destination (D-23).
    ShardAndDestination,
    /// A node that the packet or the control plane names.
    Node(u32),
    /// Its destination and such a node (D-108).
    DestinationAnd(u32),
}

/// What an operation came to.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) counter: Counter,
    /// What the header says: a result of its structure, 0 if the packet is dropped.
    pub(crate) result: u8,
    pub(crate) deliver: Deliver,
}

impl Done {
    /// The packet is dropped.
    pub(crate) fn dropped(counter: Counter) -> Done {
        Done { counter, result: 0, deliver: Deliver::Nobody }
    }
}

/// Makes the copies of one packet.
pub(crate) struct Copies<'s> {
    pub(crate) routes: &'s Routes,
    pub(crate) counters: &'s mut Counters,
    pub(crate) out: &'s mut Vec<Copy>,
}

impl Copies<'_> {
    /// Sends an executed packet to whom it is for.
    #[inline]
    pub(crate) fn deliver(&mut self, header: &InNet, done: &Done) {
        let common = header.common();
        let shard = NodeId::shard(ShardId(common.shard)).0;
        match done.deliver {
            Deliver::Nobody => {}
            Deliver::Destination => self.send(header, done.result, common.destination),
            Deliver::Shard => self.send(header, done.result, shard),
            Deliver::ShardAndDestination => {
                self.send(header, done.result, shard);
                if common.destination != 0 {
                    self.send(header, done.result, common.destination);
                }
            }
            Deliver::Node(node) => self.send(header, done.result, node),
            Deliver::DestinationAnd(node) => {
                self.send(header, done.result, common.destination);
                self.send(header, done.result, node);
            }
        }
    }

    /// D-16, D-17.
    #[inline]
    pub(crate) fn send(&mut self, header: &InNet, result: u8, node: u32) {
        let Some(port) = self.routes.port(node) else {
            if !planted(Planted::D43) {
                self.counters.add(Counter::CopiesUnrouted);
            }
            return;
        };
        self.counters.add(Counter::CopiesSent);
        self.out.push(Copy::to_node(header, result, node, port));
    }
}
