//! What a role with durable state offers to its host: checkpoint images and replay (DESIGN §4).
//!
//! An image covers one range of slots. It states the role's last record that it reflects, so that replay
//! skips, range by range, what an image already has; hence images of different ranges may be of different age.

use crate::StoreError;
use onpath_wire::ids::RecordSeq;

/// One object of an image: a sort key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// The state of one range, as of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The last record of the role that the pairs reflect.
    pub upto: RecordSeq,
    /// Objects, sorted by key, keys unique.
    pub pairs: Vec<Pair>,
}

/// A role whose state can be written down and rebuilt.
pub trait Recoverable {
    /// Number of ranges; fixed for a format version.
    fn ranges(&self) -> u32;
    /// The present state of a range.
    fn image(&mut self, range: u32) -> Image;
    /// Takes an object of an image; before any replay.
    fn load(&mut self, range: u32, upto: RecordSeq, key: &[u8], value: &[u8]) -> Result<(), StoreError>;
    /// Declares a range's image complete even if it had no objects; before any replay.
    fn loaded(&mut self, range: u32, upto: RecordSeq);
    /// Applies a journal record, except to ranges whose image already reflects it.
    fn replay(&mut self, seq: RecordSeq, record: &[u8]) -> Result<(), StoreError>;
}
