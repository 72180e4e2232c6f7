//! The side that decides: Prepare, the votes, Commit until everybody has it (design.md, "Transactions", steps 2, 6, 9).

use super::{Kept, TxnId};
use crate::ops::{Req, Stop};
use crate::planted::{self, Planted};
use crate::state::commit::{Effects, commit_own};
use crate::state::{keys, packets};
use crate::{Core, Cx};
use onpath_kernel::{Need, OpId};
use onpath_wire::disk::record::Effect;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, ShardId, Term};
use onpath_wire::limits::{RECALL_TIMEOUT_US, TXN_ATTEMPTS_MAX, TXN_BACKOFF_US, TXN_BACKOFF_US_MAX};
use onpath_wire::peer::{PartState, Peer, TxnPart};
use onpath_wire::reply::OtherRecord;
use smallvec::SmallVec;

/// What is asked of whom.
pub(crate) type Plan = Vec<(ShardId, Vec<TxnPart>)>;

/// Why an attempt does not go on.
pub(crate) enum Refusal {
    /// Somebody was busy: from the start, after a pause.
    Busy,
    /// The operation fails, or needs to know more.
    Stop(Stop),
}

/// A new attempt of an operation. From the second one on, recalls of the directories it rests on wait for its end: else
/// readers, each of which takes the parts back, could starve it for ever. They wait for answers to Prepares only.
pub(crate) fn begin(core: &mut Core, attempt: u32, dirs: &[InodeId]) -> TxnId {
    core.state.counters.txns += 1;
    let me = core.state.me();
    core.state
        .txns
        .begin(me, if attempt == 0 || planted::is(Planted::AttemptWithoutParts) { Kept::new() } else { dirs.into() })
}

/// Recalls that waited for an attempt which is over go on.
pub(crate) fn let_go(core: &mut Core) {
    for dir in core.state.txns.take_let_go() {
        core.wake(keys::doubt(dir));
        core.wake(keys::grants(dir));
    }
}

/// What participants have answered who all promise.
pub(crate) struct Voted {
    /// What they have found, in the plan's order.
    pub(crate) states: Vec<Vec<PartState>>,
    /// Promises that may not be durable yet.
    pub(crate) unsure: SmallVec<[OtherRecord; 2]>,
}

/// Asks all participants of a plan; their votes, or what the first refusal means. On a refusal everybody asked has been told to forget the
/// attempt. If that may be `early`, who was heard in its present term answers before its promise is durable; a question that asks for
/// no more than that rests on nothing, since such a promise binds nobody.
pub(crate) async fn prepare(cx: &Cx, req: &Req, txn: TxnId, plan: &Plan, early: bool) -> Result<Voted, Refusal> {
    let peers: Vec<NodeId> = plan.iter().map(|(shard, _)| NodeId::shard(*shard)).collect();
    let deadline_us = cx.with(|core| core.now.mono_us) + RECALL_TIMEOUT_US;
    let early_in = |core: &Core, shard| if early { core.state.early_in(shard) } else { Term(0) };
    let terms: SmallVec<[Term; 3]> = cx.with(|core| plan.iter().map(|(shard, _)| early_in(core, *shard)).collect());
    let need = if terms.contains(&Term(0)) { Need::ByDestination } else { Need::Nothing };
    let mut questions = plan.iter().map(|(_, parts)| parts.clone()).zip(terms.clone());
    let answers = cx
        .call_all_when(&peers, need, deadline_us, |core, _, seq| {
            let oldest_unfinished = core.state.txns.oldest_unfinished();
            let stamp = core.state.clock.last();
            let (parts, early) = questions.next().expect("one a peer");
            let prepare = Peer::Prepare { txn, oldest_unfinished, stamp, caller: req.caller.clone(), parts, early };
            core.state.peer_packet(seq, &prepare)
        })
        .await;
    let mut voted = Voted { states: Vec::with_capacity(plan.len()), unsure: SmallVec::new() };
    let (mut refusal, mut by_source) = (None, false);
    for ((answer, (shard, parts)), early) in answers.into_iter().zip(plan).zip(terms) {
        let refused = match answer.packet().and_then(|p| p.body::<Peer>().ok()) {
            Some(Peer::Prepared { states: found, record }) if answers_all(parts, &found) => {
                voted.states.push(found);
                let unsure = (early != Term(0)).then_some(OtherRecord { shard: *shard, record });
                voted.unsure.extend(unsure);
                continue;
            }
            Some(Peer::No { errno }) => Refusal::Stop(errno.into()),
            Some(Peer::NeedCaller { gids, caps }) => Refusal::Stop(Stop::NeedCaller { gids: gids.into(), caps }),
            _ => Refusal::Busy,
        };
        // rename(2) looks for its source first: what becomes of that counts before all else.
        let source = parts.iter().any(|part| matches!(part, TxnPart::Source { .. } | TxnPart::Swap { .. }));
        let counts = match (&refusal, &refused) {
            (None, _) => true,
            (Some(_), Refusal::Stop(_)) => source || !by_source,
            (Some(_), Refusal::Busy) => source,
        };
        if counts {
            (refusal, by_source) = (Some(refused), source);
        }
    }
    match refusal {
        None => Ok(voted),
        Some(refusal) => {
            cx.with(|core| abort(core, cx.op(), txn, plan));
            Err(refusal)
        }
    }
}

