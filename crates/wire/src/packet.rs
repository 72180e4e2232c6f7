//! A message on its way: encoded header and body, and bulk bytes that are never copied inside a process.

use crate::codec::{Reader, Wire, WireError};
use crate::header::{HEADER_BYTES, Header};
use crate::ids::NodeId;
use crate::innet::{Cache, DirtySetOp, InNet};
use bytes::Bytes;

/// An encoded message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Header and body.
    pub head: Vec<u8>,
    /// File bytes that belong to it, reference-counted.
    pub bulk: Bytes,
    /// What the switch reads and writes, if it travels through one. Boxed, because few do.
    pub innet: Option<Box<InNet>>,
    /// The switch that it has to pass, if `innet` says that it has to.
    pub switch: NodeId,
    /// Its host knows who its session is, and roles believe it nothing else. Not sent: the host says it that has received it.
    pub bound: bool,
}

impl Packet {
    /// A message that is encoded already.
    pub fn encoded(head: Vec<u8>, bulk: Bytes) -> Packet {
        Packet { head, bulk, innet: None, switch: NodeId::SWITCH, bound: false }
    }

    /// Encodes a message without bulk bytes.
    pub fn new(header: &Header, body: &impl Wire) -> Packet {
        Packet::with_bulk(header, body, Bytes::new())
    }

    /// Encodes a message with bulk bytes.
    pub fn with_bulk(header: &Header, body: &impl Wire, bulk: Bytes) -> Packet {
        let mut head = Vec::with_capacity(256);
        header.put(&mut head);
        body.put(&mut head);
        Packet::encoded(head, bulk)
    }

    /// The same message with an in-network header, for the only switch or from it.
    pub fn through_switch(self, innet: InNet) -> Packet {
        Packet { innet: Some(Box::new(innet)), ..self }
    }

    /// The same message, to travel through this switch.
    pub fn through(self, switch: NodeId, innet: InNet) -> Packet {
        Packet { innet: Some(Box::new(innet)), switch, ..self }
    }

    /// Whether the switch has yet to see it.
    #[inline]
    pub fn wants_switch(&self) -> bool {
        self.innet.as_ref().is_some_and(|innet| innet.common().result == 0)
    }

    /// What a switch has answered to a question of its cache, which it sends back to who has asked, with the message behind it.
    #[inline]
    pub fn answered_by_cache(&self) -> Option<&Cache> {
        match self.innet.as_deref() {
            Some(InNet::Cache(cache)) if cache.answers() => Some(cache),
            _ => None,
        }
    }

    /// Whether the switch drops it if one with a higher number has come before.
    #[inline]
    pub fn keeps_order(&self) -> bool {
        match self.innet.as_deref() {
            Some(InNet::DirtySet(header)) => header.result == 0 && header.op() == Some(DirtySetOp::Remove),
            Some(InNet::Visibility(_) | InNet::Cache(_)) | None => false,
        }
    }

    /// The header, checked.
    pub fn header(&self) -> Result<Header, WireError> {
        Header::take(&mut Reader::new(&self.head))
    }

    /// The body, which must be all that follows the header.
    pub fn body<B: Wire>(&self) -> Result<B, WireError> {
        B::from_bytes(self.head.get(HEADER_BYTES..).ok_or(WireError::Truncated)?)
    }

    /// Replaces the header in place, for a retry under a new term.
    pub fn restamp(&mut self, header: &Header) {
        self.head[..HEADER_BYTES].copy_from_slice(&header.bytes());
    }
}
