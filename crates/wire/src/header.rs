//! The 56-byte header in front of every message (design.md, "Packets"): 36 bytes that all kinds have, and 20 of a kind's own.

use crate::codec::{Reader, Wire, WireError};
use crate::ids::{NodeId, RecordSeq, RequestSeq, Slot, Stamp, Term, TrackingEpoch};
use crate::tracking::{Form, Switches, Tracking};
use crate::wire_struct;

/// "On" and version 3.
pub const MAGIC: u32 = 0x0003_6e4f;
/// Bytes of an encoded header.
pub const HEADER_BYTES: usize = 56;
/// Bytes of it that all kinds have.
const COMMON_BYTES: usize = 36;
/// Bytes of it that are a kind's own, at its end.
pub const OWN_BYTES: usize = HEADER_BYTES - COMMON_BYTES;

/// The unit of [`OfRequest::until`], ns: about a second, so that 32 bits last for a century.
pub const UNTIL_NS: u64 = 1 << 30;

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
        /// [`crate::data::DataRequest`] to a data node, or [`crate::data::Merge`] of one.
        5 => Data,
        /// [`crate::data::DataReply`] of a data node.
        6 => DataReply,
        /// [`crate::tracking::SwitchCommand`] to the control plane of the switch; answered by a `PeerAnswer`.
        7 => Switch,
    }
}

/// The header. Everything little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Cluster (file system) number: the low half of the fsid.
    pub cluster: u32,
    /// The sender.
    pub source: NodeId,
    /// The receiver's term as the sender knows it (requests), or the sender's own (replies, peers).
    pub term: Term,
    /// The slot addressed.
    pub slot: Slot,
    /// Sequence number of the request, or of the call that this answers.
    pub seq: RequestSeq,
    /// Hybrid-logical-clock stamp of the sender.
    pub stamp: Stamp,
    /// The kind, with what only it has.
    pub of: Of,
}

/// A message's kind, with what a header of it says besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// [`MessageKind::Request`].
    Request(OfRequest),
    /// [`MessageKind::Reply`].
    Reply(OfReply),
    /// [`MessageKind::Peer`].
    Peer,
    /// [`MessageKind::PeerAnswer`].
    PeerAnswer,
    /// [`MessageKind::Data`].
    Data(OfRequest),
    /// [`MessageKind::DataReply`].
    DataReply,
    /// [`MessageKind::Switch`].
    Switch,
}

/// What a request says, to a shard or a data node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfRequest {
    /// How far behind `seq` the sender's oldest unanswered request is.
    pub oldest_behind: u32,
    /// Until when it may act, in units of [`UNTIL_NS`] since 1970 (R-24, [`Header::tell_until`]); 0 without a lease.
    pub until: u32,
    /// Its session has taken again at this shard, in the term that the header names, all locks that it held and all that it had open
    /// there before (often nothing).
    pub taken: bool,
    /// A path node sends it in its session's name, and knows no term: it only reads, and is executed in any (P-4).
    pub forwarded: bool,
    /// What its sender had heard of the receiver when the request was made: a repetition keeps it, whatever the header's term is then.
    pub made_at: Option<Position>,
}

wire_struct! {
    /// How far a sender has heard what a receiver tells in one of its terms.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Position {
        /// The term.
        pub term: Term,
        /// So much of it.
        pub position: u64,
    }
}

/// What a reply says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfReply {
    /// The record of its sender on which it rests, if a power loss may take that; else 0.
    pub record: RecordSeq,
    /// How its sender, as an owner, knows directories to be tracked; where that is not in the network, only the form. Readers of its
    /// directories ask so.
    pub tracked: Tracking,
}

/// Bits of the fifth byte of the header of a request, and of a reply.
mod flag {
    /// [`super::OfRequest::taken`].
    pub(super) const TAKEN: u8 = 1;
    /// There is a [`super::OfRequest::made_at`].
    pub(super) const MADE_AT: u8 = 2;
    /// [`super::OfRequest::forwarded`].
    pub(super) const FORWARDED: u8 = 4;
    /// Of a reply: [`crate::tracking::Tracking::files`].
    pub(super) const FILES: u8 = 1;
}

/// Integers one behind the other.
struct Fields<'a>(&'a mut [u8]);

