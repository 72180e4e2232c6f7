//! The reply cache: a retried request gets its first result, failures included.
//!
//! Successes of mutations are derived from records, so they survive a restart. Failures are volatile: a request
//! names the shard's term, so after a restart an old copy of it is not executed. Bounded by a window of each session, whose requests beyond
//! it are not looked at, and in all: what there is no room for is not executed, as if it were lost on its way.

use super::buried::Buried;
use hashbrown::HashMap;
use onpath_kernel::Gauge;
use onpath_wire::ids::{RequestSeq, SessionId, SessionNumber};
use onpath_wire::limits::{REPLIES_MAX, REPLIES_SURE, SESSION_WINDOW, memory};
use onpath_wire::reply::Reply;
use std::collections::VecDeque;

/// Results by session and request.
#[derive(Default, Debug)]
pub(crate) struct Replies {
    sessions: HashMap<SessionId, Remembered>,
    /// Results of all sessions.
    len: usize,
}

#[derive(Default, Debug)]
struct Remembered {
    oldest: RequestSeq,
    /// By request: requests come about in order, so that almost every result goes to the end.
    replies: VecDeque<Cached>,
}

#[derive(Debug)]
struct Cached {
    request: RequestSeq,
    reply: Reply,
    durable: bool,
    /// Remembered from a former term, and not asked for again since.
    former: bool,
}

const _: () = assert!(2 * size_of::<Cached>() as u64 <= memory::REPLY);

impl Remembered {
    /// Where a request's result is, or where it would go.
    fn place(&self, request: RequestSeq) -> Result<usize, usize> {
        match self.replies.back() {
            Some(last) if last.request >= request => self.replies.binary_search_by_key(&request, |c| c.request),
            _ => Err(self.replies.len()),
        }
    }

    /// The last session of those with this id that has asked for something.
    fn last(&self, session: SessionId) -> SessionNumber {
        let request = self.replies.back().map_or(self.oldest, |last| last.request.max(self.oldest));
        SessionNumber::of(session, request)
    }

    fn insert(&mut self, cached: Cached) {
        match self.place(cached.request) {
            Ok(at) => self.replies[at] = cached,
            Err(at) if at == self.replies.len() => self.replies.push_back(cached),
            Err(at) => self.replies.insert(at, cached),
        }
    }

    /// Forgets what the client no longer waits for.
    fn pass(&mut self, oldest: RequestSeq) {
        if oldest > self.oldest {
            self.oldest = oldest;
            while self.replies.front().is_some_and(|first| first.request < oldest) {
                self.replies.pop_front();
            }
        }
    }
}

/// What the cache says of a request.
pub(crate) enum Seen<'a> {
    /// Never seen: execute it.
    New,
    /// Answered before.
    Answered(&'a Reply),
    /// The client no longer waits for it: drop it.
    Over,
}

