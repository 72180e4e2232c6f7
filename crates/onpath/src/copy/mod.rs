//! `onpath import DIR DEST` and `onpath export SRC DIR`: parallel copies of trees that can be interrupted at any moment and run again.
//!
//! How a second run knows what is done: a file is written under a name of its own ([`staging`]) and gets its real name when its
//! bytes, owner, mode, extended attributes and times are complete. So what has the size and the time of modification of its source is a
//! complete copy of it. Of a part that was left, whatever equals the source is kept, and copying goes on from there. That much holds after
//! any kill of this or the serving process. A power loss may keep a file's name but not its bytes: therefore a mark stays, with the
//! boot it was begun under, until all of it is on stable storage. A run that finds one of another boot compares bytes before it trusts.
//! In a file system that is not mounted files have no name until then ([`there`]).
//!
//! Root copies into directories of users, who may put anything in place of anything meanwhile. So everything goes by descriptors: names
//! are looked up in open directories, never through links, and what was found is changed through its own descriptor ([`inode`]).
//!
//! A copy is the same work whatever its sides are ([`object`]).

mod argument;
mod attributes;
mod copier;
mod file;
mod here;
mod inode;
mod links;
mod object;
mod special;
mod staging;
mod there;

#[cfg(feature = "fuzzing")]
pub(crate) use staging::is_mark;

use crate::cli::say;
use crate::inspect::served_by;
use crate::progress::Progress;
use crate::remote::{WalkedTree, WordsArgs};
use crate::tree::Counter;
use crate::walk::{Attributes, Entry, Failure, Local, Node, Report, Tree, Trees, Visitor, WalkArgs, Wanted, walk};
use anyhow::Context;
use argument::Argument;
use clap::Args;
use copier::{Copier, Done};
use links::Links;
use object::{Destination, NANOSECONDS, Source};
use onpath_client::{Caller, url};
use onpath_host::progress::{Stage, Watcher};
use onpath_wire::shown::Shown;
use staging::{Key, Staging};
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use there::Imported;

/// Arguments of `onpath import` and `onpath export`.
#[derive(Args, Debug)]
pub(crate) struct CopyArgs {
    /// The directory to copy, with everything in it. Of an export: on a mount, onpath://HOST[:PORT][,HOST…]/PATH, or with --at a plain path.
    source: OsString,
    /// What shall become its copy: made if it is missing, and what else is there stays. Of an import as the source of an export.
    destination: OsString,
    /// Read back what was written, and what was there already, and compare every byte with the source.
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    walk: WalkArgs,
    #[command(flatten)]
    at: WordsArgs,
}

pub(crate) fn import(args: CopyArgs) -> anyhow::Result<()> {
    refuse_url(&args.source)?;
    let progress = Progress::counting("importing", "entries", args.walk.many.quiet);
    let Some((target, me)) = args.at.one(&args.destination)? else {
        let (source, destination) = (find(&args.source)?, find(&args.destination)?);
        served_by(&destination.existing()?)
            .with_context(|| format!("cannot import into {}", args.destination.shown()))?;
        return copy(&args, source, destination, &progress);
    };
    let source = find(&args.source)?;
    let there = there::Argument::find(&target, &me)
        .with_context(|| format!("cannot import into {}", args.destination.shown()))?;
    import_there(&args, source, there, &me, &progress)?;
    target.client.close();
    Ok(())
}

pub(crate) fn export(args: CopyArgs) -> anyhow::Result<()> {
    refuse_url(&args.destination)?;
    let progress = Progress::counting("exporting", "entries", args.walk.many.quiet);
    let Some((target, me)) = args.at.one(&args.source)? else {
        let (source, destination) = (find(&args.source)?, find(&args.destination)?);
        served_by(&source.existing()?).with_context(|| format!("cannot export {}", args.source.shown()))?;
        return copy(&args, source, destination, &progress);
    };
    let there =
        there::Argument::find(&target, &me).with_context(|| format!("cannot export {}", args.source.shown()))?;
    export_there(&args, there, find(&args.destination)?, &me, &progress)?;
    target.client.close();
    Ok(())
}

/// One side is this machine's.
fn refuse_url(word: &OsStr) -> anyhow::Result<()> {
    anyhow::ensure!(
        !url::is_url(Path::new(word)),
        "{} names a file system, where a directory of this machine is wanted: `onpath import DIR DEST` copies into a file system, \
         `onpath export SRC DIR` out of one",
        word.shown()
    );
    Ok(())
}

fn find(word: &OsStr) -> anyhow::Result<Argument> {
    Argument::find(Path::new(word)).with_context(|| format!("cannot find {}", word.shown()))
}

