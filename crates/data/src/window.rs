//! What each session has had written and may still repeat: a repeated write is not executed again.
//!
//! Bounds: a window holds only requests from its session's oldest unanswered one on, at most [`SESSION_WINDOW`];
//! beyond [`SESSIONS_PER_RANGE`] sessions in a range the one that wrote there longest ago is forgotten.

use crate::planted::{self, Planted};
use onpath_wire::disk::block::{DoneWrite, WindowImage};
use onpath_wire::ids::{DataId, RecordSeq, RequestSeq, SessionId};
use onpath_wire::limits::SESSION_WINDOW;
use std::collections::BTreeMap;

/// Sessions remembered in one of the 64 ranges of inodes.
pub(crate) const SESSIONS_PER_RANGE: usize = 1_024;

/// What is known of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nothing: execute it.
    Never,
    /// It is recorded: tell the home again.
    Done,
    /// It is recorded, and this node has answered it: it answers again (V-6).
    AnsweredHere,
    /// Its answer has been seen by the session: a late duplicate, to be ignored.
    Answered,
}

/// The sessions' windows over one range of inodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows {
    sessions: BTreeMap<SessionId, WindowImage>,
}

impl Windows {
    /// Sessions, and the writes of the one that has the most.
    pub(crate) fn len(&self) -> (usize, usize) {
        let most = self.sessions.values().map(|window| window.done.len()).max();
        (self.sessions.len(), most.unwrap_or(0))
    }

    /// What is known of this write.
    pub(crate) fn seen(&self, session: SessionId, request: RequestSeq, data: DataId, cut: u32) -> Seen {
        let Some(window) = self.sessions.get(&session) else { return Seen::Never };
        if request < window.oldest {
            return Seen::Answered;
        }
        match window.done.binary_search_by_key(&request, |done| done.request) {
            Ok(i) if (window.done[i].data, window.done[i].cut) == (data, cut) => match window.done[i].part {
                Some(_) if !planted::is(Planted::AnsweredForgotten) => Seen::AnsweredHere,
                _ => Seen::Done,
            },
            _ => Seen::Never,
        }
    }

    /// Remembers a write, and forgets what its session has seen answered.
    pub(crate) fn note(&mut self, session: SessionId, oldest: RequestSeq, write: DoneWrite, seq: RecordSeq) {
        let window = self.sessions.entry(session).or_default();
        window.oldest = window.oldest.max(oldest);
        window.last = seq;
        let answered = window.done.partition_point(|done| done.request < window.oldest);
        window.done.drain(..answered);
        match window.done.binary_search_by_key(&write.request, |done| done.request) {
            Ok(i) => window.done[i] = write,
            Err(i) => window.done.insert(i, write),
        }
        if window.done.len() as u64 > SESSION_WINDOW {
            window.done.remove(0);
        }
        if self.sessions.len() > SESSIONS_PER_RANGE {
            let idle = self.sessions.iter().min_by_key(|(_, window)| window.last).map(|(&session, _)| session);
            self.sessions.remove(&idle.expect("there are sessions"));
        }
    }

    /// A write was undone.
    pub(crate) fn forget(&mut self, session: SessionId, request: RequestSeq) {
        if let Some(window) = self.sessions.get_mut(&session) {
            window.done.retain(|done| done.request != request);
        }
    }

    pub(crate) fn images(&self) -> impl Iterator<Item = (SessionId, &WindowImage)> {
        self.sessions.iter().map(|(&session, window)| (session, window))
    }

    pub(crate) fn load(&mut self, session: SessionId, window: WindowImage) {
        self.sessions.insert(session, window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(request: u64) -> DoneWrite {
        DoneWrite { request: RequestSeq(request), data: DataId::default(), cut: 0, part: None }
    }

    #[test]
    fn a_window_follows_the_oldest_unanswered_request() {
        let mut windows = Windows::default();
        let (session, data) = (SessionId(4), DataId::default());
        for request in [11, 10, 12] {
            windows.note(session, RequestSeq(10), write(request), RecordSeq(1));
        }
        assert_eq!(windows.seen(session, RequestSeq(11), data, 0), Seen::Done);
        assert_eq!(windows.seen(session, RequestSeq(11), data, 1), Seen::Never, "written again under a newer cut");
        windows.note(session, RequestSeq(12), write(13), RecordSeq(2));
        assert_eq!(windows.seen(session, RequestSeq(11), data, 0), Seen::Answered);
        assert_eq!(windows.seen(session, RequestSeq(12), data, 0), Seen::Done);
        assert_eq!(windows.seen(SessionId(5), RequestSeq(12), data, 0), Seen::Never);
    }

    #[test]
    fn the_number_of_sessions_is_bounded() {
        let mut windows = Windows::default();
        for n in 0..=SESSIONS_PER_RANGE as u32 {
            windows.note(SessionId(n), RequestSeq(1), write(1), RecordSeq(u64::from(n) + 1));
        }
        assert_eq!(windows.images().count(), SESSIONS_PER_RANGE);
        assert_eq!(windows.seen(SessionId(0), RequestSeq(1), DataId::default(), 0), Seen::Never);
        assert_eq!(windows.seen(SessionId(1), RequestSeq(1), DataId::default(), 0), Seen::Done);
    }
}
