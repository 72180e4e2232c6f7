//! The copy of a tree, entry by entry.

use super::attributes;
use super::file::File;
use super::links::{Claim, Links};
use super::object::{Destination, Facts, Object, Place, Source};
use super::special;
use super::staging::Key;
use crate::progress::Progress;
use crate::tree::Counter;
use crate::walk::{Attributes, Entry, Failure, Node, Report, Visitor, Wanted, to, to_copy};
use rustix::fs::FileType;
use rustix::io::Errno;
use serde_json::{Value, json};
use std::ffi::{CStr, CString};
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
pub(super) struct Target<D: Destination> {
    dir: D::Dir,
    /// What it is a copy of.
    source: Facts,
    /// It was there before this run, so an earlier one may have left parts in it.
    was_there: bool,
}

/// Something that is no directory, and where its copy goes.
pub(super) struct Job<'a, D: Destination> {
    pub(super) to: &'a D,
    /// The directory of the copy.
    pub(super) dir: &'a D::Dir,
    pub(super) name: &'a CStr,
    /// Compare every byte with the source.
    pub(super) verify: bool,
    pub(super) done: &'a Done,
    pub(super) progress: &'a Progress,
}

/// Copies what a walk over the source visits.
pub(super) struct Copier<'a, D: Destination> {
    /// The root of the walk.
    pub(super) source: &'a Path,
    pub(super) to: &'a D,
    /// Copies that are under way into the source: it is unfinished itself.
    pub(super) unfinished: Vec<(CString, Key)>,
    pub(super) verify: bool,
    pub(super) progress: &'a Progress,
    pub(super) links: Links<D>,
    pub(super) done: Done,
}

impl<D: Destination> Copier<'_, D> {
    /// Makes the names that could not be made yet: their inode was still being copied.
    pub(super) fn link_the_rest(&self, report: &Report) {
        for (first, name) in self.links.rest() {
            match self.to.link_later(&first, &name) {
                Ok(true) => self.done.hard_links.add(1),
                Ok(false) => self.done.skipped.add(1),
                Err(failure) => report.fail(&name.path(), failure),
            }
        }
    }

    fn below_top(&self, path: PathBuf) -> PathBuf {
        path.strip_prefix(self.source).map(Path::to_owned).unwrap_or(path)
    }

    /// Something of several names: copied under the first that comes.
    fn copy_linked<S: Source>(
        &self,
        entry: &Entry<'_, S, Option<Target<D>>>,
        target: &Target<D>,
        source: &S::Object,
    ) -> Result<(), Failure> {
        let path = self.below_top(entry.parent().map(Node::path).unwrap_or_default());
        let name = self.to.name(&target.dir, &path, entry.name())?;
        match self.links.claim(source.is(), name) {
            Claim::Copy => {
                let made = self.copy_inode(entry.name(), target, source).and_then(|copy| self.to.made(&copy));
                self.links.settle(source.is(), made.as_ref().ok().cloned());
                made.map(drop)
            }
            Claim::Link(first, name) => {
                let made = self.to.link(&first, &target.dir, &name)?;
                (if made { &self.done.hard_links } else { &self.done.skipped }).add(1);
                Ok(())
            }
            Claim::Later => Ok(()),
        }
    }

    fn copy_inode(&self, name: &CStr, target: &Target<D>, source: &impl Object) -> Result<D::Object, Failure> {
        let Copier { to, verify, progress, .. } = *self;
        let job = Job { to, dir: &target.dir, name, verify, done: &self.done, progress };
        match source.is().kind {
            FileType::RegularFile => File(&job).copy(source),
            _ => special::copy(&job, source),
        }
    }
}

impl<S: Source, D: Destination> Visitor<S> for Copier<'_, D> {
    /// None: left out.
    type Dir = Option<Target<D>>;

    fn enter(
        &self,
        dir: &Entry<'_, S, Option<Target<D>>>,
        open: &S::Dir,
        _is: &Attributes,
    ) -> Result<Option<Target<D>>, Failure> {
        let parent = dir.parent();
        if parent.is_some_and(|parent| parent.is_root())
            && self.unfinished.iter().any(|(mark, _)| mark.as_c_str() == dir.name())
        {
            return Ok(None);
        }
        self.progress.entry();
        let (copy, was_there) = match parent.map(|parent| &parent.data) {
            None => (self.to.top().map_err(to_copy("open the copy of"))?, true),
            Some(None) => return Ok(None),
            Some(Some(parent)) => {
                let (copy, was_there) = self.to.directory(&parent.dir, dir.name())?;
                (if was_there { &self.done.skipped } else { &self.done.directories }).add(1);
                (copy, was_there)
            }
        };
        let source = *dir.tree().itself(open).map_err(to("stat"))?.is();
        Ok(Some(Target { dir: copy, source, was_there }))
    }

    fn wanted(&self, dir: &Option<Target<D>>) -> Wanted {
        if dir.is_some() { Wanted::Everything } else { Wanted::Nothing }
    }

    fn visit(&self, entry: &Entry<'_, S, Option<Target<D>>>) -> Result<(), Failure> {
        let (Some(parent), Some(dir)) = (entry.parent(), entry.at()) else {
            return Err(Failure::new("list", Errno::NOTDIR));
        };
        let Some(target) = &parent.data else { return Ok(()) };
        if self.unfinished.iter().any(|(_, key)| key.made(entry.name())) {
            return Ok(());
        }
        self.progress.entry();
        let source = entry.tree().find(dir, entry.name()).map_err(to("stat"))?;
        match source.is().kind {
            FileType::Directory => Err(Failure::new("copy (it has become a directory)", Errno::ISDIR)),
            _ if source.is().links > 1 => self.copy_linked(entry, target, &source),
            _ => self.copy_inode(entry.name(), target, &source).map(drop),
        }
    }

    fn leave(&self, tree: &S, dir: &Node<S, Option<Target<D>>>) -> Result<(), Failure> {
        let Some(target) = &dir.data else { return Ok(()) };
        self.to.filled(&target.dir, target.was_there && !dir.has_failed())?;
        let source = tree.itself(dir.dir()).map_err(to("stat"))?;
        let copy = self.to.itself(&target.dir).map_err(to_copy("stat the copy of"))?;
        attributes::copy(&source, &target.source, &copy, &self.done)?;
        self.to.complete(&target.dir)
    }
}
