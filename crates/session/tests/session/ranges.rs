//! fallocate, SEEK_DATA and SEEK_HOLE, copy_file_range.

use crate::rig::*;
use bytes::Bytes;
use onpath_session::fs::{FsOp, FsReply, Handle, OpenMode};
use onpath_wire::data::{Allocation, DataReply, DataRequest};
use onpath_wire::errno::Errno;
use onpath_wire::ids::*;
use onpath_wire::limits::{CHUNK_BYTES, FILE_BYTES_MAX, IO_BYTES_MAX};
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;

const MIB: u64 = 1 << 20;

fn allocate(handle: Handle, mode: u32, offset: u64, bytes: u64) -> FsOp {
    FsOp::Allocate { handle, mode, offset, bytes }
}

/// The home of an inode answers a change at the data node.
fn changed(rig: &mut Rig, sent: &Sent, home: u16) {
    rig.reply_from(NodeId::shard(ShardId(home)), sent.header.seq, Reply::Written { size: 0 });
}

#[test]
fn every_mode_says_what_becomes_of_the_range_and_of_the_size() {
    let mut rig = Rig::new();
    let handle = rig.open(inode_at(2, 1), READ_WRITE, data_ref(5, 1));
    for (mode, how, end) in [
        (0, Allocation::Reserve, 150),
        (1, Allocation::Reserve, 0),
        (3, Allocation::Punch, 0),
        (16, Allocation::Zero, 150),
        (17, Allocation::Zero, 0),
    ] {
        let unique = rig.fs(allocate(handle, mode, 100, 50));
        let sent = rig.sent();
        let DataRequest::Allocate { data, cut, offset, bytes, how: asked, end: size, kill_suidgid } = sent.data()
        else {
            panic!("{:?}", sent.data())
        };
        assert_eq!((data.generation.0, cut, offset, bytes, asked, size), (5, 1, 100, 50, how, end));
        assert_eq!(kill_suidgid, USER.uid != 0);
        changed(&mut rig, &sent, 2);
        assert!(matches!(rig.result(unique), Ok(FsReply::Done)));
    }
}

#[test]
fn what_cannot_be_is_refused_without_a_question() {
    let mut rig = Rig::new();
    let handle = rig.open(inode_at(2, 1), READ_WRITE, data_ref(5, 1));
    let read_only = OpenMode { write: false, ..READ_WRITE };
    let reader = rig.open(inode_at(2, 2), read_only, data_ref(5, 1));
    for (op, errno) in [
        (allocate(handle, 2, 0, 10), Errno::EOPNOTSUPP),
        (allocate(handle, 19, 0, 10), Errno::EOPNOTSUPP),
        (allocate(handle, 8, 0, 10), Errno::EOPNOTSUPP),
        (allocate(handle, 0, 0, 0), Errno::EINVAL),
        (allocate(handle, 1, FILE_BYTES_MAX, 1), Errno::EFBIG),
        (allocate(handle, 1, u64::MAX, 2), Errno::EFBIG),
        (allocate(reader, 0, 0, 10), Errno::EBADF),
        (allocate(Handle(99), 0, 0, 10), Errno::EBADF),
        (FsOp::Copy { from: handle, from_offset: 0, handle: reader, offset: 0, bytes: 1 }, Errno::EBADF),
        (FsOp::Copy { from: Handle(99), from_offset: 0, handle, offset: 0, bytes: 1 }, Errno::EBADF),
        (FsOp::Seek { handle: Handle(99), offset: 0, hole: false }, Errno::EBADF),
    ] {
        let unique = rig.fs(op);
        rig.fails(unique, errno);
    }
    rig.silent();
}

