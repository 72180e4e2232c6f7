//! `onpath bench index`: the indexes that a path node can have beside each other, on one tree of directories, in turn.

mod made;
mod measure;
mod namespace;
mod report;

use crate::cli::say;
use anyhow::ensure;
use clap::{Args, ValueEnum, value_parser};
use made::Kind;
use measure::{Case, Work};
use namespace::Namespace;
use onpath_host::huge::HugePages;
use onpath_index::{Heap, Hi, Secret};
use onpath_mart::{Art, Mart};
use report::{Measured, Report};
use serde::Serialize;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Most directories.
const DIRECTORIES_MAX: u64 = 50_000_000;
/// Directories of a tree that is made up, if nobody says how many.
const DIRECTORIES: u64 = 100_000;
/// Most lookups of a measurement.
const LOOKUPS_MAX: u64 = 10_000_000;

/// Arguments of `onpath bench index`.
#[derive(Args, Debug)]
pub(crate) struct IndexArgs {
    /// Directories; 100000 if they are made up, and as many as the tree has otherwise: with more it is copied.
    #[arg(long, value_parser = value_parser!(u64).range(1_000..=DIRECTORIES_MAX))]
    directories: Option<u64>,
    /// Take the directories of this tree instead of some that are made up.
    #[arg(long, value_name = "PATH")]
    tree: Option<PathBuf>,
    /// What those that are made up are like: as deep and as closed as a tree of SPMeta, Table II.
    #[arg(long, value_enum, default_value = "scr4")]
    kind: Kind,
    /// How often everything is repeated.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Lookups of each measurement.
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(u64).range(100..=LOOKUPS_MAX))]
    lookups: u64,
    /// Indexes; each is compared with the first.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "hi,hi-small-pages,mart,art")]
    indexes: Vec<Kept>,
    /// Give results as JSON.
    #[arg(long)]
    json: bool,
    /// Measures one index once: what a process of its own does.
    #[arg(long, value_enum, hide = true)]
    only: Option<Kept>,
}

/// How directories are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kept {
    /// Records of 40 bytes that are a hash table, in huge pages.
    Hi,
    /// The same in pages of 4 KiB.
    HiSmallPages,
    /// The trie of SPMeta: inner nodes have values, subtrees move as a whole.
    Mart,
    /// A plain adaptive radix tree.
    Art,
}

pub(crate) fn run(args: &IndexArgs) -> anyhow::Result<()> {
    for (at, kept) in args.indexes.iter().enumerate() {
        ensure!(!args.indexes[..at].contains(kept), "--indexes: {} is asked for twice", kept.name());
    }
    let tree = match &args.tree {
        Some(path) => Namespace::read(path, args.directories.map(|count| count as usize))?,
        None => made::make(args.kind, args.directories.unwrap_or(DIRECTORIES) as usize)?,
    };
    if let Some(kept) = args.only {
        say(&serde_json::to_string(&kept.measure(&Work::new(tree, args.lookups as usize))?)?);
        return Ok(());
    }
    let mut report = Report::new(args, tree.shape());
    drop(tree);
    for round in 0..args.rounds as usize {
        // None is always first.
        let order = args.indexes.iter().cycle().skip(round % args.indexes.len()).take(args.indexes.len());
        for &kept in order {
            eprintln!("round {} of {}: {}", round + 1, args.rounds, kept.name());
            report.add(Measured { kept, round, cases: kept.alone(args)? });
        }
    }
    report.print(args.json)
}

impl Kept {
    fn name(self) -> String {
        self.to_possible_value().expect("no index is hidden").get_name().to_owned()
    }

    /// Measures it in a process of its own: memory that another index has left, in huge pages perhaps, is not for it.
    fn alone(self, args: &IndexArgs) -> anyhow::Result<Vec<(Case, f64)>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "index", "--only", &self.name(), "--lookups", &args.lookups.to_string()]);
        command.args(["--kind", args.kind.to_possible_value().expect("no kind is hidden").get_name()]);
        if let Some(count) = args.directories {
            command.args(["--directories", &count.to_string()]);
        }
        if let Some(path) = &args.tree {
            command.arg("--tree").arg(path);
        }
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "the measurement of {} has failed: {}", self.name(), output.status);
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    fn measure(self, work: &Work) -> anyhow::Result<Vec<(Case, f64)>> {
        let secret = Secret::new(*b"the same hashes.");
        match self {
            Kept::Hi => work.measure(|| Hi::new(secret, HugePages, usize::MAX)),
            Kept::HiSmallPages => work.measure(|| Hi::new(secret, Heap, usize::MAX)),
            Kept::Mart => work.measure(|| Mart::new(secret, usize::MAX)),
            Kept::Art => work.measure(|| Art::new(secret, usize::MAX)),
        }
    }
}
