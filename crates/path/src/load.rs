//! Asking homes for all their directories (P-6), so that nobody has to wait for them to be asked for one by one.

use crate::lease;
use crate::planted::{self, Planted};
use crate::state::{Job, State};
use hashbrown::HashMap;
use onpath_kernel::{Answer, Core, Cx};
use onpath_wire::header::Header;
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{NodeId, Term};
use onpath_wire::limits::RECALL_TIMEOUT_US;
use onpath_wire::packet::Packet;
use onpath_wire::peer::{DirPath, Peer};

/// How often an answer is asked for anew that a recall has overtaken; then those directories are asked for when somebody needs them.
const TRIES_MAX: usize = 4;
/// A home that has no lease to give now is asked again after this, microseconds.
const PAUSE_US: u64 = 500_000;

/// Homes that are being asked for all their directories.
#[derive(Debug, Default)]
pub(crate) struct Loading {
    /// Whether what such a home has told is over, so that it is asked once more.
    homes: HashMap<NodeId, bool>,
}

/// Begins, when the path node starts.
pub(crate) fn begin(core: &mut Core<State>) {
    let homes: Vec<NodeId> = core.state.config.map.all().map(NodeId::shard).collect();
    homes.into_iter().for_each(|home| ask(core, home));
}

/// Asks a home for all that it has, at the start or since what it had granted is over.
pub(crate) fn ask(core: &mut Core<State>, home: NodeId) {
    if !core.state.config.loads {
        return;
    }
    let is_first = !core.state.loading.homes.contains_key(&home);
    core.state.loading.homes.insert(home, !is_first);
    if is_first {
        core.start(Job::Load(home));
    }
}

/// Asks a home for its directories until there are no more, or no room is left; and again, if they are given up meanwhile.
pub(crate) async fn load(cx: &Cx<State>, home: NodeId) {
    loop {
        all(cx, home).await;
        // The lease there goes on from now on as long as anything is held.
        lease::is_given(cx, home).await;
        let is_over = cx.with(|core| {
            let homes = &mut core.state.loading.homes;
            let is_over = homes.insert(home, false) == Some(true);
            if !is_over {
                homes.remove(&home);
            }
            is_over
        });
        if !is_over {
            return;
        }
    }
}

async fn all(cx: &Cx<State>, home: NodeId) {
    let (mut from, mut tries) = (None, 0);
    loop {
        if !lease::is_given(cx, home).await {
            let at_us = cx.with(|core| core.now.mono_us) + PAUSE_US;
            cx.sleep_until(at_us).await;
            continue;
        }
        let (before, deadline_us) = cx.with(|core| (taken(core, home), core.now.mono_us + RECALL_TIMEOUT_US));
        let make = |core: &mut Core<State>, _: NodeId, seq| {
            Packet::new(&core.state.header(MessageKind::Peer, seq), &Peer::PathsAsk { from })
        };
        let Some(Answer::Packet(packet)) = cx.call_all(&[home], deadline_us, make).await.pop() else { continue };
        let (Ok(Peer::Paths { parts, next }), Ok(header)) = (packet.body(), packet.header()) else { return };
        // What was taken back since it was asked for may be among them (schedule K7).
        let is_void = cx.with(|core| taken(core, home) != before || !core.state.leases.is_live(home));
        let is_void = is_void && !planted::is(Planted::OvertakenLoad);
        if is_void && tries < TRIES_MAX {
            tries += 1;
            continue;
        }
        let has_room = is_void || cx.with(|core| install(core, home, &parts, header.term));
        if next.is_none() || !has_room {
            return;
        }
        (from, tries) = (next, 0);
    }
}

fn taken(core: &Core<State>, home: NodeId) -> Option<u64> {
    core.state.taken.get(&home).copied()
}

/// Holds what was granted, as far as there is room; whether there was enough.
fn install(core: &mut Core<State>, home: NodeId, parts: &[DirPath], term: Term) -> bool {
    let own = |dir| NodeId::shard(core.state.config.map.home(dir)) == home;
    let parts: Vec<&DirPath> = parts.iter().filter(|granted| own(granted.dir)).collect();
    for DirPath { dir, part } in parts {
        if !core.state.hold_if_room(*dir, part, term) {
            return false;
        }
        core.state.counters.parts_loaded += 1;
    }
    true
}

/// A copy of what a home has granted counts, which it must not.
pub(crate) fn installed_again(core: &mut Core<State>, header: &Header, packet: &Packet) {
    if let Ok(Peer::Paths { parts, .. }) = packet.body() {
        install(core, header.source, &parts, header.term);
    }
}
