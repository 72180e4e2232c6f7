//! Extended attributes and ACLs in the model (xattr(7), acl(5)): who sees and sets them, and what an ACL allows.

use super::access::{R, W, owns, permits};
use super::decide::{Change, Decided, Plan, Shape};
use super::{Caller, Model, Node};
use onpath_wire::acl::{Acl, Who};
use onpath_wire::caller::{Over, cap};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::limits::{XATTR_INODE_BYTES_MAX, XATTR_VALUE_BYTES_MAX};
use onpath_wire::xattr::{ACL_ACCESS, ACL_DEFAULT, CAPABILITY, Namespace, XattrName, flag};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The extended attributes of an inode. ACLs among them are as they were set: the permission bits tell the rest.
pub(super) type Xattrs = Option<Arc<BTreeMap<XattrName, Vec<u8>>>>;

impl Node {
    fn xattr(&self, name: &[u8]) -> Option<&Vec<u8>> {
        let name = XattrName::new(name).ok()?;
        self.xattrs.as_ref()?.get(&name)
    }

    fn acl(&self, name: &[u8]) -> Option<Acl> {
        self.xattr(name).map(|value| Acl::from_xattr(value).ok().flatten().expect("only ACLs are kept as such"))
    }

    /// Sets an attribute, or removes it.
    fn set_xattr(&mut self, name: &[u8], value: Option<Vec<u8>>) {
        let name = XattrName::new(name).expect("a name");
        let mut all = self.xattrs.take().map(Arc::unwrap_or_clone).unwrap_or_default();
        match value {
            Some(value) => all.insert(name, value),
            None => all.remove(&name),
        };
        self.xattrs = (!all.is_empty()).then(|| Arc::new(all));
    }

    /// A write, truncate or chown takes the file's capabilities.
    pub(super) fn without_capabilities(&mut self) {
        if self.xattr(CAPABILITY).is_some() {
            self.set_xattr(CAPABILITY, None);
        }
    }

    /// What an answer shows of an attribute.
    pub(super) fn shown_xattr(&self, name: &[u8]) -> Option<Vec<u8>> {
        match (self.xattr(name), name) {
            (Some(_), ACL_ACCESS) => self.acl(name).map(|acl| acl.with_mode(self.mode).to_xattr()),
            (value, _) => value.cloned(),
        }
    }

    /// All attributes, as answers show them.
    pub(crate) fn shown_xattrs(&self) -> Vec<(XattrName, Vec<u8>)> {
        let all = self.xattrs.iter().flat_map(|all| all.keys());
        all.filter_map(|name| Some((name.clone(), self.shown_xattr(name.as_bytes())?))).collect()
    }

    /// The names that `caller` may see, as they are listed.
    pub(super) fn listed_xattrs(&self, caller: &Caller) -> Vec<u8> {
        let all = self.xattrs.iter().flat_map(|all| all.keys());
        let visible =
            all.filter(|name| name.namespace() != Ok(Namespace::Trusted) || caller.has(cap::SYS_ADMIN, Over::All));
        visible.flat_map(|name| name.as_bytes().iter().copied().chain([0])).collect()
    }

    /// What this new inode inherits from its directory's default ACL in place of the umask; whether there is one.
    pub(super) fn inherit_acl(&mut self, dir: &Node, asked: u16) -> bool {
        let Some(default) = dir.acl(ACL_DEFAULT).filter(|_| self.kind != Kind::Symlink) else { return false };
        // What the default ACL does not allow nobody gets (acl(5)); its mask stands for the group.
        self.mode = asked & (!0o777 | default.mode());
        if !default.is_minimal() {
            self.set_xattr(ACL_ACCESS, Some(default.to_xattr()));
        }
        if self.is_dir() {
            self.set_xattr(ACL_DEFAULT, Some(default.to_xattr()));
        }
        true
    }
}

/// What the access ACL of `node` says to `caller`, who does not own it; nothing if permission bits decide.
pub(super) fn acl_permits(caller: &Caller, node: &Node, want: u16) -> Option<bool> {
    let mask = node.mode >> 3 & 7;
    let acl = node.acl(ACL_ACCESS).filter(|_| mask != 0)?;
    let of = |fits: &dyn Fn(Who) -> bool| -> Vec<u16> {
        acl.entries().iter().filter(|entry| fits(entry.who)).map(|entry| entry.perm & mask).collect()
    };
    if let Some(perm) = of(&|who| who == Who::User(caller.uid)).first() {
        return Some(perm & want == want);
    }
    let groups = of(&|who| match who {
        Who::OwningGroup => caller.in_group(node.gid),
        Who::Group(gid) => caller.in_group(gid),
        _ => false,
    });
    let perms = if groups.is_empty() { vec![node.mode & 7] } else { groups };
    Some(perms.iter().any(|perm| perm & want == want))
}

fn changed(id: InodeId, mut node: Node) -> Decided {
    node.touch();
    Ok(Plan { change: Change::Attributes { id, node: Box::new(node) }, answer: Shape::Attr { id, exact: true } })
}

