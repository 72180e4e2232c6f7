//! Names that everybody makes, replaces, removes and looks at, and what came of each call and when: judged by
//! `onpath_sim::users::names`.

use crate::common::check::{done, refused};
use crate::common::random::Random;
use crate::common::sys::{self, R};
use onpath_sim::users::history::Span;
use onpath_sim::users::names::{NameHistory, Outcome};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Directories, so that a rename is within one or from one to the other.
const DIRS: [&str; 2] = ["names-a", "names-b"];
/// Names that everybody uses, half of them in each directory.
const NAMES: usize = 4;
/// Times that a call is made again whose path has changed under it.
const AGAIN_MAX: usize = 1_000;

/// All calls so far.
pub(crate) struct Names {
    begin: Instant,
    files: AtomicU64,
    histories: Mutex<Vec<NameHistory>>,
}

fn name(top: &Path, n: usize) -> PathBuf {
    top.join(DIRS[n % DIRS.len()]).join(format!("name-{n}"))
}

/// The call, made again while it only says that what its path led to is gone: it has done nothing then.
fn settled<T>(what: &str, mut call: impl FnMut() -> R<T>) -> R<T> {
    for _ in 0..AGAIN_MAX {
        match call() {
            Err(libc::ESTALE) => continue,
            result => return result,
        }
    }
    panic!("{what} is ESTALE {AGAIN_MAX} times")
}

/// What a call did, or what its only excuse says.
fn either<T>(what: &str, result: R<T>, excuse: i32, otherwise: Outcome, outcome: impl FnOnce(T) -> Outcome) -> Outcome {
    match result {
        Ok(value) => outcome(value),
        failed => {
            refused(what, failed, &[excuse]);
            otherwise
        }
    }
}

impl Names {
    /// Makes the directories.
    pub(crate) fn new(top: &Path) -> Names {
        DIRS.iter().for_each(|dir| done("mkdir", sys::mkdir(top.join(dir), 0o755)));
        let histories = Mutex::new(vec![NameHistory::default(); NAMES]);
        Names { begin: Instant::now(), files: AtomicU64::new(0), histories }
    }

    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// Makes the call, and remembers what came of it.
    fn call(&self, n: usize, call: impl FnOnce() -> Outcome) {
        let asked = self.now();
        let outcome = call();
        let span = Span { asked, answered: self.now() };
        self.histories.lock().expect("the histories")[n].add(outcome, span);
    }

    /// A file that nobody else knows, and its inode.
    fn own(&self, top: &Path, random: &mut Random) -> (PathBuf, u64) {
        let path = top.join(random.of(&DIRS)).join(format!("own-{}", self.files.fetch_add(1, Relaxed)));
        let fd = done("create", sys::open(&path, libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY, 0o644));
        (path, done("fstat", sys::fstat(fd)).ino)
    }

    fn look(&self, top: &Path, n: usize) {
        let path = name(top, n);
        self.call(n, || {
            let seen = settled("lstat", || sys::lstat(&path));
            either("lstat", seen, libc::ENOENT, Outcome::Missing, |stat| Outcome::Shown(stat.ino))
        });
    }

    /// Lists a directory, which is a look at each of its names.
    fn list(&self, top: &Path, dir: usize) {
        let path = top.join(DIRS[dir]);
        let asked = self.now();
        let listed = settled("a listing", || sys::entries(sys::open(&path, libc::O_RDONLY | libc::O_DIRECTORY, 0)?));
        let span = Span { asked, answered: self.now() };
        let listed = done("a listing", listed);
        let mut histories = self.histories.lock().expect("the histories");
        for n in (dir..NAMES).step_by(DIRS.len()) {
            let file = name(top, n);
            let mut found = listed.iter().filter(|entry| Some(entry.name.as_os_str()) == file.file_name());
            let outcome = found.next().map_or(Outcome::Missing, |entry| Outcome::Shown(entry.ino));
            assert!(found.next().is_none(), "{} is listed twice", file.display());
            histories[n].add(outcome, span);
        }
    }

    /// Does something with one of the names.
    pub(crate) fn step(&self, top: &Path, random: &mut Random) {
        let n = random.below(NAMES);
        let path = name(top, n);
        match random.below(9) {
            0 => self.call(n, || {
                let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
                let made = settled("create", || sys::open(&path, flags, 0o644));
                either("create", made, libc::EEXIST, Outcome::Exists, |fd| {
                    Outcome::Made(done("fstat", sys::fstat(fd)).ino)
                })
            }),
            1 => {
                let (own, ino) = self.own(top, random);
                self.call(n, || {
                    let linked = settled("link", || sys::link(&own, &path));
                    either("link", linked, libc::EEXIST, Outcome::Exists, |()| Outcome::Made(ino))
                });
                done("unlink of an own file", sys::unlink(&own));
            }
            2 | 3 => {
                let (own, ino) = self.own(top, random);
                self.call(n, || {
                    done("rename over a name", settled("rename", || sys::rename(&own, &path)));
                    Outcome::Replaced(ino)
                });
            }
            4 => self.call(n, || {
                let removed = settled("unlink", || sys::unlink(&path));
                either("unlink", removed, libc::ENOENT, Outcome::Missing, |()| Outcome::Removed)
            }),
            5 => self.list(top, n % DIRS.len()),
            _ => self.look(top, n),
        }
    }

    /// Looks at all names, one by one and in listings, and fails the test unless there is an order that explains what came of every call; gives how many there were.
    pub(crate) fn judge(&self, tops: &[PathBuf]) -> usize {
        for top in tops {
            (0..NAMES).for_each(|n| self.look(top, n));
            (0..DIRS.len()).for_each(|dir| self.list(top, dir));
        }
        let all = self.histories.lock().expect("the histories");
        for (n, history) in all.iter().enumerate() {
            history.judge().unwrap_or_else(|why| panic!("name-{n}: no order explains this: {why}"));
        }
        all.iter().map(NameHistory::calls).sum()
    }
}
