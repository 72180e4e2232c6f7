//! Merge: the home of a file hears of a write, again and again until it answers (design.md, "Data").
//!
//! So a crashed session leaves nothing half known. What a home has answered is recorded, many writes in one `Settled`;
//! after a restart the others are told again, which the home recognizes by (session, request), or by when they were recorded if it
//! does not know the session any more. Where a power loss has taken
//! blocks that the home counts, it hears of that too. A home that has itself forgotten the generation answers *void*.
//! Locks: none.

use crate::ops::trim;
use crate::state::{self, Node, NodeCx, SETTLE_AFTER_US, SETTLE_BATCH};
use onpath_kernel::Need;
use onpath_wire::Packet;
use onpath_wire::data::{Merge, Recorded, UndoneAppend};
use onpath_wire::disk::block::{DataRecord, PendingMerge};
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{DataId, NodeId, RecordSeq, RequestSeq};
use onpath_wire::peer::Peer;

/// Tells the home of the write of record `seq`, and then the write is over.
pub(crate) async fn tell(cx: &NodeCx, seq: RecordSeq, merge: PendingMerge, again: Option<Recorded>) {
    let inode = merge.data.inode;
    let (home, beside) = cx.with(|core| {
        let last = core.state.tail.last(inode);
        core.rest_on(cx.op(), last.max(seq));
        (NodeId::shard(core.state.config.map.home(inode)), core.state.parts.begin_chain(inode))
    });
    // The size must not move over bytes of an append that a power loss takes: it would leave a gap, and they would go
    // elsewhere when their session writes them again.
    let need = if merge.append.is_some() { Need::AsForClient } else { Need::ByDestination };
    let answer = cx.call_when(home, need, |core, call| packet(core, call, &merge, again, beside)).await;
    cx.with(|core| {
        hear(core, merge.data, &answer);
        if core.state.parts.end_chain(inode) {
            core.wake(state::cut_key(inode));
        }
        let state = &mut core.state;
        state.running.remove(&(merge.session, merge.request));
        if state.index.range(merge.data.inode).merges.contains_key(&seq) {
            settle_later(core, seq);
        } // else it was settled before, and this was for a duplicate
    });
}

/// The home knows the write of this record: that will be recorded.
pub(crate) fn settle_later(core: &mut Node, seq: RecordSeq) {
    let now_us = core.now.mono_us;
    let state = &mut core.state;
    state.settled.push(seq);
    state.settle_at_us.get_or_insert(now_us + SETTLE_AFTER_US);
    if state.settled.len() >= SETTLE_BATCH {
        settle(core);
    }
}

/// Tells the home how many blocks a file has, some of which a power loss has taken, and which appends are undone.
pub(crate) async fn recount(cx: &NodeCx, data: DataId, undone: Vec<UndoneAppend>) {
    let home = cx.with(|core| {
        let last = core.state.tail.last(data.inode);
        core.rest_on(cx.op(), last);
        NodeId::shard(core.state.config.map.home(data.inode))
    });
    let make = |core: &mut Node, call| {
        let wall_ns = core.now.wall_ns;
        let state = &mut core.state;
        let mut header = state.header(MessageKind::Data, call, wall_ns);
        header.slot = data.inode.slot();
        let (blocks, version) = (state.index.blocks_of(data), state.index.last.0);
        Packet::new(&header, &Merge::Counted { data, blocks, version, undone })
    };
    let answer = cx.call(home, make).await;
    cx.with(|core| hear(core, data, &answer));
}

/// A home that has forgotten the generation says so.
pub(crate) fn hear(core: &mut Node, data: DataId, answer: &Packet) {
    if answer.body::<Peer>() == Ok(Peer::Void) {
        trim::void(core, data);
    }
}

fn packet(core: &mut Node, call: RequestSeq, merge: &PendingMerge, again: Option<Recorded>, beside: bool) -> Packet {
    let state = &mut core.state;
    let mut header = state.header(MessageKind::Data, call, core.now.wall_ns);
    header.slot = merge.data.inode.slot();
    let body = Merge::Written {
        data: merge.data,
        cut: merge.cut,
        end: merge.end,
        blocks: state.index.blocks_of(merge.data),
        version: state.index.last.0,
        session: merge.session,
        request: merge.request,
        oldest: merge.oldest,
        kill_suidgid: merge.kill_suidgid,
        append: merge.append,
        again,
        beside,
    };
    Packet::new(&header, &body)
}

/// Records which homes have answered.
pub(crate) fn settle(core: &mut Node) {
    core.state.settle_at_us = None;
    let merges = std::mem::take(&mut core.state.settled);
    if !merges.is_empty() {
        state::record(core, &DataRecord::Settled { merges });
    }
}
