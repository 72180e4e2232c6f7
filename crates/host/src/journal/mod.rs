//! The journal of a process (design.md, "Durability"): appends, flushes, segments. Upholds R-16's three states of a record.
//!
//! All roles of the process append to one journal under one mutex, so the order of the log extends causality
//! and any prefix is a consistent cut. An append is a copy into the mapping of the current segment; it never
//! waits for the disk, and only in an emergency for the next segment. One thread flushes (group commit), one
//! prepares segments ahead. After an error of a flush nothing is appended or flushed ever again.

mod flush;
mod hold;
mod prepare;
mod recover;
mod segment;

pub use hold::Hold;
pub use recover::{Given, RecoveryReport, Replay, TailCut, inspect};
#[cfg(feature = "fuzzing")]
pub(crate) use segment::read_header;

use onpath_store::StoreError;
use onpath_store::batch::{self, BatchBuilder, end_of_segment};
use onpath_wire::disk::superblock::JournalId;
use onpath_wire::ids::{Lsn, NodeId};
use onpath_wire::limits::{COMMIT_INTERVAL_MS, SEGMENT_BYTES};
use onpath_wire::shown::Shown;
use segment::Segment;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use thiserror::Error;

/// Smallest segment that is chosen on a small disk.
const SEGMENT_BYTES_MIN: u64 = 4 << 20;
/// A disk has room for at least so many segments; else they are chosen smaller.
const SEGMENTS_PER_DISK: u64 = 64;

/// Why the journal cannot be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// Bytes that were durable cannot be read back.
    #[error("journal is damaged: {} at offset {offset}: {why}; restore the directory from a backup, or run `onpath fsck`", file.shown())]
    Damage {
        /// The segment.
        file: PathBuf,
        /// Bytes from its start.
        offset: u64,
        /// What was found.
        why: String,
    },
    /// Segments are missing.
    #[error("journal is damaged: {}: {why}; restore the directory from a backup, or run `onpath fsck`", dir.shown())]
    Missing {
        /// The journal's directory.
        dir: PathBuf,
        /// What is missing.
        why: String,
    },
    /// A segment is not one of this journal.
    #[error("journal: {} is {why}: put the file system's own file back", file.shown())]
    Foreign {
        /// The segment.
        file: PathBuf,
        /// What it is.
        why: &'static str,
    },
    /// A segment has another format version.
    #[error("journal: {} has format version {found}: use an onpath of that version", file.shown())]
    Version {
        /// The segment.
        file: PathBuf,
        /// Its version.
        found: u32,
    },
    /// A record cannot be replayed.
    #[error("journal record in {} before offset {offset} cannot be replayed: {source}", file.shown())]
    Replay {
        /// The segment.
        file: PathBuf,
        /// Bytes from its start to the end of the record's batch.
        offset: u64,
        /// Why.
        source: StoreError,
    },
    /// The journal has stopped for good.
    #[error("journal has stopped: {0}")]
    Stopped(String),
    /// The operating system refused.
    #[error("journal: {}: {source}", path.shown())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Its error.
        source: io::Error,
    },
}

/// When outputs to clients leave, and how often the journal is flushed anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Replies leave when their record is written; it is durable within this time, milliseconds.
    Interval(u64),
    /// Replies leave when their record is durable.
    Sync,
}

impl Commit {
    fn interval_ms(self) -> u64 {
        match self {
            Commit::Interval(ms) => ms.max(1),
            Commit::Sync => COMMIT_INTERVAL_MS,
        }
    }
}

/// How a journal is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Size of a segment, bytes.
    pub segment_bytes: u64,
    /// Commit mode.
    pub commit: Commit,
    /// Which journal it is.
    pub journal: JournalId,
}

impl Options {
    /// Options for a journal in `dir`: segments are chosen smaller on a small disk.
    pub fn for_dir(dir: &Path, journal: JournalId, commit: Commit) -> io::Result<Options> {
        let (total, _) = crate::sys::space(dir)?;
        let segment_bytes = (total / SEGMENTS_PER_DISK).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES) & !0xffff;
        Ok(Options { segment_bytes, commit, journal })
    }
}

