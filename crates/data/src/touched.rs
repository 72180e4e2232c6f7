//! The objects of the store that a file is, of which a range notes those that have changed.

use onpath_store::Unsaved;
use onpath_wire::ids::{DataId, Generation, InodeId};
use std::ops::RangeInclusive;

/// A part of a generation that is one object of the store (reserved blocks: a few).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// That it is there, its cut, and its block if it has only one.
    File,
    /// The blocks of a chunk.
    Chunk(u32),
    /// All reserved blocks.
    Reserved,
}

/// Parts that are new, have changed or are gone. While an inode has one here, the store says nothing of it.
pub(crate) type Touched = Unsaved<(DataId, Part)>;

/// All parts of all generations of an inode.
pub(crate) fn all_of(inode: InodeId) -> RangeInclusive<(DataId, Part)> {
    let id = |generation| DataId { inode, generation: Generation(generation) };
    (id(0), Part::File)..=(id(u64::MAX), Part::Reserved)
}
