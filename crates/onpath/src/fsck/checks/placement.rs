//! Every object is at its place, once, and of a term that was given out.

use crate::fsck::code::Code;
use crate::fsck::report::{Finding, Report};
use crate::fsck::view::View;
use onpath_meta::Survey;
use onpath_wire::disk::inode::Inode;
use onpath_wire::hash::site;
use onpath_wire::ids::{InodeId, Term};

pub(super) fn check(view: &View, report: &mut Report) {
    for survey in &view.surveys {
        inodes(view, survey, report);
        names(view, survey, report);
        listings(view, survey, report);
    }
    // Killed before its first record, a file system has nothing at all: the next start makes the root.
    let empty = view.inodes.is_empty() && view.names.is_empty();
    if !empty && !view.inodes.contains_key(&InodeId::ROOT) {
        report.add(Finding::new(Code::NoRoot, "there is no root directory").inode(InodeId::ROOT));
    }
}

fn inodes(view: &View, survey: &Survey, report: &mut Report) {
    for inode in &survey.inodes {
        let home = view.map.home(inode.id);
        let finding = |code, message: String| {
            Finding::new(code, message).inode(inode.id).shard(survey.shard).path(view.path(inode.id))
        };
        if home != survey.shard && view.inodes.contains_key(&inode.id) {
            report.add(finding(Code::DoubleId, format!("the inode is also at its home, shard {home}")));
        } else if home != survey.shard {
            report.add(finding(Code::Misplaced, format!("the inode should be at shard {home}")));
        }
        if let Some(term) = unknown_term(view.next_term, inode) {
            let message =
                format!("an id of the inode is of term {}, given out are those below {}", term.0, view.next_term.0);
            report.add(finding(Code::Term, message));
        }
    }
}

/// The term of the inode's id or of its data generation, if it was never given out.
pub(in crate::fsck) fn unknown_term(next_term: Term, inode: &Inode) -> Option<Term> {
    let term = inode.id.term();
    if inode.id != InodeId::ROOT && (term.0 == 0 || term >= next_term) {
        return Some(term);
    }
    let generation = Term((inode.generation.0 >> 32) as u32);
    (generation >= next_term).then_some(generation)
}

fn names(view: &View, survey: &Survey, report: &mut Report) {
    for name in &survey.names {
        let site = view.map.shard(site(name.parent, name.name.as_bytes()));
        if site != survey.shard {
            let message = format!("the name {:?} should be at shard {site}", name.name);
            let finding = Finding::new(Code::Misplaced, message).inode(name.parent).shard(survey.shard);
            report.add(finding.path(view.path_in(name.parent, &name.name)));
        }
    }
}

fn listings(view: &View, survey: &Survey, report: &mut Report) {
    for dir in misplaced_listings(view, survey) {
        let message = format!("the listing should be at shard {}", view.map.home(dir));
        report.add(Finding::new(Code::Misplaced, message).inode(dir).shard(survey.shard).path(view.path(dir)));
    }
}

/// Directories that a shard lists although it is not their home.
pub(in crate::fsck) fn misplaced_listings(view: &View, survey: &Survey) -> impl Iterator<Item = InodeId> {
    survey.listings.keys().copied().filter(|&dir| view.map.home(dir) != survey.shard)
}
