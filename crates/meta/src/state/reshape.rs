//! Another number of shards: where each object of the images of all shards belongs then.
//!
//! What shards know of names, inodes and listings goes with its slot. What they know of each other ends: it must be at rest, and what
//! would tell copies of old messages apart is not needed, since nothing of a former term is repeated to another shape.

use crate::state::image::class;
use crate::state::recover::{GLOBAL_RANGE, range_of};
use onpath_store::{Count, Pair, ReservedNumbers, StoreError};
use onpath_wire::WireError;
use onpath_wire::codec::{Reader, Wire};
use onpath_wire::disk::Stored;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::map::MapImage;
use onpath_wire::disk::objects::{ClockObject, CountObject, ReservedObject, UptoObject};
use onpath_wire::disk::record::Counter;
use onpath_wire::ids::{DataId, InodeId, LogSeq, NodeClass, NodeId, ShardId, Slot, Stamp};
use onpath_wire::map::ClusterMap;
use onpath_wire::secrets::Placement;
use std::collections::BTreeMap;

/// Images of the shards of one shape becoming those of another.
#[derive(Debug)]
pub struct Reshape {
    map: ClusterMap,
    rest: BTreeMap<(ShardId, u32), Vec<Pair>>,
    counts: BTreeMap<(ShardId, u32), Count>,
    clock: Stamp,
    /// Epoch of the map of before.
    epoch: u32,
    /// Up to where any shard has reserved numbers.
    reserved: ReservedNumbers,
    /// The highest floor of each data node that any shard knows: inodes have forgotten what is below.
    floors: BTreeMap<NodeId, LogSeq>,
}

impl Reshape {
    /// To this number of shards; `placement` stays.
    pub fn to(shards: u16, placement: Placement) -> Reshape {
        Reshape {
            map: ClusterMap::even(shards, placement),
            rest: BTreeMap::new(),
            counts: BTreeMap::new(),
            clock: Stamp(0),
            epoch: 0,
            reserved: ReservedNumbers::default(),
            floors: BTreeMap::new(),
        }
    }

    /// The shard of an object that is read when it is asked for.
    pub fn object(&mut self, key: &[u8], value: &[u8]) -> Result<ShardId, StoreError> {
        self.place(key, value).map_err(|source| StoreError::Undecodable { what: "object of a checkpoint", source })
    }

    fn place(&mut self, key: &[u8], value: &[u8]) -> Result<ShardId, WireError> {
        let (&class, key) = key.split_first().ok_or(WireError::Truncated)?;
        let (id, name) = key.split_first_chunk::<8>().ok_or(WireError::Truncated)?;
        let id = onpath_store::cold::id_of(*id);
        let shard = match class {
            class::INODE => {
                let (shard, inode) = (self.map.home(id), Inode::from_stored(value)?);
                let count = self.counts.entry((shard, range_of(id.slot()))).or_default();
                count.inodes += 1;
                count.blocks += inode.blocks;
                shard
            }
            class::NAME => self.map.shard(self.map.site(id, name)),
            class::ENTRY | class::XATTR | class::FURTHER => self.map.home(id),
            tag => return Err(WireError::UnknownTag { what: "object", tag }),
        };
        Ok(shard)
    }

    /// Takes an object that is loaded at a start.
    pub fn rest(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let undecodable = |source| StoreError::Undecodable { what: "object of an image", source };
        match self.slot(key, value).map_err(undecodable)? {
            Goes::With(slot) => {
                let place = (self.map.shard(slot), range_of(slot));
                self.rest.entry(place).or_default().push((key.to_vec(), value.to_vec()));
                Ok(())
            }
            Goes::Nowhere => Ok(()),
            Goes::NotYet(what) => Err(StoreError::Contradiction(format!("{what} of a file system that is at rest"))),
        }
    }

