//! How operations ended.

use super::Req;
use crate::Core;
use onpath_wire::errno::Errno;
use onpath_wire::reply::Reply;
use onpath_wire::report::Outcome;
use onpath_wire::request::describe::Counted;

/// An operation that began then has ended.
pub(crate) fn count(core: &mut Core, kind: Counted, since_us: u64, outcome: Outcome) {
    let took_us = core.now.mono_us.saturating_sub(since_us);
    core.state.meter.count(kind as usize, took_us, outcome);
}

/// A request has got this reply. One that is asked again for it is counted then.
pub(super) fn count_reply(core: &mut Core, req: &Req, reply: &Reply) {
    let outcome = match reply {
        Reply::Failed { errno } => Outcome::of(&Err::<(), Errno>(*errno)),
        Reply::NeedCaller { .. } | Reply::Busy | Reply::NewTerm { .. } | Reply::Stale { .. } => return,
        _ => Outcome::Ok,
    };
    count(core, req.kind, req.since_us, outcome);
}
