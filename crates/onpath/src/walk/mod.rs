//! Trees walked in parallel, through open directories: nothing that others rename or replace meanwhile leads outside.
//!
//! Every thread walks a part of the tree in depth. Only while another thread has nothing to do are directories, and bundles of entries of
//! one directory, handed over; so what waits is bounded by the number of threads, whatever the tree is like. A thread holds a descriptor
//! or two (of a file system that is not mounted a directory) for each level of the tree above it. Other file systems mounted in the tree are left out.

mod local;
mod node;
mod pool;
mod report;
mod tree;

pub(crate) use local::{Local, at};
pub(crate) use node::{Entry, Node};
pub(crate) use report::{Report, Undone, explain};
pub(crate) use tree::{Attributes, Tree};

use clap::Args;
use onpath_wire::shown::Shown;
use pool::{Job, Pool};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Entries of one directory that are handed over together.
const BUNDLE: usize = 128;
/// Most threads of a walk.
pub(crate) const JOBS_MAX: u16 = 256;

/// How to walk.
#[derive(Args, Clone, Debug)]
pub(crate) struct WalkArgs {
    #[command(flatten)]
    pub(crate) many: ManyArgs,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How many things are done at once, and whether that is shown.
#[derive(Args, Clone, Debug)]
pub(crate) struct ManyArgs {
    /// Threads that work at once [default: two a core].
    #[arg(short = 'j', long, env = "ONPATH_JOBS", value_parser = clap::value_parser!(u16).range(1..=i64::from(JOBS_MAX)))]
    pub(crate) jobs: Option<u16>,
    /// Show no progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl ManyArgs {
    /// The number of threads.
    pub(crate) fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(|| (2 * cores()).min(usize::from(JOBS_MAX)), usize::from)
    }
}

/// What was tried of an entry, and why it failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    /// As in "cannot ACTION path".
    pub(crate) action: &'static str,
    /// Why not.
    pub(crate) errno: Errno,
    /// It is the copy of the entry that could not be had, not the entry.
    is_of_copy: bool,
}

impl Failure {
    pub(crate) fn new(action: &'static str, errno: Errno) -> Failure {
        Failure { action, errno, is_of_copy: false }
    }

    /// The same of what a walk makes elsewhere of the entry.
    pub(crate) fn of_copy(action: &'static str, errno: Errno) -> Failure {
        Failure { action, errno, is_of_copy: true }
    }

    /// Whether somebody has removed the entry meanwhile. A copy that has no place any more is another thing.
    fn is_vanished(&self) -> bool {
        self.errno == Errno::NOENT && !self.is_of_copy
    }
}

/// For `map_err`: the failure of an action on an entry.
pub(crate) fn to(action: &'static str) -> impl Fn(Errno) -> Failure {
    move |errno| Failure::new(action, errno)
}

/// For `map_err`: the failure of an action on the copy of an entry.
pub(crate) fn to_copy(action: &'static str) -> impl Fn(Errno) -> Failure {
    move |errno| Failure::of_copy(action, errno)
}

/// What of the entries of a directory is to be visited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wanted {
    #[default]
    Everything,
    /// The rest is known already.
    Directories,
    /// It has no directories either.
    Nothing,
}

/// What is done with the entries of a tree. Called by several threads at once, for one directory too.
pub(crate) trait Visitor<T: Tree>: Sync {
    /// What is kept with a directory until everything below it is done.
    type Dir: Send + Sync;

