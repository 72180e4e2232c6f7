//! The copy of a tree, entry by entry.

use super::attributes;
use super::file::File;
use super::inode::{Id, Inode, id};
use super::links::{Claim, Links, Name};
use super::special;
use super::staging::{self, Key, Staging};
use crate::progress::Progress;
use crate::tree::Counter;
use crate::walk::{Attributes, Entry, Failure, Local, Node, Report, Visitor, Wanted, at, to, to_copy};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use serde_json::{Value, json};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// What a copy did.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) files: Counter,
    pub(super) directories: Counter,
    pub(super) symlinks: Counter,
    pub(super) special: Counter,
    pub(super) hard_links: Counter,
    /// Bytes written.
    pub(super) bytes: Counter,
    /// Entries that were there already.
    pub(super) skipped: Counter,
    /// Files whose copy had been begun by an earlier run.
    pub(super) resumed: Counter,
    /// Bytes compared with the source.
    pub(super) compared: Counter,
    pub(super) xattrs_lost: Counter,
    pub(super) owners_lost: Counter,
}

impl Done {
    pub(super) fn words(&self) -> String {
        let mut words = format!(
            "copied {} files, {} directories, {} symlinks, {} others, {} hard links; {} written, {} entries were there",
            self.files.get(),
            self.directories.get(),
            self.symlinks.get(),
            self.special.get(),
            self.hard_links.get(),
            super::bytes(self.bytes.get()),
            self.skipped.get()
        );
        if self.compared.get() > 0 {
            words += &format!("; {} compared", super::bytes(self.compared.get()));
        }
        words
    }

    pub(super) fn json(&self, report: &Report, progress: &Progress) -> Value {
        json!({
            "files": self.files.get(),
            "directories": self.directories.get(),
            "symlinks": self.symlinks.get(),
            "special": self.special.get(),
            "hard_links": self.hard_links.get(),
            "bytes": self.bytes.get(),
            "skipped": self.skipped.get(),
            "resumed": self.resumed.get(),
            "compared": self.compared.get(),
            "xattrs_lost": self.xattrs_lost.get(),
            "owners_lost": self.owners_lost.get(),
            "vanished": report.vanished_count(),
            "failures": report.failures(),
            "seconds": progress.seconds(),
        })
    }
}

/// The copy of a directory.
pub(super) struct Target {
    fd: OwnedFd,
    id: Id,
    stat: Stat,
    /// It was there before this run, so an earlier one may have left parts in it.
    was_there: bool,
}

/// The inode that is a copy.
pub(super) type Made = Id;

/// Something that is no directory, and where its copy goes.
pub(super) struct Job<'a> {
    /// The directory of the copy.
    pub(super) dir: BorrowedFd<'a>,
    pub(super) name: &'a CStr,
    pub(super) staging: &'a Staging,
    /// Compare every byte with the source.
    pub(super) verify: bool,
    pub(super) done: &'a Done,
    pub(super) progress: &'a Progress,
}

/// Copies what a walk over the source visits.
pub(super) struct Copier<'a> {
    source: &'a Path,
    staging: &'a Staging,
    /// Copies that are under way into the source: it is unfinished itself.
    unfinished: Vec<(CString, Key)>,
    verify: bool,
    progress: &'a Progress,
    links: Links,
    done: Done,
}

