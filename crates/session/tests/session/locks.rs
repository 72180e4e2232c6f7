//! File locks: waiting, interrupts and their races, closes, restarts.

use crate::rig::*;
use onpath_session::fs::{FsOp, FsReply, Handle};
use onpath_session::limits::{LATER_US, LOCK_ASK_AGAIN_US};
use onpath_wire::errno::Errno;
use onpath_wire::ids::*;
use onpath_wire::limits::SESSION_WINDOW;
use onpath_wire::reply::Reply;
use onpath_wire::request::{FileLock, LockKind, Request};

fn lock(kind: LockKind, owner: u64) -> FileLock {
    FileLock { flock: false, kind, start: 0, end: 99, owner, pid: 7 }
}

/// A file with a write lock that waits.
fn waiting(rig: &mut Rig) -> (InodeId, Handle, u64, Sent) {
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
    let unique = rig.fs(FsOp::SetLock { handle, lock: lock(LockKind::Write, 1), wait: true });
    let sent = rig.sent();
    rig.reply(&sent, Reply::Queued);
    rig.silent();
    (id, handle, unique, sent)
}

/// A file with a lock held.
fn held(rig: &mut Rig, lock: FileLock) -> (InodeId, Handle) {
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
    let unique = rig.fs(FsOp::SetLock { handle, lock, wait: false });
    let sent = rig.sent();
    rig.reply(&sent, Reply::Done);
    rig.result(unique).unwrap();
    (id, handle)
}

#[test]
fn a_waiting_lock_is_answered_when_it_is_granted() {
    let mut rig = Rig::new();
    let (_, _, unique, sent) = waiting(&mut rig);
    rig.reply(&sent, Reply::Granted);
    assert!(matches!(rig.result(unique), Ok(FsReply::Done)));
    rig.reply(&sent, Reply::Granted);
    rig.silent();
}

#[test]
fn a_grant_may_overtake_the_news_that_the_lock_waits() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
    let unique = rig.fs(FsOp::SetLock { handle, lock: lock(LockKind::Write, 1), wait: true });
    let sent = rig.sent();
    rig.reply(&sent, Reply::Granted);
    rig.result(unique).unwrap();
    rig.reply(&sent, Reply::Queued);
    rig.silent();
}

#[test]
fn a_lost_grant_is_asked_for_again_under_the_same_number() {
    let mut rig = Rig::new();
    let (_, _, unique, sent) = waiting(&mut rig);
    rig.pass(2_100_000);
    let again = rig.find(&sent.request());
    assert_eq!((again.header.seq, again.request()), (sent.header.seq, sent.request()));
    assert_eq!(again.header.oldest(), sent.header.seq, "a waiting lock counts as unanswered");
    rig.reply(&again, Reply::Queued);
    rig.silent();
    rig.pass(2_100_000);
    let again = rig.find(&sent.request());
    rig.reply(&again, Reply::Granted);
    rig.result(unique).unwrap();
}

#[test]
fn a_waiting_lock_does_not_block_the_window() {
    let mut rig = Rig::new();
    let (_, _, unique, first) = waiting(&mut rig);
    let id = inode_at(2, 2);
    let mut newest = first.header.seq;
    for _ in 0..2 * SESSION_WINDOW {
        let getattr = rig.fs(FsOp::GetAttr { id, handle: None });
        let sent = rig.sent();
        assert!(sent.header.seq.0 - sent.header.oldest().0 < SESSION_WINDOW);
        rig.reply(&sent, attr_reply(id, 0, data_ref(0, 0)));
        rig.result(getattr).unwrap();
        if let Some(renewed) = rig.try_sent() {
            assert_eq!(renewed.request(), first.request());
            assert!(renewed.header.seq > newest);
            newest = renewed.header.seq;
            rig.reply(&renewed, Reply::Queued);
        }
    }
    assert!(newest > first.header.seq);
    rig.reply_from(first.to, newest, Reply::Granted);
    rig.result(unique).unwrap();
}

/// Asks for attributes until a waiting lock gets a new number.
fn renewed(rig: &mut Rig, lock: &Request) -> Sent {
    let id = inode_at(2, 2);
    for _ in 0..2 * SESSION_WINDOW {
        let getattr = rig.fs(FsOp::GetAttr { id, handle: None });
        let sent = rig.sent();
        rig.reply(&sent, attr_reply(id, 0, data_ref(0, 0)));
        rig.result(getattr).unwrap();
        if let Some(renewed) = rig.try_sent() {
            assert_eq!(renewed.request(), *lock);
            return renewed;
        }
    }
    panic!("it has the same number all the time");
}

