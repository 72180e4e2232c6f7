//! The event loop of the cost model.

use super::clients::{Answered, CLUSTER, Clients, Cluster, TERM};
use super::config::{Load, ModelConfig, Table, Tracking};
use super::free_only::{FreeOnly, Learned};
use super::hot::HotFiles;
use super::meter::Meter;
use super::passes::Passes;
use super::places::Place;
use super::result::{Latencies, Measured};
use super::server::{Flight, Server, Task};
use super::sessions::Sessions;
use super::users::Users;
use super::walkers::Walkers;
use super::work::{Ask, Kind, Work};
use crate::world::EPOCH_NS;
use crate::world::role::Action;
use onpath_kernel::Now;
use onpath_switch::{Switch, SwitchConfig};
use onpath_wire::ids::{NodeId, SessionId};
use onpath_wire::limits::COMMIT_INTERVAL_MS;
use onpath_wire::map::ClusterMap;
use onpath_wire::packet::Packet;
use onpath_wire::reply::Reply;
use onpath_wire::secrets::Secrets;
use onpath_wire::tracking::Form;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Time after which the first tracking epoch is complete, in every model, ns.
const SETTLED_NS: u64 = 1_000_000_000;

/// Among what the switch counts: passes of packets of the cache beyond the first one of each.
pub const RECIRCULATED: &str = "passes_recirculated";

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Event {
    /// A message arrives where it goes.
    Arrive(u32),
    /// A message arrives at the switch.
    ArriveAtSwitch(u32),
    /// A core is done with a task; what came of it is in this place.
    Done { server: u16, task: Task, done: u32 },
    /// What was recorded at a place is at backups; what comes of that is in this place.
    BackedUp { place: u16, later: u32 },
    /// A home has learned what is in this place, and the switch sees that.
    Learned(u32),
    /// A packet is recirculated in the switch.
    Pass(u32),
    /// The answer to a read that the switch has missed passes it.
    Replied(u32),
    /// A role's deadline.
    Tick(u16),
    /// A session's deadline.
    SessionTick(u32),
    /// A flush ends.
    Flushed(u16),
    /// The commit interval of a server ends.
    Interval(u16),
    /// A client of an open load asks.
    Ask(u32),
}

/// How long a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until {
    /// Virtual time before anything is measured, ns.
    pub warm_ns: u64,
    /// Measured virtual time at most, ns.
    pub measured_ns: u64,
    /// Measured operations at most.
    pub operations: u64,
}

impl Until {
    /// Until everything that the work has to ask is answered.
    pub const DONE: Until = Until { warm_ns: 0, measured_ns: u64::MAX / 4, operations: u64::MAX };
}

/// A modelled system.
pub struct Model {
    pub(super) config: ModelConfig,
    pub(super) now_ns: u64,
    pub(super) queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    pub(super) arranged: u64,
    pub(super) flights: Slab<Flight>,
    pub(super) done: Slab<Vec<Action>>,
    /// The metadata servers, then that of a path node or of the tracking if there is one, then those of data nodes, then that of a controller.
    pub(super) servers: Vec<Server>,
    /// The shards, then the path nodes, then the data nodes, then the controller of a cache.
    pub(super) places: Vec<Place>,
    pub(super) path_nodes_from: u16,
    pub(super) data_nodes_from: u16,
    pub(super) controller_at: Option<u16>,
    pub(super) switch: Option<Switch>,
    /// What keeps its table of files to entries that are free.
    pub(super) free_only: Option<FreeOnly>,
    pub(super) learned: Slab<Vec<Learned>>,
    pub(super) passes: Passes,
    /// Packets that wait for a switch that is a server.
    pub(super) switch_inbox: VecDeque<Packet>,
    /// Servers that may have a task for a free core.
    pub(super) woken: Vec<u16>,
    pub(super) clients: Clients,
    pub(super) sessions: Sessions,
    /// What they look at.
    pub(super) walkers: Walkers,
    /// What they read and write.
    pub(super) users: Users,
    /// What they ask for by its path.
    pub(super) hot: HotFiles,
    /// Replies that wait for their client's turn on a core of the server.
    pub(super) client_inbox: Vec<VecDeque<Packet>>,
    pub(super) rng: ChaCha8Rng,
    /// Measures what inputs really cost.
    pub meter: Option<Meter>,
    pub(super) answered: Vec<Answered>,
    pub(super) measuring: bool,
    pub(super) inputs: BTreeMap<&'static str, u64>,
    pub(super) messages: u64,
    pub(super) unknown: u64,
}

