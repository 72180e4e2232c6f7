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
    /// Levels that whoever moves a directory looks at in its turn; deeper trees are walked through before it.
    pub turn_levels: u32,
    /// Moved directories that are remembered for those who walk before their turns.
    pub moves: usize,
    /// Levels that are walked through before a turn.
    pub climb_levels: usize,
}

impl Default for ShardBounds {
    fn default() -> ShardBounds {
        ShardBounds {
            logs: limits::CHANGE_LOGS_MAX,
            log_entries: limits::CHANGE_LOG_ENTRIES_MAX,
            drops: limits::DROPS_PENDING_MAX,
            floor_every: limits::FLOOR_EVERY,
            turn_levels: limits::TURN_LEVELS_MAX,
            moves: limits::MOVES_REMEMBERED,
            climb_levels: limits::CLIMB_LEVELS_MAX,
        }
    }
}
