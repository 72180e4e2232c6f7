//! Merge: a data node has written bytes; the home makes them part of the file (design.md, "Data").
//!
//! Semantics: size = max(size, end); mtime = ctime = the home's stamp; setuid and setgid cleared. The home answers
//! the writer and the data node, which repeats until then. An older generation or cut is *Stale* (R-20). So is a newer
//! generation, which can only be one that this home has forgotten in a power loss; the data node hears that it is void.
//! Locks: the inode, exclusive. Journals: size, blocks, times; of a file that is gone, that its bytes are to be dropped.
//! What is repeated after its answer changes no more than the count of blocks, also when the session is forgotten: told by a later process
//! of the data node, it is recognized by when it was recorded. After a power loss a data node that has put blocks back tells how many there are now (*Counted*).

use super::{Req, append, datapending, named, pages};
use crate::coord::tracking;
use crate::dir::owner;
use crate::files::{holders, learn, policy};
use crate::state::commit::{Effects, commit, commit_own};
use crate::state::replies::Seen;
use crate::state::{keys, packets};
use crate::{Core, Cx};
use onpath_kernel::Mode;
use onpath_wire::data::{Merge, Recorded, UndoneAppend};
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::{Answer, Effect};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{DataId, NodeId, RequestSeq};
use onpath_wire::inode::Kind;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;

pub(crate) async fn run(cx: &Cx, from: NodeId, seq: RequestSeq, merge: Merge) {
    let Some(data) = merge.data() else { return of_node(cx, from, seq, &merge) };
    named::lock_inode(cx, data.inode, Mode::Exclusive).await;
    if let Merge::Written { beside, .. } = merge
        && (beside || cx.with(|core| holders::may_be_of_former_term(&core.state, data.inode)))
    {
        holders::take_back(cx, data.inode).await; // the answer tells the size
    }
    cx.with(|core| {
        if !has_place(core, data) {
            return; // the data node asks again
        }
        match merge {
            Merge::Answered { .. }
            | Merge::Returned { .. }
            | Merge::PartAsk
            | Merge::Floor { .. }
            | Merge::TrackAsk { .. } => unreachable!("of several files or none"),
            Merge::Written { data, session, request, append, .. } => {
                let first = step(core, cx, &merge);
                // A repeated merge must not end the reservation of a later append.
                if first && append.is_some() && core.state.opens.appended(data.inode, session, request) {
                    core.wake(keys::inode(data.inode).0);
                }
            }
            Merge::Counted { data, blocks, version, ref undone } => {
                undo(core, cx, data, undone);
                counted(core, cx, data, blocks, version);
            }
        }
        let answer = if is_void(core, data) { &Peer::Void } else { &Peer::Done };
        packets::answer_call(core, cx.op(), from, seq, answer);
    });
}

/// Whether this home has forgotten these bytes.
fn is_void(core: &mut Core, data: DataId) -> bool {
    core.state.inodes.get(data.inode).is_some_and(|inode| inode.generation < data.generation)
}

/// What a data node says that is of several files, or of none. What was answered is learned whoever has the inode locked: it commutes with
/// all that does not take the part of the file back first (V-2).
fn of_node(cx: &Cx, from: NodeId, seq: RequestSeq, merge: &Merge) {
    let answer = match merge {
        Merge::Floor { upto } => return owner::floor(cx, from, seq, *upto),
        Merge::PartAsk => cx.with(|core| Some(learn::last_part(core))),
        Merge::TrackAsk { term, used_up } => {
            return cx.with(|core| tracking::asked(core, cx, from, seq, (*term, *used_up)));
        }
        Merge::Returned { parts } => cx.with(|core| {
            parts.iter().for_each(|returned| learn::returned(core, returned));
            Some(Peer::Done)
        }),
        Merge::Answered { all } => cx.with(|core| {
            let all_have_places = learn::learn_all(core, cx, all);
            let void = all.iter().any(|writes| is_void(core, writes.data));
            all_have_places.then_some(if void { Peer::Void } else { Peer::Done }) // the data node asks again
        }),
        Merge::Written { .. } | Merge::Counted { .. } => unreachable!("of a file"),
    };
    if let Some(answer) = answer {
        cx.with(|core| packets::answer_call(core, cx.op(), from, seq, &answer));
    }
}

/// Whether the file is here, or that its bytes are to be dropped is recorded or can be.
pub(crate) fn has_place(core: &mut Core, data: DataId) -> bool {
    core.state.inodes.contains(data.inode)
        || core.state.data_pending.contains_key(&(data, 0, true))
        || datapending::may_drop(core)
}

/// Bytes of a file that is gone were written late. It may have gone without any that its home knew of, so that nobody
/// remembers to drop these.
pub(crate) fn drop_late(core: &mut Core, cx: &Cx, data: DataId) {
    if !core.state.data_pending.contains_key(&(data, 0, true)) {
        commit_own(
            core,
            cx.op(),
            vec![Effect::DataPending { data, cut: 0, size: 0, keep_reserved: false, drop: true }],
        );
        datapending::drop_later(core, data);
    }
}

