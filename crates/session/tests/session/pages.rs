//! Pages that the mount changes in memory, and writes beside those of others.

use crate::rig::*;
use bytes::Bytes;
use onpath_kernel::Input;
use onpath_session::fs::{FsOp, FsReply, Handle, OpenMode};
use onpath_session::{SessionIn, SessionOut};
use onpath_wire::data::{DataReply, DataRequest};
use onpath_wire::ids::*;
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;

const HOME: ShardId = ShardId(2);

fn ask(rig: &mut Rig, id: InodeId) {
    rig.reply_from(NodeId::shard(HOME), RequestSeq(0), Reply::WriteBack { id });
}

fn wants_pages(rig: &mut Rig, id: InodeId) {
    assert!(matches!(rig.own(), SessionOut::WriteBack { id: of } if of == id));
}

/// The read of a page, as far as the data node.
fn page(rig: &mut Rig, handle: Handle) -> u64 {
    rig.fs(FsOp::Read { handle, offset: 0, bytes: 4_096, page: true })
}

fn read(rig: &mut Rig, unique: u64) {
    let sent = rig.sent();
    let Request::DataRef { id } = sent.request() else { panic!("{:?}", sent.request()) };
    rig.reply(&sent, attr_reply(id, 4_096, data_ref(5, 1)));
    let data = rig.sent();
    assert!(matches!(data.data(), DataRequest::Read { .. }));
    rig.data_reply(&data, DataReply::Bytes, Bytes::from_static(b"page"));
    assert!(matches!(rig.result(unique), Ok(FsReply::Data(_))));
}

#[test]
fn what_is_written_back_is_read_again_when_the_home_knows() {
    let mut rig = Rig::new();
    let id = inode_at(HOME.0, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 1));
    let first = page(&mut rig, handle);
    read(&mut rig, first);
    ask(&mut rig, id);
    wants_pages(&mut rig, id);
    ask(&mut rig, id);
    rig.silent();
    // A page that is read meanwhile may be changed: it is written back, too.
    let meanwhile = page(&mut rig, handle);
    read(&mut rig, meanwhile);
    rig.input(Input::Own(SessionIn::WrittenBack { id }));
    wants_pages(&mut rig, id);
    let bytes = Bytes::from_static(b"changed");
    let writes = rig.fs(FsOp::Write { handle, offset: 0, data: bytes, append: false, kill_suidgid: false, page: true });
    let sent = rig.sent();
    // Nobody waits for others with a page: their write-back would wait for this one.
    rig.reply_from(NodeId::shard(HOME), sent.header.seq, Reply::WrittenBesidePages { size: 4_096, count: 7 });
    assert!(matches!(rig.result(writes), Ok(FsReply::Written(7))));
    rig.input(Input::Own(SessionIn::WrittenBack { id }));
    let told = rig.sent();
    assert_eq!(told.request(), Request::WrittenBack { id, wrote: true });
    let waits = page(&mut rig, handle);
    rig.silent();
    rig.reply(&told, Reply::Done);
    let map = rig.sent();
    assert_eq!(map.request(), Request::Map { id });
    // Its home asks again before this has heard that it may map.
    ask(&mut rig, id);
    rig.reply(&map, Reply::Done);
    wants_pages(&mut rig, id);
    read(&mut rig, waits);
    rig.input(Input::Own(SessionIn::WrittenBack { id }));
    wants_pages(&mut rig, id);
    rig.input(Input::Own(SessionIn::WrittenBack { id }));
    assert_eq!(rig.sent().request(), Request::WrittenBack { id, wrote: false });
}

#[test]
fn what_cannot_be_changed_in_memory_is_read_without_telling() {
    let mut rig = Rig::new();
    let id = inode_at(HOME.0, 1);
    let reader = rig.open(id, OpenMode { read: true, ..OpenMode::default() }, data_ref(5, 1));
    let unique = page(&mut rig, reader);
    read(&mut rig, unique);
    ask(&mut rig, id);
    let told = rig.sent();
    assert_eq!(told.request(), Request::WrittenBack { id, wrote: false });
    rig.reply(&told, Reply::Done);
    let unique = page(&mut rig, reader);
    read(&mut rig, unique);
}

/// A write beside pages is done again only if such pages have been written back since.
#[test]
fn a_write_under_a_page_of_others_is_done_again() {
    let mut rig = Rig::new();
    let id = inode_at(HOME.0, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 1));
    for again in [false, true] {
        let data = Bytes::from_static(b"hello");
        let unique = rig.fs(FsOp::Write { handle, offset: 9, data, append: false, kill_suidgid: false, page: false });
        let first = rig.sent();
        let beside = Reply::WrittenBesidePages { size: 14, count: 4 };
        rig.reply_from(NodeId::shard(HOME), first.header.seq, beside);
        let asks = rig.sent();
        assert_eq!(asks.request(), Request::WriteBack { id, changed_at: Some(4) });
        rig.reply(&asks, Reply::PagesBack { again });
        if again {
            let second = rig.sent();
            assert_eq!((second.data(), &second.packet.bulk[..]), (first.data(), &b"hello"[..]));
            rig.reply_from(NodeId::shard(HOME), second.header.seq, Reply::Written { size: 14 });
        }
        assert!(matches!(rig.result(unique), Ok(FsReply::Written(5))));
        rig.silent();
    }
}
