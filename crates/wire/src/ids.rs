//! Identifiers (design.md, "Objects and places"). Ids contain the term that gave them out, so they never repeat, whatever a
//! power loss made the system forget.

use crate::codec::{Reader, Wire, WireError};
use std::fmt;

/// Highest number of a session: an address has 24 bits for it.
const SESSION_MAX: u32 = (1 << 24) - 1;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty $(, at most $max:expr)?)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}:{:x}", stringify!($name), self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
        impl Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }
            fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
                let id = Self(<$inner>::take(r)?);
                $(if id > Self($max) {
                    return Err(WireError::Bad(stringify!($name)));
                })?
                Ok(id)
            }
        }
    };
}

id!(
    /// One of 65,536 hash slots: the unit of placement and of migration.
    Slot(u16)
);
id!(
    /// A metadata shard, numbered from 0 to N−1; N is chosen at format, and only `onpath reshape` changes it.
    ShardId(u16)
);
id!(
    /// One start of a shard: 24 bits, growing cluster-wide, never 0.
    Term(u32)
);
id!(
    /// `slot:16 | term:24 | count:24`. 0 is none, 1 is the root, and every other FUSE node id is the inode id.
    InodeId(u64)
);

id!(
    /// A client session, given out durably by the coordinator; never reused.
    SessionId(u32, at most SESSION_MAX)
);
id!(
    /// A request of a session, or a call of a shard, counted by its sender.
    RequestSeq(u64)
);
id!(
    /// A record of a shard: `term:24 | count:40`, so that it grows across restarts.
    RecordSeq(u64)
);
id!(
    /// An entry of a shard's change-logs: `term:24 | count:40`, one counter for all directories.
    LogSeq(u64)
);
id!(
    /// Hybrid-logical-clock time in nanoseconds since 1970.
    Stamp(u64)
);
id!(
    /// Position of an entry in its directory's listing: `hash:47 | disambiguator:15`; 1 and 2 are "." and "..".
    Cookie(u64)
);
id!(
    /// The address of a role: `class:8 | number:24`.
    NodeId(u32)
);
id!(
    /// A version of a file's bytes: `term:32 | count:32` of its home, raised by O_TRUNC and truncation to 0 (design.md, "Data").
    Generation(u64)
);
id!(
    /// Names one life of the tracking of directories: given out by the coordinator, 0 is none. Only its equality counts; the
    /// coordinator does not give a value out again within the lifetime of a packet.
    TrackingEpoch(u16)
);
id!(
    /// Position of a batch in the journal of a process.
    Lsn(u64)
);
id!(
    /// Name of a collect or recall: `term:24 | counter:40` of the owner, never reused.
    JobId(u64)
);
id!(
    /// Name of one time in which a session is alone in the file system: `term:24 | count:40` of the coordinator, so that it grows
    /// across restarts; 0 is none.
    AloneId(u64)
);
id!(
    /// Name of one attempt at a transaction: `term:24 | count:40` of its coordinating shard, new for every attempt.
    TxnSeq(u64)
);

crate::wire_struct! {
    /// One attempt at a transaction.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct TxnId {
        /// The shard that decides.
        pub coordinator: ShardId,
        /// Its number there.
        pub seq: TxnSeq,
    }
}

const COUNT_BITS: u32 = 24;
const SEQ_BITS: u32 = 40;

impl Term {
    /// Largest term that is given out. An id has room for one bit more, which a mount needs for itself in the numbers that it gives the
    /// kernel.
    pub const MAX: Term = Term((1 << 23) - 1);

    /// First value of a `term:24 | count:40` counter in this term.
    pub fn first_seq(self) -> u64 {
        assert!(self.0 > 0 && self <= Term::MAX, "term {} out of range", self.0);
        u64::from(self.0) << SEQ_BITS
    }
}

/// The term inside a `term:24 | count:40` counter.
pub fn term_of_seq(seq: u64) -> Term {
    Term((seq >> SEQ_BITS) as u32)
}

impl Generation {
    /// The term of the home that made it; 0 for the first generation of a file.
    pub fn term(self) -> Term {
        Term((self.0 >> 32) as u32)
    }
}

impl InodeId {
    /// No inode.
    pub const NONE: InodeId = InodeId(0);
    /// The root directory.
    pub const ROOT: InodeId = InodeId(1);

    /// The id of the `count`-th inode born in `slot` in `term`.
    pub fn new(slot: Slot, term: Term, count: u32) -> InodeId {
        assert!(term.0 > 0 && term <= Term::MAX, "term out of range");
        assert!(count < 1 << COUNT_BITS, "inode count out of range");
        InodeId(u64::from(slot.0) << 48 | u64::from(term.0) << COUNT_BITS | u64::from(count))
    }

    /// The home of the inode's attributes.
    pub fn slot(self) -> Slot {
        Slot((self.0 >> 48) as u16)
    }