    /// A directory was opened; `is` are its attributes. Before anything in it.
    fn enter(&self, dir: &Entry<'_, T, Self::Dir>, open: &T::Dir, is: &Attributes) -> Result<Self::Dir, Failure>;

    /// What is still to be visited in a directory that was entered.
    fn wanted(&self, _dir: &Self::Dir) -> Wanted {
        Wanted::Everything
    }

    /// A directory that may not be opened. True if that was changed, and it should be tried again.
    fn locked(&self, _dir: &Entry<'_, T, Self::Dir>) -> Result<bool, Failure> {
        Ok(false)
    }

    /// Something else than a directory; also a directory, where nothing is to be done with what is in it.
    fn visit(&self, entry: &Entry<'_, T, Self::Dir>) -> Result<(), Failure>;

    /// Everything in the directory is done.
    fn leave(&self, tree: &T, dir: &Node<T, Self::Dir>) -> Result<(), Failure>;
}

/// What to walk.
#[derive(Clone, Copy)]
pub(crate) struct Trees<'a> {
    /// Where they begin.
    pub(crate) roots: &'a [PathBuf],
    /// Follow a root that is a symbolic link; nothing else is ever followed.
    pub(crate) follow: bool,
    /// Walk what is in directories; else only the roots are visited.
    pub(crate) descend: bool,
    /// Threads.
    pub(crate) jobs: usize,
}

/// Walks the trees and returns when everything is done. What fails goes to `report`; the walk goes on.
pub(crate) fn walk<T: Tree, V: Visitor<T>>(tree: &T, trees: &Trees<'_>, visitor: &V, report: &Report) {
    raise_descriptors();
    let jobs = trees.jobs;
    let pool = Pool::new(jobs);
    let walk = Walk { tree, trees, visitor, report, pool: &pool };
    trees.roots.iter().rev().for_each(|path| pool.add(Job::Root(path.clone()))); // the last one added is taken first
    std::thread::scope(|scope| {
        for _ in 1..jobs {
            scope.spawn(|| walk.work());
        }
        walk.work();
    });
}

/// Deep trees need a descriptor a level: as many as are allowed.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Where this is not permitted the limit of before counts.
    _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// A directory whose entries are being read.
struct Frame<T: Tree, D> {
    node: Arc<Node<T, D>>,
    wanted: Wanted,
    /// None where nothing is wanted.
    names: Option<T::Names>,
    bundle: Vec<(CString, FileType)>,
}

struct Walk<'a, T: Tree, V: Visitor<T>> {
    tree: &'a T,
    trees: &'a Trees<'a>,
    visitor: &'a V,
    report: &'a Report,
    pool: &'a Pool<T, V::Dir>,
}

