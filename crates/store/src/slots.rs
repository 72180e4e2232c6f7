//! Many small hash tables of handles, each for 16 neighbouring slots: tables grow one by one, so no rehash stops
//! the shard, and what belongs to a slot, the unit of migration, is found without a scan of everything.
//!
//! A table for each single slot would waste cache: with a million files at a shard, creates take 1.5 times as long.

use crate::arena::Handle;
use hashbrown::HashTable;
use onpath_wire::ids::Slot;
use onpath_wire::limits::SLOTS;

/// Slots of one table.
pub(crate) const GROUP_SLOTS: u16 = 16;
/// Tables are made in pages, so that a shard pays only for the slots it holds.
const PAGE_TABLES: usize = 64;

type Page = Box<[HashTable<Handle>; PAGE_TABLES]>;

/// The tables of all slots.
#[derive(Debug)]
pub(crate) struct SlotTables {
    pages: Vec<Option<Page>>,
}

impl Default for SlotTables {
    fn default() -> Self {
        SlotTables { pages: (0..SLOTS / GROUP_SLOTS as usize / PAGE_TABLES).map(|_| None).collect() }
    }
}

fn table_of(slot: Slot) -> (usize, usize) {
    let table = (slot.0 / GROUP_SLOTS) as usize;
    (table / PAGE_TABLES, table % PAGE_TABLES)
}

impl SlotTables {
    /// The table of a slot, if anything was ever in its page.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&HashTable<Handle>> {
        let (page, table) = table_of(slot);
        Some(&self.pages[page].as_ref()?[table])
    }

    /// The table of a slot, to change what is in it.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut HashTable<Handle>> {
        let (page, table) = table_of(slot);
        Some(&mut self.pages[page].as_mut()?[table])
    }

    /// The table of a slot, to insert.
    #[inline]
    pub(crate) fn make(&mut self, slot: Slot) -> &mut HashTable<Handle> {
        let (page, table) = table_of(slot);
        let page = &mut self.pages[page];
        &mut page.get_or_insert_with(|| Box::new(std::array::from_fn(|_| HashTable::new())))[table]
    }

    /// Every handle of the table of a slot, in no order: those of its neighbours are among them.
    pub(crate) fn handles(&self, slot: Slot) -> impl Iterator<Item = Handle> {
        self.get(slot).into_iter().flatten().copied()
    }

    /// Bytes of all tables.
    pub(crate) fn bytes(&self) -> u64 {
        let pages: usize = self
            .pages
            .iter()
            .flatten()
            .map(|page| size_of_val(&**page) + page.iter().map(HashTable::allocation_size).sum::<usize>())
            .sum();
        (pages + self.pages.len() * size_of::<Option<Page>>()) as u64
    }
}
