//! The virtual world: processes with disks, a network that loses, doubles and delays, clients; all from a seed.
//!
//! Everything that a role puts out passes the checker first, then the output gate, then the network.
//! A crash may hit between any two outputs.

mod config;
mod crash;
mod disk;
mod faults;
pub(crate) mod files;
mod gauges;
mod halves;
mod hold;
mod kernel;
mod narrate;
mod network;
mod process;
mod queue;
pub(crate) mod role;
mod sessions;
mod steer;
mod switch;

pub use config::{Commit, WorldConfig};
pub use faults::{FaultConfig, FaultCounters};
pub use hold::{HoldId, Message};
pub use sessions::Finished;
pub(crate) use steer::{Death, Place, Thing, Thread};

use crate::check::{Checker, Load};
use crate::client::{Client, Completed};
use faults::Faults;
use hold::Hold;
use onpath_kernel::{Need, Now};
use onpath_switch::Switch;
use onpath_wire::ids::{Lsn, NodeClass, NodeId, RecordSeq, ShardId, Slot, Term};
use onpath_wire::limits::COMMIT_INTERVAL_MS;
use onpath_wire::map::ClusterMap;
use onpath_wire::packet::Packet;
use onpath_wire::request::Request;
use onpath_wire::secrets::CookieKey;
use process::{Flight, Process};
use queue::{Event, Queue};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use role::{Action, Stimulus, controller_config, data_config, path_config, shard_config};
use sessions::SessionNode;
use std::collections::{BTreeMap, VecDeque};
use steer::Steered;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Virtual time begins here on the wall clocks, ns since 1970.
pub(crate) const EPOCH_NS: u64 = 1_700_000_000_000_000_000;
/// Blocks of a data file.
const DATA_FILE_BLOCKS: u32 = 1_024;
/// Time to make a new file system durable, ns.
const FORMAT_NS: u64 = 1_000_000;
/// The highest first term of a process: some have terms at which others have been.
const FIRST_TERM_MAX: u32 = 3;
/// Ranges imaged at one step of a checkpoint.
const CHECKPOINT_RANGES: u32 = 9;

/// Counters of what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events.
    pub events: u64,
    /// Messages on the network.
    pub messages: u64,
    /// Messages lost.
    pub lost: u64,
    /// Messages doubled.
    pub doubled: u64,
    /// Processes killed.
    pub kills: u64,
    /// Processes that lost power.
    pub power_losses: u64,
    /// Records replayed.
    pub replayed: u64,
    /// Flushes of journals.
    pub flushes: u64,
    /// Operations on data files.
    pub disk_ops: u64,
    /// How often the switch was switched on.
    pub switch_boots: u64,
    /// Questions that a session's kernel answered by itself.
    pub cached: u64,
    /// What else went wrong.
    pub faults: FaultCounters,
}

/// When a crash will hit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Doom {
    /// Outputs left until then; 0: no crash is planned.
    outputs: u64,
    /// Only outputs of this process count.
    process: Option<usize>,
    power: bool,
}

/// The world.
pub struct World {
    pub(crate) config: WorldConfig,
    pub(crate) now_ns: u64,
    rng: ChaCha8Rng,
    queue: Queue,
    processes: Vec<Process>,
    map: ClusterMap,
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    holds: Vec<Hold>,
    steered: Option<Box<Steered>>,
    doom: Doom,
    /// Requests of clients, and system calls, that were answered.
    answers: (u64, u64),
    /// Random crashes may come.
    rough: bool,
    faults: Faults,
    sends: Vec<(NodeId, Packet, RecordSeq, Need)>,
    /// The switches, by number, while they are on.
    switches: Vec<Option<Switch>>,
    /// What former lives of it have counted.
    switch_past: BTreeMap<&'static str, u64>,
    completed: VecDeque<Completed>,
    finished: VecDeque<Finished>,
    sessions: Vec<SessionNode>,
    /// The clients.
    pub clients: Vec<Client>,
    /// The checker, with the model.
    pub checker: Checker,
    pub(crate) counters: Counters,
    /// Processes that ended by a loss of power, or before they had noted on their disk that there was one.
    pub(crate) doubts: u64,
    digest: u64,
    /// Hears every record, message and crash in words.
    pub narrator: Option<Box<dyn FnMut(String)>>,
}

