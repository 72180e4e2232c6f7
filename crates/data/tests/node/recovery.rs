//! Restarts: replay gives what lived, a power loss leaves old bytes or new ones, free space comes back only when that is safe.

use crate::world::{BLOCK, CHUNK, FILE_BLOCKS, World, data};
use onpath_data::{DataConfig, DataNode};
use onpath_kernel::Role;
use onpath_store::Recoverable;
use onpath_wire::data::{Allocation, DataReply, DataRequest, Merge, Recorded};
use onpath_wire::ids::{DataId, RequestSeq, Stamp, Term};
use onpath_wire::secrets::Secrets;
use onpath_wire::{ClusterMap, Errno};

fn busy_world() -> World {
    let mut w = World::default();
    for n in 1..20 {
        w.write(data(n, 1), 0, n * 1000, &vec![n as u8; 3000 * n as usize]);
    }
    w.write(data(7, 1), 0, CHUNK * 3 + 17, b"far");
    w.trim(data(7, 1), 1, 10_000);
    w.trim(data(12, 1), 1, 14_000);
    w.write(data(12, 1), 1, 60_000, b"more");
    w.write(data(8, 2), 0, 0, b"second generation");
    w.drop_data(data(9, 1));
    w.write(data(10, 5), 0, 5, b"x");
    w.trim(data(10, 5), 1, 3);
    w
}

#[test]
fn replay_gives_the_state_that_lived() {
    let mut w = busy_world();
    let lived = w.images();
    let files = w.node.files();
    let started = w.kill();
    assert_eq!(started.restored_blocks, 0);
    assert_eq!((w.images().iter().map(|i| &i.rest).eq(lived.iter().map(|i| &i.rest)), w.node.files()), (true, files));
    assert!(w.faults().is_empty());
    assert_eq!(w.read(data(7, 1), 1, 7000, 3000).unwrap(), [7; 3000]);
}

#[test]
fn an_image_and_the_records_after_it_give_the_state_that_lived() {
    let mut w = busy_world();
    let images = w.images();
    w.write(data(12, 1), 1, 100, b"later");
    w.trim(data(12, 1), 2, 102);
    w.drop_data(data(3, 1));
    w.write(data(3, 2), 0, 0, b"again");
    w.pass(1_000_000);
    // Images of the ranges are of different age: half of them newer.
    let newer = w.images();
    let (map, term) = (ClusterMap::even(2, Secrets::of_seed(1).placement), Term(2));
    let config = DataConfig {
        node: 0,
        term,
        map,
        cluster: 1,
        file_blocks: FILE_BLOCKS,
        files: 3,
        tickets: onpath_wire::secrets::Secrets::of_seed(1).inner.tickets(),
        outlived: false,
        deferred: true,
    };
    let mut node = DataNode::new(config);
    for range in 0..node.ranges() {
        let image = if range % 2 == 0 { &images } else { &newer }[range as usize].clone();
        node.loaded(range, image.upto);
        for (key, value) in &image.rest {
            node.load(range, key, value).unwrap();
        }
        for (key, value) in &image.changes.put {
            node.load_object(key, value).unwrap();
        }
    }
    for (seq, record) in &w.journal {
        node.replay(*seq, record).unwrap();
    }
    for range in 0..node.ranges() {
        assert_eq!(node.image(range).rest, w.node.image(range).rest, "range {range}");
    }
    assert_eq!(node.files(), w.node.files());
    assert!(node.survey(3, &mut |_| ()));
}

#[test]
fn a_record_that_does_not_fit_is_refused() {
    let mut w = busy_world();
    let (seq, record) = w.journal[3].clone();
    assert!(w.node.replay(seq, &record[..10]).unwrap_err().to_string().contains("does not decode"));
    let mut node = DataNode::new(DataConfig {
        node: 0,
        term: Term(2),
        map: ClusterMap::even(2, Secrets::of_seed(1).placement),
        cluster: 1,
        file_blocks: FILE_BLOCKS,
        files: 0,
        tickets: onpath_wire::secrets::Secrets::of_seed(1).inner.tickets(),
        outlived: false,
        deferred: true,
    });
    for (seq, record) in w.journal.iter().filter(|(seq, _)| *seq != w.journal[0].0) {
        node.replay(*seq, record).unwrap();
    }
    assert!(node.load(0, &[9], &[]).unwrap_err().to_string().contains("unknown image key"));
    w.trim(data(2, 1), 3, 0);
    let late = w.journal[1].clone();
    assert!(w.node.replay(late.0, &late.1).unwrap_err().to_string().contains("contradicts"));
}

