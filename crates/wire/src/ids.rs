//! Identifiers (design.md, "Objects and places"). Ids contain the birth or the term that gave them out, so they never repeat, whatever
//! a power loss made the system forget.

use crate::codec::{Reader, Wire, WireError};
use crate::inode::Kind;
use crate::limits::CLOCK_SKEW_MS_MAX;
use std::fmt;
use std::ops::RangeInclusive;

/// Highest number of a session: an address has 24 bits for it.
const SESSION_MAX: u32 = (1 << 24) - 1;
/// Bits of an inode id: a double, as programs keep st_ino in, has so many.
pub const INODE_ID_BITS: u32 = 53;
/// Highest inode id.
const INODE_ID_MAX: u64 = (1 << INODE_ID_BITS) - 1;
/// Bits of a request's number that count within a session: at a million a second they last for half a year, and at the rate of a busy
/// mount for decades.
const REQUEST_BITS: u32 = 44;
/// The number of the last session.
const SESSION_NUMBER_MAX: u64 = (SESSION_MAX as u64) << (64 - REQUEST_BITS);

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
    /// One start of a journal, of all roles that write to it: 23 bits, growing in that journal, never 0. Other journals count their own.
    Term(u32)
);
id!(
    /// A start that makes inodes, counted by a record ([`Counter::Births`](crate::disk::record::Counter::Births)) that is durable
    /// before an id with it is given out; one for all shards of a journal. 20 bits, never 0 in an id. Other journals count their own.
    Birth(u32, at most BIRTH_NEVER)
);
id!(
    /// `slot:16 | birth:20 | count:16 | directory:1`: below 2^53, as doubles have it. 0 is none, 1 is the root. The same as st_ino.
    InodeId(u64, at most INODE_ID_MAX)
);

