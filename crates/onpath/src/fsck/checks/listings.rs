//! What owners list, with what is on its way to them, is what the names' sites have.

use crate::fsck::code::Code;
use crate::fsck::report::{Finding, Report};
use crate::fsck::sorted::Iter;
use crate::fsck::view::{Count, NameOf, Target, View, is_living_directory};
use onpath_wire::disk::inode::Inode;
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use std::collections::BTreeMap;
use std::iter::{self, Peekable};

/// A wrong entry: what is wrong with it, its name, what it is, and what is listed.
pub(in crate::fsck) type Mismatch = (Code, Name, Option<Target>, Option<Target>);

/// What a comparison of all names with all listings tells.
pub(in crate::fsck) enum Difference {
    /// A name of a directory that is not there.
    NoDirectory(NameOf),
    /// What follows is of this directory.
    Directory(Inode),
    /// An entry; those that should not be there come after all others.
    Wrong(InodeId, Mismatch),
}

pub(super) fn check(view: &View, report: &mut Report) {
    let mut all_counts = view.counts.iter().peekable();
    differences(view, &mut |difference| match difference {
        Difference::NoDirectory((parent, name)) => no_directory(view, parent, &name, report),
        Difference::Directory(inode) => {
            while all_counts.next_if(|(dir, _)| *dir < inode.id).is_some() {}
            let count = all_counts.next_if(|(dir, _)| *dir == inode.id).map(|(_, count)| count);
            counts(view, &inode, count.unwrap_or_default(), report);
        }
        Difference::Wrong(dir, wrong) => mismatch(view, dir, wrong, report),
    });
    for dir in unowned(view) {
        let message = "a listing of a directory that does not exist";
        report.add(Finding::new(Code::NoDirectory, message).inode(dir).shard(view.map.home(dir)));
    }
}

/// Directories that are listed at their homes, but removed or not there.
pub(in crate::fsck) fn unowned(view: &View) -> impl Iterator<Item = InodeId> {
    let mut directories = view.inodes.iter().filter(|(_, inode)| is_living_directory(inode)).peekable();
    view.counts.iter().map(|(dir, _)| dir).filter(move |dir| {
        while directories.next_if(|(id, _)| id < dir).is_some() {}
        directories.peek().is_none_or(|(id, _)| id != dir)
    })
}

/// Compares all names with all listings, in order.
pub(in crate::fsck) fn differences(view: &View, each: &mut dyn FnMut(Difference)) {
    let mut names = view.names.iter().peekable();
    let mut listed = view.listed.iter().peekable();
    for (dir, inode) in view.inodes.iter().filter(|(_, inode)| is_living_directory(inode)) {
        while let Some((of, _)) = names.next_if(|((parent, _), _)| *parent < dir) {
            each(Difference::NoDirectory(of));
        }
        while listed.next_if(|((parent, _), _)| *parent < dir).is_some() {}
        each(Difference::Directory(inode));
        let mut extra = false;
        let listed = expected(view, dir, iter::from_fn(|| of_directory(&mut listed, dir)));
        compare(iter::from_fn(|| of_directory(&mut names, dir)), listed, &mut |wrong| {
            if is_extra(&wrong) { extra = true } else { each(Difference::Wrong(dir, wrong)) }
        });
        if extra {
            compare_one(view, dir, &mut |wrong| {
                if is_extra(&wrong) {
                    each(Difference::Wrong(dir, wrong));
                }
            });
        }
    }
    names.for_each(|(of, _)| each(Difference::NoDirectory(of)));
}

fn is_extra(wrong: &Mismatch) -> bool {
    wrong.0 == Code::ExtraEntry
}

/// The next entry, if it is of this directory.
fn of_directory(all: &mut Peekable<Iter<'_, NameOf, Target>>, dir: InodeId) -> Option<(Name, Target)> {
    all.next_if(|((parent, _), _)| *parent == dir).map(|((_, name), target)| (name, target))
}

/// Whether the names of a directory, which it lists or should list, have some that it does not list as they are.
pub(in crate::fsck) fn first_mismatch(view: &View, dir: InodeId) -> Option<Code> {
    let (mut first, mut extra) = (None, None);
    compare_one(view, dir, &mut |wrong| {
        _ = if is_extra(&wrong) { &mut extra } else { &mut first }.get_or_insert(wrong.0)
    });
    first.or(extra)
}

fn compare_one(view: &View, dir: InodeId, each: &mut dyn FnMut(Mismatch)) {
    let (mut names, mut listed) = (view.names.from(&dir).peekable(), view.listed.from(&dir).peekable());
    let listed = expected(view, dir, iter::from_fn(|| of_directory(&mut listed, dir)));
    compare(iter::from_fn(|| of_directory(&mut names, dir)), listed, each);
}