impl Fields<'_> {
    #[inline(always)]
    fn put<const N: usize>(&mut self, word: [u8; N]) {
        let (here, rest) = std::mem::take(&mut self.0).split_first_chunk_mut::<N>().expect("inside the header");
        *here = word;
        self.0 = rest;
    }
}

impl OfRequest {
    fn flags(&self) -> u8 {
        let bit = |condition: bool, bit: u8| if condition { bit } else { 0 };
        bit(self.taken, flag::TAKEN) | bit(self.made_at.is_some(), flag::MADE_AT) | bit(self.forwarded, flag::FORWARDED)
    }

    #[inline(always)]
    fn put(&self, own: &mut [u8]) {
        let mut own = Fields(own);
        own.put(self.oldest_behind.to_le_bytes());
        own.put(self.until.to_le_bytes());
        if let Some(Position { term, position }) = self.made_at {
            own.put(term.0.to_le_bytes());
            own.put(position.to_le_bytes());
        }
    }

    #[inline(always)]
    fn take(flags: u8, r: &mut Reader<'_>) -> Result<OfRequest, WireError> {
        if flags & !(flag::TAKEN | flag::MADE_AT | flag::FORWARDED) != 0 {
            return Err(WireError::Bad("flags of a request's header"));
        }
        let (oldest_behind, until) = (u32::take(r)?, u32::take(r)?);
        let made_at = if flags & flag::MADE_AT != 0 {
            Some(Position::take(r)?)
        } else {
            nothing::<12>(r)?;
            None
        };
        let [taken, forwarded] = [flag::TAKEN, flag::FORWARDED].map(|bit| flags & bit != 0);
        Ok(OfRequest { oldest_behind, until, taken, forwarded, made_at })
    }
}

impl OfReply {
    fn flags(&self) -> u8 {
        if self.tracked.has_files() { flag::FILES } else { 0 }
    }

    #[inline(always)]
    fn put(&self, own: &mut [u8]) {
        let mut own = Fields(own);
        own.put(self.record.0.to_le_bytes());
        if self.tracked.form == Form::Network {
            own.put(self.tracked.epoch.0.to_le_bytes());
            own.put(self.tracked.switches.bytes());
        }
    }

    #[inline(always)]
    fn take(flags: u8, r: &mut Reader<'_>) -> Result<OfReply, WireError> {
        let (record, epoch, switches) = (RecordSeq::take(r)?, TrackingEpoch::take(r)?, r.array()?);
        nothing::<2>(r)?;
        let tracked = match epoch {
            _ if flags & !flag::FILES != 0 => return Err(WireError::Bad("flags of a reply's header")),
            TrackingEpoch(0) if switches == [0; 8] && flags == 0 => Tracking::default(),
            TrackingEpoch(0) => return Err(WireError::Bad("switches of no tracking epoch")),
            epoch => {
                let (form, switches) = (Form::Network, Switches::of_bytes(switches)?);
                Tracking { epoch, form, switches, files: flags & flag::FILES != 0 }
            }
        };
        Ok(OfReply { record, tracked })
    }
}

/// Bytes that a kind does not use.
#[inline(always)]
fn nothing<const N: usize>(r: &mut Reader<'_>) -> Result<(), WireError> {
    if r.array::<N>()? == [0; N] { Ok(()) } else { Err(WireError::Bad("bytes of a header that its kind does not use")) }
}

impl Of {
    /// A kind, with nothing said.
    pub fn new(kind: MessageKind) -> Of {
        match kind {
            MessageKind::Request => Of::Request(OfRequest::default()),
            MessageKind::Reply => Of::Reply(OfReply::default()),
            MessageKind::Peer => Of::Peer,
            MessageKind::PeerAnswer => Of::PeerAnswer,
            MessageKind::Data => Of::Data(OfRequest::default()),
            MessageKind::DataReply => Of::DataReply,
            MessageKind::Switch => Of::Switch,
        }
    }

    #[inline(always)]
    fn take(kind: MessageKind, flags: u8, r: &mut Reader<'_>) -> Result<Of, WireError> {
        Ok(match kind {
            MessageKind::Request => Of::Request(OfRequest::take(flags, r)?),
            MessageKind::Reply => Of::Reply(OfReply::take(flags, r)?),
            MessageKind::Data => Of::Data(OfRequest::take(flags, r)?),
            MessageKind::Peer | MessageKind::PeerAnswer | MessageKind::DataReply | MessageKind::Switch => {
                nothing::<OWN_BYTES>(r)?;
                if flags != 0 {
                    return Err(WireError::Bad("flags of a header whose kind has none"));
                }
                Of::new(kind)
            }
        })
    }
}

