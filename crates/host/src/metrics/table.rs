//! The counters of every role, and of every part of the runtime.

use super::Kind::{Counter, Gauge, Highest};
use super::{Group, Kind, Metric, Unit};

const fn of(kind: Kind, name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind, unit: Unit::Number, help }
}

const fn bytes(kind: Kind, name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind, unit: Unit::Bytes, help }
}

const fn microseconds(kind: Kind, name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind, unit: Unit::Microseconds, help }
}

const fn milliseconds(kind: Kind, name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind, unit: Unit::Milliseconds, help }
}

/// All groups.
pub const GROUPS: &[Group] =
    &[SHARD, DATA, SESSION, PATH, SWITCH, CONTROLLER, HOST, JOURNAL, CHECKPOINT, DISK, UDP, TRANSPORT, MOUNTS];

const SHARD: Group = Group {
    role: "shard",
    about: "Metadata shards, all of a process together.",
    metrics: &[
        of(Gauge, "inodes", "Inodes of the shard."),
        of(Gauge, "inodes_in_memory", "Inodes of which it need not ask the disk."),
        of(Gauge, "names_in_memory", "Names of which it need not ask the disk."),
        bytes(Gauge, "object_bytes", "Memory that names, inodes and listings take."),
        bytes(Gauge, "object_bytes_free", "Memory that objects have left and only objects take again."),
        of(Counter, "records", "Records written to the journal."),
        of(Counter, "requests", "Requests taken from clients."),
        of(
            Counter,
            "requests_of_another_term",
            "Requests refused because they were for a former term of the shard; their senders ask again.",
        ),
        of(
            Counter,
            "requests_refused_busy",
            "Requests refused because too many were in progress; their senders ask again.",
        ),
        of(Gauge, "requests_running", "Requests in progress."),
        of(
            Counter,
            "replies_from_cache",
            "Requests that had been executed before and were answered from the reply cache.",
        ),
        of(Gauge, "replies_cached", "Replies kept for clients that ask again."),
        of(Counter, "grants_asked", "Parts of directories asked for, at their owners."),
        of(Counter, "grants_given", "Parts of directories given, as an owner."),
        of(Counter, "path_parts_given", "Path parts of directories given to path nodes, as an owner."),
        of(
            Counter,
            "path_parts_struck",
            "Path parts that nobody waits for any more, since the leases of their path nodes were over.",
        ),
        of(Counter, "merge_parts_given", "Files lent to data nodes, which answer writes of them."),
        of(Counter, "merge_parts_recalled", "Lent files asked back, since somebody wanted to know of them."),
        of(
            Counter,
            "merge_parts_collected",
            "Lent files of which a data node told its home what it had answered, and kept them.",
        ),
        of(Counter, "collects_of_many", "Messages that asked a data node about all lent files of a listing at once."),
        of(Counter, "looks_none", "Readers of lent files whom the table of a switch told that nothing is pending."),
        of(Counter, "looks_pending", "Readers of lent files whom the table of a switch told what is pending."),
        of(Counter, "installs_shown", "Writes answered by a data node through a switch whose table shows them."),
        of(Counter, "installs_passed_on", "Writes that no table of a switch showed, answered by their home."),
        of(Gauge, "files_lent", "Files lent to data nodes now."),
        of(Counter, "answered_writes_learned", "Records of what data nodes had answered."),
        of(
            Counter,
            "answered_writes_lost",
            "Of what data nodes had answered, lost with bytes that this home has forgotten in a power loss.",
        ),
        of(
            Counter,
            "ways_forgotten",
            "Directories through which clients forget the ways that they keep, since they were changed.",
        ),
        of(Counter, "requests_behind", "Requests not executed, since their client has not forgotten such a way yet."),
        of(Counter, "collects", "Collects begun: a reader wanted what was pending elsewhere."),
        of(Counter, "recalls_answered", "Revocations: parts of directories given back since the owner asked for that."),
        of(Counter, "recalls_abandoned", "Revocations that nobody waits for any more."),
        of(Counter, "collects_answered", "Collects of the network form answered."),
        of(Counter, "collects_abandoned", "Collects of the network form given up, as an owner."),
        of(Counter, "marks_sent", "Marks sent to the switch."),
        of(Counter, "marks_acknowledged", "Marks that the switch has."),
        of(Counter, "marks_refused", "Marks for which the dirty set had no room."),
        of(Counter, "marks_taken_for_switch", "Marks taken for the switch, as an owner."),
        of(Gauge, "groups_marked", "Groups of directories that are marked."),
        of(Counter, "updates_gated", "Updates that had to wait for their mark."),
        of(Gauge, "updates_gated_now", "Updates that wait for their mark now."),
        of(Counter, "reads_spared_collect", "Reads that the switch spared a collect."),
        of(Counter, "directories_went_sync", "Directories that went into sync: their updates go to the owner at once."),
        of(Highest, "tracking_epoch", "The tracking epoch; 0 without a switch."),
        of(
            Counter,
            "tracking_epochs_given",
            "Tracking epochs given out, by the coordinator: 1 more each time a switch was lost.",
        ),
        of(Counter, "alone_given", "Times of being alone given to sessions, in which they may cache."),
        of(Counter, "pages_asked", "Sessions asked to write back what they have changed of a file in memory."),
        of(Counter, "pages_given_up", "Of these, sessions that did not answer in time."),
        of(Counter, "pushes", "Pushes of change-logs to their owners begun."),
        of(Counter, "batches_applied", "Batches of updates applied, as an owner."),
        of(Counter, "entries_applied", "Updates of directories applied, as an owner."),
        of(Counter, "entries_compacted", "Of these, updates that others of the same batch have undone or replaced."),
        of(Gauge, "grants_held", "Parts of directories held."),
        of(Gauge, "entries_pending", "Updates pending: their directories' owners have not applied them."),
        microseconds(
            Highest,
            "entries_pending_oldest_us",
            "For how long the oldest of them has been pending, to half a second.",
        ),
        of(Counter, "transactions", "Transactions over several shards begun."),
        of(Counter, "transactions_busy", "Transactions begun again because another one was in their way."),
        of(
            Counter,
            "intentions",
            "Transactions answered before their participants had their promises on stable storage.",
        ),
        of(
            Counter,
            "intentions_undone",
            "Those of them that were taken back because a participant has lost its power.",
        ),
        of(Gauge, "inodes_open", "Inodes that clients have open."),
        of(Gauge, "file_locks", "Locks of files."),
        of(Gauge, "orphans", "Inodes without a name that are open still."),
        of(Gauge, "data_pending", "Writes that data nodes will be told of."),
        of(Gauge, "sessions", "Sessions open, at the coordinator."),
        of(Highest, "births_reserved", "Births of inodes taken, of 1,048,575: one for each start that makes inodes."),
        of(Counter, "creations_refused_no_birth", "Creations refused with ENOSPC because all births are taken."),
        of(Counter, "messages_malformed", "Messages dropped that could not be understood."),
        of(Counter, "messages_skewed", "Messages dropped because their sender's clock is too far ahead."),
        of(Gauge, "operations_at_once", "Places for operations, of which there were as many at the same time."),
        bytes(Gauge, "table_bytes", "Memory that tables take which grow with clients."),
        microseconds(Highest, "longest_upkeep_us", "Longest time that inputs had to wait for upkeep."),
    ],
};

