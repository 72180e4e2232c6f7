//! POSIX ACLs (acl(5)): setting and removing them, and what a new inode inherits.
//!
//! Semantics: only the owner, or who passes as owner (CAP_FOWNER); access ACLs on anything but symlinks, default ACLs on directories. An access ACL sets the
//! permission bits, whose group part is its mask; one that says no more than those is not kept. Afterwards the permission
//! bits count: what the ACL says of owner, mask and others is read from them, so that chmod(2) changes it too. setgid is
//! dropped when the caller is not in the group.
//! Called by: `xattr` (system.posix_acl_*), `create`.

use super::xattr::{Change, Planned, has_room};
use super::{Req, Stop};
use crate::{Core, access};
use onpath_wire::acl::Acl;
use onpath_wire::codec::Blob;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::Effect;
use onpath_wire::errno::Errno;
use onpath_wire::inode::Kind;
use onpath_wire::peer::Access;
use onpath_wire::request::NewNode;
use onpath_wire::xattr::{ACL_ACCESS, ACL_DEFAULT, Namespace, XattrName};

/// What setting or removing an ACL does, or why the caller may not. The flags of setxattr(2) do not count for ACLs, and one that
/// is not there is removed without complaint: both as in Linux.
pub(super) fn plan(
    core: &mut Core,
    req: &Req,
    mut inode: Inode,
    namespace: Namespace,
    name: &XattrName,
    change: &Change,
) -> Result<Planned, Stop> {
    let acl = match change {
        Change::Set(value, _) => Acl::from_xattr(&value.0)?,
        Change::Remove { .. } => None,
    };
    if inode.kind == Kind::Symlink {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if namespace == Namespace::AclDefault && !inode.is_dir() {
        return if acl.is_some() { Err(Errno::EACCES.into()) } else { Ok(None) };
    }
    access::owner(req, inode.uid)?;
    let access_acl = acl.as_ref().filter(|_| namespace == Namespace::AclAccess);
    if let Some(acl) = access_acl {
        inode.mode = inode.mode & !0o777 | acl.mode();
        if inode.mode & access::SETGID != 0 && !access::keeps_setgid(req, inode.uid, inode.gid)? {
            inode.mode &= !access::SETGID;
        }
    }
    let (id, sets_mode) = (inode.id, access_acl.is_some());
    let kept = acl.filter(|acl| namespace == Namespace::AclDefault || !acl.is_minimal());
    let had = core.state.inodes.xattrs(id).is_some_and(|set| set.get(name.as_bytes()).is_some());
    let name = name.clone();
    let effect = match kept {
        Some(acl) => {
            let value = acl.to_xattr();
            has_room(core, id, &name, value.len())?;
            Some(Effect::SetXattr { id, name, value: Blob(value) })
        }
        None => had.then_some(Effect::RemoveXattr { id, name }),
    };
    Ok((effect.is_some() || sets_mode).then_some((inode, effect)))
}

/// The permission bits of a new inode as its directory's default ACL, or else the umask, leaves them; and the inode's ACLs.
pub(super) fn inherited(dir: &Access, node: &NewNode) -> (u16, Vec<(XattrName, Blob)>) {
    let asked = node.mode & 0o7777;
    let default = dir.acls.as_ref().and_then(|acls| acls.default.as_ref());
    let Some(default) = default.filter(|_| node.kind != Kind::Symlink) else {
        return (asked & !(node.umask & 0o777), Vec::new());
    };
    let (mode, access) = default.inherited(asked);
    let of_children = (node.kind == Kind::Directory).then_some(default);
    let acls = [(ACL_ACCESS, access.as_ref()), (ACL_DEFAULT, of_children)];
    let set = |(name, acl): (&[u8], Option<&Acl>)| {
        let name = XattrName::new(name).expect("a name");
        acl.map(|acl| (name, Blob(acl.to_xattr())))
    };
    (mode, acls.into_iter().filter_map(set).collect())
}
