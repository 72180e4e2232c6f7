//! `onpath status` shows what clients hold, and what that takes.

use crate::common::check::done;
use crate::common::sys;
use crate::two_mounts::Pair;

#[test]
fn memory_of_what_clients_hold() {
    let Some(pair) = Pair::new("the memory that status tells", &["--shards", "2"]) else { return };
    let before = pair.site.status();
    let [here, there] = pair.both("f");
    let mine = done("open", sys::open(&here, libc::O_RDWR | libc::O_CREAT, 0o644));
    let theirs = done("open", sys::open(&there, libc::O_RDWR, 0));
    done("lock", sys::flock(&mine, libc::LOCK_SH));
    done("lock", sys::flock(&theirs, libc::LOCK_SH));
    let held = pair.site.status();
    let more = |roles, counter| held.sum(roles, &[counter]) - before.sum(roles, &[counter]);
    assert_eq!((more("shard", "inodes_open"), more("shard", "file_locks")), (1, 2));
    assert_eq!((more("session", "handles_open"), more("session", "file_locks")), (1, 1), "of this process's own mount");
    assert_eq!(held.sum("shard", &["sessions"]), 2);
    let parts = held.sum("", &["table_bytes"]) + held.sum("host", &["messages_bytes"]);
    assert!(more("", "table_bytes") >= 128 + 2 * 384 + 320 + 256);
    assert_eq!(held.sum("host", &["bounded_bytes"]), parts, "the sum of its parts");
    drop((mine, theirs));
    pair.stop("after status");
}