#[test]
fn a_stale_allocation_is_asked_for_again_under_what_the_home_says() {
    let mut rig = Rig::new();
    let id = inode_at(2, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 1));
    let unique = rig.fs(allocate(handle, 3, 0, 10));
    let first = rig.sent();
    rig.reply_from(NodeId::shard(ShardId(2)), first.header.seq, Reply::Stale { data: data_ref(5, 2) });
    let second = rig.sent();
    assert!(matches!(second.data(), DataRequest::Allocate { cut: 2, .. }));
    rig.data_reply(&second, DataReply::Stale, Bytes::new());
    let ask = rig.sent();
    assert_eq!(ask.request(), Request::DataRef { id });
    rig.reply(&ask, attr_reply(id, 20, data_ref(6, 0)));
    let third = rig.sent();
    assert!(matches!(third.data(), DataRequest::Allocate { data, cut: 0, .. } if data.generation == Generation(6)));
    changed(&mut rig, &third, 2);
    assert!(matches!(rig.result(unique), Ok(FsReply::Done)));
}

#[test]
fn a_seek_asks_the_home_for_the_size_and_the_data_node_for_blocks() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
    // Size, offset, what for, where the data node finds it, the answer.
    for (size, offset, hole, found, answer) in [
        (10_000, 100, false, Some(4096), Ok(4096)),
        (10_000, 100, false, None, Err(Errno::ENXIO)),
        (10_000, 100, false, Some(12_288), Err(Errno::ENXIO)),
        (10_000, 100, true, Some(8192), Ok(8192)),
        (10_000, 100, true, Some(12_288), Ok(10_000)),
        (10_000, 100, true, None, Ok(10_000)),
    ] {
        let unique = rig.fs(FsOp::Seek { handle, offset, hole });
        let ask = rig.sent();
        rig.reply(&ask, attr_reply(id, size, data_ref(5, 0)));
        let sent = rig.sent();
        let DataRequest::Seek { offset: from, hole: kind, .. } = sent.data() else { panic!("{:?}", sent.data()) };
        assert_eq!((from, kind), (offset, hole));
        rig.data_reply(&sent, DataReply::Position { offset: found }, Bytes::new());
        match (rig.result(unique), answer) {
            (Ok(FsReply::Position(at)), Ok(expected)) => assert_eq!(at, expected),
            (result, expected) => assert_eq!(result.unwrap_err(), expected.unwrap_err()),
        }
    }
    // Behind the end there is neither, and the data node is not asked.
    for hole in [false, true] {
        let unique = rig.fs(FsOp::Seek { handle, offset: 10, hole });
        let ask = rig.sent();
        rig.reply(&ask, attr_reply(id, 10, data_ref(5, 0)));
        rig.fails(unique, Errno::ENXIO);
    }
    rig.silent();
}

/// Answers the seek that comes next.
fn found(rig: &mut Rig, offset: u64, hole: bool, found: Option<u64>) {
    let sent = rig.sent();
    assert!(
        matches!(sent.data(), DataRequest::Seek { offset: from, hole: kind, .. } if (from, kind) == (offset, hole))
    );
    rig.data_reply(&sent, DataReply::Position { offset: found }, Bytes::new());
}

#[test]
fn a_copy_goes_piece_by_piece_and_punches_holes() {
    let mut rig = Rig::new();
    let (id, to) = (inode_at(1, 1), inode_at(2, 1));
    let from = rig.open(id, READ_WRITE, data_ref(5, 3));
    let handle = rig.open(to, READ_WRITE, data_ref(7, 4));
    let offset = CHUNK_BYTES - 10;
    let unique = rig.fs(FsOp::Copy { from, from_offset: 0, handle, offset, bytes: u64::MAX });
    let ask = rig.sent();
    rig.reply(&ask, attr_reply(id, 3 * MIB, data_ref(5, 3)));
    found(&mut rig, 0, false, Some(8192));
    let sent = rig.sent();
    let DataRequest::Allocate { offset: at, bytes, how: Allocation::Punch, end, .. } = sent.data() else {
        panic!("{:?}", sent.data())
    };
    assert_eq!((at, bytes, end), (offset, 8192, offset + 8192));
    changed(&mut rig, &sent, 2);
    found(&mut rig, 8192, false, Some(8192));
    found(&mut rig, 8192, true, Some(2 * MIB));
    let mut at = 8192;
    while at < 2 * MIB {
        let sent = rig.sent();
        let DataRequest::Copy { data, cut: 4, offset: place, from, from_cut: 3, from_offset, bytes, .. } = sent.data()
        else {
            panic!("{:?}", sent.data())
        };
        assert_eq!((data.inode, from.inode, from_offset, place), (to, id, at, offset + at));
        assert!(u64::from(bytes) <= (IO_BYTES_MAX as u64).min(CHUNK_BYTES - place % CHUNK_BYTES));
        at += u64::from(bytes);
        changed(&mut rig, &sent, 2);
    }
    assert_eq!(at, 2 * MIB);
    found(&mut rig, 2 * MIB, false, None);
    let sent = rig.sent();
    assert!(matches!(sent.data(), DataRequest::Allocate { bytes: MIB, how: Allocation::Punch, .. }));
    changed(&mut rig, &sent, 2);
    assert!(matches!(rig.result(unique), Ok(FsReply::Copied(n)) if n == 3 * MIB));
}

