//! What the kernel decides without asking the mount: who may hear of names by inotify and fanotify, and whose program is an open book. With
//! `-o default_permissions` it decides as on a local disk; without, it asks nobody.

#![allow(unsafe_code)]

use crate::common::check::Dir;
use crate::common::sys::{self, call, chmod, mkdir, open};
use crate::common::user::ALICE;
use crate::common::{process, wait_until};
use crate::ok;
use crate::two_mounts::Pair;
use libc::{AT_FDCWD, EACCES, IN_CREATE, O_RDONLY};
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Three places where the same is tried: a local disk, a mount where the kernel decides too, and one where the shards decide alone.
fn everywhere(test: &str, check: impl Fn(&Dir, bool)) {
    let Some(pair) = Pair::with_options(test, "default_permissions") else { return };
    sys::umask(0);
    let local = pair.site.root().join("local");
    ok!(mkdir(&local, 0o755));
    check(&Dir::at(local), true);
    check(&Dir::at(pair.mounts[1].path().to_path_buf()).dir("decided"), true);
    check(&Dir::at(pair.mounts[0].path().to_path_buf()).dir("unasked"), false);
    pair.stop(test);
}

fn owned(fd: sys::R<i64>) -> sys::R<OwnedFd> {
    // SAFETY: the kernel has just given the descriptor to this caller.
    fd.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL")
}

/// A queue of events: names that appear in a directory.
fn inotify(path: &Path) -> sys::R<OwnedFd> {
    let queue = owned(call!(libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC)).map(i64::from))?;
    call!(libc::inotify_add_watch(queue.as_raw_fd(), text(path).as_ptr(), IN_CREATE)).map(|_| queue)
}

/// The same of fanotify, as somebody without privileges may use it.
fn fanotify(path: &Path) -> sys::R<OwnedFd> {
    let flags = libc::FAN_CLASS_NOTIF | libc::FAN_REPORT_DFID_NAME | libc::FAN_NONBLOCK | libc::FAN_CLOEXEC;
    let queue = owned(call!(libc::fanotify_init(flags, O_RDONLY as u32)).map(i64::from))?;
    let path = text(path);
    call!(libc::fanotify_mark(queue.as_raw_fd(), libc::FAN_MARK_ADD, libc::FAN_CREATE, AT_FDCWD, path.as_ptr()))
        .map(|_| queue)
}

/// `inotify_add_watch` and `fanotify_mark` ask for read permission (`path_permission`), which `fuse_permission` grants to everybody.
#[test]
fn events_tell_names_to_who_may_not_list() {
    const SECRET: &str = "a-secret-name";
    everywhere("who may watch a directory", |dir, decided| {
        let closed = dir.dir_of("closed", 0o711, 0, 0);
        for (which, watch) in [("inotify", inotify as fn(&Path) -> _), ("fanotify", fanotify)] {
            let name = format!("{SECRET}-{which}");
            let watched = ALICE.run(|| {
                assert_eq!(sys::names(closed.path()).map(drop), Err(EACCES), "who may not read it may not list it");
                watch(closed.path())
            });
            let heard = watched.map(|queue| {
                closed.file(&name);
                let events = ok!(sys::read(&queue, 4096));
                events.windows(name.len()).any(|bytes| bytes == name.as_bytes())
            });
            let expected = if decided { Err(EACCES) } else { Ok(true) };
            assert_eq!(heard, expected, "{which} in {}", closed.path().display());
        }
        // Who may read it may watch it, everywhere.
        ok!(chmod(closed.path(), 0o755));
        ALICE.run(|| (ok!(inotify(closed.path())), ok!(fanotify(closed.path()))));
    });
}

/// `would_dump` asks for read permission: who may run a program and not read it cannot trace it, nor read it out of memory.
#[test]
fn a_program_that_one_may_only_run_can_be_read() {
    everywhere("a program that one may only run", |dir, decided| {
        let program = dir.p("program");
        process::copy_program("/bin/sleep", &program);
        for (mode, expected) in [(0o711, if decided { Err(EACCES) } else { Ok(true) }), (0o755, Ok(true))] {
            ok!(chmod(&program, mode));
            let mut sleep = Command::new(&program);
            sleep.arg("60").uid(ALICE.uid).gid(ALICE.gid);
            let mut sleep = process::spawn(&mut sleep).expect("sleep");
            let of = |name: &str| format!("/proc/{}/{name}", sleep.id());
            wait_until("it runs", || std::fs::read(of("comm")).is_ok_and(|comm| comm == b"program\n"));
            let read = ALICE.run(|| {
                assert_eq!(open(&program, O_RDONLY, 0).is_ok(), mode == 0o755);
                let maps = open(of("maps"), O_RDONLY, 0)?;
                let line = String::from_utf8_lossy(&ok!(sys::read(&maps, 100))).into_owned();
                let begin = line.split('-').next().and_then(|begin| i64::from_str_radix(begin, 16).ok());
                let memory = open(of("mem"), O_RDONLY, 0)?;
                Ok(ok!(sys::pread(&memory, 4, begin.expect("an address"))) == b"\x7fELF")
            });
            sleep.kill().and_then(|()| sleep.wait().map(drop)).expect("kill of our child");
            assert_eq!(read, expected, "{mode:o} {}", program.display());
        }
    });
}
