//! A journal: batches of a segment, and the files of segments.

use crate::cut::Cut;
use crate::memory::{at_most, for_input};
use onpath_host::journal::{Replay, inspect};
use onpath_store::StoreError;
use onpath_store::batch::{HEADER_BYTES, Scanner, Step, claims_durable, durable_evidence};
use onpath_wire::checksum::crc32c;
use onpath_wire::disk::superblock::JournalId;
use onpath_wire::ids::{Lsn, NodeId, RecordSeq};
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use tempfile::TempDir;

const SALT: u32 = 0x5a17;
const JOURNAL: JournalId = JournalId { fsid: 7, number: 1, created: 9 };
/// Where a batch has its magic number, length, seal and the checksum of its records (`crates/store/src/batch.rs`).
const MAGIC: [u8; 4] = *b"OnpB";
const LENGTH_AT: usize = 4;
const SEAL_AT: usize = 16;
const CRC_AT: usize = 60;
/// Bytes of the head of a segment, and where its fields are (`crates/host/src/journal/segment.rs`).
const SEGMENT_BYTES: usize = 64;
/// Memory for buffers whose size does not depend on the input.
const BUFFERS: usize = 4 << 20;

/// Batches one behind the other. The first byte says which of their fields are made right, so that what is behind them is looked at.
pub fn batches(input: &[u8]) {
    let mut cut = Cut(input);
    let (how, next) = (cut.byte(), u64::from_le_bytes(cut.array()));
    let bytes = laid_out(how, &mut cut);
    for_input(bytes.len(), || {
        let mut scanner = Scanner::new(&bytes, SALT, (how & 0x80 != 0).then_some(Lsn(next)));
        while let Step::Batch(batch) = scanner.step() {
            assert!(scanner.offset() <= bytes.len());
            let records = batch.iter().map(|(_, record)| record.len() + 4).sum::<usize>();
            assert!(records <= bytes.len() && batch.iter().count() == batch.records as usize);
        }
        assert_eq!(scanner.step(), scanner.step());
        let _said = (durable_evidence(&bytes, SALT), claims_durable(&bytes, Lsn(next)));
    });
}

/// The batches of an input, each a header and what follows.
fn laid_out(how: u8, cut: &mut Cut<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !cut.is_empty() {
        let start = bytes.len();
        bytes.extend_from_slice(&cut.array::<HEADER_BYTES>());
        bytes.extend_from_slice(cut.string());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        repair(&mut bytes[start..], how);
    }
    bytes
}

fn repair(batch: &mut [u8], how: u8) {
    let mut put = |at: usize, value: u32| batch[at..at + 4].copy_from_slice(&value.to_le_bytes());
    if how & 1 == 0 {
        put(0, u32::from_le_bytes(MAGIC));
    }
    let crc = crc32c(&batch[HEADER_BYTES..]);
    let length = batch.len() as u32;
    let mut put = |at: usize, value: u32| batch[at..at + 4].copy_from_slice(&value.to_le_bytes());
    if how & 2 == 0 {
        put(LENGTH_AT, length);
    }
    if how & 4 == 0 {
        put(CRC_AT, crc);
    }
    if how & 8 == 0 {
        put(SEAL_AT, SALT);
        let seal = crc32c(&batch[..HEADER_BYTES]);
        batch[SEAL_AT..SEAL_AT + 4].copy_from_slice(&seal.to_le_bytes());
    }
}

/// A directory for files that are read; where there is memory for it, `scripts/fuzz` says so, and it removes what is left.
pub(crate) fn scratch() -> &'static TempDir {
    static DIR: OnceLock<TempDir> = OnceLock::new();
    DIR.get_or_init(|| tempfile::tempdir().expect("a temporary directory"))
}

/// Takes all records.
struct All;

impl Replay for All {
    fn record(&mut self, _: NodeId, _: RecordSeq, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The files of two segments, as a start reads them.
pub fn segments(input: &[u8]) {
    let mut cut = Cut(input);
    let (how, from) = (cut.byte(), u64::from(cut.byte()));
    let dir = scratch().path();
    let first = cut.string();
    let files: Vec<(PathBuf, Vec<u8>)> = [first, cut.0]
        .into_iter()
        .zip(1..)
        .map(|(bytes, number)| (dir.join(format!("{number:016x}.seg")), segment(number, how, bytes)))
        .collect();
    for (path, bytes) in &files {
        fs::write(path, bytes).expect("a temporary file");
    }
    at_most(BUFFERS + 160 * input.len(), || {
        if let Ok(report) = inspect(dir, JOURNAL, Lsn(from), &mut All) {
            assert!(
                report.records <= report.bytes
                    && report.bytes <= files.iter().map(|(_, bytes)| bytes.len() as u64).sum()
            );
        }
    });
}

/// A segment whose head, where it is to be made right, is that of this journal.
fn segment(number: u64, how: u8, bytes: &[u8]) -> Vec<u8> {
    let mut cut = Cut(bytes);
    let mut head = cut.array::<SEGMENT_BYTES>();
    let mut put = |at: usize, value: &[u8]| head[at..at + value.len()].copy_from_slice(value);
    if how & 0x10 == 0 {
        put(0, b"OnpSeg01");
        put(8, &2_u32.to_le_bytes());
        put(12, &SALT.to_le_bytes());
        put(16, &JOURNAL.fsid.to_le_bytes());
        put(24, &number.to_le_bytes());
        put(32, &JOURNAL.number.to_le_bytes());
        put(36, &JOURNAL.created.to_le_bytes());
    }
    let crc = crc32c(&head[..SEGMENT_BYTES - 4]);
    if how & 0x20 == 0 {
        head[SEGMENT_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    }
    [&head[..], &laid_out(how, &mut cut)].concat()
}
