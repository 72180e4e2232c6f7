//! The lease of the switch's cache (C-4): its clock is read first, then the coordinator asked, then the switch told until when it answers, so
//! that the coordinator never believes a lease to be over that is not.

use crate::hot;
use crate::state::{Job, PATIENCE_US, State, command};
use onpath_kernel::{Answer, Core, Cx};
use onpath_wire::cached::{CacheCommand, CacheLease, CacheStatus};
use onpath_wire::header::MessageKind;
use onpath_wire::ids::NodeId;
use onpath_wire::limits::{CACHE_LEASE_MS, ENTRY_NUMBERS};
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;

/// How often the lease is renewed, microseconds.
const RENEW_US: u64 = CACHE_LEASE_MS * 1_000 / 3;

/// By which who keeps the lease waits for another switch.
const SWITCH: u64 = 2;

/// Another switch shall answer, or none.
pub(crate) fn set_switch(core: &mut Core<State>, switch: Option<NodeId>) {
    core.state.config.switch = switch;
    core.wake(SWITCH);
}

/// Keeps the lease, and lists the sessions that live.
pub(crate) async fn keep(cx: &Cx<State>) {
    loop {
        if cx.with(|core| core.state.switch != core.state.config.switch) {
            // If the one of before does not hear of it, its lease ends.
            command(cx, CacheCommand::End).await;
            cx.with(|core| {
                core.state.end_epoch();
                core.state.switch = core.state.config.switch;
            });
        }
        cx.until(SWITCH, |core| core.state.config.switch.map(drop)).await;
        let since_us = cx.with(|core| core.now.mono_us);
        if let Some(status) = command(cx, CacheCommand::Status).await {
            renew(cx, status).await;
        }
        cx.sleep_until(since_us + RENEW_US).await;
    }
}

async fn renew(cx: &Cx<State>, status: CacheStatus) {
    let epoch = cx.with(|core| {
        let lease = &core.state.lease;
        if (status.boot, status.epoch) != (lease.boot, lease.epoch) {
            core.state.end_epoch(); // the switch has forgotten it, or its lease was over
        }
        core.state.lease.epoch
    });
    let Some(lease) = ask(cx, epoch).await else { return };
    let CacheLease { epoch: given, ms, numbers, placement, registry, sessions } = lease;
    cx.with(|core| {
        core.state.placement = Some(placement);
        if numbers > 0 {
            core.state.lease.numbers = (numbers, numbers.saturating_add(ENTRY_NUMBERS));
        }
    });
    if given == 0 || epoch != 0 && given != epoch {
        return cx.with(|core| core.state.end_epoch()); // who answers has ended it
    }
    // A tick is no longer than 2^16 ns, and the lease counts from before it was asked for.
    let until = status.tick.wrapping_add(((u64::from(ms) * 1_000_000) >> 16) as u32);
    let told = match epoch {
        0 => CacheCommand::Begin { epoch: given, until },
        epoch => CacheCommand::Renew { epoch, until },
    };
    match command(cx, told).await {
        Some(now) if now.done && (now.boot, now.epoch) == (status.boot, given) => cx.with(|core| {
            (core.state.lease.epoch, core.state.lease.boot) = (given, now.boot);
            core.state.counters.renewed += 1;
            if epoch == 0 {
                core.start(Job::Count(given));
            }
        }),
        Some(_) => return cx.with(|core| core.state.end_epoch()),
        None => return,
    }
    if let Some(sessions) = sessions {
        list(cx, given, registry, sessions).await;
    }
}

/// Asks the coordinator to prolong the epoch, or for a new one.
async fn ask(cx: &Cx<State>, epoch: u16) -> Option<CacheLease> {
    let coordinator = cx.with(|core| NodeId::shard(core.state.config.coordinator));
    let make = |core: &mut Core<State>, _: NodeId, seq| {
        let (numbers, registry) = (core.state.wants_numbers(), core.state.lease.registry);
        let body = Peer::CacheLeaseAsk { epoch, numbers, registry };
        Packet::new(&core.state.header(MessageKind::Peer, seq), &body)
    };
    let deadline_us = cx.with(|core| core.now.mono_us) + PATIENCE_US;
    let answer = cx.call_all(&[coordinator], deadline_us, make).await.pop().and_then(Answer::packet)?;
    match answer.body() {
        Ok(Peer::CacheLease { lease }) => Some(lease),
        _ => None,
    }
}

/// The switch answers these sessions from now on, and no others.
async fn list(cx: &Cx<State>, epoch: u16, registry: u64, sessions: Vec<NodeId>) {
    let listed = cx.with(|core| core.state.lease.listed.clone());
    let gone = listed.iter().filter(|session| !sessions.contains(session));
    let gone: Vec<CacheCommand> = gone.map(|&session| CacheCommand::Unlist { session }).collect();
    let new = sessions.iter().filter(|session| !listed.contains(session));
    let new: Vec<CacheCommand> = new.map(|&session| CacheCommand::List { session }).collect();
    for one in gone.into_iter().chain(new) {
        let is_done = command(cx, one.clone()).await.is_some_and(|status| status.done);
        let goes_on = cx.with(|core| {
            let listed = &mut core.state.lease.listed;
            match one {
                CacheCommand::List { session } if is_done => {
                    listed.insert(session);
                    hot::tell(core, session);
                }
                CacheCommand::Unlist { session } if is_done => _ = listed.remove(&session),
                _ => {}
            }
            is_done && core.state.lease.epoch == epoch
        });
        if !goes_on {
            return; // the next answer tells them again
        }
    }
    cx.with(|core| core.state.lease.registry = registry);
}