const DATA: Group = Group {
    role: "data",
    about: "The data node.",
    metrics: &[
        of(Counter, "writes", "Writes recorded."),
        of(
            Counter,
            "writes_answered",
            "Writes answered by this node alone, since the file was lent to it; else its home answers.",
        ),
        of(Counter, "writes_installed", "Of these answers: those that a switch was to show in its table."),
        of(Counter, "reads", "Reads answered with bytes."),
        of(Counter, "blocks_merged", "Blocks read back because only a part of them was written."),
        of(Counter, "requests_stale", "Requests refused as stale; their senders ask again."),
        of(Counter, "duplicates", "Writes that came again and were not executed again."),
        of(Counter, "blocks_bad", "Blocks whose checksum did not fit."),
        of(Counter, "messages_malformed", "Messages dropped that could not be understood."),
        of(Counter, "messages_skewed", "Messages dropped because their sender's clock is too far ahead."),
        of(Counter, "blocks_punched", "Blocks given back to the file system below."),
        bytes(Gauge, "object_bytes", "Memory that the index takes."),
        of(Gauge, "operations_at_once", "Places for operations, of which there were as many at the same time."),
        bytes(Gauge, "table_bytes", "Memory that tables take which grow with clients."),
        microseconds(Highest, "longest_upkeep_us", "Longest time that inputs had to wait for upkeep."),
    ],
};

