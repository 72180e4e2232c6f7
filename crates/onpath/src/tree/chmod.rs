//! `onpath chmod [-R] MODE PATH…`

use super::mode::ModeChange;
use super::{Changes, Task};
use crate::progress::Progress;
use crate::walk::{Entry, Failure, Node, Visitor, WalkArgs, to};
use clap::Args;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;

/// Arguments of `onpath chmod`.
#[derive(Args, Debug)]
pub(crate) struct ChmodArgs {
    /// Octal digits, or clauses such as u+rwX,go-w (one that begins with - after --).
    #[arg(allow_hyphen_values = true)]
    mode: ModeChange,
    /// What to change. Symbolic links have no mode: those below a PATH are left alone.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Directories with everything in them.
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    walk: WalkArgs,
}

pub(crate) fn run(args: ChmodArgs) -> anyhow::Result<()> {
    let recursive = args.recursive;
    let task = Task { doing: "changing modes", paths: &args.paths, follow: true, recursive, args: &args.walk };
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
    /// Through the descriptor, so that nobody can put a symbolic link in its place meanwhile.
    fn change(&self, fd: BorrowedFd<'_>, stat: &Stat) -> Result<(), Failure> {
        let before = stat.st_mode & 0o7777;
        let after = self.mode.apply(before, FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
        self.progress.entry();
        if after == before {
            self.changes.same.add(1);
            return Ok(());
        }
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        rustix::fs::chmod(path, Mode::from_raw_mode(after)).map_err(to("change the mode of"))?;
        self.changes.change(stat);
        Ok(())
    }
}

impl Visitor for Changer<'_> {
    /// Changed before what is in it unless that would shut us out: then after it.
    type Dir = bool;

    fn enter(&self, _dir: &Entry<'_, bool>, fd: BorrowedFd<'_>, stat: &Stat) -> Result<bool, Failure> {
        let after = self.mode.apply(stat.st_mode & 0o7777, true);
        let shuts = after & 0o500 != 0o500;
        if !shuts {
            self.change(fd, stat)?;
        }
        Ok(shuts)
    }

    fn locked(&self, dir: &Entry<'_, bool>) -> Result<bool, Failure> {
        self.visit(dir).map(|()| true)
    }

    fn visit(&self, entry: &Entry<'_, bool>) -> Result<(), Failure> {
        if entry.kind() == FileType::Symlink {
            return Ok(());
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(entry.at(), entry.name(), flags, Mode::empty()).map_err(to("open"))?;
        let stat = rustix::fs::fstat(&fd).map_err(to("stat"))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return Ok(());
        }
        self.change(std::os::fd::AsFd::as_fd(&fd), &stat)
    }

    fn leave(&self, dir: &Node<bool>) -> Result<(), Failure> {
        if dir.data {
            let stat = rustix::fs::fstat(dir.fd()).map_err(to("stat"))?;
            self.change(dir.fd(), &stat)?;
        }
        Ok(())
    }
}
