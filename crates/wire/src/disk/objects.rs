//! Values of the objects of a shard's checkpoints, beside [inodes](super::inode::Inode).

use super::log::Entry;
use super::reply::Answered;
use super::txn::{Found, Part};
use crate::codec::Blob;
use crate::ids::{InodeId, LogSeq, RequestSeq, ShardId, Stamp, Term, TxnSeq};
use crate::inode::Kind;
use crate::name::Name;
use crate::stored_struct;
use crate::tracking::Tracking;
use smallvec::SmallVec;

stored_struct! {
    /// Where a name leads.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NameObject {
        /// The inode.
        pub child: InodeId,
        /// Its type.
        pub kind: Kind,
    }
}

stored_struct! {
    /// An entry of a listing.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct EntryObject {
        /// Its name.
        pub name: Name,
        /// The inode.
        pub child: InodeId,
        /// Its type.
        pub kind: Kind,
    }
}

stored_struct! {
    /// An extended attribute.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Xattr {
        /// Its name.
        pub name: crate::xattr::XattrName,
        /// Its value.
        pub value: Blob,
    }
}

stored_struct! {
    /// The extended attributes of an inode.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct XattrsObject {
        /// In order of their names.
        pub all: Vec<Xattr>,
    }
}

stored_struct! {
    /// How many further names a file has in a directory, beside the one that its inode tells of.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FurtherObject {
        /// Names, at least one.
        pub names: u32,
    }
}

stored_struct! {
    /// Up to where a change-log is applied, trimmed, or forgotten.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct UptoObject {
        /// This position, and all before.
        pub upto: LogSeq,
    }
}

stored_struct! {
    /// A data node must be told to trim or drop.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PendingObject {
        /// What remains, bytes.
        pub size: u64,
        /// Blocks that are only reserved stay, wherever they are.
        pub keep_reserved: bool,
    }
}

stored_struct! {
    /// That something is so; the key says of what.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Fact {}
}

stored_struct! {
    /// How much is in a range.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CountObject {
        /// Inodes.
        pub inodes: u64,
        /// 4 KiB blocks.
        pub blocks: u64,
    }
}

stored_struct! {
    /// A change-log.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LogObject {
        /// In order of their positions.
        pub entries: Vec<Entry>,
    }
}

stored_struct! {
    /// The result of a request.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ReplyObject {
        /// The session's oldest unanswered request then.
        pub oldest: RequestSeq,
        /// What it was answered.
        pub answered: Answered,
    }
}

stored_struct! {
    /// A promise.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PreparedObject {
        /// What was asked.
        pub parts: Vec<Part>,
        /// What was found.
        pub found: Vec<Found>,
    }
}

stored_struct! {
    /// A decision.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DecidedObject {
        /// Who must hear of it.
        pub participants: SmallVec<[ShardId; 3]>,
    }
}

stored_struct! {
    /// What a coordinator has said of its attempts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AttemptsObject {
        /// Those below this are over.
        pub oldest: TxnSeq,
    }
}

stored_struct! {
    /// A start that has found that power was lost before it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PowerLostObject {
        /// Its term: the last such one.
        pub term: Term,
    }
}

stored_struct! {
    /// The clock.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ClockObject {
        /// The last stamp.
        pub last: Stamp,
    }
}

stored_struct! {
    /// A tracking epoch.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TrackingObject {
        /// The epoch.
        pub tracking: Tracking,
    }
}

stored_struct! {
    /// Up to where numbers may be given out, which none is twice.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReservedObject {
        /// The last of them.
        pub upto: u64,
    }
}
