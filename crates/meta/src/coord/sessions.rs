//! The registry of sessions: attach, renew, detach, death (design.md, "Sessions").

use crate::coord::alone;
use crate::ops::{Req, Step, Stop, begin, opens};
use crate::shard::Job;
use crate::state::commit::{Effects, commit, commit_own, commit_unasked};
use crate::state::keys;
use crate::state::replies::Seen;
use crate::{Core, Cx};
use onpath_wire::disk::record::{Answer, Counter, Effect, Member, MemberKind};
use onpath_wire::disk::reply::Answered;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{NodeId, SessionNumber};
use onpath_wire::limits::SESSION_LEASE_MS;
use onpath_wire::name::Name;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;

/// A session joins, or comes back after a restart of this shard. Who joins waits until nobody else is alone ([`alone`]).
pub(crate) async fn attach(cx: &Cx, req: &Req, again: bool) -> Step {
    if cx.with(|core| is_new(core, req, again))? {
        alone::give_way(cx, req.number()).await?;
    }
    cx.with(|core| join(core, cx, req, again))
}

/// Whether a session would be one more.
fn is_new(core: &Core, req: &Req, again: bool) -> Result<bool, Stop> {
    only_here(core)?;
    let unseen = matches!(core.state.replies.seen(req.session, req.seq), Seen::New);
    Ok(unseen && !again && !core.state.coordinator.lives(req.number()) && !is_refused(core, req.number()))
}

/// Whether a session that does not live has died before, perhaps, or another one has its id.
fn is_refused(core: &Core, session: SessionNumber) -> bool {
    core.state.buried.may_contain(session) || core.state.coordinator.is_taken(session)
}

fn join(core: &mut Core, cx: &Cx, req: &Req, again: bool) -> Step {
    begin(core, req)?;
    let now_us = core.now.mono_us;
    let session = req.number();
    let known = core.state.coordinator.lives(session);
    let attached = Answered::Attached { session: req.session, lease_ms: SESSION_LEASE_MS };
    alone::joined(core, session);
    if known {
        core.state.coordinator.renew(session, now_us);
        return Ok(attached.into());
    }
    if again || is_refused(core, session) {
        return Err(Errno::ESTALE.into()); // it was declared dead: its locks and opens are gone
    }
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    let resident = core.state.coordinator.resident == Some(session);
    // Whose key has an owner may not name others, so no switch answers it (C-2). Shards do not hear how the key is called.
    let (kind, key) = (MemberKind::Mount, req.bound.and_then(|_| Name::new(b"of an owner").ok()));
    let member = Member { incarnation: stamp, number: session, resident, kind, key, alive: true };
    let effects: Effects = vec![Effect::Member { node: req.from, member }];
    let reply = commit(core, cx.op(), req, stamp, Answer::Literal { reply: attached }, effects);
    core.state.coordinator.renew(session, now_us);
    Ok(reply)
}

/// Numbers for sessions to come, at most so many: those that follow, but none whose id somebody has.
pub(crate) fn take(core: &mut Core, count: u32) -> Vec<SessionNumber> {
    let after = core.state.reserved.upto(Counter::Sessions);
    let following = (after.saturating_add(1)..=SessionNumber::MAX.0).map(SessionNumber);
    let free = following.filter(|session| !core.state.coordinator.is_taken(*session));
    let taken: Vec<SessionNumber> = free.take(count as usize).collect();
    if let Some(&SessionNumber(upto)) = taken.last() {
        commit_unasked(core, Effect::Reserved { counter: Counter::Sessions, upto });
    }
    taken
}

/// A number for the session of this process's own mount, in place of the one before.
pub(crate) fn take_resident(core: &mut Core) -> Option<SessionNumber> {
    let taken = take(core, 1).pop();
    core.state.coordinator.resident = taken;
    taken
}

/// A session extends its lease.
pub(crate) fn renew(cx: &Cx, req: &Req) -> Step {
    cx.with(|core| {
        only_here(core)?;
        if !core.state.coordinator.lives(req.number()) {
            return Err(Errno::ESTALE.into());
        }
        let now_us = core.now.mono_us;
        core.state.coordinator.renew(req.number(), now_us);
        Ok(Reply::Done)
    })
}

/// A session leaves, or its host says that it is `gone`.
pub(crate) fn detach(cx: &Cx, req: &Req, gone: bool) -> Step {
    cx.with(|core| {
        only_here(core)?;
        let lives = core.state.coordinator.lives(req.number());
        is_over(core, req.number(), !gone || !lives);
        if lives {
            core.start(Job::Bury(req.number()));
        }
        Ok(Reply::Done)
    })
}

/// A session has left, or is dead: it is not waited for any more.
fn is_over(core: &mut Core, session: SessionNumber, left: bool) {
    let now_us = core.now.mono_us;
    core.state.coordinator.alone.over(session, left, now_us);
    core.wake(keys::ALONE);
}

pub(super) fn only_here(core: &Core) -> Result<(), Stop> {
    if core.state.config.map.coordinator() == core.state.me() { Ok(()) } else { Err(Errno::EPROTO.into()) }
}

/// Declares a session dead in the registry, then at every shard; then it is forgotten.
pub(crate) async fn bury(cx: &Cx, session: SessionNumber) {
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
        core.wake(keys::session(session.id()));
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
