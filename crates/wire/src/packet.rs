//! A message on its way: encoded header and body, and bulk bytes that are never copied inside a process.

use crate::codec::{Reader, Wire, WireError};
use crate::header::{HEADER_BYTES, Header};
use bytes::Bytes;

/// An encoded message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Header and body.
    pub head: Vec<u8>,
    /// File bytes that belong to it, reference-counted.
    pub bulk: Bytes,
}

impl Packet {
    /// Encodes a message without bulk bytes.
    pub fn new(header: &Header, body: &impl Wire) -> Packet {
        Packet::with_bulk(header, body, Bytes::new())
    }

    /// Encodes a message with bulk bytes.
    pub fn with_bulk(header: &Header, body: &impl Wire, bulk: Bytes) -> Packet {
        let mut head = Vec::with_capacity(256);
        header.put(&mut head);
        body.put(&mut head);
        Packet { head, bulk }
    }

    /// The header, checked.
    pub fn header(&self) -> Result<Header, WireError> {
        Header::read(&mut Reader::new(&self.head))
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
