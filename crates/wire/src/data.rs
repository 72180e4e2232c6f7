//! Messages of data nodes (design.md, "Data"). File bytes travel as the packet's bulk.

mod pending;

pub use pending::Pending;

use crate::codec::{Blob, Wire, WireError};
use crate::errno::Errno;
use crate::identity::Refusal;
use crate::ids::{DataId, InodeId, LogSeq, RecordSeq, RequestSeq, SessionId, Stamp, Term, TrackingEpoch};
use crate::limits::{BLOCK_BYTES, FILE_BYTES_MAX, HANDED_OVER_MAX, UNDONE_MAX};
use crate::ticket::Ticket;
use crate::tracking::Tracking;
use crate::{wire_enum, wire_struct};

wire_enum! {
    /// What becomes of a range of a file without new bytes (fallocate(2)).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Allocation {
        /// Holes get space that later writes use; what is there stays.
        1 => Reserve,
        /// Whole blocks are free, parts of blocks are zeros.
        2 => Punch,
        /// All of it reads as zeros and has space.
        3 => Zero,
    }
}

wire_struct! {
    /// A merge part (design.md, "Writes that data nodes answer"; V-1): while a data node has one of a file, it answers writes of it by itself.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
    pub struct MergePart {
        /// Term of the home that has given it.
        pub term: Term,
        /// Counted by the home, for all its files, within the term.
        pub number: u64,
        /// After this is every write that is answered by it: the home, or its answer to a change of the writer's, has shown no later time
        /// (V-7). It does not name the part.
        pub stamp: Stamp,
        /// Who writes by it brings the home what the data node has recorded, before the write returns. All parts of a term are alike in this.
        pub two_phase: bool,
    }
}

impl MergePart {
    /// Whether it was given before another one, or is that.
    pub fn is_upto(&self, floor: MergePart) -> bool {
        (self.term, self.number) <= (floor.term, floor.number)
    }
}

wire_struct! {
    /// Writes of one file that a data node has answered, taken together: what their home is to learn.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Answered {
        /// Whose bytes.
        pub data: DataId,
        /// Cut under which all of them were written.
        pub cut: u32,
        /// The largest end of one of them, bytes.
        pub end: u64,
        /// 4 KiB blocks the generation has at this node.
        pub blocks: u64,
        /// Version of `blocks`.
        pub version: u64,
        /// Clear setuid and setgid.
        pub kill_suidgid: bool,
        /// Position of the last one.
        pub last: LogSeq,
        /// Their highest stamp.
        pub stamp: Stamp,
    }
}

