//! Reads, writes, appends, fsync.

use crate::rig::*;
use bytes::Bytes;
use onpath_session::fs::{FsOp, FsReply, OpenMode};
use onpath_session::limits::{BUSY_PAUSE_US, STALE_ROUNDS_MAX};
use onpath_wire::data::{DataReply, DataRequest};
use onpath_wire::errno::Errno;
use onpath_wire::ids::*;
use onpath_wire::limits::{CHUNK_BYTES, FILE_BYTES_MAX};
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;

const NODE: u16 = 0;

fn write(handle: onpath_session::fs::Handle, offset: u64, data: &'static [u8]) -> FsOp {
    FsOp::Write { handle, offset, data: Bytes::from_static(data), append: false, kill_suidgid: false, page: false }
}

fn append(handle: onpath_session::fs::Handle, data: &'static [u8]) -> FsOp {
    FsOp::Write { handle, offset: 0, data: Bytes::from_static(data), append: true, kill_suidgid: false, page: false }
}

fn written(rig: &mut Rig, unique: u64) -> u32 {
    match rig.result(unique) {
        Ok(FsReply::Written(n)) => n,
        other => panic!("{other:?}"),
    }
}

/// Offset, cut and generation of a write.
fn place(sent: &Sent) -> (u64, u64, u32) {
    let DataRequest::Write { data, cut, offset, .. } = sent.data() else { panic!("a write expected") };
    (offset, data.generation.0, cut)
}

#[test]
fn a_write_goes_to_the_data_node_and_is_answered_by_the_home() {
    let mut rig = Rig::new();
    let id = inode_at(2, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 1));
    let unique = rig.fs(write(handle, 100, b"hello"));
    let sent = rig.sent();
    assert_eq!((sent.to, place(&sent)), (NodeId::data(NODE), (100, 5, 1)));
    assert_eq!(&sent.packet.bulk[..], b"hello");
    rig.reply_from(NodeId::shard(ShardId(2)), sent.header.seq, Reply::Written { size: 105 });
    assert_eq!(written(&mut rig, unique), 5);
}

#[test]
fn writes_are_sent_again_under_a_new_term_of_the_data_node() {
    let mut rig = Rig::new();
    let id = inode_at(2, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 1));
    let unique = rig.fs(write(handle, 100, b"hello"));
    let first = rig.sent();
    rig.data_reply_in(Term(7), &first, DataReply::NewTerm { term: Term(7) }, Bytes::new());
    let second = rig.sent();
    assert_eq!((second.header.seq, second.header.term), (first.header.seq, Term(7)));
    assert_eq!(&second.packet.bulk[..], b"hello");
    // It restarts once more; what it said before counts no longer.
    rig.data_reply_in(Term(8), &second, DataReply::NewTerm { term: Term(8) }, Bytes::new());
    assert_eq!(rig.sent().header.term, Term(8));
    rig.data_reply_in(Term(7), &second, DataReply::Failed { errno: Errno::ENOSPC }, Bytes::new());
    rig.data_reply_in(Term(8), &second, DataReply::NewTerm { term: Term(8) }, Bytes::new());
    rig.silent();
    rig.reply_from(NodeId::shard(ShardId(2)), second.header.seq, Reply::Written { size: 105 });
    assert_eq!(written(&mut rig, unique), 5);
}

#[test]
fn each_data_node_has_a_term_of_its_own() {
    let mut rig = Rig::with_data_nodes(&[1, 2]);
    let at =
        |rig: &Rig, node| (1..).map(|n| inode_at(2, n)).find(|id| rig.map.data(*id) == NodeId::data(node)).unwrap();
    for (node, term) in [(2, 9), (1, 7), (2, 9), (1, 8)] {
        let id = at(&rig, node);
        let handle = rig.open(id, READ_WRITE, data_ref(5, 1));
        let unique = rig.fs(write(handle, 100, b"hello"));
        let mut sent = rig.sent();
        assert_eq!(sent.to, NodeId::data(node));
        if sent.header.term != Term(term) {
            rig.data_reply_in(Term(term), &sent, DataReply::NewTerm { term: Term(term) }, Bytes::new());
            sent = rig.sent();
        }
        assert_eq!((sent.to, sent.header.term), (NodeId::data(node), Term(term)));
        rig.reply_from(NodeId::shard(ShardId(2)), sent.header.seq, Reply::Written { size: 105 });
        assert_eq!(written(&mut rig, unique), 5);
    }
}

