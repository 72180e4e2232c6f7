//! Somebody answers marks, looks and installs in the name of the switch.

use crate::world::World;
use crate::world::process::Flight;
use onpath_wire::data::Pending;
use onpath_wire::ids::{NodeId, ShardId};
use onpath_wire::innet::{DirtySet, DirtySetOp, InNet, InNetResult, Visibility, VisibilityOp, VisibilityResult};
use onpath_wire::limits::BLOCK_BYTES;
use onpath_wire::secrets::Secrets;
use rand::Rng;

impl World {
    /// From now on somebody answers everything in the name of the switch, too.
    pub fn forge_all(&mut self) {
        self.config.faults.forged_percent = 100;
    }

    /// A message is on its way to the switch: perhaps somebody forges what that says of it.
    pub(in crate::world) fn forge(&mut self, flight: &Flight) {
        let percent = self.config.faults.forged_percent;
        if percent == 0 || !flight.packet.wants_switch() || !self.faults.rng.random_ratio(percent, 100) {
            return;
        }
        let forged = match flight.packet.innet.as_deref() {
            Some(InNet::DirtySet(header)) if header.op() == Some(DirtySetOp::Insert) => self.forged_mark(*header),
            Some(InNet::Visibility(header)) => self.forged_writes(*header),
            _ => None,
        };
        let Some((to, innet)) = forged else { return };
        let mut packet = flight.packet.clone();
        packet.innet = Some(Box::new(innet));
        self.counters.faults.forged += 1;
        self.fly(Flight { from: flight.from, to, packet });
    }

    /// Says that a mark was taken, or that much later ones were, and guesses by what the shard knows them.
    fn forged_mark(&mut self, mut header: DirtySet) -> Option<(NodeId, InNet)> {
        header.result = InNetResult::Marked as u8;
        header.term = self.faults.rng.random_range(0..16);
        header.sequence = if self.faults.rng.random_bool(0.5) { u32::MAX } else { header.sequence };
        Some((NodeId::shard(ShardId(header.shard)), InNet::DirtySet(header)))
    }

    /// Tells the home of a file of writes that nobody has made, behind those of the last install that was seen.
    fn forged_writes(&mut self, mut header: Visibility) -> Option<(NodeId, InNet)> {
        let to = match header.op()? {
            VisibilityOp::Install => {
                header.result = VisibilityResult::OtherEpoch as u8;
                self.faults.installed = header.metadata;
                header.destination = NodeId::shard(ShardId(header.shard)).0;
                NodeId::shard(ShardId(header.shard))
            }
            VisibilityOp::Look => {
                header.result = VisibilityResult::Pending as u8;
                NodeId(header.destination)
            }
            VisibilityOp::Clear => return None,
        };
        let mut pending = Pending::unproven(&self.faults.installed).ok()?;
        pending.writes.end += BLOCK_BYTES;
        pending.writes.last.0 += 1;
        let guessed = Secrets::of_seed(self.faults.rng.random());
        header.metadata = pending.metadata(&guessed.inner.tickets());
        Some((to, InNet::Visibility(header)))
    }
}