/// Compares names with what is listed, both in order.
fn compare(
    names: impl Iterator<Item = (Name, Target)>,
    listed: impl Iterator<Item = (Name, Target)>,
    each: &mut dyn FnMut(Mismatch),
) {
    let mut listed = listed.peekable();
    for (name, is) in names {
        while let Some((extra, was)) = listed.next_if(|(other, _)| *other < name) {
            each((Code::ExtraEntry, extra, None, Some(was)));
        }
        match listed.next_if(|(other, _)| *other == name) {
            Some((_, as_listed)) if as_listed == is => {}
            Some((_, as_listed)) => each((Code::EntryMismatch, name, Some(is), Some(as_listed))),
            None => each((Code::LostEntry, name, Some(is), None)),
        }
    }
    listed.for_each(|(extra, was)| each((Code::ExtraEntry, extra, None, Some(was))));
}

/// What is on its way to a directory: what its names will lead to there.
fn on_its_way(view: &View, dir: InodeId) -> BTreeMap<Name, Option<Target>> {
    let owner = view.survey(view.map.home(dir)).expect("every slot has a shard");
    let mut changes = BTreeMap::new();
    for site in &view.surveys {
        // Not the floor: an entry below it that is in a change-log was not applied, which is a fault of its own.
        let applied = owner.watermarks.get(&(dir, site.shard)).copied().unwrap_or_default();
        for entry in site.logs.get(&dir).into_iter().flatten().filter(|entry| entry.seq > applied) {
            let target = Target { child: entry.child, kind: entry.kind };
            changes.insert(entry.name.clone(), entry.put.then_some(target));
        }
    }
    changes
}

/// What the owner lists after everything on its way is applied; `listed`: what it lists now. Of several entries of one name one
/// counts.
fn expected(
    view: &View,
    dir: InodeId,
    listed: impl Iterator<Item = (Name, Target)>,
) -> impl Iterator<Item = (Name, Target)> {
    let mut listed = listed.peekable();
    let mut changes = on_its_way(view, dir).into_iter().peekable();
    iter::from_fn(move || {
        loop {
            let listed_first = match (listed.peek(), changes.peek()) {
                (Some((name, _)), Some((changed, _))) => name < changed,
                (listed, _) => listed.is_some(),
            };
            if listed_first {
                let mut entry = listed.next()?;
                while let Some(again) = listed.next_if(|(name, _)| *name == entry.0) {
                    entry = again;
                }
                return Some(entry);
            }
            let (name, target) = changes.next()?;
            while listed.next_if(|(other, _)| *other == name).is_some() {}
            if let Some(target) = target {
                return Some((name, target));
            }
        }
    })
}

/// The same of one name.
pub(in crate::fsck) fn expected_of(view: &View, dir: InodeId, name: &Name) -> Option<Target> {
    on_its_way(view, dir).remove(name).unwrap_or_else(|| view.listed.get(&(dir, name.clone())))
}

fn finding(view: &View, dir: InodeId, name: &Name, code: Code, message: String) -> Finding {
    Finding::new(code, message).inode(dir).shard(view.map.home(dir)).path(view.path_in(dir, name))
}

fn no_directory(view: &View, parent: InodeId, name: &Name, report: &mut Report) {
    let message = format!("the name {name:?} belongs to a directory that does not exist");
    report.add(finding(view, parent, name, Code::NoDirectory, message));
}

fn mismatch(view: &View, dir: InodeId, (code, name, is, listed): Mismatch, report: &mut Report) {
    let message = match (is, listed) {
        (Some(is), Some(listed)) => format!(
            "{name:?} leads to inode {:#x} ({:?}), but is listed as {:#x} ({:?})",
            is.child.0, is.kind, listed.child.0, listed.kind
        ),
        (_, None) => format!("{name:?} exists, but its directory does not list it, and it is not on its way there"),
        (None, Some(listed)) => {
            format!("{name:?} is listed, leading to inode {:#x}, but there is no such name", listed.child.0)
        }
    };
    report.add(finding(view, dir, &name, code, message));
}

/// The directory's own counts are those of its listing, without what is on its way.
fn counts(view: &View, inode: &Inode, Count { entries, directories }: Count, report: &mut Report) {
    let finding = |code, message| {
        Finding::new(code, message).inode(inode.id).shard(view.map.home(inode.id)).path(view.path(inode.id))
    };
    if inode.entries != entries {
        let message = format!("the directory counts {} entries, it lists {entries}", inode.entries);
        report.add(finding(Code::EntryCount, message));
    }
    if u64::from(inode.nlink) != 2 + directories {
        let message = format!("nlink is {}, but there are {directories} subdirectories", inode.nlink);
        report.add(finding(Code::DirNlink, message));
    }
}
