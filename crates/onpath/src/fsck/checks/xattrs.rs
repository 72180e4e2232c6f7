//! Extended attributes belong to inodes that can have them, and ACLs check.

use crate::fsck::code::Code;
use crate::fsck::report::{Finding, Report};
use crate::fsck::view::View;
use onpath_wire::acl::Acl;
use onpath_wire::inode::{Inode, Kind};
use onpath_wire::xattr::{Namespace, XattrName};

pub(super) fn check(view: &View<'_>, report: &mut Report) {
    for survey in view.surveys {
        for (id, attributes) in &survey.xattrs {
            let Some(inode) = view.inodes.get(id) else { continue };
            for why in attributes.iter().filter_map(|(name, value)| wrong(inode, name, value)) {
                report.add(Finding::new(Code::Xattr, why).inode(*id).shard(survey.shard).path(view.path(*id)));
            }
        }
    }
}

/// What is wrong with an attribute, if anything is.
pub(in crate::fsck) fn wrong(inode: &Inode, name: &XattrName, value: &[u8]) -> Option<String> {
    let belongs = match name.namespace() {
        Ok(Namespace::User) => matches!(inode.kind, Kind::File | Kind::Directory),
        Ok(Namespace::AclAccess) => inode.kind != Kind::Symlink,
        Ok(Namespace::AclDefault) => inode.is_dir(),
        Ok(Namespace::Trusted | Namespace::Security) => true,
        Err(_) => return Some(format!("the extended attribute {name:?} has no known namespace")),
    };
    if !belongs {
        return Some(format!("a {:?} has the extended attribute {name:?}", inode.kind));
    }
    let acl = matches!(name.namespace(), Ok(Namespace::AclAccess | Namespace::AclDefault));
    let valid = !acl || matches!(Acl::from_xattr(value), Ok(Some(_)));
    (!valid).then(|| format!("{name:?} is no valid ACL"))
}
