//! Every bound of Onpath in one place. A queue, table or retry without a line here has no business to exist.

/// Longest file name, bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest symlink target, bytes (PATH_MAX − 1).
pub const TARGET_BYTES_MAX: usize = 4095;
/// Largest read or write of one request, bytes (fs.fuse.max_pages_limit × 4 KiB).
pub const IO_BYTES_MAX: usize = 1 << 20;
/// Largest file, bytes (16 TiB).
pub const FILE_BYTES_MAX: u64 = 16 << 40;
/// Ranges that one fallocate reserves, each consecutive in the file and in a data file; one that would need more is ENOSPC.
pub const RESERVED_RUNS_MAX: usize = 1 << 17;
/// Bytes that one copy_file_range copies, holes left out; a longer one is cut short.
pub const COPY_BYTES_MAX: u64 = 64 << 20;
/// Pieces of data and holes that one copy_file_range copies; one with more is cut short.
pub const COPY_PIECES_MAX: usize = 1_024;
/// A block of data, bytes.
pub const BLOCK_BYTES: u64 = 4096;
/// A chunk of data, bytes.
pub const CHUNK_BYTES: u64 = 4 << 20;
/// Longest name of an extended attribute, bytes.
pub const XATTR_NAME_BYTES_MAX: usize = 255;
/// Longest value of an extended attribute, bytes.
pub const XATTR_VALUE_BYTES_MAX: usize = 64 << 10;
/// Longest list of the names of an inode's extended attributes, bytes: what listxattr(2) can return.
pub const XATTR_LIST_BYTES_MAX: usize = 64 << 10;
/// Names and values of all extended attributes of an inode together, bytes.
pub const XATTR_INODE_BYTES_MAX: usize = 256 << 10;
/// Number of hash slots.
pub const SLOTS: usize = 1 << 16;
/// Most switches of one file system: as many as a reply can name.
pub const SWITCHES_MAX: usize = 8;
/// Most shards of one file system.
pub const SHARDS_MAX: u16 = 256;
/// Largest message body without bulk bytes.
pub const BODY_BYTES_MAX: usize = 2 << 20;
/// Links to one inode.
pub const NLINK_MAX: u32 = 1_000_000;
/// Ranges of uids, and of gids, of a user namespace: as many as Linux takes.
pub const ID_RANGES_MAX: usize = 340;
/// Gids in one `NeedCaller` reply: all that the largest ACL names (the kernel takes 4 KiB of 8 bytes an entry).
pub const NEED_GROUPS_MAX: usize = 512;

/// For how long a session may believe that it is alone in the file system, counted from when it asked for that, milliseconds: answers
/// to its mount may be cached until then.
pub const ALONE_MS: u64 = SESSION_LEASE_MS / 2;
/// For how long a mount may use a cached answer, from when it got it, milliseconds.
pub const CACHED_MS: u64 = 1_000;
/// What a kernel may add to that by rounding up to its ticks (two, of 10 ms at most) and by handing the answer over, milliseconds.
pub const CACHED_SLACK_MS: u64 = 100;

// Whoever is declared dead because it was not heard of caches nothing any more.
const _: () = assert!(ALONE_MS + CACHED_MS + CACHED_SLACK_MS < SESSION_LEASE_MS);

