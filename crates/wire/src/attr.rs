//! The 64-byte attributes (design.md, "Packets"): the same in replies and, later, in switch cache values.

use crate::disk::inode::Inode;
use crate::ids::InodeId;
use crate::inode::Kind;
use crate::wire_struct;

/// Bits of [`AttrWire::flags`].
pub mod flag {
    /// The inode has extended attributes, an ACL among them perhaps.
    pub const XATTRS: u8 = 1;
    /// Of an answer by name: everybody may search the directory that the name is in, so that whoever finds the name in a cache was
    /// allowed to look for it.
    pub const SEARCHABLE: u8 = 2;
    /// The attributes will change by themselves: a data node has yet to say how many blocks a shrink has left.
    pub const UNSETTLED: u8 = 4;
    /// Of an answer by name: the directory is sticky, everybody may write it, and who owns it does not own the inode. That matters to the
    /// rules of fs.protected_symlinks, protected_regular and protected_fifos (proc(5)), which hosts set as they like.
    pub const STICKY_FOR_ALL: u8 = 8;
    /// The same of a directory that its group may write, not everybody.
    pub const STICKY_FOR_GROUP: u8 = 16;
    /// Of an answer by name to a mount: the caller is to get another node than who may open this one. Never in a message.
    pub const APART: u8 = 32;
}

wire_struct! {
    /// Attributes of an inode, 64 bytes. Times are nanoseconds since 1970, clamped to i64.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AttrWire {
        /// The inode.
        pub id: InodeId,
        /// File type.
        pub kind: Kind,
        /// Bits of [`flag`].
        pub flags: u8,
        /// Permission bits including setuid, setgid and sticky.
        pub mode: u16,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// Links; for a directory 2 + subdirectories.
        pub nlink: u32,
        /// Size in bytes.
        pub size: u64,
        /// Modification time.
        pub mtime: i64,
        /// Change time.
        pub ctime: i64,
        /// Access time.
        pub atime: i64,
        /// 512-byte blocks of a file, or the device number of a device.
        pub blocks_or_rdev: u64,
    }
    where AttrWire::fits, else "type of an inode"
}

impl AttrWire {
    /// Attributes of `inode`, without [`flag`]s.
    pub fn of(inode: &Inode) -> AttrWire {
        let device = matches!(inode.kind, Kind::CharDevice | Kind::BlockDevice);
        AttrWire {
            id: inode.id,
            kind: inode.kind,
            flags: 0,
            mode: inode.mode,
            uid: inode.uid,
            gid: inode.gid,
            nlink: inode.nlink,
            size: inode.visible_size(),
            mtime: inode.mtime,
            ctime: inode.ctime,
            atime: inode.atime,
            blocks_or_rdev: if device { u64::from(inode.rdev) } else { inode.blocks.saturating_mul(8) },
        }
    }

    /// Whether the inode can be of this type.
    fn fits(&self) -> bool {
        self.id.is_of(self.kind)
    }

    /// 512-byte blocks.
    pub fn blocks(&self) -> u64 {
        if matches!(self.kind, Kind::CharDevice | Kind::BlockDevice) { 0 } else { self.blocks_or_rdev }
    }

    /// Device number, 0 for what is no device.
    pub fn rdev(&self) -> u32 {
        if matches!(self.kind, Kind::CharDevice | Kind::BlockDevice) { self.blocks_or_rdev as u32 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Wire, WireError};
    use crate::ids::{Birth, Slot};

    const KINDS: [Kind; 3] = [Kind::File, Kind::Directory, Kind::Symlink];

    #[test]
    fn attributes_are_64_bytes() {
        let attr = AttrWire::of(&Inode::new(InodeId::ROOT, Kind::Directory));
        assert_eq!(attr.to_bytes().len(), 64);
        assert_eq!(AttrWire::from_bytes(&attr.to_bytes()), Ok(attr));
    }

    #[test]
    fn a_type_that_the_number_contradicts_is_refused() {
        for kind in KINDS {
            for other in KINDS {
                let inode = Inode::new(InodeId::new(Slot(7), Birth(1), 1, kind), kind);
                let told = AttrWire { kind: other, ..AttrWire::of(&inode) };
                let known = (kind == Kind::Directory) == (other == Kind::Directory);
                let expected = if known { Ok(told) } else { Err(WireError::Bad("type of an inode")) };
                assert_eq!(AttrWire::from_bytes(&told.to_bytes()), expected, "{kind:?} told as {other:?}");
            }
        }
    }
}
