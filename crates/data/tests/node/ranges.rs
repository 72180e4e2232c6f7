//! Reserved, punched and zeroed ranges: space, repeated requests, crashes, and what happens beside them.

use crate::world::{BLOCK, CHUNK, World, data};
use onpath_wire::Errno;
use onpath_wire::data::{Allocation, DataReply, DataRequest, Merge};
use onpath_wire::ids::{DataId, RequestSeq};
use onpath_wire::limits::FILE_BYTES_MAX;

const FILE: fn() -> DataId = || data(3, 1);

fn blocks(w: &World, of: DataId) -> u64 {
    w.node.files().iter().find(|file| file.data == of).map_or(0, |file| file.blocks)
}

fn last_blocks(w: &World) -> u64 {
    match w.heard.last() {
        Some(Merge::Written { blocks, .. }) => *blocks,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_reservation_counts_and_its_first_write_needs_no_space() {
    let mut w = World::default();
    w.allocate(FILE(), 0, 100, 10 * BLOCK as u64, Allocation::Reserve);
    assert_eq!((blocks(&w, FILE()), last_blocks(&w), w.disk.now.len()), (11, 11, 11));
    assert_eq!(w.read(FILE(), 0, 0, 50_000).unwrap(), vec![0; 50_000], "whatever lies in the places");
    w.disk.full = true;
    let seq = w.write(FILE(), 0, 5000, &[7; 20_000]);
    assert!(w.reply(seq).is_none());
    assert_eq!((blocks(&w, FILE()), w.disk.now.len()), (11, 11), "in the places that were kept");
    let bytes = w.read(FILE(), 0, 0, 45_056).unwrap();
    assert!(bytes[5000..25_000] == [7; 20_000] && bytes[..5000] == [0; 5000] && bytes[25_000..] == [0; 20_056]);
    assert!(w.faults().is_empty());
    // A block that has bytes is never written over: this needs a place that the disk does not have.
    let seq = w.write(FILE(), 0, 8192, &[8; BLOCK]);
    w.pass(5_000_000);
    assert_eq!(w.reply(seq).unwrap().reply, DataReply::Failed { errno: Errno::ENOSPC });
}

#[test]
fn without_space_nothing_is_reserved() {
    let mut w = World::default();
    w.write(FILE(), 0, 0, &[7; 3 * BLOCK]);
    let (journal, taken) = (w.journal.len(), w.disk.now.len());
    for (bytes, how) in [(8 << 40, Allocation::Reserve), (4 << 40, Allocation::Zero), (4 << 20, Allocation::Reserve)] {
        w.disk.room = Some(100);
        let seq = w.allocate(FILE(), 0, 0, bytes, how);
        w.pass(5_000_000);
        assert_eq!(w.reply(seq).unwrap().reply, DataReply::Failed { errno: Errno::ENOSPC }, "{bytes} {how:?}");
        w.disk.room = None;
    }
    w.flush();
    w.pass(10_000_000);
    // One record says that the home has heard of the write.
    assert!(w.journal.len() <= journal + 1);
    assert_eq!((blocks(&w, FILE()), w.disk.now.len()), (3, taken));
}

#[test]
fn a_repeated_request_is_not_executed_again() {
    let mut w = World::default();
    w.write(FILE(), 0, 0, &[7; 4 * BLOCK]);
    let body = |how| DataRequest::Allocate {
        data: FILE(),
        cut: 0,
        offset: 0,
        bytes: 2 * BLOCK as u64,
        how,
        end: 0,
        kill_suidgid: false,
    };
    let punch = RequestSeq(w.next_seq);
    w.request_as(1, punch, punch, &body(Allocation::Punch), &[]);
    w.next_seq += 1;
    let seq = RequestSeq(w.next_seq);
    w.next_seq += 1;
    let write = DataRequest::Write { data: FILE(), cut: 0, offset: 0, kill_suidgid: false, append: false, part: None };
    w.request_as(1, seq, punch, &write, &[8; BLOCK]);
    let heard = w.heard.len();
    w.request_as(1, punch, punch, &body(Allocation::Punch), &[]);
    assert_eq!(w.heard.len(), heard + 1, "the home is told again");
    assert_eq!(w.read(FILE(), 0, 0, BLOCK as u32).unwrap(), [8; BLOCK]);
    w.kill();
    assert_eq!(w.read(FILE(), 0, 0, BLOCK as u32).unwrap(), [8; BLOCK]);
}

#[test]
fn a_merging_write_beside_a_punch_brings_no_old_byte_back() {
    let mut w = World::default();
    w.write(FILE(), 0, 0, &[7; 3 * BLOCK]);
    w.hold_disk = true;
    // The write has read block 1, or taken it from the cache, when the punch comes in between.
    let write = w.write(FILE(), 0, BLOCK as u64 + 10, &[8; 10]);
    w.allocate(FILE(), 0, 0, 3 * BLOCK as u64, Allocation::Punch);
    while !w.disk_queue.is_empty() {
        w.disk_step();
    }
    w.hold_disk = false;
    assert!(w.reply(write).is_none());
    let bytes = w.read(FILE(), 0, 0, 3 * BLOCK as u32).unwrap();
    let mut expected = vec![0; 3 * BLOCK];
    expected[BLOCK + 10..BLOCK + 20].fill(8);
    assert!(bytes == expected);
    assert_eq!(blocks(&w, FILE()), 1);
}

#[test]
fn a_place_that_is_being_written_is_nobody_elses_until_the_disk_is_done() {
    let mut w = World::default();
    w.allocate(FILE(), 0, 0, 4 * BLOCK as u64, Allocation::Reserve);
    w.flush();
    w.hold_disk = true;
    let slow = w.write(FILE(), 0, 0, &[7; 4 * BLOCK]);
    let held: Vec<_> = w.disk_queue.drain(..).collect();
    w.hold_disk = false;
    w.trim(FILE(), 1, 0);
    w.flush();
    w.write(data(4, 1), 0, 0, &[9; 4 * BLOCK]);
    w.flush();
    w.pass(10_000_000);
    w.disk_queue.extend(held);
    while !w.disk_queue.is_empty() {
        w.disk_step();
    }
    assert_eq!(w.reply(slow).unwrap().reply, DataReply::Stale);
    assert_eq!(w.read(data(4, 1), 0, 0, 4 * BLOCK as u32).unwrap(), vec![9; 4 * BLOCK]);
    w.flush();
    w.pass(10_000_000);
    assert!(w.faults().is_empty());
    assert_eq!(w.disk.now.len(), 4);
}

#[test]
fn a_power_loss_that_takes_a_write_leaves_its_block_reserved() {
    let mut w = World::default();
    w.allocate(FILE(), 0, 0, 4 * BLOCK as u64, Allocation::Reserve);
    w.flush();
    let (blocks_then, durable) = (w.disk.durable.clone(), w.durable);
    w.write(FILE(), 0, 0, &[7; 2 * BLOCK]);
    let all = w.journal.len();
    assert_eq!(w.restart(blocks_then, all, durable).restored_blocks, 2);
    assert_eq!(w.read(FILE(), 0, 0, 20_000).unwrap(), vec![0; 20_000]);
    assert_eq!(blocks(&w, FILE()), 4);
    assert!(w.faults().is_empty());
    w.disk.full = true;
    let seq = w.write(FILE(), 0, 0, &[8; 4 * BLOCK]);
    assert!(w.reply(seq).is_none(), "the places are still kept");
}

#[test]
fn a_reservation_outlives_restarts_and_gets_its_space_back() {
    let mut w = World::default();
    w.allocate(FILE(), 0, CHUNK - 8192, 200 * BLOCK as u64, Allocation::Reserve);
    w.write(FILE(), 0, CHUNK, &[7; BLOCK]);
    let all = w.journal.len();
    // The journal's tail is there, but not a byte of the data files.
    w.restart(Default::default(), all, 0);
    assert_eq!((blocks(&w, FILE()), w.disk.now.len()), (200, 200));
    w.kill();
    assert_eq!((blocks(&w, FILE()), w.faults().len()), (200, 0));
    w.drop_data(FILE());
    w.flush();
    w.pass(10_000_000);
    assert_eq!(w.disk.now.len(), 0);
}

#[test]
fn a_fence_keeps_what_a_truncate_takes() {
    let mut w = World::default();
    w.write(FILE(), 0, 0, &[7; BLOCK]);
    w.allocate(FILE(), 0, 0, 8 * BLOCK as u64, Allocation::Reserve);
    let keeping = DataRequest::Trim { data: FILE(), cut: 1, size: BLOCK as u64, keep_reserved: true };
    w.call(&keeping);
    assert_eq!(blocks(&w, FILE()), 8);
    w.kill();
    assert_eq!(blocks(&w, FILE()), 8, "the record says so too");
    w.trim(FILE(), 2, BLOCK as u64);
    assert_eq!(blocks(&w, FILE()), 1);
}

#[test]
fn the_largest_ranges_are_done_at_once() {
    let mut w = World::default();
    w.write(FILE(), 0, FILE_BYTES_MAX - 3, b"end");
    w.write(FILE(), 0, 0, b"begin");
    w.write(FILE(), 0, 1 << 40, b"middle");
    assert_eq!(w.seek(FILE(), 0, 5000, false), Some(1 << 40));
    assert_eq!(w.seek(FILE(), 0, (1 << 40) + 5000, false), Some(FILE_BYTES_MAX - 4096));
    assert_eq!((w.seek(FILE(), 0, FILE_BYTES_MAX - 10, true), w.seek(FILE(), 0, 0, true)), (None, Some(4096)));
    w.allocate(FILE(), 0, 1, FILE_BYTES_MAX - 1, Allocation::Punch);
    assert_eq!((blocks(&w, FILE()), w.seek(FILE(), 0, 4096, false)), (1, None));
    assert_eq!(w.read(FILE(), 0, 0, 10).unwrap(), b"b\0\0\0\0\0\0\0\0\0");
    let too_long = [(1, FILE_BYTES_MAX), (u64::MAX, 1), (FILE_BYTES_MAX, 1)];
    for (offset, bytes) in too_long {
        let seq = w.allocate(FILE(), 0, offset, bytes, Allocation::Punch);
        assert_eq!(w.reply(seq).unwrap().reply, DataReply::Failed { errno: Errno::EFBIG });
    }
    let seq = w.allocate(FILE(), 0, 0, 0, Allocation::Reserve);
    assert_eq!(w.reply(seq).unwrap().reply, DataReply::Failed { errno: Errno::EINVAL });
}

#[test]
fn a_stale_cut_is_refused_on_either_side_of_a_copy() {
    let mut w = World::default();
    let (from, to) = (data(5, 1), data(6, 1));
    w.write(from, 0, 0, b"source");
    w.write(to, 0, 0, b"0123456789");
    w.trim(from, 1, 6);
    let body = |cut, from_cut| DataRequest::Copy {
        data: to,
        cut,
        offset: 2,
        from,
        from_cut,
        from_offset: 0,
        bytes: 8,
        kill_suidgid: false,
    };
    let seq = w.request(&body(0, 0), &[]);
    assert_eq!(w.reply(seq).unwrap().reply, DataReply::SourceStale);
    let seq = w.request(&body(0, 1), &[]);
    assert!(w.reply(seq).is_none());
    assert_eq!(w.read(to, 0, 0, 12).unwrap(), b"01source\0\0\0\0");
    w.trim(to, 1, 4);
    let seq = w.request(&body(0, 1), &[]);
    assert_eq!(w.reply(seq).unwrap().reply, DataReply::Stale);
}
