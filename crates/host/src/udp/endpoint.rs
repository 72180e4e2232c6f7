//! An endpoint: its sockets and threads, and the sending side.

use super::hello::{ClusterIs, Hello, HostIs, HostStatus};
use super::hosts::Hosts;
use super::peers::{Other, OtherState, Peers};
use super::socket::{Socket, datagram_bytes_to};
use super::strangers::{Budget, Budgets, Challenges};
use super::timer::Timer;
use super::ways::Ways;
use super::{THIS_PROCESS, UdpError, Wait, greet, receive, timer, told};
use crate::clock::CLOCK;
use crate::known::{Admission, Directory, Next};
use crate::metrics;
use crate::node::{Counters, Link, Node};
use crate::sys;
use bytes::Bytes;
use onpath_transport::handshake::{self, To};
use onpath_transport::{Agreed, Config, EndpointId, Exchange, Head, Keyring, Keys, Room, Transmit};
use onpath_wire::codec::{Blob, Wire};
use onpath_wire::identity::Holder;
use onpath_wire::ids::NodeId;
use onpath_wire::innet::cache::CacheOp;
use onpath_wire::innet::{DirtySetOp, InNet, VisibilityOp};
use onpath_wire::packet::Packet;
use onpath_wire::report::MountReport;
use onpath_wire::secrets::{Pass, Placement};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;

/// A host from which nothing came for so long does not answer greetings, microseconds.
const SILENT_US: u64 = 3_000_000;
/// A client from which nothing came for so long does not extend its lease, as each does several times in that time, microseconds.
const SILENT_CLIENT_US: u64 = 5_000_000;

/// What an endpoint is made from.
#[derive(Debug)]
pub struct EndpointConfig {
    /// This process.
    pub me: EndpointId,
    /// Number of the file system.
    pub cluster: u32,
    /// The keys that all of them share, if messages are sealed.
    pub keys: Option<Keys>,
    /// Where to listen; port 0 for any.
    pub bind: SocketAddr,
    /// The hosts, each with its address.
    pub hosts: Vec<(HostIs, SocketAddr)>,
    /// Whether clients may greet.
    pub serves: bool,
    /// How its threads wait.
    pub wait: Wait,
    /// Of a client: which session it is.
    pub pass: Pass,
}

/// What an endpoint asks of its process.
pub trait EndpointHooks: Send + Sync {
    /// Another host has started again, or for the first time that this process knows: what its roles were sent may be lost.
    fn began_anew(&self, node: &Node, roles: &[NodeId]);
    /// Another process, or this one, is there. Told again and again.
    fn reached_at(&self, _roles: &[NodeId], _place: SocketAddr) {}
    /// The directory of this host, as others are told of it.
    fn directory(&self) -> Directory {
        Directory::default()
    }
    /// Whether messages of a host with that directory are taken.
    fn admits(&self, _host: u16, _told: Directory) -> Admission {
        Admission::Admitted
    }
    /// What a host has told that its directory gives out next.
    fn next_of(&self, _host: u16) -> Next {
        Next::default()
    }
    /// A host takes the messages of this one. Told again and again.
    fn taken_by(&self, _host: u16) {}
    /// A host knows another directory of this one, or a later state of it. Told again and again.
    fn strange_to(&self, _host: u16, _old: bool) {}
    /// Whether clients are served already.
    fn serves(&self) -> bool {
        true
    }
    /// The switches that track directories, in the order of their ranges; none if owners do, or if nobody here knows.
    fn tracked_by(&self) -> Vec<u16> {
        Vec::new()
    }
    /// Whether a client was given that pass, as whose session it says, by a host of this file system. Who has none of its secrets cannot
    /// know.
    fn gave(&self, _pass: &Pass) -> bool {
        true
    }
    /// A client asks for a session, which will be `holder`'s: that and where names are, if this host gives them, and what there is.
    fn join(&self, _holder: Holder) -> Result<(Pass, Option<Placement>, ClusterIs), String> {
        Err("this is no host of a cluster".to_owned())
    }
}

