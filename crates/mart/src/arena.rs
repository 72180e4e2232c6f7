//! Nodes of one size, by number. They do not move, and nothing is copied as more come.

use alloc::vec::Vec;

/// Bytes of a chunk of nodes, at most.
const CHUNK_BYTES: usize = 128 << 10;
/// Numbers of nodes are below this: a [`Ref`](crate::nodes::Ref) has as many bits for them.
pub(crate) const NUMBERS: usize = 1 << 29;

/// A node that, while it is free, has the number of the next free one.
pub(crate) trait Node: Default {
    fn next_free(&mut self) -> &mut u32;
}

/// See the file's comment.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    chunks: Vec<Vec<T>>,
    /// The first free node.
    free: u32,
    free_count: usize,
}

/// The end of the list of free nodes.
const NONE: u32 = u32::MAX;

impl<T: Node> Arena<T> {
    /// Nodes of a chunk: a power of two.
    const CHUNK: usize = 1 << (CHUNK_BYTES / size_of::<T>()).ilog2();

    pub(crate) fn new() -> Arena<T> {
        Arena { chunks: Vec::new(), free: NONE, free_count: 0 }
    }

    /// Puts a node, and tells its number.
    pub(crate) fn put(&mut self, node: T) -> u32 {
        if self.free != NONE {
            let number = self.free;
            let place = self.at_mut(number);
            let next = *place.next_free();
            *place = node;
            self.free = next;
            self.free_count -= 1;
            return number;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == Self::CHUNK) {
            self.chunks.push(Vec::with_capacity(Self::CHUNK));
        }
        let number = self.numbers();
        self.chunks.last_mut().expect("one was added").push(node);
        number
    }

    /// Takes a node out.
    pub(crate) fn take(&mut self, number: u32) -> T {
        let free = core::mem::replace(&mut self.free, number);
        self.free_count += 1;
        let place = self.at_mut(number);
        let node = core::mem::take(place);
        *place.next_free() = free;
        node
    }

    #[inline]
    pub(crate) fn at(&self, number: u32) -> &T {
        &self.chunks[number as usize / Self::CHUNK][number as usize % Self::CHUNK]
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, number: u32) -> &mut T {
        &mut self.chunks[number as usize / Self::CHUNK][number as usize % Self::CHUNK]
    }

    /// All numbers that there were are below this.
    pub(crate) fn numbers(&self) -> u32 {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * Self::CHUNK + last.len()) as u32
    }

    /// Nodes that are there.
    pub(crate) fn len(&self) -> usize {
        self.numbers() as usize - self.free_count
    }

    /// Bytes that so many nodes more need; none if there are no numbers for them.
    pub(crate) fn growth(&self, more: usize) -> Option<usize> {
        let room = self.free_count + self.chunks.len() * Self::CHUNK - self.numbers() as usize;
        let chunks = more.saturating_sub(room).div_ceil(Self::CHUNK);
        let list = if self.chunks.len() + chunks > self.chunks.capacity() {
            self.chunks.capacity().max(4) * size_of::<Vec<T>>()
        } else {
            0
        };
        let fits = (self.chunks.len() + chunks) * Self::CHUNK <= NUMBERS;
        fits.then_some(chunks * Self::CHUNK * size_of::<T>() + list)
    }

    /// Bytes that were allocated, and that were written to at some time.
    pub(crate) fn memory(&self) -> (usize, usize) {
        let list = self.chunks.capacity() * size_of::<Vec<T>>();
        let bytes = |nodes: usize| nodes * size_of::<T>() + list;
        (bytes(self.chunks.len() * Self::CHUNK), bytes(self.numbers() as usize))
    }
}
