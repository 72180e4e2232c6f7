//! Answers before any disk has what they say: a coordinator promises its own part to itself, answers, and decides when it has heard that
//! the promises of all participants are on stable storage (R-25; CockroachDB's *parallel commits* have the same idea).
//!
//! The intention is one record: the promise, with whom it waits for, and the answer. Until it is carried out or undone its names and inodes
//! are locked and recalls of its directories wait, across restarts, as those of a participant's promise do.

use super::TxnId;
use super::coordinator::{self, Plan};
use super::participant::{carry_out, over};
use crate::dir::mark;
use crate::ops::Req;
use crate::ops::unlink::drop_data;
use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::commit::{Effects, commit, commit_own};
use crate::state::packets;
use crate::{Core, Cx};
use onpath_kernel::{Need, OpId};
use onpath_wire::disk::record::{Answer, Effect};
use onpath_wire::disk::txn::{Found, Part};
use onpath_wire::ids::{InodeId, NodeId, ShardId};
use onpath_wire::inode::Kind;
use onpath_wire::peer::{PartState, Peer, TxnPart};
use onpath_wire::reply::{OtherRecord, Reply};

/// What is found of a part of which nothing need be known when it is carried out.
const NOTHING: PartState = PartState::Source { child: InodeId::NONE, kind: Kind::File, sticky: None };

/// Answers a request whose attempts have got all votes. `parts`: what this shard does itself if they stand. `records`: the promises that may
/// not be durable yet.
pub(crate) fn intend(
    core: &mut Core,
    op: OpId,
    req: &Req,
    attempts: &[(TxnId, Plan)],
    mut parts: Vec<(TxnPart, PartState)>,
    records: Vec<OtherRecord>,
) {
    for (txn, plan) in attempts {
        let participants = plan.iter().map(|(shard, _)| *shard).collect();
        let asked = TxnPart::Asked { txn: *txn, participants, session: req.session, request: req.seq };
        parts.push((asked, NOTHING));
    }
    let (parts, found) = parts.into_iter().map(|(part, state)| (Part::from(part), Found::from(state))).unzip();
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    let effects: Effects = vec![Effect::Prepared { txn: attempts[0].0, parts, found }];
    core.state.counters.intentions += 1;
    commit(core, op, req, stamp, Answer::Done, effects);
    coordinator::let_go(core);
    let records = if planted::is(Planted::PromisesUntold) { vec![] } else { records };
    packets::reply(core, op, req, &Reply::DoneOn { records });
}

/// Waits until the participants of an intention have their promises on stable storage, and carries it out; or undoes it if one has lost
/// its promise with its power. What it says is asked again until it is answered, and so it is after a restart.
pub(crate) async fn settle(cx: &Cx, txn: TxnId) {
    let asked = cx.with(|core| core.state.txns.intention(txn));
    let asked: Vec<_> = asked.into_iter().map(|(txn, participants, _)| (txn, participants)).collect();
    let stands = planted::is(Planted::IntentionUnconfirmed) || confirmed(cx, &asked).await;
    cx.with(|core| if stands { decide(core, cx.op(), txn) } else { undo(core, cx.op(), txn) });
    if cx.with(|core| mark::is_gated(core, cx.op())) {
        mark::pass(cx, None).await; // the names stay locked until readers of their directories find them changed
    }
}

/// Whether all who were asked have their promises on stable storage, once each of them has said so or no.
pub(crate) async fn confirmed(cx: &Cx, asked: &[(TxnId, Vec<ShardId>)]) -> bool {
    let (mut txns, mut peers) = (vec![], vec![]);
    for (txn, shards) in asked {
        txns.extend(shards.iter().map(|_| *txn));
        peers.extend(shards.iter().copied().map(NodeId::shard));
    }
    let mut txns = txns.into_iter();
    let answers = cx.call_all_when(&peers, Need::Nothing, u64::MAX, |core, _, seq| {
        core.state.peer_packet(seq, &Peer::Confirm { txn: txns.next().expect("one a peer") })
    });
    let stands = |answer: onpath_kernel::Answer| matches!(answer.packet().map(|p| p.body()), Some(Ok(Peer::Promised)));
    answers.await.into_iter().all(stands)
}

/// All promises are durable: what the intention says happens in one step.
fn decide(core: &mut Core, op: OpId, txn: TxnId) {
    let Some(promise) = core.state.txns.promise(txn).cloned() else { return };
    let attempts = core.state.txns.intention(txn);
    let decided = |(txn, participants, _): &(TxnId, Vec<ShardId>, _)| Effect::Decided {
        txn: *txn,
        participants: participants.iter().copied().collect(),
    };
    let mut effects: Effects = attempts.iter().map(decided).collect();
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    let mut dropped = None;
    for (part, state) in promise.parts.iter().zip(&promise.states) {
        dropped = dropped.or(carry_out(core, part, state, stamp, &mut effects));
    }
    commit_own(core, op, effects);
    drop_data(core, dropped);
    over(core, txn, &promise);
    attempts.into_iter().for_each(|(txn, ..)| core.start(Job::Finish(txn)));
}

/// A participant has lost its promise: nothing happens, and whoever asks again for what was answered is executed anew.
fn undo(core: &mut Core, op: OpId, txn: TxnId) {
    let Some(promise) = core.state.txns.promise(txn).cloned() else { return };
    core.state.counters.intentions_undone += 1;
    let attempts = core.state.txns.intention(txn);
    let mut effects: Effects = vec![Effect::Aborted { txn }];
    if let Some(&(_, _, (session, request))) = attempts.first() {
        effects.push(Effect::Undone { session, request });
    }
    commit_own(core, op, effects);
    for (txn, participants, _) in attempts {
        participants.into_iter().for_each(|shard| packets::tell(core, op, shard, &Peer::Abort { txn }));
    }
    over(core, txn, &promise);
}
