//! Packed in-memory state, and the layouts of journal batches and checkpoint images. Layer L1: no I/O.

mod recoverable;

pub use recoverable::{Image, Pair, Recoverable};

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
    /// A record contradicts the state that it is applied to.
    #[error("record contradicts the state: {0}")]
    Contradiction(String),
}