const SESSION: Group = Group {
    role: "session",
    about: "The session of a mount in this process.",
    metrics: &[
        of(Gauge, "requests_running", "Requests of the mount in progress."),
        of(Gauge, "requests_queued", "Requests that wait for their turn."),
        of(Gauge, "operations_at_once", "Places for operations, of which there were as many at the same time."),
        of(Gauge, "handles_open", "Files and directories open."),
        of(Gauge, "file_locks", "Locks held or waited for."),
        bytes(Gauge, "table_bytes", "Memory that tables take."),
        microseconds(Highest, "longest_upkeep_us", "Longest time that inputs had to wait for upkeep."),
    ],
};

const PATH: Group = Group {
    role: "path",
    about: "Path nodes, which lead clients without a mount through directories.",
    metrics: &[
        of(Gauge, "directories_held", "Directories of which it knows where they are and who may search them."),
        of(Counter, "paths_resolved", "Requests to follow names answered."),
        of(
            Counter,
            "paths_speculated",
            "Of these, those that reachability bits have allowed, without a check of each directory; no shard was asked. The index hi \
             has no such bits.",
        ),
        of(
            Counter,
            "paths_checked",
            "Of the paths resolved, those for which each directory was checked in memory, and no shard was asked.",
        ),
        of(
            Counter,
            "paths_asked",
            "Of the paths resolved, those about which shards were asked. Those speculated, checked and asked are all.",
        ),
        of(
            Counter,
            "requests_forwarded",
            "Of the paths resolved, those passed on to the site of their last name, which has answered.",
        ),
        of(Counter, "names_asked", "Names about which their sites were asked."),
        of(Counter, "parts_granted", "Path parts that homes of directories have granted."),
        of(Counter, "parts_loaded", "Path parts that came with all others of their homes, at the start."),
        of(Counter, "parts_void", "Grants that a revocation had overtaken, and that did not count."),
        of(Counter, "recalls", "Revocations: path parts that homes have taken back."),
        of(Gauge, "leases", "Shards at which it has a lease."),
        of(Counter, "directories_lapsed", "Directories forgotten since the leases of their homes were over."),
        of(Counter, "directories_given_up", "Directories forgotten for want of room."),
        of(
            Counter,
            "requests_busy",
            "Requests refused because too many were in progress; their senders look by themselves.",
        ),
        of(Counter, "messages_malformed", "Messages dropped that could not be understood."),
        bytes(Gauge, "index_bytes", "Memory that the directories take."),
        of(Gauge, "operations_at_once", "Places for operations, of which there were as many at the same time."),
        microseconds(Highest, "longest_upkeep_us", "Longest time that inputs had to wait for upkeep."),
    ],
};

