//! The last partly written blocks, so that a file that grows by small writes is not read back for each of them.

use bytes::Bytes;
use hashbrown::HashMap;
use std::collections::VecDeque;

/// Blocks kept (4 KiB each).
const BLOCKS_KEPT: usize = 64;

/// Blocks by physical number; a block leaves when it is freed or when [`BLOCKS_KEPT`] newer ones have come.
#[derive(Debug, Default)]
pub(crate) struct BlockCache {
    blocks: HashMap<u32, Bytes>,
    order: VecDeque<u32>,
}

impl BlockCache {
    /// Keeps a block that is written and recorded.
    pub(crate) fn keep(&mut self, phys: u32, bytes: Bytes) {
        self.blocks.insert(phys, bytes);
        self.order.push_back(phys);
        if self.order.len() > BLOCKS_KEPT {
            let oldest = self.order.pop_front().expect("not empty");
            self.blocks.remove(&oldest);
        }
    }

    /// The block, if it is here.
    pub(crate) fn get(&self, phys: u32) -> Option<Bytes> {
        self.blocks.get(&phys).cloned()
    }

    /// The block is free: its number will mean other bytes.
    pub(crate) fn forget(&mut self, phys: u32) {
        if !self.blocks.is_empty() {
            self.blocks.remove(&phys);
        }
    }
}
