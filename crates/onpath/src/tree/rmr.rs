//! `onpath rmr PATH…`: removes trees, as rm -r does, by several threads.

use super::{Counter, Summary, Task};
use crate::progress::Progress;
use crate::walk::{Entry, Failure, Node, Visitor, WalkArgs, to};
use clap::Args;
use onpath_wire::shown::Shown;
use rustix::fs::{AtFlags, Dir, FileType, Stat};
use rustix::io::Errno;
use serde_json::json;
use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How often a directory is looked through again in which others make new entries while it is removed.
const RESCANS_MAX: usize = 8;

/// Arguments of `onpath rmr`.
#[derive(Args, Debug)]
pub(crate) struct RmrArgs {
    /// What to remove: directories with everything in them, or files.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// It is no failure if a PATH does not exist.
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    walk: WalkArgs,
}

pub(crate) fn run(args: RmrArgs) -> anyhow::Result<()> {
    for path in &args.paths {
        refuse(path)?;
    }
    let there = |path: &&PathBuf| !args.force || path.symlink_metadata().is_ok_or_other();
    let paths: Vec<PathBuf> = args.paths.iter().filter(there).map(|path| itself(path).to_owned()).collect();
    let task = Task { doing: "removing", paths: &paths, follow: false, recursive: true, args: &args.walk };
    let progress = task.progress();
    let visitor = Remover { progress: &progress, files: Counter::default(), directories: Counter::default() };
    task.run(&progress, &visitor, |remover, report| {
        if report.left_out_count() > 0 {
            report.note("unmount the file systems that were left out first; the directories above them stay");
        }
        let (files, directories) = (remover.files.get(), remover.directories.get());
        Summary {
            words: format!("removed {directories} directories and {files} other entries").into(),
            numbers: json!({ "directories": directories, "others": files }),
        }
    })
}

trait Existence {
    /// There, or nobody knows.
    fn is_ok_or_other(&self) -> bool;
}

impl<T> Existence for std::io::Result<T> {
    fn is_ok_or_other(&self) -> bool {
        !matches!(self, Err(error) if error.kind() == std::io::ErrorKind::NotFound)
    }
}

/// The path without slashes at its end, which would lead through a link.
fn itself(path: &Path) -> &Path {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(1, |last| last + 1);
    Path::new(OsStr::from_bytes(&bytes[..end.min(bytes.len())]))
}

/// What nobody means.
fn refuse(path: &Path) -> anyhow::Result<()> {
    let bytes = path.as_os_str().as_bytes();
    let last = bytes.rsplit(|byte| *byte == b'/').find(|name| !name.is_empty()).unwrap_or_default();
    anyhow::ensure!(last != b"." && last != b"..", "{} is refused: name the directory itself", path.shown());
    let named = itself(path);
    let is_other = named.as_os_str() != path.as_os_str() && named.symlink_metadata().is_ok_and(|stat| !stat.is_dir());
    anyhow::ensure!(
        !is_other,
        "{} is refused: {} is no directory; name it without a slash, or name the directory that it leads to",
        path.shown(),
        named.shown()
    );
    let is_root = path.canonicalize().is_ok_and(|path| path == Path::new("/"));
    anyhow::ensure!(!is_root || path.is_symlink(), "{} is the root of everything: refused", path.shown());
    Ok(())
}

struct Remover<'a> {
    progress: &'a Progress,
    files: Counter,
    directories: Counter,
}

impl Remover<'_> {
    fn count(&self, counter: &Counter) {
        counter.add(1);
        self.progress.entry();
    }

    /// Removes what others have put into the directory since it was listed.
    fn rescan(&self, dir: &Node<()>) -> Result<(), Failure> {
        let entries = Dir::read_from(dir.fd()).map_err(to("list"))?;
        for entry in entries {
            let entry = entry.map_err(to("list"))?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let is_dir = entry.file_type() == FileType::Directory;
            let flags = if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            match rustix::fs::unlinkat(dir.fd(), name, flags) {
                Ok(()) => self.count(if is_dir { &self.directories } else { &self.files }),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(Failure { action: "remove what was made meanwhile in", errno }),
            }
        }
        Ok(())
    }
}

impl Visitor for Remover<'_> {
    type Dir = ();

    fn enter(&self, _dir: &Entry<'_, ()>, _fd: BorrowedFd<'_>, _stat: &Stat) -> Result<(), Failure> {
        Ok(())
    }

    fn visit(&self, entry: &Entry<'_, ()>) -> Result<(), Failure> {
        rustix::fs::unlinkat(entry.at(), entry.name(), AtFlags::empty()).map_err(to("remove"))?;
        self.count(&self.files);
        Ok(())
    }

    fn leave(&self, dir: &Node<()>) -> Result<(), Failure> {
        if dir.has_failed() {
            return Ok(()); // it is not empty, and why was told
        }
        let entry = dir.entry();
        for _ in 0..RESCANS_MAX {
            match rustix::fs::unlinkat(entry.at(), entry.name(), AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST) => self.rescan(dir)?,
                result => {
                    result.map_err(to("remove"))?;
                    self.count(&self.directories);
                    return Ok(());
                }
            }
        }
        Err(Failure { action: "remove (others go on writing into it)", errno: Errno::NOTEMPTY })
    }
}