/// Operations in progress at one role; more are refused, and the sender asks again a little later.
pub const OPERATIONS_MAX: usize = 16_384;
/// Requests that a session has sent and not yet seen answered, counted from the oldest one.
pub const SESSION_WINDOW: u64 = 4_096;
/// Replies that a shard remembers for all sessions together; beyond, it does not execute what it would have to remember for a session that
/// has [`REPLIES_SURE`].
pub const REPLIES_MAX: usize = 1 << 18;
/// Remembered replies for which each session has room, whatever others ask.
pub const REPLIES_SURE: usize = 64;
/// Inodes that one request asks for attributes of: the answer fits a message.
pub const ATTRS_ASKED_MAX: usize = 8_192;
/// Operations queued at a session beyond its window before callers wait in the kernel's queue.
pub const SESSION_QUEUE_MAX: usize = 16_384;
/// Messages waiting in the inbox of a role of this process.
pub const INBOX_MAX: usize = 65_536;
/// Inodes that one session may hold open.
pub const OPENS_PER_SESSION_MAX: usize = 1 << 20;
/// File locks on one inode, held and waiting.
pub const LOCKS_PER_INODE_MAX: usize = 65_536;
/// Owners of locks about which a session asks a shard at a time, in search of a deadlock.
pub const LOCKERS_ASKED_MAX: usize = 256;
/// Waits that the answer names; a circle of which more is needed is not seen.
pub const WAIT_EDGES_MAX: usize = 4_096;
/// Directories of which a shard holds grants.
pub const GRANTS_HELD_MAX: usize = 1 << 20;
/// Grant requests waiting at a directory's owner while a job runs.
pub const GRANT_WAITERS_MAX: usize = 1_024;
/// Names that a path node is asked to follow at a time; it follows no more.
pub const NAMES_FOLLOWED_MAX: usize = 1_024;
/// Entries in one change-log batch; the rest follows in the next.
pub const BATCH_ENTRIES_MAX: usize = 4_096;
/// Change-logs of a shard that are not empty; an update that needs another one waits until one is pushed. Each may have a push under
/// way, beside requests.
pub const CHANGE_LOGS_MAX: usize = OPERATIONS_MAX / 2;
/// Entries of all change-logs of a shard together; beyond, updates wait until owners have applied some.
pub const CHANGE_LOG_ENTRIES_MAX: usize = 1 << 18;
/// Positions of trimmed change-logs that a site remembers above the floor before owners are told to raise it.
pub const FLOOR_EVERY: usize = 4_096;
/// Entries in a change-log that make the site push.
pub const PUSH_ENTRIES: usize = 64;
/// A change-log that has been idle so long is pushed, microseconds.
pub const PUSH_IDLE_US: u64 = 50_000;
/// First retry of a call, microseconds; doubled up to [`CALL_RETRY_US_MAX`].
pub const CALL_RETRY_US: u64 = 20_000;
/// Longest pause between two retries of a call, microseconds.
pub const CALL_RETRY_US_MAX: u64 = 1_000_000;
/// A recall that a holder has not answered for so long is abandoned and begun again, microseconds.
pub const RECALL_TIMEOUT_US: u64 = 2_000_000;
/// Attempts at one transaction before its operation is answered EBUSY (about 40 s of pauses).
pub const TXN_ATTEMPTS_MAX: u32 = 2_000;
/// First pause after a transaction attempt that met *Busy*, microseconds; doubled up to [`TXN_BACKOFF_US_MAX`].
pub const TXN_BACKOFF_US: u64 = 200;
/// Longest pause between two attempts at a transaction, microseconds.
pub const TXN_BACKOFF_US_MAX: u64 = 20_000;
/// Levels of the tree that whoever moves a directory looks at in its turn; deeper trees are walked through before it.
pub const TURN_LEVELS_MAX: u32 = 256;
/// For how long a turn at moving a directory is kept while somebody is busy, microseconds.
pub const TURN_US_MAX: u64 = 100_000;
/// Directories that have moved, of which those hear who walk before their turns: as many as move in a minute, about.
pub const MOVES_REMEMBERED: usize = 1 << 16;
/// Levels of the tree that are walked through before a turn; a directory does not move to where it is deeper.
pub const CLIMB_LEVELS_MAX: usize = 1 << 17;
/// Walks through deep trees at a time at a shard, each for another user.
pub const CLIMBS_MAX: usize = 16;
/// Walks before its turn of one move, of which each but the last was in vain since what it saw has moved; then EBUSY.
pub const CLIMB_TRIES_MAX: u32 = 64;
/// Files whose bytes one message drops.
pub const DROPS_MAX: usize = 4_096;
/// Files of a shard whose bytes data nodes have not dropped yet; inodes without a name beyond that stay until there is room.
pub const DROPS_PENDING_MAX: usize = 1 << 18;
/// Undone appends of a file, the last ones, of which a home hears after a power loss; those before them leave zeros.
pub const UNDONE_MAX: usize = 4_096;
/// Files whose writes a data node hands over in one message.
pub const HANDED_OVER_MAX: usize = 512;
/// Lent files about which a home asks data nodes at once, to show them all.
pub const COLLECTED_MAX: usize = 256;
/// Merge parts that a home has given and not got back, and that a data node has.
pub const MERGE_PARTS_MAX: usize = 4_096;
/// Writes that a data node has answered and whose homes have yet to learn of them; beyond that homes answer.
pub const ANSWERED_MAX: usize = 16_384;
/// Refused writes of a file that its home remembers, until its data node has trimmed them; a record or an object with more is refused.
pub const REFUSED_MAX: usize = 64;
/// Drops of a shard are collected for so long, microseconds: nobody waits for them.
pub const DROPS_COLLECT_US: u64 = 10_000;
/// Lease of a session, milliseconds (design.md, "Sessions").
pub const SESSION_LEASE_MS: u64 = 10_000;
/// How much longer than its lease the coordinator waits for a session before it gives away what that has, milliseconds; by as much a
/// session stops acting before its lease is over. Clocks differ by half of it at most.
pub const LEASE_SLACK_MS: u64 = 2 * CLOCK_SKEW_MS_MAX;
/// Lease of a path node at a shard, milliseconds (P-1): a change of a directory that it knows waits so long at most if it is silent.
pub const PATH_LEASE_MS: u64 = 2_000;
/// That of a path node which ends with the shard, since it is in its process.
pub const PATH_LEASE_ENDLESS: u32 = u32::MAX;
/// By as much a path node leads no more before its lease is over, milliseconds: clocks differ in how fast they run.
pub const PATH_LEASE_SLACK_MS: u64 = 100;
/// Path parts that a shard grants by one answer to a path node that asks for all (P-6).
pub const PATHS_GRANTED_MAX: usize = 512;
/// Directories through which ways are to be forgotten, that a shard remembers for clients which have not heard of them (P-5).
pub const WAYS_FORGOTTEN_MAX: usize = 4_096;
/// So many of them a client is told by one answer; who has missed more forgets all.
pub const WAYS_TOLD_MAX: usize = 512;
/// New file locks on files of before wait at most so long after a restart of their home, milliseconds: a session that has
/// not come back by then is dead (design.md, "Sessions"), and what it asked for under its locks is not executed any more.
pub const LOCK_GRACE_MS: u64 = SESSION_LEASE_MS + LEASE_SLACK_MS;
/// A peer's stamp may be ahead of our clock by so much, milliseconds.
pub const CLOCK_SKEW_MS_MAX: u64 = 500;
/// Default interval between flushes of the journal, milliseconds.
pub const COMMIT_INTERVAL_MS: u64 = 100;
/// Size of a journal segment, bytes.
pub const SEGMENT_BYTES: u64 = 16 << 20;
/// Largest journal batch, bytes.
pub const BATCH_BYTES_MAX: usize = 8 << 20;

