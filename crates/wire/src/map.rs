//! The cluster map: an explicit table slot → shard, versioned by the map epoch (design.md, "Objects and places").

use crate::hash::inode_hash;
use crate::ids::{InodeId, NodeId, ShardId, Slot};
use crate::innet::{EntryName, Fingerprint, INDEX_BITS};
use crate::limits::{SHARDS_MAX, SLOTS};
use crate::secrets::Placement;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The journal of all roles that are not said to have another.
const FIRST_JOURNAL: u32 = 1;

/// The slot whose shard has the coordinator module.
pub const COORDINATOR_SLOT: Slot = Slot(0);

/// Which shard holds which slot. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClusterMap {
    epoch: u32,
    shards: u16,
    placement: Placement,
    table: Arc<[u16]>,
    /// Which data node has the bytes of a file of which data slot.
    data: Arc<[u16]>,
    /// The data nodes among which files are spread, in order.
    data_nodes: Arc<[u16]>,
    /// Which journal has the records of a role, in order of the roles.
    journals: Arc<[(NodeId, u32)]>,
    /// Path nodes, in order.
    path_nodes: Arc<[u16]>,
    /// Of fingerprints only so many bits of the hash count, and of the slot only whose it is.
    coarse_bits: Option<u32>,
}

impl ClusterMap {
    /// Spreads all slots evenly (balanced within one slot) over `shards` shards; `placement` says which slot a name has.
    pub fn even(shards: u16, placement: Placement) -> ClusterMap {
        assert!((1..=SHARDS_MAX).contains(&shards), "{shards} shards");
        let table = (0..SLOTS).map(|slot| (slot * shards as usize / SLOTS) as u16).collect();
        let roles = (0..shards).map(|shard| NodeId::shard(ShardId(shard))).chain([NodeId::data(0)]);
        ClusterMap {
            epoch: 1,
            shards,
            placement,
            table,
            data: vec![0; SLOTS].into(),
            data_nodes: Arc::new([0]),
            journals: roles.map(|role| (role, FIRST_JOURNAL)).collect(),
            path_nodes: Arc::new([]),
            coarse_bits: None,
        }
    }

    /// The same with these path nodes.
    pub fn with_path_nodes(self, path_nodes: &[u16]) -> ClusterMap {
        ClusterMap { path_nodes: path_nodes.into(), ..self }
    }

