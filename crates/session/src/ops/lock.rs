//! File locks. The home decides; the session remembers what it holds, and keeps waiting locks in a table until the home
//! grants them under the sequence number of their request (design.md, "Sessions").
//!
//! Lock operations of one owner on one inode take turns, so that what is remembered follows the home's order. A waiting lock has no
//! turn and no operation. It counts as unanswered, so that asking for it again under the same number is within the
//! window; before it blocks the window, it gets a new number.

use crate::fs::{FsReply, FsResult, Handle};
use crate::limits::{DEADLOCK_LOOK_US, LOCK_ASK_AGAIN_US, RESTORE_BATCH, UNREACHABLE_US, WAITING_LOCKS_MAX};
use crate::locks::{LockOwner, WaitingLock};
use crate::op::{Op, answer, done};
use crate::ops::restore;
use crate::state::{Job, Phase, State, WaitKey, header, window_used};
use onpath_kernel::{Core, Need};
use onpath_wire::errno::Errno;
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{InodeId, NodeId, RecordSeq, RequestSeq};
use onpath_wire::limits::SESSION_WINDOW;
use onpath_wire::packet::Packet;
use onpath_wire::reply::Reply;
use onpath_wire::request::{FileLock, LockKind, Request};

/// F_SETLK, F_SETLKW, flock. Nothing: the lock waits and is answered later.
pub(crate) async fn set(op: &mut Op, unique: u64, handle: Handle, lock: FileLock, wait: bool) -> Option<FsResult> {
    let id = match op.with(|core| core.state.opens.get(handle).map(|open| open.id)) {
        Ok(id) => id,
        Err(errno) => return Some(Err(errno)),
    };
    let turn = WaitKey::LockTurn(LockOwner::of(id, &lock));
    let since_us = op.with(|core| core.now.mono_us);
    loop {
        if let Err(errno) = op.take_turn(turn).await {
            return Some(Err(errno));
        }
        let result = if lock.kind == LockKind::Unlock {
            Taken::Ended(unlock(op, id, lock).await)
        } else {
            take(op, unique, handle, id, lock, wait).await
        };
        op.end_turn(turn);
        match result {
            Taken::Ended(result) => return Some(result),
            Taken::Waits => return None,
            // Out of turn: the home may wait for what this owner is to take again.
            Taken::Busy => {
                if let Err(errno) = op.pause(since_us).await {
                    return Some(Err(errno));
                }
            }
        }
    }
}

/// How far an attempt at a lock has come.
enum Taken {
    Ended(FsResult),
    /// It waits, and is answered later.
    Waits,
    /// The home has no time for it; it may be asked for again a little later.
    Busy,
}

async fn unlock(op: &mut Op, id: InodeId, lock: FileLock) -> FsResult {
    // Forgotten first: a restart of the home must not bring it back.
    op.with(|core| core.state.held.apply(id, lock));
    let result = op.ask(Request::SetLock { id, lock, wait: false, again: false }).await.and_then(done);
    if result.is_err() {
        op.with(|core| core.start(Job::GiveBack { id, lock }));
    }
    result.map(|()| FsReply::Done)
}

async fn take(op: &mut Op, unique: u64, handle: Handle, id: InodeId, lock: FileLock, wait: bool) -> Taken {
    let room = op.with(|core| {
        if !lock.flock {
            core.state.opens.note_lock_owner(handle, lock.owner);
        }
        let room = core.state.held.has_room();
        if room {
            core.state.held.asks(unique, id, lock);
        }
        room
    });
    if !room {
        return Taken::Ended(Err(Errno::ENOLCK));
    }
    let taken = ask(op, unique, id, lock, wait).await;
    if !matches!(taken, Taken::Waits) {
        let refused = !matches!(taken, Taken::Ended(Ok(_)));
        op.with(|core| asked(core, unique, id, lock, refused));
    }
    taken
}

/// A call for a lock has ended. A home that started again meanwhile may know a weaker one than is held if it is refused.
fn asked(core: &mut Core<State>, unique: u64, id: InodeId, lock: FileLock, refused: bool) {
    if core.state.held.asked(unique) && refused {
        core.start(Job::GiveBack { id, lock });
    }
}

