//! Step 7 of a rename: everything is checked again and decided in one step; then the reply leaves.

use super::Rename;
use super::plan::{self, Look, Votes};
use crate::access;
use crate::dir::site::{self, Gone};
use crate::dir::{collect, holders, owner};
use crate::ops::create::newborn;
use crate::ops::unlink::{drop_data, replace_link};
use crate::ops::{Req, Stop, acl};
use crate::state::commit::{Effects, commit};
use crate::state::{keys, packets};
use crate::txn::participant::{links, may_move, moved};
use crate::txn::{coordinator, intention};
use crate::{Core, Cx};
use onpath_kernel::Mode;
use onpath_store::NameValue;
use onpath_wire::codec::Blob;
use onpath_wire::disk::record::{Answer, Effect};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, Stamp};
use onpath_wire::inode::Kind;
use onpath_wire::peer::{Access, InodeChange, PartState, TxnPart, part};
use onpath_wire::request::NewNode;
use std::iter;

/// Decides; nothing if parts were recalled meanwhile (schedule F2).
#[allow(clippy::too_many_arguments)]
pub(super) fn step(
    core: &mut Core,
    cx: &Cx,
    req: &Req,
    what: &Rename,
    look: &Look,
    votes: &Votes,
    source: NameValue,
    intends: bool,
) -> Option<Result<(), Stop>> {
    let child = source.child;
    let (dir, from_dir) = plan::both(core, cx.op(), what, look.source_here)?;
    if plan::questions(core, what, look) != votes.plans[0].1 {
        return None; // a directory is sticky now, say: what others have checked does not count any more
    }
    if let Some(replaced) = plan::local_directory_to_replace(core, what, look)
        && !holders::is_revoked(core, replaced, part::ALL)
    {
        return None;
    }
    // Somebody may have been told meanwhile where they are. Of which directory it is may not have been known before.
    if !plan::local_directories_to_move(core, what, look, child).all(|dir| collect::is_withdrawn(core, dir, part::PATH))
    {
        return None;
    }
    // Which inode it is was not known when we locked: another transaction may have promised to change it.
    if !look.source_here && core.state.is_home(child) && !core.is_free([(keys::inode(child), Mode::Exclusive)]) {
        return None;
    }
    let born_in = match what.whiteout {
        Some(_) if !look.source_here => site::have(core, what.from_parent, part::ACCESS)?,
        _ => from_dir.clone(),
    };
    Some(decided(core, cx, req, what, look, votes, source, intends, [dir, from_dir, born_in]))
}

#[allow(clippy::too_many_arguments)]
fn decided(
    core: &mut Core,
    cx: &Cx,
    req: &Req,
    what: &Rename,
    look: &Look,
    votes: &Votes,
    source: NameValue,
    intends: bool,
    [dir, from_dir, born_in]: [Result<Access, Gone>; 3],
) -> Result<(), Stop> {
    plan::check(core, req, what, look, Some(source), dir.clone(), from_dir.clone())?;
    let replaced = look.destination;
    // Inodes that live elsewhere are locked there; their directories are what they are now.
    for (dir, moved) in [(from_dir, look.source.map(|s| s.child)), (dir, replaced.map(|r| r.child))] {
        if let (Ok(dir), Some(owner)) = (dir, moved.and_then(|id| votes.owner(id))) {
            access::sticky(req, &dir, owner)?;
        }
    }
    let local_child = core.state.inodes.get(source.child);
    if let (Some(inode), false) = (&local_child, look.source_here) {
        // Its home is here but its name was elsewhere: the checks that its site could not make.
        access::sticky(req, &from_sticky(votes), (inode.uid, inode.gid))?;
        may_move(core, req, inode, what.parent_changes())?;
    }
    let local_replaced = replaced.and_then(|r| core.state.inodes.get(r.child));
    if !what.exchanges() && local_replaced.as_ref().is_some_and(|inode| inode.is_dir() && inode.entries > 0) {
        return Err(Errno::ENOTEMPTY.into());
    }
    if intends {
        let parts = own_parts(core, what, look, source);
        intention::intend(core, cx.op(), req, &votes.plans, parts, votes.unsure.to_vec());
        return Ok(());
    }
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    let mut effects = names(core, what, look, votes, source);
    if let Some(id) = what.whiteout {
        effects.extend(whiteout(req, id, &born_in?, what.from_parent, stamp));
    }
    if let Some(inode) = local_child {
        moved(core, inode, (what.from_parent, what.parent), Some(&what.name), stamp, &mut effects);
    }
    let dropped = local_replaced.and_then(|inode| {
        if what.exchanges() {
            moved(core, inode, (what.parent, what.from_parent), Some(&what.from), stamp, &mut effects);
            return None;
        }
        replace_link(core, inode, what.parent, stamp, &mut effects)
    });
    let reply = commit(core, cx.op(), req, stamp, Answer::Done, effects);
    coordinator::let_go(core);
    packets::reply(core, cx.op(), req, &reply);
    drop_data(core, dropped);
    if let Some(replaced) = replaced {
        owner::wake(core, replaced.child);
    }
    Ok(())
}

