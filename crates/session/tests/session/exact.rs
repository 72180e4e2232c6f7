//! What a session that is alone knows of a file, so that its reads ask the data node and nobody else, and when it does not.

use crate::rig::*;
use bytes::Bytes;
use onpath_kernel::Input;
use onpath_session::fs::{FsOp, FsReply, Handle};
use onpath_session::{SessionIn, SessionOut};
use onpath_wire::data::{DataReply, DataRequest};
use onpath_wire::errno::Errno;
use onpath_wire::ids::*;
use onpath_wire::limits::ALONE_MS;
use onpath_wire::reply::{DataRef, Reply};
use onpath_wire::request::{Request, SetAttr, set};

/// A file that has been read once, of 20 bytes.
fn known(rig: &mut Rig) -> (InodeId, Handle) {
    let id = inode_at(2, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 2));
    let unique = begin(rig, handle);
    asks(rig, id, 20, data_ref(5, 2));
    answered(rig, unique, 20);
    (id, handle)
}

fn begin(rig: &mut Rig, handle: Handle) -> u64 {
    rig.fs(FsOp::Read { handle, offset: 0, bytes: 100, page: false })
}

/// A read asks the home.
#[track_caller]
fn asks(rig: &mut Rig, id: InodeId, size: u64, data: DataRef) {
    let ask = rig.sent();
    assert_eq!(ask.request(), Request::DataRef { id });
    rig.reply(&ask, attr_reply(id, size, data));
}

/// A read asks the data node for so many bytes, which answers.
#[track_caller]
fn answered(rig: &mut Rig, unique: u64, size: u32) {
    let sent = rig.sent();
    let DataRequest::Read { bytes, .. } = sent.data() else { panic!("a read expected") };
    assert_eq!(bytes, size);
    rig.data_reply(&sent, DataReply::Bytes, Bytes::new());
    let Ok(FsReply::Data(found)) = rig.result(unique) else { panic!("bytes expected") };
    assert_eq!(found.concat().len() as u32, size);
}

/// The next read asks the data node alone.
#[track_caller]
fn knows(rig: &mut Rig, handle: Handle, size: u32) {
    let unique = begin(rig, handle);
    answered(rig, unique, size);
    rig.silent();
}

/// The next read asks the home first.
#[track_caller]
fn knows_nothing(rig: &mut Rig, (id, handle): (InodeId, Handle)) {
    let unique = begin(rig, handle);
    asks(rig, id, 20, data_ref(5, 2));
    answered(rig, unique, 20);
}

fn write(rig: &mut Rig, handle: Handle, offset: u64) -> (u64, Sent) {
    let data = Bytes::from_static(b"hello");
    let unique = rig.fs(FsOp::Write { handle, offset, data, append: false, kill_suidgid: false, page: false });
    (unique, rig.sent())
}

fn written(rig: &mut Rig, (unique, sent): &(u64, Sent), size: u64) {
    rig.reply_from(NodeId::shard(ShardId(2)), sent.header.seq, Reply::Written { size });
    assert!(matches!(rig.result(*unique), Ok(FsReply::Written(5))));
}

#[test]
fn who_is_alone_asks_once() {
    let mut rig = Rig::alone();
    let (_, handle) = known(&mut rig);
    knows(&mut rig, handle, 20);
    knows(&mut rig, handle, 20);
    // At the end of the file nobody is asked.
    let unique = rig.fs(FsOp::Read { handle, offset: 20, bytes: 1, page: false });
    assert!(matches!(rig.result(unique), Ok(FsReply::Data(found)) if found.is_empty()));
    rig.silent();
}

#[test]
fn who_is_not_alone_always_asks() {
    let mut rig = Rig::new();
    let file = known(&mut rig);
    knows_nothing(&mut rig, file);
}

#[test]
fn who_shares_knows_nothing() {
    let mut rig = Rig::alone();
    let file = known(&mut rig);
    let reply = Reply::GiveBack { alone: AloneId(3) };
    rig.reply_from(NodeId::shard(ShardId(0)), RequestSeq(0), reply);
    assert!(matches!(rig.own(), SessionOut::Share { upto: AloneId(3), .. }));
    knows_nothing(&mut rig, file);
    knows_nothing(&mut rig, file);
    rig.input(Input::Own(SessionIn::Shared));
    let back = rig.find(&Request::HandBack { alone: AloneId(3) });
    rig.reply(&back, Reply::Done);
    knows_nothing(&mut rig, file);
}

