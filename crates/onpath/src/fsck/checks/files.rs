//! Files say in which directories their names are.

use crate::fsck::code::Code;
use crate::fsck::report::{Finding, Report};
use crate::fsck::view::{Named, View};
use onpath_meta::Survey;
use onpath_wire::ids::InodeId;
use std::collections::BTreeMap;

/// Directories that a message names.
const SHOWN_MAX: usize = 8;

pub(super) fn check(view: &View, report: &mut Report) {
    for named in view.named().filter(|named| !fits(view, named)) {
        let id = named.inode.id;
        let there = named.dirs.iter().map(|(dir, names)| (*dir, i64::from(*names))).collect();
        let message = format!("names in {}, the inode says {}", words(&there), words(&told(view, &named)));
        report.add(Finding::new(Code::FileDirs, message).inode(id).shard(view.map.home(id)).path(view.path(id)));
    }
    for survey in &view.surveys {
        for id in of_nothing(survey) {
            let message = "directories of further names of a file that does not exist";
            report.add(Finding::new(Code::FileDirs, message).inode(id).shard(survey.shard));
        }
    }
}

/// Inodes of which a shard has further names although they are no files there. One at a wrong place keeps what it has there.
pub(in crate::fsck) fn of_nothing(survey: &Survey) -> impl Iterator<Item = InodeId> {
    let at = |id: &InodeId| survey.inodes.binary_search_by_key(id, |inode| inode.id); // they are sorted
    let misplaced = move |id: &InodeId| at(id).is_ok_and(|place| !survey.inodes[place].is_dir());
    survey.further.keys().copied().filter(move |id| !misplaced(id))
}

/// Whether an inode says in which directories its names are, if it is a file. How many there are is compared before.
pub(in crate::fsck) fn fits(view: &View, named: &Named) -> bool {
    let Named { inode, count, dirs, further, .. } = named;
    let usual =
        further.is_empty() && dirs.as_slice() == [(inode.parent, 1)] && !view.promised.dirs.contains_key(&inode.id);
    let links = i64::from(inode.nlink) + view.promised.links.get(&inode.id).copied().unwrap_or(0);
    if inode.is_dir() || usual || *count as i64 != links {
        return true;
    }
    told(view, named).into_iter().eq(dirs.iter().map(|(dir, names)| (*dir, i64::from(*names))))
}

/// In which directories a file says that it has names, with what is promised.
fn told(view: &View, Named { inode, further, .. }: &Named) -> BTreeMap<InodeId, i64> {
    let mut told: BTreeMap<InodeId, i64> = further.iter().map(|(dir, names)| (*dir, i64::from(*names))).collect();
    if inode.nlink > 0 {
        *told.entry(inode.parent).or_default() += 1;
    }
    for (dir, more) in view.promised.dirs.get(&inode.id).into_iter().flatten() {
        *told.entry(*dir).or_default() += more;
    }
    told.retain(|_, names| *names != 0);
    told
}

fn words(dirs: &BTreeMap<InodeId, i64>) -> String {
    if dirs.is_empty() {
        return "no directory".to_owned();
    }
    let word = |(dir, names): (&InodeId, &i64)| match names {
        1 => format!("{:#x}", dir.0),
        names => format!("{:#x} ({names})", dir.0),
    };
    let shown: Vec<String> = dirs.iter().take(SHOWN_MAX).map(word).collect();
    let more = if dirs.len() > SHOWN_MAX { format!(" and {} more", dirs.len() - SHOWN_MAX) } else { String::new() };
    format!("directories {}{more}", shown.join(", "))
}
