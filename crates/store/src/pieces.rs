//! Images of tables, and settling them, piece by piece, so that whoever holds the lock of a role never holds it for long.
//!
//! An image is as of the moment at which it began, however much changes between its pieces. An object that is about to change and
//! is yet to be taken leaves *early*, as it was; one that is changed or made while the image is under way counts as if it had left
//! already, so no later piece takes it, and keys that go belong to the next image ([`Unsaved::put_off`](crate::Unsaved::put_off)).
//! All of that is told by the flags of objects alone: a walk may see an object twice, and tables may grow and shrink under it.

use crate::cold::{Changes, flag};
use crate::slots::GROUP_SLOTS;
use onpath_wire::ids::Slot;
use std::ops::RangeInclusive;

/// What one piece does, about: so many objects are looked at. The last table or leaf that it looks at may exceed it.
pub const PIECE_LOOKS: usize = 4096;
/// An object that is taken counts as so many that are looked at.
pub const TAKE_LOOKS: usize = 16;

/// What one piece may still do.
#[derive(Debug)]
pub struct Piece {
    left: usize,
}

impl Default for Piece {
    fn default() -> Self {
        Piece { left: PIECE_LOOKS }
    }
}

impl Piece {
    /// One that looks at no more than so many objects, about.
    #[cfg(test)]
    pub(crate) fn of(looks: usize) -> Piece {
        Piece { left: looks }
    }

    /// Objects are looked at.
    #[inline]
    pub(crate) fn look(&mut self, objects: usize) {
        self.left = self.left.saturating_sub(objects);
    }

    /// Objects are taken.
    #[inline]
    pub(crate) fn take(&mut self, objects: usize) {
        self.look(objects * TAKE_LOOKS);
    }

    /// Whether it is done.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Objects that it may still take, at least one.
    pub(crate) fn takes(&self) -> usize {
        self.left.div_ceil(TAKE_LOOKS).max(1)
    }
}

/// A walk through the tables of some slots.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    slots: RangeInclusive<Slot>,
    /// First slot of the next table; beyond all slots at the end.
    next: u32,
}

impl Walk {
    /// Through these whole tables of slots.
    pub(crate) fn new(slots: RangeInclusive<Slot>) -> Walk {
        let next = u32::from(slots.start().0 / GROUP_SLOTS * GROUP_SLOTS);
        Walk { slots, next }
    }

    /// The slots.
    pub(crate) fn slots(&self) -> RangeInclusive<Slot> {
        self.slots.clone()
    }

    /// The next table by its first slot.
    pub(crate) fn table(&mut self) -> Option<Slot> {
        let table = u16::try_from(self.next).ok().filter(|first| *first <= self.slots.end().0)?;
        self.next += u32::from(GROUP_SLOTS);
        Some(Slot(table))
    }
}

/// The image of a table that is under way, and the settling of the last one.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    image: Option<Walk>,
    settling: Option<Walk>,
    /// What has left early.
    early: Changes,
}

impl Pieces {
    /// An image of these slots begins.
    pub(crate) fn begin(&mut self, slots: RangeInclusive<Slot>) {
        assert!(self.image.is_none() && self.settling.is_none(), "one image is taken after the other");
        self.image = Some(Walk::new(slots));
    }

    /// Whether the image of this slot is under way.
    #[inline]
    pub(crate) fn covers(&self, slot: Slot) -> bool {
        self.image.as_ref().is_some_and(|walk| walk.slots.contains(&slot))
    }

    /// The flags of an object of this slot that changes now.
    #[inline]
    pub(crate) fn changed(&self, slot: Slot) -> u8 {
        if self.covers(slot) { flag::DIRTY | flag::LEAVING } else { flag::DIRTY }
    }

    /// An object whose image is under way leaves as it is, since it is about to change; `flags` are what is known of it.
    pub(crate) fn leave_early(&mut self, flags: &mut u8, object: impl FnOnce() -> (Vec<u8>, Vec<u8>)) {
        if is_yet_to_leave(*flags) {
            *flags = *flags & !flag::DIRTY | flag::LEAVING;
            self.early.put.push(object());
        }
    }

    /// The same of something that is kept elsewhere.
    pub(crate) fn early(&mut self) -> &mut Changes {
        &mut self.early
    }

    /// The walk of the image under way; what has left early is added to `changes`.
    pub(crate) fn image(&mut self, changes: &mut Changes) -> Option<&mut Walk> {
        changes.add(std::mem::take(&mut self.early));
        self.image.as_mut()
    }

    /// The image is complete.
    pub(crate) fn end(&mut self) {
        self.image = None;
    }

    /// The walk that settles an image of these slots. One that is under way has failed then: true if there was.
    pub(crate) fn settle(&mut self, slots: RangeInclusive<Slot>, kept: bool) -> (bool, &mut Walk) {
        let failed = self.image.take().is_some();
        assert!(!(failed && kept), "only a complete image is kept");
        self.early = Changes::default();
        let walk = self.settling.get_or_insert_with(|| Walk::new(slots.clone()));
        assert_eq!(walk.slots, slots, "one image is settled after the other");
        (failed, walk)
    }

