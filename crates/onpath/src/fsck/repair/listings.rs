//! Listings that do not say what the names say.

use super::fixes::Fixes;
use crate::fsck::checks::listings::mismatches;
use crate::fsck::code::Code;
use crate::fsck::view::View;
use onpath_host::offline::Offline;
use onpath_wire::record::Effect;

pub(super) fn fix(view: &View<'_>, _: &mut Offline, fixes: &mut Fixes) {
    for (&dir, _) in view.inodes.iter().filter(|(id, _)| view.directory(**id).is_some()) {
        let wrong = mismatches(view, dir);
        let mut changes = Vec::with_capacity(wrong.len());
        for (code, name, is, listed) in wrong {
            let what = if is.is_some() { "is listed as it is" } else { "is not listed any more" };
            let path = view.path_in(dir, &name).unwrap_or_default();
            fixes.because(code, format!("{name:?} {what} in directory {:#x} {path}", dir.0));
            changes.extend(is.or(listed).map(|to| (name, to, is.is_some())));
        }
        if !changes.is_empty() {
            fixes.list(view.map.home(dir), dir, changes);
        }
    }
    for survey in view.surveys {
        let gone = |id| view.directory(id).is_none() && !view.inodes.contains_key(&id);
        for &dir in survey.listings.keys().filter(|&&dir| view.map.home(dir) == survey.shard && gone(dir)) {
            fixes.because(Code::NoDirectory, format!("the listing of directory {:#x}, which does not exist", dir.0));
            fixes.effect(survey.shard, Effect::DropInode { id: dir });
        }
    }
}
