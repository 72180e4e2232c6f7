//! Named counters of a shard, for `onpath status`, and what its bounded tables take.

use super::State;
use onpath_wire::disk::record::Counter;
use onpath_wire::limits::memory;

impl State {
    /// Counters and table sizes.
    pub(crate) fn status(&self, now_us: u64) -> Vec<(&'static str, u64)> {
        let c = &self.counters;
        vec![
            ("inodes", self.inodes.len()),
            ("inodes_in_memory", self.inodes.resident()),
            ("names_in_memory", self.names.len()),
            ("object_bytes", self.object_bytes()),
            ("object_bytes_free", self.free_bytes()),
            ("records", c.records),
            ("requests", c.requests),
            ("requests_of_another_term", c.wrong_term),
            ("requests_refused_busy", c.busy),
            ("requests_running", self.running.len() as u64),
            ("replies_from_cache", c.replayed_replies),
            ("replies_cached", self.replies.len() as u64),
            ("grants_asked", c.grants_asked),
            ("grants_given", c.grants_given),
            ("collects", c.collects),
            ("recalls_answered", c.recalls),
            ("path_parts_given", c.path_parts_given),
            ("path_parts_struck", c.path_parts_struck),
            ("ways_forgotten", self.dirs.forgotten.position()),
            ("requests_behind", c.requests_behind),
            ("recalls_abandoned", c.recalls_abandoned),
            ("collects_answered", c.collects_answered),
            ("collects_abandoned", c.collects_abandoned),
            ("marks_sent", c.marks_sent),
            ("marks_acknowledged", c.marks_acknowledged),
            ("marks_refused", c.marks_refused),
            ("marks_taken_for_switch", c.marks_taken),
            ("groups_marked", self.marks.groups() as u64),
            ("updates_gated", c.updates_gated),
            ("updates_gated_now", self.marks.gated() as u64),
            ("reads_spared_collect", c.reads_normal),
            ("directories_went_sync", c.syncs),
            ("tracking_epoch", u64::from(self.epochs.owner.epoch.0)),
            ("tracking_epochs_given", c.epochs),
            ("alone_given", c.alone_given),
            ("pages_asked", c.pages_asked),
            ("pages_given_up", c.pages_given_up),
            ("merge_parts_given", c.merge_parts_given),
            ("merge_parts_recalled", c.merge_parts_recalled),
            ("merge_parts_collected", c.merge_parts_collected),
            ("collects_of_many", c.collects_of_many),
            ("looks_none", c.looks_none),
            ("looks_pending", c.looks_pending),
            ("installs_shown", c.installs_shown),
            ("installs_passed_on", c.installs_passed_on),
            ("files_lent", self.lent.len() as u64),
            ("answered_writes_learned", c.answered_learned),
            ("answered_writes_lost", c.answered_lost),
            ("pushes", c.pushes),
            ("batches_applied", c.batches_applied),
            ("entries_applied", c.entries_applied),
            ("entries_compacted", c.entries_compacted),
            ("grants_held", self.dirs.held_order.len() as u64),
            ("entries_pending", self.dirs.pending() as u64),
            ("entries_pending_oldest_us", self.dirs.oldest_pending(now_us)),
            ("transactions", c.txns),
            ("transactions_busy", c.txn_busy),
            ("intentions", c.intentions),
            ("intentions_undone", c.intentions_undone),
            ("inodes_open", self.opens.len() as u64),
            ("file_locks", self.filelocks.len() as u64),
            ("orphans", self.orphans.len() as u64),
            ("data_pending", self.data_pending.len() as u64),
            ("sessions", self.coordinator.registered_sessions() as u64),
            ("births_reserved", self.reserved.upto(Counter::Births)),
            ("creations_refused_no_birth", c.births_exhausted),
            ("messages_malformed", c.malformed),
            ("messages_skewed", c.skewed),
        ]
    }

    /// Memory that names, inodes and listings take, bytes.
    pub(crate) fn object_bytes(&self) -> u64 {
        let all = [self.names.memory(), self.inodes.memory(), self.listings.memory()];
        all.iter().map(|memory| memory.total() - memory.free).sum()
    }

    /// Memory that objects have left and only objects take again, bytes.
    pub(crate) fn free_bytes(&self) -> u64 {
        let all = [self.names.memory(), self.inodes.memory(), self.listings.memory()];
        all.iter().map(|memory| memory.free).sum()
    }

    /// Memory that the tables take which grow with clients and not with files, bytes; `places` for operations are kept.
    pub(crate) fn table_bytes(&self, places: usize) -> u64 {
        places as u64 * memory::OPERATION_AT_SHARD
            + self.opens.len() as u64 * memory::OPEN_AT_HOME
            + self.filelocks.len() as u64 * memory::LOCK_AT_HOME
            + self.coordinator.registered_sessions() as u64 * memory::SESSION
            + self.replies.len() as u64 * memory::REPLY
            + self.dirs.held_order.len() as u64 * memory::GRANT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Core;

    /// `docs/internals/bounds.md` tells these numbers, so they must not be too small.
    #[test]
    fn a_place_for_an_operation_is_as_small_as_said() {
        let secrets = onpath_wire::secrets::Secrets::of_seed(0);
        let config = crate::ShardConfig {
            shard: onpath_wire::ids::ShardId(0),
            map: onpath_wire::map::ClusterMap::even(1, secrets.placement),
            term: onpath_wire::ids::Term(1),
            one_journal: true,
            ends_path_nodes: false,
            inner: secrets.inner,
            cluster: 0,
            track_unsynced: false,
            outlived: false,
            form: onpath_wire::tracking::Form::Owner,
            switches: onpath_wire::tracking::Switches::ONE,
            sync: crate::SyncPolicy::Auto,
            sticky_marks: true,
            writes: onpath_wire::tracking::Writes::Chain,
            shows_files: false,
            bounds: crate::ShardBounds::default(),
        };
        let shard = crate::Shard::new(config);
        let (place, core) = (shard.kernel.place_bytes() as u64, size_of::<Core>());
        // What rarely waits is boxed, and no larger than what is not.
        assert!(2 * place <= memory::OPERATION_AT_SHARD, "{place} bytes a place, {core} the core");
    }
}
