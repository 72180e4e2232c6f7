//! Whether bound sessions live (design.md, "Sessions"): what a session has open or locked is given back when it is declared dead, and of one
//! that has never joined, or died before this shard has started, nobody would ever say that.
//!
//! The host of a bound session knows who it is, and not whether it has joined. So nothing of one is executed that leaves something here
//! before the coordinator module has said that it lives. That is asked once: it counts until the module says that the session is dead, and
//! every operation looks at it again in the step that changes something. Unbound sessions are believed, and nobody asks about them.
//!
//! Volatile. Locks: none. Journals: nothing.

use super::{Req, Stop};
use crate::shard::Job;
use crate::state::{keys, packets};
use crate::{Core, Cx};
use hashbrown::HashMap;
use onpath_kernel::{Answer, Gauge};
use onpath_wire::identity::Refusal;
use onpath_wire::ids::{NodeId, RequestSeq, SessionNumber, ShardId};
use onpath_wire::limits::OPERATIONS_MAX;
use onpath_wire::peer::Peer;
use onpath_wire::request::describe::{Changes, Description};
use std::collections::VecDeque;

/// Bound sessions that are known to live; of one that was forgotten for others it is asked again.
const KNOWN_MAX: usize = 1 << 16;
/// Sessions that do not live, and are known for that.
const STRANGERS_MAX: usize = 4_096;
/// For how long nobody asks again about one of them, microseconds.
const STRANGER_US: u64 = 1_000_000;
/// Sessions about which it is asked at a time; requests of others are not taken until they come again.
const ASKED_MAX: usize = 1_024;
/// Requests of a session that wait for the answer; the same for more.
const WAITING_MAX: usize = 64;
/// How long the answer is waited for, microseconds. One that came later might be older than the session's death, of which nothing is known
/// here any more.
const ANSWER_US: u64 = 1_000_000;

/// The last sessions of which something was said, each with the time until when that counts, microseconds.
#[derive(Debug, Default)]
struct Last {
    until_us: HashMap<SessionNumber, u64>,
    in_order: VecDeque<SessionNumber>,
}

impl Last {
    fn add(&mut self, session: SessionNumber, until_us: u64, max: usize) {
        while self.in_order.len() >= max {
            let oldest = self.in_order.pop_front().expect("more than none");
            self.until_us.remove(&oldest);
        }
        if self.until_us.insert(session, until_us).is_none() {
            self.in_order.push_back(session);
        }
    }

    fn has(&self, session: SessionNumber, now_us: u64) -> bool {
        self.until_us.get(&session).is_some_and(|until_us| now_us < *until_us)
    }
}

/// What is known of bound sessions.
#[derive(Debug, Default)]
pub(crate) struct Living {
    known: Last,
    strangers: Last,
    /// About whom it is asked, and how many requests wait for the answer.
    asked: HashMap<SessionNumber, usize>,
}

impl Living {
    /// A session is dead.
    pub(super) fn forget(&mut self, dead: SessionNumber) {
        self.known.until_us.remove(&dead);
    }

    /// Its tables.
    pub(crate) fn gauges(&self, all: &mut Vec<Gauge>) {
        all.extend([
            Gauge::table("bound sessions that live", self.known.in_order.len(), KNOWN_MAX),
            Gauge::table("bound sessions that do not", self.strangers.in_order.len(), STRANGERS_MAX),
            Gauge::queue("questions whether sessions live", self.asked.len(), ASKED_MAX),
        ]);
    }
}

/// Whether the session of such a request, if it is bound, must live: the request leaves something here that the death takes away, if only
/// its result.
pub(crate) fn is_needed(what: &Description<'_>) -> bool {
    !what.is_of_session() && (what.is_remembered() || what.changes != Changes::NOTHING)
}

/// Whether a session is known to live.
pub(crate) fn lives(core: &Core, session: SessionNumber) -> bool {
    match is_coordinator(core) {
        true => core.state.coordinator.lives(session),
        false => core.state.living.known.has(session, core.now.mono_us),
    }
}

fn is_coordinator(core: &Core) -> bool {
    core.state.config.map.coordinator() == core.state.me()
}

/// Whether a session lives, if that is known.
fn standing(core: &Core, session: SessionNumber) -> Option<bool> {
    if lives(core, session) {
        return Some(true);
    }
    let strange = is_coordinator(core) || core.state.living.strangers.has(session, core.now.mono_us);
    strange.then_some(false)
}

/// Whether a request may begin, and if need be wait until it is known whether its session lives.
pub(crate) fn has_room(core: &Core, session: SessionNumber) -> bool {
    let asked = &core.state.living.asked;
    let may_wait = match asked.get(&session) {
        Some(waiting) => *waiting < WAITING_MAX,
        None => asked.len() < ASKED_MAX,
    };
    standing(core, session).is_some() || may_wait && core.state.running.len() < OPERATIONS_MAX
}

/// Waits until it is known whether the session of a request lives, and refuses it if not.
pub(super) async fn known(cx: &Cx, req: &Req) -> Result<(), Stop> {
    let session = req.number();
    cx.with(|core| {
        if standing(core, session).is_none() {
            let waiting = core.state.living.asked.entry(session).or_default();
            *waiting += 1;
            if *waiting == 1 {
                core.start(Job::AskLiving(session));
            }
        }
    });
    let lives = cx.until(keys::living(session), |core| match standing(core, session) {
        None if core.state.living.asked.contains_key(&session) => None,
        standing => Some(standing),
    });
    match lives.await {
        Some(true) => Ok(()),
        Some(false) => Err(Stop::Refused(Refusal::Session)),
        None => Err(Stop::Over), // nobody has answered; it comes again
    }
}

/// Asks the coordinator module.
pub(crate) async fn ask(cx: &Cx, session: SessionNumber) {
    let (coordinator, end_us) =
        cx.with(|core| (NodeId::shard(core.state.config.map.coordinator()), core.now.mono_us + ANSWER_US));
    let make = |core: &mut Core, _, seq| core.state.peer_packet(seq, &Peer::SessionAsk { session });
    let lives = match cx.call_all(&[coordinator], end_us, make).await.pop() {
        Some(Answer::Packet(packet)) => match packet.body::<Peer>() {
            Ok(Peer::SessionIs { lives }) => Some(lives),
            _ => None,
        },
        _ => None,
    };
    cx.with(|core| {
        let now_us = core.now.mono_us;
        // The news of its death may have come before this.
        let lives = lives.map(|lives| lives && !core.state.buried.contains(session));
        let living = &mut core.state.living;
        living.asked.remove(&session);
        match lives {
            Some(true) => living.known.add(session, u64::MAX, KNOWN_MAX),
            Some(false) => living.strangers.add(session, now_us + STRANGER_US, STRANGERS_MAX),
            None => {}
        }
        core.wake(keys::living(session));
    });
}

/// A shard asks whether a session lives. That it does is told when it is durable: whoever opens files must not be forgotten by a loss of power.
pub(crate) fn asked(cx: &Cx, from: ShardId, seq: RequestSeq, session: SessionNumber) {
    cx.with(|core| {
        if !is_coordinator(core) {
            core.state.counters.malformed += 1;
            return;
        }
        let lives = core.state.coordinator.lives(session);
        if lives {
            let registered = core.state.record_seq;
            core.rest_on(cx.op(), registered);
        }
        packets::answer_call(core, cx.op(), NodeId::shard(from), seq, &Peer::SessionIs { lives });
    });
}
