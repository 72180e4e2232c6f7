//! The reference model: a plain single-threaded POSIX namespace, the only definition of correctness.
//!
//! A request is *decided* against the present state, without changing it, and its change is then applied.
//! Every applied change can be taken back and put forward again ([`Delta`]), which is how the checker asks
//! "was there a moment at which this answer was right?" and how a power loss forgets the tail (ARCHITECTURE.md, "The simulator").
//! The model is checked itself, against the kernel's local file system, in `tests/model_matches_kernel.rs`.

mod access;
mod apply;
mod attributes;
mod compare;
mod decide;
mod reasons;
mod rename;
mod xattr;

pub use apply::Delta;
pub use compare::{Expected, Mismatch, Seen};
pub use decide::{Change, Decided, Plan, Shape};

use hashbrown::HashMap;
use onpath_wire::caller::{Caps, Over, cap};
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::secrets::CookieKey;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Who asks: the truth about the caller, whatever a request says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: SmallVec<[u32; 4]>,
    /// Capabilities, all of them known.
    pub caps: Caps,
}

impl Default for Caller {
    fn default() -> Caller {
        Caller::new(0, 0)
    }
}

impl Caller {
    /// A caller with no supplementary groups: root with all capabilities, others with none.
    pub fn new(uid: u32, gid: u32) -> Caller {
        let caps = Caps::exactly(if uid == 0 { cap::ALL } else { 0 });
        Caller { uid, gid, groups: SmallVec::new(), caps }
    }

    /// Whether the caller has one of these capabilities.
    pub fn has(&self, caps: u32, over: Over) -> bool {
        self.caps.any(caps, over).expect("the truth is known")
    }

    /// Whether the caller has one of these capabilities, for this inode.
    pub fn has_over(&self, caps: u32, node: &Node) -> bool {
        self.has(caps, Over::Inode(node.uid, node.gid))
    }

    /// Whether the caller may leave setgid on this inode, of this group.
    pub fn keeps_setgid(&self, node: &Node, gid: u32) -> bool {
        self.in_group(gid) || self.has_over(cap::FSETID, node)
    }

    /// Whether the caller is a member of `gid`.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// A time of an inode. What the system sets is not known to the model: it is held to be greater than
/// everything seen before, and to stay as it is first seen until the next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// The value if `exact`, else the bound that it exceeds.
    pub value: i64,
    /// Whether the value is known.
    pub exact: bool,
}

impl Time {
    /// A time that is known.
    pub fn exact(value: i64) -> Time {
        Time { value, exact: true }
    }

    /// A time that is only known to be later than `value`.
    pub fn after(value: i64) -> Time {
        Time { value, exact: false }
    }

    /// Whether `seen` may be this time.
    pub fn allows(self, seen: i64) -> bool {
        if self.exact { seen == self.value } else { seen > self.value }
    }
}

/// Everything about an inode that a client can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// File type.
    pub kind: Kind,
    /// Permission bits including setuid, setgid and sticky.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Links; a directory has 2 + subdirectories; 0 when removed.
    pub nlink: u32,
    /// Bytes of a file.
    pub size: u64,
    /// Device number.
    pub rdev: u32,
    /// Entries of a directory.
    pub entries: u64,
    /// Parent of a directory.
    pub parent: InodeId,
    /// Access time.
    pub atime: Time,
    /// Modification time.
    pub mtime: Time,
    /// Change time.
    pub ctime: Time,
    /// Target of a symlink.
    pub target: Option<Arc<Vec<u8>>>,
    /// Extended attributes, ACLs among them.
    xattrs: xattr::Xattrs,
    /// Born without a name, and may get one.
    pub linkable: bool,
    /// The highest change time that any answer told.
    told: i64,
    /// How often the change time or the access time moved on: two times of which nothing is known look the same.
    changes: u64,
}

impl Node {
    /// Whether this is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// The size that stat shows (`wire::inode::Inode::visible_size`).
    pub fn visible_size(&self) -> u64 {
        match (self.kind, &self.target) {
            (Kind::Directory, _) => 4096 + self.entries * 32,
            (_, Some(target)) => target.len() as u64,
            _ => self.size,
        }
    }

