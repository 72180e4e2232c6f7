//! One small hash table of handles for each slot: tables grow one by one, so no rehash stops the shard, and
//! the contents of a slot, the unit of migration, are found without a scan.

use crate::arena::Handle;
use hashbrown::HashTable;
use onpath_wire::ids::Slot;
use onpath_wire::limits::SLOTS;

/// Tables are made in pages, so that a shard pays only for the slots it holds.
const PAGE_SLOTS: usize = 64;

type Page = Box<[HashTable<Handle>; PAGE_SLOTS]>;

/// The tables of all slots.
#[derive(Debug)]
pub(crate) struct SlotTables {
    pages: Vec<Option<Page>>,
}

impl Default for SlotTables {
    fn default() -> Self {
        SlotTables { pages: (0..SLOTS / PAGE_SLOTS).map(|_| None).collect() }
    }
}

impl SlotTables {
    /// The table of a slot, if anything was ever in its page.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&HashTable<Handle>> {
        let slot = slot.0 as usize;
        Some(&self.pages[slot / PAGE_SLOTS].as_ref()?[slot % PAGE_SLOTS])
    }

    /// The table of a slot, to change what is in it.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut HashTable<Handle>> {
        let slot = slot.0 as usize;
        Some(&mut self.pages[slot / PAGE_SLOTS].as_mut()?[slot % PAGE_SLOTS])
    }

    /// The table of a slot, to insert.
    #[inline]
    pub(crate) fn make(&mut self, slot: Slot) -> &mut HashTable<Handle> {
        let slot = slot.0 as usize;
        let page = &mut self.pages[slot / PAGE_SLOTS];
        &mut page.get_or_insert_with(|| Box::new(std::array::from_fn(|_| HashTable::new())))[slot % PAGE_SLOTS]
    }

    /// Every handle of a slot, in no order.
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
