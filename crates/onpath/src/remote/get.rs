//! `onpath get [-r] SOURCE… DEST`: files of a file system become files of this machine.
//!
//! A file is written under another name beside its own, which it gets when it is complete: nobody sees a part of one. Directories are made and
//! entered by descriptors, so that no symbolic link that is there, or comes meanwhile, leads a copy elsewhere.

use super::cat::print;
use super::name::{self, Target};
use super::walked::{Opened, WalkedTree, errno};
use super::{AtArgs, Work};
use crate::progress::Progress;
use crate::walk::{Attributes, Entry, Failure, ManyArgs, Node, Trees, Visitor, to, to_copy, walk};
use anyhow::{Context, bail, ensure};
use clap::Args;
use onpath_client::blocking::Client;
use onpath_client::{Caller, FileType, Metadata};
use onpath_wire::shown::Shown;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
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

/// How files are copied, here and there.
#[derive(Args, Clone, Debug)]
pub(super) struct CopyHow {
    /// Directories with everything in them, several files at once.
    #[arg(short, long)]
    pub(super) recursive: bool,
    /// Copies have the modes and times of what they are copies of.
    #[arg(short, long)]
    pub(super) preserve: bool,
    /// It is a failure if there is something of that name already.
    #[arg(short, long)]
    pub(super) no_clobber: bool,
    #[command(flatten)]
    pub(super) many: ManyArgs,
}

impl CopyHow {
    /// Permission bits of a copy. None has set-id bits: it may have another owner.
    pub(super) fn mode(&self, permissions: u32, umask: u32) -> u32 {
        permissions & 0o777 & if self.preserve { !0 } else { !umask }
    }
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
    let into = dest.is_dir();
    ensure!(into || sources.len() == 1, "{} is not a directory: several files need one", dest.shown());
    let progress = Progress::counting("getting", "files", args.how.many.quiet);
    let getter = Getter { me: &work.me, how: &args.how, progress: &progress };
    for source in &sources {
        if let Err(error) = get(&work, &getter, source, dest, into) {
            work.report.note(&format!("{error:#}"));
        }
    }
    progress.finish();
    work.end()
}

