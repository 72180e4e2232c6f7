//! The 72-byte header in front of every message (design.md, "Packets").

use crate::codec::{Reader, Wire, WireError};
use crate::ids::{NodeId, RecordSeq, RequestSeq, Slot, Stamp, Term, TrackingEpoch};
use crate::tracking::{Form, Switches, Tracking};

/// "On" and version 1.
pub const MAGIC: u32 = 0x0001_6e4f;
/// Bytes of an encoded header.
pub const HEADER_BYTES: usize = 72;

/// The unit of [`Header::until`], ns: about a second, so that 32 bits last for a century.
pub const UNTIL_NS: u64 = 1 << 30;

/// Bits of [`Header::flags`].
pub mod flag {
    /// Of a request: its session has taken again at this shard, in the term that the request names, all locks that it held and all
    /// that it had open there before (often nothing).
    pub const TAKEN: u16 = 1;
}

/// A struct whose fields are integers at these byte positions, encoded and decoded as one block.
macro_rules! header {
    ($(#[$m:meta])* pub struct Header { $($(#[$fm:meta])* $at:literal => pub $f:ident : $t:ty),* $(,)? }) => {
        $(#[$m])*
        pub struct Header { $($(#[$fm])* pub $f: $t),* }
        impl Wire for Header {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.bytes());
            }
            fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
                let bytes: [u8; HEADER_BYTES] = r.array()?;
                Ok(Header { $($f: <$t as Field>::load(&bytes, $at)?),* })
            }
        }
        impl Header {
            /// The encoded header.
            pub fn bytes(&self) -> [u8; HEADER_BYTES] {
                let mut bytes = [0; HEADER_BYTES];
                $(self.$f.store(&mut bytes, $at);)*
                bytes
            }
        }
    };
}

/// A field of the header.
trait Field: Sized {
    fn store(&self, bytes: &mut [u8; HEADER_BYTES], at: usize);
    fn load(bytes: &[u8; HEADER_BYTES], at: usize) -> Result<Self, WireError>;
}

macro_rules! fields {
    ($($t:ty => $get:expr, $make:expr;)*) => {$(
        impl Field for $t {
            #[inline(always)]
            fn store(&self, bytes: &mut [u8; HEADER_BYTES], at: usize) {
                let word = $get(self).to_le_bytes();
                bytes[at..at + word.len()].copy_from_slice(&word);
            }
            #[inline(always)]
            fn load(bytes: &[u8; HEADER_BYTES], at: usize) -> Result<Self, WireError> {
                $make(*bytes[at..].first_chunk().expect("inside the header"))
            }
        }
    )*};
}
fields! {
    u8 => |v: &u8| *v, |b| Ok(u8::from_le_bytes(b));
    u16 => |v: &u16| *v, |b| Ok(u16::from_le_bytes(b));
    u32 => |v: &u32| *v, |b| Ok(u32::from_le_bytes(b));
    NodeId => |v: &NodeId| v.0, |b| Ok(NodeId(u32::from_le_bytes(b)));
    Term => |v: &Term| v.0, |b| Ok(Term(u32::from_le_bytes(b)));
    TrackingEpoch => |v: &TrackingEpoch| v.0, |b| Ok(TrackingEpoch(u16::from_le_bytes(b)));
    Slot => |v: &Slot| v.0, |b| Ok(Slot(u16::from_le_bytes(b)));
    RequestSeq => |v: &RequestSeq| v.0, |b| Ok(RequestSeq(u64::from_le_bytes(b)));
    Stamp => |v: &Stamp| v.0, |b| Ok(Stamp(u64::from_le_bytes(b)));
    MessageKind => MessageKind::tag, |b: [u8; 1]| MessageKind::take(&mut Reader::new(&b));
}

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
        /// [`crate::tracking::SwitchCommand`] to the control plane of the switch; answered by a `PeerAnswer`.
        7 => Switch,
    }
}

