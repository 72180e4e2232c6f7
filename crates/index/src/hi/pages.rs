//! Memory: pages of 4 KiB, from slabs that are given from outside.

use crate::types::IndexError;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Words of a page.
pub(super) const PAGE_WORDS: usize = PAGE_BYTES / 8;

/// A page: 512 words.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(4096))]
pub struct Page(pub(super) [u64; PAGE_WORDS]);

impl Page {
    const ZERO: Page = Page([0; PAGE_WORDS]);
}

/// Gives memory to an index.
pub trait Slabs {
    /// Binary logarithm of the pages of a slab, at most 20; always the same.
    fn pages_log2(&self) -> u32;

    /// An empty vector with room for exactly 2^[`pages_log2`](Slabs::pages_log2) pages; none: there is no memory left. A host advises the
    /// system to give huge pages for it, before anything is written to it: the index fills it page by page, when it needs one.
    fn slab(&mut self) -> Option<Vec<Page>>;
}

impl Slabs for Box<dyn Slabs + Send> {
    fn pages_log2(&self) -> u32 {
        (**self).pages_log2()
    }

    fn slab(&mut self) -> Option<Vec<Page>> {
        (**self).slab()
    }
}

/// Slabs from the allocator: 64 pages each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heap;

impl Heap {
    const PAGES_LOG2: u32 = 6;
}

impl Slabs for Heap {
    fn pages_log2(&self) -> u32 {
        Heap::PAGES_LOG2
    }

    fn slab(&mut self) -> Option<Vec<Page>> {
        let mut slab = Vec::new();
        slab.try_reserve_exact(1 << Heap::PAGES_LOG2).ok()?;
        Some(slab)
    }
}

/// All pages of an index. Those that nobody needs any longer are used again.
#[derive(Debug)]
pub(super) struct Pages<S> {
    slabs: Vec<Vec<Page>>,
    source: S,
    log2: u32,
    /// The first page of each is used as a list of the others: its first word is the number of the next one.
    free: u32,
    free_count: usize,
    /// Pages that may be touched.
    limit: usize,
    touched: usize,
}

/// The end of the list of free pages.
const NONE: u32 = u32::MAX;

impl<S: Slabs> Pages<S> {
    pub(super) fn new(source: S, limit: usize) -> Pages<S> {
        let log2 = source.pages_log2().min(20);
        let limit = limit.min(NONE as usize);
        Pages { slabs: Vec::new(), source, log2, free: NONE, free_count: 0, limit, touched: 0 }
    }

    /// Sees to it that `count` pages can be [taken](Pages::take).
    pub(super) fn ensure(&mut self, count: usize) -> Result<(), IndexError> {
        if self.free_count >= count {
            return Ok(());
        }
        let more = count - self.free_count;
        if self.touched + more > self.limit {
            return Err(IndexError::Full);
        }
        while (self.slabs.len() << self.log2) - self.touched < more {
            let slab = self.source.slab().filter(|slab| slab.is_empty() && slab.capacity() >> self.log2 > 0);
            self.slabs.push(slab.ok_or(IndexError::Full)?);
        }
        Ok(())
    }

    /// A page of zeros. Must have been ensured.
    pub(super) fn take(&mut self) -> u32 {
        if self.free != NONE {
            let page = self.free;
            let words = self.at_mut(page);
            let next = words[0] as u32;
            words.fill(0);
            self.free = next;
            self.free_count -= 1;
            return page;
        }
        let page = self.touched;
        self.slabs[page >> self.log2].push(Page::ZERO);
        self.touched += 1;
        page as u32
    }

    pub(super) fn give_back(&mut self, page: u32) {
        let next = self.free;
        self.at_mut(page)[0] = u64::from(next);
        self.free = page;
        self.free_count += 1;
    }

    #[inline]
    pub(super) fn at(&self, page: u32) -> &[u64; PAGE_WORDS] {
        let page = page as usize;
        &self.slabs[page >> self.log2][page & ((1 << self.log2) - 1)].0
    }

    #[inline]
    pub(super) fn at_mut(&mut self, page: u32) -> &mut [u64; PAGE_WORDS] {
        let page = page as usize;
        &mut self.slabs[page >> self.log2][page & ((1 << self.log2) - 1)].0
    }

    /// Bytes reserved and touched.
    pub(super) fn memory(&self) -> (usize, usize) {
        let lists = self.slabs.capacity() * size_of::<Vec<Page>>();
        let reserved: usize = self.slabs.iter().map(Vec::capacity).sum();
        (lists + reserved * PAGE_BYTES, lists + self.touched * PAGE_BYTES)
    }

    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        self.touched - self.free_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_empty_and_no_more_are_given_than_allowed() {
        let mut pages = Pages::new(Heap, 100);
        assert_eq!(pages.ensure(101), Err(IndexError::Full));
        pages.ensure(100).unwrap();
        let all: Vec<u32> = (0..100).map(|_| pages.take()).collect();
        assert_eq!((pages.in_use(), pages.ensure(1)), (100, Err(IndexError::Full)));
        for &page in &all {
            pages.at_mut(page).fill(u64::MAX);
        }
        pages.give_back(all[70]);
        pages.give_back(all[3]);
        pages.ensure(2).unwrap();
        assert_eq!(pages.ensure(3), Err(IndexError::Full));
        let again = [pages.take(), pages.take()];
        assert_eq!(again, [all[3], all[70]]);
        assert!(again.iter().all(|&page| pages.at(page).iter().all(|&word| word == 0)));
    }

    #[test]
    fn a_source_that_gives_nothing_or_the_wrong_thing_is_full() {
        struct Bad(Option<Vec<Page>>);
        impl Slabs for Bad {
            fn pages_log2(&self) -> u32 {
                2
            }
            fn slab(&mut self) -> Option<Vec<Page>> {
                self.0.take()
            }
        }
        for slab in [None, Some(Vec::with_capacity(3)), Some(alloc::vec![Page::ZERO; 4])] {
            assert_eq!(Pages::new(Bad(slab), 100).ensure(1), Err(IndexError::Full));
        }
        Pages::new(Bad(Some(Vec::with_capacity(4))), 100).ensure(4).unwrap();
    }
}
