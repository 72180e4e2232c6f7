//! Extended attributes (xattr(7)) at the inode's home: set, get, list, remove.
//!
//! Semantics: `user.*` on regular files and directories, as their permissions say, in a sticky directory's own only by its
//! owner; `trusted.*` is for CAP_SYS_ADMIN, unseen by others; `security.*` is read by everybody and set with that or CAP_SETFCAP; ACLs are in `acl`. ctime
//! moves. A write, truncate or chown takes the file's capabilities.
//! A directory is collected first, as for every setattr; an ACL is part of its access part, which is recalled from
//! every holder before anything is decided.
//! Locks: the inode, exclusive, or shared to read. Journals: the inode, and the one attribute. Rules.

use super::{Req, Step, Stop, acl, begin, getattr, named, need_space};
use crate::access::{self, Owned};
use crate::dir::{holders, owner};
use crate::files::holders as parts;
use crate::planted::{self, Planted};
use crate::state::commit::{Effects, commit};
use crate::{Core, Cx};
use onpath_kernel::{Mode, OpId};
use onpath_wire::caller::{Over, cap};
use onpath_wire::codec::Blob;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::{Answer, Effect};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::limits::{XATTR_INODE_BYTES_MAX, XATTR_LIST_BYTES_MAX, XATTR_VALUE_BYTES_MAX};
use onpath_wire::peer::part;
use onpath_wire::reply::Reply;
use onpath_wire::xattr::{CAPABILITY, Namespace, XattrName, flag};

/// What becomes of an attribute.
pub(crate) enum Change {
    /// It gets this value; bits of [`flag`].
    Set(Blob, u32),
    /// It goes. The session has the file open for writing.
    Remove { open_for_write: bool },
}

/// What a change does: to the inode, and to its attributes. Nothing if there is nothing to do.
pub(super) type Planned = Option<(Inode, Option<Effect>)>;

/// Sets or removes an attribute.
pub(crate) async fn change(cx: &Cx, req: &Req, id: InodeId, name: XattrName, change: Change) -> Step {
    named::lock_inode(cx, id, Mode::Exclusive).await;
    parts::revoke(cx, id).await;
    if cx.with(|core| core.state.inodes.kind(id)) == Some(Kind::Directory)
        && cx.with(|core| plan(core, req, id, &name, &change)).is_ok()
    {
        let acl = matches!(name.namespace(), Ok(Namespace::AclAccess | Namespace::AclDefault));
        let all = acl && !planted::is(Planted::ChmodWithoutRecall);
        holders::revoke(cx, id, if all { part::ALL } else { part::APPEND }).await;
    }
    cx.with(|core| step(core, cx.op(), req, id, &name, &change))
}

fn step(core: &mut Core, op: OpId, req: &Req, id: InodeId, name: &XattrName, change: &Change) -> Step {
    begin(core, req)?;
    let planned = plan(core, req, id, name, change)?;
    if matches!(change, Change::Set(..)) {
        need_space(core)?;
    }
    let Some((mut inode, effect)) = planned else { return getattr::attr(core, id, false) };
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    inode.ctime = stamp.0 as i64;
    let directory = inode.is_dir();
    let effects: Effects = [Effect::PutInode { inode }].into_iter().chain(effect).collect();
    let reply = commit(core, op, req, stamp, Answer::Attr { id }, effects);
    if directory {
        owner::wake(core, id);
    }
    Ok(reply)
}

/// What the change does, or why the caller may not.
fn plan(core: &mut Core, req: &Req, id: InodeId, name: &XattrName, change: &Change) -> Result<Planned, Stop> {
    let inode = core.state.inodes.get(id).ok_or(Errno::ESTALE)?;
    let namespace = name.namespace()?;
    if matches!(namespace, Namespace::AclAccess | Namespace::AclDefault) {
        return acl::plan(core, req, inode, namespace, name, change);
    }
    may_change(core, req, &inode, namespace, name, change)?;
    let set = core.state.inodes.xattrs(id);
    let old = set.and_then(|set| set.get(name.as_bytes()));
    let name = name.clone();
    let effect = match change {
        Change::Set(value, flags) => {
            if value.0.len() > XATTR_VALUE_BYTES_MAX {
                return Err(Errno::E2BIG.into());
            }
            match old {
                Some(_) if flags & flag::CREATE != 0 => return Err(Errno::EEXIST.into()),
                None if flags & flag::REPLACE != 0 => return Err(Errno::ENODATA.into()),
                _ => {}
            }
            has_room(core, id, &name, value.0.len())?;
            Effect::SetXattr { id, name, value: value.clone() }
        }
        Change::Remove { .. } if old.is_none() => return Err(Errno::ENODATA.into()),
        Change::Remove { .. } => Effect::RemoveXattr { id, name },
    };
    Ok(Some((inode, Some(effect))))
}

