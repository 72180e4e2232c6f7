//! Which physical blocks are in use, kept with the index so that a start need not look at every file to know what is free.
//!
//! The checkpoint has it in pages; those that have changed are written with the image of the last range, so it is as of that
//! range's record, which is the newest of all ranges'. Older records that a replay applies to other ranges do not count in it.

use crate::space::Run;
use crate::used::{PAGE_BLOCKS, PAGE_WORDS, Used};
use onpath_store::{Changes, Cold, StoreError, Unsaved};
use onpath_wire::disk::block::MapPage;
use onpath_wire::{Stored, WireError};

/// First byte of a page's key.
pub(crate) const PAGE: u8 = 2;

/// The blocks in use.
#[derive(Debug)]
pub(crate) struct BlockMap {
    /// So many are in the data files that a checkpoint may name.
    room: u64,
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
    /// No block is in use, of so many that there are in data files.
    pub(crate) fn new(room: u64) -> BlockMap {
        BlockMap { room, used: Used::default(), blocks: 0, unsaved: Unsaved::default() }
    }

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

    /// So many blocks are in the data files.
    pub(crate) fn room(&self) -> u64 {
        self.room
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
        self.used.bytes()
    }

    /// Pages that have changed since the last image.
    pub(crate) fn changes(&mut self, changes: &mut Changes) {
        for page in self.unsaved.leave(..) {
            let words = self.used.page(page);
            if words.is_empty() {
                changes.removed.push(key(page));
            } else {
                changes.put.push((key(page), MapPage { words }.to_stored()));
            }
        }
    }

    /// The last image is `kept`, or not.
    pub(crate) fn settle(&mut self, kept: bool) {
        self.unsaved.settle(.., kept);
    }

    /// Takes a page, as the store has it; `key` without its first byte. One that names a block that no data file has is refused: a
    /// checkpoint is written when the blocks that it names are safe, and so are their files. One without a block takes no memory,
    /// wherever it says that it is.
    pub(crate) fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let (page, words) = read(key, value).map_err(undecodable)?;
        let Some(last) = words.iter().rposition(|word| *word != 0) else { return Ok(()) };
        let last = last as u64 * 64 + u64::from(words[last].ilog2());
        let block = u64::from(page) * u64::from(PAGE_BLOCKS) + last;
        if block >= self.room {
            return Err(StoreError::NoBlock { block, room: self.room });
        }
        self.blocks += words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        self.used.set_page(page, &words);
        Ok(())
    }

    /// Takes all pages of a store, up to the first that is refused.
    pub(crate) fn load_all(&mut self, cold: &dyn Cold) -> Result<(), StoreError> {
        let mut loaded = Ok(());
        cold.scan(&[PAGE], &[], &mut |key, value| {
            loaded = self.load(&key[1..], value);
            loaded.is_ok()
        });
        loaded
    }
}

/// An object that does not decode.
pub(crate) fn undecodable(source: WireError) -> StoreError {
    StoreError::Undecodable { what: "object of a data node's checkpoint", source }
}

fn read(key: &[u8], value: &[u8]) -> Result<(u32, Vec<u64>), WireError> {
    let page = u32::from_be_bytes(key.try_into().map_err(|_| WireError::Bad("key of a page of blocks"))?);
    let MapPage { words } = MapPage::from_stored(value)?;
    if words.len() > PAGE_WORDS || page > u32::MAX / PAGE_BLOCKS {
        return Err(WireError::Bad("page of blocks"));
    }
    Ok((page, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: u64 = 3 * PAGE_BLOCKS as u64;

    #[test]
    fn pages_that_changed_are_written_and_come_back() {
        let mut map = BlockMap::new(ROOM);
        map.take(Run { start: PAGE_BLOCKS - 2, len: 4 });
        map.take(Run { start: 5, len: 1 });
        assert_eq!(map.blocks(), 5);
        let mut changes = Changes::default();
        map.changes(&mut changes);
        assert_eq!((changes.put.len(), changes.removed.len()), (2, 0));
        let mut loaded = BlockMap::new(ROOM);
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

    #[test]
    fn a_page_that_names_a_block_of_no_data_file_is_refused_and_takes_no_memory() {
        let page = |words: &[u64]| MapPage { words: words.to_vec() }.to_stored();
        let mut map = BlockMap::new(ROOM);
        let refused = map.load(&u32::to_be_bytes(u32::MAX / PAGE_BLOCKS), &page(&[0, 1]));
        let block = u64::from(u32::MAX / PAGE_BLOCKS) * u64::from(PAGE_BLOCKS) + 64;
        assert_eq!(refused, Err(StoreError::NoBlock { block, room: ROOM }));
        assert_eq!(map.load(&key(3)[1..], &page(&[1])), Err(StoreError::NoBlock { block: ROOM, room: ROOM }));
        assert_eq!(map.load(&u32::to_be_bytes(u32::MAX / PAGE_BLOCKS), &page(&[0; 2])), Ok(()), "without a block");
        assert_eq!((map.bytes(), map.blocks()), (0, 0));
        let last = [&[0; PAGE_WORDS - 1][..], &[1 << 63]].concat();
        assert_eq!(map.load(&key(2)[1..], &page(&last)), Ok(()), "the last block that there is");
        assert_eq!((map.used().end(), map.blocks()), (ROOM, 1));
    }
}
