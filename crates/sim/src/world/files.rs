//! The data files of a process: blocks in memory. A power loss may take back, block by block, what was not flushed.

use bytes::{Bytes, BytesMut};
use hashbrown::HashMap;
use onpath_data::{DiskOp, DiskResult};
use onpath_wire::Errno;
use onpath_wire::limits::BLOCK_BYTES;
use rand::Rng;

type Place = (u32, u64);
/// What a disk writes whole, bytes.
const SECTOR_BYTES: usize = 512;

/// Blocks by file and number.
#[derive(Debug, Default)]
pub(crate) struct Files {
    blocks: HashMap<Place, Bytes>,
    /// What unflushed writes replaced, oldest first.
    replaced: Vec<(Place, Option<Bytes>)>,
    flushing: usize,
    pub(crate) count: u32,
    /// There is no room for new blocks.
    pub(crate) full: bool,
}

impl Files {
    /// Does what a data node asks for.
    pub(crate) fn execute(&mut self, op: DiskOp) -> DiskResult {
        match op {
            DiskOp::Write { reserved: false, .. } | DiskOp::Reserve { .. } if self.full => {
                DiskResult::Failed(Errno::ENOSPC)
            }
            DiskOp::Reserve { file, .. } => {
                self.count = self.count.max(file + 1);
                DiskResult::Done
            }
            DiskOp::Write { file, offset, bytes, .. } => {
                self.count = self.count.max(file + 1);
                let mut block = offset / BLOCK_BYTES;
                for part in bytes {
                    for at in (0..part.len()).step_by(BLOCK_BYTES as usize) {
                        self.put((file, block), Some(part.slice(at..at + BLOCK_BYTES as usize)));
                        block += 1;
                    }
                }
                DiskResult::Done
            }
            DiskOp::Read { file, offset, len } => {
                let mut bytes = BytesMut::with_capacity(len as usize);
                for block in offset / BLOCK_BYTES..(offset + u64::from(len)) / BLOCK_BYTES {
                    match self.blocks.get(&(file, block)) {
                        Some(found) => bytes.extend_from_slice(found),
                        None => bytes.resize(bytes.len() + BLOCK_BYTES as usize, 0),
                    }
                }
                DiskResult::Bytes(bytes.freeze())
            }
            DiskOp::Punch { file, offset, len } => {
                (offset / BLOCK_BYTES..(offset + len) / BLOCK_BYTES).for_each(|block| self.put((file, block), None));
                DiskResult::Done
            }
            DiskOp::Space => DiskResult::Space { total: 1 << 40, free: 1 << 39 },
        }
    }

    /// One block of a file, as recovery reads it.
    pub(crate) fn read(&self, file: u32, offset: u64, into: &mut [u8]) -> Result<(), Errno> {
        match self.blocks.get(&(file, offset / BLOCK_BYTES)) {
            Some(found) => into.copy_from_slice(&found[..into.len()]),
            None => into.fill(0),
        }
        Ok(())
    }

    fn put(&mut self, place: Place, bytes: Option<Bytes>) {
        let before = match bytes {
            Some(bytes) => self.blocks.insert(place, bytes),
            None => self.blocks.remove(&place),
        };
        self.replaced.push((place, before));
    }

    /// A flush begins: it will cover what was written so far.
    pub(crate) fn begin_flush(&mut self) {
        self.flushing = self.replaced.len();
    }

    /// The flush has ended.
    pub(crate) fn flushed(&mut self) {
        self.replaced.drain(..self.flushing);
        self.flushing = 0;
    }

    /// Everything is made durable, as before a start.
    pub(crate) fn sync(&mut self) {
        self.replaced.clear();
        self.flushing = 0;
    }

    /// A power loss: each unflushed block may be the old one again. Of 100 that are not, so many are torn or have wrong bits;
    /// returns how many.
    pub(crate) fn lose_power(&mut self, rng: &mut impl Rng, spoils: &mut impl Rng, (torn, flipped): (u32, u32)) -> u64 {
        let mut spoilt = 0;
        while let Some((place, before)) = self.replaced.pop() {
            if !rng.random_bool(0.5) {
                spoilt += u64::from(self.spoil(place, before.as_ref(), spoils, (torn, flipped)));
            } else {
                match before {
                    Some(bytes) => self.blocks.insert(place, bytes),
                    None => self.blocks.remove(&place),
                };
            }
        }
        self.flushing = 0;
        spoilt
    }

    /// Leaves a mixture of the old and the new block, or wrong bits.
    fn spoil(&mut self, place: Place, before: Option<&Bytes>, rng: &mut impl Rng, (torn, flipped): (u32, u32)) -> bool {
        let (tears, flips) = (rng.random_ratio(torn, 100), rng.random_ratio(flipped, 100));
        let Some(block) = self.blocks.get_mut(&place).filter(|_| tears || flips) else { return false };
        let mut bytes = BytesMut::from(&block[..]);
        for sector in bytes.chunks_mut(SECTOR_BYTES).enumerate().filter(|_| tears && rng.random_bool(0.5)) {
            let (index, sector) = sector;
            match before {
                Some(before) => sector.copy_from_slice(&before[index * SECTOR_BYTES..][..SECTOR_BYTES]),
                None => sector.fill(0),
            }
        }
        if flips {
            let at = rng.random_range(0..bytes.len());
            bytes[at] ^= 1 << rng.random_range(0..8);
        }
        let spoilt = *bytes != block[..];
        *block = bytes.freeze();
        spoilt
    }
}
