//! Leases of path nodes (P-1): until when one may lead by the path parts that this shard has granted it. A path node counts its lease from when
//! it asked for it, the shard from when it heard of that, so that the path node is always the first to let go. Then what it holds counts for
//! nothing, and a change that has to take it back waits for it no longer. A grant needs no lease: who asks for it has one all the time until it
//! is there, or does not believe it.

use super::owner::table;
use crate::Core;
use crate::planted::{self, Planted};
use crate::state::packets;
use onpath_kernel::OpId;
use onpath_wire::ids::{InodeId, NodeId, RequestSeq};
use onpath_wire::limits::{PATH_LEASE_ENDLESS, PATH_LEASE_MS};
use onpath_wire::peer::{Peer, part};
use std::collections::BTreeMap;

const LEASE_US: u64 = PATH_LEASE_MS * 1_000;

/// The leases that a shard has given. They are volatile: at its start each path node may have one of the former term.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// Monotonic microseconds: what the former term has given is over then.
    former_until_us: u64,
    /// By path node of the map.
    until_us: BTreeMap<NodeId, u64>,
}

impl Leases {
    /// A term begins.
    pub(crate) fn begin_term(&mut self, now_us: u64) {
        self.former_until_us = now_us + LEASE_US;
    }

    fn until_us(&self, node: NodeId) -> u64 {
        let former_us = if planted::is(Planted::ForgottenLeases) { 0 } else { self.former_until_us };
        self.until_us.get(&node).copied().unwrap_or_default().max(former_us)
    }
}

/// Until when a path node may lead by what it was granted here, monotonic microseconds.
fn until_us(core: &Core, node: NodeId) -> u64 {
    if core.state.config.ends_path_nodes { u64::MAX } else { core.state.dirs.leases.until_us(node) }
}

/// Whether it may now.
pub(super) fn is_live(core: &Core, node: NodeId) -> bool {
    core.now.mono_us < until_us(core, node)
}

/// When the first of the leases is over that path nodes among these holders have: it is waited for no longer.
pub(super) fn first_over_us(core: &Core, holders: &[NodeId]) -> u64 {
    let path_nodes = holders.iter().filter(|holder| holder.as_shard().is_none());
    path_nodes.map(|node| until_us(core, *node)).min().unwrap_or(u64::MAX)
}

/// A path node asks for a lease.
pub(crate) fn asked(core: &mut Core, op: OpId, from: NodeId, seq: RequestSeq) {
    let ms = if core.state.config.ends_path_nodes {
        PATH_LEASE_ENDLESS
    } else {
        let until_us = core.now.mono_us + LEASE_US;
        core.state.dirs.leases.until_us.insert(from, until_us);
        PATH_LEASE_MS as u32
    };
    packets::answer_call(core, op, from, seq, &Peer::PathLease { ms });
}

/// Whoever may hold the path part of a directory, if that is one of `parts`: the path nodes of the map but those whose leases are over, which
/// are struck from its table.
pub(super) fn living(core: &mut Core, dir: InodeId, parts: u8) -> Vec<NodeId> {
    if parts & part::PATH == 0 {
        return vec![];
    }
    let nodes: Vec<NodeId> = core.state.config.map.path_nodes().collect();
    let (living, over): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|node| is_live(core, *node));
    for node in &over {
        strike(core, dir, *node);
    }
    if living.is_empty() {
        table(core, dir).holders.learn(part::PATH);
    }
    living
}

/// What a path node held of a directory counts for nothing any more.
pub(super) fn strike(core: &mut Core, dir: InodeId, node: NodeId) {
    let struck = table(core, dir).holders.gave_back(node, part::PATH);
    core.state.counters.path_parts_struck += u64::from(struck);
}