wire_enum! {
    /// What a data node is asked. `Write`, `Allocate`, `Copy` and `Read` come from sessions, the others from homes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum DataRequest {
        /// Writes the packet's bulk. The home answers the session (`Written`, `Stale`), a data node only `Stale`, `NewTerm` or
        /// an error.
        1 => Write {
            /// Whose bytes.
            data: DataId,
            /// Cut under which the writer works.
            cut: u32,
            /// First byte.
            offset: u64,
            /// Clear setuid and setgid (the writer has no CAP_FSETID).
            kill_suidgid: bool,
            /// At the end of the file, which the writer has reserved.
            append: bool,
            /// What the writer was last told that the node may answer by.
            part: Option<MergePart>,
        },
        /// Reads. → `Bytes` (short at the end of what was written: the rest is zeros)
        2 => Read {
            /// Whose bytes.
            data: DataId,
            /// Cut under which the reader works.
            cut: u32,
            /// First byte.
            offset: u64,
            /// How many.
            bytes: u32,
        },
        /// Bytes at and after `size` are gone, and requests of an older cut are stale. → `Trimmed`
        3 => Trim {
            /// Whose bytes.
            data: DataId,
            /// The new cut.
            cut: u32,
            /// What remains, bytes.
            size: u64,
            /// Blocks that are only reserved stay, wherever they are. The trim of a raised cut takes away bytes that nobody was
            /// told of, not what fallocate(2) has reserved behind the end of the file.
            keep_reserved: bool,
        },
        /// These generations, and every older one of their inodes, are gone. → `Trimmed` of no blocks
        4 => Drop {
            /// Whose bytes; at most [`crate::limits::DROPS_MAX`].
            all: Vec<DataId>,
        },
        /// Makes everything that this node has of the file durable (fsync). → `Synced`
        5 => Sync {
            /// Whose bytes.
            data: DataId,
        },
        /// Space. → `Space`
        6 => Space,
        /// Reserves, frees or zeroes a range. Answered as `Write` is.
        7 => Allocate {
            /// Whose bytes.
            data: DataId,
            /// Cut under which the caller works.
            cut: u32,
            /// First byte.
            offset: u64,
            /// How many.
            bytes: u64,
            /// What becomes of them.
            how: Allocation,
            /// The file is at least so long afterwards, bytes; 0 leaves its size.
            end: u64,
            /// Clear setuid and setgid.
            kill_suidgid: bool,
        },
        /// Where the next data or hole begins, by whole blocks; reserved blocks without bytes are holes. → `Position`
        8 => Seek {
            /// Whose bytes.
            data: DataId,
            /// Cut under which the caller works.
            cut: u32,
            /// From this byte on.
            offset: u64,
            /// A hole, not data.
            hole: bool,
        },
        /// Writes bytes that this node reads from a file of its own. Answered as `Write` is, or `SourceStale`.
        9 => Copy {
            /// Whose bytes are written.
            data: DataId,
            /// Cut under which the writer works.
            cut: u32,
            /// First byte written.
            offset: u64,
            /// Whose bytes are read.
            from: DataId,
            /// Cut under which the reader works.
            from_cut: u32,
            /// First byte read.
            from_offset: u64,
            /// How many, at most [`crate::limits::IO_BYTES_MAX`].
            bytes: u32,
            /// Clear setuid and setgid.
            kill_suidgid: bool,
        },
        /// One of the requests above, of a session that has to show that it has opened the file.
        10 => Shown {
            /// That of the file.
            ticket: Ticket,
            /// That of the file of which a copy reads.
            source: Option<Ticket>,
            /// The request, as bytes, so that none is inside of another.
            request: Blob,
        },
        /// The home takes the merge part of a file back (V-3). → `HandedOver`, with all writes of it that the home has yet to learn.
        11 => HandOver {
            /// The file.
            inode: InodeId,
            /// No part of this home up to this one counts any more.
            floor: MergePart,
        },
        /// The home has started again: no part of its former terms counts any more (V-3b). → `HandedOver`, with writes of files from this
        /// inode on that it has yet to learn.
        12 => HandOverAll {
            /// What comes before its first part.
            floor: MergePart,
            /// From here on, in order of inodes.
            from: InodeId,
        },
        /// What of this node's former terms is there. → `Kept`
        13 => Kept,
        /// The home wants to know which writes of a file it has yet to learn; the merge part stays (V-2). → `HandedOver`
        14 => Collect {
            /// The file.
            inode: InodeId,
        },
        /// The coordinator tells of a tracking epoch (V-11). → `Tracked` when homes have learned all that was answered before, `NewTerm`, and
        /// nothing has changed, if this is for another process of the node.
        15 => Track {
            /// That.
            tracking: Tracking,
            /// The term of the node for which it is: no other process may install in this epoch.
            term: Term,
        },
        /// `Collect` of many files, which the home shows at once (V-2). → `HandedOver`; if there is more, nothing is told of the files from that
        /// inode on
        16 => CollectMany {
            /// The files, in order, at most [`crate::limits::COLLECTED_MAX`].
            inodes: Vec<InodeId>,
        },
    }
}

crate::kinds! {
    /// What an operation of a data node is counted as.
    pub enum DataCounted {
        Write "write", Read "read", Allocate "allocate", Copy "copy", Seek "seek", Trim "trim", Sync "sync", Space "space",
    }
}

/// Who may ask a data node for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A session.
    Session,
    /// A home.
    Home,
    /// Both.
    Any,
}

