//! Open files: data and what goes with it.

use std::cell::RefCell;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::path::DecInt;

use super::FloorFs;
use super::names::open_flags;
use super::table::Place;
use crate::reply::{Opened, Replier};
use crate::request::{Header, Operation};
use crate::transport::MAX_WRITE;

/// Largest count the 32-bit COPY_FILE_RANGE can answer, in whole pages.
const COPY_BYTES_MAX: u64 = u32::MAX as u64 & !4095;
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

thread_local! {
    /// Where a reader thread reads file data on its way to the kernel.
    static DATA: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_WRITE as usize]);
}

impl FloorFs {
    pub(super) fn file_operation(&self, header: &Header, operation: &Operation<'_>, replier: Replier) {
        match *operation {
            Operation::Open { flags, .. } => match self.open(header.nodeid, flags) {
                Ok(opened) => replier.opened(&opened),
                Err(errno) => replier.error(errno),
            },
            Operation::Read { handle, offset, size, .. } => self.read(handle, offset, size, replier),
            Operation::Write { handle, offset, data, .. } => {
                match self.file(handle).and_then(|file| rustix::io::pwrite(&file, data.as_slice(), offset)) {
                    Ok(written) => replier.written(written as u32),
                    Err(errno) => replier.error(errno),
                }
            }
            // Writes are finished when they are answered, and locks are the kernel's.
            Operation::Flush { .. } => replier.ok(),
            Operation::Release { handle, .. } => {
                if let Some(file) = self.files.remove(handle) {
                    self.nodes.closed(header.nodeid, &file);
                }
                replier.ok();
            }
            Operation::Fsync { handle, data_only } => replier.unit(self.fsync(handle, data_only)),
            Operation::Readlink => match self.readlink(header.nodeid) {
                Ok(target) => replier.data(target.as_bytes()),
                Err(errno) => replier.error(errno),
            },
            Operation::Fallocate { handle, offset, length, mode } => {
                let mode = FallocateFlags::from_bits_retain(mode);
                replier.unit(self.file(handle).and_then(|file| rustix::fs::fallocate(&file, mode, offset, length)));
            }
            Operation::Lseek { handle, offset, whence } => match self.seek(handle, offset, whence) {
                Ok(position) => replier.position(position),
                Err(errno) => replier.error(errno),
            },
            Operation::CopyFileRange { handle, offset, to_handle, to_offset, length, flags: 0, wide, .. } => {
                let length = if wide { length } else { length.min(COPY_BYTES_MAX) };
                match self.copy(handle, offset, to_handle, to_offset, length) {
                    Ok(copied) => replier.copied(copied as u64, wide),
                    Err(errno) => replier.error(errno),
                }
            }
            Operation::CopyFileRange { .. } => replier.error(Errno::INVAL),
            _ => replier.error(Errno::NOSYS),
        }
    }

    fn open(&self, nodeid: u64, flags: u32) -> Result<Opened, Errno> {
        let flags = open_flags(flags);
        let file = match self.open_by_name(nodeid, flags) {
            // The name is gone, or another's; a handle may still lead to the file. Its link under /proc must be followed.
            Err(Errno::STALE | Errno::NOENT) => match self.nodes.place(nodeid)? {
                Place::Descriptor(file) => {
                    let number = DecInt::from_fd(&file);
                    rustix::fs::openat(&self.descriptors, number, flags - OFlags::NOFOLLOW, Mode::empty())?
                }
                Place::Name(..) => return Err(Errno::STALE),
            },
            result => result?,
        };
        let file = Arc::new(file);
        self.nodes.opened(nodeid, &file)?;
        Ok(Opened { handle: self.files.insert(file), flags: 0 })
    }

    fn open_by_name(&self, nodeid: u64, flags: OFlags) -> Result<OwnedFd, Errno> {
        let place = self.nodes.named_place(nodeid)?;
        let (directory, name, _) = place.at();
        // Only the right file may be truncated: that comes after the check.
        let file = rustix::fs::openat(directory, name, flags - OFlags::TRUNC, Mode::empty())?;
        self.nodes.check(nodeid, &rustix::fs::fstat(&file)?)?;
        if flags.contains(OFlags::TRUNC) {
            rustix::fs::ftruncate(&file, 0)?;
        }
        Ok(file)
    }

    fn readlink(&self, nodeid: u64) -> Result<CString, Errno> {
        let place = self.nodes.place(nodeid)?;
        let (directory, name, _) = place.at();
        rustix::fs::readlinkat(directory, name, Vec::new())
    }

    fn read(&self, handle: u64, offset: u64, size: u32, replier: Replier) {
        DATA.with_borrow_mut(|data| {
            let Some(space) = data.get_mut(..size as usize) else { return replier.error(Errno::INVAL) };
            match self.file(handle).and_then(|file| rustix::io::pread(&file, &mut *space, offset)) {
                Ok(length) => replier.data(&space[..length]),
                Err(errno) => replier.error(errno),
            }
        });
    }

    fn fsync(&self, handle: u64, data_only: bool) -> Result<(), Errno> {
        let file = self.file(handle)?;
        if data_only { rustix::fs::fdatasync(&file) } else { rustix::fs::fsync(&file) }
    }

    fn seek(&self, handle: u64, offset: i64, whence: u32) -> Result<u64, Errno> {
        let offset = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
        let position = match whence {
            SEEK_DATA => SeekFrom::Data(offset),
            SEEK_HOLE => SeekFrom::Hole(offset),
            _ => return Err(Errno::INVAL),
        };
        rustix::fs::seek(&self.file(handle)?, position)
    }

    fn copy(&self, from: u64, mut offset: u64, to: u64, mut to_offset: u64, length: u64) -> Result<usize, Errno> {
        let (from, to) = (self.file(from)?, self.file(to)?);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        rustix::fs::copy_file_range(&from, Some(&mut offset), &to, Some(&mut to_offset), length)
    }
}
