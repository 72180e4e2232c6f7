//! The cluster map as the coordinator keeps it: who holds what, by runs of slots.
//!
//! A start whose superblock tells another one is refused. Later it is what counts, so that a further shard or data node moves nothing. Reserved tags of
//! [`super::record::Effect`]: 26 *Given*{slot, epoch} and 27 *Taken*{slot, epoch}, with which slots will move.

use crate::ids::{NodeId, ShardId, Slot};
use crate::map::ClusterMap;
use crate::stored_struct;
use std::fmt;

stored_struct! {
    /// Slots that a shard holds: from this one to the next run's first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SlotRun {
        /// The first.
        pub first: Slot,
        /// The shard.
        pub shard: ShardId,
    }
}

stored_struct! {
    /// Data slots whose files' bytes a data node has: from this one to the next run's first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DataRun {
        /// The first.
        pub first: Slot,
        /// The data node.
        pub data_node: u16,
    }
}

stored_struct! {
    /// The journal that has a role's records.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RoleJournal {
        /// The role.
        pub role: NodeId,
        /// Number of the journal.
        pub journal: u32,
    }
}

stored_struct! {
    /// A cluster map.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct MapImage {
        /// Its version; from 1 on.
        pub epoch: u32,
        /// Slot to shard, in order; the first begins with slot 0.
        pub slots: Vec<SlotRun>,
        /// Data slot to data node, in order; the first begins with slot 0.
        pub data: Vec<DataRun>,
        /// Role to journal, in order of the roles.
        pub journals: Vec<RoleJournal>,
    }
}

/// The first slots of runs of equal values.
fn runs<T: Copy + PartialEq>(of: impl Fn(Slot) -> T) -> Vec<(Slot, T)> {
    let mut all: Vec<(Slot, T)> = Vec::new();
    for slot in (0..=u16::MAX).map(Slot) {
        let value = of(slot);
        if all.last().is_none_or(|(_, last)| *last != value) {
            all.push((slot, value));
        }
    }
    all
}

impl fmt::Display for MapImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shards: Vec<_> = self.slots.iter().map(|run| (run.shard.0, run.first.0)).collect();
        let data: Vec<_> = self.data.iter().map(|run| (run.data_node, run.first.0)).collect();
        let journals: Vec<_> = self.journals.iter().map(|entry| entry.journal).collect();
        write!(f, "(shards from slots {shards:?}, data nodes from {data:?}, journals {journals:?})")
    }
}

impl MapImage {
    /// The image of a map.
    pub fn of(map: &ClusterMap) -> MapImage {
        let slots = runs(|slot| map.shard(slot)).into_iter().map(|(first, shard)| SlotRun { first, shard });
        let data = runs(|slot| map.data_at(slot)).into_iter().map(|(first, data_node)| DataRun { first, data_node });
        let mut journals: Vec<_> = map
            .roles()
            .map(|role| RoleJournal { role, journal: map.journal(role).expect("a role of the map") })
            .collect();
        journals.sort_by_key(|entry| entry.role);
        MapImage { epoch: map.epoch(), slots: slots.collect(), data: data.collect(), journals }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Stored;
    use crate::secrets::Secrets;

    #[test]
    fn an_image_tells_runs() {
        let map = ClusterMap::even(2, Secrets::of_seed(1).placement).with_data_nodes(&[1, 4]);
        let image = MapImage::of(&map.with_journals(&[(NodeId::data(4), 5), (NodeId::shard(ShardId(1)), 5)]));
        let half = Slot(1 << 15);
        let slots = [(Slot(0), 0), (half, 1)].map(|(first, shard)| SlotRun { first, shard: ShardId(shard) });
        let data = [(Slot(0), 1), (half, 4)].map(|(first, data_node)| DataRun { first, data_node });
        assert_eq!((&image.slots[..], &image.data[..], image.epoch), (&slots[..], &data[..], 1));
        assert_eq!(image.journals.iter().map(|entry| entry.journal).collect::<Vec<_>>(), [1, 5, 1, 5]);
        assert_eq!(MapImage::from_stored(&image.to_stored()), Ok(image));
    }

    #[test]
    fn an_image_is_small() {
        let map = ClusterMap::even(16, Secrets::of_seed(1).placement);
        assert!(MapImage::of(&map).to_stored().len() < 400);
    }
}
