//! Sessions that call in a situation, and judge what they see.

use super::files::Files;
use super::paths::Walkers;
use crate::world::{Finished, World};

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
    /// The sessions that have something to call.
    pub(super) fn sessions(&self) -> Vec<usize> {
        match self {
            Callers::None => vec![],
            Callers::Files(files) => files.sessions().collect(),
            Callers::Walkers(walkers) => walkers.sessions().collect(),
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

    /// A session makes its next call; whether it makes another one soon.
    pub(super) fn call_next(&mut self, world: &mut World, session: usize) -> bool {
        match self {
            Callers::None => false,
            Callers::Files(files) => files.call_next(world, session),
            Callers::Walkers(walkers) => {
                walkers.call_next(world, session);
                false
            }
        }
    }

    /// A call is answered; the session that made it, if it has another one to make.
    pub(super) fn answered(&mut self, world: &mut World, finished: Finished) -> Option<usize> {
        match self {
            Callers::None => None,
            Callers::Files(files) => files.answered(world, finished),
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
