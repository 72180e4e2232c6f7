//! Everyday tools for whole trees: each walks in parallel, tolerates others that write meanwhile, and tells what failed.
//!
//! They work on any file system that is mounted, and on one of Onpath that is not. What a directory knows of what is below it are sums of its own entries, so totals are counted by walking;
//! on Onpath its directories alone.

pub(crate) mod chmod;
pub(crate) mod chown;
pub(crate) mod df;
pub(crate) mod du;
mod filter;
pub(crate) mod find;
mod mode;
mod owner;
pub(crate) mod rmr;
mod sum;

pub(crate) use filter::fits;
pub(crate) use mode::ModeChange;

use crate::cli::say;
use crate::progress::Progress;
use crate::remote::{Ground, WalkedTree, WordsArgs};
use crate::walk::{Attributes, Local, Report, Trees, Visitor, WalkArgs, walk};
use rustix::fs::FileType;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Reads a text as all that is given to these tools: as a mode and the value of a sum, and the two parts around its first zero byte as
/// a pattern and a name.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_texts(text: &[u8]) {
    sum::parse(text);
    let zero = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    filter::fits(&text[..zero], text.get(zero + 1..).unwrap_or_default());
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Ok(change) = text.parse::<mode::ModeChange>() {
        let changed = [0, 0o644, 0o7777].map(|mode| change.apply(mode, mode == 0));
        assert!(changed.iter().all(|mode| *mode <= 0o7777), "{text:?} gives modes {changed:?}");
    }
    if let Ok(age) = text.parse::<filter::Age>() {
        filter::ago(age);
    }
}

/// Counts by several threads.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Inodes of several names that were met. One row for each.
#[derive(Default)]
struct Linked(Mutex<HashSet<(u64, u64)>>);

impl Linked {
    /// Whether it was met by another name.
    fn was_met(&self, is: &Attributes) -> bool {
        let several = is.links > 1 && is.kind != FileType::Directory;
        several && !self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((is.device, is.inode))
    }
}

/// Inodes that a command has changed, and names that were so already.
#[derive(Default)]
struct Changes {
    changed: Counter,
    same: Counter,
    linked: Linked,
}

impl Changes {
    /// One was changed that was like this. Two threads may change one by two names, each as it was before.
    fn change(&self, was: &Attributes) {
        if self.linked.was_met(was) { &self.same } else { &self.changed }.add(1);
    }

    /// `what` was changed of how many.
    fn summary(&self, what: &str) -> Summary {
        let (changed, same) = (self.changed.get(), self.same.get());
        Summary {
            words: format!("changed {changed} {what}, {same} were so already").into(),
            numbers: json!({ "changed": changed, "unchanged": same }),
        }
    }
}

/// How a command goes over its trees.
struct Task<'a> {
    /// In front of the progress: "removing".
    doing: &'static str,
    /// Words of the command line.
    paths: &'a [OsString],
    /// Where those are that name no file system.
    at: &'a WordsArgs,
    /// A path that is a symbolic link stands for what it points to.
    follow: bool,
    /// What is in directories, too.
    recursive: bool,
    args: &'a WalkArgs,
}

impl Task<'_> {
    /// Its progress: visitors count entries on it.
    fn progress(&self) -> Progress {
        Progress::counting(self.doing, "entries", self.args.many.quiet)
    }

    /// What its words stand for, on one file system after the other.
    fn grounds(&self) -> anyhow::Result<Vec<Ground>> {
        self.at.grounds(self.paths, self.follow)
    }

    /// Walks the trees, then prints what `sum` makes of it, in words or as JSON.
    fn run<V: Visitor<Local> + Visitor<WalkedTree>>(
        &self,
        progress: &Progress,
        visitor: &V,
        sum: impl FnOnce(&V, &Report) -> Summary,
    ) -> anyhow::Result<()> {
        self.run_on(&self.grounds()?, progress, visitor, sum)
    }

    /// The same where its words were looked at.
    fn run_on<V: Visitor<Local> + Visitor<WalkedTree>>(
        &self,
        grounds: &[Ground],
        progress: &Progress,
        visitor: &V,
        sum: impl FnOnce(&V, &Report) -> Summary,
    ) -> anyhow::Result<()> {
        let report = Report::new();
        let Task { follow, recursive: descend, .. } = *self;
        for ground in grounds {
            let (Ground::Here(roots) | Ground::There(_, roots)) = ground;
            let trees = Trees { roots, follow, descend, jobs: self.args.many.jobs() };
            match ground {
                Ground::Here(_) => walk(&Local::default(), &trees, visitor, &report),
                Ground::There(tree, _) => walk(tree, &trees, visitor, &report),
            }
        }
        grounds.iter().for_each(Ground::leave);
        progress.finish();
        let summary = sum(visitor, &report);
        if self.args.json {
            say(&summary.json(&report, progress).to_string());
        } else if !summary.words.is_empty() {
            say(summary.words.trim_ascii_end());
        }
        report.result()
    }
}

/// What a command says at its end.
struct Summary {
    /// For people; to a terminal it does nothing.
    words: Vec<u8>,
    /// For programs.
    numbers: Value,
}

impl Summary {
    fn json(self, report: &Report, progress: &Progress) -> Value {
        let mut all = match self.numbers {
            Value::Object(all) => all,
            _ => Map::new(),
        };
        all.insert("vanished".into(), json!(report.vanished_count()));
        all.insert("failures".into(), json!(report.failures()));
        all.insert("seconds".into(), json!(progress.seconds()));
        Value::Object(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_that_two_threads_change_by_two_names_counts_once() {
        let tmp = tempfile::tempdir().unwrap();
        let (one, two) = (tmp.path().join("one"), tmp.path().join("two"));
        std::fs::write(&one, "").unwrap();
        let stat = |path| Attributes::from(&rustix::fs::stat(path).unwrap());
        let alone = stat(&one);
        std::fs::hard_link(&one, &two).unwrap();
        let changes = Changes::default();
        // Each has looked before the other changed it.
        for is in [alone, stat(&one), stat(&two)] {
            changes.change(&is);
        }
        assert_eq!((changes.changed.get(), changes.same.get()), (2, 1), "one of a single name, one of two");
    }
}
