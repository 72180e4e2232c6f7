//! What a path node keeps: the directories that it holds, and what it is asking. All of it is volatile.

use crate::lease::Leases;
use crate::load::Loading;
use crate::tree::{IndexKind, Tree};
use hashbrown::{HashMap, HashSet};
use onpath_index::{Access, DirId, Directory, Grant, Index, IndexError, Slabs};
use onpath_kernel::{Core, Now, Protocol};
use onpath_wire::caller::Caller;
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, Stamp, Term};
use onpath_wire::map::ClusterMap;
use onpath_wire::name::Name;
use onpath_wire::peer::PathPart;

/// Directories given up at a time when there is no more room.
const GIVEN_UP: usize = 64;

/// What a path node is started with.
#[derive(Clone, Debug)]
pub struct PathConfig {
    /// Its address.
    pub node: NodeId,
    /// Low half of the fsid.
    pub cluster: u32,
    /// Slots and shards.
    pub map: ClusterMap,
    /// This start: larger than those before.
    pub term: Term,
    /// What keys its index: nobody else knows it.
    pub key: [u8; 16],
    /// Bytes of memory that its index may take.
    pub memory_bytes: usize,
    /// Which that is.
    pub index: IndexKind,
    /// It asks for all directories when it starts, as many as there is room for, and for those of a home again whose lease was over.
    pub loads: bool,
}

/// Who has asked, for what, and how to answer.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) header: Header,
    pub(crate) caller: Caller,
    /// [`Packet::bound`](onpath_wire::packet::Packet::bound).
    pub(crate) bound: bool,
    /// The directory in which the first name is.
    pub(crate) from: InodeId,
    pub(crate) names: Vec<Name>,
    /// The last name is looked up.
    pub(crate) look: bool,
    /// The answer tells the way.
    pub(crate) tell: bool,
}

impl Asked {
    /// Who, and which of its requests.
    pub(crate) fn key(&self) -> (NodeId, RequestSeq) {
        (self.header.source, self.header.seq)
    }
}

/// What starts an operation.
pub(crate) enum Job {
    /// Follows names from a directory on.
    Resolve(Box<Asked>),
    /// Asks a home for all its directories.
    Load(NodeId),
    /// Sees to it that there is a lease at a home, as long as anything is held or asked for.
    Lease(NodeId),
}

/// A path part is being asked for.
#[derive(Default)]
pub(crate) struct Asking {
    /// A recall came since: the answer on its way does not count.
    pub(crate) void: bool,
}

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// Paths that were followed in memory, of which reachability bits have spared it to check each directory.
    pub(crate) speculated: u64,
    /// Paths that were followed in memory, each directory of which was checked.
    pub(crate) checked: u64,
    /// Paths about which shards were asked.
    pub(crate) asked: u64,
    /// Requests that were passed on to the site of the last name.
    pub(crate) forwarded: u64,
    /// Names about which sites were asked.
    pub(crate) names_asked: u64,
    /// Path parts that homes have granted.
    pub(crate) parts_granted: u64,
    /// Those of them that came with all others of their homes.
    pub(crate) parts_loaded: u64,
    /// Grants that a recall had overtaken.
    pub(crate) parts_void: u64,
    /// Path parts that homes have taken back.
    pub(crate) recalls: u64,
    /// Directories given up since the leases of their homes were over.
    pub(crate) lapsed: u64,
    /// Directories given up for want of room.
    pub(crate) given_up: u64,
    /// Requests that were refused, since too many were under way.
    pub(crate) busy: u64,
    /// Messages that make no sense.
    pub(crate) malformed: u64,
}

impl Counters {
    /// A path was followed.
    pub(crate) fn count(&mut self, by: By) {
        match by {
            By::Bits => self.speculated += 1,
            By::Checks => self.checked += 1,
            By::Shards => self.asked += 1,
        }
    }

    /// Requests that were answered.
    pub(crate) fn resolved(&self) -> u64 {
        self.speculated + self.checked + self.asked
    }
}

