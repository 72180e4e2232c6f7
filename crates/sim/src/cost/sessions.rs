//! Sessions of the cost model: the real ones, as a client has them. They cost nothing, but what they would is counted.

use super::clients::CLUSTER;
use super::label::{Features, SESSION_ASKS, SESSION_HEARS, SESSION_KEPT};
use super::model::{Event, Model, Nothing};
use super::server::Flight;
use super::tree::Who;
use onpath_kernel::{Input, Output, Role};
use onpath_session::fs::{Caller, FsOp, FsRequest, FsResult, WaysAt};
use onpath_session::{AccessTimes, KeptWays, Session, SessionConfig, SessionIn, SessionOut};
use onpath_wire::ids::{NodeClass, NodeId, SessionNumber};
use onpath_wire::map::ClusterMap;
use std::collections::BTreeMap;

/// Ids of sessions begin here; other clients have smaller ones.
const FIRST_SESSION: u32 = 1_000;
/// Memory for kept ways of each, as a client has it unless it is told otherwise.
const KEPT_BYTES: usize = 4 << 20;
/// Calls under way while something is prepared.
const CALLS: usize = 64;
/// Time that passes at a step while something is waited for, ns.
pub(super) const STEP_NS: u64 = 100_000;

/// What a call belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    /// It was asked for by itself.
    Itself,
    /// A look at a path.
    Look(u64),
    /// A read or write of a file.
    Access(u64),
    /// A request for a file by its path.
    Hot(u64),
    /// Nobody waits for its answer.
    Nobody,
}

/// A session.
struct Client {
    node: NodeId,
    session: Session,
    tick_ns: Option<u64>,
    next_unique: u64,
    calls: BTreeMap<u64, Of>,
}

/// All of them.
pub(super) struct Sessions {
    map: ClusterMap,
    all: Vec<Client>,
    /// Answers to calls that were asked for by themselves, by session and number of the call.
    answers: BTreeMap<(u32, u64), FsResult>,
    pub(super) cpu_ns: u64,
}

impl Sessions {
    /// Nobody.
    pub(super) fn none(map: ClusterMap) -> Sessions {
        Sessions { map, all: vec![], answers: BTreeMap::new(), cpu_ns: 0 }
    }

    /// What they know of where things are.
    pub(super) fn map(&self) -> &ClusterMap {
        &self.map
    }

    /// How many.
    pub(super) fn number(&self) -> u32 {
        self.all.len() as u32
    }

    /// The session with this address.
    pub(super) fn at(&self, node: NodeId) -> Option<u32> {
        let is_session = node.class() == Some(NodeClass::Session);
        let number = node.number().checked_sub(FIRST_SESSION).filter(|_| is_session)?;
        (number < self.number()).then_some(number)
    }
}

impl Client {
    fn new(map: &ClusterMap, index: u32) -> Client {
        let number = SessionNumber(u64::from(FIRST_SESSION + index));
        let session = Session::new(SessionConfig {
            session: number,
            cluster: CLUSTER,
            map: map.clone(),
            soft: false,
            access_times: AccessTimes::default(),
            in_halves: false,
            caches: false,
            identity: None,
            kept_ways: KeptWays { bytes: KEPT_BYTES, key: [7; 16] },
        });
        let node = NodeId::session(number.id());
        Client { node, session, tick_ns: None, next_unique: 0, calls: BTreeMap::new() }
    }
}

impl Model {
    /// Sessions join, as many as the load of the configuration has clients.
    pub(super) fn join_sessions(&mut self) {
        let map = self.sessions.map.clone();
        for index in 0..self.config.load.clients() {
            self.sessions.all.push(Client::new(&map, index));
            self.session_input(index, Input::Tick);
        }
    }

    /// Sessions make these calls, some at a time; their answers, in order.
    pub(super) fn call_all(&mut self, calls: Vec<(u32, Caller, FsOp)>) -> Vec<FsResult> {
        let (mut asked, mut calls) = (vec![], calls.into_iter());
        loop {
            while asked.len() - self.sessions.answers.len() < CALLS {
                let Some((session, caller, op)) = calls.next() else { break };
                asked.push((session, self.call(session, caller, op, None, Of::Itself)));
            }
            if self.sessions.answers.len() == asked.len() {
                let mut answers = std::mem::take(&mut self.sessions.answers);
                return asked.iter().map(|call| answers.remove(call).expect("all are answered")).collect();
            }
            self.go_on(&mut Nothing, self.now_ns + STEP_NS, u64::MAX);
        }
    }

