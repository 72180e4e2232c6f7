//! Layout of journal batches, and the scanner that reads a segment back (design.md, "Durability").
//!
//! A batch holds consecutive records of one role. Little-endian, its length a multiple of 8 bytes: a header of two parts, then each
//! record as `length 4 · bytes`, then zeros.
//!
//! | part | fields |
//! |---|---|
//! | local | `magic 4 · length 4 · durable 8 · seal 4` |
//! | common | `position 8 · view 4 · safe 8 · role 4 · flags 4 · first record 8 · records 4 · CRC of the records 4` |
//!
//! The common part and the records are the same in every copy of a journal; the local part belongs to one. The *seal* is the CRC-32C of
//! the header with the segment's *salt* in the seal's own place, so bytes of an earlier life of a recycled segment, or bytes that a
//! client put into a record, never pass for a batch. The other CRC-32C covers what follows the header.
//!
//! What follows the contiguous prefix is *damage* if a later header says that it was durable, else the *tail*.

use onpath_wire::checksum::{crc32c, crc32c_of};
use onpath_wire::ids::{Lsn, NodeId, RecordSeq};
use onpath_wire::limits::BATCH_BYTES_MAX;
use thiserror::Error;

/// "OnpB", little-endian.
const MAGIC: u32 = u32::from_le_bytes(*b"OnpB");
/// Bytes of the local part of a header.
const LOCAL_BYTES: usize = 20;
/// Bytes in front of the records.
pub const HEADER_BYTES: usize = LOCAL_BYTES + 44;

/// Where the fields of a header are, bytes from its start.
mod at {
    use super::LOCAL_BYTES;

    pub(super) const MAGIC: usize = 0;
    pub(super) const LENGTH: usize = 4;
    pub(super) const DURABLE: usize = 8;
    pub(super) const SEAL: usize = 16;
    pub(super) const POSITION: usize = LOCAL_BYTES;
    /// Which members a journal with copies had; 0 of one without.
    pub(super) const VIEW: usize = LOCAL_BYTES + 8;
    pub(super) const SAFE: usize = LOCAL_BYTES + 12;
    pub(super) const ROLE: usize = LOCAL_BYTES + 20;
    pub(super) const FLAGS: usize = LOCAL_BYTES + 24;
    pub(super) const FIRST: usize = LOCAL_BYTES + 28;
    pub(super) const RECORDS: usize = LOCAL_BYTES + 36;
    pub(super) const CRC: usize = LOCAL_BYTES + 40;
}

/// Flag of the batch without records that closes a segment; its position is the one that the next segment begins with.
const FLAG_END: u32 = 1;
/// Flags of the batches that only journals with copies have.
const FLAGS_OF_COPIES: [(u32, &str); 3] = [(2, "a view"), (4, "a note"), (8, "a digest")];

/// A batch under construction; its buffer is reused.
#[derive(Debug, Default)]
pub struct BatchBuilder {
    bytes: Vec<u8>,
    first: RecordSeq,
    records: u32,
    crc: Option<u32>,
}

impl BatchBuilder {
    /// Whether a record of `seq` and `bytes` may join: numbers in a batch are consecutive, its size bounded.
    pub fn fits(&self, seq: RecordSeq, bytes: usize) -> bool {
        self.records == 0
            || (seq.0 == self.first.0 + u64::from(self.records) && self.bytes.len() + bytes + 16 <= BATCH_BYTES_MAX)
    }