/// Whether a participant has told of each part what was asked.
fn answers_all(parts: &[TxnPart], states: &[PartState]) -> bool {
    let fits = |(part, state): (&TxnPart, &PartState)| match (part, state) {
        (TxnPart::Inode { id, .. }, PartState::Inode { attr, .. }) => attr.id == *id,
        (TxnPart::Source { .. } | TxnPart::Swap { .. }, PartState::Source { child, .. }) => child.is_some(),
        _ => false,
    };
    parts.len() == states.len() && parts.iter().zip(states).all(fits)
}

/// Whether a participant's refusal rests on the directory as it was when it was asked. That may be over: the parts of a first attempt
/// can be taken back. Later attempts keep them.
pub(crate) fn is_outdated(stop: &Stop, attempt: u32, plan: &Plan) -> bool {
    let told = |part: &TxnPart| matches!(part, TxnPart::Inode { sticky: Some(_), .. });
    attempt == 0 && matches!(stop, Stop::Errno(Errno::EPERM)) && plan.iter().flat_map(|(_, parts)| parts).any(told)
}

/// Tells everybody asked to forget the attempt.
pub(crate) fn abort(core: &mut Core, op: OpId, txn: TxnId, plan: &Plan) {
    core.state.txns.end(txn);
    let_go(core);
    for (shard, _) in plan {
        packets::tell(core, op, *shard, &Peer::Abort { txn });
    }
}

/// The effect that makes an attempt's outcome durable at its coordinator.
pub(crate) fn decision(txn: TxnId, plan: &Plan) -> Effect {
    let participants: SmallVec<[ShardId; 3]> = plan.iter().map(|(shard, _)| *shard).collect();
    Effect::Decided { txn, participants }
}

/// A pause after attempt number `attempt` met somebody busy; EBUSY after too many.
pub(crate) async fn back_off(cx: &Cx, attempt: u32) -> Result<(), Stop> {
    if attempt >= TXN_ATTEMPTS_MAX {
        return Err(Errno::EBUSY.into());
    }
    let pause_us = (TXN_BACKOFF_US << attempt.min(16)).min(TXN_BACKOFF_US_MAX);
    let now_us = cx.with(|core| {
        core.state.counters.txn_busy += 1;
        core.now.mono_us
    });
    cx.sleep_until(now_us + pause_us).await;
    Ok(())
}

/// Repeats Commit until all participants have acknowledged it, then forgets the transaction.
pub(crate) async fn finish(cx: &Cx, txn: TxnId) {
    let peers: Vec<NodeId> = cx.with(|core| {
        let all = core.state.record_seq; // Commit rests on the decision
        core.rest_on(cx.op(), all);
        let_go(core);
        core.state.txns.participants(txn).into_iter().map(NodeId::shard).collect()
    });
    cx.call_all(&peers, u64::MAX, |core, _, seq| core.state.peer_packet(seq, &Peer::Commit { txn })).await;
    cx.with(|core| {
        if core.state.txns.is_decided(txn) {
            let effects: Effects = vec![Effect::Forgotten { txn }];
            commit_own(core, cx.op(), effects);
        }
        core.wake(keys::RENAME_TURN);
    });
}

/// A participant asks what became of an attempt: undecided is no answer, unknown is Abort.
pub(crate) fn asked(cx: &Cx, from: ShardId, txn: TxnId) {
    cx.with(|core| {
        if txn.coordinator != core.state.me() || core.state.txns.is_active(txn) {
            return;
        }
        if core.state.txns.is_decided(txn) {
            let all = core.state.record_seq;
            core.rest_on(cx.op(), all);
            packets::tell(core, cx.op(), from, &Peer::Decided { txn });
        } else {
            packets::tell(core, cx.op(), from, &Peer::Abort { txn });
        }
    });
}

/// The coordinator module asks whether a directory rename of ours is over.
pub(crate) async fn over(cx: &Cx, from: ShardId, seq: RequestSeq, txn: TxnId) {
    cx.until(keys::RENAME_TURN, |core| {
        let term = core.state.config.term;
        let over = !core.state.txns.is_active(txn) && !core.state.txns.former_decisions(term);
        over.then_some(())
    })
    .await;
    cx.with(|core| packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &Peer::Done));
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::AttrWire;
    use onpath_wire::disk::inode::Inode;
    use onpath_wire::inode::Kind;
    use onpath_wire::name::Name;
    use onpath_wire::peer::InodeChange;
    use onpath_wire::reply::DataRef;

    /// What does not answer the question is no vote: there was one that made the coordinator of a rename panic.
    #[test]
    fn a_vote_tells_of_each_part() {
        let id = InodeId(7);
        let name = Name::new(b"n").unwrap();
        let source = TxnPart::Source {
            parent: InodeId::ROOT,
            name: name.clone(),
            to: InodeId::ROOT,
            to_name: name,
            unless: None,
        };
        let inode = TxnPart::Inode { id, change: InodeChange::Link { parent: InodeId::ROOT }, sticky: None };
        let found = PartState::Source { child: id, kind: Kind::File, sticky: None };
        let attr = |id| AttrWire::of(&Inode::new(id, Kind::File));
        let there = PartState::Inode { attr: attr(id), data: DataRef::default() };
        let other = PartState::Inode { attr: attr(InodeId(8)), data: DataRef::default() };
        let nothing = PartState::Source { child: InodeId::NONE, kind: Kind::File, sticky: None };
        let parts = [source, inode];
        assert!(answers_all(&parts, &[found.clone(), there.clone()]));
        assert!(answers_all(&[], &[]));
        for wrong in [
            vec![],
            vec![found.clone()],
            vec![there.clone(), found.clone()],
            vec![found.clone(), other],
            vec![nothing, there.clone()],
            vec![found.clone(), there, found],
        ] {
            assert!(!answers_all(&parts, &wrong), "{wrong:?}");
        }
    }
}
