//! The side that promises: Prepare in one step that never waits for anybody who waits for it, then obedience across
//! restarts (steps 3, 4, 8).

use super::{Prepared, TxnId, intention, moved_directory};
use crate::access::{self, Owned};
use crate::dir::{collect, mark, site};
use crate::files::holders;
use crate::ops::unlink::{drop_data, remove_link, replace_link};
use crate::ops::{Req, Stop, link};
use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::commit::{Effects, commit_own};
use crate::state::{further, keys, packets};
use crate::{Core, Cx, cached};
use onpath_kernel::{Key, Mode, Need, OpId};
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::Effect;
use onpath_wire::disk::txn::{Found, Part};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, ShardId, Stamp, Term};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::peer::{InodeChange, PartState, Peer, TxnPart, part};
use smallvec::SmallVec;

/// How often an undecided promise is asked about, microseconds.
const ASK_US: u64 = 200_000;

/// How long a Prepare waits for parts that readers take away again and again, before it locks or promises anything,
/// microseconds.
const PARTS_WAIT_US: u64 = 2_000;

/// Why a Prepare keeps nothing.
enum Refused {
    Busy,
    Stop(Stop),
}

impl<E: Into<Stop>> From<E> for Refused {
    fn from(stop: E) -> Refused {
        Refused::Stop(stop.into())
    }
}

/// A coordinator's Prepare.
pub(crate) async fn prepare(cx: &Cx, from: ShardId, seq: RequestSeq, prepare: Peer) {
    let Peer::Prepare { txn, oldest_unfinished, caller, parts, early, .. } = prepare else { return };
    for id in linked(&parts) {
        holders::revoke(cx, id).await;
    }
    for id in cx.with(|core| inodes_of(core, &parts)) {
        cached::clear(cx, id).await;
    }
    // Who hears of an early promise must not take for it one that is made anew after it was lost.
    if early != Term(0) && cx.with(|core| core.state.config.term) != early && !planted::is(Planted::PromisedAnew) {
        return cx.with(|core| packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &Peer::Busy));
    }
    await_parts(cx, &parts).await;
    let known = cx.with(|core| {
        core.state.txns.hear_oldest(txn.coordinator, oldest_unfinished);
        if txn.coordinator != from || core.state.txns.is_over(txn) {
            return Some(None); // a late copy: ignored
        }
        core.state.txns.promise(txn).map(|p| Some(Peer::Prepared { states: p.states.clone(), record: p.record }))
    });
    if let Some(answer) = known {
        if let Some(answer) = answer {
            cx.with(|core| {
                let all = core.state.record_seq;
                core.rest_on(cx.op(), all);
                promised(core, cx.op(), NodeId::shard(from), seq, &answer, early);
            });
        }
        return;
    }
    let req = Req { caller, ..Req::default() };
    let (keys, inodes) = cx.with(|core| (keys_of(core, &parts), inodes_of(core, &parts)));
    // What was filled meanwhile is cleared when the coordinator asks again.
    let is_clear = cx.with(|core| inodes.iter().all(|id| !core.state.cached.may_be_shown(*id)));
    let outcome = if is_clear && cx.try_lock_all(keys) {
        cx.with(|core| promise(core, cx, &req, txn, parts))
    } else {
        Err(Refused::Busy)
    };
    let from = NodeId::shard(from);
    let answer = match outcome {
        Ok(answer) => {
            cx.with(|core| promised(core, cx.op(), from, seq, &answer, early));
            return obey(cx, txn).await;
        }
        Err(Refused::Busy) => Peer::Busy,
        Err(Refused::Stop(Stop::NeedCaller { gids, caps })) => Peer::NeedCaller { gids: gids.to_vec(), caps },
        Err(Refused::Stop(Stop::Errno(errno))) => Peer::No { errno },
        Err(Refused::Stop(_)) => Peer::Busy,
    };
    cx.with(|core| packets::answer_call(core, cx.op(), from, seq, &answer));
}

