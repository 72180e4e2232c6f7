//! Deadlines of all roles: one thread sleeps until the earliest.
//!
//! A thread that ran a role wakes it only when the new deadline is earlier than the one it sleeps for, so far
//! deadlines (retries, leases) cost the running thread one comparison.

use super::cell::NEVER;
use super::{Node, Work};
use crate::sys;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Default)]
struct State {
    poked: bool,
    stop: bool,
}

/// How the timer's thread is told.
pub(super) struct Timer {
    /// Until when the thread sleeps, monotonic microseconds; 0 while it does not sleep.
    sleeps_until: AtomicU64,
    state: Mutex<State>,
    wake: Condvar,
}

impl Default for Timer {
    fn default() -> Self {
        Timer { sleeps_until: AtomicU64::new(0), state: Mutex::default(), wake: Condvar::new() }
    }
}

impl Timer {
    /// A role has a deadline, which it has published before this call.
    pub(super) fn earlier(&self, deadline: u64) {
        if deadline < self.sleeps_until.load(Ordering::SeqCst) {
            self.state.lock().expect("the timer does not panic").poked = true;
            self.wake.notify_one();
        }
    }

    pub(super) fn stop(&self) {
        self.state.lock().expect("the timer does not panic").stop = true;
        self.wake.notify_one();
    }

    /// Sleeps until `deadline` or until woken; false to stop.
    fn sleep(&self, deadline: u64) -> bool {
        let mut state = self.state.lock().expect("the timer does not panic");
        while !state.poked && !state.stop {
            let now = sys::now().mono_us;
            if deadline <= now {
                break;
            }
            state = if deadline == NEVER {
                self.wake.wait(state).expect("the timer does not panic")
            } else {
                let left = Duration::from_micros(deadline - now);
                self.wake.wait_timeout(state, left).expect("the timer does not panic").0
            };
        }
        state.poked = false;
        !state.stop
    }
}

pub(super) fn start(node: &Arc<Node>) -> JoinHandle<()> {
    let weak = Arc::downgrade(node);
    let named = std::thread::Builder::new().name("timer".into());
    named.spawn(move || run(&weak)).expect("a process can have a few threads")
}

fn run(node: &Weak<Node>) {
    let Some(node) = node.upgrade() else { return };
    let earliest = || node.cells.iter().map(|cell| cell.deadline()).min().unwrap_or(NEVER);
    loop {
        // A deadline published before the sleep is announced is seen by the second look, a later one wakes.
        let mut until = earliest();
        node.timer.sleeps_until.store(until, Ordering::SeqCst);
        until = until.min(earliest());
        if !node.timer.sleep(until) {
            return;
        }
        node.timer.sleeps_until.store(0, Ordering::SeqCst);
        let now = sys::now().mono_us;
        let mut work = Work::default();
        for (index, cell) in node.cells.iter().enumerate() {
            if cell.deadline() <= now {
                cell.tick();
                work.add(index);
            }
        }
        node.execute(&mut work);
    }
}
