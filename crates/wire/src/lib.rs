//! The words that every part of Onpath speaks: ids, units, errors, messages, records.
//!
//! Layer L0: no I/O, no state. Messages are encoded bytes even between two roles of one process
//! (design.md, "Roles and operations"), so everything here has one little-endian layout and a decoder that accepts any bytes
//! and answers with a typed [`WireError`].

pub mod acl;
pub mod attr;
pub mod cached;
pub mod caller;
pub mod checksum;
pub mod codec;
pub mod data;
pub mod disk;
pub mod errno;
pub mod hash;
pub mod header;
pub mod identity;
pub mod ids;
pub mod innet;
pub mod inode;
pub mod limits;
pub mod map;
pub mod name;
pub mod packet;
pub mod peer;
pub mod permission;
pub mod reply;
pub mod report;
pub mod request;
pub mod secrets;
pub mod shown;
pub mod ticket;
pub mod tracking;
pub mod way;
pub mod xattr;

pub use attr::AttrWire;
pub use codec::{Reader, Wire, WireError};
pub use disk::Stored;
pub use disk::inode::Inode;
pub use errno::Errno;
pub use header::{Header, MessageKind};
pub use ids::*;
pub use inode::Kind;
pub use map::ClusterMap;
pub use name::Name;
pub use packet::Packet;
