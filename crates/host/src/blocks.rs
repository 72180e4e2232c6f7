//! The data files of a DIR: executes the disk operations of a data node, outside of the node's lock (design.md, "Data").
//!
//! `DIR/journals/N/data/NNNN.blk` are sparse files of one fixed size: a header block that names file system, version and number,
//! then the blocks. [`BlockFiles::flush_all`] comes before every flush of the journal, so that the bytes of a durable record
//! are durable. An error of a flush is final: the kernel may already have dropped the pages that failed.

#![allow(unsafe_code)]

use crate::held;
use crate::sys;
use bytes::{Bytes, BytesMut};
use onpath_data::{DiskOp, DiskResult};
use onpath_wire::checksum::crc32c;
use onpath_wire::codec::{Reader, Wire};
use onpath_wire::disk::Stored;
use onpath_wire::disk::block::{DATA_FILE_HEADER_BYTES, DATA_FILE_MAGIC, DataFileHeader};
use onpath_wire::disk::superblock::{FEATURES_KNOWN, FORMAT_VERSION, FileStart, JournalId};
use onpath_wire::errno::Errno;
use onpath_wire::limits::{BLOCK_BYTES, IO_BYTES_MAX};
use onpath_wire::shown::Shown;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use thiserror::Error;

/// Data files of one file system: 16 TiB in files of 1 GiB.
pub(crate) const FILES_MAX: u32 = 1 << 14;

/// Why data files cannot be used.
#[derive(Debug, Error)]
pub enum BlocksError {
    /// The operating system refused.
    #[error("{what} {}: {source}", path.shown())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A data file is missing among the others.
    #[error("{} is missing, though a later data file is there: restore it from a backup of the directory", path.shown())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The header does not check.
    #[error("{} is damaged: {why} at byte 0; restore it from a backup of the directory", path.shown())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A file of another version, or with unknown features.
    #[error("{} has format version {version}, features {features:#x}: this program reads version {FORMAT_VERSION} and features {FEATURES_KNOWN:#x}; use the onpath that wrote it", path.shown())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// Its features.
        features: u64,
    },
    /// A file of another file system, of another number, or of another size.
    #[error("{} belongs elsewhere: it is data file {number} of {journal} with {file_blocks} blocks; put the file system's own file back", path.shown())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its number.
        number: u32,
        /// Whose it is.
        journal: JournalId,
        /// Its size.
        file_blocks: u32,
    },
}

/// What data files are opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

#[derive(Debug)]
struct BlockFile {
    file: File,
    /// Something was written that no flush has covered. Set after the write, cleared before the flush.
    dirty: AtomicBool,
}

/// What was done to the data files since they were opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounters {
    /// Bytes written.
    pub written: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes given back to the file system below.
    pub punched: u64,
    /// Flushes of single files.
    pub flushes: u64,
}

/// The data files of a DIR.
#[derive(Debug)]
pub struct BlockFiles {
    dir: PathBuf,
    journal: JournalId,
    file_blocks: u32,
    reserve_bytes: u64,
    files: RwLock<Vec<Arc<BlockFile>>>,
    dir_dirty: AtomicBool,
    /// Bytes that may be written before the free space is looked at again.
    budget: AtomicI64,
    /// One flush at a time; holds the error that ended all flushing.
    flush: Mutex<Option<String>>,
    /// Memory of the last read, which is still in the processor's cache when the next one uses it again, if nobody holds it any more.
    last: Mutex<BytesMut>,
    written: AtomicU64,
    read: AtomicU64,
    punched: AtomicU64,
    flushes: AtomicU64,
}

impl BlockFiles {
    /// Opens the data files in `dir` (made if missing), checks their headers, and makes durable what they hold. New data is refused with ENOSPC when
    /// it would leave less than `reserve_bytes` to the file system below.
    pub fn open(
        dir: &Path,
        journal: JournalId,
        file_blocks: u32,
        reserve_bytes: u64,
    ) -> Result<BlockFiles, BlocksError> {
        held::make_folder(dir).map_err(at("create", dir))?;
        BlockFiles::existing(dir, journal, file_blocks, reserve_bytes, Access::Write)
    }

    /// Opens the data files in `dir` only to read blocks, checks their headers, and changes nothing.
    pub fn inspect(dir: &Path, journal: JournalId, file_blocks: u32) -> Result<BlockFiles, BlocksError> {
        BlockFiles::existing(dir, journal, file_blocks, 0, Access::Read)
    }

