//! Nobody hangs: a process that waits for the mount ends within a second of a signal, whatever it waits for.

use crate::common::check::{content, done};
use crate::common::process::{Child, End, Steps, block, blocked_in, fork, fork_keeping, send};
use crate::common::server::{Mount, Site};
use crate::common::sys::{self, R};
use onpath_wire::limits::SESSION_LEASE_MS;
use std::fs::DirEntry;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// How soon a process must be gone.
const AT_ONCE: Duration = Duration::from_secs(1);

/// One call that has to ask the server, by its system call's number.
struct Ask {
    name: &'static str,
    syscall: i64,
    call: fn(&Path) -> R,
}

const ASKS: [Ask; 9] = [
    // Of a name that the kernel cannot have.
    Ask { name: "stat", syscall: libc::SYS_newfstatat, call: |dir| sys::stat(dir.join("unknown")).map(drop) },
    Ask { name: "open", syscall: libc::SYS_openat, call: |dir| sys::open(dir.join("f"), libc::O_RDONLY, 0).map(drop) },
    Ask {
        name: "create",
        syscall: libc::SYS_openat,
        call: |dir| sys::open(dir.join("new"), libc::O_WRONLY | libc::O_CREAT, 0o644).map(drop),
    },
    Ask { name: "mkdir", syscall: libc::SYS_mkdir, call: |dir| sys::mkdir(dir.join("newdir"), 0o755) },
    Ask { name: "unlink", syscall: libc::SYS_unlink, call: |dir| sys::unlink(dir.join("victim")) },
    Ask { name: "rename", syscall: libc::SYS_rename, call: |dir| sys::rename(dir.join("f"), dir.join("g")) },
    Ask { name: "truncate", syscall: libc::SYS_truncate, call: |dir| sys::truncate(dir.join("f"), 1) },
    Ask { name: "chmod", syscall: libc::SYS_chmod, call: |dir| sys::chmod(dir.join("f"), 0o600) },
    Ask { name: "readdir", syscall: libc::SYS_openat, call: |dir| sys::names(dir).map(drop) },
];

type OnADescriptor = fn(&OwnedFd) -> R;

/// Calls on a descriptor that was opened before the server stopped.
const ON_A_DESCRIPTOR: [(&str, i64, OnADescriptor); 4] = [
    ("read", libc::SYS_pread64, |fd| sys::pread(fd, 100, 0).map(drop)),
    ("write", libc::SYS_pwrite64, |fd| sys::pwrite(fd, "x", 0).map(drop)),
    ("fstat", libc::SYS_newfstatat, |fd| sys::fstat(fd).map(drop)),
    ("fsync", libc::SYS_fsync, |fd| sys::fsync(fd)),
];

/// Processes that serve, and do not run until this is dropped. Each thread stops by itself: one that has yet to do so may still take a
/// request, which the kernel then lets nobody give up.
struct Stopped(Vec<u32>);

impl Stopped {
    fn new(site: &Site, server: &Mount) -> Stopped {
        let stopped = Stopped(site.server_pids(server));
        stopped.signal(libc::SIGSTOP);
        crate::common::wait_until("the server stops", || {
            let threads =
                |pid| std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process that serves").flatten();
            let stat = |thread: DirEntry| std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            let stands = |stat: String| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'));
            stopped.0.iter().flat_map(threads).map(stat).all(stands)
        });
        stopped
    }

    fn signal(&self, signal: i32) {
        self.0.iter().for_each(|&pid| send(pid as i32, signal));
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.signal(libc::SIGCONT);
    }
}

/// The child blocks in the call; the signal must end it at once.
fn assert_dies(what: &str, child: Child, syscall: i64, signal: i32) {
    child.wait_blocked_in(syscall);
    let start = Instant::now();
    child.signal(signal);
    assert_eq!(child.wait(), End::Signal(signal), "{what}");
    assert!(start.elapsed() < AT_ONCE, "{what}: {:?} until signal {signal} ended it", start.elapsed());
}