/// What is counted.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) datagrams_received: AtomicU64,
    pub(super) datagrams_sent: AtomicU64,
    pub(super) sends_failed: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) foreign: AtomicU64,
    pub(super) malformed: AtomicU64,
    pub(super) strangers: AtomicU64,
    pub(super) greetings: AtomicU64,
    pub(super) joins: AtomicU64,
    pub(super) challenges: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) disallowed: AtomicU64,
}

pub(super) struct Shared {
    pub(super) config: Arc<Config>,
    pub(super) serves: bool,
    pub(super) wait: Wait,
    pub(super) socket: Socket,
    /// Its ways to the switches.
    ways: Mutex<Ways>,
    pub(super) hosts: Hosts,
    pub(super) peers: Peers,
    pub(super) node: OnceLock<Arc<Node>>,
    pub(super) hooks: Box<dyn EndpointHooks>,
    pub(super) timer: Timer,
    pub(super) stopped: AtomicBool,
    pub(super) counts: Counts,
    /// Answers to clients that join, the last ones.
    pub(super) joins: Mutex<greet::Joins>,
    pub(super) reports: Mutex<told::Reports>,
    /// Numbers of handshakes.
    handshakes: AtomicU64,
    pub(super) challenges: Challenges,
    pub(super) budgets: Budgets,
    exchange: Exchange,
    pub(super) pass: Pass,
    pub(super) started_us: u64,
    /// Sockets of switches here.
    pub(super) switches: Mutex<Vec<Arc<Socket>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The way of a process to all others.
pub struct Endpoint {
    pub(super) shared: Arc<Shared>,
}

struct UdpLink(Arc<Shared>);

impl Link for UdpLink {
    fn send(&self, to: NodeId, packet: Packet) {
        self.0.send_all(&mut vec![(to, packet)]);
    }

    fn send_all(&self, messages: &mut Vec<(NodeId, Packet)>) {
        self.0.send_all(messages);
    }
}

impl Endpoint {
    /// Binds the socket of an endpoint.
    pub fn bind(config: EndpointConfig, hooks: impl EndpointHooks + 'static) -> Result<Endpoint, UdpError> {
        let EndpointConfig { me, cluster, keys, bind, hosts, serves, wait, pass } = config;
        let io = |what| move |source| UdpError::Io { what, source };
        let boot = u64::from_le_bytes(sys::random_bytes().map_err(io("random bytes"))?).max(1);
        let challenges = Challenges::new(sys::random_bytes().map_err(io("random bytes"))?);
        let budgets = Budgets::new(sys::random_bytes().map_err(io("random bytes"))?);
        let exchange = Exchange::new(sys::random_bytes().map_err(io("random bytes"))?);
        let socket = Socket::bind(bind).map_err(|source| UdpError::Bind { address: bind, source })?;
        let config = Arc::new(Config { cluster, me, boot, keyring: Keyring::new(keys), room: Room::default() });
        let shared = Shared {
            peers: Peers::new(config.clone(), &hosts, exchange.agree(exchange.public())),
            config,
            serves,
            wait,
            socket,
            ways: Mutex::default(),
            hosts: Hosts::new(&hosts),
            node: OnceLock::new(),
            hooks: Box::new(hooks),
            timer: Timer::default(),
            stopped: AtomicBool::new(false),
            counts: Counts::default(),
            joins: Mutex::default(),
            reports: Mutex::default(),
            handshakes: AtomicU64::new(0),
            challenges,
            budgets,
            exchange,
            pass,
            started_us: sys::mono_us(),
            switches: Mutex::default(),
            threads: Mutex::default(),
        };
        Ok(Endpoint { shared: Arc::new(shared) })
    }

    /// Begins to receive, and becomes the way of `node` to all roles that it does not have.
    pub fn start(&self, node: &Arc<Node>) -> Result<(), UdpError> {
        node.attach_default(self.link());
        self.receive_for(node)
    }

    /// The way to all others.
    pub fn link(&self) -> Arc<dyn Link> {
        Arc::new(UdpLink(self.shared.clone()))
    }