#[test]
fn a_lock_that_was_granted_while_it_got_a_new_number_is_never_free() {
    let mut rig = Rig::new();
    let (id, _, unique, first) = waiting(&mut rig);
    let again = renewed(&mut rig, &first.request());
    rig.reply_from(first.to, first.header.seq, Reply::Granted);
    rig.result(unique).unwrap();
    // The home has found it held, by the very same owner.
    rig.reply(&again, Reply::Done);
    let cancel = rig.sent();
    assert_eq!(cancel.request(), Request::CancelLock { id, lock: lock(LockKind::Write, 1) });
    rig.reply(&cancel, Reply::Granted);
    let claim = rig.sent();
    let claimed = Request::SetLock { id, lock: lock(LockKind::Write, 1), wait: false, again: true };
    assert_eq!(claim.request(), claimed, "nothing is unlocked");
    rig.reply(&claim, Reply::Done);
    rig.silent();
}

#[test]
fn a_waiting_lock_keeps_its_number_if_something_else_holds_the_window() {
    let mut rig = Rig::new();
    let id = inode_at(2, 2);
    rig.fs(FsOp::GetAttr { id, handle: None });
    let unanswered = rig.sent();
    let (_, _, _, first) = waiting(&mut rig);
    assert!(unanswered.header.seq < first.header.seq);
    for _ in 0..SESSION_WINDOW * 3 / 4 {
        let getattr = rig.fs(FsOp::GetAttr { id, handle: None });
        let sent = rig.sent();
        rig.reply(&sent, attr_reply(id, 0, data_ref(0, 0)));
        rig.result(getattr).unwrap();
        rig.silent();
    }
}

#[test]
fn the_home_decides_between_interrupt_and_grant() {
    // The home gives up waiting.
    let mut rig = Rig::new();
    let (id, _, unique, sent) = waiting(&mut rig);
    rig.interrupt(unique);
    rig.interrupt(unique);
    let cancel = rig.sent();
    assert_eq!(cancel.request(), Request::CancelLock { id, lock: lock(LockKind::Write, 1) });
    rig.silent();
    rig.reply(&cancel, Reply::Done);
    rig.fails(unique, Errno::EINTR);
    rig.reply(&sent, Reply::Granted);
    rig.silent();
    // The grant came first, and its message is late or lost.
    let mut rig = Rig::new();
    let (_, _, unique, sent) = waiting(&mut rig);
    rig.interrupt(unique);
    let cancel = rig.sent();
    rig.reply(&cancel, Reply::Granted);
    rig.result(unique).unwrap();
    rig.reply(&sent, Reply::Granted);
    rig.silent();
    // The grant's message comes while the interrupt is under way.
    let mut rig = Rig::new();
    let (_, _, unique, sent) = waiting(&mut rig);
    rig.interrupt(unique);
    let cancel = rig.sent();
    rig.reply(&sent, Reply::Granted);
    rig.result(unique).unwrap();
    rig.reply(&cancel, Reply::Granted);
    rig.silent();
}

#[test]
fn an_interrupt_before_the_lock_waits_is_not_forgotten() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
    let unique = rig.fs(FsOp::SetLock { handle, lock: lock(LockKind::Write, 1), wait: true });
    let sent = rig.sent();
    rig.interrupt(unique);
    rig.silent();
    rig.reply(&sent, Reply::Queued);
    assert!(matches!(rig.sent().request(), Request::CancelLock { .. }));
}

#[test]
fn an_interrupt_of_a_lock_at_a_dead_home_is_answered_within_a_second() {
    let mut rig = Rig::new();
    let (id, _, unique, sent) = waiting(&mut rig);
    rig.interrupt(unique);
    let cancel = rig.sent();
    rig.pass(1_000_100);
    rig.fails(unique, Errno::EINTR);
    rig.lose_sent();
    // The home is back, and had granted it: the lock is given back.
    rig.reply(&cancel, Reply::Granted);
    let cancel = rig.sent();
    assert_eq!(cancel.request(), Request::CancelLock { id, lock: lock(LockKind::Write, 1) });
    rig.reply(&cancel, Reply::Done);
    let unlock = rig.sent();
    assert_eq!(unlock.request(), Request::SetLock { id, lock: lock(LockKind::Unlock, 1), wait: false, again: false });
    rig.reply(&unlock, Reply::Done);
    rig.reply(&sent, Reply::Granted);
    rig.silent();
}

#[test]
fn lock_operations_on_one_file_take_turns() {
    let mut rig = Rig::new();
    let (_, handle) = held(&mut rig, lock(LockKind::Write, 1));
    let unlock = rig.fs(FsOp::SetLock { handle, lock: lock(LockKind::Unlock, 1), wait: false });
    let again = rig.fs(FsOp::SetLock { handle, lock: lock(LockKind::Read, 1), wait: false });
    let sent = rig.sent();
    rig.silent();
    rig.reply(&sent, Reply::Done);
    rig.result(unlock).unwrap();
    let sent = rig.sent();
    rig.reply(&sent, Reply::Failed { errno: Errno::EAGAIN });
    rig.fails(again, Errno::EAGAIN);
}