/// A switch answers from its cache for so long after a lease was asked for, milliseconds (C-4).
pub const CACHE_LEASE_MS: u64 = 300;
/// So often a controller begins to count anew, milliseconds (C-5).
pub const CACHE_PERIOD_MS: u64 = 2_000;
/// Entries of a cache whose answers are asked for at a time.
pub const HITS_MAX: usize = 1_024;
/// Keys for whose names a controller asks a session at a time: those of a walk, and more.
pub const WANTED_NAMES_MAX: usize = 64;
/// Numbers of entries that the coordinator gives a controller at a time.
pub const ENTRY_NUMBERS: u32 = 4_096;
/// Names that a home has lent to the cache of a switch.
pub const LENT_NAMES_MAX: usize = 65_536;
/// For how long a file whose last name is gone stays if a switch may have answered opens of it (C-10): within half of that a session that was
/// answered tells the home, unless it has closed the file again, milliseconds.
pub const OPEN_GRACE_MS: u64 = 10_000;
/// Names of which a session knows how a switch is asked.
pub const HOT_NAMES_MAX: usize = 4_096;
/// Sessions that a switch answers: the first ones of the registry.
pub const CACHE_SESSIONS_MAX: usize = 4_096;

/// Memory that each object of a bounded table takes at most, bytes: what `onpath status` multiplies. Hash tables are counted
/// half full. Names, inodes and listings, of which there is one a file, are not in here.
pub mod memory {
    /// An inode that a session has open, at its home.
    pub const OPEN_AT_HOME: u64 = 128;
    /// An open handle of a mount, with its inode, at its session.
    pub const OPEN_AT_SESSION: u64 = 656;
    /// A file lock held or waiting, at the inode's home.
    pub const LOCK_AT_HOME: u64 = 384;
    /// A file lock held or waiting, at its session.
    pub const LOCK_AT_SESSION: u64 = 256;
    /// A session: its lease, and its places in a shard's tables.
    pub const SESSION: u64 = 512;
    /// A remembered reply.
    pub const REPLY: u64 = 512;
    /// A grant that a shard holds of a directory.
    pub const GRANT: u64 = 512;
    /// An operation in progress at a shard, waiting for a lock, a part or an answer. Its place is kept for the next one.
    pub const OPERATION_AT_SHARD: u64 = 4_096;
    /// An operation in progress at a data node, without the bytes that it carries.
    pub const OPERATION_AT_DATA: u64 = 2_048;
    /// A request of the mount in progress at its session, without the bytes that it carries.
    pub const REQUEST_AT_SESSION: u64 = 4_096;
    /// A request queued at its session, without the bytes that it carries.
    pub const REQUEST_QUEUED: u64 = 256;
}
