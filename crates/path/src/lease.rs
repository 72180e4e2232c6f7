//! Leases at the homes of directories (P-1): what a home has granted is led by until the lease there is over, and not a moment longer: then the
//! home waits for this path node no more.

use crate::load;
use crate::planted::{self, Planted};
use crate::state::{Job, State, lease_at};
use hashbrown::HashMap;
use onpath_index::Index;
use onpath_kernel::{Answer, Core, Cx};
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{InodeId, NodeId};
use onpath_wire::limits::{PATH_LEASE_ENDLESS, PATH_LEASE_MS, PATH_LEASE_SLACK_MS};
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;
use std::collections::BTreeSet;

/// So long after it was asked for, a lease is asked for anew; an answer is waited for as long, microseconds.
const RENEW_US: u64 = PATH_LEASE_MS * 1_000 / 4;

/// A lease at one home.
#[derive(Debug, Default)]
struct Lease {
    /// Monotonic microseconds: it is over then; none: there is none.
    until_us: Option<u64>,
    /// Somebody asks for it from time to time.
    is_asked_for: bool,
    /// The last question has no answer.
    is_silent: bool,
}

/// The leases of a path node, by home.
#[derive(Debug)]
pub(crate) struct Leases {
    at: HashMap<NodeId, Lease>,
    /// When the first of them is over, monotonic microseconds.
    first_over_us: u64,
}

impl Default for Leases {
    fn default() -> Leases {
        Leases { at: HashMap::new(), first_over_us: u64::MAX }
    }
}

impl Leases {
    /// Whether there is one at this home.
    pub(crate) fn is_live(&self, home: NodeId) -> bool {
        self.at.get(&home).is_some_and(|lease| lease.until_us.is_some())
    }

    /// Homes at which there is one.
    pub(crate) fn live(&self) -> usize {
        self.at.values().filter(|lease| lease.until_us.is_some()).count()
    }

    fn note_first(&mut self) {
        self.first_over_us = self.at.values().filter_map(|lease| lease.until_us).min().unwrap_or(u64::MAX);
    }
}

/// Gives up what leases say that are over. Comes before anything else in a step, so that none is led by.
pub(crate) fn end_those_over(core: &mut Core<State>) {
    let now_us = core.now.mono_us;
    if now_us < core.state.leases.first_over_us || planted::is(Planted::LeadsBeyondLease) {
        return;
    }
    let mut over = Vec::new();
    for (home, lease) in &mut core.state.leases.at {
        over.extend(lease.until_us.take_if(|until_us| *until_us <= now_us).map(|_| *home));
    }
    core.state.leases.note_first();
    for home in &over {
        *core.state.taken.entry(*home).or_default() += 1;
    }
    let map = core.state.config.map.clone();
    let is_over = |dir: InodeId| over.contains(&NodeId::shard(map.home(dir)));
    let mut gone = Vec::new();
    core.state.index.each(&mut |directory| {
        if is_over(InodeId(directory.id.0)) {
            gone.push(directory.id);
        }
    });
    for dir in &gone {
        core.state.index.remove(*dir);
    }
    let had: BTreeSet<NodeId> = gone.iter().map(|dir| NodeId::shard(map.home(InodeId(dir.0)))).collect();
    had.into_iter().for_each(|home| load::ask(core, home));
    core.state.counters.lapsed += gone.len() as u64;
    core.state.asking.iter_mut().filter(|(dir, _)| is_over(**dir)).for_each(|(_, asking)| asking.void = true);
}

/// Whether there is a lease at a home, which is asked for one if need be. Who is silent is not waited for twice.
pub(crate) async fn is_given(cx: &Cx<State>, home: NodeId) -> bool {
    cx.with(|core| {
        let lease = core.state.leases.at.entry(home).or_default();
        if !lease.is_asked_for {
            (lease.is_asked_for, lease.is_silent) = (true, false);
            core.start(Job::Lease(home));
        }
    });
    let look = |core: &mut Core<State>| {
        let lease = core.state.leases.at.entry(home).or_default();
        if lease.until_us.is_some() { Some(true) } else { lease.is_silent.then_some(false) }
    };
    cx.until(lease_at(home), look).await
}

/// Keeps the lease at a home as long as anything is held or asked for.
pub(crate) async fn keep(cx: &Cx<State>, home: NodeId) {
    loop {
        let asked_us = cx.with(|core| core.now.mono_us);
        let make = |core: &mut Core<State>, _: NodeId, seq| {
            Packet::new(&core.state.header(MessageKind::Peer, seq), &Peer::PathLeaseAsk)
        };
        let answer = cx.call_all(&[home], asked_us + RENEW_US, make).await.pop();
        let ms = match answer.and_then(Answer::packet).map(|packet| packet.body()) {
            Some(Ok(Peer::PathLease { ms })) => Some(ms),
            _ => None,
        };
        cx.with(|core| {
            given(core, home, asked_us, ms);
            core.wake(lease_at(home));
        });
        if ms == Some(PATH_LEASE_ENDLESS) {
            return;
        }
        cx.sleep_until(asked_us + RENEW_US).await;
        let is_idle = cx.with(|core| {
            let is_idle = core.state.index.len() == 0 && core.state.asking.is_empty();
            if is_idle {
                core.state.leases.at.entry(home).or_default().is_asked_for = false;
            }
            is_idle
        });
        if is_idle {
            return;
        }
    }
}

/// A home has answered, or not.
fn given(core: &mut Core<State>, home: NodeId, asked_us: u64, ms: Option<u32>) {
    let now_us = core.now.mono_us;
    let lease = core.state.leases.at.entry(home).or_default();
    lease.is_silent = ms.is_none();
    let Some(ms) = ms else { return };
    let from_us = if planted::is(Planted::LeaseFromAnswer) { now_us } else { asked_us };
    let until_us = match ms {
        PATH_LEASE_ENDLESS => u64::MAX,
        ms => from_us + u64::from(ms).saturating_sub(PATH_LEASE_SLACK_MS) * 1_000,
    };
    if until_us > now_us {
        lease.until_us = lease.until_us.max(Some(until_us));
        core.state.leases.note_first();
    }
}
