//! open(2) that creates, as a mknod and an open: so that nobody waits for the disk with the directory locked.

use crate::rig::*;
use onpath_session::fs::{Caller, FsOp, FsReply, OpenMode};
use onpath_session::limits::{HALVES_US, LATER_US};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, open};

fn write() -> OpenMode {
    OpenMode { write: true, truncate: true, ..OpenMode::default() }
}

fn mknod() -> FsOp {
    let (parent, name) = (InodeId::ROOT, name("new"));
    FsOp::Make { parent, name, kind: Kind::File, mode: 0o444, umask: 0, rdev: 0, target: vec![] }
}

/// The file that the first half has made.
fn made(rig: &mut Rig) -> InodeId {
    made_by(rig, USER)
}

fn made_by(rig: &mut Rig, caller: Caller) -> InodeId {
    let unique = rig.fs_as(caller, mknod());
    let sent = rig.sent();
    let Request::Create { node, .. } = sent.request() else { panic!("a create expected") };
    assert_eq!(node.open, open::REGISTER | open::EXCLUSIVE | open::EARLY);
    let id = inode_at(1, 9);
    rig.reply(&sent, entry(id));
    assert!(matches!(rig.result(unique), Ok(FsReply::Entry(attr)) if attr.id == id));
    id
}

/// Its open is a question to the home, which looks at the mode.
fn asks_by_permission(rig: &mut Rig, caller: Caller, id: InodeId) {
    let unique = rig.fs_as(caller, FsOp::Open { id, mode: write() });
    let sent = rig.sent();
    let Request::Open { id: asked, flags } = sent.request() else { panic!("an open expected") };
    assert_eq!((asked, flags & !open::REGISTER), (id, open::WRITE | open::TRUNCATE));
    rig.reply(&sent, Reply::Failed { errno: Errno::EACCES });
    rig.fails(unique, Errno::EACCES);
}

fn is_released(rig: &mut Rig, id: InodeId) {
    rig.pass(LATER_US);
    let sent = rig.sent();
    assert_eq!(sent.request(), Request::Release { id });
    rig.reply(&sent, Reply::Done);
}

#[test]
fn the_second_half_opens_whatever_the_mode_and_truncates_nothing() {
    let mut rig = Rig::in_halves();
    let create = FsOp::Create { parent: InodeId::ROOT, name: name("new"), mode: 0o444, umask: 0, open: write() };
    let unique = rig.fs(create);
    rig.fails(unique, Errno::ENOSYS);
    let id = made(&mut rig);
    let unique = rig.fs(FsOp::Open { id, mode: write() });
    let sent = rig.sent();
    assert_eq!(sent.request(), Request::Open { id, flags: open::MADE });
    rig.reply(&sent, attr_reply(id, 0, data_ref(1, 0)));
    let Ok(FsReply::Opened(opened)) = rig.result(unique) else { panic!("a handle expected") };
    rig.pass(HALVES_US);
    rig.silent();
    let unique = rig.fs(FsOp::Release { handle: opened.handle, flock_owner: None });
    rig.result(unique).unwrap();
    is_released(&mut rig, id);
}

#[test]
fn a_name_that_exists_is_looked_up_again() {
    let mut rig = Rig::in_halves();
    let unique = rig.fs(mknod());
    let sent = rig.sent();
    rig.reply(&sent, Reply::Failed { errno: Errno::EEXIST });
    rig.fails(unique, Errno::ESTALE);
}

#[test]
fn an_open_after_a_lookup_or_of_another_thread_is_no_second_half() {
    let mut rig = Rig::in_halves();
    let id = made(&mut rig);
    asks_by_permission(&mut rig, Caller { pid: USER.pid + 1, ..USER }, id);
    let unique = rig.fs(FsOp::Lookup { parent: InodeId::ROOT, name: name("new") });
    let sent = rig.sent();
    rig.reply(&sent, entry(id));
    rig.result(unique).unwrap();
    is_released(&mut rig, id);
}

/// A thread number is used again, and another user's thread may have it by then.
#[test]
fn an_open_of_another_user_is_no_second_half() {
    let mut rig = Rig::in_halves();
    let id = made(&mut rig);
    asks_by_permission(&mut rig, Caller { uid: USER.uid + 1, ..USER }, id);
}

/// All threads of other pid namespaces have the same number: none.
#[test]
fn a_thread_without_a_number_has_no_second_half() {
    let mut rig = Rig::in_halves();
    let caller = Caller { pid: 0, ..USER };
    let id = made_by(&mut rig, caller);
    is_released(&mut rig, id);
    asks_by_permission(&mut rig, caller, id);
}

#[test]
fn what_mknod_has_made_is_closed_after_a_while() {
    let mut rig = Rig::in_halves();
    let id = made(&mut rig);
    rig.pass(HALVES_US);
    is_released(&mut rig, id);
}

#[test]
fn a_file_that_a_power_loss_took_is_made_again() {
    let mut rig = Rig::in_halves();
    let id = made(&mut rig);
    let unique = rig.fs(FsOp::Open { id, mode: write() });
    let sent = rig.sent();
    rig.reply(&sent, Reply::Failed { errno: Errno::ESTALE });
    rig.fails(unique, Errno::ESTALE);
    is_released(&mut rig, id);
}
