//! Who is asked what, on whose behalf, and how much at a time.

use crate::rig::*;
use onpath_kernel::Input;
use onpath_session::fs::{Caller, FsOp, FsReply, Handle};
use onpath_session::{CallerQuestion, LostReason, ReadCaller, SessionIn, SessionOut};
use onpath_wire::attr::flag;
use onpath_wire::caller::{Caps, cap};
use onpath_wire::data::DataReply;
use onpath_wire::errno::Errno;
use onpath_wire::header::MessageKind;
use onpath_wire::ids::*;
use onpath_wire::inode::Kind;
use onpath_wire::limits::{SESSION_QUEUE_MAX, SESSION_WINDOW};
use onpath_wire::reply::{DirEntry, Reply};
use onpath_wire::request::{Request, SetAttr, set};

#[test]
fn a_busy_server_is_asked_again_under_another_number() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
    let unique = rig.fs(FsOp::GetAttr { id, handle: None });
    let first = rig.sent();
    rig.reply(&first, Reply::Busy);
    rig.silent();
    rig.pass(20_100);
    let second = rig.sent();
    assert_eq!(second.request(), first.request());
    assert!(second.header.seq > first.header.seq, "it may not be executed under the old number any more");
    rig.reply(&second, attr_reply(id, 0, data_ref(5, 0)));
    rig.result(unique).unwrap();
    let data = bytes::Bytes::from_static(b"bytes");
    let unique =
        rig.fs(FsOp::Write { handle, offset: 0, data: data.clone(), append: false, kill_suidgid: false, page: false });
    let first = rig.sent();
    rig.data_reply(&first, DataReply::Failed { errno: Errno::EAGAIN }, bytes::Bytes::new());
    rig.silent();
    rig.pass(20_100);
    let second = rig.sent();
    assert_eq!((second.data(), &second.packet.bulk), (first.data(), &data));
    rig.reply_from(NodeId::shard(ShardId(1)), second.header.seq, Reply::Written { size: 5 });
    rig.result(unique).unwrap();
}

#[test]
fn requests_wait_until_the_session_has_joined() {
    let mut rig = Rig::cold(false);
    let unique = rig.fs(FsOp::GetAttr { id: InodeId::ROOT, handle: None });
    let attach = rig.sent();
    assert_eq!(attach.request(), Request::Attach { again: false });
    assert_eq!((attach.to, attach.header.source), (NodeId::shard(ShardId(0)), NodeId::session(ME.id())));
    rig.silent();
    rig.new_term(&attach);
    let again = rig.sent();
    assert_eq!((again.header.seq, again.header.term), (attach.header.seq, Term(10)));
    rig.reply(&again, Reply::Attached { session: ME.id(), lease_ms: LEASE_MS });
    let getattr = rig.sent();
    rig.reply(&getattr, attr_reply(InodeId::ROOT, 0, data_ref(0, 0)));
    assert!(matches!(rig.result(unique), Ok(FsReply::Attr { .. })));
}

#[test]
fn a_refused_session_says_so_and_answers_everybody() {
    let mut rig = Rig::cold(false);
    let unique = rig.fs(FsOp::GetAttr { id: InodeId::ROOT, handle: None });
    let attach = rig.sent();
    rig.new_term(&attach);
    let attach = rig.sent();
    rig.reply(&attach, Reply::Failed { errno: Errno::EBUSY });
    rig.fails(unique, Errno::ENOTCONN);
    assert!(matches!(rig.own(), SessionOut::Lost(LostReason::Refused(Errno::EBUSY))));
    let late = rig.fs(FsOp::StatFs);
    rig.fails(late, Errno::ENOTCONN);
}

#[test]
fn names_go_to_their_site_and_inodes_to_their_home() {
    let mut rig = Rig::new();
    let dir = directory_at(2, 7);
    for n in 0..16 {
        let n = name(&format!("file{n}"));
        let at = rig.map.site(dir, n.as_bytes());
        rig.fs(FsOp::Lookup { parent: dir, name: n.clone() });
        let sent = rig.sent();
        assert_eq!((sent.to, sent.header.slot), (NodeId::shard(rig.map.shard(at)), at));
        let caller = sent.body().caller;
        assert_eq!((caller.uid, caller.gid, sent.header.cluster), (1000, 100, 9));
        // Rename and link go to the site of the new name, whatever the old one is.
        rig.fs(FsOp::Rename { from_parent: inode_at(1, 1), from: name("old"), parent: dir, name: n.clone(), flags: 0 });
        assert_eq!(rig.sent().header.slot, at);
        rig.fs(FsOp::Link { id: inode_at(3, 3), parent: dir, name: n });
        assert_eq!(rig.sent().header.slot, at);
    }
    rig.fs(FsOp::GetAttr { id: dir, handle: None });
    assert_eq!(rig.sent().to, NodeId::shard(ShardId(2)));
}

