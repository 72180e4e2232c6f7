//! Many small hash tables of handles, each for 16 neighbouring slots: tables grow one by one, so no rehash stops
//! the shard, and what belongs to a slot, the unit of migration, is found without a scan of everything.
//!
//! A table for each single slot would waste cache: with a million files at a shard, creates take 1.5 times as long.
//!
//! Beside a handle its table keeps 12 bits of the hash. They are all that a table goes by: a table that grows reads
//! no record, and a lookup reads no record but, once in 4,096 times for each neighbour, its own. Flags tell what is known of the object
//! (see `cold`), so that what is to be written or forgotten is found without reading records either.

use crate::arena::Handle;
use hashbrown::HashTable;
use onpath_wire::ids::Slot;
use onpath_wire::limits::SLOTS;
use std::ops::RangeInclusive;

/// Slots of one table.
pub(crate) const GROUP_SLOTS: u16 = 16;
/// Tables are made in pages, so that a shard pays only for the slots it holds.
const PAGE_TABLES: usize = 64;

type Page = Box<[HashTable<Bucket>; PAGE_TABLES]>;

/// A tag of the hash with flags of the object below it, and the low and the high half of the handle: 6 bytes.
#[derive(Clone, Copy, Debug)]
struct Bucket([u16; 3]);

/// The bits of a bucket's first word that are the tag; the others are flags, moved down by [`FLAGS_SHIFT`].
const TAG_MASK: u16 = 0xfff0;
const FLAGS_SHIFT: u32 = 4;

impl Bucket {
    #[inline]
    fn new(hash: u64, handle: Handle, flags: u8) -> Bucket {
        Bucket([tag_of(hash) | u16::from(flags >> FLAGS_SHIFT), handle.0 as u16, (handle.0 >> 16) as u16])
    }

    #[inline]
    fn tag(self) -> u16 {
        self.0[0] & TAG_MASK
    }

    #[inline]
    fn flags(self) -> u8 {
        (self.0[0] << FLAGS_SHIFT) as u8
    }

    #[inline]
    fn set_flags(&mut self, flags: u8) {
        self.0[0] = self.tag() | u16::from(flags >> FLAGS_SHIFT);
    }

    #[inline]
    fn handle(self) -> Handle {
        Handle(u32::from(self.0[1]) | u32::from(self.0[2]) << 16)
    }

    #[inline]
    fn set_handle(&mut self, handle: Handle) {
        (self.0[1], self.0[2]) = (handle.0 as u16, (handle.0 >> 16) as u16);
    }
}

#[inline]
fn tag_of(hash: u64) -> u16 {
    hash as u16 & TAG_MASK
}

