//! The in-network header: what a programmable switch reads and writes (design.md, "Packets"; rules in dataplane/SPEC.md).
//!
//! It comes first in the UDP payload, before the [`crate::Header`], and is in network byte order. [`FIELDS`] is its only
//! description: the codec below, the headers for C and P4 and the table of dataplane/SPEC.md are made from it or compared with it.

use crate::codec::{Reader, Wire, WireError};
use crate::ids::{InodeId, NodeId, ShardId, Slot, Term, TrackingEpoch};

/// Bytes of the header.
pub const INNET_BYTES: usize = 40;
/// Bytes that the headers of all structures share.
pub const INNET_COMMON_BYTES: usize = 16;
/// Version of this layout.
pub const INNET_VERSION: u8 = 1;
/// UDP port of packets that begin with an in-network header, unless configured otherwise.
pub const INNET_UDP_PORT: u16 = 4797;
/// Bits of a dirty set's index.
pub const INDEX_BITS: u32 = 17;
/// Number of the structure *dirty set*. 2 is kept for the visibility table, 3 for the cache.
pub const STRUCTURE_DIRTY_SET: u8 = 1;

/// A field of the header, for generators and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InNetField {
    /// Its name in every language.
    pub name: &'static str,
    /// Its first byte.
    pub at: usize,
    /// Its length, bytes.
    pub bytes: usize,
}