#[test]
fn homes_are_told_again_after_a_restart_until_that_is_recorded() {
    let mut w = World { hold_home: true, ..World::default() };
    let seq = w.write(data(3, 1), 0, 0, b"one");
    w.write(data(4, 1), 0, 0, b"two");
    w.heard.clear();
    assert_eq!(w.kill().merges, 2);
    assert!(matches!(
        w.heard[..],
        [Merge::Written { request: RequestSeq(1), .. }, Merge::Written { request: RequestSeq(2), .. }]
    ));
    // The home, which may know the session no more, hears when it was.
    let when = |merge: &Merge| match merge {
        Merge::Written { again, .. } => again.expect("told again"),
        other => panic!("{other:?}"),
    };
    let first: Vec<Recorded> = w.heard.iter().map(when).collect();
    assert_eq!([first[0].seq, first[1].seq], [w.journal[0].0, w.journal[1].0]);
    assert!(Stamp(0) < first[0].stamp && first[0].stamp < first[1].stamp);
    w.checkpoint(true);
    w.heard.clear();
    assert_eq!(w.kill().merges, 2);
    assert_eq!(w.heard.iter().map(when).collect::<Vec<_>>(), first, "from the checkpoint too");
    // A repeated request meanwhile is the same write.
    let body =
        DataRequest::Write { data: data(3, 1), cut: 0, offset: 0, kill_suidgid: false, append: false, part: None };
    w.request_as(1, seq, seq, &body, b"one");
    assert_eq!(w.heard.len(), 2);
    w.answer_merges();
    w.request_as(1, seq, seq, &body, b"one");
    assert_eq!(w.heard.len(), 3, "and the home hears again, to answer the session again");
    w.answer_merges();
    w.pass(100_000);
    assert_eq!(w.kill().merges, 0);
}

#[test]
fn a_lost_tail_leaves_the_old_bytes_and_its_space_is_found() {
    let mut w = World::default();
    let file = data(3, 1);
    w.write(file, 0, 0, &[1; 2 * BLOCK]);
    w.flush();
    w.write(file, 0, 4000, &[2; 600]);
    w.write(data(4, 1), 0, 0, &[3; 5 * BLOCK]);
    w.trim(file, 1, 100);
    // The blocks of the lost records had reached the disk.
    let (blocks, durable) = (w.disk.now.clone(), w.durable);
    w.restart(blocks, durable, durable);
    assert_eq!(w.read(file, 0, 0, 8192).unwrap(), [1; 8192]);
    assert_eq!(w.disk.now.len(), 2, "what nobody knows of is punched");
    assert!(w.faults().is_empty());
}

#[test]
fn records_without_their_bytes_fall_back_to_what_was_there() {
    let mut w = World::default();
    let (file, other) = (data(3, 1), data(4, 1));
    w.write(file, 0, 0, &[1; 3 * BLOCK]);
    w.flush();
    w.write(file, 0, 0, &[2; 2 * BLOCK]);
    w.write(file, 0, 4096, &[3; 4096]);
    w.trim(file, 1, 5000);
    w.write(other, 0, 0, &[4; 4096]);
    // The records survived, of their blocks only the first of the second write, which so never happened.
    let mut blocks = w.disk.durable.clone();
    blocks.insert((0, 3), w.disk.now[&(0, 3)].clone());
    let (records, durable) = (w.journal.len(), w.durable);
    w.heard.clear();
    assert_eq!(w.restart(blocks, records, durable).restored_blocks, 3);
    let counted = |heard: &[Merge]| -> Vec<(DataId, u64)> {
        let counted = heard.iter().filter_map(|merge| match merge {
            Merge::Counted { data, blocks, .. } => Some((*data, *blocks)),
            _ => None,
        });
        counted.collect()
    };
    assert_eq!(counted(&w.heard), [(file, 2), (other, 0)], "the homes count what was told before");
    let expected = [vec![1; 5000], vec![0; 7288]].concat();
    assert_eq!(w.read(file, 1, 0, 12288).unwrap(), expected);
    assert_eq!(w.read(other, 0, 0, 4096).unwrap(), [0; 4096]);
    assert_eq!(w.node.files()[1].blocks, 0);
    assert!(w.faults().is_empty());
    // What was put back is recorded.
    w.heard.clear();
    assert_eq!(w.kill().restored_blocks, 0);
    assert_eq!(counted(&w.heard), [(file, 2), (other, 0)], "whether they had heard it is not known");
    assert_eq!(w.read(file, 1, 0, 12288).unwrap(), expected);
}

