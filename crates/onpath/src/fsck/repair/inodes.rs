//! Counts of inodes, parents and own names of directories, attributes.

use super::fixes::Fixes;
use crate::fsck::checks::xattrs::{lost, wrong};
use crate::fsck::code::Code;
use crate::fsck::view::{Count, Named, View};
use onpath_host::offline::Offline;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::InodeId;
use onpath_wire::shown::Shown;
use onpath_wire::xattr::Namespace;

/// Permission bits of the group; with an access ACL they are its mask.
const GROUP_BITS: u16 = 0o070;

/// What directories count of their own listings.
pub(super) fn counts(view: &View, _: &mut Offline, fixes: &mut Fixes) {
    let mut counts = view.counts.iter().peekable();
    for Named { inode, count, .. } in view.named().filter(|named| named.inode.is_dir()) {
        let (id, dead) = (inode.id, inode.nlink == 0);
        if dead && count == 0 {
            continue;
        }
        while counts.next_if(|(dir, _)| *dir < id).is_some() {}
        let Count { entries, directories } =
            counts.next_if(|(dir, _)| *dir == id).map(|(_, count)| count).unwrap_or_default();
        let nlink = 2 + directories as u32;
        let path = || view.path(id).map_or_else(String::new, |path| path.shown().to_string());
        if inode.entries != entries {
            fixes.because(Code::EntryCount, format!("directory {:#x} has {entries} entries {}", id.0, path()));
        }
        if inode.nlink != nlink {
            fixes.because(Code::DirNlink, format!("nlink of directory {:#x} is {nlink} {}", id.0, path()));
        }
        if dead {
            revive(view, id, fixes);
        }
        if inode.entries != entries || inode.nlink != nlink {
            fixes.inode(view, Inode { entries, nlink, ..inode });
        }
    }
}

/// An inode that was to be reclaimed is not any more, when it gets a name.
fn revive(view: &View, id: InodeId, fixes: &mut Fixes) {
    fixes.effect(view.map.home(id), Effect::Linkable { id });
}

pub(super) fn fix(view: &View, _: &mut Offline, fixes: &mut Fixes) {
    for named in view.named().filter(|named| named.inode.id != InodeId::ROOT) {
        if named.inode.is_dir() { parent(view, &named, fixes) } else { links(view, &named, fixes) }
    }
    attributes(view, fixes);
}

fn parent(view: &View, Named { inode, names, .. }: &Named, fixes: &mut Fixes) {
    let ([(parent, name)], None) = (names.as_slice(), view.promised.moved.get(&inode.id)) else { return };
    let own = Some(name.clone());
    if inode.nlink == 0 || (inode.parent == *parent && inode.name == own) {
        return;
    }
    if inode.parent != *parent {
        fixes.because(Code::Parent, format!("\"..\" of directory {:#x} leads to {:#x}", inode.id.0, parent.0));
    }
    if inode.name != own {
        fixes.because(Code::OwnName, format!("directory {:#x} is called {name:?}", inode.id.0));
    }
    fixes.inode(view, Inode { parent: *parent, name: own, ..inode.clone() });
}

fn links(view: &View, Named { inode, count, .. }: &Named, fixes: &mut Fixes) {
    let names = *count as u32;
    if names == 0 || names == inode.nlink || view.promised.links.contains_key(&inode.id) {
        return;
    }
    fixes.because(Code::FileNlink, format!("nlink of inode {:#x} is {names}, not {}", inode.id.0, inode.nlink));
    if inode.nlink == 0 {
        revive(view, inode.id, fixes);
    }
    fixes.inode(view, Inode { nlink: names, ..inode.clone() });
}

fn attributes(view: &View, fixes: &mut Fixes) {
    for survey in &view.surveys {
        for id in lost(view, survey) {
            let attributes = &survey.xattrs[&id];
            fixes.because(Code::LostXattr, format!("{} of inode {:#x} are removed", attributes.len(), id.0));
            for (name, _) in attributes {
                fixes.effect(survey.shard, Effect::RemoveXattr { id, name: name.clone() });
            }
        }
        for (&id, attributes) in &survey.xattrs {
            let Some(inode) = view.inodes.get(&id) else { continue };
            for (name, value) in attributes {
                let Some(why) = wrong(inode.kind, name, value) else { continue };
                fixes.because(Code::Xattr, format!("{why}: it is removed from inode {:#x}", id.0));
                fixes.effect(survey.shard, Effect::RemoveXattr { id, name: name.clone() });
                if matches!(name.namespace(), Ok(Namespace::AclAccess)) && inode.mode & GROUP_BITS != 0 {
                    fixes.inode(view, Inode { mode: inode.mode & !GROUP_BITS, ..inode.clone() });
                }
            }
        }
    }
}