    fn existing(
        dir: &Path,
        journal: JournalId,
        file_blocks: u32,
        reserve_bytes: u64,
        access: Access,
    ) -> Result<BlockFiles, BlocksError> {
        let mut numbers = Vec::new();
        for path in held::list(dir).map_err(at("list", dir))? {
            let name = path.file_name().unwrap_or_default();
            numbers.extend(name.to_str().and_then(|name| name.strip_suffix(".blk")?.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        let mut files = Vec::with_capacity(numbers.len());
        for (number, found) in (0u32..).zip(numbers) {
            let path = dir.join(file_name(number));
            if found != number {
                return Err(BlocksError::Missing { path });
            }
            files.push(Arc::new(open_file(&path, number, journal, file_blocks, access)?));
        }
        Ok(BlockFiles {
            dir: dir.to_owned(),
            journal,
            file_blocks,
            reserve_bytes,
            files: RwLock::new(files),
            dir_dirty: AtomicBool::new(true),
            budget: AtomicI64::new(0),
            flush: Mutex::new(None),
            last: Mutex::default(),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            punched: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
        })
    }

    /// Number of data files.
    pub fn files(&self) -> u32 {
        self.files.read().expect("no holder panics").len() as u32
    }

    /// Since the files were opened.
    pub fn counters(&self) -> BlockCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BlockCounters {
            written: get(&self.written),
            read: get(&self.read),
            punched: get(&self.punched),
            flushes: get(&self.flushes),
        }
    }

    /// Does a disk operation of the data node; its result goes back to the node.
    pub fn execute(&self, op: DiskOp) -> DiskResult {
        let result = match op {
            DiskOp::Write { file, offset, bytes, reserved } => {
                self.write(file, offset, &bytes, reserved).map(|()| DiskResult::Done)
            }
            DiskOp::Reserve { file, offset, len } => self.reserve(file, offset, len).map(|()| DiskResult::Done),
            DiskOp::Read { file, offset, len } => self.read(file, offset, len as usize).map(DiskResult::Bytes),
            DiskOp::Punch { file, offset, len } => self.punch(file, offset, len).map(|()| DiskResult::Done),
            DiskOp::Space => sys::space(&self.dir)
                .map(|(total, free)| DiskResult::Space { total, free: free.saturating_sub(self.reserve_bytes) }),
        };
        result.unwrap_or_else(|error| {
            if !sys::is_no_space(&error) {
                tracing::error!(dir = %self.dir.shown(), %error, "a data file failed");
            }
            DiskResult::Failed(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
        })
    }

    /// Reads one block, for recovery and checks.
    pub fn read_block(&self, file: u32, offset: u64, block: &mut [u8]) -> Result<(), Errno> {
        let result = self.file(file).and_then(|file| file.file.read_exact_at(block, offset));
        result.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
    }

    /// Makes everything durable that was written before the call. After an error it never succeeds again.
    pub fn flush_all(&self) -> io::Result<()> {
        let mut failure = self.flush.lock().expect("no holder panics");
        if let Some(failure) = failure.as_ref() {
            return Err(io::Error::other(failure.clone()));
        }
        let result = self.flush_dirty();
        if let Err(error) = &result {
            *failure = Some(format!("an earlier flush of {} failed: {error}", self.dir.shown()));
        }
        result
    }

    fn flush_dirty(&self) -> io::Result<()> {
        let files = self.files.read().expect("no holder panics").clone();
        for file in files.iter().filter(|file| file.dirty.swap(false, Ordering::AcqRel)) {
            file.file.sync_data()?;
            self.flushes.fetch_add(1, Ordering::Relaxed);
        }
        if self.dir_dirty.swap(false, Ordering::AcqRel) {
            sys::sync_dir(&self.dir)?;
        }
        Ok(())
    }

    fn file(&self, number: u32) -> io::Result<Arc<BlockFile>> {
        let file = self.files.read().expect("no holder panics").get(number as usize).cloned();
        file.ok_or_else(|| io::Error::from_raw_os_error(libc::EIO))
    }

    /// The file of this number, made with all before it if it is not there.
    fn file_or_new(&self, number: u32) -> io::Result<Arc<BlockFile>> {
        if let Ok(file) = self.file(number) {
            return Ok(file);
        }
        if number >= FILES_MAX {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        let mut files = self.files.write().expect("no holder panics");
        while files.len() as u32 <= number {
            let number = files.len() as u32;
            files.push(Arc::new(self.make_file(number)?));
        }
        Ok(files[number as usize].clone())
    }

    /// Makes the files that are missing of the first so many.
    pub(crate) fn make_files(&self, files: u32) -> Result<(), BlocksError> {
        let Some(last) = files.checked_sub(1) else { return Ok(()) };
        let made = self.file_or_new(last).map(drop);
        made.map_err(at("make", &self.dir.join(file_name(last))))
    }

    fn make_file(&self, number: u32) -> io::Result<BlockFile> {
        let path = self.dir.join(file_name(number));
        let temporary = path.with_extension("tmp");
        let file = held::create(&temporary)?;
        let header = DataFileHeader {
            magic: DATA_FILE_MAGIC,
            version: FORMAT_VERSION,
            features: 0,
            journal: self.journal,
            number,
            file_blocks: self.file_blocks,
        };
        let mut bytes = header.to_stored();
        crc32c(&bytes).put(&mut bytes);
        file.write_all_at(&bytes, 0)?;
        file.set_len(DATA_FILE_HEADER_BYTES + u64::from(self.file_blocks) * BLOCK_BYTES)?;
        // The name comes when the header is safe, so that no power loss leaves a file without one.
        file.sync_all()?;
        held::rename(&temporary, &path)?;
        self.dir_dirty.store(true, Ordering::Release);
        Ok(BlockFile { file, dirty: AtomicBool::new(true) })
    }

    fn write(&self, file: u32, mut offset: u64, parts: &[Bytes], reserved: bool) -> io::Result<()> {
        let len = parts.iter().map(Bytes::len).sum::<usize>();
        if !reserved {
            self.admit(len as i64)?;
        }
        let file = self.file_or_new(file)?;
        for part in parts {
            file.file.write_all_at(part, offset)?;
            offset += part.len() as u64;
        }
        file.dirty.store(true, Ordering::Release);
        self.written.fetch_add(len as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Takes space for a range, so that writes to it need none.
    fn reserve(&self, file: u32, offset: u64, len: u64) -> io::Result<()> {
        self.admit(len as i64)?;
        let file = self.file_or_new(file)?;
        let result = match fallocate(&file.file, libc::FALLOC_FL_KEEP_SIZE, offset, len) {
            // A file system that knows no other way to take space.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => write_zeros(&file.file, offset, len),
            result => result,
        };
        file.dirty.store(true, Ordering::Release);
        result
    }

    /// Keeps the reserve: looks at the free space only when half of what was free the last time may be used up.
    fn admit(&self, len: i64) -> io::Result<()> {
        if self.budget.fetch_sub(len, Ordering::AcqRel) >= len {
            return Ok(());
        }
        let (_, free) = sys::space(&self.dir)?;
        let free = free.saturating_sub(self.reserve_bytes) as i64;
        if free < len {
            self.budget.store(0, Ordering::Release);
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        self.budget.store((free - len) / 2, Ordering::Release);
        Ok(())
    }

    fn read(&self, file: u32, offset: u64, len: usize) -> io::Result<Bytes> {
        let file = self.file(file)?;
        let bytes = match self.last.try_lock() {
            Ok(mut last) if len <= IO_BYTES_MAX => {
                last.clear();
                if !last.try_reclaim(len) {
                    *last = BytesMut::with_capacity(len);
                }
                sys::read_exact_at(&file.file, offset, len, &mut last)?;
                last.split()
            }
            _ => {
                let mut bytes = BytesMut::with_capacity(len);
                sys::read_exact_at(&file.file, offset, len, &mut bytes)?;
                bytes
            }
        };
        self.read.fetch_add(len as u64, Ordering::Relaxed);
        Ok(bytes.freeze())
    }

    fn punch(&self, file: u32, offset: u64, len: u64) -> io::Result<()> {
        let Ok(file) = self.file(file) else { return Ok(()) };
        match punch_hole(&file.file, offset, len) {
            // A file system without holes keeps the space, which new blocks use again.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(()),
            result => result?,
        }
        self.punched.fetch_add(len, Ordering::Relaxed);
        Ok(())
    }
}

/// Name of data file `number`.
pub fn file_name(number: u32) -> String {
    format!("{number:04}.blk")
}

fn at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BlocksError + use<> {
    let path = path.to_owned();
    move |source| BlocksError::Io { what, path, source }
}

fn open_file(
    path: &Path,
    number: u32,
    journal: JournalId,
    file_blocks: u32,
    access: Access,
) -> Result<BlockFile, BlocksError> {
    let writable = access == Access::Write;
    let file = if writable { held::open_to_write(path) } else { held::open(path) }.map_err(at("open", path))?;
    let mut bytes = [0; 256];
    let damaged = |why: String| BlocksError::Damaged { path: path.to_owned(), why };
    file.read_exact_at(&mut bytes, 0).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("it ends inside its header".into()),
        _ => at("read", path)(error),
    })?;
    let FileStart { magic, version, features } = FileStart::of(&bytes).expect("longer than that");
    if magic != DATA_FILE_MAGIC {
        return Err(damaged("no header of a data file".into()));
    }
    if version != FORMAT_VERSION || features & !FEATURES_KNOWN != 0 {
        return Err(BlocksError::Version { path: path.to_owned(), version, features });
    }
    let mut reader = Reader::new(&bytes);
    let header = DataFileHeader::load(&mut reader).map_err(|error| damaged(error.to_string()))?;
    let length = bytes.len() - reader.remaining();
    if u32::take(&mut reader) != Ok(crc32c(&bytes[..length])) {
        return Err(damaged("the header has a bad checksum".into()));
    }
    if header.number != number || header.journal != journal || header.file_blocks != file_blocks {
        let DataFileHeader { number, journal, file_blocks, .. } = header;
        return Err(BlocksError::Foreign { path: path.to_owned(), number, journal, file_blocks });
    }
    // What an earlier process wrote must not be lost any more when the records that name it are recovered.
    if writable {
        file.sync_data().map_err(at("flush", path))?;
    }
    Ok(BlockFile { file, dirty: AtomicBool::new(false) })
}

/// Gives the space of a range back; it reads as zeros afterwards.
fn punch_hole(file: &File, offset: u64, len: u64) -> io::Result<()> {
    fallocate(file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset, len)
}

fn fallocate(file: &File, mode: i32, offset: u64, len: u64) -> io::Result<()> {
    loop {
        // SAFETY: no memory is passed.
        let result = unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as libc::off_t, len as libc::off_t) };
        match io::Error::last_os_error() {
            _ if result == 0 => return Ok(()),
            error if error.kind() == io::ErrorKind::Interrupted => {}
            error => return Err(error),
        }
    }
}

fn write_zeros(file: &File, offset: u64, len: u64) -> io::Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let step = ZEROS.len() as u64;
    (0..len)
        .step_by(ZEROS.len())
        .try_for_each(|at| file.write_all_at(&ZEROS[..step.min(len - at) as usize], offset + at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    const FIRST: u64 = DATA_FILE_HEADER_BYTES;
    const JOURNAL: JournalId = JournalId { fsid: 7, number: 1, created: 9 };

    fn open(dir: &Path) -> Result<BlockFiles, BlocksError> {
        BlockFiles::open(dir, JOURNAL, 1024, 0)
    }

    fn write(files: &BlockFiles, file: u32, block: u64, parts: &[&'static [u8]]) -> DiskResult {
        let bytes = parts.iter().map(|part| Bytes::from_static(part)).collect();
        files.execute(DiskOp::Write { file, offset: FIRST + block * 4096, bytes, reserved: false })
    }

    #[test]
    fn what_is_reserved_takes_space_and_is_written_without_a_look_at_the_reserve() {
        let dir = tempfile::tempdir().unwrap();
        let files = open(dir.path()).unwrap();
        let reserve = DiskOp::Reserve { file: 0, offset: FIRST, len: 64 << 12 };
        assert_eq!(files.execute(reserve), DiskResult::Done);
        let blocks = || fs::metadata(dir.path().join("0000.blk")).unwrap().blocks();
        let before = blocks();
        assert!(before >= 64 * 8);
        let full = BlockFiles::open(dir.path(), JOURNAL, 1024, 1 << 60).unwrap();
        let op =
            |reserved| DiskOp::Write { file: 0, offset: FIRST, bytes: vec![Bytes::from_static(&[7; 4096])], reserved };
        assert_eq!(full.execute(op(false)), DiskResult::Failed(Errno::ENOSPC));
        assert_eq!(full.execute(op(true)), DiskResult::Done);
        assert_eq!(blocks(), before);
        let reserve = DiskOp::Reserve { file: 0, offset: FIRST, len: 4096 };
        assert_eq!(full.execute(reserve), DiskResult::Failed(Errno::ENOSPC));
    }

    #[test]
    fn what_is_written_is_read_and_what_is_punched_takes_no_space() {
        let dir = tempfile::tempdir().unwrap();
        let files = open(dir.path()).unwrap();
        assert_eq!(write(&files, 1, 3, &[&[1; 4096], &[2; 8192]]), DiskResult::Done);
        assert_eq!(files.files(), 2);
        files.flush_all().unwrap();
        assert_eq!(files.counters().flushes, 2);
        files.flush_all().unwrap();
        assert_eq!(files.counters().flushes, 2, "nothing was dirty");
        let read = DiskOp::Read { file: 1, offset: FIRST + 4 * 4096, len: 12288 };
        let DiskResult::Bytes(bytes) = files.execute(read.clone()) else { panic!("no bytes") };
        assert!(bytes[..8192].iter().all(|&byte| byte == 2) && bytes[8192..].iter().all(|&byte| byte == 0));
        let used = || fs::metadata(dir.path().join("0001.blk")).unwrap().blocks();
        let before = used();
        let punch = DiskOp::Punch { file: 1, offset: FIRST + 3 * 4096, len: 12288 };
        assert_eq!(files.execute(punch), DiskResult::Done);
        assert_eq!(used() + 24, before);
        assert_eq!(files.execute(read), DiskResult::Bytes(vec![0; 12288].into()));
        drop(files);
        assert_eq!(open(dir.path()).unwrap().files(), 2);
    }

    #[test]
    fn files_that_are_missing_are_made() {
        let dir = tempfile::tempdir().unwrap();
        let files = BlockFiles::open(dir.path(), JOURNAL, 1024, 1 << 60).unwrap();
        files.make_files(0).unwrap();
        assert_eq!(files.files(), 0);
        files.make_files(3).unwrap();
        files.make_files(2).unwrap();
        assert_eq!((files.files(), open(dir.path()).unwrap().files()), (3, 3));
        let refused = files.make_files(FILES_MAX + 1).unwrap_err().to_string();
        assert!(refused.contains("16384.blk"), "{refused}");
    }

    #[test]
    fn new_data_leaves_the_reserve_alone() {
        let dir = tempfile::tempdir().unwrap();
        let files = BlockFiles::open(dir.path(), JOURNAL, 1024, 1 << 60).unwrap();
        assert_eq!(write(&files, 0, 0, &[&[1; 4096]]), DiskResult::Failed(Errno::ENOSPC));
        assert!(matches!(files.execute(DiskOp::Space), DiskResult::Space { free: 0, .. }));
    }

    #[test]
    fn a_file_that_does_not_belong_here_is_named_and_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = |n| dir.path().join(file_name(n));
        let files = open(dir.path()).unwrap();
        assert_eq!(write(&files, 2, 0, &[&[1; 4096]]), DiskResult::Done);
        drop(files);
        let refused = |error: &str| {
            let found = open(dir.path()).unwrap_err().to_string();
            assert!(found.contains(error), "{found}");
        };
        fs::rename(path(1), dir.path().join("aside")).unwrap();
        refused("0001.blk is missing");
        fs::copy(path(2), path(1)).unwrap();
        refused("0001.blk belongs elsewhere: it is data file 2");
        fs::write(path(1), [0; 8192]).unwrap();
        refused("0001.blk is damaged: no header of a data file");
        let mut bytes = fs::read(dir.path().join("aside")).unwrap();
        bytes[30] ^= 1;
        fs::write(path(1), &bytes).unwrap();
        refused("0001.blk is damaged: the header has a bad checksum");
        bytes[8] = 9;
        fs::write(path(1), &bytes).unwrap();
        refused("0001.blk has format version 9");
        fs::rename(dir.path().join("aside"), path(1)).unwrap();
        open(dir.path()).unwrap();
    }
}
