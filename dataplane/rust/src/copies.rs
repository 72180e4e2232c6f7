//! The copies that a packet makes (D-16, D-17, D-23, D-34).

use crate::dirty_set::Deliver;
use crate::header::Copy;
use crate::planted::{Planted, planted};
use crate::routing::Routes;
use crate::{Counter, Counters};
use onpath_wire::NodeId;
use onpath_wire::ids::ShardId;
use onpath_wire::innet::DirtySet;

/// Most copies of a packet (D-23).
pub const COPIES_MAX: usize = 2;

/// Makes the copies of one packet.
pub(crate) struct Copies<'s> {
    pub(crate) routes: &'s Routes,
    pub(crate) counters: &'s mut Counters,
    pub(crate) out: &'s mut Vec<Copy>,
}

impl Copies<'_> {
    /// Sends an executed packet to whom it is for.
    #[inline]
    pub(crate) fn deliver(&mut self, header: &DirtySet, deliver: Deliver) {
        let shard = NodeId::shard(ShardId(header.shard)).0;
        match deliver {
            Deliver::Nobody => {}
            Deliver::Destination => self.send(header, header.destination),
            Deliver::Shard => self.send(header, shard),
            Deliver::ShardAndDestination => {
                self.send(header, shard);
                if header.destination != 0 {
                    self.send(header, header.destination);
                }
            }
        }
    }

    /// D-16, D-17.
    #[inline]
    pub(crate) fn send(&mut self, header: &DirtySet, node: u32) {
        let Some(port) = self.routes.port(node) else {
            if !planted(Planted::D43) {
                self.counters.add(Counter::CopiesUnrouted);
            }
            return;
        };
        self.counters.add(Counter::CopiesSent);
        self.out.push(Copy::to_node(header, node, port));
    }
}
