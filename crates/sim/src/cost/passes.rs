//! Passes through the switch that take time, and lock counters, to compare with: a read that was missed holds some until its answer passes
//! (Fletch §V-B).

use super::model::{Event, Model, Slab};
use super::server::Flight;
use crate::world::role::{Action, action};
use onpath_kernel::Role;
use onpath_switch::{Locks, Pass, Recirculated};
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{NodeClass, NodeId, RequestSeq};
use onpath_wire::innet::InNet;
use onpath_wire::packet::Packet;
use std::collections::BTreeMap;

/// Packets that are recirculated, and reads that hold lock counters.
#[derive(Default)]
pub(super) struct Passes {
    again: Slab<Recirculated>,
    /// By who asks and the number of the request.
    held: BTreeMap<(NodeId, RequestSeq), InNet>,
    replied: Slab<InNet>,
}

impl Model {
    /// A packet with an in-network header reaches the switch.
    pub(super) fn pass_first(&mut self, packet: Packet) {
        let (now, asked) = (self.now(), asked(&packet));
        let Some(switch) = &mut self.switch else { return };
        let pass = switch.arrive(now, packet);
        self.after_pass(pass, asked);
    }

    pub(super) fn pass_again(&mut self, at: u32) {
        let recirculated = self.passes.again.take(at);
        let (now, asked) = (self.now(), asked(recirculated.packet()));
        let Some(switch) = &mut self.switch else { return };
        let pass = switch.go_on(now, recirculated);
        self.after_pass(pass, asked);
    }

    fn after_pass(&mut self, pass: Pass, asked: Option<(NodeId, RequestSeq)>) {
        let Some(switch) = &mut self.switch else { return };
        let outputs: Vec<_> = std::iter::from_fn(|| switch.poll_output())
            .map(|output| action(output, |()| unreachable!("a switch only sends")))
            .collect();
        let holds = match pass {
            Pass::Over { locks } => locks,
            Pass::Again(recirculated) => {
                let again = self.passes.again.put(*recirculated);
                self.at(self.config.pass_ns, Event::Pass(again));
                false
            }
        };
        if let Some(asked) = asked.filter(|_| holds) {
            let header = outputs.iter().find_map(|output| match output {
                Action::Send { packet, .. } => packet.innet.as_deref().copied(),
                _ => None,
            });
            self.passes.held.extend(header.map(|header| (asked, header)));
        }
        self.switch_done(outputs);
    }

    /// An answer leaves its home: if that is to a read that holds lock counters, they are lowered when it passes the switch.
    pub(super) fn unlocks(&mut self, flight: &Flight) {
        if self.config.locks == Locks::Off || flight.from.class() != Some(NodeClass::Shard) {
            return;
        }
        let Ok(header) = flight.packet.header() else { return };
        let read = match header.kind() {
            MessageKind::Reply => self.passes.held.remove(&(flight.to, header.seq)),
            _ => None,
        };
        if let Some(read) = read {
            let read = self.passes.replied.put(read);
            self.at(self.config.link_ns / 2, Event::Replied(read));
        }
    }

    pub(super) fn reply_passes(&mut self, read: u32) {
        let read = self.passes.replied.take(read);
        self.switch.iter_mut().for_each(|switch| switch.replied(&read));
    }

    /// Lock counters from now on, or none, and how long a pass takes, ns.
    pub fn set_passes(&mut self, locks: Locks, pass_ns: u64) {
        (self.config.locks, self.config.pass_ns) = (locks, pass_ns);
        self.passes.held.clear();
        self.switch.iter_mut().for_each(|switch| switch.set_locks(locks));
    }
}

/// Whose request a packet is.
fn asked(packet: &Packet) -> Option<(NodeId, RequestSeq)> {
    let header = packet.header().ok()?;
    (header.kind() == MessageKind::Request).then_some((header.source, header.seq))
}
