//! Deadlocks of fcntl locks: whoever closes a circle of processes that wait for each other is refused (EDEADLK).

use crate::posix::prelude::*;
use libc::{F_OFD_SETLK, F_OFD_SETLKW, F_RDLCK, F_SETLK, F_SETLKW, F_UNLCK, F_WRLCK};
use std::os::fd::OwnedFd;

fn opened(file: &Path) -> Result<OwnedFd, i32> {
    open(file, O_RDWR, 0)
}

/// A child that takes `first`, then waits for `second`: bytes of a file each.
fn waits(first: (&Path, i64), second: (&Path, i64)) -> Child {
    let (one, other) = (first.0.to_path_buf(), second.0.to_path_buf());
    let child = fork(|| {
        let locks = || {
            let (a, b) = (opened(&one)?, opened(&other)?);
            lock(&a, F_SETLK, F_WRLCK, first.1, 1)?;
            lock(&b, F_SETLKW, F_WRLCK, second.1, 1)
        };
        code(locks())
    });
    child.wait_blocked_for_lock();
    child
}

/// Two processes and one file.
#[test]
fn two_processes() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(opened(&f));
    ok!(lock(&fd, F_SETLK, F_WRLCK, 0, 1));
    let child = waits((&f, 1), (&f, 0));
    expect_errno!(lock(&fd, F_SETLKW, F_WRLCK, 1, 1), EDEADLK);
    // What was held is held still, and the other one goes on when it is free.
    assert!(ok!(lock(ok!(opened(&f)), libc::F_OFD_GETLK, F_WRLCK, 0, 1)).l_type != F_UNLCK as i16);
    ok!(lock(&fd, F_SETLK, F_UNLCK, 0, 1));
    assert_eq!(child.wait(), End::Exit(0));
}

/// Two processes and two files, which have homes of their own.
#[test]
fn several_files() {
    let d = area!();
    for i in 0..6 {
        let (f, g) = (d.file(format!("f{i}")), d.file(format!("g{i}")));
        let fd = ok!(opened(&f));
        ok!(lock(&fd, F_SETLK, F_WRLCK, 0, 1));
        let child = waits((&g, 0), (&f, 0));
        let other = ok!(opened(&g));
        expect_errno!(lock(&other, F_SETLKW, F_WRLCK, 0, 1), EDEADLK);
        ok!(lock(&fd, F_SETLK, F_UNLCK, 0, 1));
        assert_eq!(child.wait(), End::Exit(0));
    }
}

/// A circle of four.
#[test]
fn four_processes() {
    let d = area!();
    let files: Vec<_> = (0..4).map(|i| d.file(format!("f{i}"))).collect();
    let fd = ok!(opened(&files[0]));
    ok!(lock(&fd, F_SETLK, F_WRLCK, 0, 1));
    let children: Vec<_> = (1..4).map(|i| waits((&files[i], 0), (&files[i - 1], 0))).collect();
    let last = ok!(opened(&files[3]));
    expect_errno!(lock(&last, F_SETLKW, F_WRLCK, 0, 1), EDEADLK);
    ok!(lock(&fd, F_SETLK, F_UNLCK, 0, 1));
    assert_eq!(children.into_iter().map(Child::wait).collect::<Vec<_>>(), [End::Exit(0); 3]);
}

/// Two readers that both want to write.
#[test]
fn two_upgrades() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(opened(&f));
    ok!(lock(&fd, F_SETLK, F_RDLCK, 0, 0));
    let child = fork(|| {
        let fd = opened(&f).expect("open");
        code(lock(&fd, F_SETLK, F_RDLCK, 0, 0).and_then(|_| lock(&fd, F_SETLKW, F_WRLCK, 0, 0)))
    });
    child.wait_blocked_for_lock();
    expect_errno!(lock(&fd, F_SETLKW, F_WRLCK, 0, 0), EDEADLK);
    ok!(lock(&fd, F_SETLK, F_UNLCK, 0, 0));
    assert_eq!(child.wait(), End::Exit(0));
}