/// What the journal tells its host. Called from the journal's own threads, with no lock held.
pub trait JournalEvents: Send + Sync {
    /// Makes durable what records speak of and lies elsewhere (chunk files), before the records.
    fn flush_data(&self) -> io::Result<()>;
    /// Everything up to `lsn` is durable.
    fn durable(&self, lsn: Lsn);
    /// The disk is full (only what frees space may be recorded), or has room again.
    fn space(&self, full: bool);
    /// The journal has stopped for good; the process must not answer anybody any more.
    fn failed(&self, why: &str);
}

/// A closed segment: recycled when a checkpoint has made its batches useless.
#[derive(Debug)]
struct Closed {
    path: PathBuf,
    bytes: u64,
    /// The lsn with which the next segment begins.
    end: Lsn,
}

/// Bytes of a segment that no flush has covered.
#[derive(Debug)]
struct Unflushed {
    segment: Arc<Segment>,
    from: usize,
    to: usize,
}

/// What the append lock protects.
#[derive(Debug)]
struct Append {
    segment: Arc<Segment>,
    at: usize,
    flushed_at: usize,
    next: Lsn,
    /// Bytes appended since the start of the process.
    bytes: u64,
    unflushed: Vec<Unflushed>,
    closed: Vec<Closed>,
    holds: hold::Holds,
}

#[derive(Debug)]
struct Shared {
    dir: PathBuf,
    options: Options,
    append: Mutex<Append>,
    durable: AtomicU64,
    full: AtomicBool,
    failed: OnceLock<String>,
    flush: flush::Control,
    prepare: prepare::Control,
}

/// Counters of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct JournalStatus {
    /// Batches ever appended.
    pub appended: Lsn,
    /// Batches durable.
    pub durable: Lsn,
    /// Bytes appended since the start of the process.
    pub bytes: u64,
    /// Segments that hold batches.
    pub segments: u64,
    /// Flushes since the start of the process.
    pub flushes: u64,
    /// Segments that an append had to prepare itself.
    pub prepared_inline: u64,
    /// Only what frees space may be recorded.
    pub full: bool,
}

