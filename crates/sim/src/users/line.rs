//! One session that makes one call after another where power may be lost: what is under way, and whether power was lost meanwhile.

use crate::check::Excuse;
use crate::model::Caller;
use crate::workload::PRIVATE;
use crate::world::{Finished, World};
use onpath_session::fs::{FsOp, FsResult};
use onpath_wire::Errno;
use onpath_wire::name::Name;
use std::fmt::Debug;

/// A call as its user remembers it.
pub(super) trait Call: Debug {
    /// Whether it is one of fsync.
    fn is_sync(&self) -> bool;
}

/// What may take something from a session, or let a sync say so.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Crashes {
    losses: u64,
    doubts: u64,
}

impl Crashes {
    fn of(world: &World) -> Crashes {
        Crashes { losses: world.counters.power_losses, doubts: world.doubts }
    }
}

/// The calls of a session.
pub(super) struct Line<C> {
    session: usize,
    /// Of what the session works on, in the root directory.
    pub(super) name: Name,
    /// The call under way, and what had happened when it began.
    awaited: Option<(u64, Crashes, C)>,
    crashes: Crashes,
    settled: bool,
    closing: bool,
    done: bool,
}

/// An answer.
pub(super) struct Heard<C> {
    pub(super) unique: u64,
    pub(super) call: C,
    pub(super) result: FsResult,
    /// Power was lost since the answer before.
    pub(super) lost: bool,
    /// No power was lost since the call began.
    pub(super) sure: bool,
    /// Since the answer before a process has ended whose next start does not know whether power was lost: a sync may say so.
    pub(super) doubted: bool,
    /// None has since the call began.
    pub(super) undoubted: bool,
}

/// What comes after an answer.
pub(super) enum Then {
    /// The next call.
    Next,
    /// The last one, which shows what is there in the end.
    Last,
    Nothing,
}

impl<C: Call> Line<C> {
    /// A new session that works on a `what` of its own.
    pub(super) fn begin(world: &mut World, what: &str) -> Line<C> {
        let session = world.add_session(&[Caller::default()]);
        let name = Name::new(format!("{PRIVATE}s-{what}-{session}").as_bytes()).expect("a short name");
        Line {
            session,
            name,
            awaited: None,
            crashes: Crashes { losses: 0, doubts: 0 },
            settled: false,
            closing: false,
            done: false,
        }
    }

    pub(super) fn call(&mut self, world: &mut World, op: FsOp, call: C) {
        let unique = world.system_call(self.session, 0, op);
        let name = &self.name;
        world.narrate(|| format!("{name:?}: #{unique} is {call:?}"));
        self.awaited = Some((unique, Crashes::of(world), call));
    }

    /// What was answered to the call under way; nothing, and something is wrong, if it is the answer to another one.
    pub(super) fn hears(&mut self, world: &mut World, finished: Finished) -> Option<Heard<C>> {
        let Finished { unique, result, .. } = finished;
        let Some((_, then, call)) = self.awaited.take().filter(|(awaited, ..)| *awaited == unique) else {
            world.checker.violation(format!("{:?} answers what nobody asked", self.name));
            return None;
        };
        if call.is_sync() && matches!(result, Err(Errno::EIO)) {
            world.checker.excuse(Excuse::Unsynced);
        }
        let now = Crashes::of(world);
        let before = std::mem::replace(&mut self.crashes, now);
        let (lost, doubted) = (before.losses != now.losses, before.doubts != now.doubts);
        let (sure, undoubted) = (then.losses == now.losses, then.doubts == now.doubts);
        Some(Heard { unique, call, result, lost, sure, doubted, undoubted })
    }

    /// The answer to this call is wrong.
    pub(super) fn is_wrong(&self, world: &mut World, unique: u64, why: &str) {
        world.checker.violation(format!("{:?} #{unique}: {why}", self.name));
    }

    /// A sync was answered.
    pub(super) fn settle(&mut self) {
        self.settled = true;
    }

    /// What comes now; the last call only if there is something to look at.
    pub(super) fn then(&mut self, is_there: bool) -> Then {
        match self.closing {
            false => Then::Next,
            true if is_there && !std::mem::replace(&mut self.done, true) => Then::Last,
            true => Then::Nothing,
        }
    }

    pub(super) fn has(&self, session: usize) -> bool {
        self.session == session
    }

    pub(super) fn close(&mut self) {
        self.closing = true;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.awaited.is_none()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.settled
    }
}
