//! fcntl(2) record locks: F_SETLK, F_SETLKW, F_GETLK, and those of open file descriptions (F_OFD_…).

use crate::posix::prelude::*;
use libc::{F_GETLK, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_RDLCK, F_SETLK, F_SETLKW, F_UNLCK, F_WRLCK};
use std::os::fd::{AsFd, AsRawFd};

/// What one call says to a lock on these bytes, by another process.
fn other_may(path: &Path, kind: i32, start: i64, length: i64) -> bool {
    as_process(|| {
        let fd = ok!(open(path, O_RDWR, 0));
        match lock(&fd, F_SETLK, kind, start, length) {
            Ok(_) => true,
            other => {
                refused("a lock in the way", other, &[libc::EAGAIN, libc::EACCES]);
                false
            }
        }
    })
}

/// Read locks share, write locks exclude both kinds.
#[test]
fn kinds() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(open(&f, O_RDWR, 0));
    for (mine, read, write) in [(F_RDLCK, true, false), (F_WRLCK, false, false), (F_UNLCK, true, true)] {
        ok!(lock(&fd, F_SETLK, mine, 0, 0));
        assert_eq!((other_may(&f, F_RDLCK, 0, 0), other_may(&f, F_WRLCK, 0, 0)), (read, write), "kind {mine}");
    }
}

/// Only overlapping bytes conflict; a length of 0 reaches to the end of everything, a negative one backwards.
#[test]
fn ranges() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(open(&f, O_RDWR, 0));
    for (start, length, free, taken) in [
        (100, 10, [(0, 100), (110, 0), (99, 1)], [(0, 101), (109, 1), (0, 0)]),
        (100, 0, [(0, 100), (0, 1), (99, 1)], [(100, 1), (1 << 40, 1), (0, 0)]),
        (100, -10, [(0, 90), (100, 0), (89, 1)], [(90, 1), (99, 1), (0, 0)]),
        (i64::MAX, 1, [(0, 100), (0, i64::MAX), (5, 5)], [(i64::MAX, 1), (0, 0), (i64::MAX, 0)]),
    ] {
        ok!(lock(&fd, F_SETLK, F_WRLCK, start, length));
        assert_eq!(free.map(|(s, l)| other_may(&f, F_WRLCK, s, l)), [true; 3], "beside {start}+{length}");
        assert_eq!(taken.map(|(s, l)| other_may(&f, F_RDLCK, s, l)), [false; 3], "inside {start}+{length}");
        ok!(lock(&fd, F_SETLK, F_UNLCK, 0, 0));
    }
}

/// Unlocking the middle leaves both ends; new locks join, change kind and split old ones of the same process.
#[test]
fn splitting() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(open(&f, O_RDWR, 0));
    let map = || {
        (0..6)
            .map(|i| (other_may(&f, F_RDLCK, i * 10, 10), other_may(&f, F_WRLCK, i * 10, 10)))
            .map(|both| match both {
                (true, true) => '-',
                (true, false) => 'r',
                _ => 'w',
            })
            .collect::<String>()
    };
    for (kind, start, length, wanted) in [
        (F_WRLCK, 0, 60, "wwwwww"),
        (F_UNLCK, 20, 20, "ww--ww"),
        (F_RDLCK, 10, 20, "wrr-ww"),
        (F_WRLCK, 10, 10, "wwr-ww"),
        (F_RDLCK, 0, 0, "rrrrrr"),
        (F_UNLCK, 0, 10, "-rrrrr"),
        (F_WRLCK, 55, 1, "-rrrrw"),
        (F_UNLCK, 0, 0, "------"),
    ] {
        ok!(lock(&fd, F_SETLK, kind, start, length));
        assert_eq!(map(), wanted, "after {kind} on {start}+{length}");
    }
}

