//! Tracking epochs as a shard knows them: as an owner first, then as a site, which marks again all that it holds.

use super::mark;
use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::commit::{Effects, commit_own};
use crate::state::{State, packets};
use crate::{Core, Cx};
use onpath_kernel::OpId;
use onpath_wire::disk::record::Effect;
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{NodeId, RecordSeq, RequestSeq, ShardId, TrackingEpoch};
use onpath_wire::innet::{DirtySetOp, Fingerprint, InNet, InNetResult};
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;
use onpath_wire::tracking::{Form, SwitchCommand, Tracking, TrackingSide};
use std::collections::BTreeSet;

/// How long a switch is waited for before it is looked whether it still counts, microseconds.
const ANNOUNCE_US: u64 = 1_000_000;

/// What a shard knows of tracking epochs; durable but for the last four.
#[derive(Default, Debug)]
pub(crate) struct Epochs {
    /// The last one that this shard has given out, as coordinator.
    pub(crate) given: Tracking,
    /// As an owner of directories.
    pub(crate) owner: Tracking,
    /// As a site of names.
    pub(crate) site: Tracking,
    /// These switches ignore removes of our former terms: only then are their answers believed.
    announced: BTreeSet<NodeId>,
    /// These are being told.
    announcing: BTreeSet<NodeId>,
    /// Counter of the last remove of this term.
    removes: u32,
    /// The last record that any of them rested on.
    removes_after: RecordSeq,
}

/// What the switch has answered a reader's query on its way here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tracked(Option<(TrackingEpoch, Fingerprint, InNetResult)>);

impl Tracked {
    /// The answer in a packet; none if it did not pass a switch.
    pub(crate) fn of(packet: &Packet) -> Tracked {
        let query = packet.innet.as_deref().filter(|innet| innet.op() == Some(DirtySetOp::Query));
        Tracked(query.and_then(|q| Some((TrackingEpoch(q.epoch), q.fingerprint()?, q.result()?))))
    }
}

impl Epochs {
    /// What records do, live and in replay.
    pub(crate) fn learned(&mut self, side: TrackingSide, tracking: Tracking) {
        match side {
            TrackingSide::Given => self.given = tracking,
            TrackingSide::Owner => self.owner = tracking,
            TrackingSide::Site => self.site = tracking,
        }
    }

    /// What an image holds.
    pub(crate) fn all(&self) -> [(TrackingSide, Tracking); 3] {
        [(TrackingSide::Given, self.given), (TrackingSide::Owner, self.owner), (TrackingSide::Site, self.site)]
    }

    /// What an answer of the switch is worth now: only of the epoch that the owner knows.
    pub(crate) fn believed(&self, tracked: Tracked, of: Fingerprint) -> Option<InNetResult> {
        let (epoch, group, result) = tracked.0?;
        let counts = self.owner.form == Form::Network
            && (epoch == self.owner.epoch_of(of) || planted::is(Planted::AnyEpochsNormal))
            && self.announced.contains(&self.owner.switch_of(of))
            && self.removes < u32::MAX - 1
            && group == of;
        counts.then_some(result)
    }
}

impl State {
    /// A message behind a remove that was never sent before.
    pub(crate) fn behind_remove(&mut self, packet: Packet, group: Fingerprint, to: NodeId) -> Packet {
        self.epochs.removes = self.epochs.removes.saturating_add(1);
        let sender = (self.config.shard, self.config.term, self.epochs.removes);
        let owner = &self.epochs.owner;
        packet.through(
            owner.switch_of(group),
            InNet::remove(self.config.cluster, owner.epoch_of(group), group, sender, to),
        )
    }

    /// A command to the control plane of a switch.
    pub(crate) fn switch_packet(&self, seq: RequestSeq, command: SwitchCommand) -> Packet {
        Packet::new(&self.header(MessageKind::Switch, seq), &command)
    }
}

/// This operation is about to send removes: they wait for all records that earlier ones wait for. Those that the switch has from one that
/// left later it would drop.
pub(crate) fn keep_order(core: &mut Core, op: OpId) {
    core.rest_on(op, core.state.epochs.removes_after);
    core.state.epochs.removes_after = core.reflects(op);
}

/// After a start, and when there are other switches: those that do not know our term are told, if directories are tracked there.
pub(crate) fn begin(core: &mut Core) {
    let epochs = &mut core.state.epochs;
    if epochs.owner.form == Form::Network {
        let unknown = |node: &NodeId| !epochs.announced.contains(node);
        let all: Vec<NodeId> = epochs.owner.switches.nodes().filter(unknown).collect();
        let new = |node: &NodeId| epochs.announcing.insert(*node);
        let all: Vec<NodeId> = all.into_iter().filter(new).collect();
        all.into_iter().for_each(|node| core.start(Job::Announce(node)));
    }
}

/// Has a switch ignore removes of our former terms, unless it is given up before it answers.
pub(crate) async fn announce(cx: &Cx, switch: NodeId) {
    let mut answered = planted::is(Planted::TermUnannounced);
    while !answered && cx.with(|core| core.state.epochs.owner.asks(switch)) {
        let deadline_us = cx.with(|core| core.now.mono_us) + ANNOUNCE_US;
        let make = |core: &mut Core, _, seq| {
            let (shard, term) = (core.state.me(), core.state.config.term);
            core.state.switch_packet(seq, SwitchCommand::Raise { shard, term })
        };
        let answers = cx.call_all(&[switch], deadline_us, make).await;
        answered = answers.into_iter().all(|answer| answer.packet().is_some());
    }
    cx.with(|core| {
        core.state.epochs.announcing.remove(&switch);
        if answered {
            core.state.epochs.announced.insert(switch);
        }
    });
}

/// The coordinator tells of an epoch.
pub(crate) async fn track(cx: &Cx, from: ShardId, seq: RequestSeq, side: TrackingSide, tracking: Tracking) {
    let known = cx.with(|core| {
        if from != core.state.config.map.coordinator() {
            core.state.counters.malformed += 1;
            return None;
        }
        let known = match side {
            TrackingSide::Owner => core.state.epochs.owner,
            TrackingSide::Site => core.state.epochs.site,
            TrackingSide::Given => return None,
        };
        Some(known.epoch)
    });
    let Some(known) = known else { return };
    if tracking.epoch.is_after(known) {
        cx.with(|core| learn(core, cx, side, tracking));
    }
    if side == TrackingSide::Site {
        mark::all_marked(cx, tracking).await;
    }
    cx.with(|core| {
        let all = core.state.record_seq;
        core.rest_on(cx.op(), all);
        let term = core.state.config.term;
        packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &Peer::Tracked { term });
    });
}

fn learn(core: &mut Core, cx: &Cx, side: TrackingSide, tracking: Tracking) {
    let effects: Effects = vec![Effect::Tracking { side, tracking }];
    commit_own(core, cx.op(), effects);
    match side {
        TrackingSide::Owner => begin(core),
        TrackingSide::Site => mark::epoch_learned(core),
        _ => {}
    }
}