/// Says that it is promised. Where that may be said early, the coordinator asks once more, and the flush that answers begins now.
fn promised(core: &mut Core, op: OpId, to: NodeId, seq: RequestSeq, answer: &Peer, early: Term) {
    if early == Term(0) {
        return packets::answer_call(core, op, to, seq, answer);
    }
    let packet = core.state.answer_packet(seq, answer);
    let after = core.reflects(op);
    core.send_after(to, packet, after, Need::Nothing);
    core.flush();
}

/// Whether what was promised is on stable storage; what is not known any more was lost before it was.
pub(crate) fn confirm(cx: &Cx, from: ShardId, seq: RequestSeq, txn: TxnId) {
    cx.with(|core| {
        let answer = if core.state.txns.promise(txn).is_some() {
            let all = core.state.record_seq;
            core.rest_on(cx.op(), all);
            Peer::Promised
        } else {
            Peer::Lost
        };
        packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &answer);
    });
}

/// Files that get a name: the client is shown them.
fn linked(parts: &[TxnPart]) -> impl Iterator<Item = InodeId> {
    parts.iter().filter_map(|part| match part {
        TxnPart::Inode { id, change: InodeChange::Link { .. }, .. } => Some(*id),
        _ => None,
    })
}

/// Waits a moment for the parts of the source's directory, holding nothing: the promise then follows in the same step
/// as the grant, before the next recall.
async fn await_parts(cx: &Cx, parts: &[TxnPart]) {
    for part in parts {
        let Some((parent, _)) = part.source() else { continue };
        if cx.with(|core| site::have_settled(core, cx.op(), parent).is_some()) {
            continue;
        }
        let until_us = cx.with(|core| {
            let until_us = core.now.mono_us + PARTS_WAIT_US;
            core.start(Job::WakeGrants(parent, until_us));
            until_us
        });
        let over =
            |core: &mut Core| site::have_settled(core, cx.op(), parent).is_some() || core.now.mono_us >= until_us;
        cx.until(keys::grants(parent), |core| over(core).then_some(())).await;
    }
}

/// A promise of a former term: locked again before anybody is served, then obeyed.
pub(crate) async fn resume(cx: &Cx, txn: TxnId) {
    let keys = cx.with(|core| {
        let promise = core.state.txns.promise(txn).expect("resumed from the table").clone();
        keys_of(core, &promise.parts)
    });
    if !planted::is(Planted::PromiseWithoutLocks) {
        cx.lock_all(keys).await;
    }
    if cx.with(|core| txn.coordinator == core.state.me()) {
        return intention::settle(cx, txn).await;
    }
    obey(cx, txn).await;
}

/// What a participant locks: the source name, and inodes whose home is here.
fn keys_of(core: &mut Core, parts: &[TxnPart]) -> SmallVec<[(Key, Mode); 4]> {
    let mut locked = SmallVec::new();
    for part in parts {
        match part {
            TxnPart::Source { parent, name, .. } | TxnPart::Swap { parent, name, .. } => {
                locked.push((keys::name(&core.state.names.at(*parent, name)), Mode::Exclusive));
                if let Some(found) = core.state.name(*parent, name)
                    && core.state.is_home(found.child)
                {
                    locked.push((keys::inode(found.child), Mode::Exclusive));
                }
            }
            TxnPart::Put { parent, name, .. } => {
                locked.push((keys::name(&core.state.names.at(*parent, name)), Mode::Exclusive));
            }
            TxnPart::Inode { id, .. } => locked.push((keys::inode(*id), Mode::Exclusive)),
            TxnPart::Asked { .. } => {}
        }
    }
    locked
}