#[test]
fn a_close_drops_locks_only_if_there_are_any() {
    let mut rig = Rig::new();
    let (id, handle) = held(&mut rig, lock(LockKind::Write, 1));
    let unique = rig.fs(FsOp::Flush { handle, lock_owner: 2 });
    rig.result(unique).unwrap();
    rig.silent();
    let unique = rig.fs(FsOp::Flush { handle, lock_owner: 1 });
    let drop = rig.sent();
    assert_eq!(drop.request(), Request::DropLocks { id, flock: false, owner: 1 });
    rig.reply(&drop, Reply::Done);
    rig.result(unique).unwrap();
    let unique = rig.fs(FsOp::Flush { handle, lock_owner: 1 });
    rig.result(unique).unwrap();
    rig.silent();
}

#[test]
fn the_last_close_drops_what_no_flush_has_told_of() {
    let mut rig = Rig::new();
    let (id, handle) = held(&mut rig, lock(LockKind::Write, 1));
    let flock = FileLock { flock: true, owner: 9, ..lock(LockKind::Read, 9) };
    let unique = rig.fs(FsOp::SetLock { handle, lock: flock, wait: false });
    let sent = rig.sent();
    rig.reply(&sent, Reply::Done);
    rig.result(unique).unwrap();
    let unique = rig.fs(FsOp::Release { handle, flock_owner: Some(9) });
    for (flock, owner) in [(false, 1), (true, 9)] {
        let drop = rig.sent();
        assert_eq!(drop.request(), Request::DropLocks { id, flock, owner });
        rig.reply(&drop, Reply::Done);
    }
    rig.result(unique).unwrap();
    rig.pass(LATER_US);
    assert_eq!(rig.sent().request(), Request::Release { id });
}

#[test]
fn after_a_restart_of_the_home_locks_are_taken_and_waited_for_again() {
    let mut rig = Rig::new();
    let (id, handle) = held(&mut rig, lock(LockKind::Read, 1));
    let unique = rig.fs(FsOp::SetLock { handle, lock: lock(LockKind::Write, 2), wait: true });
    let wait = rig.sent();
    rig.reply(&wait, Reply::Queued);
    rig.fs(FsOp::GetAttr { id, handle: None });
    let getattr = rig.sent();
    rig.terms[1] = Term(50);
    rig.new_term(&getattr);
    let sent: Vec<_> = std::iter::from_fn(|| rig.try_sent()).collect();
    assert!(sent.iter().all(|s| s.header.term == Term(50)));
    let requests: Vec<_> = sent.iter().map(Sent::request).collect();
    assert!(matches!(requests[0], Request::Open { .. }));
    let retake = Request::SetLock { id, lock: lock(LockKind::Read, 1), wait: false, again: true };
    let at = |wanted: &Request| requests.iter().position(|r| r == wanted).expect("should be asked for");
    assert!(at(&retake) < at(&wait.request()), "what waits comes after what it waits for");
    assert_eq!(sent[at(&wait.request())].header.seq, wait.header.seq);
    // Somebody else was quicker: the lock is gone, and a close has nothing to drop.
    rig.reply(&sent[at(&retake)], Reply::Failed { errno: Errno::EAGAIN });
    rig.reply(&sent[at(&wait.request())], Reply::Granted);
    rig.result(unique).unwrap();
    let unique = rig.fs(FsOp::Flush { handle, lock_owner: 1 });
    rig.result(unique).unwrap();
}

#[test]
fn a_request_says_whether_everything_is_taken_again() {
    let taken = |sent: &Sent| sent.header.of_request().expect("a request").taken;
    let mut rig = Rig::new();
    let (id, handle) = held(&mut rig, lock(LockKind::Read, 1));
    let unique = rig.fs(FsOp::SetLock { handle, lock: lock(LockKind::Write, 1), wait: false });
    let upgrade = rig.sent();
    let elsewhere = rig.fs(FsOp::GetAttr { id: inode_at(2, 2), handle: None });
    let other = rig.sent();
    assert!(taken(&upgrade) && taken(&other), "nothing has restarted");
    rig.terms[1] = Term(50);
    rig.new_term(&upgrade);
    // The upgrade has the owner's turn, so the lock of before waits until the upgrade is queued.
    let sent: Vec<_> = std::iter::from_fn(|| rig.try_sent()).collect();
    let again = sent.iter().find(|s| s.header.seq == upgrade.header.seq).expect("sent again");
    assert!(!sent.iter().any(taken), "a lock of before is not taken yet");
    let reopen = sent.iter().find(|s| matches!(s.request(), Request::Open { .. })).expect("opened again");
    rig.reply(again, Reply::Queued);
    let retake = rig.sent();
    assert_eq!(retake.request(), Request::SetLock { id, lock: lock(LockKind::Read, 1), wait: false, again: true });
    assert!(!taken(&retake));
    rig.reply(&retake, Reply::Done);
    rig.silent();
    rig.reply(reopen, attr_reply(id, 0, data_ref(5, 0)));
    let news = rig.sent();
    assert!(news.to == retake.to && taken(&news), "the shard hears of it at once");
    rig.silent();
    rig.reply(again, Reply::Granted);
    rig.result(unique).unwrap();
    rig.reply(&other, attr_reply(inode_at(2, 2), 0, data_ref(0, 0)));
    rig.result(elsewhere).unwrap();
}