/// What there is to know of a message to a data node, said once for each kind as [`crate::request::describe`] does for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataDescription {
    /// The file, at whose data node it is asked; none: of many files, or of the node as such.
    pub data: Option<DataId>,
    /// Who may ask it.
    pub by: Asker,
    /// It changes bytes for a session: it is executed only in the term of the node that it names and while its session has a lease
    /// and the file's home answers it.
    pub writes: bool,
    /// A session that goes on under another id may ask it once more there, without knowing whether it was executed before.
    pub may_be_asked_anew: bool,
    /// What it is counted as.
    pub counted: DataCounted,
}

impl DataRequest {
    /// The request in a [`DataRequest::Shown`].
    pub fn shown(request: &Blob) -> Option<DataRequest> {
        DataRequest::from_bytes(&request.0).ok().filter(|request| !matches!(request, DataRequest::Shown { .. }))
    }

    /// The cut under which bytes are asked for.
    pub fn cut(&self) -> Option<u32> {
        match *self {
            DataRequest::Write { cut, .. }
            | DataRequest::Read { cut, .. }
            | DataRequest::Allocate { cut, .. }
            | DataRequest::Seek { cut, .. }
            | DataRequest::Copy { cut, .. }
            | DataRequest::Trim { cut, .. } => Some(cut),
            DataRequest::Drop { .. }
            | DataRequest::Sync { .. }
            | DataRequest::Space
            | DataRequest::Kept
            | DataRequest::Shown { .. }
            | DataRequest::HandOver { .. }
            | DataRequest::HandOverAll { .. }
            | DataRequest::Collect { .. }
            | DataRequest::Track { .. }
            | DataRequest::CollectMany { .. } => None,
        }
    }

    /// Whether the bytes change without the set-id bits of the file being cleared.
    pub fn keeps_suid(&self) -> bool {
        match *self {
            DataRequest::Write { kill_suidgid, .. }
            | DataRequest::Allocate { kill_suidgid, .. }
            | DataRequest::Copy { kill_suidgid, .. } => !kill_suidgid,
            _ => false,
        }
    }

    /// What there is to know of it.
    #[inline]
    pub fn describe(&self) -> DataDescription {
        use DataCounted as C;
        let of = |data: Option<DataId>, by, writes, may_be_asked_anew, counted| DataDescription {
            data,
            by,
            writes,
            may_be_asked_anew,
            counted,
        };
        match *self {
            DataRequest::Write { data, append, .. } => of(Some(data), Asker::Session, true, !append, C::Write),
            DataRequest::Allocate { data, .. } => of(Some(data), Asker::Session, true, true, C::Allocate),
            DataRequest::Copy { data, .. } => of(Some(data), Asker::Session, true, true, C::Copy),
            DataRequest::Read { data, .. } => of(Some(data), Asker::Any, false, true, C::Read),
            DataRequest::Seek { data, .. } => of(Some(data), Asker::Any, false, true, C::Seek),
            DataRequest::Sync { data } => of(Some(data), Asker::Any, false, true, C::Sync),
            DataRequest::Trim { data, .. } => of(Some(data), Asker::Home, false, true, C::Trim),
            DataRequest::Drop { .. } => of(None, Asker::Home, false, true, C::Trim),
            DataRequest::Space => of(None, Asker::Any, false, true, C::Space),
            DataRequest::Kept => of(None, Asker::Session, false, true, C::Space),
            DataRequest::HandOver { .. }
            | DataRequest::HandOverAll { .. }
            | DataRequest::Collect { .. }
            | DataRequest::Track { .. }
            | DataRequest::CollectMany { .. } => of(None, Asker::Home, false, true, C::Trim),
            DataRequest::Shown { ref ticket, ref request, .. } => match DataRequest::shown(request) {
                Some(request) => request.describe(),
                None => of(Some(ticket.data), Asker::Home, false, false, C::Space), // which nobody sends
            },
        }
    }
}

