//! What something was since it was known to be on stable storage, and what losses of power may leave of that.

use crate::common::check::errno_name;
use crate::common::sys;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What was answered so long before a time up to which the disk has everything is there after a power loss: hosts have told each other of it.
pub(crate) const KEPT: Duration = Duration::from_millis(2_100);

/// When each power loss began; it is told as soon as the host's process is dead, so that nobody sees any more what the host forgets.
#[derive(Default)]
pub(crate) struct Losses {
    begun: Mutex<Vec<Instant>>,
    /// Syncs that have said that something is lost.
    pub(crate) said: AtomicUsize,
}

impl Losses {
    /// One has begun then.
    pub(crate) fn tell(&self, begin: Instant) {
        self.begun.lock().expect("the losses").push(begin);
    }

    pub(crate) fn count(&self) -> usize {
        self.begun.lock().expect("the losses").len()
    }

    /// Whether fsync says that all is on stable storage that was changed by this mount. It may say that it is not where power was lost since
    /// the last one by this user began; `begun`: how often it had been then.
    pub(crate) fn fsync(&self, fd: impl AsFd, begun: &mut usize) -> bool {
        let before = std::mem::replace(begun, self.count());
        match sys::fsync(fd) {
            Ok(()) => true,
            Err(libc::EIO) if self.count() > before => {
                self.said.fetch_add(1, Relaxed);
                false
            }
            Err(errno) => panic!("fsync after {before} losses: {}", errno_name(errno)),
        }
    }

    pub(crate) fn last(&self) -> Instant {
        *self.begun.lock().expect("the losses").last().expect("power was lost")
    }
}

/// What something was since it was known to be on stable storage, which the first state is, and when each was answered.
#[derive(Clone, Debug)]
pub(crate) struct Past<T> {
    pub(crate) states: Vec<(T, Instant)>,
    /// What the last power loss has taken, and may come back: a data node that lives on tells the home of a write again.
    pub(crate) late: Vec<T>,
}

impl<T: PartialEq + Clone + std::fmt::Debug> Past<T> {
    pub(crate) fn new(value: T) -> Past<T> {
        Past { states: vec![(value, Instant::now())], late: vec![] }
    }

    pub(crate) fn now(&self) -> &T {
        &self.states[self.states.len() - 1].0
    }

    /// It is so now, whatever was before.
    pub(crate) fn becomes(&mut self, value: T) {
        self.states.push((value, Instant::now()));
        self.late.clear();
    }

    /// A change that `next` describes was answered; if power was lost meanwhile, whatever it was made to.
    pub(crate) fn changes(&mut self, lost: bool, next: impl Fn(&T) -> Option<T>) {
        let from = if lost { 0 } else { self.states.len() - 1 };
        let new: Vec<T> = self.states[from..].iter().filter_map(|(value, _)| next(value)).collect();
        self.states.extend(new.into_iter().map(|value| (value, Instant::now())));
        self.late = self.late.iter().filter_map(next).collect();
    }

    pub(crate) fn synced(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }

    /// What a power loss that began then may leave.
    pub(crate) fn possible(&self, begin: Instant) -> &[(T, Instant)] {
        let kept = self.states.iter().rposition(|(_, answered)| *answered + KEPT <= begin);
        &self.states[kept.unwrap_or(0)..]
    }

    /// It is so after a power loss that began then; how many changes that has taken, for good or perhaps not.
    pub(crate) fn left(&mut self, value: &T, begin: Instant, for_good: bool) -> Result<usize, String> {
        let possible = self.possible(begin);
        let Some(at) = possible.iter().rposition(|(state, _)| state == value) else {
            if self.late.contains(value) {
                self.becomes(value.clone());
                return Ok(0);
            }
            let ages = possible.iter().map(|(state, answered)| match begin.checked_duration_since(*answered) {
                Some(age) => format!("{state:?} ({age:.3?} before)"),
                None => format!("{state:?} ({:.3?} after)", *answered - begin),
            });
            return Err(format!("{value:?} instead of one of {}", ages.collect::<Vec<_>>().join(", ")));
        };
        let lost = possible.len() - 1 - at;
        let gone = self.states.split_off(self.states.len() - lost);
        if !for_good {
            self.late.extend(gone.into_iter().map(|(state, _)| state));
        }
        Ok(lost)
    }
}
