//! The header of the visibility table (rules D-45 to D-66 of dataplane/SPEC.md): files whose writes have returned and are not applied yet.

use super::common::{codes, header};
use super::{INNET_VERSION, InNet, Structure};
use crate::codec::WireError;
use crate::ids::{NodeId, ShardId, TrackingEpoch};

/// Bits of an entry's number.
pub const ENTRY_BITS: u32 = 16;
/// Bytes that a data node leaves with an entry.
pub const METADATA_BYTES: usize = 96;

/// What a data node says of the writes that it has not had applied: bytes that no switch reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata(pub [u8; METADATA_BYTES]);

impl Default for Metadata {
    fn default() -> Metadata {
        Metadata([0; METADATA_BYTES])
    }
}

/// As the other fields of a header are written and read.
impl Metadata {
    #[inline]
    fn to_be_bytes(self) -> [u8; METADATA_BYTES] {
        self.0
    }

    #[inline]
    fn from_be_bytes(bytes: [u8; METADATA_BYTES]) -> Metadata {
        Metadata(bytes)
    }
}

header! {
    /// The header of the visibility table. `epoch` is that of the table, and `shard` the home of the file: an install is told to it.
    pub struct Visibility: 124 {
        /// Number of the entry, 16 bits; higher bits are 0.
        16 => pub index: u32,
        /// Names the file among those of the entry, never 0.
        20 => pub fingerprint: u32,
        /// Install, clear: lower 32 bits of a position of the data node, never 0. They are compared serially.
        24 => pub ts: u32,
        /// Install: what the entry is to keep. Look: 0 as sent; what the entry keeps, if it is pending.
        28 => pub metadata: Metadata,
    }
}

codes! {
    /// Operations of the visibility table.
    pub enum VisibilityOp {
        /// Are writes of this file pending, and which?
        1 => Look,
        /// They are, and these: the entry is overwritten if this is newer.
        2 => Install,
        /// They are applied up to a position; the packet goes on.
        3 => Clear,
    }
}

codes! {
    /// What the switch answers.
    pub enum VisibilityResult {
        /// Look: nothing of this file is pending, and the table is complete.
        1 => None,
        /// Look: writes are pending, and the metadata is the entry's.
        2 => Pending,
        /// Look: the table is of another epoch or not complete.
        3 => Unknown,
        /// Install: the entry is this one's.
        4 => Installed,
        /// Install: the entry has a newer one, or this one was cleared; nothing was changed.
        5 => Older,
        /// Install: of another epoch; nothing was changed.
        6 => OtherEpoch,
        /// Clear: the entry was of this position, and is free.
        7 => Cleared,
        /// Clear: the entry is of another position, or was free; nothing was changed.
        8 => Kept,
    }
}

/// Which entry is meant, and for which file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EntryName {
    index: u32,
    fingerprint: u32,
}

impl EntryName {
    /// The file of this fingerprint in the entry of this number.
    ///
    /// # Errors
    /// A number above 16 bits, or the fingerprint 0, which stands for an entry that is not occupied.
    pub fn new(index: u32, fingerprint: u32) -> Result<EntryName, WireError> {
        if index >> ENTRY_BITS != 0 {
            return Err(WireError::Bad("index of a visibility entry"));
        }
        if fingerprint == 0 {
            return Err(WireError::Bad("fingerprint of a visibility entry"));
        }
        Ok(EntryName { index, fingerprint })
    }

    /// Number of the entry.
    pub fn index(self) -> u32 {
        self.index
    }

    /// What tells its files apart, never 0.
    pub fn fingerprint(self) -> u32 {
        self.fingerprint
    }
}

impl Visibility {
    fn new(op: VisibilityOp, cluster: u32, epoch: TrackingEpoch, name: EntryName) -> Visibility {
        Visibility {
            code: Structure::Visibility.code(op as u8),
            epoch: epoch.0,
            version: INNET_VERSION,
            cluster,
            index: name.index(),
            fingerprint: name.fingerprint(),
            ..Visibility::default()
        }
    }

    /// The operation, if it is one of the visibility table.
    #[inline]
    pub fn op(&self) -> Option<VisibilityOp> {
        (Structure::of_byte(self.code) == Some(Structure::Visibility))
            .then(|| VisibilityOp::of_code(self.code & 0xf))
            .flatten()
    }

    /// What the switch answered; nothing if it did not.
    #[inline]
    pub fn result(&self) -> Option<VisibilityResult> {
        VisibilityResult::of_code(self.result)
    }

    /// Of an install: whether it is the copy that the file's home gets.
    #[inline]
    pub fn is_for_home(&self) -> bool {
        self.destination == NodeId::shard(ShardId(self.shard)).0
    }

    /// The entry and the file, if there can be such.
    #[inline]
    pub fn name(&self) -> Option<EntryName> {
        EntryName::new(self.index, self.fingerprint).ok()
    }
}

impl InNet {
    /// A request that asks on its way to the home of a file whether writes of it are pending.
    pub fn look(cluster: u32, epoch: TrackingEpoch, name: EntryName, home: NodeId) -> InNet {
        let look = Visibility::new(VisibilityOp::Look, cluster, epoch, name);
        InNet::Visibility(Visibility { destination: home.0, ..look })
    }