    /// Begins to receive for `node`, which has its way to others already.
    pub fn receive_for(&self, node: &Arc<Node>) -> Result<(), UdpError> {
        assert!(self.shared.node.set(node.clone()).is_ok(), "an endpoint is started once");
        CLOCK.be_steady(sys::reading);
        self.shared.spawn("udp", receive::run)?;
        self.shared.spawn("udp-timer", timer::run)?;
        if let Some(this) = self.shared.peers.get(self.shared.config.me) {
            let place = this.lock().address;
            self.shared.hooks.reached_at(&this.roles, place);
        }
        if self.shared.serves {
            let shared = self.shared.clone();
            node.add_section("hosts", Box::new(move || shared.hosts_as_json()));
            let shared = self.shared.clone();
            node.add_section("tracked_by", Box::new(move || shared.hooks.tracked_by().into()));
        }
        let shared = self.shared.clone();
        add_counters(node, "udp", move || shared.status());
        let shared = self.shared.clone();
        add_counters(node, "transport", move || {
            shared.peers.counted().iter().map(|(name, value)| (name.to_owned(), value)).collect()
        });
        Ok(())
    }

    /// Whether a host with shards was silent for so long that it must be gone: hosts that have nothing to say are greeted.
    pub fn misses_a_host(&self) -> bool {
        let since = sys::mono_us().saturating_sub(SILENT_US);
        let has_shards = |other: &&Arc<Other>| other.fixed && other.roles.iter().any(|role| role.as_shard().is_some());
        self.shared.peers.all().iter().filter(has_shards).any(|other| other.lock().heard_us < since)
    }

    /// Numbers of the other hosts that have not said that they take the messages of this one: what is for them waits.
    pub fn missing(&self) -> Vec<u16> {
        let is_missing =
            |other: &&Arc<Other>| other.fixed && other.endpoint != self.shared.config.me && !other.lock().greeted;
        self.shared.peers.all().iter().filter(is_missing).map(|other| other.endpoint.0 as u16).collect()
    }

    /// Tells the host that has this shard what the mount of this process has done, and the others that it is there; lost by hosts that
    /// are gone.
    pub fn tell(&self, shard: NodeId, report: &MountReport) {
        let adds_up = self.shared.peers.endpoint_of(shard);
        let (all, to_others) = (report.to_bytes(), report.to_others().to_bytes());
        for other in self.shared.peers.all().iter().filter(|other| other.fixed) {
            let told = if Some(other.endpoint) == adds_up { &all } else { &to_others };
            let (now_us, mut state) = (sys::mono_us(), other.lock());
            self.shared.queue(&mut state, now_us, THIS_PROCESS, Packet::encoded(told.clone(), Bytes::new()));
            self.shared.transmit_of(other, &mut state, now_us);
        }
    }

    /// What is to be told other keys, if messages are sealed.
    pub fn keyring(&self) -> impl Fn(Keys) + Send + 'static {
        let keyring = self.shared.config.keyring.clone();
        move |keys| keyring.set(keys)
    }

    /// Stops receiving and sending.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Release);
        self.shared.timer.stop();
        self.shared.socket.stop();
        self.shared.switches.lock().expect("starting does not panic").iter().for_each(|socket| socket.stop());
        let threads = std::mem::take(&mut *self.shared.threads.lock().expect("starting does not panic"));
        for thread in threads {
            if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
                tracing::error!("a thread of the endpoint panicked");
            }
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The status has these counters, and what a former endpoint of this process has counted stays in them.
fn add_counters(node: &Node, role: &'static str, source: impl Fn() -> Counters + Send + Sync + 'static) {
    let before = node.remove_status(role).unwrap_or_default();
    let counts = |name: &str| {
        let metric = metrics::group(role).and_then(|group| group.metric(name));
        metric.is_some_and(|metric| metric.kind == metrics::Kind::Counter)
    };
    let before: BTreeMap<String, u64> = before.into_iter().filter(|(name, _)| counts(name)).collect();
    let sum = move || {
        let earlier = |name: &str| before.get(name).copied().unwrap_or_default();
        source()
            .into_iter()
            .map(|(name, value)| (earlier(&name) + value, name))
            .map(|(sum, name)| (name, sum))
            .collect()
    };
    node.add_status(role.to_owned(), Box::new(sum));
}

/// Whether a packet only asks the switch, and is of use without its answer.
fn asks(packet: &Packet) -> bool {
    match packet.innet.as_deref() {
        Some(InNet::DirtySet(header)) => header.op() == Some(DirtySetOp::Query),
        Some(InNet::Visibility(header)) => header.op() == Some(VisibilityOp::Look),
        Some(InNet::Cache(header)) => header.op() == CacheOp::Read,
        None => false,
    }
}

thread_local! {
    /// What the thread is about to give to a socket.
    static TRANSMIT: RefCell<Transmit> = RefCell::default();
}

impl Shared {
    pub(super) fn node(&self) -> &Arc<Node> {
        self.node.get().expect("threads run once there is a node")
    }

