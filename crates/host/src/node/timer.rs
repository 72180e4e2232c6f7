//! Deadlines of all roles: one thread sleeps until the earliest.
//!
//! A thread that ran a role wakes it only when the new deadline is earlier than the one it sleeps for. Under load a deadline comes
//! and goes with every call that waits for an answer, so after it was woken once the thread sleeps for short times for a while, and nobody
//! has to wake it for a deadline beyond: a wake-up costs a system call, and an idle CPU tens of microseconds.

use super::cell::NEVER;
use super::{Node, Work};
use crate::sys;
use onpath_wire::limits::CALL_RETRY_US;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest sleep under load, microseconds: less than what calls wait for an answer ([`onpath_wire::limits::CALL_RETRY_US`]).
const SHORT_US: u64 = CALL_RETRY_US / 2;
/// How long after it was woken the thread takes it that there is load, microseconds.
const LOAD_US: u64 = 1_000_000;

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
    /// Until when there is load, monotonic microseconds.
    load_until: AtomicU64,
    /// How often it was woken.
    woken: AtomicU64,
}

impl Default for Timer {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        let (state, wake) = (Mutex::default(), Condvar::new());
        Timer { sleeps_until: zero(), state, wake, load_until: zero(), woken: zero() }
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

    /// How often the thread was woken before its time.
    pub(super) fn woken(&self) -> u64 {
        self.woken.load(Ordering::Relaxed)
    }

    /// Sleeps until `deadline` or until woken; false to stop.
    fn sleep(&self, deadline: u64) -> bool {
        let mut state = self.state.lock().expect("the timer does not panic");
        while !state.poked && !state.stop {
            let now = sys::mono_us();
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
        if std::mem::take(&mut state.poked) {
            self.woken.fetch_add(1, Ordering::Relaxed);
            self.load_until.store(sys::mono_us() + LOAD_US, Ordering::Relaxed);
        }
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
    let earliest = || {
        let now_us = sys::mono_us();
        let short = if now_us < node.timer.load_until.load(Ordering::Relaxed) { now_us + SHORT_US } else { NEVER };
        node.cells.iter().map(|cell| cell.deadline()).min().unwrap_or(NEVER).min(short)
    };
    loop {
        // A deadline published before the sleep is announced is seen by the second look, a later one wakes.
        let mut until = earliest();
        node.timer.sleeps_until.store(until, Ordering::SeqCst);
        until = until.min(earliest());
        if !node.timer.sleep(until) {
            return;
        }
        node.timer.sleeps_until.store(0, Ordering::SeqCst);
        let now = sys::mono_us();
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
