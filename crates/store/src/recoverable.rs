//! What a role with durable state offers to its host: checkpoint images and replay (design.md, "Durability").

use crate::StoreError;
use crate::cold::{Changes, Cold};
use onpath_wire::ids::RecordSeq;
use std::sync::Arc;

/// An object: its key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// The state of one range, as of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The last record of the role that it reflects.
    pub upto: RecordSeq,
    /// What has changed among the objects that may be read one by one. Their keys are the role's, not the range's.
    pub changes: Changes,
    /// All other objects of the range, sorted by key, keys unique.
    pub rest: Vec<Pair>,
}

/// Parts of a role's objects in which they are forgotten, so that none takes long.
pub const FORGET_PARTS: u32 = 4096;

/// Says of an object, by its key and value, why it could not be loaded.
pub type ObjectCheck = Box<dyn FnMut(&[u8], &[u8]) -> Result<(), StoreError>>;

/// A role whose state can be written down and rebuilt.
///
/// An image covers one range. It states the role's last record that it reflects, so that replay skips, range by range, what an
/// image already has; hence images of different ranges may be of different age.
pub trait Recoverable {
    /// Number of ranges; fixed for a format version.
    fn ranges(&self) -> u32;
    /// Begins the image of a range as it is now, whatever happens before the image is complete: what is small, and some of what has
    /// changed since the last image that was kept. One image is taken at a time, and settled before the next one of its range.
    fn begin_image(&mut self, range: u32) -> Image;
    /// Adds to the changes of the image that was begun last, no more than takes a moment; whether there is more of it.
    fn more_of_image(&mut self, _changes: &mut Changes) -> bool {
        false
    }
    /// All of an image at once.
    fn image(&mut self, range: u32) -> Image {
        let mut image = self.begin_image(range);
        while self.more_of_image(&mut image.changes) {}
        image
    }
    /// The store has (`kept`) or will not have the image that was taken last of a range, complete or not: notes that of as many
    /// objects as takes a moment; whether there are more. Called again until there are none.
    fn settle_some(&mut self, range: u32, kept: bool) -> bool;
    /// The same of all objects at once.
    fn settle(&mut self, range: u32, kept: bool) {
        while self.settle_some(range, kept) {}
    }
    /// From now on this is what the store has of the role's objects that may be read one by one. Called before replay, and after
    /// images are kept but before they are settled. What is read of it at once, before any replay, may be refused.
    fn attach(&mut self, cold: Arc<dyn Cold>) -> Result<(), StoreError>;
    /// Says how much of a range's past the store reflects; before any replay, and before the range's objects.
    fn loaded(&mut self, range: u32, upto: RecordSeq);
    /// Takes one of the `rest` of a range's image; before any replay.
    fn load(&mut self, range: u32, key: &[u8], value: &[u8]) -> Result<(), StoreError>;
    /// Takes an object that could also be read when it is asked for, unless a newer one is there.
    fn load_object(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError>;
    /// What says of all objects of a store, which it is shown in the order of their keys, whether they could be loaded.
    fn object_check(&self) -> ObjectCheck;
    /// Bytes that its objects take in memory.
    fn memory(&self) -> u64;
    /// Bytes that objects have left and that only objects of this role take again.
    fn spare(&self) -> u64 {
        0
    }
    /// Forgets what the store has too and nobody has asked for since this was called last, in one of [`FORGET_PARTS`].
    fn forget(&mut self, part: u32);
    /// Adds to `asks` what the store will be asked for when this record is replayed: prefixes of keys (a key itself where there is no
    /// longer one). Some may be missing and some too many: a host that knows them fetches all at once, which costs less than one by
    /// one.
    fn foresee(&self, record: &[u8], asks: &mut Vec<Vec<u8>>) {
        let _ = (record, asks);
    }
    /// Applies a journal record, except to ranges whose image already reflects it.
    fn replay(&mut self, seq: RecordSeq, record: &[u8]) -> Result<(), StoreError>;
}
