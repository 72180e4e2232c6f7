//! Directory streams.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;

use super::FloorFs;
use crate::reply::{DirectoryBuffer, DirectoryEntry, Opened, Replier};

/// Bytes of entries read from the directory below at a time.
const READ_BYTES: usize = 32 << 10;

/// An open directory; the lock keeps a seek and the read after it together.
pub(super) struct DirectoryStream(Mutex<OwnedFd>);

impl DirectoryStream {
    fn fill(&self, offset: u64, buffer: &mut DirectoryBuffer) -> Result<(), Errno> {
        let directory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rustix::fs::seek(&*directory, SeekFrom::Start(offset))?;
        let mut space = vec![MaybeUninit::uninit(); READ_BYTES];
        let mut entries = RawDir::new(&*directory, &mut space);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let record = DirectoryEntry {
                inode: entry.ino(),
                next: entry.next_entry_cookie(),
                kind: entry.file_type().as_raw_mode() >> 12,
                name: entry.file_name().to_bytes(),
            };
            if !buffer.push(&record) {
                break;
            }
        }
        Ok(())
    }
}

impl FloorFs {
    pub(super) fn opendir(&self, nodeid: u64, replier: Replier) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            self.nodes.directory(nodeid).and_then(|node| rustix::fs::openat(&node, c".", flags, Mode::empty()));
        match directory {
            Ok(directory) => {
                let handle = self.directories.insert(Arc::new(DirectoryStream(Mutex::new(directory))));
                replier.opened(&Opened { handle, flags: 0 });
            }
            Err(errno) => replier.error(errno),
        }
    }

    /// READDIR, and with `plus` READDIRPLUS: without inodes, as attributes are not to be cached.
    pub(super) fn readdir(&self, handle: u64, offset: u64, size: u32, plus: bool, replier: Replier) {
        let Some(directory) = self.directories.get(handle) else {
            return replier.error(Errno::BADF);
        };
        let mut buffer = if plus { DirectoryBuffer::plus(size) } else { DirectoryBuffer::plain(size) };
        match directory.fill(offset, &mut buffer) {
            Err(errno) if buffer.is_empty() => replier.error(errno),
            _ => replier.data(buffer.as_bytes()),
        }
    }

    pub(super) fn fsyncdir(&self, handle: u64) -> Result<(), Errno> {
        let directory = self.directories.get(handle).ok_or(Errno::BADF)?;
        rustix::fs::fsync(&*directory.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
