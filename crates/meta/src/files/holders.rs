//! Merge parts that this home has given, and the one way to take one back (V-1, V-3).
//!
//! While a data node has the part of a file it answers writes of it by itself, so that its home does not know size, times and set-id bits.
//! Whatever shows or changes one of them, and whatever gives the file another generation or cut, goes through [`revoke`] with the inode
//! locked. Parts are given with the inode locked for a change, so that none is given between a revocation and what it was made for. What the
//! data node hands over is applied without a lock: whoever waits for it has one. Volatile: a home that has started again takes everything back
//! that was given before, from each data node at once (V-3b).

use super::table::{self, Looked, Sees};
use super::{learn, policy};
use crate::ops::named;
use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::commit::commit_unasked;
use crate::state::{State, keys};
use crate::{Core, Cx};
use hashbrown::{HashMap, HashSet};
use onpath_kernel::Mode;
use onpath_wire::data::{Answered, DataReply, DataRequest, MergePart};
use onpath_wire::disk::record::{Counter, Effect};
use onpath_wire::ids::{InodeId, NodeId, RecordSeq, SessionId, Stamp};
use onpath_wire::limits::MERGE_PARTS_MAX;
use onpath_wire::tracking::Writes;
use std::collections::{BTreeSet, VecDeque};

/// A data node that makes no sense is asked again after so long, microseconds.
const PAUSE_US: u64 = 100_000;

/// The last part of a file that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lending {
    pub(crate) number: u64,
    /// To whom.
    pub(crate) session: SessionId,
    /// No other session had the file open: all that is answered by this part was written by this one, since whoever opens the file takes
    /// the part back.
    pub(crate) alone: bool,
    /// The file was made by the request that was answered with the part.
    pub(crate) at_birth: bool,
}

/// The parts that are given.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    files: HashMap<InodeId, Lending>,
    /// Those in the order of their numbers; some are not lent any more, or by a later number.
    order: VecDeque<(u64, InodeId)>,
    /// The last number given.
    number: u64,
    /// Files whose parts are being taken back.
    recalled: HashSet<InodeId>,
    /// Data nodes that may have parts of former terms.
    former: BTreeSet<NodeId>,
    /// The record that parts may be given, until it is durable.
    undurable: Option<RecordSeq>,
    /// Parts may be given.
    gives: bool,
}

impl Lent {
    /// How many files are lent, as far as this term knows.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether this term has lent the file.
    fn is_lent(&self, id: InodeId) -> bool {
        !self.files.is_empty() && self.files.contains_key(&id)
    }

    /// What is lent of a file.
    pub(crate) fn of(&self, id: InodeId) -> Option<Lending> {
        self.files.get(&id).copied()
    }

    fn has(&self, id: InodeId, number: u64) -> bool {
        self.files.get(&id).is_some_and(|lending| lending.number == number)
    }

    /// Records up to this one are durable.
    pub(crate) fn durable(&mut self, upto: RecordSeq) {
        if self.undurable.is_some_and(|record| record <= upto) {
            (self.undurable, self.gives) = (None, true);
        }
    }

    /// The file is not lent any more, if this was its last part.
    pub(crate) fn returned(&mut self, id: InodeId, number: u64) -> Option<Lending> {
        if self.has(id, number) { self.files.remove(&id) } else { None }
    }

    /// The inode is gone.
    pub(crate) fn forget(&mut self, id: InodeId) {
        if !self.files.is_empty() {
            self.files.remove(&id);
        }
    }
}

/// A start: what former terms may have given is taken back, and parts may be given once it is durable that they may have been.
pub(crate) fn begin(core: &mut Core) {
    let may_be_lent = core.state.reserved.upto(Counter::MergeParts) > 0;
    if may_be_lent {
        let nodes: Vec<NodeId> = core.state.config.map.data_nodes().collect();
        core.state.lent.former.extend(&nodes);
        nodes.into_iter().for_each(|node| core.start(Job::TakeBackAll(node)));
    }
    if !core.state.config.writes.lends() {
        return;
    }
    core.state.lent.gives = may_be_lent;
    if !may_be_lent {
        commit_unasked(core, Effect::Reserved { counter: Counter::MergeParts, upto: 1 });
        core.state.lent.undurable = Some(core.state.record_seq);
    }
}

