//! `onpath chown [-R] OWNER[:GROUP] PATH…`

use super::owner::Owner;
use super::{Changes, Task};
use crate::progress::Progress;
use crate::remote::WordsArgs;
use crate::walk::{Attributes, Entry, Failure, Node, Tree, Visitor, WalkArgs, to};
use clap::Args;
use std::ffi::OsString;

/// Arguments of `onpath chown`.
#[derive(Args, Debug)]
pub(crate) struct ChownArgs {
    /// OWNER, OWNER:GROUP, :GROUP, or OWNER: for the owner's own group; names or numbers.
    owner: String,
    /// What to change; of symbolic links below a PATH their own owner.
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

pub(crate) fn run(args: ChownArgs) -> anyhow::Result<()> {
    let owner = Owner::parse(&args.owner)?;
    let recursive = args.recursive;
    let task =
        Task { doing: "changing owners", paths: &args.paths, at: &args.at, follow: true, recursive, args: &args.walk };
    let progress = task.progress();
    let visitor = Changer { owner, progress: &progress, changes: Changes::default() };
    task.run(&progress, &visitor, |changer, _| changer.changes.summary("owners"))
}

struct Changer<'a> {
    owner: Owner,
    progress: &'a Progress,
    changes: Changes,
}

impl<T: Tree> Visitor<T> for Changer<'_> {
    type Dir = ();

    fn enter(&self, _dir: &Entry<'_, T, ()>, _open: &T::Dir, _is: &Attributes) -> Result<(), Failure> {
        Ok(())
    }

    fn visit(&self, entry: &Entry<'_, T, ()>) -> Result<(), Failure> {
        let is = entry.stat()?;
        self.progress.entry();
        let Owner { uid, gid } = self.owner;
        if uid.is_none_or(|uid| uid == is.uid) && gid.is_none_or(|gid| gid == is.gid) {
            self.changes.same.add(1);
            return Ok(());
        }
        entry.tree().chown(entry.at(), entry.name(), uid, gid).map_err(to("change the owner of"))?;
        self.changes.change(&is);
        Ok(())
    }

    /// After what is in it: who gives a directory away may not get into it any more.
    fn leave(&self, tree: &T, dir: &Node<T, ()>) -> Result<(), Failure> {
        self.visit(&dir.entry(tree))
    }
}
