//! Bytes belong to living files, and both sides count them alike (DESIGN §5).

use crate::fsck::code::Code;
use crate::fsck::report::{Finding, Report};
use crate::fsck::view::View;
use crate::walk::Progress;
use onpath_data::{DataNode, Fault, FileSummary};
use onpath_host::blocks::file_name;
use onpath_host::inspect::Inspection;
use onpath_meta::PendingData;
use onpath_wire::ids::DataId;
use onpath_wire::inode::{Inode, Kind};
use onpath_wire::limits::BLOCK_BYTES;
use std::collections::{BTreeMap, BTreeSet};

/// What homes and the data node have told each other of bytes.
pub(in crate::fsck) struct Bytes<'a, 'b> {
    view: &'a View<'b>,
    /// Trims and drops that homes have yet to see acknowledged.
    pub(in crate::fsck) pending: BTreeMap<DataId, Vec<PendingData>>,
    /// Generations with writes that their homes may not have heard of.
    merging: BTreeSet<DataId>,
}

/// Compares inodes with what the data node has.
pub(super) fn check(view: &View<'_>, node: &DataNode, report: &mut Report) {
    let bytes = Bytes::of(view, node);
    bytes.live_pending(report);
    let files = node.files();
    report.checked.files_with_data = files.len() as u64;
    for file in &files {
        bytes.file(file, report);
    }
    let known: BTreeSet<DataId> = files.iter().map(|file| file.data).collect();
    let regular = view.inodes.values().filter(|inode| inode.kind == Kind::File && inode.blocks > 0);
    for inode in regular.filter(|inode| !known.contains(&data_of(inode))) {
        bytes.blocks(inode, 0, report);
    }
}

fn data_of(inode: &Inode) -> DataId {
    DataId { inode: inode.id, generation: inode.generation }
}

impl<'a, 'b> Bytes<'a, 'b> {
    pub(in crate::fsck) fn of(view: &'a View<'b>, node: &DataNode) -> Bytes<'a, 'b> {
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
    pub(in crate::fsck) fn owner(&self, data: DataId) -> Option<&Inode> {
        self.view.inodes.get(&data.inode).copied().filter(|inode| data_of(inode) == data && inode.kind == Kind::File)
    }

    /// Only bytes of earlier generations, or beyond a cut that the file has, may be on their way out.
    fn live_pending(&self, report: &mut Report) {
        for pending in self.pending.values().flatten() {
            let Some(inode) = self.owner(pending.data) else { continue };
            if pending.drop {
                let message = "a drop of the file's present bytes waits for the data node".to_owned();
                report.add(self.finding(pending.data, Code::LivePending, message));
            } else if pending.cut > inode.cut {
                let message = format!("a trim to cut {} waits, but the file has cut {}", pending.cut, inode.cut);
                report.add(self.finding(pending.data, Code::LivePending, message));
            }
        }
    }

    fn file(&self, file: &FileSummary, report: &mut Report) {
        if let Some(inode) = self.owner(file.data) {
            self.blocks(inode, file.blocks, report);
            self.size(inode, file, report);
        } else if file.blocks > 0 && !self.will_go(file.data) {
            let message = format!(
                "{} blocks of generation {:#x} of inode {:#x}, which does not have it, and nobody will drop them",
                file.blocks, file.data.generation.0, file.data.inode.0
            );
            report.add(self.finding(file.data, Code::OrphanChunk, message));
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

    fn size(&self, inode: &Inode, file: &FileSummary, report: &mut Report) {
        if file.end > inode.size.next_multiple_of(BLOCK_BYTES) && !self.in_flight(file.data) {
            let message = format!("the size is {} bytes, but there are blocks up to byte {}", inode.size, file.end);
            report.add(self.finding(file.data, Code::BeyondSize, message));
        }
    }
}

/// Checks the data node's index by itself, and with `read` every block against its checksum; blocks are counted on that.
pub(in crate::fsck) fn blocks(inspection: &Inspection, read: Option<&Progress>, report: &mut Report) {
    let mut reader = |file, offset, bytes: &mut [u8]| {
        read.into_iter().for_each(Progress::entry);
        inspection.read_block(file, offset, bytes)
    };
    let reader: Option<&mut onpath_data::BlockReader<'_>> = if read.is_some() { Some(&mut reader) } else { None };
    inspection.data.check(inspection.files(), reader, &mut |fault| report.add(fault_of(inspection, &fault)));
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
