//! Writing and reading: what was written is read, whatever its alignment, and every write reaches its home once.

use crate::world::{BLOCK, CHUNK, World, data};
use onpath_kernel::Input;
use onpath_wire::data::{Allocation, DataReply, DataRequest, Merge};
use onpath_wire::header::{Header, MessageKind, Of, OfRequest, UNTIL_NS};
use onpath_wire::ids::{NodeId, RequestSeq, SessionId, Stamp};
use onpath_wire::{Errno, Packet};

fn pattern(n: usize, salt: u8) -> Vec<u8> {
    (0..n).map(|i| (i % 251) as u8 ^ salt).collect()
}

#[test]
fn what_is_written_is_read() {
    let mut w = World::default();
    let file = data(3, 1);
    let bytes = pattern(3 * BLOCK, 0);
    w.write(file, 0, 0, &bytes);
    assert_eq!(w.disk.writes, 1, "one write for consecutive blocks");
    assert_eq!(w.read(file, 0, 0, 3 * BLOCK as u32).unwrap(), bytes);
    assert_eq!(w.read(file, 0, 5000, 100).unwrap(), bytes[5000..5100]);
    let seq = w.request(&DataRequest::Read { data: file, cut: 0, offset: 4096, bytes: 1 << 20 }, &[]);
    assert_eq!(w.reply(seq).unwrap().bulk, bytes[4096..], "the reply ends where the bytes end");
    assert!(w.faults().is_empty());
}

#[test]
fn the_home_hears_of_a_write_and_the_session_nothing() {
    let mut w = World::default();
    let file = data(3, 1);
    let seq = w.write(file, 0, 100, b"hello");
    let version = w.journal[0].0.0;
    let merge = Merge::Written {
        data: file,
        cut: 0,
        end: 105,
        blocks: 1,
        version,
        session: SessionId(1),
        request: seq,
        oldest: seq,
        kill_suidgid: false,
        append: None,
        again: None,
        beside: false,
    };
    assert_eq!(w.heard, [merge]);
    assert!(w.reply(seq).is_none());
}

#[test]
fn small_writes_merge_with_what_is_there_and_with_zeros() {
    let mut w = World::default();
    let file = data(3, 1);
    w.write(file, 0, 10, b"abc");
    w.write(file, 0, 4090, b"0123456789");
    w.write(file, 0, 11, b"X");
    assert_eq!(w.disk.reads, 0, "partly written blocks are kept for the next write");
    let read = w.read(file, 0, 0, 5000).unwrap();
    assert_eq!(read[9..14], *b"\0aXc\0");
    assert_eq!(read[4089..4101], *b"\x000123456789\0");
    assert_eq!(w.node.files()[0].blocks, 2);
}

#[test]
fn holes_read_as_zeros_and_take_no_blocks() {
    let mut w = World::default();
    let file = data(3, 1);
    let far = 5 << 30;
    w.write(file, 0, far, b"end");
    w.write(file, 0, 2 * BLOCK as u64, b"middle");
    assert_eq!(w.read(file, 0, far - 10, 20).unwrap(), *b"\0\0\0\0\0\0\0\0\0\0end\0\0\0\0\0\0\0");
    assert_eq!(w.read(file, 0, 0, BLOCK as u32).unwrap(), vec![0; BLOCK]);
    assert_eq!(w.read(data(4, 1), 0, 0, 10).unwrap(), [0; 10], "of an unknown file too");
    let summary = w.node.files()[0];
    assert_eq!((summary.blocks, summary.end), (2, far + BLOCK as u64));
}

#[test]
fn a_write_may_cross_a_chunk_and_the_end_of_a_data_file() {
    let mut w = World::default();
    let file = data(3, 1);
    let bytes = pattern(1 << 20, 7);
    for (i, offset) in [CHUNK - 5000, CHUNK + 700_000, 0].into_iter().enumerate() {
        w.write(file, 0, offset, &bytes);
        assert_eq!(w.read(file, 0, offset, 1 << 20).unwrap(), bytes, "write {i}");
    }
    assert!(w.disk.files() >= 2);
    assert!(w.faults().is_empty());
}

