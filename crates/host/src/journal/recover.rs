//! Recovery: the contiguous prefix is replayed, what follows is cut before anybody serves, damage is refused
//! (design.md, "Durability"). After a kill as after a power loss.

use super::hold::Holds;
use super::prepare::{self, Maker, RESERVE_SEGMENTS, reserve_path};
use super::segment::{BadHead, HEADER_BYTES, Segment, number_of, read_header};
use super::{Append, Closed, Journal, JournalError, Options, Shared, flush};
use crate::held;
use crate::progress::{Stage, Unit, Unwatched, Watcher};
use crate::sys;
use onpath_store::StoreError;
use onpath_store::batch::{self, Batch, Broken, Scanner, Step, claims_durable, durable_evidence};
use onpath_wire::disk::superblock::JournalId;
use onpath_wire::ids::{Lsn, NodeId, RecordSeq};
use onpath_wire::shown::Shown;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

/// Most that is given at a time.
const WINDOW: usize = 1 << 16;

/// Something that a journal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given<'a> {
    /// A record of a role: see [`Replay::record`].
    Record(NodeId, RecordSeq, &'a [u8]),
    /// See [`Replay::was_durable`].
    Durable(NodeId, RecordSeq),
}

/// What takes the records of a recovery. A closure takes them and asks no more.
pub trait Replay {
    /// A record of a role.
    fn record(&mut self, role: NodeId, seq: RecordSeq, record: &[u8]) -> Result<(), StoreError>;
    /// The role's records up to `seq`, all given before, were durable when the process ended that wrote them, and so were bytes of a
    /// file that such a record speaks of.
    fn was_durable(&mut self, _role: NodeId, _seq: RecordSeq) {}
    /// Who is told how far the reading is.
    fn watcher(&self) -> &dyn Watcher {
        &Unwatched
    }
    /// Much at a time: all of it in order. Roles do not know of each other, so only the order of what is said to one matters. An error
    /// comes with the place of what it is about.
    fn window(&mut self, window: &[Given<'_>]) -> Result<(), (usize, StoreError)> {
        for (place, given) in window.iter().enumerate() {
            match *given {
                Given::Record(role, seq, record) => self.record(role, seq, record).map_err(|error| (place, error))?,
                Given::Durable(role, seq) => self.was_durable(role, seq),
            }
        }
        Ok(())
    }
}

impl<F: FnMut(NodeId, RecordSeq, &[u8]) -> Result<(), StoreError>> Replay for F {
    fn record(&mut self, role: NodeId, seq: RecordSeq, record: &[u8]) -> Result<(), StoreError> {
        self(role, seq, record)
    }
}

/// Where the journal was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailCut {
    /// The segment.
    pub file: PathBuf,
    /// Bytes from its start.
    pub offset: u64,
    /// What was found there.
    pub why: String,
}

/// What a recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Batches replayed.
    pub batches: u64,
    /// Records replayed.
    pub records: u64,
    /// Bytes of the batches replayed.
    pub bytes: u64,
    /// Batches before the checkpoint's start, passed over.
    pub skipped: u64,
    /// The journal goes on after this lsn.
    pub last: Lsn,
    /// A torn end was cut: none of it was acknowledged.
    pub tail_cut: Option<TailCut>,
}

struct Found {
    number: u64,
    path: PathBuf,
    bytes: u64,
}

/// Where the contiguous prefix ends inside a segment.
struct Stop {
    /// Index of the segment.
    index: usize,
    /// Where, from the start of the file; none if the segment has no valid header.
    place: Option<(u64, u32)>,
    why: String,
    clean: bool,
    /// A segment begins too late: these batches should be before it.
    gap: Option<(Lsn, Lsn)>,
}

impl Stop {
    fn tail_cut(&self, segments: &[Found]) -> Option<TailCut> {
        let cut = || TailCut {
            file: segments[self.index].path.clone(),
            offset: self.place.map_or(0, |(offset, _)| offset),
            why: self.why.clone(),
        };
        (!self.clean).then(cut)
    }
}

/// The contiguous prefix of a journal.
struct Prefix {
    report: RecoveryReport,
    closed: Vec<Closed>,
    stop: Option<Stop>,
}

