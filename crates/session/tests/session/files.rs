//! open, create, close.

use crate::rig::*;
use onpath_session::SessionOut;
use onpath_session::fs::{Caller, FsOp, FsReply, OpenMode};
use onpath_session::limits::{LATER_MAX, LATER_US, WITHOUT_XATTRS_US};
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::codec::Blob;
use onpath_wire::errno::Errno;
use onpath_wire::ids::*;
use onpath_wire::inode::Kind;
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, open, set};
use onpath_wire::xattr::XattrName;

fn flags_of(request: Request) -> u32 {
    match request {
        Request::Open { flags, .. } => flags,
        Request::Create { node, .. } => node.open,
        other => panic!("an open expected, not {other:?}"),
    }
}

#[test]
fn only_the_first_open_registers_and_only_the_last_close_releases() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let unique = rig.fs(FsOp::Open { id, mode: OpenMode { read: true, ..OpenMode::default() } });
    let sent = rig.sent();
    assert_eq!(flags_of(sent.request()), open::READ | open::REGISTER);
    rig.reply(&sent, attr_reply(id, 0, data_ref(5, 0)));
    let Ok(FsReply::Opened(first)) = rig.result(unique) else { panic!("a handle expected") };

    let unique = rig.fs(FsOp::Open { id, mode: OpenMode { write: true, truncate: true, ..OpenMode::default() } });
    let sent = rig.sent();
    assert_eq!(flags_of(sent.request()), open::WRITE | open::TRUNCATE);
    rig.reply(&sent, attr_reply(id, 0, data_ref(6, 0)));
    let Ok(FsReply::Opened(second)) = rig.result(unique) else { panic!("a handle expected") };
    assert_ne!(first.handle, second.handle);

    let unique = rig.fs(FsOp::Release { handle: first.handle, flock_owner: None });
    rig.result(unique).unwrap();
    rig.silent();
    let unique = rig.fs(FsOp::Release { handle: second.handle, flock_owner: None });
    rig.result(unique).unwrap();
    rig.silent();
    rig.pass(LATER_US);
    let release = rig.sent();
    assert_eq!(release.request(), Request::Release { id });
    let unique = rig.fs(FsOp::Release { handle: second.handle, flock_owner: None });
    rig.fails(unique, Errno::EBADF);

    // An open that comes before the release is answered must not be overtaken by it.
    rig.fs(FsOp::Open { id, mode: READ_WRITE });
    rig.silent();
    rig.reply(&release, Reply::Done);
    assert_eq!(flags_of(rig.sent().request()) & open::REGISTER, open::REGISTER);
}

#[test]
fn opens_side_by_side_both_register() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let first = rig.fs(FsOp::Open { id, mode: READ_WRITE });
    let second = rig.fs(FsOp::Open { id, mode: READ_WRITE });
    let sent = [rig.sent(), rig.sent()];
    assert!(sent.iter().all(|s| flags_of(s.request()) & open::REGISTER != 0));
    rig.reply(&sent[0], Reply::Failed { errno: Errno::EACCES });
    rig.fails(first, Errno::EACCES);
    rig.reply(&sent[1], attr_reply(id, 0, data_ref(5, 0)));
    rig.result(second).unwrap();
    rig.silent();
}

#[test]
fn a_refused_open_leaves_nothing() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let unique = rig.fs(FsOp::Open { id, mode: READ_WRITE });
    let sent = rig.sent();
    rig.reply(&sent, Reply::Failed { errno: Errno::EACCES });
    rig.fails(unique, Errno::EACCES);
    rig.silent();
}

#[test]
fn create_makes_opens_and_registers_with_one_message() {
    let mut rig = Rig::new();
    let n = name("new");
    let how = OpenMode { write: true, exclusive: true, ..OpenMode::default() };
    let unique = rig.fs(FsOp::Create { parent: InodeId::ROOT, name: n.clone(), mode: 0o666, umask: 0o22, open: how });
    let sent = rig.sent();
    assert_eq!(sent.header.slot, rig.map.site(InodeId::ROOT, n.as_bytes()));
    assert_eq!(flags_of(sent.request()), open::WRITE | open::EXCLUSIVE | open::REGISTER);
    let Request::Create { node, .. } = sent.request() else { panic!("a create expected") };
    assert_eq!((node.kind, node.mode, node.umask), (Kind::File, 0o666, 0o22));
    let id = InodeId::new(sent.header.slot, Birth(3), 1, Kind::File);
    rig.reply(&sent, entry(id));
    let Ok(FsReply::Created { attr, opened, fresh: true }) = rig.result(unique) else { panic!("a file expected") };
    assert_eq!(attr.id, id);
    let unique = rig.fs(FsOp::Release { handle: opened.handle, flock_owner: None });
    rig.result(unique).unwrap();
    rig.pass(LATER_US);
    assert_eq!(rig.sent().request(), Request::Release { id });
}

