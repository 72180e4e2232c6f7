//! Journal records: the effects of one synchronous step of a shard (design.md, "Durability").
//!
//! State changes only by applying records, live and in replay alike, so a replayed shard cannot differ from
//! one that lived. A record names the request that caused it, which is what the reply cache is rebuilt from.

use crate::codec::Blob;
use crate::disk::inode::{Inode, Refused};
use crate::disk::log::Entry;
use crate::disk::map::MapImage;
use crate::disk::reply::Answered;
use crate::disk::txn::{Found, Part};
use crate::ids::{DataId, InodeId, LogSeq, NodeId, RequestSeq, SessionId, SessionNumber, ShardId, Stamp, Term, TxnId};
use crate::inode::Kind;
use crate::name::Name;
use crate::tracking::{Tracking, TrackingSide};
use crate::xattr::XattrName;
use crate::{stored_enum, stored_struct};
use smallvec::SmallVec;

stored_enum! {
    /// The reply that a record stands for, derived after its effects are applied.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Answer {
        /// The record answers no request.
        0 => Nothing,
        /// `Done`.
        1 => Done,
        /// `Entry` of an inode whose home is here.
        2 => Entry {
            /// The inode.
            id: InodeId,
            /// Whether it was made by this request.
            created: bool,
        },
        /// `Attr` of an inode whose home is here.
        3 => Attr {
            /// The inode.
            id: InodeId,
        },
        /// `Written` with the size of an inode whose home is here.
        4 => Written {
            /// The inode.
            id: InodeId,
        },
        /// Anything else, as it is.
        5 => Literal {
            /// The reply.
            reply: Answered,
        },
    }
}

stored_enum! {
    /// Numbers of which none is given out twice, whatever a power loss made a role forget.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Counter {
        /// [`Birth`](crate::ids::Birth)s of inodes. Shards of one journal look at each other's.
        1 => Births,
        /// [`SessionNumber`](crate::ids::SessionNumber)s, at the coordinator.
        2 => Sessions,
        /// Positions of writes, at a data node.
        3 => Positions,
        /// Epochs of what switches remember of metadata.
        4 => CacheEpochs,
        /// Numbers of entries of such a memory.
        5 => EntryNumbers,
        /// Merge parts, at a home that may have given some: 1 from then on.
        6 => MergeParts,
        /// Names lent to the cache of a switch, at a home that may have lent some: 1 from then on.
        7 => LentNames,
    }
}

stored_struct! {
    /// How a change of a name reaches its directory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Log {
        /// Position in this shard's change-log; 0 if the directory's owner is this shard, which applies it at once.
        pub seq: LogSeq,
        /// Change of the entry count.
        pub dcount: i8,
        /// Change of the directory's nlink.
        pub dnlink: i8,
    }
}

stored_enum! {
    /// What a member of the file system is. Reserved: 2 *path client*, 3 *path node*, 4 *host*, 5 *keeper*.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum MemberKind {
        /// A mount, which is a session.
        1 => Mount,
    }
}

stored_struct! {
    /// A member as the registry has it, beside its address.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Member {
        /// Which life of its address this is: when it was registered, by a clock that only grows.
        pub incarnation: Stamp,
        /// Which session it is.
        pub number: SessionNumber,
        /// It is in the process of the registry, and ends with that.
        pub resident: bool,
        /// What it is.
        pub kind: MemberKind,
        /// Something if its key has an owner, so that it may not name other callers: what such a key is called, or that it is one, since shards
        /// do not hear names. None: the key of the cluster, or none at all.
        pub key: Option<Name>,
        /// It lives; else it is dead, and not everybody has heard of it.
        pub alive: bool,
    }
}

