//! What homes learn of writes that this node has answered, and how they take merge parts back (V-3).
//!
//! A home is told a moment after the write, of all writes of all its files together, again and again until it answers: then they are settled
//! (V-12). A part that was not used for a while is given back, so that a file at rest is not lent. Questions of homes are answered at once, whatever is
//! under way. Locks: none. Journals `Settled`, in time.

use crate::ops::merge;
use crate::parts;
use crate::planted::{self, Planted};
use crate::state::{self, Caller, Node, NodeCx, State};
use bytes::Bytes;
use onpath_kernel::Need;
use onpath_wire::Packet;
use onpath_wire::data::{Answered, DataReply, Merge, MergePart};
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{InodeId, NodeId, RecordSeq, RequestSeq, ShardId, TrackingEpoch};
use onpath_wire::limits::{COLLECTED_MAX, HANDED_OVER_MAX};
use onpath_wire::peer::Peer;

/// Writes are gathered for so long, microseconds.
const GATHER_US: u64 = 10_000;
/// After so long without a write a part is given back, microseconds.
const IDLE_US: u64 = 1_000_000;

fn packet(core: &mut Node, call: RequestSeq, body: &Merge) -> Packet {
    let wall_ns = core.now.wall_ns;
    let header = core.state.header(MessageKind::Data, call, wall_ns);
    Packet::new(&header, body)
}

/// Tells a home what it has yet to learn, of many files together, until there is nothing more.
pub(crate) async fn tell(cx: &NodeCx, home: ShardId) {
    let deferred = cx.with(|core| core.state.config.deferred);
    let files = if deferred { HANDED_OVER_MAX } else { 1 };
    loop {
        if deferred {
            let until_us = cx.with(|core| core.now.mono_us) + GATHER_US;
            cx.sleep_until(until_us).await;
        }
        loop {
            let (mut all, more) = cx.with(|core| {
                let (all, more) = parts::unlearned_by(core, home, InodeId::NONE, files);
                if all.is_empty() {
                    core.state.parts.end_telling(home);
                }
                (all, more)
            });
            if all.is_empty() {
                return;
            }
            // One file that was cut again and again may have more: those of its last cuts come next.
            let is_rest = more.is_some() || all.len() > HANDED_OVER_MAX;
            all.truncate(HANDED_OVER_MAX);
            tell_of(cx, home, all).await;
            if !is_rest {
                break;
            }
        }
    }
}

async fn tell_of(cx: &NodeCx, home: ShardId, all: Vec<Answered>) {
    let mut untold = vec![all];
    while let Some(all) = untold.pop() {
        cx.with(|core| {
            let tail = &core.state.tail;
            let last = all.iter().map(|of| tail.last(of.data.inode).max(RecordSeq(of.last.0))).max();
            core.rest_on(cx.op(), last.expect("writes of one file at least"));
        });
        let body = Merge::Answered { all };
        let answer = cx.call_when(NodeId::shard(home), Need::InTime, |core, call| packet(core, call, &body)).await;
        let Merge::Answered { all } = body else { unreachable!("made above") };
        if all.len() > 1 && answer.body::<Peer>() == Ok(Peer::Void) {
            untold.extend(all.into_iter().map(|alone| vec![alone]));
            continue;
        }
        cx.with(|core| {
            merge::hear(core, all[0].data, &answer);
            all.iter().for_each(|of| learned(core, of));
        });
    }
}

/// A home has learned these writes.
fn learned(core: &mut Node, all: &Answered) {
    let State { parts, index, .. } = &mut core.state;
    let records = parts.learned(index, all.data.inode, all.last);
    let merges = &index.range(all.data.inode).merges;
    let there: Vec<RecordSeq> = records.into_iter().filter(|seq| merges.contains_key(seq)).collect();
    there.into_iter().for_each(|seq| merge::settle_later(core, seq));
    core.wake(state::cut_key(all.data.inode));
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
        for (home, idle) in due.idle {
            for parts in idle.chunks(HANDED_OVER_MAX) {
                let body = Merge::Returned { parts: parts.to_vec() };
                cx.call(NodeId::shard(home), |core, call| packet(core, call, &body)).await;
            }
        }
        if let Some(upto) = due.floor {
            for home in homes {
                cx.call(NodeId::shard(home), |core, call| packet(core, call, &Merge::Floor { upto })).await;
            }
        }
        if due.over {
            return;
        }
    }
}

/// Asks a home which part it has given last: what it gave to a former process of this node counts no more (V-3a).
pub(crate) async fn ask_part(cx: &NodeCx, home: ShardId) {
    let answer = cx.call(NodeId::shard(home), |core, call| packet(core, call, &Merge::PartAsk)).await;
    if let Ok(Peer::PartIs { part }) = answer.body::<Peer>() {
        cx.with(|core| core.state.parts.gave(home, part));
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
pub(crate) fn hand_over_all(core: &mut Node, from: Caller, floor: MergePart, begin: InodeId) {
    let Some(home) = home_of(core, from) else { return };
    let map = core.state.config.map.clone();
    core.state.parts.give_back_all(home, floor, |inode| map.home(inode) == home);
    let (all, more) = parts::unlearned_by(core, home, begin, HANDED_OVER_MAX);
    let last = core.state.index.last;
    state::answer(core, from, &DataReply::HandedOver { all, more }, Bytes::new(), last, Need::ByDestination);
}

fn home_of(core: &mut Node, from: Caller) -> Option<ShardId> {
    let home = from.node.as_shard();
    core.state.counters.rejected += u64::from(home.is_none());
    home
}

/// A home wants to know what it has yet to learn of a file, whose part stays here.
pub(crate) fn collect(core: &mut Node, from: Caller, inode: InodeId) {
    if home_of(core, from).is_none() {
        return;
    }
    let (all, last) = (parts::unlearned(core, inode), core.state.tail.last(inode));
    state::answer(core, from, &DataReply::HandedOver { all, more: None }, Bytes::new(), last, Need::ByDestination);
}

/// The same of many files, as far as an answer has room for them.
pub(crate) fn collect_many(core: &mut Node, from: Caller, inodes: &[InodeId]) {
    if home_of(core, from).is_none() {
        return;
    }
    if inodes.len() > COLLECTED_MAX || !inodes.is_sorted_by(|one, other| one < other) {
        core.state.counters.rejected += 1;
        return;
    }
    let (mut all, mut last, mut more) = (Vec::new(), RecordSeq(0), None);
    for &inode in inodes {
        let of_file = parts::unlearned(core, inode);
        if all.len() + of_file.len() > HANDED_OVER_MAX {
            more = Some(inode);
            break;
        }
        all.extend(of_file);
        last = last.max(core.state.tail.last(inode));
    }
    state::answer(core, from, &DataReply::HandedOver { all, more }, Bytes::new(), last, Need::ByDestination);
}

/// Asks the coordinator how files are tracked, after a start or when an epoch has no more positions.
pub(crate) async fn ask_tracking(cx: &NodeCx, used_up: TrackingEpoch) {
    let coordinator = cx.with(|core| NodeId::shard(core.state.config.map.coordinator()));
    let term = cx.with(|core| core.state.config.term);
    let answer = cx.call(coordinator, |core, call| packet(core, call, &Merge::TrackAsk { term, used_up })).await;
    let tracking = match answer.body::<Peer>() {
        Ok(Peer::TrackingIs { tracking }) => Some(tracking),
        _ => None,
    };
    cx.with(|core| core.state.table.heard(tracking));
}
