//! In-network headers: what a programmable switch reads and writes (design.md, "Packets"; rules in dataplane/SPEC.md).
//!
//! One comes first in the UDP payload, before the [`crate::Header`], and is in network byte order. All begin with the same 16 bytes; what
//! follows is the structure's own, and so is its length: whoever has to know where a header ends asks [`header_bytes`] or [`InNet`]. The lists of
//! fields are their only description: the codec, the headers for C and P4 and the tables of dataplane/SPEC.md are made from them or compared
//! with them.

pub mod cache;
mod common;
mod dirty_set;
mod visibility;

pub use cache::Cache;
pub use common::{
    Common, INNET_BYTES_MAX, INNET_COMMON_BYTES, INNET_UDP_PORT, INNET_VERSION, InNetBytes, InNetField, Structure,
    header_bytes,
};
pub use dirty_set::{DirtySet, DirtySetOp, Fingerprint, INDEX_BITS, InNetResult};
pub use visibility::{ENTRY_BITS, EntryName, METADATA_BYTES, Metadata, Visibility, VisibilityOp, VisibilityResult};

use crate::codec::WireError;

/// A header of any structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InNet {
    /// Of the dirty set.
    DirtySet(DirtySet),
    /// Of the visibility table.
    Visibility(Visibility),
    /// Of the cache.
    Cache(Cache),
}

impl InNet {
    /// Its structure.
    #[inline]
    pub fn structure(&self) -> Structure {
        match self {
            InNet::DirtySet(_) => Structure::DirtySet,
            InNet::Visibility(_) => Structure::Visibility,
            InNet::Cache(_) => Structure::Cache,
        }
    }

    /// Bytes of it.
    #[inline]
    pub fn length(&self) -> usize {
        match self {
            InNet::DirtySet(_) => DirtySet::BYTES,
            InNet::Visibility(_) => Visibility::BYTES,
            InNet::Cache(header) => header.op().header_bytes(),
        }
    }

    /// The encoded header.
    #[inline]
    pub fn bytes(&self) -> InNetBytes {
        match self {
            InNet::DirtySet(header) => InNetBytes::of(&header.bytes()),
            InNet::Visibility(header) => InNetBytes::of(&header.bytes()),
            InNet::Cache(header) => header.bytes(),
        }
    }

    /// What all headers begin with.
    #[inline]
    pub fn common(&self) -> Common {
        match self {
            InNet::DirtySet(header) => header.common(),
            InNet::Visibility(header) => header.common(),
            InNet::Cache(header) => header.common(),
        }
    }

    /// The header with what a switch writes into it (D-16).
    #[inline]
    pub fn switched(self, result: u8, destination: u32) -> InNet {
        match self {
            InNet::DirtySet(header) => InNet::DirtySet(DirtySet { result, destination, ..header }),
            InNet::Visibility(header) => InNet::Visibility(Visibility { result, destination, ..header }),
            InNet::Cache(header) => InNet::Cache(header.switched(result, destination)),
        }
    }

    /// An encoded header and nothing behind it; only structure and version are checked.
    ///
    /// # Errors
    /// Another length than that of its structure, another version, or no structure that is known.
    pub fn of_bytes(bytes: &[u8]) -> Result<InNet, WireError> {
        let structure = bytes.first().and_then(|&code| Structure::of_byte(code));
        let header = match structure.ok_or(WireError::Foreign("structure of the in-network header"))? {
            Structure::DirtySet => {
                InNet::DirtySet(DirtySet::of_bytes(bytes.try_into().map_err(|_| WireError::Truncated)?))
            }
            Structure::Visibility => {
                InNet::Visibility(Visibility::of_bytes(bytes.try_into().map_err(|_| WireError::Truncated)?))
            }
            Structure::Cache => InNet::Cache(Cache::of_bytes(bytes)?),
        };
        if header.common().version != INNET_VERSION {
            return Err(WireError::Foreign("version of the in-network header"));
        }
        Ok(header)
    }
}

/// To who knows the dirty set alone a header of another structure is none of its own: no operation, no answer, no fingerprint.
impl std::ops::Deref for InNet {
    type Target = DirtySet;

    #[inline]
    fn deref(&self) -> &DirtySet {
        const NONE: &DirtySet = &DirtySet::NONE;
        match self {
            InNet::DirtySet(header) => header,
            InNet::Visibility(_) | InNet::Cache(_) => NONE,
        }
    }
}