    /// The writes of a file up to position `ts` are pending, and `metadata` says which: told to its home and, if it takes effect, to who
    /// wrote. `ts` is the lower half of a position and not 0.
    pub fn install(
        cluster: u32,
        epoch: TrackingEpoch,
        name: EntryName,
        (ts, metadata): (u32, Metadata),
        home: ShardId,
        writer: Option<NodeId>,
    ) -> InNet {
        InNet::Visibility(Visibility {
            shard: home.0,
            ts,
            metadata,
            destination: writer.map_or(0, |writer| writer.0),
            ..Visibility::new(VisibilityOp::Install, cluster, epoch, name)
        })
    }

    /// The home has applied the writes of a file up to position `ts`, which it tells their data node.
    pub fn clear(
        cluster: u32,
        epoch: TrackingEpoch,
        name: EntryName,
        (home, ts): (ShardId, u32),
        destination: NodeId,
    ) -> InNet {
        InNet::Visibility(Visibility {
            shard: home.0,
            ts,
            destination: destination.0,
            ..Visibility::new(VisibilityOp::Clear, cluster, epoch, name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::innet::{Common, INNET_BYTES_MAX, INNET_COMMON_BYTES};

    #[test]
    fn fields_lie_side_by_side_and_fill_the_header() {
        let mut next = 0;
        for field in Visibility::FIELDS {
            assert_eq!(field.at, next, "{}", field.name);
            assert_eq!(field.at % field.bytes.min(4), 0, "{} is aligned", field.name);
            next = field.at + field.bytes;
        }
        assert_eq!((next, Visibility::BYTES, INNET_BYTES_MAX), (124, 124, 124));
        let (common, own) = Visibility::FIELDS.split_at(Common::FIELDS.len());
        assert_eq!((common, own[0].at), (Common::FIELDS, INNET_COMMON_BYTES));
    }

    #[test]
    fn the_header_is_in_network_order() {
        let metadata = Metadata(std::array::from_fn(|at| at as u8 + 0x20));
        let header = Visibility {
            code: 0x22,
            result: 4,
            epoch: 0x0102,
            version: 1,
            flags: 1,
            shard: 0x0304,
            cluster: 0x0506_0708,
            destination: 0x0300_0009,
            index: 0x0a0b,
            fingerprint: 0x0c0d_0e0f,
            ts: 0x1011_1213,
            metadata,
        };
        let bytes = header.bytes();
        let expected = "220401020101030405060708030000090000\
                        0a0b0c0d0e0f10111213";
        assert_eq!(bytes[..28].iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
        assert_eq!(bytes[28..], metadata.0);
        assert_eq!(Visibility::of_bytes(&bytes), header);
        assert_eq!(InNet::Visibility(header).bytes()[..], bytes);
        assert_eq!(InNet::Visibility(header).common().bytes(), bytes[..16]);
        let mut payload = bytes.to_vec();
        payload.extend_from_slice(b"message");
        assert_eq!(InNet::split(&payload), Ok((InNet::Visibility(header), &b"message"[..])));
        for short in [0, 1, 15, 16, 40, 123] {
            assert_eq!(InNet::split(&payload[..short]), Err(WireError::Truncated));
        }
        payload[4] = 2;
        assert!(matches!(InNet::split(&payload), Err(WireError::Foreign("version of the in-network header"))));
    }

    #[test]
    fn constructors_fill_what_their_operation_needs() {
        let (epoch, name) = (TrackingEpoch(7), EntryName::new(5, 9).expect("a name"));
        let (home, session, data) = (ShardId(2), NodeId(0x0300_0001), NodeId(0x0200_0001));
        let of = |innet| {
            let InNet::Visibility(header) = innet else { panic!("{innet:?}") };
            assert_eq!((header.epoch, header.cluster, header.name(), header.result()), (7, 1, Some(name), None));
            header
        };
        let look = of(InNet::look(1, epoch, name, NodeId::shard(home)));
        assert_eq!((look.op(), look.destination), (Some(VisibilityOp::Look), NodeId::shard(home).0));
        let metadata = Metadata([7; METADATA_BYTES]);
        let install = of(InNet::install(1, epoch, name, (11, metadata), home, Some(session)));
        assert_eq!((install.op(), install.shard, install.ts), (Some(VisibilityOp::Install), 2, 11));
        assert_eq!((install.destination, install.metadata), (session.0, metadata));
        assert_eq!(of(InNet::install(1, epoch, name, (11, metadata), home, None)).destination, 0);
        let clear = of(InNet::clear(1, epoch, name, (home, 11), data));
        assert_eq!((clear.op(), clear.shard, clear.ts), (Some(VisibilityOp::Clear), 2, 11));
        assert_eq!(clear.destination, data.0);
        assert_eq!(Visibility { code: 0x11, ..look }.op(), None, "another structure");
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        assert!(EntryName::new(1 << 16, 1).is_err() && EntryName::new(1, 0).is_err());
        let last = EntryName::new(0xffff, u32::MAX).expect("a name");
        assert_eq!((last.index(), last.fingerprint()), (0xffff, u32::MAX));
    }

    /// To who knows the dirty set alone it is no operation, no answer and no fingerprint.
    #[test]
    fn it_is_no_header_of_the_dirty_set() {
        let name = EntryName::new(5, 9).expect("a name");
        let installed = InNet::install(1, TrackingEpoch(7), name, (11, Metadata::default()), ShardId(2), None);
        let installed = installed.switched(VisibilityResult::Installed as u8, 5);
        assert_eq!(installed.common().result, 4);
        assert_eq!((installed.op(), installed.result(), installed.fingerprint()), (None, None, None));
    }
}
