//! `onpath import DIR DEST` and `onpath export SRC DIR`: parallel copies of trees that can be interrupted at any moment and run again.
//!
//! How a second run knows what is done: a file is written under a name of its own ([`staging`]) and gets its real name when its
//! bytes, owner, mode, extended attributes and times are complete. So what has the size and the time of modification of its source is a
//! complete copy of it. Of a part that was left, whatever equals the source is kept, and copying goes on from there. That much holds after
//! any kill of this or the serving process. A power loss may keep a file's name but not its bytes: therefore a mark stays, with the
//! boot it was begun under, until all of it is on stable storage. A run that finds one of another boot compares bytes before it trusts.
//!
//! Root copies into directories of users, who may put anything in place of anything meanwhile. So everything goes by descriptors: names
//! are looked up in open directories, never through links, and what was found is changed through its own descriptor ([`inode`]).

mod argument;
mod attributes;
mod copier;
mod file;
mod inode;
mod links;
mod special;
mod staging;

#[cfg(feature = "fuzzing")]
pub(crate) use staging::is_mark;

use crate::cli::say;
use crate::inspect::served_by;
use crate::progress::Progress;
use crate::tree::Counter;
use crate::walk::{Attributes, Entry, Failure, Local, Node, Report, Tree, Trees, Visitor, WalkArgs, Wanted, walk};
use anyhow::Context;
use argument::Argument;
use clap::Args;
use copier::{Copier, Done};
use onpath_host::progress::{Stage, Watcher};
use onpath_wire::shown::Shown;
use staging::Staging;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Arguments of `onpath import` and `onpath export`.
#[derive(Args, Debug)]
pub(crate) struct CopyArgs {
    /// The directory to copy, with everything in it.
    source: PathBuf,
    /// What shall become its copy: made if it is missing. What else is there stays.
    destination: PathBuf,
    /// Read back what was written, and what was there already, and compare every byte with the source.
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    walk: WalkArgs,
}

pub(crate) fn import(args: CopyArgs) -> anyhow::Result<()> {
    let progress = Progress::counting("importing", "entries", args.walk.many.quiet);
    let (source, destination) = arguments(&args)?;
    served_by(&destination.existing()?).with_context(|| format!("cannot import into {}", args.destination.shown()))?;
    copy(&args, source, destination, &progress)
}

pub(crate) fn export(args: CopyArgs) -> anyhow::Result<()> {
    let progress = Progress::counting("exporting", "entries", args.walk.many.quiet);
    let (source, destination) = arguments(&args)?;
    served_by(&source.existing()?).with_context(|| format!("cannot export {}", args.source.shown()))?;
    copy(&args, source, destination, &progress)
}

fn arguments(args: &CopyArgs) -> anyhow::Result<(Argument, Argument)> {
    let find = |path: &Path| Argument::find(path).with_context(|| format!("cannot find {}", path.shown()));
    Ok((find(&args.source)?, find(&args.destination)?))
}

fn copy(args: &CopyArgs, source: Argument, destination: Argument, progress: &Progress) -> anyhow::Result<()> {
    let (from, to) = (source.path()?, destination.path()?);
    anyhow::ensure!(
        !to.starts_with(&from) && !from.starts_with(&to),
        "{} and {} are within each other: copy to a place outside",
        from.shown(),
        to.shown()
    );
    let top = source.open().with_context(|| format!("cannot find {}", args.source.shown()))?;
    let destination = destination.make().with_context(|| format!("cannot make {}", to.shown()))?;
    let staging = Staging::begin(destination)?;
    let report = Report::new();
    let verify = args.verify || staging.is_of_another_boot();
    let copier = Copier::new(&from, top.as_fd(), &staging, verify, progress).context("list the source")?;
    let roots = std::slice::from_ref(&from);
    let trees = Trees { roots, follow: false, descend: true, jobs: args.walk.many.jobs() };
    let tree = Local { opened: Some(top) };
    let stage = progress.present();
    std::thread::scope(|scope| {
        scope.spawn(|| progress.foresee(stage, |is_over| count(&tree, &trees, is_over)));
        walk(&tree, &trees, &copier, &report);
        copier.link_the_rest(&report);
        progress.begin(Stage::uncounted("putting it on stable storage"));
    });
    staging.finish(report.failures() == 0)?;
    progress.finish();
    tell(args, copier.done(), &report, progress);
    report.result()
}

fn tell(args: &CopyArgs, done: &Done, report: &Report, progress: &Progress) {
    if done.xattrs_lost.get() > 0 {
        let lost = done.xattrs_lost.get();
        eprintln!("onpath: {lost} extended attributes could not be kept: the destination does not take them");
    }
    if done.owners_lost.get() > 0 {
        let lost = done.owners_lost.get();
        eprintln!("onpath: {lost} entries could not be given their owner: run this as root to keep owners");
    }
    if args.walk.json {
        say(&done.json(report, progress).to_string());
    } else {
        say(&done.words());
    }
}

/// Entries of the source, counted beside the copying, so that the progress knows how much there is.
fn count(tree: &Local, trees: &Trees<'_>, is_over: &(dyn Fn() -> bool + Sync)) -> u64 {
    let counting = Counting { entries: Counter::default(), is_over };
    walk(tree, &Trees { jobs: 1, ..*trees }, &counting, &Report::silent());
    counting.entries.get()
}

struct Counting<'a> {
    entries: Counter,
    is_over: &'a (dyn Fn() -> bool + Sync),
}

impl<T: Tree> Visitor<T> for Counting<'_> {
    type Dir = ();

    fn enter(&self, _dir: &Entry<'_, T, ()>, _open: &T::Dir, _is: &Attributes) -> Result<(), Failure> {
        self.entries.add(1);
        Ok(())
    }

    fn wanted(&self, _dir: &()) -> Wanted {
        if (self.is_over)() { Wanted::Nothing } else { Wanted::Everything }
    }

    fn visit(&self, _entry: &Entry<'_, T, ()>) -> Result<(), Failure> {
        self.entries.add(1);
        Ok(())
    }

    fn leave(&self, _tree: &T, _dir: &Node<T, ()>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Bytes for people.
fn bytes(bytes: u64) -> String {
    crate::progress::bytes(bytes)
}
