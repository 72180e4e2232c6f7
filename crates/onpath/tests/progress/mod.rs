//! Long work shows where it is: on a terminal a bar, in a log a line every ten seconds, at the end a summary.
//!
//! What is looked at stands still in the middle, because what it works on does: a server that is stopped (SIGSTOP). So it takes as long as a
//! test wants, and how much is done is known. When something is shown is a matter of unit tests (`crates/onpath/src/progress`).

mod disks;
mod hosts;
mod starts;
mod trees;

use crate::common::running::StandsStill;
use crate::common::server::{Mount, Site};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}

/// Files of each file system that its checkpoint has, and as many that only its journal has.
const FILES: usize = 2_000;

/// Directories of file systems whose servers were killed, on the mount of another file system.
struct Inner {
    outer: Mount,
    dirs: Vec<PathBuf>,
}

impl Inner {
    fn new(site: &Site, dirs: usize) -> Inner {
        let original = site.root().join("inner");
        let mount = site.dev_on(&original, &["--shards", "2"]);
        (0..FILES).for_each(|n| fs::write(mount.path().join(format!("checkpointed{n}")), "").expect("a file"));
        mount.stop();
        let mut mount = site.dev_on(&original, &[]);
        (0..FILES).for_each(|n| fs::write(mount.path().join(format!("f{n}")), "0123456789").expect("a file"));
        mount.kill();
        drop(mount);
        let outer = site.dev(&[]);
        let dirs: Vec<PathBuf> = (0..dirs).map(|n| outer.path().join(format!("inner{n}"))).collect();
        for dir in &dirs {
            let status = Command::new("cp").args(["-a", "--sparse=always"]).arg(&original).arg(dir).status();
            assert!(status.expect("cp runs").success(), "cp of DIR");
        }
        outer.stop();
        // Of what this one mounts the system has nothing in memory.
        Inner { outer: site.dev(&[]), dirs }
    }

    /// Whoever uses the directories waits until that is dropped.
    fn stands_still(&self) -> StandsStill {
        StandsStill::new(self.outer.pid())
    }

    fn stop(self) {
        self.outer.stop();
    }
}
