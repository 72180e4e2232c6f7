//! `onpath status` shows what clients hold, and what that takes.

use crate::Pair;
use crate::common::check::done;
use crate::common::server::run;
use crate::common::sys;
use serde_json::Value;

fn status(pair: &Pair) -> Value {
    let output = run(["status".as_ref(), "--json".as_ref(), pair.site.state().as_os_str()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The sum of a counter over all roles whose name begins so.
fn sum(status: &Value, roles: &str, counter: &str) -> u64 {
    let all = status.as_object().expect("roles");
    let mine = all.iter().filter(|(role, _)| role.starts_with(roles));
    mine.filter_map(|(_, counters)| counters[counter].as_u64()).sum()
}

#[test]
fn memory_of_what_clients_hold() {
    let Some(pair) = Pair::new("the memory that status tells", &["--shards", "2"]) else { return };
    let before = status(&pair);
    let [here, there] = pair.both("f");
    let mine = done("open", sys::open(&here, libc::O_RDWR | libc::O_CREAT, 0o644));
    let theirs = done("open", sys::open(&there, libc::O_RDWR, 0));
    done("lock", sys::flock(&mine, libc::LOCK_SH));
    done("lock", sys::flock(&theirs, libc::LOCK_SH));
    let held = status(&pair);
    let more = |roles, counter| sum(&held, roles, counter) - sum(&before, roles, counter);
    assert_eq!((more("shard", "inodes_open"), more("shard", "file_locks")), (1, 2));
    assert_eq!((more("session", "handles_open"), more("session", "file_locks")), (1, 1), "of this process's own mount");
    assert_eq!(sum(&held, "shard", "sessions"), 2);
    let parts = sum(&held, "", "table_bytes") + sum(&held, "host", "messages_bytes");
    assert!(more("", "table_bytes") >= 128 + 2 * 384 + 320 + 256);
    assert_eq!(sum(&held, "host", "bounded_bytes"), parts, "the sum of its parts");
    drop((mine, theirs));
    pair.stop("after status");
}
