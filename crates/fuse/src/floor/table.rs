//! What the kernel's numbers stand for: node ids and file handles.
//!
//! An inode costs no descriptor: it is reached through its open handles, or by name in its directory, as it was looked up
//! last. With validities of 0 the kernel looks a name up before each use, so names are not old unless programs race; stat
//! and open check that it is the right inode they found, and answer ESTALE if not. Directories keep a descriptor while
//! there are few of them.

use std::collections::{HashMap, VecDeque};
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::abi::ROOT_ID;

/// Most directories that keep a descriptor.
const DIRECTORIES_MAX: usize = 1024;
/// Deepest directory that is found again by names.
const DEPTH_MAX: u32 = 2048;

/// No operation can leave a table half changed, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Device and inode number.
type Key = (u64, u64);

struct Node {
    key: Key,
    lookups: u64,
    parent: u64,
    name: Arc<CStr>,
    /// A descriptor without rights, of a directory.
    directory: Option<Arc<OwnedFd>>,
    open: Vec<Arc<OwnedFd>>,
}

#[derive(Default)]
struct Slot {
    node: Option<Node>,
    generation: u64,
}

#[derive(Default)]
struct NodeTable {
    slots: Vec<Slot>,
    free: Vec<usize>,
    by_key: HashMap<Key, usize>,
    /// Directories with a descriptor, the oldest first.
    directories: VecDeque<u64>,
}

/// The inodes the kernel knows: node id - 1 is the slot.
pub(super) struct Nodes(Mutex<NodeTable>);

/// A node id and the generation of its slot.
#[derive(Clone, Copy)]
pub(super) struct NodeId {
    pub(super) id: u64,
    pub(super) generation: u64,
}

/// How an inode is reached.
pub(super) enum Place {
    /// By a descriptor of it.
    Descriptor(Arc<OwnedFd>),
    /// By a name in a directory; whether it is still this inode shows its stat.
    Name(Arc<OwnedFd>, Arc<CStr>),
}

impl Place {
    /// Directory, name and flags for the system calls that take them.
    pub(super) fn at(&self) -> (&OwnedFd, &CStr, AtFlags) {
        match self {
            Place::Descriptor(descriptor) => (descriptor, c"", AtFlags::EMPTY_PATH),
            Place::Name(directory, name) => (directory, name, AtFlags::SYMLINK_NOFOLLOW),
        }
    }
}

fn key(stat: &Stat) -> Key {
    (stat.st_dev, stat.st_ino)
}

fn slot_of(nodeid: u64) -> Option<usize> {
    usize::try_from(nodeid.checked_sub(ROOT_ID)?).ok()
}

impl NodeTable {
    fn node(&mut self, nodeid: u64) -> Result<&mut Node, Errno> {
        let slot = slot_of(nodeid).and_then(|index| self.slots.get_mut(index));
        slot.and_then(|slot| slot.node.as_mut()).ok_or(Errno::STALE)
    }

    fn insert(&mut self, node: Node) -> usize {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.by_key.insert(node.key, index);
        self.slots[index].node = Some(node);
        index
    }
}

impl Nodes {
    pub(super) fn new(root: OwnedFd, stat: &Stat) -> Self {
        let mut table = NodeTable::default();
        let directory = Some(Arc::new(root));
        let name = Arc::from(c".");
        table.insert(Node { key: key(stat), lookups: 1, parent: ROOT_ID, name, directory, open: Vec::new() });
        Nodes(Mutex::new(table))
    }

    /// Counts a lookup of the inode with this stat, found under this name.
    pub(super) fn found(&self, stat: &Stat, parent: u64, name: &CStr) -> NodeId {
        self.count(stat, parent, name, None)
    }

    /// The same, and `file` is a new handle of it.
    pub(super) fn found_open(&self, stat: &Stat, parent: u64, name: &CStr, file: Arc<OwnedFd>) -> NodeId {
        self.count(stat, parent, name, Some(file))
    }

    fn count(&self, stat: &Stat, parent: u64, name: &CStr, file: Option<Arc<OwnedFd>>) -> NodeId {
        let mut table = lock(&self.0);
        let known = table.by_key.get(&key(stat)).copied();
        let index = known.unwrap_or_else(|| {
            let name = Arc::from(name);
            table.insert(Node { key: key(stat), lookups: 0, parent, name, directory: None, open: Vec::new() })
        });
        let slot = &mut table.slots[index];
        if let Some(node) = slot.node.as_mut() {
            node.lookups += 1;
            node.open.extend(file);
            node.rename(parent, name);
        }
        NodeId { id: index as u64 + ROOT_ID, generation: slot.generation }
    }

    /// The inode with this stat has moved.
    pub(super) fn moved(&self, stat: &Stat, parent: u64, name: &CStr) {
        let mut table = lock(&self.0);
        if let Some(index) = table.by_key.get(&key(stat)).copied()
            && let Some(node) = table.slots[index].node.as_mut()
        {
            node.rename(parent, name);
        }
    }