impl Wire for Header {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes());
    }

    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let all: [u8; HEADER_BYTES] = r.array()?;
        let mut r = Reader::new(&all);
        if u32::take(&mut r)? != MAGIC {
            return Err(WireError::Foreign("magic or version"));
        }
        let (kind, flags) = (MessageKind::take(&mut r)?, u8::take(&mut r)?);
        Ok(Header {
            slot: Slot::take(&mut r)?,
            cluster: u32::take(&mut r)?,
            source: NodeId::take(&mut r)?,
            term: Term::take(&mut r)?,
            seq: RequestSeq::take(&mut r)?,
            stamp: Stamp::take(&mut r)?,
            of: Of::take(kind, flags, &mut r)?,
        })
    }
}

impl Header {
    /// A header of `kind` from `source` with everything else empty.
    pub fn new(kind: MessageKind, source: NodeId, seq: RequestSeq) -> Header {
        Header { cluster: 0, source, term: Term(0), slot: Slot(0), seq, stamp: Stamp(0), of: Of::new(kind) }
    }

    /// The encoded header.
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut all = [0; HEADER_BYTES];
        let (common, own) = all.split_at_mut(COMMON_BYTES);
        let flags = match &self.of {
            Of::Request(asked) | Of::Data(asked) => {
                asked.put(own);
                asked.flags()
            }
            Of::Reply(replied) => {
                replied.put(own);
                replied.flags()
            }
            Of::Peer | Of::PeerAnswer | Of::DataReply | Of::Switch => 0,
        };
        let mut common = Fields(common);
        common.put(MAGIC.to_le_bytes());
        common.put([self.kind().tag(), flags]);
        common.put(self.slot.0.to_le_bytes());
        common.put(self.cluster.to_le_bytes());
        common.put(self.source.0.to_le_bytes());
        common.put(self.term.0.to_le_bytes());
        common.put(self.seq.0.to_le_bytes());
        common.put(self.stamp.0.to_le_bytes());
        all
    }

    /// Message family.
    #[inline]
    pub fn kind(&self) -> MessageKind {
        match self.of {
            Of::Request(_) => MessageKind::Request,
            Of::Reply(_) => MessageKind::Reply,
            Of::Peer => MessageKind::Peer,
            Of::PeerAnswer => MessageKind::PeerAnswer,
            Of::Data(_) => MessageKind::Data,
            Of::DataReply => MessageKind::DataReply,
            Of::Switch => MessageKind::Switch,
        }
    }

    /// What a request says.
    #[inline]
    pub fn of_request(&self) -> Option<&OfRequest> {
        match &self.of {
            Of::Request(asked) | Of::Data(asked) => Some(asked),
            _ => None,
        }
    }

    /// The same, to be said.
    #[inline]
    pub fn of_request_mut(&mut self) -> Option<&mut OfRequest> {
        match &mut self.of {
            Of::Request(asked) | Of::Data(asked) => Some(asked),
            _ => None,
        }
    }

    /// What a reply says.
    #[inline]
    pub fn of_reply(&self) -> Option<&OfReply> {
        match &self.of {
            Of::Reply(replied) => Some(replied),
            _ => None,
        }
    }

    /// The sequence number of the sender's oldest unanswered request.
    pub fn oldest(&self) -> RequestSeq {
        let behind = self.of_request().map_or(0, |asked| asked.oldest_behind);
        RequestSeq(self.seq.0.saturating_sub(u64::from(behind)))
    }

    /// Of a session's request: the moment from which it is not executed any more, ns since 1970; 0 if its session has no lease.
    pub fn until_ns(&self) -> u64 {
        u64::from(self.of_request().map_or(0, |asked| asked.until)) * UNTIL_NS
    }
}

impl OfRequest {
    /// Says until when the session may act, by its own clock, ns since 1970.
    pub fn tell_until(&mut self, until_ns: u64) {
        self.until = (until_ns / UNTIL_NS) as u32;
    }
}

