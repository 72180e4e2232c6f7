//! Gates: updates that are appended, and that nobody may see yet. The operations that made them wait with their locks.

use hashbrown::HashMap;
use onpath_kernel::OpId;
use onpath_wire::ids::{InodeId, LogSeq};
use onpath_wire::innet::Fingerprint;
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// What opens a gate, unless the owner has applied the update before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opens {
    /// An acknowledged mark of the update's generation, the switch's or the owner's, while nobody holds the group.
    Marked,
    /// The owner's word alone: the directory was in *sync*, and as far as its owner knows it still is, though its part may be taken
    /// back here since.
    Applied,
}

/// An update that must not be seen yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gate {
    pub(super) group: Fingerprint,
    pub(super) generation: u32,
    pub(super) dir: InodeId,
    pub(super) seq: LogSeq,
    pub(super) opens: Opens,
}

/// The closed gates of a shard, by operation and by group.
#[derive(Debug, Default)]
pub(super) struct Gates {
    operations: HashMap<OpId, SmallVec<[Gate; 1]>>,
    groups: BTreeSet<(Fingerprint, OpId)>,
}

impl Gates {
    /// An operation has one more.
    pub(super) fn close(&mut self, op: OpId, gate: Gate) {
        self.groups.insert((gate.group, op));
        self.operations.entry(op).or_default().push(gate);
    }

    /// Those of an operation.
    pub(super) fn of(&self, op: OpId) -> &[Gate] {
        self.operations.get(&op).map_or(&[], |gates| gates)
    }

    /// An operation is done: its gates are no more.
    pub(super) fn done(&mut self, op: OpId) -> SmallVec<[Gate; 1]> {
        let gates = self.operations.remove(&op).unwrap_or_default();
        for gate in &gates {
            self.groups.remove(&(gate.group, op));
        }
        gates
    }

    /// Those of a group.
    pub(super) fn in_group(&self, group: Fingerprint) -> impl Iterator<Item = &Gate> {
        let operations = self.groups.range((group, OpId::MIN)..=(group, OpId::MAX));
        operations.flat_map(|(_, op)| self.of(*op)).filter(move |gate| gate.group == group)
    }

    /// Whether a group has some.
    pub(super) fn any_in(&self, group: Fingerprint) -> bool {
        self.in_group(group).next().is_some()
    }

    /// Operations that have some.
    pub(super) fn len(&self) -> usize {
        self.operations.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::ids::InodeId;
    use onpath_wire::map::ClusterMap;

    #[test]
    fn gates_are_found_by_operation_and_by_group() {
        let map = ClusterMap::even(1, onpath_wire::secrets::Secrets::of_seed(1).placement);
        let [one, other] = [2, 3].map(|n| InodeId(n << 48 | 1 << 24 | n));
        let gate = |dir: InodeId, seq| Gate {
            group: map.fingerprint(dir),
            generation: 1,
            dir,
            seq: LogSeq(seq),
            opens: Opens::Marked,
        };
        let mut gates = Gates::default();
        gates.close(OpId::MIN, gate(one, 1));
        gates.close(OpId::MIN, gate(other, 2));
        gates.close(OpId::MAX, gate(one, 3));
        let seqs = |gates: &Gates, dir| gates.in_group(map.fingerprint(dir)).map(|gate| gate.seq.0).collect::<Vec<_>>();
        assert_eq!((seqs(&gates, one), seqs(&gates, other)), (vec![1, 3], vec![2]));
        assert_eq!((gates.of(OpId::MIN).len(), gates.len()), (2, 2));
        assert_eq!(gates.done(OpId::MIN).len(), 2);
        assert_eq!((seqs(&gates, one), gates.any_in(map.fingerprint(other))), (vec![3], false));
        assert!(gates.done(OpId::MAX).len() == 1 && gates.len() == 0);
    }
}