/// A chain without an end is none: everybody gets the lock.
#[test]
fn no_circle() {
    let d = area!();
    let files: Vec<_> = (0..3).map(|i| d.file(format!("f{i}"))).collect();
    let fd = ok!(opened(&files[0]));
    ok!(lock(&fd, F_SETLK, F_WRLCK, 0, 1));
    let second = waits((&files[1], 0), (&files[0], 0));
    let third = waits((&files[2], 0), (&files[1], 0));
    // A request that does not wait is refused as ever.
    expect_errno!(lock(ok!(opened(&files[2])), F_SETLK, F_WRLCK, 0, 1), EAGAIN | EACCES);
    ok!(lock(&fd, F_SETLK, F_UNLCK, 0, 1));
    assert_eq!((second.wait(), third.wait()), (End::Exit(0), End::Exit(0)));
}

/// Locks of open files never count: both wait until one is interrupted.
#[test]
fn not_of_open_files() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(opened(&f));
    ok!(lock(&fd, F_OFD_SETLK, F_WRLCK, 0, 1));
    let child = || {
        let f = f.clone();
        fork(move || {
            interrupt_by(libc::SIGUSR1);
            let fd = opened(&f).expect("open");
            code(lock(&fd, F_OFD_SETLK, F_WRLCK, 1, 1).and_then(|_| lock(&fd, F_OFD_SETLKW, F_WRLCK, 0, 1)))
        })
    };
    let one = child();
    one.wait_blocked_for_lock();
    let other = fork(|| {
        interrupt_by(libc::SIGUSR1);
        // Inherited by nobody: its own description of the same file holds nothing, so it waits behind the first child.
        let fd = opened(&f).expect("open");
        code(lock(&fd, F_OFD_SETLK, F_WRLCK, 2, 1).and_then(|_| lock(&fd, F_OFD_SETLKW, F_WRLCK, 1, 1)))
    });
    other.wait_blocked_for_lock();
    let third = fork_keeping(&[std::os::fd::AsFd::as_fd(&fd)], || {
        interrupt_by(libc::SIGUSR1);
        code(lock(&fd, F_OFD_SETLKW, F_WRLCK, 2, 1))
    });
    third.wait_blocked_for_lock();
    // A circle of descriptions: the third one's waits for the other one's, that for the first child's, that for ours.
    std::thread::sleep(std::time::Duration::from_millis(300));
    for child in [third, other, one] {
        child.wait_blocked_for_lock();
        child.signal(libc::SIGUSR1);
        assert_eq!(child.wait(), End::Exit(libc::EINTR));
    }
}

/// Many circles in a row: one of the two is refused each time, and both get on.
#[test]
fn again_and_again() {
    let d = area!();
    let (f, g) = (d.file("f"), d.file("g"));
    let refused = std::sync::atomic::AtomicUsize::new(0);
    let rounds = std::sync::Barrier::new(2);
    let turn = |mine: &Path, other: &Path| {
        let (a, b) = (ok!(opened(mine)), ok!(opened(other)));
        for _ in 0..20 {
            ok!(lock(&a, F_SETLKW, F_WRLCK, 0, 1));
            rounds.wait();
            match lock(&b, F_SETLKW, F_WRLCK, 0, 1) {
                Err(libc::EDEADLK) => _ = refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
                result => _ = ok!(result),
            }
            for fd in [&a, &b] {
                ok!(lock(fd, F_SETLK, F_UNLCK, 0, 0));
            }
            rounds.wait();
        }
    };
    std::thread::scope(|scope| {
        let one = spawn_process(scope, || turn(&f, &g));
        let other = spawn_process(scope, || turn(&g, &f));
        (ok_join(one), ok_join(other))
    });
    assert_eq!(refused.into_inner(), 20);
}

fn ok_join(thread: std::thread::ScopedJoinHandle<'_, ()>) {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}