    /// Where an inode is.
    pub(super) fn place(&self, nodeid: u64) -> Result<Place, Errno> {
        let (parent, name) = {
            let mut table = lock(&self.0);
            let node = table.node(nodeid)?;
            if let Some(descriptor) = node.open.first().or(node.directory.as_ref()) {
                return Ok(Place::Descriptor(Arc::clone(descriptor)));
            }
            (node.parent, Arc::clone(&node.name))
        };
        Ok(Place::Name(self.directory(parent)?, name))
    }

    /// Where an inode is by name, whatever handles it has.
    pub(super) fn named_place(&self, nodeid: u64) -> Result<Place, Errno> {
        let (parent, name) = {
            let mut table = lock(&self.0);
            let node = table.node(nodeid)?;
            (node.parent, Arc::clone(&node.name))
        };
        Ok(Place::Name(self.directory(parent)?, name))
    }

    /// ESTALE unless `stat` is of this inode.
    pub(super) fn check(&self, nodeid: u64, stat: &Stat) -> Result<(), Errno> {
        if lock(&self.0).node(nodeid)?.key == key(stat) { Ok(()) } else { Err(Errno::STALE) }
    }

    /// A descriptor of a directory.
    pub(super) fn directory(&self, nodeid: u64) -> Result<Arc<OwnedFd>, Errno> {
        self.directory_at_depth(nodeid, 0)
    }

    fn directory_at_depth(&self, nodeid: u64, depth: u32) -> Result<Arc<OwnedFd>, Errno> {
        if depth > DEPTH_MAX {
            return Err(Errno::STALE);
        }
        let (parent, name) = {
            let mut table = lock(&self.0);
            let node = table.node(nodeid)?;
            if let Some(directory) = &node.directory {
                return Ok(Arc::clone(directory));
            }
            (node.parent, Arc::clone(&node.name))
        };
        let parent = self.directory_at_depth(parent, depth + 1)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = Arc::new(rustix::fs::openat(&parent, &*name, flags, Mode::empty())?);
        self.check(nodeid, &rustix::fs::fstat(&directory)?)?;
        self.keep_directory(nodeid, &directory)?;
        Ok(directory)
    }

    fn keep_directory(&self, nodeid: u64, directory: &Arc<OwnedFd>) -> Result<(), Errno> {
        let mut table = lock(&self.0);
        table.node(nodeid)?.directory = Some(Arc::clone(directory));
        table.directories.push_back(nodeid);
        if table.directories.len() > DIRECTORIES_MAX
            && let Some(oldest) = table.directories.pop_front()
            && let Ok(node) = table.node(oldest)
        {
            node.directory = None;
        }
        Ok(())
    }

    /// `file` is a new handle of the inode.
    pub(super) fn opened(&self, nodeid: u64, file: &Arc<OwnedFd>) -> Result<(), Errno> {
        lock(&self.0).node(nodeid)?.open.push(Arc::clone(file));
        Ok(())
    }

    /// `file` is a handle no more.
    pub(super) fn closed(&self, nodeid: u64, file: &Arc<OwnedFd>) {
        if let Ok(node) = lock(&self.0).node(nodeid) {
            node.open.retain(|other| !Arc::ptr_eq(other, file));
        }
    }

    pub(super) fn forget(&self, nodeid: u64, lookups: u64) {
        let Some(index) = slot_of(nodeid).filter(|index| *index > 0) else { return };
        let mut table = lock(&self.0);
        let Ok(node) = table.node(nodeid) else { return };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups > 0 {
            return;
        }
        let slot = &mut table.slots[index];
        slot.generation += 1;
        if let Some(node) = slot.node.take() {
            table.by_key.remove(&node.key);
            table.free.push(index);
        }
    }
}

impl Node {
    fn rename(&mut self, parent: u64, name: &CStr) {
        self.parent = parent;
        if *self.name != *name {
            self.name = Arc::from(name);
        }
    }
}

struct HandleTable<T> {
    slots: Vec<Option<Arc<T>>>,
    free: Vec<usize>,
}

/// Open files or directories, by handle.
pub(super) struct Handles<T>(Mutex<HandleTable<T>>);

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self(Mutex::new(HandleTable { slots: Vec::new(), free: Vec::new() }))
    }
}

impl<T> Handles<T> {
    pub(super) fn insert(&self, value: Arc<T>) -> u64 {
        let mut table = lock(&self.0);
        let index = table.free.pop().unwrap_or_else(|| {
            table.slots.push(None);
            table.slots.len() - 1
        });
        table.slots[index] = Some(value);
        index as u64
    }

    pub(super) fn get(&self, handle: u64) -> Option<Arc<T>> {
        lock(&self.0).slots.get(usize::try_from(handle).ok()?)?.clone()
    }

    pub(super) fn remove(&self, handle: u64) -> Option<Arc<T>> {
        let index = usize::try_from(handle).ok()?;
        let mut table = lock(&self.0);
        let removed = table.slots.get_mut(index).and_then(Option::take)?;
        table.free.push(index);
        Some(removed)
    }
}
