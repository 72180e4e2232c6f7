//! One of the two dies: the second mount, or the server with the first.
//!
//! After a restart of the server nobody gets a lock that somebody else had and still has.

use crate::common::check::{content, done};
use crate::common::process::{End, Steps, code, fork, interrupt_by};
use crate::common::sys::{self, R};
use crate::common::wait_until;
use crate::two_mounts::Pair;
use libc::{LOCK_EX, LOCK_NB, O_CREAT, O_RDWR};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

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
    pair.site.kill_server(&mut pair.mounts[0]);
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

/// A child that has made a file and locked it.
fn locked(path: &Path, lock: fn(&OwnedFd) -> R) -> Steps {
    let mut held = None;
    Steps::new(move |_| lock(held.insert(sys::open(path, O_RDWR | O_CREAT, 0o644)?)))
}

/// The server is started again while the second mount cannot speak: a lock that it holds is not given away meanwhile.
#[test]
fn the_lock_of_a_silent_mount_outlives_the_server() {
    let Some(mut pair) = Pair::new("a silent mount's lock", &[]) else { return };
    let [_, there] = pair.both("f");
    let theirs = locked(&there, |fd| sys::flock(fd, LOCK_EX));
    pair.mounts[1].signal(libc::SIGSTOP);
    pair.site.kill_server(&mut pair.mounts[0]);
    pair.mounts[0] = pair.site.dev(&[]);
    let [here, _] = pair.both("f");
    let [new, _] = pair.both("new");
    let try_lock = |flags| code(sys::open(&here, O_RDWR, 0).and_then(|fd| sys::flock(&fd, flags)));
    let at_once = fork(|| try_lock(LOCK_EX | LOCK_NB));
    let waiter = fork(|| try_lock(LOCK_EX));
    at_once.wait_blocked_in(libc::SYS_flock);
    waiter.wait_blocked_in(libc::SYS_flock);
    let mine = done("open of a new file", sys::open(&new, O_RDWR | O_CREAT, 0o644));
    done("a file that is new has no holder of before", sys::flock(&mine, LOCK_EX | LOCK_NB));
    pair.mounts[1].signal(libc::SIGCONT);
    assert_eq!(at_once.wait(), End::Exit(libc::EAGAIN), "the lock outlives the server");
    waiter.wait_blocked_in(libc::SYS_flock);
    theirs.end();
    assert_eq!(waiter.wait(), End::Exit(0), "given back, it is given to who waits");
    drop(mine);
    pair.stop("after a silent mount");
}

/// One way to ask for a lock, or for who has it, without waiting.
type Ask<'a> = &'a dyn Fn(&OwnedFd) -> R;

/// While the server does not know yet who holds what, whoever asks can be interrupted, and leaves nothing behind.
#[test]
fn asking_in_the_grace_can_be_interrupted() {
    let Some(mut pair) = Pair::new("signals in the grace of locks", &[]) else { return };
    let [here, there] = pair.both("f");
    let theirs = locked(&there, |fd| sys::lock(fd, libc::F_SETLK, libc::F_WRLCK, 0, 1).map(drop));
    pair.mounts[1].signal(libc::SIGSTOP);
    pair.site.kill_server(&mut pair.mounts[0]);
    pair.mounts[0] = pair.site.dev(&[]);
    let free = |command| move |fd: &OwnedFd| sys::lock(fd, command, libc::F_WRLCK, 50, 1).map(drop);
    let flock = |fd: &OwnedFd| sys::flock(fd, LOCK_EX | LOCK_NB);
    let ways: [(&str, i64, Ask); 3] = [
        ("flock", libc::SYS_flock, &flock),
        ("F_SETLK", libc::SYS_fcntl, &free(libc::F_SETLK)),
        ("F_GETLK", libc::SYS_fcntl, &free(libc::F_GETLK)),
    ];
    for (name, call, ask) in ways {
        for (signal, end) in [(libc::SIGINT, End::Exit(libc::EINTR)), (libc::SIGKILL, End::Signal(libc::SIGKILL))] {
            let asker = fork(|| {
                interrupt_by(libc::SIGINT);
                code(sys::open(&here, O_RDWR, 0).and_then(|fd| ask(&fd)))
            });
            asker.wait_blocked_in(call);
            let start = Instant::now();
            asker.signal(signal);
            assert_eq!(asker.wait(), end, "{name}");
            assert!(start.elapsed() < Duration::from_secs(1), "{name}: {:?} after signal {signal}", start.elapsed());
        }
    }
    let asker = fork(|| code(sys::open(&here, O_RDWR, 0).and_then(|fd| free(libc::F_GETLK)(&fd))));
    asker.wait_blocked_in(libc::SYS_fcntl);
    pair.mounts[1].signal(libc::SIGCONT);
    assert_eq!(asker.wait(), End::Exit(0), "answered when the grace ends");
    let mine = done("open", sys::open(&here, O_RDWR, 0));
    done("nobody has it", flock(&mine));
    done("nobody has it", free(libc::F_SETLK)(&mine));
    theirs.end();
    drop(mine);
    pair.stop("after signals in the grace");
}

/// Nobody waits for a mount that ended with the server, and not for ever for one that died meanwhile.
#[test]
fn the_grace_ends_without_those_who_are_gone() {
    let Some(mut pair) = Pair::new("the grace of locks ends", &[]) else { return };
    let [here, _] = pair.both("f");
    std::fs::write(&here, "").expect("write");
    let lock = || {
        let fd = done("open", sys::open(&here, O_RDWR, 0));
        let start = Instant::now();
        done("lock", sys::flock(&fd, LOCK_EX));
        start.elapsed()
    };
    pair.site.kill_server(&mut pair.mounts[0]);
    pair.mounts[0] = pair.site.dev(&[]);
    let took = lock();
    assert!(took < Duration::from_secs(4), "{took:?} although the second mount is back");
    pair.site.kill_server(&mut pair.mounts[0]);
    pair.mounts[1].kill();
    pair.mounts[0] = pair.site.dev(&[]);
    let took = lock();
    assert!(took < Duration::from_secs(14), "{took:?} for a mount that never came back");
    pair.mounts[1] = pair.site.mount(1, &[]);
    pair.stop("after the grace");
}
