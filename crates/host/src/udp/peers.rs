//! What an endpoint knows of the others: how to reach them, and how far greetings have come.

use super::hello::HostIs;
use super::lane::Lane;
use super::socket::{Socket, datagram_bytes_to};
use super::{endpoint_of, endpoint_of_host, ways};
use crate::sys;
use hashbrown::HashMap;
use onpath_transport::{Agreed, Config, Counters, EndpointId, Peer};
use onpath_wire::identity::{Bound, Holder};
use onpath_wire::ids::{NodeClass, NodeId, SessionNumber, ShardId};
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockWriteGuard};

/// Clients that an endpoint knows at the same time; beyond, whoever greets is not answered.
pub(super) const CLIENTS_MAX: usize = 1 << 16;
/// Where the coordinator is: slots are spread evenly, and it has the first one.
pub(crate) const COORDINATOR: ShardId = ShardId(0);
/// Between two questions to the system for the longest datagram that gets to one peer, after one was too long, microseconds.
const PATH_PAUSE_US: u64 = 10_000;
/// Whoever was forgotten may come back in the same life of this process, and no datagram may have a number of before: numbers begin above
/// what a peer can have been sent since the start of this process, at so many datagrams a microsecond.
const NUMBERS_PER_US: u64 = 64;

/// One other endpoint.
pub(super) struct Other {
    pub(super) endpoint: EndpointId,
    /// Its roles, of a host; a client's is its session.
    pub(super) roles: Vec<NodeId>,
    /// Of a host: it is greeted, and stays.
    pub(super) fixed: bool,
    state: Mutex<OtherState>,
}

/// What changes.
pub(super) struct OtherState {
    pub(super) peer: Peer,
    pub(super) address: SocketAddr,
    /// The way there.
    lane: Option<Lane>,
    /// How many of its boots were adopted.
    era: u32,
    /// Its last challenge, 0 before the first.
    pub(super) challenge: u64,
    /// Numbers of the first and the last greeting of it that it has not answered.
    pub(super) asked: Option<(u64, u64)>,
    /// Questions repeated because of a challenge since the timer's last greeting.
    pub(super) tries: u32,
    /// It is greeted with the second of two keys, as it may have that one only.
    pub(super) by_second: bool,
    /// Which session it is, of a client.
    pub(super) session: SessionNumber,
    /// Whose that is, and as whom alone it acts, if not as anybody; by which version of the keys.
    pub(super) holder: Holder,
    pub(super) bound: Option<Arc<Bound>>,
    pub(super) bound_at: u64,
    /// A directory of it was refused, and that was told.
    pub(super) refused: u64,
    /// It has said that it takes our messages.
    pub(super) greeted: bool,
    /// When something came from it last, monotonic microseconds.
    pub(super) heard_us: u64,
    /// When to greet it next, and the pause after that, microseconds.
    pub(super) greet_us: u64,
    pub(super) pause_us: u64,
    /// When the system was asked last which datagrams the way takes, monotonic microseconds.
    pub(super) path_asked_us: u64,
    /// The deadline that the timer knows; 0 is none.
    pub(super) armed_us: u64,
}

impl OtherState {
    /// Its present life is this one, with which that was agreed.
    pub(super) fn set_boot(&mut self, boot: u64, agreed: Agreed) {
        self.peer.set_boot(boot, agreed);
        self.era += 1;
    }

    /// How many of its boots were adopted before this one: a challenge is good for one of them, and the one that is adopted now is still
    /// good for what it was challenged to repeat before that.
    pub(super) fn era_of(&self, boot: u64) -> u32 {
        self.era - u32::from(self.peer.boot() == Some(boot)) // that one was counted
    }

    /// Sends datagrams of `segment` bytes each, the last of which may be shorter: by the lane, as long as that works.
    pub(super) fn transmit(&mut self, socket: &Socket, bytes: &[u8], segment: usize) -> io::Result<()> {
        ways::transmit(&mut self.lane, socket, self.address, bytes, segment)
    }

