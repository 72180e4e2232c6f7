//! Bytes that belong to nobody, counts of blocks, and what was to be dropped although it is in use.

use super::fixes::Fixes;
use crate::fsck::checks::data::Bytes;
use crate::fsck::code::Code;
use crate::fsck::view::View;
use onpath_data::Fault;
use onpath_host::offline::Offline;
use onpath_meta::PendingData;
use onpath_wire::block::DataRecord;
use onpath_wire::ids::DataId;
use onpath_wire::inode::{Inode, Kind};
use onpath_wire::record::Effect;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn fix(view: &View<'_>, offline: &mut Offline, fixes: &mut Fixes) {
    let bytes = Bytes::of(view, offline.data());
    pending(view, &bytes, fixes);
    if !fixes.is_empty() {
        return;
    }
    // What the data node has counted wrong itself says nothing of the inode.
    let mut doubtful = BTreeSet::new();
    offline.data().check(offline.files(), None, &mut |fault| {
        if let Fault::Count { data, .. } = fault {
            doubtful.insert(data);
        }
    });
    let mut found: BTreeMap<DataId, u64> = BTreeMap::new();
    for file in offline.data().files() {
        found.insert(file.data, file.blocks);
        if bytes.owner(file.data).is_some() || file.blocks == 0 || bytes.will_go(file.data) {
            continue;
        }
        // Dropping a generation drops those before it.
        let older = view.inodes.get(&file.data.inode).is_some_and(|inode| inode.generation < file.data.generation);
        if !older {
            fixes.because(
                Code::OrphanChunk,
                format!("{} blocks of inode {:#x} are dropped", file.blocks, file.data.inode.0),
            );
            fixes.data(DataRecord::Dropped { data: file.data });
        }
    }
    for inode in view.inodes.values().filter(|inode| inode.kind == Kind::File) {
        let data = DataId { inode: inode.id, generation: inode.generation };
        let blocks = found.get(&data).copied().unwrap_or(0);
        if inode.blocks != blocks && !bytes.in_flight(data) && !doubtful.contains(&data) {
            fixes.because(
                Code::BlockCount,
                format!("inode {:#x} has {blocks} blocks, not {}", inode.id.0, inode.blocks),
            );
            fixes.inode(view, Inode { blocks, ..(*inode).clone() });
        }
    }
}

/// What would take bytes from a living file is forgotten; what waits beside it is not.
fn pending(view: &View<'_>, bytes: &Bytes<'_, '_>, fixes: &mut Fixes) {
    for (&data, all) in &bytes.pending {
        let Some(inode) = bytes.owner(data) else { continue };
        let (wrong, right): (Vec<&PendingData>, Vec<_>) = all.iter().partition(|one| one.drop || one.cut > inode.cut);
        let home = view.map.home(data.inode);
        for &&PendingData { cut, drop, .. } in &wrong {
            fixes.because(Code::LivePending, format!("bytes of inode {:#x} are not dropped", data.inode.0));
            fixes.effect(home, Effect::DataDone { data, cut, drop, blocks: 0, version: 0 });
        }
        for &&PendingData { cut, drop, size, .. } in right.iter().filter(|_| !wrong.is_empty()) {
            fixes.effect(home, Effect::DataPending { data, cut, size, drop });
        }
    }
}