#[test]
fn create_of_a_name_that_exists_asks_the_home_for_permission() {
    let mut rig = Rig::new();
    let id = inode_at(3, 9);
    let how = OpenMode { write: true, truncate: true, ..OpenMode::default() };
    let create = FsOp::Create { parent: InodeId::ROOT, name: name("new"), mode: 0o666, umask: 0, open: how };
    let found = |kind| {
        let id = if kind == Kind::Directory { directory_at(3, 9) } else { id };
        Reply::Entry { attr: attr(id, kind), data: data_ref(4, 0), created: false }
    };
    let unique = rig.fs(create.clone());
    let sent = rig.sent();
    rig.reply(&sent, found(Kind::File));
    let sent = rig.sent();
    assert_eq!(
        (sent.to, flags_of(sent.request())),
        (NodeId::shard(ShardId(3)), open::WRITE | open::TRUNCATE | open::REGISTER)
    );
    rig.reply(&sent, Reply::Failed { errno: Errno::EACCES });
    rig.fails(unique, Errno::EACCES);
    rig.silent();
    for (kind, errno) in [(Kind::Directory, Errno::EISDIR), (Kind::Symlink, Errno::ESTALE)] {
        let unique = rig.fs(create.clone());
        let sent = rig.sent();
        rig.reply(&sent, found(kind));
        rig.fails(unique, errno);
    }
}

#[test]
fn pages_are_dropped_when_mtime_hides_a_change() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    rig.open(id, READ_WRITE, data_ref(5, 0));
    let look = |rig: &mut Rig, mtime, ctime| {
        let unique = rig.fs(FsOp::GetAttr { id, handle: None });
        let sent = rig.sent();
        let mut found = attr(id, Kind::File);
        (found.mtime, found.ctime) = (mtime, ctime);
        rig.reply(&sent, Reply::Attr { attr: found, data: data_ref(5, 0), shared: true });
        rig.result(unique).unwrap();
        rig.try_own().is_some_and(|own| matches!(own, SessionOut::Invalidate { id: of } if of == id))
    };
    assert!(!look(&mut rig, 10, 10));
    assert!(!look(&mut rig, 20, 20));
    assert!(look(&mut rig, 20, 30), "written and set back elsewhere, for all we know");
    assert!(!look(&mut rig, 20, 30));
}

#[test]
fn an_abandoned_open_is_released_when_the_server_is_back() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let unique = rig.fs(FsOp::Open { id, mode: READ_WRITE });
    rig.lose_sent();
    rig.pass(100_000);
    rig.interrupt(unique);
    rig.pass(500_000);
    assert!(rig.try_result().is_none(), "the server may just be slow");
    rig.lose_sent();
    rig.pass(500_000);
    rig.fails(unique, Errno::EINTR);
    rig.find(&Request::Release { id });
}

#[test]
fn soft_mounts_give_up_and_hard_ones_do_not() {
    let mut hard = Rig::joined(false);
    hard.fs(FsOp::GetAttr { id: inode_at(1, 1), handle: None });
    hard.pass(3_000_000);
    assert!(hard.try_result().is_none());
    let mut soft = Rig::joined(true);
    let unique = soft.fs(FsOp::GetAttr { id: inode_at(1, 1), handle: None });
    for _ in 0..12 {
        soft.pass(3_000_000);
        let renewals: Vec<_> =
            std::iter::from_fn(|| soft.try_sent()).filter(|s| s.request() == Request::Renew).collect();
        renewals.iter().for_each(|renew| soft.reply(renew, Reply::Done));
    }
    soft.fails(unique, Errno::EIO);
}

#[test]
fn closes_are_told_together_and_before_what_would_notice() {
    let mut rig = Rig::new();
    let ids: Vec<_> = (1..=2 * LATER_MAX as u32).map(|count| inode_at(1, count)).collect();
    let close = |rig: &mut Rig, id| {
        let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
        let unique = rig.fs(FsOp::Release { handle, flock_owner: None });
        rig.result(unique).unwrap();
    };
    let (first, rest) = ids.split_at(LATER_MAX);
    first.iter().for_each(|&id| close(&mut rig, id));
    for &id in first {
        let release = rig.sent();
        assert_eq!(release.request(), Request::Release { id });
        rig.reply(&release, Reply::Done);
    }
    close(&mut rig, rest[0]);
    rig.silent();
    rig.fs(FsOp::Unlink { parent: InodeId::ROOT, name: name("gone") });
    assert_eq!(rig.sent().request(), Request::Release { id: rest[0] });
    assert!(matches!(rig.sent().request(), Request::Unlink { .. }));
}