/// Inodes of this home that change, or whose names do.
fn inodes_of(core: &mut Core, parts: &[TxnPart]) -> SmallVec<[InodeId; 4]> {
    let inode = |core: &mut Core, part: &TxnPart| match part {
        TxnPart::Source { parent, name, .. } | TxnPart::Swap { parent, name, .. } => {
            core.state.name(*parent, name).map(|found| found.child)
        }
        TxnPart::Inode { id, .. } => Some(*id),
        TxnPart::Put { .. } | TxnPart::Asked { .. } => None,
    };
    let all = parts.iter().filter_map(|part| inode(core, part)).collect::<SmallVec<[InodeId; 4]>>();
    all.into_iter().filter(|id| core.state.is_home(*id)).collect()
}

fn promise(core: &mut Core, cx: &Cx, req: &Req, txn: TxnId, parts: Vec<TxnPart>) -> Result<Peer, Refused> {
    let mut states = Vec::with_capacity(parts.len());
    for part in &parts {
        states.push(match part {
            TxnPart::Source { parent, name, to, unless, .. } | TxnPart::Swap { parent, name, to, unless, .. } => {
                source(core, cx.op(), req, *parent, name, *to, *unless)?
            }
            TxnPart::Inode { id, change, sticky } => inode(core, req, *id, change, *sticky)?,
            TxnPart::Put { .. } | TxnPart::Asked { .. } => return Err(Refused::Busy), // refused when it came
        });
    }
    let parts = parts.into_iter().map(Part::from).collect();
    let found = states.iter().cloned().map(Found::from).collect();
    let effects: Effects = vec![Effect::Prepared { txn, parts, found }];
    let record = commit_own(core, cx.op(), effects);
    core.state.txns.promised_by(txn, record);
    if !core.state.txns.asker_runs {
        core.state.txns.asker_runs = true;
        core.start(Job::AskDecisions);
    }
    Ok(Peer::Prepared { states, record })
}

fn source(
    core: &mut Core,
    op: OpId,
    req: &Req,
    parent: InodeId,
    name: &Name,
    to: InodeId,
    unless: Option<InodeId>,
) -> Result<PartState, Refused> {
    let dir = site::have_settled(core, op, parent).ok_or(Refused::Busy)??;
    access::search(req, &dir)?;
    let found = core.state.name(parent, name).ok_or(Errno::ENOENT)?;
    if Some(found.child) == unless {
        return Ok(PartState::Source { child: found.child, kind: found.kind, sticky: None });
    }
    access::modify(req, &dir)?;
    if let Some(inode) = core.state.inodes.get(found.child) {
        access::sticky(req, &dir, (inode.uid, inode.gid))?;
        may_move(core, req, &inode, parent != to)?;
        if inode.is_dir() && !collect::is_withdrawn(core, inode.id, part::PATH) {
            return Err(Refused::Busy);
        }
    }
    let sticky = access::sticky_owner(&dir);
    Ok(PartState::Source { child: found.child, kind: found.kind, sticky })
}

/// Moving a directory changes its "..", which needs write permission on it.
pub(crate) fn may_move(core: &mut Core, req: &Req, inode: &Inode, parent_changes: bool) -> Result<(), Stop> {
    if inode.is_dir() && parent_changes {
        let acls = core.state.inodes.acls(inode.id);
        access::check(req, Owned::of(inode, acls.as_deref()), Kind::Directory, access::WRITE)?;
    }
    Ok(())
}