async fn ask(op: &mut Op, unique: u64, id: InodeId, lock: FileLock, wait: bool) -> Taken {
    match op.ask_once(Request::SetLock { id, lock, wait, again: false }).await {
        Ok(Reply::Done | Reply::Granted) => {
            op.with(|core| core.state.held.apply(id, lock));
            Taken::Ended(Ok(FsReply::Done))
        }
        Ok(Reply::Busy) => Taken::Busy,
        Ok(Reply::Queued) => op.with(|core| {
            let interrupted = core.state.running.get(op.slot).is_some_and(|r| r.interrupted);
            let waiting = WaitingLock {
                unique,
                caller: op.caller,
                id,
                lock,
                wait,
                cancelling: interrupted,
                answered: false,
                deadlocked: false,
                process: None,
                renewing: false,
            };
            match queued(core, op.answered, waiting) {
                Ok(()) => Taken::Waits,
                Err(errno) => Taken::Ended(Err(errno)),
            }
        }),
        Ok(_) => Taken::Ended(Err(Errno::EIO)),
        Err(errno) => {
            // Given up without an answer: the home may have granted or queued it.
            if matches!(errno, Errno::EINTR | Errno::EIO) {
                op.with(|core| core.start(Job::GiveBack { id, lock }));
            }
            Taken::Ended(Err(errno))
        }
    }
}

fn queued(core: &mut Core<State>, seq: RequestSeq, wait: WaitingLock) -> Result<(), Errno> {
    if core.state.waiting.len() >= WAITING_LOCKS_MAX {
        core.start(Job::GiveBack { id: wait.id, lock: wait.lock });
        return Err(Errno::ENOLCK);
    }
    if wait.cancelling {
        core.start(Job::CancelWait(wait.unique));
        core.start(Job::CancelTimeout(wait.unique));
    }
    if wait.wait && !wait.lock.flock {
        core.start(Job::SeekDeadlock { unique: wait.unique, after_us: DEADLOCK_LOOK_US });
    }
    core.state.waiting.insert(seq, wait);
    if !core.state.watching {
        core.state.watching = true;
        core.start(Job::WatchLocks);
    }
    Ok(())
}

/// F_GETLK.
pub(crate) async fn test(op: &mut Op, handle: Handle, lock: FileLock) -> FsResult {
    let id = op.with(|core| core.state.opens.get(handle).map(|open| open.id))?;
    match op.ask(Request::TestLock { id, lock }).await? {
        Reply::LockIs { conflict } => Ok(FsReply::LockIs(conflict)),
        _ => Err(Errno::EIO),
    }
}

/// Drops the locks of an owner, if it has any: a close. They are dropped even if the caller does not wait for it.
pub(crate) async fn drop_owner(op: &mut Op, of: LockOwner) -> Result<(), Errno> {
    if !op.with(|core| core.state.held.any(of)) {
        return Ok(());
    }
    let LockOwner { id, flock, owner } = of;
    let turn = WaitKey::LockTurn(of);
    let mut result = op.take_turn(turn).await;
    let in_turn = result.is_ok();
    let any = op.with(|core| core.state.held.drop_owner(of));
    if in_turn && any {
        result = op.ask(Request::DropLocks { id, flock, owner }).await.and_then(done);
    }
    if result.is_err() {
        let lock = FileLock { flock, kind: LockKind::Unlock, start: 0, end: u64::MAX, owner, pid: 0 };
        op.with(|core| core.start(Job::GiveBack { id, lock }));
    }
    if in_turn {
        op.end_turn(turn);
    }
    result
}

/// A message under the sequence number of a waiting lock.
pub(crate) fn wait_answered(core: &mut Core<State>, seq: RequestSeq, packet: &Packet) {
    match packet.body::<Reply>() {
        Ok(Reply::Granted | Reply::Done) => end_wait(core, seq, Ok(())),
        Ok(Reply::Failed { errno }) => end_wait(core, seq, Err(errno)),
        // Still queued.
        _ => {}
    }
}