#[test]
fn a_repeated_write_is_not_executed_again_but_its_home_hears_again() {
    let mut w = World::default();
    let file = data(3, 1);
    let body = DataRequest::Write { data: file, cut: 0, offset: 0, kill_suidgid: true, append: false, part: None };
    let first = w.request(&body, b"first");
    w.request_as(1, RequestSeq(first.0 + 1), first, &body, b"SECOND");
    w.request_as(1, first, first, &body, b"first");
    assert_eq!(w.read(file, 0, 0, 6).unwrap(), b"SECOND");
    assert_eq!((w.journal.len(), w.heard.len()), (2, 3));
    let Merge::Written { request, blocks, version, kill_suidgid, .. } = w.heard[2] else { panic!("{:?}", w.heard[2]) };
    assert_eq!((request, blocks, version, kill_suidgid), (first, 1, w.journal[1].0.0, true));
    // Once the session has seen the answer, a duplicate is only late.
    w.request_as(1, RequestSeq(first.0 + 2), RequestSeq(first.0 + 1), &body, b"third!");
    w.request_as(1, first, first, &body, b"first");
    assert_eq!(w.heard.len(), 4);
    assert_eq!(w.read(file, 0, 0, 6).unwrap(), b"third!");
}

#[test]
fn a_duplicate_of_a_write_in_progress_is_ignored() {
    let mut w = World { hold_disk: true, ..World::default() };
    let body =
        DataRequest::Write { data: data(3, 1), cut: 0, offset: 0, kill_suidgid: false, append: false, part: None };
    let seq = w.request(&body, b"bytes");
    w.request_as(1, seq, seq, &body, b"bytes");
    assert_eq!(w.disk_queue.len(), 1);
    w.disk_step();
    w.request_as(1, seq, seq, &body, b"bytes");
    assert_eq!((w.journal.len(), w.heard.len()), (1, 2));
}

#[test]
fn a_merge_is_repeated_until_the_home_answers() {
    let mut w = World { hold_home: true, ..World::default() };
    w.write(data(3, 1), 0, 0, b"bytes");
    w.pass(200_000);
    assert!(w.heard.len() > 2);
    assert!(w.heard.iter().all(|merge| *merge == w.heard[0]));
    w.answer_merges();
    let heard = w.heard.len();
    w.pass(10_000_000);
    assert_eq!(w.heard.len(), heard);
    assert_eq!(w.journal.len(), 2, "that the home has answered is recorded");
}

#[test]
fn partial_writes_of_one_block_do_not_lose_each_other() {
    let mut w = World { hold_disk: true, ..World::default() };
    let file = data(3, 1);
    w.write(file, 0, 0, &[1; 4096]);
    w.write(file, 0, 0, b"AA");
    w.write(file, 0, 2, b"BB");
    w.write(file, 0, 0, &[9; 8192]);
    w.write(file, 0, 4, b"CC");
    while !w.disk_queue.is_empty() {
        w.disk_queue.rotate_left(1);
        w.disk_step();
    }
    w.hold_disk = false;
    assert_eq!(w.read(file, 0, 0, 8).unwrap(), [9, 9, 9, 9, b'C', b'C', 9, 9]);
    assert_eq!(w.heard.len(), 5);
}

#[test]
fn a_failed_write_leaves_nothing() {
    let mut w = World::default();
    let file = data(3, 1);
    w.write(file, 0, 0, b"before");
    for errno in [Errno::ENOSPC, Errno::EDQUOT, Errno::EIO] {
        (w.disk.broken, w.disk.quota) = (errno == Errno::EIO, errno == Errno::EDQUOT);
        w.disk.full = !w.disk.broken;
        let seq = w.write(file, 0, 4000, &[7; 10_000]);
        w.pass(2_000_000);
        assert_eq!(w.reply(seq).unwrap().reply, DataReply::Failed { errno });
    }
    w.disk.broken = false;
    assert_eq!(w.read(file, 0, 0, 8192).unwrap()[..8], *b"before\0\0");
    assert_eq!((w.journal.len(), w.heard.len()), (2, 1), "one write, and that its home has answered");
    let seq = w.write(file, 0, 4000, &[7; 10_000]);
    assert!(w.reply(seq).is_none());
    assert_eq!(w.read(file, 0, 4000, 10_000).unwrap(), [7; 10_000]);
    assert!(w.faults().is_empty());
}

#[test]
fn a_failed_write_stays_failed() {
    let mut w = World::default();
    let body =
        DataRequest::Write { data: data(3, 1), cut: 0, offset: 0, kill_suidgid: false, append: false, part: None };
    w.disk.full = true;
    let seq = w.request(&body, b"bytes");
    w.pass(2_000_000);
    w.disk.full = false;
    let enospc = DataReply::Failed { errno: Errno::ENOSPC };
    assert_eq!(w.reply(seq).unwrap().reply, enospc);
    w.request_as(1, seq, seq, &body, b"bytes");
    assert_eq!(w.reply(seq).unwrap().reply, enospc);
    w.node.disk_full(true);
    let seq = w.request(&body, b"bytes");
    assert_eq!(w.reply(seq).unwrap().reply, enospc);
    w.drop_data(data(3, 1));
    w.node.disk_full(false);
    assert!(w.heard.is_empty() && w.node.files().is_empty());
    w.write(data(3, 2), 0, 0, b"bytes");
    assert_eq!(w.read(data(3, 2), 0, 0, 5).unwrap(), b"bytes");
}

