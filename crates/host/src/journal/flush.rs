//! Group commit: one thread flushes, for everybody who waits.
//!
//! A flush first makes the data files durable, then the bytes of the journal that were appended before it
//! began. An error is final: the pages that failed are not flushed again, since the kernel has already
//! forgotten that they are dirty.

use super::{Journal, JournalError, JournalEvents, Shared, Unflushed};
use onpath_wire::ids::Lsn;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
struct State {
    /// When the oldest bytes were appended that no flush has covered.
    dirty_since: Option<Instant>,
    stop: bool,
}

/// How the flushing thread is told.
#[derive(Debug, Default)]
pub(super) struct Control {
    state: Mutex<State>,
    /// The flushing thread waits for something to do.
    work: Condvar,
    /// Others wait for the durable lsn.
    done: Condvar,
    requested: AtomicBool,
    flushes: AtomicU64,
}

impl Control {
    /// Bytes were appended; nothing was waiting for a flush before.
    pub(super) fn dirty(&self) {
        let mut state = self.state.lock().expect("flush control does not panic");
        if state.dirty_since.is_none() {
            state.dirty_since = Some(Instant::now());
            self.work.notify_one();
        }
    }

    /// Somebody waits for a flush.
    pub(super) fn request(&self) {
        if !self.requested.swap(true, Ordering::AcqRel) {
            let _state = self.state.lock().expect("flush control does not panic");
            self.work.notify_one();
        }
    }

    pub(super) fn stop(&self) {
        self.state.lock().expect("flush control does not panic").stop = true;
        self.work.notify_all();
        self.done.notify_all();
    }

    pub(super) fn count(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Waits until `lsn` is durable or never will be.
    pub(super) fn wait(&self, shared: &Shared, lsn: Lsn) -> Result<(), JournalError> {
        let mut state = self.state.lock().expect("flush control does not panic");
        loop {
            if shared.durable.load(Ordering::Acquire) >= lsn.0 {
                return Ok(());
            }
            shared.check()?;
            if state.stop {
                return Err(JournalError::Stopped("it was closed".into()));
            }
            state = self.done.wait(state).expect("flush control does not panic");
        }
    }

    /// Waits until a flush is due; false to stop.
    fn next(&self, interval: Duration) -> bool {
        let mut state = self.state.lock().expect("flush control does not panic");
        loop {
            if state.stop {
                return false;
            }
            if self.requested.swap(false, Ordering::AcqRel) {
                state.dirty_since = None;
                return true;
            }
            let Some(since) = state.dirty_since else {
                state = self.work.wait(state).expect("flush control does not panic");
                continue;
            };
            match interval.checked_sub(since.elapsed()) {
                Some(left) if !left.is_zero() => {
                    state = self.work.wait_timeout(state, left).expect("flush control does not panic").0;
                }
                _ => {
                    state.dirty_since = None;
                    return true;
                }
            }
        }
    }
}

/// The flushing thread.
pub(super) fn run(shared: &Shared, events: &dyn JournalEvents) {
    let interval = Duration::from_millis(shared.options.commit.interval_ms());
    while shared.flush.next(interval) {
        if let Err(error) = flush_once(shared, events) {
            shared.fail(format!("a flush failed: {error}"));
        }
        if let Some(why) = shared.failed.get() {
            events.failed(why);
            drop(shared.flush.state.lock().expect("flush control does not panic"));
            shared.flush.done.notify_all();
            return;
        }
    }
}

fn flush_once(shared: &Shared, events: &dyn JournalEvents) -> io::Result<()> {
    let (upto, ranges) = {
        let mut append = shared.append.lock().expect("appending does not panic");
        let mut ranges = std::mem::take(&mut append.unflushed);
        let (from, to) = (append.flushed_at, append.at);
        if from < to {
            ranges.push(Unflushed { segment: append.segment.clone(), from, to });
            append.flushed_at = to;
        }
        (Lsn(append.next.0 - 1), ranges)
    };
    if ranges.is_empty() {
        return Ok(());
    }
    events.flush_data()?;
    for Unflushed { segment, from, to } in &ranges {
        segment.flush(*from, *to)?;
    }
    shared.flush.flushes.fetch_add(1, Ordering::Relaxed);
    shared.durable.store(upto.0, Ordering::Release);
    drop(shared.flush.state.lock().expect("flush control does not panic"));
    shared.flush.done.notify_all();
    events.durable(upto);
    Ok(())
}

impl Journal {
    /// Waits until everything up to `lsn` is durable, asking for a flush if need be.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<(), JournalError> {
        if self.durable() < lsn {
            self.flush_soon();
        }
        self.shared.flush.wait(&self.shared, lsn)
    }
}
