//! A set of blocks, a bit each, in pages. A page that has none or all of its blocks takes no bits, so that what names a block far behind
//! takes memory for its page only.

use crate::space::Run;
use std::ops::Range;

/// Blocks of a page: 4 KiB of bits.
pub(crate) const PAGE_BLOCKS: u32 = 32_768;
/// The same in words.
pub(crate) const PAGE_WORDS: usize = PAGE_BLOCKS as usize / 64;

#[derive(Clone, Debug, Default)]
enum Page {
    #[default]
    None,
    All,
    Some(Box<[u64; PAGE_WORDS]>),
}

impl Page {
    fn of(words: &[u64]) -> Page {
        let mut page = [0; PAGE_WORDS];
        page[..words.len()].copy_from_slice(words);
        match page.iter().map(|word| word.count_ones()).sum() {
            0 => Page::None,
            PAGE_BLOCKS => Page::All,
            _ => Page::Some(Box::new(page)),
        }
    }

    fn word(&self, i: usize) -> u64 {
        match self {
            Page::None => 0,
            Page::All => u64::MAX,
            Page::Some(words) => words[i],
        }
    }

    /// How many of its blocks are used.
    fn count(&self) -> u64 {
        match self {
            Page::None => 0,
            Page::All => u64::from(PAGE_BLOCKS),
            Page::Some(words) => words.iter().map(|word| u64::from(word.count_ones())).sum(),
        }
    }

    fn words(&self) -> &[u64; PAGE_WORDS] {
        match self {
            Page::None => &[0; PAGE_WORDS],
            Page::All => &[u64::MAX; PAGE_WORDS],
            Page::Some(words) => words,
        }
    }

    /// Words up to the last one that has a used block.
    fn words_used(&self) -> usize {
        match self {
            Page::None => 0,
            page => page.words().iter().rposition(|word| *word != 0).map_or(0, |last| last + 1),
        }
    }

    /// The first block that only one of the two has, and how many there are.
    fn differs(&self, other: &Page) -> Option<(u32, u64)> {
        if matches!((self, other), (Page::None, Page::All) | (Page::All, Page::None)) {
            return Some((0, PAGE_BLOCKS.into()));
        }
        let (a, b) = (self.words(), other.words());
        if a == b {
            return None;
        }
        let at = a.iter().zip(b).position(|(a, b)| a != b)?;
        let blocks = a.iter().zip(b).map(|(a, b)| u64::from((a ^ b).count_ones())).sum();
        Some((at as u32 * 64 + (a[at] ^ b[at]).trailing_zeros(), blocks))
    }

    fn words_mut(&mut self) -> &mut [u64; PAGE_WORDS] {
        if !matches!(self, Page::Some(_)) {
            *self = Page::Some(Box::new([self.word(0); PAGE_WORDS]));
        }
        let Page::Some(words) = self else { unreachable!("made above") };
        words
    }

    /// Notes some of its blocks, or forgets them; returns for how many that was new.
    fn fill(&mut self, blocks: Range<usize>, used: bool) -> u64 {
        let to = if used { u64::MAX } else { 0 };
        if blocks.len() == PAGE_BLOCKS as usize {
            let before = self.count();
            *self = if used { Page::All } else { Page::None };
            return if used { u64::from(PAGE_BLOCKS) - before } else { before };
        }
        if matches!((&self, used), (Page::None, false) | (Page::All, true)) {
            return 0;
        }
        let (words, mut at, mut changed) = (self.words_mut(), blocks.start, 0);
        while at < blocks.end {
            let next = ((at / 64 + 1) * 64).min(blocks.end);
            let mask = (u64::MAX >> (64 - (next - at))) << (at % 64);
            let word = &mut words[at / 64];
            changed += u64::from(((*word ^ to) & mask).count_ones());
            *word = *word & !mask | to & mask;
            at = next;
        }
        changed
    }

