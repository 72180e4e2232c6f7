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

    /// These blocks are free: their numbers will mean other bytes.
    pub(crate) fn forget(&mut self, first: u32, n: u32) {
        if n as usize > BLOCKS_KEPT {
            self.blocks.retain(|phys, _| *phys < first || phys - first >= n);
        } else if !self.blocks.is_empty() {
            (first..first + n).for_each(|phys| drop(self.blocks.remove(&phys)));
        }
    }
}
