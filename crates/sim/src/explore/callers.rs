//! Sessions that call in a situation, and judge what they see.

use super::files::Files;
use super::paths::Walkers;
use crate::world::{Finished, Thread, World};

/// Virtual time in which a call is answered when nothing goes wrong, ns.
const ANSWERED_NS: u64 = 60_000_000_000;

/// Who calls.
pub(super) enum Callers {
    /// Only clients ask.
    None,
    /// Sessions that have a file open.
    Files(Box<Files>),
    /// Sessions that follow paths, and change what is on them.
    Walkers(Box<Walkers>),
}

impl Callers {
    /// The threads that have something to call.
    pub(super) fn threads(&self) -> Vec<Thread> {
        match self {
            Callers::None => vec![],
            Callers::Files(files) => files.sessions().map(only_thread).collect(),
            Callers::Walkers(walkers) => walkers.threads().collect(),
        }
    }

    /// Whether every call is made and answered.
    pub(super) fn is_answered(&self) -> bool {
        match self {
            Callers::None => true,
            Callers::Files(files) => files.is_answered(),
            Callers::Walkers(walkers) => walkers.is_answered(),
        }
    }

    /// A hash of which calls were made and answered, in which order.
    pub(super) fn digest(&self) -> u64 {
        match self {
            Callers::None => 0,
            Callers::Files(files) => files.digest(),
            Callers::Walkers(walkers) => walkers.digest(),
        }
    }

    /// A thread makes its next call; whether it makes another one soon.
    pub(super) fn call_next(&mut self, world: &mut World, thread: Thread) -> bool {
        match self {
            Callers::None => false,
            Callers::Files(files) => files.call_next(world, thread.session),
            Callers::Walkers(walkers) => {
                walkers.call_next(world, thread);
                false
            }
        }
    }

    /// A call is answered; the thread that made it, if it has another one to make.
    pub(super) fn answered(&mut self, world: &mut World, finished: Finished) -> Option<Thread> {
        match self {
            Callers::None => None,
            Callers::Files(files) => files.answered(world, finished).map(only_thread),
            Callers::Walkers(walkers) => walkers.answered(world, finished),
        }
    }

    /// Everything is called and answered in peace; what is wrong with the answers.
    pub(super) fn end(self, world: &mut World) -> Vec<String> {
        match self {
            Callers::None => vec![],
            Callers::Files(files) => files.end(world),
            Callers::Walkers(walkers) => walkers.end(world),
        }
    }

    /// Whether they follow paths: in the usual course they have to be answered.
    pub(super) fn walk(&self) -> bool {
        matches!(self, Callers::Walkers(_))
    }

    /// Whether a power loss may take back what was acknowledged, where nobody would know of it.
    pub(super) fn judge_what_was_acknowledged(&self) -> bool {
        !matches!(self, Callers::None)
    }
}

/// Sessions with files have one thread each.
fn only_thread(session: usize) -> Thread {
    Thread { session, number: 0 }
}

/// The next answer in peace, if one comes.
pub(super) fn next_finished(world: &mut World) -> Option<Finished> {
    let until_ns = world.now_ns() + ANSWERED_NS;
    loop {
        if let Some(finished) = world.finished() {
            return Some(finished);
        }
        if world.step(until_ns).is_none() && world.now_ns() >= until_ns {
            return None;
        }
    }
}