struct Scan<'a> {
    journal: JournalId,
    from: Lsn,
    next: Option<Lsn>,
    report: RecoveryReport,
    closed: Vec<Closed>,
    replay: &'a mut dyn Replay,
    /// Bytes of the present segment of which its watcher was told.
    told: u64,
    /// Last record of each batch that no later one has called durable, in order.
    unconfirmed: VecDeque<(Lsn, NodeId, RecordSeq)>,
}

/// What has been read and not given yet.
#[derive(Default)]
struct Window<'a> {
    given: Vec<Given<'a>>,
    /// How much of it each batch ends, and the batch's end in the file.
    ends: Vec<(usize, u64)>,
}

fn at<'a>(path: &'a Path) -> impl Fn(io::Error) -> JournalError + use<'a> {
    move |source| JournalError::Io { path: path.to_owned(), source }
}

impl Journal {
    /// Reads the journal in `dir` from lsn `from` on, gives every record to `replay`, cuts the tail, makes all
    /// that remains durable, and goes on after it. An empty directory becomes an empty journal.
    pub fn recover(
        dir: &Path,
        options: Options,
        from: Lsn,
        replay: &mut dyn Replay,
    ) -> Result<(Journal, RecoveryReport), JournalError> {
        let (segments, leftovers) = list(dir)?;
        for path in &leftovers {
            held::remove(path).map_err(at(path))?;
        }
        let from = from.max(Lsn(1));
        let Prefix { report, closed, stop } = prefix(dir, &segments, options.journal, from, replay)?;
        let next = Lsn(report.last.0 + 1);
        let resumed = match &stop {
            Some(stop) => cut(dir, &options, &segments, stop)?,
            None => None,
        };
        for segment in &closed {
            held::open(&segment.path).and_then(|file| file.sync_all()).map_err(at(&segment.path))?;
        }
        sys::sync_dir(dir).map_err(at(dir))?;
        let number = segments.last().map_or(1, |s| s.number + 1);
        let journal = begin(dir, options, next, number, closed, resumed)?;
        journal.release(from);
        Ok((journal, report))
    }
}

/// Reads the journal in `dir` from lsn `from` on and gives every record to `replay`, as [`Journal::recover`] does, but
/// changes nothing: a torn end is only reported.
pub fn inspect(
    dir: &Path,
    journal: JournalId,
    from: Lsn,
    replay: &mut dyn Replay,
) -> Result<RecoveryReport, JournalError> {
    let (segments, _) = list(dir)?;
    prefix(dir, &segments, journal, from.max(Lsn(1)), replay).map(|prefix| prefix.report)
}

/// Reads segments that are held, in order, of which the last is open and ends at byte `end`, and gives every record from lsn
/// `from` on to `replay`.
pub(super) fn read_held(
    segments: &[PathBuf],
    end: u64,
    journal: JournalId,
    from: Lsn,
    replay: &mut dyn Replay,
) -> Result<RecoveryReport, JournalError> {
    let mut scan = Scan::new(journal, from, replay);
    for (index, path) in segments.iter().enumerate() {
        let open = index + 1 == segments.len();
        let mut bytes = held::read(path).map_err(at(path))?;
        bytes.truncate(if open { end as usize } else { bytes.len() });
        let number = path.file_name().and_then(|name| number_of(&name.to_string_lossy())).unwrap_or_default();
        let found = Found { number, path: path.clone(), bytes: bytes.len() as u64 };
        let damaged = |offset, why: String| JournalError::Damage { file: path.clone(), offset, why };
        let head = read_header(&bytes, number, journal).map_err(|bad| damaged(0, format!("{bad:?}")))?;
        match scan.segment(index, &found, &bytes[HEADER_BYTES..], head.salt)? {
            None => {}
            Some(Stop { place: Some((offset, _)), .. }) if open && offset == end => {}
            Some(stop) => return Err(damaged(stop.place.map_or(0, |(offset, _)| offset), stop.why)),
        }
    }
    scan.report.last = Lsn(scan.next.unwrap_or(from).0 - 1);
    Ok(scan.report)
}

