//! `onpath rmr PATH…`: removes trees, as rm -r does, by several threads.

use super::{Counter, Summary, Task};
use crate::progress::Progress;
use crate::remote::{Ground, WordsArgs};
use crate::walk::{Attributes, Entry, Failure, Node, Report, Tree, Trees, Visitor, WalkArgs, to};
use clap::Args;
use onpath_wire::shown::Shown;
use rustix::fs::FileType;
use rustix::io::Errno;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How often a directory is looked through again in which others make new entries while it is removed.
const RESCANS_MAX: usize = 8;

/// Arguments of `onpath rmr`.
#[derive(Args, Debug)]
pub(crate) struct RmrArgs {
    /// What to remove: directories with everything in them, or files.
    #[arg(required = true)]
    paths: Vec<OsString>,
    /// It is no failure if there is nothing at a PATH.
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    walk: WalkArgs,
    #[command(flatten)]
    at: WordsArgs,
}

pub(crate) fn run(args: RmrArgs) -> anyhow::Result<()> {
    let task =
        Task { doing: "removing", paths: &args.paths, at: &args.at, follow: false, recursive: true, args: &args.walk };
    let mut grounds = task.grounds()?;
    for ground in &mut grounds {
        match ground {
            Ground::Here(paths) => {
                paths.iter().try_for_each(|path| refuse(path))?;
                paths.retain(|path| !args.force || path.symlink_metadata().is_ok_or_other());
            }
            Ground::There(tree, paths) => {
                paths.iter().try_for_each(|path| tree.refuse(path))?;
                paths.retain(|path| !args.force || tree.is_there(path));
            }
        }
    }
    for ground in &mut grounds {
        let (Ground::Here(paths) | Ground::There(_, paths)) = ground;
        paths.iter_mut().for_each(|path| *path = itself(path).to_owned());
    }
    let progress = task.progress();
    let remover = Remover { progress: &progress, files: Counter::default(), directories: Counter::default() };
    task.run_on(&grounds, &progress, &remover, |remover, report| {
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
        !matches!(self, Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
    }
}

/// Removes directories of a tree with everything in them; what fails goes to `report`.
pub(crate) fn remove<T: Tree>(tree: &T, roots: &[PathBuf], jobs: usize, quiet: bool, report: &Report) {
    let progress = Progress::counting("removing", "entries", quiet);
    let remover = Remover { progress: &progress, files: Counter::default(), directories: Counter::default() };
    crate::walk::walk(tree, &Trees { roots, follow: false, descend: true, jobs }, &remover, report);
    progress.finish();
}

/// The path without slashes at its end, which would lead through a link.
pub(crate) fn itself(path: &Path) -> &Path {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(1, |last| last + 1);
    Path::new(OsStr::from_bytes(&bytes[..end.min(bytes.len())]))
}

/// Refuses a slash behind the name of what is no directory: through a symbolic link it leads to what nobody has named.
pub(crate) fn refuse_through(path: &Path, is_dir: impl FnOnce(&Path) -> bool) -> anyhow::Result<()> {
    let named = itself(path);
    anyhow::ensure!(
        named.as_os_str() == path.as_os_str() || is_dir(named),
        "{} is refused: {} is no directory; name it without a slash, or name the directory that it leads to",
        path.shown(),
        named.shown()
    );
    Ok(())
}

/// What nobody means. No file system is asked if no slash is at the end: one that does not answer does not hold up the others.
fn refuse(path: &Path) -> anyhow::Result<()> {
    let bytes = path.as_os_str().as_bytes();
    let last = bytes.rsplit(|byte| *byte == b'/').find(|name| !name.is_empty()).unwrap_or_default();
    anyhow::ensure!(last != b"." && last != b"..", "{} is refused: name the directory itself", path.shown());
    anyhow::ensure!(last != b"" || bytes == b"", "{} is the root of everything: refused", path.shown());
    // What is missing is told when it is looked for.
    refuse_through(path, |named| named.symlink_metadata().map_or(true, |stat| stat.is_dir()))?;
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
    fn rescan<T: Tree>(&self, tree: &T, dir: &Node<T, ()>) -> Result<(), Failure> {
        for entry in tree.names(dir.dir()).map_err(to("list"))? {
            let (name, kind) = entry.map_err(to("list"))?;
            let is_dir = kind == FileType::Directory;
            match tree.remove(Some(dir.dir()), &name, is_dir) {
                Ok(()) => self.count(if is_dir { &self.directories } else { &self.files }),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(Failure::new("remove what was made meanwhile in", errno)),
            }
        }
        Ok(())
    }
}

impl<T: Tree> Visitor<T> for Remover<'_> {
    type Dir = ();

    fn enter(&self, _dir: &Entry<'_, T, ()>, _open: &T::Dir, _is: &Attributes) -> Result<(), Failure> {
        Ok(())
    }

    fn visit(&self, entry: &Entry<'_, T, ()>) -> Result<(), Failure> {
        entry.remove(false).map_err(to("remove"))?;
        self.count(&self.files);
        Ok(())
    }

    fn leave(&self, tree: &T, dir: &Node<T, ()>) -> Result<(), Failure> {
        if dir.has_failed() {
            return Ok(()); // it is not empty, and why was told
        }
        for _ in 0..RESCANS_MAX {
            match dir.entry(tree).remove(true) {
                Err(Errno::NOTEMPTY | Errno::EXIST) => self.rescan(tree, dir)?,
                result => {
                    result.map_err(to("remove"))?;
                    self.count(&self.directories);
                    return Ok(());
                }
            }
        }
        Err(Failure::new("remove (others go on writing into it)", Errno::NOTEMPTY))
    }
}
