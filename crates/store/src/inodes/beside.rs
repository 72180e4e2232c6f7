//! What lies beside an inode: extended attributes, and the directories of a file's further names.

use super::Inodes;
use crate::cold::{flag, id_of};
use crate::further;
use crate::xattrs::XattrSet;
use onpath_wire::WireError;
use onpath_wire::acl::Acls;
use onpath_wire::ids::{InodeId, Slot};
use onpath_wire::xattr::XattrName;
use std::ops::RangeInclusive;
use std::sync::Arc;

impl Inodes {
    /// Whether it has extended attributes.
    #[inline]
    pub fn has_xattrs(&mut self, id: InodeId) -> bool {
        self.xattrs(id).is_some()
    }

    /// Its extended attributes, if it has any.
    #[inline]
    pub fn xattrs(&mut self, id: InodeId) -> Option<&XattrSet> {
        if self.xattrs.is_empty() {
            return None;
        }
        self.have_xattrs(id);
        self.xattrs.get(id)
    }

    /// Sees to it that the attributes of an inode are in memory: they are if it is.
    fn have_xattrs(&mut self, id: InodeId) {
        if !self.xattrs.is_empty() && !self.xattrs.has_all_of(id) {
            self.place(id, flag::USED);
        }
    }

    /// Its ACLs, if it has any.
    pub fn acls(&mut self, id: InodeId) -> Option<Arc<Acls>> {
        self.xattrs(id)?.acls().cloned()
    }

    /// Sets an extended attribute of an inode that is there, or will be.
    pub fn set_xattr(&mut self, id: InodeId, name: &XattrName, value: &[u8]) {
        self.have_xattrs(id);
        let later = self.xattrs_leave_early(id);
        self.xattrs.set(id, name, value, later);
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(&mut self, id: InodeId, name: &XattrName) {
        self.have_xattrs(id);
        let later = self.xattrs_leave_early(id);
        self.xattrs.remove(id, name, later);
    }

    /// An inode's extended attributes as the store has them.
    pub fn decode_xattrs(key: &[u8], value: &[u8]) -> Result<(InodeId, XattrSet), WireError> {
        Ok((id_of(*key.first_chunk().ok_or(WireError::Truncated)?), XattrSet::from_bytes(value)?))
    }

    /// Whether memory knows the extended attributes of an inode, whatever the store says.
    pub fn knows_xattrs(&self, id: InodeId) -> bool {
        self.xattrs.has_all_of(id)
    }

    /// Takes the extended attributes of an inode as the store has them, unless newer ones are in memory.
    pub fn load_xattrs(&mut self, key: &[u8], value: &[u8]) -> Result<(), WireError> {
        let (id, set) = Inodes::decode_xattrs(key, value)?;
        self.xattrs.load(id, set);
        Ok(())
    }

    /// The inodes of some slots with extended attributes that are in memory, sorted.
    pub fn xattrs_in_slots(&self, slots: RangeInclusive<Slot>) -> impl Iterator<Item = (InodeId, &XattrSet)> {
        self.xattrs.in_slots(slots)
    }

    /// How many names a file has in a directory beside the one that its inode tells of.
    pub fn further(&self, id: InodeId, dir: InodeId) -> u32 {
        self.further.count(id, dir, self.below.store())
    }

    /// A directory in which a file has such further names, if there is one: the first one after `dir`.
    pub fn any_further(&self, id: InodeId, dir: InodeId) -> Option<InodeId> {
        self.further.any(id, dir, self.below.store())
    }

    /// Sets how many further names a file has in a directory.
    pub fn set_further(&mut self, id: InodeId, dir: InodeId, names: u32) {
        let later = self.pieces.covers(id.slot());
        if later {
            self.further.leave_early(id, dir, self.pieces.early());
        }
        self.further.set(id, dir, names, later);
    }

    /// A file, a directory, and its further names there, as the store has it.
    pub fn decode_further(key: &[u8], value: &[u8]) -> Result<(InodeId, InodeId, u32), WireError> {
        further::decode(key, value)
    }

    /// Whether memory knows how many further names a file has in a directory, whatever the store says.
    pub fn knows_further(&self, id: InodeId, dir: InodeId) -> bool {
        self.further.knows(id, dir)
    }

    /// Takes the further names of a file in a directory as the store has them, unless newer ones are in memory.
    pub fn load_further(&mut self, key: &[u8], value: &[u8]) -> Result<(), WireError> {
        let (id, dir, names) = Inodes::decode_further(key, value)?;
        self.further.load(id, dir, names);
        Ok(())
    }

    /// Files of some slots with directories of further names and how many, as far as they are in memory, sorted.
    pub fn further_in_slots(&self, slots: RangeInclusive<Slot>) -> impl Iterator<Item = (InodeId, InodeId, u32)> {
        self.further.in_slots(slots)
    }
}
