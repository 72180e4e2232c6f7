//! Extended attributes, a side table: inodes without any are not in it.
//!
//! Those of an inode are one object of the store. They come into memory with their inode, and may be forgotten when it is not there.

use crate::cold::{Changes, Cold, Unsaved, class, xattrs_key};
use crate::inodes::ids_of;
use crate::pieces::Piece;
use onpath_wire::WireError;
use onpath_wire::acl::{Acl, Acls};
use onpath_wire::codec::Blob;
use onpath_wire::disk::Stored;
use onpath_wire::disk::objects::{Xattr, XattrsObject};
use onpath_wire::ids::{InodeId, Slot};
use onpath_wire::xattr::{ACL_ACCESS, ACL_DEFAULT, XattrName};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The extended attributes of an inode; never none.
#[derive(Clone, Debug, Default)]
pub struct XattrSet {
    /// Sorted by name.
    attributes: Vec<(XattrName, Box<[u8]>)>,
    /// Those among them that are ACLs, ready to be used.
    acls: Option<Arc<Acls>>,
}

impl XattrSet {
    /// The value of an attribute.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.place(name).ok().map(|at| &*self.attributes[at].1)
    }

    /// All attributes in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&XattrName, &[u8])> {
        self.attributes.iter().map(|(name, value)| (name, &**value))
    }

    /// Bytes of names and values.
    pub fn bytes(&self) -> usize {
        self.iter().map(|(name, value)| name.as_bytes().len() + value.len()).sum()
    }

    /// Its ACLs, if there are any.
    pub fn acls(&self) -> Option<&Arc<Acls>> {
        self.acls.as_ref()
    }

    fn to_bytes(&self) -> Vec<u8> {
        let all = self.iter().map(|(name, value)| Xattr { name: name.clone(), value: Blob(value.to_vec()) });
        XattrsObject { all: all.collect() }.to_stored()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<XattrSet, WireError> {
        let mut set = XattrSet::default();
        XattrsObject::from_stored(bytes)?.all.iter().for_each(|xattr| set.set(&xattr.name, &xattr.value.0));
        Ok(set)
    }

    fn place(&self, name: &[u8]) -> Result<usize, usize> {
        self.attributes.binary_search_by(|(other, _)| other.as_bytes().cmp(name))
    }

    fn set(&mut self, name: &XattrName, value: &[u8]) {
        match self.place(name.as_bytes()) {
            Ok(at) => self.attributes[at].1 = value.into(),
            Err(at) => self.attributes.insert(at, (name.clone(), value.into())),
        }
        self.read_acls(name);
    }

    fn remove(&mut self, name: &XattrName) {
        if let Ok(at) = self.place(name.as_bytes()) {
            self.attributes.remove(at);
        }
        self.read_acls(name);
    }

    /// Only valid ACLs are ever stored.
    fn read_acls(&mut self, changed: &XattrName) {
        if ![ACL_ACCESS, ACL_DEFAULT].contains(&changed.as_bytes()) {
            return;
        }
        let read = |name| self.get(name).and_then(|value| Acl::from_xattr(value).ok().flatten());
        let acls = Acls { access: read(ACL_ACCESS), default: read(ACL_DEFAULT) };
        self.acls = (acls != Acls::default()).then(|| Arc::new(acls));
    }
}

/// The extended attributes of inodes that have some, as far as they are in memory.
#[derive(Debug, Default)]
pub(crate) struct XattrTable {
    sets: BTreeMap<InodeId, XattrSet>,
    bytes: u64,
    unsaved: Unsaved<InodeId>,
    /// The store has some of other inodes.
    stored: bool,
}