impl MessageKind {
    #[inline]
    fn tag(self) -> u8 {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(header: &mut Header) -> &mut OfRequest {
        header.of_request_mut().expect("a request")
    }

    fn request() -> Header {
        let mut header = Header::new(MessageKind::Request, NodeId(5), RequestSeq(100));
        header.of = Of::Request(OfRequest { oldest_behind: 10, taken: true, ..OfRequest::default() });
        header
    }

    fn read(bytes: &[u8]) -> Result<Header, WireError> {
        Header::take(&mut Reader::new(bytes))
    }

    #[test]
    fn a_header_comes_back_as_it_was() {
        let header = request();
        let bytes = header.to_bytes();
        assert_eq!(bytes.len(), HEADER_BYTES);
        assert_eq!((bytes[4], bytes[5]), (1, 1), "kind and flags are where they belong");
        assert_eq!((read(&bytes), header.oldest()), (Ok(header), RequestSeq(90)));
        for tag in 1..=7 {
            let kind = MessageKind::from_bytes(&[tag]).expect("a kind");
            let plain = Header::new(kind, NodeId(1), RequestSeq(2));
            assert_eq!((kind.tag(), read(&plain.bytes())), (tag, Ok(plain)));
        }
        let mut reply = Header::new(MessageKind::Reply, NodeId(5), RequestSeq(100));
        let switches = Switches::of([3, 7]).expect("two");
        for tracked in [
            Tracking::default(),
            Tracking { epoch: TrackingEpoch(9), form: Form::Network, switches, files: false },
            Tracking { epoch: TrackingEpoch(9), form: Form::Network, switches: Switches::ONE, files: true },
        ] {
            reply.of = Of::Reply(OfReply { record: RecordSeq(0x0102_0304_0506_0708), tracked });
            assert_eq!(read(&reply.bytes()), Ok(reply.clone()));
        }
    }

    #[test]
    fn a_lease_is_told_rounded_down() {
        let mut header = request();
        asked(&mut header).tell_until(5 * UNTIL_NS + 7);
        assert_eq!(header.until_ns(), 5 * UNTIL_NS, "nobody acts longer than was said");
    }

    #[test]
    fn a_repetition_keeps_the_position_with_which_a_request_was_made() {
        let (mut header, absent) = (request(), request().bytes());
        let made_at = Position { term: Term(1), position: u64::MAX };
        asked(&mut header).made_at = Some(made_at);
        let bytes = header.bytes();
        let mut again = read(&bytes).expect("a header");
        again.term = Term(2);
        asked(&mut again).tell_until(UNTIL_NS);
        let again = read(&again.bytes()).expect("a header");
        assert_eq!((again.term, again.of_request().expect("a request").made_at), (Term(2), Some(made_at)));
        assert_eq!(absent.len(), bytes.len(), "it takes no room when it is absent, nor otherwise");
    }

    #[test]
    fn what_no_sender_says_is_refused() {
        let mut reply = Header::new(MessageKind::Reply, NodeId(5), RequestSeq(100)).bytes();
        let peer = Header::new(MessageKind::Peer, NodeId(5), RequestSeq(100)).bytes();
        let changed = |bytes: [u8; HEADER_BYTES], at: usize, to: u8| {
            let mut bytes = bytes;
            bytes[at] = to;
            read(&bytes)
        };
        assert_eq!(read(&[0; HEADER_BYTES]), Err(WireError::Foreign("magic or version")));
        assert_eq!(read(&peer[..HEADER_BYTES - 1]), Err(WireError::Truncated));
        assert!(changed(peer, 4, 8).is_err(), "an unknown kind");
        assert!(changed(peer, 5, 1).is_err() && changed(request().bytes(), 5, 8).is_err(), "unknown flags");
        assert!(changed(peer, 55, 1).is_err() && changed(peer, 36, 1).is_err(), "fields that a peer has not");
        assert!(changed(request().bytes(), 44, 1).is_err(), "a position without its flag");
        assert!(changed(request().bytes(), 55, 1).is_err(), "a position without its flag");
        assert!(changed(request().bytes(), 5, 3).is_ok(), "one with it");
        assert!(changed(reply, 46, 1).is_err(), "switches without an epoch");
        assert!(changed(reply, 44, 1).is_err(), "an epoch without switches");
        reply[44] = 1;
        assert!(changed(reply, 47, 1).is_err(), "a switch behind none");
        assert!(changed(reply, 46, 1).is_ok() && changed(reply, 54, 1).is_err(), "something behind the switches");
    }
}