#[test]
fn a_stale_write_is_written_again_under_what_the_home_says() {
    let mut rig = Rig::new();
    let id = inode_at(2, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 1));
    let unique = rig.fs(write(handle, 0, b"x"));
    let first = rig.sent();
    // The home says so itself …
    rig.reply_from(NodeId::shard(ShardId(2)), first.header.seq, Reply::Stale { data: data_ref(6, 0) });
    let second = rig.sent();
    assert_eq!(place(&second), (0, 6, 0));
    assert!(second.header.seq > first.header.seq);
    // … or the data node, and then the home is asked.
    rig.data_reply(&second, DataReply::Stale, Bytes::new());
    let ask = rig.sent();
    assert_eq!(ask.request(), Request::DataRef { id });
    rig.reply(&ask, attr_reply(id, 0, data_ref(6, 3)));
    let third = rig.sent();
    assert_eq!(place(&third), (0, 6, 3));
    rig.reply_from(NodeId::shard(ShardId(2)), third.header.seq, Reply::Written { size: 1 });
    assert_eq!(written(&mut rig, unique), 1);
}

#[test]
fn a_write_that_is_always_stale_ends() {
    let mut rig = Rig::new();
    let id = inode_at(2, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
    let unique = rig.fs(write(handle, 0, b"x"));
    for generation in 6.. {
        let Some(sent) = rig.try_sent() else { break };
        rig.reply_from(NodeId::shard(ShardId(2)), sent.header.seq, Reply::Stale { data: data_ref(generation, 0) });
    }
    rig.fails(unique, Errno::EIO);
}

#[test]
fn a_write_over_two_chunks_goes_in_ascending_order() {
    let mut rig = Rig::new();
    let id = inode_at(2, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
    for second_fails in [false, true] {
        let unique = rig.fs(write(handle, CHUNK_BYTES - 2, b"abcde"));
        let first = rig.sent();
        assert_eq!((place(&first).0, &first.packet.bulk[..]), (CHUNK_BYTES - 2, &b"ab"[..]));
        rig.silent();
        rig.reply_from(NodeId::shard(ShardId(2)), first.header.seq, Reply::Written { size: CHUNK_BYTES });
        let second = rig.sent();
        assert_eq!((place(&second).0, &second.packet.bulk[..]), (CHUNK_BYTES, &b"cde"[..]));
        if second_fails {
            rig.data_reply(&second, DataReply::Failed { errno: Errno::ENOSPC }, Bytes::new());
            assert_eq!(written(&mut rig, unique), 2);
        } else {
            rig.reply_from(NodeId::shard(ShardId(2)), second.header.seq, Reply::Written { size: CHUNK_BYTES + 3 });
            assert_eq!(written(&mut rig, unique), 5);
        }
    }
}

#[test]
fn writes_are_refused_where_they_must_be() {
    let mut rig = Rig::new();
    let id = inode_at(2, 1);
    let reader = rig.open(id, OpenMode { read: true, ..OpenMode::default() }, data_ref(5, 0));
    let unique = rig.fs(write(reader, 0, b"x"));
    rig.fails(unique, Errno::EBADF);
    let writer = rig.open(id, OpenMode { write: true, ..OpenMode::default() }, data_ref(5, 0));
    let unique = rig.fs(FsOp::Read { handle: writer, offset: 0, bytes: 1, page: false });
    rig.fails(unique, Errno::EBADF);
    let unique = rig.fs(write(writer, FILE_BYTES_MAX, b"x"));
    rig.fails(unique, Errno::EFBIG);
    let unique = rig.fs(write(writer, FILE_BYTES_MAX - 1, b"xyz"));
    let sent = rig.sent();
    assert_eq!(&sent.packet.bulk[..], b"x");
    rig.data_reply(&sent, DataReply::Failed { errno: Errno::ENOSPC }, Bytes::new());
    rig.fails(unique, Errno::ENOSPC);
}

#[test]
fn a_read_clips_at_the_size_and_fills_holes() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 2));
    let unique = rig.fs(FsOp::Read { handle, offset: 10, bytes: 100, page: false });
    let ask = rig.sent();
    assert_eq!(ask.request(), Request::DataRef { id });
    rig.reply(&ask, attr_reply(id, 20, data_ref(5, 2)));
    let sent = rig.sent();
    let DataRequest::Read { data, cut, offset, bytes } = sent.data() else { panic!("a read expected") };
    assert_eq!((data.inode, data.generation.0, cut, offset, bytes), (id, 5, 2, 10, 10));
    rig.data_reply(&sent, DataReply::Bytes, Bytes::from_static(b"abc"));
    let Ok(FsReply::Data(found)) = rig.result(unique) else { panic!("bytes expected") };
    assert_eq!(found.concat(), b"abc\0\0\0\0\0\0\0");
    // At the end there is nothing, and the data node is not asked.
    let unique = rig.fs(FsOp::Read { handle, offset: 20, bytes: 100, page: false });
    let ask = rig.sent();
    rig.reply(&ask, attr_reply(id, 20, data_ref(5, 2)));
    assert!(matches!(rig.result(unique), Ok(FsReply::Data(found)) if found.is_empty()));
}