impl Model {
    /// A system that has been up for a second: the root is there, and the switch tracks if there is one.
    pub fn new(config: ModelConfig) -> Model {
        assert!(!config.clients_inside || config.servers == 1, "clients are inside one process");
        let path_nodes: Vec<u16> = (0..config.path_nodes.count(config.servers)).collect();
        let map = ClusterMap::even(config.servers * config.shards_each(), Secrets::of_seed(7).placement);
        let map = map.with_path_nodes(&path_nodes);
        let data_nodes: Vec<u16> = (0..config.data_servers * config.cores).collect();
        let map = if data_nodes.is_empty() { map } else { map.with_data_nodes(&data_nodes) };
        let mut places: Vec<Place> = map.all().map(|shard| Place::shard(&config, &map, shard)).collect();
        let path_nodes_from = places.len() as u16;
        let mut servers: Vec<Server> = (0..config.servers).map(|_| Server::new(config.cores)).collect();
        let is_apart = config.path_nodes.are_apart();
        let server_of = |number| if is_apart { config.servers } else { number };
        places.extend(path_nodes.iter().map(|&number| Place::path_node(&config, &map, number, server_of(number))));
        if is_apart {
            servers.push(Server::new(config.cores));
        }
        if let Tracking::Server { cores } = config.tracking {
            servers.push(Server::new(cores));
        }
        let (data_nodes_from, first) = (places.len() as u16, servers.len() as u16);
        let data_server = |number: u16| first + number / config.cores;
        places.extend(data_nodes.iter().map(|&number| Place::data_node(&config, &map, number, data_server(number))));
        servers.extend((0..config.data_servers).map(|_| Server::new(config.cores)));
        let controller_at = config.cache.map(|cache| {
            places.push(Place::controller(cache, &map, servers.len() as u16));
            servers.push(Server::new(1));
            places.len() as u16 - 1
        });
        let has_switch = config.tracking.form() == Form::Network || config.cache.is_some();
        let cluster = Cluster { number: CLUSTER, map: map.clone(), term: TERM, first_session: SessionId(1) };
        let clients = Clients::new(cluster, config.load);
        let mut model = Model {
            now_ns: 0,
            queue: BinaryHeap::new(),
            arranged: 0,
            flights: Slab::default(),
            done: Slab::default(),
            servers,
            places,
            path_nodes_from,
            data_nodes_from,
            controller_at,
            switch: has_switch.then(|| Switch::new(SwitchConfig::whole(NodeId::SWITCH, CLUSTER, 1))),
            free_only: (config.table == Table::FreeOnly).then(FreeOnly::default),
            learned: Slab::default(),
            passes: Passes::default(),
            switch_inbox: VecDeque::new(),
            woken: vec![],
            client_inbox: (0..clients.number()).map(|_| VecDeque::new()).collect(),
            clients,
            sessions: Sessions::none(map),
            walkers: Walkers::none(),
            users: Users::none(),
            hot: HotFiles::none(),
            rng: ChaCha8Rng::seed_from_u64(config.seed),
            meter: None,
            answered: vec![],
            measuring: false,
            inputs: BTreeMap::new(),
            messages: 0,
            unknown: 0,
            config,
        };
        for number in 0..model.places.len() as u16 {
            let now = model.now();
            let place = &mut model.places[number as usize];
            place.start(now);
            let outputs = place.role.poll_all();
            model.put_out(number, outputs);
        }
        let with_journals = (0..model.config.servers).chain(first..model.servers.len() as u16);
        with_journals.for_each(|server| model.at(COMMIT_INTERVAL_MS * 1_000_000, Event::Interval(server)));
        model.go_on(&mut Nothing, SETTLED_NS, u64::MAX);
        model
    }

