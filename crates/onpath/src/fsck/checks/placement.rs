//! Every object is at its place, once, and of a birth and term that were given out.

use crate::fsck::code::Code;
use crate::fsck::report::{Finding, Report};
use crate::fsck::view::View;
use onpath_meta::{Shard, Survey, next_birth};
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::superblock::Superblock;
use onpath_wire::ids::{Birth, InodeId, Term};

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
        if !inode.id.is_of(inode.kind) {
            let says = if inode.id.is_directory() { "a directory" } else { "none" };
            report.add(finding(
                Code::IdKind,
                format!("the inode is of kind {:?}, its number that of {says}", inode.kind),
            ));
        }
        let (what, number, next) = match view.next.never_given(inode) {
            Some(NeverGiven::Term(term)) => ("data of the inode are of term", term.0, view.next.term.0),
            Some(NeverGiven::Birth(birth)) => ("the inode's id is of birth", birth.0, view.next.birth.0),
            None => continue,
        };
        report.add(finding(Code::Term, format!("{what} {number}, given out are those below {next}")));
    }
}

/// What is given out next.
#[derive(Clone, Copy, Debug)]
pub(in crate::fsck) struct Next {
    /// Terms from this one on are not given out.
    pub(in crate::fsck) term: Term,
    /// Nor births from this one on.
    pub(in crate::fsck) birth: Birth,
}

/// What an inode has and was never given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fsck) enum NeverGiven {
    /// The term of its data generation.
    Term(Term),
    /// The birth of its id.
    Birth(Birth),
}

impl Next {
    /// That of a DIR with these shards.
    pub(in crate::fsck) fn of(superblock: &Superblock, shards: &[Shard]) -> Next {
        Next { term: Term(superblock.journal().next_term), birth: next_birth(shards) }
    }

    /// What of an inode was never given out, if anything.
    pub(in crate::fsck) fn never_given(self, inode: &Inode) -> Option<NeverGiven> {
        let birth = inode.id.birth();
        if inode.id != InodeId::ROOT && (birth.0 == 0 || birth >= self.birth) {
            return Some(NeverGiven::Birth(birth));
        }
        let generation = inode.generation.term();
        (generation >= self.term).then_some(NeverGiven::Term(generation))
    }
}

fn names(view: &View, survey: &Survey, report: &mut Report) {
    for name in &survey.names {
        let site = view.map.shard(view.map.site(name.parent, name.name.as_bytes()));
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
