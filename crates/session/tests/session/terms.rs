//! restarts of shards, seen from a session.

use crate::rig::*;
use bytes::Bytes;
use onpath_kernel::Input;
use onpath_session::fs::{FsOp, FsReply, Handle};
use onpath_session::limits::LATER_US;
use onpath_session::{LostReason, SessionIn, SessionOut};
use onpath_wire::data::DataReply;
use onpath_wire::errno::Errno;
use onpath_wire::ids::*;
use onpath_wire::inode::Kind;
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, SetAttr, open, set};

#[test]
fn after_a_restart_everything_open_is_sent_again_under_the_same_sequence() {
    let mut rig = Rig::new();
    let (id, other) = (inode_at(1, 1), inode_at(2, 1));
    let uniques = [
        rig.fs(FsOp::GetAttr { id, handle: None }),
        rig.fs(FsOp::ReadLink { id }),
        rig.fs(FsOp::GetAttr { id: other, handle: None }),
    ];
    let sent = [rig.sent(), rig.sent(), rig.sent()];
    rig.terms[1] = Term(50);
    rig.new_term(&sent[0]);
    let again = [rig.sent(), rig.sent()];
    rig.silent();
    for (before, after) in sent.iter().zip(&again) {
        assert_eq!((before.to, before.header.seq), (after.to, after.header.seq));
        assert_eq!((before.header.term, after.header.term), (Term(11), Term(50)));
        assert_eq!(before.request(), after.request());
    }
    // The second copy of the news changes nothing.
    rig.new_term(&sent[1]);
    rig.silent();
    rig.reply(&again[0], attr_reply(id, 3, data_ref(0, 0)));
    assert!(matches!(rig.result(uniques[0]), Ok(FsReply::Attr { attr, .. }) if attr.size == 3));
}

#[test]
fn replies_of_an_older_term_do_not_count() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let unique = rig.fs(FsOp::GetAttr { id, handle: None });
    let sent = rig.sent();
    rig.terms[1] = Term(50);
    rig.new_term(&sent);
    let again = rig.sent();
    rig.reply_in(sent.to, Term(11), sent.header.seq, attr_reply(id, 1, data_ref(0, 0)));
    rig.silent();
    // Nor one from a term under which it was not last sent, nor one from somebody who was not asked.
    rig.reply_in(NodeId::shard(ShardId(2)), rig.terms[2], sent.header.seq, attr_reply(id, 1, data_ref(0, 0)));
    rig.silent();
    rig.reply(&again, attr_reply(id, 2, data_ref(0, 0)));
    assert!(matches!(rig.result(unique), Ok(FsReply::Attr { attr, .. }) if attr.size == 2));
    // A second copy of the answer finds nobody.
    rig.reply(&again, attr_reply(id, 2, data_ref(0, 0)));
    rig.silent();
}

#[test]
fn open_files_are_registered_again_before_requests_go_on() {
    let mut rig = Rig::new();
    let (one, two, elsewhere) = (inode_at(1, 1), inode_at(1, 2), inode_at(2, 1));
    for id in [two, one, elsewhere] {
        rig.open(id, READ_WRITE, data_ref(5, 0));
    }
    rig.fs(FsOp::GetAttr { id: one, handle: None });
    let getattr = rig.sent();
    rig.terms[1] = Term(50);
    rig.new_term(&getattr);
    for id in [one, two] {
        let sent = rig.sent();
        assert_eq!(sent.request(), Request::Open { id, flags: open::AGAIN | open::REGISTER | open::MAP });
        assert_eq!(sent.header.term, Term(50));
    }
    rig.find(&getattr.request());
}

/// What fsync says.
fn fsync(rig: &mut Rig, handle: Handle) -> Result<(), Errno> {
    let unique = rig.fs(FsOp::Fsync { handle });
    let data = rig.sent();
    rig.data_reply(&data, DataReply::Synced, Bytes::new());
    let home = rig.sent();
    assert!(matches!(home.request(), Request::Sync { .. }));
    rig.reply(&home, Reply::Done);
    let result = rig.result(unique).map(drop);
    rig.silent();
    result
}