    /// The first of its blocks from `from` on that is used, or is not.
    fn next(&self, from: usize, used: bool) -> Option<usize> {
        match (self, used) {
            (Page::None, false) | (Page::All, true) => return Some(from),
            (Page::None, true) | (Page::All, false) => return None,
            (Page::Some(_), _) => {}
        }
        let mut mask = u64::MAX << (from % 64);
        (from / 64..PAGE_WORDS).find_map(|i| {
            let wanted = if used { self.word(i) } else { !self.word(i) } & std::mem::replace(&mut mask, u64::MAX);
            (wanted != 0).then(|| i * 64 + wanted.trailing_zeros() as usize)
        })
    }
}

/// The blocks that the index uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used {
    pages: Vec<Page>,
}

/// The page of a block, and its place there.
fn place(block: u64) -> (usize, usize) {
    let page = u64::from(PAGE_BLOCKS);
    ((block / page) as usize, (block % page) as usize)
}

/// The first block of a page.
fn first(page: usize) -> u64 {
    page as u64 * u64::from(PAGE_BLOCKS)
}

impl Used {
    /// Notes a run of blocks; false if one of them was noted before.
    pub(crate) fn insert_run(&mut self, run: Run) -> bool {
        self.fill(run, true) == u64::from(run.len)
    }

    /// Notes a block; false if it was noted before.
    pub(crate) fn insert(&mut self, phys: u32) -> bool {
        self.insert_run(Run { start: phys, len: 1 })
    }

    /// Notes all blocks of a run, or forgets them; returns for how many that was new.
    pub(crate) fn fill(&mut self, run: Run, used: bool) -> u64 {
        let (mut at, end) = (u64::from(run.start), u64::from(run.start) + u64::from(run.len));
        let mut changed = 0;
        while at < end {
            let (number, from) = place(at);
            let next = first(number + 1).min(end);
            let page = if used { Some(self.page_mut(number)) } else { self.pages.get_mut(number) };
            let Some(page) = page else { break };
            changed += page.fill(from..from + (next - at) as usize, used);
            at = next;
        }
        changed
    }

    fn page_mut(&mut self, number: usize) -> &mut Page {
        if number >= self.pages.len() {
            self.pages.resize_with(number + 1, Page::default);
        }
        &mut self.pages[number]
    }

    /// The first block that only one of the two has, and how many there are.
    pub(crate) fn differs(&self, other: &Used) -> Option<(u32, u64)> {
        let (mut first_one, mut blocks) = (None, 0);
        for number in 0..self.pages.len().max(other.pages.len()) {
            let [a, b] = [self, other].map(|of| of.pages.get(number).unwrap_or(&Page::None));
            let Some((at, differ)) = a.differs(b) else { continue };
            first_one.get_or_insert(first(number) as u32 + at);
            blocks += differ;
        }
        first_one.map(|first| (first, blocks))
    }

    /// The bits of a page without those that are 0 at its end, lowest bit first.
    pub(crate) fn page(&self, number: u32) -> Vec<u64> {
        let page = self.pages.get(number as usize).unwrap_or(&Page::None);
        page.words()[..page.words_used()].to_vec()
    }

    /// Puts a page, no more than [`PAGE_WORDS`], in the place of what was there.
    pub(crate) fn set_page(&mut self, number: u32, words: &[u64]) {
        *self.page_mut(number as usize) = Page::of(words);
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        let bits = self.pages.iter().filter(|page| matches!(page, Page::Some(_))).count();
        (self.pages.len() * size_of::<Page>() + bits * PAGE_WORDS * 8) as u64
    }

    /// Whether a block is noted.
    pub(crate) fn contains(&self, phys: u32) -> bool {
        let (page, at) = place(phys.into());
        self.pages.get(page).is_some_and(|page| page.word(at / 64) & (1 << (at % 64)) != 0)
    }