/// The same process never conflicts with itself, whatever descriptor it uses.
#[test]
fn same_process() {
    let d = area!();
    let f = d.file("f");
    let (a, b) = (ok!(open(&f, O_RDWR, 0)), ok!(open(&f, O_RDWR, 0)));
    ok!(lock(&a, F_SETLK, F_WRLCK, 0, 10));
    ok!(lock(&b, F_SETLK, F_WRLCK, 5, 10));
    ok!(lock(&b, F_SETLK, F_RDLCK, 0, 15));
    assert_eq!(ok!(lock(&b, F_GETLK, F_WRLCK, 0, 0)).l_type, F_UNLCK as i16);
}

/// F_GETLK tells the lock in the way, or that there is none.
#[test]
fn asking() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(open(&f, O_RDWR, 0));
    ok!(lock(&fd, F_SETLK, F_WRLCK, 10, 5));
    ok!(lock(&fd, F_SETLK, F_RDLCK, 20, 0));
    let ask = |kind, start, length| {
        as_process(|| {
            let found = ok!(lock(ok!(open(&f, O_RDWR, 0)), F_GETLK, kind, start, length));
            (i32::from(found.l_type), found.l_start, found.l_len, found.l_pid)
        })
    };
    let me = std::process::id() as i32;
    assert_eq!(ask(F_RDLCK, 0, 12), (F_WRLCK, 10, 5, me));
    assert_eq!(ask(F_WRLCK, 30, 1), (F_RDLCK, 20, 0, me));
    assert_eq!(ask(F_RDLCK, 30, 1).0, F_UNLCK);
    assert_eq!(ask(F_WRLCK, 15, 5).0, F_UNLCK);
}

/// Closing any descriptor of the file drops all locks of the process on it.
#[test]
fn dropped_by_any_close() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(open(&f, O_RDWR, 0));
    ok!(lock(&fd, F_SETLK, F_WRLCK, 0, 10));
    drop(ok!(open(d.file("g"), O_RDWR, 0)));
    assert!(!other_may(&f, F_RDLCK, 0, 0));
    drop(ok!(open(&f, O_RDONLY, 0)));
    assert!(other_may(&f, F_WRLCK, 0, 0));
    // Through another name of the file, and a dup.
    ok!(link(&f, d.p("h")));
    for path in [d.p("h"), f.clone()] {
        ok!(lock(&fd, F_SETLK, F_WRLCK, 0, 10));
        drop(if path == f { ok!(dup(&fd)) } else { ok!(open(&path, O_RDONLY, 0)) });
        assert!(other_may(&f, F_WRLCK, 0, 0));
    }
}

/// The last close of a descriptor that created the file drops them too.
#[test]
fn dropped_by_the_creators_close() {
    let d = area!();
    let f = d.p("f");
    let fd = ok!(open(&f, O_RDWR | O_CREAT | O_EXCL, 0o644));
    ok!(lock(&fd, F_SETLK, F_WRLCK, 0, 0));
    assert!(!other_may(&f, F_RDLCK, 0, 0));
    drop(fd);
    assert!(other_may(&f, F_WRLCK, 0, 0));
    let fd = ok!(open(d.p("g"), O_RDWR | O_CREAT | O_EXCL, 0o644));
    ok!(lock(&fd, F_SETLK, F_WRLCK, 0, 0));
    drop(ok!(open(d.p("g"), O_RDONLY, 0)));
    assert!(other_may(&d.p("g"), F_WRLCK, 0, 0));
}

/// So do the close of a copy of that descriptor, and the end of a child that has inherited it, although it stays open.
#[test]
fn dropped_by_closes_of_copies_of_the_creators() {
    let d = area!();
    for (name, flags) in [("f", O_RDWR | O_CREAT | O_EXCL), ("g", O_RDWR | O_CREAT), ("h", O_RDWR | libc::O_TMPFILE)] {
        let nameless = flags & libc::O_TMPFILE == libc::O_TMPFILE;
        let fd = ok!(open(if nameless { d.path().to_path_buf() } else { d.p(name) }, flags, 0o644));
        let f = if nameless { PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd())) } else { d.p(name) };
        ok!(lock(&fd, F_SETLK, F_WRLCK, 0, 10));
        drop(ok!(dup(&fd)));
        let free = || {
            fork_keeping(&[fd.as_fd()], || code(open(&f, O_RDWR, 0).and_then(|fd| lock(fd, F_SETLK, F_WRLCK, 0, 0))))
                .wait()
        };
        assert_eq!(free(), End::Exit(0), "{name}: a copy was closed");
        let end = fork_keeping(&[fd.as_fd()], || code(lock(&fd, F_SETLK, F_WRLCK, 0, 10))).wait();
        assert_eq!((end, free()), (End::Exit(0), End::Exit(0)), "{name}: a child that had it has ended");
        ok!(lock(&fd, F_SETLK, F_WRLCK, 0, 0));
    }
}

