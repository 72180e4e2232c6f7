//! flock and fcntl locks exclude across mounts; waiting for one can be interrupted.

use crate::common::check::{content, done};
use crate::common::process::{End, code, fork, interrupt_by};
use crate::common::sys::{self, R};
use crate::common::wait_until;
use crate::two_mounts::Pair;
use libc::{LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// One way to lock a whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Flock,
    Fcntl,
    Ofd,
}

const WAYS: [Way; 3] = [Way::Flock, Way::Fcntl, Way::Ofd];

impl Way {
    fn lock(self, fd: &OwnedFd, shared: bool, wait: bool) -> R {
        let kind = if shared { libc::F_RDLCK } else { libc::F_WRLCK };
        match self {
            Way::Flock => {
                let operation = if shared { LOCK_SH } else { LOCK_EX } | if wait { 0 } else { LOCK_NB };
                sys::flock(fd, operation)
            }
            Way::Fcntl => sys::lock(fd, if wait { libc::F_SETLKW } else { libc::F_SETLK }, kind, 0, 0).map(drop),
            Way::Ofd => sys::lock(fd, if wait { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK }, kind, 0, 0).map(drop),
        }
    }

    fn unlock(self, fd: &OwnedFd) {
        done(
            "unlock",
            match self {
                Way::Flock => sys::flock(fd, LOCK_UN),
                Way::Fcntl => sys::lock(fd, libc::F_SETLK, libc::F_UNLCK, 0, 0).map(drop),
                Way::Ofd => sys::lock(fd, libc::F_OFD_SETLK, libc::F_UNLCK, 0, 0).map(drop),
            },
        );
    }

    /// The system call that waits for it.
    fn syscall(self) -> i64 {
        if self == Way::Flock { libc::SYS_flock } else { libc::SYS_fcntl }
    }
}

fn open(path: &Path) -> OwnedFd {
    done("open", sys::open(path, libc::O_RDWR | libc::O_CREAT, 0o644))
}

#[test]
fn exclusion() {
    let Some(pair) = Pair::new("locks across mounts", &[]) else { return };
    for way in WAYS {
        let [here, there] = pair.both(&format!("{way:?}"));
        std::fs::write(&here, "").expect("a file");
        let (mine, other) = (open(&here), open(&there));
        done("exclusive lock", way.lock(&mine, false, false));
        for shared in [false, true] {
            assert_eq!(way.lock(&other, shared, false), Err(libc::EAGAIN), "{way:?}, shared: {shared}");
        }
        way.unlock(&mine);
        done("shared lock", way.lock(&mine, true, false));
        done("another shared lock", way.lock(&other, true, false));
        assert_eq!(way.lock(&other, false, false), Err(libc::EAGAIN), "{way:?}: upgrade beside another reader");
        drop(mine);
        // close(2) itself releases fcntl locks; the kernel tells of the end of an open file a moment later.
        let upgraded = way.lock(&other, false, way != Way::Fcntl);
        done(format!("{way:?}: upgrade after the other's close"), upgraded);
    }
    pair.stop("after locks");
}

/// fcntl locks are about bytes, and say who has them.
#[test]
fn ranges() {
    let Some(pair) = Pair::new("byte ranges across mounts", &[]) else { return };
    let [here, there] = pair.both("f");
    let (mine, other) = (open(&here), open(&there));
    let set = |fd: &OwnedFd, kind, start, length| sys::lock(fd, libc::F_SETLK, kind, start, length).map(drop);
    done("lock of bytes 10 to 19", set(&mine, libc::F_WRLCK, 10, 10));
    done("lock of bytes 0 to 9", set(&other, libc::F_WRLCK, 0, 10));
    done("lock of bytes 20 on", set(&other, libc::F_WRLCK, 20, 0));
    assert_eq!(set(&other, libc::F_RDLCK, 19, 1), Err(libc::EAGAIN));
    let found = done("F_GETLK", sys::lock(&other, libc::F_GETLK, libc::F_WRLCK, 0, 0));
    assert_eq!((i32::from(found.l_type), found.l_start, found.l_len), (libc::F_WRLCK, 10, 10));
    done("unlock of bytes 12 to 14", set(&mine, libc::F_UNLCK, 12, 3));
    done("lock of bytes 12 to 14", set(&other, libc::F_WRLCK, 12, 3));
    drop((mine, other));
    pair.stop("after byte ranges");
}

/// A waiter on the other mount gets the lock when it is free, at once.
#[test]
fn waiting() {
    let Some(pair) = Pair::new("waiting for a lock of the other mount", &[]) else { return };
    for way in WAYS {
        let [here, there] = pair.both(&format!("{way:?}"));
        let mine = open(&here);
        done("lock", way.lock(&mine, false, false));
        let waiter = fork(|| code(way.lock(&open(&there), false, true)));
        waiter.wait_blocked_in(way.syscall());
        way.unlock(&mine);
        let start = Instant::now();
        assert_eq!(waiter.wait(), End::Exit(0), "{way:?}");
        assert!(start.elapsed() < Duration::from_secs(1), "{way:?}: {:?} until the waiter had it", start.elapsed());
    }
    pair.stop("after waiting");
}