#[test]
fn places_that_are_kept_in_a_lost_data_file_ask_for_that_file() {
    let mut w = World::default();
    w.write(data(3, 1), 0, 0, &[1; BLOCK]);
    w.flush();
    for file in 4..7 {
        w.allocate(data(file, 1), 0, 0, u64::from(FILE_BLOCKS / 3) * BLOCK as u64, Allocation::Reserve);
        w.allocate(data(file, 1), 0, 1 << 20, BLOCK as u64, Allocation::Reserve);
    }
    let (blocks, records, durable) = (w.disk.durable.clone(), w.journal.len(), w.durable);
    assert_eq!(w.restart(blocks, records, durable).files, 2);
    assert!(w.faults().is_empty());
}

#[test]
fn a_damaged_block_never_falls_back_to_a_place_that_is_in_use() {
    let mut w = World::default();
    let (file, other) = (data(3, 1), data(4, 1));
    w.write(file, 0, 0, &[1; BLOCK]);
    w.flush();
    w.write(file, 0, 0, &[2; BLOCK]);
    w.flush();
    // The old place is taken by another file, with the very same bytes; then the new one is damaged.
    w.write(other, 0, 0, &[1; BLOCK]);
    assert_eq!(w.disk.now.len(), 2);
    let mut blocks = w.disk.now.clone();
    blocks.get_mut(&(0, 1)).unwrap()[0] ^= 1;
    let records = w.journal.len();
    assert_eq!(w.restart(blocks, records, 1).restored_blocks, 0);
    assert_eq!(w.read(file, 0, 0, 4096), Err(DataReply::Failed { errno: Errno::EIO }));
    assert_eq!(w.read(other, 0, 0, 4096).unwrap(), [1; BLOCK]);
}

#[test]
fn space_is_used_again_only_when_its_record_is_durable() {
    let mut w = World::default();
    let file = data(3, 1);
    w.write(file, 0, 0, &[1; 4 * BLOCK]);
    w.flush();
    for round in 2..8 {
        w.write(file, 0, 0, &[round; 4 * BLOCK]);
    }
    assert_eq!(w.disk.now.len(), 28, "until then every write takes new blocks");
    w.power_loss();
    assert_eq!(w.read(file, 0, 0, 4 * BLOCK as u32).unwrap(), [1; 4 * BLOCK]);
    for round in 2..8 {
        w.write(file, 0, 0, &[round; 4 * BLOCK]);
        w.flush();
    }
    assert_eq!(w.disk.now.len(), 8, "then they are taken in turn");
}

#[test]
fn space_goes_back_to_the_file_system_within_seconds() {
    let mut w = World::default();
    for n in 0..100 {
        w.write(data(n + 1, 1), 0, 0, &vec![1; BLOCK * (n as usize % 3 + 1)]);
    }
    w.flush();
    for n in 0..100 {
        w.drop_data(data(n + 1, 1));
    }
    w.pass(3_000_000);
    assert_eq!(w.disk.punched, 0, "not durable yet");
    assert!(w.node.reclaiming());
    w.flush();
    w.pass(4_000_000);
    assert_eq!(w.disk.now.len(), 0);
    assert_eq!(w.node.counters().punched_blocks, w.disk.punched);
    assert!(!w.node.reclaiming());
    assert_eq!(w.node.next_deadline(), None, "an idle node wants nothing");
}

#[test]
fn a_write_on_a_full_disk_waits_for_the_space_of_removed_files() {
    let mut w = World::default();
    w.write(data(3, 1), 0, 0, &[1; 4 * BLOCK]);
    w.flush();
    w.disk.room = Some(4);
    let (seq, other) = (w.write(data(4, 1), 0, 0, &[2; 3 * BLOCK]), w.write(data(5, 1), 0, 0, &[3; 2 * BLOCK]));
    w.drop_data(data(3, 1));
    w.pass(200_000);
    w.flush();
    w.pass(1_000_000);
    assert!(w.reply(seq).is_none());
    assert_eq!(w.read(data(4, 1), 0, 0, 3 * BLOCK as u32).unwrap(), [2; 3 * BLOCK]);
    assert_eq!(w.reply(other).unwrap().reply, DataReply::Failed { errno: Errno::ENOSPC });
    assert!(w.faults().is_empty());
}

