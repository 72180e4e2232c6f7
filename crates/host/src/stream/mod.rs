//! Streams between a process that serves a DIR and others on the same host (design.md, "Sessions").
//!
//! `DIR/socket` is a Unix stream. Everything on it is a frame: `bytes 4 · to 4 · head bytes 4 · in-network header · head · bulk`
//! (the in-network header only if the highest bit of `head bytes` says so: a message that has yet to pass the switch), where
//! `bytes` counts what follows it and `to` is the receiving role; 0 marks a [`Control`] frame. The first frame of a
//! client is a hello (it becomes a session) or a question about the status.

mod client;
mod conn;
mod examine;
mod peer;
mod server;

#[cfg(test)]
mod tests;

pub use client::{ANSWER_WITHIN, Attached, ClientHooks, StreamClient, Welcome, request_inspection, request_status};
pub use examine::examine;
#[cfg(feature = "fuzzing")]
pub(crate) use examine::first as first_piece;
pub use server::{ServerConfig, StreamServer};

use crate::node::Counters;
use onpath_wire::codec::{Blob, Wire};
use onpath_wire::identity::Identity;
use onpath_wire::ids::{InodeId, NodeId, SessionNumber};
use onpath_wire::innet::{INNET_BYTES_MAX, INNET_COMMON_BYTES, InNet, header_bytes};
use onpath_wire::limits::{BODY_BYTES_MAX, IO_BYTES_MAX};
use onpath_wire::packet::Packet;
use onpath_wire::report::MountReport;
use onpath_wire::secrets::{Pass, Placement};
use onpath_wire::shown::Shown;
use onpath_wire::{WireError, wire_enum};
use smallvec::SmallVec;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::PathBuf;
use thiserror::Error;

/// "OnpStr01", little-endian.
const MAGIC: u64 = u64::from_le_bytes(*b"OnpStr01");
/// Version of the frames and of the messages in them.
const VERSION: u32 = 15;
/// Bytes of a frame before its head.
const FRAME_BYTES: usize = 12;
/// Bit of `head bytes`: an in-network header comes first.
const INNET_BIT: u32 = 1 << 31;
/// What comes before a frame's head, with room for an in-network header.
pub(crate) type FrameStart = SmallVec<[u8; FRAME_BYTES]>;
/// Largest frame, counted without its first four bytes.
const FRAME_BYTES_MAX: usize = BODY_BYTES_MAX + IO_BYTES_MAX + 4096;

wire_enum! {
    /// A frame that is no message between roles.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Control {
        /// The first frame of a client that wants to be a session.
        1 => Hello {
            /// "OnpStr01".
            magic: u64,
            /// Version of the client.
            version: u32,
            /// The file system it belongs to; 0 for any.
            fsid: u64,
            /// The session that it was before, with what shows that; none for a new one.
            pass: Pass,
        },
        /// The answer to a hello.
        2 => Welcome {
            /// The file system.
            fsid: u64,
            /// The client's session.
            pass: Pass,
            /// Who it is, unless it may say for each request who asks.
            identity: Option<Identity>,
            /// Number of shards, evenly spread over the slots.
            shards: u16,
            /// Its path nodes.
            path_nodes: Vec<u16>,
            /// At which slot a name is.
            placement: Placement,
            /// Whether replies leave when they are durable (`commit = sync`).
            sync: bool,
        },
        /// The server does not want this client; the stream ends.
        3 => Refused {
            /// Why, for people.
            why: Blob,
            /// Trying again may help.
            retry: bool,
        },
        /// The server does not know the session that this client was before: it was declared dead. The stream ends.
        10 => Unknown {
            /// That session.
            session: SessionNumber,
        },
        /// What the client's mount has done; from time to time, and at its end.
        7 => Report {
            /// What it tells.
            report: MountReport,
        },
        /// Asks for the status.
        4 => Status {
            /// "OnpStr01".
            magic: u64,
            /// Version of the client.
            version: u32,
        },
        /// Asks what the roles know of a directory.
        6 => Inspect {
            /// "OnpStr01".
            magic: u64,
            /// Version of the client.
            version: u32,
            /// The directory.
            dir: InodeId,
        },
        /// Asks for all of the durable state, to check it.
        8 => Examine {
            /// "OnpStr01".
            magic: u64,
            /// Version of the client.
            version: u32,
        },
        /// A part of that state: bytes that go on with those of the last one.
        9 => State {
            /// At most [`examine::PART_BYTES`].
            bytes: Blob,
        },
        /// The status, or the answer to an inspection, as JSON text.
        5 => StatusIs {
            /// JSON.
            json: Blob,
        },
    }
}