fn inode(
    core: &mut Core,
    req: &Req,
    id: InodeId,
    change: &InodeChange,
    sticky: Option<u32>,
) -> Result<PartState, Refused> {
    let named = matches!(change, InodeChange::Link { .. }) && core.state.linkable.contains(&id);
    let inode = core.state.inodes.get(id).filter(|inode| inode.nlink > 0 || named).ok_or(Errno::ENOENT)?;
    if let Some(owner) = sticky {
        access::sticky_of(req, owner, (inode.uid, inode.gid))?;
    }
    match change {
        // Lent again since it was taken back.
        InodeChange::Link { .. } if holders::is_lent(&core.state, id) => return Err(Refused::Busy),
        InodeChange::Link { .. } => {
            link::may_link(req, &inode, core.state.inodes.acls(id).as_deref())?;
        }
        InodeChange::Unlink { .. } | InodeChange::Replace { .. } if inode.is_dir() => return Err(Errno::EISDIR.into()),
        InodeChange::Unlink { .. } | InodeChange::Replace { .. } => {}
        InodeChange::Move { from, to, .. } => {
            may_move(core, req, &inode, from != to)?;
            if inode.is_dir() && !collect::is_withdrawn(core, id, part::PATH) {
                return Err(Refused::Busy);
            }
        }
        InodeChange::RemoveDir => {
            if !inode.is_dir() {
                return Err(Errno::ENOTDIR.into());
            }
            if !collect::is_withdrawn(core, id, part::ALL) {
                return Err(Refused::Busy);
            }
            if core.state.inodes.get(id).is_some_and(|inode| inode.entries > 0) {
                return Err(Errno::ENOTEMPTY.into());
            }
        }
    }
    let attr = core.state.inodes.attr(id).expect("the inode is here");
    let data = core.state.inodes.data_ref(id).expect("the inode is here");
    Ok(PartState::Inode { attr, data })
}

/// Holds the locks until the decision comes, and carries it out in one step.
async fn obey(cx: &Cx, txn: TxnId) {
    let commit = cx.until(keys::txn(txn), |core| core.state.txns.told.get(&txn).copied()).await;
    cx.with(|core| {
        let Some(promise) = core.state.txns.promise(txn).cloned() else { return };
        let mut effects = Effects::new();
        let mut dropped = None;
        if commit {
            let stamp = core.state.clock.stamp(core.now.wall_ns);
            for (part, state) in promise.parts.iter().zip(&promise.states) {
                dropped = dropped.or(carry_out(core, part, state, stamp, &mut effects));
            }
            effects.push(Effect::Finished { txn });
        } else {
            effects.push(Effect::Aborted { txn });
        }
        commit_own(core, cx.op(), effects);
        drop_data(core, dropped);
        over(core, txn, &promise);
    });
    if cx.with(|core| mark::is_gated(core, cx.op())) {
        mark::pass(cx, None).await; // the name stays locked until readers of its directory find it gone
    }
}

/// A promise is carried out or forgotten: whoever has waited for that goes on.
pub(super) fn over(core: &mut Core, txn: TxnId, promise: &Prepared) {
    crate::dir::push::room(core);
    core.wake(keys::txn(txn));
    for (part, state) in promise.parts.iter().zip(&promise.states) {
        if let Some(moved) = moved_directory(part, state).filter(|dir| core.state.is_home(*dir)) {
            core.start(Job::GiveGrants(moved));
        }
        if let Some((parent, _)) = part.name() {
            core.wake(keys::doubt(parent));
            core.wake(keys::group(core.state.config.map.fingerprint(parent)));
            core.wake(keys::grants(parent));
        }
        if let TxnPart::Inode { id, .. } = part {
            core.wake(keys::grants(*id));
            core.start(Job::GiveGrants(*id));
        }
    }
}

