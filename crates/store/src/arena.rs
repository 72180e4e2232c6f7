//! A byte arena for packed records: blocks of whole 8-byte units, named by 32-bit handles.
//!
//! Memory grows by chunks that never move, so there is no pause to copy them; the first one is small, as most shards of a small
//! file system need no more. Freed blocks are kept in one
//! list a size and given out again before new memory is taken; they are neither split nor joined, so what a change
//! of many records to another size leaves behind serves only later records of the old size.

/// The granularity of blocks, bytes.
pub(crate) const UNIT_BYTES: usize = 8;
/// Largest block, units: an inode with the longest symlink target fits.
pub(crate) const BLOCK_UNITS_MAX: usize = 544;
const CHUNK_UNITS_LOG2: u32 = 17;
const CHUNK_UNITS: u32 = 1 << CHUNK_UNITS_LOG2;
/// Units of the first chunk.
const FIRST_UNITS: u32 = 1 << 13;

/// Names a block of an arena: its first unit. 0 is none. At most 32 GiB can be named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handle(pub(crate) u32);

impl Handle {
    /// No block.
    pub(crate) const NONE: Handle = Handle(0);
}

/// Memory that a table has taken from the system, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Packed records, freed ones included.
    pub records: u64,
    /// The freed part of `records`: new records take it first.
    pub free: u64,
    /// Hash tables and indexes.
    pub tables: u64,
}

impl Memory {
    /// All of it, bytes.
    pub fn total(&self) -> u64 {
        self.records + self.tables
    }
}

/// Units that hold `bytes`.
pub(crate) fn units_of(bytes: usize) -> usize {
    bytes.div_ceil(UNIT_BYTES)
}

/// The arena.
#[derive(Debug)]
pub(crate) struct Arena {
    chunks: Vec<Box<[u8]>>,
    /// First unit never given out.
    next: u32,
    /// Units of the last chunk never given out.
    left: u32,
    /// First freed block of each size in units; a freed block begins with the handle of the next one.
    free: Vec<Handle>,
    free_units: u64,
}

impl Default for Arena {
    fn default() -> Self {
        Arena { chunks: Vec::new(), next: 0, left: 0, free: vec![Handle::NONE; BLOCK_UNITS_MAX + 1], free_units: 0 }
    }
}

impl Arena {
    /// A block of `units`, with arbitrary contents.
    pub(crate) fn alloc(&mut self, units: usize) -> Handle {
        assert!((1..=BLOCK_UNITS_MAX).contains(&units), "block of {units} units");
        let head = self.free[units];
        if head != Handle::NONE {
            let link = self.at(head).first_chunk().expect("a block has at least a unit");
            self.free[units] = Handle(u32::from_le_bytes(*link));
            self.free_units -= units as u64;
            return head;
        }
        self.fresh(units as u32)
    }

    fn fresh(&mut self, units: u32) -> Handle {
        if self.left < units {
            self.begin_chunk();
        }
        let handle = Handle(self.next);
        self.next = self.next.wrapping_add(units); // past the last unit of the last chunk nothing is left
        self.left -= units;
        handle
    }

    /// The rest of the last chunk becomes a free block, and there is a new chunk.
    fn begin_chunk(&mut self) {
        if self.left > 0 {
            self.free(Handle(self.next), self.left as usize);
        }
        let (first, units) = match self.chunks.len() {
            0 => (1, FIRST_UNITS), // unit 0 is never given out, so that handle 0 is none
            n => (n << CHUNK_UNITS_LOG2, CHUNK_UNITS),
        };
        self.next = u32::try_from(first).expect("an arena holds at most 32 GiB");
        self.left = units - self.next % CHUNK_UNITS;
        self.chunks.push(vec![0; units as usize * UNIT_BYTES].into_boxed_slice());
    }

    /// Takes a block back; `units` as it was given out.
    pub(crate) fn free(&mut self, handle: Handle, units: usize) {
        assert!(handle != Handle::NONE && (1..=BLOCK_UNITS_MAX).contains(&units), "free of {units} units");
        let link = self.free[units].0.to_le_bytes();
        self.at_mut(handle)[..link.len()].copy_from_slice(&link);
        self.free[units] = handle;
        self.free_units += units as u64;
    }

