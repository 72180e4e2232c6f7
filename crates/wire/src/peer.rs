//! What metadata shards say to each other: grants and collects (design.md, "The life of an update"), transactions, sessions.

mod paths;
mod txn;

pub use paths::{DirPath, PathPart, PathsFrom};
pub use txn::{InodeChange, PartState, TxnPart};

use crate::acl::Acls;
use crate::attr::AttrWire;
use crate::cached::{CacheLease, NameIn, NotLent};
use crate::caller::Caller;
use crate::data::MergePart;
use crate::errno::Errno;
use crate::ids::{InodeId, JobId, LogSeq, NodeId, RecordSeq, SessionNumber, Stamp, Term, TxnId, TxnSeq};
use crate::innet::Fingerprint;
use crate::inode::Kind;
use crate::name::Name;
use crate::reply::DataRef;
use crate::tracking::{Tracking, TrackingSide};
use crate::{wire_enum, wire_struct};
use std::sync::Arc;

/// The parts of a grant, as bits.
pub mod part {
    /// mode, uid, gid, ACLs: needed by every check at the site, lookups included.
    pub const ACCESS: u8 = 1;
    /// The right to append to the change-log: needed by updates.
    pub const APPEND: u8 = 2;
    /// What a shard may hold: both of these.
    pub const BOTH: u8 = ACCESS | APPEND;
    /// What a path node may hold: name, parent, and what the access part says (P-1).
    pub const PATH: u8 = 4;
    /// All of them.
    pub const ALL: u8 = BOTH | PATH;
}

wire_struct! {
    /// What a check needs to know of a directory.
    #[derive(Clone, Debug, PartialEq, Eq, Default)]
    pub struct Access {
        /// Permission bits including setgid and sticky.
        pub mode: u16,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// ACLs, if it has any.
        pub acls: Option<Arc<Acls>>,
    }
}

wire_struct! {
    /// An update of a directory by one name, as its change-log holds it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LogEntry {
        /// Position.
        pub seq: LogSeq,
        /// When.
        pub stamp: Stamp,
        /// The name is there afterwards; else it is gone.
        pub put: bool,
        /// The name.
        pub name: Name,
        /// What it leads to (or led to).
        pub child: InodeId,
        /// Type of the child.
        pub kind: Kind,
        /// Change of the entry count.
        pub dcount: i8,
        /// Change of the directory's nlink.
        pub dnlink: i8,
    }
    where LogEntry::fits, else "type of an entry"
}

impl LogEntry {
    /// Whether the child can be of this type.
    fn fits(&self) -> bool {
        self.child.is_of(self.kind)
    }
}

wire_struct! {
    /// Entries of one change-log in order. The owner refuses it unless it has applied `before`.
    #[derive(Clone, Debug, PartialEq, Eq, Default)]
    pub struct Batch {
        /// Position before the first entry; 0 if nothing of this directory was ever appended here.
        pub before: LogSeq,
        /// The entries.
        pub entries: Vec<LogEntry>,
    }
}

wire_struct! {
    /// Entries of one directory among those of its group.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DirBatch {
        /// Directory.
        pub dir: InodeId,
        /// Its first unapplied entries.
        pub batch: Batch,
    }
}

wire_enum! {
    /// The outcome of a request for grants.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum GrantResult {
        /// These parts are granted.
        1 => Granted {
            /// Bits of [`part`].
            parts: u8,
            /// The access part.
            access: Access,
            /// Of the append part: an update is exposed when the owner has applied it (the *sync* state).
            write_through: bool,
        },
        /// The directory is removed, or this never was a directory here.
        2 => Gone,
        /// The path part is granted.
        3 => Path {
            /// It.
            part: PathPart,
        },
    }
}