    /// Attributes changed: ctime moves on.
    fn touch(&mut self) {
        self.ctime = Time::after(self.ctime.value.max(self.told));
        self.changes += 1;
    }

    /// Contents changed: mtime and ctime move on, both beyond the last ctime seen.
    fn modify(&mut self) {
        self.touch();
        self.mtime = Time::after(self.ctime.value);
    }
}

/// Where a name is: directory, position in its listing, name.
pub type NameKey = (InodeId, u64, Name);

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leads {
    /// The inode.
    pub child: InodeId,
    /// Its type.
    pub kind: Kind,
}

/// Removed inodes that are kept so long that a late request can still be judged.
const REMOVED_MAX: usize = 8_192;

/// The namespace.
#[derive(Clone, Debug)]
pub struct Model {
    nodes: HashMap<InodeId, Node>,
    names: BTreeMap<NameKey, Leads>,
    removed: VecDeque<InodeId>,
    cookie_key: CookieKey,
}

impl Model {
    /// An empty file system: a root directory of uid 0 with mode 0755.
    pub fn new(cookie_key: CookieKey) -> Model {
        let root = Node { parent: InodeId::ROOT, ..Model::blank(Kind::Directory, 0o755) };
        Model {
            nodes: HashMap::from([(InodeId::ROOT, root)]),
            names: BTreeMap::new(),
            removed: VecDeque::new(),
            cookie_key,
        }
    }

    /// A node of `kind` of uid 0 with nothing in it and unknown times.
    pub fn blank(kind: Kind, mode: u16) -> Node {
        Node {
            kind,
            mode,
            uid: 0,
            gid: 0,
            nlink: if kind == Kind::Directory { 2 } else { 1 },
            size: 0,
            rdev: 0,
            entries: 0,
            parent: InodeId::NONE,
            atime: Time::after(i64::MIN),
            mtime: Time::after(i64::MIN),
            ctime: Time::after(i64::MIN),
            target: None,
            xattrs: None,
            linkable: false,
            told: i64::MIN,
            changes: 0,
        }
    }

    /// The node of an id, removed ones included while they are remembered.
    pub fn node(&self, id: InodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// What a name leads to.
    pub fn find(&self, parent: InodeId, name: &Name) -> Option<Leads> {
        self.names.get(&self.key(parent, name)).copied()
    }

    fn key(&self, parent: InodeId, name: &Name) -> NameKey {
        (parent, self.cookie_key.cookie(name.as_bytes()).hash47(), name.clone())
    }

    /// The names of a directory after a listing position (47-bit hash), in listing order.
    pub fn list(&self, dir: InodeId, after_hash: u64) -> impl Iterator<Item = (&NameKey, &Leads)> {
        let first = (dir, after_hash, SMALLEST_NAME.with(Name::clone));
        self.names.range(first..).take_while(move |((at, _, _), _)| *at == dir)
    }

    /// Number of names.
    pub fn names_live(&self) -> usize {
        self.names.len()
    }

    /// Number of inodes with a name, the root included.
    pub fn inodes_live(&self) -> usize {
        self.nodes.values().filter(|node| node.nlink > 0).count()
    }

    /// After a crash a participant may carry out a decided change again, at a later time, so that times of change grow
    /// although nobody changed anything. The owner of a directory may also apply what it has lost at another time than before:
    /// no reply that told the first one has got out.
    pub fn loosen_times(&mut self) {
        let loosen = |time: &mut Time| *time = Time::after(time.value - i64::from(time.exact));
        for node in self.nodes.values_mut() {
            loosen(&mut node.ctime);
            node.told = i64::MIN;
            if node.is_dir() {
                (node.mtime, node.ctime) = (Time::after(i64::MIN), Time::after(i64::MIN));
            }
        }
    }

    /// All live ids in order.
    pub fn ids(&self) -> Vec<InodeId> {
        let mut ids: Vec<_> = self.nodes.iter().filter(|(_, node)| node.nlink > 0).map(|(&id, _)| id).collect();
        ids.sort_unstable();
        ids
    }
}

thread_local! {
    static SMALLEST_NAME: Name = Name::new(&[1]).expect("a name of one byte");
}