impl Replies {
    /// What is known of a request.
    pub(crate) fn seen(&self, session: SessionId, request: RequestSeq) -> Seen<'_> {
        let Some(remembered) = self.sessions.get(&session) else { return Seen::New };
        if request < remembered.oldest {
            return Seen::Over;
        }
        remembered.place(request).map_or(Seen::New, |at| Seen::Answered(&remembered.replies[at].reply))
    }

    /// A term begins: all that is known so far is of a former one.
    pub(crate) fn begin_term(&mut self) {
        self.sessions.values_mut().flat_map(|r| &mut r.replies).for_each(|cached| cached.former = true);
    }

    /// Whether a request that a former term has executed is asked for again for the first time.
    pub(crate) fn asked_again(&mut self, session: SessionId, request: RequestSeq) -> bool {
        let Some(remembered) = self.sessions.get_mut(&session) else { return false };
        let Ok(at) = remembered.place(request) else { return false };
        std::mem::take(&mut remembered.replies[at].former)
    }

    /// Remembers a result; what the client no longer waits for is forgotten.
    pub(crate) fn remember(
        &mut self,
        session: SessionId,
        request: RequestSeq,
        oldest: RequestSeq,
        reply: Reply,
        durable: bool,
    ) {
        let remembered = self.sessions.entry(session).or_default();
        let before = remembered.replies.len();
        remembered.pass(oldest);
        if request >= remembered.oldest {
            remembered.insert(Cached { request, reply, durable, former: false });
        }
        self.len = self.len - before + remembered.replies.len();
    }

    /// Whether there is room for one result more of this session, whose `oldest` unanswered request is known.
    pub(crate) fn has_room(&mut self, session: SessionId, oldest: RequestSeq) -> bool {
        if self.len < REPLIES_MAX {
            return true;
        }
        let Some(remembered) = self.sessions.get_mut(&session) else { return true };
        let before = remembered.replies.len();
        remembered.pass(oldest);
        self.len = self.len - before + remembered.replies.len();
        self.len < REPLIES_MAX || remembered.replies.len() < REPLIES_SURE
    }

    /// What this request did is undone: it is executed again if it is repeated.
    pub(crate) fn undo(&mut self, session: SessionId, request: RequestSeq) {
        let Some(remembered) = self.sessions.get_mut(&session) else { return };
        if let Ok(at) = remembered.place(request) {
            remembered.replies.remove(at);
            self.len -= 1;
        }
    }

    /// How many results of a session are remembered.
    pub(crate) fn of(&self, session: SessionNumber) -> usize {
        self.sessions.get(&session.id()).map_or(0, |remembered| remembered.replies.len())
    }

    /// A session is dead, and nobody tells of its requests any more. One that has its id by now keeps what it was answered.
    pub(crate) fn forget(&mut self, dead: SessionNumber) {
        let Some(remembered) = self.sessions.get_mut(&dead.id()) else { return };
        let before = remembered.replies.len();
        remembered.replies.retain(|cached| dead.count_of(cached.request).is_none());
        self.len -= before - remembered.replies.len();
        if remembered.replies.is_empty() && dead.count_of(remembered.oldest).is_some() {
            self.sessions.remove(&dead.id());
        }
    }

    /// Everything that a restart must find again of the sessions that live, in order: of one without durable results that its
    /// requests so far are over, as a result of no request.
    pub(crate) fn durable(&self, buried: &Buried) -> Vec<(SessionId, RequestSeq, RequestSeq, Reply)> {
        let mut all = Vec::new();
        for (&session, r) in self.sessions.iter().filter(|&(&session, r)| !buried.contains(r.last(session))) {
            let before = all.len();
            let replies = r.replies.iter().filter(|c| c.durable);
            all.extend(replies.map(|c| (session, c.request, r.oldest, c.reply.clone())));
            if all.len() == before && r.oldest.0 > 0 {
                all.push((session, RequestSeq(0), r.oldest, Reply::Done));
            }
        }
        all.sort_by_key(|&(session, request, _, _)| (session, request));
        all
    }

    /// Results of the session that has the most.
    pub(crate) fn gauges(&self, all: &mut Vec<Gauge>) {
        let most = self.sessions.values().map(|r| r.replies.len()).max();
        all.push(Gauge::table("replies of a session", most.unwrap_or(0), SESSION_WINDOW as usize));
        all.push(Gauge::table("replies", self.len, REPLIES_MAX + REPLIES_SURE * self.sessions.len()));
    }

    /// Number of remembered results.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::errno::Errno;

    #[test]
    fn what_is_over_stays_over_after_a_restart() {
        let (mut replies, session) = (Replies::default(), SessionId(4));
        replies.remember(session, RequestSeq(9), RequestSeq(9), Reply::Done, true);
        replies.remember(session, RequestSeq(10), RequestSeq(10), Reply::Done, false);
        let mut again = Replies::default();
        for (session, request, oldest, reply) in replies.durable(&Buried::default()) {
            again.remember(session, request, oldest, reply, true);
        }
        assert!(matches!(again.seen(session, RequestSeq(9)), Seen::Over), "a data node tells of a write once more");
        assert!(matches!(again.seen(session, RequestSeq(10)), Seen::New));
    }

    #[test]
    fn sessions_share_the_room_and_each_has_some() {
        let mut replies = Replies::default();
        let many = (REPLIES_MAX / SESSION_WINDOW as usize) as u32;
        for session in 0..many {
            for request in 1..=SESSION_WINDOW {
                assert!(replies.has_room(SessionId(session), RequestSeq(1)));
                replies.remember(SessionId(session), RequestSeq(request), RequestSeq(1), Reply::Done, false);
            }
        }
        assert_eq!(replies.len(), REPLIES_MAX);
        assert!(!replies.has_room(SessionId(0), RequestSeq(1)), "it has more than its share");
        let other = SessionId(many);
        let sure = (1..).take_while(|&request| {
            let has_room = replies.has_room(other, RequestSeq(1));
            replies.remember(other, RequestSeq(request), RequestSeq(1), Reply::Done, false);
            has_room
        });
        assert_eq!(sure.count(), REPLIES_SURE);
        assert!(replies.has_room(SessionId(0), RequestSeq(SESSION_WINDOW - 9)), "it has heard of most");
        let all = |replies: &Replies| replies.sessions.values().map(|r| r.replies.len()).sum::<usize>();
        assert_eq!((replies.of(SessionNumber::of(SessionId(0), RequestSeq(1))), replies.len()), (10, all(&replies)));
        replies.undo(other, RequestSeq(3));
        replies.undo(other, RequestSeq(3));
        replies.forget(SessionNumber::of(SessionId(1), RequestSeq(1)));
        assert_eq!(replies.len(), all(&replies));
    }

    #[test]
    fn results_are_kept_while_the_client_may_ask() {
        let mut replies = Replies::default();
        let s = SessionId(1);
        replies.remember(s, RequestSeq(5), RequestSeq(5), Reply::Done, true);
        let failed = Reply::Failed { errno: Errno::EACCES };
        replies.remember(s, RequestSeq(6), RequestSeq(5), failed.clone(), false);
        assert!(matches!(replies.seen(s, RequestSeq(5)), Seen::Answered(Reply::Done)));
        assert!(matches!(replies.seen(s, RequestSeq(6)), Seen::Answered(r) if *r == failed));
        assert!(matches!(replies.seen(s, RequestSeq(7)), Seen::New));
        assert_eq!(replies.durable(&Buried::default()).len(), 1, "failures are volatile");
        replies.remember(s, RequestSeq(9), RequestSeq(5), Reply::Done, true);
        replies.remember(s, RequestSeq(8), RequestSeq(5), Reply::Granted, false);
        replies.remember(s, RequestSeq(8), RequestSeq(5), Reply::Done, true);
        let kept: Vec<_> =
            replies.durable(&Buried::default()).into_iter().map(|(_, request, _, _)| request.0).collect();
        assert_eq!(kept, [5, 8, 9], "in order, however they came");
        replies.forget(SessionNumber::of(s, RequestSeq(1)));
        replies.remember(s, RequestSeq(5), RequestSeq(5), Reply::Done, true);
        replies.remember(s, RequestSeq(7), RequestSeq(7), Reply::Done, true);
        assert!(matches!(replies.seen(s, RequestSeq(5)), Seen::Over));
        assert_eq!(replies.len(), 1);
    }
}
