//! Names that do not fit a record: cells of 16, 24 … 256 bytes, pages of one size each.

use super::pages::{PAGE_BYTES, PAGE_WORDS, Pages, Slabs};
use crate::types::{NAME_BYTES_MAX, NameBuf};

/// Sizes of cells.
const SIZES: usize = 31;
/// Bits of the number of a cell in its page.
const CELL_BITS: u32 = 8;
/// The end of a list of free cells. No cell is the last of a page of [`PAGE_BYTES`] / 16 cells with this number: pages are fewer.
const NONE: u32 = u32::MAX;

/// Free cells of each size, as lists through the cells.
#[derive(Debug)]
pub(super) struct Names {
    free: [u32; SIZES],
}

/// Words of the cell of a name.
fn words_of(len: usize) -> usize {
    len.div_ceil(8).max(2)
}

impl Names {
    pub(super) fn new() -> Names {
        Names { free: [NONE; SIZES] }
    }

    fn cell<S: Slabs>(pages: &Pages<S>, at: u32, words: usize) -> &[u64] {
        let first = (at & ((1 << CELL_BITS) - 1)) as usize * words;
        &pages.at(at >> CELL_BITS)[first..first + words]
    }

    fn cell_mut<S: Slabs>(pages: &mut Pages<S>, at: u32, words: usize) -> &mut [u64] {
        let first = (at & ((1 << CELL_BITS) - 1)) as usize * words;
        &mut pages.at_mut(at >> CELL_BITS)[first..first + words]
    }

    /// Keeps a name. One page must be ensured.
    pub(super) fn put<S: Slabs>(&mut self, pages: &mut Pages<S>, name: &[u8]) -> u32 {
        let words = words_of(name.len());
        let size = words - 2;
        if self.free[size] == NONE {
            let page = pages.take();
            for cell in (0..PAGE_WORDS / words).rev() {
                let at = page << CELL_BITS | cell as u32;
                Self::cell_mut(pages, at, words)[0] = u64::from(self.free[size]);
                self.free[size] = at;
            }
        }
        let at = self.free[size];
        let cell = Self::cell_mut(pages, at, words);
        self.free[size] = cell[0] as u32;
        for (word, bytes) in cell.iter_mut().zip(name.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(padded);
        }
        at
    }

    /// Forgets a name of this length. Its cell is for others of its size.
    pub(super) fn remove<S: Slabs>(&mut self, pages: &mut Pages<S>, at: u32, len: usize) {
        let words = words_of(len);
        Self::cell_mut(pages, at, words)[0] = u64::from(self.free[words - 2]);
        self.free[words - 2] = at;
    }

    /// Whether this is the name there; the length is the same.
    pub(super) fn is<S: Slabs>(pages: &Pages<S>, at: u32, name: &[u8]) -> bool {
        let cell = Self::cell(pages, at, words_of(name.len()));
        let (whole, rest) = name.as_chunks::<8>();
        let mut padded = [0; 8];
        padded[..rest.len()].copy_from_slice(rest);
        let same = cell.iter().zip(whole).all(|(word, bytes)| word.to_le_bytes() == *bytes);
        same && (rest.is_empty() || cell[whole.len()].to_le_bytes() == padded)
    }

    pub(super) fn read<S: Slabs>(pages: &Pages<S>, at: u32, len: usize) -> NameBuf {
        let mut bytes = [0; NAME_BYTES_MAX + 1];
        for (to, word) in bytes.chunks_mut(8).zip(Self::cell(pages, at, words_of(len))) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        NameBuf::new(&bytes[..len])
    }
}

/// Pages that cells can be numbered in.
pub(super) const NAME_PAGES_MAX: usize = (1 << (32 - CELL_BITS)) - 1;
const _: () = assert!(PAGE_BYTES / 16 <= 1 << CELL_BITS);

#[cfg(test)]
mod tests {
    use super::super::pages::Heap;
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn names_of_all_lengths_are_kept_and_their_cells_are_used_again() {
        let (mut pages, mut names) = (Pages::new(Heap, 10_000), Names::new());
        let all: Vec<Vec<u8>> = (12..=255).map(|len| (0..len).map(|at| (at * 7 + len) as u8).collect()).collect();
        let mut used = vec![];
        for _ in 0..3 {
            let at: Vec<u32> = all
                .iter()
                .map(|name| {
                    pages.ensure(1).unwrap();
                    names.put(&mut pages, name)
                })
                .collect();
            for (name, &at) in all.iter().zip(&at) {
                assert!(Names::is(&pages, at, name));
                assert_eq!(Names::read(&pages, at, name.len()).as_bytes(), name);
                for byte in [0, name.len() / 2, name.len() - 1] {
                    let mut other = name.clone();
                    other[byte] ^= 1;
                    assert!(!Names::is(&pages, at, &other));
                }
            }
            for (name, &at) in all.iter().zip(&at) {
                names.remove(&mut pages, at, name.len());
            }
            used.push(pages.in_use());
        }
        assert_eq!(used, [31, 31, 31], "244 names of 31 sizes, 8 of most: a page of each size");
    }
}