fn end_wait(core: &mut Core<State>, seq: RequestSeq, result: Result<(), Errno>) {
    let Some(wait) = core.state.waiting.remove(&seq) else { return };
    asked(core, wait.unique, wait.id, wait.lock, result.is_err());
    if wait.answered {
        if result.is_ok() {
            core.start(Job::GiveBack { id: wait.id, lock: wait.lock });
        }
        return crate::state::wake_window(core);
    }
    if result.is_ok() {
        core.state.held.apply(wait.id, wait.lock);
    }
    // A late copy of the request is answered as one that a signal has ended, whatever it was given up for.
    let deadlock = |errno| if wait.deadlocked && errno == Errno::EINTR { Errno::EDEADLK } else { errno };
    answer(core, wait.unique, result.map(|()| FsReply::Done).map_err(deadlock));
}

pub(crate) fn seq_of(core: &Core<State>, unique: u64) -> Option<RequestSeq> {
    core.state.waiting.iter().find(|(_, wait)| wait.unique == unique).map(|(&seq, _)| seq)
}

/// Asks for the waiting locks of a shard again (its term is new, its stream was rebuilt).
pub(crate) fn resend_waits(core: &mut Core<State>, to: NodeId) {
    let at = |wait: &WaitingLock, state: &State| state.shard_at(wait.id.slot());
    let mine: Vec<_> =
        core.state.waiting.iter().filter(|(_, w)| at(w, &core.state) == to).map(|(&seq, _)| seq).collect();
    mine.into_iter().for_each(|seq| ask_again(core, seq));
}

/// Sends the request of a waiting lock again, under its number; not while it is given up.
fn ask_again(core: &mut Core<State>, seq: RequestSeq) {
    let Some(wait) = core.state.waiting.get(&seq).filter(|w| !w.cancelling && !w.renewing).cloned() else { return };
    let to = core.state.shard_at(wait.id.slot());
    let request = Request::SetLock { id: wait.id, lock: wait.lock, wait: wait.wait, again: false };
    let header = header(core, MessageKind::Request, to, wait.id.slot(), seq);
    let packet = Packet::new(&header, &core.state.own_body(request));
    core.send_after(to, packet, RecordSeq(0), Need::ByDestination);
}

/// Asks again for locks that have waited long: a grant may have been lost. Runs while any waits.
pub(crate) async fn watch(op: &Op) {
    loop {
        let at_us = op.with(|core| core.now.mono_us + LOCK_ASK_AGAIN_US);
        op.cx.sleep_until(at_us).await;
        let go_on = op.with(|core| {
            let all: Vec<_> = core.state.waiting.keys().copied().collect();
            core.state.watching = !all.is_empty();
            let waits: Vec<_> =
                core.state.waiting.values().filter(|w| w.wait && !w.lock.flock).map(|w| w.unique).collect();
            waits.into_iter().for_each(|unique| core.start(Job::SeekDeadlock { unique, after_us: 0 }));
            all.into_iter().for_each(|seq| ask_again(core, seq));
            core.state.watching
        });
        if !go_on {
            return;
        }
    }
}

/// Gives the oldest waiting lock a new number once it takes half of the window; not if the window is held by a call before it.
pub(crate) fn keep_window_open(core: &mut Core<State>) {
    if core.state.phase != Phase::Joined || window_used(core) <= SESSION_WINDOW / 2 {
        return;
    }
    let call = core.oldest_call();
    if let Some((&seq, wait)) = core.state.waiting.iter_mut().next()
        && call.is_none_or(|call| seq < call)
        && !wait.renewing
        && !wait.cancelling
    {
        wait.renewing = true;
        core.start(Job::RenewWait(seq));
    }
}

/// Asks for a waiting lock under a new number. The home finds the same lock of the same owner waiting, or held.
pub(crate) async fn renew_wait(mut op: Op, seq: RequestSeq) {
    let Some(wait) = op.with(|core| core.state.waiting.get(&seq).cloned()) else { return };
    op.caller = wait.caller;
    let (id, lock, wait) = (wait.id, wait.lock, wait.wait);
    let result = op.ask(Request::SetLock { id, lock, wait, again: false }).await;
    let new = op.answered;
    op.with(|core| match result {
        Ok(Reply::Queued) => match core.state.waiting.remove(&seq) {
            Some(wait) => {
                core.state.waiting.insert(new, WaitingLock { renewing: false, ..wait });
                crate::state::wake_window(core);
            }
            // Granted or given up under the old number meanwhile: what waits under the new one must not.
            None => core.start(Job::GiveBack { id, lock }),
        },
        Ok(Reply::Done | Reply::Granted) => match core.state.waiting.contains_key(&seq) {
            true => end_wait(core, seq, Ok(())),
            false => core.start(Job::GiveBack { id, lock }),
        },
        Ok(_) => end_wait(core, seq, Err(Errno::EIO)),
        Err(errno) => end_wait(core, seq, Err(errno)),
    });
}