/// The hash by which a table places a tag: both its lowest and its highest bits count.
#[inline]
fn spread(tag: u16) -> u64 {
    u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The first slots of the tables of these slots.
fn tables(slots: RangeInclusive<Slot>) -> impl Iterator<Item = Slot> {
    (slots.start().0 / GROUP_SLOTS..=slots.end().0 / GROUP_SLOTS).map(|table| Slot(table * GROUP_SLOTS))
}

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
    #[inline]
    fn get(&self, slot: Slot) -> Option<&HashTable<Bucket>> {
        let (page, table) = table_of(slot);
        Some(&self.pages[page].as_ref()?[table])
    }

    #[inline]
    fn get_mut(&mut self, slot: Slot) -> Option<&mut HashTable<Bucket>> {
        let (page, table) = table_of(slot);
        Some(&mut self.pages[page].as_mut()?[table])
    }

    /// The handle of this hash that `is` the one, in the table of a slot. Bits 4 to 15 of the
    /// hash must differ well among what is in a table.
    #[inline]
    pub(crate) fn find(&self, slot: Slot, hash: u64, is: impl Fn(Handle) -> bool) -> Option<Handle> {
        let tag = tag_of(hash);
        let found = self.get(slot)?.find(spread(tag), |bucket| bucket.tag() == tag && is(bucket.handle()))?;
        Some(found.handle())
    }

    /// The same, and the object gets these flags too.
    #[inline]
    pub(crate) fn flag(&mut self, slot: Slot, hash: u64, flags: u8, is: impl Fn(Handle) -> bool) -> Option<Handle> {
        let tag = tag_of(hash);
        let found = self.get_mut(slot)?.find_mut(spread(tag), |bucket| bucket.tag() == tag && is(bucket.handle()))?;
        if found.flags() & flags != flags {
            found.set_flags(found.flags() | flags);
        }
        Some(found.handle())
    }

    /// Shows what is known of the handle of this hash that `is` the one, with its flags, which may change.
    pub(crate) fn look(
        &mut self,
        slot: Slot,
        hash: u64,
        is: impl Fn(Handle) -> bool,
        look: impl FnOnce(Handle, &mut u8),
    ) {
        let tag = tag_of(hash);
        let found = self
            .get_mut(slot)
            .and_then(|table| table.find_mut(spread(tag), |bucket| bucket.tag() == tag && is(bucket.handle())));
        if let Some(bucket) = found {
            let mut flags = bucket.flags();
            look(bucket.handle(), &mut flags);
            bucket.set_flags(flags);
        }
    }

    /// Puts another handle in the place of one that is there.
    pub(crate) fn replace(&mut self, slot: Slot, hash: u64, old: Handle, new: Handle) {
        let bucket = self.get_mut(slot).and_then(|table| table.find_mut(spread(tag_of(hash)), |b| b.handle() == old));
        bucket.expect("the handle was found before").set_handle(new);
    }

    /// Inserts a handle that is not there.
    #[inline]
    pub(crate) fn insert(&mut self, slot: Slot, hash: u64, handle: Handle, flags: u8) {
        let (page, table) = table_of(slot);
        let page = &mut self.pages[page];
        let table = &mut page.get_or_insert_with(|| Box::new(std::array::from_fn(|_| HashTable::new())))[table];
        let bucket = Bucket::new(hash, handle, flags);
        table.insert_unique(spread(bucket.tag()), bucket, |bucket| spread(bucket.tag()));
    }

    /// Takes out the handle of this hash that `is` the one, with its flags.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot, hash: u64, is: impl Fn(Handle) -> bool) -> Option<(Handle, u8)> {
        let tag = tag_of(hash);
        let table = self.get_mut(slot)?;
        let entry = table.find_entry(spread(tag), |bucket| bucket.tag() == tag && is(bucket.handle())).ok()?;
        let bucket = entry.remove().0;
        Some((bucket.handle(), bucket.flags()))
    }

    /// Every handle of the tables of these slots, in no order: those of their neighbours are among them.
    pub(crate) fn handles(&self, slots: RangeInclusive<Slot>) -> impl Iterator<Item = Handle> {
        tables(slots).filter_map(|first| self.get(first)).flatten().map(|bucket| bucket.handle())
    }

    /// Shows every handle of the table that begins with this slot with its flags, which may change. How many there are.
    pub(crate) fn visit(&mut self, first: Slot, mut visit: impl FnMut(Handle, &mut u8)) -> usize {
        let Some(table) = self.get_mut(first) else { return 0 };
        for bucket in table.iter_mut() {
            let mut flags = bucket.flags();
            visit(bucket.handle(), &mut flags);
            bucket.set_flags(flags);
        }
        table.len()
    }

    /// Takes out what `forget` says of the tables of these slots.
    pub(crate) fn forget(&mut self, slots: RangeInclusive<Slot>, mut forget: impl FnMut(Handle, &mut u8) -> bool) {
        for first in tables(slots) {
            let Some(table) = self.get_mut(first) else { continue };
            table.retain(|bucket| {
                let mut flags = bucket.flags();
                let forget = forget(bucket.handle(), &mut flags);
                bucket.set_flags(flags);
                !forget
            });
            // A table that has lost most gives its room back.
            if table.len() * 4 < table.capacity() {
                table.shrink_to_fit(|bucket| spread(bucket.tag()));
            }
        }
    }

    /// Number of handles.
    pub(crate) fn len(&self) -> u64 {
        self.pages.iter().flatten().flat_map(|page| page.iter()).map(|table| table.len() as u64).sum()
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
