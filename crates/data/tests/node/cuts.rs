//! Generations, cuts and drops: no late write brings bytes back, no read returns bytes that are gone.

use crate::world::{BLOCK, World, data};
use onpath_wire::Errno;
use onpath_wire::data::{DataReply, DataRequest};

#[test]
fn a_trim_ends_the_file_inside_a_block_and_extending_shows_zeros() {
    let mut w = World::default();
    let file = data(3, 1);
    w.write(file, 0, 0, &[1; 3 * BLOCK]);
    let DataReply::Trimmed { blocks: 2, version } = w.trim(file, 1, 5000) else { panic!("not trimmed") };
    assert_eq!(version, w.journal.last().unwrap().0.0);
    let expected = [vec![1; 5000], vec![0; 7288]].concat();
    assert_eq!(w.read(file, 1, 0, 12288).unwrap(), expected);
    // A write behind the cut leaves what lies between zero, in the block that was cut too.
    w.write(file, 1, 6000, b"new");
    let mut expected = expected;
    expected[6000..6003].copy_from_slice(b"new");
    assert_eq!(w.read(file, 1, 0, 12288).unwrap(), expected);
    assert!(w.faults().is_empty());
}

#[test]
fn a_repeated_trim_is_answered_and_does_nothing() {
    let mut w = World::default();
    let file = data(3, 1);
    w.write(file, 0, 0, &[1; 3 * BLOCK]);
    w.trim(file, 1, 10);
    w.write(file, 1, 0, &[2; 3 * BLOCK]);
    let records = w.journal.len();
    assert!(matches!(w.trim(file, 1, 10), DataReply::Trimmed { blocks: 3, .. }));
    assert_eq!(w.journal.len(), records);
    assert_eq!(w.read(file, 1, 0, 12288).unwrap(), [2; 12288]);
}

#[test]
fn older_cuts_and_generations_are_stale_for_reads_and_writes() {
    let mut w = World::default();
    let (old, new) = (data(3, 1), data(3, 2));
    w.write(old, 0, 0, b"old");
    w.trim(old, 1, 2);
    let seq = w.write(old, 0, 0, b"late");
    assert_eq!(w.reply(seq).unwrap().reply, DataReply::Stale);
    assert_eq!(w.read(old, 0, 0, 3), Err(DataReply::Stale));
    w.write(new, 0, 0, b"new");
    assert_eq!(w.read(old, 1, 0, 3), Err(DataReply::Stale));
    assert_eq!(w.read(new, 0, 0, 3).unwrap(), b"new");
    assert_eq!(w.node.files().len(), 2, "the home has yet to drop the old one");
    assert!(matches!(w.drop_data(old), DataReply::Trimmed { blocks: 0, .. }));
    assert_eq!(w.node.files().len(), 1);
    assert_eq!(w.read(new, 0, 0, 3).unwrap(), b"new");
}

#[test]
fn nothing_comes_back_after_a_drop() {
    let mut w = World::default();
    let file = data(3, 2);
    w.write(file, 0, 0, b"bytes");
    w.drop_data(file);
    let records = w.journal.len();
    w.drop_data(file);
    w.drop_data(data(3, 1));
    assert_eq!(w.journal.len(), records, "repeated drops are only answered");
    for data in [file, data(3, 1)] {
        let seq = w.write(data, 7, 0, b"late");
        assert_eq!(w.reply(seq).unwrap().reply, DataReply::Stale);
        assert_eq!(w.read(data, 0, 0, 5), Err(DataReply::Stale));
    }
    // A drop may also come before the first write of its generation.
    w.drop_data(data(5, 1));
    let seq = w.write(data(5, 1), 0, 0, b"late");
    assert_eq!(w.reply(seq).unwrap().reply, DataReply::Stale);
    w.write(data(5, 2), 0, 0, b"newer");
    assert_eq!(w.read(data(5, 2), 0, 0, 5).unwrap(), b"newer");
}

#[test]
fn a_write_in_progress_when_its_cut_becomes_old_leaves_nothing() {
    let mut w = World { hold_disk: true, ..World::default() };
    let file = data(3, 1);
    w.write(file, 0, 0, &[1; 100]);
    w.disk_step();
    let seq = w.write(file, 0, 50, &[2; 10_000]);
    w.trim(file, 1, 60);
    while !w.disk_queue.is_empty() {
        w.disk_step();
    }
    assert_eq!(w.reply(seq).unwrap().reply, DataReply::Stale);
    w.hold_disk = false;
    assert_eq!(w.read(file, 1, 0, 100).unwrap(), [vec![1; 60], vec![0; 40]].concat());
    w.hold_disk = true;
    let seq = w.write(file, 1, 0, &[3; 8192]);
    w.drop_data(file);
    w.disk_step();
    assert_eq!(w.reply(seq).unwrap().reply, DataReply::Stale);
    assert!(w.node.files().is_empty());
}

