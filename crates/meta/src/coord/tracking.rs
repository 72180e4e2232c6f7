//! The coordinator of tracking epochs: watches the switches, gives out epochs, changes the form.
//!
//! A new epoch goes to every shard as an owner first, then to the switches, then to every shard as a site; when all sites have
//! everything that they hold acknowledged in it, the switches are told that it is complete. A switch that is lost, comes back, is new or
//! is not wanted any more is a new epoch, whose switches have all fingerprints among them; without any it has the owner form.
//!
//! Data nodes are told when every shard knows an epoch as an owner, and directories do not wait for them: the visibility tables are complete
//! when homes have learned all that data nodes had answered before (V-11). No two processes of a data node install in one epoch: one that
//! has started again makes it end.

use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::commit::{Effects, commit_own};
use crate::state::packets;
use crate::{Core, Cx};
use onpath_kernel::Answers;
use onpath_wire::data::{DataReply, DataRequest};
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::{NodeId, RequestSeq, ShardId, Term, TrackingEpoch};
use onpath_wire::peer::Peer;
use onpath_wire::tracking::{Form, SwitchCommand, SwitchStatus, Switches, Tracking, TrackingSide};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// How often the switch is looked at, microseconds.
const LOOK_US: u64 = 100_000;
/// A switch that does not answer for so long is gone, microseconds.
const GONE_US: u64 = 300_000;
/// Data nodes that do not answer are told again after so long, microseconds.
const TELL_US: u64 = 1_000_000;
/// How long a switch that is gone is waited for while others are there, microseconds.
const BACK_US: u64 = 50_000;

/// The lives of the switches of an epoch, in their order.
type Lives = SmallVec<[u64; 4]>;

/// What this process has told data nodes.
#[derive(Debug, Default)]
pub(super) struct DataNodes {
    /// Every shard knows this epoch as an owner.
    told: TrackingEpoch,
    /// The process of each data node to which it was given.
    terms: BTreeMap<NodeId, Term>,
    /// There must be another epoch.
    renew: bool,
}

/// A start: an earlier process may not have come to tell everybody of the last epoch.
pub(crate) fn begin(core: &mut Core) {
    let is_coordinator = core.state.config.map.coordinator() == core.state.config.shard;
    if is_coordinator && core.state.epochs.given.epoch != TrackingEpoch(0) {
        core.start(Job::TellTracking);
    }
    watch_if_wanted(core);
}

/// The watch runs if directories are, or shall be, tracked in the network.
fn watch_if_wanted(core: &mut Core) {
    let wanted = core.state.config.form == Form::Network || core.state.epochs.given.form == Form::Network;
    let watches = &mut core.state.coordinator.watches_switch;
    if wanted && core.state.config.map.coordinator() == core.state.config.shard && !*watches {
        *watches = true;
        core.start(Job::WatchSwitch);
    }
}

/// From now on directories shall be tracked so.
pub(crate) fn set(core: &mut Core, form: Form, switches: Switches) {
    (core.state.config.form, core.state.config.switches) = (form, switches);
    watch_if_wanted(core);
}

/// Tells everybody once more of the last epoch, of which an earlier process may have told some. One whose tables show files is over: it
/// is not known which processes of data nodes have installed in it.
pub(crate) async fn tell_again(cx: &Cx) {
    let given = cx.with(|core| core.state.epochs.given);
    if !given.has_files() {
        tell(cx, TrackingSide::Owner, given).await;
        cx.with(|core| owners_told(core, given));
    }
}

/// Every shard knows an epoch as an owner: now data nodes may.
fn owners_told(core: &mut Core, tracking: Tracking) {
    if core.state.epochs.given == tracking {
        core.state.coordinator.tracked = DataNodes { told: tracking.epoch, ..DataNodes::default() };
        core.start(Job::TrackFiles(tracking));
    }
}

/// A data node has started, or has no more positions. It is told how files are tracked, if that is not by tables.
pub(crate) fn asked(core: &mut Core, cx: &Cx, from: NodeId, seq: RequestSeq, (term, used_up): (Term, TrackingEpoch)) {
    let given = core.state.epochs.given;
    let tracked = &mut core.state.coordinator.tracked;
    if core.state.config.map.coordinator() != core.state.config.shard || tracked.told != given.epoch {
        return; // it asks again
    }
    let is_other = tracked.terms.get(&from).is_some_and(|known| *known != term);
    tracked.renew |= given.has_files() && (used_up == given.epoch || is_other);
    packets::answer_call(core, cx.op(), from, seq, &Peer::TrackingIs { tracking: given });
}

