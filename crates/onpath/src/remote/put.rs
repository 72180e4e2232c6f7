//! `onpath put [-r] SOURCE… DEST`: files of this machine become files of a file system.
//!
//! A file gets its name when all of it is there and durable; until then, and if this process ends before, the name leads to what it led to.

use super::copies::{CopyHow, Given, no_copy};
use super::name::{self, Target};
use super::walked::errno;
use super::{AtArgs, Work, is};
use crate::progress::Progress;
use crate::walk::{Attributes, Entry, Failure, Local, Node, Trees, Visitor, at, to, to_copy, walk};
use anyhow::{Context, ensure};
use clap::Args;
use onpath_client::blocking::Client;
use onpath_client::{Caller, Error, ErrorKind, Link, Replace, Time};
use onpath_wire::shown::Shown;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Arguments of `onpath put`.
#[derive(Args, Debug)]
pub(crate) struct PutArgs {
    #[arg(help = paths!("Files of this machine, or `-` for standard input; the last one is the file or directory that they become"), required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<OsString>,
    #[command(flatten)]
    how: CopyHow,
    #[command(flatten)]
    at: AtArgs,
}

pub(crate) fn run(args: PutArgs) -> anyhow::Result<()> {
    let (dest, sources) = args.paths.split_last().expect("two at least");
    let keeps_nothing = args.how.preserve && sources.iter().any(|source| source == "-");
    ensure!(!keeps_nothing, "-p and - contradict each other: standard input has no mode and no times");
    let mut work = args.at.begin();
    let dest = work.one(dest)?;
    let into = dest.is_dir(&work.me);
    ensure!(into || sources.len() == 1, "{} is not a directory: several files need one", dest.shown());
    let progress = Progress::counting("putting", "files", args.how.many.quiet);
    // With --preserve modes are those of the sources, whatever the umask is.
    let umask = if args.how.preserve { 0 } else { work.me.umask };
    let putter = Putter { me: Caller { umask, ..work.me.clone() }, how: &args.how, progress: &progress };
    let mut given = Given::default();
    for source in sources {
        if let Err(error) = put(&work, &putter, source, (&dest, into), &mut given) {
            work.report.note(&format!("{error:#}"));
        }
    }
    progress.finish();
    work.end()
}

fn put(
    work: &Work,
    putter: &Putter<'_>,
    source: &OsStr,
    (dest, into): (&Target, bool),
    given: &mut Given,
) -> anyhow::Result<()> {
    if source == "-" {
        ensure!(!into, "{} is a directory: standard input has no name that it could get in it", dest.shown());
        refused(putter, dest)?;
        let mut writer = putter.begin(&dest.client, &dest.path, 0o666)?;
        writer.copy_from(&mut putter.counted(io::stdin().lock()))?;
        writer.finish(true)?;
        return Ok(());
    }
    let path = Path::new(source);
    let told = || format!("cannot read {}", path.shown());
    let is = path.metadata().with_context(told)?;
    // What ends with dots has no name: its entries go into the directory.
    let name = name::last(source.as_bytes()).filter(|_| into);
    let dest = name.map_or_else(|| dest.clone(), |name| dest.below(name));
    if is.is_dir() {
        ensure!(putter.how.recursive, "{} is a directory: give -r", path.shown());
        // A symbolic link that has the name in the directory is nobody's word.
        let link = if name.is_some() { Link::Itself } else { Link::Follow };
        return put_tree(work, putter, path, is.permissions().mode(), (&dest, link));
    }
    if let Some(name) = name
        && !given.is_free(name, source.as_bytes())?
    {
        return Ok(());
    }
    refused(putter, &dest)?;
    // A FIFO is read as cp reads one: until whoever writes into it is done.
    let mut file = File::open(path).with_context(told)?;
    let stat = rustix::fs::fstat(&file).with_context(told)?;
    putter.file(&mut file, &stat, &dest.client, &dest.path).map_err(|error| {
        let is_here = matches!(error.kind(), ErrorKind::Local(_));
        let error = anyhow::Error::from(error);
        if is_here { error.context(told()) } else { error }
    })?;
    name.into_iter().for_each(|name| given.give(name, source.as_bytes()));
    Ok(())
}

fn refused(putter: &Putter<'_>, dest: &Target) -> anyhow::Result<()> {
    ensure!(!putter.is_refused(&dest.client, &dest.path), "{} exists already: it is left alone", dest.shown());
    Ok(())
}

fn put_tree(
    work: &Work,
    putter: &Putter<'_>,
    source: &Path,
    mode: u32,
    (dest, link): (&Target, Link),
) -> anyhow::Result<()> {
    let top = make_dir(putter, &dest.client, &dest.path, mode, link)?;
    let roots = [source.to_owned()];
    let trees = Trees { roots: &roots, follow: true, descend: true, jobs: putter.how.many.jobs() };
    walk(&Local::default(), &trees, &TreePutter { putter, top }, &work.report);
    Ok(())
}

/// The copy of a directory that has that mode.
fn make_dir(putter: &Putter<'_>, client: &Client, path: &[u8], mode: u32, link: Link) -> Result<Made, Error> {
    let mode = match client.mkdir(&putter.me, path, CopyHow::filling(mode)) {
        Ok(made) => Some(made.permissions & 0o7777),
        Err(error) if is(&error, Errno::EXIST) => None,
        Err(error) => return Err(error),
    };
    Ok(Made { copy: client.within(&putter.me, path, link)?, mode })
}

