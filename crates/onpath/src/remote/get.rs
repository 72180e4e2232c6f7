//! `onpath get [-r] SOURCE… DEST`: files of a file system become files of this machine.
//!
//! A file is written under another name beside its own, which it gets when it is complete: nobody sees a part of one. Below DEST everything is
//! done by descriptors of directories, so that no symbolic link that is there, or comes meanwhile, leads a copy elsewhere.

use super::cat::print;
use super::copies::{CopyHow, Given, no_copy};
use super::name::{self, Target};
use super::walked::{Opened, WalkedTree, errno};
use super::{AtArgs, Work};
use crate::progress::Progress;
use crate::walk::{Attributes, Entry, Failure, Node, Trees, Visitor, to, to_copy, walk};
use anyhow::{Context, bail, ensure};
use clap::Args;
use onpath_client::blocking::Client;
use onpath_client::{Caller, FileType as Kind, Metadata};
use onpath_wire::shown::Shown;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Arguments of `onpath get`.
#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    #[arg(help = paths!("Files", "; the last one is the file or directory of this machine that they become, or `-` for standard output"), required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<OsString>,
    #[command(flatten)]
    how: CopyHow,
    #[command(flatten)]
    at: AtArgs,
}

pub(crate) fn run(args: GetArgs) -> anyhow::Result<()> {
    let mut work = args.at.begin();
    let (dest, sources) = args.paths.split_last().expect("two at least");
    let sources = work.targets(sources)?;
    let dest = Path::new(dest);
    if dest == Path::new("-") {
        ensure!(!args.how.recursive, "-r and - contradict each other: a directory is no stream of bytes");
        for source in &sources {
            let read = print(&work, source);
            work.told(read);
        }
        return work.end();
    }
    let into = directory(dest).with_context(|| format!("cannot write {}", dest.shown()))?;
    ensure!(into.is_some() || sources.len() == 1, "{} is not a directory: several files need one", dest.shown());
    let progress = Progress::counting("getting", "files", args.how.many.quiet);
    let getter = Getter { me: &work.me, how: &args.how, progress: &progress };
    let (dest, mut given) = (Dest { path: dest, into }, Given::default());
    for source in &sources {
        if let Err(error) = get(&work, &getter, source, &dest, &mut given) {
            work.report.note(&format!("{error:#}"));
        }
    }
    progress.finish();
    work.end()
}

/// Where copies go.
struct Dest<'a> {
    /// As the command line has it.
    path: &'a Path,
    /// The directory that this is: it is entered once, and nothing below it is followed.
    into: Option<OwnedFd>,
}