    /// All is settled.
    pub(crate) fn settled(&mut self) {
        self.settling = None;
    }
}

/// Whether an object of an image under way is yet to be taken.
#[inline]
pub(crate) fn is_yet_to_leave(flags: u8) -> bool {
    flags & (flag::DIRTY | flag::LEAVING) == flag::DIRTY
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Inodes, Listings, NameValue, Names};
    use onpath_wire::disk::inode::Inode;
    use onpath_wire::ids::{Birth, InodeId};
    use onpath_wire::inode::Kind;
    use onpath_wire::name::Name;
    use onpath_wire::secrets::Secrets;

    const SLOTS: RangeInclusive<Slot> = Slot(0)..=Slot(1023);
    const MOST: usize = PIECE_LOOKS / TAKE_LOOKS;

    /// Objects that each piece of an image has taken.
    fn taken(mut more: impl FnMut(&mut Changes) -> bool) -> Vec<usize> {
        let mut pieces = Vec::new();
        let mut go_on = true;
        while go_on {
            let mut changes = Changes::default();
            go_on = more(&mut changes);
            pieces.push(changes.put.len() + changes.removed.len());
        }
        pieces
    }

    /// The most objects that one hold of a role's lock takes: what a piece may, and the rest of the last table or leaf.
    fn check(pieces: &[usize], objects: usize, of_table: usize) {
        assert_eq!(pieces.iter().sum::<usize>(), objects);
        assert!(pieces.iter().all(|taken| *taken <= MOST + of_table), "{pieces:?}");
    }

    fn settled(mut settle: impl FnMut(&mut Piece) -> bool) -> usize {
        let mut pieces = 1;
        while settle(&mut Piece::default()) {
            pieces += 1;
        }
        pieces
    }

    #[test]
    fn no_piece_takes_more_than_its_share() {
        let ids: Vec<InodeId> =
            (0..20_000).map(|i| InodeId::new(Slot(i % 1024), Birth(1), i + 1, Kind::File)).collect();
        let mut inodes = Inodes::default();
        ids.iter().for_each(|&id| inodes.put(&Inode::new(id, Kind::File), true));
        inodes.begin_image(SLOTS);
        check(&taken(|changes| inodes.more_of_image(&mut Piece::default(), changes)), ids.len(), 320);
        assert!(settled(|piece| inodes.settle(SLOTS, true, piece)) >= ids.len() / PIECE_LOOKS);
        ids.iter().for_each(|&id| assert!(inodes.remove(id)));
        inodes.begin_image(SLOTS);
        check(&taken(|changes| inodes.more_of_image(&mut Piece::default(), changes)), ids.len(), 0);
        assert!(settled(|piece| inodes.settle(SLOTS, true, piece)) >= ids.len() / MOST);

        let secrets = Secrets::of_seed(3);
        let mut names = Names::new(secrets.placement, secrets.inner.names());
        let here = |name: &Name| SLOTS.contains(&names.at(InodeId::ROOT, name).slot());
        let numbered = (0u32..).map(|i| Name::new(format!("{i:x}").as_bytes()).unwrap());
        let all: Vec<Name> = numbered.filter(here).take(5_000).collect();
        let value = NameValue { child: InodeId(7), kind: Kind::File };
        for name in &all {
            names.put(&names.at(InodeId::ROOT, name), value);
        }
        names.begin_image(SLOTS);
        check(&taken(|changes| names.more_of_image(&mut Piece::default(), changes)), all.len(), 160);
    }

    #[test]
    fn a_large_directory_is_imaged_leaf_by_leaf_as_it_was() {
        let (mut listings, dir) =
            (Listings::new(Secrets::of_seed(3).inner.listings()), InodeId::new(Slot(5), Birth(1), 1, Kind::Directory));
        let name = |i: u32| format!("file-{i:08}").into_bytes();
        (0..50_000).for_each(|i| assert!(listings.put(dir, &name(i), InodeId(1), Kind::File)));
        listings.begin_image(SLOTS);
        let mut round = 0;
        let pieces = taken(|changes| {
            // Three entries come, change and go between two pieces.
            assert!(listings.put(dir, &name(100_000 + round), InodeId(2), Kind::File));
            assert!(!listings.put(dir, &name(round * 2), InodeId(2), Kind::File));
            assert!(listings.remove(dir, &name(round * 2 + 1)));
            round += 1;
            let more = listings.more_of_image(&mut Piece::default(), changes);
            assert!(changes.removed.is_empty() && changes.put.iter().all(|(_, value)| value.contains(&1)));
            more
        });
        check(&pieces, 50_000, 100);
        assert!(settled(|piece| listings.settle(SLOTS, true, piece)) > 10);
        listings.begin_image(SLOTS);
        let mut again = Changes::default();
        while listings.more_of_image(&mut Piece::default(), &mut again) {}
        assert_eq!((again.put.len(), again.removed.len()), (2 * round as usize, round as usize), "what came between");
    }
}
