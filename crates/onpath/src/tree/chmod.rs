//! `onpath chmod [-R] MODE PATH…`

use super::mode::ModeChange;
use super::{Changes, Task};
use crate::progress::Progress;
use crate::remote::WordsArgs;
use crate::walk::{Attributes, Entry, Failure, Node, Tree, Visitor, WalkArgs, to};
use clap::Args;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::OsString;

/// Arguments of `onpath chmod`.
#[derive(Args, Debug)]
pub(crate) struct ChmodArgs {
    /// Octal digits, or clauses such as u+rwX,go-w (one that begins with - after --).
    #[arg(allow_hyphen_values = true)]
    mode: ModeChange,
    /// What to change. Symbolic links have no mode: those below a PATH are left alone.
    #[arg(required = true)]
    paths: Vec<OsString>,
    /// Directories with everything in them.
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    walk: WalkArgs,
    #[command(flatten)]
    at: WordsArgs,
}

pub(crate) fn run(args: ChmodArgs) -> anyhow::Result<()> {
    let recursive = args.recursive;
    let task =
        Task { doing: "changing modes", paths: &args.paths, at: &args.at, follow: true, recursive, args: &args.walk };
    let progress = task.progress();
    let visitor = Changer { mode: &args.mode, progress: &progress, changes: Changes::default() };
    task.run(&progress, &visitor, |changer, _| changer.changes.summary("modes"))
}

struct Changer<'a> {
    mode: &'a ModeChange,
    progress: &'a Progress,
    changes: Changes,
}

impl Changer<'_> {
    /// The bits that something like this gets, if they are others.
    fn change(&self, is: &Attributes) -> Option<u32> {
        let after = self.mode.apply(is.permissions, is.kind == FileType::Directory);
        self.progress.entry();
        if after == is.permissions {
            self.changes.same.add(1);
            return None;
        }
        Some(after)
    }

    /// Counts what was changed.
    fn changed(&self, was: Result<Option<Attributes>, Errno>) -> Result<(), Failure> {
        was.map_err(to("change the mode of"))?.iter().for_each(|was| self.changes.change(was));
        Ok(())
    }
}

impl<T: Tree> Visitor<T> for Changer<'_> {
    /// Changed before what is in it unless that would shut us out: then after it.
    type Dir = bool;

    fn enter(&self, dir: &Entry<'_, T, bool>, open: &T::Dir, is: &Attributes) -> Result<bool, Failure> {
        let after = self.mode.apply(is.permissions, true);
        let shuts = after & 0o500 != 0o500;
        if !shuts {
            self.changed(dir.tree().chmod_dir(open, &|is| self.change(is)))?;
        }
        Ok(shuts)
    }

    fn locked(&self, dir: &Entry<'_, T, bool>) -> Result<bool, Failure> {
        self.visit(dir).map(|()| true)
    }

    fn visit(&self, entry: &Entry<'_, T, bool>) -> Result<(), Failure> {
        if entry.kind() == FileType::Symlink {
            return Ok(());
        }
        self.changed(entry.tree().chmod(entry.at(), entry.name(), &|is| self.change(is)))
    }

    fn leave(&self, tree: &T, dir: &Node<T, bool>) -> Result<(), Failure> {
        if dir.data {
            self.changed(tree.chmod_dir(dir.dir(), &|is| self.change(is)))?;
        }
        Ok(())
    }
}
