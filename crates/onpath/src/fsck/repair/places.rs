//! Objects at shards where they do not belong, births and terms that were never given out, and a root that is missing.

use super::fixes::{Fixes, STAMP, site_of};
use crate::fsck::checks::placement::{NeverGiven, misplaced_listings};
use crate::fsck::code::Code;
use crate::fsck::view::{Target, View};
use onpath_host::offline::Offline;
use onpath_meta::{Survey, SurveyedName};
use onpath_wire::codec::Blob;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::{Birth, InodeId, Term};
use onpath_wire::inode::Kind;

/// The last birth that counts as given out because an inode has it. A wrong id beyond must not use up all that there are.
const BIRTH_MAX: Birth = Birth(Birth::MAX.0 / 2);
/// What nobody should see before somebody has looked at it.
const ROOT_MODE: u16 = 0o700;

pub(super) fn fix(view: &View, offline: &mut Offline, fixes: &mut Fixes) {
    births(view, fixes);
    for survey in &view.surveys {
        for inode in &survey.inodes {
            term(view, offline, inode, fixes);
            home(view, survey, inode, fixes);
        }
        for name in &survey.names {
            site(view, offline, survey, name, fixes);
        }
        for dir in misplaced_listings(view, survey) {
            fixes.because(Code::Misplaced, format!("a listing of directory {:#x} at shard {}", dir.0, survey.shard));
            fixes.effect(survey.shard, Effect::DropInode { id: dir });
        }
    }
    let empty = view.inodes.is_empty() && view.names.is_empty();
    if fixes.is_empty() && !empty && !view.inodes.contains_key(&InodeId::ROOT) {
        root(view, fixes);
    }
}

fn term(view: &View, offline: &mut Offline, inode: &Inode, fixes: &mut Fixes) {
    let Some(NeverGiven::Term(term)) = view.next.never_given(inode) else { return };
    let next = offline.superblock().journal().next_term;
    if term <= Term::MAX && next <= term.0 && offline.take_terms(term).is_ok() {
        fixes.because(Code::Term, format!("all terms up to {} count as given out", term.0));
    }
}

/// All births up to the last one that an inode has count as given out.
fn births(view: &View, fixes: &mut Fixes) {
    let inodes = view.surveys.iter().flat_map(|survey| &survey.inodes);
    let never = inodes.filter_map(|inode| match view.next.never_given(inode) {
        Some(NeverGiven::Birth(birth)) if (1..=BIRTH_MAX.0).contains(&birth.0) => Some(birth),
        _ => None,
    });
    if let Some(last) = never.max() {
        fixes.because(Code::Term, format!("all births up to {} count as given out", last.0));
        fixes.reserve(view, last);
    }
}

fn home(view: &View, survey: &Survey, inode: &Inode, fixes: &mut Fixes) {
    let home = view.map.home(inode.id);
    if home == survey.shard {
        return;
    }
    if view.inodes.contains_key(&inode.id) {
        fixes.because(Code::DoubleId, format!("inode {:#x} is removed from shard {}", inode.id.0, survey.shard));
    } else {
        fixes.because(Code::Misplaced, format!("inode {:#x} moves to shard {home}", inode.id.0));
        fixes.inode(view, inode.clone());
        for (name, value) in survey.xattrs.get(&inode.id).into_iter().flatten() {
            let (name, value) = (name.clone(), Blob(value.clone()));
            fixes.effect(home, Effect::SetXattr { id: inode.id, name, value });
        }
        for &(dir, names) in survey.further.get(&inode.id).into_iter().flatten() {
            fixes.effect(home, Effect::Further { id: inode.id, dir, names });
        }
    }
    fixes.effect(survey.shard, Effect::DropInode { id: inode.id });
}

fn site(view: &View, offline: &mut Offline, survey: &Survey, found: &SurveyedName, fixes: &mut Fixes) {
    let SurveyedName { parent, name, child, kind } = found;
    let site = site_of(view, *parent, name);
    if site == survey.shard {
        return;
    }
    fixes.because(Code::Misplaced, format!("the name {name:?} of directory {:#x} at shard {}", parent.0, survey.shard));
    let log = onpath_wire::disk::record::Log { seq: onpath_wire::ids::LogSeq(0), dcount: 0, dnlink: 0 };
    let (parent, name, child, kind) = (*parent, name.clone(), *child, *kind);
    let listed = if view.map.home(parent) == survey.shard {
        view.listed.get(&(parent, name.clone()))
    } else {
        let entry = survey.listings.get(&parent).into_iter().flatten().find(|entry| entry.name == name);
        entry.map(|entry| Target { child: entry.child, kind: entry.kind })
    };
    fixes.effect(survey.shard, Effect::DropName { parent, name: name.clone(), child, kind, log });
    if let Some(as_was) = listed {
        // The listing, if that is there, is not meant.
        fixes.list(survey.shard, parent, vec![(name.clone(), as_was, true)]);
    }
    if !view.names.contains_key(&(parent, name.clone())) {
        fixes.put_name(view, offline, (parent, &name), Target { child, kind });
    }
}

fn root(view: &View, fixes: &mut Fixes) {
    fixes.because(Code::NoRoot, format!("a root of mode {ROOT_MODE:o} is made"));
    let mut inode = Inode::new(InodeId::ROOT, Kind::Directory);
    inode.mode = ROOT_MODE;
    inode.parent = InodeId::ROOT;
    inode.mtime_stamp = STAMP;
    fixes.inode(view, inode);
}