    /// The first block from `from` on that is used, or is not; behind all pages nothing is.
    pub(crate) fn next(&self, from: u64, used: bool) -> u64 {
        let (number, mut at) = place(from);
        for (page, number) in self.pages.iter().skip(number).zip(number..) {
            if let Some(found) = page.next(std::mem::take(&mut at), used) {
                return first(number) + found as u64;
            }
        }
        if used { u64::MAX } else { from.max(first(self.pages.len())) }
    }

    /// The block after the last one.
    pub(crate) fn end(&self) -> u64 {
        let last = self.pages.iter().enumerate().rev().find_map(|(number, page)| {
            let word = page.words_used().checked_sub(1)?;
            Some(first(number) + word as u64 * 64 + 64 - u64::from(page.word(word).leading_zeros()))
        });
        last.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u32, len: u32) -> Run {
        Run { start, len }
    }

    #[test]
    fn runs_are_filled_as_block_by_block() {
        let (mut runs, mut single) = (Used::default(), Used::default());
        let page = PAGE_BLOCKS;
        let all = [
            (3, 61, true),
            (60, 200, true),
            (64, 64, false),
            (0, 1, true),
            (250, 900, false),
            (page - 3, 2 * page, true),
            (2 * page, 70, false),
            (page, page, false),
        ];
        for (start, len, used) in all {
            let mut changed = 0;
            for phys in start..start + len {
                let before = single.contains(phys);
                changed += u64::from(before != used);
                if used {
                    single.insert(phys);
                } else if before {
                    single.fill(run(phys, 1), false);
                }
            }
            assert_eq!(runs.fill(run(start, len), used), changed);
        }
        assert!((0..4 * page).all(|phys| runs.contains(phys) == single.contains(phys)));
        assert_eq!((runs.next(0, true), runs.next(4, false)), (0, 64));
        assert_eq!((runs.differs(&single), runs.end()), (None, u64::from(3 * page) - 3));
        assert_eq!(runs.next(u64::from(page), true), u64::from(2 * page) + 70);
        single.insert(page + 7);
        assert_eq!(runs.differs(&single), Some((page + 7, 1)));
        runs.fill(run(4 * page, page), true);
        assert_eq!(runs.differs(&single), Some((page + 7, 1 + u64::from(page))));
    }

    #[test]
    fn gaps_are_found_word_by_word() {
        let mut used = Used::default();
        (60..200).for_each(|phys| assert!(used.insert(phys)));
        assert_eq!((used.next(0, false), used.next(0, true)), (0, 60));
        assert_eq!((used.next(60, false), used.next(199, true)), (200, 199));
        let behind = u64::from(PAGE_BLOCKS) + 9;
        assert_eq!((used.next(200, true), used.next(1000, false), used.next(behind, false)), (u64::MAX, 1000, behind));
        assert_eq!(used.end(), 200);
    }

    #[test]
    fn memory_is_taken_for_the_pages_of_which_some_blocks_are_used() {
        let mut used = Used::default();
        assert!(used.insert_run(run(0, u32::MAX)));
        assert!(used.bytes() < 3 << 20, "{} bytes", used.bytes());
        used = Used::default();
        assert!(used.insert(u32::MAX - 1) && used.bytes() < 3 << 20, "{} bytes", used.bytes());
        assert_eq!((used.next(0, true), used.end()), (u64::from(u32::MAX) - 1, u64::from(u32::MAX)));
    }

    #[test]
    fn a_page_comes_back_as_it_was() {
        let mut used = Used::default();
        used.fill(run(PAGE_BLOCKS, PAGE_BLOCKS), true);
        used.fill(run(2 * PAGE_BLOCKS + 64, 1), true);
        let mut again = Used::default();
        (0..4).for_each(|page| again.set_page(page, &used.page(page)));
        assert_eq!((used.differs(&again), used.page(0), used.page(2)), (None, vec![], vec![0, 1]));
        assert_eq!(used.page(1), vec![u64::MAX; PAGE_WORDS]);
    }
}