fn prefix(
    dir: &Path,
    segments: &[Found],
    journal: JournalId,
    from: Lsn,
    replay: &mut dyn Replay,
) -> Result<Prefix, JournalError> {
    if segments.is_empty() && from > Lsn(1) {
        let why = format!("there is no segment, but the checkpoint needs the journal from {from} on");
        return Err(JournalError::Missing { dir: dir.to_owned(), why });
    }
    let mut scan = Scan::new(journal, from, replay);
    let stop = scan.all(segments)?;
    let next = scan.next.unwrap_or(from);
    if next < from {
        let why = format!("it ends before batch {next}, but the checkpoint needs it from {from} on");
        return Err(JournalError::Missing { dir: dir.to_owned(), why });
    }
    let (mut report, closed) = (scan.report, scan.closed);
    report.last = Lsn(next.0 - 1);
    report.tail_cut = stop.as_ref().and_then(|stop| stop.tail_cut(segments));
    Ok(Prefix { report, closed, stop })
}

/// The segments in order, and what an interrupted preparation left.
fn list(dir: &Path) -> Result<(Vec<Found>, Vec<PathBuf>), JournalError> {
    let (mut found, mut leftovers) = (vec![], vec![]);
    for path in held::list(dir).map_err(at(dir))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(number) = number_of(&name) {
            let bytes = held::look(&path).map_err(at(&path))?.len();
            found.push(Found { number, path, bytes });
        } else if name.ends_with(".tmp") {
            leftovers.push(path);
        }
    }
    found.sort_by_key(|f| f.number);
    Ok((found, leftovers))
}

impl<'a> Scan<'a> {
    fn new(journal: JournalId, from: Lsn, replay: &'a mut dyn Replay) -> Scan<'a> {
        let report = RecoveryReport::default();
        Scan { journal, from, next: None, report, closed: vec![], replay, told: 0, unconfirmed: VecDeque::new() }
    }

    /// Replays the contiguous prefix; says where it ends if not at the end of a closed last segment.
    fn all(&mut self, segments: &[Found]) -> Result<Option<Stop>, JournalError> {
        let foreign = |file: &Path, why| JournalError::Foreign { file: file.to_owned(), why };
        let mut whole = segments.iter().map(|segment| segment.bytes).sum();
        self.replay.watcher().begin(Stage { doing: "replaying the journal", unit: Unit::Bytes, whole: Some(whole) });
        for (index, segment) in segments.iter().enumerate() {
            let bytes = held::read(&segment.path).map_err(at(&segment.path))?;
            let used = used(&bytes);
            whole -= segment.bytes.saturating_sub(used);
            self.replay.watcher().whole(whole);
            self.told = 0;
            let stop = match read_header(&bytes, segment.number, self.journal) {
                Ok(head) => self.segment(index, segment, &bytes[HEADER_BYTES..], head.salt)?,
                Err(BadHead::Torn(why)) => {
                    // A header is flushed with the first batch behind it: where one says it was, this is no torn end.
                    let batches = bytes.get(HEADER_BYTES..).unwrap_or_default();
                    if claims_durable(batches, self.next.unwrap_or(self.from)) {
                        return Err(JournalError::Damage { file: segment.path.clone(), offset: 0, why: why.into() });
                    }
                    let clean = bytes.iter().all(|&b| b == 0);
                    Some(Stop { index, place: None, why: why.into(), clean, gap: None })
                }
                Err(BadHead::Foreign(why)) => return Err(foreign(&segment.path, why)),
                // The oldest segments are used again when nobody needs them, and a power loss may take the new name of such a file and
                // leave its new header. If it was needed the next one begins too late.
                Err(BadHead::Later) if self.next.is_none() && index + 1 < segments.len() => {
                    self.closed.push(Closed { path: segment.path.clone(), bytes: segment.bytes, end: self.from });
                    None
                }
                Err(BadHead::Later) => return Err(foreign(&segment.path, "a segment under another segment's name")),
                Err(BadHead::Version(found)) => {
                    return Err(JournalError::Version { file: segment.path.clone(), found });
                }
            };
            self.tell(used);
            if let Some(stop) = stop {
                self.refuse_damage(&segments[index..], &stop)?;
                return Ok(Some(stop));
            }
        }
        Ok(None)
    }

    /// A segment is read up to there.
    fn tell(&mut self, upto: u64) {
        self.replay.watcher().done(upto.saturating_sub(self.told));
        self.told = self.told.max(upto);
    }

    fn segment(&mut self, index: usize, found: &Found, bytes: &[u8], salt: u32) -> Result<Option<Stop>, JournalError> {
        let mut window = Window::default();
        let read = self.batches(index, found, bytes, salt, &mut window);
        // What is readable counts, also before damage.
        let given = self.give(found, &mut window);
        read.and_then(|stop| given.map(|()| stop))
    }

    fn batches<'b>(
        &mut self,
        index: usize,
        found: &Found,
        bytes: &'b [u8],
        salt: u32,
        window: &mut Window<'b>,
    ) -> Result<Option<Stop>, JournalError> {
        let mut scanner = Scanner::new(bytes, salt, self.next);
        loop {
            match scanner.step() {
                Step::Batch(batch) => {
                    let end = (HEADER_BYTES + scanner.offset()) as u64;
                    self.batch(found, &batch, end, window)?;
                    self.next = scanner.next_lsn();
                    if window.given.len() >= WINDOW {
                        self.give(found, window)?;
                    }
                }
                Step::End => {
                    let end = scanner.next_lsn().expect("a closed segment names the next lsn");
                    self.next = Some(end);
                    self.closed.push(Closed { path: found.path.clone(), bytes: found.bytes, end });
                    return Ok(None);
                }
                Step::Tail { offset, why } => {
                    let place = Some(((HEADER_BYTES + offset) as u64, salt));
                    let clean = why == Broken::Nothing;
                    return Ok(Some(Stop { index, place, why: why.to_string(), clean, gap: gap(offset, why) }));
                }
                Step::Damage { offset, why } => {
                    let file_offset = (HEADER_BYTES + offset) as u64;
                    return Err(damage(&found.path, file_offset, why.to_string(), gap(offset, why)));
                }
            }
        }
    }