/// Tells data nodes of an epoch, as long as it is the last one. When all homes have learned what was answered before, its tables are complete.
pub(crate) async fn track_files(cx: &Cx, tracking: Tracking) {
    let complete = |place| SwitchCommand::VisibilityComplete { epoch: tracking.epoch_at(place) };
    if planted::is(Planted::TableTooEarly) && tracking.has_files() {
        command_all(cx, tracking.switches, complete).await;
    }
    let mut untold: Vec<NodeId> = cx.with(|core| core.state.config.map.data_nodes().collect());
    while !untold.is_empty() {
        let deadline_us = cx.with(|core| core.now.mono_us) + TELL_US;
        let nodes = untold.clone();
        let make = |core: &mut Core, node, seq| {
            let term = core.state.coordinator.tracked.terms.get(&node).copied().unwrap_or_default();
            core.state.data_packet(seq, &DataRequest::Track { tracking, term })
        };
        let answers = cx.call_all(&nodes, deadline_us, make).await;
        let is_last = cx.with(|core| {
            let is_last = core.state.epochs.given == tracking;
            for (node, answer) in nodes.iter().zip(answers).filter(|_| is_last) {
                match answer.packet().and_then(|packet| packet.body().ok()) {
                    Some(DataReply::Tracked) => untold.retain(|other| other != node),
                    Some(DataReply::NewTerm { term }) => {
                        let tracked = &mut core.state.coordinator.tracked;
                        let known = tracked.terms.insert(*node, term);
                        tracked.renew |= tracking.has_files() && known.is_some();
                    }
                    _ => {}
                }
            }
            is_last
        });
        if !is_last {
            return;
        }
    }
    if tracking.has_files() {
        command_all(cx, tracking.switches, complete).await;
    }
}

/// Keeps the form what it should be: that of the configuration while there is a switch, else the owner form.
pub(crate) async fn watch(cx: &Cx) {
    // The lives of the switches in which the present epoch is complete.
    let mut complete_in: Option<Lives> = None;
    loop {
        let there = look(cx).await;
        let (wanted, given) = cx.with(|core| (core.state.config.form, core.state.epochs.given));
        let switches = Switches::of(there.iter().map(|(number, _)| *number));
        match (wanted, switches) {
            (Form::Network, Some(switches)) => {
                let lives: Lives = there.iter().map(|(_, status)| status.boot).collect();
                let is_complete = |(place, (_, status)): (usize, &(u16, SwitchStatus))| {
                    status.complete && status.epoch == given.epoch_at(place)
                };
                let same = given.form == Form::Network && given.switches == switches && !is_to_be_renewed(cx);
                let same = same && complete_in.as_ref().is_none_or(|known| *known == lives);
                if same && there.iter().enumerate().all(is_complete) {
                    complete_in = Some(lives);
                } else {
                    complete_in = change(cx, Form::Network, switches).await;
                }
            }
            _ if given.form == Form::Network => {
                complete_in = None;
                change(cx, Form::Owner, given.switches).await;
            }
            (Form::Owner, _) => return cx.with(|core| core.state.coordinator.watches_switch = false),
            _ => {}
        }
        let now_us = cx.with(|core| core.now.mono_us);
        cx.sleep_until(now_us + LOOK_US).await;
    }
}

/// Whether there must be another epoch for the sake of files.
fn is_to_be_renewed(cx: &Cx) -> bool {
    cx.with(|core| {
        let (given, tracked) = (core.state.epochs.given, &core.state.coordinator.tracked);
        let is_other_life = given.has_files() && tracked.told != given.epoch;
        given.files != core.state.config.shows_files || tracked.renew || is_other_life
    })
}

/// The switches that shall be there, in order, and are. Who was there before is given more time.
async fn look(cx: &Cx) -> Vec<(u16, SwitchStatus)> {
    let (wanted, given) = cx.with(|core| (core.state.config.switches, core.state.epochs.given));
    let (known, gone): (Vec<u16>, Vec<u16>) = wanted.numbers().partition(|&number| given.asks(NodeId::switch(number)));
    let ask = async |numbers: Vec<u16>, within_us| {
        let nodes: Vec<NodeId> = numbers.iter().copied().map(NodeId::switch).collect();
        let answers = command(cx, &nodes, within_us, |_| SwitchCommand::Status).await;
        numbers.into_iter().zip(answers).filter_map(|(number, status)| Some((number, status?))).collect::<Vec<_>>()
    };
    let within_us = if known.is_empty() { GONE_US } else { BACK_US };
    let mut there = if known.is_empty() { vec![] } else { ask(known, GONE_US).await };
    if !gone.is_empty() {
        there.extend(ask(gone, within_us).await);
    }
    there.sort_by_key(|(number, _)| wanted.numbers().position(|known| known == *number));
    there
}

