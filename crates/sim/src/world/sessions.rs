//! Real sessions in the world: the role of `onpath-session`, asked in the language of system calls.

use super::World;
use super::faults::{Asked, shown};
use super::halves::Half;
use super::kernel::KernelCache;
use super::process::Server;
use super::queue::Event;
use super::role::Role;
use crate::check::Rest;
use crate::model::Caller;
use onpath_kernel::{Input, Output, Role as _};
use onpath_session::fs::{FsOp, FsRequest, FsResult, WaysAt};
use onpath_session::{AccessTimes, KeptWays, LostReason, ReadCaller, Session, SessionConfig, SessionIn, SessionOut};
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{NodeId, SessionNumber};
use onpath_wire::packet::Packet;
use onpath_wire::request::{Request, RequestBody};

/// Ids of sessions begin here; raw clients have smaller ones.
pub(crate) const FIRST_SESSION: u32 = 1_000;
/// From one session to the next that has its id.
const LAP: u64 = (1 << 24) - 1;

/// A session and its callers.
pub(crate) struct SessionNode {
    pub(super) node: NodeId,
    number: SessionNumber,
    joined: bool,
    pub(super) session: Session,
    pub(super) kernel: KernelCache,
    tick_ns: Option<u64>,
    /// Who has which thread id: index + 1.
    callers: Vec<Caller>,
    next_unique: u64,
    pub(super) dead: bool,
    /// Until then the coordinator hears nothing of its being alive, ns.
    unheard_until_ns: u64,
    /// What its clock is off.
    pub(super) skew_ns: i64,
    /// What it is off beyond all bounds.
    pub(super) wrong_ns: i64,
    /// Calls under way, where disks may be full.
    pub(super) asked: Vec<Asked>,
    /// Calls of which the kernel makes several.
    pub(super) halves: Vec<Half>,
}

/// A finished system call.
#[derive(Debug)]
pub struct Finished {
    /// Which session.
    pub session: usize,
    /// Which request.
    pub unique: u64,
    /// How it ended.
    pub result: FsResult,
}

impl World {
    /// Adds a session, whose callers are those of `callers`.
    pub fn add_session(&mut self, callers: &[Caller]) -> usize {
        self.add(callers, false, 0)
    }

    /// Adds a session that keeps ways in so many bytes.
    pub fn add_keeping_session(&mut self, callers: &[Caller], bytes: usize) -> usize {
        self.add(callers, false, bytes)
    }

    /// Adds a session whose kernel caches while it is alone.
    pub fn add_caching_session(&mut self, callers: &[Caller]) -> usize {
        self.add(callers, true, 0)
    }

    fn add(&mut self, callers: &[Caller], caches: bool, kept_bytes: usize) -> usize {
        let index = self.sessions.len();
        let successor = self.successor();
        self.counters.faults.successors += u64::from(successor.is_some());
        let number = successor.unwrap_or(SessionNumber(u64::from(FIRST_SESSION) + index as u64));
        let config = SessionConfig {
            session: number,
            cluster: 1,
            map: self.map.clone(),
            soft: false,
            access_times: AccessTimes::default(),
            in_halves: self.config.in_halves,
            caches,
            identity: None,
            kept_ways: KeptWays { bytes: kept_bytes, key: [7; 16] },
        };
        callers.iter().for_each(|caller| self.checker.knows(caller));
        self.sessions.push(SessionNode {
            node: NodeId::session(number.id()),
            number,
            joined: false,
            session: Session::new(config),
            kernel: KernelCache::default(),
            tick_ns: None,
            callers: callers.to_vec(),
            next_unique: 0,
            dead: false,
            unheard_until_ns: 0,
            skew_ns: 0,
            wrong_ns: 0,
            asked: vec![],
            halves: vec![],
        });
        self.session_input(index, Input::Tick);
        index
    }

    /// A session that has the id of one that is over, as soon as the registry has forgotten that. (A file system gives an id again only when
    /// all others were given: by then nobody joins any more who was given it before.)
    fn successor(&self) -> Option<SessionNumber> {
        let registry = self.registry()?;
        let over = self.sessions.iter().filter(|session| session.dead && session.joined).map(|session| session.number);
        let followed = |number: SessionNumber| {
            self.sessions.iter().any(|s| s.node == NodeId::session(number.id()) && s.number > number)
        };
        let free = over.filter(|&number| !followed(number) && !registry.contains(&number));
        free.map(|number| SessionNumber(number.0 + LAP)).next()
    }

    /// The session with this address that came last.
    pub(super) fn session_at(&self, node: NodeId) -> Option<usize> {
        self.sessions.iter().rposition(|session| session.node == node)
    }

    /// One of a session's callers asks; the number of the request.
    pub fn system_call(&mut self, session: usize, caller: usize, op: FsOp) -> u64 {
        let target = &mut self.sessions[session];
        target.next_unique += 1;
        let unique = target.next_unique;
        target.kernel.asks(unique, &op);
        if self.config.faults.full_every > 0 {
            let fulls = self.checker.fulls_over();
            target.asked.push(Asked { unique, caller, op: op.clone(), fulls, written: 0 });
        }
        let op = self.first_half(session, unique, caller, op);
        self.ask(session, unique, caller, op);
        unique
    }

