//! Threads for effects that take long (an fsync of a chunk file), so that nobody waits who need not.

use super::Node;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

/// Long effects that run at the same time.
const THREADS: usize = 2;

/// Something long.
pub(super) type Job = Box<dyn FnOnce(&Node) + Send>;

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    stop: bool,
}

/// The queue of long effects. Its length is that of operations in progress at roles, which is bounded there.
#[derive(Default)]
pub(super) struct Background {
    state: Mutex<State>,
    work: Condvar,
}

impl Background {
    pub(super) fn add(&self, job: Job) {
        self.state.lock().expect("the queue does not panic").jobs.push_back(job);
        self.work.notify_one();
    }

    pub(super) fn stop(&self) {
        self.state.lock().expect("the queue does not panic").stop = true;
        self.work.notify_all();
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock().expect("the queue does not panic");
        loop {
            if state.stop {
                return None;
            }
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            state = self.work.wait(state).expect("the queue does not panic");
        }
    }
}

pub(super) fn start(node: &Arc<Node>) -> impl Iterator<Item = JoinHandle<()>> {
    (0..THREADS).map(|i| {
        let node = node.clone();
        let named = std::thread::Builder::new().name(format!("slow-{i}"));
        let run = move || {
            while let Some(job) = node.background.next() {
                job(&node);
            }
        };
        named.spawn(run).expect("a process can have a few threads")
    })
}