/// What has said how far a path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// What is held, by its reachability bits.
    Bits,
    /// What is held, each directory of which was checked.
    Checks,
    /// Shards were asked before.
    Shards,
}

/// A path node's state.
pub(crate) struct State {
    pub(crate) config: PathConfig,
    pub(crate) index: Tree,
    pub(crate) asking: HashMap<InodeId, Asking>,
    pub(crate) leases: Leases,
    pub(crate) loading: Loading,
    /// How often each home has taken a path part back, or the lease there was over: what it granted before with a name and says late does not
    /// count, since nobody knew yet of which directory that would be. Where that is known, [`Asking::void`] is of it alone: a chmod of a
    /// whole tree would void all that is in flight otherwise.
    pub(crate) taken: HashMap<NodeId, u64>,
    /// Requests under way.
    pub(crate) running: HashSet<(NodeId, RequestSeq)>,
    pub(crate) counters: Counters,
    stamp: Stamp,
}

impl State {
    pub(crate) fn new(config: PathConfig, slabs: Box<dyn Slabs + Send>) -> State {
        let index = Tree::new(config.index, config.key, config.memory_bytes, slabs);
        State {
            config,
            index,
            asking: HashMap::new(),
            leases: Leases::default(),
            loading: Loading::default(),
            taken: HashMap::new(),
            running: HashSet::new(),
            counters: Counters::default(),
            stamp: Stamp(0),
        }
    }

    /// Follows a stamp of somebody else: who hears of a change here makes none that seems to be older.
    pub(crate) fn observe(&mut self, stamp: Stamp, now: Now) {
        if stamp.is_believed_at(now.wall_ns) {
            self.stamp = self.stamp.max(stamp);
        }
    }

    pub(crate) fn header(&self, kind: MessageKind, seq: RequestSeq) -> Header {
        let mut header = Header::new(kind, self.config.node, seq);
        (header.cluster, header.term, header.stamp) = (self.config.cluster, self.config.term, self.stamp);
        header
    }

    /// Holds a path part from now on; `home` is the term of who has granted it. What cannot be held is as if it had not been granted.
    pub(crate) fn hold(&mut self, dir: InodeId, part: &PathPart, home: Term) {
        while !self.hold_if_room(dir, part, home) && self.give_up() {}
    }

    /// The same without giving anything up for it; false if there is no room.
    pub(crate) fn hold_if_room(&mut self, dir: InodeId, part: &PathPart, home: Term) -> bool {
        let access = Access {
            mode: part.access.mode & 0o7777,
            uid: part.access.uid,
            gid: part.access.gid,
            acl: part.access.acls.as_ref().is_some_and(|acls| acls.access.is_some()),
        };
        let directory = Directory {
            id: DirId(dir.0),
            parent: part.parent.map_or(DirId::NONE, |parent| DirId(parent.0)),
            name: part.name.as_ref().map_or(&[], |name| name.as_bytes()),
            access,
            grant: Grant { term: home.0, count: part.number },
        };
        self.index.bind(&directory) != Err(IndexError::Full)
    }

    /// Gives directories up, to have room; false if there are none. Their homes need not know: who holds less than they believe does no harm.
    fn give_up(&mut self) -> bool {
        let given_up = self.index.give_up(GIVEN_UP);
        self.counters.given_up += given_up as u64;
        given_up > 0
    }
}

impl Protocol for State {
    type Job = Job;
    type In = ();
    type Out = ();
}

/// The key by which operations wait for the end of a question about a directory.
pub(crate) fn asked_about(dir: InodeId) -> u64 {
    dir.0
}

/// The key by which operations wait for a lease: above those of directories.
pub(crate) fn lease_at(home: NodeId) -> u64 {
    1 << 63 | u64::from(home.0)
}

/// The end of a question.
pub(crate) fn end_question(core: &mut Core<State>, dir: InodeId) {
    core.state.asking.remove(&dir);
    core.wake(asked_about(dir));
}
