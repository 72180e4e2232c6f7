//! The hosts that an endpoint knows, which may become more and less while it runs: those that are switches and nothing else.

use super::endpoint::{Endpoint, Shared};
use super::endpoint_of_host;
use super::hello::{Hello, HostIs};
use super::peers::OtherState;
use crate::sys;
use hashbrown::{HashMap, HashSet};
use onpath_transport::Head;
use onpath_wire::codec::Blob;
use onpath_wire::ids::NodeId;
use serde_json::{Value, json};
use smallvec::SmallVec;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};

/// How often hosts are asked for a switch that nobody here knows, microseconds.
const ASK_US: u64 = 1_000_000;
/// Hosts that a process can know: as many as there are numbers of switches.
const HOSTS_MAX: usize = 255;

/// The hosts, by number.
pub(super) struct Hosts {
    all: RwLock<HashMap<u16, (HostIs, SocketAddr)>>,
    /// Whence those send that were there at the start: all that can have shards.
    sources: HashSet<SocketAddr>,
    /// Whence switches send.
    switches: RwLock<HashSet<SocketAddr>>,
    /// A host whose switch is wanted and not known, 0 for none.
    wanted: AtomicU16,
    ask_us: AtomicU64,
    /// The host that was asked for last, and the numbers of the first and the last of those questions.
    asked: Mutex<Option<(u16, u64, u64)>>,
}

impl Hosts {
    pub(super) fn new(hosts: &[(HostIs, SocketAddr)]) -> Hosts {
        let all = hosts.iter().map(|(host, address)| (host.number, (host.clone(), *address))).collect();
        let sources = hosts.iter().map(|(_, address)| source(*address)).collect();
        let switches = RwLock::new(switches_of(&all));
        Hosts {
            all: RwLock::new(all),
            switches,
            sources,
            wanted: AtomicU16::new(0),
            ask_us: AtomicU64::new(0),
            asked: Mutex::default(),
        }
    }

    /// Whether datagrams that come from there are a host's.
    pub(super) fn is_host(&self, from: SocketAddr) -> bool {
        self.sources.contains(&source(from))
    }

    /// Whether the last questions for a host have this number among them.
    pub(super) fn is_asked(&self, question: u64) -> bool {
        let asked = *self.asked.lock().expect("numbers do not panic");
        asked.is_some_and(|(_, first, last)| (first..=last).contains(&question))
    }

    /// All of them, by number.
    pub(super) fn known(&self) -> Vec<(HostIs, SocketAddr)> {
        let mut all: Vec<_> = self.all.read().expect("the table does not panic").values().cloned().collect();
        all.sort_by_key(|(host, _)| host.number);
        all
    }

    /// Where switches take packets.
    pub(super) fn switches(&self) -> SmallVec<[SocketAddr; 2]> {
        let all = self.all.read().expect("the table does not panic");
        let have = all.values().filter(|(host, _)| host.switch_port != 0);
        have.map(|(host, address)| SocketAddr::new(address.ip(), host.switch_port)).collect()
    }

    /// Whether datagrams that come from there are a switch's.
    pub(super) fn is_switch(&self, from: SocketAddr) -> bool {
        self.switches.read().expect("the table does not panic").contains(&source(from))
    }

    /// The table, changed.
    fn change(&self, change: impl FnOnce(&mut HashMap<u16, (HostIs, SocketAddr)>)) {
        let mut all = self.all.write().expect("the table does not panic");
        change(&mut all);
        *self.switches.write().expect("the table does not panic") = switches_of(&all);
    }

    /// Where a switch takes packets; who does not know it will ask for it.
    pub(super) fn switch(&self, switch: NodeId) -> Option<SocketAddr> {
        let number = switch.number() as u16;
        let all = self.all.read().expect("the table does not panic");
        match all.get(&number) {
            Some((host, address)) if host.switch_port != 0 => Some(SocketAddr::new(address.ip(), host.switch_port)),
            _ => {
                self.wanted.store(number, Ordering::Relaxed);
                None
            }
        }
    }
}

fn switches_of(all: &HashMap<u16, (HostIs, SocketAddr)>) -> HashSet<SocketAddr> {
    let have = all.values().filter(|(host, _)| host.switch_port != 0);
    have.map(|(host, address)| source(SocketAddr::new(address.ip(), host.switch_port))).collect()
}

