//! The session's life at the coordinator: attach, renew, detach (design.md, "Sessions").

use crate::input::{drain_queue, lose};
use crate::limits::DETACH_TIMEOUT_US;
use crate::op::Op;
use crate::ops::{alone, anew};
use crate::session::{LostReason, SessionOut};
use crate::state::{Job, Phase, State, header};
use onpath_kernel::Core;
use onpath_wire::errno::Errno;
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{NodeId, ShardId};
use onpath_wire::limits::SESSION_LEASE_MS;
use onpath_wire::map::COORDINATOR_SLOT;
use onpath_wire::packet::Packet;
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;

/// Joins the file system, or takes the session up again after a restart of the coordinator.
pub(crate) async fn attach(op: &mut Op, again: bool) {
    let (asked, life) = op.with(|core| (core.now, core.state.lives));
    let result = match op.ask(Request::Attach { again }).await {
        Ok(Reply::Attached { session, lease_ms }) => op.with(|core| {
            // Whatever a host says, the lease is renewed neither all the time nor never.
            core.state.lease_ms = lease_ms.clamp(SESSION_LEASE_MS / 100, SESSION_LEASE_MS * 100);
            core.state.lease.renewed(asked, core.state.lease_ms);
            if core.state.config.session.id() == session { Ok(()) } else { Err(Errno::ESTALE) }
        }),
        Ok(_) => Err(Errno::EIO),
        Err(errno) => Err(errno),
    };
    op.with(|core| match (result, core.state.phase) {
        _ if core.state.lives != life => {}
        (Ok(()), Phase::Joining) => {
            core.start(Job::Renew);
            core.start(Job::Visit);
            if life == 0 {
                joined(core);
            } else {
                core.state.phase = Phase::Reopening;
                core.start(Job::Reopen);
            }
        }
        (Ok(()), _) => {}
        (Err(errno), _) if !again && life == 0 => lose(core, LostReason::Refused(errno)),
        (Err(_), _) => anew::expired(core),
    });
}

/// From now on requests are served.
pub(crate) fn joined(core: &mut Core<State>) {
    core.state.phase = Phase::Joined;
    core.emit(SessionOut::Attached);
    drain_queue(core);
}

/// Whether a job of this life of the session goes on.
fn is_member(core: &Core<State>, life: u64) -> bool {
    core.state.lives == life && matches!(core.state.phase, Phase::Joined | Phase::Reopening)
}

/// Renews the lease three times in its length, as long as the session lives; a session that would like to be alone asks at once. The
/// lease counts from when it was asked for, so an answer that took long is followed by the next question at once.
pub(crate) async fn renew(op: &mut Op) {
    let mut pause = !op.with(|core| core.state.config.caches);
    let (mut asked, life) = op.with(|core| (core.now, core.state.lives));
    loop {
        if pause {
            let at_us = op.with(|core| asked.mono_us + core.state.lease_ms.max(3) * 1_000 / 3);
            op.cx.sleep_until(at_us).await;
        }
        pause = true;
        asked = op.with(|core| core.now);
        let (member, request) = op.with(|core| (is_member(core, life), alone::renewal(core)));
        if !member {
            return;
        }
        let answer = op.ask(request).await;
        if !op.with(|core| is_member(core, life)) {
            return;
        }
        if answer.is_ok() {
            op.with(|core| core.state.lease.renewed(asked, core.state.lease_ms));
        }
        match answer {
            Ok(Reply::Renewed { alone }) => op.with(|core| alone::renewed(core, alone, asked.mono_us)),
            Ok(_) => {}
            Err(_) => return op.with(anew::expired),
        }
    }
}

/// Asks every shard something cheap three times in a lease, so that an idle session hears of a restart, and registers
/// again what it has open and locked there before the grace is over. A shard that is down keeps nobody waiting.
pub(crate) async fn visit(op: &Op) {
    let body = op.with(|core| core.state.own_body(Request::StatFs));
    let life = op.with(|core| core.state.lives);
    loop {
        let pause_us = op.with(|core| core.state.lease_ms.max(3) * 1_000 / 3);
        let at_us = op.with(|core| core.now.mono_us + pause_us);
        op.cx.sleep_until(at_us).await;
        if !op.with(|core| is_member(core, life)) {
            return;
        }
        let slots = op.with(|core| core.state.a_slot_of.clone());
        let shards: Vec<NodeId> = op.with(|core| slots.iter().map(|&slot| core.state.shard_at(slot)).collect());
        let make = |core: &mut onpath_kernel::Core<_>, to: NodeId, seq| {
            let slot = slots[to.number() as usize];
            Packet::new(&header(core, MessageKind::Request, to, slot, seq), &body)
        };
        op.cx.call_all(&shards, at_us + pause_us, make).await;
    }
}

/// Asks one shard something cheap.
pub(crate) async fn greet(op: &mut Op, shard: ShardId) {
    let slot = op.with(|core| core.state.a_slot_of[shard.0 as usize]);
    // Nobody waits for the answer: that it was asked is all.
    let _ = op.ask_at(slot, Request::StatFs).await;
}

/// Leaves; the coordinator drops what the session holds. Without an answer the lease runs out by itself.
pub(crate) async fn detach(op: &mut Op) {
    let (to, deadline_us) =
        op.with(|core| (core.state.shard_at(COORDINATOR_SLOT), core.now.mono_us + DETACH_TIMEOUT_US));
    let hand_back = op.with(alone::leave).map(|alone| Request::HandBack { alone });
    for request in hand_back.into_iter().chain([Request::Detach { gone: false }]) {
        let body = op.with(|core| core.state.own_body(request));
        let make = |core: &mut onpath_kernel::Core<_>, to: NodeId, seq| {
            Packet::new(&header(core, MessageKind::Request, to, COORDINATOR_SLOT, seq), &body)
        };
        op.cx.call_all(&[to], deadline_us, make).await;
    }
    op.with(|core| lose(core, LostReason::Detached));
}
