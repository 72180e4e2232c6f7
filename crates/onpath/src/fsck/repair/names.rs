//! Names that lead nowhere or belong nowhere, and directories that names make no tree of.

use super::fixes::Fixes;
use crate::fsck::checks::directories::cycles;
use crate::fsck::code::Code;
use crate::fsck::view::{NameOf, Target, View};
use onpath_host::offline::Offline;

pub(super) fn fix(view: &View<'_>, offline: &mut Offline, fixes: &mut Fixes) {
    for (&(parent, name), &target) in view.names.iter() {
        if view.promised.names.contains(&(parent, name)) || view.promised.swaps.contains_key(&(parent, name)) {
            continue;
        }
        let of = (parent, name);
        match view.inodes.get(&target.child) {
            None => drop_name(view, offline, of, target, Code::Dangling, fixes),
            Some(_) if view.directory(parent).is_none() => {
                drop_name(view, offline, of, target, Code::NoDirectory, fixes)
            }
            Some(inode) if inode.kind != target.kind => {
                fixes.because(Code::NameKind, format!("{name:?} of directory {:#x} is a {:?}", parent.0, inode.kind));
                fixes.put_name(view, offline, of, Target { kind: inode.kind, ..target });
            }
            Some(_) => {}
        }
    }
    if fixes.is_empty() {
        second_names(view, offline, fixes);
    }
    if fixes.is_empty() {
        for cycle in cycles(view) {
            let Some(&id) = cycle.iter().min() else { continue };
            let Some(&of) = view.names_of(id).first() else { continue };
            drop_name(view, offline, of, view.names[&of], Code::Cycle, fixes);
        }
    }
}

fn drop_name(view: &View<'_>, offline: &mut Offline, of: NameOf<'_>, was: Target, code: Code, fixes: &mut Fixes) {
    let (parent, name) = of;
    let path = view.path_in(parent, name).unwrap_or_default();
    fixes.because(code, format!("the name {name:?} of directory {:#x} is removed {path}", parent.0));
    fixes.drop_name(view, offline, of, was);
}

fn second_names(view: &View<'_>, offline: &mut Offline, fixes: &mut Fixes) {
    for (&id, inode) in view.inodes.iter().filter(|(_, inode)| inode.is_dir()) {
        let names = view.names_of(id);
        if names.len() > 1 {
            let keep = names.iter().position(|(parent, _)| *parent == inode.parent).unwrap_or(0);
            for (_, &of) in names.iter().enumerate().filter(|(at, _)| *at != keep) {
                drop_name(view, offline, of, view.names[&of], Code::SecondName, fixes);
            }
        }
    }
}
