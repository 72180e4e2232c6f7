//! What a home learns of writes that a data node has answered.
//!
//! Positions make it learn each write once, whoever brings it: the data node in time, a part that is given back, or both (V-5). Several
//! writes of a file come as one and are one record. mtime = ctime = the highest stamp of the data node, after all that was shown
//! before (V-5).

use super::holders;
use crate::ops;
use crate::state::commit::commit_own;
use crate::state::packets;
use crate::{Core, Cx};
use onpath_wire::data::{Answered, MergePart};
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::{DataId, LogSeq, NodeId, RequestSeq};
use onpath_wire::inode::Kind;
use onpath_wire::peer::Peer;

/// Learns what of these writes, which came with parts that are given back, is not known yet. The data node tells of them once more.
pub(super) fn learn_all(core: &mut Core, cx: &Cx, all: &[Answered]) {
    for writes in all {
        if ops::merge::has_place(core, writes.data) {
            learn(core, cx, writes);
        }
    }
}

/// Learns what of these writes is not known yet. Those of a file that is gone are over, and those of bytes that this home has not are lost
/// with what a power loss has taken from it.
pub(crate) fn learn(core: &mut Core, cx: &Cx, writes: &Answered) {
    let &Answered { data, cut, end, blocks, version, kill_suidgid, last, stamp } = writes;
    if !writes.can_be_true() {
        return core.state.counters.malformed += 1;
    }
    let Some(inode) = core.state.inodes.get(data.inode).filter(|inode| inode.kind == Kind::File) else {
        return ops::merge::drop_late(core, cx, data);
    };
    if is_known(core, data, last) {
        return;
    }
    if (inode.generation, inode.cut) != (data.generation, cut) {
        core.state.counters.answered_lost += 1;
        return;
    }
    let (blocks, version) =
        if version > inode.blocks_version { (blocks, version) } else { (inode.blocks, inode.blocks_version) };
    let effect = Effect::Merged {
        data,
        cut,
        size: inode.size.max(end),
        blocks,
        version,
        kill_suidgid,
        base: None,
        last: Some(last),
        stamp: Some(stamp),
        refused: None,
    };
    core.state.counters.answered_learned += 1;
    commit_own(core, cx.op(), vec![effect]);
}

/// Whether all answered writes of a file up to this position are known.
fn is_known(core: &mut Core, data: DataId, last: LogSeq) -> bool {
    let floor = core.state.dirs.floor(core.state.config.map.data(data.inode));
    let known = core.state.inodes.get(data.inode).and_then(|inode| inode.merged);
    last <= floor.max(known.unwrap_or_default())
}

/// A data node has given back a part that it did not use.
pub(crate) fn returned(core: &mut Core, data: DataId, part: MergePart) {
    if part.term == core.state.config.term {
        core.state.lent.returned(data.inode, part.number);
    }
}

/// A data node asks which part was given last.
pub(crate) fn part_asked(core: &mut Core, cx: &Cx, from: NodeId, seq: RequestSeq) {
    let part = holders::last(&core.state);
    packets::answer_call(core, cx.op(), from, seq, &Peer::PartIs { part });
}
