//! The cluster map: an explicit table slot → shard, versioned by the map epoch (DESIGN §2).

use crate::ids::{InodeId, ShardId, Slot};
use crate::limits::{SHARDS_MAX, SLOTS};
use std::sync::Arc;

/// Which shard holds which slot. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClusterMap {
    epoch: u32,
    shards: u16,
    table: Arc<[u16]>,
}

impl ClusterMap {
    /// Spreads all slots evenly (balanced within one slot) over `shards` shards.
    pub fn even(shards: u16) -> ClusterMap {
        assert!((1..=SHARDS_MAX).contains(&shards), "{shards} shards");
        let table = (0..SLOTS).map(|slot| (slot * shards as usize / SLOTS) as u16).collect();
        ClusterMap { epoch: 1, shards, table }
    }

    /// Version of the table.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Number of shards.
    pub fn shards(&self) -> u16 {
        self.shards
    }

    /// The shard that holds a slot.
    #[inline]
    pub fn shard(&self, slot: Slot) -> ShardId {
        ShardId(self.table[slot.0 as usize])
    }

    /// The shard that is the home of an inode.
    #[inline]
    pub fn home(&self, id: InodeId) -> ShardId {
        self.shard(id.slot())
    }

    /// All shards in order.
    pub fn all(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.shards).map(ShardId)
    }

    /// The shard of the coordinator module: the one that holds slot 0.
    pub fn coordinator(&self) -> ShardId {
        self.shard(Slot(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_balanced_within_one() {
        for shards in [1, 2, 3, 7, 16] {
            let map = ClusterMap::even(shards);
            let mut count = vec![0usize; shards as usize];
            (0..=u16::MAX).for_each(|slot| count[map.shard(Slot(slot)).0 as usize] += 1);
            let (min, max) = (count.iter().min().unwrap(), count.iter().max().unwrap());
            assert!(max - min <= 1, "{shards}: {count:?}");
        }
    }
}