    /// The bytes from the start of a block to the end of its chunk; the block's owner knows its length.
    #[inline]
    pub(crate) fn at(&self, handle: Handle) -> &[u8] {
        &self.chunks[(handle.0 >> CHUNK_UNITS_LOG2) as usize][(handle.0 % CHUNK_UNITS) as usize * UNIT_BYTES..]
    }

    /// Like [`Arena::at`], to write.
    #[inline]
    pub(crate) fn at_mut(&mut self, handle: Handle) -> &mut [u8] {
        let chunk = &mut self.chunks[(handle.0 >> CHUNK_UNITS_LOG2) as usize];
        &mut chunk[(handle.0 % CHUNK_UNITS) as usize * UNIT_BYTES..]
    }

    /// A block to read and another one to write. Both must be live, hence they do not overlap.
    pub(crate) fn two(&mut self, from: Handle, to: Handle) -> (&[u8], &mut [u8]) {
        let place = |h: Handle| ((h.0 >> CHUNK_UNITS_LOG2) as usize, (h.0 % CHUNK_UNITS) as usize * UNIT_BYTES);
        let ((from_chunk, from), (to_chunk, to)) = (place(from), place(to));
        if from_chunk != to_chunk {
            let [a, b] = self.chunks.get_disjoint_mut([from_chunk, to_chunk]).expect("different chunks");
            return (&a[from..], &mut b[to..]);
        }
        let chunk = &mut self.chunks[to_chunk];
        if from < to {
            let (a, b) = chunk.split_at_mut(to);
            (&a[from..], b)
        } else {
            let (a, b) = chunk.split_at_mut(from);
            (b, &mut a[to..])
        }
    }

    /// Bytes ever given out, and how many of them are free.
    pub(crate) fn memory(&self) -> Memory {
        let units: usize = self.chunks.iter().map(|chunk| chunk.len() / UNIT_BYTES).sum();
        let lists = self.free.len() * size_of::<Handle>() + self.chunks.len() * size_of::<Box<[u8]>>();
        Memory {
            records: ((units - self.left as usize) * UNIT_BYTES) as u64,
            free: self.free_units * UNIT_BYTES as u64,
            tables: lists as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn freed_blocks_are_given_out_again() {
        let mut arena = Arena::default();
        let (a, b) = (arena.alloc(3), arena.alloc(3));
        arena.free(a, 3);
        arena.free(b, 3);
        assert_eq!(arena.memory().free, 48);
        assert_eq!((arena.alloc(3), arena.alloc(3)), (b, a));
        assert_eq!(arena.memory().free, 0);
    }

    #[test]
    fn blocks_do_not_cross_chunks() {
        let mut arena = Arena::default();
        let blocks: Vec<Handle> = (0..1000).map(|_| arena.alloc(BLOCK_UNITS_MAX)).collect();
        assert!(blocks.iter().all(|&h| arena.at(h).len() >= BLOCK_UNITS_MAX * UNIT_BYTES));
        assert!(arena.memory().free > 0, "the ends of chunks are free");
    }

    proptest! {
        /// Live blocks never overlap, whatever is freed in between.
        #[test]
        fn blocks_keep_their_bytes(
            steps in prop::collection::vec((1usize..=40, any::<prop::sample::Index>(), any::<bool>()), 1..300),
        ) {
            let mut arena = Arena::default();
            let mut live: Vec<(Handle, usize, u8)> = Vec::new();
            for (i, (units, pick, free)) in steps.into_iter().enumerate() {
                if free && !live.is_empty() {
                    let (handle, units, _) = live.swap_remove(pick.index(live.len()));
                    arena.free(handle, units);
                } else {
                    let handle = arena.alloc(units);
                    arena.at_mut(handle)[..units * UNIT_BYTES].fill(i as u8);
                    live.push((handle, units, i as u8));
                }
                for &(handle, units, byte) in &live {
                    prop_assert!(arena.at(handle)[..units * UNIT_BYTES].iter().all(|&b| b == byte));
                }
            }
        }
    }
}