fn prepare(dir: &Path) {
    std::fs::write(dir.join("f"), "content").expect("a file");
    std::fs::write(dir.join("victim"), "").expect("a file");
}

/// Every call of the list, asked through `dir` while `server` is stopped, ends with either signal; afterwards all is well.
fn all_die(site: &Site, server: &Mount, dir: &Path) {
    for signal in [libc::SIGKILL, libc::SIGINT] {
        prepare(dir);
        for ask in &ASKS {
            let stopped = Stopped::new(site, server);
            let child = fork(|| i32::from((ask.call)(dir).is_err()));
            assert_dies(ask.name, child, ask.syscall, signal);
            drop(stopped);
            done("stat after that", sys::stat(dir));
        }
    }
}

/// The same for calls on a descriptor. Its close at the end of the process is a request too, which the kernel lets nobody interrupt: so
/// this needs a mount whose own process runs.
fn all_die_with_a_descriptor(site: &Site, server: &Mount, dir: &Path) {
    for signal in [libc::SIGKILL, libc::SIGINT] {
        for (name, syscall, call) in ON_A_DESCRIPTOR {
            prepare(dir);
            let fd = done("open", sys::open(dir.join("f"), libc::O_RDWR, 0));
            let stopped = Stopped::new(site, server);
            let child = fork_keeping(&[fd.as_fd()], || i32::from(call(&fd).is_err()));
            assert_dies(name, child, syscall, signal);
            drop(stopped);
            let now = content(dir.join("f"));
            assert!(now == b"content" || now == b"xontent", "{name}: {:?}", String::from_utf8_lossy(&now));
        }
    }
}

#[test]
fn asking_a_stopped_server() {
    let Some(site) = Site::new("asking a stopped server") else { return };
    let mount = site.dev(&[]);
    all_die(&site, &mount, mount.path());
    mount.stop();
    site.assert_clean("after interrupted calls");
}

/// Here the second mount's own process has taken the request; it must let it go.
#[test]
fn asking_a_stopped_server_through_another_mount() {
    let Some(site) = Site::new("asking through another mount") else { return };
    let mount = site.dev(&[]);
    let second = site.mount(1, &[]);
    all_die(&site, &mount, second.path());
    all_die_with_a_descriptor(&site, &mount, second.path());
    second.stop();
    mount.stop();
    site.assert_clean("after interrupted calls");
}

/// A thread that does not take SIGCHLD starts a process that ends: then the kernel wakes another thread of the caller for that signal, which
/// nobody has a handler for.
fn a_child_ends() {
    std::thread::spawn(|| {
        block(libc::SIGCHLD);
        let caller = format!("/proc/{}", std::process::id());
        crate::common::wait_until("the caller blocks", || blocked_in(&caller, libc::SYS_newfstatat, &[]));
        std::process::Command::new("true").status().expect("a child");
    });
}

/// What is no signal for the caller interrupts nothing: a stop, or the end of a child that it has no handler for. A signal that comes after
/// that still does.
#[test]
fn what_is_no_signal_interrupts_nobody() {
    let Some(site) = Site::new("no signals") else { return };
    let mount = site.dev(&[]);
    let second = site.mount(1, &[]);
    let f = second.path().join("f");
    std::fs::write(&f, "content").expect("a file");
    let stopped = Stopped::new(&site, &mount);
    let stat = |before: fn()| {
        let child = fork(|| {
            before();
            i32::from(sys::stat(&f).is_err())
        });
        child.wait_blocked_in(libc::SYS_newfstatat);
        child
    };
    let [waits, dies] = [(), ()].map(|()| stat(|| ()));
    let parents = [(), ()].map(|()| stat(a_child_ends));
    for child in [&waits, &dies] {
        child.signal(libc::SIGSTOP);
        child.signal(libc::SIGCONT);
    }
    // Whoever is interrupted gets an error when the server has not answered for a second.
    std::thread::sleep(2 * AT_ONCE);
    assert_dies("stat", dies, libc::SYS_newfstatat, libc::SIGINT);
    let [parent, dying_parent] = parents;
    assert_dies("stat of a parent", dying_parent, libc::SYS_newfstatat, libc::SIGINT);
    drop(stopped);
    for (what, child) in [("stopped", waits), ("a parent", parent)] {
        assert_eq!(child.wait(), End::Exit(0), "{what}");
    }
    second.stop();
    mount.stop();
    site.assert_clean("after what was no signal");
}