/// ENOSPC if an inode would have more attributes than it may.
pub(super) fn has_room(core: &mut Core, id: InodeId, name: &XattrName, value_bytes: usize) -> Result<(), Stop> {
    let name_bytes = name.as_bytes().len();
    let (mut all, mut list) = (name_bytes + value_bytes, name_bytes + 1);
    let others =
        core.state.inodes.xattrs(id).into_iter().flat_map(|set| set.iter()).filter(|(other, _)| *other != name);
    for (other, value) in others {
        all += other.as_bytes().len() + value.len();
        list += other.as_bytes().len() + 1;
    }
    if all > XATTR_INODE_BYTES_MAX || list > XATTR_LIST_BYTES_MAX { Err(Errno::ENOSPC.into()) } else { Ok(()) }
}

/// Errors in the order in which Linux finds them.
fn may_change(
    core: &mut Core,
    req: &Req,
    inode: &Inode,
    namespace: Namespace,
    name: &XattrName,
    change: &Change,
) -> Result<(), Stop> {
    let acls = core.state.inodes.acls(inode.id);
    let write = || access::check(req, Owned::of(inode, acls.as_deref()), inode.kind, access::WRITE);
    let over = Over::Inode(inode.uid, inode.gid);
    match namespace {
        Namespace::User => {
            if !matches!(inode.kind, Kind::File | Kind::Directory) {
                return Err(Errno::EPERM.into());
            }
            if inode.is_dir() && inode.mode & access::STICKY != 0 {
                access::owner(req, inode.uid)?;
            }
            write()
        }
        Namespace::Security if name.as_bytes() == CAPABILITY => match change {
            // Linux removes them for whoever is about to change the file.
            Change::Remove { open_for_write: true } => Ok(()),
            Change::Remove { .. } if req.caller.uid == inode.uid => Ok(()),
            Change::Remove { .. } => {
                let caps = cap::SETFCAP | cap::CHOWN;
                access::or_capable(req, access::is_allowed(write()), caps, over, Errno::EACCES)
            }
            Change::Set(..) => access::or_capable(req, Ok(false), cap::SETFCAP, over, Errno::EPERM),
        },
        _ => access::or_capable(req, Ok(false), cap::SYS_ADMIN, Over::All, Errno::EPERM),
    }
}

/// The effect that takes a file's capabilities away, if it has any: it was truncated, or has another owner.
pub(super) fn without_capabilities(core: &mut Core, id: InodeId) -> Option<Effect> {
    core.state.inodes.xattrs(id)?.get(CAPABILITY)?;
    Some(Effect::RemoveXattr { id, name: XattrName::capability() })
}

/// Locks an inode whose attributes are shown. Writes take capabilities away: where there are none they change nothing.
async fn lock_shown(cx: &Cx, id: InodeId) {
    named::lock_inode(cx, id, Mode::Shared).await;
    if cx.with(|core| core.state.inodes.has_xattrs(id)) {
        parts::revoke(cx, id).await;
    }
}

/// The value of an attribute.
pub(crate) async fn get(cx: &Cx, req: &Req, id: InodeId, name: &XattrName) -> Step {
    lock_shown(cx, id).await;
    cx.with(|core| {
        let attr = core.state.inodes.attr(id).ok_or(Errno::ESTALE)?;
        let set = core.state.inodes.xattrs(id);
        let acls = set.and_then(|set| set.acls());
        let value = match name.namespace()? {
            Namespace::AclAccess | Namespace::AclDefault if attr.kind == Kind::Symlink => {
                return Err(Errno::EOPNOTSUPP.into());
            }
            Namespace::AclAccess => {
                let acl = acls.and_then(|acls| acls.access.as_ref());
                return value(acl.map(|acl| acl.with_mode(attr.mode).to_xattr()));
            }
            Namespace::User if !matches!(attr.kind, Kind::File | Kind::Directory) => None,
            Namespace::User => {
                let owned = Owned::shown(&attr, acls.map(|acls| &**acls));
                access::check(req, owned, attr.kind, access::READ)?;
                set
            }
            Namespace::Trusted => {
                if set.is_some_and(|set| set.get(name.as_bytes()).is_some()) {
                    access::or_capable(req, Ok(false), cap::SYS_ADMIN, Over::All, Errno::ENODATA)?;
                }
                set
            }
            Namespace::Security | Namespace::AclDefault => set,
        };
        self::value(value.and_then(|set| set.get(name.as_bytes())).map(<[u8]>::to_vec))
    })
}

fn value(value: Option<Vec<u8>>) -> Step {
    Ok(Reply::Value { value: Blob(value.ok_or(Errno::ENODATA)?) })
}

/// The names of the attributes that the caller may see.
pub(crate) async fn list(cx: &Cx, req: &Req, id: InodeId) -> Step {
    lock_shown(cx, id).await;
    cx.with(|core| {
        if !core.state.inodes.contains(id) {
            return Err(Errno::ESTALE.into());
        }
        let mut names = Vec::new();
        for (name, _) in core.state.inodes.xattrs(id).into_iter().flat_map(|set| set.iter()) {
            let trusted = name.namespace() == Ok(Namespace::Trusted);
            if !trusted || access::any(req, Ok(false), cap::SYS_ADMIN, Over::All)? {
                names.extend_from_slice(name.as_bytes());
                names.push(0);
            }
        }
        Ok(Reply::Value { value: Blob(names) })
    })
}