#[test]
fn a_read_over_two_chunks_asks_for_both_at_once_and_again_when_stale() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
    let unique = rig.fs(FsOp::Read { handle, offset: CHUNK_BYTES - 1, bytes: 3, page: false });
    for generation in [5, 6] {
        let ask = rig.sent();
        rig.reply(&ask, attr_reply(id, 2 * CHUNK_BYTES, data_ref(generation, 0)));
        let parts = [rig.sent(), rig.sent()];
        if generation == 5 {
            rig.data_reply(&parts[1], DataReply::Stale, Bytes::new());
            rig.silent();
            rig.data_reply(&parts[0], DataReply::Bytes, Bytes::from_static(b"x"));
        } else {
            rig.data_reply(&parts[1], DataReply::Bytes, Bytes::from_static(b"bc"));
            rig.data_reply(&parts[0], DataReply::Bytes, Bytes::from_static(b"a"));
        }
    }
    let Ok(FsReply::Data(found)) = rig.result(unique) else { panic!("bytes expected") };
    assert_eq!(found.concat(), b"abc");
}

#[test]
fn appends_reserve_the_end_and_take_turns() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, OpenMode { append: true, ..READ_WRITE }, data_ref(5, 0));
    let first = rig.fs(append(handle, b"one"));
    let second = rig.fs(append(handle, b"two"));
    let reserve = rig.sent();
    assert_eq!(reserve.request(), Request::Reserve { id });
    rig.silent();
    rig.reply(&reserve, Reply::Reserved { offset: 30, data: data_ref(5, 0) });
    let sent = rig.sent();
    assert_eq!((place(&sent).0, &sent.packet.bulk[..]), (30, &b"one"[..]));
    rig.reply_from(NodeId::shard(ShardId(1)), sent.header.seq, Reply::Written { size: 33 });
    assert_eq!(written(&mut rig, first), 3);
    // The second one now; the file is truncated under it, and full when it comes again.
    let reserve = rig.sent();
    rig.reply(&reserve, Reply::Reserved { offset: 33, data: data_ref(5, 0) });
    let sent = rig.sent();
    rig.reply_from(NodeId::shard(ShardId(1)), sent.header.seq, Reply::Stale { data: data_ref(6, 0) });
    let unreserve = rig.sent();
    assert_eq!(unreserve.request(), Request::Unreserve { id });
    rig.reply(&unreserve, Reply::Done);
    let reserve = rig.sent();
    rig.reply(&reserve, Reply::Reserved { offset: 0, data: data_ref(6, 0) });
    let sent = rig.sent();
    assert_eq!(place(&sent), (0, 6, 0));
    rig.data_reply(&sent, DataReply::Failed { errno: Errno::ENOSPC }, Bytes::new());
    rig.fails(second, Errno::ENOSPC);
    // The reservation is given back before anybody else appends.
    let unreserve = rig.sent();
    assert_eq!(unreserve.request(), Request::Unreserve { id });
    rig.fs(append(handle, b"three"));
    rig.silent();
    rig.reply(&unreserve, Reply::Done);
    assert_eq!(rig.sent().request(), Request::Reserve { id });
}