/// Why a stream cannot be used (any more).
#[derive(Debug, Error)]
pub enum StreamError {
    /// Nobody serves there.
    #[error("nobody serves {}: start {start} first ({source})", dir.shown())]
    NotServed {
        /// The DIR.
        dir: PathBuf,
        /// What would serve it.
        start: String,
        /// What connect(2) said.
        source: io::Error,
    },
    /// The socket cannot be made.
    #[error("{}: {source}", path.shown())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The server refused.
    #[error("the server refused: {why}")]
    Refused {
        /// Its words.
        why: String,
        /// Whether trying again may help.
        retry: bool,
    },
    /// The server does not know this session.
    #[error("{0} was declared dead")]
    UnknownSession(SessionNumber),
    /// A frame of impossible size.
    #[error("malformed frame: {bytes} bytes with a head of {head}")]
    Frame {
        /// Its size.
        bytes: u32,
        /// The size of its head.
        head: u32,
    },
    /// A control frame that does not decode.
    #[error("malformed control frame: {0}")]
    Control(#[from] WireError),
    /// A frame that does not belong here.
    #[error("unexpected frame: {0}")]
    Unexpected(&'static str),
    /// The stream has ended.
    #[error("the stream has ended")]
    Ended,
    /// Reading or writing failed.
    #[error("stream: {0}")]
    Io(#[from] io::Error),
}

/// What a frame holds.
#[derive(Debug)]
pub(crate) enum Received {
    Message(NodeId, Packet),
    Control(Control),
}

/// Reads the next frame.
pub(crate) fn receive(from: &mut impl Read) -> Result<Received, StreamError> {
    let mut lengths = [0; FRAME_BYTES];
    match from.read_exact(&mut lengths) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(StreamError::Ended),
        other => other?,
    }
    let word = |at: usize| u32::from_le_bytes(lengths[at..at + 4].try_into().expect("four bytes"));
    let (bytes, to, head) = (word(0), word(4), word(8) & !INNET_BIT);
    let innet = if word(8) & INNET_BIT != 0 { Some(receive_innet(from)?) } else { None };
    let front = FRAME_BYTES - 4 + innet.map_or(0, |innet| innet.length());
    let rest = (bytes as usize).checked_sub(front).and_then(|rest| rest.checked_sub(head as usize));
    let Some(bulk) = rest.filter(|_| bytes as usize <= FRAME_BYTES_MAX) else {
        return Err(StreamError::Frame { bytes, head });
    };
    let mut packet = Packet::encoded(vec![0; head as usize], bytes::Bytes::new());
    if let Some(innet) = innet {
        packet = packet.through_switch(innet);
    }
    from.read_exact(&mut packet.head)?;
    if bulk > 0 {
        let mut bytes = vec![0; bulk];
        from.read_exact(&mut bytes)?;
        packet.bulk = bytes.into();
    }
    match to {
        0 => Ok(Received::Control(Control::from_bytes(&packet.head)?)),
        to => Ok(Received::Message(NodeId(to), packet)),
    }
}

/// Reads an in-network header: behind what all have in common comes as much as its structure says.
fn receive_innet(from: &mut impl Read) -> Result<InNet, StreamError> {
    let mut bytes = [0; INNET_BYTES_MAX];
    from.read_exact(&mut bytes[..INNET_COMMON_BYTES])?;
    let length = header_bytes(bytes[0]).unwrap_or(INNET_COMMON_BYTES);
    from.read_exact(&mut bytes[INNET_COMMON_BYTES..length])?;
    Ok(InNet::of_bytes(&bytes[..length])?)
}

/// What comes before a frame's head; none if the message does not fit one.
pub(crate) fn frame_start(to: NodeId, packet: &Packet) -> Option<FrameStart> {
    let innet = packet.innet.as_deref().filter(|_| packet.wants_switch() || packet.answered_by_cache().is_some());
    let bytes = FRAME_BYTES - 4 + innet.map_or(0, |innet| innet.length()) + packet.head.len() + packet.bulk.len();
    if bytes > FRAME_BYTES_MAX {
        return None;
    }
    let head = packet.head.len() as u32 | innet.map_or(0, |_| INNET_BIT);
    let mut start = FrameStart::new();
    for word in [bytes as u32, to.0, head] {
        start.extend_from_slice(&word.to_le_bytes());
    }
    if let Some(innet) = innet {
        start.extend_from_slice(&innet.bytes());
    }
    Some(start)
}

pub(crate) fn control(frame: &Control) -> Packet {
    Packet::encoded(frame.to_bytes(), bytes::Bytes::new())
}

/// Writes a control frame to a stream that nobody else writes to yet.
fn send_control(to: &mut impl io::Write, frame: &Control) -> io::Result<()> {
    let packet = control(frame);
    let start = frame_start(NodeId(0), &packet).expect("what is said beside messages is short");
    to.write_all(&[start.as_slice(), &packet.head].concat())
}

/// Counters as a JSON object of objects.
pub fn status_json(status: &[(String, Counters)]) -> String {
    let mut json = String::from("{");
    for (i, (name, counters)) in status.iter().enumerate() {
        let _ = write!(json, "{}\"{name}\":{{", if i > 0 { "," } else { "" });
        for (j, (counter, value)) in counters.iter().enumerate() {
            let _ = write!(json, "{}\"{counter}\":{value}", if j > 0 { "," } else { "" });
        }
        json.push('}');
    }
    json.push('}');
    json
}