impl XattrTable {
    /// Whether no inode has any.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.sets.is_empty() && !self.stored
    }

    /// Whether all that is known of an inode is here, whatever the store says.
    pub(crate) fn has_all_of(&self, id: InodeId) -> bool {
        self.sets.contains_key(&id) || self.unsaved.contains(&id)
    }

    /// From now on this is the store.
    pub(crate) fn attach(&mut self, cold: &dyn Cold) {
        self.stored = false;
        cold.scan(&[class::XATTR], &[], &mut |_, _| {
            self.stored = true;
            false
        });
    }

    /// Takes those of an inode from the store.
    pub(crate) fn fetch(&mut self, id: InodeId, cold: &dyn Cold) {
        if !self.stored || self.has_all_of(id) {
            return;
        }
        if let Some(value) = cold.get(&xattrs_key(id)) {
            self.load(id, XattrSet::from_bytes(&value).expect("the store gives back what was written"));
        }
    }

    /// Takes those of an inode as the store has them, unless newer ones are here.
    pub(crate) fn load(&mut self, id: InodeId, set: XattrSet) {
        if !self.has_all_of(id) && !set.attributes.is_empty() {
            self.bytes += set.bytes() as u64;
            self.sets.insert(id, set);
        }
    }

    /// An image under way takes what it is to have of an inode that is about to change.
    pub(crate) fn leave_early(&mut self, id: InodeId, changes: &mut Changes) {
        if self.unsaved.leave_early(&id) {
            self.take(id, changes);
        }
    }

    fn take(&self, id: InodeId, changes: &mut Changes) {
        match self.sets.get(&id) {
            Some(set) => changes.put.push((xattrs_key(id), set.to_bytes())),
            None => changes.removed.push(xattrs_key(id)),
        }
    }

    /// A piece of what has changed for inodes of some slots since their last image; false if there was nothing.
    pub(crate) fn more_of_image(
        &mut self,
        slots: RangeInclusive<Slot>,
        piece: &mut Piece,
        changes: &mut Changes,
    ) -> bool {
        let ids = self.unsaved.leave_some(ids_of(slots), piece.takes());
        piece.take(ids.len());
        ids.iter().for_each(|&id| self.take(id, changes));
        !ids.is_empty()
    }

    /// No image is under way any more.
    pub(crate) fn end(&mut self) {
        self.unsaved.end();
    }

    /// The store has (`kept`) or will not have the last image of these slots; false if there was nothing to settle.
    pub(crate) fn settle(&mut self, slots: RangeInclusive<Slot>, kept: bool, piece: &mut Piece) -> bool {
        let settled = self.unsaved.settle_some(ids_of(slots), kept, piece.takes());
        piece.take(settled);
        self.stored |= settled > 0 && kept;
        settled > 0
    }

    /// Forgets those of inodes of some slots that the store has too and that `may_go`.
    pub(crate) fn forget(&mut self, slots: RangeInclusive<Slot>, mut may_go: impl FnMut(InodeId) -> bool) {
        let ids = self.sets.range(ids_of(slots)).map(|(&id, _)| id);
        let ids: Vec<InodeId> = ids.filter(|&id| !self.unsaved.contains(&id) && may_go(id)).collect();
        for id in ids {
            let set = self.sets.remove(&id).expect("just seen");
            self.bytes -= set.bytes() as u64;
        }
    }

    pub(crate) fn get(&self, id: InodeId) -> Option<&XattrSet> {
        self.sets.get(&id)
    }

    fn changed(&mut self, id: InodeId, later: bool) {
        if later { self.unsaved.put_off(id) } else { self.unsaved.add(id) }
    }

    /// Sets one. Here and below, `later`: the image under way is not to have the change.
    pub(crate) fn set(&mut self, id: InodeId, name: &XattrName, value: &[u8], later: bool) {
        self.changed(id, later);
        let set = self.sets.entry(id).or_default();
        self.bytes -= set.bytes() as u64;
        set.set(name, value);
        self.bytes += set.bytes() as u64;
    }

    /// Removes one.
    pub(crate) fn remove(&mut self, id: InodeId, name: &XattrName, later: bool) {
        if !self.sets.contains_key(&id) {
            return;
        }
        self.changed(id, later);
        let set = self.sets.get_mut(&id).expect("just seen");
        self.bytes -= set.bytes() as u64;
        set.remove(name);
        self.bytes += set.bytes() as u64;
        if set.attributes.is_empty() {
            self.sets.remove(&id);
        }
    }

    /// The inode is gone.
    pub(crate) fn remove_all(&mut self, id: InodeId, later: bool) {
        if let Some(set) = self.sets.remove(&id) {
            self.bytes -= set.bytes() as u64;
            self.changed(id, later);
        }
    }

    /// The same of an inode that is only in the store.
    pub(crate) fn remove_stored(&mut self, id: InodeId, later: bool) {
        if self.stored {
            self.changed(id, later);
        }
    }

    /// Inodes of some slots, sorted.
    pub(crate) fn in_slots(&self, slots: RangeInclusive<Slot>) -> impl Iterator<Item = (InodeId, &XattrSet)> {
        self.sets.range(ids_of(slots)).map(|(&id, set)| (id, set))
    }

    /// Bytes in use, about.
    pub(crate) fn bytes(&self) -> u64 {
        const SET_BYTES: u64 = 2 * size_of::<(InodeId, XattrSet)>() as u64;
        self.bytes + SET_BYTES * self.sets.len() as u64 + self.unsaved.bytes(0)
    }
}

