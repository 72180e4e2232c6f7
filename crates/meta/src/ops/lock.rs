//! File locks at the inode's home: set, test, cancel, drop. A waiting request is *queued*, later *granted*. After a
//! restart new locks on files of before are withheld for a grace (`super::lockgrace`): until its end a request is queued too that
//! would not wait for a holder, and a test waits.

use super::filelock::{Ask, Outcome, Waiting};
use super::{Req, Step, begin, named};
use crate::planted::{self, Planted};
use crate::state::keys;
use crate::{Core, Cx};
use onpath_kernel::Mode;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, SessionId};
use onpath_wire::limits::LOCKERS_ASKED_MAX;
use onpath_wire::reply::Reply;
use onpath_wire::request::{FileLock, Locker};

pub(crate) async fn set(cx: &Cx, req: &Req, id: InodeId, lock: FileLock, wait: bool, again: bool) -> Step {
    named::lock_inode(cx, id, Mode::Shared).await;
    cx.with(|core| {
        begin(core, req)?;
        if !core.state.inodes.contains(id) {
            return Err(Errno::ESTALE.into());
        }
        let mut granted = Vec::new();
        let ask = match (again, wait) {
            (true, _) => Ask::Again,
            (false, true) => Ask::Wait(req.seq),
            (false, false) => Ask::Now(req.seq),
        };
        let since = core.state.clock.stamp(core.now.wall_ns);
        let outcome = core.state.filelocks.set(id, req.session, lock, ask, since, &mut granted);
        tell(core, granted);
        match outcome {
            Outcome::Granted => Ok(Reply::Done),
            Outcome::Queued => Ok(Reply::Queued),
            Outcome::Conflict => Err(Errno::EAGAIN.into()),
            Outcome::TooMany => Err(Errno::ENOLCK.into()),
        }
    })
}

pub(crate) async fn test(cx: &Cx, req: &Req, id: InodeId, lock: FileLock) -> Step {
    cx.until(keys::LOCK_GRACE, |core| {
        let conflict = core.state.filelocks.test(id, req.session, &lock);
        let known = conflict.is_some() || !core.state.filelocks.withholds(id);
        known.then_some(Ok(Reply::LockIs { conflict }))
    })
    .await
}

pub(crate) fn cancel(cx: &Cx, req: &Req, id: InodeId, lock: FileLock) -> Step {
    cx.with(|core| {
        begin(core, req)?;
        let cancelled = core.state.filelocks.cancel(id, req.session, &lock);
        if let [seq] = cancelled[..] {
            // A late copy of the request must not wait once more. Of several, those whose caller still waits ask again.
            core.state.replies.remember(req.session, seq, RequestSeq(0), Reply::Failed { errno: Errno::EINTR }, false);
        }
        let holds = core.state.filelocks.holds(id, req.session, &lock);
        Ok(if holds && cancelled.is_empty() { Reply::Granted } else { Reply::Done })
    })
}

/// A session says that its waiting lock is a process's: it counts in searches for deadlocks.
pub(crate) fn confirm(cx: &Cx, req: &Req, id: InodeId, lock: FileLock) -> Step {
    cx.with(|core| {
        begin(core, req)?;
        core.state.filelocks.confirm(id, req.session, &lock);
        Ok(Reply::Done)
    })
}

/// For whom these wait here.
pub(crate) fn waits(cx: &Cx, of: &[Locker]) -> Step {
    if of.len() > LOCKERS_ASKED_MAX {
        return Err(Errno::EINVAL.into());
    }
    cx.with(|core| {
        let mut edges = Vec::new();
        of.iter().for_each(|&locker| core.state.filelocks.waits_of(locker, &mut edges));
        Ok(Reply::LockWaits { edges })
    })
}

pub(crate) fn drop_owner(cx: &Cx, req: &Req, id: InodeId, flock: bool, owner: u64) -> Step {
    cx.with(|core| {
        begin(core, req)?;
        let mut granted = Vec::new();
        let whose = |s: SessionId, l: &FileLock| s == req.session && l.owner == owner && l.flock == flock;
        core.state.filelocks.drop_all(Some(id), whose, &mut granted);
        tell(core, granted.into_iter().map(|(_, w)| w).collect());
        Ok(Reply::Done)
    })
}

/// A session is dead: its locks and waits are dropped.
pub(crate) fn session_dead(core: &mut Core, session: SessionId) {
    let mut granted = Vec::new();
    let all = !planted::is(Planted::LocksOutliveSession);
    core.state.filelocks.drop_all(None, |s, _| s == session && all, &mut granted);
    tell(core, granted.into_iter().map(|(_, w)| w).collect());
}

/// Answers those who have got what they waited for.
pub(super) fn tell(core: &mut Core, granted: Vec<Waiting>) {
    end_waits(core, granted, &Reply::Granted);
}

/// Answers those whose waiting is over.
pub(super) fn end_waits(core: &mut Core, waits: Vec<Waiting>, reply: &Reply) {
    for Waiting { session, seq, .. } in waits {
        // A late copy of the request must not take the lock, again or after it was refused.
        core.state.replies.remember(session, seq, RequestSeq(0), reply.clone(), false);
        let packet = core.state.reply_packet(seq, reply);
        core.send_after(NodeId::session(session), packet, Default::default(), onpath_kernel::Need::ByDestination);
    }
}
