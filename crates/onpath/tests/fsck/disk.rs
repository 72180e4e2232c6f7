//! Planted damage of the files of a DIR: flipped bits, cuts, files that are missing or belong elsewhere.

use crate::common::server::Site;
use crate::fsck::craft::{Copy, Original};
use crate::fsck::{ARGS, stopped};
use onpath_wire::codec::Wire;
use onpath_wire::disk::record::Effect;
use onpath_wire::disk::superblock::Superblock;
use onpath_wire::ids::{LogSeq, NodeId, ShardId, Stamp};
use std::fs;
use std::path::Path;

/// The one fault that was found names this file.
fn assert_names(faults: &[serde_json::Value], file: &Path) {
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0]["file"], file.to_str().expect("paths of tests are text"), "{faults:?}");
}

#[test]
fn the_superblock() {
    let Some((_site, of)) = stopped("fsck of the superblock") else { return };
    for (offset, code) in [(0, "F01"), (40, "F01"), (8, "F02"), (13, "F02")] {
        let copy = of.copy();
        copy.flip("superblock", offset);
        assert_names(&copy.expect_fault(code, &[]), &copy.path().join("superblock"));
    }
    let copy = of.copy();
    copy.write_superblock(&Superblock { fsid: of.superblock.fsid + 1, ..of.superblock.clone() });
    copy.expect_fault("F03", &[]);
}

#[test]
fn the_checkpoint() {
    let Some((_site, of)) = stopped("fsck of a checkpoint") else { return };
    let copy = of.copy();
    let store = copy.path().join("journals/1/checkpoint/objects.redb");
    let name = b"moved3";
    let bytes = fs::read(&store).expect("read of the store");
    let at = bytes.windows(name.len()).position(|part| part == name).expect("the store has the name");
    copy.flip(&store, at + 1);
    assert_names(&copy.expect_fault("F15", &[]), &store);

    let copy = of.copy();
    let store = copy.path().join("journals/1/checkpoint/objects.redb");
    fs::write(&store, &bytes[..bytes.len() / 2]).expect("write");
    assert_names(&copy.expect_fault("F15", &[]), &store);

    let copy = of.copy();
    fs::remove_file(copy.path().join("journals/1/checkpoint/objects.redb")).expect("remove");
    copy.expect_clean(&[]); // the journal still has everything
}

/// Objects that are none.
#[test]
fn objects_of_the_checkpoint() {
    let Some((_site, of)) = stopped("fsck of objects") else { return };
    let copy = of.copy();
    copy.rewrite_objects(|role, pairs| {
        let inode = pairs.iter_mut().find(|(key, _)| role.as_shard().is_some() && key[0] == 1);
        inode.map(|(_, value)| value.truncate(20)).is_some()
    });
    copy.expect_fault("F07", &[]);

    let copy = of.copy();
    copy.rewrite_objects(|role, pairs| {
        // An entry is a name (length, bytes), a child and a type: another letter makes it another name.
        let entry = pairs.iter_mut().find(|(key, _)| role.as_shard().is_some() && key[0] == 3);
        entry.map(|(_, value)| value[1] ^= 1).is_some()
    });
    copy.expect_fault("F08", &[]);
}

/// A DIR whose process was killed before any checkpoint, everything flushed.
fn killed(test: &str) -> Option<(Site, Original)> {
    let site = Site::new(test)?;
    let mut mount = site.dev(&[ARGS, &["--commit", "sync"]].concat());
    crate::fsck::fill(mount.path());
    mount.kill();
    drop(mount);
    let original = Original::of(&site.state());
    Some((site, original))
}

/// The places of the batches of a segment: offset and length.
fn batches(file: &Path) -> Vec<(usize, usize)> {
    let bytes = fs::read(file).expect("read of a segment");
    let (mut places, mut at) = (vec![], 64);
    while bytes.get(at..at + 4) == Some(b"OnpB") {
        let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().expect("four bytes")) as usize;
        places.push((at, length));
        at += length;
    }
    places
}

#[test]
fn the_journal() {
    let Some((_site, of)) = killed("fsck of the journal") else { return };
    of.copy().expect_clean(&["--data"]);

    let copy = of.copy();
    let segment = copy.files("journal", "seg").remove(0);
    let places = batches(&segment);
    let (offset, length) = places[places.len() / 2];
    copy.flip(&segment, offset + length / 2);
    let faults = copy.expect_fault("F10", &[]);
    assert_names(&faults, &segment);
    assert_eq!(faults[0]["offset"], offset);

    let copy = of.copy();
    let segment = copy.files("journal", "seg").remove(0);
    copy.append(NodeId::data(0), b"to be torn");
    let &(offset, length) = batches(&segment).last().expect("a batch");
    copy.flip(&segment, offset + length - 1);
    copy.expect_note("I01", &[]);
}

#[test]
fn a_missing_segment() {
    let Some((_site, of)) = stopped("fsck of a missing segment") else { return };
    let copy = of.copy();
    // What was written since the checkpoint goes, and so does every place where the journal could go on.
    copy.files("journal", "seg").iter().for_each(|segment| fs::remove_file(segment).expect("remove"));
    let faults = copy.expect_fault("F11", &[]);
    assert!(faults[0]["message"].as_str().expect("text").contains("no segment"), "{faults:?}");
}

#[test]
fn records_that_nobody_can_apply() {
    let Some((_site, of)) = stopped("fsck of records") else { return };
    let copy = of.copy();
    copy.append(NodeId::shard(ShardId(0)), b"not a record");
    copy.expect_fault("F12", &[]);
    let copy = of.copy();
    copy.append(NodeId::shard(ShardId(99)), b"of no shard");
    copy.expect_fault("F12", &[]);

    // A directory with fewer than no entries.
    let copy = of.copy();
    let dir = of.id("d");
    let (from, upto, entries) = (of.another(of.home(dir)), LogSeq(0), vec![]);
    copy.record(
        of.home(dir),
        [Effect::AppliedLog { dir, from, upto, entries, dcount: -1000, dnlink: 0, stamp: Stamp(1) }],
    );
    copy.expect_fault("F12", &[]);
}

#[test]
fn data_files() {
    let Some((_site, of)) = stopped("fsck of data files") else { return };
    let data = |copy: &Copy| copy.files("data", "blk").remove(0);
    let copy = of.copy();
    copy.flip(data(&copy), 30);
    assert_names(&copy.expect_fault("F13", &[]), &data(&copy));
    let copy = of.copy();
    fs::rename(data(&copy), copy.path().join("journals/1/data/0001.blk")).expect("rename");
    copy.expect_fault("F13", &[]);
    let copy = of.copy();
    fs::remove_file(data(&copy)).expect("remove");
    copy.expect_fault("F55", &[]);
    let copy = of.copy();
    fs::remove_dir_all(copy.path().join("journals/1/data")).expect("remove");
    copy.expect_fault("F14", &[]);
}

/// A segment of another file system among ours.
#[test]
fn files_of_another_file_system() {
    let Some((_site, of)) = stopped("fsck of foreign files") else { return };
    let copy = of.copy();
    let segment = copy.files("journal", "seg").remove(0);
    let mut bytes = fs::read(&segment).expect("read");
    bytes[16] ^= 1;
    let crc = onpath_wire::checksum::crc32c(&bytes[..60]).to_bytes();
    bytes[60..64].copy_from_slice(&crc);
    fs::write(&segment, bytes).expect("write");
    assert_names(&copy.expect_fault("F03", &[]), &segment);
}
