//! What went wrong in a walk.

use super::Failure;
use crate::progress::tell;
use onpath_wire::shown::Shown;
use rustix::io::Errno;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Failures that are told each by itself; of more only the number.
const TOLD_MAX: u64 = 1000;

/// Collects failures and tells them on standard error, as they happen.
pub(crate) struct Report {
    failures: AtomicU64,
    vanished: AtomicU64,
    left_out: AtomicU64,
    over: AtomicBool,
    silent: bool,
}

/// Some of a walk's work could not be done; each failure was told when it happened.
#[derive(Debug)]
pub(crate) struct Undone {
    failures: u64,
    code: u8,
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.failures {
            1 => f.write_str("1 failure, told above; everything else is done"),
            n => write!(f, "{n} failures, told above; everything else is done"),
        }
    }
}

impl std::error::Error for Undone {}

impl Undone {
    /// So many failures, each of which was told.
    pub(crate) fn of(failures: u64) -> Undone {
        Undone { failures, code: 1 }
    }

    /// The same with another exit code than 1.
    pub(crate) fn with_code(self, code: u8) -> Undone {
        Undone { code, ..self }
    }

    /// The exit code of the command.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }
}

impl Report {
    pub(crate) fn new() -> Report {
        let counter = || AtomicU64::new(0);
        Report {
            failures: counter(),
            vanished: counter(),
            left_out: counter(),
            over: AtomicBool::new(false),
            silent: false,
        }
    }

    /// One that nobody hears.
    pub(crate) fn silent() -> Report {
        Report { silent: true, ..Report::new() }
    }

    /// Something could not be done.
    pub(crate) fn fail(&self, path: &Path, failure: Failure) {
        let Failure { action, errno, .. } = failure;
        self.note(&format!("cannot {action} {}: {}", path.shown(), explain(errno)));
        if matches!(errno, Errno::NOTCONN | Errno::NOSPC | Errno::DQUOT | Errno::ROFS) {
            self.over.store(true, Ordering::Relaxed);
        }
    }

    /// Something could not be done, for these reasons.
    pub(crate) fn note(&self, words: &str) {
        let before = self.failures.fetch_add(1, Ordering::Relaxed);
        if before < TOLD_MAX {
            self.tell(&format!("onpath: {words}"));
        } else if before == TOLD_MAX {
            self.tell("onpath: further failures are counted, not told");
        }
    }

    fn tell(&self, line: &str) {
        if !self.silent {
            tell(line);
        }
    }

    /// A mounted directory was left out.
    pub(crate) fn other_filesystem(&self, path: &Path) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
        self.tell(&format!("onpath: {} is another file system: left out", path.shown()));
    }

    /// Somebody removed an entry before it could be visited.
    pub(crate) fn vanished(&self) {
        self.vanished.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether going on makes no sense: everything else would fail for the same reason.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Entries that others removed meanwhile.
    pub(crate) fn vanished_count(&self) -> u64 {
        self.vanished.load(Ordering::Relaxed)
    }

    /// Mounted directories that were left out.
    pub(crate) fn left_out_count(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// An error if anything failed.
    pub(crate) fn result(&self) -> anyhow::Result<()> {
        match self.failures() {
            0 => Ok(()),
            failures => Err(Undone::of(failures).into()),
        }
    }
}

/// What went wrong, and what to do about it.
pub(crate) fn explain(errno: Errno) -> String {
    format!("{}{}", std::io::Error::from(errno), advice(errno))
}

/// What to do about it, where that is known.
fn advice(errno: Errno) -> &'static str {
    match errno {
        Errno::NOTCONN => ": the server of this mount is gone; start `onpath dev` again, or `onpath umount --lazy` it",
        Errno::NOSPC | Errno::DQUOT => ": make room, then run this again; nothing more is tried",
        Errno::ROFS => ": it is mounted read-only (mount -o remount,rw)",
        Errno::ACCESS | Errno::PERM => ": run this as its owner or as root",
        Errno::MFILE => ": the tree is too deep for this limit on open files; raise it (ulimit -n) or use --jobs 1",
        _ => "",
    }
}
