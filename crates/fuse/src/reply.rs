//! Answers: what they look like on the wire, and the [`Replier`] that sees to it that every request gets exactly one.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi;
use crate::transport::Transport;

/// A name's inode as the kernel is to know it; node id 0 for a name that is known to be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Node id of later requests.
    pub nodeid: u64,
    /// Tells a reused node id from its predecessor; 0 if ids are never reused.
    pub generation: u64,
    /// Attributes; mode, uid, gid and type exact.
    pub attr: abi::Attr,
    /// For how long the name may be used without asking.
    pub entry_valid: Duration,
    /// For how long the attributes may be used without asking; not zero only if they are all exact.
    pub attr_valid: Duration,
}

impl Entry {
    fn to_abi(self) -> abi::EntryOut {
        abi::EntryOut {
            nodeid: self.nodeid,
            generation: self.generation,
            entry_valid: self.entry_valid.as_secs(),
            attr_valid: self.attr_valid.as_secs(),
            entry_valid_nsec: self.entry_valid.subsec_nanos(),
            attr_valid_nsec: self.attr_valid.subsec_nanos(),
            attr: self.attr,
        }
    }
}

/// An open file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Handle of later requests.
    pub handle: u64,
    /// `abi::fopen` bits.
    pub flags: u32,
}

impl Opened {
    fn to_abi(self) -> abi::OpenOut {
        abi::OpenOut { fh: self.handle, open_flags: self.flags, backing_id: 0 }
    }
}

/// The right and the duty to answer one request. Consumed by the answer; dropped without one it answers EIO.
pub struct Replier {
    unique: u64,
    transport: Option<Arc<dyn Transport>>,
}

impl Replier {
    /// For request `unique`, read from `transport`.
    pub fn new(unique: u64, transport: Arc<dyn Transport>) -> Self {
        Self { unique, transport: Some(transport) }
    }

    /// Number of the request.
    pub fn unique(&self) -> u64 {
        self.unique
    }

    fn send(mut self, error: i32, parts: &[&[u8]]) {
        if let Some(transport) = self.transport.take()
            && let Err(error) = transport.reply(self.unique, error, parts)
        {
            tracing::error!(%error, "reply lost");
        }
    }

    /// Failure.
    pub fn error(self, errno: Errno) {
        self.send(errno.raw_os_error(), &[]);
    }

    /// Success without content.
    pub fn ok(self) {
        self.send(0, &[]);
    }

    /// Success or failure without content.
    pub fn unit(self, result: Result<(), Errno>) {
        match result {
            Ok(()) => self.ok(),
            Err(errno) => self.error(errno),
        }
    }

    /// To LOOKUP, MKNOD, MKDIR, SYMLINK, LINK.
    pub fn entry(self, entry: &Entry) {
        self.send(0, &[entry.to_abi().as_bytes()]);
    }

    /// To GETATTR, SETATTR.
    pub fn attr(self, attr: &abi::Attr, valid: Duration) {
        let out =
            abi::AttrOut { attr_valid: valid.as_secs(), attr_valid_nsec: valid.subsec_nanos(), dummy: 0, attr: *attr };
        self.send(0, &[out.as_bytes()]);
    }

    /// To STATX.
    pub fn statx(self, stat: &abi::Statx, valid: Duration) {
        let out = abi::StatxOut {
            attr_valid: valid.as_secs(),
            attr_valid_nsec: valid.subsec_nanos(),
            stat: *stat,
            ..abi::StatxOut::default()
        };
        self.send(0, &[out.as_bytes()]);
    }

    /// To OPEN, OPENDIR.
    pub fn opened(self, opened: &Opened) {
        self.send(0, &[opened.to_abi().as_bytes()]);
    }

    /// To CREATE, TMPFILE.
    pub fn created(self, entry: &Entry, opened: &Opened) {
        self.send(0, &[entry.to_abi().as_bytes(), opened.to_abi().as_bytes()]);
    }

    /// To READ, READLINK, READDIR, READDIRPLUS, GETXATTR and LISTXATTR with a size: at most as many bytes as asked for.
    pub fn data(self, data: &[u8]) {
        self.send(0, &[data]);
    }

    /// The same from several places, without joining them.
    pub fn data_parts(self, parts: &[&[u8]]) {
        self.send(0, parts);
    }

    /// To GETXATTR, LISTXATTR of size 0: the bytes there are.
    pub fn xattr_size(self, size: u32) {
        self.send(0, &[abi::GetxattrOut { size, padding: 0 }.as_bytes()]);
    }

    /// To GETXATTR, LISTXATTR: the value, its length if `asked` is 0, ERANGE if it does not fit.
    pub fn xattr(self, asked: u32, value: &[u8]) {
        match u32::try_from(value.len()) {
            Ok(length) if asked == 0 => self.xattr_size(length),
            Ok(length) if length <= asked => self.data(value),
            _ => self.error(Errno::RANGE),
        }
    }

    /// To WRITE: bytes written.
    pub fn written(self, size: u32) {
        self.send(0, &[abi::WriteOut { size, padding: 0 }.as_bytes()]);
    }