/// The directory that a word of the command line names, which need not be readable.
fn directory(path: &Path) -> Result<Option<OwnedFd>, Errno> {
    match rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(dir) => Ok(Some(dir)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn get(work: &Work, getter: &Getter<'_>, source: &Target, dest: &Dest<'_>, given: &mut Given) -> anyhow::Result<()> {
    let is = source.client.stat(&work.me, &source.path)?;
    // A file system as a whole, or what ends with dots, has no name: its entries go into the directory.
    let name = name::last(&source.path).map(CString::new).transpose()?;
    let (into, path) = match (&dest.into, name) {
        (Some(dir), Some(name)) => {
            let path = dest.path.join(OsStr::from_bytes(name.as_bytes()));
            (Some((dir.as_fd(), name)), path)
        }
        _ => (None, dest.path.to_owned()),
    };
    let told = || format!("cannot write {}", path.shown());
    if is.is_dir() {
        ensure!(getter.how.recursive, "{} is a directory: give -r", source.shown());
        let mode = CopyHow::filling(is.permissions);
        let top = match &into {
            Some((dir, name)) => make_dir(*dir, name, mode, OFlags::NOFOLLOW),
            None => make_dir(CWD, dest.path, mode, OFlags::empty()),
        };
        get_tree(work, getter, source, top.with_context(told)?);
        return Ok(());
    }
    let Some((dir, name)) = into else {
        let is_named_so = path.as_os_str().as_bytes().ends_with(b"/");
        ensure!(!is_named_so, "{} is not a directory", path.shown());
        if path.metadata().is_ok_and(|there| is_stream(FileType::from_raw_mode(there.mode()))) {
            let file = File::options().write(true).open(&path).with_context(told)?;
            return pour(work, source, file);
        }
        // A symbolic link that the command line names is followed, as cp does, to what is there.
        let place = if path.is_symlink() { path.canonicalize().with_context(told)? } else { path.clone() };
        let Some(name) = place.file_name().and_then(|name| CString::new(name.as_bytes()).ok()) else {
            bail!("{} is a directory", path.shown());
        };
        let above = place.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let dir = directory(above).and_then(|dir| dir.ok_or(Errno::NOENT)).with_context(told)?;
        let got = getter.file(&source.client, &source.path, &is, dir.as_fd(), &name);
        return got.map_err(|wrong| wrong.told(told));
    };
    if !given.is_free(name.to_bytes(), &source.name())? {
        return Ok(());
    }
    let there = rustix::fs::statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW);
    if there.is_ok_and(|there| is_stream(FileType::from_raw_mode(there.st_mode))) {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(dir, &name, flags, Mode::empty()).with_context(told)?;
        return pour(work, source, file.into());
    }
    let got = getter.file(&source.client, &source.path, &is, dir, &name);
    got.map_err(|wrong| wrong.told(told))?;
    given.give(name.to_bytes(), &source.name());
    Ok(())
}

/// Whether that takes bytes instead of being replaced.
fn is_stream(kind: FileType) -> bool {
    matches!(kind, FileType::CharacterDevice | FileType::BlockDevice | FileType::Fifo)
}

fn pour(work: &Work, source: &Target, mut into: File) -> anyhow::Result<()> {
    source.client.get(&work.me, &source.path)?.copy_to(&mut into).map(drop).map_err(Into::into)
}

fn get_tree(work: &Work, getter: &Getter<'_>, source: &Target, top: (OwnedFd, Option<u32>)) {
    let tree = WalkedTree::of(source, &work.me, true, 0);
    let roots = [source.local_name()];
    let trees = Trees { roots: &roots, follow: true, descend: true, jobs: getter.how.many.jobs() };
    walk(&tree, &trees, &TreeGetter { getter, top }, &work.report);
}

/// What went wrong with a file, and where.
enum Wrong {
    Source(onpath_client::Error),
    Here(io::Error),
}

impl Wrong {
    /// For people: what is wrong here is so of that place.
    fn told(self, place: impl FnOnce() -> String) -> anyhow::Error {
        match self {
            Wrong::Source(error) => error.into(),
            Wrong::Here(error) => anyhow::Error::from(error).context(place()),
        }
    }
}

impl From<onpath_client::Error> for Wrong {
    fn from(error: onpath_client::Error) -> Wrong {
        Wrong::Source(error)
    }
}

impl From<io::Error> for Wrong {
    fn from(error: io::Error) -> Wrong {
        Wrong::Here(error)
    }
}

impl From<Errno> for Wrong {
    fn from(errno: Errno) -> Wrong {
        Wrong::Here(errno.into())
    }
}

struct Getter<'a> {
    me: &'a Caller,
    how: &'a CopyHow,
    progress: &'a Progress,
}

fn time(ns: i64) -> Timespec {
    Timespec { tv_sec: ns.div_euclid(1_000_000_000), tv_nsec: ns.rem_euclid(1_000_000_000) as _ }
}

fn times(is: &Metadata) -> Timestamps {
    Timestamps { last_access: time(is.atime), last_modification: time(is.mtime) }
}

impl Getter<'_> {
    /// Makes a file of that name in an open directory.
    fn file(&self, client: &Client, path: &[u8], is: &Metadata, dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Wrong> {
        if self.how.no_clobber && rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Err(Errno::EXIST.into());
        }
        let mut reader = client.get(self.me, path)?;
        let at = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
        let mut part = tempfile::Builder::new().prefix(".onpath-get-").tempfile_in(&at)?;
        while let Some(bytes) = reader.next()? {
            part.write_all(&bytes)?;
            self.progress.add_bytes(bytes.len() as u64);
        }
        let mode = self.how.mode(is.permissions, self.me.umask);
        part.as_file().set_permissions(Permissions::from_mode(mode))?;
        if self.how.preserve {
            rustix::fs::futimens(part.as_file(), &times(is))?;
        }
        let name = at.join(OsStr::from_bytes(name.to_bytes()));
        let placed = if self.how.no_clobber { part.persist_noclobber(name) } else { part.persist(name) };
        placed.map_err(|error| error.error)?;
        self.progress.entry();
        Ok(())
    }

    /// Makes a symbolic link.
    fn link(&self, target: &[u8], dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        self.progress.entry();
        match rustix::fs::symlinkat(target, dir, name) {
            Err(Errno::EXIST) if !self.how.no_clobber => {}
            result => return result,
        }
        let aside = CString::new([b".onpath-get-", name::unlike().as_bytes()].concat()).expect("no zero in it");
        rustix::fs::symlinkat(target, dir, &aside)?;
        rustix::fs::renameat(dir, &aside, dir, name).inspect_err(|_| {
            // What cannot take the place of what is there goes again.
            _ = rustix::fs::unlinkat(dir, &aside, AtFlags::empty());
        })
    }
}

