//! The registry of sessions: attach, renew, detach, death (design.md, "Sessions").

use crate::coord::alone;
use crate::ops::{Req, Step, Stop, begin, opens};
use crate::shard::Job;
use crate::state::commit::{Effects, commit, commit_own};
use crate::state::keys;
use crate::state::replies::Seen;
use crate::{Core, Cx};
use onpath_wire::disk::record::{Answer, Effect, Member, MemberKind};
use onpath_wire::disk::reply::Answered;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{NodeId, RequestSeq, SessionId};
use onpath_wire::limits::SESSION_LEASE_MS;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;

/// A session joins, or comes back after a restart of this shard. Who joins waits until nobody else is alone ([`alone`]).
pub(crate) async fn attach(cx: &Cx, req: &Req, again: SessionId) -> Step {
    if cx.with(|core| is_new(core, req, again))? {
        alone::give_way(cx, req.session).await?;
    }
    cx.with(|core| join(core, cx, req, again))
}

/// Whether a session would be one more.
fn is_new(core: &Core, req: &Req, again: SessionId) -> Result<bool, Stop> {
    only_here(core)?;
    let unseen = matches!(core.state.replies.seen(req.session, req.seq), Seen::New);
    let buried = core.state.buried.may_contain(req.session);
    Ok(unseen && !core.state.coordinator.lives(req.session) && again.0 == 0 && !buried)
}

fn join(core: &mut Core, cx: &Cx, req: &Req, again: SessionId) -> Step {
    begin(core, req)?;
    let now_us = core.now.mono_us;
    let session = req.session;
    let known = core.state.coordinator.lives(session);
    let attached = Answered::Attached { session, lease_ms: SESSION_LEASE_MS };
    alone::joined(core, session);
    if known {
        core.state.coordinator.renew(session, now_us);
        return Ok(attached.into());
    }
    if again.0 != 0 || core.state.buried.may_contain(session) {
        return Err(Errno::ESTALE.into()); // it was declared dead: its locks and opens are gone
    }
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    let member = Member { incarnation: stamp, kind: MemberKind::Mount, key: None, alive: true };
    let effects: Effects = vec![Effect::Member { node: NodeId::session(session), member }];
    let reply = commit(core, cx.op(), req, stamp, Answer::Literal { reply: attached }, effects);
    core.state.coordinator.renew(session, now_us);
    Ok(reply)
}

/// A session extends its lease.
pub(crate) fn renew(cx: &Cx, req: &Req) -> Step {
    cx.with(|core| {
        only_here(core)?;
        if !core.state.coordinator.lives(req.session) {
            return Err(Errno::ESTALE.into());
        }
        let now_us = core.now.mono_us;
        core.state.coordinator.renew(req.session, now_us);
        Ok(Reply::Done)
    })
}

/// A session leaves, or its host says that it is dead, which has no numbers of its own.
pub(crate) fn detach(cx: &Cx, req: &Req) -> Step {
    cx.with(|core| {
        only_here(core)?;
        let left = req.seq != RequestSeq(u64::MAX) || !core.state.coordinator.lives(req.session);
        is_over(core, req.session, left);
        if core.state.coordinator.lives(req.session) {
            core.start(Job::Bury(req.session));
        }
        Ok(Reply::Done)
    })
}

/// A session has left, or is dead: it is not waited for any more.
fn is_over(core: &mut Core, session: SessionId, left: bool) {
    let now_us = core.now.mono_us;
    core.state.coordinator.alone.over(session, left, now_us);
    core.wake(keys::ALONE);
}

pub(super) fn only_here(core: &Core) -> Result<(), Stop> {
    if core.state.config.map.coordinator() == core.state.me() { Ok(()) } else { Err(Errno::EPROTO.into()) }
}

/// Declares a session dead in the registry, then at every shard; then it is forgotten.
pub(crate) async fn bury(cx: &Cx, session: SessionId) {
    let peers: Vec<NodeId> = cx.with(|core| {
        let me = core.state.me();
        core.state.coordinator.expire(session);
        opens::bury(core, session);
        // Whoever hears of it forgets what the session has, so no restart may bring it back.
        if core.state.coordinator.is_alive(session) {
            let death = core.state.coordinator.death_of(session);
            commit_own(core, cx.op(), death.into_iter().collect());
        }
        core.state.config.map.all().filter(|&s| s != me).map(NodeId::shard).collect()
    });
    cx.call_all(&peers, u64::MAX, |core, _, seq| core.state.peer_packet(seq, &Peer::SessionDead { session })).await;
    cx.with(|core| {
        if let Some(forgotten) = core.state.coordinator.death_of(session) {
            commit_own(core, cx.op(), vec![forgotten]);
        }
        core.wake(keys::session(session));
        alone::left(core);
    });
}

/// Looks after leases as long as the shard lives.
pub(crate) async fn watch(cx: &Cx) {
    loop {
        let at_us = cx.with(|core| core.now.mono_us) + SESSION_LEASE_MS * 1_000 / 4;
        cx.sleep_until(at_us).await;
        cx.with(|core| {
            // While this shard stood still, as all of a stopped process does, nobody could renew.
            core.state.coordinator.prolong(core.now.mono_us.saturating_sub(at_us));
            let expired = core.state.coordinator.expired(core.now.mono_us);
            for session in expired {
                core.state.coordinator.expire(session);
                is_over(core, session, false);
                core.start(Job::Bury(session));
            }
        });
    }
}