    /// Starts a thread that ends soon after the endpoint is stopped.
    pub(super) fn spawn(
        self: &Arc<Self>,
        name: &str,
        run: impl FnOnce(&Arc<Shared>) + Send + 'static,
    ) -> Result<(), UdpError> {
        let shared = self.clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&shared));
        let thread = thread.map_err(|source| UdpError::Io { what: "a thread", source })?;
        self.threads.lock().expect("starting does not panic").push(thread);
        Ok(())
    }

    fn send_all(&self, messages: &mut Vec<(NodeId, Packet)>) {
        let now_us = sys::mono_us();
        if messages.iter().any(|(_, packet)| packet.wants_switch()) {
            self.send_switched(messages, now_us);
        }
        let mut touched: SmallVec<[EndpointId; 4]> = SmallVec::new();
        let mut messages = messages.drain(..).peekable();
        while let Some((to, packet)) = messages.next() {
            let Some(endpoint) = self.peers.endpoint_of(to) else {
                self.count_lost();
                continue;
            };
            let known = self.peers.with(endpoint, |other| {
                let mut state = other.lock();
                self.queue(&mut state, now_us, to, packet);
                while let Some((to, packet)) = messages.next_if(|(to, _)| other.has(*to)) {
                    self.queue(&mut state, now_us, to, packet);
                }
                // Usually they are all for one peer.
                if messages.peek().is_none() && touched.is_empty() {
                    self.transmit_of(other, &mut state, now_us);
                } else if !touched.contains(&endpoint) {
                    touched.push(endpoint);
                }
            });
            if known.is_none() {
                self.count_lost();
            }
        }
        for endpoint in touched {
            self.peers.with(endpoint, |other| self.transmit(other, now_us));
        }
    }

    pub(super) fn queue(&self, state: &mut OtherState, now_us: u64, to: NodeId, packet: Packet) {
        if state.peer.send(now_us, to, packet).is_err() {
            self.count_lost();
        }
    }

    /// Gives to the socket what a peer may be sent now, and to the timer what has to wait.
    pub(super) fn transmit(&self, other: &Other, now_us: u64) {
        self.transmit_of(other, &mut other.lock(), now_us);
    }

    fn transmit_of(&self, other: &Other, state: &mut OtherState, now_us: u64) {
        TRANSMIT.with_borrow_mut(|out| {
            while state.peer.poll_transmit(now_us, out) {
                let sent = state.transmit(&self.socket, &out.buf, out.segment);
                self.counts.datagrams_sent.fetch_add(out.buf.len().div_ceil(out.segment) as u64, Ordering::Relaxed);
                if let Err(error) = sent {
                    self.failed(state, &error, now_us);
                }
                if state.peer.next_deadline().is_none() {
                    return; // nothing is left
                }
            }
            self.arm(other.endpoint, state);
        });
    }

    /// A peer could not be sent something. If the way there takes only shorter datagrams than before, it gets these from now on.
    fn failed(&self, state: &mut OtherState, error: &io::Error, now_us: u64) {
        self.counts.sends_failed.fetch_add(1, Ordering::Relaxed);
        if error.raw_os_error() == Some(libc::EMSGSIZE) && state.may_ask_path(now_us) {
            self.ask_path(state, now_us);
        }
    }

    /// Asks the system for the way to a peer, and for the longest datagram that gets there, and by switches if there are any.
    pub(super) fn ask_path(&self, state: &mut OtherState, now_us: u64) {
        let bytes =
            self.hosts.switches().into_iter().map(datagram_bytes_to).fold(datagram_bytes_to(state.address), usize::min);
        state.path_asked_us = now_us;
        state.open_lane(&self.socket);
        let before = state.peer.datagram_bytes();
        if state.peer.set_datagram_bytes(now_us, bytes) {
            tracing::info!(peer = state.peer.endpoint().0, before, bytes, "the way takes other datagrams than before");
        }
    }

    fn arm(&self, endpoint: EndpointId, state: &mut OtherState) {
        let Some(at_us) = state.peer.next_deadline() else { return };
        if state.armed_us == 0 || at_us < state.armed_us {
            state.armed_us = at_us;
            self.timer.at(at_us, endpoint);
        }
    }

    /// Sends those messages that want to pass a switch, each alone in its datagram. Left is what goes directly.
    fn send_switched(&self, messages: &mut Vec<(NodeId, Packet)>, now_us: u64) {
        let mut ways = self.ways.lock().expect("sending does not panic");
        let mut others: SmallVec<[EndpointId; 4]> = SmallVec::new();
        messages.retain_mut(|(to, packet)| {
            if !packet.wants_switch() {
                return true;
            }
            let Some(switch) = self.hosts.switch(packet.switch) else {
                if asks(packet) {
                    packet.innet = None; // its owner can tell without the switch, which is not known here
                    return true;
                }
                self.count_lost();
                return false;
            };
            // A mark for nobody that is known, but its shard, comes back to this process.
            let is_known = |endpoint: &EndpointId| self.peers.with(*endpoint, |_| ()).is_some();
            let endpoint = self.peers.endpoint_of(*to).filter(is_known).unwrap_or(self.config.me);
            let message = self.peers.with(endpoint, |other| other.lock().peer.single(*to, packet).ok());
            let Some(message) = message.flatten() else {
                self.count_lost();
                return false;
            };
            let header = packet.innet.as_deref().expect("it wants to pass the switch").bytes();
            ways.push(&self.socket, now_us, switch, &header, &message);
            self.counts.datagrams_sent.fetch_add(1, Ordering::Relaxed);
            others.push(endpoint);
            false
        });
        if let Err(error) = ways.flush(&self.socket, now_us) {
            for endpoint in others {
                self.peers.with(endpoint, |other| self.failed(&mut other.lock(), &error, now_us));
            }
        }
    }

    /// Asks with this challenge, sealed with the first key or, if there are two, with the second. Gives the number of the question, which
    /// is its own among all of this process.
    pub(super) fn ask(&self, address: SocketAddr, challenge: u64, by_second: bool, question: &Hello) -> u64 {
        let keys = self.config.keyring.keys().filter(|_| by_second);
        let key = keys.and_then(|keys| keys.second).map(|key| key.id());
        self.handshake(address, To { cluster: self.config.cluster, boot: challenge, key }, question)
    }

    /// Answers the question with this header.
    pub(super) fn answer(&self, address: SocketAddr, head: &Head, answer: &Hello) {
        self.handshake(address, To::answer(head), answer);
    }

    /// What others are told of the exchange of this start; nothing if messages are not sealed.
    pub(super) fn public(&self) -> Blob {
        Blob(if self.config.keyring.seals() { self.exchange.public().to_vec() } else { Vec::new() })
    }

    /// What is agreed with who has told this.
    pub(super) fn agree(&self, public: &[u8]) -> Option<Agreed> {
        match self.config.keyring.seals() {
            true => self.exchange.agree(public.try_into().ok()?),
            false => Some(Agreed::new([0; 32])), // nothing is sealed with it
        }
    }

    fn handshake(&self, address: SocketAddr, to: To, hello: &Hello) -> u64 {
        let count = self.handshakes.fetch_add(1, Ordering::Relaxed);
        let datagram = handshake::make(&self.config, to, count, &hello.to_bytes());
        self.counts.greetings.fetch_add(1, Ordering::Relaxed);
        if self.socket.send(address, &datagram, datagram.len()).is_err() {
            self.counts.sends_failed.fetch_add(1, Ordering::Relaxed);
        }
        count + 1
    }

    /// How many boots of the sender of a datagram were adopted before the one that it says.
    fn era(&self, head: &Head) -> u32 {
        self.peers.get(head.endpoint).map_or(0, |other| other.lock().era_of(head.boot))
    }

    /// Whether a question repeats the present challenge.
    pub(super) fn is_met(&self, head: &Head, from: SocketAddr, now_us: u64) -> bool {
        self.serves && self.challenges.is_met(head, from, self.era(head), now_us)
    }

    /// Challenges the sender of a datagram; `unknown`: of one that is no handshake.
    pub(super) fn challenge(&self, head: &Head, from: SocketAddr, unknown: bool, now_us: u64) {
        if !self.serves || head.endpoint == self.config.me {
            return self.malformed();
        }
        if !self.may(from, Budget::Challenges, now_us) {
            return;
        }
        let challenge = self.challenges.make(head, from, self.era(head), now_us);
        let datagram = handshake::challenge(&self.config, head, challenge, unknown);
        self.counts.challenges.fetch_add(1, Ordering::Relaxed);
        if self.socket.send(from, &datagram, datagram.len()).is_err() {
            self.counts.sends_failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes one of the budgets of an address, if something is left.
    pub(super) fn may(&self, from: SocketAddr, budget: Budget, now_us: u64) -> bool {
        let may = self.budgets.take(from.ip(), budget, now_us);
        self.counts.refused.fetch_add(u64::from(!may), Ordering::Relaxed);
        may
    }

    /// Whether another answer to somebody who is no peer may be sent there now.
    pub(super) fn may_answer(&self, from: SocketAddr, now_us: u64) -> bool {
        self.may(from, Budget::Answers, now_us)
    }

    /// What this host tells of itself to whom asks.
    pub(super) fn host_status(&self, now_us: u64) -> HostStatus {
        let peers = self.peers.all();
        let reaches = |other: &&Arc<Other>| other.fixed && other.lock().greeted;
        let number = |other: &Arc<Other>| other.endpoint.0 as u16;
        let mut reaches: Vec<u16> = peers.iter().filter(reaches).map(number).collect();
        reaches.sort_unstable();
        let is_client = |other: &&Arc<Other>| !other.fixed && other.endpoint != self.config.me;
        HostStatus {
            number: self.config.me.0 as u16,
            version: Blob(env!("CARGO_PKG_VERSION").as_bytes().to_vec()),
            uptime_ms: (now_us - self.started_us) / 1_000,
            reaches,
            clients: peers.iter().filter(is_client).count() as u32,
            lost: self.counts.lost.load(Ordering::Relaxed),
            tracked_by: self.hooks.tracked_by(),
            keys: self.config.keyring.keys().map_or_else(Vec::new, |keys| keys.all().map(|key| key.id()).collect()),
        }
    }

    fn status(&self) -> Counters {
        let c = &self.counts;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let peers = self.peers.all();
        let mut all: Counters = [
            ("datagrams_received", of(&c.datagrams_received)),
            ("datagrams_sent", of(&c.datagrams_sent)),
            ("sends_failed", of(&c.sends_failed)),
            ("messages_lost", of(&c.lost)),
            ("messages_foreign", of(&c.foreign)),
            ("datagrams_malformed", of(&c.malformed)),
            ("strangers", of(&c.strangers)),
            ("clock_steps", CLOCK.steps()),
            ("greetings", of(&c.greetings)),
            ("joins", of(&c.joins)),
            ("challenges", of(&c.challenges)),
            ("over_budget", of(&c.refused)),
            ("disallowed", of(&c.disallowed)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let silent = |fixed: bool, silent_us: u64| {
            let since = sys::mono_us().saturating_sub(silent_us);
            let is_silent = |other: &&Arc<Other>| {
                other.fixed == fixed && other.endpoint != self.config.me && other.lock().heard_us < since
            };
            peers.iter().filter(is_silent).count() as u64
        };
        let (hosts, clients) = (silent(true, SILENT_US), silent(false, SILENT_CLIENT_US));
        let peers = [("peers", peers.len() as u64), ("hosts_silent", hosts), ("clients_silent", clients)];
        all.extend(peers.map(|(name, value)| (name.to_owned(), value)));
        all
    }
}