id!(
    /// The address of a client session. Sessions that follow one another may have the same: see [`SessionNumber`].
    SessionId(u32, at most SESSION_MAX)
);
id!(
    /// Which session of all that there ever were: given out by the coordinator, counted by a record
    /// ([`Counter::Sessions`](crate::disk::record::Counter::Sessions)) that is durable before. Its id comes again when all others
    /// have come, and its requests tell it from those who had or will have the same id: `lap:20 | count:44`. 0 is none.
    SessionNumber(u64, at most SESSION_NUMBER_MAX)
);
id!(
    /// A request of a session ([`SessionNumber::request`]), or a call of a shard, counted by its sender.
    RequestSeq(u64)
);
id!(
    /// A record of a shard: `term:24 | count:40`, so that it grows across restarts.
    RecordSeq(u64)
);
id!(
    /// An entry of a shard's change-logs: `term:24 | count:40`, one counter for all directories. Or a write that a data node answers
    /// by itself: one counter for all its files.
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

impl TrackingEpoch {
    /// Whether it was given out after another one.
    pub fn is_after(self, other: TrackingEpoch) -> bool {
        (self.0.wrapping_sub(other.0) as i16) > 0
    }
}

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

const DIRECTORY: u64 = 1;
const COUNT_SHIFT: u32 = 1;
const BIRTH_SHIFT: u32 = COUNT_SHIFT + 16;
/// Where an inode id has its slot, in the highest bits.
pub const SLOT_SHIFT: u32 = BIRTH_SHIFT + BIRTH_BITS;
const BIRTH_BITS: u32 = 20;
/// After all that ids can have.
const BIRTH_NEVER: u32 = 1 << BIRTH_BITS;
const _: () = assert!(SLOT_SHIFT + 16 == INODE_ID_BITS);
const SEQ_BITS: u32 = 40;

impl Term {
    /// Largest term that is given out.
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

impl Birth {
    /// The last that ids can have.
    pub const MAX: Birth = Birth((1 << BIRTH_BITS) - 1);
    /// After all that ids can have.
    pub const NEVER: Birth = Birth(BIRTH_NEVER);

    /// The one after this, at most [`Birth::NEVER`].
    pub fn next(self) -> Birth {
        Birth::after(self.0.into())
    }

    /// The first one where all up to this number are reserved, at most [`Birth::NEVER`].
    pub fn after(reserved: u64) -> Birth {
        Birth(reserved.saturating_add(1).min(BIRTH_NEVER.into()) as u32)
    }
}

impl InodeId {
    /// No inode.
    pub const NONE: InodeId = InodeId(0);
    /// The root directory.
    pub const ROOT: InodeId = InodeId(1);

    /// The id of the `count`-th inode born in `slot` in `birth`, which is of this kind.
    pub fn new(slot: Slot, birth: Birth, count: u16, kind: Kind) -> InodeId {
        assert!(birth.0 > 0 && birth <= Birth::MAX, "birth {} out of range", birth.0);
        let directory = if kind == Kind::Directory { DIRECTORY } else { 0 };
        let (slot, birth, count) = (u64::from(slot.0), u64::from(birth.0), u64::from(count));
        InodeId(slot << SLOT_SHIFT | birth << BIRTH_SHIFT | count << COUNT_SHIFT | directory)
    }

    /// The home of the inode's attributes.
    #[inline]
    pub fn slot(self) -> Slot {
        Slot((self.0 >> SLOT_SHIFT) as u16)
    }

    /// The birth of the inode; 0 for the root.
    #[inline]
    pub fn birth(self) -> Birth {
        Birth((self.0 >> BIRTH_SHIFT) as u32 & Birth::MAX.0)
    }

    /// All ids of some slots.
    pub fn of_slots(slots: RangeInclusive<Slot>) -> RangeInclusive<InodeId> {
        let first = |slot: &Slot| u64::from(slot.0) << SLOT_SHIFT;
        InodeId(first(slots.start()))..=InodeId(first(slots.end()) | ((1 << SLOT_SHIFT) - 1))
    }

    /// The id without its slot. It grows with every inode that is born in a slot.
    #[inline]
    pub fn within_slot(self) -> u64 {
        self.0 & ((1 << SLOT_SHIFT) - 1)
    }

    /// Whether the inode is a directory.
    #[inline]
    pub fn is_directory(self) -> bool {
        self.0 & DIRECTORY != 0
    }

    /// Whether an inode of this kind can have this id.
    #[inline]
    pub fn is_of(self, kind: Kind) -> bool {
        self.is_directory() == (kind == Kind::Directory)
    }

    /// Whether this names an inode at all.
    pub fn is_some(self) -> bool {
        self.0 != 0
    }
}

/// What kind of role an address belongs to. Reserved numbers: 7 log, 8 index, 9 host, 10 keeper.
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
    /// A path node.
    Path,
    /// What decides which names a switch answers.
    Controller,
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

    /// Address of a path node.
    pub fn path(number: u16) -> NodeId {
        NodeId(5 << 24 | u32::from(number))
    }

    /// Address of the controller of the host of this number, which has the coordinator.
    pub fn controller(number: u16) -> NodeId {
        NodeId(6 << 24 | u32::from(number))
    }

    /// The class of the role, or nothing for an address of no known class.
    pub fn class(self) -> Option<NodeClass> {
        match self.0 >> 24 {
            1 => Some(NodeClass::Shard),
            2 => Some(NodeClass::Data),
            3 => Some(NodeClass::Session),
            4 => Some(NodeClass::Switch),
            5 => Some(NodeClass::Path),
            6 => Some(NodeClass::Controller),
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

impl SessionNumber {
    /// No session.
    pub const NONE: SessionNumber = SessionNumber(0);
    /// The last one.
    pub const MAX: SessionNumber = SessionNumber(SESSION_NUMBER_MAX);

    /// How often the session's id was given out before.
    fn lap(self) -> u64 {
        self.0.saturating_sub(1) / u64::from(SESSION_MAX)
    }

    /// Its id; 0 for none.
    pub fn id(self) -> SessionId {
        SessionId((self.0 - self.lap() * u64::from(SESSION_MAX)) as u32)
    }

    /// The number of its so-many-th request, from 1 on.
    pub fn request(self, count: RequestSeq) -> RequestSeq {
        RequestSeq(self.lap() << REQUEST_BITS | count.0 & ((1 << REQUEST_BITS) - 1))
    }

    /// Which of its requests has this number; none if it is another session's.
    pub fn count_of(self, request: RequestSeq) -> Option<RequestSeq> {
        (request.0 >> REQUEST_BITS == self.lap()).then_some(RequestSeq(request.0 & ((1 << REQUEST_BITS) - 1)))
    }

    /// The session with this id that makes requests of such numbers.
    pub fn of(session: SessionId, request: RequestSeq) -> SessionNumber {
        SessionNumber((request.0 >> REQUEST_BITS) * u64::from(SESSION_MAX) + u64::from(session.0))
    }
}

impl Stamp {
    /// Whether a clock at wall time `wall_ns` follows it: it is not further ahead than clocks may be apart. What was followed before says
    /// nothing, or many stamps would lead anywhere.
    #[inline]
    pub fn is_believed_at(self, wall_ns: u64) -> bool {
        self.0 <= wall_ns.saturating_add(CLOCK_SKEW_MS_MAX * 1_000_000)
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
    fn inode_ids_carry_slot_birth_count_and_whether_they_are_directories() {
        let id = |kind| InodeId::new(Slot(0xabcd), Birth(0x12345), 0x6789, kind);
        let file = id(Kind::File);
        assert_eq!(file.0, (0xa_bcd1_2345_6789) << 1);
        assert_eq!((file.slot(), file.birth()), (Slot(0xabcd), Birth(0x12345)));
        assert_eq!(id(Kind::Directory).0, file.0 + 1);
        assert!(!file.is_directory() && file.is_of(Kind::Socket) && !file.is_of(Kind::Directory));
        assert_eq!(InodeId::ROOT.slot(), Slot(0));
        assert!(InodeId::ROOT.is_some() && !InodeId::NONE.is_some() && InodeId::ROOT.is_directory());
    }

    #[test]
    fn inode_ids_are_below_what_a_double_can_tell_apart() {
        let last = InodeId::new(Slot(u16::MAX), Birth::MAX, u16::MAX, Kind::Directory);
        assert_eq!(last.0, (1 << 53) - 1);
        assert_eq!((last.0 as f64 as u64, (last.0 - 1) as f64 as u64), (last.0, last.0 - 1));
        assert_eq!(InodeId::from_bytes(&last.to_bytes()), Ok(last));
        assert_eq!(InodeId::from_bytes(&(last.0 + 1).to_le_bytes()), Err(WireError::Bad("InodeId")));
        assert_eq!(Birth::MAX.next(), Birth::NEVER);
    }

    /// They were those of slot 0 alone, or none, as long as a range was made of other bits than a slot.
    #[test]
    fn ids_of_some_slots_are_those_of_no_others() {
        for slots in [Slot(0)..=Slot(0), Slot(3)..=Slot(1023), Slot(1024)..=Slot(2047), Slot(u16::MAX)..=Slot(u16::MAX)]
        {
            let ids = InodeId::of_slots(slots.clone());
            for slot in [0, 1, 2, 3, 1023, 1024, 1500, 2047, 2048, u16::MAX].map(Slot) {
                for id in [(Birth(1), 0, Kind::File), (Birth::MAX, u16::MAX, Kind::Directory)] {
                    let id = InodeId::new(slot, id.0, id.1, id.2);
                    assert_eq!(ids.contains(&id), slots.contains(&slot), "{id:?} in {slots:?}");
                }
            }
        }
        assert!(InodeId::of_slots(Slot(0)..=Slot(0)).contains(&InodeId::ROOT));
    }

    #[test]
    fn ids_of_a_slot_grow_with_births_and_counts() {
        let id = |birth, count, kind| InodeId::new(Slot(9), Birth(birth), count, kind).within_slot();
        assert!(id(1, u16::MAX, Kind::Directory) < id(2, 0, Kind::File));
        assert!(id(2, 0, Kind::Directory) < id(2, 1, Kind::File));
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
    fn sessions_with_the_same_id_are_told_apart_by_their_requests() {
        let all = u64::from(SESSION_MAX);
        for (number, id) in [(1, 1), (all, all), (all + 1, 1), (2 * all, all), (SESSION_NUMBER_MAX, all)] {
            let number = SessionNumber(number);
            assert_eq!(u64::from(number.id().0), id, "{number:?}");
            for count in [RequestSeq(1), RequestSeq((1 << REQUEST_BITS) - 1)] {
                let request = number.request(count);
                assert_eq!((SessionNumber::of(number.id(), request), number.count_of(request)), (number, Some(count)));
            }
            let later = SessionNumber(number.0 + all);
            assert!(later.request(RequestSeq(1)) > number.request(RequestSeq(u64::MAX)) || later > SessionNumber::MAX);
            assert_eq!(later.count_of(number.request(RequestSeq(1))), None);
        }
        assert_eq!(SessionNumber::NONE.id(), SessionId(0));
        let beyond = (SESSION_NUMBER_MAX + 1).to_le_bytes();
        assert_eq!(SessionNumber::from_bytes(&beyond), Err(WireError::Bad("SessionNumber")));
    }

    #[test]
    fn sequences_grow_across_terms() {
        assert!(Term(2).first_seq() > Term(1).first_seq() + 0xffff_ffff);
        assert_eq!(term_of_seq(Term(7).first_seq() + 5), Term(7));
    }
}