    /// Adds a record; ask [`Self::fits`] before.
    pub fn push(&mut self, seq: RecordSeq, record: &[u8]) {
        assert!(self.fits(seq, record.len()), "record {seq} does not continue the batch");
        assert!(record.len() + HEADER_BYTES + 16 <= BATCH_BYTES_MAX, "record of {} bytes", record.len());
        if self.records == 0 {
            self.bytes.clear();
            self.bytes.resize(HEADER_BYTES, 0);
            self.first = seq;
        }
        self.records += 1;
        self.crc = None;
        self.bytes.extend_from_slice(&(record.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(record);
    }

    /// Whether there is nothing to append.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Number of the last record; 0 when empty.
    pub fn last(&self) -> RecordSeq {
        RecordSeq(self.first.0 + u64::from(self.records.saturating_sub(1)))
    }

    /// Bytes of the finished batch.
    pub fn len(&self) -> usize {
        self.bytes.len().next_multiple_of(8)
    }

    /// Does what needs no place in the journal, so that [`Self::seal`] has little to do.
    pub fn close(&mut self) {
        self.bytes.resize(self.len(), 0);
        self.crc = Some(crc32c(&self.bytes[HEADER_BYTES..]));
    }

    /// Finishes the batch; its bytes are in [`Self::bytes`] until the next push.
    pub fn seal(&mut self, role: NodeId, lsn: Lsn, durable: Lsn, salt: u32) {
        assert!(self.records > 0, "a batch has records");
        if self.crc.is_none() {
            self.close();
        }
        let crc = self.crc.take().expect("closed above");
        let length = self.bytes.len() as u32;
        let header = Header { length, lsn, durable, role, flags: 0, first: self.first, records: self.records, crc };
        self.bytes[..HEADER_BYTES].copy_from_slice(&header.sealed(salt));
        self.records = 0;
    }

    /// The bytes of the batch sealed last.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// What a header says.
struct Header {
    length: u32,
    lsn: Lsn,
    durable: Lsn,
    role: NodeId,
    flags: u32,
    first: RecordSeq,
    records: u32,
    crc: u32,
}

impl Header {
    fn sealed(&self, salt: u32) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(at::MAGIC, &MAGIC.to_le_bytes());
        put(at::LENGTH, &self.length.to_le_bytes());
        put(at::DURABLE, &self.durable.0.to_le_bytes());
        put(at::SEAL, &salt.to_le_bytes());
        put(at::POSITION, &self.lsn.0.to_le_bytes());
        put(at::VIEW, &0u32.to_le_bytes());
        // What is durable here is safe: there is no other copy.
        put(at::SAFE, &self.durable.0.to_le_bytes());
        put(at::ROLE, &self.role.0.to_le_bytes());
        put(at::FLAGS, &self.flags.to_le_bytes());
        put(at::FIRST, &self.first.0.to_le_bytes());
        put(at::RECORDS, &self.records.to_le_bytes());
        put(at::CRC, &self.crc.to_le_bytes());
        let seal = crc32c(&bytes);
        bytes[at::SEAL..at::SEAL + 4].copy_from_slice(&seal.to_le_bytes());
        bytes
    }

    /// The header at the start of `bytes`, if it is one of this segment.
    fn read(bytes: &[u8], salt: u32) -> Result<Header, Broken> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(if bytes.iter().all(|&b| b == 0) { Broken::Nothing } else { Broken::Truncated });
        };
        if u32_at(header, at::MAGIC) != MAGIC {
            return Err(if header[..8] == [0; 8] { Broken::Nothing } else { Broken::NoHeader });
        }
        let length = u32_at(header, at::LENGTH);
        if (length as usize) < HEADER_BYTES || !length.is_multiple_of(8) {
            return Err(Broken::NoHeader);
        }
        let seal = crc32c_of(&[&header[..at::SEAL], &salt.to_le_bytes(), &header[at::SEAL + 4..]]);
        if seal != u32_at(header, at::SEAL) {
            return Err(Broken::Checksum);
        }
        Ok(Header {
            length,
            lsn: Lsn(u64_at(header, at::POSITION)),
            durable: Lsn(u64_at(header, at::DURABLE)),
            role: NodeId(u32_at(header, at::ROLE)),
            flags: u32_at(header, at::FLAGS),
            first: RecordSeq(u64_at(header, at::FIRST)),
            records: u32_at(header, at::RECORDS),
            crc: u32_at(header, at::CRC),
        })
    }
}

