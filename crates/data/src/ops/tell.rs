//! What homes learn of writes that this node has answered, and how they take merge parts back (V-3).
//!
//! A home is told a moment after the write, of all writes of a file together, again and again until it answers: then they are settled. A
//! part that was not used for a while is given back, so that a file at rest is not lent. Questions of homes are answered at once, whatever is
//! under way. Locks: none. Journals `Settled`, in time.

use crate::ops::merge;
use crate::parts;
use crate::planted::{self, Planted};
use crate::state::{self, Caller, Node, NodeCx};
use bytes::Bytes;
use onpath_kernel::Need;
use onpath_wire::Packet;
use onpath_wire::data::{Answered, DataReply, Merge, MergePart};
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{DataId, InodeId, NodeId, RecordSeq, RequestSeq, ShardId, Term};
use onpath_wire::peer::Peer;

/// Writes of a file are gathered for so long, microseconds.
const GATHER_US: u64 = 10_000;
/// After so long without a write a part is given back, microseconds.
const IDLE_US: u64 = 1_000_000;

fn packet(core: &mut Node, call: RequestSeq, inode: Option<InodeId>, body: &Merge) -> Packet {
    let wall_ns = core.now.wall_ns;
    let mut header = core.state.header(MessageKind::Data, call, wall_ns);
    if let Some(inode) = inode {
        header.slot = inode.slot();
    }
    Packet::new(&header, body)
}

/// Tells the home of a file what it has yet to learn, until there is nothing more.
pub(crate) async fn tell(cx: &NodeCx, inode: InodeId) {
    loop {
        let until_us = cx.with(|core| core.now.mono_us) + GATHER_US;
        cx.sleep_until(until_us).await;
        let next = cx.with(|core| {
            let next = parts::unlearned(core, inode).first().copied();
            match &next {
                Some(all) => {
                    let last = core.state.tail.last(inode).max(RecordSeq(all.last.0));
                    core.rest_on(cx.op(), last);
                }
                None => core.state.parts.end_telling(inode),
            }
            next
        });
        let Some(all) = next else { return };
        let home = cx.with(|core| NodeId::shard(core.state.config.map.home(inode)));
        let body = Merge::Answered { all };
        let answer = cx.call(home, |core, call| packet(core, call, Some(inode), &body)).await;
        cx.with(|core| {
            merge::hear(core, all.data, &answer);
            learned(core, &all);
        });
    }
}

/// A home has learned these writes.
fn learned(core: &mut Node, all: &Answered) {
    let records = core.state.parts.learned(all.data.inode, all.last);
    let merges = &core.state.index.range(all.data.inode).merges;
    let there: Vec<RecordSeq> = records.into_iter().filter(|seq| merges.contains_key(seq)).collect();
    there.into_iter().for_each(|seq| merge::settle_later(core, seq));
}

/// Gives back what is not used, and tells homes up to where they have learned all, as long as there is something.
pub(crate) async fn sweep(cx: &NodeCx) {
    loop {
        let since_us = cx.with(|core| core.now.mono_us);
        cx.sleep_until(since_us + IDLE_US).await;
        let (due, homes) = cx.with(|core| {
            let state = &mut core.state;
            let map = &state.config.map;
            let due = state.parts.due(since_us, &state.index, |inode| map.home(inode));
            (due, map.all().collect::<Vec<ShardId>>())
        });
        for (data, part) in due.idle {
            let home = cx.with(|core| NodeId::shard(core.state.config.map.home(data.inode)));
            let body = Merge::Returned { data, part };
            cx.call(home, |core, call| packet(core, call, Some(data.inode), &body)).await;
        }
        if let Some(upto) = due.floor {
            for home in homes {
                cx.call(NodeId::shard(home), |core, call| packet(core, call, None, &Merge::Floor { upto })).await;
            }
        }
        if due.over {
            return;
        }
    }
}

/// Asks a home which part it has given last: what it gave to a former process of this node counts no more (V-3a).
pub(crate) async fn ask_part(cx: &NodeCx, home: ShardId) {
    let answer = cx.call(NodeId::shard(home), |core, call| packet(core, call, None, &Merge::PartAsk)).await;
    if let Ok(Peer::PartIs { part }) = answer.body::<Peer>() {
        cx.with(|core| core.state.parts.raise_floor(home, part));
    }
}

/// A home takes the part of a file back.
pub(crate) fn hand_over(core: &mut Node, from: Caller, inode: InodeId, floor: MergePart) {
    let Some(home) = home_of(core, from) else { return };
    core.state.parts.give_back(home, inode, floor);
    let mut all = parts::unlearned(core, inode);
    if planted::is(Planted::HandsOverNothing) {
        all.clear();
    }
    let last = core.state.tail.last(inode);
    state::answer(core, from, &DataReply::HandedOver { all, more: None }, Bytes::new(), last, Need::ByDestination);
}

/// A home that has started again takes all parts of its former terms back.
pub(crate) fn hand_over_all(core: &mut Node, from: Caller, term: Term, begin: InodeId) {
    let Some(home) = home_of(core, from) else { return };
    let map = core.state.config.map.clone();
    core.state.parts.give_back_all(home, term, |inode| map.home(inode) == home);
    let (all, more) = parts::unlearned_by(core, home, begin);
    let last = core.state.index.last;
    state::answer(core, from, &DataReply::HandedOver { all, more }, Bytes::new(), last, Need::ByDestination);
}

fn home_of(core: &mut Node, from: Caller) -> Option<ShardId> {
    let home = from.node.as_shard();
    core.state.counters.rejected += u64::from(home.is_none());
    home
}

/// Answers a write by the merge part of its file; whoever asks the home from now on is shown it.
pub(crate) fn answer(core: &mut Node, from: Caller, data: DataId, seq: RecordSeq) {
    core.state.counters.answered += 1;
    let last = core.state.tail.last(data.inode).max(seq);
    let record = if core.state.config.outlived { last } else { RecordSeq(0) };
    state::answer(core, from, &DataReply::Written { record }, Bytes::new(), last, Need::AsForClient);
}