#[test]
fn headers_carry_growing_sequences_stamps_and_the_window() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let sent: Vec<_> = (0..5)
        .map(|_| {
            rig.fs(FsOp::GetAttr { id, handle: None });
            rig.sent()
        })
        .collect();
    for pair in sent.windows(2) {
        assert_eq!(pair[0].header.seq.0 + 1, pair[1].header.seq.0);
        assert!(pair[0].header.stamp < pair[1].header.stamp);
        assert_eq!(pair[0].header.oldest(), pair[1].header.oldest());
    }
    rig.reply(&sent[0], attr_reply(id, 0, data_ref(0, 0)));
    rig.fs(FsOp::GetAttr { id, handle: None });
    let next = rig.sent();
    assert_eq!(next.header.oldest(), sent[1].header.seq);
    // The replies' stamps are ahead of this clock.
    assert!(next.header.stamp.0 > rig.now.wall_ns);
}

#[test]
fn a_full_window_waits_for_its_oldest_request() {
    let mut rig = Rig::new();
    let (stuck, id) = (inode_at(2, 1), inode_at(1, 1));
    rig.fs(FsOp::GetAttr { id: stuck, handle: None });
    let oldest = rig.sent();
    let mut last = 0;
    loop {
        let unique = rig.fs(FsOp::GetAttr { id, handle: None });
        let Some(sent) = rig.try_sent() else { break };
        last = sent.header.seq.0;
        assert_eq!(sent.header.oldest(), oldest.header.seq);
        rig.reply(&sent, attr_reply(id, 0, data_ref(0, 0)));
        rig.result(unique).unwrap();
    }
    assert!(last - oldest.header.seq.0 < SESSION_WINDOW);
    assert!(last - oldest.header.seq.0 > SESSION_WINDOW / 2);
    rig.silent();
    // The lease is renewed all the same.
    rig.pass(LEASE_MS * 1_000 / 2);
    rig.find(&Request::Renew);
    rig.lose_sent();
    rig.reply(&oldest, attr_reply(stuck, 0, data_ref(0, 0)));
    assert_eq!(rig.sent().request(), Request::GetAttr { id });
}

#[test]
fn the_queue_is_bounded() {
    let mut rig = Rig::cold(false);
    for _ in 0..SESSION_QUEUE_MAX {
        assert!(rig.session.has_room());
        rig.fs(FsOp::StatFs);
    }
    assert!(!rig.session.has_room());
    let unique = rig.fs(FsOp::StatFs);
    rig.fails(unique, Errno::EAGAIN);
}

#[test]
fn groups_are_read_only_when_they_decide() {
    let mut rig = Rig::new();
    let unique = rig.fs(FsOp::Unlink { parent: InodeId::ROOT, name: name("x") });
    let first = rig.sent();
    assert!(first.body().caller.groups.member.is_empty());
    rig.reply(&first, Reply::NeedCaller { gids: [5, 6].into_iter().collect(), caps: 0 });
    let SessionOut::ReadCaller { ticket, question } = rig.own() else { panic!("groups should be read") };
    let CallerQuestion { pid, uid, .. } = question;
    assert_eq!((pid, uid, question.caps, question.group), (USER.pid, USER.uid, 0, Some(5)));
    rig.silent();
    rig.input(Input::Own(SessionIn::Caller {
        ticket,
        read: ReadCaller { groups: Some(vec![1, 6, 9]), caps: Caps::default() },
    }));
    let second = rig.sent();
    assert_eq!(second.body().request, first.body().request);
    assert!(second.header.seq > first.header.seq, "it is another request");
    assert_eq!(second.body().caller.groups.member.as_slice(), [6]);
    assert_eq!(second.body().caller.groups.stranger.as_slice(), [5]);
    rig.reply(&second, Reply::Done);
    rig.result(unique).unwrap();
}

#[test]
fn capabilities_are_read_only_when_they_decide_and_membership_only_without_them() {
    let mut rig = Rig::new();
    for (had, member) in [(cap::FOWNER, 0), (0, 1)] {
        let unique = rig.fs(FsOp::Unlink { parent: InodeId::ROOT, name: name("x") });
        let first = rig.sent();
        assert_eq!(first.body().caller.caps, Caps::default());
        rig.reply(&first, Reply::NeedCaller { gids: [6].into_iter().collect(), caps: cap::FOWNER });
        let SessionOut::ReadCaller { ticket, question } = rig.own() else { panic!("it should be read") };
        assert_eq!((question.caps, question.group), (cap::FOWNER, Some(6)));
        let groups = (had == 0).then(|| vec![6]);
        rig.input(Input::Own(SessionIn::Caller { ticket, read: ReadCaller { groups, caps: Caps::exactly(had) } }));
        let second = rig.sent();
        let told = second.body().caller;
        assert_eq!((told.caps, told.groups.member.len()), (Caps::exactly(had), member));
        assert!(told.groups.stranger.is_empty(), "what was not read is not known");
        rig.reply(&second, Reply::Done);
        rig.result(unique).unwrap();
    }
}