    /// Runs work under the load of the configuration, until `until`; what is under way then is answered before it returns.
    pub fn run(&mut self, work: &mut dyn Work, until: Until) -> Measured {
        let load = self.config.load;
        self.run_under(load, work, until)
    }

    /// The same under another load of as many clients.
    pub fn run_under(&mut self, load: Load, work: &mut dyn Work, until: Until) -> Measured {
        (self.clients.load, self.clients.over, self.clients.begun) = (load, false, false);
        self.answered.clear();
        for client in 0..self.clients.number() {
            match self.pause_ns() {
                Some(pause_ns) => self.at(pause_ns, Event::Ask(client)),
                None if self.config.clients_inside => self.ready(0, Task::Client(client)),
                None => self.ask(client, work),
            }
        }
        self.begin_tasks(work);
        if until.warm_ns > 0 {
            self.go_on(work, self.now_ns + until.warm_ns, u64::MAX);
        }
        let measured = self.measure(work, until);
        self.clients.over = true;
        while self.clients.under_way() > 0 {
            self.go_on(work, self.now_ns + COMMIT_INTERVAL_MS * 1_000_000, u64::MAX);
        }
        measured
    }

    /// What happens from now on until `until`, without what comes before anything is measured.
    pub(super) fn measure(&mut self, work: &mut dyn Work, until: Until) -> Measured {
        let (begin_ns, busy) = (self.now_ns, self.busy_ns());
        (self.inputs, self.messages, self.unknown) = (BTreeMap::new(), 0, 0);
        (self.sessions.cpu_ns, self.walkers.missed, self.users.written) = (0, 0, 0);
        let switched = self.switched();
        self.measuring = true;
        self.go_on(work, begin_ns + until.measured_ns, until.operations);
        self.measuring = false;
        let took_ns = self.now_ns - begin_ns;
        let mut kinds: BTreeMap<Kind, Vec<u64>> = BTreeMap::new();
        self.answered.drain(..).for_each(|one| kinds.entry(one.kind).or_default().push(one.latency_ns));
        let of = |(server, (after, before)): (&Server, (u64, &u64))| {
            (after - before) as f64 / (u64::from(server.cores()) * took_ns.max(1)) as f64
        };
        let (inputs, messages, unknown) = (std::mem::take(&mut self.inputs), self.messages, self.unknown);
        let after = self.busy_ns();
        let utilisation = self.servers.iter().zip(after.into_iter().zip(&busy)).map(of).collect();
        let (sessions_ns, missed, written) = (self.sessions.cpu_ns, self.walkers.missed, self.users.written);
        let since = |(name, count): (&'static str, u64)| (name, count - switched.get(name).copied().unwrap_or(0));
        let switched = self.switched().into_iter().map(since).collect();
        Measured {
            took_ns,
            kinds: kinds.into_iter().map(|(kind, all)| (kind, Latencies::new(all))).collect(),
            utilisation,
            inputs,
            messages,
            sessions_ns,
            missed,
            written,
            switched,
            unknown,
        }
    }

    /// What the switch has counted.
    fn switched(&self) -> BTreeMap<&'static str, u64> {
        self.switch.iter().flat_map(Switch::counters).collect()
    }

    /// Lets time pass: change-logs are pushed and applied.
    pub fn rest(&mut self, ns: u64) {
        self.go_on(&mut Nothing, self.now_ns + ns, u64::MAX);
    }

