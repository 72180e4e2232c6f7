//! What a world is made of, and how rough it is.

use super::faults::FaultConfig;
use onpath_meta::{ShardBounds, SyncPolicy};
use onpath_path::IndexKind;
use onpath_wire::secrets::Secrets;
use onpath_wire::tracking::{Form, Writes};

/// When a client hears of its change (design.md, "Durability").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Commit {
    /// When the operating system has it; flushed every so many milliseconds.
    Interval(u64),
    /// When it is on stable storage.
    Sync,
}

/// Shape and weather of a world.
#[derive(Clone, Debug, PartialEq)]
pub struct WorldConfig {
    /// Everything random comes from it.
    pub seed: u64,
    /// Metadata shards.
    pub shards: u16,
    /// Processes with shards; shard s runs in process s mod processes.
    pub processes: u16,
    /// Data nodes, at least one; data node d runs in process d, which has no shards if d is not below `processes`.
    pub data_nodes: u16,
    /// Path nodes, each in a process of its own, behind all others.
    pub path_nodes: u16,
    /// Bytes of memory that each of them may take.
    pub path_bytes: usize,
    /// The first switch has a cache, whose controller is in a process of its own, behind all others.
    pub cache: bool,
    /// In what they keep directories.
    pub path_index: IndexKind,
    /// They ask for all when they start.
    pub path_loads: bool,
    /// Probability that a message is lost.
    pub loss: f64,
    /// Probability that a message arrives twice.
    pub duplicate: f64,
    /// Probability that a message is held up for long.
    pub reorder: f64,
    /// For how long at most, microseconds.
    pub reorder_us: u64,
    /// Mean number of outputs between two crashes; 0: none.
    pub crash_every: u64,
    /// Crashes may be power losses.
    pub power_loss: bool,
    /// When clients hear of changes.
    pub commit: Commit,
    /// Who answers writes of files (V-1).
    pub writes: Writes,
    /// Sessions make files in two halves, the first of which waits for no disk.
    pub in_halves: bool,
    /// Virtual microseconds between two steps of a checkpoint; 0: none.
    pub checkpoint_us: u64,
    /// Clocks of processes differ by up to so many microseconds.
    pub clock_skew_us: u64,
    /// How directories are tracked; in the network form there are switches.
    pub form: Form,
    /// How many, each with a range of the fingerprints; coarse ones are all in the first one's.
    pub switches: u16,
    /// Which directories go into *sync*.
    pub sync: SyncPolicy,
    /// Arrays of tags in a switch; with 0 every mark finds the set full.
    pub switch_stages: usize,
    /// Directories of a shard fall into 2^n groups; none: each is a group.
    pub coarse_fingerprints: Option<u32>,
    /// Mean virtual microseconds between two failures of a switch, each of which reboots it, takes it away or brings it
    /// back; 0: none.
    pub switch_fails_every_us: u64,
    /// How much may wait at a shard for other nodes.
    pub bounds: ShardBounds,
    /// What else goes wrong.
    pub faults: FaultConfig,
}

impl WorldConfig {
    /// All processes that keep something: each has a journal and data files of its own.
    pub fn all_processes(&self) -> u16 {
        self.processes.max(self.data_nodes)
    }

    /// The secrets of its file system.
    pub fn secrets(&self) -> Secrets {
        Secrets::of_seed(self.seed)
    }

    /// Whether sessions may make files in two halves: the model knows of no answer that a power loss takes back under `sync`.
    pub fn may_halve(&self) -> bool {
        !(self.power_loss && self.commit == Commit::Sync)
    }
}

impl Default for WorldConfig {
    fn default() -> Self {
        WorldConfig {
            seed: 1,
            shards: 2,
            processes: 1,
            data_nodes: 2,
            path_nodes: 0,
            cache: false,
            path_bytes: 1 << 20,
            path_index: IndexKind::Hi,
            path_loads: false,
            writes: Writes::Chain,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_us: 5_000,
            crash_every: 0,
            power_loss: false,
            commit: Commit::Interval(100),
            in_halves: false,
            checkpoint_us: 200_000,
            clock_skew_us: 0,
            form: Form::Owner,
            switches: 1,
            sync: SyncPolicy::Auto,
            switch_stages: 10,
            coarse_fingerprints: None,
            switch_fails_every_us: 0,
            bounds: ShardBounds::default(),
            faults: FaultConfig::default(),
        }
    }
}