/// A power loss has taken appends. If the file ends with one of which this home had heard, it ends where it did before; the
/// append is new if it is repeated.
fn undo(core: &mut Core, cx: &Cx, data: DataId, undone: &[UndoneAppend]) {
    let inode = core.state.inodes.get(data.inode).filter(|inode| inode.generation == data.generation);
    let Some(mut inode) = inode else { return };
    let mut effects: Effects = vec![];
    // What was heard of the file since then was written behind the restored end.
    for &UndoneAppend { at, from, end, session, request } in undone {
        let heard = !matches!(core.state.replies.seen(session, request), Seen::New);
        if heard && at > inode.blocks_version && end == inode.size {
            inode.size = from;
            effects.push(Effect::Undone { session, request });
        }
    }
    if !effects.is_empty() {
        let stamp = core.state.clock.stamp(core.now.wall_ns);
        (inode.mtime, inode.ctime, inode.mtime_stamp) = (stamp.0 as i64, stamp.0 as i64, stamp);
        effects.push(Effect::PutInode { inode });
        commit_own(core, cx.op(), effects);
    }
}

/// A power loss has taken blocks that this home counts.
fn counted(core: &mut Core, cx: &Cx, data: DataId, blocks: u64, version: u64) {
    let inode = core.state.inodes.get(data.inode).filter(|inode| inode.generation == data.generation);
    if inode.is_some_and(|inode| version > inode.blocks_version) {
        commit_own(core, cx.op(), vec![Effect::DataDone { data, cut: 0, drop: false, blocks, version }]);
    }
}

/// A write that was told here before, or that its session has given up. Its bytes are there, so what is not known of them yet
/// is learned.
fn unasked(core: &mut Core, cx: &Cx, merge: &Merge) {
    let &Merge::Written { data, cut, end, blocks, version, kill_suidgid, .. } = merge else { return };
    match core.state.inodes.get(data.inode).filter(|inode| inode.kind == Kind::File) {
        None => drop_late(core, cx, data),
        Some(inode) if (inode.generation, inode.cut) == (data.generation, cut) && end > inode.size => {
            let blocks = newest(&inode, blocks, version);
            core.state.clock.stamp(core.now.wall_ns);
            let effect = one_write(data, cut, end, blocks, kill_suidgid);
            commit_own(core, cx.op(), vec![effect]);
        }
        Some(_) => counted(core, cx, data, blocks, version),
    }
}

/// A write that its home answers: it has no position among those that the data node answers by itself.
fn one_write(data: DataId, cut: u32, size: u64, (blocks, version): (u64, u64), kill_suidgid: bool) -> Effect {
    let (base, last, stamp, refused) = (None, None, None, None);
    Effect::Merged { data, cut, size, blocks, version, kill_suidgid, base, last, stamp, refused }
}

/// The newer count of blocks, and its version.
fn newest(inode: &Inode, blocks: u64, version: u64) -> (u64, u64) {
    match version > inode.blocks_version {
        true => (blocks, version),
        false => (inode.blocks, inode.blocks_version),
    }
}

/// Whether what was told of a file since this write was recorded included it, or came later and stands for it: its times, and the setuid
/// and setgid bits that it has cleared, may have been set since. Both are asked: also a trim is a version of the blocks, and also
/// utimensat sets mtime.
fn has_heard(core: &mut Core, data: DataId, cut: u32, end: u64, recorded: Recorded) -> bool {
    core.state.inodes.get(data.inode).is_some_and(|inode| {
        (inode.generation, inode.cut) == (data.generation, cut)
            && inode.blocks_version >= recorded.seq.0
            && inode.mtime_stamp >= recorded.stamp
            && inode.size >= end
    })
}

/// Answers to a write; true unless it was answered before.
fn step(core: &mut Core, cx: &Cx, merge: &Merge) -> bool {
    let &Merge::Written {
        data, cut, end, blocks, version, session, request, oldest, kill_suidgid, append, again, ..
    } = merge
    else {
        return false;
    };
    let from = NodeId::session(session);
    let req = Req { from, session, seq: request, oldest, ..Req::default() };
    let heard = again.is_some_and(|recorded| has_heard(core, data, cut, end, recorded));
    match core.state.replies.seen(session, request) {
        Seen::Over => {
            unasked(core, cx, merge);
            return false;
        }
        Seen::Answered(reply) => {
            let reply = reply.clone();
            // A power loss may have undone it at the data node since then, which has now done it again.
            unasked(core, cx, merge);
            let reply = pages::merged(core, data.inode, session, reply);
            packets::reply(core, cx.op(), &req, &reply);
            return false;
        }
        // A session that lives and was not answered asks again, and then it is done like anything new.
        Seen::New if heard => {
            unasked(core, cx, merge);
            return false;
        }
        Seen::New => {}
    }
    let reply = match core.state.inodes.get(data.inode).filter(|inode| inode.kind == Kind::File) {
        None => {
            drop_late(core, cx, data);
            Reply::Failed { errno: Errno::ESTALE }
        }
        Some(inode) if inode.generation != data.generation || inode.cut != cut => {
            Reply::Stale { data: core.state.inodes.data_ref(data.inode).expect("the inode is here") }
        }
        // A power loss has taken what was in between: it would leave a gap.
        Some(inode) if append.is_some_and(|from| from > inode.size) => {
            append::raise_cut(core, cx.op(), inode);
            Reply::Stale { data: core.state.inodes.data_ref(data.inode).expect("the inode is here") }
        }
        Some(inode) => {
            let stamp = core.state.clock.stamp(core.now.wall_ns);
            let size = inode.size.max(end);
            let effect = one_write(data, cut, size, newest(&inode, blocks, version), kill_suidgid);
            commit(core, cx.op(), &req, stamp, Answer::Written { id: data.inode }, vec![effect])
        }
    };
    let reply = pages::merged(core, data.inode, session, reply);
    let reply = match append {
        Some(_) => reply,
        None => policy::written(core, data.inode, session, reply),
    };
    packets::reply(core, cx.op(), &req, &reply);
    true
}