/// A signal ends the wait with EINTR, SIGKILL ends the waiter; neither leaves anything behind.
#[test]
fn interrupted() {
    let Some(pair) = Pair::new("a lock's waiter and signals", &[]) else { return };
    for way in WAYS {
        for signal in [libc::SIGINT, libc::SIGKILL] {
            let [here, there] = pair.both(&format!("{way:?}{signal}"));
            let mine = open(&here);
            done("lock", way.lock(&mine, false, false));
            let waiter = fork(|| {
                interrupt_by(libc::SIGINT);
                code(way.lock(&open(&there), false, true))
            });
            waiter.wait_blocked_in(way.syscall());
            let start = Instant::now();
            waiter.signal(signal);
            let end = if signal == libc::SIGKILL { End::Signal(signal) } else { End::Exit(libc::EINTR) };
            assert_eq!(waiter.wait(), end, "{way:?}");
            assert!(start.elapsed() < Duration::from_secs(1), "{way:?}: {:?} after signal {signal}", start.elapsed());
            way.unlock(&mine);
            let other = open(&there);
            done("a lock after an interrupted wait", way.lock(&other, false, false));
        }
    }
    pair.stop("after signals");
}

/// A process that dies holds nothing any more.
#[test]
fn the_holder_dies() {
    let Some(pair) = Pair::new("a lock's holder dies", &[]) else { return };
    for way in WAYS {
        let [here, there] = pair.both(&format!("{way:?}"));
        let marker = pair.site.root().join(format!("{way:?}"));
        let holder = fork(|| {
            let fd = open(&there);
            done("lock", way.lock(&fd, false, false));
            std::fs::write(&marker, "").expect("a file");
            std::thread::sleep(Duration::from_secs(60));
            0
        });
        crate::common::wait_until("the other process has its lock", || marker.exists());
        let mine = open(&here);
        assert_eq!(way.lock(&mine, false, false), Err(libc::EAGAIN), "{way:?}");
        holder.signal(libc::SIGKILL);
        assert_eq!(holder.wait(), End::Signal(libc::SIGKILL));
        done("the lock of a dead process", way.lock(&mine, false, true));
    }
    pair.stop("after dead holders");
}

/// Processes on both mounts count in a file, each step under the lock: none is lost.
#[test]
fn counting() {
    const STEPS: u32 = 150;
    let Some(pair) = Pair::new("counting under a lock", &[]) else { return };
    for way in WAYS {
        let files = pair.both(&format!("{way:?}"));
        std::fs::write(&files[0], "0").expect("a file");
        let count = |owner: usize| {
            let fd = open(&files[owner % 2]);
            for _ in 0..STEPS {
                done("lock", way.lock(&fd, false, true));
                let text = done("pread", sys::pread(&fd, 100, 0));
                let number: u32 = String::from_utf8(text).ok().and_then(|text| text.parse().ok()).expect("a number");
                let text = (number + 1).to_string();
                assert_eq!(done("pwrite", sys::pwrite(&fd, &text, 0)), text.len());
                way.unlock(&fd);
            }
            0
        };
        let children: Vec<_> = (0..4).map(|owner| fork(|| count(owner))).collect();
        for child in children {
            assert_eq!(child.wait(), End::Exit(0), "{way:?}");
        }
        for file in &files {
            assert_eq!(content(file), (4 * STEPS).to_string().into_bytes(), "{way:?}");
        }
    }
    pair.stop("after counting");
}

/// A circle of waits that leads over both mounts and two files ends with EDEADLK for whoever closes it.
#[test]
fn deadlocks() {
    let Some(pair) = Pair::new("deadlocks over two mounts", &[]) else { return };
    for i in 0..5 {
        let (f, g) = (pair.both(&format!("f{i}")), pair.both(&format!("g{i}")));
        for file in [&f[0], &g[0]] {
            std::fs::write(file, "x").expect("write");
        }
        let lock = |fd: &OwnedFd, command, kind| sys::lock(fd, command, kind, 0, 0);
        let mine = done("open", sys::open(&f[0], libc::O_RDWR, 0));
        done("lock", lock(&mine, libc::F_SETLK, libc::F_WRLCK));
        let child = fork(|| {
            let locks = || {
                let (held, wanted) = (sys::open(&g[1], libc::O_RDWR, 0)?, sys::open(&f[1], libc::O_RDWR, 0)?);
                lock(&held, libc::F_SETLK, libc::F_WRLCK)?;
                lock(&wanted, libc::F_SETLKW, libc::F_WRLCK)
            };
            code(locks())
        });
        child.wait_blocked_for_lock();
        // Its request has come to the home: what this one holds, what the child holds and what it waits for.
        let known = || pair.site.status().sum("shard", &["file_locks"]);
        wait_until("the home knows who waits", || known() == 3);
        let other = done("open", sys::open(&g[0], libc::O_RDWR, 0));
        assert_eq!(lock(&other, libc::F_SETLKW, libc::F_WRLCK).err(), Some(libc::EDEADLK));
        done("unlock", lock(&mine, libc::F_SETLK, libc::F_UNLCK));
        assert_eq!(child.wait(), End::Exit(0));
    }
    pair.stop("after deadlocks");
}