/// Copies what a walk meets.
struct TreeGetter<'a> {
    getter: &'a Getter<'a>,
    top: (OwnedFd, Option<u32>),
}

/// The copy of a directory, and what that is a copy of.
struct Made {
    copy: OwnedFd,
    /// The mode that it was made with, unless it was there.
    mode: Option<u32>,
    is: Metadata,
}

impl Visitor<WalkedTree> for TreeGetter<'_> {
    type Dir = Made;

    fn enter(&self, dir: &Entry<'_, WalkedTree, Made>, open: &Opened, _is: &Attributes) -> Result<Made, Failure> {
        let is = open.within.stat(self.getter.me, "/").map_err(errno).map_err(to("stat"))?;
        let made = match dir.parent() {
            None => rustix::io::fcntl_dupfd_cloexec(&self.top.0, 0).map(|top| (top, self.top.1)),
            Some(parent) => {
                make_dir(parent.data.copy.as_fd(), dir.name(), CopyHow::filling(is.permissions), OFlags::NOFOLLOW)
            }
        };
        let (copy, mode) = made.map_err(to_copy("make the copy of"))?;
        Ok(Made { copy, mode, is })
    }

    fn visit(&self, entry: &Entry<'_, WalkedTree, Made>) -> Result<(), Failure> {
        let (Some(parent), Some(dir)) = (entry.parent(), entry.at()) else {
            return Err(Failure::new("list", Errno::NOTDIR));
        };
        let (getter, name, into) = (self.getter, entry.name().to_bytes(), parent.data.copy.as_fd());
        let is = dir.within.lstat(getter.me, name).map_err(errno).map_err(to("stat"))?;
        match is.file_type {
            Kind::File => getter.file(&dir.within, name, &is, into, entry.name()).map_err(|wrong| match wrong {
                Wrong::Source(error) => Failure::new("read", errno(error)),
                Wrong::Here(error) => {
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                    Failure::of_copy("write the copy of", errno)
                }
            }),
            Kind::Symlink => {
                let target = dir.within.readlink(getter.me, name).map_err(errno).map_err(to("read"))?;
                getter.link(&target, into, entry.name()).map_err(to_copy("make the copy of"))
            }
            _ => Err(no_copy()),
        }
    }

    fn leave(&self, _tree: &WalkedTree, dir: &Node<WalkedTree, Made>) -> Result<(), Failure> {
        let (Made { copy, mode, is }, how) = (&dir.data, self.getter.how);
        if let Some(mode) = how.filled(is.permissions, *mode) {
            rustix::fs::fchmod(copy, Mode::from_raw_mode(mode)).map_err(to_copy("give its mode to the copy of"))?;
        }
        if how.preserve {
            rustix::fs::futimens(copy, &times(is)).map_err(to_copy("give its times to the copy of"))?;
        }
        Ok(())
    }
}

/// A directory in another one, and the mode that it has got; none if it was there.
fn make_dir(
    dir: BorrowedFd<'_>,
    name: impl rustix::path::Arg + Copy,
    mode: u32,
    follow: OFlags,
) -> Result<(OwnedFd, Option<u32>), Errno> {
    let is_new = match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(mode)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(errno),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let made = rustix::fs::openat(dir, name, flags | follow, Mode::empty())?;
    let mode = if is_new { Some(rustix::fs::fstat(&made)?.st_mode & 0o7777) } else { None };
    Ok((made, mode))
}
