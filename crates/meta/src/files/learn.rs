//! What a home learns of writes that a data node has answered.
//!
//! Positions make it learn each write once, whoever brings it: the data node in time, a part that is given back, or both (V-5). Several
//! writes of a file come as one, those of many files are one record (V-12). mtime and ctime are the highest stamp of the data node, which is
//! after all that was shown before, unless the writer has set a time since (V-7).

use super::{holders, policy};
use crate::ops;
use crate::state::commit::{Effects, commit_own};
use crate::state::keys;
use crate::{Core, Cx};
use onpath_wire::data::{Answered, ReturnedPart};
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::{DataId, InodeId, LogSeq};
use onpath_wire::inode::Kind;
use onpath_wire::peer::Peer;

/// Files of which one record tells.
const FILES_OF_RECORD: usize = 128;

/// Learns what of these writes is not known yet. False if of some nothing can be recorded now: the data node tells of them once more.
pub(crate) fn learn_all(core: &mut Core, cx: &Cx, all: &[Answered]) -> bool {
    if all.len() > 1 {
        core.state.inodes.come_nearer(all.iter().map(|writes| writes.data.inode));
    }
    let (mut effects, mut last, mut all_have_places) = (Effects::new(), InodeId::NONE, true);
    for writes in all {
        if !ops::merge::has_place(core, writes.data) {
            all_have_places = false;
            continue;
        }
        // What an effect does to an inode is seen when its record is made.
        if !effects.is_empty() && (writes.data.inode == last || effects.len() == FILES_OF_RECORD) {
            commit_own(core, cx.op(), std::mem::take(&mut effects));
        }
        last = writes.data.inode;
        effects.extend(learned(core, cx, writes));
    }
    if !effects.is_empty() {
        commit_own(core, cx.op(), effects);
    }
    all_have_places
}

/// What of these writes is not known yet. Those of a file that is gone are over, and those of bytes that this home has not are lost
/// with what a power loss has taken from it.
fn learned(core: &mut Core, cx: &Cx, writes: &Answered) -> Option<Effect> {
    let &Answered { data, cut, end, blocks, version, kill_suidgid, last, stamp } = writes;
    if !writes.can_be_true() {
        core.state.counters.malformed += 1;
        return None;
    }
    let Some(inode) = core.state.inodes.get(data.inode).filter(|inode| inode.kind == Kind::File) else {
        ops::merge::drop_late(core, cx, data);
        return None;
    };
    if is_known(core, data, last) {
        // The data node forgets what it hears is known: that must be durable.
        core.rest_on_object(cx.op(), keys::inode(data.inode));
        return None;
    }
    if (inode.generation, inode.cut) != (data.generation, cut) {
        core.state.counters.answered_lost += 1;
        return None;
    }
    let (blocks, version) =
        if version > inode.blocks_version { (blocks, version) } else { (inode.blocks, inode.blocks_version) };
    core.state.counters.answered_learned += 1;
    Some(Effect::Merged {
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
    })
}

/// Whether all answered writes of a file up to this position are known.
fn is_known(core: &mut Core, data: DataId, last: LogSeq) -> bool {
    let floor = core.state.dirs.floor(core.state.config.map.data(data.inode));
    let known = core.state.inodes.get(data.inode).and_then(|inode| inode.merged);
    last <= floor.max(known.unwrap_or_default())
}

/// A data node has given back a part that it did not use.
pub(crate) fn returned(core: &mut Core, returned: &ReturnedPart) {
    if returned.part.term == core.state.config.term {
        let lending = core.state.lent.returned(returned.inode, returned.part.number);
        policy::returned(core, lending);
    }
}

/// Which part was given last, as a data node asks.
pub(crate) fn last_part(core: &Core) -> Peer {
    Peer::PartIs { part: holders::last(&core.state) }
}
