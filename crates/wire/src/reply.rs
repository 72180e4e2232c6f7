//! What a metadata shard answers to a session.

use crate::attr::AttrWire;
use crate::cached::Hot;
use crate::codec::{Blob, Wire};
use crate::data::MergePart;
use crate::errno::Errno;
use crate::header::Position;
use crate::identity::Refusal;
use crate::ids::{AloneId, Cookie, Generation, InodeId, RecordSeq, RequestSeq, SessionId, ShardId, Stamp, Term};
use crate::inode::Kind;
use crate::name::Name;
use crate::request::{FileLock, Locker};
use crate::ticket::Ticket;
use crate::way::Way;
use crate::{wire_enum, wire_struct};
use smallvec::SmallVec;

wire_struct! {
    /// Where a file's bytes are: extension of open and getattr replies (design.md, "Packets").
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct DataRef {
        /// Generation of the bytes.
        pub generation: Generation,
        /// Cut under which requests must be made.
        pub cut: u32,
        /// Birth time, ns since 1970.
        pub btime: i64,
    }
}

wire_struct! {
    /// One entry of a listing.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DirEntry {
        /// The child.
        pub child: InodeId,
        /// Its type.
        pub kind: Kind,
        /// Its position.
        pub cookie: Cookie,
        /// Its name.
        pub name: Name,
    }
    where DirEntry::fits, else "type of an entry"
}

impl DirEntry {
    /// Whether the child can be of this type.
    fn fits(&self) -> bool {
        self.child.is_of(self.kind)
    }
}

wire_struct! {
    /// One fcntl lock waits for another: an edge of the graph in which a deadlock is a circle. Two edges that are equal have been
    /// one edge all the time in between.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WaitEdge {
        /// Who waits.
        pub waiter: Locker,
        /// By which request.
        pub seq: RequestSeq,
        /// Since when.
        pub stamp: Stamp,
        /// Who holds what is waited for.
        pub blocker: Locker,
        /// Which lock of theirs: a number that the shard never gives again.
        pub grant: u64,
    }
}