wire_enum! {
    /// A message between shards, and between them and path nodes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Peer {
        /// Site or path node → owner: please grant.
        1 => GrantAsk {
            /// Directory.
            dir: InodeId,
            /// Bits of [`part`].
            parts: u8,
            /// Names this request: an answer counts only if it is the present one.
            nonce: u64,
        },
        /// Owner → site.
        2 => GrantAnswer {
            /// Directory.
            dir: InodeId,
            /// Of the request.
            nonce: u64,
            /// The outcome.
            result: GrantResult,
        },
        /// Owner → holder: give back these parts and hand over the change-log. A call; answered `Recalled`.
        3 => Recall {
            /// Directory.
            dir: InodeId,
            /// Bits of [`part`].
            parts: u8,
            /// Names the collect or recall.
            job: JobId,
        },
        /// Holder → owner: the parts are gone here, these entries are not applied yet.
        4 => Recalled {
            /// Directory.
            dir: InodeId,
            /// Of the recall.
            job: JobId,
            /// All unapplied entries, or the first of them if there are too many for one message.
            batch: Batch,
            /// More entries follow: recall again.
            more: bool,
        },
        /// Site → owner: a change-log grew or went idle, or the site has restarted.
        5 => Push {
            /// Directory.
            dir: InodeId,
            /// Its first entries.
            batch: Batch,
        },
        /// Owner → site: applied up to here; the site trims.
        6 => Applied {
            /// Directory.
            dir: InodeId,
            /// Applied up to and including this position.
            upto: LogSeq,
        },
        /// Site → owner: every entry of mine up to here is applied and trimmed: forget watermarks up to it. A call.
        7 => Floor {
            /// Position.
            upto: LogSeq,
        },
        /// Done; nothing to say.
        8 => Done,
        /// Name's site → inode's home: its attributes. A call; answered `HomeAttr`.
        9 => HomeRead {
            /// Inode.
            id: InodeId,
        },
        /// Attributes, or none if the inode is gone.
        10 => HomeAttr {
            /// Attributes.
            attr: Option<AttrWire>,
            /// Where the bytes are.
            data: DataRef,
        },
        /// Coordinator → participant. A call; answered `Prepared`, `Busy` or `No`.
        11 => Prepare {
            /// The attempt.
            txn: TxnId,
            /// Attempts below this are over at the coordinator: a participant ignores their copies.
            oldest_unfinished: TxnSeq,
            /// Stamp of the operation.
            stamp: Stamp,
            /// Who asks.
            caller: Caller,
            /// What is asked.
            parts: Vec<TxnPart>,
            /// If the participant is in this term, it may answer before its promise is durable; in another one it is busy. 0: it
            /// may not.
            early: Term,
        },
        /// Prepared; locked until told.
        12 => Prepared {
            /// One state for each part.
            states: Vec<PartState>,
            /// The record of the promise.
            record: RecordSeq,
        },
        /// Coordinator → participant: has it the promise, on stable storage? A call; answered `Promised` or `Lost`.
        48 => Confirm {
            /// The attempt.
            txn: TxnId,
        },
        /// It has, and keeps it until it is told.
        49 => Promised,
        /// A loss of power has taken the promise.
        50 => Lost,
        /// A lock or part is missing; nothing was kept.
        13 => Busy,
        /// A check failed; nothing was kept.
        14 => No {
            /// The result of the operation.
            errno: Errno,
        },
        /// What is not known of the caller decides; nothing was kept.
        15 => NeedCaller {
            /// Whether it is a member of these: at most [`NEED_GROUPS_MAX`](crate::limits::NEED_GROUPS_MAX).
            gids: Vec<u32>,
            /// Or whether it has one of these: bits of [`crate::caller::cap`].
            caps: u32,
        },
        /// Coordinator → participant: it is decided. A call; answered `Done`.
        16 => Commit {
            /// The attempt.
            txn: TxnId,
        },
        /// Coordinator → participant: forget it.
        17 => Abort {
            /// The attempt.
            txn: TxnId,
        },
        /// Participant → coordinator: what became of it? Answered by `Decided`, `Abort` or, if undecided, not at all.
        18 => Ask {
            /// The attempt.
            txn: TxnId,
        },
        /// Coordinator → participant that has asked: it is decided. Unlike `Commit` nobody waits for an answer to it.
        37 => Decided {
            /// The attempt.
            txn: TxnId,
        },
        /// Coordinator module → every shard: this session is dead. A call; answered `Done`.
        19 => SessionDead {
            /// The session.
            session: SessionNumber,
        },
        /// Shard → coordinator module: does this session live? A call; answered `SessionIs`.
        46 => SessionAsk {
            /// The session.
            session: SessionNumber,
        },
        /// Coordinator module → shard that has asked. Of one that lives and dies later the shard hears by `SessionDead`.
        47 => SessionIs {
            /// It has joined, and was not declared dead.
            lives: bool,
        },
        /// Coordinator of a directory rename → coordinator module: let no other directory move. A call; answered `RenameTurn` when it is
        /// its turn.
        20 => RenameLock {
            /// The attempt.
            txn: TxnId,
            /// For whom: users take turns.
            uid: u32,
            /// The number of an earlier turn, since which the answer says what has moved; 0: of none.
            since: u64,
        },
        /// The directory rename is over. A call; answered `Done`.
        21 => RenameUnlock {
            /// The attempt.
            txn: TxnId,
            /// Directories that have another parent now.
            moved: Vec<InodeId>,
        },
        /// It is the asker's turn.
        38 => RenameTurn {
            /// The number of the last turn in which a directory has moved.
            number: u64,
            /// Those that have moved since the turn that was asked about; none if that is not known.
            moved: Option<Vec<InodeId>>,
        },
        /// Who is the parent of this directory? A call; answered `ParentIs`.
        22 => ParentOf {
            /// A directory.
            dir: InodeId,
        },
        /// Its parent; none if it is gone.
        23 => ParentIs {
            /// The parent.
            parent: Option<InodeId>,
        },
        /// Coordinator module → the shard that holds the rename lock: is this attempt still going on? A call; answered `Done` when it is over.
        24 => RenameOver {
            /// The attempt.
            txn: TxnId,
        },
        /// Restarted shard → coordinator module: which sessions live? A call; answered `SessionsAre`.
        25 => SessionsAsk,
        /// The sessions that are registered and not known to be dead.
        26 => SessionsAre {
            /// In order.
            sessions: Vec<SessionNumber>,
        },
        /// Owner → holder, behind a remove: hand over the change-logs of this group of directories, and hold it. A call;
        /// answered `Collected`.
        27 => Collect {
            /// Fingerprint of the group.
            group: Fingerprint,
            /// Names the collect.
            job: JobId,
        },
        /// Holder → owner: what is not applied yet; the group is held until the owner's `Release`.
        28 => Collected {
            /// Fingerprint of the group.
            group: Fingerprint,
            /// Of the collect.
            job: JobId,
            /// Counter of the remove that came with the collect: only the answer to the last one counts.
            round: u32,
            /// All unapplied entries, or the first of them if there are too many for one message.
            batches: Vec<DirBatch>,
            /// More entries follow: collect again.
            more: bool,
        },
        /// Owner → holder: the collect is over, or was never known; updates may be exposed again.
        29 => Release {
            /// Fingerprint of the group.
            group: Fingerprint,
            /// Of the collect, or of the newest one that the holder may have heard of.
            job: JobId,
        },
        /// Holder → owner: is this collect still going on? Answered by `Release` if not.
        30 => HoldAsk {
            /// Fingerprint of the group.
            group: Fingerprint,
            /// Of the collect.
            job: JobId,
        },
        /// Site → switch → the same site: a mark without a reply on its back.
        31 => Mark,
        /// Site → owner, where the switch has no room or does not answer: the group is scattered until the next collect. A call;
        /// answered `Done`, which is as good as the switch's acknowledgement.
        34 => MarkAtOwner {
            /// Fingerprint of the group.
            group: Fingerprint,
        },
        /// Coordinator → every shard: a new tracking epoch, in one of its roles. A call; answered `Tracked`, by a site when
        /// everything that it holds is acknowledged in that epoch.
        32 => Track {
            /// As owner or as site.
            side: TrackingSide,
            /// The epoch.
            tracking: Tracking,
        },
        /// Done.
        33 => Tracked {
            /// Term of the shard.
            term: Term,
        },
        /// To a data node that has told of a write: this home has forgotten, in a power loss, that it ever made the
        /// generation.
        35 => Void,
        /// To a data node that asks: the last merge part that this home has given.
        51 => PartIs {
            /// That; number 0 if it has given none in this term.
            part: MergePart,
        },
        /// To a data node that asks the coordinator: so files are tracked, and every home knows that.
        52 => TrackingIs {
            /// So.
            tracking: Tracking,
        },
        /// Path node → name's site: which directory has this name? A call; answered `DirectoryIs` when that is not in doubt (P-2).
        39 => DirectoryAsk {
            /// The directory of the name.
            parent: InodeId,
            /// The name.
            name: Name,
        },
        /// The directory; none if nothing has the name, or no directory.
        40 => DirectoryIs {
            /// Its id.
            id: Option<InodeId>,
            /// Its path part, granted, if the site is its home too and can grant it at once.
            part: Option<PathPart>,
        },
        /// Path node → shard: I would like to lead by what you grant me (P-1). A call; answered `PathLease`.
        41 => PathLeaseAsk,
        /// Shard → path node: yes.
        42 => PathLease {
            /// For so long from when it asked, milliseconds, or [`PATH_LEASE_ENDLESS`](crate::limits::PATH_LEASE_ENDLESS).
            ms: u32,
        },
        /// Home of a directory → every shard: clients may keep ways through it that are about to be right no more. Who comes by one of them from
        /// now on is behind (P-5). A call; answered `Done` at once.
        43 => ForgetWays {
            /// The directory.
            dir: InodeId,
        },
        /// Path node → shard: grant me path parts of your directories, as many as you like (P-6). A call; answered `Paths`.
        44 => PathsAsk {
            /// Where that begins; none at first.
            from: Option<PathsFrom>,
        },
        /// Shard → path node: these are granted. Others before `next` cannot be granted now.
        45 => Paths {
            /// At most [`PATHS_GRANTED_MAX`](crate::limits::PATHS_GRANTED_MAX).
            parts: Vec<DirPath>,
            /// Where to go on; none at the end.
            next: Option<PathsFrom>,
        },
        /// Controller → coordinator module: a lease for the cache (C-4). A call; answered `CacheLease`.
        53 => CacheLeaseAsk {
            /// The epoch to be prolonged; 0: a new one.
            epoch: u16,
            /// Numbers of entries are wanted, too.
            numbers: bool,
            /// The state of the registry of sessions that it knows.
            registry: u64,
        },
        /// The lease.
        54 => CacheLease {
            /// It.
            lease: CacheLease,
        },
        /// Controller → name's site: fill the entry of this name (C-5). A call; answered by the fill, through the switch, or `NotLent`.
        55 => Lend {
            /// The directory of the name; 0: the root's own entry.
            parent: InodeId,
            /// The name; none of the root's own entry.
            name: Option<Name>,
            /// Its token, not 0.
            token: u8,
            /// Number of the entry, not 0.
            number: u32,
            /// The epoch.
            epoch: u16,
            /// Number of the switch.
            switch: u16,
        },
        /// Home → coordinator module: this epoch of the cache, or any, 0, is to be over (C-4). A call; answered `Done` when it is.
        57 => CacheEnd {
            /// Which.
            epoch: u16,
        },
        /// Started home → coordinator module: who gives names entries now (C-7)? A call; answered `CacheHolder`.
        62 => CacheHolderAsk,
        /// The controller that has the lease, and its epoch; 0: none in this term.
        63 => CacheHolder {
            /// The epoch.
            epoch: u16,
            /// The controller.
            controller: NodeId,
        },
        /// Started home → controller: entries of its names are to go (C-7). A call; answered `Done` when the switch has none.
        64 => CacheDrop {
            /// The epoch.
            epoch: u16,
        },
        /// Controller → session: the switch answers it (C-2). A call; answered `CacheNames`.
        59 => CacheOn {
            /// Its number.
            switch: u16,
            /// The epoch.
            epoch: u16,
            /// Names are wanted that have these keys, at most [`WANTED_NAMES_MAX`](crate::limits::WANTED_NAMES_MAX).
            wanted: Vec<u64>,
        },
        /// Those of which the session knows.
        60 => CacheNames {
            /// Directory and name.
            names: Vec<NameIn>,
        },
        /// Controller → name's site: the switch has no such entry any more (C-5).
        61 => Evicted {
            /// The directory of the name; 0: the root's own entry.
            parent: InodeId,
            /// The name; none of the root's own entry.
            name: Option<Name>,
            /// Number of the entry.
            number: u32,
            /// The epoch.
            epoch: u16,
        },
        /// It is not filled.
        56 => NotLent {
            /// Why.
            why: NotLent,
        },
        /// Restarted coordinator module → everybody: turns at renaming directories that were given in earlier terms count no more.
        /// A call; answered `Done` when the last one that counted is over.
        36 => RenameTurns {
            /// Its term.
            term: Term,
        },
    }
}

impl Peer {
    /// The attempt of which only its coordinator speaks so.
    pub fn of_its_coordinator(&self) -> Option<TxnId> {
        match self {
            Peer::Prepare { txn, .. }
            | Peer::Commit { txn }
            | Peer::Confirm { txn }
            | Peer::Decided { txn }
            | Peer::Abort { txn }
            | Peer::RenameLock { txn, .. }
            | Peer::RenameUnlock { txn, .. } => Some(*txn),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
