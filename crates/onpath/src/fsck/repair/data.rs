//! Bytes that belong to nobody, counts of blocks, and what was to be dropped although it is in use.

use super::fixes::Fixes;
use crate::fsck::checks::data::{Bytes, inodes_with_data, owned};
use crate::fsck::code::Code;
use crate::fsck::view::{Extent, View};
use onpath_data::Fault;
use onpath_host::offline::Offline;
use onpath_meta::PendingData;
use onpath_wire::disk::block::DataRecord;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::DataId;
use onpath_wire::inode::Kind;
use std::collections::BTreeSet;

pub(super) fn fix(view: &View, offline: &mut Offline, fixes: &mut Fixes) {
    let bytes = Bytes::of(view, offline.data());
    pending(view, &bytes, fixes);
    if !fixes.is_empty() {
        return;
    }
    // What the data node has counted wrong itself says nothing of the inode.
    let mut doubtful = BTreeSet::new();
    if !view.index_is_sound {
        offline.data().check(offline.files(), &mut inodes_with_data(view), None, &mut |fault| {
            if let Fault::Count { data, .. } = fault {
                doubtful.insert(data);
            }
        });
    }
    for (data, Extent { blocks, .. }, owner) in owned(view) {
        if owner.is_some() || blocks == 0 || bytes.will_go(data) {
            continue;
        }
        // Dropping a generation drops those before it.
        let older = view.inodes.get(&data.inode).is_some_and(|inode| inode.generation < data.generation);
        if !older {
            fixes.because(Code::OrphanChunk, format!("{blocks} blocks of inode {:#x} are dropped", data.inode.0));
            fixes.data(DataRecord::Dropped { data });
        }
    }
    let mut files = view.files.iter().peekable();
    for (_, inode) in view.inodes.iter().filter(|(_, inode)| inode.kind == Kind::File) {
        let data = DataId { inode: inode.id, generation: inode.generation };
        while files.next_if(|(other, _)| *other < data).is_some() {}
        let blocks = files.next_if(|(other, _)| *other == data).map_or(0, |(_, extent)| extent.blocks);
        if inode.blocks != blocks && !bytes.in_flight(data) && !doubtful.contains(&data) {
            fixes.because(
                Code::BlockCount,
                format!("inode {:#x} has {blocks} blocks, not {}", inode.id.0, inode.blocks),
            );
            fixes.inode(view, Inode { blocks, ..inode });
        }
    }
}

/// What would take bytes from a living file is forgotten; what waits beside it is not.
fn pending(view: &View, bytes: &Bytes<'_>, fixes: &mut Fixes) {
    for (data, all, inode) in bytes.living() {
        let (wrong, right): (Vec<&PendingData>, Vec<_>) = all.iter().partition(|one| one.drop || one.cut > inode.cut);
        let home = view.map.home(data.inode);
        for &&PendingData { cut, drop, .. } in &wrong {
            fixes.because(Code::LivePending, format!("bytes of inode {:#x} are not dropped", data.inode.0));
            fixes.effect(home, Effect::DataDone { data, cut, drop, blocks: 0, version: 0 });
        }
        for &&PendingData { cut, drop, size, keep_reserved, .. } in right.iter().filter(|_| !wrong.is_empty()) {
            fixes.effect(home, Effect::DataPending { data, cut, size, keep_reserved, drop });
        }
    }
}