pub(super) fn carry_out(
    core: &mut Core,
    part: &TxnPart,
    state: &PartState,
    stamp: Stamp,
    effects: &mut Effects,
) -> Option<onpath_wire::ids::DataId> {
    match (part, state) {
        (TxnPart::Source { parent, name, to, to_name, .. }, PartState::Source { child, kind, .. }) => {
            let log = core.state.log(*parent, -1, -links(*kind));
            let (kind, name, child) = (*kind, name.clone(), *child);
            effects.push(Effect::DropName { parent: *parent, name, child, kind, log });
            if let Some(inode) = core.state.inodes.get(child) {
                moved(core, inode, (*parent, *to), Some(to_name), stamp, effects);
            }
            None
        }
        (
            TxnPart::Swap { parent, name, to, to_name, child, kind, .. },
            PartState::Source { child: old, kind: old_kind, .. },
        ) => {
            let log = core.state.log(*parent, 0, links(*kind) - links(*old_kind));
            effects.push(Effect::PutName { parent: *parent, name: name.clone(), child: *child, kind: *kind, log });
            if let Some(inode) = core.state.inodes.get(*old) {
                moved(core, inode, (*parent, *to), Some(to_name), stamp, effects);
            }
            None
        }
        (TxnPart::Put { parent, name, child, kind }, PartState::Source { child: old, kind: old_kind, .. }) => {
            let replaced = old.is_some().then(|| links(*old_kind));
            let log =
                core.state.log(*parent, i8::from(replaced.is_none()), links(*kind) - replaced.unwrap_or_default());
            effects.push(Effect::PutName { parent: *parent, name: name.clone(), child: *child, kind: *kind, log });
            None
        }
        (TxnPart::Asked { .. }, _) => None,
        (TxnPart::Inode { id, change, .. }, _) => {
            let inode = core.state.inodes.get(*id)?;
            match change {
                InodeChange::Link { parent } => {
                    link::add_link(core, inode, *parent, stamp, effects);
                    None
                }
                InodeChange::Unlink { parent } => remove_link(core, inode, *parent, stamp, effects),
                InodeChange::RemoveDir => {
                    let parent = inode.parent;
                    remove_link(core, inode, parent, stamp, effects)
                }
                InodeChange::Replace { parent } => replace_link(core, inode, *parent, stamp, effects),
                InodeChange::Move { from, to, name } => {
                    moved(core, inode, (*from, *to), name.as_ref(), stamp, effects);
                    None
                }
            }
        }
        _ => unreachable!("a state fits its part"),
    }
}

/// What a name of an inode of this type adds to nlink of its directory.
pub(crate) fn links(kind: Kind) -> i8 {
    i8::from(kind == Kind::Directory)
}

/// A name of an inode has moved from one directory to another, where it is called so.
pub(crate) fn moved(
    core: &Core,
    mut inode: Inode,
    places: (InodeId, InodeId),
    name: Option<&Name>,
    stamp: Stamp,
    effects: &mut Effects,
) {
    further::moved(core, &mut inode, places, name, effects);
    inode.ctime = stamp.0 as i64;
    effects.push(Effect::PutInode { inode });
}

/// The decision is known.
pub(crate) fn told(core: &mut Core, txn: TxnId, commit: bool) {
    if core.state.txns.promise(txn).is_some() {
        core.state.txns.told.entry(txn).or_insert(commit);
        core.wake(keys::txn(txn));
    }
}

/// A coordinator's Commit: acknowledged when it is carried out here.
pub(crate) async fn commit(cx: &Cx, from: ShardId, seq: RequestSeq, txn: TxnId) {
    cx.with(|core| told(core, txn, true));
    cx.until(keys::txn(txn), |core| core.state.txns.promise(txn).is_none().then_some(())).await;
    cx.with(|core| {
        let all = core.state.record_seq; // the acknowledgement rests on what was carried out
        core.rest_on(cx.op(), all);
        packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &Peer::Done);
    });
}

/// Asks coordinators again and again what became of promises.
pub(crate) async fn ask_decisions(cx: &Cx) {
    loop {
        let now_us = cx.with(|core| core.now.mono_us);
        cx.sleep_until(now_us + ASK_US).await;
        let more = cx.with(|core| {
            for txn in core.state.txns.undecided() {
                if txn.coordinator == core.state.me() {
                    continue; // our own attempt tells us itself
                }
                packets::tell(core, cx.op(), txn.coordinator, &Peer::Ask { txn });
            }
            core.state.txns.asker_runs = !core.state.txns.prepared_ids().is_empty();
            core.state.txns.asker_runs
        });
        if !more {
            return;
        }
    }
}
