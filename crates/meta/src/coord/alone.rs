//! Who is alone in the file system: its mount may cache, so nobody may join before it has handed that back.
//!
//! A session is alone for a *time* with a name of its own, which it hands back by that name. The coordinator module gives it only to
//! the one session that is registered, once every shard has heard of the death of all others; it answers the first Attach of
//! another session only when the time is handed back, or when a holder that died can have no cached answer left.
//! What is here is volatile. A restarted coordinator module concludes from the registry who may be alone: where two sessions
//! live, nobody is, since joining and the deaths before a time is given are durable before anybody hears of them.

use super::Coordinator;
use crate::ops::{Req, Step, Stop};
use crate::planted::{self, Planted};
use crate::shard::Job;
use crate::state::keys;
use crate::{Core, Cx};
use onpath_kernel::Need;
use onpath_wire::disk::record::Member;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{AloneId, NodeId, RecordSeq, RequestSeq, SessionNumber, Term};
use onpath_wire::limits::{ALONE_MS, CACHED_MS, CACHED_SLACK_MS, SESSION_LEASE_MS};
use onpath_wire::reply::Reply;
use std::collections::BTreeSet;

/// How often the holder is asked to hand back, microseconds.
const ASK_US: u64 = 50_000;
/// For how long after a holder's death its mount may go on using what it has cached, microseconds.
const CACHED_US: u64 = (CACHED_MS + CACHED_SLACK_MS) * 1_000;

/// For how long after the death of a session that said nothing nobody is alone, microseconds: what it had under way may still be done, at data
/// nodes too.
const DEATH_US: u64 = SESSION_LEASE_MS * 1_000;
/// The same after a restart, in which data nodes tell again what they had told.
const RESTART_US: u64 = 1_000_000;

/// A time of being alone.
#[derive(Clone, Copy, Debug)]
struct Holder {
    session: SessionNumber,
    id: AloneId,
    /// The record that must be durable before the session hears of it.
    after: RecordSeq,
    /// Given in a former term, perhaps: it is over by then, microseconds.
    over_us: Option<u64>,
}

/// The state of this module.
#[derive(Debug, Default)]
pub(crate) struct Alone {
    holder: Option<Holder>,
    /// Times given in this term.
    given: u64,
    /// Nobody joins before, microseconds: a holder has died.
    free_us: u64,
    /// Nobody is alone before, microseconds.
    give_us: u64,
    /// Sessions that wait to join.
    waiting: BTreeSet<SessionNumber>,
    /// [`Job::AskBack`] runs.
    asks: bool,
}

impl Alone {
    fn next(&mut self, term: Term) -> AloneId {
        self.given += 1;
        AloneId(term.first_seq() + self.given)
    }

    /// A session is over. If it has not said so itself, its mount may still use what it has cached, and others do what it has asked for.
    pub(crate) fn over(&mut self, session: SessionNumber, left: bool, now_us: u64) {
        self.waiting.remove(&session);
        if !left {
            self.give_us = self.give_us.max(now_us + DEATH_US);
        }
        let Some(holder) = self.holder.filter(|holder| holder.session == session) else { return };
        self.holder = None;
        // One of a former term was declared dead by its lease, or with the process that this one follows.
        if holder.over_us.is_none() {
            self.free_us = now_us + CACHED_US;
        }
    }

    /// Whether another session than the holder may join now.
    pub(super) fn is_free(&self, now_us: u64) -> bool {
        self.holder.is_none() && now_us >= self.free_us || planted::is(Planted::JoinsWhileAlone)
    }
}

impl Coordinator {
    /// A new term: the only session that lives may be alone by a word of a former one.
    pub(super) fn presume_alone(&mut self, term: Term, now_us: u64) {
        if !self.sessions.is_empty() {
            self.alone.give_us = now_us + RESTART_US;
        }
        let mut live = self.sessions.iter().filter(|(_, member)| member.alive);
        if let (Some((_, &Member { number: session, .. })), None) = (live.next(), live.next()) {
            let id = self.alone.next(term);
            let over_us = Some(now_us + ALONE_MS * 1_000 + CACHED_US);
            self.alone.holder = Some(Holder { session, id, after: RecordSeq(0), over_us });
        }
    }

    /// Whether this session may be alone: nobody else is registered, not even a dead one of whom a shard has not heard, or
    /// waits to join.
    fn may_be_alone(&self, session: SessionNumber, now_us: u64) -> bool {
        let only = self.sessions.len() == 1 && self.is_alive(session);
        only && self.alone.waiting.is_empty() && now_us >= self.alone.free_us.max(self.alone.give_us)
    }
}