#[test]
fn what_is_known_ends_with_the_time_of_being_alone() {
    let mut rig = Rig::alone();
    let file = known(&mut rig);
    rig.pass(LEASE_MS * 1_000 / 3 + 10);
    let renew = rig.find(&Request::RenewAlone);
    rig.lose_sent();
    rig.reply(&renew, Reply::Renewed { alone: AloneId(3) });
    assert!(matches!(rig.own(), SessionOut::Alone { .. }));
    knows(&mut rig, file.1, 20);
    // Nobody says it anew in time; when somebody does, what was known before does not count.
    rig.pass(ALONE_MS * 1_000 + 10);
    let renew = rig.find(&Request::RenewAlone);
    rig.lose_sent();
    knows_nothing(&mut rig, file);
    rig.reply(&renew, Reply::Renewed { alone: AloneId(3) });
    knows_nothing(&mut rig, file);
}

#[test]
fn own_changes_end_what_is_known_when_they_begin() {
    let mut rig = Rig::alone();
    let (id, handle) = known(&mut rig);
    let set = SetAttr { valid: set::SIZE, size: 7, ..SetAttr::default() };
    let unique = rig.fs(FsOp::SetAttr { id, set, handle: None });
    let truncate = rig.find(&Request::SetAttr { id, set });
    // While it is under way every read asks: it may be done already.
    knows_nothing(&mut rig, (id, handle));
    knows_nothing(&mut rig, (id, handle));
    // What was asked before its end does not count either.
    let late = begin(&mut rig, handle);
    let ask = rig.sent();
    rig.reply(&truncate, attr_reply(id, 7, data_ref(5, 3)));
    rig.result(unique).unwrap();
    rig.reply(&ask, attr_reply(id, 20, data_ref(5, 2)));
    answered(&mut rig, late, 20);
    let unique = begin(&mut rig, handle);
    asks(&mut rig, id, 7, data_ref(5, 3));
    answered(&mut rig, unique, 7);
    knows(&mut rig, handle, 7);
}

#[test]
fn a_write_within_the_size_leaves_what_is_known() {
    let mut rig = Rig::alone();
    let (_, handle) = known(&mut rig);
    let write = write(&mut rig, handle, 15);
    knows(&mut rig, handle, 20);
    written(&mut rig, &write, 20);
    // The access time is due once more after it.
    knows(&mut rig, handle, 20);
}

#[test]
fn a_write_beyond_the_size_tells_it() {
    let mut rig = Rig::alone();
    let (id, handle) = known(&mut rig);
    let first = write(&mut rig, handle, 20);
    let second = write(&mut rig, handle, 40);
    knows_nothing(&mut rig, (id, handle));
    // The second one is heard of first.
    written(&mut rig, &second, 45);
    knows_nothing(&mut rig, (id, handle));
    written(&mut rig, &first, 25);
    knows(&mut rig, handle, 45);
}

#[test]
fn a_write_that_fails_leaves_nothing_known() {
    let mut rig = Rig::alone();
    let (id, handle) = known(&mut rig);
    let (unique, sent) = write(&mut rig, handle, 20);
    rig.data_reply(&sent, DataReply::Failed { errno: Errno::ENOSPC }, Bytes::new());
    rig.fails(unique, Errno::ENOSPC);
    knows_nothing(&mut rig, (id, handle));
}

#[test]
fn a_server_that_has_restarted_is_asked() {
    let mut rig = Rig::alone();
    let (id, handle) = known(&mut rig);
    // The answer itself tells of the restart: its bytes may be of before.
    let unique = begin(&mut rig, handle);
    let sent = rig.sent();
    rig.data_reply_in(Term(sent.header.term.0 + 8), &sent, DataReply::Bytes, Bytes::new());
    asks(&mut rig, id, 12, data_ref(5, 2));
    answered(&mut rig, unique, 12);
    knows(&mut rig, handle, 12);
}
