//! An inode as records, checkpoints and operations see it; `store` packs it for memory.

use crate::codec::Blob;
use crate::ids::{Generation, InodeId, Stamp};
use crate::inode::Kind;
use crate::name::Name;
use crate::stored_struct;

stored_struct! {
    /// Everything about an inode. `parent`, `name`, `entries`, `mtime_stamp` matter for directories;
    /// `generation`, `cut`, `blocks` for regular files. Reserved later fields, of regular files: 2 position up to which writes are
    /// known, 3 positions that were refused.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Inode {
        /// Its id.
        pub id: InodeId,
        /// File type.
        pub kind: Kind,
        /// Permission bits including setuid, setgid and sticky.
        pub mode: u16,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// Links; a directory has 2 + subdirectories; 0 is an orphan (design.md, "Sessions").
        pub nlink: u32,
        /// File size in bytes.
        pub size: u64,
        /// Allocated 4 KiB blocks.
        pub blocks: u64,
        /// Version of `blocks`, counted by the data node.
        pub blocks_version: u64,
        /// Access time, ns since 1970.
        pub atime: i64,
        /// Modification time, ns since 1970.
        pub mtime: i64,
        /// Change time, ns since 1970: the stamp of the last change.
        pub ctime: i64,
        /// Birth time, ns since 1970.
        pub btime: i64,
        /// Stamp at which `mtime` was set: the higher stamp wins, whatever the value.
        pub mtime_stamp: Stamp,
        /// Device number.
        pub rdev: u32,
        /// The parent of a directory; for others the directory of a name, which is charged for the inode.
        pub parent: InodeId,
        /// Entries of a directory.
        pub entries: u64,
        /// Generation of the file's bytes.
        pub generation: Generation,
        /// Raised by every shrink to more than 0.
        pub cut: u32,
        /// Target of a symlink.
        pub target: Blob;
        /// The name of a directory in its parent; the root has none.
        1 => pub name: Option<Name>,
    }
}

impl Inode {
    /// An inode of `kind` with no permissions, no times and one link (two for a directory).
    pub fn new(id: InodeId, kind: Kind) -> Inode {
        Inode {
            id,
            kind,
            mode: 0,
            uid: 0,
            gid: 0,
            nlink: if kind == Kind::Directory { 2 } else { 1 },
            size: 0,
            blocks: 0,
            blocks_version: 0,
            atime: 0,
            mtime: 0,
            ctime: 0,
            btime: 0,
            mtime_stamp: Stamp(0),
            rdev: 0,
            parent: InodeId::NONE,
            entries: 0,
            generation: Generation(0),
            cut: 0,
            target: Blob::default(),
            name: None,
        }
    }

    /// The size that stat shows: bytes, target length, or for a directory a size that grows with its entries.
    pub fn visible_size(&self) -> u64 {
        match self.kind {
            Kind::Directory => 4096 + self.entries * 32,
            Kind::Symlink => self.target.0.len() as u64,
            _ => self.size,
        }
    }

    /// Whether this is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Directory
    }
}
