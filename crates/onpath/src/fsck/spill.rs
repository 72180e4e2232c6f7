//! Sorting more than memory shall hold: what is too much goes, sorted, into *runs* in unlinked temporary files, which are merged.
//!
//! A run is blocks of [`BLOCK_BYTES`]: `crc-32c 4 · bytes used 4 · entries`, an entry being `bytes of the key 2 · bytes of the value 2 ·
//! key · value`. None lies in two blocks. Keys are compared as bytes.

use onpath_wire::checksum::crc32c;
use onpath_wire::shown::Shown;
use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Bytes of a block of a run.
const BLOCK_BYTES: usize = 32 << 10;
/// Bytes before the entries of a block, and before the key of an entry ([`LENGTHS`]).
const HEAD: usize = 8;
const LENGTHS: usize = 4;
/// So many runs are merged into one when there are as many of about the same size.
const FAN_IN: usize = 16;
/// Most blocks of a run of which the first keys are kept in memory.
const INDEX_MAX: usize = 4_096;
/// Sorters that share the memory of a check: so many are alive at a time, at most.
const SHARES: usize = 12;

/// Why what was sorted is not all there.
#[derive(Debug)]
pub(super) enum SpillError {
    Io { dir: PathBuf, source: io::Error },
    Damaged { dir: PathBuf, why: &'static str },
}

impl fmt::Display for SpillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpillError::Io { dir, source } => {
                let dir = dir.shown();
                write!(
                    f,
                    "temporary files in {dir}: {source}; make room there, give another directory (--temp) or more memory (--memory)"
                )
            }
            SpillError::Damaged { dir, why } => {
                write!(
                    f,
                    "a temporary file in {} does not give back what was written: {why}; give another directory (--temp)",
                    dir.shown()
                )
            }
        }
    }
}

impl std::error::Error for SpillError {}

/// Where sorters put what is too much for memory. The first error is kept for [`Spill::sound`]; after it tables end too early.
#[derive(Debug)]
pub(super) struct Spill {
    dir: PathBuf,
    room: usize,
    failed: RefCell<Option<SpillError>>,
}

impl Spill {
    /// `memory` bytes for all sorters together, temporary files in `dir`.
    pub(super) fn new(dir: &Path, memory: u64) -> Rc<Spill> {
        let room = usize::try_from(memory).unwrap_or(usize::MAX) / SHARES;
        Rc::new(Spill { dir: dir.to_owned(), room, failed: RefCell::new(None) })
    }

    /// Nothing that was sorted counts if there was an error.
    pub(super) fn sound(&self) -> Result<(), SpillError> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn fails(&self) -> bool {
        self.failed.borrow().is_some()
    }

    fn io(&self, source: io::Error) {
        self.failed.borrow_mut().get_or_insert(SpillError::Io { dir: self.dir.clone(), source });
    }

    pub(super) fn damaged(&self, why: &'static str) {
        self.failed.borrow_mut().get_or_insert(SpillError::Damaged { dir: self.dir.clone(), why });
    }
}

fn entry_at(bytes: &[u8], at: usize) -> Option<(&[u8], &[u8])> {
    let lengths = bytes.get(at..at + LENGTHS)?;
    let length = |i: usize| u16::from_le_bytes([lengths[i], lengths[i + 1]]) as usize;
    let (key, value) = (at + LENGTHS, at + LENGTHS + length(0));
    Some((bytes.get(key..value)?, bytes.get(value..value + length(2))?))
}

fn put_entry(bytes: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
    bytes.extend_from_slice(&(value.len() as u16).to_le_bytes());
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value);
}

/// Takes entries in any order.
#[derive(Debug)]
pub(super) struct Sorter {
    spill: Rc<Spill>,
    bytes: Vec<u8>,
    at: Vec<u32>,
    /// Runs, and how often their entries were merged.
    runs: Vec<(u32, Run)>,
    len: u64,
}

impl Sorter {
    pub(super) fn new(spill: &Rc<Spill>) -> Sorter {
        Sorter { spill: spill.clone(), bytes: Vec::new(), at: Vec::new(), runs: Vec::new(), len: 0 }
    }

