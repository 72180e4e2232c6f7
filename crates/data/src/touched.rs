//! What of the files of a range the store does not have yet, object by object.

use hashbrown::HashSet;
use onpath_wire::ids::{DataId, Generation, InodeId};
use std::collections::BTreeSet;
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
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Since the last image.
    fresh: BTreeSet<(DataId, Part)>,
    /// In an image that is not kept yet.
    leaving: BTreeSet<(DataId, Part)>,
}

fn all_of(inode: InodeId) -> RangeInclusive<(DataId, Part)> {
    let id = |generation| DataId { inode, generation: Generation(generation) };
    (id(0), Part::File)..=(id(u64::MAX), Part::Reserved)
}

impl Touched {
    /// A part has changed.
    pub(crate) fn note(&mut self, data: DataId, part: Part) {
        self.fresh.insert((data, part));
    }

    /// Whether this part has changed since the last image.
    pub(crate) fn has(&self, data: DataId, part: Part) -> bool {
        self.fresh.contains(&(data, part))
    }

    /// Whether anything of an inode has.
    pub(crate) fn holds(&self, inode: InodeId) -> bool {
        let any = |set: &BTreeSet<_>| !set.is_empty() && set.range(all_of(inode)).next().is_some();
        any(&self.fresh) || any(&self.leaving)
    }

    /// All inodes of which something has.
    pub(crate) fn inodes(&self) -> HashSet<InodeId> {
        self.fresh.iter().chain(&self.leaving).map(|(data, _)| data.inode).collect()
    }

    /// Everything goes into an image: what has changed since the last one.
    pub(crate) fn leave(&mut self) -> Vec<(DataId, Part)> {
        let fresh = std::mem::take(&mut self.fresh);
        let parts = fresh.iter().copied().collect();
        if self.leaving.is_empty() {
            self.leaving = fresh;
        } else {
            self.leaving.extend(fresh);
        }
        parts
    }

    /// The image is `kept`, or not.
    pub(crate) fn settle(&mut self, kept: bool) {
        let leaving = std::mem::take(&mut self.leaving);
        if !kept {
            self.fresh.extend(leaving);
        }
    }

    /// Bytes in memory, about.
    pub(crate) fn bytes(&self) -> u64 {
        // Nodes of a tree are two thirds full.
        (self.fresh.len() + self.leaving.len()) as u64 * size_of::<(DataId, Part)>() as u64 * 3 / 2
    }
}