/// A process that ends, or is killed, drops its locks.
#[test]
fn dropped_at_exit() {
    let d = area!();
    let f = d.file("f");
    let ready = d.p("ready");
    let end = in_child(|| {
        let Ok(fd) = open(&f, O_RDWR, 0).map(std::mem::ManuallyDrop::new) else { return 200 };
        code(lock(&*fd, F_SETLK, F_WRLCK, 0, 0))
    });
    assert_eq!(end, End::Exit(0));
    assert!(other_may(&f, F_WRLCK, 0, 0));
    let child = fork(|| {
        let Ok(fd) = open(&f, O_RDWR, 0) else { return 200 };
        let _ = lock(&fd, F_SETLK, F_WRLCK, 0, 0).and_then(|_| mkdir(&ready, 0o755));
        loop {
            std::thread::park();
        }
    });
    wait_until("the child has the lock", || stat(&ready).is_ok());
    assert!(!other_may(&f, F_RDLCK, 0, 0));
    child.signal(libc::SIGKILL);
    assert_eq!(child.wait(), End::Signal(libc::SIGKILL));
    assert!(other_may(&f, F_WRLCK, 0, 0));
}

/// Locks are not inherited by fork, though the descriptor is.
#[test]
fn not_inherited() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(open(&f, O_RDWR, 0));
    ok!(lock(&fd, F_SETLK, F_WRLCK, 0, 0));
    let end = fork_keeping(&[fd.as_fd()], || code(lock(&fd, F_SETLK, F_WRLCK, 0, 0))).wait();
    assert!(end == End::Exit(libc::EAGAIN) || end == End::Exit(libc::EACCES), "{end:?}");
    assert!(!other_may(&f, F_RDLCK, 0, 0));
}

/// The end of a process that has a copy of an older, here already closed descriptor leaves the locks taken since alone.
#[test]
fn kept_at_closes_elsewhere() {
    let d = area!();
    for flags in [O_RDWR, O_RDWR | O_CREAT | O_EXCL] {
        let f = if flags == O_RDWR { d.file("f") } else { d.p("g") };
        let older = ok!(open(&f, flags, 0o644));
        ok!(lock(&older, F_SETLK, F_WRLCK, 0, 0));
        let child = fork_keeping(&[older.as_fd()], || {
            loop {
                std::thread::park();
            }
        });
        drop(older);
        let newer = ok!(open(&f, O_RDWR, 0));
        ok!(lock(&newer, F_SETLK, F_WRLCK, 0, 0));
        child.signal(libc::SIGKILL);
        child.wait();
        for _ in 0..20 {
            assert!(!other_may(&f, F_RDLCK, 0, 0), "flags {flags:o}");
        }
    }
}

/// F_SETLKW waits until the lock in the way is gone, be it by unlock or by close.
#[test]
fn waiting() {
    let d = area!();
    let f = d.file("f");
    for by_close in [false, true] {
        let fd = ok!(open(&f, O_RDWR, 0));
        ok!(lock(&fd, F_SETLK, F_WRLCK, 0, 10));
        let child = fork(|| code(open(&f, O_RDWR, 0).and_then(|fd| lock(&fd, F_SETLKW, F_WRLCK, 5, 10))));
        child.wait_blocked_for_lock();
        ok!(lock(&fd, F_SETLK, F_UNLCK, 0, 5));
        child.wait_blocked_for_lock();
        if by_close {
            drop(fd);
            assert_eq!(child.wait(), End::Exit(0));
        } else {
            ok!(lock(&fd, F_SETLK, F_UNLCK, 5, 5));
            assert_eq!(child.wait(), End::Exit(0));
        }
    }
}

