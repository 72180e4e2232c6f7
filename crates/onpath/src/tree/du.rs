//! `onpath du PATH…`: what trees hold and take. Where a directory says what its own entries amount to, only its directories are visited.

use super::sum::Sum;
use super::{Counter, Linked, Summary, Task};
use crate::progress::{Progress, bytes};
use crate::remote::WordsArgs;
use crate::walk::{Attributes, Entry, Failure, Node, Tree, Visitor, WalkArgs, Wanted};
use clap::Args;
use onpath_host::progress::Watcher;
use onpath_wire::shown::Shown;
use rustix::fs::FileType;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Bytes of a block as st_blocks counts them.
const BLOCK: u64 = 512;

/// Arguments of `onpath du`.
#[derive(Args, Debug)]
pub(crate) struct DuArgs {
    /// Trees to sum up.
    #[arg(default_value = ".")]
    paths: Vec<OsString>,
    /// Show every directory down to so many levels below a PATH, too.
    #[arg(short, long, default_value_t = 0)]
    depth: usize,
    #[command(flatten)]
    walk: WalkArgs,
    #[command(flatten)]
    at: WordsArgs,
}

pub(crate) fn run(args: DuArgs) -> anyhow::Result<()> {
    let task =
        Task { doing: "counting", paths: &args.paths, at: &args.at, follow: true, recursive: true, args: &args.walk };
    let progress = task.progress();
    let visitor = Counting {
        depth: args.depth,
        progress: &progress,
        linked: Linked::default(),
        shown: Mutex::default(),
        all: Totals::default(),
    };
    task.run(&progress, &visitor, |counting, _| counting.summary())
}

/// What is below a directory, itself included.
#[derive(Debug, Default)]
struct Totals {
    files: Counter,
    directories: Counter,
    others: Counter,
    /// Sizes of files.
    bytes: Counter,
    /// What everything takes on disk.
    allocated: Counter,
    /// What is not counted here yet.
    wanted: Wanted,
}

impl Totals {
    /// Of a directory; its directories count themselves.
    fn of_sum(sum: &Sum) -> Totals {
        let totals = Totals::default();
        totals.files.add(sum.files);
        totals.others.add(sum.others);
        totals.bytes.add(sum.bytes);
        totals.allocated.add(sum.allocated);
        let wanted = if sum.directories == 0 { Wanted::Nothing } else { Wanted::Directories };
        Totals { wanted, ..totals }
    }

    fn count(&self, is: &Attributes, again: bool) {
        match is.kind {
            FileType::Directory => self.directories.add(1),
            FileType::RegularFile => self.files.add(1),
            _ => self.others.add(1),
        }
        if again {
            return;
        }
        if is.kind == FileType::RegularFile {
            self.bytes.add(is.bytes);
        }
        self.allocated.add(is.blocks * BLOCK);
    }

    fn add(&self, other: &Totals) {
        self.files.add(other.files.get());
        self.directories.add(other.directories.get());
        self.others.add(other.others.get());
        self.bytes.add(other.bytes.get());
        self.allocated.add(other.allocated.get());
    }

    fn json(&self) -> Value {
        json!({
            "files": self.files.get(),
            "directories": self.directories.get(),
            "others": self.others.get(),
            "bytes": self.bytes.get(),
            "allocated": self.allocated.get(),
        })
    }

    fn words(&self) -> String {
        format!(
            "{} in {} files, {} directories, {} others; {} on disk",
            bytes(self.bytes.get()),
            self.files.get(),
            self.directories.get(),
            self.others.get(),
            bytes(self.allocated.get())
        )
    }
}

struct Counting<'a> {
    depth: usize,
    progress: &'a Progress,
    /// Those that were counted: their bytes count once, as du(1) does.
    linked: Linked,
    shown: Mutex<Vec<(PathBuf, String, Value)>>,
    all: Totals,
}

impl Counting<'_> {
    fn show(&self, path: PathBuf, totals: &Totals) {
        let row = (path, totals.words(), totals.json());
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).push(row);
    }

    fn summary(&self) -> Summary {
        let mut shown = std::mem::take(&mut *self.shown.lock().unwrap_or_else(PoisonError::into_inner));
        shown.sort_by(|a, b| a.0.cmp(&b.0));
        let (mut words, quoted) = (Vec::new(), std::io::stdout().is_terminal());
        for (path, line, _) in &shown {
            match quoted {
                true => words.extend_from_slice(path.shown().to_string().as_bytes()),
                // For a program: as it is.
                false => words.extend_from_slice(path.as_os_str().as_bytes()),
            }
            words.extend_from_slice(format!(": {line}\n").as_bytes());
        }
        let paths: Vec<Value> = shown
            .into_iter()
            .map(|(path, _, mut numbers)| {
                numbers["path"] = json!(path.to_string_lossy());
                numbers
            })
            .collect();
        let mut numbers = self.all.json();
        numbers["paths"] = json!(paths);
        Summary { words, numbers }
    }
}

impl<T: Tree> Visitor<T> for Counting<'_> {
    type Dir = Totals;

    fn enter(&self, dir: &Entry<'_, T, Totals>, open: &T::Dir, is: &Attributes) -> Result<Totals, Failure> {
        let sum = Sum::of(dir.tree(), open);
        self.progress.done(1 + sum.as_ref().map_or(0, |sum| sum.files + sum.others));
        let totals = sum.as_ref().map_or_else(Totals::default, Totals::of_sum);
        totals.count(is, false);
        Ok(totals)
    }

    fn wanted(&self, dir: &Totals) -> Wanted {
        dir.wanted
    }

    fn visit(&self, entry: &Entry<'_, T, Totals>) -> Result<(), Failure> {
        let is = entry.stat()?;
        self.progress.entry();
        let again = self.linked.was_met(&is);
        match entry.parent() {
            Some(parent) => parent.data.count(&is, again),
            None => {
                let totals = Totals::default();
                totals.count(&is, again);
                self.all.add(&totals);
                self.show(entry.path(), &totals);
            }
        }
        Ok(())
    }

    fn leave(&self, _tree: &T, dir: &Node<T, Totals>) -> Result<(), Failure> {
        match dir.parent() {
            Some(parent) => parent.data.add(&dir.data),
            None => self.all.add(&dir.data),
        }
        if dir.depth() <= self.depth {
            self.show(dir.path(), &dir.data);
        }
        Ok(())
    }
}
