//! Bytes belong to living files, and both sides count them alike (design.md, "Data").

use crate::fsck::code::Code;
use crate::fsck::report::{Finding, Report};
use crate::fsck::view::{Extent, View};
use onpath_data::{DataNode, Fault};
use onpath_host::blocks::file_name;
use onpath_host::inspect::Inspection;
use onpath_host::progress::Watcher;
use onpath_meta::PendingData;
use onpath_wire::disk::inode::Inode;
use onpath_wire::ids::{DataId, InodeId};
use onpath_wire::inode::Kind;
use onpath_wire::limits::BLOCK_BYTES;
use std::collections::{BTreeMap, BTreeSet};

/// What homes and the data node have told each other of bytes.
pub(in crate::fsck) struct Bytes<'a> {
    view: &'a View,
    /// Trims and drops that homes have yet to see acknowledged.
    pending: BTreeMap<DataId, Vec<PendingData>>,
    /// Generations with writes that their homes may not have heard of.
    merging: BTreeSet<DataId>,
}

/// Compares inodes with what the data node has.
pub(super) fn check(view: &View, node: &DataNode, report: &mut Report) {
    let bytes = Bytes::of(view, node);
    bytes.live_pending(report);
    report.checked.files_with_data = view.files.len();
    for (data, extent, owner) in owned(view) {
        bytes.file(data, extent, owner.as_ref(), report);
    }
    let mut files = view.files.iter().peekable();
    for (_, inode) in view.inodes.iter().filter(|(_, inode)| inode.kind == Kind::File && inode.blocks > 0) {
        let data = data_of(&inode);
        while files.next_if(|(other, _)| *other < data).is_some() {}
        if files.peek().is_none_or(|(other, _)| *other != data) {
            bytes.blocks(&inode, 0, report);
        }
    }
}

fn data_of(inode: &Inode) -> DataId {
    DataId { inode: inode.id, generation: inode.generation }
}

/// What the data node has, with the inode that it is the present bytes of.
pub(in crate::fsck) fn owned(view: &View) -> impl Iterator<Item = (DataId, Extent, Option<Inode>)> {
    let mut inodes = view.inodes.iter().peekable();
    view.files.iter().map(move |(data, extent)| {
        while inodes.next_if(|(id, _)| *id < data.inode).is_some() {}
        let owner = inodes.peek().filter(|(_, inode)| is_owner(inode, data));
        (data, extent, owner.map(|(_, inode)| inode.clone()))
    })
}

fn is_owner(inode: &Inode, data: DataId) -> bool {
    data_of(inode) == data && inode.kind == Kind::File
}