stored_enum! {
    /// One change of a shard's durable state.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Effect {
        /// A name leads to an inode, and its directory will hear of it.
        1 => PutName {
            /// Directory.
            parent: InodeId,
            /// Name.
            name: Name,
            /// Inode.
            child: InodeId,
            /// Its type.
            kind: Kind,
            /// The directory's part.
            log: Log,
        },
        /// A name is removed, and its directory will hear of it.
        2 => DropName {
            /// Directory.
            parent: InodeId,
            /// Name.
            name: Name,
            /// Inode it led to.
            child: InodeId,
            /// Its type.
            kind: Kind,
            /// The directory's part.
            log: Log,
        },
        /// An inode is new, or changes to this value.
        3 => PutInode {
            /// All of it.
            inode: Inode,
        },
        /// An inode is gone for good.
        4 => DropInode {
            /// Which.
            id: InodeId,
        },
        /// Bytes were written: size, blocks, mtime = ctime = the record's stamp. The later fields are of a record of several writes
        /// that their data node has answered by itself: they follow one another, and are known and answered from then on. mtime = ctime
        /// is their highest stamp then, or 1 ns after the last ctime, whichever is later; the record's stamp is after that too.
        5 => Merged {
            /// The file, and the generation of its bytes.
            data: DataId,
            /// The cut under which they were written.
            cut: u32,
            /// Its size now.
            size: u64,
            /// Its 4 KiB blocks now.
            blocks: u64,
            /// Their version.
            version: u64,
            /// setuid and setgid are cleared.
            kill_suidgid: bool;
            /// Position of the write that the first one follows, counted by the data node; none: nothing is before it.
            1 => base: Option<LogSeq>,
            /// Position of the last one. The other later fields are there only with this one.
            2 => last: Option<LogSeq>,
            /// Their highest stamp, given by the data node.
            3 => stamp: Option<Stamp>,
            /// Which of them were refused.
            4 => refused: Option<Refused>,
        },
        /// The owner has applied entries of a site's change-log (compacted, R-9).
        6 => AppliedLog {
            /// Directory.
            dir: InodeId,
            /// Whose change-log.
            from: ShardId,
            /// Applied up to and including this position.
            upto: LogSeq,
            /// The last operation on each name.
            entries: Vec<Entry>,
            /// Sum of the changes of the entry count.
            dcount: i64,
            /// Sum of the changes of nlink.
            dnlink: i64,
            /// Highest stamp: the directory's mtime and ctime.
            stamp: Stamp,
        },
        /// The site has trimmed its change-log: the owner has applied it.
        7 => TrimLog {
            /// Directory.
            dir: InodeId,
            /// Trimmed up to and including this position.
            upto: LogSeq,
        },
        /// Watermarks of a role up to here are forgotten.
        8 => Floor {
            /// Who gave out the positions: a site of its change-logs, a data node of writes.
            from: NodeId,
            /// Everything of it up to here is applied and trimmed.
            upto: LogSeq,
        },
        /// A data node must be told to trim or drop, until it has acknowledged (design.md, "Data").
        9 => DataPending {
            /// Whose bytes.
            data: DataId,
            /// The new cut.
            cut: u32,
            /// What remains, bytes.
            size: u64,
            /// Blocks that are only reserved stay, wherever they are.
            keep_reserved: bool,
            /// All of the generation goes.
            drop: bool,
        },
        /// The data node has acknowledged everything up to this cut; `drop` as in `DataPending`.
        10 => DataDone {
            /// Whose bytes.
            data: DataId,
            /// The cut.
            cut: u32,
            /// All of the generation went.
            drop: bool,
            /// 4 KiB blocks that the generation still has.
            blocks: u64,
            /// Version of `blocks`.
            version: u64,
        },
        /// A participant is prepared.
        11 => Prepared {
            /// The attempt.
            txn: TxnId,
            /// What was asked.
            parts: Vec<Part>,
            /// What was found.
            found: Vec<Found>,
        },
        /// The coordinator has decided: these participants must hear of it.
        12 => Decided {
            /// The attempt.
            txn: TxnId,
            /// Participants.
            participants: SmallVec<[ShardId; 3]>,
        },
        /// A participant is done with it.
        13 => Finished {
            /// The attempt.
            txn: TxnId,
        },
        /// A participant's attempt was aborted.
        14 => Aborted {
            /// The attempt.
            txn: TxnId,
        },
        /// All participants have acknowledged.
        15 => Forgotten {
            /// The attempt.
            txn: TxnId,
        },
        /// The registry of members. That one is dead comes twice: the second time everybody has heard of it.
        16 => Member {
            /// Its address.
            node: NodeId,
            /// What is known of it.
            member: Member,
        },
        /// A tracking epoch is given out, or known in one of a shard's roles.
        17 => Tracking {
            /// Which role.
            side: TrackingSide,
            /// The epoch.
            tracking: Tracking,
        },
        /// A power loss has undone what this request did: it is new if it is repeated.
        18 => Undone {
            /// Whose.
            session: SessionId,
            /// The request.
            request: RequestSeq,
        },
        /// An extended attribute is new, or changes to this value.
        19 => SetXattr {
            /// Whose.
            id: InodeId,
            /// Its name.
            name: XattrName,
            /// Its value.
            value: Blob,
        },
        /// An extended attribute is gone.
        20 => RemoveXattr {
            /// Whose.
            id: InodeId,
            /// Its name.
            name: XattrName,
        },
        /// An inode was read: its access time.
        24 => Accessed {
            /// Which.
            id: InodeId,
            /// When, ns since 1970.
            atime: i64,
        },
        /// The cluster map is this.
        25 => Map {
            /// All of it.
            map: MapImage,
        },
        /// A start has found that power was lost before it.
        28 => PowerLost {
            /// Its term.
            term: Term,
        },
        /// A file has so many names in a directory beside the one that its inode tells of.
        30 => Further {
            /// The file.
            id: InodeId,
            /// The directory.
            dir: InodeId,
            /// How many, perhaps 0.
            names: u32,
        },
        /// An inode born without a name may still get one.
        23 => Linkable {
            /// Which.
            id: InodeId,
        },
        /// The role may give out numbers up to here; before one leaves, this is durable.
        29 => Reserved {
            /// Of which kind.
            counter: Counter,
            /// The last of them. It grows.
            upto: u64,
        },
    }
}