/// The answer to a session that would like to be alone.
pub(super) fn give(core: &mut Core, session: SessionNumber) -> AloneId {
    let (now_us, term, after) = (core.now.mono_us, core.state.config.term, core.state.record_seq);
    let coordinator = &mut core.state.coordinator;
    if !coordinator.may_be_alone(session, now_us) {
        return AloneId::default();
    }
    let alone = &mut coordinator.alone;
    match alone.holder {
        Some(holder) if holder.over_us.is_none() => holder.id,
        // What was given in a former term goes on under a name of this one.
        _ => {
            let id = alone.next(term);
            alone.holder = Some(Holder { session, id, after, over_us: None });
            core.state.counters.alone_given += 1;
            id
        }
    }
}

/// Sends the answer, when it is durable that nobody else is there.
pub(crate) fn reply(core: &mut Core, req: &Req, alone: AloneId) {
    let holder = core.state.coordinator.alone.holder.filter(|holder| holder.id == alone);
    let packet = core.state.reply_packet(req.seq, &Reply::Renewed { alone });
    core.send_after(req.from, packet, holder.map_or(RecordSeq(0), |holder| holder.after), Need::Durable);
}

/// A session has handed back.
pub(crate) fn handed_back(cx: &Cx, req: &Req, upto: AloneId) -> Step {
    cx.with(|core| {
        super::sessions::only_here(core)?;
        let alone = &mut core.state.coordinator.alone;
        if alone.holder.is_some_and(|holder| holder.session == req.number() && holder.id <= upto) {
            alone.holder = None;
            core.wake(keys::ALONE);
        }
        Ok(Reply::Done)
    })
}

/// A new session waits until nobody else is alone.
pub(crate) async fn give_way(cx: &Cx, session: SessionNumber) -> Result<(), Stop> {
    cx.with(|core| {
        core.state.coordinator.alone.waiting.insert(session);
        if !core.state.coordinator.alone.asks {
            core.state.coordinator.alone.asks = true;
            core.start(Job::AskBack);
        }
    });
    let free = cx.until(keys::ALONE, |core| {
        let alone = &core.state.coordinator.alone;
        match alone.waiting.contains(&session) {
            false => Some(Err(Errno::ESTALE.into())), // it died meanwhile
            true => alone.is_free(core.now.mono_us).then_some(Ok(())),
        }
    });
    free.await
}

/// A session has joined.
pub(crate) fn joined(core: &mut Core, session: SessionNumber) {
    core.state.coordinator.alone.waiting.remove(&session);
}

/// A session is forgotten: the only one that is left may want to be alone.
pub(crate) fn left(core: &mut Core) {
    let mut sessions = core.state.coordinator.sessions();
    if let (Some((session, true)), None) = (sessions.next(), sessions.next()) {
        drop(sessions);
        let packet = core.state.reply_packet(RequestSeq(0), &Reply::MayBeAlone);
        core.send_after(NodeId::session(session.id()), packet, RecordSeq(0), Need::ByDestination);
    }
}

/// Asks the holder to hand back as long as somebody waits.
pub(crate) async fn ask_back(cx: &Cx) {
    loop {
        let until_us = cx.with(|core| {
            let now_us = core.now.mono_us;
            let alone = &mut core.state.coordinator.alone;
            if alone.holder.is_some_and(|holder| holder.over_us.is_some_and(|over| over <= now_us)) {
                alone.holder = None;
            }
            if alone.is_free(now_us) {
                core.wake(keys::ALONE);
            }
            let alone = &mut core.state.coordinator.alone;
            if alone.waiting.is_empty() {
                alone.asks = false;
                return None;
            }
            if let Some(Holder { session, id, .. }) = alone.holder {
                let packet = core.state.reply_packet(RequestSeq(0), &Reply::GiveBack { alone: id });
                core.send_after(NodeId::session(session.id()), packet, RecordSeq(0), Need::ByDestination);
            }
            Some(now_us + ASK_US)
        });
        let Some(until_us) = until_us else { return };
        cx.sleep_until(until_us).await;
    }
}

/// Answers a renewal of a session that would like to be alone.
pub(crate) fn renew(cx: &Cx, req: &Req) -> Step {
    super::sessions::renew(cx, req)?;
    cx.with(|core| {
        let alone = give(core, req.number());
        reply(core, req, alone);
    });
    Err(Stop::Answered)
}