    fn slot(&mut self, key: &[u8], value: &[u8]) -> Result<Goes, WireError> {
        let (&class, rest) = key.split_first().ok_or(WireError::Truncated)?;
        let mut key = Reader::new(rest);
        let mut id = || Ok(InodeId(u64::from_be_bytes(key.array()?)));
        Ok(match class {
            class::ORPHAN | class::XATTR | class::LINKABLE => Goes::With(id()?.slot()),
            class::DATA_PENDING => Goes::With(DataId::take(&mut key)?.inode.slot()),
            class::CLOCK => {
                self.clock = self.clock.max(ClockObject::from_stored(value)?.last);
                Goes::Nowhere
            }
            class::MAP => {
                self.epoch = MapImage::from_stored(value)?.epoch;
                Goes::Nowhere
            }
            class::RESERVED => {
                self.reserved.raise(Counter::load(&mut key)?, ReservedObject::from_stored(value)?.upto);
                Goes::Nowhere
            }
            class::FLOOR => {
                let (from, UptoObject { upto }) =
                    (NodeId(u32::from_be_bytes(key.array()?)), UptoObject::from_stored(value)?);
                if from.class() == Some(NodeClass::Data) {
                    let floor = self.floors.entry(from).or_default();
                    *floor = upto.max(*floor);
                }
                Goes::Nowhere
            }
            // Counted anew.
            class::COUNT => Goes::Nowhere,
            class::WATERMARK | class::TRIMMED | class::FINISHED | class::ATTEMPTS | class::TRACKING => Goes::Nowhere,
            // What a mount of before was told is over.
            class::POWER_LOST => Goes::Nowhere,
            // A mount of before does not come back to another shape.
            class::REPLY | class::MEMBER => Goes::Nowhere,
            class::LOG => Goes::NotYet("a change-log"),
            class::PREPARED | class::DECIDED => Goes::NotYet("a transaction"),
            tag => return Err(WireError::UnknownTag { what: "image object", tag }),
        })
    }

    /// What is loaded at a start of each range of each shard.
    pub fn finish(mut self) -> Vec<(ShardId, u32, Vec<Pair>)> {
        let mut all = Vec::new();
        for shard in self.map.all() {
            for range in 0..GLOBAL_RANGE {
                let mut pairs = self.rest.remove(&(shard, range)).unwrap_or_default();
                let Count { inodes, blocks } = self.counts.get(&(shard, range)).copied().unwrap_or_default();
                pairs.push((vec![class::COUNT], CountObject { inodes, blocks }.to_stored()));
                pairs.sort();
                all.push((shard, range, pairs));
            }
            let mut pairs = vec![(vec![class::CLOCK], ClockObject { last: self.clock }.to_stored())];
            if shard == self.map.coordinator() {
                let map = MapImage { epoch: self.epoch + 1, ..MapImage::of(&self.map) };
                pairs.push((vec![class::MAP], map.to_stored()));
            }
            // A shard that gets a slot gives out nothing that another one has given out there.
            pairs.extend(self.reserved.all().map(|(counter, upto)| {
                ([&[class::RESERVED][..], &counter.to_stored()].concat(), ReservedObject { upto }.to_stored())
            }));
            pairs.extend(self.floors.iter().map(|(from, &upto)| {
                ([&[class::FLOOR][..], &from.0.to_be_bytes()].concat(), UptoObject { upto }.to_stored())
            }));
            pairs.sort();
            all.push((shard, GLOBAL_RANGE, pairs));
        }
        all
    }
}

/// Where an object goes.
enum Goes {
    With(Slot),
    Nowhere,
    NotYet(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::secrets::Secrets;

    /// Inodes have forgotten what is below a data node's floor, wherever they go; what shards told each other is over.
    #[test]
    fn the_highest_floor_of_a_data_node_goes_to_every_shard() {
        let mut reshape = Reshape::to(3, Secrets::of_seed(1).placement);
        let key = |from: NodeId| [&[class::FLOOR][..], &from.0.to_be_bytes()].concat();
        let floor = |upto| UptoObject { upto: LogSeq(upto) }.to_stored();
        for (from, upto) in [(NodeId::data(0), 7), (NodeId::shard(ShardId(1)), 99), (NodeId::data(0), 5)] {
            reshape.rest(&key(from), &floor(upto)).expect("a floor");
        }
        assert!(reshape.rest(&key(NodeId::data(0))[..3], &floor(9)).is_err());
        let global = reshape.finish().into_iter().filter(|(_, range, _)| *range == GLOBAL_RANGE);
        for (shard, _, pairs) in global {
            let floors: Vec<_> = pairs.into_iter().filter(|(key, _)| key[0] == class::FLOOR).collect();
            assert_eq!(floors, [(key(NodeId::data(0)), floor(7))], "{shard:?}");
        }
    }
}
