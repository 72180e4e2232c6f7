//! What the black-box tests of the mount share: servers and mounts, system calls as plain functions, other users, trees to compare.
//!
//! A suite works on the directory named by `ONPATH_TEST_DIR` if that is set (a directory of a local file system: this is how the
//! tests themselves are checked), else on a fresh `onpath dev DIR MOUNTPOINT`.
#![allow(dead_code, unreachable_pub)] // not everything is used everywhere

pub mod chaos;
pub mod check;
pub mod clock;
pub mod cluster;
pub mod disk;
pub mod forge;
pub mod liar;
pub mod lies;
pub mod model;
pub mod net;
pub mod process;
pub mod random;
pub mod running;
pub mod server;
pub mod stall;
pub mod strays;
pub mod sys;
pub mod terminal;
pub mod through;
pub mod tree;
pub mod user;
pub mod view;
pub mod watchdog;
pub mod xattr;

pub use onpath_testing::skipped;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a test waits for something that must happen before it fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The top of the repository.
pub fn repository() -> PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Says something on the real standard error that should be seen although the test passes.
pub fn report(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The directory given from outside, if any.
pub fn given_dir() -> Option<PathBuf> {
    let dir = std::env::var_os("ONPATH_TEST_DIR")?;
    Some(std::path::absolute(dir).expect("an absolute path of ONPATH_TEST_DIR"))
}

/// A number from the environment, for the long runs.
pub fn number_from_env(name: &str, default: usize) -> usize {
    match std::env::var(name) {
        Err(_) => default,
        Ok(text) => text.replace('_', "").parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    }
}

/// A word from the environment that chooses among these, if one is set.
///
/// # Panics
/// When it is another word: a suite that runs in a shape that nobody meant shows nothing of the one that was meant.
pub fn word_from_env(name: &str, words: &[&str]) -> Option<String> {
    let word = std::env::var(name).ok()?;
    assert!(words.contains(&word.as_str()), "{name}={word} is none of {}", words.join(", "));
    Some(word)
}

/// The words that choose the shape of file systems in which mounted suites run ([`cluster::Shape::from_env`]), checked before anything starts.
pub struct Words {
    pub commit: Option<String>,
    pub tracking: Option<String>,
    pub writes: Option<String>,
}

impl Words {
    pub fn from_env() -> Words {
        Words {
            commit: word_from_env("ONPATH_COMMIT", &["interval", "sync"]),
            tracking: word_from_env("ONPATH_TRACKING", &["owner", "network", "xdp"]),
            writes: word_from_env("ONPATH_WRITES", &["chain", "visible", "two-phase"]),
        }
    }
}

/// The seed of a test that draws what it does: always the same one, unless `ONPATH_SEED` says another. It is told, so that what failed
/// can be run again.
pub fn seed(test: &str) -> u64 {
    let seed = number_from_env("ONPATH_SEED", 1) as u64;
    report(&format!("{test}: ONPATH_SEED={seed}"));
    seed
}

/// Polls until `done` says so; fails the test when that takes longer than [`PATIENCE`].
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Tells threads that work beside something that it is over, also if it ends by a panic: who waits for the threads would wait for ever.
#[derive(Default)]
pub struct Over(AtomicBool);

impl Over {
    pub fn is(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// It is over when what this gives is dropped.
    pub fn at_end(&self) -> impl Drop + '_ {
        struct Ends<'a>(&'a Over);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.0.store(true, Ordering::Release);
            }
        }
        Ends(self)
    }
}

/// The program's path if it is installed.
pub fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|candidate| candidate.is_file())
}

/// Why no test of a mount can run here, if so.
pub fn cannot_mount() -> Option<&'static str> {
    if !sys::is_root() {
        Some("needs root (mount(2) and other users)")
    } else if sys::open("/dev/fuse", libc::O_RDWR, 0).is_err() {
        Some("/dev/fuse cannot be opened")
    } else if std::env::var_os("ONPATH_HOSTS").is_some() {
        let xdp = Words::from_env().tracking.is_some_and(|tracking| tracking == "xdp");
        net::cannot_connect().or_else(|| net::cannot_redirect().filter(|_| xdp))
    } else {
        None
    }
}
