//! Datagrams between the processes of a cluster, without sockets and clocks: bytes, time in microseconds and names of starts
//! come in, bytes and messages go out.
//!
//! A [`Peer`] is the state towards one other endpoint. Everything on the wire is little-endian. A datagram is a header of 44 bytes, parts
//! (`part`), and a tag if it is sealed:
//!
//! | 0 | 2 | 3 | 4 | 8 | 12 | 16 | 24 | 32 | 40 | 44 … |
//! |---|---|---|---|---|---|---|---|---|---|---|
//! | magic 2 | version 1 | flags 1 | cluster 4 | endpoint 4 | check 4 | number 8 | boot 8 | to_boot 8 | length 4 | parts · tag 16 |
//!
//! * Whoever starts takes a random *boot*. Datagrams name the boots of both ends, so that nothing of a former life is taken; the
//!   host's handshake ([`handshake`]) tells each end the other's, after a challenge that costs nothing to make.
//! * A *length* tells where a datagram ends that has come together with others ([`first_of`]).
//! * A *number* is taken once: a window of the last [`limits::WINDOW`] says which have come.
//! * Messages that fit a datagram share one with others and may be lost; whoever sent them repeats what matters.
//!   Where the way loses some, a short datagram of them that is alone is sent twice, and says so.
//! * Longer ones are cut into fragments, acknowledged and sent again one by one (`outgoing`, `reassembly`), as fast as the way
//!   takes them (`congestion`). A complete message is delivered once; twice at most if
//!   the way takes shorter datagrams in the midst of it ([`Peer::set_datagram_bytes`]). One that has had its time is dropped, and counted.
//! * With a [`Key`] every datagram is encrypted and authenticated with AES-128-GCM, header included (`seal`), which names the key in place
//!   of the checksum; without one
//!   it has a CRC-32C, which finds accidents and no intent.
//!
//! A message that passes the in-network switch travels alone ([`Peer::single`]); the in-network header in front of its datagram is the host's.

mod congestion;
mod counters;
mod error;
mod exchange;
pub mod handshake;
mod head;
mod keys;
pub mod limits;
mod losses;
mod outgoing;
mod part;
mod peer;
mod reassembly;
mod seal;
mod window;

pub use counters::Counters;
pub use error::{ReceiveError, SendError};
pub use exchange::{Agreed, Exchange};
pub use head::{EndpointId, HEAD_BYTES, Head, MAGIC, VERSION, first_of, flag, peek};
pub use keys::{Keyring, Keys, OwnedKey};
pub use peer::{Config, Delivered, Peer, Transmit};
pub use reassembly::Room;
pub use seal::{Key, TAG_BYTES};