/// Gives the part of a file, whose inode is locked for a change or not seen yet, to a session; none if there are too many.
pub(crate) fn give(core: &mut Core, id: InodeId, session: SessionId, at_birth: bool) -> Option<MergePart> {
    let alone = at_birth || !core.state.opens.may_be_shared(id, session);
    let lent = &mut core.state.lent;
    if !lent.gives {
        return None;
    }
    if lent.files.len() >= MERGE_PARTS_MAX && !lent.files.contains_key(&id) {
        while let Some((number, oldest)) = lent.order.pop_front() {
            if lent.has(oldest, number) {
                core.start(Job::TakeBack(oldest));
                break;
            }
        }
        return None;
    }
    lent.number += 1;
    lent.files.insert(id, Lending { number: lent.number, session, alone, at_birth });
    lent.order.push_back((lent.number, id));
    if lent.order.len() > 2 * MERGE_PARTS_MAX {
        let Lent { order, files, .. } = lent;
        order.retain(|(number, id)| files.get(id).is_some_and(|lending| lending.number == *number));
    }
    core.state.counters.merge_parts_given += 1;
    Some(MergePart { stamp: core.state.clock.last(), ..last(&core.state) })
}

/// The part that was given last.
pub(crate) fn last(state: &State) -> MergePart {
    let two_phase = state.config.writes == Writes::TwoPhase;
    MergePart { term: state.config.term, number: state.lent.number, stamp: Stamp(0), two_phase }
}

/// Whether a file may be lent: what its inode says is not all.
pub(crate) fn is_lent(state: &State, id: InodeId) -> bool {
    if planted::is(Planted::ShownWithoutRecall) {
        return false;
    }
    state.lent.is_lent(id) || may_be_of_former_term(state, id)
}

/// Whether more may have returned of a file than its home knows. In two phases what its writer has not brought here has not returned.
pub(crate) fn hides(state: &State, id: InodeId) -> bool {
    is_lent(state, id) && (state.config.writes != Writes::TwoPhase || may_be_of_former_term(state, id))
}

/// Whether a data node may have a part of a file from a former term.
pub(crate) fn may_be_of_former_term(state: &State, id: InodeId) -> bool {
    let lent = &state.lent;
    !lent.former.is_empty() && !state.births.is_new(id) && lent.former.contains(&state.config.map.data(id))
}

/// Whether all that may be answered of a file by its part was written by this session.
pub(crate) fn is_writer_alone(state: &State, id: InodeId, session: SessionId) -> bool {
    let alone = |lending: Lending| lending.alone && lending.session == session || planted::is(Planted::WriterNotAlone);
    state.lent.of(id).is_some_and(alone) && !may_be_of_former_term(state, id)
}

/// After this, and as long as the caller has the inode locked, nobody but its home answers writes of a file, and all that were answered are
/// learned.
pub(crate) async fn revoke(cx: &Cx, id: InodeId) {
    let lending = cx.with(|core| core.state.lent.of(id));
    if take_back(cx, id).await {
        cx.with(|core| policy::recalled(core, id, lending));
    }
}

/// After this a file that is locked is exact for who only shows it: what has been answered before the reader asked is learned, and the part
/// stays where it is if the table of a switch tells what is pending (V-9).
pub(crate) async fn show(cx: &Cx, id: InodeId, looked: &Looked) {
    let sees = cx.with(|core| table::sees(core, cx, id, looked));
    match sees {
        Sees::All => {}
        Sees::Collect => Box::pin(collect(cx, id)).await,
        Sees::Recall => revoke(cx, id).await,
    }
}

/// Learns what a data node has answered, which keeps the part of the file.
async fn collect(cx: &Cx, id: InodeId) {
    cx.until(keys::FORMER_PARTS, |core| (!may_be_of_former_term(&core.state, id)).then_some(())).await;
    let node = cx.with(|core| {
        core.state.counters.merge_parts_collected += 1;
        core.state.config.map.data(id)
    });
    let (all, _) = handed_over(cx, node, &DataRequest::Collect { inode: id }).await;
    cx.with(|core| {
        learn::learn_all(core, cx, &all);
        core.rest_on_object(cx.op(), keys::inode(id));
    });
}