impl<'a> Copier<'a> {
    /// `source` is the path of `top`.
    pub(super) fn new(
        source: &'a Path,
        top: BorrowedFd<'_>,
        staging: &'a Staging,
        verify: bool,
        progress: &'a Progress,
    ) -> rustix::io::Result<Copier<'a>> {
        let unfinished = staging::under_way(top)?;
        Ok(Copier { source, staging, unfinished, verify, progress, links: Links::default(), done: Done::default() })
    }

    pub(super) fn done(&self) -> &Done {
        &self.done
    }

    /// Makes the names that could not be made yet: their inode was still being copied.
    pub(super) fn link_the_rest(&self, report: &Report) {
        for (first, name) in self.links.rest() {
            match super::links::link_later(&first, &name, self.staging) {
                Ok(true) => self.done.hard_links.add(1),
                Ok(false) => self.done.skipped.add(1),
                Err(failure) => report.fail(&name.path(), failure),
            }
        }
    }

    fn below_top(&self, path: &Path) -> PathBuf {
        path.strip_prefix(self.source).expect("a walk stays below its root").to_owned()
    }

    /// Something of several names: copied under the first that comes.
    fn copy_linked(
        &self,
        entry: &Entry<'_, Local, Option<Target>>,
        target: &Target,
        source: &Inode,
    ) -> Result<(), Failure> {
        let dir = self.below_top(&entry.parent().map(Node::path).unwrap_or_default());
        let name = || Name { dir: dir.clone(), dir_id: target.id, name: entry.name().to_owned() };
        match self.links.claim(&source.stat, name()) {
            Claim::Copy => {
                let made = self.copy_inode(entry, target, source);
                self.links.settle(&source.stat, made.as_ref().ok().copied());
                made.map(drop)
            }
            Claim::Link(first) => {
                let made = super::links::link(&first, target.fd.as_fd(), &name(), self.staging)?;
                (if made { &self.done.hard_links } else { &self.done.skipped }).add(1);
                Ok(())
            }
            Claim::Later => Ok(()),
        }
    }

    fn copy_inode(
        &self,
        entry: &Entry<'_, Local, Option<Target>>,
        target: &Target,
        source: &Inode,
    ) -> Result<Made, Failure> {
        let job = Job {
            dir: target.fd.as_fd(),
            name: entry.name(),
            staging: self.staging,
            verify: self.verify,
            done: &self.done,
            progress: self.progress,
        };
        match source.kind() {
            FileType::RegularFile => File(&job).copy(source),
            _ => special::copy(&job, source),
        }
    }

    /// Makes the copy of a directory, or opens the one that is there: then true.
    fn open(&self, parent: &Target, name: &CStr) -> Result<(OwnedFd, bool), Failure> {
        let made = match rustix::fs::mkdirat(&parent.fd, name, Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(Failure::of_copy("make the copy of", errno)),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&parent.fd, name, flags, Mode::empty());
        let fd = fd.map_err(to_copy("make the copy of (something else has its name)"))?;
        let stat = rustix::fs::fstat(&fd).map_err(to_copy("stat the copy of"))?;
        if made && stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(Failure::of_copy("make the copy of (somebody has put another one in its place)", Errno::STALE));
        }
        if stat.st_mode & 0o700 != 0o700 {
            // Complete already, and closed to its owner: it is opened until it is complete again.
            let mode = Mode::from_raw_mode(stat.st_mode & 0o7777 | 0o700);
            rustix::fs::fchmod(&fd, mode).map_err(to_copy("open the copy of"))?;
        }
        (if made { &self.done.directories } else { &self.done.skipped }).add(1);
        Ok((fd, !made))
    }
}

impl Visitor<Local> for Copier<'_> {
    /// None: left out.
    type Dir = Option<Target>;

    fn enter(
        &self,
        dir: &Entry<'_, Local, Option<Target>>,
        open: &OwnedFd,
        _is: &Attributes,
    ) -> Result<Option<Target>, Failure> {
        let parent = dir.parent();
        if parent.is_some_and(|parent| parent.is_root())
            && self.unfinished.iter().any(|(mark, _)| mark.as_c_str() == dir.name())
        {
            return Ok(None);
        }
        self.progress.entry();
        let top = || rustix::io::fcntl_dupfd_cloexec(self.staging.destination(), 0).map(|fd| (fd, true));
        let (fd, was_there) = match parent.map(|parent| &parent.data) {
            None => top().map_err(to_copy("open the copy of"))?,
            Some(None) => return Ok(None),
            Some(Some(parent)) => self.open(parent, dir.name())?,
        };
        let id = id(&rustix::fs::fstat(&fd).map_err(to_copy("stat the copy of"))?);
        let stat = rustix::fs::fstat(open).map_err(to("stat"))?;
        Ok(Some(Target { fd, id, stat, was_there }))
    }

    fn wanted(&self, dir: &Option<Target>) -> Wanted {
        if dir.is_some() { Wanted::Everything } else { Wanted::Nothing }
    }

    fn visit(&self, entry: &Entry<'_, Local, Option<Target>>) -> Result<(), Failure> {
        let parent = entry.parent().expect("the root of a copy is a directory");
        let Some(target) = &parent.data else { return Ok(()) };
        if self.unfinished.iter().any(|(_, key)| key.made(entry.name())) {
            return Ok(());
        }
        self.progress.entry();
        let source = Inode::find(at(entry.at()), entry.name()).map_err(to("stat"))?;
        match source.kind() {
            FileType::Directory => Err(Failure::new("copy (it has become a directory)", Errno::ISDIR)),
            _ if source.stat.st_nlink > 1 => self.copy_linked(entry, target, &source),
            _ => self.copy_inode(entry, target, &source).map(drop),
        }
    }

    fn leave(&self, _tree: &Local, dir: &Node<Local, Option<Target>>) -> Result<(), Failure> {
        let Some(target) = &dir.data else { return Ok(()) };
        if target.was_there && !dir.has_failed() {
            self.staging.remove_parts(target.fd.as_fd())?;
        }
        attributes::copy(dir.dir().as_fd(), &target.stat, target.fd.as_fd(), &self.done)
    }
}
