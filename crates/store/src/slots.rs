//! Many small hash tables of handles, each for 16 neighbouring slots: tables grow one by one, so no rehash stops
//! the shard, and what belongs to a slot, the unit of migration, is found without a scan of everything.
//!
//! A table for each single slot would waste cache: with a million files at a shard, creates take 1.5 times as long.
//!
//! Beside a handle its table keeps 12 bits of the hash. They are all that a table goes by: a table that grows reads
//! no record, and a lookup reads no record but, once in 4,096 times for each neighbour, its own. Flags tell what is known of the object
//! (see `cold`), so that what is to be written or forgotten is found without reading records either.
//!
//! Who can aim many objects at one table, or even at one tag, does not make a lookup slow: a tag that has more than a few handles keeps
//! them in order ([`chains`]).

mod chains;

use crate::arena::Handle;
use chains::Chains;
use hashbrown::HashTable;
use onpath_wire::ids::Slot;
use onpath_wire::limits::SLOTS;
use std::cmp::Ordering;
use std::ops::RangeInclusive;

/// Slots of one table.
pub(crate) const GROUP_SLOTS: u16 = 16;
/// Tables are made in pages, so that a shard pays only for the slots it holds.
const PAGE_TABLES: usize = 64;
/// Handles of one tag that a lookup may walk one by one: so many have a tag by chance only where a table has some 50,000.
const WALKED_MAX: usize = 32;

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

/// The first slot of the table of this slot.
#[inline]
fn first_of(slot: Slot) -> Slot {
    Slot(slot.0 / GROUP_SLOTS * GROUP_SLOTS)
}

/// The same of the tables of these slots.
fn firsts(slots: &RangeInclusive<Slot>) -> RangeInclusive<Slot> {
    first_of(*slots.start())..=first_of(*slots.end())
}

/// Whether a table has more of a tag than are to be walked.
#[inline]
fn is_crowded(table: &HashTable<Bucket>, tag: u16) -> bool {
    table.iter_hash(spread(tag)).filter(|bucket| bucket.tag() == tag).nth(WALKED_MAX).is_some()
}

/// The tables of all slots.
#[derive(Debug)]
pub(crate) struct SlotTables {
    pages: Vec<Option<Page>>,
    chains: Chains,
}

impl Default for SlotTables {
    fn default() -> Self {
        let pages = (0..SLOTS / GROUP_SLOTS as usize / PAGE_TABLES).map(|_| None).collect();
        SlotTables { pages, chains: Chains::default() }
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

    /// The handle of this hash at which `order`, that of a handle towards what is sought, is equal, in the table of a slot. Bits 4 to
    /// 15 of the hash should differ well among what is in a table; where they do not, [`Chains`] bound the work.
    #[inline]
    pub(crate) fn find(&self, slot: Slot, hash: u64, order: impl Fn(Handle) -> Ordering) -> Option<Handle> {
        let tag = tag_of(hash);
        if let Some(chain) = self.chains.of(first_of(slot), tag) {
            return chain.get(order).map(|bucket| bucket.handle());
        }
        let is = |bucket: &Bucket| bucket.tag() == tag && order(bucket.handle()).is_eq();
        Some(self.get(slot)?.find(spread(tag), is)?.handle())
    }

    /// The same, to be changed where it is.
    #[inline]
    fn find_mut(&mut self, slot: Slot, hash: u64, order: impl Fn(Handle) -> Ordering) -> Option<&mut Bucket> {
        let tag = tag_of(hash);
        let (page, table) = table_of(slot);
        let SlotTables { pages, chains } = self;
        if let Some(chain) = chains.of_mut(first_of(slot), tag) {
            return chain.get_mut(order);
        }
        let is = |bucket: &Bucket| bucket.tag() == tag && order(bucket.handle()).is_eq();
        pages[page].as_mut()?[table].find_mut(spread(tag), is)
    }

    /// The handle that is sought, and the object gets these flags too.
    #[inline]
    pub(crate) fn flag(
        &mut self,
        slot: Slot,
        hash: u64,
        flags: u8,
        order: impl Fn(Handle) -> Ordering,
    ) -> Option<Handle> {
        let found = self.find_mut(slot, hash, order)?;
        if found.flags() & flags != flags {
            found.set_flags(found.flags() | flags);
        }
        Some(found.handle())
    }

    /// Shows what is known of the handle that is sought, with its flags, which may change.
    pub(crate) fn look(
        &mut self,
        slot: Slot,
        hash: u64,
        order: impl Fn(Handle) -> Ordering,
        look: impl FnOnce(Handle, &mut u8),
    ) {
        if let Some(bucket) = self.find_mut(slot, hash, order) {
            let mut flags = bucket.flags();
            look(bucket.handle(), &mut flags);
            bucket.set_flags(flags);
        }
    }

    /// Puts another handle in the place of one that is there, and to whose object nothing need lead any more.
    pub(crate) fn replace(
        &mut self,
        slot: Slot,
        hash: u64,
        (old, new): (Handle, Handle),
        order: impl Fn(Handle) -> Ordering,
    ) {
        let order = |handle| if handle == old { Ordering::Equal } else { order(handle) };
        self.find_mut(slot, hash, order).expect("the handle was found before").set_handle(new);
    }

    /// Inserts a handle that is not there; `order` is that of two handles.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        slot: Slot,
        hash: u64,
        (handle, flags): (Handle, u8),
        order: impl Fn(Handle, Handle) -> Ordering,
    ) {
        let bucket = Bucket::new(hash, handle, flags);
        if let Some(chain) = self.chains.of_mut(first_of(slot), bucket.tag()) {
            return chain.insert(bucket, |other| order(other, handle));
        }
        let (page, table) = table_of(slot);
        let page = &mut self.pages[page];
        let table = &mut page.get_or_insert_with(|| Box::new(std::array::from_fn(|_| HashTable::new())))[table];
        table.insert_unique(spread(bucket.tag()), bucket, |bucket| spread(bucket.tag()));
        if table.len() > WALKED_MAX && is_crowded(table, bucket.tag()) {
            self.begin_chain(slot, bucket.tag(), order);
        }
    }