#[test]
fn nonsense_is_refused() {
    let mut w = World::default();
    let file = data(3, 1);
    let cases: [(u64, usize, Errno); 4] = [
        (0, 0, Errno::EINVAL),
        (0, (1 << 20) + 1, Errno::EINVAL),
        (16 << 40, 1, Errno::EFBIG),
        (u64::MAX, 2, Errno::EFBIG),
    ];
    for (offset, bytes, errno) in cases {
        let seq = w.write(file, 0, offset, &vec![1; bytes]);
        assert_eq!(w.reply(seq).unwrap().reply, DataReply::Failed { errno });
    }
    assert_eq!(w.read(file, 0, 0, (1 << 20) + 1), Err(DataReply::Failed { errno: Errno::EINVAL }));
    let last = (16 << 40) - 1;
    w.write(file, 0, last, b"x");
    assert_eq!(w.read(file, 0, last, 1).unwrap(), b"x");
    // A session may not destroy.
    let seq = w.request(&DataRequest::Drop { all: vec![file] }, &[]);
    assert!(w.reply(seq).is_none());
    assert_eq!((w.node.counters().rejected, w.node.files().len()), (1, 1));
}

/// Whoever follows a wrong clock is refused by all whose clocks are right, and with it all that is written here.
#[test]
fn a_message_from_the_far_future_is_refused() {
    let mut w = World::default();
    let file = data(3, 1);
    w.now.wall_ns = 5_000_000_000;
    let read = |w: &mut World, seq: u64, stamp: u64| {
        let mut header = Header::new(MessageKind::Data, NodeId::session(SessionId(1)), RequestSeq(seq));
        header.of = Of::Data(OfRequest { until: u32::MAX, ..OfRequest::default() });
        header.stamp = Stamp(stamp);
        let body = DataRequest::Read { data: file, cut: 0, offset: 0, bytes: 1 };
        w.input(Input::Packet(Packet::new(&header, &body)));
        w.reply(RequestSeq(seq)).is_some()
    };
    assert!(!read(&mut w, 1, 15_000_000_000), "ten seconds ahead");
    assert_eq!(w.node.counters().skewed, 1);
    assert!(read(&mut w, 2, 5_400_000_000), "a little ahead");
    assert!(w.last_stamp > Stamp(5_400_000_000) && w.last_stamp < Stamp(5_500_000_000), "and followed");
    assert!(!read(&mut w, 3, 5_800_000_000), "what was followed leads no further");
    assert_eq!(w.node.counters().skewed, 2);
}

#[test]
fn a_block_with_a_bad_checksum_is_an_error_never_bytes() {
    let mut w = World::default();
    let file = data(3, 1);
    w.write(file, 0, 0, &[1; 8192]);
    w.disk.now.get_mut(&(0, 1)).unwrap()[77] ^= 1;
    assert_eq!(w.read(file, 0, 0, 8192), Err(DataReply::Failed { errno: Errno::EIO }));
    assert_eq!(w.read(file, 0, 0, 4096).unwrap(), [1; 4096]);
    let seq = w.write(file, 0, 5000, b"part");
    assert_eq!(w.reply(seq).unwrap().reply, DataReply::Failed { errno: Errno::EIO });
    w.write(file, 0, 4096, &[2; 4096]);
    assert_eq!(w.read(file, 0, 4096, 4096).unwrap(), [2; 4096]);
    assert_eq!(w.node.counters().bad_blocks, 2);
}

#[test]
fn space_is_told() {
    let mut w = World::default();
    w.write(data(3, 1), 0, 0, b"x");
    let seq = w.request(&DataRequest::Space, &[]);
    assert_eq!(w.reply(seq).unwrap().reply, DataReply::Space { total: 257, free: 256 });
}

#[test]
fn sync_rests_on_the_last_record_of_the_file() {
    let mut w = World::default();
    w.write(data(3, 1), 0, 0, b"x");
    w.write(data(4, 1), 0, 0, b"x");
    let seq = w.request(&DataRequest::Sync { data: data(3, 1) }, &[]);
    let sent = w.reply(seq).unwrap();
    assert_eq!((sent.reply, sent.after, sent.need), (DataReply::Synced, w.journal[0].0, onpath_kernel::Need::Durable));
    w.flush();
    let seq = w.request(&DataRequest::Sync { data: data(3, 1) }, &[]);
    assert_eq!(w.reply(seq).unwrap().after.0, 0, "nothing is left to wait for");
}

