//! flock(2): whole-file locks of open file descriptions.

use crate::posix::prelude::*;
use libc::{LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN};
use std::os::fd::{AsFd, OwnedFd};

fn pair(d: &Dir) -> (OwnedFd, OwnedFd) {
    let f = d.file("f");
    (ok!(open(&f, O_RDWR, 0)), ok!(open(&f, O_RDWR, 0)))
}

/// Shared locks share, an exclusive one excludes both kinds (EWOULDBLOCK); two opens of one process are two owners.
#[test]
fn kinds() {
    let d = area!();
    let (a, b) = pair(&d);
    for (mine, shared, exclusive) in [(LOCK_SH, true, false), (LOCK_EX, false, false), (LOCK_UN, true, true)] {
        ok!(flock(&a, mine));
        allowed_or(format!("shared beside {mine}"), shared, flock(&b, LOCK_SH | LOCK_NB), libc::EWOULDBLOCK);
        ok!(flock(&b, LOCK_UN));
        allowed_or(format!("exclusive beside {mine}"), exclusive, flock(&b, LOCK_EX | LOCK_NB), libc::EWOULDBLOCK);
        ok!(flock(&b, LOCK_UN));
    }
}

/// A lock can be converted; a conversion that is refused may lose the lock, one that works keeps it.
#[test]
fn conversion() {
    let d = area!();
    let (a, b) = pair(&d);
    ok!(flock(&a, LOCK_SH));
    ok!(flock(&a, LOCK_EX | LOCK_NB));
    expect_errno!(flock(&b, LOCK_SH | LOCK_NB), EWOULDBLOCK);
    ok!(flock(&a, LOCK_SH));
    ok!(flock(&b, LOCK_SH | LOCK_NB));
    expect_errno!(flock(&a, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    ok!(flock(&b, LOCK_UN));
    ok!(flock(&a, LOCK_EX | LOCK_NB));
}

/// A dup has the same lock: either unlocks it.
#[test]
fn shared_by_dup() {
    let d = area!();
    let (a, b) = pair(&d);
    let copy = ok!(dup(&a));
    ok!(flock(&a, LOCK_EX));
    ok!(flock(&copy, LOCK_EX | LOCK_NB));
    ok!(flock(&copy, LOCK_UN));
    ok!(flock(&b, LOCK_EX | LOCK_NB));
}

/// A forked child has the same lock too.
#[test]
fn shared_by_fork() {
    let d = area!();
    let (a, b) = pair(&d);
    ok!(flock(&a, LOCK_EX));
    assert_eq!(fork_keeping(&[a.as_fd()], || code(flock(&a, LOCK_EX | LOCK_NB))).wait(), End::Exit(0));
    expect_errno!(flock(&b, LOCK_SH | LOCK_NB), EWOULDBLOCK);
    assert_eq!(fork_keeping(&[a.as_fd()], || code(flock(&a, LOCK_UN))).wait(), End::Exit(0));
    ok!(flock(&b, LOCK_EX | LOCK_NB));
}

/// The last close of the description drops it, an earlier one does not.
#[test]
fn dropped_by_the_last_close() {
    let d = area!();
    let (a, b) = pair(&d);
    ok!(flock(&a, LOCK_EX));
    let copy = ok!(dup(&a));
    drop(a);
    expect_errno!(flock(&b, LOCK_SH | LOCK_NB), EWOULDBLOCK);
    drop(copy);
    // Waits for forks that copied it.
    drop(no_copies());
    wait_until("the last close frees the lock", || flock(&b, LOCK_EX | LOCK_NB).is_ok());
}

/// A killed process drops its locks.
#[test]
fn dropped_by_kill() {
    let d = area!();
    let f = d.file("f");
    let ready = d.p("ready");
    let child = fork(|| {
        let Ok(fd) = open(&f, O_RDWR, 0) else { return 200 };
        let _ = flock(&fd, LOCK_EX).and_then(|()| mkdir(&ready, 0o755));
        loop {
            std::thread::park();
        }
    });
    wait_until("the child has the lock", || stat(&ready).is_ok());
    let fd = ok!(open(&f, O_RDWR, 0));
    expect_errno!(flock(&fd, LOCK_SH | LOCK_NB), EWOULDBLOCK);
    child.signal(libc::SIGKILL);
    child.wait();
    wait_until("the kill frees the lock", || flock(&fd, LOCK_EX | LOCK_NB).is_ok());
}

/// flock and fcntl locks do not see each other.
#[test]
fn apart_from_fcntl() {
    let d = area!();
    let (a, b) = pair(&d);
    ok!(flock(&a, LOCK_EX));
    as_process(|| ok!(lock(ok!(open(d.p("f"), O_RDWR, 0)), libc::F_SETLK, libc::F_WRLCK, 0, 0)));
    ok!(flock(&a, LOCK_UN));
    ok!(lock(&a, libc::F_OFD_SETLK, libc::F_WRLCK, 0, 0));
    ok!(flock(&b, LOCK_EX | LOCK_NB));
}

/// Any access mode will do, and directories can be locked.
#[test]
fn any_descriptor() {
    let d = area!();
    let f = d.file("f");
    for flags in [O_RDONLY, O_WRONLY, O_RDWR | O_APPEND] {
        let fd = ok!(open(&f, flags, 0));
        ok!(flock(&fd, LOCK_EX | LOCK_NB));
        ok!(flock(&fd, LOCK_UN));
    }
    let (a, b) = (ok!(open(d.path(), O_RDONLY, 0)), ok!(open(d.path(), O_RDONLY, 0)));
    ok!(flock(&a, LOCK_EX | LOCK_NB));
    expect_errno!(flock(&b, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    expect_errno!(flock(&a, 0), EINVAL);
    expect_errno!(flock(bad_fd(), LOCK_SH), EBADF);
}

/// A blocking flock waits for the unlock.
#[test]
fn waiting() {
    let d = area!();
    let (a, _b) = pair(&d);
    ok!(flock(&a, LOCK_EX));
    let child = fork(|| code(open(d.p("f"), O_RDONLY, 0).and_then(|fd| flock(&fd, LOCK_SH))));
    child.wait_blocked_in(libc::SYS_flock);
    ok!(flock(&a, LOCK_UN));
    assert_eq!(child.wait(), End::Exit(0));
}

/// A signal ends the wait with EINTR, SIGKILL ends the waiter at once; neither leaves a lock behind.
#[test]
fn waiting_interrupted() {
    let d = area!();
    let (a, b) = pair(&d);
    ok!(flock(&a, LOCK_EX));
    for (signal, wanted) in [(libc::SIGUSR1, End::Exit(libc::EINTR)), (libc::SIGKILL, End::Signal(libc::SIGKILL))] {
        let child = fork(|| {
            interrupt_by(libc::SIGUSR1);
            code(open(d.p("f"), O_RDWR, 0).and_then(|fd| flock(&fd, LOCK_EX)))
        });
        child.wait_blocked_in(libc::SYS_flock);
        let start = std::time::Instant::now();
        child.signal(signal);
        assert_eq!(child.wait(), wanted);
        assert!(start.elapsed().as_secs_f64() < 1.0, "took {:?}", start.elapsed());
    }
    ok!(flock(&a, LOCK_UN));
    ok!(flock(&b, LOCK_EX | LOCK_NB));
}

/// Many contenders exclude each other and all get through.
#[test]
fn many_waiters() {
    let d = area!();
    let f = d.file_with("f", b"\0");
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let fd = ok!(open(&f, O_RDWR, 0));
                    ok!(flock(&fd, LOCK_EX));
                    let count = ok!(pread(&fd, 1, 0))[0];
                    ok!(pwrite(&fd, [count + 1], 0));
                }
            });
        }
    });
    assert_eq!(content(&f), [120]);
}