/// Address and port alone, however the system writes them.
pub(super) fn source(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl Shared {
    /// The hosts, each with the milliseconds since something came from it; of this one there is nothing to come.
    pub(super) fn hosts_as_json(&self) -> Value {
        let now_us = sys::mono_us();
        let host = |(host, address): (HostIs, SocketAddr)| {
            let me = endpoint_of_host(host.number) == self.config.me;
            let heard = self.peers.get(endpoint_of_host(host.number)).filter(|_| !me);
            let heard_ms = heard.map(|other| now_us.saturating_sub(other.lock().heard_us.max(self.started_us)) / 1_000);
            json!({
                "number": host.number,
                "name": String::from_utf8_lossy(&host.name.0),
                "address": address.to_string(),
                "shards": host.shards,
                "data": host.data,
                "switch": host.switch_port != 0,
                "path": host.path,
                "this": me,
                "heard_ms": heard_ms,
            })
        };
        self.hosts.known().into_iter().map(host).collect()
    }
}

impl Endpoint {
    /// From now on these are the hosts. What others have but switches stays as it was at the start.
    pub fn set_hosts(&self, hosts: &[(HostIs, SocketAddr)]) {
        let shared = &self.shared;
        let gone: Vec<u16> = {
            let all = shared.hosts.all.read().expect("the table does not panic");
            all.keys().copied().filter(|number| hosts.iter().all(|(host, _)| host.number != *number)).collect()
        };
        for number in gone {
            shared.hosts.change(|all| _ = all.remove(&number));
            shared.peers.remove(number);
        }
        hosts.iter().for_each(|(host, address)| shared.know(host, *address));
    }
}

impl Shared {
    /// Knows a host from now on, and whether it has a switch.
    fn know(&self, host: &HostIs, address: SocketAddr) {
        let known = self.hosts.all.read().expect("the table does not panic").get(&host.number).cloned();
        let address = known.map_or(address, |(_, address)| address);
        self.hosts.change(|all| _ = all.insert(host.number, (host.clone(), address)));
        self.peers.add(host, address);
    }
}

/// Asks all hosts for the switch that is wanted, if there is one.
pub(super) fn ask(shared: &Shared, now_us: u64) {
    let number = shared.hosts.wanted.load(Ordering::Relaxed);
    if number == 0 || shared.hosts.ask_us.load(Ordering::Relaxed) > now_us {
        return;
    }
    shared.hosts.ask_us.store(now_us + ASK_US, Ordering::Relaxed);
    shared.hosts.wanted.store(0, Ordering::Relaxed);
    let mut asked = None;
    for other in shared.peers.all().iter().filter(|other| other.fixed) {
        let question = ask_one(shared, &other.lock(), number);
        asked = Some((number, asked.map_or(question, |(_, first, _)| first), question));
    }
    *shared.hosts.asked.lock().expect("numbers do not panic") = asked;
}

fn ask_one(shared: &Shared, state: &OtherState, number: u16) -> u64 {
    shared.ask(state.address, state.challenge, state.by_second, &Hello::Where { number })
}

/// A host that was asked has another challenge by now.
pub(super) fn ask_again(shared: &Shared, state: &OtherState) {
    let mut asked = shared.hosts.asked.lock().expect("numbers do not panic");
    if let Some((number, _, last)) = &mut *asked {
        *last = ask_one(shared, state, *number);
    }
}

/// Somebody who is known asks for a host.
pub(super) fn tell(shared: &Shared, head: &Head, number: u16) {
    let Some(asker) = shared.peers.get(head.endpoint) else { return shared.malformed() };
    let (address, boot) = {
        let state = asker.lock();
        (state.address, state.peer.boot())
    };
    let known = shared.hosts.all.read().expect("the table does not panic").get(&number).cloned();
    if let Some((host, place)) = known.filter(|(host, _)| host.switch_port != 0 && boot == Some(head.boot)) {
        let host = HostIs { address: Blob(place.to_string().into_bytes()), ..host };
        shared.answer(address, head, &Hello::Here { question: head.number, host });
    }
}

/// A host tells of another one.
pub(super) fn hear(shared: &Shared, head: &Head, question: u64, host: &HostIs) {
    let teller = shared.peers.get(head.endpoint).filter(|other| other.fixed);
    let place = std::str::from_utf8(&host.address.0).ok().and_then(|place| place.parse().ok());
    let (Some(teller), Some(place)) = (teller, place) else { return shared.malformed() };
    if !shared.hosts.is_asked(question) {
        return shared.malformed();
    }
    if teller.lock().peer.boot() != Some(head.boot) || host.number == 0 || usize::from(host.number) >= HOSTS_MAX {
        return shared.malformed();
    }
    let known = shared.hosts.all.read().expect("the table does not panic").get(&host.number).cloned();
    // What else it may have it has since before this process started, or it is nothing to this one.
    let host = match known {
        Some((known, _)) => HostIs { switch_port: host.switch_port, ..known },
        None => HostIs { shards: vec![], data: false, path: false, ..host.clone() },
    };
    shared.know(&host, place);
    tracing::info!(number = host.number, %place, "a host has a switch");
}
