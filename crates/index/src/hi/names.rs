//! Names that do not fit a record: cells of 16, 24 … 256 bytes, pages of one size each. A page without names is given back.
//!
//! The first 16 bytes of a page say how many of its cells are used, which one is free (the first word of a free cell says which is the next
//! one), and which pages of its size before and after it have free cells too.

use super::pages::{PAGE_WORDS, Pages, Slabs};
use crate::types::{NAME_BYTES_MAX, NameBuf};

/// Sizes of cells.
const SIZES: usize = 31;
/// Bits of the number of a cell in its page.
const CELL_BITS: u32 = 8;
/// Words of a page that are no cells.
const HEAD_WORDS: usize = 2;
/// No page.
const NO_PAGE: u32 = u32::MAX;
/// No cell.
const NO_CELL: u32 = 1 << CELL_BITS;

/// The first page with free cells of each size.
#[derive(Debug)]
pub(super) struct Names {
    first: [u32; SIZES],
}

/// What a page says of itself.
#[derive(Clone, Copy)]
struct Head {
    before: u32,
    after: u32,
    used: u32,
    free: u32,
}

impl Head {
    fn of<S: Slabs>(pages: &Pages<S>, page: u32) -> Head {
        let [links, cells, ..] = *pages.at(page);
        Head { before: (links >> 32) as u32, after: links as u32, used: (cells >> 32) as u32, free: cells as u32 }
    }

    fn write<S: Slabs>(self, pages: &mut Pages<S>, page: u32) {
        let words = pages.at_mut(page);
        words[0] = u64::from(self.before) << 32 | u64::from(self.after);
        words[1] = u64::from(self.used) << 32 | u64::from(self.free);
    }
}

/// Words of the cell of a name.
fn words_of(len: usize) -> usize {
    len.div_ceil(8).max(2)
}

/// Where a cell is in its page.
fn range(cell: u32, words: usize) -> core::ops::Range<usize> {
    let first = HEAD_WORDS + (cell & (NO_CELL - 1)) as usize * words;
    first..first + words
}

impl Names {
    pub(super) fn new() -> Names {
        Names { first: [NO_PAGE; SIZES] }
    }

    fn cell<S: Slabs>(pages: &Pages<S>, at: u32, words: usize) -> &[u64] {
        &pages.at(at >> CELL_BITS)[range(at, words)]
    }

    fn cell_mut<S: Slabs>(pages: &mut Pages<S>, at: u32, words: usize) -> &mut [u64] {
        &mut pages.at_mut(at >> CELL_BITS)[range(at, words)]
    }

    /// Keeps a name. One page must be ensured.
    pub(super) fn put<S: Slabs>(&mut self, pages: &mut Pages<S>, name: &[u8]) -> u32 {
        let words = words_of(name.len());
        let page = match self.first[words - 2] {
            NO_PAGE => self.add_page(pages, words),
            page => page,
        };
        let head = Head::of(pages, page);
        let at = page << CELL_BITS | head.free;
        let cell = Self::cell_mut(pages, at, words);
        let free = cell[0] as u32;
        for (word, bytes) in cell.iter_mut().zip(name.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(padded);
        }
        Head { used: head.used + 1, free, ..head }.write(pages, page);
        if free == NO_CELL {
            self.unlink(pages, page, words);
        }
        at
    }

    /// A page of free cells, the first of its size.
    fn add_page<S: Slabs>(&mut self, pages: &mut Pages<S>, words: usize) -> u32 {
        let (page, cells) = (pages.take(), ((PAGE_WORDS - HEAD_WORDS) / words) as u32);
        for cell in 0..cells {
            let next = if cell + 1 == cells { NO_CELL } else { cell + 1 };
            Self::cell_mut(pages, page << CELL_BITS | cell, words)[0] = next.into();
        }
        Head { before: NO_PAGE, after: NO_PAGE, used: 0, free: 0 }.write(pages, page);
        self.link(pages, page, words);
        page
    }

