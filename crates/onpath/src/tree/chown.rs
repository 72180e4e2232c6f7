//! `onpath chown [-R] OWNER[:GROUP] PATH…`

use super::owner::Owner;
use super::{Changes, Task};
use crate::progress::Progress;
use crate::walk::{Entry, Failure, Node, Visitor, WalkArgs, to};
use clap::Args;
use rustix::fs::{AtFlags, Gid, Stat, Uid};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

/// Arguments of `onpath chown`.
#[derive(Args, Debug)]
pub(crate) struct ChownArgs {
    /// OWNER, OWNER:GROUP, :GROUP, or OWNER: for the owner's own group; names or numbers.
    owner: String,
    /// What to change; of symbolic links below a PATH their own owner.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Directories with everything in them.
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    walk: WalkArgs,
}

pub(crate) fn run(args: ChownArgs) -> anyhow::Result<()> {
    let owner = Owner::parse(&args.owner)?;
    let recursive = args.recursive;
    let task = Task { doing: "changing owners", paths: &args.paths, follow: true, recursive, args: &args.walk };
    let progress = task.progress();
    let visitor = Changer { owner, progress: &progress, changes: Changes::default() };
    task.run(&progress, &visitor, |changer, _| changer.changes.summary("owners"))
}

struct Changer<'a> {
    owner: Owner,
    progress: &'a Progress,
    changes: Changes,
}

impl Visitor for Changer<'_> {
    type Dir = ();

    fn enter(&self, _dir: &Entry<'_, ()>, _fd: BorrowedFd<'_>, _stat: &Stat) -> Result<(), Failure> {
        Ok(())
    }

    fn visit(&self, entry: &Entry<'_, ()>) -> Result<(), Failure> {
        let stat = entry.stat()?;
        self.progress.entry();
        let Owner { uid, gid } = self.owner;
        if uid.is_none_or(|uid| uid == stat.st_uid) && gid.is_none_or(|gid| gid == stat.st_gid) {
            self.changes.same.add(1);
            return Ok(());
        }
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        rustix::fs::chownat(entry.at(), entry.name(), uid, gid, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(to("change the owner of"))?;
        self.changes.change(&stat);
        Ok(())
    }

    /// After what is in it: who gives a directory away may not get into it any more.
    fn leave(&self, dir: &Node<()>) -> Result<(), Failure> {
        self.visit(&dir.entry())
    }
}
