//! Directories are a tree below the root, ".." leads up in it, and a directory's inode has the name that leads to it.

use crate::fsck::code::Code;
use crate::fsck::report::{Finding, Report};
use crate::fsck::sorted::{Sorted, Sorting};
use crate::fsck::view::{Named, View, is_living_directory};
use onpath_wire::ids::InodeId;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(view: &View, report: &mut Report) {
    let mut cycles = cycles(view).into_iter().peekable();
    for named in view.named().filter(|named| is_living_directory(&named.inode)) {
        parent(view, &named, report);
        while let Some((_, cycle)) = cycles.next_if(|(from, _)| *from == named.inode.id) {
            let ids: Vec<String> = cycle.iter().map(|id| format!("{:#x}", id.0)).collect();
            let message = format!("these directories contain each other and cannot be reached: {}", ids.join(", "));
            report.add(Finding::new(Code::Cycle, message).inode(cycle[0]).shard(view.map.home(cycle[0])));
        }
    }
}

fn parent(view: &View, Named { inode, names, .. }: &Named, report: &mut Report) {
    let id = inode.id;
    let Some((first, name)) = names.first().filter(|_| id != InodeId::ROOT) else { return };
    let (parent, own) = match view.promised.moved.get(&id) {
        Some((to, name)) => (*to, Some(name)),
        None => (inode.parent, inode.name.as_ref()),
    };
    let mut add = |code, message: String| {
        report.add(Finding::new(code, message).inode(id).shard(view.map.home(id)).path(view.path(id)));
    };
    if !names.iter().any(|(of, _)| *of == parent) {
        add(Code::Parent, format!("\"..\" leads to directory {:#x}, but the name is in {:#x}", parent.0, first.0));
    }
    if !names.iter().any(|(_, name)| Some(name) == own) {
        let own = own.map_or("no name".to_owned(), |own| format!("the name {own:?}"));
        add(Code::OwnName, format!("its inode has {own}, but {name:?} leads to it"));
    }
}

/// Directories that contain each other, each with a living directory that is one of them or below.
pub(in crate::fsck) fn cycles(view: &View) -> Vec<(InodeId, Vec<InodeId>)> {
    let up = endless(view);
    let mut reached = BTreeSet::new();
    let living = up.keys().copied().filter(|id| view.directory(*id).is_some());
    living.filter_map(|id| climb(&up, id, &mut reached).map(|cycle| (id, cycle))).collect()
}

/// Goes up until something known; a way that comes back to itself never reached the root.
fn climb(up: &BTreeMap<InodeId, InodeId>, from: InodeId, reached: &mut BTreeSet<InodeId>) -> Option<Vec<InodeId>> {
    let mut way = Vec::new();
    let mut at = from;
    while reached.insert(at) {
        way.push(at);
        at = *up.get(&at)?;
    }
    let start = way.iter().position(|&id| id == at)?;
    Some(way.split_off(start))
}

/// The ways up that never end, at the root or at a directory without a name (which is a finding of its own), a step each.
///
/// In round n a table has who is 2^n steps further up. Who has nobody there is done, so rounds are few: as many as the depth of the
/// tree has bits. A round in which nobody is done leaves those whose ways never end.
fn endless(view: &View) -> BTreeMap<InodeId, InodeId> {
    let steps = steps(view);
    let mut further: Option<Sorted<InodeId, InodeId>> = None;
    loop {
        let ups = further.as_ref().unwrap_or(&steps);
        let mut by_upper: Sorting<(InodeId, InodeId), bool> = Sorting::new(view.spill());
        ups.iter().for_each(|(id, upper)| by_upper.push(&(upper, id), &true));
        let mut next = Sorting::new(view.spill());
        let mut uppers = ups.iter().peekable();
        for ((upper, id), _) in by_upper.finish().iter() {
            while uppers.next_if(|(other, _)| *other < upper).is_some() {}
            if let Some((_, top)) = uppers.peek().filter(|(other, _)| *other == upper) {
                next.push(&id, top);
            }
        }
        let (next, before) = (next.finish(), ups.len());
        if next.len() == before {
            let mut steps = steps.iter().peekable();
            let step = |(id, _)| {
                while steps.next_if(|(other, _)| *other < id).is_some() {}
                steps.next_if(|(other, _)| *other == id)
            };
            return next.iter().filter_map(step).collect();
        }
        further = Some(next);
    }
}

/// Living directories, and whatever else has names below it, with the parent of their first names.
fn steps(view: &View) -> Sorted<InodeId, InodeId> {
    let mut directories = view.inodes.iter().filter(|(_, inode)| is_living_directory(inode)).peekable();
    let mut parents = view.names.iter().map(|((parent, _), _)| parent).peekable();
    let (mut steps, mut last) = (Sorting::new(view.spill()), InodeId::ROOT);
    for (id, (parent, _)) in view.by_inode().filter(|(id, _)| *id != InodeId::ROOT) {
        while directories.next_if(|(other, _)| *other < id).is_some() {}
        while parents.next_if(|other| *other < id).is_some() {}
        let is_living = directories.peek().is_some_and(|(other, _)| *other == id);
        if id != last && (is_living || parents.peek() == Some(&id)) {
            steps.push(&id, &parent);
        }
        last = id;
    }
    steps.finish()
}
