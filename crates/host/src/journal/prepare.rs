//! Segments prepared ahead, recycled ones, and the reserve for a full disk (design.md, "Durability").
//!
//! One segment is always ready, so that an append that closes a segment finds the next one. Two more are
//! only reserved space; they are used when the disk has none left. From the moment the ready segment cannot
//! be replaced until the reserve is whole again the journal is *full*.

use super::segment::{Segment, Source};
use super::{JournalEvents, Options, Shared};
use crate::held;
use crate::sys;
use onpath_wire::shown::Shown;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Segments that are ready for use, beyond the current one.
const READY_SEGMENTS: usize = 1;
/// Segments whose space is reserved for a full disk.
pub(super) const RESERVE_SEGMENTS: usize = 2;
/// Useless segments that are kept for use again; more are deleted.
const FREE_SEGMENTS_MAX: usize = 4;
/// How often a full disk is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// What the makers of segments share; its lock is held while one is made, so that numbers are used in order.
#[derive(Debug)]
pub(super) struct Maker {
    pub(super) next_number: u64,
    pub(super) free: Vec<PathBuf>,
    pub(super) reserve: Vec<PathBuf>,
}

#[derive(Debug, Default)]
struct State {
    /// Useless segments with their sizes, not yet sorted into kept and deleted ones.
    returned: Vec<(PathBuf, u64)>,
    wanted: bool,
    stop: bool,
}

#[derive(Debug)]
pub(super) struct Control {
    state: Mutex<State>,
    work: Condvar,
    ready: Mutex<VecDeque<Segment>>,
    maker: Mutex<Maker>,
    inline: AtomicU64,
}

impl Control {
    pub(super) fn new(maker: Maker) -> Control {
        let state = State { wanted: true, ..State::default() };
        Control {
            state: Mutex::new(state),
            work: Condvar::new(),
            ready: Mutex::default(),
            maker: Mutex::new(maker),
            inline: AtomicU64::new(0),
        }
    }

    fn pop(&self) -> Option<Segment> {
        let segment = self.ready.lock().expect("taking a segment does not panic").pop_front();
        if segment.is_some() {
            self.wake();
        }
        segment
    }

    fn wake(&self) {
        self.state.lock().expect("prepare control does not panic").wanted = true;
        self.work.notify_one();
    }

    /// The next segment: the one that is ready, else one made now, in the worst case of the reserve.
    pub(super) fn take(&self, shared: &Shared, room: u64) -> io::Result<Segment> {
        if let Some(segment) = self.pop() {
            return Ok(segment);
        }
        let mut maker = self.maker.lock().expect("making a segment does not panic");
        if let Some(segment) = self.pop() {
            return Ok(segment);
        }
        self.inline.fetch_add(1, Ordering::Relaxed);
        let (segment, reserve_used) = make_or_reserve(&shared.dir, &shared.options, &mut maker, room, false)?;
        shared.full.fetch_or(reserve_used, Ordering::AcqRel);
        self.wake();
        Ok(segment)
    }

    /// Takes back segments that nobody needs any more.
    pub(super) fn recycle(&self, useless: impl Iterator<Item = (PathBuf, u64)>) {
        let mut state = self.state.lock().expect("prepare control does not panic");
        state.returned.extend(useless);
        state.wanted = true;
        self.work.notify_one();
    }

    pub(super) fn stop(&self) {
        self.state.lock().expect("prepare control does not panic").stop = true;
        self.work.notify_one();
    }

    pub(super) fn inline_count(&self) -> u64 {
        self.inline.load(Ordering::Relaxed)
    }

    /// Waits until there is something to do; nothing to stop.
    fn next(&self, retry: bool) -> Option<Vec<(PathBuf, u64)>> {
        let mut state = self.state.lock().expect("prepare control does not panic");
        loop {
            if state.stop {
                return None;
            }
            if std::mem::take(&mut state.wanted) {
                return Some(std::mem::take(&mut state.returned));
            }
            if retry {
                let (back, timeout) = self.work.wait_timeout(state, RETRY).expect("prepare control does not panic");
                state = back;
                state.wanted |= timeout.timed_out();
            } else {
                state = self.work.wait(state).expect("prepare control does not panic");
            }
        }
    }
}

