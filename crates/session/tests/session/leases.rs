//! a session acts only as long as it has a lease.

use crate::rig::*;
use onpath_session::fs::{FsOp, FsReply};
use onpath_session::limits::BUSY_PAUSE_US;
use onpath_wire::errno::Errno;
use onpath_wire::header::UNTIL_NS;
use onpath_wire::inode::Kind;
use onpath_wire::limits::LEASE_SLACK_MS;
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;

fn mkdir() -> FsOp {
    FsOp::Make {
        parent: inode_at(1, 1),
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