wire_enum! {
    /// What a data node answers.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum DataReply {
        /// The packet's bulk holds the bytes; fewer than asked mean zeros after them.
        1 => Bytes,
        /// The request's generation or cut is older than the node has been told: ask the home again.
        2 => Stale,
        /// Failed.
        3 => Failed {
            /// Why.
            errno: Errno,
        },
        /// A trim or drop is recorded.
        4 => Trimmed {
            /// 4 KiB blocks that the generation still has.
            blocks: u64,
            /// Version of `blocks`.
            version: u64,
        },
        /// Durable.
        5 => Synced,
        /// Space of this node.
        6 => Space {
            /// 4 KiB blocks in all.
            total: u64,
            /// 4 KiB blocks free.
            free: u64,
        },
        /// The write names another term of the node: it is not executed, and may be sent again under this one.
        7 => NewTerm {
            /// The node's present term.
            term: Term,
        },
        /// Where data or a hole begins; none if there is none before the largest size of a file.
        8 => Position {
            /// Byte.
            offset: Option<u64>,
        },
        /// The generation or cut of a copy's source is older than the node has been told; nothing was written.
        9 => SourceStale,
        /// The session may not ask that. Nothing has happened.
        10 => Refused {
            /// What speaks against it.
            why: Refusal,
        },
        /// The bytes are written, and whoever asks the home is shown so: the node has the file's merge part (V-2).
        11 => Written {
            /// The record on which that rests, if a power loss may take it until the file is synced; else 0.
            record: RecordSeq,
        },
        /// Parts are given back; these writes are not known to be learned.
        12 => HandedOver {
            /// Of each file those of one cut after the other; at most [`crate::limits::HANDED_OVER_MAX`].
            all: Vec<Answered>,
            /// Where those begin for which there was no room.
            more: Option<InodeId>,
        },
        /// Records of the node's former terms.
        13 => Kept {
            /// What rests on records of terms before this one may be gone all the same: power was lost since.
            since: Term,
            /// Up to this one they are there. Those after it may be gone.
            upto: RecordSeq,
        },
        /// Homes have learned all that was answered before this epoch.
        14 => Tracked,
        /// The bytes are written, and the session tells the home (`Learn`), which answers `Written` in the name of the node.
        15 => Recorded {
            /// As in `Written`.
            record: RecordSeq,
            /// All answered writes of the file and this cut that its home has yet to learn.
            writes: Answered,
        },
    }
}

wire_enum! {
    /// What a data node tells the home, again and again until the home answers (kind `Peer`).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Merge {
        /// Bytes up to `end` are written, or the file has changed without (`end` 0).
        1 => Written {
            /// Whose bytes.
            data: DataId,
            /// Cut under which they were written.
            cut: u32,
            /// End of the write, bytes; 0 leaves the size.
            end: u64,
            /// 4 KiB blocks the generation has at this node.
            blocks: u64,
            /// Version of `blocks`.
            version: u64,
            /// The writer.
            session: SessionId,
            /// Its request.
            request: RequestSeq,
            /// The writer's oldest unanswered request: bounds the reply cache.
            oldest: RequestSeq,
            /// Clear setuid and setgid.
            kill_suidgid: bool,
            /// First byte, if that was the end of the file, which its session has reserved: the reservation is over.
            append: Option<u64>,
            /// The record of the write, if a former process of the data node may have told of it.
            again: Option<Recorded>,
            /// The node has the file's merge part, or has answered writes of it that the home has yet to learn. Without, it takes no part of the file up
            /// until this is answered.
            beside: bool,
        },
        /// A power loss has taken blocks, and what was there before is back: so many there are now. The home must hear this
        /// before it hears of anything written since.
        2 => Counted {
            /// Whose bytes.
            data: DataId,
            /// 4 KiB blocks the generation has at this node.
            blocks: u64,
            /// Version of `blocks`.
            version: u64,
            /// Appends that are undone, the last one first; at most [`crate::limits::UNDONE_MAX`].
            undone: Vec<UndoneAppend>,
        },
        /// Writes that this node has answered. `Void` is said of the only one among them; of several it asks to be told of each alone.
        3 => Answered {
            /// In the order of inodes, of each file those of one cut after the other; at most [`HANDED_OVER_MAX`].
            all: Vec<Answered>,
        },
        /// The node has given merge parts back, and all writes under them are learned (V-3c).
        4 => Returned {
            /// Those; at most [`HANDED_OVER_MAX`].
            parts: Vec<ReturnedPart>,
        },
        /// Which part has this home given last (V-3a)? Answered `PartIs`.
        5 => PartAsk,
        /// All writes up to this position are learned by their homes and trimmed.
        6 => Floor {
            /// That.
            upto: LogSeq,
        },
        /// To the coordinator: how are files tracked? Answered `TrackingIs` if that is not by tables of switches; else the node is told
        /// of a new epoch.
        7 => TrackAsk {
            /// The node's own.
            term: Term,
            /// There are no more positions for the tables of this epoch; 0: the node has started.
            used_up: TrackingEpoch,
        },
    }
}