/// Makes the segment with which a process begins, in the worst case of the reserve.
pub(super) fn first(dir: &Path, options: &Options, maker: &mut Maker) -> io::Result<Segment> {
    make_or_reserve(dir, options, maker, 0, true).map(|(segment, _)| segment)
}

/// The next segment, and whether it took the reserve.
fn make_or_reserve(
    dir: &Path,
    options: &Options,
    maker: &mut Maker,
    room: u64,
    settle: bool,
) -> io::Result<(Segment, bool)> {
    match make(dir, options, maker, room, settle) {
        Err(error) if sys::is_no_space(&error) => match maker.reserve.pop() {
            Some(path) => Ok((make_of(dir, options, maker, room, &Source::Reserve(path), settle)?, true)),
            None => Err(error),
        },
        other => Ok((other?, false)),
    }
}

/// Makes the next segment of a recycled or a new file.
fn make(dir: &Path, options: &Options, maker: &mut Maker, room: u64, settle: bool) -> io::Result<Segment> {
    let old = if room <= options.segment_bytes { maker.free.pop() } else { None };
    make_of(dir, options, maker, room, &old.map_or(Source::New, Source::Old), settle)
}

fn make_of(
    dir: &Path,
    options: &Options,
    maker: &mut Maker,
    room: u64,
    source: &Source,
    settle: bool,
) -> io::Result<Segment> {
    let bytes = options.segment_bytes.max(room.next_multiple_of(4096));
    let segment = Segment::prepare(dir, maker.next_number, bytes, options.journal, source, settle)?;
    maker.next_number += 1;
    Ok(segment)
}

/// The preparing thread.
pub(super) fn run(shared: &Shared, events: &dyn JournalEvents) {
    let control = &shared.prepare;
    let mut told_full = false;
    let mut short = false;
    while let Some(returned) = control.next(short) {
        let mut maker = control.maker.lock().expect("making a segment does not panic");
        sort_returned(shared, &mut maker, returned);
        let result = refill(shared, &mut maker);
        drop(maker);
        short = result.is_err();
        if let Err(error) = result
            && !sys::is_no_space(&error)
        {
            tracing::warn!(%error, "cannot prepare journal segments ahead");
        }
        shared.full.store(short, Ordering::Release);
        if told_full != short {
            told_full = short;
            tracing::info!(full = short, "space for the journal");
            events.space(short);
        }
    }
}

fn sort_returned(shared: &Shared, maker: &mut Maker, returned: Vec<(PathBuf, u64)>) {
    for (path, bytes) in returned {
        // While the reserve is not whole, useless segments make room rather than wait for use.
        let keep = bytes == shared.options.segment_bytes
            && maker.free.len() < FREE_SEGMENTS_MAX
            && maker.reserve.len() == RESERVE_SEGMENTS;
        // In order, oldest first: what a crash leaves in the journal has no gap.
        let free = free_path(&path);
        let result = if keep { held::rename(&path, &free) } else { held::remove(&path) };
        match result {
            Ok(()) if keep => maker.free.push(free),
            Ok(()) => {}
            Err(error) => tracing::warn!(%error, path = %path.shown(), "cannot put a useless journal segment aside"),
        }
    }
}

/// Name of a useless segment that waits for use again.
pub(super) fn free_path(segment: &Path) -> PathBuf {
    segment.with_extension("free")
}

/// Brings the reserve and the ready segments up to their numbers; the reserve first, it is what a full disk needs.
fn refill(shared: &Shared, maker: &mut Maker) -> io::Result<()> {
    let ready = || shared.prepare.ready.lock().expect("taking a segment does not panic");
    for index in 0..RESERVE_SEGMENTS {
        let path = reserve_path(&shared.dir, index);
        if !maker.reserve.contains(&path) {
            reserve(&path, shared.options.segment_bytes)?;
            maker.reserve.push(path);
        }
    }
    while ready().len() < READY_SEGMENTS {
        let segment = make(&shared.dir, &shared.options, maker, 0, true)?;
        ready().push_back(segment);
    }
    Ok(())
}

/// Name of a reserved file.
pub(super) fn reserve_path(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("reserve-{index}"))
}

fn reserve(path: &Path, bytes: u64) -> io::Result<()> {
    let result = held::create(path).and_then(|file| sys::allocate(&file, bytes));
    if result.is_err() {
        // The space counts: half a reserve must not stay behind. It may not exist at all.
        let _ = held::remove(path);
    }
    result
}