    /// To COPY_FILE_RANGE, or with `wide` to COPY_FILE_RANGE_64: bytes copied.
    pub fn copied(self, bytes_copied: u64, wide: bool) {
        match u32::try_from(bytes_copied) {
            _ if wide => self.send(0, &[abi::CopyFileRangeOut { bytes_copied }.as_bytes()]),
            Ok(size) => self.written(size),
            Err(_) => self.error(Errno::OVERFLOW),
        }
    }

    /// To LSEEK: the position found.
    pub fn position(self, offset: u64) {
        self.send(0, &[abi::LseekOut { offset }.as_bytes()]);
    }

    /// To STATFS.
    pub fn statfs(self, stat: &abi::Kstatfs) {
        self.send(0, &[stat.as_bytes()]);
    }

    /// To GETLK: the lock in the way, or F_UNLCK.
    pub fn lock(self, lock: &abi::FileLock) {
        self.send(0, &[abi::LkOut { lk: *lock }.as_bytes()]);
    }

    /// To INIT.
    pub(crate) fn init(self, out: &abi::InitOut) {
        self.send(0, &[out.as_bytes()]);
    }
}

impl Drop for Replier {
    fn drop(&mut self) {
        if let Some(transport) = self.transport.take() {
            tracing::error!(unique = self.unique, "a request was dropped without an answer; answering EIO");
            if let Err(error) = transport.reply(self.unique, Errno::IO.raw_os_error(), &[]) {
                tracing::error!(%error, "reply lost");
            }
        }
    }
}

/// The answer to READDIR or READDIRPLUS while it grows: records up to the size the kernel asked for.
#[derive(Debug)]
pub struct DirectoryBuffer {
    bytes: Vec<u8>,
    size_max: usize,
    plus: bool,
}

/// One record of a directory.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryEntry<'a> {
    /// Inode number shown by readdir(3).
    pub inode: u64,
    /// Where the *next* READDIR starts: 1 to 2^63 - 1.
    pub next: u64,
    /// DT_REG, DT_DIR, …
    pub kind: u32,
    /// Name.
    pub name: &'a [u8],
}

impl DirectoryBuffer {
    /// For READDIR of `size` bytes.
    pub fn plain(size: u32) -> Self {
        Self::new(size, false)
    }

    /// For READDIRPLUS of `size` bytes.
    pub fn plus(size: u32) -> Self {
        Self::new(size, true)
    }

    fn new(size: u32, plus: bool) -> Self {
        let size_max = size.min(crate::transport::MAX_WRITE) as usize;
        Self { bytes: Vec::with_capacity(size_max), size_max, plus }
    }

    /// Adds an entry; in a READDIRPLUS answer without attributes (node id 0), of which the kernel makes no inode and counts
    /// no lookup. `false`: no room, the entry comes with the next request.
    pub fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        self.append(&abi::EntryOut::default(), entry)
    }

    /// Adds an entry with its inode, a lookup of which is counted; READDIRPLUS only. Never for "." and "..".
    pub fn push_with_inode(&mut self, inode: &Entry, entry: &DirectoryEntry<'_>) -> bool {
        debug_assert!(self.plus, "READDIR answers carry no inodes");
        self.append(&inode.to_abi(), entry)
    }

    fn append(&mut self, inode: &abi::EntryOut, entry: &DirectoryEntry<'_>) -> bool {
        let head = if self.plus { size_of::<abi::EntryOut>() } else { 0 };
        let length = (head + size_of::<abi::Dirent>() + entry.name.len()).next_multiple_of(8);
        let Ok(namelen) = u32::try_from(entry.name.len()) else { return false };
        if self.bytes.len() + length > self.size_max {
            return false;
        }
        let end = self.bytes.len() + length;
        if self.plus {
            self.bytes.extend_from_slice(inode.as_bytes());
        }
        let record = abi::Dirent { ino: entry.inode, off: entry.next, namelen, kind: entry.kind };
        self.bytes.extend_from_slice(record.as_bytes());
        self.bytes.extend_from_slice(entry.name);
        self.bytes.resize(end, 0);
        true
    }

    /// The answer; empty at the end of the directory.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Nothing was added.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &[u8]) -> DirectoryEntry<'_> {
        DirectoryEntry { inode: 7, next: 1, kind: 8, name }
    }

    #[test]
    fn records_are_padded_to_eight_bytes() {
        for (name, plain, plus) in [(&b"a"[..], 32, 160), (b"12345678", 32, 160), (b"123456789", 40, 168)] {
            let mut buffer = DirectoryBuffer::plain(4096);
            assert!(buffer.push(&entry(name)));
            assert_eq!(buffer.as_bytes().len(), plain);
            let mut buffer = DirectoryBuffer::plus(4096);
            assert!(buffer.push(&entry(name)));
            assert_eq!(buffer.as_bytes().len(), plus);
        }
    }

    #[test]
    fn a_record_that_does_not_fit_leaves_the_buffer_alone() {
        let mut buffer = DirectoryBuffer::plain(63);
        assert!(buffer.push(&entry(b"a")));
        assert!(!buffer.push(&entry(b"b")));
        assert_eq!(buffer.as_bytes().len(), 32);
        assert!(!DirectoryBuffer::plus(159).push(&entry(b"a")));
    }
}