#[test]
fn an_inode_opened_again_soon_is_not_released_in_between() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
    let unique = rig.fs(FsOp::Release { handle, flock_owner: None });
    rig.result(unique).unwrap();
    let unique = rig.fs(FsOp::Open { id, mode: READ_WRITE });
    let open = rig.sent();
    assert_eq!(flags_of(open.request()) & open::REGISTER, 0, "the home still counts it");
    rig.reply(&open, attr_reply(id, 0, data_ref(5, 0)));
    let Ok(FsReply::Opened(opened)) = rig.result(unique) else { panic!("a handle expected") };
    rig.pass(LATER_US);
    rig.silent();
    let unique = rig.fs(FsOp::Release { handle: opened.handle, flock_owner: None });
    rig.result(unique).unwrap();
    rig.pass(LATER_US);
    assert_eq!(rig.sent().request(), Request::Release { id });
}

#[test]
fn an_access_time_is_told_before_it_is_asked_for() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
    let unique = rig.fs(FsOp::Read { handle, offset: 0, bytes: 1, page: false });
    let ask = rig.sent();
    let Reply::Attr { attr, data, shared } = attr_reply(id, 0, data_ref(5, 0)) else { panic!("attributes") };
    let attr = onpath_wire::attr::AttrWire { ctime: 7, mtime: 7, ..attr };
    rig.reply(&ask, Reply::Attr { attr, data, shared });
    rig.result(unique).unwrap();
    rig.silent();
    rig.fs(FsOp::GetAttr { id: inode_at(1, 2), handle: None });
    assert!(matches!(rig.sent().request(), Request::GetAttr { .. }));
    rig.silent();
    rig.fs(FsOp::GetAttr { id, handle: None });
    let told = rig.sent();
    assert!(matches!(told.request(), Request::SetAttr { id: of, set } if of == id && set.valid & set::ATIME_NOW != 0));
    // On a network the question could overtake it.
    rig.silent();
    rig.reply(&told, attr_reply(id, 0, data_ref(5, 0)));
    assert!(matches!(rig.sent().request(), Request::GetAttr { .. }));
}

/// The kernel's question before a write is answered here once, when the home has just said at the open that there is nothing.
#[test]
fn capabilities_before_the_first_write() {
    let capability = XattrName::capability;
    for (flags, pid, pause_us, asks) in [
        (0, USER.pid, 0, false),
        (flag::XATTRS, USER.pid, 0, true),
        (0, USER.pid + 1, 0, true),
        (0, USER.pid, WITHOUT_XATTRS_US + 1, true),
    ] {
        let mut rig = Rig::new();
        let id = inode_at(1, 1);
        let unique = rig.fs(FsOp::Open { id, mode: READ_WRITE });
        let sent = rig.sent();
        let opened = AttrWire { flags, ..attr(id, Kind::File) };
        rig.reply(&sent, Reply::Attr { attr: opened, data: data_ref(5, 0), shared: false });
        rig.result(unique).unwrap();
        rig.pass(pause_us);
        let get = FsOp::GetXattr { id, name: capability(), probe: true };
        let unique = rig.fs_as(Caller { pid, ..USER }, get.clone());
        if asks {
            let sent = rig.sent();
            assert_eq!(sent.request(), Request::GetXattr { id, name: capability() });
            rig.reply(&sent, Reply::Failed { errno: Errno::ENODATA });
        }
        rig.fails(unique, Errno::ENODATA);
        let unique = rig.fs(get);
        let sent = rig.sent();
        assert_eq!(sent.request(), Request::GetXattr { id, name: capability() }, "only once");
        rig.reply(&sent, Reply::Value { value: Blob(vec![1]) });
        assert!(matches!(rig.result(unique), Ok(FsReply::Value(value)) if value == [1]));
    }
}

/// Set through this mount, an attribute is there at once.
#[test]
fn an_attribute_set_after_the_open_is_asked_for() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
    let name = XattrName::capability();
    let unique = rig.fs(FsOp::SetXattr { id, name: name.clone(), value: vec![1], flags: 0 });
    let sent = rig.sent();
    assert_eq!(sent.request(), Request::SetXattr { id, name: name.clone(), value: Blob(vec![1]), flags: 0 });
    let changed = AttrWire { flags: flag::XATTRS, ctime: 9, ..attr(id, Kind::File) };
    rig.reply(&sent, Reply::Attr { attr: changed, data: data_ref(5, 0), shared: false });
    rig.result(unique).unwrap();
    let unique = rig.fs(FsOp::GetXattr { id, name: name.clone(), probe: true });
    let sent = rig.sent();
    rig.reply(&sent, Reply::Value { value: Blob(vec![1]) });
    rig.result(unique).unwrap();
    let remove = |rig: &mut Rig| {
        let unique = rig.fs(FsOp::RemoveXattr { id, name: XattrName::capability() });
        let sent = rig.sent();
        let Request::RemoveXattr { open_for_write, .. } = sent.request() else { panic!("{:?}", sent.request()) };
        rig.reply(&sent, Reply::Failed { errno: Errno::ENODATA });
        rig.fails(unique, Errno::ENODATA);
        open_for_write
    };
    assert!(remove(&mut rig), "the home lets a writer take capabilities");
    let unique = rig.fs(FsOp::Release { handle, flock_owner: None });
    rig.result(unique).unwrap();
    assert!(!remove(&mut rig));
}