impl<'a> Bytes<'a> {
    pub(in crate::fsck) fn of(view: &'a View, node: &DataNode) -> Bytes<'a> {
        let mut pending: BTreeMap<DataId, Vec<PendingData>> = BTreeMap::new();
        for &one in view.surveys.iter().flat_map(|survey| &survey.data_pending) {
            pending.entry(one.data).or_default().push(one);
        }
        let merging = node.pending_merges().into_iter().map(|(_, merge)| merge.data).collect();
        Bytes { view, pending, merging }
    }

    fn finding(&self, data: DataId, code: Code, message: String) -> Finding {
        Finding::new(code, message).inode(data.inode).path(self.view.path(data.inode))
    }

    /// The living inode of these bytes.
    fn owner(&self, data: DataId) -> Option<Inode> {
        self.view.inodes.get(&data.inode).filter(|inode| is_owner(inode, data))
    }

    /// What waits for living files, with them.
    pub(in crate::fsck) fn living(&self) -> impl Iterator<Item = (DataId, &[PendingData], Inode)> {
        let all = self.pending.iter();
        all.filter_map(|(&data, all)| self.owner(data).map(|inode| (data, all.as_slice(), inode)))
    }

    /// Only bytes of earlier generations, or beyond a cut that the file has, may be on their way out.
    fn live_pending(&self, report: &mut Report) {
        let living = self.living().flat_map(|(_, all, inode)| all.iter().map(move |one| (one, inode.cut)));
        for (pending, cut) in living {
            if pending.drop {
                let message = "a drop of the file's present bytes waits for the data node".to_owned();
                report.add(self.finding(pending.data, Code::LivePending, message));
            } else if pending.cut > cut {
                let message = format!("a trim to cut {} waits, but the file has cut {cut}", pending.cut);
                report.add(self.finding(pending.data, Code::LivePending, message));
            }
        }
    }

    fn file(&self, data: DataId, Extent { blocks, end }: Extent, owner: Option<&Inode>, report: &mut Report) {
        if let Some(inode) = owner {
            self.blocks(inode, blocks, report);
            self.size(inode, end, report);
        } else if blocks > 0 && !self.will_go(data) {
            let message = format!(
                "{blocks} blocks of generation {:#x} of inode {:#x}, which does not have it, and nobody will drop them",
                data.generation.0, data.inode.0
            );
            report.add(self.finding(data, Code::OrphanChunk, message));
        }
    }

    /// Whether the home will drop these bytes, or has yet to hear of them.
    pub(in crate::fsck) fn will_go(&self, data: DataId) -> bool {
        let later = data..=DataId { generation: onpath_wire::ids::Generation(u64::MAX), ..data };
        self.merging.contains(&data) || self.pending.range(later).any(|(_, all)| all.iter().any(|p| p.drop))
    }

    pub(in crate::fsck) fn in_flight(&self, data: DataId) -> bool {
        self.merging.contains(&data) || self.pending.contains_key(&data)
    }

    fn blocks(&self, inode: &Inode, found: u64, report: &mut Report) {
        if inode.blocks != found && !self.in_flight(data_of(inode)) {
            let message = format!("the inode counts {} blocks, the data node has {found}", inode.blocks);
            report.add(self.finding(data_of(inode), Code::BlockCount, message));
        }
    }

    fn size(&self, inode: &Inode, end: u64, report: &mut Report) {
        if end > inode.size.next_multiple_of(BLOCK_BYTES) && !self.in_flight(data_of(inode)) {
            let message = format!("the size is {} bytes, but there are blocks up to byte {end}", inode.size);
            report.add(self.finding(data_of(inode), Code::BeyondSize, message));
        }
    }
}

/// Checks the data node's index by itself, and with `read` every block against its checksum; blocks are counted on that.
pub(in crate::fsck) fn blocks(view: &View, inspection: &Inspection, read: Option<&dyn Watcher>, report: &mut Report) {
    if view.index_is_sound && read.is_none() {
        return;
    }
    let mut reader = |file, offset, bytes: &mut [u8]| {
        read.into_iter().for_each(|watcher| watcher.done(1));
        inspection.read_block(file, offset, bytes)
    };
    let reader: Option<&mut onpath_data::BlockReader<'_>> = if read.is_some() { Some(&mut reader) } else { None };
    let report = &mut |fault| report.add(fault_of(inspection, &fault));
    inspection.data.check(inspection.files(), &mut inodes_with_data(view), reader, report);
}

/// The inodes that the data node has something of, in order.
pub(in crate::fsck) fn inodes_with_data(view: &View) -> impl Iterator<Item = InodeId> {
    let mut last = None;
    view.files.iter().map(|(data, _)| data.inode).filter(move |id| last.replace(*id) != Some(*id))
}

fn fault_of(inspection: &Inspection, fault: &Fault) -> Finding {
    let finding = |code, data: &DataId| Finding::new(code, fault.to_string()).inode(data.inode);
    let path = |file: u32| std::path::PathBuf::from("data").join(file_name(file));
    match fault {
        Fault::Shared { data, .. } => finding(Code::SharedBlock, data),
        Fault::NoFile { data, file, .. } => finding(Code::NoBlock, data).file(&path(*file)),
        Fault::Map { .. } => Finding::new(Code::BlockMap, fault.to_string()),
        Fault::Count { data, .. } => finding(Code::IndexCount, data),
        Fault::BadCrc { data, block, file, offset } => {
            let lost = inspection.data.is_suspect(*data, *block);
            let code = if lost { Code::UnsettledBlock } else { Code::BlockCrc };
            finding(code, data).file(&path(*file)).offset(*offset)
        }
        Fault::Unreadable { data, file, offset, .. } => {
            finding(Code::BlockUnreadable, data).file(&path(*file)).offset(*offset)
        }
    }
}