const SWITCH: Group = Group {
    role: "switch",
    about: "The in-network program, in this process or in the kernel (dataplane/SPEC.md).",
    metrics: &[
        of(Counter, "plain", "Packets that were not for it."),
        of(Counter, "drop_truncated", "Packets dropped: shorter than their header."),
        of(Counter, "drop_version", "Packets dropped: of another version."),
        of(Counter, "drop_cluster", "Packets dropped: of another cluster."),
        of(Counter, "drop_structure", "Packets dropped: of an unknown structure."),
        of(Counter, "drop_operation", "Packets dropped: with an unknown operation."),
        of(Counter, "drop_reserved", "Packets dropped: with reserved bits."),
        of(Counter, "drop_shard", "Packets dropped: there is no such shard."),
        of(Counter, "drop_index", "Packets dropped: there is no such index."),
        of(Counter, "drop_tag", "Packets dropped: with tag 0."),
        of(Counter, "drop_fingerprint", "Packets dropped: with fingerprint 0."),
        of(Counter, "drop_ts", "Packets dropped: with position 0."),
        of(Counter, "answered", "Packets that were answered before and were only routed."),
        of(Counter, "drop_stranger", "Packets dropped: they would change a register and do not come from a host."),
        of(Counter, "copies_sent", "Copies that left."),
        of(Counter, "copies_unrouted", "Copies to nodes without a route."),
        of(Counter, "query_normal", "Queries answered that nothing is pending: the read is spared a collect."),
        of(Counter, "query_scattered", "Queries answered that something is pending: the read collects."),
        of(Counter, "query_unknown", "Queries that could not be answered: the owner decides."),
        of(Counter, "insert_marked", "Marks entered into the dirty set."),
        of(Counter, "insert_full", "Marks returned: there was no room."),
        of(Counter, "insert_other_epoch", "Marks of another epoch."),
        of(Counter, "remove_done", "Marks removed."),
        of(Counter, "drop_not_newer", "Removals dropped: not newer than the last one."),
        of(Counter, "drop_term_lower", "Removals dropped: of a former term."),
        of(Counter, "drop_term_ahead", "Removals dropped: of a term not yet announced."),
        of(Counter, "remove_other_epoch", "Removals of another epoch."),
        of(Counter, "install_done", "Installs that took effect in the visibility table."),
        of(Counter, "install_older", "Installs told to the home alone: the entry had a newer one, or was cleared."),
        of(Counter, "install_other_epoch", "Installs of another epoch."),
        of(Counter, "look_pending", "Looks answered with what is pending: the home needs no recall."),
        of(Counter, "look_none", "Looks answered that nothing is pending."),
        of(Counter, "look_unknown", "Looks that could not be answered: the home asks the data node."),
        of(Counter, "clear_done", "Entries of the visibility table freed."),
        of(Counter, "clear_kept", "Clears of what was overwritten or free."),
        of(Counter, "read_answered", "Reads answered from the cache."),
        of(Counter, "read_denied", "Reads denied from the cache: the caller may not."),
        of(Counter, "read_missed", "Reads that go to their shards."),
        of(Counter, "read_reported", "Reads that go to their shards, and are told to who decides what is cached."),
        of(
            Counter,
            "read_other_epoch",
            "Reads that go to their shards: of another epoch of the cache, or there is none.",
        ),
        of(
            Counter,
            "read_stranger",
            "Reads that go to their shards: who asks is not listed, or names a caller that it may not.",
        ),
        of(Counter, "fill_done", "Entries of the cache filled."),
        of(Counter, "fill_not_newer", "Fills without effect: the entry has this revision or a later one."),
        of(Counter, "fill_other_epoch", "Fills of another epoch."),
        of(Counter, "fill_not_there", "Fills of entries that are not there."),
        of(Counter, "invalidate_done", "Entries of the cache cleared."),
        of(Counter, "invalidate_other_epoch", "Invalidates of another epoch."),
        of(Counter, "invalidate_not_there", "Invalidates of entries that are not there."),
        of(Counter, "passes_recirculated", "Recirculations: passes of reads in the cache beyond the first of each."),
        of(Counter, "control_malformed", "Commands dropped that could not be understood."),
        microseconds(Highest, "longest_upkeep_us", "Longest time that inputs had to wait for upkeep."),
    ],
};

const CONTROLLER: Group = Group {
    role: "controller",
    about: "Who decides which names a switch answers from its cache; all are 0 where that is off.",
    metrics: &[
        of(Highest, "cache_epoch", "The epoch of the cache; 0 while the switch may not answer."),
        of(Gauge, "names_cached", "Names that have an entry in the switch."),
        of(Gauge, "sessions_listed", "Sessions that the switch answers."),
        of(Counter, "names_admitted", "Names that were given an entry."),
        of(
            Counter,
            "names_not_admitted",
            "Names that were missed often and cannot be answered by a switch, or had no room.",
        ),
        of(Counter, "names_evicted", "Names that made room for others."),
        of(Counter, "answers_counted", "Answers of entries, of the periods that are over."),
        of(Counter, "leases_renewed", "Times that the switch was given more time to answer."),
        of(Counter, "messages_malformed", "Messages dropped that could not be understood."),
        microseconds(Highest, "longest_upkeep_us", "Longest time that inputs had to wait for upkeep."),
    ],
};