#[test]
fn a_read_keeps_the_blocks_that_it_found() {
    let mut w = World::default();
    let file = data(3, 1);
    w.write(file, 0, 0, &[1; BLOCK]);
    w.flush();
    w.hold_disk = true;
    let read = w.request(&DataRequest::Read { data: file, cut: 0, offset: 0, bytes: 4096 }, &[]);
    let held = w.disk_queue.pop_front().unwrap();
    w.hold_disk = false;
    for round in 2..6 {
        w.write(file, 0, 0, &[round; BLOCK]);
        w.flush();
        w.pass(5_000_000);
    }
    w.disk_queue.push_back(held);
    w.disk_step();
    assert_eq!(w.reply(read).unwrap().bulk, vec![1; BLOCK]);
}

#[test]
fn the_same_inputs_give_the_same_outputs() {
    let (mut a, mut b) = (busy_world(), busy_world());
    assert_eq!(a.journal, b.journal);
    assert_eq!(a.images(), b.images());
    a.kill();
    b.kill();
    assert_eq!((a.journal, a.heard), (b.journal, b.heard));
}

#[test]
fn a_session_window_survives_a_restart() {
    let mut w = World::default();
    let body =
        DataRequest::Write { data: data(3, 1), cut: 0, offset: 0, kill_suidgid: false, append: false, part: None };
    w.request_as(5, RequestSeq(10), RequestSeq(10), &body, b"a");
    w.request_as(5, RequestSeq(11), RequestSeq(11), &body, b"b");
    w.pass(100_000);
    w.kill();
    w.heard.clear();
    w.request_as(5, RequestSeq(10), RequestSeq(10), &body, b"a");
    assert_eq!(w.heard, []);
    w.request_as(5, RequestSeq(11), RequestSeq(11), &body, b"b");
    assert!(matches!(w.heard[..], [Merge::Written { request: RequestSeq(11), .. }]));
    assert_eq!(w.read(data(3, 1), 0, 0, 1), Ok(b"b".to_vec()) as Result<_, DataReply>);
}

#[test]
fn a_write_that_its_home_has_heard_of_and_that_is_undone_is_done_again_when_it_is_repeated() {
    let mut w = World::default();
    let file = data(3, 1);
    w.write(file, 0, 0, &[1; BLOCK]);
    w.flush();
    let before = w.disk.now.clone();
    let lost = w.write(file, 0, 0, &[2; BLOCK]);
    w.pass(200_000);
    let (records, durable) = (w.journal.len(), w.durable);
    assert_eq!(w.restart(before, records, durable).restored_blocks, 1);
    assert_eq!(w.read(file, 0, 0, BLOCK as u32).unwrap(), [1; BLOCK]);
    let body = DataRequest::Write { data: file, cut: 0, offset: 0, kill_suidgid: false, append: false, part: None };
    w.request_as(1, lost, lost, &body, &[2; BLOCK]);
    assert_eq!(w.read(file, 0, 0, BLOCK as u32).unwrap(), [2; BLOCK]);
}

#[test]
fn the_home_hears_of_undone_appends_before_anything_else() {
    let mut w = World::default();
    let file = data(3, 1);
    let append =
        |offset| DataRequest::Write { data: file, cut: 0, offset, kill_suidgid: false, append: true, part: None };
    w.request(&append(0), &[1; 5000]);
    w.flush();
    let blocks = w.disk.now.clone();
    let (first, second) = (RequestSeq(10), RequestSeq(11)); // whose session waits for both
    w.request_as(1, first, first, &append(5000), &[2; 4000]);
    w.request_as(1, second, first, &append(9000), &[3; 9000]);
    w.hold_home = true;
    w.write(data(4, 1), 0, 0, b"another file");
    let told = |w: &mut World| match &std::mem::take(&mut w.heard)[..] {
        [Merge::Counted { data, undone, .. }, ..] if *data == file => {
            undone.iter().map(|undone| (undone.request, undone.from, undone.end)).collect::<Vec<_>>()
        }
        heard => panic!("{heard:?}"),
    };
    let (records, durable) = (w.journal.len(), w.durable);
    w.heard.clear();
    w.restart(blocks, records, durable);
    assert_eq!(told(&mut w), [(second, 9000, 18_000), (first, 5000, 9000)]);
    // At every start, until one of them is done again.
    w.kill();
    assert_eq!(told(&mut w).len(), 2);
    w.request_as(1, first, first, &append(5000), &[2; 4000]);
    w.heard.clear();
    w.kill();
    assert_eq!(told(&mut w), [(second, 9000, 18_000)]);
}