impl Model {
    pub(super) fn decide_set_xattr(
        &self,
        caller: &Caller,
        id: InodeId,
        name: &XattrName,
        value: &[u8],
        flags: u32,
    ) -> Decided {
        let node = self.existing(id)?;
        let namespace = name.namespace()?;
        if matches!(namespace, Namespace::AclAccess | Namespace::AclDefault) {
            let acl = Acl::from_xattr(value)?;
            return decide_acl(caller, id, node, namespace, acl);
        }
        may_change(caller, node, namespace, name, None)?;
        if value.len() > XATTR_VALUE_BYTES_MAX {
            return Err(Errno::E2BIG);
        }
        let old = node.xattr(name.as_bytes());
        match old {
            Some(_) if flags & flag::CREATE != 0 => return Err(Errno::EEXIST),
            None if flags & flag::REPLACE != 0 => return Err(Errno::ENODATA),
            _ => {}
        }
        let mut node = node.clone();
        node.set_xattr(name.as_bytes(), Some(value.to_vec()));
        let all = node.xattrs.iter().flat_map(|all| all.iter());
        if all.map(|(name, value)| name.as_bytes().len() + value.len()).sum::<usize>() > XATTR_INODE_BYTES_MAX {
            return Err(Errno::ENOSPC);
        }
        changed(id, node)
    }

    pub(super) fn decide_remove_xattr(
        &self,
        caller: &Caller,
        id: InodeId,
        name: &XattrName,
        open_for_write: bool,
    ) -> Decided {
        let node = self.existing(id)?;
        let namespace = name.namespace()?;
        if matches!(namespace, Namespace::AclAccess | Namespace::AclDefault) {
            return decide_acl(caller, id, node, namespace, None);
        }
        may_change(caller, node, namespace, name, Some(open_for_write))?;
        if node.xattr(name.as_bytes()).is_none() {
            return Err(Errno::ENODATA);
        }
        let mut node = node.clone();
        node.set_xattr(name.as_bytes(), None);
        changed(id, node)
    }

    pub(super) fn decide_get_xattr(&self, caller: &Caller, id: InodeId, name: &XattrName) -> Decided {
        let node = self.existing(id)?;
        let ordinary = matches!(node.kind, Kind::File | Kind::Directory);
        match name.namespace()? {
            Namespace::AclAccess | Namespace::AclDefault if node.kind == Kind::Symlink => {
                return Err(Errno::EOPNOTSUPP);
            }
            Namespace::User if !ordinary => return Err(Errno::ENODATA),
            Namespace::User if !permits(caller, node, R) => return Err(Errno::EACCES),
            Namespace::Trusted if !caller.has(cap::SYS_ADMIN, Over::All) => return Err(Errno::ENODATA),
            _ => {}
        }
        let value = Arc::new(node.shown_xattr(name.as_bytes()).ok_or(Errno::ENODATA)?);
        Ok(Plan { change: Change::Nothing, answer: Shape::Value { value } })
    }

    pub(super) fn decide_list_xattr(&self, caller: &Caller, id: InodeId) -> Decided {
        let value = Arc::new(self.existing(id)?.listed_xattrs(caller));
        Ok(Plan { change: Change::Nothing, answer: Shape::Value { value } })
    }
}

/// `removed`: it is removed, and whether the caller's session has the file open for writing.
fn may_change(
    caller: &Caller,
    node: &Node,
    namespace: Namespace,
    name: &XattrName,
    removed: Option<bool>,
) -> Result<(), Errno> {
    if namespace == Namespace::User {
        if !matches!(node.kind, Kind::File | Kind::Directory) {
            return Err(Errno::EPERM);
        }
        if node.is_dir() && node.mode & 0o1000 != 0 && !owns(caller, node) {
            return Err(Errno::EPERM);
        }
        return if permits(caller, node, W) { Ok(()) } else { Err(Errno::EACCES) };
    }
    let refused = |allowed: bool, errno| if allowed { Ok(()) } else { Err(errno) };
    match removed.filter(|_| name.as_bytes() == CAPABILITY) {
        None if name.as_bytes() == CAPABILITY => refused(caller.has_over(cap::SETFCAP, node), Errno::EPERM),
        None => refused(caller.has(cap::SYS_ADMIN, Over::All), Errno::EPERM),
        Some(true) => Ok(()),
        Some(false) => {
            let capable = caller.has_over(cap::SETFCAP | cap::CHOWN, node);
            refused(caller.uid == node.uid || permits(caller, node, W) || capable, Errno::EACCES)
        }
    }
}

fn decide_acl(caller: &Caller, id: InodeId, node: &Node, namespace: Namespace, acl: Option<Acl>) -> Decided {
    let nothing = Ok(Plan { change: Change::Nothing, answer: Shape::Attr { id, exact: true } });
    if node.kind == Kind::Symlink {
        return Err(Errno::EOPNOTSUPP);
    }
    if namespace == Namespace::AclDefault && !node.is_dir() {
        return if acl.is_some() { Err(Errno::EACCES) } else { nothing };
    }
    if !owns(caller, node) {
        return Err(Errno::EPERM);
    }
    let name = if namespace == Namespace::AclDefault { ACL_DEFAULT } else { ACL_ACCESS };
    let mut node = node.clone();
    let Some(acl) = acl else {
        if node.xattr(name).is_none() {
            return nothing;
        }
        node.set_xattr(name, None);
        return changed(id, node);
    };
    if namespace == Namespace::AclDefault {
        node.set_xattr(name, Some(acl.to_xattr()));
        return changed(id, node);
    }
    node.mode = node.mode & !0o777 | acl.mode();
    if !caller.keeps_setgid(&node, node.gid) {
        node.mode &= !0o2000;
    }
    node.set_xattr(name, (!acl.is_minimal()).then(|| acl.to_xattr()));
    changed(id, node)
}