/// Another session has opened a file: not all that is answered from now on is by the one that has made or written it.
pub(crate) fn opened(core: &mut Core, id: InodeId, session: SessionId) {
    if let Some(lending) = core.state.lent.files.get_mut(&id) {
        lending.alone &= lending.session == session;
    }
}

/// The same for who does not speak against lending the file again; whether it was lent.
pub(crate) async fn take_back(cx: &Cx, id: InodeId) -> bool {
    let lent = cx.with(|core| !id.is_directory() && is_lent(&core.state, id));
    if lent {
        Box::pin(ask_back(cx, id)).await;
    }
    lent
}

async fn ask_back(cx: &Cx, id: InodeId) {
    cx.until(keys::FORMER_PARTS, |core| (!may_be_of_former_term(&core.state, id)).then_some(())).await;
    loop {
        let look = |core: &mut Core| {
            let state = &mut core.state;
            if !state.lent.is_lent(id) {
                return Some(None);
            }
            state.lent.recalled.insert(id).then(|| Some(last(state)))
        };
        let Some(floor) = cx.until(keys::parts(id), look).await else { break };
        let node = cx.with(|core| {
            core.state.counters.merge_parts_recalled += 1;
            core.state.config.map.data(id)
        });
        let (all, _) = handed_over(cx, node, &DataRequest::HandOver { inode: id, floor }).await;
        cx.with(|core| {
            core.state.lent.recalled.remove(&id);
            learn::learn_all(core, cx, &all);
            let taken = core.state.lent.of(id).filter(|lending| lending.number <= floor.number);
            taken.into_iter().for_each(|lending| _ = core.state.lent.returned(id, lending.number));
            core.wake(keys::parts(id));
        });
    }
    // What was learned may have been learned after the lock was taken.
    cx.with(|core| core.rest_on_object(cx.op(), keys::inode(id)));
}

/// What a data node hands over, and where the rest begins. One whose answer makes no sense is asked again, a little later.
async fn handed_over(cx: &Cx, node: NodeId, request: &DataRequest) -> (Vec<Answered>, Option<InodeId>) {
    loop {
        let answer = cx.call(node, |core, seq| core.state.data_packet(seq, request)).await;
        if let Ok(DataReply::HandedOver { all, more }) = answer.body() {
            return (all, more);
        }
        let again_us = cx.with(|core| core.now.mono_us) + PAUSE_US;
        cx.sleep_until(again_us).await;
    }
}

/// Takes everything back that former terms have given to a data node.
pub(crate) async fn take_back_all(cx: &Cx, node: NodeId) {
    let (floor, mut from) = (cx.with(|core| MergePart { number: 0, ..last(&core.state) }), InodeId::NONE);
    loop {
        let (all, more) = handed_over(cx, node, &DataRequest::HandOverAll { floor, from }).await;
        cx.with(|core| learn::learn_all(core, cx, &all));
        match more {
            Some(next) if next > from => from = next,
            _ => break,
        }
    }
    cx.with(|core| {
        core.state.lent.former.remove(&node);
        core.wake(keys::FORMER_PARTS);
    });
}

/// Takes the part of one file back that nobody has asked about.
pub(crate) async fn take_back_one(cx: &Cx, id: InodeId) {
    named::lock_inode(cx, id, Mode::Shared).await;
    take_back(cx, id).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Schedule G15.
    #[test]
    fn a_part_that_is_given_back_counts_if_it_was_the_last() {
        let mut lent = Lent::default();
        let lending = Lending { number: 5, session: SessionId(1), alone: false, at_birth: false };
        lent.files.insert(InodeId(7), lending);
        assert_eq!((lent.returned(InodeId(7), 4), lent.of(InodeId(7))), (None, Some(lending)));
        assert_eq!((lent.returned(InodeId(7), 5), lent.len()), (Some(lending), 0));
    }

    #[test]
    fn nothing_is_given_before_it_is_durable_that_it_may_have_been() {
        let mut lent = Lent { undurable: Some(RecordSeq(8)), ..Lent::default() };
        lent.durable(RecordSeq(7));
        assert!(!lent.gives);
        lent.durable(RecordSeq(8));
        assert!(lent.gives && lent.undurable.is_none());
    }
}
