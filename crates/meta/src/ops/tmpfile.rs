//! O_TMPFILE: a file that is born without a name, an orphan from the beginning (design.md, "Sessions").
//!
//! Semantics: write and search permission on the directory, whose setgid bit and group count as for a create; the umask.
//! It is reclaimed when nobody has it open any more, unless link gives it a name before; with O_EXCL none may.
//! Locks: none, nobody knows the inode yet. Journals: the inode, and that it may be linked. Rules.

use super::create::{mode_of, newborn};
use super::{Req, Step, Stop, acl, bound, need_space, opens};
use crate::dir::site::{self, Gone};
use crate::state::births;
use crate::state::commit::{Effects, commit};
use crate::{Core, Cx, access};
use onpath_kernel::OpId;
use onpath_wire::disk::record::{Answer, Effect};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, Slot};
use onpath_wire::inode::Kind;
use onpath_wire::peer::{Access, part};
use onpath_wire::reply::Reply;
use onpath_wire::request::{NewNode, open};

pub(crate) async fn run(cx: &Cx, req: &Req, parent: InodeId, slot: Slot, node: &NewNode) -> Step {
    loop {
        let dir = site::grant(cx, parent, part::ACCESS).await;
        match cx.with(|core| step(core, cx.op(), req, dir, parent, slot, node))? {
            Some(reply) => return Ok(reply),
            None => births::more(cx).await?,
        }
    }
}

/// Nothing if there is no room for new inodes yet.
fn step(
    core: &mut Core,
    op: OpId,
    req: &Req,
    dir: Result<Access, Gone>,
    parent: InodeId,
    slot: Slot,
    node: &NewNode,
) -> Result<Option<Reply>, Stop> {
    opens::begin_open(core, req, node.open)?;
    if node.kind != Kind::File || !node.target.0.is_empty() || core.state.config.map.shard(slot) != core.state.me() {
        return Err(Errno::EINVAL.into());
    }
    let dir = dir?;
    access::modify(req, &dir)?;
    let (mode, acls) = acl::inherited(&dir, node);
    let mode = mode_of(req, &dir, node, mode)?;
    need_space(core)?;
    let Some(id) = core.state.new_inode_id(slot, Kind::File) else { return Ok(None) };
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    let mut inode = newborn(req, id, &dir, parent, node, mode, stamp);
    inode.nlink = 0;
    let mut effects: Effects = vec![Effect::PutInode { inode }];
    effects.extend(acls.into_iter().map(|(name, value)| Effect::SetXattr { id, name, value }));
    if node.open & open::EXCLUSIVE == 0 {
        effects.push(Effect::Linkable { id });
    }
    if node.open & open::REGISTER != 0 {
        core.state.opens.register(id, req.session, node.open & open::MAP != 0, bound::rights(node.open))?;
    } else {
        opens::linger(core, id); // for whoever opens or links it next
    }
    Ok(Some(commit(core, op, req, stamp, Answer::Entry { id, created: true }, effects)))
}