    /// Takes an entry. Several with one key come in the order of their values.
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        if HEAD + LENGTHS + key.len() + value.len() > BLOCK_BYTES {
            return self.spill.damaged("an entry is larger than a block");
        }
        let bytes = self.bytes.len() + self.at.len() * size_of::<u32>();
        if !self.at.is_empty() && bytes + LENGTHS + key.len() + value.len() > self.spill.room.min(u32::MAX as usize) {
            self.put_run();
        }
        self.at.push(self.bytes.len() as u32);
        put_entry(&mut self.bytes, key, value);
        self.len += 1;
    }

    fn sort(&mut self) {
        let Sorter { bytes, at, .. } = self;
        at.sort_unstable_by_key(|&at| entry_at(bytes, at as usize));
    }

    /// Puts what is in memory into a run.
    fn put_run(&mut self) {
        self.sort();
        let spill = self.spill.clone();
        if let Some(mut writer) = Writer::new(&spill) {
            for &at in &self.at {
                let (key, value) = entry_at(&self.bytes, at as usize).expect("it was put there");
                writer.push(key, value);
            }
            self.runs.extend(writer.finish().map(|run| (0, run)));
        }
        self.bytes.clear();
        self.at.clear();
        while let Some(first) = self.runs.len().checked_sub(FAN_IN)
            && self.runs[first..].iter().all(|(level, _)| *level == self.runs[first].0)
        {
            let level = self.runs[first].0;
            let some: Vec<Run> = self.runs.drain(first..).map(|(_, run)| run).collect();
            self.runs.extend(merge(&spill, &some).map(|run| (level + 1, run)));
        }
    }

    /// All entries, sorted.
    pub(super) fn finish(mut self) -> Table {
        if self.runs.is_empty() {
            self.sort();
            self.bytes.shrink_to_fit();
            self.at.shrink_to_fit();
            return Table { spill: self.spill, len: self.len, entries: Entries::Memory(self.bytes, self.at) };
        }
        self.put_run();
        let spill = self.spill;
        (self.bytes, self.at) = Default::default();
        let mut runs: Vec<Run> = self.runs.into_iter().map(|(_, run)| run).collect();
        let one = if runs.len() == 1 { runs.pop() } else { merge(&spill, &runs) };
        let entries = one.map_or(Entries::Memory(Vec::new(), Vec::new()), Entries::Disk);
        Table { spill, len: self.len, entries }
    }
}

/// Makes one run of some; none after an error.
fn merge(spill: &Rc<Spill>, runs: &[Run]) -> Option<Run> {
    let mut writer = Writer::new(spill)?;
    let mut heads: Vec<Blocks<'_>> = runs.iter().map(|run| Blocks::new(spill, run, 0)).collect();
    loop {
        let firsts = heads.iter().enumerate().filter_map(|(i, head)| head.peek().map(|entry| (entry, i)));
        let Some((_, first)) = firsts.min() else { break };
        let (key, value) = heads[first].peek().expect("just seen");
        writer.push(key, value);
        heads[first].advance();
    }
    writer.finish()
}

/// Sorted entries in a file.
#[derive(Debug)]
struct Run {
    file: File,
    blocks: u64,
    /// The first keys of some blocks.
    index: Vec<(Vec<u8>, u64)>,
}

struct Writer<'a> {
    spill: &'a Spill,
    run: Run,
    block: Vec<u8>,
    /// Of one of so many blocks the first key is kept.
    every: u64,
}

impl<'a> Writer<'a> {
    fn new(spill: &'a Spill) -> Option<Writer<'a>> {
        let file = tempfile::tempfile_in(&spill.dir).map_err(|error| spill.io(error)).ok()?;
        let run = Run { file, blocks: 0, index: Vec::new() };
        Some(Writer { spill, run, block: vec![0; HEAD], every: 1 })
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        if self.block.len() + LENGTHS + key.len() + value.len() > BLOCK_BYTES {
            self.flush();
        }
        if self.block.len() == HEAD && self.run.blocks.is_multiple_of(self.every) {
            let Run { index, blocks, .. } = &mut self.run;
            index.push((key.to_vec(), *blocks));
            if index.len() > INDEX_MAX {
                self.every *= 2;
                index.retain(|(_, block)| block.is_multiple_of(self.every));
            }
        }
        put_entry(&mut self.block, key, value);
    }

    fn flush(&mut self) {
        let used = (self.block.len() - HEAD) as u32;
        self.block.resize(BLOCK_BYTES, 0);
        self.block[4..HEAD].copy_from_slice(&used.to_le_bytes());
        let crc = crc32c(&self.block[4..]);
        self.block[..4].copy_from_slice(&crc.to_le_bytes());
        if !self.spill.fails()
            && let Err(error) = self.run.file.write_all_at(&self.block, self.run.blocks * BLOCK_BYTES as u64)
        {
            self.spill.io(error);
        }
        self.run.blocks += 1;
        self.block.truncate(HEAD);
    }

    fn finish(mut self) -> Option<Run> {
        if self.block.len() > HEAD {
            self.flush();
        }
        (!self.spill.fails()).then_some(self.run)
    }
}

/// A place in a run.
pub(super) struct Blocks<'a> {
    spill: &'a Spill,
    run: &'a Run,
    block: Vec<u8>,
    next: u64,
    at: usize,
}