wire_struct! {
    /// A merge part that nobody has any more.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReturnedPart {
        /// The file.
        pub inode: InodeId,
        /// Which.
        pub part: MergePart,
    }
}

wire_struct! {
    /// When a write was recorded. A home that no longer knows the writer sees by it whether it has heard of the write.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Recorded {
        /// The record: a home that has heard of the write has a version of the file's blocks that is not older.
        pub seq: RecordSeq,
        /// Its time: a home that has heard of the write has set mtime since then.
        pub stamp: Stamp,
    }
}

wire_struct! {
    /// An append that a power loss has undone: if the home had heard of it, the file ends where it did before.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct UndoneAppend {
        /// The version of the file's blocks by which it was undone.
        pub at: u64,
        /// Its first byte.
        pub from: u64,
        /// Its end.
        pub end: u64,
        /// The writer.
        pub session: SessionId,
        /// Its request.
        pub request: RequestSeq,
    }
}

/// Whether a file may have so many blocks.
pub fn may_have(blocks: u64) -> bool {
    blocks <= FILE_BYTES_MAX / BLOCK_BYTES
}

impl Answered {
    /// Whether a file can have so many bytes and blocks.
    pub fn can_be_true(&self) -> bool {
        self.end <= FILE_BYTES_MAX && may_have(self.blocks)
    }
}

impl Merge {
    /// Whether it can be true: of a data node that is not, nothing is to be believed.
    ///
    /// # Errors
    /// More bytes or blocks than a file has, or more appends or files than a message tells of.
    pub fn check(self) -> Result<Merge, WireError> {
        let files = match &self {
            Merge::Answered { all } => all.len(),
            Merge::Returned { parts } => parts.len(),
            _ => 0,
        };
        if files > HANDED_OVER_MAX {
            return Err(WireError::Bad("number of files"));
        }
        let (end, blocks, undone) = match &self {
            Merge::Answered { all } if all.iter().all(Answered::can_be_true) => (0, 0, 0),
            Merge::Answered { .. } => (u64::MAX, 0, 0),
            Merge::Returned { .. } | Merge::PartAsk | Merge::Floor { .. } | Merge::TrackAsk { .. } => (0, 0, 0),
            Merge::Written { end, blocks, append, .. } => ((*end).max(append.unwrap_or(0)), *blocks, 0),
            Merge::Counted { blocks, undone, .. } => {
                (undone.iter().map(|append| append.from.max(append.end)).max().unwrap_or(0), *blocks, undone.len())
            }
        };
        if end > FILE_BYTES_MAX || !may_have(blocks) || undone > UNDONE_MAX {
            return Err(WireError::Bad("size of a file"));
        }
        Ok(self)
    }

    /// Whose bytes it is about; none: those of several files, or of the node as such.
    pub fn data(&self) -> Option<DataId> {
        match self {
            Merge::Written { data, .. } | Merge::Counted { data, .. } => Some(*data),
            Merge::Answered { .. }
            | Merge::Returned { .. }
            | Merge::PartAsk
            | Merge::Floor { .. }
            | Merge::TrackAsk { .. } => None,
        }
    }
}