    /// The same of what ways led to that the session has kept.
    pub fn system_call_by_ways(&mut self, session: usize, caller: usize, op: FsOp, by_ways: WaysAt) -> u64 {
        let target = &mut self.sessions[session];
        target.next_unique += 1;
        let unique = target.next_unique;
        target.kernel.asks(unique, &op);
        self.ask_by(session, unique, caller, op, Some(by_ways));
        unique
    }

    fn ask(&mut self, session: usize, unique: u64, caller: usize, op: FsOp) {
        self.ask_by(session, unique, caller, op, None);
    }

    fn ask_by(&mut self, session: usize, unique: u64, caller: usize, op: FsOp, by_ways: Option<WaysAt>) {
        let who = &self.sessions[session].callers[caller];
        let known_group = None;
        let pid = caller as u32 + 1;
        let caller = onpath_session::fs::Caller { uid: who.uid, gid: who.gid, pid, known_group, free_links: false };
        self.narrate(|| format!("session {} calls #{unique} {op:?}", FIRST_SESSION as usize + session));
        self.session_input(session, Input::Own(SessionIn::Fs(FsRequest { unique, caller, op, by_ways })));
    }

    /// A system call that found no space is made again.
    pub(super) fn ask_again(&mut self, session: usize, unique: u64) {
        let asked = self.sessions[session].asked.iter().find(|asked| asked.unique == unique);
        let Some(Asked { caller, op, .. }) = asked.cloned() else { return }; // the session has died
        let op = self.first_half(session, unique, caller, op);
        self.ask(session, unique, caller, op);
    }

    /// A session dies with its callers, without a word; what it asked is never answered.
    pub fn kill_session(&mut self, session: usize) {
        self.sessions[session].dead = true;
        self.sessions[session].asked.clear();
        self.sessions[session].halves.clear();
        self.counters.faults.deaths += 1;
        self.narrate(|| format!("session {} dies", FIRST_SESSION as usize + session));
        self.finished.retain(|finished| finished.session != session);
    }

    /// A session leaves properly; what it still asks is not answered any more.
    pub fn leave_session(&mut self, session: usize) {
        self.narrate(|| format!("session {} leaves", FIRST_SESSION as usize + session));
        self.session_input(session, Input::Own(SessionIn::Shutdown));
    }

    pub(super) fn session_shared(&mut self, session: usize) {
        self.session_input(session, Input::Own(SessionIn::Shared));
    }

    /// For so long whatever would tell the coordinator that a session lives is lost: perhaps it is declared dead meanwhile.
    pub(crate) fn silence_session(&mut self, session: usize, for_ns: u64) {
        self.sessions[session].unheard_until_ns = self.now_ns + for_ns;
        self.narrate(|| format!("session {} is not heard of any more", FIRST_SESSION as usize + session));
    }

    /// Whether a session has died, or knows that it was declared dead.
    pub(crate) fn is_dead(&self, session: usize) -> bool {
        self.sessions[session].dead
    }

    fn is_unheard(&self, session: usize, packet: &Packet) -> bool {
        let body = || packet.body::<RequestBody>().map(|body| body.request);
        self.now_ns < self.sessions[session].unheard_until_ns
            && packet.header().is_ok_and(|header| header.kind() == MessageKind::Request)
            && matches!(body(), Ok(Request::Renew | Request::RenewAlone | Request::Attach { .. }))
    }

    /// Sessions that are alive.
    pub fn sessions_alive(&self) -> usize {
        self.sessions.iter().filter(|session| !session.dead).count()
    }

    /// Everything that shards and data nodes have now.
    pub fn rest(&self) -> Rest {
        let mut rest = Rest { queues: self.gauges(), ..Rest::default() };
        for server in self.processes.iter().flat_map(|process| &process.servers) {
            match &server.role {
                Role::Shard(shard) => {
                    let running = shard.status().iter().find(|(name, _)| *name == "requests_running").map(|(_, n)| *n);
                    rest.running += running.unwrap_or(0);
                    rest.shards.push(shard.survey());
                }
                Role::Data(data) => {
                    rest.files.extend(data.files().into_iter().map(|file| (server.node, file)));
                    rest.merges += data.pending_merges().len();
                }
                Role::Path(_) | Role::Controller(_) => {}
            }
        }
        rest
    }

    /// A figure of all path nodes together, as `onpath status` has it.
    ///
    /// # Panics
    /// There is no such figure.
    pub fn counted_by_path_nodes(&self, name: &str) -> u64 {
        let servers = self.processes.iter().flat_map(|process| &process.servers);
        let figure = |server: &Server| match &server.role {
            Role::Path(path) => {
                path.status().into_iter().find(|(of, _)| *of == name).expect("a figure of path nodes").1
            }
            _ => 0,
        };
        servers.map(figure).sum()
    }

    /// Sessions that the registry holds to be alive.
    pub fn sessions_registered(&self) -> usize {
        self.registry().map_or(0, |sessions| sessions.len())
    }

