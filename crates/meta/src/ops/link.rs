//! link: a further name for a file, decided at the new name's site.
//!
//! Semantics: no links to directories; a file that is not the caller's must be readable and writable for them and
//! not set-uid, unless their host has protected_hardlinks off (as in Linux). The home counts the link: a transaction if it is elsewhere.
//! Locks: the new name and a local inode, exclusive. Journals: name, change-log entry, inode. Rules.

use super::{Req, Step, Stop, begin, named, need_space};
use crate::access::{self, Owned};
use crate::dir::site::{self, Gone};
use crate::files::holders as parts;
use crate::shard::Job;
use crate::state::commit::{Effects, commit};
use crate::state::{further, keys};
use crate::txn::coordinator::{self, Plan, Refusal};
use crate::{Core, Cx, cached};
use onpath_kernel::Mode;
use onpath_store::Named;
use onpath_wire::acl::Acls;
use onpath_wire::caller::{Over, cap};
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::{Answer, Effect};
use onpath_wire::disk::reply::Answered;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, Stamp, TxnId};
use onpath_wire::inode::Kind;
use onpath_wire::limits::NLINK_MAX;
use onpath_wire::name::Name;
use onpath_wire::peer::{Access, InodeChange, PartState, TxnPart, part};

pub(crate) async fn run(cx: &Cx, req: &Req, id: InodeId, parent: InodeId, name: Name) -> Step {
    let at = named::here(cx, parent, &name)?;
    let local = cx.with(|core| core.state.is_home(id));
    for attempt in 0.. {
        let inode_key = local.then(|| (keys::inode(id), Mode::Exclusive));
        cx.lock_all([(keys::name(&at), Mode::Exclusive)].into_iter().chain(inode_key)).await;
        if local {
            cached::clear(cx, id).await;
            parts::revoke(cx, id).await; // the reply shows it
        }
        let dir = if local { site::grant(cx, parent, part::BOTH).await } else { site::grant_settled(cx, parent).await };
        cx.with(|core| check(core, req, dir, &at))?;
        if local {
            return cx.with(|core| here(core, cx, req, id, parent, &name));
        }
        let (txn, plan) = cx.with(|core| plan(core, id, parent, attempt));
        match coordinator::prepare(cx, req, txn, &plan, false).await {
            Ok(voted) => {
                let done = cx.with(|core| decide(core, cx, req, &at, txn, &plan, &voted.states[0][0]));
                if let Some(outcome) = done {
                    return outcome;
                }
            }
            Err(Refusal::Stop(stop)) => return Err(stop),
            Err(Refusal::Busy) => {}
        }
        cx.unlock_all();
        coordinator::back_off(cx, attempt).await?;
    }
    unreachable!("attempts are bounded by back_off")
}

fn check(core: &mut Core, req: &Req, dir: Result<Access, Gone>, at: &Named<'_>) -> Result<(), Stop> {
    begin(core, req)?;
    let dir = dir?;
    access::search(req, &dir)?;
    if core.state.names.get(at).is_some() {
        return Err(Errno::EEXIST.into());
    }
    access::modify(req, &dir)?;
    need_space(core)
}

/// Whether a further name may be given to this inode.
pub(crate) fn may_link(req: &Req, inode: &Inode, acls: Option<&Acls>) -> Result<(), Stop> {
    if inode.is_dir() {
        return Err(Errno::EPERM.into());
    }
    if inode.nlink >= NLINK_MAX {
        return Err(Errno::EMLINK.into());
    }
    if req.caller.uid == inode.uid || req.caller.free_links {
        return Ok(());
    }
    let special = inode.kind != Kind::File || inode.mode & access::SETUID != 0 || inode.mode & 0o2010 == 0o2010;
    let rights = || access::check(req, Owned::of(inode, acls), inode.kind, access::READ | access::WRITE);
    let linkable = if special { Ok(false) } else { access::is_allowed(rights()) };
    access::or_capable(req, linkable, cap::FOWNER, Over::Uid(inode.uid), Errno::EPERM)
}

/// An inode gets one more name, in this directory.
pub(crate) fn add_link(core: &Core, mut inode: Inode, parent: InodeId, stamp: Stamp, effects: &mut Effects) {
    further::added(core, &mut inode, parent, effects);
    inode.ctime = stamp.0 as i64;
    effects.push(Effect::PutInode { inode });
}

fn here(core: &mut Core, cx: &Cx, req: &Req, id: InodeId, parent: InodeId, name: &Name) -> Step {
    // Born without a name, it may still get one.
    let linkable = core.state.linkable.contains(&id);
    let inode = core.state.inodes.get(id).filter(|inode| inode.nlink > 0 || linkable).ok_or(Errno::ENOENT)?;
    may_link(req, &inode, core.state.inodes.acls(id).as_deref())?;
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    let log = core.state.log(parent, 1, 0);
    let kind = inode.kind;
    let mut effects = Effects::new();
    add_link(core, inode, parent, stamp, &mut effects);
    effects.push(Effect::PutName { parent, name: name.clone(), child: id, kind, log });
    Ok(commit(core, cx.op(), req, stamp, Answer::Entry { id, created: false }, effects))
}

fn plan(core: &mut Core, id: InodeId, parent: InodeId, attempt: u32) -> (TxnId, Plan) {
    let txn = coordinator::begin(core, attempt, &[parent]);
    let part = TxnPart::Inode { id, change: InodeChange::Link { parent }, sticky: None };
    (txn, vec![(core.state.config.map.home(id), vec![part])])
}

fn decide(
    core: &mut Core,
    cx: &Cx,
    req: &Req,
    at: &Named<'_>,
    txn: TxnId,
    plan: &Plan,
    state: &PartState,
) -> Option<Step> {
    let PartState::Inode { attr, data } = state else { unreachable!("an inode was prepared") };
    let (parent, name) = (at.parent(), at.name());
    let dir = site::have_settled(core, cx.op(), parent);
    let Some(dir) = dir else {
        coordinator::abort(core, cx.op(), txn, plan);
        return None;
    };
    if let Err(stop) = check(core, req, dir, at) {
        coordinator::abort(core, cx.op(), txn, plan);
        return Some(Err(stop));
    }
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    let mut attr = *attr;
    attr.nlink += 1;
    attr.ctime = stamp.0 as i64;
    let log = core.state.log(parent, 1, 0);
    let effects: Effects = vec![
        coordinator::decision(txn, plan),
        Effect::PutName { parent, name: name.clone(), child: attr.id, kind: attr.kind, log },
    ];
    let reply = Answered::Entry { attributes: attr.into(), bytes: (*data).into(), created: false };
    let reply = commit(core, cx.op(), req, stamp, Answer::Literal { reply }, effects);
    core.start(Job::Finish(txn));
    Some(Ok(reply))
}
