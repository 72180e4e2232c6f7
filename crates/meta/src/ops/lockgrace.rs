//! The grace of file locks after a restart of their home (design.md, "Sessions"): the table of locks is gone, so new locks on files of
//! before wait until whoever may have held one has taken it again.
//!
//! The coordinator module says which sessions live. The grace ends when each of them has said, by a flag of its requests,
//! that it has taken its locks and opens again, or is dead; that of opens ([`opens::end_grace`]) is over then, too. At the latest it
//! ends after [`LOCK_GRACE_MS`]. Who is not among those that live was declared dead before the restart and may not know it yet: what it
//! opens and locks again is nobody's, and nobody would give it back. Locks: none.

use super::{lock, opens};
use crate::planted::{self, Planted};
use crate::state::keys;
use crate::{Core, Cx};
use onpath_kernel::Answer;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, SessionNumber, ShardId};
use onpath_wire::limits::LOCK_GRACE_MS;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;
use std::collections::BTreeSet;

/// Who may come back after a restart.
#[derive(Debug, Default)]
pub(crate) struct Returning {
    /// Sessions that lived when this term began, once that is known.
    lived: Option<BTreeSet<SessionNumber>>,
    /// Those that came back before.
    early: BTreeSet<SessionNumber>,
}

impl Returning {
    /// A session takes again what it had in a former term; false if it was declared dead.
    pub(crate) fn may(&mut self, session: SessionNumber) -> bool {
        match &self.lived {
            Some(lived) => lived.contains(&session),
            None => {
                self.early.insert(session);
                true
            }
        }
    }

    /// These sessions live; who has come back and is dead.
    fn know(&mut self, lived: &BTreeSet<SessionNumber>) -> Vec<SessionNumber> {
        self.lived = Some(lived.clone());
        std::mem::take(&mut self.early).difference(lived).copied().collect()
    }
}

/// How far the grace has come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Grace {
    /// There is none.
    #[default]
    Over,
    /// The sessions that live are not known yet; these are done already.
    Asking(BTreeSet<SessionNumber>),
    /// These sessions may still take locks again.
    Missing(BTreeSet<SessionNumber>),
}

impl Grace {
    /// A session has its locks again, or is dead; true if that ends the grace.
    fn heard(&mut self, session: SessionNumber) -> bool {
        match self {
            Grace::Over => false,
            Grace::Asking(done) => {
                done.insert(session);
                false
            }
            Grace::Missing(missing) => {
                missing.remove(&session);
                missing.is_empty()
            }
        }
    }

    /// These sessions live; true if that ends the grace.
    fn expect(&mut self, mut sessions: BTreeSet<SessionNumber>) -> bool {
        let Grace::Asking(done) = self else { return false };
        sessions.retain(|session| !done.contains(session));
        let none = sessions.is_empty();
        *self = Grace::Missing(sessions);
        none
    }
}

/// Withholds new locks until the grace is over.
pub(crate) async fn run(cx: &Cx) {
    let (coordinator, me, end_us, needed) = cx.with(|core| {
        let state = &mut core.state;
        // Without files nobody can hold anything.
        let root = u64::from(state.is_home(InodeId::ROOT));
        let needed = state.inodes.len() > root && !planted::is(Planted::LocksWithoutGrace);
        if needed {
            state.lock_grace = Grace::Asking(BTreeSet::new());
            state.filelocks.withhold(state.births.first());
        }
        (state.config.map.coordinator(), state.me(), core.now.mono_us + LOCK_GRACE_MS * 1_000, needed)
    });
    if !needed {
        return;
    }
    let sessions = if coordinator == me {
        Some(cx.with(|core| core.state.coordinator.expected().collect()))
    } else {
        let make = |core: &mut Core, _, seq| core.state.peer_packet(seq, &Peer::SessionsAsk);
        match cx.call_all(&[NodeId::shard(coordinator)], end_us, make).await.pop() {
            Some(Answer::Packet(packet)) => match packet.body::<Peer>() {
                Ok(Peer::SessionsAre { sessions }) => Some(sessions.into_iter().collect()),
                _ => None,
            },
            _ => None,
        }
    };
    let sessions: Option<BTreeSet<SessionNumber>> = sessions;
    let over = sessions.is_some_and(|sessions| cx.with(|core| begin_returning(core, sessions)));
    if over {
        return cx.with(all_are_back);
    }
    cx.sleep_until(end_us).await;
    cx.with(end);
}

/// It is known which sessions live; true if the grace is over.
fn begin_returning(core: &mut Core, sessions: BTreeSet<SessionNumber>) -> bool {
    let dead = if planted::is(Planted::DeadReturn) { vec![] } else { core.state.returning.know(&sessions) };
    dead.into_iter().for_each(|session| opens::bury(core, session));
    core.state.lock_grace.expect(sessions)
}

/// A session has its locks and opens again, or is dead.
pub(crate) fn heard(core: &mut Core, session: SessionNumber) {
    if core.state.lock_grace.heard(session) {
        all_are_back(core);
    }
}

fn all_are_back(core: &mut Core) {
    end(core);
    opens::end_grace(core);
}

fn end(core: &mut Core) {
    if std::mem::take(&mut core.state.lock_grace) != Grace::Over {
        let (mut granted, mut refused) = (Vec::new(), Vec::new());
        core.state.filelocks.give(&mut granted, &mut refused);
        lock::tell(core, granted);
        lock::end_waits(core, refused, &Reply::Failed { errno: Errno::EAGAIN });
        core.wake(keys::LOCK_GRACE);
    }
}

/// A restarted shard asks which sessions live.
pub(crate) fn asked(cx: &Cx, from: ShardId, seq: RequestSeq) {
    cx.with(|core| {
        let sessions = core.state.coordinator.expected().collect();
        let answer = Peer::SessionsAre { sessions };
        crate::state::packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &answer);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(numbers: &[u64]) -> BTreeSet<SessionNumber> {
        numbers.iter().copied().map(SessionNumber).collect()
    }

    #[test]
    fn the_grace_ends_with_the_last_session_of_before() {
        let mut grace = Grace::Asking(BTreeSet::new());
        assert!(!grace.heard(SessionNumber(3)), "others may live");
        assert!(!grace.expect(sessions(&[1, 2, 3])));
        assert_eq!(grace, Grace::Missing(sessions(&[1, 2])));
        assert!(!grace.heard(SessionNumber(9)));
        assert!(!grace.heard(SessionNumber(1)));
        assert!(grace.heard(SessionNumber(2)));
        let mut grace = Grace::Asking(sessions(&[4]));
        assert!(grace.expect(sessions(&[4])), "it was heard before the list came");
        assert!(!Grace::Over.heard(SessionNumber(1)));
    }
}