#[test]
fn a_copy_whose_source_was_truncated_meanwhile_asks_its_home_again() {
    let mut rig = Rig::new();
    let (id, to) = (inode_at(1, 1), inode_at(2, 1));
    let (from, handle) = (rig.open(id, READ_WRITE, data_ref(5, 0)), rig.open(to, READ_WRITE, data_ref(7, 0)));
    let unique = rig.fs(FsOp::Copy { from, from_offset: 10, handle, offset: 0, bytes: 100 });
    let ask = rig.sent();
    rig.reply(&ask, attr_reply(id, 1000, data_ref(5, 0)));
    found(&mut rig, 10, false, Some(10));
    found(&mut rig, 10, true, Some(4096));
    let sent = rig.sent();
    rig.data_reply(&sent, DataReply::SourceStale, Bytes::new());
    let ask = rig.sent();
    assert_eq!(ask.request(), Request::DataRef { id });
    rig.reply(&ask, attr_reply(id, 1000, data_ref(5, 1)));
    let sent = rig.sent();
    assert!(matches!(sent.data(), DataRequest::Copy { from_cut: 1, from_offset: 10, bytes: 100, .. }));
    changed(&mut rig, &sent, 2);
    assert!(matches!(rig.result(unique), Ok(FsReply::Copied(100))));
}

#[test]
fn a_copy_is_short_after_an_error_and_nothing_at_the_end_of_the_source() {
    let mut rig = Rig::new();
    let (id, to) = (inode_at(1, 1), inode_at(2, 1));
    let (from, handle) = (rig.open(id, READ_WRITE, data_ref(5, 0)), rig.open(to, READ_WRITE, data_ref(7, 0)));
    let copy = |from_offset| FsOp::Copy { from, from_offset, handle, offset: CHUNK_BYTES - 10, bytes: 100 };
    for done in [0, 10] {
        let unique = rig.fs(copy(0));
        let ask = rig.sent();
        rig.reply(&ask, attr_reply(id, 1000, data_ref(5, 0)));
        found(&mut rig, 0, false, Some(0));
        found(&mut rig, 0, true, None);
        if done > 0 {
            let sent = rig.sent();
            changed(&mut rig, &sent, 2);
        }
        let sent = rig.sent();
        rig.data_reply(&sent, DataReply::Failed { errno: Errno::ENOSPC }, Bytes::new());
        match rig.result(unique) {
            Ok(FsReply::Copied(n)) => assert_eq!((n, done), (10, 10)),
            result => assert_eq!((result.unwrap_err(), done), (Errno::ENOSPC, 0)),
        }
    }
    let unique = rig.fs(copy(1000));
    let ask = rig.sent();
    rig.reply(&ask, attr_reply(id, 1000, data_ref(5, 0)));
    assert!(matches!(rig.result(unique), Ok(FsReply::Copied(0))));
    let within = FsOp::Copy { from, from_offset: 0, handle: from, offset: 99, bytes: 100 };
    let unique = rig.fs(within);
    let ask = rig.sent();
    rig.reply(&ask, attr_reply(id, 1000, data_ref(5, 0)));
    rig.fails(unique, Errno::EINVAL);
}