#[test]
fn a_newer_cut_waits_for_its_trim() {
    let mut w = World::default();
    let file = data(3, 1);
    w.write(file, 0, 0, &[1; 8192]);
    let heard = w.heard.len();
    let write = w.write(file, 1, 6000, b"behind");
    let read = w.request(&DataRequest::Read { data: file, cut: 1, offset: 0, bytes: 8192 }, &[]);
    let later = w.request(&DataRequest::Read { data: file, cut: 2, offset: 0, bytes: 8192 }, &[]);
    assert!(w.sent.is_empty() && w.heard.len() == heard);
    assert_eq!(w.read(file, 0, 0, 8192).unwrap(), [1; 8192], "others go on");
    w.trim(file, 1, 5000);
    assert_eq!(w.heard.len(), heard + 1);
    let mut expected = [vec![1; 5000], vec![0; 3192]].concat();
    assert!(w.reply(write).is_none());
    assert_eq!(w.reply(read).unwrap().bulk[..5000], expected[..5000]);
    expected[6000..6006].copy_from_slice(b"behind");
    assert_eq!(w.read(file, 1, 0, 8192).unwrap(), expected);
    assert!(w.reply(later).is_none());
    w.drop_data(file);
    assert_eq!(w.reply(later).unwrap().reply, DataReply::Stale);
}

#[test]
fn the_queue_for_newer_cuts_is_bounded() {
    let mut w = World::default();
    let file = data(3, 1);
    w.write(file, 0, 0, b"x");
    let read = DataRequest::Read { data: file, cut: 1, offset: 0, bytes: 1 };
    for _ in 0..1024 {
        w.request(&read, &[]);
    }
    assert!(w.sent.is_empty());
    let seq = w.request(&read, &[]);
    assert_eq!(w.reply(seq).unwrap().reply, DataReply::Failed { errno: Errno::EAGAIN });
    w.trim(file, 1, 1);
    assert_eq!(w.sent.len(), 1024);
    w.sent.clear();
    assert_eq!(w.read(file, 1, 0, 1).unwrap(), b"x");
}

#[test]
fn a_generation_without_bytes_takes_any_cut() {
    let mut w = World::default();
    let file = data(3, 1);
    w.write(file, 2, 9000, b"first");
    w.trim(file, 1, 10);
    w.trim(file, 2, 20);
    assert_eq!(w.read(file, 2, 9000, 5).unwrap(), b"first", "written under the cut, so not taken away by it");
    assert_eq!(w.read(file, 1, 9000, 5), Err(DataReply::Stale));
}

#[test]
fn a_generation_that_its_home_has_forgotten_gives_way_to_the_one_before() {
    let mut w = World { hold_home: true, ..World::default() };
    let (old, forgotten, older) = (data(3, 2), data(3, 5), data(3, 1));
    w.forgotten.push(forgotten);
    w.write(older, 0, 0, b"older");
    w.write(old, 0, 0, &[1; 5000]);
    w.trim(old, 1, 4500);
    w.write(forgotten, 0, 0, &[2; 9000]);
    assert_eq!(w.read(old, 1, 0, 10), Err(DataReply::Stale), "the node cannot know yet");
    w.trim(old, 2, 10); // the home goes on with what it knows
    w.answer_merges();
    assert_eq!(w.read(old, 2, 0, 20).unwrap(), [vec![1; 10], vec![0; 10]].concat());
    assert_eq!(w.read(old, 1, 0, 10), Err(DataReply::Stale), "the trim counts");
    assert_eq!(w.read(older, 0, 0, 5), Err(DataReply::Stale));
    w.drop_data(old);
    assert!(w.node.files().is_empty() && w.faults().is_empty());
}

/// A power loss at both: the home has forgotten the generation, and its only write at the node had not reached the disk.
#[test]
fn a_forgotten_generation_without_bytes_gives_way_too() {
    let mut w = World::default();
    let (old, forgotten) = (data(3, 2), data(3, 5));
    w.write(old, 0, 0, b"old");
    w.flush();
    w.write(forgotten, 0, 0, b"told and gone");
    w.forgotten.push(forgotten);
    let (blocks, records, durable) = (w.disk.durable.clone(), w.journal.len(), w.durable);
    assert_eq!(w.restart(blocks, records, durable).restored_blocks, 1);
    assert_eq!(w.read(old, 0, 0, 3).unwrap(), b"old");
    w.write(old, 0, 0, b"new");
    w.kill();
    assert_eq!(w.read(old, 0, 0, 3).unwrap(), b"new");
    assert!(w.faults().is_empty());
}

#[test]
fn a_late_trim_of_a_file_without_bytes_counts_after_a_forgotten_generation() {
    let mut w = World { hold_home: true, ..World::default() };
    let (empty, forgotten) = (data(3, 2), data(3, 5));
    w.forgotten.push(forgotten);
    w.write(forgotten, 0, 0, b"never told");
    w.trim(empty, 1, 100);
    w.answer_merges();
    let seq = w.write(empty, 0, 200, b"late");
    assert_eq!(w.reply(seq).unwrap().reply, DataReply::Stale);
    w.write(empty, 1, 0, b"first");
    assert_eq!(w.read(empty, 1, 0, 5).unwrap(), b"first");
    assert!(w.faults().is_empty());
}

#[test]
fn a_forgotten_generation_leaves_nothing_when_its_file_goes() {
    let mut w = World { hold_home: true, ..World::default() };
    let (old, forgotten, new) = (data(3, 2), data(3, 5), data(3, 7));
    w.forgotten.push(forgotten);
    w.write(old, 0, 0, b"old");
    w.write(forgotten, 0, 0, b"never told");
    w.write(new, 0, 0, b"new");
    w.drop_data(old);
    w.answer_merges();
    assert_eq!(w.node.files().len(), 1);
    assert_eq!(w.read(new, 0, 0, 3).unwrap(), b"new");
    w.kill();
    assert_eq!(w.node.files().len(), 1);
    assert!(w.faults().is_empty());
}
