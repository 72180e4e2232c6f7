//! Many files that one request shows: each data node is asked about all of its lent ones by one message (V-2).
//!
//! The parts stay where they are, in every form: what is answered before the data node is asked is shown, and who lists a directory beside
//! writers takes nothing from them. Locks: those files, shared, if nobody waits for that. A data node that says nothing for a while, or has too
//! much to say, is waited for by nobody: the files are left out.

use super::{holders, learn};
use crate::planted::{self, Planted};
use crate::state::{State, keys};
use crate::{Core, Cx};
use onpath_kernel::{Answer, Mode};
use onpath_wire::data::{DataReply, DataRequest};
use onpath_wire::ids::{InodeId, NodeId};
use onpath_wire::limits::COLLECTED_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// For so long a data node is waited for, microseconds.
const ANSWERED_WITHIN_US: u64 = 50_000;

/// Files of each data node, in order.
type ByNode = BTreeMap<NodeId, Vec<InodeId>>;

/// Learns what data nodes have answered of lent files among these. Those that it gives are exact for who only shows them, as long as the operation
/// runs: they are locked.
pub(crate) async fn collect(cx: &Cx, ids: &[InodeId]) -> BTreeSet<InodeId> {
    let by_node = cx.with(|core| to_be_collected(core, ids));
    let files = || by_node.values().flatten().copied();
    if by_node.is_empty() || !cx.try_lock_all(files().map(|id| (keys::inode(id), Mode::Shared))) {
        return BTreeSet::new();
    }
    if planted::is(Planted::ListedUncollected) {
        return files().collect();
    }
    let nodes: Vec<NodeId> = by_node.keys().copied().collect();
    let deadline_us = cx.with(|core| {
        core.state.counters.merge_parts_collected += files().count() as u64;
        core.state.counters.collects_of_many += nodes.len() as u64;
        core.now.mono_us + ANSWERED_WITHIN_US
    });
    let answers = cx
        .call_all(&nodes, deadline_us, |core, to, seq| {
            core.state.data_packet(seq, &DataRequest::CollectMany { inodes: by_node[&to].clone() })
        })
        .await;
    let mut exact = BTreeSet::new();
    cx.with(|core| {
        for (answer, inodes) in answers.iter().zip(by_node.values()) {
            exact.extend(learned(core, cx, answer, inodes));
        }
    });
    exact
}

/// Lent files of which data nodes are asked: those that nobody changes, and that this term has lent.
fn to_be_collected(core: &mut Core, ids: &[InodeId]) -> ByNode {
    let mut all = BTreeSet::new();
    for &id in ids {
        let is_asked = holders::hides(&core.state, id)
            && !holders::may_be_of_former_term(&core.state, id)
            && core.is_free([(keys::inode(id), Mode::Shared)]);
        if is_asked && all.len() < COLLECTED_MAX {
            all.insert(id);
        }
    }
    let mut by_node = ByNode::new();
    let node_of = |state: &State, id| state.config.map.data(id);
    all.into_iter().for_each(|id| by_node.entry(node_of(&core.state, id)).or_default().push(id));
    by_node
}

/// Learns what a data node has answered; the files of which that is all.
fn learned<'a>(
    core: &mut Core,
    cx: &Cx,
    answer: &Answer,
    inodes: &'a [InodeId],
) -> impl Iterator<Item = InodeId> + use<'a> {
    let told = match answer {
        Answer::Packet(packet) => packet.body::<DataReply>().ok(),
        Answer::TimedOut => None,
    };
    let told_of = match told {
        Some(DataReply::HandedOver { all, more }) if learn::learn_all(core, cx, &all) => {
            inodes.partition_point(|&id| more.is_none_or(|more| id < more))
        }
        _ => 0,
    };
    inodes[..told_of].iter().copied()
}
