//! Parsers of what comes from outside, as the fuzz targets in `fuzz/` call them; nothing else does.

use crate::stream::{Received, StreamError};
use onpath_wire::disk::Stored;
use onpath_wire::disk::superblock::{JournalId, Superblock};
use onpath_wire::ids::NodeId;
use std::io::Read;
use std::path::Path;

/// The lengths of the datagrams into which bytes are cut that the system hands over as one.
pub fn datagrams(run: &mut [u8]) -> Vec<usize> {
    crate::udp::Datagrams(run).map(|datagram| datagram.len()).collect()
}

/// Reads a frame of a stream, and writes it again.
///
/// # Errors
/// It is none.
pub fn frame(from: &mut impl Read) -> Result<Vec<u8>, StreamError> {
    let (to, packet) = match crate::stream::receive(from)? {
        Received::Message(to, packet) => (to, packet),
        Received::Control(frame) => (NodeId(0), crate::stream::control(&frame)),
    };
    let start = crate::stream::frame_start(to, &packet).expect("what has come fits a frame");
    Ok([&start[..], &packet.head, &packet.bulk].concat())
}

/// The bytes of the first piece of a state that is told over a stream; none if there is none that is whole.
///
/// # Errors
/// It is no piece.
pub fn piece(bytes: &[u8]) -> Result<Option<usize>, StreamError> {
    Ok(crate::stream::first_piece(bytes)?.map(|(_, _, length)| length))
}

/// The superblock in a file of these bytes, with its map and as it is stored.
pub fn superblock(bytes: &[u8]) -> Option<(Superblock, Vec<u8>)> {
    let superblock = crate::dir::parse_superblock(Path::new("fuzz"), bytes).ok()?;
    let stored = superblock.to_stored();
    Some((superblock, stored))
}

/// The salt in the head of a segment of a journal.
pub fn segment(bytes: &[u8], number: u64, journal: JournalId) -> Option<u32> {
    crate::journal::read_header(bytes, number, journal).ok().map(|head| head.salt)
}

/// The file `hosts` of a DIR, read and written again.
pub fn hosts(text: &str) -> Option<String> {
    crate::known::again(text)
}
