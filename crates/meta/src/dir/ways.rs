//! Ways that clients keep (P-5). A path node tells them what homes have granted it; nobody takes that back from them. Before a directory is
//! renamed, removed, or closed to somebody, its home lets every shard note that ways through it are to be forgotten. A request that is made by a
//! way says how far its session has heard of that; where it is behind, nothing is executed.

use super::owner::table;
use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::{keys, packets};
use crate::{Core, Cx};
use onpath_wire::header::Position;
use onpath_wire::ids::{InodeId, NodeId, RequestSeq, ShardId, Term};
use onpath_wire::limits::{WAYS_FORGOTTEN_MAX, WAYS_TOLD_MAX};
use onpath_wire::peer::{Peer, part};
use onpath_wire::reply::Reply;
use std::collections::VecDeque;

/// The directories through which ways are to be forgotten, as far as this shard has noted them in this term: volatile, since who names another
/// term forgets all that he keeps.
#[derive(Debug, Default)]
pub(crate) struct Forgotten {
    /// How many there were.
    position: u64,
    /// The last of them: at most [`WAYS_FORGOTTEN_MAX`].
    last: VecDeque<InodeId>,
}

impl Forgotten {
    fn note(&mut self, dir: InodeId) {
        self.position += 1;
        if self.last.len() >= WAYS_FORGOTTEN_MAX {
            self.last.pop_front();
        }
        self.last.push_back(dir);
    }

    /// How many there were in this term.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// What somebody is told who has heard up to there; nothing if that is all. `term`: this one.
    fn behind(&self, term: Term, heard: Position) -> Option<Reply> {
        let now = Position { term, position: self.position };
        if heard == now || heard.term != Term(0) && planted::is(Planted::AnyPosition) {
            return None;
        }
        // Who has heard more than there is makes no sense, and forgets all.
        let missed = self.position.checked_sub(heard.position).filter(|_| heard.term == term);
        let missed = missed.and_then(|missed| usize::try_from(missed).ok()).filter(|missed| *missed <= WAYS_TOLD_MAX);
        let from = missed.and_then(|missed| self.last.len().checked_sub(missed));
        Some(Reply::Behind { now, dirs: from.map(|from| self.last.range(from..).copied().collect()) })
    }
}

/// What answers a request that comes by a way which may not be right any more. Looked at once when a request comes: until then all on its way
/// was as it says.
pub(crate) fn behind(core: &mut Core, heard: Position) -> Option<Reply> {
    let reply = core.state.dirs.forgotten.behind(core.state.config.term, heard)?;
    core.state.counters.requests_behind += 1;
    Some(reply)
}

/// Whether clients may keep ways through a directory that is to be changed, and hear of it before.
pub(super) fn are_kept(core: &mut Core, dir: InodeId, parts: u8) -> bool {
    parts & part::PATH != 0 && table(core, dir).told && !planted::is(Planted::WaysKept)
}

/// Lets all shards note that ways through a directory are to be forgotten. One that is silent is waited for: until it is back, clients may come
/// there by ways of before.
pub(super) async fn forget(cx: &Cx, dir: InodeId) {
    let others: Vec<NodeId> = cx.with(|core| {
        core.state.dirs.forgotten.note(dir);
        table(core, dir).telling = true;
        let me = core.state.me();
        core.state.config.map.all().filter(|&shard| shard != me).map(NodeId::shard).collect()
    });
    if !others.is_empty() && !planted::is(Planted::ForgottenHereOnly) {
        let what = Peer::ForgetWays { dir };
        cx.call_all(&others, u64::MAX, |core, _, seq| core.state.peer_packet(seq, &what)).await;
    }
    cx.with(|core| {
        let table = table(core, dir);
        (table.told, table.telling) = (false, false);
        let waiters = table.has_waiters();
        core.wake(keys::grants(dir));
        if waiters {
            core.start(Job::GiveGrants(dir));
        }
    });
}

/// A home says so.
pub(crate) fn told(cx: &Cx, from: ShardId, seq: RequestSeq, dir: InodeId) {
    cx.with(|core| {
        core.state.dirs.forgotten.note(dir);
        packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &Peer::Done);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::ids::{Birth, Slot};
    use onpath_wire::inode::Kind;

    fn dir(number: usize) -> InodeId {
        InodeId::new(Slot(0), Birth(1), number as u16, Kind::Directory)
    }

    fn heard(forgotten: &Forgotten, term: u32, position: u64) -> Option<Option<Vec<InodeId>>> {
        match forgotten.behind(Term(2), Position { term: Term(term), position })? {
            Reply::Behind { now, dirs } => {
                assert_eq!(now, Position { term: Term(2), position: forgotten.position() });
                Some(dirs)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_is_behind_hears_what_he_has_missed() {
        let mut forgotten = Forgotten::default();
        assert_eq!(heard(&forgotten, 2, 0), None);
        assert_eq!(heard(&forgotten, 1, 0), Some(None), "of another term all");
        assert_eq!(heard(&forgotten, 2, 1), Some(None), "what there never was");
        (0..3).for_each(|n| forgotten.note(dir(2 * n)));
        assert_eq!(heard(&forgotten, 2, 3), None);
        assert_eq!(heard(&forgotten, 2, 1), Some(Some(vec![dir(2), dir(4)])));
        assert_eq!(heard(&forgotten, 1, 3), Some(None));
        (3..WAYS_FORGOTTEN_MAX + 3).for_each(|n| forgotten.note(dir(2 * (n % 1000))));
        assert_eq!(forgotten.last.len(), WAYS_FORGOTTEN_MAX);
        let position = forgotten.position();
        let missed =
            |missed: usize| heard(&forgotten, 2, position - missed as u64).expect("behind").map(|dirs| dirs.len());
        assert_eq!(missed(WAYS_TOLD_MAX), Some(WAYS_TOLD_MAX));
        assert_eq!(missed(WAYS_TOLD_MAX + 1), None, "too many to be told");
    }
}