impl<'a> Blocks<'a> {
    /// At the first entry of a block.
    fn new(spill: &'a Spill, run: &'a Run, block: u64) -> Blocks<'a> {
        let mut blocks = Blocks { spill, run, block: Vec::new(), next: block, at: 0 };
        blocks.read();
        blocks
    }

    /// At the first entry that is not below a key.
    fn from(spill: &'a Spill, run: &'a Run, key: &[u8]) -> Blocks<'a> {
        let place = run.index.partition_point(|(first, _)| first.as_slice() <= key);
        let end = run.index.get(place).map_or(run.blocks, |(_, block)| *block);
        let mut first = place.checked_sub(1).map_or(0, |place| run.index[place].1);
        // The last block that does not begin above the key.
        let mut above = end;
        let mut blocks = Blocks::new(spill, run, first);
        while above - first > 1 {
            let middle = first + (above - first) / 2;
            blocks = Blocks::new(spill, run, middle);
            if blocks.peek().is_some_and(|(other, _)| other <= key) { first = middle } else { above = middle }
        }
        if blocks.next != first + 1 {
            blocks = Blocks::new(spill, run, first);
        }
        while blocks.peek().is_some_and(|(other, _)| other < key) {
            blocks.advance();
        }
        blocks
    }

    /// Reads the next block; at the end, and after an error, there is nothing in it.
    fn read(&mut self) {
        (self.at, self.block) = (HEAD, std::mem::take(&mut self.block));
        if self.next == self.run.blocks || self.spill.fails() {
            return self.block.clear();
        }
        self.block.resize(BLOCK_BYTES, 0);
        let read = self.run.file.read_exact_at(&mut self.block, self.next * BLOCK_BYTES as u64);
        let wrong = match read {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Some("it is too short"),
            Err(error) => {
                self.spill.io(error);
                return self.block.clear();
            }
            Ok(()) if self.block[..4] != crc32c(&self.block[4..]).to_le_bytes() => Some("a checksum is wrong"),
            Ok(()) => None,
        };
        if let Some(why) = wrong {
            self.spill.damaged(why);
            return self.block.clear();
        }
        let used = u32::from_le_bytes(self.block[4..HEAD].try_into().expect("four bytes"));
        self.block.truncate(HEAD + used as usize);
        self.next += 1;
    }

    fn peek(&self) -> Option<(&[u8], &[u8])> {
        entry_at(&self.block, self.at)
    }

    fn advance(&mut self) {
        if let Some((key, value)) = self.peek() {
            self.at += LENGTHS + key.len() + value.len();
        }
        if self.at >= self.block.len() && !self.block.is_empty() {
            self.read();
        }
    }
}

/// Sorted entries.
#[derive(Debug)]
pub(super) struct Table {
    spill: Rc<Spill>,
    len: u64,
    entries: Entries,
}

#[derive(Debug)]
enum Entries {
    /// Entries, and where they are, sorted.
    Memory(Vec<u8>, Vec<u32>),
    Disk(Run),
}

impl Table {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn spill(&self) -> &Spill {
        &self.spill
    }

    /// The entries whose keys are not below this one.
    pub(super) fn from(&self, key: &[u8]) -> Cursor<'_> {
        match &self.entries {
            Entries::Memory(bytes, at) => {
                let below = |&at: &u32| entry_at(bytes, at as usize).is_some_and(|(other, _)| other < key);
                Cursor::Memory { bytes, at: &at[at.partition_point(below)..] }
            }
            Entries::Disk(run) if key.is_empty() => Cursor::Disk(Blocks::new(&self.spill, run, 0)),
            Entries::Disk(run) => Cursor::Disk(Blocks::from(&self.spill, run, key)),
        }
    }
}