const HOST: Group = Group {
    role: "host",
    about: "The runtime of the process.",
    metrics: &[
        of(Counter, "messages_lost", "Messages lost: to nobody, or into full inboxes."),
        of(Counter, "timer_woken", "Times that the timer was woken before its time."),
        of(Gauge, "messages_waiting", "Messages in inboxes."),
        of(Gauge, "outputs_held", "Replies that wait for the journal."),
        of(Gauge, "disk_full", "1 while the disk below DIR is full: only what frees space is done."),
        bytes(Gauge, "messages_bytes", "Memory that waiting messages and held replies take."),
        bytes(Gauge, "bounded_bytes", "Memory that all bounded tables take."),
        milliseconds(Gauge, "uptime_ms", "For how long the process has run."),
    ],
};

const JOURNAL: Group = Group {
    role: "journal",
    about: "The journal of the process.",
    metrics: &[
        of(Counter, "appended_lsn", "Batches appended since the file system was made."),
        of(Counter, "durable_lsn", "Batches on stable storage since the file system was made."),
        bytes(Counter, "bytes", "Bytes appended since the start."),
        of(Gauge, "segments", "Segments on the disk."),
        of(Counter, "flushes", "Flushes to stable storage."),
        of(Counter, "prepared_inline", "Segments that an append had to prepare itself."),
    ],
};

const CHECKPOINT: Group = Group {
    role: "checkpoint",
    about: "Checkpoints, and the store that has them.",
    metrics: &[
        bytes(Gauge, "store_bytes", "Bytes that the store takes on the disk."),
        bytes(Gauge, "live_bytes", "Of these, bytes in use."),
        of(Counter, "compactions", "Copies that have taken the place of the store."),
        of(Counter, "compactions_left_out", "Copies that could not be finished."),
        of(Counter, "written", "Checkpoints written."),
        of(Counter, "failed", "Checkpoints that could not be written; the journal is kept."),
        milliseconds(Gauge, "age_ms", "Time since the last checkpoint, or since the start."),
        bytes(Gauge, "journal_bytes", "Bytes of the journal that no checkpoint has."),
        bytes(Gauge, "journal_bytes_due", "Bytes of the journal from which a checkpoint is due."),
    ],
};

const DISK: Group = Group {
    role: "disk",
    about: "The file system below DIR.",
    metrics: &[bytes(Gauge, "size_bytes", "Its size."), bytes(Gauge, "free_bytes", "What is free.")],
};

const UDP: Group = Group {
    role: "udp",
    about: "The way to other processes.",
    metrics: &[
        of(Counter, "datagrams_received", "Datagrams received."),
        of(Counter, "datagrams_sent", "Datagrams given to the system."),
        of(Counter, "sends_failed", "Sends that the system refused."),
        of(Counter, "messages_lost", "Messages lost for want of a way."),
        of(Counter, "messages_foreign", "Messages dropped: their sender may not say that."),
        of(Counter, "datagrams_malformed", "Datagrams dropped that could not be understood, or not opened."),
        of(Counter, "strangers", "Datagrams of processes that are not known."),
        of(Counter, "clock_steps", "Steps of the machine's clock."),
        of(Counter, "greetings", "Greetings sent."),
        of(Counter, "challenges", "Challenges sent to who is not known at an address."),
        of(Counter, "disallowed", "Requests refused: the key of their client does not allow them."),
        of(Counter, "over_budget", "Datagrams left unanswered because their address had used up a budget."),
        of(Counter, "joins", "Answers to clients that joined."),
        of(Gauge, "peers", "Processes known."),
        of(Gauge, "hosts_silent", "Hosts from which nothing has come for 3 s."),
        of(Gauge, "clients_silent", "Clients from which nothing has come for 5 s."),
    ],
};