    /// What a table has of this tag becomes a chain.
    #[cold]
    fn begin_chain(&mut self, slot: Slot, tag: u16, order: impl Fn(Handle, Handle) -> Ordering) {
        let (page, table) = table_of(slot);
        let table = &mut self.pages[page].as_mut().expect("somebody has just been inserted")[table];
        let chain = self.chains.begin(first_of(slot), tag);
        while let Ok(entry) = table.find_entry(spread(tag), |bucket| bucket.tag() == tag) {
            let bucket = entry.remove().0;
            chain.insert(bucket, |other| order(other, bucket.handle()));
        }
    }

    /// Takes out the handle that is sought, with its flags.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot, hash: u64, order: impl Fn(Handle) -> Ordering) -> Option<(Handle, u8)> {
        let tag = tag_of(hash);
        let bucket = if self.chains.of(first_of(slot), tag).is_some() {
            self.chains.remove(first_of(slot), tag, order)?
        } else {
            let is = |bucket: &Bucket| bucket.tag() == tag && order(bucket.handle()).is_eq();
            self.get_mut(slot)?.find_entry(spread(tag), is).ok()?.remove().0
        };
        Some((bucket.handle(), bucket.flags()))
    }

    /// Every handle of the tables of these slots, in no order: those of their neighbours are among them.
    pub(crate) fn handles(&self, slots: RangeInclusive<Slot>) -> impl Iterator<Item = Handle> {
        let chained = self.chains.buckets(firsts(&slots)).map(|bucket| bucket.handle());
        let walked = tables(slots).filter_map(|first| self.get(first)).flatten().map(|bucket| bucket.handle());
        walked.chain(chained)
    }

    /// Shows every handle of the table that begins with this slot with its flags, which may change. How many there are.
    pub(crate) fn visit(&mut self, first: Slot, mut visit: impl FnMut(Handle, &mut u8)) -> usize {
        let mut visited = 0;
        let mut see = |bucket: &mut Bucket| {
            let mut flags = bucket.flags();
            visit(bucket.handle(), &mut flags);
            bucket.set_flags(flags);
            visited += 1;
        };
        self.get_mut(first).into_iter().flat_map(HashTable::iter_mut).for_each(&mut see);
        self.chains.buckets_mut(first..=first).for_each(&mut see);
        visited
    }

    /// Takes out what `forget` says of the tables of these slots.
    pub(crate) fn forget(&mut self, slots: RangeInclusive<Slot>, mut forget: impl FnMut(Handle, &mut u8) -> bool) {
        let mut keep = |bucket: &mut Bucket| {
            let mut flags = bucket.flags();
            let forget = forget(bucket.handle(), &mut flags);
            bucket.set_flags(flags);
            !forget
        };
        self.chains.retain(firsts(&slots), &mut keep);
        for first in tables(slots) {
            let Some(table) = self.get_mut(first) else { continue };
            table.retain(&mut keep);
            // A table that has lost most gives its room back.
            if table.len() * 4 < table.capacity() {
                table.shrink_to_fit(|bucket| spread(bucket.tag()));
            }
        }
    }

    /// Number of handles.
    pub(crate) fn len(&self) -> u64 {
        let tables = self.pages.iter().flatten().flat_map(|page| page.iter());
        (tables.map(HashTable::len).sum::<usize>() + self.chains.len()) as u64
    }

    /// Bytes of all tables.
    pub(crate) fn bytes(&self) -> u64 {
        let pages: usize = self
            .pages
            .iter()
            .flatten()
            .map(|page| size_of_val(&**page) + page.iter().map(HashTable::allocation_size).sum::<usize>())
            .sum();
        (pages + self.pages.len() * size_of::<Option<Page>>()) as u64 + self.chains.bytes()
    }
}

#[cfg(test)]
mod tests;