/// A signal ends the wait with EINTR and leaves no lock behind; SIGKILL ends the waiter at once.
#[test]
fn waiting_interrupted() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(open(&f, O_RDWR, 0));
    ok!(lock(&fd, F_SETLK, F_WRLCK, 0, 0));
    for (signal, wanted) in [(libc::SIGUSR1, End::Exit(libc::EINTR)), (libc::SIGKILL, End::Signal(libc::SIGKILL))] {
        let child = fork(|| {
            interrupt_by(libc::SIGUSR1);
            code(open(&f, O_RDWR, 0).and_then(|fd| lock(&fd, F_SETLKW, F_WRLCK, 0, 0)))
        });
        child.wait_blocked_for_lock();
        let start = std::time::Instant::now();
        child.signal(signal);
        assert_eq!(child.wait(), wanted);
        assert!(start.elapsed().as_secs_f64() < 1.0, "took {:?}", start.elapsed());
    }
    ok!(lock(&fd, F_SETLK, F_UNLCK, 0, 0));
    assert!(other_may(&f, F_WRLCK, 0, 0));
}

/// Two processes that would wait for each other: the second is refused (EDEADLK).
#[test]
fn waiting_for_each_other() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(open(&f, O_RDWR, 0));
    ok!(lock(&fd, F_SETLK, F_WRLCK, 0, 1));
    let child = fork(|| {
        code(
            open(&f, O_RDWR, 0)
                .and_then(|fd| lock(&fd, F_SETLK, F_WRLCK, 1, 1).and_then(|_| lock(&fd, F_SETLKW, F_WRLCK, 0, 1))),
        )
    });
    child.wait_blocked_for_lock();
    expect_errno!(lock(&fd, F_SETLKW, F_WRLCK, 1, 1), EDEADLK);
    ok!(lock(&fd, F_SETLK, F_UNLCK, 0, 1));
    assert_eq!(child.wait(), End::Exit(0));
}

/// Several waiters all get the lock in the end, one after the other.
#[test]
fn many_waiters() {
    let d = area!();
    let f = d.file_with("f", b"\0");
    let fd = ok!(open(&f, O_RDWR, 0));
    ok!(lock(&fd, F_SETLK, F_WRLCK, 0, 0));
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..6)
            .map(|_| {
                spawn_process(scope, || {
                    let fd = ok!(open(&f, O_RDWR, 0));
                    for _ in 0..20 {
                        ok!(lock(&fd, F_SETLKW, F_WRLCK, 0, 0));
                        let count = ok!(pread(&fd, 1, 0))[0];
                        ok!(pwrite(&fd, [count + 1], 0));
                        ok!(lock(&fd, F_SETLK, F_UNLCK, 0, 0));
                    }
                })
            })
            .collect();
        ok!(lock(&fd, F_SETLK, F_UNLCK, 0, 0));
        for waiter in waiters {
            waiter.join().expect("a waiter");
        }
    });
    assert_eq!(ok!(pread(&fd, 1, 0)), [120]);
}

/// A read lock needs a descriptor open for reading, a write lock one for writing (EBADF); unknown kinds are EINVAL.
#[test]
fn errors() {
    let d = area!();
    let f = d.file("f");
    let (r, w) = (ok!(open(&f, O_RDONLY, 0)), ok!(open(&f, O_WRONLY, 0)));
    ok!(lock(&r, F_SETLK, F_RDLCK, 0, 0));
    expect_errno!(lock(&r, F_SETLK, F_WRLCK, 0, 0), EBADF);
    ok!(lock(&r, F_SETLK, F_UNLCK, 0, 0));
    ok!(lock(&w, F_SETLK, F_WRLCK, 0, 0));
    expect_errno!(lock(&w, F_SETLK, F_RDLCK, 0, 0), EBADF);
    expect_errno!(lock(&w, F_SETLK, 77, 0, 0), EINVAL);
    expect_errno!(lock(&w, F_SETLK, F_WRLCK, -1, 1), EINVAL);
    expect_errno!(lock(&w, F_SETLK, F_WRLCK, 5, -6), EINVAL);
    expect_errno!(lock(&w, F_SETLK, F_WRLCK, i64::MAX, 2), EOVERFLOW | EINVAL);
    expect_errno!(lock(bad_fd(), F_SETLK, F_RDLCK, 0, 0), EBADF);
    expect_errno!(lock(ok!(open(&f, O_PATH, 0)), F_SETLK, F_RDLCK, 0, 0), EBADF);
}

