//! Somebody answers marks in the name of the switch.

use crate::world::World;
use crate::world::process::Flight;
use onpath_wire::ids::{NodeId, ShardId};
use onpath_wire::innet::{DirtySetOp, InNet, InNetResult};
use rand::Rng;

impl World {
    /// A mark is on its way to the switch: perhaps somebody says that it was taken, or that much later ones were, and guesses by what the
    /// shard knows them.
    pub(in crate::world) fn forge(&mut self, mark: &Flight) {
        let percent = self.config.faults.forged_percent;
        if percent == 0 || !mark.packet.wants_switch() || !self.faults.rng.random_ratio(percent, 100) {
            return;
        }
        let Some(InNet::DirtySet(header)) = mark.packet.innet.as_deref().copied() else { return };
        if header.op() != Some(DirtySetOp::Insert) {
            return;
        }
        let mut header = header;
        header.result = InNetResult::Marked as u8;
        header.term = self.faults.rng.random_range(0..16);
        header.sequence = if self.faults.rng.random_bool(0.5) { u32::MAX } else { header.sequence };
        let to = NodeId::shard(ShardId(header.shard));
        let mut packet = mark.packet.clone();
        packet.innet = Some(Box::new(InNet::DirtySet(header)));
        self.counters.faults.forged += 1;
        self.fly(Flight { from: mark.from, to, packet });
    }
}