#[test]
fn waiting_for_a_lock() {
    let Some(site) = Site::new("waiting for a lock") else { return };
    let mount = site.dev(&[]);
    let path = mount.path().join("f");
    let open = || done("open", sys::open(&path, libc::O_RDWR | libc::O_CREAT, 0o644));
    let mine = open();
    for command in [libc::F_SETLKW, libc::F_OFD_SETLKW] {
        done("lock", sys::lock(&mine, command, libc::F_WRLCK, 0, 0));
        for signal in [libc::SIGKILL, libc::SIGINT] {
            let child = fork(|| i32::from(sys::lock(open(), command, libc::F_WRLCK, 0, 0).is_err()));
            assert_dies("fcntl", child, libc::SYS_fcntl, signal);
        }
        done("unlock", sys::lock(&mine, command, libc::F_UNLCK, 0, 0));
    }
    done("flock", sys::flock(&mine, libc::LOCK_EX));
    for signal in [libc::SIGKILL, libc::SIGINT] {
        let child = fork(|| i32::from(sys::flock(open(), libc::LOCK_EX).is_err()));
        assert_dies("flock", child, libc::SYS_flock, signal);
    }
    drop(mine);
    done("flock by the next", sys::flock(open(), libc::LOCK_EX));
    mount.stop();
}

/// Nobody loses a lease that could not be renewed because the server stood still (SIGSTOP, a virtual machine that was paused).
#[test]
fn a_server_stopped_for_longer_than_a_lease_goes_on() {
    let Some(site) = Site::new("a server stopped for long") else { return };
    let server = site.dev(&[]);
    let second = site.mount(1, &[]);
    let mounts = [&server, &second];
    let mut held = mounts.map(|mount| {
        let path = mount.path().join(format!("held by {}", mount.pid()));
        let mut file = None;
        Steps::new(move |_| match &file {
            None => sys::flock(file.insert(sys::open(&path, libc::O_RDWR | libc::O_CREAT, 0o644)?), libc::LOCK_EX),
            Some(file) => sys::pwrite(file, "mine", 0).map(drop),
        })
    });
    let stopped = Stopped::new(&site, &server);
    std::thread::sleep(Duration::from_millis(SESSION_LEASE_MS + 2_000));
    drop(stopped);
    for (mount, other) in [(0, 1), (1, 0)] {
        done("write", held[mount].next());
        let path = mounts[other].path().join(format!("held by {}", mounts[mount].pid()));
        assert_eq!(content(&path), b"mine");
        let again = done("open", sys::open(&path, libc::O_RDWR, 0));
        assert_eq!(sys::flock(again, libc::LOCK_EX | libc::LOCK_NB), Err(libc::EWOULDBLOCK));
    }
    held.into_iter().for_each(Steps::end);
    second.stop();
    server.stop();
    site.assert_clean("after a stop");
}

/// With the server gone for good, calls fail at once instead of waiting.
#[test]
fn asking_a_dead_server() {
    let Some(site) = Site::new("asking a dead server") else { return };
    let mut mount = site.dev(&[]);
    prepare(mount.path());
    mount.kill();
    let start = Instant::now();
    for ask in &ASKS {
        assert_eq!((ask.call)(mount.path()), Err(libc::ENOTCONN), "{}", ask.name);
    }
    assert!(start.elapsed() < AT_ONCE, "{:?} for errors of a dead server", start.elapsed());
}
