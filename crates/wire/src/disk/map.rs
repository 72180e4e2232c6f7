//! The cluster map as the coordinator keeps it: who holds what, by runs of slots.
//!
//! It is stored, not computed, so that a further shard or data node does not move what is there. Reserved tags of
//! [`super::record::Effect`]: 26 *Given*{slot, epoch} and 27 *Taken*{slot, epoch}, with which slots will move.

use crate::ids::{NodeId, ShardId, Slot};
use crate::limits::{SHARDS_MAX, SLOTS};
use crate::map::ClusterMap;
use crate::secrets::Placement;
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

/// Why a map cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMap {
    /// Epoch 0.
    #[error("its epoch is 0")]
    Epoch,
    /// Runs that do not begin with slot 0, or do not grow.
    #[error("its runs of slots do not follow each other from slot 0 on")]
    Runs,
    /// A shard without slots, or with slots in several places.
    #[error("its shards do not hold slots side by side, in order")]
    Shards,
    /// A role whose journal is missing, or named twice, or that is none of the map's.
    #[error("its list of journals is not that of its shards and data nodes")]
    Journals,
}

/// Calls `each` for every slot with the value of its run.
fn unrolled<T: Copy>(runs: &[(Slot, T)]) -> Result<Vec<T>, BadMap> {
    if runs.first().is_none_or(|(first, _)| *first != Slot(0)) || !runs.is_sorted_by(|one, other| one.0 < other.0) {
        return Err(BadMap::Runs);
    }
    let ends = runs.iter().skip(1).map(|(first, _)| usize::from(first.0)).chain([SLOTS]);
    let each = runs.iter().zip(ends).flat_map(|(&(first, value), end)| (usize::from(first.0)..end).map(move |_| value));
    Ok(each.collect())
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

    /// The map of the image; the secret that says which slot a name has is kept elsewhere.
    pub fn map(&self, placement: Placement) -> Result<ClusterMap, BadMap> {
        if self.epoch == 0 {
            return Err(BadMap::Epoch);
        }
        let slots: Vec<_> = self.slots.iter().map(|run| (run.first, run.shard.0)).collect();
        let data: Vec<_> = self.data.iter().map(|run| (run.first, run.data_node)).collect();
        let (table, data) = (unrolled(&slots)?, unrolled(&data)?);
        let in_order = slots.iter().zip(0u16..).all(|((_, shard), number)| *shard == number);
        if !in_order || slots.len() > usize::from(SHARDS_MAX) {
            return Err(BadMap::Shards);
        }
        let journals = self.journals.iter().map(|entry| (entry.role, entry.journal)).collect();
        let map = ClusterMap::of_tables(self.epoch, (slots.len() as u16, placement), table, data, journals);
        let mut roles: Vec<_> = map.roles().collect();
        roles.sort();
        let named = self.journals.iter().map(|entry| entry.role);
        if named.eq(roles) && self.journals.iter().all(|entry| entry.journal > 0) {
            Ok(map)
        } else {
            Err(BadMap::Journals)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Stored;
    use crate::secrets::Secrets;

    fn placement() -> Placement {
        Secrets::of_seed(1).placement
    }

    fn even(shards: u16) -> ClusterMap {
        ClusterMap::even(shards, placement())
    }

    #[test]
    fn a_map_comes_back() {
        for map in [
            even(1),
            even(7),
            even(3).with_data_nodes(&[1, 4, 9]).with_journals(&[(NodeId::data(4), 5), (NodeId::shard(ShardId(2)), 10)]),
        ] {
            let image = MapImage::of(&map);
            let back = MapImage::from_stored(&image.to_stored()).unwrap().map(placement()).unwrap();
            assert_eq!(MapImage::of(&back), image);
            for slot in (0..=u16::MAX).map(Slot) {
                assert_eq!((back.shard(slot), back.data_at(slot)), (map.shard(slot), map.data_at(slot)));
            }
            assert!(map.roles().all(|role| back.journal(role) == map.journal(role)));
        }
        assert!(MapImage::of(&even(16)).to_stored().len() < 400);
    }

    #[test]
    fn what_is_no_map_is_refused() {
        let sound = MapImage::of(&even(3).with_data_nodes(&[1, 4]));
        for (change, why) in [
            ((|map| map.epoch = 0) as fn(&mut MapImage), BadMap::Epoch),
            (|map| map.slots.clear(), BadMap::Runs),
            (|map| map.slots[0].first = Slot(1), BadMap::Runs),
            (|map| map.slots[2].first = Slot(9), BadMap::Runs),
            (|map| map.data.swap(0, 1), BadMap::Runs),
            (|map| map.slots[2].shard = ShardId(0), BadMap::Shards),
            (|map| map.slots[2].shard = ShardId(9), BadMap::Shards),
            (|map| _ = map.journals.pop(), BadMap::Journals),
            (|map| map.journals[1] = map.journals[0], BadMap::Journals),
            (|map| map.journals[0].journal = 0, BadMap::Journals),
        ] {
            let mut image = sound.clone();
            change(&mut image);
            assert_eq!(image.map(placement()).map(|_| ()), Err(why), "{image:?}");
        }
    }
}