impl<T: Tree, V: Visitor<T>> Walk<'_, T, V> {
    fn work(&self) {
        while let Some(job) = self.pool.next() {
            match job {
                Job::Root(path) => self.root(&path),
                Job::Directory(parent, name) => self.tree(Some(parent), &name),
                Job::Bundle(node, bundle) => {
                    bundle.iter().for_each(|(name, kind)| self.visit(Some(&node), name, *kind));
                    self.done(node);
                }
            }
        }
    }

    /// Everything at the path of a root. Looked for by a thread of its own: one that does not answer holds up no other.
    fn root(&self, path: &Path) {
        match self.tree.root(path, self.trees.follow).and_then(|path| local::c_path(&path)) {
            Ok(name) if self.trees.descend => self.tree(None, &name),
            Ok(name) => self.visit(None, &name, FileType::Unknown),
            Err(errno) => self.report.note(&format!("cannot find {}: {}", path.shown(), explain(errno))),
        }
    }

    /// Everything at that name.
    fn tree(&self, parent: Option<Arc<Node<T, V::Dir>>>, name: &CStr) {
        let mut frames = Vec::new();
        frames.extend(self.open(parent, name));
        while let Some(frame) = frames.last_mut() {
            match frame.names.as_mut().and_then(Iterator::next) {
                None => {
                    if let Some(frame) = frames.pop() {
                        frame.bundle.iter().for_each(|(name, kind)| self.visit(Some(&frame.node), name, *kind));
                        self.done(frame.node);
                    }
                }
                Some(Err(errno)) => {
                    self.report.fail(&self.tree.told(frame.node.path()), Failure::new("list", errno));
                    frame.node.fail();
                    if let Some(frame) = frames.pop() {
                        self.done(frame.node);
                    }
                }
                Some(Ok((name, kind))) => {
                    if !self.pool.is_cancelled() {
                        let below = self.entry(frame, &name, kind);
                        frames.extend(below);
                    }
                }
            }
        }
    }

    /// One entry of a directory; a directory that this thread shall walk next is returned.
    fn entry(&self, frame: &mut Frame<T, V::Dir>, name: &CStr, kind: FileType) -> Option<Frame<T, V::Dir>> {
        let kind = match kind {
            FileType::Unknown => self.tree.stat(Some(frame.node.dir()), name).map_or(FileType::Unknown, |is| is.kind),
            known => known,
        };
        let hungry = self.pool.is_hungry();
        if kind == FileType::Directory {
            if hungry {
                self.pool.add(Job::Directory(frame.node.share(), name.to_owned()));
                return None;
            }
            return self.open(Some(frame.node.share()), name);
        }
        if frame.wanted != Wanted::Everything {
            return None;
        }
        if hungry || !frame.bundle.is_empty() {
            frame.bundle.push((name.to_owned(), kind));
            if frame.bundle.len() == BUNDLE {
                let bundle = std::mem::take(&mut frame.bundle);
                self.pool.add(Job::Bundle(frame.node.share(), bundle));
            }
            return None;
        }
        self.visit(Some(&frame.node), name, kind);
        None
    }

    /// Opens a directory, whose part in its parent is taken over. A root may be something else.
    fn open(&self, parent: Option<Arc<Node<T, V::Dir>>>, name: &CStr) -> Option<Frame<T, V::Dir>> {
        let entry = Entry::new(self.tree, parent.as_deref(), name, FileType::Directory);
        match self.try_open(&entry, parent.clone()) {
            Ok(Some(frame)) => return Some(frame),
            Ok(None) => {}
            Err(failure) if failure.is_vanished() && parent.is_some() => self.report.vanished(),
            Err(failure) => self.fail(&entry, failure),
        }
        parent.into_iter().for_each(|parent| self.done(parent));
        None
    }

    fn try_open(
        &self,
        entry: &Entry<'_, T, V::Dir>,
        parent: Option<Arc<Node<T, V::Dir>>>,
    ) -> Result<Option<Frame<T, V::Dir>>, Failure> {
        let open = || self.tree.open(entry.at(), entry.name());
        let (dir, is) = match open() {
            Ok(opened) => opened,
            // No directory: a root that was given as something else, or what somebody put in its place.
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let kind = entry.stat()?.kind;
                self.visit(parent.as_deref(), entry.name(), kind);
                return Ok(None);
            }
            Err(Errno::ACCESS) if self.visitor.locked(entry)? => open().map_err(to("open"))?,
            Err(errno) => return Err(Failure::new("open", errno)),
        };
        if parent.as_deref().is_some_and(|parent| parent.device() != is.device) {
            self.report.other_filesystem(&self.tree.told(entry.path()));
            parent.iter().for_each(|parent| parent.fail());
            return Ok(None);
        }
        let data = self.visitor.enter(entry, &dir, &is)?;
        let wanted = self.visitor.wanted(&data);
        let names = if wanted == Wanted::Nothing { None } else { Some(self.tree.names(&dir).map_err(to("list"))?) };
        let node = Node::new(parent, entry.name().to_owned(), dir, is.device, data);
        Ok(Some(Frame { node: Arc::new(node), wanted, names, bundle: Vec::new() }))
    }

    fn visit(&self, parent: Option<&Node<T, V::Dir>>, name: &CStr, kind: FileType) {
        if self.pool.is_cancelled() {
            return;
        }
        let entry = Entry::new(self.tree, parent, name, kind);
        match self.visitor.visit(&entry) {
            Ok(()) => {}
            Err(failure) if failure.is_vanished() && parent.is_some() => self.report.vanished(),
            Err(failure) => self.fail(&entry, failure),
        }
    }

    /// Tells the failure, and keeps it with the directories above.
    fn fail(&self, entry: &Entry<'_, T, V::Dir>, failure: Failure) {
        self.report.fail(&self.tree.told(entry.path()), failure);
        entry.parent().into_iter().for_each(Node::fail);
        if self.report.is_over() {
            self.pool.cancel();
        }
    }

    /// A part of the directory is done; with its last one the directory is, and so a part of its parent.
    fn done(&self, node: Arc<Node<T, V::Dir>>) {
        let mut done = node;
        while done.part_is_done() {
            if !self.pool.is_cancelled() {
                match self.visitor.leave(self.tree, &done) {
                    Ok(()) => {}
                    Err(failure) if failure.is_vanished() && done.parent().is_some() => self.report.vanished(),
                    Err(failure) => {
                        self.report.fail(&self.tree.told(done.path()), failure);
                        done.fail();
                    }
                }
            }
            let Some(parent) = done.parent() else { return };
            if done.has_failed() {
                parent.fail();
            }
            done = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing is there for it: neither the entry nor, if that is said, its copy.
    struct Missing(fn(&'static str, Errno) -> Failure);

    impl Visitor<Local> for Missing {
        type Dir = ();

        fn enter(&self, _: &Entry<'_, Local, ()>, _: &std::os::fd::OwnedFd, _: &Attributes) -> Result<(), Failure> {
            Ok(())
        }

        fn visit(&self, _: &Entry<'_, Local, ()>) -> Result<(), Failure> {
            Err((self.0)("copy", Errno::NOENT))
        }

        fn leave(&self, _: &Local, dir: &Node<Local, ()>) -> Result<(), Failure> {
            if dir.is_root() { Ok(()) } else { Err((self.0)("leave", Errno::NOENT)) }
        }
    }

    #[test]
    fn an_entry_vanishes_and_a_copy_fails() {
        let tmp = tempfile::tempdir().unwrap();
        std::fs::create_dir(tmp.path().join("dir")).unwrap();
        std::fs::write(tmp.path().join("file"), "").unwrap();
        let roots = [tmp.path().to_owned()];
        let trees = Trees { roots: &roots, follow: false, descend: true, jobs: 1 };
        for (failure, counts) in [(Failure::new as fn(_, _) -> _, (2, 0)), (Failure::of_copy, (0, 2))] {
            let report = Report::silent();
            walk(&Local::default(), &trees, &Missing(failure), &report);
            assert_eq!((report.vanished_count(), report.failures()), counts);
        }
    }
}