    /// Lets things happen until then, or until so many operations were measured, or until nobody asks any more.
    pub(super) fn go_on(&mut self, work: &mut dyn Work, until_ns: u64, operations: u64) {
        while (self.answered.len() as u64) < operations {
            if self.clients.finished() {
                return;
            }
            match self.queue.peek() {
                Some(Reverse((at_ns, ..))) if *at_ns <= until_ns => {}
                _ => {
                    self.now_ns = until_ns;
                    return;
                }
            }
            let Reverse((at_ns, _, event)) = self.queue.pop().expect("just seen");
            self.now_ns = at_ns;
            self.happen(event, work);
        }
    }

    pub(super) fn now(&self) -> Now {
        Now { mono_us: self.now_ns / 1_000, wall_ns: EPOCH_NS + self.now_ns }
    }

    pub(super) fn at(&mut self, in_ns: u64, event: Event) {
        self.arranged += 1;
        self.queue.push(Reverse((self.now_ns + in_ns, self.arranged, event)));
    }

    fn busy_ns(&mut self) -> Vec<u64> {
        let now_ns = self.now_ns;
        self.servers.iter_mut().map(|server| server.busy_ns(now_ns)).collect()
    }

    pub(super) fn pause_ns(&mut self) -> Option<u64> {
        let clients = f64::from(self.clients.number());
        self.clients.pause_ns(&mut self.rng).map(|pause_ns| (pause_ns as f64 * clients) as u64)
    }

    fn happen(&mut self, event: Event, work: &mut dyn Work) {
        match event {
            Event::Arrive(flight) => {
                let flight = self.flights.take(flight);
                self.arrive(flight, work);
            }
            Event::ArriveAtSwitch(flight) => {
                let Flight { packet, .. } = self.flights.take(flight);
                self.arrive_at_switch(packet);
            }
            Event::Done { server, task, done } => {
                let outputs = self.done.take(done);
                self.servers[server as usize].end(self.now_ns);
                self.woken.push(server);
                match task {
                    Task::Place(place) => self.place_done(place, outputs),
                    Task::Switch => self.switch_done(outputs),
                    Task::Client(client) => self.client_done(client, outputs),
                }
            }
            Event::BackedUp { place, later } => {
                let later = self.done.take(later);
                self.backed_up(place, later);
            }
            Event::Learned(learned) => {
                let learned = self.learned.take(learned);
                self.switch_frees(&learned);
            }
            Event::Pass(packet) => self.pass_again(packet),
            Event::Replied(read) => self.reply_passes(read),
            Event::Tick(place) => self.tick(place),
            Event::SessionTick(session) => self.session_ticks(session),
            Event::Flushed(server) => self.flushed(server),
            Event::Interval(server) => {
                self.flush(server);
                self.at(COMMIT_INTERVAL_MS * 1_000_000, Event::Interval(server));
            }
            Event::Ask(session) if self.hot.goes_on => self.request_and_pause(session),
            Event::Ask(client) => {
                self.ask(client, work);
                if let (false, Some(pause_ns)) = (self.clients.over, self.pause_ns()) {
                    self.at(pause_ns, Event::Ask(client));
                }
            }
        }
        self.begin_tasks(work);
    }
}

/// Places that are used again.
pub(super) struct Slab<T> {
    all: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { all: vec![], free: vec![] }
    }
}

impl<T> Slab<T> {
    pub(super) fn put(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.all[place as usize] = Some(value);
                place
            }
            None => {
                self.all.push(Some(value));
                self.all.len() as u32 - 1
            }
        }
    }

    pub(super) fn take(&mut self, place: u32) -> T {
        self.free.push(place);
        self.all[place as usize].take().expect("what is put is taken once")
    }
}

/// Nobody asks.
pub(super) struct Nothing;

impl Work for Nothing {
    fn next(&mut self, _client: u32, _under_way: u32) -> Option<Ask> {
        None
    }

    fn answered(&mut self, _client: u32, _ask: &Ask, _reply: &Reply) {}
}