wire_enum! {
    /// An answer.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Reply {
        /// Failed.
        1 => Failed {
            /// Why.
            errno: Errno,
        },
        /// Done, nothing to say.
        2 => Done,
        /// A name's inode. Attributes of a directory may be older than its last entries (LOOKUP never collects).
        3 => Entry {
            /// Attributes.
            attr: AttrWire,
            /// Where the bytes are.
            data: DataRef,
            /// Whether this request made the inode.
            created: bool,
        },
        /// Attributes.
        4 => Attr {
            /// Attributes.
            attr: AttrWire,
            /// Where the bytes are.
            data: DataRef,
            /// Whether another session has the inode open.
            shared: bool,
        },
        /// A page of a listing, in cookie order.
        5 => Dir {
            /// Parent of the directory.
            parent: InodeId,
            /// Entries.
            entries: Vec<DirEntry>,
            /// Nothing follows.
            end: bool,
            /// The directory's access time is due (relatime): the reader says that it has read.
            due: bool,
            /// What is to be said of the directory in answers by the names in it: [`crate::attr::flag`].
            flags: u8,
        },
        /// Target of a symlink.
        6 => Target {
            /// Bytes.
            target: Blob,
            /// The access time is due, as in `Dir`.
            due: bool,
        },
        /// Totals.
        7 => StatFs {
            /// Inodes at this shard.
            inodes: u64,
            /// 4 KiB blocks charged to files at this shard.
            blocks: u64,
        },
        /// Attributes of many inodes, in the order asked; none of one that is gone, that changes just now, or that is slow to read.
        8 => Attrs {
            /// Attributes.
            attrs: Vec<Option<AttrWire>>,
        },
        /// The lock waits; `Granted` follows under the same sequence number.
        9 => Queued,
        /// A waiting lock was granted.
        10 => Granted,
        /// F_GETLK: the conflicting lock, if any.
        11 => LockIs {
            /// The conflict.
            conflict: Option<FileLock>,
        },
        /// The end of the file is reserved for this session's next write.
        12 => Reserved {
            /// Offset to write at.
            offset: u64,
            /// Where the bytes are.
            data: DataRef,
        },
        /// The session is part of the file system.
        13 => Attached {
            /// Its id.
            session: SessionId,
            /// Lease, ms.
            lease_ms: u64,
        },
        /// What is not known of the caller decides; ask again with it (design.md, "Sessions").
        14 => NeedCaller {
            /// Whether it is a member of these: at most [`NEED_GROUPS_MAX`](crate::limits::NEED_GROUPS_MAX).
            gids: SmallVec<[u32; 4]>,
            /// Or whether it has one of these: bits of [`crate::caller::cap`]. With one of them membership does not matter.
            caps: u32,
        },
        /// The request named another term; send it again under this one.
        15 => NewTerm {
            /// The shard's present term.
            term: Term,
        },
        /// The write has reached the home: bytes and size are there.
        16 => Written {
            /// Size of the file now.
            size: u64,
        },
        /// The generation or cut of a write is older than the home's; write again under these.
        17 => Stale {
            /// Where the bytes are now.
            data: DataRef,
        },
        /// Not now, and nothing has happened: ask again a little later, under a new sequence number.
        18 => Busy,
        /// Value of an extended attribute, or names of several.
        24 => Value {
            /// Bytes.
            value: Blob,
        },
        /// Who waits for whom.
        32 => LockWaits {
            /// At most [`crate::limits::WAIT_EDGES_MAX`].
            edges: Vec<WaitEdge>,
        },
        /// The session's lease is extended.
        40 => Renewed {
            /// The session is alone for [`crate::limits::ALONE_MS`] from when it asked; 0 if it is not.
            alone: AloneId,
        },
        /// Another session wants to join: `HandBack` what this names, and all before. Sent unasked, under sequence number 0.
        41 => GiveBack {
            /// The last time of being alone that is meant.
            alone: AloneId,
        },
        /// ENOENT of a lookup, in a directory that everybody may search: see [`crate::attr::flag::SEARCHABLE`].
        42 => Missing,
        /// No other session is left: `RenewAlone` may succeed now. Sent unasked, under sequence number 0, and not again.
        43 => MayBeAlone,
        /// Records of the shard's former terms.
        44 => Kept {
            /// What rests on records of terms before this one may be gone all the same: power was lost since.
            since: Term,
            /// Up to this one they are there. Those after it may be gone.
            upto: RecordSeq,
        },
        /// Another session is about to change bytes of this file: the pages of it that this one has changed in memory are to be written
        /// back, then `WrittenBack`. Sent unasked, under sequence number 0.
        45 => WriteBack {
            /// The file.
            id: InodeId,
        },
        /// As `Written`, but another session may have changed pages of the file in memory before this, and lay them over these bytes: `WriteBack`
        /// tells whether it does.
        46 => WrittenBesidePages {
            /// Size of the file now.
            size: u64,
            /// How often pages of any file of this home have been written back in this term, which is its upper half.
            count: u64,
        },
        /// As `Written`, and from now on the data node may answer writes of the file by itself, if it is shown this (V-1).
        54 => WrittenLent {
            /// Size of the file now.
            size: u64,
            /// What the session shows it.
            part: MergePart,
        },
        /// As `Entry` of an inode that this request has made, and the data node may answer writes of it by itself, if it is shown this (V-13).
        55 => CreatedLent {
            /// Attributes.
            attr: AttrWire,
            /// Where the bytes are.
            data: DataRef,
            /// What the session shows it.
            part: MergePart,
        },
        /// No other session has changed pages of the file in memory.
        47 => PagesBack {
            /// Some may have been written back over what this session has changed already: it is changed once more.
            again: bool,
        },
        /// The session may not ask that, whoever its caller is: its host knows who it is. Nothing has happened.
        48 => Refused {
            /// What speaks against it.
            why: Refusal,
        },
        /// One of the other replies, and what the session shows to the data node of the file.
        49 => Shown {
            /// That.
            ticket: Ticket,
            /// The reply, as bytes, so that none is inside of another.
            reply: Blob,
        },
        /// Of a path node: how far the names led. The next one is none of a directory, or not known there, or the caller may not search this
        /// directory: who asks looks there.
        50 => Resolved {
            /// The last directory.
            dir: InodeId,
            /// Names that were followed.
            names: u32,
            /// The way there, if that was asked for.
            way: Option<Way>,
        },
        /// One of the other replies to a `LookupLed`, and the way there.
        51 => Led {
            /// The way of the names before the last one.
            way: Way,
            /// The reply, as bytes, so that none is inside of another.
            reply: Blob,
        },
        /// Nothing has happened: the request was made by a way that the session keeps, and since then directories on it may have been renamed,
        /// removed, or closed to others (P-5). The session resolves the path again.
        52 => Behind {
            /// What the session has heard when it has heard this.
            now: Position,
            /// Directories to be forgotten: all that are kept, if this is none.
            dirs: Option<Vec<InodeId>>,
        },
        /// One of the other replies to a `Lookup`, of a name that a switch answers for.
        58 => Hot {
            /// How it is asked.
            hot: Hot,
            /// The reply, as bytes, so that none is inside of another.
            reply: Blob,
        },
        /// As `Done`, and a loss of power of others takes it, too, until it is on their stable storage: it rests on these records.
        53 => DoneOn {
            /// One of each.
            records: Vec<OtherRecord>,
        },
    }
}

wire_struct! {
    /// A record of another shard than the one that says it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OtherRecord {
        /// Which shard's.
        pub shard: ShardId,
        /// Its number.
        pub record: RecordSeq,
    }
}

impl Reply {
    /// What it says of the request alone: not on which records of others it rests, nor what is lent, nor which switch answers it, too.
    pub fn plain(self) -> Reply {
        match self {
            Reply::DoneOn { .. } => Reply::Done,
            Reply::CreatedLent { attr, data, .. } => Reply::Entry { attr, data, created: true },
            Reply::Hot { ref reply, .. } => Reply::inside(reply).unwrap_or(self),
            reply => reply,
        }
    }

    /// The reply in a [`Reply::Shown`], a [`Reply::Led`] or a [`Reply::Hot`].
    pub fn inside(reply: &Blob) -> Option<Reply> {
        let is_whole = |reply: &Reply| !matches!(reply, Reply::Shown { .. } | Reply::Led { .. } | Reply::Hot { .. });
        Reply::from_bytes(&reply.0).ok().filter(is_whole)
    }
}