    /// The term in which the inode was born; 0 for the root.
    pub fn term(self) -> Term {
        Term((self.0 >> COUNT_BITS) as u32 & Term::MAX.0)
    }

    /// Whether this names an inode at all.
    pub fn is_some(self) -> bool {
        self.0 != 0
    }
}

/// What kind of role an address belongs to. Reserved numbers: 5 path node, 6 controller, 7 log, 8 index, 9 host, 10 keeper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeClass {
    /// A metadata shard.
    Shard,
    /// A data node.
    Data,
    /// A client session.
    Session,
    /// The switch.
    Switch,
}

impl NodeId {
    /// Address of the only switch of a process, or of a world: its control plane, and where packets with an in-network header go
    /// first.
    pub const SWITCH: NodeId = NodeId(4 << 24);

    /// Address of a metadata shard.
    pub fn shard(shard: ShardId) -> NodeId {
        NodeId(1 << 24 | u32::from(shard.0))
    }

    /// Address of a data node.
    pub fn data(number: u16) -> NodeId {
        NodeId(2 << 24 | u32::from(number))
    }

    /// Address of the switch of a host.
    pub fn switch(number: u16) -> NodeId {
        NodeId(4 << 24 | u32::from(number))
    }

    /// Address of a client session.
    pub fn session(session: SessionId) -> NodeId {
        assert!(session.0 < 1 << 24, "session number out of range");
        NodeId(3 << 24 | session.0)
    }

    /// The class of the role, or nothing for an address of no known class.
    pub fn class(self) -> Option<NodeClass> {
        match self.0 >> 24 {
            1 => Some(NodeClass::Shard),
            2 => Some(NodeClass::Data),
            3 => Some(NodeClass::Session),
            4 => Some(NodeClass::Switch),
            _ => None,
        }
    }

    /// The number within its class.
    pub fn number(self) -> u32 {
        self.0 & 0xff_ffff
    }

    /// The shard at this address, if it is one.
    pub fn as_shard(self) -> Option<ShardId> {
        (self.class() == Some(NodeClass::Shard)).then(|| ShardId(self.number() as u16))
    }

    /// The session at this address, if it is one.
    pub fn as_session(self) -> Option<SessionId> {
        (self.class() == Some(NodeClass::Session)).then(|| SessionId(self.number()))
    }
}

impl Cookie {
    /// The entry ".".
    pub const DOT: Cookie = Cookie(1);
    /// The entry "..".
    pub const DOTDOT: Cookie = Cookie(2);
    /// Number of entries whose names may share one 47-bit hash.
    pub const DISAMBIGUATORS: u64 = 1 << 15;

    /// The first cookie for a name of this 47-bit hash.
    pub fn of_hash(hash47: u64) -> Cookie {
        assert!(hash47 > 0 && hash47 < 1 << 47, "cookie hash out of range");
        Cookie(hash47 << 15)
    }

    /// The hash part.
    pub fn hash47(self) -> u64 {
        self.0 >> 15
    }
}

/// Identity of a file's bytes: an inode and the generation of its contents (design.md, "Data").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DataId {
    /// The inode.
    pub inode: InodeId,
    /// The generation of its bytes.
    pub generation: Generation,
}

impl Wire for DataId {
    fn put(&self, out: &mut Vec<u8>) {
        self.inode.put(out);
        self.generation.put(out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(DataId { inode: InodeId::take(r)?, generation: Generation::take(r)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inode_ids_carry_slot_term_and_count() {
        let id = InodeId::new(Slot(0xabcd), Term(0x123456), 0x654321);
        assert_eq!(id.0, 0xabcd_1234_5665_4321);
        assert_eq!((id.slot(), id.term()), (Slot(0xabcd), Term(0x123456)));
        assert_eq!(InodeId::ROOT.slot(), Slot(0));
        assert!(InodeId::ROOT.is_some() && !InodeId::NONE.is_some());
    }

    #[test]
    fn addresses_tell_their_class() {
        assert_eq!(NodeId::shard(ShardId(3)).as_shard(), Some(ShardId(3)));
        assert_eq!(NodeId::shard(ShardId(3)).as_session(), None);
        assert_eq!(NodeId::session(SessionId(9)).as_session(), Some(SessionId(9)));
        assert_eq!(NodeId(0xff00_0000).class(), None);
    }

    #[test]
    fn sessions_have_numbers_that_fit_their_addresses() {
        assert_eq!(SessionId::from_bytes(&SESSION_MAX.to_le_bytes()), Ok(SessionId(SESSION_MAX)));
        assert_eq!(SessionId::from_bytes(&(SESSION_MAX + 1).to_le_bytes()), Err(WireError::Bad("SessionId")));
    }

    #[test]
    fn sequences_grow_across_terms() {
        assert!(Term(2).first_seq() > Term(1).first_seq() + 0xffff_ffff);
        assert_eq!(term_of_seq(Term(7).first_seq() + 5), Term(7));
    }
}
