//! Counts of inodes, parents of directories, attributes.

use super::fixes::Fixes;
use crate::fsck::checks::xattrs::{lost, wrong};
use crate::fsck::code::Code;
use crate::fsck::view::View;
use onpath_host::offline::Offline;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::{Inode, Kind};
use onpath_wire::record::Effect;
use onpath_wire::xattr::Namespace;

/// Permission bits of the group; with an access ACL they are its mask.
const GROUP_BITS: u16 = 0o070;

/// What directories count of their own listings.
pub(super) fn counts(view: &View<'_>, _: &mut Offline, fixes: &mut Fixes) {
    for (&id, &inode) in view.inodes.iter().filter(|(_, inode)| inode.is_dir()) {
        let dead = inode.nlink == 0;
        if dead && view.names_of(id).is_empty() {
            continue;
        }
        let home = view.map.home(id);
        let listing = view.survey(home).and_then(|owner| owner.listings.get(&id)).map_or(&[][..], Vec::as_slice);
        let entries = listing.len() as u64;
        let nlink = 2 + listing.iter().filter(|entry| entry.kind == Kind::Directory).count() as u32;
        let path = view.path(id).unwrap_or_default();
        if inode.entries != entries {
            fixes.because(Code::EntryCount, format!("directory {:#x} has {entries} entries {path}", id.0));
        }
        if inode.nlink != nlink {
            fixes.because(Code::DirNlink, format!("nlink of directory {:#x} is {nlink} {path}", id.0));
        }
        if dead {
            revive(view, id, fixes);
        }
        if inode.entries != entries || inode.nlink != nlink {
            fixes.inode(view, Inode { entries, nlink, ..inode.clone() });
        }
    }
}

/// An inode that was to be reclaimed is not any more, when it gets a name.
fn revive(view: &View<'_>, id: InodeId, fixes: &mut Fixes) {
    fixes.effect(view.map.home(id), Effect::Linkable { id });
}

pub(super) fn fix(view: &View<'_>, _: &mut Offline, fixes: &mut Fixes) {
    for inode in view.inodes.values().filter(|inode| inode.id != InodeId::ROOT) {
        if inode.is_dir() { parent(view, inode, fixes) } else { links(view, inode, fixes) }
    }
    attributes(view, fixes);
}

fn parent(view: &View<'_>, inode: &Inode, fixes: &mut Fixes) {
    if let ([(parent, _)], None) = (view.names_of(inode.id), view.promised.moved.get(&inode.id))
        && inode.nlink > 0
        && inode.parent != *parent
    {
        fixes.because(Code::Parent, format!("\"..\" of directory {:#x} leads to {:#x}", inode.id.0, parent.0));
        fixes.inode(view, Inode { parent: *parent, ..inode.clone() });
    }
}

fn links(view: &View<'_>, inode: &Inode, fixes: &mut Fixes) {
    let names = view.names_of(inode.id).len() as u32;
    if names == 0 || names == inode.nlink || view.promised.links.contains_key(&inode.id) {
        return;
    }
    fixes.because(Code::FileNlink, format!("nlink of inode {:#x} is {names}, not {}", inode.id.0, inode.nlink));
    if inode.nlink == 0 {
        revive(view, inode.id, fixes);
    }
    fixes.inode(view, Inode { nlink: names, ..inode.clone() });
}

fn attributes(view: &View<'_>, fixes: &mut Fixes) {
    for survey in view.surveys {
        for id in lost(view, survey) {
            let attributes = &survey.xattrs[&id];
            fixes.because(Code::LostXattr, format!("{} of inode {:#x} are removed", attributes.len(), id.0));
            for (name, _) in attributes {
                fixes.effect(survey.shard, Effect::RemoveXattr { id, name: name.clone() });
            }
        }
        for (&id, attributes) in &survey.xattrs {
            let Some(&inode) = view.inodes.get(&id) else { continue };
            for (name, value) in attributes {
                let Some(why) = wrong(inode, name, value) else { continue };
                fixes.because(Code::Xattr, format!("{why}: it is removed from inode {:#x}", id.0));
                fixes.effect(survey.shard, Effect::RemoveXattr { id, name: name.clone() });
                if matches!(name.namespace(), Ok(Namespace::AclAccess)) && inode.mode & GROUP_BITS != 0 {
                    fixes.inode(view, Inode { mode: inode.mode & !GROUP_BITS, ..inode.clone() });
                }
            }
        }
    }
}
