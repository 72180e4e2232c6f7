//! The coordinator of tracking epochs: watches the switch, gives out epochs, changes the form.
//!
//! A new epoch goes to every shard as an owner first, then to the switch, then to every shard as a site; when all sites have
//! everything that they hold acknowledged in it, the switch is told that it is complete.

use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::commit::{Effects, commit_own};
use crate::{Core, Cx};
use onpath_kernel::Answers;
use onpath_wire::ids::{NodeId, ShardId, Term, TrackingEpoch};
use onpath_wire::peer::Peer;
use onpath_wire::record::Effect;
use onpath_wire::tracking::{Form, SwitchCommand, SwitchStatus, Tracking, TrackingSide};
use smallvec::SmallVec;

/// How often the switch is looked at, microseconds.
const LOOK_US: u64 = 100_000;
/// A switch that does not answer for so long is gone, microseconds.
const GONE_US: u64 = 300_000;

/// The watch runs if directories are, or shall be, tracked in the network.
pub(crate) fn begin(core: &mut Core) {
    let wanted = core.state.config.form == Form::Network || core.state.epochs.given.form == Form::Network;
    let watches = &mut core.state.coordinator.watches_switch;
    if wanted && core.state.config.map.coordinator() == core.state.config.shard && !*watches {
        *watches = true;
        core.start(Job::WatchSwitch);
    }
}

/// From now on directories shall be tracked so.
pub(crate) fn set_form(core: &mut Core, form: Form) {
    core.state.config.form = form;
    begin(core);
}

/// Keeps the form what it should be: that of the configuration while the switch is there, else the owner form.
pub(crate) async fn watch(cx: &Cx) {
    // The life of the switch in which the present epoch is complete.
    let mut complete_in = None;
    loop {
        let status = command(cx, SwitchCommand::Status).await;
        let (wanted, given) = cx.with(|core| (core.state.config.form, core.state.epochs.given));
        match (wanted, status) {
            (Form::Network, Some(status)) => {
                let is_complete = status.complete && status.epoch == given.epoch;
                let same = complete_in.is_none_or(|boot| boot == status.boot);
                if given.form == Form::Network && is_complete && same {
                    complete_in = Some(status.boot);
                } else {
                    complete_in = change(cx, Form::Network).await;
                }
            }
            _ if given.form == Form::Network => {
                complete_in = None;
                change(cx, Form::Owner).await;
            }
            (Form::Owner, _) => return cx.with(|core| core.state.coordinator.watches_switch = false),
            _ => {}
        }
        let now_us = cx.with(|core| core.now.mono_us);
        cx.sleep_until(now_us + LOOK_US).await;
    }
}

/// A new epoch. The life of the switch in which it is complete, if it came so far.
async fn change(cx: &Cx, form: Form) -> Option<u64> {
    let tracking = cx.with(|core| {
        let last = core.state.epochs.given.epoch.0;
        let epoch = TrackingEpoch(if last == u16::MAX { 1 } else { last + 1 });
        let tracking = Tracking { epoch, form };
        let effects: Effects = vec![Effect::Tracking { side: TrackingSide::Given, tracking }];
        commit_own(core, cx.op(), effects);
        core.state.counters.epochs += 1;
        tracking
    });
    if planted::is(Planted::SitesFirst) {
        tell(cx, TrackingSide::Site, tracking).await;
    }
    let terms = tell(cx, TrackingSide::Owner, tracking).await;
    let boot = if form == Form::Network {
        let status = command(cx, SwitchCommand::Epoch { epoch: tracking.epoch }).await?;
        for (shard, term) in terms {
            command(cx, SwitchCommand::Raise { shard, term }).await?;
        }
        Some(status.boot)
    } else {
        None
    };
    if planted::is(Planted::CompleteTooEarly) {
        command(cx, SwitchCommand::Complete { epoch: tracking.epoch }).await;
    }
    tell(cx, TrackingSide::Site, tracking).await;
    let status = command(cx, SwitchCommand::Complete { epoch: tracking.epoch }).await?;
    (status.complete && status.epoch == tracking.epoch && Some(status.boot) == boot).then_some(status.boot)
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

/// A command to the switch; nothing if it does not answer.
async fn command(cx: &Cx, command: SwitchCommand) -> Option<SwitchStatus> {
    let deadline_us = cx.with(|core| core.now.mono_us) + GONE_US;
    let make = |core: &mut Core, _, seq| core.state.switch_packet(seq, command);
    let answer = cx.call_all(&[NodeId::SWITCH], deadline_us, make).await.pop()?;
    answer.packet()?.body().ok()
}
