//! The 72-byte header in front of every message (DESIGN §7).

use crate::codec::{Reader, Wire, WireError};
use crate::ids::{NodeId, RequestSeq, Slot, Stamp, Term};
use crate::wire_struct;

/// "On" and version 1.
pub const MAGIC: u32 = 0x0001_6e4f;
/// Bytes of an encoded header.
pub const HEADER_BYTES: usize = 72;

crate::wire_enum! {
    /// Which family a message's body belongs to.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum MessageKind {
        /// [`crate::request::Request`] of a session to a shard.
        1 => Request,
        /// [`crate::reply::Reply`] of a shard to a session.
        2 => Reply,
        /// [`crate::peer::Peer`] between shards; the answer to a call carries the call's `seq` and kind `PeerAnswer`.
        3 => Peer,
        /// Answer to a call between shards or between a shard and a data node.
        4 => PeerAnswer,
        /// [`crate::data::DataRequest`] to a data node.
        5 => Data,
        /// [`crate::data::DataReply`] of a data node.
        6 => DataReply,
    }
}

wire_struct! {
    /// The header. Everything little-endian; 72 bytes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Header {
        /// [`MAGIC`].
        pub magic: u32,
        /// Reserved, 0.
        pub flags: u16,
        /// Message family; the second byte is reserved.
        pub kind: MessageKind,
        /// Reserved, 0.
        pub kind_spare: u8,
        /// Cluster (file system) number: the low half of the fsid.
        pub cluster: u32,
        /// Fragment number; 0 in a whole message.
        pub fragment: u16,
        /// Reserved, 0.
        pub spare: u16,
        /// The sender.
        pub source: NodeId,
        /// Incarnation of the sender's node or session.
        pub incarnation: u32,
        /// The receiver's term as the sender knows it (requests), or the sender's own (replies, peers).
        pub term: Term,
        /// Map epoch under which the sender routed.
        pub map_epoch: u32,
        /// The slot addressed.
        pub slot: Slot,
        /// Reserved, 0.
        pub spare2: u16,
        /// Sequence number of the request, or of the call that this answers.
        pub seq: RequestSeq,
        /// How far behind `seq` the sender's oldest unanswered request is.
        pub oldest_behind: u32,
        /// Position in the invalidation list (path-API clients).
        pub list_position: u32,
        /// Hybrid-logical-clock stamp of the sender.
        pub stamp: Stamp,
        /// Caller's user id (requests).
        pub uid: u32,
        /// Caller's group id (requests).
        pub gid: u32,
        /// CRC-32C of the body where the message leaves its process, else 0.
        pub body_crc: u32,
    }
}

impl Header {
    /// A header of `kind` from `source` with everything else empty.
    pub fn new(kind: MessageKind, source: NodeId, seq: RequestSeq) -> Header {
        Header {
            magic: MAGIC,
            flags: 0,
            kind,
            kind_spare: 0,
            cluster: 0,
            fragment: 0,
            spare: 0,
            source,
            incarnation: 0,
            term: Term(0),
            map_epoch: 1,
            slot: Slot(0),
            spare2: 0,
            seq,
            oldest_behind: 0,
            list_position: 0,
            stamp: Stamp(0),
            uid: 0,
            gid: 0,
            body_crc: 0,
        }
    }

    /// The sequence number of the sender's oldest unanswered request.
    pub fn oldest(&self) -> RequestSeq {
        RequestSeq(self.seq.0.saturating_sub(u64::from(self.oldest_behind)))
    }

    /// Reads and checks a header.
    pub fn read(r: &mut Reader<'_>) -> Result<Header, WireError> {
        let header = Header::take(r)?;
        if header.magic != MAGIC {
            return Err(WireError::Foreign("magic or version"));
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_72_bytes() {
        let mut header = Header::new(MessageKind::Request, NodeId(5), RequestSeq(100));
        header.oldest_behind = 10;
        let bytes = header.to_bytes();
        assert_eq!(bytes.len(), HEADER_BYTES);
        assert_eq!(Header::read(&mut Reader::new(&bytes)), Ok(header.clone()));
        assert_eq!(header.oldest(), RequestSeq(90));
        assert!(Header::read(&mut Reader::new(&[0; 72])).is_err());
    }
}
