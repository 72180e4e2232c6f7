//! In which directories files have names.

use super::fixes::Fixes;
use crate::fsck::checks::files::{fits, of_nothing};
use crate::fsck::code::Code;
use crate::fsck::view::{Named, View};
use onpath_host::offline::Offline;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::{InodeId, ShardId};
use std::collections::BTreeMap;

pub(super) fn fix(view: &View, _: &mut Offline, fixes: &mut Fixes) {
    for survey in &view.surveys {
        for id in of_nothing(survey) {
            let dirs = &survey.further[&id];
            fixes.because(Code::FileDirs, format!("{} directories of inode {:#x} are removed", dirs.len(), id.0));
            dirs.iter().for_each(|(dir, _)| put(survey.shard, id, *dir, 0, fixes));
        }
    }
    let known = |named: &Named| !view.promised.dirs.contains_key(&named.inode.id);
    for named in view.named().filter(|named| !fits(view, named) && known(named)) {
        tell(view, &named, fixes);
    }
}

/// The inode says where one of the names is, that in its directory if there is one; the others are further ones.
fn tell(view: &View, Named { inode, dirs, further, .. }: &Named, fixes: &mut Fixes) {
    fixes.because(Code::FileDirs, format!("inode {:#x} has names in {} directories", inode.id.0, dirs.len()));
    let mut missing: BTreeMap<InodeId, u32> = dirs.iter().copied().collect();
    let kept = missing.contains_key(&inode.parent).then_some(inode.parent);
    let parent = kept.or_else(|| missing.keys().next().copied()).unwrap_or(inode.parent);
    missing.entry(parent).and_modify(|names| *names -= 1);
    if parent != inode.parent {
        fixes.inode(view, Inode { parent, ..inode.clone() });
    }
    let home = view.map.home(inode.id);
    for (dir, names) in further {
        let wanted = missing.remove(dir).unwrap_or(0);
        if wanted != *names {
            put(home, inode.id, *dir, wanted, fixes);
        }
    }
    let more = missing.into_iter().filter(|(_, names)| *names > 0);
    more.for_each(|(dir, names)| put(home, inode.id, dir, names, fixes));
}

fn put(shard: ShardId, id: InodeId, dir: InodeId, names: u32, fixes: &mut Fixes) {
    fixes.effect(shard, Effect::Further { id, dir, names });
}
