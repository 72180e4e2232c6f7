//! `onpath import DIR DEST` and `onpath export SRC DIR`: parallel copies of trees that can be interrupted at any moment and run again.
//!
//! How a second run knows what is done: a file is written under a name of its own ([`part`]) and gets its real name when its bytes, owner,
//! mode, extended attributes and times are complete. So what has the size and the time of modification of its source is a complete copy of
//! it. Of a part that was left, whatever equals the source is kept, and copying goes on from there. That much holds after any kill of this
//! or the serving process. A power loss may keep a file's name but not its bytes: therefore the destination holds a [`marker`] with the
//! boot it was begun under until all of it is on stable storage. A run that finds one of another boot compares bytes before it trusts.

mod attributes;
mod copier;
mod file;
mod links;
mod marker;
mod part;
mod special;

use crate::cli::{absolute, say};
use crate::inspect::served_by;
use crate::walk::{self, Entry, Failure, Node, Progress, Report, Trees, Visitor, WalkArgs, walk};
use anyhow::Context;
use clap::Args;
use copier::{Copier, Done};
use marker::Marker;
use rustix::fs::Stat;
use std::os::fd::BorrowedFd;
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
    let existing = args.destination.ancestors().find_map(|path| nonempty(path).canonicalize().ok());
    served_by(&existing.unwrap_or_default())
        .with_context(|| format!("cannot import into {}", args.destination.display()))?;
    copy(&args, "importing")
}

pub(crate) fn export(args: CopyArgs) -> anyhow::Result<()> {
    let source = find(&args.source)?;
    served_by(&source).with_context(|| format!("cannot export {}", args.source.display()))?;
    copy(&args, "exporting")
}

fn nonempty(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

fn find(source: &Path) -> anyhow::Result<PathBuf> {
    let found = source.canonicalize().with_context(|| format!("cannot find {}", source.display()))?;
    anyhow::ensure!(found.is_dir(), "{} is not a directory: name the directory to copy", source.display());
    Ok(found)
}

fn copy(args: &CopyArgs, doing: &'static str) -> anyhow::Result<()> {
    let source = find(&args.source)?;
    let destination = absolute(&args.destination)?;
    let shown = destination.display();
    std::fs::create_dir_all(&destination).with_context(|| format!("cannot make {shown}"))?;
    let destination = destination.canonicalize().with_context(|| format!("cannot find {shown}"))?;
    anyhow::ensure!(
        !destination.starts_with(&source) && !source.starts_with(&destination),
        "{} and {} are within each other: copy to a place outside",
        source.display(),
        destination.display()
    );
    let marker = Marker::put(&destination)?;
    let progress = Progress::new(doing, args.walk.quiet || args.walk.json);
    let report = Report::new(&progress);
    let copier = Copier::new(&source, &destination, args.verify || marker.is_of_another_boot(), &progress);
    let trees = Trees { roots: std::slice::from_ref(&source), follow: true, descend: true, jobs: args.walk.jobs() };
    std::thread::scope(|scope| {
        if progress.is_shown() {
            scope.spawn(|| foresee(&trees, &progress));
        }
        walk(&trees, &copier, &report);
        copier.link_the_rest(&report);
    });
    progress.finish();
    marker.finish(report.failures() == 0)?;
    let done = copier.done();
    tell(args, done, &report, &progress);
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

/// Counts the source beside the copying, so that the progress knows how much there is.
fn foresee(trees: &Trees<'_>, progress: &Progress) {
    let silent = Progress::new("", true);
    let counted = Counted(Default::default());
    let trees = Trees { jobs: 1, ..*trees };
    walk(&trees, &counted, &Report::silent(&silent));
    progress.set_whole(counted.0.get());
}

struct Counted(crate::tree::Counter);

impl Visitor for Counted {
    type Dir = ();

    fn enter(&self, _dir: &Entry<'_, ()>, _fd: BorrowedFd<'_>, _stat: &Stat) -> Result<(), Failure> {
        self.0.add(1);
        Ok(())
    }

    fn visit(&self, _entry: &Entry<'_, ()>) -> Result<(), Failure> {
        self.0.add(1);
        Ok(())
    }

    fn leave(&self, _dir: &Node<()>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Bytes for people.
fn bytes(bytes: u64) -> String {
    walk::bytes(bytes)
}