/// The batch that closes a segment; `next` is the lsn with which the next segment begins.
pub fn end_of_segment(next: Lsn, durable: Lsn, salt: u32) -> [u8; HEADER_BYTES] {
    let (length, first, role) = (HEADER_BYTES as u32, RecordSeq(0), NodeId(0));
    Header { length, lsn: next, durable, role, flags: FLAG_END, first, records: 0, crc: 0 }.sealed(salt)
}

/// Why the bytes at some offset are not the batch that should be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Broken {
    /// Zeros where a batch would begin: nothing was written here.
    #[error("nothing was written here")]
    Nothing,
    /// The segment ends inside a batch.
    #[error("the segment ends inside a batch")]
    Truncated,
    /// No header of a batch.
    #[error("no batch header")]
    NoHeader,
    /// The checksum does not fit.
    #[error("checksum mismatch")]
    Checksum,
    /// A whole batch, but not the next one.
    #[error("batch {found} where {expected} should be")]
    Gap {
        /// Its lsn.
        found: Lsn,
        /// The next lsn.
        expected: Lsn,
    },
    /// A whole batch whose records do not fill it, or whose numbers are the last there are.
    #[error("records do not fill their batch")]
    Records,
    /// A whole batch of a kind that only journals with copies have.
    #[error("a batch with {0}, which this onpath cannot read: use the onpath that wrote it")]
    Copies(&'static str),
    /// A whole batch of a kind that is not known.
    #[error("a batch with flags {0:#x}, which this onpath does not know: use the onpath that wrote it")]
    Flags(u32),
}

impl Broken {
    /// Whether something was written here that another program reads: it is no torn end, whatever follows.
    fn is_foreign(self) -> bool {
        matches!(self, Broken::Copies(_) | Broken::Flags(_))
    }
}

/// A batch read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// Its position in the journal.
    pub lsn: Lsn,
    /// Highest lsn known to be durable when it was appended.
    pub durable: Lsn,
    /// Whose records.
    pub role: NodeId,
    /// Number of the first record; the others follow without gap.
    pub first: RecordSeq,
    /// Number of records.
    pub records: u32,
    payload: &'a [u8],
    end: bool,
}

