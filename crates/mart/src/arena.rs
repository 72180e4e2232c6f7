//! Nodes of one size, by number. They do not move, and nothing is copied as more come.

use alloc::vec::Vec;

/// Nodes of a chunk.
const CHUNK: usize = 1 << 10;

/// See the file's comment.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    chunks: Vec<Vec<T>>,
    free: Vec<u32>,
}

impl<T: Default> Arena<T> {
    pub(crate) fn new() -> Arena<T> {
        Arena { chunks: Vec::new(), free: Vec::new() }
    }

    /// Puts a node, and tells its number.
    pub(crate) fn put(&mut self, node: T) -> u32 {
        if let Some(number) = self.free.pop() {
            *self.at_mut(number) = node;
            return number;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let number = self.numbers();
        self.chunks.last_mut().expect("one was added").push(node);
        number
    }

    /// Takes a node out.
    pub(crate) fn take(&mut self, number: u32) -> T {
        self.free.push(number);
        core::mem::take(self.at_mut(number))
    }

    #[inline]
    pub(crate) fn at(&self, number: u32) -> &T {
        &self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, number: u32) -> &mut T {
        &mut self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }

    /// All numbers that there were are below this.
    pub(crate) fn numbers(&self) -> u32 {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len()) as u32
    }

    /// Nodes that are there.
    pub(crate) fn len(&self) -> usize {
        self.numbers() as usize - self.free.len()
    }

    /// Bytes that were allocated.
    pub(crate) fn memory(&self) -> usize {
        let nodes: usize = self.chunks.iter().map(Vec::capacity).sum();
        nodes * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>() + self.free.capacity() * size_of::<u32>()
    }
}