/// Power losses under `interval`: whoever had the file open hears once that a change may be gone, and who opens it afterwards if nobody has.
#[test]
fn fsync_says_once_to_each_handle_what_a_restart_has_not_kept() {
    let mut rig = Rig::new();
    let (told, in_time) = (inode_at(1, 1), inode_at(1, 2));
    let records = [RecordSeq(Term(11).first_seq() + 5), RecordSeq(Term(11).first_seq() + 3)];
    let before = [told, told, in_time].map(|id| rig.open(id, READ_WRITE, data_ref(5, 0)));
    for (id, record) in [told, in_time].into_iter().zip(records) {
        let set = SetAttr { valid: set::MODE, mode: 0o600, ..SetAttr::default() };
        let unique = rig.fs(FsOp::SetAttr { id, set, handle: None });
        let sent = rig.sent();
        rig.reply_resting_on(record, &sent, attr_reply(id, 0, data_ref(5, 0)));
        rig.result(unique).unwrap();
    }
    let asked = rig.fs(FsOp::GetAttr { id: told, handle: None });
    let getattr = rig.sent();
    rig.terms[1] = Term(50);
    rig.new_term(&getattr);
    for id in [told, in_time] {
        let again = rig.find(&Request::Open { id, flags: open::AGAIN | open::REGISTER | open::MAP });
        rig.reply(&again, attr_reply(id, 0, data_ref(5, 0)));
    }
    let kept = rig.find(&Request::Kept);
    rig.reply(&kept, Reply::Kept { since: Term(0), upto: records[1] });
    let getattr = rig.find(&getattr.request());
    rig.reply(&getattr, attr_reply(told, 0, data_ref(5, 0)));
    rig.result(asked).unwrap();
    rig.lose_sent(); // what was sent again, twice
    let unsaid = rig.open(told, READ_WRITE, data_ref(5, 0));
    for handle in [before[0], unsaid, before[1]] {
        assert_eq!(fsync(&mut rig, handle), Err(Errno::EIO));
        assert_eq!(fsync(&mut rig, handle), Ok(()), "once");
    }
    assert_eq!(fsync(&mut rig, before[2]), Ok(()), "what it was told is there");
    let said = rig.open(told, READ_WRITE, data_ref(5, 0));
    assert_eq!(fsync(&mut rig, said), Ok(()));
}

/// Names are told by their sites, which may have started again without the session's knowledge: fsync of a directory asks them.
#[test]
fn fsync_of_a_directory_asks_who_told_of_its_names() {
    let mut rig = Rig::new();
    let dir = directory_at(2, 1);
    let site = rig.map.shard(rig.map.site(dir, b"gone"));
    assert_ne!(site, ShardId(2), "another shard than that of the directory");
    let unique = rig.fs(FsOp::OpenDir { id: dir, noatime: false });
    let sent = rig.sent();
    rig.reply(&sent, Reply::Attr { attr: attr(dir, Kind::Directory), data: data_ref(0, 0), shared: false });
    let Ok(FsReply::Opened(opened)) = rig.result(unique) else { panic!("a handle") };
    let fsync = |rig: &mut Rig, kept: Option<Reply>| {
        let unique = rig.fs(FsOp::Fsync { handle: opened.handle });
        let home = rig.sent();
        assert_eq!((home.to, home.request()), (NodeId::shard(ShardId(2)), Request::Sync { id: dir }));
        rig.reply(&home, Reply::Done);
        if let Some(kept) = kept {
            let asked = rig.find(&Request::Kept);
            assert_eq!(asked.to, NodeId::shard(site));
            rig.new_term(&asked);
            // Twice: of what was told of all inodes, and again for this one.
            for _ in 0..2 {
                let again = rig.find(&Request::Kept);
                rig.reply(&again, kept.clone());
            }
        }
        let result = rig.result(unique).map(drop);
        rig.lose_sent();
        result
    };
    assert_eq!(fsync(&mut rig, None), Ok(()), "nothing was told");
    for (upto, result) in [(5, Ok(())), (4, Err(Errno::EIO))] {
        let term = rig.terms[site.0 as usize];
        let unique = rig.fs(FsOp::Unlink { parent: dir, name: name("gone") });
        let sent = rig.sent();
        assert_eq!(sent.to, NodeId::shard(site));
        rig.reply_resting_on(RecordSeq(term.first_seq() + 5), &sent, Reply::Done);
        rig.result(unique).unwrap();
        rig.terms[site.0 as usize] = Term(term.0 + 40);
        let kept = Reply::Kept { since: Term(0), upto: RecordSeq(term.first_seq() + upto) };
        assert_eq!(fsync(&mut rig, Some(kept)), result);
    }
    assert_eq!(fsync(&mut rig, None), Ok(()), "once");
}

