//! a session acts only as long as it has a lease. One that was declared dead goes on under another id.

use crate::rig::*;
use bytes::Bytes;
use onpath_kernel::Input;
use onpath_session::fs::{FsOp, FsReply, Handle};
use onpath_session::limits::BUSY_PAUSE_US;
use onpath_session::{SessionIn, SessionOut};
use onpath_wire::data::DataRequest;
use onpath_wire::errno::Errno;
use onpath_wire::header::{MessageKind, UNTIL_NS};
use onpath_wire::ids::{InodeId, NodeId, SessionNumber};
use onpath_wire::inode::Kind;
use onpath_wire::limits::LEASE_SLACK_MS;
use onpath_wire::reply::Reply;
use onpath_wire::request::{FileLock, LockKind, Request, open};

fn mkdir() -> FsOp {
    FsOp::Make {
        parent: directory_at(1, 1),
        name: name("d"),
        kind: Kind::Directory,
        mode: 0o755,
        umask: 0,
        rdev: 0,
        target: vec![],
    }
}

/// The last renewal that the session has sent, of several copies; everything else that it sent is lost.
fn renewal(rig: &mut Rig) -> Sent {
    std::iter::from_fn(|| rig.try_sent())
        .filter(|sent| sent.header.slot.0 == 0 && sent.request() == Request::Renew)
        .last()
        .expect("a renewal")
}

#[test]
fn each_request_says_until_when_it_counts() {
    let mut rig = Rig::new();
    let joined_ns = rig.now.wall_ns;
    rig.fs(mkdir());
    let sent = rig.sent();
    let end_ns = joined_ns + LEASE_MS * 1_000_000;
    assert!(sent.header.until_ns() <= end_ns && sent.header.until_ns() + 2 * UNTIL_NS > end_ns, "{:?}", sent.header);
    // The lease counts from the question, not from the answer. A copy that is sent later says what holds then.
    rig.pass(LEASE_MS * 1_000 / 3);
    let asked_ns = rig.now.wall_ns;
    let renew = renewal(&mut rig);
    rig.pass(1_000_000);
    rig.reply(&renew, Reply::Done);
    rig.pass(1_000_000);
    let sent_again = std::iter::from_fn(|| rig.try_sent());
    let copies = sent_again.filter(|copy| (copy.to, copy.header.seq) == (sent.to, sent.header.seq));
    let until_ns = copies.map(|copy| copy.header.until_ns()).max().expect("a copy");
    let end_ns = asked_ns + LEASE_MS * 1_000_000;
    assert!(until_ns > sent.header.until_ns() && until_ns <= end_ns, "{until_ns} {end_ns}");
}

#[test]
fn without_a_lease_nothing_is_sent_that_changes_something() {
    let mut rig = Rig::new();
    rig.pass((LEASE_MS - LEASE_SLACK_MS) * 1_000);
    rig.lose_sent();
    let unique = rig.fs(mkdir());
    rig.silent();
    // Whoever only looks goes on.
    let looks = rig.fs(FsOp::Access { id: inode_at(2, 1), mask: 4 });
    let access = rig.sent();
    rig.reply(&access, Reply::Done);
    assert!(matches!(rig.result(looks), Ok(FsReply::Done)));
    rig.pass(1_000_000);
    let renew = renewal(&mut rig);
    rig.reply(&renew, Reply::Done);
    // That was asked too long ago: it renews nothing, and is followed by another one at once.
    rig.pass(BUSY_PAUSE_US);
    let renew = renewal(&mut rig);
    rig.reply(&renew, Reply::Done);
    rig.pass(BUSY_PAUSE_US);
    let made = std::iter::from_fn(|| rig.try_sent()).find(|sent| sent.header.slot.0 != 0).expect("the request");
    assert!(matches!(made.request(), Request::Create { .. }));
    rig.reply(&made, entry(inode_at(1, 7)));
    assert!(matches!(rig.result(unique), Ok(FsReply::Entry { .. })));
}

/// With `soft` a request that waits for the lease is given up.
#[test]
fn a_soft_mount_gives_up_waiting_for_its_lease() {
    let mut rig = Rig::joined(true);
    rig.pass((LEASE_MS - LEASE_SLACK_MS) * 1_000);
    let unique = rig.fs(mkdir());
    rig.pass(onpath_session::limits::SOFT_TIMEOUT_US + BUSY_PAUSE_US);
    let answered = std::iter::from_fn(|| rig.try_result()).find(|(of, _)| *of == unique).expect("an answer");
    assert_eq!(answered.1.unwrap_err(), Errno::EIO);
}

/// The session that it becomes.
/// The first of those with this id after many that had it.
const ANEW: SessionNumber = SessionNumber(9 * ((1 << 24) - 1) + 43);

/// The coordinator does not know the session any more. Its host has been asked for another id.
fn declared_dead(rig: &mut Rig) {
    rig.pass(LEASE_MS * 1_000 / 3);
    let renew = renewal(rig);
    rig.reply(&renew, Reply::Failed { errno: Errno::ESTALE });
    assert!(matches!(rig.own(), SessionOut::Forget { .. }));
    assert!(matches!(rig.own(), SessionOut::Expired));
    rig.lose_sent();
}

