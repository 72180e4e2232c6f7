//! Which roles a DIR holds, and the map of the file system to which they belong.

use onpath_wire::disk::superblock::Superblock;
use onpath_wire::ids::{NodeId, ShardId};
use onpath_wire::map::ClusterMap;

/// The roles of a DIR.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The map of the file system.
    pub map: ClusterMap,
    /// The shards of the DIR, in order.
    pub shards: Vec<ShardId>,
    /// Number of its data node.
    pub data_node: u16,
    /// Whether these are all roles of the file system.
    pub whole: bool,
}

impl Shape {
    /// That of a DIR with this superblock.
    pub fn of(superblock: &Superblock) -> Shape {
        let journal = superblock.journal();
        Shape {
            map: superblock.map(),
            shards: journal.shards().collect(),
            data_node: journal.data_node().expect("a superblock without is refused"),
            whole: !superblock.is_part(),
        }
    }

    /// The place of a shard among those of the DIR.
    #[inline]
    pub fn place(&self, shard: ShardId) -> Option<usize> {
        if self.whole {
            return Some(usize::from(shard.0)).filter(|&place| place < self.shards.len());
        }
        self.shards.binary_search(&shard).ok()
    }

    /// The address of its data node.
    pub fn data(&self) -> NodeId {
        NodeId::data(self.data_node)
    }

    /// Whether the coordinator module is here.
    pub fn has_coordinator(&self) -> bool {
        self.place(self.map.coordinator()).is_some()
    }
}