/// A place in a table.
pub(super) enum Cursor<'a> {
    Memory { bytes: &'a [u8], at: &'a [u32] },
    Disk(Blocks<'a>),
}

impl Cursor<'_> {
    /// The key and value there; none at the end.
    pub(super) fn peek(&self) -> Option<(&[u8], &[u8])> {
        match self {
            Cursor::Memory { bytes, at } => entry_at(bytes, *at.first()? as usize),
            Cursor::Disk(blocks) => blocks.peek(),
        }
    }

    pub(super) fn advance(&mut self) {
        match self {
            Cursor::Memory { at, .. } => *at = at.get(1..).unwrap_or_default(),
            Cursor::Disk(blocks) => blocks.advance(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut cursor: Cursor<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut all = Vec::new();
        while let Some((key, value)) = cursor.peek() {
            all.push((key.to_vec(), value.to_vec()));
            cursor.advance();
        }
        all
    }

    fn table(memory: u64, count: u32) -> (Rc<Spill>, Table) {
        let spill = Spill::new(&std::env::temp_dir(), memory);
        let mut sorter = Sorter::new(&spill);
        for n in 0..count {
            let key = (n.wrapping_mul(2_654_435_761) % count) * 2;
            sorter.push(&key.to_be_bytes(), &vec![key as u8; key as usize % 700]);
        }
        (spill, sorter.finish())
    }

    #[test]
    fn what_is_sorted_on_disk_is_what_is_sorted_in_memory() {
        // Odd, so that the keys are all different.
        for count in [0, 1, 2, 999, 30_011] {
            let (spill, in_memory) = table(1 << 30, count);
            let wanted = all(in_memory.from(&[]));
            assert_eq!(wanted.len(), count as usize);
            assert!(wanted.is_sorted());
            for memory in [0, 20_000, 4 << 20] {
                let (small, on_disk) = table(memory, count);
                assert_eq!(on_disk.len(), u64::from(count));
                assert!(all(on_disk.from(&[])) == wanted, "{count} entries with {memory} bytes");
                for key in (0..count * 2 + 3).step_by(1 + count as usize / 50) {
                    let (a, b) = (in_memory.from(&key.to_be_bytes()), on_disk.from(&key.to_be_bytes()));
                    assert_eq!(a.peek(), b.peek(), "{key} of {count}");
                }
                small.sound().expect("nothing failed");
            }
            spill.sound().expect("nothing failed");
        }
    }

    #[test]
    fn a_large_run_keeps_few_keys() {
        let (spill, table) = table(0, 3);
        let mut writer = Writer { block: vec![0; HEAD], ..Writer::new(&spill).expect("a file") };
        let blocks = INDEX_MAX as u32 * 2 + 5;
        (0..blocks).for_each(|n| writer.push(&n.to_be_bytes(), &[0; BLOCK_BYTES - HEAD - LENGTHS - 4]));
        let run = writer.finish().expect("written");
        assert_eq!((run.blocks, run.index.len()), (u64::from(blocks), blocks.div_ceil(4) as usize));
        for n in [0, 1, 5, blocks / 2 + 1, blocks - 1] {
            assert_eq!(Blocks::from(&spill, &run, &n.to_be_bytes()).peek().expect("there").0, n.to_be_bytes());
        }
        assert!(Blocks::from(&spill, &run, &blocks.to_be_bytes()).peek().is_none());
        drop(table);
    }

    #[test]
    fn damage_is_noticed() {
        let damages: [fn(&File); 2] =
            [|file| file.write_all_at(&[255], 4_000).unwrap(), |file| file.set_len(100).unwrap()];
        for damage in damages {
            let (spill, table) = table(20_000, 5_000);
            let Entries::Disk(run) = &table.entries else { panic!("all in memory") };
            damage(&run.file);
            assert!(all(table.from(&[])).len() < 5_000);
            assert!(matches!(spill.sound(), Err(SpillError::Damaged { .. })));
        }
    }

    #[test]
    fn a_directory_that_takes_nothing_is_an_error() {
        let spill = Spill::new(Path::new("/dev/null/none"), 0);
        let mut sorter = Sorter::new(&spill);
        (0..100u32).for_each(|n| sorter.push(&n.to_be_bytes(), &[]));
        assert!(all(sorter.finish().from(&[])).len() < 100);
        let error = spill.sound().expect_err("there is no such directory").to_string();
        assert!(error.contains("/dev/null/none") && error.contains("--temp"), "{error}");
    }
}