/// A struct whose fields are big-endian integers at these byte positions.
macro_rules! header {
    ($(#[$m:meta])* pub struct $name:ident { $($(#[$fm:meta])* $at:literal => pub $f:ident : $t:ty),* $(,)? }) => {
        $(#[$m])*
        pub struct $name { $($(#[$fm])* pub $f: $t),* }
        /// All fields, by position.
        pub const FIELDS: &[InNetField] =
            &[$(InNetField { name: stringify!($f), at: $at, bytes: size_of::<$t>() }),*];
        impl $name {
            /// The encoded header.
            #[inline]
            pub fn bytes(&self) -> [u8; INNET_BYTES] {
                let mut bytes = [0; INNET_BYTES];
                $(bytes[$at..$at + size_of::<$t>()].copy_from_slice(&self.$f.to_be_bytes());)*
                bytes
            }
            /// The fields of an encoded header, as they are: nothing is checked.
            #[inline]
            pub fn of_bytes(bytes: &[u8; INNET_BYTES]) -> $name {
                $name { $($f: <$t>::from_be_bytes(*bytes[$at..].first_chunk().expect("inside the header"))),* }
            }
        }
    };
}

header! {
    /// The header of the dirty set.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct InNet {
        /// Structure (high four bits) and operation.
        0 => pub code: u8,
        /// What the switch answers, see [`InNetResult`]; 0 until it has.
        1 => pub result: u8,
        /// Tracking epoch of the sender.
        2 => pub epoch: u16,
        /// [`INNET_VERSION`].
        4 => pub version: u8,
        /// Reserved, 0.
        5 => pub flags: u8,
        /// Insert and remove: the shard that sends, to which an insert is acknowledged.
        6 => pub shard: u16,
        /// Number of the file system.
        8 => pub cluster: u32,
        /// Node to which the packet goes, 0 for none (insert).
        12 => pub destination: u32,
        /// Upper 17 bits of the fingerprint; higher bits are 0.
        16 => pub index: u32,
        /// Lower 32 bits of the fingerprint, never 0.
        20 => pub tag: u32,
        /// Insert and remove: term of the shard that sends.
        24 => pub term: u32,
        /// Remove: its counter, from 1. Insert: the mark generation, which the switch does not look at.
        28 => pub sequence: u32,
        /// Reserved, 0.
        32 => pub spare_0: u32,
        /// Reserved, 0.
        36 => pub spare_1: u32,
    }
}

/// An enum of one-byte codes.
macro_rules! codes {
    ($(#[$m:meta])* pub enum $name:ident { $($(#[$vm:meta])* $code:literal => $v:ident),* $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$vm])* $v = $code),* }
        impl $name {
            /// Every value.
            pub const ALL: &[$name] = &[$($name::$v),*];
            /// The value of a code.
            #[inline]
            pub fn of_code(code: u8) -> Option<$name> {
                match code { $($code => Some($name::$v),)* _ => None }
            }
        }
    };
}

codes! {
    /// Operations of the dirty set.
    pub enum DirtySetOp {
        /// Is the fingerprint in the set?
        1 => Query,
        /// Put it into the set: a *mark* (R-1).
        2 => Insert,
        /// Take it out, and forward the packet to whom it asks for entries.
        3 => Remove,
    }
}

codes! {
    /// What the switch answers.
    pub enum InNetResult {
        /// Query: not in the set, and the set is complete.
        1 => Normal,
        /// Query: in the set.
        2 => Scattered,
        /// Query: the set is of another tracking epoch or not complete; to be taken for scattered.
        3 => Unknown,
        /// Insert: the fingerprint is in the set.
        4 => Marked,
        /// Insert: no room; nothing was changed.
        5 => Full,
        /// Insert or remove: of another tracking epoch; the set was not changed.
        6 => OtherEpoch,
        /// Remove: the fingerprint is not in the set any more.
        7 => Removed,
    }
}

/// Names a group of directories in the dirty set: index 17 bits, tag 32 bits (slot 16, hash 16). Equal fingerprints imply the
/// same slot, hence the same owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fingerprint {
    index: u32,
    tag: u32,
}

impl Wire for Fingerprint {
    fn put(&self, out: &mut Vec<u8>) {
        self.index.put(out);
        self.tag.put(out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        Fingerprint::new(u32::take(r)?, u32::take(r)?)
    }
}

impl Fingerprint {
    /// The fingerprint of a directory. Frozen: it decides which switch tracks it.
    pub fn of(directory: InodeId) -> Fingerprint {
        let mut x = directory.0 ^ (directory.0 >> 32);
        x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
        x ^= x >> 32;
        x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let hash = (x >> 31) as u32 & 0xffff;
        let tag = u32::from(directory.slot().0) << 16 | hash;
        Fingerprint { index: (x >> 47) as u32, tag: if tag == 0 { 1 } else { tag } }
    }

    /// A fingerprint of these parts.
    ///
    /// # Errors
    /// An index above 17 bits, or the tag 0, which stands for an empty register.
    pub fn new(index: u32, tag: u32) -> Result<Fingerprint, WireError> {
        if index >> INDEX_BITS != 0 {
            return Err(WireError::Bad("index of a fingerprint"));
        }
        if tag == 0 {
            return Err(WireError::Bad("tag of a fingerprint"));
        }
        Ok(Fingerprint { index, tag })
    }

    /// Its upper 17 bits: the set in which it is kept, and by its prefix the switch.
    pub fn index(self) -> u32 {
        self.index
    }

    /// Its lower 32 bits, never 0.
    pub fn tag(self) -> u32 {
        self.tag
    }

    /// The slot of all its directories.
    pub fn slot(self) -> Slot {
        Slot((self.tag >> 16) as u16)
    }

    /// The same tag at an index of only `bits` bits: what a small or a deliberately overflowing dirty set is used with.
    pub fn narrowed(self, bits: u32) -> Fingerprint {
        Fingerprint { index: self.index & ((1 << bits.min(INDEX_BITS)) - 1), tag: self.tag }
    }
}

impl InNet {
    fn new(op: DirtySetOp, cluster: u32, epoch: TrackingEpoch, fingerprint: Fingerprint) -> InNet {
        InNet {
            code: STRUCTURE_DIRTY_SET << 4 | op as u8,
            epoch: epoch.0,
            version: INNET_VERSION,
            cluster,
            index: fingerprint.index(),
            tag: fingerprint.tag(),
            ..InNet::default()
        }
    }

    /// A request that asks for the state of a directory on its way to `destination`.
    pub fn query(cluster: u32, epoch: TrackingEpoch, fingerprint: Fingerprint, destination: NodeId) -> InNet {
        InNet { destination: destination.0, ..InNet::new(DirtySetOp::Query, cluster, epoch, fingerprint) }
    }

    /// A mark of (`shard`, `term`) for its entries up to mark generation `generation`; on success also goes to `client`.
    pub fn insert(
        cluster: u32,
        epoch: TrackingEpoch,
        fingerprint: Fingerprint,
        (shard, term, generation): (ShardId, Term, u32),
        client: Option<NodeId>,
    ) -> InNet {
        InNet {
            shard: shard.0,
            term: term.0,
            sequence: generation,
            destination: client.map_or(0, |client| client.0),
            ..InNet::new(DirtySetOp::Insert, cluster, epoch, fingerprint)
        }
    }

    /// A remove of (`shard`, `term`) with this counter, forwarded to one node.
    pub fn remove(
        cluster: u32,
        epoch: TrackingEpoch,
        fingerprint: Fingerprint,
        (shard, term, counter): (ShardId, Term, u32),
        destination: NodeId,
    ) -> InNet {
        InNet {
            shard: shard.0,
            term: term.0,
            sequence: counter,
            destination: destination.0,
            ..InNet::new(DirtySetOp::Remove, cluster, epoch, fingerprint)
        }
    }

    /// The operation, if it is one of the dirty set.
    #[inline]
    pub fn op(&self) -> Option<DirtySetOp> {
        (self.code >> 4 == STRUCTURE_DIRTY_SET).then(|| DirtySetOp::of_code(self.code & 0xf)).flatten()
    }

    /// What the switch answered; nothing if it did not.
    #[inline]
    pub fn result(&self) -> Option<InNetResult> {
        InNetResult::of_code(self.result)
    }

    /// The fingerprint, if it is one.
    #[inline]
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        Fingerprint::new(self.index, self.tag).ok()
    }

    /// Splits a received payload into header and message.
    ///
    /// # Errors
    /// Too few bytes for a header, or a header of another version.
    pub fn split(payload: &[u8]) -> Result<(InNet, &[u8]), WireError> {
        let (header, message) = payload.split_first_chunk().ok_or(WireError::Truncated)?;
        let header = InNet::of_bytes(header);
        if header.version != INNET_VERSION {
            return Err(WireError::Foreign("version of the in-network header"));
        }
        Ok((header, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Slot;

    #[test]
    fn fields_lie_side_by_side_and_fill_the_header() {
        let mut next = 0;
        for field in FIELDS {
            assert_eq!(field.at, next, "{}", field.name);
            assert_eq!(field.at % field.bytes, 0, "{} is aligned", field.name);
            next = field.at + field.bytes;
        }
        assert_eq!(next, INNET_BYTES);
        assert!(FIELDS.iter().any(|field| field.at == INNET_COMMON_BYTES), "a field begins after the common part");
    }

    #[test]
    fn the_header_is_in_network_order() {
        let header = InNet {
            code: 0x12,
            result: 4,
            epoch: 0x0102,
            version: 1,
            flags: 1,
            shard: 0x0304,
            cluster: 0x0506_0708,
            destination: 0x0300_0009,
            index: 0x1_0a0b,
            tag: 0x0c0d_0e0f,
            term: 0x0010_1112,
            sequence: 0x1314_1516,
            spare_0: 0x1718_191a,
            spare_1: 0x1b1c_1d1e,
        };
        let bytes = header.bytes();
        let expected = "12040102010103040506070803000009\
                        00010a0b0c0d0e0f0010111213141516\
                        1718191a1b1c1d1e";
        assert_eq!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
        assert_eq!(InNet::of_bytes(&bytes), header);
        let mut payload = bytes.to_vec();
        payload.extend_from_slice(b"message");
        assert_eq!(InNet::split(&payload), Ok((header, &b"message"[..])));
        assert_eq!(InNet::split(&payload[..39]), Err(WireError::Truncated));
        payload[4] = 2;
        assert!(matches!(InNet::split(&payload), Err(WireError::Foreign(_))));
    }

    #[test]
    fn constructors_fill_what_their_operation_needs() {
        let (epoch, fingerprint) = (TrackingEpoch(7), Fingerprint::new(5, 9).unwrap());
        let (shard, client) = (ShardId(2), NodeId(0x0300_0001));
        let insert = InNet::insert(1, epoch, fingerprint, (shard, Term(4), 11), Some(client));
        assert_eq!((insert.op(), insert.result(), insert.destination), (Some(DirtySetOp::Insert), None, client.0));
        assert_eq!(insert.fingerprint(), Some(fingerprint));
        let mark = InNet::insert(1, epoch, fingerprint, (shard, Term(4), 11), None);
        assert_eq!((mark.destination, mark.sequence), (0, 11));
        let remove = InNet::remove(1, epoch, fingerprint, (shard, Term(4), 12), NodeId::shard(ShardId(3)));
        assert_eq!((remove.op(), remove.term, remove.sequence), (Some(DirtySetOp::Remove), 4, 12));
        let query = InNet::query(1, epoch, fingerprint, NodeId::shard(ShardId(3)));
        assert_eq!((query.op(), query.epoch, query.cluster), (Some(DirtySetOp::Query), 7, 1));
        assert_eq!(InNet { code: 0x21, ..query }.op(), None, "another structure");
    }

    /// These values decide where a directory is tracked: all parts of a cluster must agree.
    #[test]
    fn fingerprints_are_frozen() {
        let directory = InodeId::new(Slot(0xabcd), Term(3), 77);
        let fingerprint = Fingerprint::of(directory);
        assert_eq!(fingerprint.tag() >> 16, 0xabcd, "the slot is part of the tag");
        assert_eq!((Fingerprint::of(InodeId::ROOT), fingerprint), FROZEN);
        assert_eq!(fingerprint.narrowed(3).index(), fingerprint.index() & 7);
        assert!(Fingerprint::new(1 << 17, 1).is_err() && Fingerprint::new(1, 0).is_err());
        let indexes: std::collections::BTreeSet<u32> =
            (0..4096).map(|n| Fingerprint::of(InodeId::new(Slot(9), Term(1), n)).index()).collect();
        assert!(indexes.len() > 3900, "ids that differ little are spread: {}", indexes.len());
    }
    const FROZEN: (Fingerprint, Fingerprint) =
        (Fingerprint { index: 33523, tag: 24771 }, Fingerprint { index: 83298, tag: 2882395588 });
}
