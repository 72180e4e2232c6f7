//! One segment of the journal: a preallocated file in a shared mapping.
//!
//! "Written" is "in the mapping": it survives the end of the process however that comes. A segment is
//! zeroed before its first use, in writes of at most [`ZERO_BYTES`], so that no later write allocates; a
//! recycled one keeps its bytes and gets a new salt instead, which makes the old batches foreign.

#![allow(unsafe_code)]

use crate::held;
use crate::sys;
use memmap2::{Advice, MmapRaw};
use onpath_wire::checksum::crc32c;
use onpath_wire::disk::superblock::JournalId;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// "OnpSeg01", little-endian.
const MAGIC: u64 = u64::from_le_bytes(*b"OnpSeg01");
const VERSION: u32 = 2;
/// Bytes before the first batch.
pub(crate) const HEADER_BYTES: usize = 64;
/// Largest write with which a segment is zeroed (measured: later small writes are then several times cheaper).
const ZERO_BYTES: usize = 64 << 10;

/// Where the bytes of a new segment come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// A new file.
    New,
    /// A file with reserved space, to be zeroed.
    Reserve(PathBuf),
    /// A segment that no checkpoint needs any more.
    Old(PathBuf),
}

/// A segment that takes batches.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    pub(crate) salt: u32,
    file: File,
    map: MmapRaw,
    /// Its length, header and directory entry are durable.
    settled: AtomicBool,
}

/// What the header of a segment file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) salt: u32,
}

/// File name of segment `number`.
pub(crate) fn file_name(number: u64) -> String {
    format!("{number:016x}.seg")
}

/// The number in a segment's file name.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