/// It has joined under the other id; `gone` of what was open is not there any more.
fn joins_anew(rig: &mut Rig, gone: &[InodeId]) {
    rig.input(Input::Own(SessionIn::Anew { session: ANEW }));
    let attach = std::iter::from_fn(|| rig.try_sent())
        .find(|sent| sent.header.kind() == MessageKind::Request && matches!(sent.request(), Request::Attach { .. }))
        .expect("it joins");
    assert_eq!(
        (attach.header.source, attach.request()),
        (NodeId::session(ANEW.id()), Request::Attach { again: false })
    );
    rig.reply(&attach, Reply::Attached { session: ANEW.id(), lease_ms: LEASE_MS });
    while let Some(sent) = rig.try_sent() {
        const AGAIN: u32 = open::REGISTER | open::MAP;
        let Request::Open { id, flags: AGAIN } = sent.request() else { continue };
        let reply = match gone.contains(&id) {
            true => Reply::Failed { errno: Errno::ESTALE },
            false => attr_reply(id, 0, data_ref(1, 0)),
        };
        rig.reply(&sent, reply);
        if let Some(SessionOut::Attached) = rig.try_own() {
            return;
        }
    }
    panic!("it did not join");
}

fn write(handle: Handle) -> FsOp {
    FsOp::Write {
        handle,
        offset: 0,
        data: Bytes::from_static(b"bytes"),
        append: false,
        kill_suidgid: false,
        page: false,
    }
}

#[test]
fn what_may_be_asked_twice_is_asked_again_under_the_other_id() {
    let mut rig = Rig::new();
    let file = inode_at(1, 1);
    let handle = rig.open(file, READ_WRITE, data_ref(1, 0));
    let looks = rig.fs(FsOp::GetAttr { id: inode_at(2, 1), handle: None });
    let makes = rig.fs(mkdir());
    rig.fs(write(handle));
    declared_dead(&mut rig);
    rig.fails(makes, Errno::EIO);
    let waits = rig.fs(FsOp::Access { id: inode_at(2, 1), mask: 4 });
    rig.silent();
    joins_anew(&mut rig, &[]);
    let mut seen = (false, false, false);
    while let Some(sent) = rig.try_sent() {
        assert_eq!(sent.header.source, NodeId::session(ANEW.id()));
        if sent.header.kind() == MessageKind::Data {
            assert!(
                matches!(sent.data(), DataRequest::Write { append: false, .. }) && sent.packet.bulk[..] == b"bytes"[..]
            );
            seen.0 = true;
            continue;
        }
        match sent.request() {
            Request::GetAttr { id } if !seen.1 => {
                rig.reply(&sent, attr_reply(id, 3, data_ref(0, 0)));
                assert!(matches!(rig.result(looks), Ok(FsReply::Attr { attr, .. }) if attr.size == 3));
                seen.1 = true;
            }
            Request::Access { .. } if !seen.2 => {
                rig.reply(&sent, Reply::Done);
                assert!(matches!(rig.result(waits), Ok(FsReply::Done)));
                seen.2 = true;
            }
            _ => {}
        }
    }
    assert_eq!(seen, (true, true, true), "written, looked at, and what came meanwhile");
}

#[test]
fn files_whose_locks_are_lost_or_that_are_gone_say_so() {
    let mut rig = Rig::new();
    let (locked, gone, kept) = (inode_at(1, 1), inode_at(2, 1), inode_at(3, 1));
    let handles = [locked, gone, kept].map(|id| rig.open(id, READ_WRITE, data_ref(1, 0)));
    let lock = FileLock { flock: true, kind: LockKind::Write, start: 0, end: u64::MAX, owner: 9, pid: 7 };
    let takes = rig.fs(FsOp::SetLock { handle: handles[0], lock, wait: false });
    let sent = rig.sent();
    rig.reply(&sent, Reply::Granted);
    assert!(matches!(rig.result(takes), Ok(FsReply::Done)));
    let under_way = rig.fs(write(handles[0]));
    declared_dead(&mut rig);
    rig.fails(under_way, Errno::EIO);
    joins_anew(&mut rig, &[gone]);
    rig.lose_sent();
    for (handle, lost) in handles.into_iter().zip([true, true, false]) {
        let unique = rig.fs(write(handle));
        if lost {
            rig.fails(unique, Errno::EIO);
        } else {
            // Nobody knows by now what others have changed in memory.
            assert_eq!(rig.sent().request(), Request::WriteBack { id: kept, changed_at: None });
        }
        let closes = rig.fs(FsOp::Release { handle, flock_owner: Some(9) });
        assert!(matches!(rig.result(closes), Ok(FsReply::Done)), "a close is a close");
    }
    // Who opens it anew has lost nothing.
    let again = rig.open(locked, READ_WRITE, data_ref(1, 0));
    rig.fs(write(again));
    assert_eq!(rig.sent().request(), Request::WriteBack { id: locked, changed_at: None });
}

/// Two questions for the lease are under way when it comes back: that one of them is over ends nothing.
#[test]
fn what_it_asked_under_its_former_id_is_over() {
    let mut rig = Rig::new();
    rig.terms[0] = onpath_wire::ids::Term(60);
    rig.fs(FsOp::GetAttr { id: inode_at(0, 1), handle: None });
    rig.pass(LEASE_MS * 1_000 / 3);
    let renew = renewal(&mut rig);
    rig.new_term(&renew); // it joins again, beside the renewal
    rig.lose_sent();
    rig.input(Input::Own(SessionIn::Anew { session: ANEW }));
    let attach = rig.find(&Request::Attach { again: false });
    rig.reply(&attach, Reply::Attached { session: ANEW.id(), lease_ms: LEASE_MS });
    rig.reply(&renew, Reply::Failed { errno: Errno::ESTALE });
    rig.pass(LEASE_MS * 1_000 / 3);
    let renew = renewal(&mut rig);
    assert_eq!(renew.header.source, NodeId::session(ANEW.id()));
    rig.reply(&renew, Reply::Done);
    assert!(std::iter::from_fn(|| rig.try_own()).all(|own| !matches!(own, SessionOut::Expired | SessionOut::Lost(_))));
}