    fn batch<'b>(
        &mut self,
        found: &Found,
        batch: &Batch<'b>,
        end: u64,
        window: &mut Window<'b>,
    ) -> Result<(), JournalError> {
        if self.next.is_none() && batch.lsn > self.from {
            return Err(missing(&found.path, self.from, batch.lsn));
        }
        if batch.lsn < self.from {
            self.report.skipped += 1;
            return Ok(());
        }
        // The last one of a role tells of all.
        let mut confirmed: SmallVec<[(NodeId, RecordSeq); 4]> = SmallVec::new();
        while let Some((_, role, seq)) = self.unconfirmed.pop_front_if(|(lsn, ..)| *lsn <= batch.durable) {
            match confirmed.iter_mut().find(|(known, _)| *known == role) {
                Some((_, last)) => *last = seq,
                None => confirmed.push((role, seq)),
            }
        }
        window.given.extend(confirmed.into_iter().map(|(role, seq)| Given::Durable(role, seq)));
        window.given.extend(batch.iter().map(|(seq, record)| Given::Record(batch.role, seq, record)));
        window.ends.push((window.given.len(), end));
        let last = RecordSeq(batch.first.0 + u64::from(batch.records) - 1);
        self.unconfirmed.push_back((batch.lsn, batch.role, last));
        self.report.batches += 1;
        self.report.records += u64::from(batch.records);
        let records = batch.iter().map(|(_, record)| record.len() as u64 + 4).sum::<u64>();
        self.report.bytes += batch::HEADER_BYTES as u64 + records;
        Ok(())
    }

    /// Gives what has been read of a segment.
    fn give(&mut self, found: &Found, window: &mut Window<'_>) -> Result<(), JournalError> {
        let given = self.replay.window(&window.given).map_err(|(place, source)| {
            let batch = window.ends.partition_point(|(until, _)| *until <= place);
            let offset = window.ends.get(batch).map_or(0, |(_, offset)| *offset);
            JournalError::Replay { file: found.path.clone(), offset, source }
        });
        self.tell(window.ends.last().map_or(0, |(_, offset)| *offset));
        window.given.clear();
        window.ends.clear();
        given
    }

    /// Refuses a stop if a later segment says that what should follow was durable.
    fn refuse_damage(&self, rest: &[Found], stop: &Stop) -> Result<(), JournalError> {
        let next = self.next.unwrap_or(self.from);
        for later in &rest[1..] {
            let bytes = held::read(&later.path).map_err(at(&later.path))?;
            let Ok(head) = read_header(&bytes, later.number, self.journal) else { continue };
            if durable_evidence(&bytes[HEADER_BYTES..], head.salt) >= next {
                let offset = stop.place.map_or(0, |(offset, _)| offset);
                return Err(damage(&rest[0].path, offset, stop.why.clone(), stop.gap));
            }
        }
        Ok(())
    }
}