stored_struct! {
    /// One record.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Record {
        /// When.
        pub stamp: Stamp,
        /// Whose request, 0 for the shard's own work.
        pub session: SessionId,
        /// Which request.
        pub request: RequestSeq,
        /// The session's oldest unanswered request then.
        pub oldest: RequestSeq,
        /// Who.
        pub uid: u32,
        /// The reply it stands for.
        pub answer: Answer,
        /// The changes, in order.
        pub effects: Vec<Effect>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::WireError;
    use crate::disk::Stored;
    use crate::ids::Generation;
    use crate::limits::REFUSED_MAX;

    fn merged() -> Effect {
        let data = DataId { inode: InodeId(77), generation: Generation(1 << 32) };
        Effect::Merged {
            data,
            cut: 3,
            size: 4096,
            blocks: 1,
            version: 9,
            kill_suidgid: true,
            base: None,
            last: None,
            stamp: None,
            refused: None,
        }
    }

    /// Of one write, without later fields.
    const MERGED: [u8; 47] = [
        5, 77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0,
        0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0,
    ];

    #[test]
    fn a_record_of_one_write_is_as_before() {
        assert_eq!(merged().to_stored(), MERGED);
        assert_eq!(Effect::from_stored(&MERGED), Ok(merged()));
    }

    #[test]
    fn a_record_of_several_writes_comes_back_and_what_is_unknown_of_it_is_passed_over() {
        let Effect::Merged { data, cut, size, blocks, version, kill_suidgid, .. } = merged() else { unreachable!() };
        let (base, last) = (Some(LogSeq(1 << 40)), Some(LogSeq(u64::MAX)));
        let (stamp, refused) = (Some(Stamp(8)), Refused::of(vec![LogSeq(1 << 41)]).expect("one"));
        let several = Effect::Merged { data, cut, size, blocks, version, kill_suidgid, base, last, stamp, refused };
        let mut bytes = several.to_stored();
        assert_eq!(bytes[..46], MERGED[..46]);
        assert_eq!(Effect::from_stored(&bytes).as_ref(), Ok(&several));
        bytes.truncate(bytes.len() - 1);
        let more = |tag: u8| [&bytes[..], &[tag, 2, 0, 0, 0, 1, 2, 0]].concat();
        assert_eq!(Effect::from_stored(&more(5)), Ok(several));
        assert_eq!(Effect::from_stored(&more(200)), Err(WireError::UnknownField { of: "Effect", tag: 200 }));
        // In the order of their tags, each once.
        assert_eq!(Effect::from_stored(&more(4)), Err(WireError::Bad("order of later fields")));
    }

    #[test]
    fn too_many_refused_writes_are_no_record() {
        let refused = |len: usize| {
            let positions = (0..len as u64).flat_map(u64::to_le_bytes);
            let list: Vec<u8> = (len as u32).to_le_bytes().into_iter().chain(positions).collect();
            [&MERGED[..46], &[4], &(list.len() as u32).to_le_bytes(), &list, &[0]].concat()
        };
        assert!(Effect::from_stored(&refused(REFUSED_MAX)).is_ok());
        let too_many = Effect::from_stored(&refused(REFUSED_MAX + 1));
        assert!(matches!(too_many, Err(WireError::TooLong { what: "list of refused writes", .. })), "{too_many:?}");
    }

    /// Their tags are keys of objects of checkpoints too.
    #[test]
    fn counters_have_their_tags() {
        let all = [
            Counter::Births,
            Counter::Sessions,
            Counter::Positions,
            Counter::CacheEpochs,
            Counter::EntryNumbers,
            Counter::MergeParts,
            Counter::LentNames,
        ];
        for (tag, counter) in (1..).zip(all) {
            assert_eq!(counter.to_stored(), [tag, 0]);
            assert_eq!(Counter::from_stored(&[tag, 0]), Ok(counter));
        }
        assert_eq!(Counter::from_stored(&[8, 0]), Err(WireError::UnknownTag { what: "Counter", tag: 8 }));
    }
}
