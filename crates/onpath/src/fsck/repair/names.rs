//! Names that lead nowhere or belong nowhere, and directories that names make no tree of.

use super::fixes::Fixes;
use crate::fsck::checks::directories::cycles;
use crate::fsck::code::Code;
use crate::fsck::view::{NameOf, Named, Target, View};
use onpath_host::offline::Offline;
use onpath_wire::shown::Shown;

pub(super) fn fix(view: &View, offline: &mut Offline, fixes: &mut Fixes) {
    view.doubtful_names(&mut |of, target| match view.inodes.get(&target.child) {
        None => drop_name(view, offline, of, target, Code::Dangling, fixes),
        Some(_) if view.directory(of.0).is_none() => drop_name(view, offline, of, target, Code::NoDirectory, fixes),
        Some(inode) if inode.kind != target.kind => {
            let (parent, name) = of;
            fixes.because(Code::NameKind, format!("{name:?} of directory {:#x} is a {:?}", parent.0, inode.kind));
            fixes.put_name(view, offline, (*parent, name), Target { kind: inode.kind, ..target });
        }
        Some(_) => {}
    });
    if fixes.is_empty() {
        second_names(view, offline, fixes);
    }
    if fixes.is_empty() {
        for (_, cycle) in cycles(view) {
            let Some(of) = cycle.iter().min().and_then(|id| view.names_of(*id).next()) else { continue };
            drop_found(view, offline, &of, Code::Cycle, fixes);
        }
    }
}

/// Drops a name that an inode is known to have.
fn drop_found(view: &View, offline: &mut Offline, of: &NameOf, code: Code, fixes: &mut Fixes) {
    if let Some(was) = view.names.get(of) {
        drop_name(view, offline, of, was, code, fixes);
    }
}

fn drop_name(view: &View, offline: &mut Offline, of: &NameOf, was: Target, code: Code, fixes: &mut Fixes) {
    let (parent, name) = of;
    let path = view.path_in(*parent, name).map_or_else(String::new, |path| path.shown().to_string());
    fixes.because(code, format!("the name {name:?} of directory {:#x} is removed {path}", parent.0));
    fixes.drop_name(view, offline, (*parent, name), was);
}

fn second_names(view: &View, offline: &mut Offline, fixes: &mut Fixes) {
    for Named { inode, names, .. } in view.named().filter(|named| named.names.len() > 1) {
        let above = |(parent, _): &NameOf| *parent == inode.parent;
        let own = |of: &NameOf| above(of) && Some(&of.1) == inode.name.as_ref();
        let keep = names.iter().position(own).or_else(|| names.iter().position(above)).unwrap_or(0);
        for (_, of) in names.iter().enumerate().filter(|(at, _)| *at != keep) {
            drop_found(view, offline, of, Code::SecondName, fixes);
        }
    }
}
