//! Registers as values: for inspection, and to load a switch.

use super::tracking::Tracking;
use onpath_wire::innet::METADATA_BYTES;
use onpath_wire::innet::cache::VALUE_BYTES;

/// What a shard's removes are compared with: a double-width register of stage 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Pair {
    /// The term whose removes are accepted.
    pub min_term: u32,
    /// The last sequence accepted.
    pub counter: u32,
}

/// An entry of the visibility table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Of which file it is; 0: of none, it is not occupied.
    pub fingerprint: u32,
    /// Position of the last install; 0: nothing was installed.
    pub ts: u32,
    /// What that left here.
    pub metadata: [u8; METADATA_BYTES],
}

impl Default for Entry {
    fn default() -> Entry {
        Entry { fingerprint: 0, ts: 0, metadata: [0; METADATA_BYTES] }
    }
}

/// How long the cache answers: a pair of registers of stage 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Lease {
    /// Present epoch, 0 for none.
    pub epoch: u16,
    /// The tick of the switch's clock at which it is none any more.
    pub until: u32,
}

/// Whose an index of the cache is, and whether it says something: a double-width register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stamp {
    /// Number of the entry, 0 for none.
    pub number: u32,
    /// 0: empty; twice the revision that it was filled by; one more if it was cleared since.
    pub state: u32,
}

/// Registers of the cache that are not 0.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CacheState {
    /// Epoch and until.
    pub lease: Lease,
    /// (index, stamp), by index.
    pub stamps: Vec<(u32, Stamp)>,
    /// (index, value), by index.
    pub values: Vec<(u32, [u8; VALUE_BYTES])>,
    /// (row from 0, place, counter), by row and place.
    pub sketch: Vec<(u8, u32, u16)>,
    /// Places of bits that are set.
    pub reported: Vec<u32>,
    /// (index, answers), by index.
    pub hits: Vec<(u32, u32)>,
}

/// Registers that are not 0.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct State {
    /// Epoch and complete bit of the dirty set.
    pub tracking: Tracking,
    /// (shard, its pair), by shard.
    pub pairs: Vec<(u16, Pair)>,
    /// (array from 0, index of 17 bits, tag), by array and index.
    pub tags: Vec<(u16, u32, u32)>,
    /// Epoch and complete bit of the visibility table.
    pub visibility: Tracking,
    /// (number, entry of the visibility table), by number.
    pub entries: Vec<(u32, Entry)>,
    /// Those of the cache.
    pub cache: CacheState,
}
