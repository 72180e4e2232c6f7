//! Names: lookup, mkdir/mknod/symlink, link, unlink, rmdir, rename. Each is one question to the name's site (design.md, "Objects and places");
//! link and rename go to the site of the new name, which coordinates.

use crate::fs::{FsReply, FsResult};
use crate::op::{Op, done, entry};
use crate::ops::attr::seen;
use crate::ops::halves;
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::codec::Blob;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{Cookie, InodeId};
use onpath_wire::inode::Kind;
use onpath_wire::limits::TARGET_BYTES_MAX;
use onpath_wire::name::Name;
use onpath_wire::reply::Reply;
use onpath_wire::request::{NewNode, Request, rename};

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

/// Follows names as far as a path node leads: nowhere where there is none, or it is silent.
pub(crate) async fn resolve(op: &mut Op, from: InodeId, names: Vec<Name>, look: bool) -> FsResult {
    let count = names.len();
    match op.ask_path_node(Request::Resolve { from, names, look }).await? {
        Some(Reply::Resolved { dir, names }) if (names as usize) <= count => {
            Ok(FsReply::Resolved { dir, names: names as usize })
        }
        Some(reply @ (Reply::Entry { .. } | Reply::Missing)) if look => found(op, reply).await,
        Some(Reply::Busy) | None => Ok(FsReply::Resolved { dir: from, names: 0 }),
        Some(_) => Err(Errno::EIO),
    }
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
