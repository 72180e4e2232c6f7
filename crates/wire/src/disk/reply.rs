//! Results of requests that a restart must find again.

use crate::attr::AttrWire;
use crate::ids::{Generation, InodeId, SessionId};
use crate::inode::Kind;
use crate::reply::{DataRef, Reply};
use crate::{stored_enum, stored_struct};

stored_struct! {
    /// Attributes that were answered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Attributes {
        /// The inode.
        pub id: InodeId,
        /// File type.
        pub kind: Kind,
        /// Bits of [`crate::attr::flag`].
        pub flags: u8,
        /// Permission bits including setuid, setgid and sticky.
        pub mode: u16,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// Links.
        pub nlink: u32,
        /// Size in bytes, as stat shows it.
        pub size: u64,
        /// Modification time, ns since 1970.
        pub mtime: i64,
        /// Change time, ns since 1970.
        pub ctime: i64,
        /// Access time, ns since 1970.
        pub atime: i64,
        /// 512-byte blocks of a file, or the device number of a device.
        pub blocks_or_rdev: u64,
    }
}

stored_struct! {
    /// Where a file's bytes are.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Bytes {
        /// Generation of the bytes.
        pub generation: Generation,
        /// Cut under which requests must be made.
        pub cut: u32,
        /// Birth time, ns since 1970.
        pub btime: i64,
    }
}

stored_enum! {
    /// What a request that has changed something was answered.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Answered {
        /// As [`Reply::Done`].
        1 => Done,
        /// As [`Reply::Entry`].
        2 => Entry {
            /// Attributes.
            attributes: Attributes,
            /// Where the bytes are.
            bytes: Bytes,
            /// Whether this request made the inode.
            created: bool,
        },
        /// As [`Reply::Attr`] of an inode that nobody else has open.
        3 => Attr {
            /// Attributes.
            attributes: Attributes,
            /// Where the bytes are.
            bytes: Bytes,
        },
        /// As [`Reply::Written`].
        4 => Written {
            /// Size of the file then.
            size: u64,
        },
        /// As [`Reply::Attached`].
        5 => Attached {
            /// The session.
            session: SessionId,
            /// Lease, ms.
            lease_ms: u64,
        },
        /// As [`Reply::Failed`] with ESTALE: the inode was gone when its record was replayed.
        6 => Gone,
    }
}

impl From<AttrWire> for Attributes {
    fn from(attr: AttrWire) -> Attributes {
        let AttrWire { id, kind, flags, mode, uid, gid, nlink, size, mtime, ctime, atime, blocks_or_rdev } = attr;
        Attributes { id, kind, flags, mode, uid, gid, nlink, size, mtime, ctime, atime, blocks_or_rdev }
    }
}

impl From<Attributes> for AttrWire {
    fn from(attributes: Attributes) -> AttrWire {
        let Attributes { id, kind, flags, mode, uid, gid, nlink, size, mtime, ctime, atime, blocks_or_rdev } =
            attributes;
        AttrWire { id, kind, flags, mode, uid, gid, nlink, size, mtime, ctime, atime, blocks_or_rdev }
    }
}

impl From<DataRef> for Bytes {
    fn from(data: DataRef) -> Bytes {
        let DataRef { generation, cut, btime } = data;
        Bytes { generation, cut, btime }
    }
}

impl From<Bytes> for DataRef {
    fn from(bytes: Bytes) -> DataRef {
        let Bytes { generation, cut, btime } = bytes;
        DataRef { generation, cut, btime }
    }
}

impl Answered {
    /// What is kept of a reply; `None` of one that no record stands for.
    pub fn of(reply: &Reply) -> Option<Answered> {
        Some(match *reply {
            Reply::Done => Answered::Done,
            Reply::Entry { attr, data, created } => {
                Answered::Entry { attributes: attr.into(), bytes: data.into(), created }
            }
            Reply::Attr { attr, data, shared: _ } => Answered::Attr { attributes: attr.into(), bytes: data.into() },
            Reply::Written { size } => Answered::Written { size },
            Reply::Attached { session, lease_ms } => Answered::Attached { session, lease_ms },
            Reply::Failed { errno: crate::Errno::ESTALE } => Answered::Gone,
            _ => return None,
        })
    }
}

impl From<Answered> for Reply {
    fn from(answered: Answered) -> Reply {
        match answered {
            Answered::Done => Reply::Done,
            Answered::Entry { attributes, bytes, created } => {
                Reply::Entry { attr: attributes.into(), data: bytes.into(), created }
            }
            Answered::Attr { attributes, bytes } => {
                Reply::Attr { attr: attributes.into(), data: bytes.into(), shared: false }
            }
            Answered::Written { size } => Reply::Written { size },
            Answered::Attached { session, lease_ms } => Reply::Attached { session, lease_ms },
            Answered::Gone => Reply::Failed { errno: crate::Errno::ESTALE },
        }
    }
}