header! {
    /// The header. Everything little-endian; 72 bytes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Header {
        /// [`MAGIC`].
        0 => pub magic: u32,
        /// Bits of [`flag`].
        4 => pub flags: u16,
        /// Message family; the second byte is reserved.
        6 => pub kind: MessageKind,
        /// Reserved, 0.
        7 => pub kind_spare: u8,
        /// Cluster (file system) number: the low half of the fsid.
        8 => pub cluster: u32,
        /// Fragment number; 0 in a whole message.
        12 => pub fragment: u16,
        /// Reserved, 0.
        14 => pub spare: u16,
        /// The sender.
        16 => pub source: NodeId,
        /// Incarnation of the sender's node or session.
        20 => pub incarnation: u32,
        /// The receiver's term as the sender knows it (requests), or the sender's own (replies, peers).
        24 => pub term: Term,
        /// Map epoch under which the sender routed.
        28 => pub map_epoch: u32,
        /// The slot addressed.
        32 => pub slot: Slot,
        /// Of a reply: the tracking epoch that the shard knows as an owner, if directories are tracked in the network, else 0.
        /// Readers of its directories ask the switch in it.
        34 => pub tracking: TrackingEpoch,
        /// Sequence number of the request, or of the call that this answers.
        36 => pub seq: RequestSeq,
        /// How far behind `seq` the sender's oldest unanswered request is; of a reply, with `until`, [`Header::record`].
        44 => pub oldest_behind: u32,
        /// Of a session's request: until when it may act, in units of [`UNTIL_NS`] since 1970 (R-24, [`Header::tell_until`]).
        48 => pub until: u32,
        /// Hybrid-logical-clock stamp of the sender.
        52 => pub stamp: Stamp,
        /// Of a reply, with `switches_high`: the switches of `tracking` ([`Header::tracked`]); else 0.
        60 => pub switches_low: u32,
        /// The other half.
        64 => pub switches_high: u32,
        /// CRC-32C of the body where the message leaves its process, else 0.
        68 => pub body_crc: u32,
    }
}

impl MessageKind {
    #[inline]
    fn tag(&self) -> u8 {
        match self {
            MessageKind::Request => 1,
            MessageKind::Reply => 2,
            MessageKind::Peer => 3,
            MessageKind::PeerAnswer => 4,
            MessageKind::Data => 5,
            MessageKind::DataReply => 6,
            MessageKind::Switch => 7,
        }
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
            tracking: TrackingEpoch(0),
            seq,
            oldest_behind: 0,
            until: 0,
            stamp: Stamp(0),
            switches_low: 0,
            switches_high: 0,
            body_crc: 0,
        }
    }

    /// The sequence number of the sender's oldest unanswered request.
    pub fn oldest(&self) -> RequestSeq {
        RequestSeq(self.seq.0.saturating_sub(u64::from(self.oldest_behind)))
    }

    /// Of a reply: where readers of the shard's directories ask.
    pub fn tracked(&self) -> Tracking {
        let form = if self.tracking == TrackingEpoch(0) { Form::Owner } else { Form::Network };
        Tracking { epoch: self.tracking, form, switches: Switches::of_words([self.switches_low, self.switches_high]) }
    }

    /// Says so.
    pub fn tell_tracked(&mut self, tracking: &Tracking) {
        if tracking.form == Form::Network {
            self.tracking = tracking.epoch;
            [self.switches_low, self.switches_high] = tracking.switches.words();
        }
    }

    /// Of a reply: the record of its sender on which it rests, if a power loss may take that; else 0.
    pub fn record(&self) -> RecordSeq {
        RecordSeq(u64::from(self.until) << 32 | u64::from(self.oldest_behind))
    }

    /// Says so.
    pub fn tell_record(&mut self, record: RecordSeq) {
        (self.until, self.oldest_behind) = ((record.0 >> 32) as u32, record.0 as u32);
    }

    /// Of a session's request: says until when it may act, by its own clock, ns since 1970.
    pub fn tell_until(&mut self, until_ns: u64) {
        self.until = (until_ns / UNTIL_NS) as u32;
    }

    /// Of a session's request: the moment from which it is not executed any more, ns since 1970; 0 if its session has no lease.
    pub fn until_ns(&self) -> u64 {
        u64::from(self.until) * UNTIL_NS
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
        assert_eq!((bytes[6], bytes[7], bytes[64]), (1, 0, 0), "kind and switches are where they belong");
        assert_eq!(Header::read(&mut Reader::new(&bytes)), Ok(header.clone()));
        assert_eq!(header.oldest(), RequestSeq(90));
        for tag in 1..=7 {
            assert_eq!(MessageKind::from_bytes(&[tag]).map(|kind| kind.tag()), Ok(tag));
        }
        assert!(Header::read(&mut Reader::new(&[0; 72])).is_err());
        header.tell_until(5 * UNTIL_NS + 7);
        assert_eq!(header.until_ns(), 5 * UNTIL_NS, "rounded down: nobody acts longer than was said");
        header.tell_record(RecordSeq(0x0102_0304_0506_0708));
        assert_eq!(header.record(), RecordSeq(0x0102_0304_0506_0708));
    }
}
