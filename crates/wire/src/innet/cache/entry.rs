//! What an entry of the cache says.

use super::Value;
use crate::attr::AttrWire;
use crate::codec::Wire;
use crate::ids::InodeId;
use crate::innet::common::fields;
use crate::inode::Kind;
use crate::reply::DataRef;

fields! {
    /// What an entry says: of a directory the switch answers id, kind, mode, uid and gid only. The fields from `id` to `blocks_or_rdev` are
    /// those of [`AttrWire`](crate::attr::AttrWire) in network order.
    pub struct EntryValue: 84 {
        /// The directory that has the name; 0 of the root.
        0 => pub parent: u64,
        /// The inode, not 0.
        8 => pub id: u64,
        /// Its type.
        16 => pub kind: u8,
        /// Bits of [`flag`](crate::attr::flag).
        17 => pub flags: u8,
        /// Permission bits including setuid, setgid and sticky.
        18 => pub mode: u16,
        /// Owner.
        20 => pub uid: u32,
        /// Group.
        24 => pub gid: u32,
        /// Links.
        28 => pub nlink: u32,
        /// Size in bytes.
        32 => pub size: u64,
        /// Modification time.
        40 => pub mtime: u64,
        /// Change time.
        48 => pub ctime: u64,
        /// Access time, as of the fill.
        56 => pub atime: u64,
        /// 512-byte blocks of a file, or the device number of a device.
        64 => pub blocks_or_rdev: u64,
        /// Generation of the file's data.
        72 => pub generation: u64,
        /// Its last cut.
        80 => pub cut: u32,
    }
}

impl EntryValue {
    /// What the entry of a name in a directory says of its inode.
    pub fn of_inode(parent: InodeId, attr: &AttrWire, data: &DataRef) -> EntryValue {
        EntryValue {
            parent: parent.0,
            id: attr.id.0,
            kind: attr.kind.d_type(),
            flags: attr.flags,
            mode: attr.mode,
            uid: attr.uid,
            gid: attr.gid,
            nlink: attr.nlink,
            size: attr.size,
            mtime: attr.mtime as u64,
            ctime: attr.ctime as u64,
            atime: attr.atime as u64,
            blocks_or_rdev: attr.blocks_or_rdev,
            generation: data.generation.0,
            cut: data.cut,
        }
    }

    /// The attributes of the inode; none if no inode has such.
    pub fn attr(&self) -> Option<AttrWire> {
        let kind = Kind::from_bytes(&[self.kind]).ok()?;
        let attr = AttrWire {
            id: InodeId(self.id),
            kind,
            flags: self.flags,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            nlink: self.nlink,
            size: self.size,
            mtime: self.mtime as i64,
            ctime: self.ctime as i64,
            atime: self.atime as i64,
            blocks_or_rdev: self.blocks_or_rdev,
        };
        attr.id.is_of(kind).then_some(attr)
    }

    /// As a field of a header.
    #[inline]
    pub fn value(&self) -> Value {
        Value(self.bytes())
    }

    /// What a field of a header says.
    #[inline]
    pub fn of(value: &Value) -> EntryValue {
        EntryValue::of_bytes(&value.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Behind parent come the attributes of replies, field by field.
    #[test]
    fn a_value_has_all_attributes() {
        let mut inode = crate::disk::inode::Inode::new(InodeId(1 << 40 | 2), Kind::File);
        (inode.mode, inode.uid, inode.gid, inode.size, inode.blocks) = (0o640, 3, 4, 5, 6);
        (inode.mtime, inode.ctime, inode.atime) = (-7, 8, 9);
        let attr = AttrWire { flags: 2, nlink: 1, ..AttrWire::of(&inode) };
        let data = DataRef { cut: 7, ..DataRef::default() };
        let value = EntryValue::of_inode(InodeId::ROOT, &attr, &data);
        assert_eq!((value.parent, value.cut, value.attr()), (1, 7, Some(attr)));
        assert_eq!(EntryValue::of(&value.value()), value);
        assert_eq!(8 + attr.to_bytes().len(), 72);
        let generation = EntryValue::FIELDS.iter().find(|field| field.name == "generation").expect("a field");
        assert_eq!(generation.at, 72);
        for kind in [0, 4, 255] {
            assert_eq!(EntryValue { kind, ..value }.attr(), None, "of a file");
        }
    }
}