impl World {
    /// A world in which all processes have just started on empty disks.
    pub fn new(config: WorldConfig) -> World {
        let placement = config.secrets().placement;
        let data_nodes = Vec::from_iter(0..config.data_nodes);
        let even = ClusterMap::even(config.shards, placement).with_data_nodes(&data_nodes);
        let even = even.with_path_nodes(&Vec::from_iter(0..config.path_nodes));
        let map = config.coarse_fingerprints.map_or(even.clone(), |bits| even.with_coarse_fingerprints(bits));
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed);
        let mut processes: Vec<_> = (0..config.all_processes())
            .map(|process| {
                let shards = map.all().filter(|shard| shard.0 % config.processes == process);
                let mut configs: Vec<_> = shards.map(|shard| shard_config(&config, &map, shard)).collect();
                if process < config.data_nodes {
                    configs.push(data_config(&config, &map, process));
                }
                let skew = config.clock_skew_us as i64 * 1000;
                let skew_ns = if skew > 0 { rng.random_range(-skew..=skew) } else { 0 };
                Process::new(configs, Term(rng.random_range(1..=FIRST_TERM_MAX)), skew_ns)
            })
            .collect();
        processes.extend(map.path_nodes().map(|node| Process::new(vec![path_config(&config, &map, node)], Term(1), 0)));
        if config.cache {
            processes.push(Process::new(vec![controller_config(&map)], Term(1), 0));
        }
        let checker = Checker::new(config.secrets().inner.listings(), map.clone(), processes.len());
        let mut world = World {
            rng,
            now_ns: 0,
            queue: Queue::default(),
            processes,
            map,
            flights: vec![],
            free: vec![],
            holds: vec![],
            steered: None,
            doom: Doom::default(),
            answers: (0, 0),
            rough: true,
            faults: Faults::new(config.seed),
            sends: vec![],
            switches: (0..config.switches).map(|_| None).collect(),
            switch_past: BTreeMap::new(),
            completed: VecDeque::new(),
            finished: VecDeque::new(),
            sessions: vec![],
            clients: vec![],
            checker,
            counters: Counters::default(),
            doubts: 0,
            digest: 0,
            narrator: None,
            config,
        };
        for process in 0..world.processes.len() {
            world.restart(process);
            world.flush(process); // formatting is durable
        }
        world.begin_switch();
        let formatted = world.step(FORMAT_NS);
        assert!(formatted.is_none(), "nobody has asked anything yet");
        world.plan_crash();
        world.arm_faults();
        world
    }

    /// Adds a client that asks as session `number` from 1 up.
    pub fn add_client(&mut self) -> usize {
        let number = self.clients.len();
        self.clients.push(Client::new(number as u32 + 1, self.map.clone()));
        number
    }

    /// A client asks.
    pub fn submit(&mut self, client: usize, asked: std::rc::Rc<crate::client::Asked>) {
        let (to, packet) = self.clients[client].submit(asked, self.now_ns, &mut self.checker);
        self.send_of_client(client, to, packet);
        self.arm_client(client);
    }

    /// What a client asks from now on says that its lease ends when so much time has passed.
    pub(crate) fn end_lease_in(&mut self, client: usize, ns: u64) {
        self.clients[client].until = ((EPOCH_NS + self.now_ns + ns) / onpath_wire::header::UNTIL_NS) as u32;
    }

    /// A client asks a shard of its choice.
    pub fn submit_to(&mut self, client: usize, shard: ShardId, asked: std::rc::Rc<crate::client::Asked>) {
        let client_role = &mut self.clients[client];
        let (to, packet) = client_role.submit_to(shard, Slot(0), asked, self.now_ns, &mut self.checker);
        self.send_of_client(client, to, packet);
        self.arm_client(client);
    }

    /// The shard that a request goes to.
    pub fn shard_of(&self, request: &Request) -> ShardId {
        crate::client::route(&self.map, request)
    }

    /// Slots and shards.
    pub fn map(&self) -> &ClusterMap {
        &self.map
    }

    /// A running hash of everything that happened: equal for equal seeds.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Virtual nanoseconds since the beginning.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters;
        counters.faults.refused += self.processes.iter().map(Process::refused).sum::<u64>();
        counters
    }

    /// What was done and suffered so far, which accounts for excuses.
    pub fn load(&self) -> Load {
        self.checker.load(self.answers.1)
    }

    /// Says which excuses the checker has needed too often.
    pub fn judge_excuses(&mut self) {
        self.checker.judge_excuses(self.answers.1);
    }

    /// Key of the cookie hash.
    pub fn cookie_key(&self) -> CookieKey {
        self.config.secrets().inner.listings()
    }

    /// Runs until a request of a client is answered, or one of a session ([`World::finished`]), or until `until_ns`
    /// (virtual), or until nothing can happen.
    pub fn step(&mut self, until_ns: u64) -> Option<Completed> {
        loop {
            if let Some(done) = self.completed.pop_front() {
                return Some(done);
            }
            if !self.finished.is_empty() {
                return None;
            }
            if self.queue.next_ns().is_none_or(|at| at > until_ns) {
                self.now_ns = self.now_ns.max(until_ns);
                return None;
            }
            let (at_ns, event) = self.queue.pop().expect("just seen");
            self.now_ns = at_ns;
            self.counters.events += 1;
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(slot) => self.arrive(slot),
            Event::Drain { process, server, life } if self.lives(process, life) => {
                self.processes[process as usize].servers[server as usize].drain_arranged = false;
                self.drain(process as usize, server as usize);
            }
            Event::Tick { process, server, life } if self.lives(process, life) => self.tick(process, server),
            Event::Flushed { process, life } if self.lives(process, life) => self.flushed(process as usize),
            Event::Interval { process, life } if self.lives(process, life) => self.interval(process),
            Event::Checkpoint { process, life } if self.lives(process, life) => {
                self.processes[process as usize].checkpoint(CHECKPOINT_RANGES);
                self.arm_checkpoint(process);
            }
            Event::Switch => self.switch_fails(),
            Event::Restart { process } => self.restart(process as usize),
            Event::Client(client) => self.client_timer(client as usize),
            Event::Session(session) => self.session_timer(session as usize),
            Event::Shared(session) => self.session_shared(session as usize),
            Event::FaultEnds(end) => self.fault_ends(end),
            Event::Again { session, unique } => self.ask_again(session as usize, unique),
            Event::Disk { process, op, life } if self.lives(process, life) => self.disk_done(process as usize, op),
            _ => {} // arranged for a former life
        }
    }

    fn lives(&self, process: u16, life: u32) -> bool {
        let process = &self.processes[process as usize];
        process.up && process.life == life
    }

    fn note(&mut self, what: u64, bytes: &[u8]) {
        self.digest = xxh3_64_with_seed(bytes, self.digest ^ self.now_ns.rotate_left(17) ^ what << 56);
    }

    fn clocks(&self, process: usize) -> Now {
        let process = &self.processes[process];
        faults::shown(self.now_ns, process.skew_ns + process.wrong_ns)
    }

    /// A server takes what its process's other servers have for it, in order.
    fn drain(&mut self, process: usize, server: usize) {
        let life = self.processes[process].life;
        while self.lives(process as u16, life) {
            let target = &mut self.processes[process].servers[server];
            let Some((packet, rests_on)) = target.inbox.pop_front() else { return };
            target.inherited = target.inherited.max(rests_on);
            self.input(process, server, Stimulus::Packet(packet));
        }
    }

    fn input(&mut self, process: usize, server: usize, stimulus: Stimulus) {
        let now = self.clocks(process);
        self.processes[process].servers[server].role.handle(now, stimulus);
        self.outputs(process, server);
        self.look_at(process, server);
    }

    /// Takes a server's outputs: records are journaled and written, then messages leave in order.
    fn outputs(&mut self, process: usize, server: usize) {
        let mut sends = std::mem::take(&mut self.sends);
        let node = self.processes[process].servers[server].node;
        let (mut crashed, mut flush) = (false, false);
        while let Some(output) = self.processes[process].servers[server].role.poll() {
            crashed = self.doomed(process, false);
            if crashed {
                break;
            }
            match output {
                Action::Append { seq, bytes } => {
                    self.note(1, &bytes);
                    self.narrate_record(node, &bytes);
                    let lsn = self.processes[process].disk.appended().0 + 1;
                    match node.class() {
                        Some(NodeClass::Shard) => self.checker.appended(process, lsn, node, &bytes),
                        Some(NodeClass::Data) => self.checker.recorded(process, lsn, node, (seq, &bytes)),
                        _ => {}
                    }
                    self.processes[process].append(server, seq, bytes);
                }
                Action::Send { to, packet, after, need } => {
                    self.narrate_message("emits", node, to, &packet);
                    match to.class() {
                        Some(NodeClass::Session) if packet.wants_switch() => self.checker.left_with_mark(to, &packet),
                        Some(NodeClass::Session) => self.checker.emitted(node, to, &packet),
                        _ => {}
                    }
                    sends.push((to, packet, after, need));
                }
                Action::Flush => flush = true,
                Action::Disk { ticket, op } => self.disk_begins(process, server, ticket, op),
            }
        }
        if !crashed {
            self.processes[process].disk.write();
        }
        if flush && !crashed {
            self.processes[process].waits_for_flush = true;
            self.flush(process);
        }
        for (to, packet, after, need) in sends.drain(..) {
            crashed = crashed || self.doomed(process, true);
            if !crashed {
                self.release(process, server, to, packet, after, need);
            }
        }
        self.sends = sends;
        if crashed {
            let power =
                self.steered.as_ref().and_then(|steered| steered.death).map_or(self.doom.power, |death| death.power);
            self.crash(process, power);
            self.plan_crash();
        } else {
            self.arm_tick(process, server);
        }
    }

    /// The output gate.
    fn release(&mut self, index: usize, server: usize, to: NodeId, packet: Packet, after: RecordSeq, need: Need) {
        let process = &mut self.processes[index];
        let own = process.servers.iter().any(|server| server.node == to);
        let waits = match to.class() {
            _ if matches!(need, Need::Durable | Need::DurableInTime | Need::IfOutlived) => true,
            _ if need == Need::Nothing => false,
            _ if need == Need::AsForClient && self.config.commit == Commit::Sync => true,
            Some(NodeClass::Session) => self.config.commit == Commit::Sync,
            _ => !own,
        };
        let position = process.rests_on(server, after);
        let flight = Flight { from: process.servers[server].node, to, packet };
        let flight = if waits { process.gate.pass(position, (flight, position)) } else { Some((flight, position)) };
        match flight {
            Some((flight, position)) => self.dispatch(index, flight, position),
            None if matches!(need, Need::DurableInTime | Need::InTime) => {} // the next flush will do
            None => self.flush(index),
        }
    }

    /// Sends a message on its way: into a queue of the same process, or onto the network.
    fn dispatch(&mut self, index: usize, flight: Flight, rests_on: Lsn) {
        if flight.packet.wants_switch() {
            return self.transmit(flight);
        }
        let process = &mut self.processes[index];
        let Some(target) = process.servers.iter().position(|server| server.node == flight.to) else {
            return self.transmit(flight);
        };
        let server = &mut process.servers[target];
        if !self.holds.is_empty()
            && let Some(hold) = self.holds.iter_mut().find(|hold| hold.wants(&flight))
        {
            hold.held.push(flight);
            return;
        }
        server.inbox.push_back((flight.packet, rests_on));
        if !server.drain_arranged {
            server.drain_arranged = true;
            let life = process.life;
            let steered = self.steered.is_some();
            let at_ns = self.now_ns + if steered { 0 } else { self.rng.random_range(0..4_000) };
            self.queue.push(at_ns, Event::Drain { process: index as u16, server: target as u16, life });
        }
    }

    /// Images the next role of a process whole; it takes effect with the next flush.
    pub fn checkpoint(&mut self, process: usize) {
        self.processes[process].checkpoint(u32::MAX);
    }

    fn flush(&mut self, index: usize) {
        let process = &mut self.processes[index];
        if process.flushing.is_some() {
            return;
        }
        process.waits_for_flush = false; // this one will do, or all is durable
        if process.disk.written() > process.disk.durable() {
            process.flushing = Some(process.disk.written());
            process.files.begin_flush();
            let (life, node) = (process.life, process.configs[0].node());
            let event = Event::Flushed { process: index as u16, life };
            if self.steer_disk(index, event) {
                return;
            }
            let takes_ns = self.rng.random_range(30_000..300_000);
            let at_ns = self.now_ns + self.takes_ns(&[node], takes_ns);
            self.queue.push(at_ns, event);
        }
    }

    fn flushed(&mut self, index: usize) {
        self.counters.flushes += 1;
        let life = self.processes[index].life;
        let news = self.processes[index].flushed();
        let durable = self.processes[index].disk.durable();
        self.checker.durable(index, durable.0);
        for (flight, position) in self.processes[index].gate.advance(durable) {
            self.dispatch(index, flight, position);
        }
        for (server, seq) in news {
            if self.lives(index as u16, life) {
                self.input(index, server, Stimulus::Durable(seq));
            }
        }
        let process = &self.processes[index];
        if self.lives(index as u16, life) && (process.waits_for_flush || !process.gate.is_empty()) {
            self.flush(index);
        }
    }

    fn interval(&mut self, process: u16) {
        self.flush(process as usize);
        self.arm_interval(process);
    }

    fn disk_begins(&mut self, process: usize, server: usize, ticket: onpath_data::Ticket, op: onpath_data::DiskOp) {
        let number = self.counters.disk_ops;
        self.counters.disk_ops += 1;
        let target = &mut self.processes[process];
        target.disk_ops.push_back((number, server, ticket, op));
        let (life, node) = (target.life, target.configs[0].node());
        let event = Event::Disk { process: process as u16, op: number as u32, life };
        if self.steer_disk(process, event) {
            return;
        }
        let takes_ns = self.rng.random_range(2_000..200_000);
        let at_ns = self.now_ns + self.takes_ns(&[node], takes_ns);
        self.queue.push(at_ns, event);
    }

    fn disk_done(&mut self, process: usize, number: u32) {
        let target = &mut self.processes[process];
        let index = target.disk_ops.iter().position(|(op, ..)| *op as u32 == number).expect("begun in this life");
        let (_, server, ticket, op) = target.disk_ops.remove(index).expect("just found");
        let result = target.files.execute(op);
        self.input(process, server, Stimulus::DiskDone(ticket, result));
    }

    fn tick(&mut self, process: u16, server: u16) {
        let (p, s) = (process as usize, server as usize);
        let target = &mut self.processes[p].servers[s];
        if target.tick_ns != Some(self.now_ns) {
            return; // a tick arranged later, but for an earlier time, has come before
        }
        target.tick_ns = None;
        if target.role.next_deadline().is_some_and(|at| at * 1000 <= self.now_ns) {
            self.drain(p, s);
            if self.processes[p].up {
                self.input(p, s, Stimulus::Tick);
            }
        } else {
            self.arm_tick(p, s);
        }
    }

    fn arm_tick(&mut self, process: usize, server: usize) {
        let life = self.processes[process].life;
        let target = &mut self.processes[process].servers[server];
        let Some(deadline_us) = target.role.next_deadline() else { return };
        let at_ns = (deadline_us * 1000).max(self.now_ns);
        if target.tick_ns.is_none_or(|tick| at_ns < tick) {
            target.tick_ns = Some(at_ns);
            self.queue.push(at_ns, Event::Tick { process: process as u16, server: server as u16, life });
        }
    }

    fn arm_interval(&mut self, process: u16) {
        let ms = match self.config.commit {
            Commit::Interval(ms) => ms,
            Commit::Sync => COMMIT_INTERVAL_MS, // for what may take its time
        };
        let life = self.processes[process as usize].life;
        self.queue.push(self.now_ns + ms * 1_000_000, Event::Interval { process, life });
    }

    fn arm_checkpoint(&mut self, process: u16) {
        if self.config.checkpoint_us > 0 {
            let life = self.processes[process as usize].life;
            let at_ns = self.now_ns + self.rng.random_range(0..self.config.checkpoint_us * 2_000);
            self.queue.push(at_ns, Event::Checkpoint { process, life });
        }
    }
}