fn get(work: &Work, getter: &Getter<'_>, source: &Target, dest: &Path, into: bool) -> anyhow::Result<()> {
    let is = source.client.stat(&work.me, &source.path)?;
    let name = name::last(&source.path).map(OsStr::from_bytes);
    let dest = match name {
        Some(name) if into => dest.join(name),
        // A file system as a whole, or what ends with dots: its entries go into the directory.
        _ => dest.to_owned(),
    };
    let told = || format!("cannot write {}", dest.shown());
    if is.is_dir() {
        ensure!(getter.how.recursive, "{} is a directory: give -r", source.shown());
        return get_tree(work, getter, source, &is, &dest).with_context(told);
    }
    let is_named_so = dest.as_os_str().as_bytes().ends_with(b"/");
    ensure!(!is_named_so, "{} is not a directory", dest.shown());
    if let Ok(there) = dest.metadata()
        && (there.file_type().is_char_device() || there.file_type().is_fifo())
    {
        let mut file = File::options().write(true).open(&dest).with_context(told)?;
        return source.client.get(&work.me, &source.path)?.copy_to(&mut file).map(drop).map_err(Into::into);
    }
    // A symbolic link is followed, as cp does, to what is there.
    let dest = if dest.is_symlink() { dest.canonicalize().with_context(told)? } else { dest.clone() };
    let Some(name) = dest.file_name().and_then(|name| CString::new(name.as_bytes()).ok()) else {
        bail!("{} is a directory", dest.shown());
    };
    let dir = open_dir(CWD, dest.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")));
    getter.file(&source.client, &source.path, &is, dir.with_context(told)?.as_fd(), &name).map_err(
        |wrong| match wrong {
            Wrong::Source(error) => error.into(),
            Wrong::Here(error) => anyhow::Error::from(error).context(told()),
        },
    )
}

fn get_tree(work: &Work, getter: &Getter<'_>, source: &Target, is: &Metadata, dest: &Path) -> anyhow::Result<()> {
    let dir = match rustix::fs::mkdir(dest, Mode::from_raw_mode(is.permissions & 0o777 | 0o700)) {
        Ok(()) | Err(Errno::EXIST) => open_dir(CWD, dest)?,
        Err(errno) => return Err(errno.into()),
    };
    let tree = WalkedTree::of(source, &work.me, true, 0);
    let roots = [source.local_name()];
    let trees = Trees { roots: &roots, follow: true, descend: true, jobs: getter.how.many.jobs() };
    walk(&tree, &trees, &TreeGetter { getter, top: dir }, &work.report);
    Ok(())
}

fn open_dir(at: BorrowedFd<'_>, path: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(at, path, flags, Mode::empty())
}

/// What went wrong with a file, and where.
enum Wrong {
    Source(onpath_client::Error),
    Here(io::Error),
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
    top: OwnedFd,
}

/// The copy of a directory, and what that is a copy of.
struct Made {
    copy: OwnedFd,
    is: Metadata,
}

impl Visitor<WalkedTree> for TreeGetter<'_> {
    type Dir = Made;

    fn enter(&self, dir: &Entry<'_, WalkedTree, Made>, open: &Opened, _is: &Attributes) -> Result<Made, Failure> {
        let is = open.within.stat(self.getter.me, "/").map_err(errno).map_err(to("stat"))?;
        let copy = match dir.parent() {
            None => rustix::io::fcntl_dupfd_cloexec(&self.top, 0),
            Some(parent) => make_dir(parent.data.copy.as_fd(), dir.name(), is.permissions & 0o777 | 0o700),
        };
        Ok(Made { copy: copy.map_err(to_copy("make the copy of"))?, is })
    }

    fn visit(&self, entry: &Entry<'_, WalkedTree, Made>) -> Result<(), Failure> {
        let (Some(parent), Some(dir)) = (entry.parent(), entry.at()) else {
            return Err(Failure::new("list", Errno::NOTDIR));
        };
        let (getter, name, into) = (self.getter, entry.name().to_bytes(), parent.data.copy.as_fd());
        let is = dir.within.lstat(getter.me, name).map_err(errno).map_err(to("stat"))?;
        match is.file_type {
            FileType::File => getter.file(&dir.within, name, &is, into, entry.name()).map_err(|wrong| match wrong {
                Wrong::Source(error) => Failure::new("read", errno(error)),
                Wrong::Here(error) => {
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                    Failure::of_copy("write the copy of", errno)
                }
            }),
            FileType::Symlink => {
                let target = dir.within.readlink(getter.me, name).map_err(errno).map_err(to("read"))?;
                getter.link(&target, into, entry.name()).map_err(to_copy("make the copy of"))
            }
            _ => Err(Failure::new("copy (it is neither file, directory nor symbolic link)", Errno::OPNOTSUPP)),
        }
    }

    fn leave(&self, _tree: &WalkedTree, dir: &Node<WalkedTree, Made>) -> Result<(), Failure> {
        let (Made { copy, is }, how) = (&dir.data, self.getter.how);
        let mode = Mode::from_raw_mode(how.mode(is.permissions, self.getter.me.umask));
        if how.preserve || is.permissions & 0o700 != 0o700 {
            rustix::fs::fchmod(copy, mode).map_err(to_copy("give its mode to the copy of"))?;
        }
        if how.preserve {
            rustix::fs::futimens(copy, &times(is)).map_err(to_copy("give its times to the copy of"))?;
        }
        Ok(())
    }
}

/// A directory in another one, which may be there.
fn make_dir(dir: BorrowedFd<'_>, name: &CStr, mode: u32) -> Result<OwnedFd, Errno> {
    match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(mode)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty())
}
