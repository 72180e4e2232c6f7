//! What owners list, with what is on its way to them, is what the names' sites have.

use crate::fsck::code::Code;
use crate::fsck::report::{Finding, Report};
use crate::fsck::view::{Target, View};
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use std::collections::BTreeMap;

pub(in crate::fsck) type Listing = BTreeMap<Name, Target>;

pub(super) fn check(view: &View<'_>, report: &mut Report) {
    let mut names = view.names.iter().peekable();
    let directories: Vec<InodeId> = view.inodes.keys().copied().filter(|&id| view.directory(id).is_some()).collect();
    for &dir in &directories {
        while let Some((&(parent, name), _)) = names.next_if(|((parent, _), _)| *parent < dir) {
            no_directory(view, parent, name, report);
        }
        counts(view, dir, report);
        let mut listed = expected(view, dir);
        while let Some((&(_, name), target)) = names.next_if(|((parent, _), _)| *parent == dir) {
            compare(view, dir, name, *target, listed.remove(name), report);
        }
        for (name, target) in listed {
            let message =
                format!("{name:?} is listed, leading to inode {:#x}, but there is no such name", target.child.0);
            report.add(finding(view, dir, &name, Code::ExtraEntry, message));
        }
    }
    for (&(parent, name), _) in names {
        no_directory(view, parent, name, report);
    }
    for survey in view.surveys {
        for &dir in survey.listings.keys().filter(|&&dir| view.map.home(dir) == survey.shard) {
            if view.directory(dir).is_none() {
                let message = "a listing of a directory that does not exist";
                report.add(Finding::new(Code::NoDirectory, message).inode(dir).shard(survey.shard));
            }
        }
    }
}

/// A wrong entry: what is wrong with it, its name, what it is, and what is listed.
pub(in crate::fsck) type Mismatch = (Code, Name, Option<Target>, Option<Target>);

/// The entries of a living directory that do not say what its names say.
pub(in crate::fsck) fn mismatches(view: &View<'_>, dir: InodeId) -> Vec<Mismatch> {
    let mut listed = expected(view, dir);
    let mut wrong = Vec::new();
    let first = Name::new(b"\x01").expect("the first of all names");
    for (&(_, name), &is) in view.names.from(&(dir, &first)).take_while(|((parent, _), _)| *parent == dir) {
        match listed.remove(name) {
            Some(as_listed) if as_listed == is => {}
            Some(as_listed) => wrong.push((Code::EntryMismatch, name.clone(), Some(is), Some(as_listed))),
            None => wrong.push((Code::LostEntry, name.clone(), Some(is), None)),
        }
    }
    wrong.extend(listed.into_iter().map(|(name, was)| (Code::ExtraEntry, name, None, Some(was))));
    wrong
}

fn finding(view: &View<'_>, dir: InodeId, name: &Name, code: Code, message: String) -> Finding {
    Finding::new(code, message).inode(dir).shard(view.map.home(dir)).path(view.path_in(dir, name))
}

fn no_directory(view: &View<'_>, parent: InodeId, name: &Name, report: &mut Report) {
    let message = format!("the name {name:?} belongs to a directory that does not exist");
    report.add(finding(view, parent, name, Code::NoDirectory, message));
}

fn compare(view: &View<'_>, dir: InodeId, name: &Name, is: Target, listed: Option<Target>, report: &mut Report) {
    match listed {
        Some(listed) if listed == is => {}
        None => {
            let message =
                format!("{name:?} exists, but its directory does not list it, and it is not on its way there");
            report.add(finding(view, dir, name, Code::LostEntry, message));
        }
        Some(listed) => {
            let message = format!(
                "{name:?} leads to inode {:#x} ({:?}), but is listed as {:#x} ({:?})",
                is.child.0, is.kind, listed.child.0, listed.kind
            );
            report.add(finding(view, dir, name, Code::EntryMismatch, message));
        }
    }
}

/// The owner's listing after everything on its way is applied.
pub(in crate::fsck) fn expected(view: &View<'_>, dir: InodeId) -> Listing {
    let owner = view.survey(view.map.home(dir)).expect("every slot has a shard");
    let entries = owner.listings.get(&dir).into_iter().flatten();
    let mut listing: Listing = entries.map(|e| (e.name.clone(), Target { child: e.child, kind: e.kind })).collect();
    for site in view.surveys {
        // Not the floor: an entry below it that is in a change-log was not applied, which is a fault of its own.
        let applied = owner.watermarks.get(&(dir, site.shard)).copied().unwrap_or_default();
        for entry in site.logs.get(&dir).into_iter().flatten().filter(|entry| entry.seq > applied) {
            if entry.put {
                listing.insert(entry.name.clone(), Target { child: entry.child, kind: entry.kind });
            } else {
                listing.remove(&entry.name);
            }
        }
    }
    listing
}

/// The directory's own counts are those of its listing, without what is on its way.
fn counts(view: &View<'_>, dir: InodeId, report: &mut Report) {
    let Some(inode) = view.directory(dir) else { return };
    let home = view.map.home(dir);
    let entries = view.survey(home).and_then(|owner| owner.listings.get(&dir)).map_or(&[][..], Vec::as_slice);
    let directories = entries.iter().filter(|entry| entry.kind == Kind::Directory).count() as u64;
    let finding = |code, message| Finding::new(code, message).inode(dir).shard(home).path(view.path(dir));
    if inode.entries != entries.len() as u64 {
        let message = format!("the directory counts {} entries, it lists {}", inode.entries, entries.len());
        report.add(finding(Code::EntryCount, message));
    }
    if u64::from(inode.nlink) != 2 + directories {
        let message = format!("nlink is {}, but there are {directories} subdirectories", inode.nlink);
        report.add(finding(Code::DirNlink, message));
    }
}