struct Putter<'a> {
    me: Caller,
    how: &'a CopyHow,
    progress: &'a Progress,
}

/// What is read, counted.
struct Counted<'a, R>(R, &'a Progress);

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).inspect(|bytes| self.1.add_bytes(*bytes as u64))
    }
}

/// Nanoseconds since 1970.
fn time(seconds: i64, nanoseconds: u64) -> Time {
    Time::At(seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds.cast_signed()))
}

fn times(stat: &Stat) -> (Time, Time) {
    (time(stat.st_atime, stat.st_atime_nsec), time(stat.st_mtime, stat.st_mtime_nsec))
}

impl Putter<'_> {
    fn counted<R: Read>(&self, from: R) -> Counted<'_, R> {
        Counted(from, self.progress)
    }

    /// Begins a file; `mode` as of open(2).
    fn begin(&self, client: &Client, path: &[u8], mode: u32) -> Result<onpath_client::blocking::Writer, Error> {
        let replace = if self.how.no_clobber { Replace::No } else { Replace::Yes };
        client.put(&self.me, path, mode, replace)
    }

    /// Whether a file is not even begun, since there is something that it must not replace.
    fn is_refused(&self, client: &Client, path: &[u8]) -> bool {
        self.how.no_clobber && client.lstat(&self.me, path).is_ok()
    }

    fn file(&self, from: &mut File, stat: &Stat, client: &Client, path: &[u8]) -> Result<(), Error> {
        let mut writer = self.begin(client, path, stat.st_mode & 0o777)?;
        writer.copy_from(&mut self.counted(from))?;
        if self.how.preserve {
            let (atime, mtime) = times(stat);
            writer.utimens(atime, mtime)?;
        }
        writer.finish(true)?;
        self.progress.entry();
        Ok(())
    }

    fn link(&self, target: &[u8], within: &Client, name: &[u8]) -> Result<(), Error> {
        self.progress.entry();
        match within.symlink(&self.me, name, target) {
            Err(error) if is(&error, Errno::EXIST) && !self.how.no_clobber => {}
            result => return result.map(drop),
        }
        let aside = [b".onpath-put-", name::unlike().as_bytes()].concat();
        within.symlink(&self.me, &aside, target)?;
        within.rename(&self.me, &aside, name, Replace::Yes).inspect_err(|_| {
            // What cannot take the place of what is there goes again.
            _ = within.unlink(&self.me, &aside);
        })
    }
}

/// The copy of a directory.
#[derive(Clone)]
struct Made {
    copy: Client,
    /// The mode that it was made with, unless it was there.
    mode: Option<u32>,
}

/// Copies what a walk meets.
struct TreePutter<'a> {
    putter: &'a Putter<'a>,
    top: Made,
}

impl Visitor<Local> for TreePutter<'_> {
    type Dir = Made;

    fn enter(&self, dir: &Entry<'_, Local, Made>, _open: &OwnedFd, is: &Attributes) -> Result<Made, Failure> {
        let Some(parent) = dir.parent() else { return Ok(self.top.clone()) };
        let made = make_dir(self.putter, &parent.data.copy, dir.name().to_bytes(), is.permissions, Link::Itself);
        made.map_err(errno).map_err(to_copy("make the copy of"))
    }

    fn visit(&self, entry: &Entry<'_, Local, Made>) -> Result<(), Failure> {
        let Some(parent) = entry.parent() else { return Err(Failure::new("list", Errno::NOTDIR)) };
        let (dir, name, into) = (at(entry.at()), entry.name(), &parent.data.copy);
        match entry.stat()?.kind {
            FileType::RegularFile if self.putter.is_refused(into, name.to_bytes()) => {
                Err(Failure::new("put", Errno::EXIST))
            }
            FileType::RegularFile => {
                // Whatever somebody puts in its place meanwhile, nothing waits for it.
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let mut file: File = rustix::fs::openat(dir, name, flags, Mode::empty()).map_err(to("open"))?.into();
                let stat = rustix::fs::fstat(&file).map_err(to("stat"))?;
                let put = self.putter.file(&mut file, &stat, into, name.to_bytes());
                put.map_err(|error| match error.kind() {
                    ErrorKind::Local(_) => Failure::new("read", errno(error)),
                    _ => Failure::of_copy("put", errno(error)),
                })
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(dir, name, Vec::new()).map_err(to("read"))?;
                let put = self.putter.link(target.to_bytes(), into, name.to_bytes());
                put.map_err(errno).map_err(to_copy("make the copy of"))
            }
            _ => Err(no_copy()),
        }
    }

    fn leave(&self, _tree: &Local, dir: &Node<Local, Made>) -> Result<(), Failure> {
        let (Putter { me, how, .. }, Made { copy, mode }) = (self.putter, &dir.data);
        let stat = rustix::fs::fstat(dir.dir()).map_err(to("stat"))?;
        if let Some(mode) = how.filled(stat.st_mode, *mode) {
            copy.chmod(me, "/", mode).map_err(errno).map_err(to_copy("give its mode to the copy of"))?;
        }
        if how.preserve {
            let (atime, mtime) = times(&stat);
            let set = copy.utimens(me, "/", atime, mtime, Link::Follow);
            set.map_err(errno).map_err(to_copy("give its times to the copy of"))?;
        }
        Ok(())
    }
}