/// A second restart comes while one of two answers to the first is out: what was registered before it is forgotten too.
#[test]
fn a_second_restart_registers_all_of_it_again() {
    let mut rig = Rig::new();
    let (one, two) = (inode_at(1, 1), inode_at(1, 2));
    let handle = rig.open(one, READ_WRITE, data_ref(5, 0));
    rig.open(two, READ_WRITE, data_ref(5, 0));
    let open_again = |id| Request::Open { id, flags: open::AGAIN | open::REGISTER | open::MAP };
    rig.fs(FsOp::GetAttr { id: one, handle: None });
    let getattr = rig.sent();
    rig.terms[1] = Term(50);
    rig.new_term(&getattr);
    let (first, second) = (rig.find(&open_again(one)), rig.find(&open_again(two)));
    rig.reply(&first, attr_reply(one, 0, data_ref(5, 0)));
    rig.lose_sent();
    rig.terms[1] = Term(51);
    rig.new_term(&second);
    let sent: Vec<_> = std::iter::from_fn(|| rig.try_sent()).collect();
    let under_51 = |id| sent.iter().find(|s| s.request() == open_again(id) && s.header.term == Term(51));
    let (one_again, two_again) = (under_51(one).expect("registered again"), under_51(two).expect("registered again"));
    // The answer to the older question must not let the close go before the newer one is answered.
    rig.reply(&second, attr_reply(two, 0, data_ref(5, 0)));
    let unique = rig.fs(FsOp::Release { handle, flock_owner: None });
    rig.result(unique).unwrap();
    rig.pass(LATER_US);
    rig.silent();
    rig.reply(two_again, attr_reply(two, 0, data_ref(5, 0)));
    rig.reply(one_again, attr_reply(one, 0, data_ref(5, 0)));
    assert_eq!(rig.sent().request(), Request::Release { id: one });
}

#[test]
fn a_close_waits_while_its_inode_is_registered_again() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
    rig.fs(FsOp::GetAttr { id, handle: None });
    let getattr = rig.sent();
    rig.terms[1] = Term(50);
    rig.new_term(&getattr);
    let again = rig.sent();
    rig.lose_sent();
    let unique = rig.fs(FsOp::Release { handle, flock_owner: None });
    rig.result(unique).unwrap();
    rig.pass(LATER_US);
    rig.silent();
    rig.reply(&again, attr_reply(id, 0, data_ref(5, 0)));
    assert_eq!(rig.sent().request(), Request::Release { id });
}

#[test]
fn a_restarted_coordinator_is_joined_again() {
    let mut rig = Rig::new();
    let id = inode_at(0, 1);
    rig.fs(FsOp::GetAttr { id, handle: None });
    let sent = rig.sent();
    rig.terms[0] = Term(60);
    rig.new_term(&sent);
    let attach = rig.sent();
    assert_eq!(attach.request(), Request::Attach { again: true });
    assert_eq!(rig.find(&sent.request()).header.seq, sent.header.seq);
    rig.reply(&attach, Reply::Attached { session: ME.id(), lease_ms: LEASE_MS });
    assert!(rig.try_own().is_none(), "nobody needs to know");
}

#[test]
fn leaving_tells_the_coordinator_and_does_not_wait_for_ever() {
    let mut rig = Rig::new();
    rig.input(Input::Own(SessionIn::Shutdown));
    let detach = rig.sent();
    assert_eq!(detach.request(), Request::Detach { gone: false });
    rig.reply(&detach, Reply::Done);
    assert!(matches!(rig.own(), SessionOut::Lost(LostReason::Detached)));

    let mut rig = Rig::new();
    rig.input(Input::Own(SessionIn::Shutdown));
    rig.pass(2_000_000);
    assert!(matches!(rig.own(), SessionOut::Lost(LostReason::Detached)));
}

#[test]
fn a_rebuilt_stream_gets_everything_open_again() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    rig.fs(FsOp::GetAttr { id, handle: None });
    let sent = rig.sent();
    rig.input(Input::Own(SessionIn::PeerReset(NodeId::shard(ShardId(2)))));
    let greeting = rig.sent();
    assert_eq!(greeting.request(), Request::StatFs, "a shard that nobody asks anything may have restarted too");
    rig.silent();
    rig.input(Input::Own(SessionIn::PeerReset(sent.to)));
    let again = rig.sent();
    assert_eq!((again.header.seq, again.header.term), (sent.header.seq, sent.header.term));
}