    /// A caller of a session asks; the number of the request.
    pub(super) fn call(&mut self, session: u32, caller: Caller, op: FsOp, by_ways: Option<WaysAt>, of: Of) -> u64 {
        let client = &mut self.sessions.all[session as usize];
        client.next_unique += 1;
        let unique = client.next_unique;
        client.calls.insert(unique, of);
        self.session_input(session, Input::Own(SessionIn::Fs(FsRequest { unique, caller, op, by_ways })));
        unique
    }

    pub(super) fn session_ticks(&mut self, session: u32) {
        let client = &mut self.sessions.all[session as usize];
        if client.tick_ns == Some(self.now_ns) {
            client.tick_ns = None;
            self.session_input(session, Input::Tick);
        }
    }

    pub(super) fn session_input(&mut self, session: u32, input: Input<SessionIn>) {
        let now = self.now();
        let (mut label, names) = of_input(&input);
        let (outputs, took_ns) = self.metered(|model| {
            let session = &mut model.sessions.all[session as usize].session;
            session.handle(now, input);
            std::iter::from_fn(|| session.poll_output()).collect::<Vec<_>>()
        });
        let to_shard =
            |output: &Output<SessionOut>| matches!(output, Output::Send { to, .. } if to.as_shard().is_some());
        if label == SESSION_KEPT && !outputs.iter().any(to_shard) {
            label = SESSION_ASKS;
        }
        let features = Features { entries: names, ..Features::default() };
        self.sample(took_ns, label, features);
        self.sessions.cpu_ns += self.cost_ns(label, features);
        let (from, mut own) = (self.sessions.all[session as usize].node, vec![]);
        for output in outputs {
            match output {
                Output::Send { to, packet, .. } => self.route(Flight { from, to, packet }),
                Output::Own(out) => own.push(out),
                Output::Append { .. } | Output::Flush => {}
            }
        }
        self.arm_session(session);
        for out in own {
            self.session_says(session, out);
        }
    }

    fn session_says(&mut self, session: u32, out: SessionOut) {
        match out {
            SessionOut::Reply { unique, result } => {
                match self.sessions.all[session as usize].calls.remove(&unique).expect("a call is answered once") {
                    Of::Look(id) => self.look_answered(id, result),
                    Of::Access(id) => self.access_answered(id, result),
                    Of::Hot(id) => self.hot_answered(id, result),
                    Of::Nobody => {}
                    Of::Itself => _ = self.sessions.answers.insert((session, unique), result),
                }
            }
            SessionOut::ReadCaller { ticket, question } => {
                let read = Who::of(question.pid).read();
                self.session_input(session, Input::Own(SessionIn::Caller { ticket, read }));
            }
            SessionOut::Lost(reason) => panic!("nothing fails in the model: {reason}"),
            _ => {}
        }
    }

    fn arm_session(&mut self, session: u32) {
        let client = &mut self.sessions.all[session as usize];
        let Some(deadline_us) = client.session.next_deadline() else { return };
        let at_ns = (deadline_us * 1_000).max(self.now_ns);
        if client.tick_ns.is_none_or(|tick_ns| at_ns < tick_ns) {
            client.tick_ns = Some(at_ns);
            self.at(at_ns - self.now_ns, Event::SessionTick(session));
        }
    }
}

/// The label of an input of a session, and the names of the path in it.
fn of_input(input: &Input<SessionIn>) -> (&'static str, u32) {
    match input {
        Input::Own(SessionIn::Fs(FsRequest { op: FsOp::Resolve { names, kept, .. }, .. })) => {
            (if *kept { SESSION_KEPT } else { SESSION_ASKS }, names.len() as u32)
        }
        Input::Own(SessionIn::Fs(_)) => (SESSION_ASKS, 1),
        _ => (SESSION_HEARS, 0),
    }
}
