//! Which blocks of a file have bytes and which are only reserved, as its only user knows it.

use onpath_wire::limits::BLOCK_BYTES;
use std::collections::BTreeMap;

/// The blocks that a file has.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks {
    /// Whether a block has bytes; else it is only reserved.
    all: BTreeMap<u64, bool>,
    /// Nothing of what stat tells is on its way.
    exact: bool,
}

/// The blocks that a range touches.
fn touched(offset: u64, bytes: u64) -> std::ops::Range<u64> {
    offset / BLOCK_BYTES..(offset + bytes).div_ceil(BLOCK_BYTES)
}

/// The blocks that lie within a range.
fn within(offset: u64, bytes: u64) -> std::ops::Range<u64> {
    offset.div_ceil(BLOCK_BYTES)..(offset + bytes) / BLOCK_BYTES
}

impl Blocks {
    pub(super) fn write(&mut self, offset: u64, bytes: u64) {
        self.all.extend(touched(offset, bytes).map(|block| (block, true)));
        self.exact = true;
    }

    pub(super) fn reserve(&mut self, offset: u64, bytes: u64) {
        for block in touched(offset, bytes) {
            self.all.entry(block).or_insert(false);
        }
        self.exact = true;
    }

    pub(super) fn punch(&mut self, offset: u64, bytes: u64) {
        let within = within(offset, bytes);
        self.all.retain(|block, _| !within.contains(block));
        self.exact = true;
    }

    pub(super) fn zero(&mut self, offset: u64, bytes: u64) {
        self.all.extend(within(offset, bytes).map(|block| (block, false)));
        self.reserve(offset, bytes);
    }

    /// A change of the size; one to the same size takes what is known to lie behind it.
    pub(super) fn truncate(&mut self, from: u64, to: u64) {
        let needed = to.div_ceil(BLOCK_BYTES);
        if to < from || to == 0 || (to == from && self.all.len() as u64 > needed) {
            self.all.retain(|block, _| *block < needed);
            self.exact = to == 0;
        }
    }

    /// Data and holes of another file, or of this one, are here as they are there, from one offset on to another.
    pub(super) fn copy(&mut self, source: Option<&Blocks>, from: u64, to: u64, bytes: u64) {
        let mut at = 0;
        while at < bytes {
            let has = |at: u64| source.unwrap_or(self).all.get(&((from + at) / BLOCK_BYTES)) == Some(&true);
            let (start, data) = (at, has(at));
            while at < bytes && has(at) == data {
                at = (((from + at) / BLOCK_BYTES + 1) * BLOCK_BYTES - from).min(bytes);
            }
            if data {
                self.write(to + start, at - start);
            } else {
                self.punch(to + start, at - start);
            }
        }
    }

    /// Where data or a hole begins in a file of this size.
    pub(super) fn seek(&self, offset: u64, hole: bool, size: u64) -> Option<u64> {
        let mut at = offset;
        while at < size {
            if (self.all.get(&(at / BLOCK_BYTES)) == Some(&true)) != hole {
                return Some(at);
            }
            at = (at / BLOCK_BYTES + 1) * BLOCK_BYTES;
        }
        (hole && offset < size).then_some(size)
    }

    /// Compares with what stat tells, in units of 512 bytes.
    pub(super) fn compare(&self, blocks: u64) -> Result<(), String> {
        let expected = self.all.len() as u64 * (BLOCK_BYTES / 512);
        if blocks == expected || !self.exact { Ok(()) } else { Err(format!("{blocks} blocks instead of {expected}")) }
    }
}
