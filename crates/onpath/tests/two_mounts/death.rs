//! One of the two dies: the second mount, or the server with the first.

use crate::Pair;
use crate::common::check::{content, done};
use crate::common::process::{End, fork};
use crate::common::{sys, wait_until};
use libc::{LOCK_EX, LOCK_NB, O_RDWR};

/// A killed mount's locks and open files are gone, what it had written is not.
#[test]
fn the_second_mount_is_killed() {
    let Some(mut pair) = Pair::new("the second mount is killed", &[]) else { return };
    let [here, there] = pair.both("f");
    std::fs::write(&there, "written by the second").expect("write");
    let theirs = done("open", sys::open(&there, O_RDWR, 0));
    done("lock", sys::flock(&theirs, LOCK_EX));
    let mine = done("open", sys::open(&here, O_RDWR, 0));
    assert_eq!(sys::flock(&mine, LOCK_EX | LOCK_NB), Err(libc::EAGAIN));
    pair.mounts[1].kill();
    wait_until("the dead mount's lock is free", || sys::flock(&mine, LOCK_EX | LOCK_NB).is_ok());
    assert_eq!(content(&here), b"written by the second");
    drop(theirs);
    pair.mounts[1] = pair.site.mount(1, &[]);
    assert_eq!(content(&there), b"written by the second");
    drop(mine);
    pair.stop("after a killed mount");
}

/// The server is killed and started again: the second mount goes on where it was, with its open files and locks.
#[test]
fn the_server_is_killed() {
    let Some(mut pair) = Pair::new("the server is killed", &[]) else { return };
    let [_, there] = pair.both("f");
    std::fs::write(&there, "before").expect("write");
    let fd = done("open", sys::open(&there, O_RDWR, 0));
    done("lock", sys::flock(&fd, LOCK_EX));
    pair.mounts[0].kill();
    // Asked of a dead server, the request waits for the next one.
    let waiter = fork(|| i32::from(sys::stat(&there).is_err()));
    pair.mounts[0] = pair.site.dev(&[]);
    assert_eq!(waiter.wait(), End::Exit(0), "a request made while the server was dead");
    let [here, _] = pair.both("f");
    assert_eq!(content(&here), b"before");
    done("pwrite", sys::pwrite(&fd, "after!", 0));
    assert_eq!(content(&here), b"after!");
    let mine = done("open", sys::open(&here, O_RDWR, 0));
    assert_eq!(sys::flock(&mine, LOCK_EX | LOCK_NB), Err(libc::EAGAIN), "the lock outlives the server");
    drop(fd);
    wait_until("the lock is given back", || sys::flock(&mine, LOCK_EX | LOCK_NB).is_ok());
    drop(mine);
    pair.stop("after a killed server");
}
