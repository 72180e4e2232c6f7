//! The copy of a tree, entry by entry.

use super::attributes::{self, Place};
use super::file::File;
use super::links::Links;
use super::{marker, part, special};
use crate::tree::Counter;
use crate::walk::{Entry, Failure, Node, Progress, Report, Visitor, to};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use serde_json::{Value, json};
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
    stat: Stat,
    /// It was there before this run, so an earlier one may have left parts in it.
    was_there: bool,
}

/// Copies what a walk over the source visits.
pub(super) struct Copier<'a> {
    source: &'a Path,
    destination: &'a Path,
    verify: bool,
    progress: &'a Progress,
    links: Links,
    done: Done,
}

impl<'a> Copier<'a> {
    pub(super) fn new(source: &'a Path, destination: &'a Path, verify: bool, progress: &'a Progress) -> Copier<'a> {
        Copier { source, destination, verify, progress, links: Links::default(), done: Done::default() }
    }

    pub(super) fn done(&self) -> &Done {
        &self.done
    }

    /// Makes the names that could not be made yet: their inode was still being copied.
    pub(super) fn link_the_rest(&self, report: &Report) {
        for (first, name) in self.links.rest() {
            match super::links::link(&first, &name) {
                Ok(true) => self.done.hard_links.add(1),
                Ok(false) => self.done.skipped.add(1),
                Err(failure) => report.fail(&name, failure),
            }
        }
    }

    fn copy_of(&self, path: &Path) -> PathBuf {
        self.destination.join(path.strip_prefix(self.source).expect("a walk stays below its root"))
    }

    /// Something of several names: copied under the first that comes.
    fn copy_linked(&self, entry: &Entry<'_, Target>, target: &Target, stat: &Stat) -> Result<(), Failure> {
        let copy = self.copy_of(&entry.path());
        match self.links.claim(stat, &copy) {
            None => {
                let result = self.copy_inode(entry, target, stat);
                self.links.settle(stat, result.is_ok());
                result
            }
            Some(first) => {
                // None: it will be linked when all is done.
                if let Some(first) = first {
                    let made = super::links::link(&first, &copy)?;
                    if made { self.done.hard_links.add(1) } else { self.done.skipped.add(1) }
                }
                Ok(())
            }
        }
    }

    fn copy_inode(&self, entry: &Entry<'_, Target>, target: &Target, stat: &Stat) -> Result<(), Failure> {
        let source = Place { at: entry.at(), name: entry.name() };
        let copy = Place { at: target.fd.as_fd(), name: entry.name() };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                File { source, copy, verify: self.verify, done: &self.done, progress: self.progress }.copy()
            }
            _ => special::copy(source, stat, copy, &self.done),
        }
    }

    /// Removes parts that an earlier run left, of states that their sources are not in any more.
    fn remove_parts(&self, dir: &Node<Target>) -> Result<(), Failure> {
        let target = &dir.data;
        for entry in Dir::read_from(&target.fd).map_err(to("list the copy of"))? {
            let entry = entry.map_err(to("list the copy of"))?;
            let name = entry.file_name();
            let is_copy = || rustix::fs::statat(dir.fd(), name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
            if part::is_one(name) && !is_copy() {
                match rustix::fs::unlinkat(&target.fd, name, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(errno) => return Err(Failure { action: "remove an unfinished part in the copy of", errno }),
                }
            }
        }
        Ok(())
    }
}

impl Visitor for Copier<'_> {
    type Dir = Target;

    fn enter(&self, dir: &Entry<'_, Target>, _fd: BorrowedFd<'_>, stat: &Stat) -> Result<Target, Failure> {
        self.progress.entry();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Some(parent) = dir.parent() else {
            let fd = rustix::fs::open(self.destination, flags, Mode::empty()).map_err(to("open the copy of"))?;
            return Ok(Target { fd, stat: *stat, was_there: true });
        };
        let parent = &parent.data;
        let was_there = match rustix::fs::mkdirat(&parent.fd, dir.name(), Mode::RWXU) {
            Ok(()) => false,
            Err(Errno::EXIST) => true,
            Err(errno) => return Err(Failure { action: "make the copy of", errno }),
        };
        let fd = rustix::fs::openat(&parent.fd, dir.name(), flags | OFlags::NOFOLLOW, Mode::empty());
        let fd = fd.map_err(to("make the copy of (something else has its name)"))?;
        if was_there {
            // Complete already, and closed to its owner: it is opened until it is complete again.
            let mode = rustix::fs::fstat(&fd).map_err(to("stat the copy of"))?.st_mode;
            if mode & 0o700 != 0o700 {
                rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode & 0o7777 | 0o700)).map_err(to("open the copy of"))?;
            }
        }
        (if was_there { &self.done.skipped } else { &self.done.directories }).add(1);
        Ok(Target { fd, stat: *stat, was_there })
    }

    fn visit(&self, entry: &Entry<'_, Target>) -> Result<(), Failure> {
        let parent = entry.parent().expect("the root of a copy is a directory");
        if parent.parent().is_none() && entry.name() == marker::NAME {
            return Ok(()); // the source is an unfinished copy itself
        }
        self.progress.entry();
        let stat = entry.stat()?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Err(Failure { action: "copy (it has become a directory)", errno: Errno::ISDIR }),
            _ if stat.st_nlink > 1 => self.copy_linked(entry, &parent.data, &stat),
            _ => self.copy_inode(entry, &parent.data, &stat),
        }
    }

    fn leave(&self, dir: &Node<Target>) -> Result<(), Failure> {
        let target = &dir.data;
        if target.was_there && !dir.has_failed() {
            self.remove_parts(dir)?;
        }
        let source = Place { at: dir.fd(), name: c"." };
        attributes::copy(source, &target.stat, Place { at: target.fd.as_fd(), name: c"." }, &self.done)
    }
}
