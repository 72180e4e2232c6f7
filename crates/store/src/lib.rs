//! Packed in-memory state, and the layouts of journal batches and checkpoint images. Layer L1: no I/O.

pub mod batch;

pub mod cold;

mod ahead;
mod arena;
mod further;
mod inodes;
mod leaf;
mod listings;
mod names;
mod numbers;
mod packed;
mod pieces;
mod recoverable;
mod slots;
mod tree;
mod xattrs;

pub use ahead::{Ahead, Answers};
pub use arena::Memory;
pub use cold::{Changes, Cold, Unsaved};
pub use inodes::{Count, Inodes, RANGES};
pub use listings::Listings;
pub use names::{NameValue, Named, Names};
pub use numbers::ReservedNumbers;
pub use pieces::{PIECE_LOOKS, Piece, TAKE_LOOKS};
pub use recoverable::{FORGET_PARTS, Image, ObjectCheck, Pair, Recoverable};
pub use xattrs::XattrSet;

use thiserror::Error;

/// Why stored bytes cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// A record or object does not decode.
    #[error("{what} does not decode: {source}")]
    Undecodable {
        /// What it is.
        what: &'static str,
        /// Why.
        source: onpath_wire::WireError,
    },
    /// The map of blocks in use names one that is in no data file.
    #[error(
        "block {block} is in use, but the data files have {room} blocks: one of them is missing, or this is damaged; restore the directory from a backup, with all files in its data directories"
    )]
    NoBlock {
        /// The last one that is named so.
        block: u64,
        /// Blocks of all data files.
        room: u64,
    },
    /// A record contradicts the state that it is applied to.
    #[error("record contradicts the state: {0}")]
    Contradiction(String),
}
