//! Extended attributes belong to inodes that there are and that can have them, and ACLs check.

use crate::fsck::code::Code;
use crate::fsck::report::{Finding, Report};
use crate::fsck::view::View;
use onpath_meta::Survey;
use onpath_wire::acl::Acl;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::xattr::{Namespace, XattrName};
use std::collections::BTreeSet;

pub(super) fn check(view: &View, report: &mut Report) {
    for survey in &view.surveys {
        for id in lost(view, survey) {
            let message = format!("{} extended attributes of an inode that does not exist", survey.xattrs[&id].len());
            report.add(Finding::new(Code::LostXattr, message).inode(id).shard(survey.shard));
        }
        for (id, attributes) in &survey.xattrs {
            let Some(inode) = view.inodes.get(id) else { continue };
            for why in attributes.iter().filter_map(|(name, value)| wrong(inode.kind, name, value)) {
                report.add(Finding::new(Code::Xattr, why).inode(*id).shard(survey.shard).path(view.path(*id)));
            }
        }
    }
}

/// Inodes that a shard has attributes of, but not themselves. One at a wrong place keeps what it has there.
pub(in crate::fsck) fn lost(view: &View, survey: &Survey) -> BTreeSet<InodeId> {
    let at_home = |id: &InodeId| view.map.home(*id) == survey.shard && view.inodes.contains_key(id);
    let mut lost: BTreeSet<InodeId> = survey.xattrs.keys().copied().filter(|id| !at_home(id)).collect();
    if !lost.is_empty() {
        survey.inodes.iter().for_each(|inode| _ = lost.remove(&inode.id));
    }
    lost
}

/// What is wrong with an attribute of an inode of this type, if anything is.
pub(in crate::fsck) fn wrong(kind: Kind, name: &XattrName, value: &[u8]) -> Option<String> {
    let belongs = match name.namespace() {
        Ok(Namespace::User) => matches!(kind, Kind::File | Kind::Directory),
        Ok(Namespace::AclAccess) => kind != Kind::Symlink,
        Ok(Namespace::AclDefault) => kind == Kind::Directory,
        Ok(Namespace::Trusted | Namespace::Security) => true,
        Err(_) => return Some(format!("the extended attribute {name:?} has no known namespace")),
    };
    if !belongs {
        return Some(format!("a {kind:?} has the extended attribute {name:?}"));
    }
    let acl = matches!(name.namespace(), Ok(Namespace::AclAccess | Namespace::AclDefault));
    let valid = !acl || matches!(Acl::from_xattr(value), Ok(Some(_)));
    (!valid).then(|| format!("{name:?} is no valid ACL"))
}