#[test]
fn fsync_asks_the_data_node_first() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
    let unique = rig.fs(FsOp::Fsync { handle });
    let sent = rig.sent();
    assert!(matches!(sent.data(), DataRequest::Sync { data } if data.generation == Generation(5)));
    rig.data_reply(&sent, DataReply::Stale, Bytes::new());
    let ask = rig.sent();
    rig.reply(&ask, attr_reply(id, 0, data_ref(7, 0)));
    let sent = rig.sent();
    assert!(matches!(sent.data(), DataRequest::Sync { data } if data.generation == Generation(7)));
    rig.data_reply(&sent, DataReply::Synced, Bytes::new());
    let sent = rig.sent();
    assert_eq!(sent.request(), Request::Sync { id });
    rig.reply(&sent, Reply::Done);
    rig.result(unique).unwrap();
}

#[test]
fn an_append_over_a_chunks_end_is_one_message() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, OpenMode { append: true, ..READ_WRITE }, data_ref(5, 0));
    let unique = rig.fs(append(handle, b"abc"));
    let reserve = rig.sent();
    rig.reply(&reserve, Reply::Reserved { offset: CHUNK_BYTES - 1, data: data_ref(5, 0) });
    let sent = rig.sent();
    assert_eq!((place(&sent).0, &sent.packet.bulk[..]), (CHUNK_BYTES - 1, &b"abc"[..]));
    assert!(matches!(sent.data(), DataRequest::Write { append: true, .. }));
    rig.reply_from(NodeId::shard(ShardId(1)), sent.header.seq, Reply::Written { size: CHUNK_BYTES + 2 });
    assert_eq!(written(&mut rig, unique), 3);
}

/// What a read(2) through the page cache begins with; the home says that the file has `size` bytes.
fn ask_size(rig: &mut Rig, id: InodeId, handle: onpath_session::fs::Handle, size: u64, ctime: i64) {
    let unique = rig.fs(FsOp::GetAttr { id, handle: Some(handle) });
    let ask = rig.sent();
    let Reply::Attr { mut attr, data, shared } = attr_reply(id, size, data_ref(5, 2)) else { panic!("attributes") };
    (attr.ctime, attr.mtime, attr.atime) = (ctime, ctime, i64::MAX);
    rig.reply(&ask, Reply::Attr { attr, data, shared });
    assert!(matches!(rig.result(unique), Ok(FsReply::Attr { .. })));
}

/// The next message asks the data node for so many bytes: the home was not asked again.
fn goes_to_the_data_node(rig: &mut Rig, unique: u64, size: u32) {
    let sent = rig.sent();
    let DataRequest::Read { bytes, cut: 2, .. } = sent.data() else { panic!("a read expected") };
    assert_eq!(bytes, size);
    rig.data_reply(&sent, DataReply::Bytes, Bytes::from_static(b"abc"));
    assert!(matches!(rig.result(unique), Ok(FsReply::Data(_))));
}

fn goes_to_the_home(rig: &mut Rig, unique: u64, id: InodeId) {
    let ask = rig.sent();
    assert_eq!(ask.request(), Request::DataRef { id });
    rig.reply(&ask, attr_reply(id, 0, data_ref(5, 2)));
    assert!(matches!(rig.result(unique), Ok(FsReply::Data(_))));
}

