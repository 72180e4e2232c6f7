//! Bounds of a shard's queues that nobody waits for. Tests make them small; else they are those of [`limits`].

use onpath_wire::limits;

/// How much may wait for other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardBounds {
    /// Change-logs that are not empty.
    pub logs: usize,
    /// Entries of all change-logs together.
    pub log_entries: usize,
    /// Files whose bytes data nodes have not dropped yet.
    pub drops: usize,
    /// Positions remembered above the floor before owners are told to raise it.
    pub floor_every: usize,
}

impl Default for ShardBounds {
    fn default() -> ShardBounds {
        ShardBounds {
            logs: limits::CHANGE_LOGS_MAX,
            log_entries: limits::CHANGE_LOG_ENTRIES_MAX,
            drops: limits::DROPS_PENDING_MAX,
            floor_every: limits::FLOOR_EVERY,
        }
    }
}
