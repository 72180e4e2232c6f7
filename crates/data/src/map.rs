//! Which physical blocks are in use, kept with the index so that a start need not look at every file to know what is free.
//!
//! The checkpoint has it in pages; those that have changed are written with the image of the last range, so it is as of that
//! range's record, which is the newest of all ranges'. Older records that a replay applies to other ranges do not count in it.

use crate::space::{Run, Used};
use onpath_store::{Changes, Cold, Unsaved};
use onpath_wire::disk::block::MapPage;
use onpath_wire::{Stored, WireError};

/// Blocks of a page: 4 KiB of bits.
const PAGE_BLOCKS: u32 = 32_768;
const PAGE_WORDS: usize = PAGE_BLOCKS as usize / 64;
/// First byte of a page's key.
pub(crate) const PAGE: u8 = 2;

/// The blocks in use.
#[derive(Debug, Default)]
pub(crate) struct BlockMap {
    used: Used,
    /// How many.
    blocks: u64,
    /// Pages.
    unsaved: Unsaved<u32>,
}

fn key(page: u32) -> Vec<u8> {
    [&[PAGE][..], &page.to_be_bytes()].concat()
}

impl BlockMap {
    /// A run is in use from now on.
    pub(crate) fn take(&mut self, run: Run) {
        self.blocks += self.used.fill(run, true);
        self.touch(run);
    }

    /// A run is free.
    pub(crate) fn free(&mut self, run: Run) {
        self.blocks -= self.used.fill(run, false);
        self.touch(run);
    }

    fn touch(&mut self, Run { start, len }: Run) {
        if let Some(more) = len.checked_sub(1) {
            (start / PAGE_BLOCKS..=(start + more) / PAGE_BLOCKS).for_each(|page| self.unsaved.add(page));
        }
    }

    /// How many blocks are in use.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The blocks in use.
    pub(crate) fn used(&self) -> &Used {
        &self.used
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.used.words().len() as u64 * 8
    }

    /// Pages that have changed since the last image.
    pub(crate) fn changes(&mut self, changes: &mut Changes) {
        for page in self.unsaved.leave(..) {
            let words = self.used.words();
            let first = (page as usize * PAGE_WORDS).min(words.len());
            let words = &words[first..words.len().min(first + PAGE_WORDS)];
            if words.iter().all(|word| *word == 0) {
                changes.removed.push(key(page));
            } else {
                changes.put.push((key(page), MapPage { words: words.to_vec() }.to_stored()));
            }
        }
    }

    /// The last image is `kept`, or not.
    pub(crate) fn settle(&mut self, kept: bool) {
        self.unsaved.settle(.., kept);
    }

    /// Takes a page, as the store has it; `key` without its first byte.
    pub(crate) fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), WireError> {
        let page = u32::from_be_bytes(key.try_into().map_err(|_| WireError::Bad("key of a page of blocks"))?);
        let MapPage { words } = MapPage::from_stored(value)?;
        if words.len() > PAGE_WORDS || page > u32::MAX / PAGE_BLOCKS {
            return Err(WireError::Bad("page of blocks"));
        }
        self.blocks += words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        self.used.set_words(page as usize * PAGE_WORDS, &words);
        Ok(())
    }

    /// Takes all pages of a store.
    pub(crate) fn load_all(&mut self, cold: &dyn Cold) {
        cold.scan(&[PAGE], &[], &mut |key, value| {
            self.load(&key[1..], value).expect("the store gives back what was written");
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_changed_are_written_and_come_back() {
        let mut map = BlockMap::default();
        map.take(Run { start: PAGE_BLOCKS - 2, len: 4 });
        map.take(Run { start: 5, len: 1 });
        assert_eq!(map.blocks(), 5);
        let mut changes = Changes::default();
        map.changes(&mut changes);
        assert_eq!((changes.put.len(), changes.removed.len()), (2, 0));
        let mut loaded = BlockMap::default();
        changes.put.iter().for_each(|(key, value)| loaded.load(&key[1..], value).unwrap());
        assert_eq!(loaded.blocks(), 5);
        assert!((0..3 * PAGE_BLOCKS).all(|phys| loaded.used().contains(phys) == map.used().contains(phys)));
        map.settle(false);
        map.free(Run { start: PAGE_BLOCKS, len: 2 });
        let mut again = Changes::default();
        map.changes(&mut again);
        assert_eq!((again.put.len(), again.removed), (1, vec![key(1)]), "an empty page goes");
        map.settle(true);
        let mut nothing = Changes::default();
        map.changes(&mut nothing);
        assert_eq!((nothing, map.blocks()), (Changes::default(), 3));
    }
}
