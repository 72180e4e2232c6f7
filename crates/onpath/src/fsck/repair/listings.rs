//! Listings that do not say what the names say.

use super::fixes::Fixes;
use crate::fsck::checks::listings::{Difference, differences, unowned};
use crate::fsck::code::Code;
use crate::fsck::view::View;
use onpath_host::offline::Offline;
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::InodeId;
use onpath_wire::shown::Shown;
use std::collections::BTreeMap;

pub(super) fn fix(view: &View, _: &mut Offline, fixes: &mut Fixes) {
    let mut changes: BTreeMap<InodeId, Vec<_>> = BTreeMap::new();
    differences(view, &mut |difference| {
        let Difference::Wrong(dir, (code, name, is, listed)) = difference else { return };
        let what = if is.is_some() { "is listed as it is" } else { "is not listed any more" };
        let path = view.path_in(dir, &name).map_or_else(String::new, |path| path.shown().to_string());
        fixes.because(code, format!("{name:?} {what} in directory {:#x} {path}", dir.0));
        changes.entry(dir).or_default().extend(is.or(listed).map(|to| (name, to, is.is_some())));
    });
    for (dir, changes) in changes {
        fixes.list(view.map.home(dir), dir, changes);
    }
    for dir in unowned(view).filter(|dir| !view.inodes.contains_key(dir)) {
        fixes.because(Code::NoDirectory, format!("the listing of directory {:#x}, which does not exist", dir.0));
        fixes.effect(view.map.home(dir), Effect::DropInode { id: dir });
    }
}