/// After a restart the home queues whoever asks, until it knows who held what; asking again says whether to wait then.
#[test]
fn whoever_would_not_wait_for_a_holder_waits_for_the_home_to_know_of_one() {
    for (reply, wanted) in
        [(Reply::Granted, None), (Reply::Failed { errno: Errno::EAGAIN }, Some(Errno::EAGAIN)), (Reply::Done, None)]
    {
        let mut rig = Rig::new();
        let id = inode_at(1, 1);
        let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
        let unique = rig.fs(FsOp::SetLock { handle, lock: lock(LockKind::Write, 1), wait: false });
        let sent = rig.sent();
        rig.reply(&sent, Reply::Queued);
        rig.silent();
        rig.pass(LOCK_ASK_AGAIN_US);
        let again = rig.find(&sent.request());
        assert_eq!(again.header.seq, sent.header.seq);
        rig.reply(&again, reply);
        match wanted {
            Some(errno) => rig.fails(unique, errno),
            None => assert!(matches!(rig.result(unique), Ok(FsReply::Done))),
        }
    }
}

#[test]
fn a_signal_ends_the_waiting_for_a_home_that_does_not_know_yet() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
    let unique = rig.fs(FsOp::SetLock { handle, lock: lock(LockKind::Write, 1), wait: false });
    let sent = rig.sent();
    rig.reply(&sent, Reply::Queued);
    rig.interrupt(unique);
    let cancel = rig.find(&Request::CancelLock { id, lock: lock(LockKind::Write, 1) });
    rig.reply(&cancel, Reply::Done);
    rig.fails(unique, Errno::EINTR);
    rig.silent();
}

#[test]
fn a_signal_ends_the_waiting_for_a_busy_home() {
    let mut rig = Rig::new();
    let id = inode_at(1, 1);
    let handle = rig.open(id, READ_WRITE, data_ref(5, 0));
    let request = Request::SetLock { id, lock: lock(LockKind::Write, 1), wait: false, again: false };
    let unique = rig.fs(FsOp::SetLock { handle, lock: lock(LockKind::Write, 1), wait: false });
    rig.interrupt(unique);
    for _ in 0..100 {
        let sent = rig.find(&request);
        rig.reply(&sent, Reply::Busy);
        rig.pass(20_100);
        if let Some((of, result)) = rig.try_result() {
            assert_eq!((of, result.unwrap_err()), (unique, Errno::EINTR));
            return;
        }
    }
    panic!("nobody ended the waiting");
}

#[test]
fn an_unlock_is_not_undone_by_a_restart() {
    let mut rig = Rig::new();
    let (_, handle) = held(&mut rig, lock(LockKind::Write, 1));
    rig.fs(FsOp::SetLock { handle, lock: lock(LockKind::Unlock, 1), wait: false });
    let unlock = rig.sent();
    rig.terms[1] = Term(50);
    rig.new_term(&unlock);
    let sent: Vec<_> = std::iter::from_fn(|| rig.try_sent()).collect();
    assert!(!sent.iter().any(|s| matches!(s.request(), Request::SetLock { lock, .. } if lock.kind == LockKind::Write)));
    assert!(sent.iter().any(|s| s.header.seq == unlock.header.seq));
}

#[test]
fn a_close_whose_caller_is_killed_drops_its_locks_when_the_home_is_back() {
    let mut rig = Rig::new();
    let (id, handle) = held(&mut rig, lock(LockKind::Write, 1));
    let unique = rig.fs(FsOp::Flush { handle, lock_owner: 1 });
    rig.interrupt(unique);
    rig.pass(1_000_100);
    rig.fails(unique, Errno::EINTR);
    let all = FileLock { kind: LockKind::Unlock, start: 0, end: u64::MAX, pid: 0, ..lock(LockKind::Unlock, 1) };
    let cancel = rig.find(&Request::CancelLock { id, lock: all });
    rig.reply(&cancel, Reply::Done);
    let unlock = rig.find(&Request::SetLock { id, lock: all, wait: false, again: false });
    assert!(unlock.header.seq > cancel.header.seq);
    rig.reply(&unlock, Reply::Done);
    rig.silent();
}
