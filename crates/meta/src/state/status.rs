//! Named counters of a shard, for `onpath status`.

use super::State;

impl State {
    /// Counters and table sizes.
    pub(crate) fn status(&self) -> Vec<(&'static str, u64)> {
        let c = &self.counters;
        vec![
            ("inodes", self.inodes.len()),
            ("names", self.names.len()),
            ("records", c.records),
            ("requests", c.requests),
            ("requests_of_another_term", c.wrong_term),
            ("replies_from_cache", c.replayed_replies),
            ("replies_cached", self.replies.len() as u64),
            ("grants_asked", c.grants_asked),
            ("grants_given", c.grants_given),
            ("collects", c.collects),
            ("recalls_answered", c.recalls),
            ("recalls_abandoned", c.recalls_abandoned),
            ("pushes", c.pushes),
            ("batches_applied", c.batches_applied),
            ("entries_applied", c.entries_applied),
            ("entries_compacted", c.entries_compacted),
            ("entries_pending", self.dirs.pending() as u64),
            ("transactions", c.txns),
            ("transactions_busy", c.txn_busy),
            ("inodes_open", self.opens.len() as u64),
            ("file_locks", self.filelocks.len() as u64),
            ("orphans", self.orphans.len() as u64),
            ("data_pending", self.data_pending.len() as u64),
            ("sessions", self.coordinator.live() as u64),
            ("messages_malformed", c.malformed),
            ("messages_skewed", c.skewed),
        ]
    }
}