impl<'a> Batch<'a> {
    /// The records in order.
    pub fn iter(&self) -> impl Iterator<Item = (RecordSeq, &'a [u8])> + use<'a> {
        let mut rest = self.payload;
        let first = self.first.0;
        (0..u64::from(self.records)).map(move |i| {
            let (len, tail) = rest.split_first_chunk::<4>().expect("checked when the batch was read");
            let (record, tail) = tail.split_at(u32::from_le_bytes(*len) as usize);
            rest = tail;
            (RecordSeq(first + i), record)
        })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn refuse_unknown(flags: u32) -> Result<(), Broken> {
    match FLAGS_OF_COPIES.iter().find(|(flag, _)| flags & flag != 0) {
        Some(&(_, name)) => Err(Broken::Copies(name)),
        None if flags & !FLAG_END != 0 => Err(Broken::Flags(flags & !FLAG_END)),
        None => Ok(()),
    }
}

/// Reads the batch at the start of `bytes`, whatever its lsn; also says how long it is.
fn read(bytes: &[u8], salt: u32) -> Result<(Batch<'_>, usize), Broken> {
    let Header { length, lsn, durable, role, flags, first, records, crc } = Header::read(bytes, salt)?;
    refuse_unknown(flags)?;
    let payload = bytes.get(HEADER_BYTES..length as usize).ok_or(Broken::Truncated)?;
    if crc32c(payload) != crc {
        return Err(Broken::Checksum);
    }
    let batch = Batch { lsn, durable, role, first, records, payload, end: flags & FLAG_END != 0 };
    if records_fill(&batch) { Ok((batch, length as usize)) } else { Err(Broken::Records) }
}

/// Whether the records of a batch are all that it holds, and both records and batches can follow it.
fn records_fill(batch: &Batch<'_>) -> bool {
    let go_on = batch.lsn.0 < u64::MAX && batch.first.0.checked_add(u64::from(batch.records)).is_some();
    if !go_on || batch.records == 0 && !batch.end {
        return false;
    }
    let mut at = 0usize;
    for _ in 0..batch.records {
        let Some(len) = batch.payload.get(at..at + 4) else { return false };
        at += 4 + u32_at(len, 0) as usize;
    }
    at <= batch.payload.len() && batch.payload.len() - at < 8
}

/// The highest lsn that any header in `bytes` says was durable, wherever it is.
pub fn durable_evidence(bytes: &[u8], salt: u32) -> Lsn {
    let mut highest = Lsn(0);
    let mut at = 0;
    while at + HEADER_BYTES <= bytes.len() {
        match Header::read(&bytes[at..], salt) {
            Ok(header) => {
                highest = highest.max(header.durable);
                at += header.length as usize;
            }
            Err(_) => at += 8,
        }
    }
    highest
}

/// Whether batches at the start of `bytes`, whose segment has lost its salt, claim that `next` or a later lsn was durable. Unproven by
/// checksums, so only a run without gap counts, and none that begins after `next`: batches of an earlier life claim less.
pub fn claims_durable(bytes: &[u8], next: Lsn) -> bool {
    let mut offset = 0;
    let mut expected = None;
    while let Some(header) = bytes.get(offset..).and_then(|rest| rest.get(..HEADER_BYTES)) {
        let (len, lsn) = (u32_at(header, at::LENGTH) as usize, u64_at(header, at::POSITION));
        let follows = expected.map_or(lsn <= next.0, |expected| lsn == expected);
        if u32_at(header, at::MAGIC) != MAGIC || len < HEADER_BYTES || !len.is_multiple_of(8) || !follows {
            return false;
        }
        if u64_at(header, at::DURABLE) >= next.0 {
            return true;
        }
        offset += len;
        expected = lsn.checked_add(1);
    }
    false
}

/// What the scanner found next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The next batch.
    Batch(Batch<'a>),
    /// The segment was closed here; the journal goes on in the next segment, with the scanner's next lsn.
    End,
    /// The prefix ends here, and nothing in this segment says that what should follow was durable.
    Tail {
        /// Where, bytes from the start of the scanned bytes.
        offset: usize,
        /// Why.
        why: Broken,
    },
    /// What should be here was durable, and is not readable; or only another program reads it.
    Damage {
        /// Where, bytes from the start of the scanned bytes.
        offset: usize,
        /// Why.
        why: Broken,
    },
}

/// Reads the batches of one segment.
#[derive(Debug)]
pub struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    salt: u32,
    next: Option<Lsn>,
}

impl<'a> Scanner<'a> {
    /// Scans `bytes` (what follows the segment's own header). `next`: the lsn expected, if known.
    pub fn new(bytes: &'a [u8], salt: u32, next: Option<Lsn>) -> Self {
        Scanner { bytes, at: 0, salt, next }
    }

    /// The lsn expected next; nothing if no batch was seen and none was expected.
    pub fn next_lsn(&self) -> Option<Lsn> {
        self.next
    }

    /// Where the next batch should be, bytes from the start of the scanned bytes.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// The next finding; after anything but a batch the same again.
    pub fn step(&mut self) -> Step<'a> {
        let found = read(&self.bytes[self.at..], self.salt).and_then(|(batch, len)| match self.next {
            Some(expected) if batch.lsn != expected => Err(Broken::Gap { found: batch.lsn, expected }),
            _ => Ok((batch, len)),
        });
        match found {
            Ok((batch, _)) if batch.end => {
                self.next = Some(batch.lsn);
                Step::End
            }
            Ok((batch, len)) => {
                self.at += len;
                self.next = Some(Lsn(batch.lsn.0 + 1));
                Step::Batch(batch)
            }
            Err(why) => {
                let offset = self.at;
                let evidence = durable_evidence(&self.bytes[offset..], self.salt);
                let durable = self.next.map_or(evidence > Lsn(0), |next| evidence >= next);
                if durable || why.is_foreign() { Step::Damage { offset, why } } else { Step::Tail { offset, why } }
            }
        }
    }
}

#[cfg(test)]
mod tests;
