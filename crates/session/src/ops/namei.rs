//! Names: lookup, mkdir/mknod/symlink, link, unlink, rmdir, rename. Each is one question to the name's site (design.md, "Objects and places");
//! link and rename go to the site of the new name, which coordinates.

use crate::fs::{FsReply, FsResult, WaysAt};
use crate::limits::CALLER_ROUNDS_MAX;
use crate::op::{Op, done, entry};
use crate::ops::attr::seen;
use crate::ops::{halves, hot};
use crate::state::Job;
use crate::ways::Led;
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::codec::Blob;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{Cookie, InodeId, NodeId};
use onpath_wire::inode::Kind;
use onpath_wire::limits::TARGET_BYTES_MAX;
use onpath_wire::name::Name;
use onpath_wire::permission::Unknown;
use onpath_wire::reply::Reply;
use onpath_wire::request::{NewNode, Request, rename};
use onpath_wire::way::Way;

/// Finds a name.
pub(crate) async fn lookup(op: &mut Op, parent: InodeId, name: Name) -> FsResult {
    let reply = op.ask(Request::Lookup { parent, name }).await?;
    found(op, reply).await
}

/// What the site of a name says.
async fn found(op: &mut Op, reply: Reply) -> FsResult {
    if reply == Reply::Missing {
        return Ok(FsReply::Missing);
    }
    let (attr, ..) = entry(reply)?;
    let mut attr = seen(op, attr, false);
    if is_special(attr.kind) && !may_open(op, &attr).await? {
        attr.flags |= flag::APART;
    }
    op.with(|core| halves::looked_up(core, &attr, &op.caller));
    Ok(FsReply::Entry(attr))
}

/// Follows names as far as kept ways or a path node lead: nowhere where there is none, or it is silent.
pub(crate) async fn resolve(op: &mut Op, from: InodeId, names: Vec<Name>, look: bool, kept: bool) -> FsResult {
    let count = names.len();
    let (ways, last) = names.split_at(count - usize::from(look && count > 0));
    if let Some((dir, at)) = follow(op, from, ways, kept).await? {
        let Some(last) = last.first() else {
            return Ok(FsReply::Resolved { dir, names: count, by_ways: Some(at) });
        };
        op.by_ways = Some(at);
        op.by_path = op.with(|core| hot::path(core, op.told(), (from, &names), dir));
        let site = op.with(|core| core.state.shard_at(core.state.config.map.site(dir, last.as_bytes())));
        match op.ask(Request::Lookup { parent: dir, name: last.clone() }).await {
            Err(Errno::ERESTART) => {}
            reply => return looked(op, reply?, site).await,
        }
    }
    let asked = op.with(|core| core.state.ways.asks().filter(|_| kept));
    let request = Request::Resolve { from, names: names.clone(), look, tell: asked.is_some() };
    let keep = |op: &Op, way: &Way| {
        op.with(|core| asked.into_iter().for_each(|asked| core.state.ways.keep(asked, &names, way)))
    };
    let Some((reply, said_by)) = op.ask_path_node(request).await? else {
        return Ok(FsReply::Resolved { dir: from, names: 0, by_ways: None });
    };
    match reply {
        Reply::Resolved { dir, names, way } if (names as usize) <= count => {
            way.iter().for_each(|way| keep(op, way));
            Ok(FsReply::Resolved { dir, names: names as usize, by_ways: None })
        }
        reply @ (Reply::Entry { .. } | Reply::Missing) if look => looked(op, reply, said_by).await,
        Reply::Led { way, reply } if look => {
            keep(op, &way);
            looked(op, Reply::inside(&reply).ok_or(Errno::EIO)?, said_by).await
        }
        Reply::Busy => Ok(FsReply::Resolved { dir: from, names: 0, by_ways: None }),
        _ => Err(Errno::EIO),
    }
}

/// What the site of a last name says. If it is the home of a file too, it has said all that there is to know of it.
async fn looked(op: &mut Op, reply: Reply, site: NodeId) -> FsResult {
    let is_home = |id| op.with(|core| NodeId::shard(core.state.config.map.home(id))) == site;
    let btime = match &reply {
        Reply::Entry { attr, data, .. } if attr.kind != Kind::Directory && is_home(attr.id) => Some(data.btime),
        _ => None,
    };
    Ok(match (found(op, reply).await?, btime) {
        (FsReply::Entry(attr), Some(btime)) if attr.flags & flag::UNSETTLED == 0 => FsReply::Attr { attr, btime },
        (found, _) => found,
    })
}

/// Where kept ways lead, if they do.
async fn follow(op: &mut Op, from: InodeId, names: &[Name], kept: bool) -> Result<Option<(InodeId, WaysAt)>, Errno> {
    if !kept {
        return Ok(None);
    }
    op.with(|core| {
        if core.state.ways.begins() {
            core.start(Job::HearWays);
        }
    });
    for _ in 0..CALLER_ROUNDS_MAX {
        match op.with(|core| core.state.ways.follow(op.told(), from, names)) {
            Led::To(dir, at) => return Ok(Some((dir, at))),
            Led::Unknown(Unknown { gids, caps }) => Box::pin(op.read_caller(&gids, caps)).await?,
            Led::Nowhere => break,
        }
    }
    Ok(None)
}

