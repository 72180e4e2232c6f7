//! Planted damage of file contents: what the data node has against what the inodes say.

use crate::common::server::run;
use crate::fsck::craft::{Copy, Original};
use crate::fsck::stopped;
use onpath_data::FileSummary;
use onpath_host::blocks::file_name;
use onpath_wire::disk::Stored;
use onpath_wire::disk::block::{
    ChunkImage, DATA_FILE_BLOCKS, DATA_FILE_HEADER_BYTES, DataRecord, Extent, MapPage, PendingMerge,
};
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::{DataId, NodeClass, NodeId, RecordSeq, RequestSeq, SessionId, Stamp};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Blocks of a page of the data node's map.
const MAP_PAGE_BLOCKS: u32 = 32_768;

/// The data node has written the first block of a file to this place, and everybody knows.
fn written(copy: &Copy, file: FileSummary, phys: u32) {
    let seq = writes(copy, file, phys);
    copy.append(NodeId::data(0), &DataRecord::Settled { merges: vec![seq] }.to_stored());
}

/// The data node has written the first block of a file to this place, and that is the end of the journal.
fn writes(copy: &Copy, file: FileSummary, phys: u32) -> RecordSeq {
    let merge = PendingMerge {
        data: file.data,
        cut: file.cut,
        end: 1,
        session: SessionId(1),
        request: RequestSeq(1),
        oldest: RequestSeq(1),
        kill_suidgid: false,
        append: None,
        part: None,
    };
    let extents = vec![Extent { start: 0, phys, crcs: [0].into_iter().collect() }];
    let record = DataRecord::Written { merge, stamp: Stamp(1), extents };
    copy.append(NodeId::data(0), &record.to_stored())
}

/// Where the bytes of a file are: the only block that begins with them.
fn block_of(copy: &Copy, first: &[u8]) -> u32 {
    let data = File::open(copy.path().join("journals/1/data").join(file_name(0))).expect("the data file");
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
    let drop = Effect::DataPending { data: file.data, cut: 0, size: 0, keep_reserved: false, drop: true };
    copy.record(of.home(file.data.inode), [drop]);
    assert_eq!(copy.expect_fault("F50", &[])[0]["path"], "/d/f0");

    let copy = of.copy();
    let inode = of.new_id(of.home(file.data.inode));
    written(&copy, FileSummary { data: DataId { inode, ..file.data }, cut: 0, ..file }, DATA_FILE_BLOCKS - 1);
    assert_eq!(copy.expect_fault("F53", &[]).len(), 1);

    // With a drop on its way they are nobody's for a moment only.
    let drop =
        Effect::DataPending { data: DataId { inode, ..file.data }, cut: 0, size: 0, keep_reserved: false, drop: true };
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
    copy.flip(format!("journals/1/data/{}", file_name(0)), offset);
    copy.expect_clean(&[]);
    let faults = copy.expect_fault("F57", &["--data"]);
    assert_eq!((faults.len(), &faults[0]["offset"]), (1, &(offset - 77).into()));
    assert!(faults[0]["file"].as_str().expect("a file").ends_with(&file_name(0)));
}

/// A chunk that names a block twice: it is there once, and counted twice.
#[test]
fn a_count_of_the_index() {
    let Some((_site, of)) = stopped("fsck of the data node's counts") else { return };
    let copy = of.copy();
    copy.rewrite_objects(|role, pairs| {
        // The kind of an object of a file comes after inode and generation; a file of one block alone has no chunk.
        let is_chunk = |key: &[u8]| role.class() == Some(NodeClass::Data) && key[0] == 1 && key[17] == 2;
        let chunk = pairs.iter_mut().find(|(key, _)| is_chunk(key));
        let Some((_, value)) = chunk else { return false };
        let mut image = ChunkImage::from_stored(value).expect("a chunk");
        let twice = image.extents.last().expect("an extent").clone();
        image.extents.push(twice);
        *value = image.to_stored();
        true
    });
    // The home counts what is there.
    let faults = copy.expect_faults(&["F51", "F56"], &[]);
    assert_eq!(faults.len(), 2);
}

#[test]
fn a_map_of_blocks() {
    let Some((_site, of)) = stopped("fsck of the data node's map") else { return };
    let copy = of.copy();
    copy.rewrite_objects(|role, pairs| {
        let page = pairs.iter_mut().find(|(key, _)| role.class() == Some(NodeClass::Data) && key[0] == 2);
        let change = |value: &mut Vec<u8>| {
            let mut page = MapPage::from_stored(value).expect("a page");
            page.words[0] ^= 1;
            *value = page.to_stored();
        };
        page.map(|(_, value)| change(value)).is_some()
    });
    copy.expect_fault("F59", &[]);
}

/// A page far behind all data files: a check says so, and a start refuses it without memory for all blocks before it.
#[test]
fn a_map_of_blocks_that_no_data_file_has() {
    let Some((site, of)) = stopped("a page of blocks of no data file") else { return };
    let copy = of.copy();
    copy.rewrite_objects(|role, pairs| {
        let is_page = |key: &[u8]| role.class() == Some(NodeClass::Data) && key[0] == 2;
        let Some((mut key, value)) = pairs.iter().find(|(key, _)| is_page(key)).cloned() else { return false };
        key[1..].copy_from_slice(&(u32::MAX / MAP_PAGE_BLOCKS).to_be_bytes());
        pairs.push((key, value));
        true
    });
    copy.expect_fault("F59", &[]);
    let output = run(["dev".as_ref(), copy.path().as_os_str(), site.mountpoint(1).as_os_str()]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code != 0 && code < 124), "{:?}: {error}", output.status);
    for words in ["checkpoint", "objects.redb", "in use", "restore the directory from a backup"] {
        assert!(error.contains(words), "does not say {words:?}: {error}");
    }
    assert!(!error.contains("panicked"), "{error}");
}

#[test]
fn blocks_that_cannot_be_read() {
    let Some((_site, of)) = stopped("fsck --data of a short file") else { return };
    let copy = of.copy();
    let end = DATA_FILE_HEADER_BYTES + u64::from(block_of(&copy, &[1; 4096])) * 4096;
    let data = File::options()
        .write(true)
        .open(copy.path().join("journals/1/data").join(file_name(0)))
        .expect("the data file");
    data.set_len(end).expect("truncate");
    copy.expect_clean(&[]);
    let faults = copy.expect_fault("F58", &["--data"]);
    assert!(faults.iter().any(|fault| fault["offset"] == end), "{faults:#?}");
}

/// Only where the machine was started since: else the bytes are where they were written, and damaged if they are not.
#[test]
fn blocks_that_a_power_loss_took() {
    let Some((_site, of)) = stopped("fsck --data after a power loss") else { return };
    let copy = of.copy();
    writes(&copy, of.data("d/f0"), DATA_FILE_BLOCKS - 1);
    copy.expect_fault("F57", &["--data"]);
    std::fs::write(copy.path().join("boot"), "another boot\n").expect("write of the boot id");
    copy.expect_note("I05", &["--data"]);
    // A later batch says that the record was durable, and so were its bytes.
    copy.append(NodeId::data(0), &DataRecord::Settled { merges: vec![] }.to_stored());
    copy.expect_fault("F57", &["--data"]);
}
