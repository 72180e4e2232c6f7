//! The semantic suite: what POSIX and the man pages of section 2 promise, one test function a promise, on a real mount.
//!
//! All tests of this suite share one mount, each in a directory of its own. `ONPATH_SHARDS` and `ONPATH_COMMIT` choose its number of
//! shards and its commit mode, `ONPATH_OPTIONS` its mount options (scripts/test runs the suite with 1 and 4 shards, with `sync`, and with
//! `default_permissions` as well).
//! With `ONPATH_THROUGH` the same tests call a client instead of the kernel (`common/through`), but for those of `left_out.txt`.
//! `ONPATH_TEST_DIR=/some/dir cargo test -p onpath --test system -- posix::` runs the same tests on a local file system: ext4 and tmpfs pass, which is what
//! validates the tests. Where such a file system and a FUSE mount may legitimately differ, the test accepts what a FUSE mount can do and
//! says so.

mod access;
mod acl;
mod apart;
mod append;
mod atime;
mod atomic;
mod capabilities;
mod chmod;
mod chown;
mod copy_range;
mod data;
mod deadlock;
mod exchange;
mod fallocate;
mod fcntl_locks;
mod flock;
mod generic_errors;
mod link;
mod mkdir;
mod mknod;
mod mmap;
mod mounts;
mod names;
mod open;
mod open_permissions;
mod readdir;
mod rename;
mod rename_errors;
mod rmdir;
mod seek_hole;
mod setgid;
mod sparse;
mod stat;
mod sticky;
mod suid;
mod symlink;
mod times;
mod times_failed;
mod tmpfile;
mod truncate;
mod umask;
mod unlink;
mod unlinked;
mod utimensat;
mod xattr;

use crate::common::check::Dir;
use crate::common::server::{Mount, Site};
use crate::common::{cannot_mount, given_dir, skipped, sys, through};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// What every module of the suite uses.
mod prelude {
    pub(crate) use crate::common::check::{
        Dir, allowed_or, coarse_now, content, done, is_fuse, is_left_to_server, is_tmpfs, moves, now, other_fs,
        refused, tick,
    };
    pub(crate) use crate::common::process::*;
    pub(crate) use crate::common::sys::*;
    pub(crate) use crate::common::user::*;
    pub(crate) use crate::common::xattr::*;
    pub(crate) use crate::common::{Over, skipped, wait_until};
    pub(crate) use crate::{area, expect_errno, ok};
    pub(crate) use libc::{
        O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_PATH, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY,
    };
    pub(crate) use libc::{S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFREG, S_IFSOCK};
    pub(crate) use std::ffi::OsString;
    pub(crate) use std::os::fd::OwnedFd;
    pub(crate) use std::os::unix::ffi::OsStringExt;
    pub(crate) use std::path::{Path, PathBuf};

    /// chown: leave this id.
    pub(crate) const KEEP: u32 = u32::MAX;
}

/// The mount that all tests share; taken out and stopped at exit.
static SERVER: Mutex<Option<(Mount, Site)>> = Mutex::new(None);

/// Where the tests work, started with the first of them; none where nothing can be mounted.
fn top() -> Option<&'static PathBuf> {
    static TOP: OnceLock<Option<PathBuf>> = OnceLock::new();
    TOP.get_or_init(|| {
        sys::umask(0);
        let top = match given_dir() {
            Some(dir) => dir.join(format!("posix-{}", std::process::id())),
            None if cannot_mount().is_some() => return None,
            None => {
                let site = Site::new("posix")?;
                let mount = site.dev(&[]);
                let top = match through::options() {
                    Some(options) => {
                        through::begin(site.client(&options));
                        Path::new(through::TOP).join("posix")
                    }
                    None => mount.path().join("posix"),
                };
                *SERVER.lock().expect("the server's lock") = Some((mount, site));
                top
            }
        };
        sys::mkdir(&top, 0o755).expect("mkdir of the tests' top");
        at_exit();
        Some(top)
    })
    .as_ref()
}

#[allow(unsafe_code)]
fn at_exit() {
    // SAFETY: registers a plain function of this program.
    unsafe { libc::atexit(stop_server) };
}

/// Unmounts at process exit; a mount that cannot be stopped cleanly fails the run.
extern "C" fn stop_server() {
    let failed = std::panic::catch_unwind(|| {
        if let Some(dir) = given_dir() {
            let _ = std::fs::remove_dir_all(dir.join(format!("posix-{}", std::process::id())));
        }
        through::end();
        let server = SERVER.lock().map(|mut server| server.take());
        if let Ok(Some((mount, site))) = server {
            mount.stop();
            site.assert_clean("after the suite");
        }
    })
    .is_err();
    if failed {
        std::process::abort();
    }
}

/// A fresh directory for one test, mode 0755, of root.
fn fresh() -> Option<Dir> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    if left_out().is_some() {
        return None;
    }
    let path = top()?.join(format!("t{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    sys::mkdir(&path, 0o755).expect("mkdir of a test's directory");
    Some(Dir::at(path))
}

/// The tests that cannot be run through a client, and why: lines of `TEST: WHY`.
pub(crate) fn all_left_out() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("left_out.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split_once(": ").expect("TEST: WHY"))
}

/// Why the calling test is left out, if it is: `ONPATH_LEFT_OUT=tried` leaves none out.
fn left_out() -> Option<&'static str> {
    through::options()?;
    if std::env::var("ONPATH_LEFT_OUT").is_ok_and(|how| how == "tried") {
        return None;
    }
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    assert_ne!(test, "main", "with one thread no test knows its name: RUST_TEST_THREADS=2");
    let test = test.strip_prefix("posix::")?;
    all_left_out().find_map(|(name, why)| (name == test).then_some(why))
}

/// Says that the calling test cannot run, and why.
fn cannot_run() {
    let thread = std::thread::current();
    let why = left_out().or(cannot_mount()).unwrap_or("the mount did not start");
    skipped(&format!("posix::{}", thread.name().unwrap_or("?")), why);
}

/// A fresh directory for this test; the test ends here where nothing can be mounted (said on standard error).
#[macro_export]
macro_rules! area {
    () => {
        match $crate::posix::fresh() {
            Some(dir) => dir,
            None => return $crate::posix::cannot_run(),
        }
    };
}
