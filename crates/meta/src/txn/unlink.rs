//! The transaction of unlink and rmdir where the inode lives elsewhere: the name's site coordinates, the home
//! participates (design.md, "Transactions").
//!
//! Locks: the name, exclusive. Journals: name, change-log entry, decision. Rules.

use super::coordinator::{self, Plan, Refusal, Voted};
use super::intention;
use crate::access;
use crate::dir::site::{self, Gone};
use crate::ops::{Req, Step, Stop, begin};
use crate::shard::Job;
use crate::state::commit::{Effects, commit};
use crate::{Core, Cx};
use onpath_store::NameValue;
use onpath_wire::disk::record::{Answer, Effect};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, TxnId};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::peer::{Access, InodeChange, PartState, TxnPart};
use onpath_wire::reply::Reply;

/// Which of the two system calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    File,
    Directory,
}

/// One attempt, with the name locked; the inode's home is another shard. Nothing if it is to be tried again.
pub(crate) async fn attempt(
    cx: &Cx,
    req: &Req,
    parent: InodeId,
    name: &Name,
    what: What,
    attempt: u32,
) -> Result<Option<Reply>, Stop> {
    let dir = site::grant_settled(cx, parent).await;
    let found = cx.with(|core| check(core, req, dir.as_ref(), parent, name, what))?;
    let (txn, plan) = cx.with(|core| {
        let txn = coordinator::begin(core, attempt, &[parent]);
        (txn, questions(core, parent, dir.as_ref().expect("checked"), found, what))
    });
    match coordinator::prepare(cx, req, txn, &plan, what == What::File).await {
        Ok(voted) => {
            let early = !voted.unsure.is_empty();
            let outcome = cx.with(|core| decide(core, cx, req, parent, name, what, found, &voted, txn, &plan));
            if early && matches!(outcome, Some(Err(Stop::Answered))) {
                intention::settle(cx, txn).await;
            }
            outcome.transpose()
        }
        Err(Refusal::Stop(stop)) if coordinator::is_outdated(&stop, attempt, &plan) => Ok(None),
        Err(Refusal::Stop(stop)) => Err(stop),
        Err(Refusal::Busy) => Ok(None),
    }
}

fn check(
    core: &mut Core,
    req: &Req,
    dir: Result<&Access, &Gone>,
    parent: InodeId,
    name: &Name,
    what: What,
) -> Result<NameValue, Stop> {
    begin(core, req)?;
    let dir = dir.map_err(|gone| *gone)?;
    access::search(req, dir)?;
    let found = core.state.name(parent, name).ok_or(Errno::ENOENT)?;
    access::modify(req, dir)?;
    match (what, found.kind) {
        (What::File, Kind::Directory) => Err(Errno::EISDIR.into()),
        (What::Directory, kind) if kind != Kind::Directory => Err(Errno::ENOTDIR.into()),
        _ => Ok(found),
    }
}

fn questions(core: &Core, parent: InodeId, dir: &Access, found: NameValue, what: What) -> Plan {
    let (change, sticky) = match what {
        What::File => (InodeChange::Unlink { parent }, None), // checked in the decision
        What::Directory => (InodeChange::RemoveDir, access::sticky_owner(dir)), // a stranger must not seal it
    };
    let part = TxnPart::Inode { id: found.child, change, sticky };
    vec![(core.state.config.map.home(found.child), vec![part])]
}

/// Step 7: everything is checked again; nothing was decided before the votes were in.
#[allow(clippy::too_many_arguments)]
fn decide(
    core: &mut Core,
    cx: &Cx,
    req: &Req,
    parent: InodeId,
    name: &Name,
    what: What,
    found: NameValue,
    voted: &Voted,
    txn: TxnId,
    plan: &Plan,
) -> Option<Step> {
    let PartState::Inode { attr, .. } = voted.states[0][0] else { unreachable!("an inode was prepared") };
    let Some(dir) = site::have_settled(core, cx.op(), parent) else {
        coordinator::abort(core, cx.op(), txn, plan);
        return None; // recalled meanwhile (schedule F2)
    };
    let checked = check(core, req, dir.as_ref(), parent, name, what);
    let checked = checked.and_then(|_| access::sticky(req, dir.as_ref().expect("checked"), (attr.uid, attr.gid)));
    if let Err(stop) = checked {
        coordinator::abort(core, cx.op(), txn, plan);
        return Some(Err(stop));
    }
    if questions(core, parent, dir.as_ref().expect("checked"), found, what) != *plan {
        coordinator::abort(core, cx.op(), txn, plan);
        return None; // the directory is sticky now, say: what the home has checked does not count any more
    }
    if !voted.unsure.is_empty() {
        let NameValue { child, kind } = found;
        let (to, to_name) = (parent, name.clone()); // it goes nowhere, and its inode is not here
        let part = TxnPart::Source { parent, name: name.clone(), to, to_name, unless: None };
        let parts = vec![(part, PartState::Source { child, kind, sticky: None })];
        intention::intend(core, cx.op(), req, &[(txn, plan.clone())], parts, voted.unsure.to_vec());
        return Some(Err(Stop::Answered));
    }
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    let log = core.state.log(parent, -1, if what == What::Directory { -1 } else { 0 });
    let effects: Effects = vec![
        coordinator::decision(txn, plan),
        Effect::DropName { parent, name: name.clone(), child: found.child, kind: found.kind, log },
    ];
    let reply = commit(core, cx.op(), req, stamp, Answer::Done, effects);
    core.start(Job::Finish(txn));
    Some(Ok(reply))
}