#[test]
fn a_read_that_has_asked_for_attributes_does_not_ask_twice() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 2));
    let read = FsOp::Read { handle, offset: 0, bytes: 100, page: false };
    ask_size(&mut rig, id, handle, 20, 7);
    let unique = rig.fs(read.clone());
    goes_to_the_data_node(&mut rig, unique, 20);
    let unique = rig.fs(read.clone());
    goes_to_the_home(&mut rig, unique, id);
    // The node knows of newer bytes: then the home is asked all the same.
    ask_size(&mut rig, id, handle, 20, 7);
    let unique = rig.fs(read);
    let sent = rig.sent();
    rig.data_reply(&sent, DataReply::Stale, Bytes::new());
    let ask = rig.sent();
    assert_eq!(ask.request(), Request::DataRef { id });
    rig.reply(&ask, attr_reply(id, 0, data_ref(5, 3)));
    assert!(matches!(rig.result(unique), Ok(FsReply::Data(_))));
}

/// The data node holds bytes of a generation that the home has forgotten, and will hear so from it in a moment.
#[test]
fn what_the_home_repeats_is_tried_again_after_a_pause() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 2));
    let unique = rig.fs(write(handle, 0, b"abc"));
    for _ in 0..STALE_ROUNDS_MAX + 1 {
        let sent = rig.sent();
        assert!(matches!(sent.data(), DataRequest::Write { cut: 2, .. }));
        rig.data_reply(&sent, DataReply::Stale, Bytes::new());
        let ask = rig.sent();
        rig.reply(&ask, attr_reply(id, 0, data_ref(5, 2)));
        rig.silent(); // not at once
        rig.pass(BUSY_PAUSE_US);
    }
    let sent = rig.sent();
    rig.reply_from(NodeId::shard(ShardId(1)), sent.header.seq, Reply::Written { size: 3 });
    assert_eq!(written(&mut rig, unique), 3);
}

#[test]
fn only_the_same_read_goes_by_the_attributes_that_it_asked_for() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 2));
    let read = FsOp::Read { handle, offset: 0, bytes: 100, page: false };
    // Another thread.
    ask_size(&mut rig, id, handle, 20, 7);
    let other = onpath_session::fs::Caller { pid: USER.pid + 1, ..USER };
    let unique = rig.fs_as(other, read.clone());
    goes_to_the_home(&mut rig, unique, id);
    // Too late to be the same read.
    rig.pass(onpath_session::limits::FRESH_US + 1);
    let unique = rig.fs(read.clone());
    goes_to_the_home(&mut rig, unique, id);
    // The mount has heard of a later size meanwhile, or written itself.
    ask_size(&mut rig, id, handle, 20, 7);
    let unique = rig.fs(FsOp::GetAttr { id, handle: None });
    let ask = rig.sent();
    rig.reply(&ask, attr_reply(id, 30, data_ref(5, 2)));
    assert!(matches!(rig.result(unique), Ok(FsReply::Attr { .. })));
    let unique = rig.fs(read.clone());
    goes_to_the_home(&mut rig, unique, id);
    ask_size(&mut rig, id, handle, 20, 7);
    let writing = rig.fs(write(handle, 20, b"more"));
    let sent = rig.sent();
    ask_size(&mut rig, id, handle, 20, 7);
    rig.reply_from(NodeId::shard(ShardId(1)), sent.header.seq, Reply::Written { size: 24 });
    assert_eq!(written(&mut rig, writing), 4);
    let unique = rig.fs(read);
    goes_to_the_home(&mut rig, unique, id);
    // A handle past the page cache asks for attributes only when the program does.
    let append = rig.open(id, OpenMode { append: true, ..READ_WRITE }, data_ref(5, 2));
    ask_size(&mut rig, id, append, 24, 8);
    let unique = rig.fs(FsOp::Read { handle: append, offset: 0, bytes: 100, page: false });
    goes_to_the_home(&mut rig, unique, id);
}