/// The caller of a waiting lock got a signal, or the lock is part of a deadlock: the home decides whether the grant came first.
pub(crate) async fn cancel(mut op: Op, unique: u64, errno: Errno) {
    let find = |core: &mut Core<State>| seq_of(core, unique).map(|seq| core.state.waiting[&seq].clone());
    let Some(wait) = op.with(find) else { return };
    op.caller = wait.caller;
    let (id, lock) = (wait.id, wait.lock);
    let result = op.ask(Request::CancelLock { id, lock }).await;
    op.with(|core| {
        let Some(seq) = seq_of(core, unique) else { return };
        match result {
            Ok(Reply::Granted) => end_wait(core, seq, Ok(())),
            _ => end_wait(core, seq, Err(errno)),
        }
    });
}

/// Answers EINTR for a lock whose cancellation is not answered in time; a grant that comes later is given back.
pub(crate) async fn cancel_timeout(op: &Op, unique: u64) {
    let at_us = op.with(|core| core.now.mono_us + UNREACHABLE_US);
    op.cx.sleep_until(at_us).await;
    op.with(|core| {
        let Some(seq) = seq_of(core, unique) else { return };
        let wait = core.state.waiting.get_mut(&seq).expect("found above");
        wait.answered = true;
        answer(core, unique, Err(Errno::EINTR));
    });
}

/// Undoes what the home may have granted or queued for a caller who is gone, and keeps what is held besides: that must not be free for a
/// moment, in which others would get it.
pub(crate) async fn give_back(op: &mut Op, id: InodeId, lock: FileLock) {
    let owner = LockOwner::of(id, &lock);
    let turn = WaitKey::LockTurn(owner);
    // Only an abandoned operation fails to get its turn, and nobody abandons one of the session's own.
    if op.take_turn(turn).await.is_err() {
        return;
    }
    let _ = op.ask(Request::CancelLock { id, lock }).await;
    // In turn: what is held stays so.
    for lock in op.with(|core| core.state.held.not_held(owner, &lock)) {
        let _ = op.ask(Request::SetLock { id, lock, wait: false, again: false }).await;
    }
    take_again(op, owner).await;
    op.end_turn(turn);
}

/// Takes the locks that are remembered of an owner again; what somebody else has taken meanwhile is lost. In turn.
pub(crate) async fn take_again(op: &Op, owner: LockOwner) {
    let LockOwner { id, .. } = owner;
    let held = op.with(|core| core.state.held.claim(owner));
    if !held.is_empty() && !restore::shows(op, id).await {
        return;
    }
    for locks in held.chunks(RESTORE_BATCH) {
        let to = op.with(|core| core.state.shard_at(id.slot()));
        let mut next = locks.iter();
        let make = |core: &mut Core<State>, to, seq| {
            let lock = *next.next().expect("one call a lock");
            let request = Request::SetLock { id, lock, wait: false, again: true };
            let body = core.state.own_body(request);
            Packet::new(&header(core, MessageKind::Request, to, id.slot(), seq), &body)
        };
        // An operation of the session itself is never given up.
        let Ok(answers) = op.call_all(&vec![to; locks.len()], make).await else { return };
        for (answer, lock) in answers.into_iter().zip(locks) {
            let reply = answer.packet().and_then(|packet| packet.body::<Reply>().ok());
            if !matches!(reply, Some(Reply::Done | Reply::Granted)) {
                let lost = FileLock { kind: LockKind::Unlock, ..*lock };
                op.with(|core| {
                    core.state.held.apply(id, lost);
                    core.state.opens.lose(id);
                    core.state.lock_losses += 1;
                });
            }
        }
    }
}
