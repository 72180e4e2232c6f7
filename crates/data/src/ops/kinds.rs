//! How operations ended.

use crate::state::{Caller, Node};
use onpath_wire::Errno;
use onpath_wire::data::DataReply;
use onpath_wire::report::Outcome;

/// What was asked for has ended so.
pub(crate) fn count(core: &mut Node, from: Caller, outcome: Outcome) {
    let took_us = core.now.mono_us.saturating_sub(from.since_us);
    core.state.meter.count(from.kind as usize, took_us, outcome);
}

/// It has got this answer. What is asked again for it is counted then.
pub(crate) fn count_answer(core: &mut Node, from: Caller, reply: &DataReply) {
    match reply {
        DataReply::Failed { errno: Errno::EAGAIN }
        | DataReply::Stale
        | DataReply::SourceStale
        | DataReply::Refused { .. }
        | DataReply::NewTerm { .. } => {}
        DataReply::Failed { errno } => count(core, from, Outcome::of(&Err::<(), Errno>(*errno))),
        _ => count(core, from, Outcome::Ok),
    }
}