#[cfg(test)]
mod tests {
    use crate::Inodes;
    use onpath_wire::attr::flag;
    use onpath_wire::disk::inode::Inode;
    use onpath_wire::ids::{Birth, InodeId, Slot, Stamp};
    use onpath_wire::inode::Kind;
    use onpath_wire::xattr::XattrName;

    fn name(text: &str) -> XattrName {
        XattrName::new(text.as_bytes()).unwrap()
    }

    fn file() -> (Inodes, Inode) {
        let (mut inodes, inode) =
            (Inodes::default(), Inode::new(InodeId::new(Slot(3), Birth(1), 1, Kind::File), Kind::File));
        inodes.put(&inode, true);
        (inodes, inode)
    }

    #[test]
    fn what_is_shown_says_whether_there_are_any() {
        let (mut inodes, inode) = file();
        let id = inode.id;
        assert_eq!(inodes.attr(id).unwrap().flags, 0);
        inodes.set_xattr(id, &name("user.a"), b"1");
        inodes.set_xattr(id, &name("user.b"), b"22");
        inodes.put(&Inode { mode: 0o600, ..inode }, false);
        assert_eq!(inodes.attr(id).unwrap().flags, flag::XATTRS, "kept over a change");
        assert_eq!(inodes.xattrs(id).unwrap().get(b"user.b"), Some(&b"22"[..]));
        inodes.remove_xattr(id, &name("user.a"));
        assert!(inodes.has_xattrs(id));
        inodes.remove_xattr(id, &name("user.b"));
        assert_eq!((inodes.has_xattrs(id), inodes.attr(id).unwrap().flags), (false, 0));
    }

    #[test]
    fn a_write_takes_capabilities_and_nothing_else() {
        let (mut inodes, inode) = file();
        for left in [None, Some(name("user.a"))] {
            inodes.set_xattr(inode.id, &XattrName::capability(), b"1");
            left.iter().for_each(|name| inodes.set_xattr(inode.id, name, b"2"));
            assert!(inodes.merged(inode.id, 5, 1, 1, false, Stamp(9)));
            let names: Vec<_> = inodes.xattrs(inode.id).into_iter().flat_map(|set| set.iter()).collect();
            assert_eq!(names.into_iter().map(|(name, _)| name.clone()).next(), left);
        }
    }

    #[test]
    fn attributes_go_with_their_inode() {
        let (mut inodes, inode) = file();
        inodes.set_xattr(inode.id, &name("user.a"), b"1");
        assert_eq!(inodes.xattrs_in_slots(Slot(3)..=Slot(3)).count(), 1);
        assert_eq!(inodes.xattrs_in_slots(Slot(4)..=Slot(u16::MAX)).count(), 0);
        assert!(inodes.remove(inode.id) && inodes.xattrs(inode.id).is_none());
    }
}