    /// Puts a page before the others of its size.
    fn link<S: Slabs>(&mut self, pages: &mut Pages<S>, page: u32, words: usize) {
        let after = core::mem::replace(&mut self.first[words - 2], page);
        Head { before: NO_PAGE, after, ..Head::of(pages, page) }.write(pages, page);
        if after != NO_PAGE {
            Head { before: page, ..Head::of(pages, after) }.write(pages, after);
        }
    }

    /// Takes a page from the list of its size.
    fn unlink<S: Slabs>(&mut self, pages: &mut Pages<S>, page: u32, words: usize) {
        let Head { before, after, .. } = Head::of(pages, page);
        if before == NO_PAGE {
            self.first[words - 2] = after;
        } else {
            Head { after, ..Head::of(pages, before) }.write(pages, before);
        }
        if after != NO_PAGE {
            Head { before, ..Head::of(pages, after) }.write(pages, after);
        }
    }

    /// Forgets a name of this length.
    pub(super) fn remove<S: Slabs>(&mut self, pages: &mut Pages<S>, at: u32, len: usize) {
        let (words, page) = (words_of(len), at >> CELL_BITS);
        let head = Head::of(pages, page);
        Self::cell_mut(pages, at, words)[0] = head.free.into();
        Head { used: head.used - 1, free: at & (NO_CELL - 1), ..head }.write(pages, page);
        if head.free == NO_CELL {
            self.link(pages, page, words);
        }
        if head.used == 1 {
            self.unlink(pages, page, words);
            pages.give_back(page);
        }
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
const _: () = assert!((PAGE_WORDS - HEAD_WORDS) / 2 < NO_CELL as usize);

#[cfg(test)]
mod tests {
    use super::super::pages::Heap;
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn put(pages: &mut Pages<Heap>, names: &mut Names, name: &[u8]) -> u32 {
        pages.ensure(1).unwrap();
        names.put(pages, name)
    }

    #[test]
    fn names_of_all_lengths_are_kept_and_their_pages_are_given_back() {
        let (mut pages, mut names) = (Pages::new(Heap, 10_000), Names::new());
        let all: Vec<Vec<u8>> = (12..=255).map(|len| (0..len).map(|at| (at * 7 + len) as u8).collect()).collect();
        let mut used = vec![];
        for _ in 0..3 {
            let at: Vec<u32> = all.iter().map(|name| put(&mut pages, &mut names, name)).collect();
            for (name, &at) in all.iter().zip(&at) {
                assert!(Names::is(&pages, at, name));
                assert_eq!(Names::read(&pages, at, name.len()).as_bytes(), name);
                for byte in [0, name.len() / 2, name.len() - 1] {
                    let mut other = name.clone();
                    other[byte] ^= 1;
                    assert!(!Names::is(&pages, at, &other));
                }
            }
            used.push(pages.in_use());
            for (name, &at) in all.iter().zip(&at) {
                names.remove(&mut pages, at, name.len());
            }
            used.push(pages.in_use());
        }
        assert_eq!(used, [31, 0, 31, 0, 31, 0], "244 names of 31 sizes, 8 of most: a page of each size");
    }

    /// Pages become full, have room again and are empty, in several orders.
    #[test]
    fn pages_with_free_cells_are_filled_first() {
        let (mut pages, mut names) = (Pages::new(Heap, 10_000), Names::new());
        for len in [14, 100, 255] {
            let cells = (PAGE_WORDS - HEAD_WORDS) / words_of(len);
            for stride in [1, 2, 7, cells] {
                let number = 5 * cells;
                let name = |number: usize| vec![number as u8; len];
                let mut at: Vec<u32> = (0..number).map(|n| put(&mut pages, &mut names, &name(n))).collect();
                assert_eq!(pages.in_use(), 5);
                let gone = || (0..number).step_by(stride);
                gone().for_each(|n| names.remove(&mut pages, at[n], len));
                gone().for_each(|n| at[n] = put(&mut pages, &mut names, &name(n)));
                assert_eq!(pages.in_use(), 5, "{len} {stride}");
                at.iter().enumerate().for_each(|(n, &at)| assert!(Names::is(&pages, at, &name(n))));
                at.iter().rev().for_each(|&at| names.remove(&mut pages, at, len));
                assert_eq!(pages.in_use(), 0, "{len} {stride}");
            }
        }
    }
}
