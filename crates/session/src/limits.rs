//! Bounds that only a session knows; those shared with other roles are in [`onpath_wire::limits`].

use onpath_wire::limits::{OPEN_GRACE_MS, SESSION_WINDOW};

/// Requests of the mount that run at a time; more wait in the session's queue.
pub const REQUESTS_RUNNING_MAX: usize = 2_048;
/// Part of the window kept free for what keeps the session alive: attach, renew, opening again, releases.
pub const WINDOW_RESERVE: u64 = SESSION_WINDOW / 8;
/// Rounds of a read, write or sync that meets newer generations or cuts before it ends with EIO.
pub const STALE_ROUNDS_MAX: u32 = 64;
/// Pauses ([`BUSY_PAUSE_US`]) of a read or write that a data node refuses and its home does not, before it ends with EIO.
pub const STALE_PAUSES_MAX: u32 = 3_000;
/// Times an operation may be asked for supplementary groups before it ends with EACCES.
pub const CALLER_ROUNDS_MAX: u32 = 8;
/// A server that has not answered for so long counts as unreachable: an interrupted caller gets EINTR, microseconds. Nobody may be in
/// state D for more than a second after a signal.
pub const UNREACHABLE_US: u64 = 700_000;
/// Pause before a request is asked again that a shard was too busy for, microseconds.
pub const BUSY_PAUSE_US: u64 = 20_000;
/// With `soft`: a request unanswered for so long ends with EIO, microseconds.
pub const SOFT_TIMEOUT_US: u64 = 30_000_000;
/// A waiting lock of which nothing was heard for so long is asked for again, microseconds.
pub const LOCK_ASK_AGAIN_US: u64 = 2_000_000;
/// A lock that has waited for so long is looked at: is it part of a deadlock? Microseconds. Then twice as much later, four times, and
/// as often as it is asked for again.
pub const DEADLOCK_LOOK_US: u64 = 20_000;
/// Waits that are followed from one to the next in search of a deadlock; a longer circle is not seen.
pub const DEADLOCK_DEPTH_MAX: usize = 64;
/// Owners of locks that are looked at in one search.
pub const DEADLOCK_OWNERS_MAX: usize = 1_024;
/// So many looks before a lock is asked for again for the first time.
pub const DEADLOCK_LOOKS_MAX: u32 = 4;
/// Locks of this session that may wait at a time; more end with ENOLCK.
pub const WAITING_LOCKS_MAX: usize = SESSION_WINDOW as usize / 4;
/// Ranges locked by this session, remembered to be taken again after a restart of their home; more end with ENOLCK.
pub const HELD_LOCKS_MAX: usize = 1 << 18;
/// Handles that a session gives out; more end with ENFILE.
pub const HANDLES_MAX: usize = 1 << 22;
/// Releases under way that the mount no longer waits for; beyond it a release is answered only when it is done.
pub const RELEASES_MAX: usize = 1_024;
/// Inodes opened again at a time after a restart of their home.
pub const RESTORE_BATCH: usize = 64;
/// Interrupts remembered that came before the request they name (several reader threads).
pub const EARLY_INTERRUPTS_MAX: usize = 8;
/// How long a leaving session waits for the coordinator, microseconds.
pub const DETACH_TIMEOUT_US: u64 = 1_000_000;
/// Names, and 32 bytes an entry, of which the attributes are asked for at a time when a directory is summed up.
pub const SUM_PAGE_BYTES: u32 = 64 << 10;
/// Closes and access times that wait to be told together; then they are told at once.
pub const LATER_MAX: usize = 16;
/// How long they wait for others, microseconds.
pub const LATER_US: u64 = 10_000;
/// A file that a switch has let a session open, and that is open for so long, is told to its home, microseconds.
pub const REGISTER_US: u64 = 100_000;
const _: () = assert!(REGISTER_US < OPEN_GRACE_MS * 1_000 / 4, "most of the grace is left for what is lost on the way");
/// Files made by the first half of an open(2) that wait for the second; beyond it the oldest ones are opened like any other.
pub const HALVES_MAX: usize = 1_024;
/// For how long they wait, microseconds: mknod(2) has no second half.
pub const HALVES_US: u64 = 1_000_000;
/// For how long the attributes that a read(2) has asked for hold for its READ, which follows at once, microseconds.
pub const FRESH_US: u64 = 10_000;
/// For how long the home's word at an open that the file has no extended attributes holds for the first write of the thread that
/// opened it, microseconds.
pub const WITHOUT_XATTRS_US: u64 = 10_000;
/// Changed inodes of which is remembered what was told of them until they are synced; as many older ones may be remembered too. More than
/// a session changes within the interval of a flush.
pub const UNSYNCED_MAX: usize = 1 << 15;
/// Terms of a shard in which something was told of an inode and of which nobody has asked what is left.
pub const TERMS_UNSYNCED_MAX: usize = 4;
/// Bytes of zeros that stand for holes in a read; a longer hole repeats them.
pub const ZEROS_BYTES: usize = 64 << 10;
/// For how long a path node is waited for, microseconds: whoever walks by itself needs not much longer.
pub const PATH_NODE_PATIENCE_US: u64 = 300_000;
/// For how long a path node is not asked after it was silent, microseconds: the next one is asked meanwhile, if there is one.
pub const PATH_NODE_SILENT_US: u64 = 2_000_000;
