//! The durable state of a file system that is served, told to whoever checks it: as bytes in frames of bounded size, in which each
//! piece is `bytes of the piece 4 · bytes of its value 4 · piece · value`.

use super::client::{answer, ask, connect};
use super::{Control, MAGIC, StreamError, VERSION, send_control};
use crate::checkpoint::{CheckpointError, Piece};
use onpath_wire::codec::{Blob, Wire};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Bytes of one frame at most.
const PART_BYTES: usize = 256 << 10;
/// Bytes of one piece with its value at most; the largest are change-logs.
const PIECE_BYTES_MAX: usize = 1 << 30;
/// Who does not read for so long is left: for him old states are kept.
const PATIENCE: Duration = Duration::from_secs(60);
const LENGTHS: usize = 8;

/// Shows the pieces of a state, and their values.
pub(super) type Examination =
    dyn Fn(&mut dyn FnMut(&Piece, &[u8]) -> Result<(), CheckpointError>) -> Result<(), CheckpointError> + Send + Sync;

/// Tells the state to the other end of `stream`.
pub(super) fn tell(stream: &mut UnixStream, examination: &Examination) -> Result<(), StreamError> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut part = Vec::with_capacity(PART_BYTES);
    let mut send = |part: &mut Vec<u8>, all: bool| -> io::Result<()> {
        let ready = if all { part.len() } else { part.len() - part.len() % PART_BYTES };
        for bytes in part[..ready].chunks(PART_BYTES) {
            send_control(stream, &Control::State { bytes: Blob(bytes.to_vec()) })?;
        }
        part.drain(..ready);
        Ok(())
    };
    let told = examination(&mut |piece, value| {
        let head = piece.to_bytes();
        part.extend_from_slice(&(head.len() as u32).to_le_bytes());
        part.extend_from_slice(&(value.len() as u32).to_le_bytes());
        part.extend_from_slice(&head);
        part.extend_from_slice(value);
        send(&mut part, false).map_err(|source| CheckpointError::Io { path: "socket".into(), source })
    });
    told.map_err(|error| StreamError::Refused { why: error.to_string(), retry: true })?;
    Ok(send(&mut part, true)?)
}

/// Asks the process that serves `dir` for all of the durable state as of now, and shows `each` piece of it with its value.
pub fn examine(dir: &Path, each: &mut dyn FnMut(Piece, &[u8])) -> Result<(), StreamError> {
    let mut stream = connect(dir)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut told = ask(&mut stream, &Control::Examine { magic: MAGIC, version: VERSION })?;
    let mut bytes = Vec::new();
    loop {
        let Control::State { bytes: part } = told else {
            return Err(StreamError::Unexpected("the answer to an examination is the state"));
        };
        bytes.extend_from_slice(&part.0);
        let mut at = 0;
        while let Some((piece, value, len)) = first(&bytes[at..])? {
            let last = matches!(piece, Piece::End { .. } | Piece::Damage { .. });
            each(piece, value);
            if last {
                return Ok(());
            }
            at += len;
        }
        bytes.drain(..at);
        told = answer(&mut stream)?;
    }
}

/// A piece, its value, and the bytes of all that.
pub(crate) type Found<'a> = (Piece, &'a [u8], usize);

/// The first piece; none if not all of it is there.
pub(crate) fn first(bytes: &[u8]) -> Result<Option<Found<'_>>, StreamError> {
    let Some((lengths, rest)) = bytes.split_first_chunk::<LENGTHS>() else { return Ok(None) };
    let length = |at: usize| u32::from_le_bytes(lengths[at..at + 4].try_into().expect("four bytes")) as usize;
    let (head, value) = (length(0), length(4));
    if head + value > PIECE_BYTES_MAX {
        return Err(StreamError::Unexpected("a piece of impossible size"));
    }
    match rest.get(..head + value) {
        None => Ok(None),
        Some(both) => Ok(Some((Piece::from_bytes(&both[..head])?, &both[head..], LENGTHS + head + value))),
    }
}