/// The epoch after these, with room for one of each switch.
fn next(last: Tracking, switches: Switches) -> TrackingEpoch {
    let last = usize::from(last.epoch.0) + last.switches.len() - 1;
    let next = if last + switches.len() > usize::from(u16::MAX) { 1 } else { last + 1 };
    TrackingEpoch(next as u16)
}

/// A new epoch. The lives of the switches in which it is complete, if it came so far.
async fn change(cx: &Cx, form: Form, switches: Switches) -> Option<Lives> {
    let tracking = cx.with(|core| {
        let epoch = next(core.state.epochs.given, switches);
        let files = form == Form::Network && core.state.config.shows_files;
        let tracking = Tracking { epoch, form, switches, files };
        let effects: Effects = vec![Effect::Tracking { side: TrackingSide::Given, tracking }];
        commit_own(core, cx.op(), effects);
        core.state.counters.epochs += 1;
        tracking
    });
    if planted::is(Planted::SitesFirst) {
        tell(cx, TrackingSide::Site, tracking).await;
    }
    let terms = tell(cx, TrackingSide::Owner, tracking).await;
    let lives = if form == Form::Network {
        let begun = command_all(cx, switches, |place| SwitchCommand::Epoch { epoch: tracking.epoch_at(place) }).await?;
        if tracking.files {
            // Positions begin anew, so no entry may be left of another epoch.
            command_all(cx, switches, |_| SwitchCommand::VisibilityEpoch { epoch: TrackingEpoch(0) }).await?;
            command_all(cx, switches, |_| SwitchCommand::VisibilityClear).await?;
            let begin = |place| SwitchCommand::VisibilityEpoch { epoch: tracking.epoch_at(place) };
            command_all(cx, switches, begin).await?;
        }
        for (shard, term) in terms {
            command_all(cx, switches, |_| SwitchCommand::Raise { shard, term }).await?;
        }
        Some(begun.iter().map(|status| status.boot).collect::<Lives>())
    } else {
        None
    };
    cx.with(|core| owners_told(core, tracking));
    let complete = |place| SwitchCommand::Complete { epoch: tracking.epoch_at(place) };
    if planted::is(Planted::CompleteTooEarly) {
        command_all(cx, switches, complete).await;
    }
    tell(cx, TrackingSide::Site, tracking).await;
    let done = command_all(cx, switches, complete).await?;
    let is_complete =
        |(place, status): (usize, &SwitchStatus)| status.complete && status.epoch == tracking.epoch_at(place);
    let same = lives.as_deref().is_some_and(|lives| done.iter().map(|status| status.boot).eq(lives.iter().copied()));
    lives.filter(|_| same && done.iter().enumerate().all(is_complete))
}

/// Tells every shard; their terms.
async fn tell(cx: &Cx, side: TrackingSide, tracking: Tracking) -> Vec<(ShardId, Term)> {
    let shards: SmallVec<[NodeId; 4]> = cx.with(|core| core.state.config.map.all().map(NodeId::shard).collect());
    let answers: Answers = cx
        .call_all(&shards, u64::MAX, |core, _, seq| core.state.peer_packet(seq, &Peer::Track { side, tracking }))
        .await;
    let terms = shards.iter().zip(answers).filter_map(|(node, answer)| match answer.packet()?.body() {
        Ok(Peer::Tracked { term }) => Some((node.as_shard()?, term)),
        _ => None,
    });
    terms.collect()
}

/// A command to switches, to each at its place; nothing of those that do not answer.
async fn command(
    cx: &Cx,
    switches: &[NodeId],
    within_us: u64,
    of: impl Fn(usize) -> SwitchCommand,
) -> Vec<Option<SwitchStatus>> {
    let deadline_us = cx.with(|core| core.now.mono_us) + within_us;
    let mut places = 0..;
    let make = |core: &mut Core, _, seq| core.state.switch_packet(seq, of(places.next().expect("one for each")));
    let answers = cx.call_all(switches, deadline_us, make).await;
    answers.into_iter().map(|answer| answer.packet()?.body().ok()).collect()
}

/// The same to all of an epoch; nothing if one does not answer.
async fn command_all(cx: &Cx, switches: Switches, of: impl Fn(usize) -> SwitchCommand) -> Option<Vec<SwitchStatus>> {
    let nodes: Vec<NodeId> = switches.nodes().collect();
    command(cx, &nodes, GONE_US, of).await.into_iter().collect()
}