#[test]
fn a_copy_of_a_write_from_before_a_restart_is_not_executed() {
    let mut w = World::default();
    let file = data(3, 1);
    w.write(file, 0, 0, b"lost");
    w.power_loss();
    w.term -= 1; // a copy that was on its way all the time
    let copy = w.write(file, 0, 0, b"lost");
    w.term += 1;
    assert_eq!(w.reply(copy).unwrap().reply, DataReply::NewTerm { term: Term(w.term) });
    assert_eq!(w.read(file, 0, 0, 4).unwrap(), [0; 4]);
    let body = DataRequest::Write { data: file, cut: 0, offset: 0, kill_suidgid: false, append: false, part: None };
    w.request_as(1, copy, copy, &body, b"lost");
    assert_eq!(w.read(file, 0, 0, 4).unwrap(), b"lost", "sent again by somebody who waits for it");
}

#[test]
fn a_write_is_undone_whole_and_so_is_what_was_written_after_it() {
    let mut w = World::default();
    let (file, other) = (data(3, 1), data(4, 1));
    w.write(file, 0, 0, &[1; 4 * BLOCK]);
    w.flush();
    let lost = [
        w.write(file, 0, 100, &[2; 2 * BLOCK]), // blocks 0 to 2
        w.write(file, 0, 2 * BLOCK as u64 + 200, &[3; BLOCK]),
        w.write(file, 0, 0, &[4; 50]),
    ];
    w.write(other, 0, 0, &[5; BLOCK]);
    let mut blocks = w.disk.now.clone();
    blocks.remove(&(0, 5)); // block 1 of the first of them
    let (records, durable) = (w.journal.len(), w.durable);
    w.heard.clear();
    w.restart(blocks, records, durable);
    assert_eq!(w.read(file, 0, 0, 4 * BLOCK as u32).unwrap(), [1; 4 * BLOCK]);
    assert_eq!(w.read(other, 0, 0, BLOCK as u32).unwrap(), [5; BLOCK]);
    assert!(w.heard.iter().all(|merge| !matches!(merge, Merge::Written { request, .. } if lost.contains(request))));
    assert!(w.faults().is_empty());
    // Asked for again, they happen.
    let body = DataRequest::Write { data: file, cut: 0, offset: 0, kill_suidgid: false, append: false, part: None };
    w.request_as(1, lost[2], lost[0], &body, &[4; 50]);
    assert_eq!(w.read(file, 0, 0, 60).unwrap(), [vec![4; 50], vec![1; 10]].concat());
}

/// What is dropped while an image is on its way to the store, which then has it, goes with the next one.
#[test]
fn reserved_blocks_that_are_dropped_during_a_checkpoint_go_with_the_next() {
    let mut w = World::default();
    let file = data(5, 1);
    w.allocate(file, 0, 0, 3 * BLOCK as u64, Allocation::Reserve);
    w.checkpoint_and(true, |w| _ = w.drop_data(file));
    w.checkpoint(true);
    assert_eq!(w.kept.keys(), [[0u8; 0]; 0], "something of a dropped file stays");
    w.kill();
    assert!(w.node.files().is_empty() && w.faults().is_empty());
}

/// A file that has come to have one block only goes with all that the store has of it.
#[test]
fn a_chunk_of_one_block_is_removed_as_a_chunk() {
    let mut w = World::default();
    let file = data(5, 1);
    w.write(file, 0, 0, &[7; 3 * BLOCK]);
    w.trim(file, 1, BLOCK as u64);
    w.checkpoint(true);
    w.kill();
    w.write(file, 1, 0, &[8; BLOCK]);
    w.checkpoint(true);
    w.forget();
    w.forget();
    assert_eq!(w.read(file, 1, 0, BLOCK as u32).unwrap(), [8; BLOCK]);
    w.drop_data(file);
    w.checkpoint(true);
    assert_eq!(w.kept.keys(), [[0u8; 0]; 0]);
    assert!(w.faults().is_empty());
}

/// What a checkpoint has is there, whether or not a record came after it: fsync of a session may rest on that alone.
#[test]
fn what_a_checkpoint_has_is_kept() {
    let mut w = World::default();
    w.write(data(5, 1), 0, 0, b"hello");
    w.flush();
    w.checkpoint(true);
    let (last, blocks) = (w.node.last_record(), w.disk.now.clone());
    w.restart(blocks, 0, 0);
    let seq = w.request(&DataRequest::Kept, &[]);
    match w.reply(seq).expect("an answer").reply {
        DataReply::Kept { upto, .. } => assert!(upto >= last, "{upto:?} of {last:?}"),
        other => panic!("{other:?}"),
    }
}