/// Between directories of this system.
fn copy(args: &CopyArgs, source: Argument, destination: Argument, progress: &Progress) -> anyhow::Result<()> {
    let (from, to) = (source.path()?, destination.path()?);
    refuse_within(to.starts_with(&from) || from.starts_with(&to), &from, &to)?;
    let top = source.open().with_context(|| format!("cannot find {}", args.source.shown()))?;
    let destination = destination.make().with_context(|| format!("cannot make {}", to.shown()))?;
    let staging = Staging::begin(destination)?;
    let unfinished = staging::under_way(top.as_fd()).context("list the source")?;
    let verify = args.verify || staging.is_of_another_boot();
    let whole = Whole { args, from: &from, verify, unfinished, progress };
    whole.copy(&Local { opened: Some(top) }, &staging, |complete| staging.finish(complete))
}

/// From a directory of this system into a file system that is not mounted.
fn import_there(
    args: &CopyArgs,
    source: Argument,
    destination: there::Argument,
    me: &Caller,
    progress: &Progress,
) -> anyhow::Result<()> {
    let (from, to) = (source.path()?, destination.told().to_owned());
    refuse_within(are_within(&source, &destination, me)?, &from, &to)?;
    let top = source.open().with_context(|| format!("cannot find {}", args.source.shown()))?;
    let unfinished = staging::under_way(top.as_fd()).context("list the source")?;
    let destination = destination.make(me).with_context(|| format!("cannot make {}", to.shown()))?;
    let whole = Whole { args, from: &from, verify: args.verify, unfinished, progress };
    // Each file and directory is on stable storage when it is done.
    whole.copy(&Local { opened: Some(top) }, &Imported::new(destination, me), |_| Ok(()))
}

/// From a file system that is not mounted into a directory of this system.
fn export_there(
    args: &CopyArgs,
    source: there::Argument,
    destination: Argument,
    me: &Caller,
    progress: &Progress,
) -> anyhow::Result<()> {
    let (from, to) = (source.told().to_owned(), destination.path()?);
    refuse_within(are_within(&destination, &source, me)?, &from, &to)?;
    let top = source.open().with_context(|| format!("cannot find {}", args.source.shown()))?;
    let unfinished = there::under_way(&top, me).context("list the source")?;
    let destination = destination.make().with_context(|| format!("cannot make {}", to.shown()))?;
    let staging = Staging::begin(destination)?;
    let verify = args.verify || staging.is_of_another_boot();
    let whole = Whole { args, from: &from, verify, unfinished, progress };
    whole.copy(&WalkedTree::opened(top, me, &from), &staging, |complete| staging.finish(complete))
}

/// What is copied grows under a copy that goes into it.
fn refuse_within(is_within: bool, from: &Path, to: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(!is_within, "{} and {} are within each other: copy to a place outside", from.shown(), to.shown());
    Ok(())
}

/// Whether a directory of this system, on a mount, and one without a mount are within each other. They are known by their inode numbers, and by
/// times of change, of which no two are the same.
fn are_within(here: &Argument, there: &there::Argument, me: &Caller) -> anyhow::Result<bool> {
    let existing = here.existing()?;
    let mounted: Vec<(u64, i64)> = existing
        .ancestors()
        .filter_map(|dir| dir.symlink_metadata().ok())
        .map(|is| (is.ino(), is.ctime().saturating_mul(NANOSECONDS).saturating_add(is.ctime_nsec())))
        .collect();
    let above: Vec<(u64, i64)> = there.above(me)?.iter().map(|is| (is.ino, is.ctime)).collect();
    let is_above = |dir: Option<&(u64, i64)>, others: &[(u64, i64)]| dir.is_some_and(|dir| others.contains(dir));
    Ok(here.is_there() && is_above(mounted.first(), &above) || there.is_there() && is_above(above.last(), &mounted))
}

/// A copy of a tree, whatever the sides are.
struct Whole<'a> {
    args: &'a CopyArgs,
    /// The path of its root.
    from: &'a PathBuf,
    verify: bool,
    /// Copies that are under way into the source.
    unfinished: Vec<(CString, Key)>,
    progress: &'a Progress,
}

impl Whole<'_> {
    /// Copies it; `finish` is called at the end, and is told whether all of it is there.
    fn copy<S: Source, D: Destination>(
        self,
        tree: &S,
        to: &D,
        finish: impl FnOnce(bool) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Whole { args, from, verify, unfinished, progress } = self;
        let report = Report::new();
        let (links, done) = (Links::default(), Done::default());
        let copier = Copier { source: from, to, unfinished, verify, progress, links, done };
        let roots = std::slice::from_ref(from);
        let trees = Trees { roots, follow: false, descend: true, jobs: args.walk.many.jobs() };
        let stage = progress.present();
        std::thread::scope(|scope| {
            scope.spawn(|| progress.foresee(stage, |is_over| count(tree, &trees, is_over)));
            walk(tree, &trees, &copier, &report);
            copier.link_the_rest(&report);
            progress.begin(Stage::uncounted("putting it on stable storage"));
        });
        finish(report.failures() == 0)?;
        progress.finish();
        tell(args, &copier.done, &report, progress);
        report.result()
    }
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
fn count<T: Tree>(tree: &T, trees: &Trees<'_>, is_over: &(dyn Fn() -> bool + Sync)) -> u64 {
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
