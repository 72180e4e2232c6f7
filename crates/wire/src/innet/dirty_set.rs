//! The header of the dirty set, and the fingerprints that it is about (rules D-18 to D-34 of dataplane/SPEC.md).

use super::common::{codes, header};
use super::{INNET_VERSION, InNet, Structure};
use crate::codec::{Reader, Wire, WireError};
use crate::ids::{InodeId, NodeId, ShardId, Slot, Term, TrackingEpoch};

/// Bits of a dirty set's index.
pub const INDEX_BITS: u32 = 17;

header! {
    /// The header of the dirty set. `epoch` is the tracking epoch, and an insert is acknowledged to `shard`.
    pub struct DirtySet: 40 {
        /// Upper 17 bits of the fingerprint; higher bits are 0.
        16 => pub index: u32,
        /// Lower 32 bits of the fingerprint, never 0.
        20 => pub tag: u32,
        /// Remove: term of the shard that sends. Insert: the mark's token ([`MarkKey`](crate::secrets::MarkKey)), which the switch does
        /// not look at.
        24 => pub term: u32,
        /// Remove: its counter, from 1. Insert: the mark generation, which the switch does not look at.
        28 => pub sequence: u32,
        /// Reserved, 0.
        32 => pub spare_0: u32,
        /// Reserved, 0.
        36 => pub spare_1: u32,
    }
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

impl DirtySet {
    /// All fields 0: a header of no operation.
    pub(super) const NONE: DirtySet = DirtySet {
        code: 0,
        result: 0,
        epoch: 0,
        version: 0,
        flags: 0,
        shard: 0,
        cluster: 0,
        destination: 0,
        index: 0,
        tag: 0,
        term: 0,
        sequence: 0,
        spare_0: 0,
        spare_1: 0,
    };

    fn new(op: DirtySetOp, cluster: u32, epoch: TrackingEpoch, fingerprint: Fingerprint) -> DirtySet {
        DirtySet {
            code: Structure::DirtySet.code(op as u8),
            epoch: epoch.0,
            version: INNET_VERSION,
            cluster,
            index: fingerprint.index(),
            tag: fingerprint.tag(),
            ..DirtySet::default()
        }
    }

    /// The operation, if it is one of the dirty set.
    #[inline]
    pub fn op(&self) -> Option<DirtySetOp> {
        (Structure::of_byte(self.code) == Some(Structure::DirtySet))
            .then(|| DirtySetOp::of_code(self.code & 0xf))
            .flatten()
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
}

impl InNet {
    /// A request that asks for the state of a directory on its way to `destination`.
    pub fn query(cluster: u32, epoch: TrackingEpoch, fingerprint: Fingerprint, destination: NodeId) -> InNet {
        let query = DirtySet::new(DirtySetOp::Query, cluster, epoch, fingerprint);
        InNet::DirtySet(DirtySet { destination: destination.0, ..query })
    }

    /// A mark of `shard` for its entries up to mark generation `generation`, known by its `token`; on success also goes to `client`.
    pub fn insert(
        cluster: u32,
        epoch: TrackingEpoch,
        fingerprint: Fingerprint,
        (shard, token, generation): (ShardId, u32, u32),
        client: Option<NodeId>,
    ) -> InNet {
        InNet::DirtySet(DirtySet {
            shard: shard.0,
            term: token,
            sequence: generation,
            destination: client.map_or(0, |client| client.0),
            ..DirtySet::new(DirtySetOp::Insert, cluster, epoch, fingerprint)
        })
    }

    /// A remove of (`shard`, `term`) with this counter, forwarded to one node.
    pub fn remove(
        cluster: u32,
        epoch: TrackingEpoch,
        fingerprint: Fingerprint,
        (shard, term, counter): (ShardId, Term, u32),
        destination: NodeId,
    ) -> InNet {
        InNet::DirtySet(DirtySet {
            shard: shard.0,
            term: term.0,
            sequence: counter,
            destination: destination.0,
            ..DirtySet::new(DirtySetOp::Remove, cluster, epoch, fingerprint)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Birth;
    use crate::innet::{Common, INNET_COMMON_BYTES};
    use crate::inode::Kind;

    #[test]
    fn fields_lie_side_by_side_and_fill_the_header() {
        let mut next = 0;
        for field in DirtySet::FIELDS {
            assert_eq!(field.at, next, "{}", field.name);
            assert_eq!(field.at % field.bytes, 0, "{} is aligned", field.name);
            next = field.at + field.bytes;
        }
        assert_eq!((next, DirtySet::BYTES), (40, 40));
        let (common, own) = DirtySet::FIELDS.split_at(Common::FIELDS.len());
        assert_eq!((common, own[0].at), (Common::FIELDS, INNET_COMMON_BYTES));
    }

    #[test]
    fn the_header_is_in_network_order() {
        let header = DirtySet {
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
        assert_eq!(DirtySet::of_bytes(&bytes), header);
        assert_eq!(InNet::DirtySet(header).bytes()[..], bytes);
        assert_eq!(header.common().bytes(), bytes[..16]);
        let mut payload = bytes.to_vec();
        payload.extend_from_slice(b"message");
        assert_eq!(InNet::split(&payload), Ok((InNet::DirtySet(header), &b"message"[..])));
        for short in [0, 1, 15, 16, 39] {
            assert_eq!(InNet::split(&payload[..short]), Err(WireError::Truncated));
        }
        payload[4] = 2;
        assert!(matches!(InNet::split(&payload), Err(WireError::Foreign("version of the in-network header"))));
        payload[0] = 0x52;
        assert!(matches!(InNet::split(&payload), Err(WireError::Foreign("structure of the in-network header"))));
    }

    #[test]
    fn constructors_fill_what_their_operation_needs() {
        let (epoch, fingerprint) = (TrackingEpoch(7), Fingerprint::new(5, 9).unwrap());
        let (shard, client) = (ShardId(2), NodeId(0x0300_0001));
        let insert = InNet::insert(1, epoch, fingerprint, (shard, 4, 11), Some(client));
        assert_eq!((insert.op(), insert.result(), insert.destination), (Some(DirtySetOp::Insert), None, client.0));
        assert_eq!(insert.fingerprint(), Some(fingerprint));
        let mark = InNet::insert(1, epoch, fingerprint, (shard, 4, 11), None);
        assert_eq!((mark.destination, mark.sequence), (0, 11));
        let remove = InNet::remove(1, epoch, fingerprint, (shard, Term(4), 12), NodeId::shard(ShardId(3)));
        assert_eq!((remove.op(), remove.term, remove.sequence), (Some(DirtySetOp::Remove), 4, 12));
        let query = InNet::query(1, epoch, fingerprint, NodeId::shard(ShardId(3)));
        assert_eq!((query.op(), query.epoch, query.cluster), (Some(DirtySetOp::Query), 7, 1));
        assert_eq!(DirtySet { code: 0x21, ..*query }.op(), None, "another structure");
    }

    /// These values decide where a directory is tracked: all parts of a cluster must agree.
    #[test]
    fn fingerprints_are_frozen() {
        let directory = InodeId::new(Slot(0xabcd), Birth(3), 77, Kind::Directory);
        let fingerprint = Fingerprint::of(directory);
        assert_eq!(fingerprint.tag() >> 16, 0xabcd, "the slot is part of the tag");
        assert_eq!((Fingerprint::of(InodeId::ROOT), fingerprint), FROZEN);
        assert_eq!(fingerprint.narrowed(3).index(), fingerprint.index() & 7);
        assert!(Fingerprint::new(1 << 17, 1).is_err() && Fingerprint::new(1, 0).is_err());
        let indexes: std::collections::BTreeSet<u32> =
            (0..4096).map(|n| Fingerprint::of(InodeId::new(Slot(9), Birth(1), n, Kind::Directory)).index()).collect();
        assert!(indexes.len() > 3900, "ids that differ little are spread: {}", indexes.len());
    }
    const FROZEN: (Fingerprint, Fingerprint) =
        (Fingerprint { index: 33523, tag: 24771 }, Fingerprint { index: 94116, tag: 2882387461 });
}
