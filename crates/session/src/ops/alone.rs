//! Being alone in the file system: the mount may cache, until another session wants to join and all of it is handed back.
//!
//! A time of being alone has a name, and names grow. What a session has handed back, or promised to, it does not take again: an
//! answer that comes late is not believed. It counts its time from when it asked, so that the coordinator never thinks it
//! shorter. A request that is given up may be executed at any later time, unasked: after that a session is never alone again.

use crate::op::Op;
use crate::ops::exact;
use crate::session::SessionOut;
use crate::state::{Job, Phase, State};
use onpath_kernel::Core;
use onpath_wire::ids::AloneId;
use onpath_wire::limits::ALONE_MS;
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;

/// What a session knows of being alone.
#[derive(Debug, Default)]
pub(crate) struct Alone {
    /// The present time; 0 is none.
    id: AloneId,
    /// Until when it counts unless it is said anew, monotonic microseconds.
    until_us: u64,
    /// No name up to this counts any more.
    over: AloneId,
    /// Something may be cached.
    cached: bool,
    /// The mount is forgetting what it has cached, to hand back the time up to this one.
    returning: Option<AloneId>,
    /// Nobody knows what becomes of a request.
    uncertain: bool,
}

/// The request by which the lease is renewed.
pub(crate) fn renewal(core: &Core<State>) -> Request {
    let wants = core.state.config.caches && !core.state.alone.uncertain;
    if wants { Request::RenewAlone } else { Request::Renew }
}

/// The session may be alone now: it asks before it would renew its lease.
pub(crate) fn ask(core: &mut Core<State>) {
    let wants = matches!(renewal(core), Request::RenewAlone);
    if wants && core.state.phase == Phase::Joined && core.state.alone.id == AloneId::default() {
        core.start(Job::AskAlone);
    }
}

/// Asks once; where it is not answered, the next renewal asks.
pub(crate) async fn ask_now(op: &mut Op) {
    let asked_us = op.with(|core| core.now.mono_us);
    if let Ok(Reply::Renewed { alone }) = op.ask(Request::RenewAlone).await {
        op.with(|core| renewed(core, alone, asked_us));
    }
}

/// Whether no other session may act now.
pub(crate) fn is_alone(core: &Core<State>) -> bool {
    let alone = &core.state.alone;
    alone.id != AloneId::default() && core.now.mono_us < alone.until_us
}

/// The coordinator has answered what was asked at `asked_us`.
pub(crate) fn renewed(core: &mut Core<State>, id: AloneId, asked_us: u64) {
    let alone = &mut core.state.alone;
    if id == AloneId::default() {
        let all = alone.id;
        return give_back(core, all);
    }
    if id <= alone.over || alone.uncertain || core.state.phase != Phase::Joined {
        return;
    }
    let until_us = asked_us + ALONE_MS * 1_000;
    let goes_on = alone.id == id && core.now.mono_us < alone.until_us;
    (alone.id, alone.until_us, alone.cached) = (id, until_us, true);
    if !goes_on {
        exact::forget(core);
    }
    core.emit(SessionOut::Alone { alone: id, until_us });
}

/// The coordinator wants this time back, and all before.
pub(crate) fn give_back(core: &mut Core<State>, upto: AloneId) {
    let alone = &mut core.state.alone;
    if upto == AloneId::default() || alone.returning.is_some_and(|returning| returning >= upto) {
        return;
    }
    alone.over = alone.over.max(upto);
    if alone.id <= alone.over {
        alone.id = AloneId::default();
    }
    let under_way = alone.returning.replace(upto).is_some();
    if under_way {
        return;
    }
    if alone.cached {
        let open = core.state.opens.open();
        let upto = core.state.alone.over;
        core.emit(SessionOut::Share { upto, open });
    } else {
        shared(core);
    }
}

/// The mount uses nothing any more that it has cached.
pub(crate) fn shared(core: &mut Core<State>) {
    core.state.alone.cached = false;
    if let Some(upto) = core.state.alone.returning.take() {
        core.start(Job::HandBack(upto));
    }
}

/// Tells the coordinator.
pub(crate) async fn hand_back(op: &mut Op, alone: AloneId) {
    // Without an answer the session is over.
    let _ = op.ask(Request::HandBack { alone }).await;
}

/// A request is given up that may be executed all the same.
pub(crate) fn doubt(core: &mut Core<State>) {
    core.state.alone.uncertain = true;
    let all = core.state.alone.id;
    give_back(core, all);
}

/// The session leaves, its mount is gone: what is to be handed back.
pub(crate) fn leave(core: &mut Core<State>) -> Option<AloneId> {
    let alone = &mut core.state.alone;
    let id = alone.id.max(alone.returning.unwrap_or_default());
    (alone.id, alone.returning) = (AloneId::default(), None);
    (id != AloneId::default()).then_some(id)
}

/// The session was declared dead: it is not alone any more, and has nothing to hand back.
pub(crate) fn over(core: &mut Core<State>) {
    let before = std::mem::take(&mut core.state.alone);
    let upto = before.over.max(before.id);
    core.state.alone = Alone { over: upto, uncertain: before.uncertain, ..Alone::default() };
}

/// A server has restarted. After a power loss it may not know any more what it has answered.
pub(crate) fn restarted(core: &mut Core<State>) {
    exact::restarted(core);
    if core.state.alone.cached {
        let open = core.state.opens.open();
        core.emit(SessionOut::Forget { open });
    }
}
