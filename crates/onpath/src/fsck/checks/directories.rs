//! Directories are a tree below the root, and ".." leads up in it.

use crate::fsck::code::Code;
use crate::fsck::report::{Finding, Report};
use crate::fsck::view::View;
use onpath_wire::ids::InodeId;
use std::collections::BTreeSet;

pub(super) fn check(view: &View<'_>, report: &mut Report) {
    let mut reached = BTreeSet::from([InodeId::ROOT]);
    for &id in view.inodes.keys().filter(|&&id| view.directory(id).is_some()) {
        parent(view, id, report);
        if let Some(cycle) = climb(view, id, &mut reached) {
            let ids: Vec<String> = cycle.iter().map(|id| format!("{:#x}", id.0)).collect();
            let message = format!("these directories contain each other and cannot be reached: {}", ids.join(", "));
            report.add(Finding::new(Code::Cycle, message).inode(cycle[0]).shard(view.map.home(cycle[0])));
        }
    }
}

/// Directories that contain each other.
pub(in crate::fsck) fn cycles(view: &View<'_>) -> Vec<Vec<InodeId>> {
    let mut reached = BTreeSet::from([InodeId::ROOT]);
    let living = view.inodes.keys().filter(|&&id| view.directory(id).is_some());
    living.filter_map(|&id| climb(view, id, &mut reached)).collect()
}

fn parent(view: &View<'_>, id: InodeId, report: &mut Report) {
    let names = view.names_of(id);
    let Some(inode) = view.directory(id).filter(|_| id != InodeId::ROOT && !names.is_empty()) else { return };
    let parent = view.promised.moved.get(&id).copied().unwrap_or(inode.parent);
    if !names.iter().any(|(of, _)| *of == parent) {
        let message = format!("\"..\" leads to directory {:#x}, but the name is in {:#x}", parent.0, names[0].0.0);
        report.add(Finding::new(Code::Parent, message).inode(id).shard(view.map.home(id)).path(view.path(id)));
    }
}

/// Goes up until something known; a way that comes back to itself never reached the root.
fn climb(view: &View<'_>, from: InodeId, reached: &mut BTreeSet<InodeId>) -> Option<Vec<InodeId>> {
    let mut way = Vec::new();
    let mut at = from;
    while reached.insert(at) {
        way.push(at);
        // A directory without a name is a finding of its own; what is below it is not.
        at = view.names_of(at).first()?.0;
    }
    let start = way.iter().position(|&id| id == at)?;
    Some(way.split_off(start))
}
