//! Interrupts: the kernel tells of one once a request, and also of what is no signal for its caller ([`has_signal`]). Such a request goes
//! on, and its caller is looked at from time to time, because a signal that comes later is not told of any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use onpath_session::fs::{Caller, FsOp, FsRequest};

use super::caller::has_signal;
use super::{Answers, SessionDriver};

/// Marks the number of an interrupt, as the kernel does; requests have even numbers.
pub(super) const INTERRUPT_BIT: u64 = 1;
/// How often the callers are looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Requests whose callers are looked at; what is interrupted beyond that counts as signalled.
const WATCHED_MAX: usize = 256;

/// Where interrupts go, and the requests that go on in spite of one.
pub(super) struct Interrupts<D> {
    driver: Arc<D>,
    answers: Arc<Answers>,
    /// As long as there are any, a thread looks at their callers.
    watched: Arc<Mutex<Vec<u64>>>,
}

impl<D> Clone for Interrupts<D> {
    fn clone(&self) -> Self {
        let Self { driver, answers, watched } = self;
        Self { driver: Arc::clone(driver), answers: Arc::clone(answers), watched: Arc::clone(watched) }
    }
}

impl<D: SessionDriver + 'static> Interrupts<D> {
    pub(super) fn new(driver: Arc<D>, answers: Arc<Answers>) -> Self {
        Self { driver, answers, watched: Arc::default() }
    }

    /// Also of requests that are answered, or that another reader has yet to hand in: the session sorts that out.
    pub(super) fn interrupt(&self, unique: u64) {
        let mut watched = self.watched();
        if self.is_signalled(unique) != Some(false)
            || watched.len() == WATCHED_MAX
            || watched.is_empty() && !self.look()
        {
            drop(watched);
            return self.tell(unique);
        }
        watched.push(unique);
    }

    /// Whether the caller of a request that has no answer yet may have a signal.
    fn is_signalled(&self, unique: u64) -> Option<bool> {
        self.answers.caller(unique).map(|pid| has_signal(pid) != Some(false))
    }

    fn watched(&self) -> MutexGuard<'_, Vec<u64>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, unique: u64) {
        let op = FsOp::Interrupt { unique };
        self.driver.submit(FsRequest { unique: unique | INTERRUPT_BIT, caller: Caller::default(), op, by_ways: None });
    }

    /// Starts the thread, which ends when nothing is watched any more; whether it could be started.
    fn look(&self) -> bool {
        let these = self.clone();
        let look = move || {
            loop {
                thread::sleep(LOOK_AGAIN);
                let mut signalled = Vec::new();
                let mut watched = these.watched();
                watched.retain(|&unique| {
                    let is = these.is_signalled(unique);
                    signalled.extend((is == Some(true)).then_some(unique));
                    is == Some(false)
                });
                let last = watched.is_empty();
                drop(watched);
                signalled.into_iter().for_each(|unique| these.tell(unique));
                if last {
                    return;
                }
            }
        };
        thread::Builder::new().name("interrupts".into()).spawn(look).is_ok()
    }
}