fn header(number: u64, journal: JournalId, salt: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&salt.to_le_bytes());
    bytes[16..24].copy_from_slice(&journal.fsid.to_le_bytes());
    bytes[24..32].copy_from_slice(&number.to_le_bytes());
    bytes[32..36].copy_from_slice(&journal.number.to_le_bytes());
    bytes[36..44].copy_from_slice(&journal.created.to_le_bytes());
    let crc = crc32c(&bytes[..HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Why a file is not the segment that its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHead {
    /// Its header was never made durable.
    Torn(&'static str),
    /// Its header belongs elsewhere.
    Foreign(&'static str),
    /// Its header is that of a later segment.
    Later,
    /// It has another format version.
    Version(u32),
}

/// Checks the header of segment `number` of this journal.
pub(crate) fn read_header(bytes: &[u8], number: u64, journal: JournalId) -> Result<Head, BadHead> {
    use BadHead::{Foreign, Torn};
    let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else { return Err(Torn("no segment header")) };
    let u64_at = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    let u32_at = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    if u64_at(0) != MAGIC {
        return Err(Torn("no segment header"));
    }
    if crc32c(&head[..HEADER_BYTES - 4]) != u32_at(HEADER_BYTES - 4) {
        return Err(Torn("checksum mismatch of the segment header"));
    }
    if u32_at(8) != VERSION {
        return Err(BadHead::Version(u32_at(8)));
    }
    if u64_at(16) != journal.fsid {
        return Err(Foreign("a segment of another file system"));
    }
    if (u32_at(32), u64_at(36)) != (journal.number, journal.created) {
        return Err(Foreign("a segment of another journal"));
    }
    match u64_at(24).cmp(&number) {
        // A power loss may leave the name that a recycled file was given, and not its header.
        std::cmp::Ordering::Less => Err(Torn("the header of a segment that was in the file before")),
        std::cmp::Ordering::Greater => Err(BadHead::Later),
        std::cmp::Ordering::Equal => Ok(Head { salt: u32_at(12) }),
    }
}

impl Segment {
    /// Makes segment `number` of at least `bytes` in `dir`. With `settle` it is durable on return, else by
    /// the first flush.
    pub(crate) fn prepare(
        dir: &Path,
        number: u64,
        bytes: u64,
        journal: JournalId,
        source: &Source,
        settle: bool,
    ) -> io::Result<Segment> {
        let tmp = dir.join(format!("prepare-{number:x}.tmp"));
        let result = Segment::prepare_as(&tmp, dir, number, bytes, journal, source, settle);
        if result.is_err() {
            // The space counts: half a segment must not stay behind on a full disk. It may not exist at all.
            let _ = held::remove(&tmp);
        }
        result
    }

    fn prepare_as(
        tmp: &Path,
        dir: &Path,
        number: u64,
        bytes: u64,
        journal: JournalId,
        source: &Source,
        settle: bool,
    ) -> io::Result<Segment> {
        let file = match source {
            Source::New => held::create(tmp)?,
            Source::Reserve(path) | Source::Old(path) => {
                held::rename(path, tmp)?;
                held::open_to_write(tmp)?
            }
        };
        if !matches!(source, Source::Old(_)) {
            zero(&file, bytes)?;
        }
        let salt = u32::from_le_bytes(sys::random_bytes()?);
        // One write: if a power loss left the old header before an erased batch, that would look like damage.
        let mut start = [0; HEADER_BYTES + 8];
        start[..HEADER_BYTES].copy_from_slice(&header(number, journal, salt));
        file.write_all_at(&start, 0)?;
        let path = dir.join(file_name(number));
        if settle {
            file.sync_all()?;
        }
        held::rename(tmp, &path)?;
        if settle {
            sys::sync_dir(dir)?;
        }
        let map = MmapRaw::map_raw(&file)?;
        if settle && let Err(error) = map.advise(Advice::PopulateWrite) {
            // Only the appends get slower: each page is then faulted in when it is first written.
            tracing::debug!(%error, "cannot populate a segment's mapping");
        }
        Ok(Segment { path, salt, file, map, settled: AtomicBool::new(settle) })
    }

    /// Goes on in a segment after a recovery: zeros what follows the prefix that ends at `at`, durably.
    pub(crate) fn resume(path: &Path, salt: u32, at: usize, bytes: &[u8], len_min: u64) -> io::Result<Segment> {
        let file = held::open_to_write(path)?;
        if (bytes.len() as u64) < len_min {
            file.set_len(len_min)?;
        }
        if let Some(last) = bytes[at..].iter().rposition(|&b| b != 0) {
            for start in (at..=at + last).step_by(ZERO_BYTES) {
                let n = ZERO_BYTES.min(at + last + 1 - start);
                file.write_all_at(&[0; ZERO_BYTES][..n], start as u64)?;
            }
        }
        file.sync_all()?;
        let map = MmapRaw::map_raw(&file)?;
        Ok(Segment { path: path.to_owned(), salt, file, map, settled: AtomicBool::new(true) })
    }

    /// Bytes of the file.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Copies `bytes` to offset `at`. Only the holder of the journal's append lock calls this.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at >= HEADER_BYTES && at + bytes.len() <= self.map.len(), "write beyond the segment");
        // SAFETY: the range lies inside the mapping (asserted); nobody holds a reference into the mapping,
        // and writers exclude each other by the append lock. The file cannot shrink: the DIR is locked for
        // this process, which never truncates a segment.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.map.as_mut_ptr().add(at), bytes.len()) };
    }

    /// Makes the bytes from `from` to `to` durable, and the file itself if it is not yet.
    pub(crate) fn flush(&self, from: usize, to: usize) -> io::Result<()> {
        if !self.settled.load(Ordering::Acquire) {
            self.file.sync_all()?;
            sys::sync_dir(self.path.parent().expect("a segment is in the journal's directory"))?;
            self.settled.store(true, Ordering::Release);
        }
        self.map.flush_range(from, to - from)
    }
}

fn zero(file: &File, bytes: u64) -> io::Result<()> {
    let zeros = [0u8; ZERO_BYTES];
    let mut at = 0;
    while at < bytes {
        let n = ZERO_BYTES.min((bytes - at) as usize);
        file.write_all_at(&zeros[..n], at)?;
        at += n as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recycled_file_whose_header_was_lost_is_a_torn_end() {
        let journal = JournalId { fsid: 1, number: 1, created: 7 };
        let read = |number| read_header(&header(5, journal, 2), number, journal);
        assert!(matches!(read(5), Ok(Head { salt: 2 })));
        assert!(matches!(read(7), Err(BadHead::Torn(_))));
        assert!(matches!(read(4), Err(BadHead::Later)));
        for other in
            [JournalId { fsid: 2, ..journal }, JournalId { number: 2, ..journal }, JournalId { created: 8, ..journal }]
        {
            assert!(matches!(read_header(&header(5, journal, 2), 5, other), Err(BadHead::Foreign(_))));
        }
    }
}