#[test]
fn a_place_for_an_operation_is_as_small_as_said() {
    let w = World::default();
    let place = w.node.place_bytes() as u64;
    assert!(place > 0 && place <= onpath_wire::limits::memory::OPERATION_AT_DATA, "{place} bytes");
}

/// A write that comes after its session's lease, or whose lease ends while the disk works, is not done, and a copy of it neither.
#[test]
fn a_write_after_the_lease_is_refused_for_good() {
    let mut world = World::default();
    let file = data(1, 1);
    let refused = |world: &mut World, seq| world.reply(seq).map(|sent| sent.reply);
    let again = || Some(DataReply::Failed { errno: Errno::EAGAIN });
    let write = DataRequest::Write { data: file, cut: 0, offset: 0, kill_suidgid: false, append: false, part: None };
    world.now.wall_ns = 10 * UNTIL_NS;
    world.until = 9;
    let late = world.request(&write, &pattern(BLOCK, 1));
    assert_eq!(refused(&mut world, late), again());
    (world.until, world.hold_disk) = (11, true);
    let slow = world.request(&write, &pattern(BLOCK, 2));
    world.now.wall_ns = 12 * UNTIL_NS;
    while !world.disk_queue.is_empty() {
        world.disk_step();
    }
    assert_eq!(refused(&mut world, slow), again());
    (world.until, world.hold_disk) = (u32::MAX, false);
    for (seq, salt) in [(late, 1), (slow, 2)] {
        world.request_as(1, seq, late, &write, &pattern(BLOCK, salt));
        // To what its session has seen answered there is no answer.
        assert!([None, again()].contains(&refused(&mut world, seq)));
    }
    assert!(world.read(file, 0, 0, BLOCK as u32) == Ok(vec![0; BLOCK]), "nothing is written");
}

/// An append has reserved an end at or beyond which somebody else has written meanwhile: it is refused, with nothing written over, also where
/// the other one has written zeros. Places that are kept, and what it has written itself, do not count.
#[test]
fn an_append_does_not_lie_over_what_was_written_at_its_end() {
    for (n, (at, other)) in (1..).zip([
        (0, (0, vec![7; BLOCK])),
        (100, (50, vec![7; 100])),
        (100, (4_000, vec![0; 10])),
        (100, (CHUNK, vec![7; 1])),
        (2 * BLOCK as u64 + 1, (2 * BLOCK as u64 + 1, vec![0; 1])),
    ]) {
        let mut world = World::default();
        let file = data(n, 1);
        if at > 0 {
            world.write(file, 0, 0, &pattern(at as usize, 1));
        }
        let append = |bytes: &'static [u8]| {
            (
                DataRequest::Write { data: file, cut: 0, offset: at, kill_suidgid: false, append: true, part: None },
                bytes,
            )
        };
        world.write(file, 0, other.0, &other.1);
        let (request, bytes) = append(b"appended");
        let refused = world.request(&request, bytes);
        assert_eq!(world.reply(refused).map(|sent| sent.reply), Some(DataReply::Stale), "{at} {}", other.0);
        let read = world.read(file, 0, other.0, other.1.len() as u32).expect("bytes");
        assert!(read == other.1, "nothing is written over at {}", other.0);
    }
}

#[test]
fn an_append_is_not_refused_for_kept_places_or_its_own_bytes() {
    let mut world = World::default();
    let file = data(9, 1);
    world.write(file, 0, 0, &pattern(100, 1));
    let keep = DataRequest::Allocate {
        data: file,
        cut: 0,
        offset: 0,
        bytes: CHUNK,
        how: Allocation::Reserve,
        end: 100,
        kill_suidgid: false,
    };
    world.request(&keep, &[]);
    let append = DataRequest::Write { data: file, cut: 0, offset: 100, kill_suidgid: false, append: true, part: None };
    let heard = world.heard.len();
    let seq = world.request(&append, &[5; 5_000]);
    assert!(world.reply(seq).is_none() && world.heard.len() == heard + 1, "the home answers");
    world.request_as(1, seq, seq, &append, &[5; 5_000]);
    assert!(world.reply(seq).is_none(), "a repetition is no other write");
    assert!(world.read(file, 0, 100, 5_000) == Ok(vec![5; 5_000]));
}