const TRANSPORT: Group = Group {
    role: "transport",
    about: "Datagrams and messages, all peers together, those that are gone too.",
    metrics: &[
        of(Counter, "datagrams_sent", "Datagrams made."),
        of(Counter, "datagrams_doubled", "Of these, second copies of what nobody acknowledges."),
        bytes(Counter, "bytes_sent", "Bytes of all."),
        of(Counter, "messages_sent", "Messages sent whole in one datagram."),
        of(Counter, "fragmented_acknowledged", "Messages that all fragments of were acknowledged."),
        of(Counter, "fragments_sent", "Fragments sent, those sent again included."),
        of(Counter, "fragments_resent", "Fragments sent again."),
        of(Counter, "acks_sent", "Acknowledgements sent."),
        of(Counter, "timeouts", "Retransmission timers that ran out."),
        of(Counter, "messages_refused", "Messages refused because too much waited."),
        of(Counter, "messages_given_up", "Messages dropped after their bound of time without an acknowledgement."),
        of(Counter, "messages_of_old_boot", "Fragmented messages dropped because the peer has started anew."),
        of(Counter, "paths_changed", "Times that a way turned out to take other datagrams than before."),
        of(Counter, "datagrams_received", "Datagrams taken."),
        bytes(Counter, "bytes_received", "Bytes of datagrams taken."),
        of(Counter, "messages_delivered", "Messages delivered."),
        of(Counter, "fragmented_delivered", "Of these, messages that came in fragments."),
        of(Counter, "fragments_again", "Fragments that had come before, or whose message was complete."),
        of(
            Counter,
            "fragments_forgotten",
            "Fragments of messages so old that nobody knows whether they were complete.",
        ),
        of(Counter, "acks_of_nothing", "Acknowledgements of nothing that is under way."),
        of(Counter, "incoming_given_up", "Incomplete messages given up."),
        of(
            Counter,
            "fragments_without_room",
            "Fragments dropped because incomplete messages of other peers take all the room.",
        ),
        of(Counter, "dropped_truncated", "Datagrams dropped: shorter than a header and tag."),
        of(Counter, "dropped_oversized", "Datagrams dropped: too long."),
        of(Counter, "dropped_not_onpath", "Datagrams dropped: of something else, or of another version."),
        of(Counter, "dropped_unknown_flags", "Datagrams dropped: with an unknown flag."),
        of(Counter, "dropped_cluster", "Datagrams dropped: of another cluster."),
        of(Counter, "dropped_endpoint", "Datagrams dropped: of another endpoint."),
        of(Counter, "dropped_head", "Datagrams dropped: with a header that is not allowed."),
        of(Counter, "dropped_not_sealed", "Datagrams dropped: not sealed, although there is a key."),
        of(Counter, "dropped_sealed", "Datagrams dropped: sealed, although there is no key."),
        of(Counter, "dropped_foreign_boot", "Datagrams dropped: of another start of the peer."),
        of(Counter, "dropped_stale_boot", "Datagrams dropped: for another start of this process."),
        of(Counter, "dropped_checksum", "Datagrams dropped: their checksum differs."),
        of(Counter, "dropped_other_key", "Datagrams dropped: they are sealed with a key that is not among ours."),
        of(Counter, "dropped_forged", "Datagrams dropped: they do not open with the key."),
        of(Counter, "dropped_duplicate", "Datagrams dropped: seen before."),
        of(Counter, "dropped_old", "Datagrams dropped: too old to know whether they were seen before."),
        of(Counter, "dropped_unknown_part", "Datagrams dropped: with an unknown part."),
        of(Counter, "dropped_part", "Datagrams dropped: with a part that is not allowed."),
        of(Counter, "dropped_conflict", "Fragments dropped: they contradict earlier ones."),
    ],
};

const MOUNTS: Group = Group {
    role: "mounts",
    about: "Mounts that have told this process of themselves.",
    metrics: &[
        of(Gauge, "present", "Mounts that are there and tell this process what they do."),
        of(Gauge, "silent", "Of these, mounts that have not told anything for 5 s."),
        of(Counter, "reports_refused", "Reports dropped because too many mounts are known."),
    ],
};