/// Locks stay with the inode through rename, unlink and truncation.
#[test]
fn follow_the_inode() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(open(&f, O_RDWR, 0));
    ok!(lock(&fd, F_SETLK, F_WRLCK, 0, 0));
    ok!(link(&f, d.p("h")));
    ok!(rename(&f, d.p("g")));
    ok!(truncate(d.p("g"), 100));
    assert!(!other_may(&d.p("g"), F_RDLCK, 0, 0));
    assert!(!other_may(&d.p("h"), F_RDLCK, 0, 0));
    d.file("f");
    assert!(other_may(&f, F_WRLCK, 0, 0));
    ok!(unlink(d.p("g")));
    assert!(!other_may(&d.p("h"), F_RDLCK, 0, 0));
}

/// A lock of an open file description belongs to that: two opens of one process conflict, a dup does not.
#[test]
fn of_descriptions() {
    let d = area!();
    let f = d.file("f");
    let (a, b) = (ok!(open(&f, O_RDWR, 0)), ok!(open(&f, O_RDWR, 0)));
    ok!(lock(&a, F_OFD_SETLK, F_WRLCK, 0, 10));
    expect_errno!(lock(&b, F_OFD_SETLK, F_RDLCK, 5, 1), EAGAIN);
    ok!(lock(&b, F_OFD_SETLK, F_WRLCK, 10, 10));
    ok!(lock(ok!(dup(&a)), F_OFD_SETLK, F_RDLCK, 0, 10));
    let found = ok!(lock(&b, F_OFD_GETLK, F_WRLCK, 0, 10));
    assert_eq!((i32::from(found.l_type), found.l_start, found.l_len), (F_RDLCK, 0, 10));
    ok!(lock(&b, F_OFD_SETLK, F_RDLCK, 0, 10));
}

/// Such a lock conflicts with those of processes, its own included, and is dropped by the last close only.
#[test]
fn of_descriptions_and_processes() {
    let d = area!();
    let f = d.file("f");
    let (a, b) = (ok!(open(&f, O_RDWR, 0)), ok!(open(&f, O_RDWR, 0)));
    ok!(lock(&a, F_OFD_SETLK, F_WRLCK, 0, 0));
    expect_errno!(lock(&b, F_SETLK, F_WRLCK, 0, 0), EAGAIN | EACCES);
    assert!(!other_may(&f, F_RDLCK, 0, 0));
    let copy = ok!(dup(&a));
    drop(a);
    drop(b);
    assert!(!other_may(&f, F_RDLCK, 0, 0));
    drop(copy);
    // Waits for forks that copied it.
    drop(no_copies());
    wait_until("the last close frees the lock", || other_may(&f, F_WRLCK, 0, 0));
}

/// F_OFD_SETLKW waits for the other description.
#[test]
fn of_descriptions_waiting() {
    let d = area!();
    let f = d.file("f");
    let fd = ok!(open(&f, O_RDWR, 0));
    ok!(lock(&fd, F_OFD_SETLK, F_WRLCK, 0, 0));
    let child = fork(|| code(open(&f, O_RDWR, 0).and_then(|fd| lock(&fd, F_OFD_SETLKW, F_WRLCK, 0, 0))));
    child.wait_blocked_for_lock();
    ok!(lock(&fd, F_OFD_SETLK, F_UNLCK, 0, 0));
    assert_eq!(child.wait(), End::Exit(0));
}