/// The decision, and what it does to the names that are here.
fn names(core: &mut Core, what: &Rename, look: &Look, votes: &Votes, source: NameValue) -> Effects {
    let mut effects = Effects::new();
    for (txn, plan) in &votes.plans {
        if plan.is_empty() {
            core.state.txns.end(*txn);
        } else {
            effects.push(coordinator::decision(*txn, plan));
        }
    }
    let (leaves, NameValue { child, kind }) = (what.leaves(look), source);
    if look.source_here {
        let (parent, name) = (what.from_parent, what.from.clone());
        match leaves {
            None => {
                let log = core.state.log(parent, -1, -links(kind));
                effects.push(Effect::DropName { parent, name, child, kind, log });
            }
            Some(NameValue { child, kind: left }) => {
                let log = core.state.log(parent, 0, links(left) - links(kind));
                effects.push(Effect::PutName { parent, name, child, kind: left, log });
            }
        }
    }
    let replaced = look.destination;
    let log =
        core.state.log(what.parent, i8::from(replaced.is_none()), links(kind) - replaced.map_or(0, |r| links(r.kind)));
    effects.push(Effect::PutName { parent: what.parent, name: what.name.clone(), child, kind, log });
    effects
}

/// What this shard does itself if the votes stand: no directory is among it, and nothing stays under the old name.
fn own_parts(core: &mut Core, what: &Rename, look: &Look, source: NameValue) -> Vec<(TxnPart, PartState)> {
    let NameValue { child, kind } = source;
    let mut parts = vec![];
    if look.source_here {
        let (parent, name) = (what.from_parent, what.from.clone());
        let part = TxnPart::Source { parent, name, to: what.parent, to_name: what.name.clone(), unless: None };
        parts.push((part, PartState::Source { child, kind, sticky: None }));
    }
    let before = look.destination.unwrap_or(NameValue { child: InodeId::NONE, kind: Kind::File });
    let put = TxnPart::Put { parent: what.parent, name: what.name.clone(), child, kind };
    parts.push((put, PartState::Source { child: before.child, kind: before.kind, sticky: None }));
    let told = core.state.inodes.attr(before.child).zip(core.state.inodes.data_ref(before.child));
    if let Some((attr, data)) = told {
        let change = InodeChange::Replace { parent: what.parent };
        parts.push((TxnPart::Inode { id: before.child, change, sticky: None }, PartState::Inode { attr, data }));
    }
    parts
}

/// What RENAME_WHITEOUT leaves behind: nobody may open it.
fn whiteout(req: &Req, id: InodeId, dir: &Access, parent: InodeId, stamp: Stamp) -> Effects {
    let (kind, target) = (Kind::CharDevice, Blob::default());
    let node = NewNode { kind, mode: 0, umask: 0, rdev: 0, target, open: 0 };
    let (mode, acls) = acl::inherited(dir, &node);
    let inode = newborn(req, id, dir, parent, &node, mode, stamp);
    let acls = acls.into_iter().map(|(name, value)| Effect::SetXattr { id, name, value });
    iter::once(Effect::PutInode { inode }).chain(acls).collect()
}

/// The source directory's stickiness, as its site found it.
fn from_sticky(votes: &Votes) -> Access {
    match votes.source_sticky() {
        Some(uid) => Access { mode: access::STICKY, uid, gid: 0, acls: None },
        None => Access::default(),
    }
}
