//! Replication: the copies that a packet makes, and the groups that collects go to (D-16, D-17, D-23, D-35, D-36).

use crate::dirty_set::Deliver;
use crate::header::Copy;
use crate::planted::{Planted, planted};
use crate::routing::{Port, Routes};
use crate::{ControlError, Counter, Counters};
use onpath_wire::NodeId;
use onpath_wire::ids::ShardId;
use onpath_wire::innet::InNet;
use onpath_wire::limits::SHARDS_MAX;
use std::collections::BTreeMap;

/// Most groups of a switch.
pub const GROUPS_MAX: usize = 256;
/// Most members of a group.
pub const MEMBERS_MAX: usize = SHARDS_MAX as usize;

/// Group → nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups(BTreeMap<u32, Vec<u32>>);

impl Groups {
    /// D-41.
    pub(crate) fn set(&mut self, group: u32, members: &[u32]) -> Result<(), ControlError> {
        if members.len() > MEMBERS_MAX {
            return Err(ControlError::Full("members of the group", MEMBERS_MAX));
        }
        if members.contains(&0) {
            return Err(ControlError::NodeZero);
        }
        let mut sorted = members.to_vec();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(ControlError::Twice);
        }
        if self.0.len() == GROUPS_MAX && !self.0.contains_key(&group) {
            return Err(ControlError::Full("groups", GROUPS_MAX));
        }
        self.0.insert(group, members.to_vec());
        Ok(())
    }

    pub(crate) fn unset(&mut self, group: u32) {
        self.0.remove(&group);
    }
}

/// Makes the copies of one packet.
pub(crate) struct Copies<'s> {
    pub(crate) routes: &'s Routes,
    pub(crate) groups: &'s Groups,
    pub(crate) counters: &'s mut Counters,
    pub(crate) out: &'s mut Vec<Copy>,
}

impl Copies<'_> {
    /// Sends an executed packet to whom it is for.
    #[inline]
    pub(crate) fn deliver(&mut self, header: &InNet, deliver: Deliver) {
        let shard = NodeId::shard(ShardId(header.shard)).0;
        match deliver {
            Deliver::Nobody => {}
            Deliver::Destination => self.send(header, header.destination),
            Deliver::Shard => self.send(header, shard),
            Deliver::Alternative => self.send(header, header.alternative),
            Deliver::ShardAndDestination => {
                self.send(header, shard);
                if header.destination != 0 {
                    self.send(header, header.destination);
                }
            }
            Deliver::Group => self.send_to_group(header, shard),
        }
    }

    /// D-35, D-36.
    fn send_to_group(&mut self, header: &InNet, sender: u32) {
        let Some(members) = self.groups.0.get(&header.destination) else {
            match planted(Planted::D36) {
                true => self.send(header, header.destination),
                false => self.counters.add(Counter::CopiesUnrouted),
            }
            return;
        };
        for &member in members.iter().filter(|&&member| member != sender || planted(Planted::D35)) {
            self.send(header, member);
        }
    }

    /// D-16, D-17.
    #[inline]
    pub(crate) fn send(&mut self, header: &InNet, node: u32) {
        let Some(port) = self.routes.port(node) else {
            self.counters.add(Counter::CopiesUnrouted);
            return;
        };
        self.counters.add(Counter::CopiesSent);
        self.out.push(Copy::to_node(header, node, port));
    }

    /// D-13.
    pub(crate) fn hand_on(&mut self, header: &InNet, port: Port) {
        if !planted(Planted::D43) {
            self.counters.add(Counter::CopiesSent);
        }
        self.out.push(Copy::handed_on(header, port));
    }
}