/// Bytes of a segment up to its last page with something in it: what follows waits for batches.
fn used(bytes: &[u8]) -> u64 {
    const ZEROS: [u8; 4096] = [0; 4096];
    let empty = bytes.rchunks(ZEROS.len()).take_while(|page| **page == ZEROS[..page.len()]);
    bytes.len() as u64 - empty.map(|page| page.len() as u64).sum::<u64>()
}

/// What should be before the first batch of a segment, and is not: then a whole segment is missing.
fn gap(offset: usize, why: Broken) -> Option<(Lsn, Lsn)> {
    match why {
        Broken::Gap { found, expected } if offset == 0 && found > expected => Some((expected, found)),
        _ => None,
    }
}

fn damage(file: &Path, offset: u64, why: String, gap: Option<(Lsn, Lsn)>) -> JournalError {
    match gap {
        Some((expected, found)) => missing(file, expected, found),
        None => JournalError::Damage { file: file.to_owned(), offset, why },
    }
}

fn missing(before: &Path, expected: Lsn, found: Lsn) -> JournalError {
    let why = format!("batches {expected} to {} are missing before {}", found.0 - 1, before.shown());
    JournalError::Missing { dir: before.parent().unwrap_or(before).to_owned(), why }
}

/// Cuts what follows the prefix, so that it can never come back: later segments first, then the rest of this one,
/// in which the journal goes on. So a recovery needs no room.
fn cut(
    dir: &Path,
    options: &Options,
    segments: &[Found],
    stop: &Stop,
) -> Result<Option<(Segment, usize)>, JournalError> {
    let segment = &segments[stop.index];
    if let Some(TailCut { file, offset, why }) = stop.tail_cut(segments) {
        tracing::warn!(file = %file.shown(), offset, %why, "the torn end of the journal is cut");
    }
    let first_useless = stop.index + usize::from(stop.place.is_some());
    for later in &segments[first_useless..] {
        held::rename(&later.path, &prepare::free_path(&later.path)).map_err(at(&later.path))?;
    }
    sys::sync_dir(dir).map_err(at(dir))?;
    let Some((offset, salt)) = stop.place else { return Ok(None) };
    let bytes = held::read(&segment.path).map_err(at(&segment.path))?;
    let resumed = Segment::resume(&segment.path, salt, offset as usize, &bytes, options.segment_bytes)
        .map_err(at(&segment.path))?;
    Ok(Some((resumed, offset as usize)))
}

fn begin(
    dir: &Path,
    options: Options,
    next: Lsn,
    number: u64,
    closed: Vec<Closed>,
    resumed: Option<(Segment, usize)>,
) -> Result<Journal, JournalError> {
    let mut maker = Maker { next_number: number, free: vec![], reserve: vec![] };
    for path in put_aside(dir)? {
        let len = held::look(&path).map_or(0, |m| m.len());
        if len == options.segment_bytes {
            maker.free.push(path);
        } else {
            held::remove(&path).map_err(at(&path))?;
        }
    }
    for path in (0..RESERVE_SEGMENTS).map(|i| reserve_path(dir, i)) {
        if held::look(&path).is_ok_and(|m| m.len() == options.segment_bytes) {
            maker.reserve.push(path);
        }
    }
    let (segment, start) = match resumed {
        Some(resumed) => resumed,
        None => (prepare::first(dir, &options, &mut maker).map_err(at(dir))?, HEADER_BYTES),
    };
    let append = Append {
        segment: Arc::new(segment),
        at: start,
        flushed_at: start,
        next,
        bytes: 0,
        unflushed: vec![],
        closed,
        holds: Holds::default(),
    };
    let shared = Shared {
        dir: dir.to_owned(),
        options,
        append: Mutex::new(append),
        durable: AtomicU64::new(next.0 - 1),
        full: AtomicBool::new(false),
        failed: OnceLock::new(),
        flush: flush::Control::default(),
        prepare: prepare::Control::new(maker),
    };
    Ok(Journal { shared: Arc::new(shared), threads: Mutex::default() })
}

/// Segments that this recovery or an earlier run put aside for use again.
fn put_aside(dir: &Path) -> Result<Vec<PathBuf>, JournalError> {
    let mut found = vec![];
    for path in held::list(dir).map_err(at(dir))? {
        if path.extension().is_some_and(|e| e == "free") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