    /// What the registry has; nothing while it is down.
    fn registry(&self) -> Option<Vec<SessionNumber>> {
        let coordinator = NodeId::shard(self.map.coordinator());
        let mut servers = self.processes.iter().flat_map(|process| &process.servers);
        match &servers.find(|server| server.node == coordinator)?.role {
            Role::Shard(shard) => Some(shard.survey().sessions),
            Role::Data(_) | Role::Path(_) | Role::Controller(_) => None,
        }
    }

    /// The next finished system call.
    pub fn finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    pub(super) fn session_hears(&mut self, session: usize, packet: Packet) {
        self.session_input(session, Input::Packet(packet));
    }

    pub(super) fn session_timer(&mut self, session: usize) {
        let target = &mut self.sessions[session];
        if target.tick_ns != Some(self.now_ns) {
            return;
        }
        target.tick_ns = None;
        self.session_input(session, Input::Tick);
    }

    fn session_input(&mut self, number: usize, input: Input<SessionIn>) {
        if self.sessions[number].dead {
            return;
        }
        let now = shown(self.now_ns, self.sessions[number].skew_ns + self.sessions[number].wrong_ns);
        self.sessions[number].session.handle(now, input);
        let (mut asks, mut kinds, mut written_back, mut next, mut over) = (vec![], vec![], vec![], vec![], false);
        while let Some(output) = self.sessions[number].session.poll_output() {
            match output {
                Output::Send { packet, .. } if self.is_unheard(number, &packet) => {}
                Output::Send { to, packet, .. } => {
                    self.checker.sent_by_session(&packet);
                    let from = self.sessions[number].node;
                    self.narrate_message("asks", from, to, &packet);
                    self.transmit(super::process::Flight { from, to, packet });
                }
                Output::Own(SessionOut::Reply { unique, result }) => {
                    self.narrate(|| {
                        format!("session {} answers #{unique} {result:?}", FIRST_SESSION as usize + number)
                    });
                    match self.next_half(number, unique, result) {
                        Ok(result) => self.answered(number, unique, result),
                        Err((caller, op)) => next.push((unique, caller, op)),
                    }
                }
                Output::Own(SessionOut::ReadCaller { ticket, question }) => asks.push((ticket, question.pid)),
                Output::Own(SessionOut::HowItWaits { ticket, .. }) => kinds.push(ticket),
                Output::Own(SessionOut::Alone { alone, until_us }) => {
                    self.sessions[number].kernel.is_alone(alone, until_us * 1_000);
                }
                Output::Own(SessionOut::WriteBack { id }) => written_back.push(id),
                Output::Own(SessionOut::Share { upto, .. }) => self.session_shares(number, upto),
                Output::Own(SessionOut::Forget { .. }) => self.sessions[number].kernel.forget(),
                Output::Own(SessionOut::Attached) => self.sessions[number].joined = true,
                Output::Own(SessionOut::Lost(LostReason::Detached)) => self.sessions[number].dead = true,
                // The simulator's sessions do not come back under another id.
                Output::Own(SessionOut::Expired) if self.sessions[number].unheard_until_ns > 0 => {
                    self.narrate(|| format!("session {} knows that it is dead", FIRST_SESSION as usize + number));
                    over = true;
                }
                Output::Own(SessionOut::Expired) => {
                    self.checker.violation(format!("session {number} was declared dead"));
                }
                Output::Own(SessionOut::Lost(reason)) => {
                    self.checker.violation(format!("session {number} is lost: {reason}"))
                }
                Output::Own(SessionOut::Invalidate { .. }) | Output::Append { .. } | Output::Flush => {}
            }
        }
        for (ticket, pid) in asks {
            let caller = &self.sessions[number].callers[pid as usize - 1];
            let read = ReadCaller { groups: Some(caller.groups.to_vec()), caps: caller.caps.clone() };
            self.session_input(number, Input::Own(SessionIn::Caller { ticket, read }));
        }
        for id in written_back {
            self.session_input(number, Input::Own(SessionIn::WrittenBack { id }));
        }
        for ticket in kinds {
            self.session_input(number, Input::Own(SessionIn::WaitsAs { ticket, process: Some(true) }));
        }
        for (unique, caller, op) in next {
            self.ask(number, unique, caller, op);
        }
        if over {
            self.session_input(number, Input::Own(SessionIn::Shutdown));
        }
        self.look_at_session(number);
        self.arm_session(number);
    }

    fn answered(&mut self, session: usize, unique: u64, result: FsResult) {
        if let Some(result) = self.with_space(session, unique, result) {
            self.sessions[session].kernel.hears(unique, &result, self.now_ns);
            self.answers.1 += 1;
            self.finished.push_back(Finished { session, unique, result });
        }
    }

    fn arm_session(&mut self, number: usize) {
        let target = &mut self.sessions[number];
        let Some(deadline_us) = target.session.next_deadline() else { return };
        let at_ns = deadline_us.saturating_mul(1000).max(self.now_ns);
        if target.tick_ns.is_none_or(|tick| at_ns < tick) {
            target.tick_ns = Some(at_ns);
            self.queue.push(at_ns, Event::Session(number as u16));
        }
    }
}