    /// All path nodes in order.
    pub fn path_nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.path_nodes.iter().map(|&number| NodeId::path(number))
    }

    /// Whether there is a path node.
    #[inline]
    pub fn has_path_nodes(&self) -> bool {
        !self.path_nodes.is_empty()
    }

    /// The same with the bytes of files spread over these data nodes.
    pub fn with_data_nodes(self, data: &[u16]) -> ClusterMap {
        assert!(!data.is_empty() && data.is_sorted_by(|one, other| one < other), "data nodes {data:?}");
        let shards = self.journals.iter().filter(|(role, _)| role.as_shard().is_some()).copied();
        let journals = shards.chain(data.iter().map(|&number| (NodeId::data(number), FIRST_JOURNAL))).collect();
        let spread = (0..SLOTS).map(|slot| data[slot * data.len() / SLOTS]).collect();
        ClusterMap { data: spread, data_nodes: data.into(), journals, ..self }
    }

    /// The same with the records of these roles in these journals.
    pub fn with_journals(self, journals: &[(NodeId, u32)]) -> ClusterMap {
        let mut all = self.journals.to_vec();
        for (role, journal) in &mut all {
            *journal = journals.iter().find(|(other, _)| other == role).map_or(*journal, |(_, journal)| *journal);
        }
        ClusterMap { journals: all.into(), ..self }
    }

    /// Number of the journal that has the records of a role; none of a role that keeps none, or is not in the map.
    pub fn journal(&self, role: NodeId) -> Option<u32> {
        self.journals.binary_search_by_key(&role, |(role, _)| *role).ok().map(|place| self.journals[place].1)
    }

    /// The data node that has the bytes of a file: that of its *data slot*, of which there are as many as slots of names
    /// (design.md, "Data"). All chunks of a file are at one data node.
    #[inline]
    pub fn data(&self, file: InodeId) -> NodeId {
        NodeId::data(self.data_at(Slot((inode_hash(file) >> 48) as u16)))
    }

    /// The number of the data node of a data slot.
    #[inline]
    pub fn data_at(&self, slot: Slot) -> u16 {
        self.data[usize::from(slot.0)]
    }

    /// All data nodes in order.
    pub fn data_nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.data_nodes.iter().map(|&number| NodeId::data(number))
    }

    /// The same with coarse fingerprints: the directories of a shard fall into 2^`bits` groups. For tests of what groups do to each
    /// other; everybody who uses the map must use the same one.
    pub fn with_coarse_fingerprints(self, bits: u32) -> ClusterMap {
        assert!(bits <= INDEX_BITS, "{bits} bits of a hash");
        ClusterMap { coarse_bits: Some(bits), ..self }
    }

    /// The fingerprint of a directory: names the group in which it is tracked.
    #[inline]
    pub fn fingerprint(&self, dir: InodeId) -> Fingerprint {
        let whole = Fingerprint::of(dir);
        let Some(bits) = self.coarse_bits else { return whole };
        let first = self.slots(self.home(dir)).start().0;
        Fingerprint::new(whole.narrowed(bits).index(), u32::from(first) << 16 | 1).expect("a tag that is not 0")
    }

    /// The entry of visibility tables in which writes of a file are shown. Its number is the file's data slot, so all files of one entry
    /// are at one data node (V-8).
    #[inline]
    pub fn entry(&self, file: InodeId) -> EntryName {
        let hash = inode_hash(file);
        let index = match self.coarse_bits {
            None => (hash >> 48) as u32,
            Some(bits) => {
                u32::from(self.data_at(Slot((hash >> 48) as u16))) << bits | (hash >> 32) as u32 & ((1 << bits) - 1)
            }
        };
        EntryName::new(index & 0xffff, (hash as u32).max(1)).expect("16 bits, and not 0")
    }

    /// The slots in which directories of a group are.
    pub fn slots_of(&self, group: Fingerprint) -> RangeInclusive<Slot> {
        match self.coarse_bits {
            None => group.slot()..=group.slot(),
            Some(_) => self.slots(self.shard(group.slot())),
        }
    }

    /// The slots of a shard, which lie side by side.
    pub fn slots(&self, shard: ShardId) -> RangeInclusive<Slot> {
        let first = self.table.partition_point(|&other| other < shard.0);
        let end = self.table.partition_point(|&other| other <= shard.0);
        Slot(first as u16)..=Slot((end - 1) as u16)
    }

    /// Version of the table.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Number of shards.
    pub fn shards(&self) -> u16 {
        self.shards
    }

    /// The slot at which a name lives.
    #[inline]
    pub fn site(&self, parent: InodeId, name: &[u8]) -> Slot {
        self.placement.site(parent, name)
    }

    /// What says at which slots names live.
    pub fn placement(&self) -> Placement {
        self.placement
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

    /// The addresses of all shards, then of all data nodes.
    pub fn roles(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.all().map(NodeId::shard).chain(self.data_nodes())
    }

    /// The shard of the coordinator module: the one that holds slot 0.
    pub fn coordinator(&self) -> ShardId {
        self.shard(COORDINATOR_SLOT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::Secrets;

    fn even(shards: u16) -> ClusterMap {
        ClusterMap::even(shards, Secrets::of_seed(1).placement)
    }

    #[test]
    fn coarse_fingerprints_keep_their_owner() {
        for map in [1, 2, 3, 7].map(even) {
            let coarse = map.clone().with_coarse_fingerprints(1);
            let mut groups = std::collections::BTreeSet::new();
            for n in 0..2_000u16 {
                let dir =
                    InodeId::new(Slot(n.wrapping_mul(37)), crate::ids::Birth(3), n, crate::inode::Kind::Directory);
                assert_eq!(map.fingerprint(dir), Fingerprint::of(dir));
                assert_eq!(map.slots_of(map.fingerprint(dir)), dir.slot()..=dir.slot());
                let group = coarse.fingerprint(dir);
                assert_eq!(coarse.shard(group.slot()), coarse.home(dir));
                assert!(coarse.slots_of(group).contains(&dir.slot()));
                groups.insert(group);
            }
            assert_eq!(groups.len(), 2 * usize::from(map.shards()));
        }
    }

    #[test]
    fn files_are_spread_over_all_data_nodes() {
        let map = even(2).with_data_nodes(&[1, 4, 5]);
        let mut count = std::collections::BTreeMap::<_, u32>::new();
        for n in 0..30_000u16 {
            let file = InodeId::new(Slot(n.wrapping_mul(37)), crate::ids::Birth(3), n, crate::inode::Kind::File);
            *count.entry(map.data(file)).or_default() += 1;
        }
        assert_eq!(count.keys().copied().collect::<Vec<_>>(), map.data_nodes().collect::<Vec<_>>());
        assert!(count.values().all(|&files| (9_000..11_000).contains(&files)), "{count:?}");
        assert_eq!(even(2).data(InodeId(77)), NodeId::data(0));
    }

    #[test]
    fn slots_are_balanced_within_one() {
        for shards in [1, 2, 3, 7, 16] {
            let map = even(shards);
            let mut count = vec![0usize; shards as usize];
            (0..=u16::MAX).for_each(|slot| count[map.shard(Slot(slot)).0 as usize] += 1);
            let (min, max) = (count.iter().min().unwrap(), count.iter().max().unwrap());
            assert!(max - min <= 1, "{shards}: {count:?}");
        }
    }
}