#[test]
fn a_caller_without_a_process_has_no_capabilities_not_even_as_uid_0() {
    let mut rig = Rig::new();
    let caller = Caller { pid: 0, uid: 0, ..USER };
    let unique = rig.fs_as(caller, FsOp::Rmdir { parent: InodeId::ROOT, name: name("x") });
    let first = rig.sent();
    rig.reply(&first, Reply::NeedCaller { gids: Default::default(), caps: cap::DAC_OVERRIDE });
    let second = rig.sent();
    assert_eq!(second.body().caller.caps, Caps::exactly(0));
    rig.reply(&second, Reply::Failed { errno: Errno::EACCES });
    rig.fails(unique, Errno::EACCES);
}

#[test]
fn a_caller_without_a_process_has_no_groups_but_the_known_one() {
    let mut rig = Rig::new();
    let caller = Caller { pid: 0, known_group: Some(50), ..USER };
    let unique = rig.fs_as(caller, FsOp::Rmdir { parent: InodeId::ROOT, name: name("x") });
    let first = rig.sent();
    assert_eq!(first.body().caller.groups.member.as_slice(), [50]);
    rig.reply(&first, Reply::NeedCaller { gids: [50, 51].into_iter().collect(), caps: 0 });
    let second = rig.sent();
    assert_eq!(second.body().caller.groups.stranger.as_slice(), [51]);
    rig.reply(&second, Reply::Failed { errno: Errno::EACCES });
    rig.fails(unique, Errno::EACCES);
}

#[test]
fn a_shard_that_never_has_enough_groups_does_not_keep_the_caller() {
    let mut rig = Rig::new();
    let unique = rig.fs_as(Caller { pid: 0, ..USER }, FsOp::Access { id: InodeId::ROOT, mask: 1 });
    for gid in 0.. {
        let Some(sent) = rig.try_sent() else { break };
        rig.reply(&sent, Reply::NeedCaller { gids: [gid].into_iter().collect(), caps: 0 });
    }
    rig.fails(unique, Errno::EACCES);
}

#[test]
fn statfs_adds_all_shards_and_the_data_node() {
    let mut rig = Rig::new();
    let unique = rig.fs(FsOp::StatFs);
    let asked: Vec<_> = std::iter::from_fn(|| rig.try_sent()).collect();
    assert_eq!(asked.len(), SHARDS as usize + 1);
    for sent in &asked {
        if sent.header.kind() == MessageKind::Request {
            assert_eq!(NodeId::shard(rig.map.shard(sent.header.slot)), sent.to);
            rig.reply(sent, Reply::StatFs { inodes: 3, blocks: 1 });
        } else {
            rig.data_reply(sent, onpath_wire::data::DataReply::Space { total: 100, free: 40 }, Default::default());
        }
    }
    let Ok(FsReply::StatFs(totals)) = rig.result(unique) else { panic!("totals expected") };
    assert_eq!((totals.inodes, totals.blocks, totals.blocks_free), (12, 100, 40));
}

fn open_dir(rig: &mut Rig, dir: InodeId) -> Handle {
    let unique = rig.fs(FsOp::OpenDir { id: dir, noatime: false });
    let sent = rig.sent();
    rig.reply(&sent, attr_reply(dir, 0, data_ref(0, 0)));
    match rig.result(unique) {
        Ok(FsReply::Opened(opened)) => opened.handle,
        other => panic!("a handle expected: {other:?}"),
    }
}

/// The number of an inode says whether it is a directory. Who says something else beside it is not believed.
#[test]
fn a_type_that_the_number_contradicts_is_an_error() {
    let contradictions = [(inode_at(1, 2), Kind::Directory), (directory_at(1, 2), Kind::File)];
    for (id, kind) in contradictions {
        let mut rig = Rig::new();
        let (told, data) = (attr(id, kind), data_ref(1, 0));
        let parent = InodeId::ROOT;
        let named = |created| Reply::Entry { attr: told, data, created };
        let of_inode = Reply::Attr { attr: told, data, shared: false };
        for (op, reply) in [
            (FsOp::Lookup { parent, name: name("n") }, named(false)),
            (FsOp::Create { parent, name: name("n"), mode: 0o666, umask: 0, open: READ_WRITE }, named(true)),
            (FsOp::GetAttr { id, handle: None }, of_inode.clone()),
        ] {
            let unique = rig.fs(op);
            let sent = rig.sent();
            rig.reply(&sent, reply);
            rig.fails(unique, Errno::EIO);
        }
        let handle = open_dir(&mut rig, directory_at(2, 1));
        let unique = rig.fs(FsOp::ReadDir { handle, after: Cookie(2), bytes: 1000 });
        let sent = rig.sent();
        let entries = vec![DirEntry { child: id, kind, cookie: Cookie(1 << 15), name: name("n") }];
        rig.reply(&sent, Reply::Dir { parent, entries, end: true, due: false, flags: 0 });
        rig.fails(unique, Errno::EIO);
        rig.silent();
        let unique = rig.fs(FsOp::Open { id, mode: READ_WRITE });
        let sent = rig.sent();
        rig.reply(&sent, of_inode);
        rig.fails(unique, Errno::EIO);
        assert_eq!(rig.sent().request(), Request::Release { id }, "the home may have registered it");
    }
}