/// Hears of every shard how far it is: from then on ways are kept.
pub(crate) async fn hear_ways(op: &mut Op) {
    while let Some(shard) = op.with(|core| core.state.ways.unheard()) {
        let slot = op.with(|core| core.state.a_slot_of[usize::from(shard.0)]);
        op.by_ways = Some(WaysAt::NOTHING);
        // Whatever it is asked, it answers that nothing was heard of it.
        if op.ask_at(slot, Request::StatFs).await != Err(Errno::ERESTART) {
            break; // the session is over, or the shard makes no sense
        }
    }
    op.with(|core| core.state.ways.hears = false);
}

/// Kinds that the kernel opens, or connects to, without asking anybody.
fn is_special(kind: Kind) -> bool {
    matches!(kind, Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice)
}

/// Whether the caller is to get at what is behind a FIFO, socket or device. Nobody asks again when it is opened, nor says for what: who
/// connects or sends must be allowed to write, who has a device can do all that it can do.
async fn may_open(op: &mut Op, attr: &AttrWire) -> Result<bool, Errno> {
    const WRITE: u32 = 2;
    const READ_WRITE: u32 = 6;
    let want = if matches!(attr.kind, Kind::Fifo | Kind::Socket) { WRITE } else { READ_WRITE };
    let class = |shift: u32| u32::from(attr.mode) >> shift & want == want;
    // The first class that fits decides; an ACL changes what there are.
    let by_owner = attr.uid == op.caller.uid && class(6);
    if by_owner || attr.flags & flag::XATTRS == 0 && [6, 3, 0].into_iter().all(class) {
        return Ok(true);
    }
    match op.ask(Request::Access { id: attr.id, mask: want }).await {
        Ok(_) => Ok(true),
        Err(Errno::EACCES | Errno::EPERM) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// The parent of a directory; the root is its own.
pub(crate) async fn lookup_parent(op: &mut Op, id: InodeId) -> FsResult {
    // A page after the last cookie has no entries, but names the parent.
    let after = Cookie(u64::MAX >> 1);
    let Reply::Dir { parent, .. } = op.ask(Request::ReadDir { id, after, bytes: 0 }).await? else {
        return Err(Errno::EIO);
    };
    let id = if parent.is_some() { parent } else { id };
    lookup_id(op, id).await
}

/// An inode by its id. Nobody is asked for permission: only who may search everything can name one so.
pub(crate) async fn lookup_id(op: &mut Op, id: InodeId) -> FsResult {
    let (attr, ..) = crate::op::attr(op.ask(Request::GetAttr { id }).await?)?;
    Ok(FsReply::Entry(seen(op, attr, false)))
}

/// The inode that [`make`] makes.
pub(crate) fn node(kind: Kind, mode: u16, umask: u16, rdev: u32, target: Vec<u8>) -> NewNode {
    NewNode { kind, mode, umask, rdev, target: Blob(target), open: 0 }
}

/// mkdir, mknod, symlink.
pub(crate) async fn make(op: &mut Op, parent: InodeId, name: Name, node: NewNode) -> FsResult {
    if node.target.0.len() > TARGET_BYTES_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    let (attr, ..) = entry(op.ask(Request::Create { parent, name, node }).await?)?;
    Ok(FsReply::Entry(attr))
}

/// A further name for a file.
pub(crate) async fn link(op: &mut Op, id: InodeId, parent: InodeId, name: Name) -> FsResult {
    let (attr, ..) = entry(op.ask(Request::Link { id, parent, name }).await?)?;
    Ok(FsReply::Linked(seen(op, attr, true)))
}

/// Removes a name that is no directory.
pub(crate) async fn unlink(op: &mut Op, parent: InodeId, name: Name) -> FsResult {
    done(op.ask(Request::Unlink { parent, name }).await?)?;
    Ok(FsReply::Done)
}

/// Removes an empty directory.
pub(crate) async fn rmdir(op: &mut Op, parent: InodeId, name: Name) -> FsResult {
    done(op.ask(Request::Rmdir { parent, name }).await?)?;
    Ok(FsReply::Done)
}

/// Renames, exchanges, or leaves a whiteout behind: flags that do not go together are EINVAL.
pub(crate) async fn rename(op: &mut Op, from: (InodeId, Name), to: (InodeId, Name), flags: u32) -> FsResult {
    if !rename::is_known(flags) {
        return Err(Errno::EINVAL);
    }
    let request = Request::Rename { from_parent: from.0, from: from.1, parent: to.0, name: to.1, flags };
    done(op.ask(request).await?)?;
    Ok(FsReply::Done)
}