    /// From now on there is a lane to where it is, if there can be one.
    pub(super) fn open_lane(&mut self, socket: &Socket) {
        ways::open(&mut self.lane, socket, self.address);
    }

    /// Whether the system may be asked again which datagrams the way takes, since one was too long.
    pub(super) fn may_ask_path(&self, now_us: u64) -> bool {
        now_us >= self.path_asked_us + PATH_PAUSE_US
    }
}

impl Other {
    pub(super) fn new(
        config: &Arc<Config>,
        endpoint: EndpointId,
        roles: Vec<NodeId>,
        (fixed, number): (bool, u64),
        address: SocketAddr,
    ) -> Arc<Other> {
        let peer = Peer::resume(config.clone(), endpoint, datagram_bytes_to(address), number);
        let state = OtherState {
            peer,
            address,
            lane: None,
            era: 0,
            challenge: 0,
            asked: None,
            tries: 0,
            by_second: false,
            session: SessionNumber::NONE,
            holder: Holder::Anybody,
            bound: None,
            bound_at: 0,
            refused: 0,
            greeted: false,
            heard_us: 0,
            greet_us: 0,
            pause_us: 0,
            path_asked_us: sys::mono_us(),
            armed_us: 0,
        };
        Arc::new(Other { endpoint, roles, fixed, state: Mutex::new(state) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, OtherState> {
        self.state.lock().expect("a peer does not panic")
    }

    /// Whether it is a host with a path node.
    pub(super) fn has_path_node(&self) -> bool {
        self.fixed && self.roles.iter().any(|role| role.class() == Some(NodeClass::Path))
    }

    /// Whether a message may come from it under this address.
    pub(super) fn has(&self, role: NodeId) -> bool {
        self.roles.contains(&role)
    }
}

/// Peers that a thread remembers.
const REMEMBERED: usize = 16;
/// Versions of all tables of the process.
static VERSIONS: AtomicU64 = AtomicU64::new(0);

/// A peer, and the version of the table that had it.
type Remembered = Option<(u64, Arc<Other>)>;

thread_local! {
    /// Those to whom and from whom this thread had something last: found without a lock.
    static LAST: RefCell<[Remembered; REMEMBERED]> = const { RefCell::new([const { None }; REMEMBERED]) };
}

/// All others.
pub(super) struct Peers {
    config: Arc<Config>,
    /// Which host has which shard.
    places: HashMap<NodeId, EndpointId>,
    all: RwLock<HashMap<EndpointId, Arc<Other>>>,
    /// Of what is in that table; no other one has it.
    version: AtomicU64,
    /// When there were none, monotonic microseconds.
    since_us: u64,
    /// What was counted of those that are not known any more.
    gone: Mutex<Counters>,
}

impl Peers {
    /// The hosts of a cluster, each with its address; among them perhaps this one, which has agreed `own` with itself.
    pub(super) fn new(config: Arc<Config>, hosts: &[(HostIs, SocketAddr)], own: Option<Agreed>) -> Peers {
        let (mut places, mut all) = (HashMap::new(), HashMap::new());
        for (host, address) in hosts {
            let endpoint = endpoint_of_host(host.number);
            let roles = roles(host);
            let shards = roles.iter().filter(|role| role.as_shard().is_some());
            shards.for_each(|&shard| _ = places.insert(shard, endpoint));
            all.insert(endpoint, Other::new(&config, endpoint, roles, (endpoint != config.me, 0), *address));
        }
        // Marks for nobody that is known come back to this process.
        if let (Some(this), Some(own)) = (all.get(&config.me), own) {
            this.lock().set_boot(config.boot, own);
        }
        let version = AtomicU64::new(VERSIONS.fetch_add(1, Ordering::Relaxed));
        Peers { config, places, all: RwLock::new(all), version, since_us: sys::mono_us(), gone: Mutex::default() }
    }

    /// Which endpoint has a role.
    pub(super) fn endpoint_of(&self, role: NodeId) -> Option<EndpointId> {
        endpoint_of(role).or_else(|| self.places.get(&role).copied())
    }

    /// The peer whose present start is this one.
    pub(super) fn of_boot(&self, boot: u64) -> Option<Arc<Other>> {
        let all = self.all.read().expect("the table does not panic");
        all.values().find(|other| other.lock().peer.boot() == Some(boot)).cloned()
    }

    pub(super) fn get(&self, endpoint: EndpointId) -> Option<Arc<Other>> {
        self.all.read().expect("the table does not panic").get(&endpoint).cloned()
    }

    /// Does something with a peer, whom this thread remembers for the next time.
    pub(super) fn with<T>(&self, endpoint: EndpointId, act: impl FnOnce(&Arc<Other>) -> T) -> Option<T> {
        LAST.with(|last| {
            let Ok(mut last) = last.try_borrow_mut() else { return self.get(endpoint).as_ref().map(act) };
            let version = self.version.load(Ordering::Acquire);
            let place = &mut last[endpoint.0 as usize % REMEMBERED];
            let known = place.as_ref().is_some_and(|(of, other)| *of == version && other.endpoint == endpoint);
            if !known {
                *place = self.get(endpoint).map(|other| (version, other));
            }
            place.as_ref().map(|(_, other)| act(other))
        })
    }

    /// The table, to be changed: what threads remember of it does not count any more.
    fn change(&self) -> RwLockWriteGuard<'_, HashMap<EndpointId, Arc<Other>>> {
        let all = self.all.write().expect("the table does not panic");
        // Who reads this looks into the table afterwards, when this guard is gone.
        self.version.store(VERSIONS.fetch_add(1, Ordering::Relaxed), Ordering::Release);
        all
    }

    /// Where the numbers begin of datagrams to whoever is entered now.
    fn first_number(&self) -> u64 {
        (sys::mono_us() - self.since_us) * NUMBERS_PER_US
    }

    /// A host is known from now on, if it was not.
    pub(super) fn add(&self, host: &HostIs, address: SocketAddr) {
        let endpoint = endpoint_of_host(host.number);
        let number = self.first_number();
        let new = || Other::new(&self.config, endpoint, roles(host), (endpoint != self.config.me, number), address);
        self.change().entry(endpoint).or_insert_with(new);
    }

    /// A host is not known any more.
    pub(super) fn remove(&self, number: u16) {
        let mut all = self.change();
        if let Some(other) = all.remove(&endpoint_of_host(number)) {
            self.keep(&other);
        }
    }

    /// A client has greeted: it is known from now on, unless there are too many.
    pub(super) fn enter(&self, endpoint: EndpointId, session: NodeId, address: SocketAddr) -> Option<Arc<Other>> {
        let mut all = self.change();
        if all.len() >= CLIENTS_MAX {
            return None;
        }
        let new = || Other::new(&self.config, endpoint, vec![session], (false, self.first_number()), address);
        Some(all.entry(endpoint).or_insert_with(new).clone())
    }

    /// All of them, in no order.
    pub(super) fn all(&self) -> Vec<Arc<Other>> {
        self.all.read().expect("the table does not panic").values().cloned().collect()
    }

    /// Forgets clients from which nothing came since then.
    pub(super) fn forget(&self, since_us: u64) {
        let (mut all, first) = (self.change(), self.first_number());
        all.retain(|endpoint, other| {
            let goes = |state: &OtherState| state.heard_us < since_us && state.peer.number() < first;
            let stays = other.fixed || *endpoint == self.config.me || !goes(&other.lock());
            if !stays {
                self.keep(other);
            }
            stays
        });
    }

    /// What was counted of a peer that goes stays in the sum.
    fn keep(&self, other: &Other) {
        self.gone.lock().expect("sums do not panic").add(&other.lock().peer.counters());
    }

    /// What was counted of all peers that there ever were.
    pub(super) fn counted(&self) -> Counters {
        let all = self.all.read().expect("the table does not panic"); // nobody goes meanwhile
        let mut sum = self.gone.lock().expect("sums do not panic").clone();
        all.values().for_each(|other| sum.add(&other.lock().peer.counters()));
        sum
    }
}

/// The roles of a host; a switch it may get. Who has the coordinator has a controller.
fn roles(host: &HostIs) -> Vec<NodeId> {
    let shards = host.shards.iter().map(|&shard| NodeId::shard(ShardId(shard)));
    let path = host.path.then(|| NodeId::path(host.number));
    let number = host.number;
    let controller = host.shards.contains(&COORDINATOR.0).then(|| NodeId::controller(number));
    let further = path.into_iter().chain(controller);
    shards.chain([NodeId::data(number), NodeId::switch(number)]).chain(further).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_transport::{Keyring, Room};
    use onpath_wire::ids::SessionId;
    use onpath_wire::packet::Packet;
    use std::net::Ipv4Addr;

    fn peers(hosts: &[(u16, u16)]) -> Peers {
        let config =
            Config { cluster: 1, me: endpoint_of_host(1), boot: 1, keyring: Keyring::default(), room: Room::default() };
        let host = |&(number, port): &(u16, u16)| {
            (HostIs { number, ..HostIs::default() }, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        };
        Peers::new(Arc::new(config), &hosts.iter().map(host).collect::<Vec<_>>(), None)
    }

    fn port(peers: &Peers, host: u16) -> Option<u16> {
        peers.with(endpoint_of_host(host), |other| other.lock().address.port())
    }

    /// What a thread remembers is of one table as it is now.
    #[test]
    fn what_is_remembered_is_what_is_there() {
        let (one, two) = (peers(&[(1, 11), (2, 12), (18, 13)]), peers(&[(2, 22)]));
        for _ in 0..2 {
            // 2 and 18 are remembered at the same place.
            assert_eq!([1, 2, 18, 3].map(|host| port(&one, host)), [Some(11), Some(12), Some(13), None]);
            assert_eq!([1, 2].map(|host| port(&two, host)), [None, Some(22)]);
        }
        one.remove(2);
        assert_eq!((port(&one, 2), port(&two, 2)), (None, Some(22)));
        one.add(&HostIs { number: 2, ..HostIs::default() }, SocketAddr::from((Ipv4Addr::LOCALHOST, 14)));
        assert_eq!(port(&one, 2), Some(14));
        let inside = one.with(endpoint_of_host(2), |_| port(&one, 2));
        assert_eq!(inside, Some(Some(14)));
    }

    #[test]
    fn clients_are_forgotten_and_come_back() {
        let peers = peers(&[(1, 11)]);
        let session = NodeId::session(SessionId(5));
        let endpoint = endpoint_of(session).unwrap();
        let enter = |port| peers.enter(endpoint, session, SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
        let address = || peers.with(endpoint, |other| other.lock().address.port());
        assert_eq!(address(), None);
        enter(31).lock().heard_us = 7;
        peers.forget(7);
        assert_eq!(address(), Some(31));
        peers.forget(8);
        assert_eq!(address(), None);
        enter(32);
        assert_eq!(address(), Some(32));
    }

    /// However often somebody comes and goes: numbers neither repeat nor end.
    #[test]
    fn numbers_of_datagrams_go_on_when_somebody_comes_back() {
        let peers = peers(&[(1, 11)]);
        let session = NodeId::session(SessionId(5));
        let endpoint = endpoint_of(session).unwrap();
        let mut last = 0;
        for _ in 0..1_000 {
            let other = peers.enter(endpoint, session, SocketAddr::from((Ipv4Addr::LOCALHOST, 31))).unwrap();
            let number = {
                let mut state = other.lock();
                state.set_boot(3, Agreed::new([0; 32]));
                let asked = Packet::encoded(vec![0; 60], Default::default());
                state.peer.single(session, &asked).unwrap();
                state.peer.number()
            };
            assert!(number > last, "{number} after {last}");
            last = number;
            while peers.get(endpoint).is_some() {
                peers.forget(u64::MAX);
            }
        }
        assert!(last < 1_000_000 * NUMBERS_PER_US, "{last}: 18,000 years last as long as numbers do");
    }
}