#[test]
fn a_listing_begins_with_dots_and_asks_each_shard_once_for_attributes() {
    let mut rig = Rig::new();
    let dir = directory_at(1, 1);
    let handle = open_dir(&mut rig, dir);
    let entries: Vec<_> = (0..6u32)
        .map(|n| DirEntry {
            child: inode_at((n % 3) as u16, n + 1),
            kind: Kind::File,
            cookie: Cookie(u64::from(n + 1) << 15),
            name: name(&format!("f{n}")),
        })
        .collect();
    let unique = rig.fs(FsOp::ReadDirPlus { handle, after: Cookie(0), bytes: 32 << 10 });
    let sent = rig.sent();
    rig.reply(
        &sent,
        Reply::Dir { parent: InodeId::ROOT, entries: entries.clone(), end: true, due: false, flags: flag::SEARCHABLE },
    );
    let asked: Vec<_> = std::iter::from_fn(|| rig.try_sent()).collect();
    assert_eq!(asked.len(), 3);
    for sent in &asked {
        let Request::GetAttrs { ids } = sent.request() else { panic!("attributes expected") };
        assert!(ids.iter().all(|&id| NodeId::shard(rig.map.home(id)) == sent.to));
        let attrs = ids.iter().map(|&id| (id != entries[4].child).then(|| attr(id, Kind::File))).collect();
        rig.reply(sent, Reply::Attrs { attrs });
    }
    let Ok(FsReply::DirPlus(page)) = rig.result(unique) else { panic!("a page expected") };
    let names: Vec<_> = page.iter().map(|(e, _)| String::from_utf8_lossy(e.name.as_bytes()).into_owned()).collect();
    assert_eq!(names, [".", "..", "f0", "f1", "f2", "f3", "f4", "f5"]);
    assert_eq!((page[0].0.child, page[1].0.child), (dir, InodeId::ROOT));
    let known: Vec<_> = page.iter().map(|(_, attr)| attr.map(|attr| attr.flags & flag::SEARCHABLE != 0)).collect();
    let told = Some(true);
    assert_eq!(known, [None, None, told, told, told, told, None, told]);
    // Where not everybody may search, nobody is given what a cache may show to others.
    let unique = rig.fs(FsOp::ReadDirPlus { handle, after: Cookie(2), bytes: 32 << 10 });
    let sent = rig.sent();
    rig.reply(&sent, Reply::Dir { parent: InodeId::ROOT, entries, end: true, due: false, flags: 0 });
    let Ok(FsReply::DirPlus(page)) = rig.result(unique) else { panic!("a page expected") };
    assert!(page.len() == 6 && page.iter().all(|(_, attr)| attr.is_none()));
    // A later page has no dots; after "." comes "..".
    for (after, dots) in [(Cookie(1), 1), (Cookie(2), 0)] {
        let unique = rig.fs(FsOp::ReadDir { handle, after, bytes: 1000 });
        let sent = rig.sent();
        rig.reply(
            &sent,
            Reply::Dir { parent: InodeId::ROOT, entries: vec![], end: true, due: false, flags: flag::SEARCHABLE },
        );
        assert!(matches!(rig.result(unique), Ok(FsReply::Dir(page)) if page.len() == dots));
    }
}

#[test]
fn the_size_of_a_file_may_be_changed_through_a_handle_open_for_writing() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
    let set = SetAttr { valid: set::SIZE | set::OPEN_FOR_WRITE, size: 10, ..SetAttr::default() };
    rig.fs(FsOp::SetAttr { id, set, handle: Some(handle) });
    assert!(matches!(rig.sent().request(), Request::SetAttr { set, .. } if set.valid & set::OPEN_FOR_WRITE != 0));
    rig.fs(FsOp::SetAttr { id, set, handle: None });
    assert!(matches!(rig.sent().request(), Request::SetAttr { set, .. } if set.valid & set::OPEN_FOR_WRITE == 0));
    let set = SetAttr { size: u64::MAX, ..set };
    let unique = rig.fs(FsOp::SetAttr { id, set, handle: None });
    rig.fails(unique, Errno::EFBIG);
}
