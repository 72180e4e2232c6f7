//! Directories of a walk, and the entries in them.

use super::tree::{Attributes, Tree};
use super::{Failure, to};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A directory that is walked: open until everything below it is done.
pub(crate) struct Node<T: Tree, D> {
    parent: Option<Arc<Node<T, D>>>,
    name: CString,
    dir: T::Dir,
    device: u64,
    /// Its own listing, and what was handed over and is not done.
    parts: AtomicUsize,
    failed: AtomicBool,
    /// What the visitor keeps with it.
    pub(crate) data: D,
}

impl<T: Tree, D> Node<T, D> {
    pub(super) fn new(parent: Option<Arc<Node<T, D>>>, name: CString, dir: T::Dir, device: u64, data: D) -> Node<T, D> {
        let (parts, failed) = (AtomicUsize::new(1), AtomicBool::new(false));
        Node { parent, name, dir, device, parts, failed, data }
    }

    /// The open directory.
    pub(crate) fn dir(&self) -> &T::Dir {
        &self.dir
    }

    /// As an entry of its parent.
    pub(crate) fn entry<'a>(&'a self, tree: &'a T) -> Entry<'a, T, D> {
        Entry::new(tree, self.parent.as_deref(), &self.name, FileType::Directory)
    }

    /// The directory it is in; none for a root.
    pub(crate) fn parent(&self) -> Option<Arc<Node<T, D>>> {
        self.parent.clone()
    }

    /// Whether a walk began here.
    pub(crate) fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// Its path, beginning with the root's as it was given.
    pub(crate) fn path(&self) -> PathBuf {
        let mut names: Vec<&CStr> = vec![&self.name];
        let mut above = self.parent.as_deref();
        while let Some(node) = above {
            names.push(&node.name);
            above = node.parent.as_deref();
        }
        names.iter().rev().map(|name| OsStr::from_bytes(name.to_bytes())).collect()
    }

    /// Levels below its root.
    pub(crate) fn depth(&self) -> usize {
        std::iter::successors(self.parent.as_deref(), |node| node.parent.as_deref()).count()
    }

    /// Something below it failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    pub(super) fn device(&self) -> u64 {
        self.device
    }

    /// One more part of it is to be done.
    pub(super) fn share(self: &Arc<Self>) -> Arc<Self> {
        self.parts.fetch_add(1, Ordering::Relaxed);
        self.clone()
    }

    /// Whether that was the last.
    pub(super) fn part_is_done(&self) -> bool {
        self.parts.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// Something in a directory of a walk, or one of its roots.
pub(crate) struct Entry<'a, T: Tree, D> {
    tree: &'a T,
    parent: Option<&'a Node<T, D>>,
    name: &'a CStr,
    kind: FileType,
}

impl<'a, T: Tree, D> Entry<'a, T, D> {
    pub(super) fn new(tree: &'a T, parent: Option<&'a Node<T, D>>, name: &'a CStr, kind: FileType) -> Entry<'a, T, D> {
        Entry { tree, parent, name, kind }
    }

    /// The tree that it is in.
    pub(crate) fn tree(&self) -> &'a T {
        self.tree
    }

    /// The directory it is in; none for a root.
    pub(crate) fn parent(&self) -> Option<&'a Node<T, D>> {
        self.parent
    }

    /// Where its name is to be looked up; none for a root.
    pub(crate) fn at(&self) -> Option<&'a T::Dir> {
        self.parent.map(|node| &node.dir)
    }

    /// Its name; of a root its path.
    pub(crate) fn name(&self) -> &'a CStr {
        self.name
    }

    /// What it was when its directory was listed.
    pub(crate) fn kind(&self) -> FileType {
        self.kind
    }

    /// Its path, beginning with the root's as it was given.
    pub(crate) fn path(&self) -> PathBuf {
        let name = OsStr::from_bytes(self.name.to_bytes());
        self.parent.map_or_else(|| PathBuf::from(name), |node| node.path().join(name))
    }

    /// Its attributes; of a symbolic link its own.
    pub(crate) fn stat(&self) -> Result<Attributes, Failure> {
        self.tree.stat(self.at(), self.name).map_err(to("stat"))
    }

    /// Removes its name, which must be that of an empty directory or of something else.
    pub(crate) fn remove(&self, is_dir: bool) -> Result<(), Errno> {
        self.tree.remove(self.at(), self.name, is_dir)
    }
}
