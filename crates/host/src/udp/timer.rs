//! When peers have something to send again, and when they are greeted.

use super::endpoint::Shared;
use super::greet;
use crate::sys;
use onpath_transport::EndpointId;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// How often greetings are looked after, microseconds.
const GREET_LOOK_US: u64 = 20_000;

#[derive(Default)]
struct Due {
    at: BTreeSet<(u64, EndpointId)>,
    stopped: bool,
    /// Until when the thread sleeps, microseconds.
    asleep_us: u64,
}

/// Deadlines of peers.
#[derive(Default)]
pub(super) struct Timer {
    due: Mutex<Due>,
    wake: Condvar,
}

impl Timer {
    /// Looks after an endpoint then.
    pub(super) fn at(&self, at_us: u64, endpoint: EndpointId) {
        let mut due = self.due.lock().expect("the timer does not panic");
        due.at.insert((at_us, endpoint));
        if at_us < due.asleep_us {
            self.wake.notify_one();
        }
    }

    pub(super) fn stop(&self) {
        self.due.lock().expect("the timer does not panic").stopped = true;
        self.wake.notify_one();
    }

    /// Waits for the next deadlines; those that have passed, or nothing when it is over.
    fn wait(&self, until_us: u64) -> Option<Vec<EndpointId>> {
        let mut due = self.due.lock().expect("the timer does not panic");
        loop {
            if due.stopped {
                return None;
            }
            let now_us = sys::mono_us();
            let first = due.at.first().map_or(u64::MAX, |(at_us, _)| *at_us).min(until_us);
            if first <= now_us {
                let rest = due.at.split_off(&(now_us + 1, EndpointId(0)));
                let passed = std::mem::replace(&mut due.at, rest);
                return Some(passed.into_iter().map(|(_, endpoint)| endpoint).collect());
            }
            due.asleep_us = first;
            let pause = Duration::from_micros(first - now_us);
            due = self.wake.wait_timeout(due, pause).expect("the timer does not panic").0;
            due.asleep_us = 0;
        }
    }
}

/// The thread.
pub(super) fn run(shared: &Arc<Shared>) {
    let mut greet_us = 0;
    while let Some(passed) = shared.timer.wait(greet_us) {
        if shared.stopped.load(Ordering::Acquire) {
            return;
        }
        let now_us = sys::mono_us();
        for endpoint in passed {
            if let Some(other) = shared.peers.get(endpoint) {
                other.lock().armed_us = 0;
                shared.transmit(&other, now_us);
            }
        }
        if greet_us <= now_us {
            greet::greet_all(shared, now_us);
            greet_us = now_us + GREET_LOOK_US;
        }
    }
}