/// The journal. Dropping it stops its threads without a flush, as a crash would; [`Journal::close`] flushes.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Journal {
    /// Starts the threads that flush and prepare. Call once, before the first append.
    pub fn start(&self, events: Arc<dyn JournalEvents>) {
        let mut threads = self.threads.lock().expect("starting does not panic");
        assert!(threads.is_empty(), "a journal is started once");
        let spawn = |name: &str, run: fn(&Shared, &dyn JournalEvents)| {
            let (shared, events) = (self.shared.clone(), events.clone());
            let named = std::thread::Builder::new().name(name.into());
            named.spawn(move || run(&shared, &*events)).expect("a process can have a few threads")
        };
        threads.push(spawn("flush", flush::run));
        threads.push(spawn("prepare", prepare::run));
    }

    /// Appends a batch of `role`; on return it is appended and written. `batch` is empty afterwards.
    pub fn append(&self, role: NodeId, batch: &mut BatchBuilder) -> Result<Lsn, JournalError> {
        let shared = &*self.shared;
        shared.check()?;
        batch.close();
        let mut append = shared.append.lock().expect("appending does not panic");
        let len = batch.len();
        if append.at + len + batch::HEADER_BYTES > append.segment.len() {
            shared.roll(&mut append, len)?;
        }
        let lsn = append.next;
        batch.seal(role, lsn, Lsn(shared.durable.load(Ordering::Relaxed)), append.segment.salt);
        append.segment.write(append.at, batch.bytes());
        // Zeros after the last batch tell a clean end from a torn one, also in a recycled segment.
        append.segment.write(append.at + len, &[0; 8]);
        let first_since_flush = append.at == append.flushed_at && append.unflushed.is_empty();
        append.at += len;
        append.bytes += len as u64;
        append.next.0 += 1;
        drop(append);
        if first_since_flush {
            shared.flush.dirty();
        }
        Ok(lsn)
    }

    /// Asks for a flush now: something waits for one.
    pub fn flush_soon(&self) {
        self.shared.flush.request();
    }

    /// Flushes and waits until everything appended before is durable.
    pub fn flush_wait(&self) -> Result<Lsn, JournalError> {
        let appended = self.appended();
        if self.durable() < appended {
            self.flush_soon();
        }
        self.shared.flush.wait(&self.shared, appended)?;
        Ok(appended)
    }

    /// The last lsn given out.
    pub fn appended(&self) -> Lsn {
        Lsn(self.shared.append.lock().expect("appending does not panic").next.0 - 1)
    }

    /// Everything up to here is durable.
    pub fn durable(&self) -> Lsn {
        Lsn(self.shared.durable.load(Ordering::Acquire))
    }

    /// Whether only what frees space may be recorded.
    pub fn is_full(&self) -> bool {
        self.shared.full.load(Ordering::Acquire)
    }

    /// Why the journal has stopped for good, if it has.
    pub fn failure(&self) -> Option<&str> {
        self.shared.failed.get().map(String::as_str)
    }

    /// No batch below `from` is needed any more: recycles or deletes the segments that hold only such, and that nobody holds.
    pub fn release(&self, from: Lsn) {
        let full = self.is_full();
        let useless: Vec<Closed> = {
            let mut append = self.shared.append.lock().expect("appending does not panic");
            let from = append.holds.bound(from, full);
            let keep = append.closed.iter().position(|c| c.end > from).unwrap_or(append.closed.len());
            append.closed.drain(..keep).collect()
        };
        self.shared.prepare.recycle(useless.into_iter().map(|c| (c.path, c.bytes)));
    }

    /// Counters.
    pub fn status(&self) -> JournalStatus {
        let append = self.shared.append.lock().expect("appending does not panic");
        JournalStatus {
            appended: Lsn(append.next.0 - 1),
            durable: self.durable(),
            bytes: append.bytes,
            segments: append.closed.len() as u64 + 1,
            flushes: self.shared.flush.count(),
            prepared_inline: self.shared.prepare.inline_count(),
            full: self.is_full(),
        }
    }

    /// Flushes everything and stops.
    pub fn close(&self) -> Result<Lsn, JournalError> {
        let result = self.flush_wait();
        self.stop();
        result
    }

    pub(crate) fn stop(&self) {
        self.shared.flush.stop();
        self.shared.prepare.stop();
        for thread in self.threads.lock().expect("starting does not panic").drain(..) {
            if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
                tracing::error!("a thread of the journal panicked");
            }
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn check(&self) -> Result<(), JournalError> {
        match self.failed.get() {
            None => Ok(()),
            Some(why) => Err(JournalError::Stopped(why.clone())),
        }
    }

    /// Stops the journal for good; the flushing thread tells the host.
    fn fail(&self, why: String) {
        tracing::error!(%why, "the journal has stopped; restart the process");
        if self.failed.set(why).is_ok() {
            self.flush.request();
        }
    }

    /// Closes the current segment and goes on in one that has room for `len` bytes.
    fn roll(&self, append: &mut Append, len: usize) -> Result<(), JournalError> {
        let room = segment::HEADER_BYTES + len + batch::HEADER_BYTES;
        loop {
            let next = match self.prepare.take(self, room as u64) {
                Ok(next) => next,
                Err(source) => {
                    self.fail(format!("no segment for the next records in {}: {source}", self.dir.shown()));
                    return Err(JournalError::Io { path: self.dir.clone(), source });
                }
            };
            let durable = Lsn(self.durable.load(Ordering::Relaxed));
            append.segment.write(append.at, &end_of_segment(append.next, durable, append.segment.salt));
            let old = std::mem::replace(&mut append.segment, Arc::new(next));
            let (from, to) = (append.flushed_at, append.at + batch::HEADER_BYTES);
            append.closed.push(Closed { path: old.path.clone(), bytes: old.len() as u64, end: append.next });
            append.unflushed.push(Unflushed { segment: old, from, to });
            append.at = segment::HEADER_BYTES;
            append.flushed_at = segment::HEADER_BYTES;
            if append.segment.len() >= room {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests;
