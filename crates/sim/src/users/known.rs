//! What a user who works alone knows of a file, and what the call under way must answer.

use super::blocks::Blocks;
use bytes::Bytes;
use onpath_session::fs::Handle;
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use onpath_wire::xattr::XattrName;
use std::collections::BTreeMap;

pub(super) const KEEP_SIZE: u32 = 1;
pub(super) const PUNCH_HOLE: u32 = 2;
pub(super) const ZERO_RANGE: u32 = 16;

/// A file as its only user knows it.
pub(super) struct Known {
    /// None: unlinked, or never linked, but still open.
    pub(super) name: Option<Name>,
    /// Born without a name, and may get one.
    pub(super) linkable: bool,
    pub(super) id: InodeId,
    /// At each mount; O_APPEND or not.
    pub(super) handles: [Option<(Handle, bool)>; 2],
    pub(super) bytes: Vec<u8>,
    pub(super) blocks: Blocks,
    pub(super) xattrs: BTreeMap<XattrName, Vec<u8>>,
    /// The modification time that was set last, and whether nothing was written since.
    pub(super) time: Option<(i64, bool)>,
}

impl Known {
    /// A file that was just made, without a name so far.
    pub(super) fn fresh(id: InodeId, handles: [Option<(Handle, bool)>; 2]) -> Known {
        let (bytes, blocks, xattrs) = Default::default();
        Known { name: None, linkable: false, id, handles, bytes, blocks, xattrs, time: None }
    }

    pub(super) fn is_changed(&mut self) {
        self.time = self.time.map(|(time, _)| (time, false));
    }

    pub(super) fn allocate(&mut self, mode: u32, offset: u64, bytes: u64) {
        self.is_changed();
        let (start, end) = (offset as usize, (offset + bytes) as usize);
        if mode & KEEP_SIZE == 0 {
            self.bytes.resize(self.bytes.len().max(end), 0);
        }
        if mode & (PUNCH_HOLE | ZERO_RANGE) != 0 {
            let size = self.bytes.len();
            self.bytes[start.min(size)..end.min(size)].fill(0);
        }
        match mode & !KEEP_SIZE {
            PUNCH_HOLE => self.blocks.punch(offset, bytes),
            ZERO_RANGE => self.blocks.zero(offset, bytes),
            _ => self.blocks.reserve(offset, bytes),
        }
    }
}

/// What the call under way must answer.
pub(super) enum Expect {
    MakeDir,
    OpenDir,
    Create(Name, bool),
    TmpFile { append: bool, linkable: bool },
    Link(usize, Name),
    Unlinkable,
    Exchange(usize, usize),
    Write { file: usize, offset: u64, data: Bytes },
    Read { file: usize, offset: u64, bytes: usize },
    Allocate { file: usize, mode: u32, offset: u64, bytes: u64 },
    Seek { file: usize, offset: u64, hole: bool },
    Copy { from: usize, from_offset: u64, file: usize, offset: u64, bytes: u64 },
    Truncate { file: usize, size: u64 },
    SetTime { file: usize, time: i64 },
    Size(usize),
    Xattr { file: usize, name: XattrName, what: Xattr },
    Unlink(usize),
    Release(usize),
    Open { file: usize, truncate: bool, append: bool },
    Rename(usize, Name),
    Lookup(usize),
    Missing,
    List,
    Sum,
    Done,
}

/// What is done with an extended attribute.
pub(super) enum Xattr {
    Set(Vec<u8>),
    Get,
    Remove,
}

impl Expect {
    /// The call.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Expect::MakeDir => "mkdir",
            Expect::OpenDir => "opendir",
            Expect::Create(..) => "create",
            Expect::TmpFile { .. } => "open of a file without a name",
            Expect::Link(..) => "link",
            Expect::Unlinkable => "link of what may have no name",
            Expect::Exchange(..) => "exchange",
            Expect::Write { .. } => "write",
            Expect::Read { .. } => "read",
            Expect::Allocate { .. } => "fallocate",
            Expect::Seek { .. } => "lseek",
            Expect::Copy { .. } => "copy_file_range",
            Expect::Truncate { .. } => "truncate",
            Expect::SetTime { .. } => "utimens",
            Expect::Size(_) => "getattr",
            Expect::Xattr { .. } => "setxattr, getxattr or removexattr",
            Expect::Unlink(_) => "unlink",
            Expect::Release(_) => "release",
            Expect::Open { .. } => "open",
            Expect::Rename(..) => "rename",
            Expect::Lookup(_) => "lookup",
            Expect::Missing => "lookup of a missing name",
            Expect::List => "readdirplus",
            Expect::Sum => "getxattr of onpath.dir",
            Expect::Done => "fsync",
        }
    }
}
