//! The superblock of a DIR: identity, version and shape of a file system (design.md, "Durability").

use crate::codec::{Reader, Wire};
use crate::hash::CookieKey;
use crate::stored_struct;

/// "Onpath01", little-endian.
pub const SUPERBLOCK_MAGIC: u64 = u64::from_le_bytes(*b"Onpath01");
/// Version of all on-disk layouts written by this program.
pub const FORMAT_VERSION: u32 = 2;
/// Feature of a DIR with some of the roles of a file system: [`Part`] follows the superblock.
pub const FEATURE_PART: u64 = 1;
/// Feature bits that this program knows.
pub const FEATURES_KNOWN: u64 = FEATURE_PART;

/// What superblocks and data files begin with. It keeps its place in every version, so that others can be told by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStart {
    /// What kind of file it is.
    pub magic: u64,
    /// [`FORMAT_VERSION`].
    pub version: u32,
    /// Feature bits; an unknown one is refused.
    pub features: u64,
}

impl FileStart {
    /// That of a file; `None` if there are too few bytes.
    pub fn of(bytes: &[u8]) -> Option<FileStart> {
        let mut r = Reader::new(bytes);
        Some(FileStart {
            magic: u64::take(&mut r).ok()?,
            version: u32::take(&mut r).ok()?,
            features: u64::take(&mut r).ok()?,
        })
    }
}

stored_struct! {
    /// Contents of the superblock; followed on disk by a CRC-32C of its bytes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Superblock {
        /// [`SUPERBLOCK_MAGIC`].
        pub magic: u64,
        /// [`FORMAT_VERSION`].
        pub version: u32,
        /// Feature bits; an unknown one is refused.
        pub features: u64,
        /// Identity of the file system.
        pub fsid: u64,
        /// Number of shards; `onpath reshape` changes it.
        pub shards: u16,
        /// Key of the cookie hash.
        pub cookie_key: CookieKey,
        /// Terms below this are taken (durably, before any role starts).
        pub next_term: u32,
        /// Session ids below this are taken (durably, before any role starts).
        pub next_session: u32,
        /// When it was formatted, ns since 1970.
        pub formatted: u64,
    }
}

stored_struct! {
    /// Which roles of a file system a DIR holds, and who holds the others' bytes. Behind a [`Superblock`] with [`FEATURE_PART`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Part {
        /// Number of the data node of this DIR; files need not be spread to it.
        pub data_node: u16,
        /// The shards, in order.
        pub shards: Vec<u16>,
        /// All data nodes among which files are spread, in order; never empty.
        pub data_nodes: Vec<u16>,
    }
}
