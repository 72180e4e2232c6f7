//! Planted damage of file contents: what the data node has against what the inodes say.

use crate::craft::{Copy, Original};
use crate::stopped;
use onpath_data::FileSummary;
use onpath_host::blocks::file_name;
use onpath_wire::block::{DATA_FILE_BLOCKS, DATA_FILE_HEADER_BYTES, DataRecord, Extent, PendingMerge};
use onpath_wire::codec::Wire;
use onpath_wire::ids::{DataId, NodeId, RequestSeq, SessionId, Stamp};
use onpath_wire::inode::Inode;
use onpath_wire::record::Effect;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The data node has written the first block of a file to this place, and everybody knows.
fn written(copy: &Copy, file: FileSummary, phys: u32) {
    let merge = PendingMerge {
        data: file.data,
        cut: file.cut,
        end: 1,
        session: SessionId(1),
        request: RequestSeq(1),
        oldest: RequestSeq(1),
        kill_suidgid: false,
    };
    let extents = vec![Extent { start: 0, phys, crcs: [0].into_iter().collect() }];
    let record = DataRecord::Written { merge, stamp: Stamp(1), extents };
    let seq = copy.append(NodeId::data(0), &record.to_bytes());
    copy.append(NodeId::data(0), &DataRecord::Settled { merges: vec![seq] }.to_bytes());
}

/// Where the bytes of a file are: the only block that begins with them.
fn block_of(copy: &Copy, first: &[u8]) -> u32 {
    let data = File::open(copy.path().join("data").join(file_name(0))).expect("the data file");
    let mut bytes = vec![0; first.len()];
    let found = (0..10_000).filter(|phys| {
        let offset = DATA_FILE_HEADER_BYTES + phys * 4096;
        data.read_exact_at(&mut bytes, offset).is_ok() && bytes == first
    });
    found.last().expect("the bytes are somewhere") as u32
}

fn plant(of: &Original, path: &str, change: impl FnOnce(&mut Inode)) -> Copy {
    let copy = of.copy();
    let mut inode = of.inode(path);
    change(&mut inode);
    copy.record(of.home(inode.id), [Effect::PutInode { inode }]);
    copy
}

#[test]
fn counts_and_sizes() {
    let Some((_site, of)) = stopped("fsck of block counts") else { return };
    let faults = plant(&of, "d/f0", |inode| inode.blocks += 3).expect_fault("F51", &[]);
    assert_eq!((faults.len(), &faults[0]["path"]), (1, &"/d/f0".into()));
    plant(&of, "d/empty", |inode| inode.blocks = 1).expect_fault("F51", &[]);
    plant(&of, "d/f0", |inode| inode.size = 1).expect_fault("F52", &[]);
}

#[test]
fn bytes_of_nobody_and_of_the_living() {
    let Some((_site, of)) = stopped("fsck of chunks") else { return };
    let file = of.data("d/f0");

    let copy = of.copy();
    let drop = Effect::DataPending { data: file.data, cut: 0, size: 0, drop: true };
    copy.record(of.home(file.data.inode), [drop]);
    assert_eq!(copy.expect_fault("F50", &[])[0]["path"], "/d/f0");

    let copy = of.copy();
    let inode = of.new_id(of.home(file.data.inode));
    written(&copy, FileSummary { data: DataId { inode, ..file.data }, cut: 0, ..file }, DATA_FILE_BLOCKS - 1);
    assert_eq!(copy.expect_fault("F53", &[]).len(), 1);

    // With a drop on its way they are nobody's for a moment only.
    let drop = Effect::DataPending { data: DataId { inode, ..file.data }, cut: 0, size: 0, drop: true };
    copy.record(of.home(inode), [drop]);
    copy.expect_clean(&[]);
}

#[test]
fn blocks_in_wrong_places() {
    let Some((_site, of)) = stopped("fsck of blocks") else { return };
    let copy = of.copy();
    let phys = block_of(&copy, &[1; 4096]);
    written(&copy, of.data("d/f0"), phys);
    copy.expect_fault("F54", &[]);

    let copy = of.copy();
    written(&copy, of.data("d/f0"), 5 * DATA_FILE_BLOCKS);
    copy.expect_fault("F55", &[]);
}

#[test]
fn bytes_that_have_changed() {
    let Some((_site, of)) = stopped("fsck --data") else { return };
    let copy = of.copy();
    let offset = DATA_FILE_HEADER_BYTES as usize + block_of(&copy, &[1; 4096]) as usize * 4096 + 77;
    copy.flip(format!("data/{}", file_name(0)), offset);
    copy.expect_clean(&[]);
    let faults = copy.expect_fault("F57", &["--data"]);
    assert_eq!((faults.len(), &faults[0]["offset"]), (1, &(offset - 77).into()));
    assert!(faults[0]["file"].as_str().expect("a file").ends_with(&file_name(0)));
}
