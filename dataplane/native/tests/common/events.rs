//! Random events about few fingerprints, nodes and epochs, so that sets overflow, old packets come again and tables fit or do not.

#[path = "cache.rs"]
mod cache;

use crate::both::{Event, PLACES, World, difference, shrunk};
use crate::random::Random;
use cache::CacheSource;
use onpath_dataplane::{Command, Config, Port};
use onpath_wire::ids::{NodeId, SessionId, ShardId};
use onpath_wire::innet::{
    DirtySet, DirtySetOp, INNET_UDP_PORT, INNET_VERSION, METADATA_BYTES, Metadata, Structure, Visibility, VisibilityOp,
};

const CLUSTER: u32 = 77;
/// The last one has no route.
const SHARDS: [u16; 5] = [0, 1, 2, 255, 7];
/// Ports by which packets come: that of the last one is not listed as a host's at first.
const PORTS: [u32; 3] = [1, 2, 20];
/// Old packets that may come again.
const BAG_MAX: usize = 32;
/// Where positions of a run begin: before and behind half of all, and before they wrap.
const POSITIONS: [u32; 4] = [1, 0x7fff_ff00, 0x8000_0010, 0xffff_ff00];
/// Packets after which registers and counters are compared.
const COMPARED_EVERY: u64 = 64;

/// Makes the events of one run; what it makes does not depend on what the switches do.
struct Source {
    random: Random,
    config: Config,
    epoch: u16,
    terms: [u32; SHARDS.len()],
    counter: u32,
    /// The epoch of the table, and the last position.
    table: u16,
    position: u32,
    /// Entry and position of some installs, which clears name.
    installed: [(u32, u32); 8],
    bag: Vec<(u16, Vec<u8>)>,
    cache: CacheSource,
}

fn client() -> u32 {
    NodeId::session(SessionId(5)).0
}

fn shard(number: u16) -> u32 {
    NodeId::shard(ShardId(number)).0
}

impl Source {
    fn new(seed: u64) -> Source {
        let mut random = Random::new(seed);
        let stages = if random.once_in(8) { 10 } else { random.below(5) as usize };
        let (index_bits, entry_bits, cache_bits) = (random.below(4), random.below(3), random.below(4));
        let config = Config { index_bits, stages, entry_bits, cache_bits, ..Config::whole(CLUSTER) };
        let cache = CacheSource::new(&mut random, &config);
        let position = POSITIONS[random.below(POSITIONS.len() as u32) as usize];
        let (terms, installed) = ([1; SHARDS.len()], [(0, position); 8]);
        Source { random, config, epoch: 1, terms, counter: 0, table: 1, position, installed, bag: vec![], cache }
    }

    fn one_of<T: std::marker::Copy>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u32) as usize]
    }

    /// What a switch needs after a reboot; every run begins with it.
    fn set_up(&self) -> Vec<Event> {
        let nodes = SHARDS[..4].iter().map(|&number| shard(number)).chain([client()]);
        let routes = nodes.zip(1..).map(|(node, port)| Command::Route { node, port: Port(port) });
        let raises = SHARDS.iter().zip(self.terms).map(|(&shard, term)| Command::Raise { shard, term });
        let hosts = PORTS[..2].iter().map(|&port| Command::Host { port: Port(port) });
        let dirty_set = [Command::Epoch(self.epoch), Command::Complete(self.epoch)];
        let rest = [Command::VisibilityEpoch(self.table), Command::VisibilityComplete(self.table)];
        let rest = dirty_set.into_iter().chain(rest);
        let cache = self.cache.set_up(&self.config, PORTS, shard(SHARDS[0])).into_iter().map(Command::Cache);
        routes.chain(raises).chain(hosts).chain(rest).chain(cache).map(Event::Do).collect()
    }

    /// One event more, rarely several.
    fn more(&mut self, events: &mut Vec<Event>) {
        if self.random.once_in(100) {
            return self.command(events);
        }
        if self.random.once_in(40) {
            let commands = self.cache.commands(&mut self.random, &self.config, PORTS, shard(SHARDS[0]));
            events.extend(commands.into_iter().map(|command| Event::Do(Command::Cache(command))));
            return;
        }
        let place = self.random.below(PLACES as u32) as usize;
        if self.random.once_in(4) {
            events.push(Event::Go(place));
            return;
        }
        let packet = match self.bag.len() {
            known @ 1.. if self.random.once_in(5) => self.bag[self.random.below(known as u32) as usize].clone(),
            _ => self.packet(),
        };
        if self.bag.len() < BAG_MAX {
            self.bag.push(packet.clone());
        } else if self.random.once_in(8) {
            let place = self.random.below(BAG_MAX as u32) as usize;
            self.bag[place] = packet.clone();
        }
        let port = match self.random.once_in(16) {
            true => self.one_of(&[PORTS[2], PORTS[2], 0]),
            false => self.one_of(&PORTS[..2]),
        };
        events.push(match self.random.once_in(6) {
            true => Event::Hold(place, Port(port), packet.0, packet.1),
            false => Event::In(Port(port), packet.0, packet.1),
        });
    }

    fn command(&mut self, events: &mut Vec<Event>) {
        let place = self.random.below(SHARDS.len() as u32) as usize;
        let command = match self.random.below(20) {
            kind @ 0..=2 => {
                // A new epoch, mostly complete.
                self.epoch = if kind == 0 { 0 } else { self.epoch.wrapping_add(1) };
                events.push(Event::Do(Command::Epoch(self.epoch)));
                if self.random.once_in(4) {
                    return;
                }
                Command::Complete(self.epoch)
            }
            3 => Command::Epoch(self.epoch),
            4 => Command::Complete(self.epoch.wrapping_sub(self.random.below(2) as u16)),
            5 => Command::Clear,
            6 | 7 => {
                self.terms[place] += self.random.below(2);
                Command::Raise { shard: SHARDS[place], term: self.terms[place] }
            }
            8 => {
                let (shard, term) = (self.one_of(&[0, 255, 256, u16::MAX]), self.one_of(&[0, 1, 2, 1 << 24]));
                Command::Raise { shard, term }
            }
            9 => Command::Route { node: self.node(), port: Port(self.random.below(30)) },
            10 => Command::Unroute { node: self.node() },
            11 => Command::Host { port: Port(self.one_of(&PORTS)) },
            12 => Command::Unhost { port: Port(self.one_of(&PORTS)) },
            kind @ 13..=15 => {
                self.table = if kind == 13 { 0 } else { self.table.wrapping_add(1) };
                events.push(Event::Do(Command::VisibilityEpoch(self.table)));
                if self.random.once_in(4) {
                    return;
                }
                Command::VisibilityComplete(self.table)
            }
            16 => Command::VisibilityEpoch(self.table),
            17 => Command::VisibilityComplete(self.table.wrapping_sub(self.random.below(2) as u16)),
            18 => Command::VisibilityClear,
            _ => {
                events.push(Event::Do(Command::Reboot));
                if !self.random.once_in(8) {
                    events.extend(self.set_up());
                }
                return;
            }
        };
        events.push(Event::Do(command));
    }

    fn node(&mut self) -> u32 {
        let number = self.one_of(&SHARDS);
        self.one_of(&[shard(number), shard(number), client(), 0, 9, u32::MAX])
    }

    /// A value, or rarely one beside it.
    fn near(&mut self, value: u32) -> u32 {
        if self.random.once_in(10) { value ^ self.random.below(4) } else { value }
    }

    /// A packet as senders make it.
    fn good(&mut self) -> DirtySet {
        let op = self.one_of(DirtySetOp::ALL);
        let sender = self.random.below(SHARDS.len() as u32) as usize;
        let other = self.one_of(&SHARDS);
        let indexes = self.config.sets() as u32 + u32::from(self.random.once_in(10));
        self.counter += 1;
        let mut header = DirtySet {
            code: (Structure::DirtySet as u8) << 4 | op as u8,
            epoch: self.near(self.epoch.into()) as u16,
            version: INNET_VERSION,
            shard: SHARDS[sender],
            cluster: CLUSTER,
            destination: if self.random.once_in(2) { client() } else { shard(other) },
            index: self.random.below(indexes),
            tag: 1 + self.random.below(12),
            term: self.near(self.terms[sender]),
            sequence: self.counter - self.random.below(self.counter.min(30)),
            ..DirtySet::default()
        };
        if op == DirtySetOp::Insert && self.random.once_in(3) {
            header.destination = 0;
        }
        header
    }

    /// One field is what no sender writes, or only another one.
    fn spoil(&mut self, header: &mut DirtySet) {
        let word = self.random.word() as u32;
        match self.random.below(14) {
            0 => header.code = word as u8,
            1 => header.code = (Structure::DirtySet as u8) << 4 | (word & 0xf) as u8,
            2 => header.result = (word & 0xf) as u8,
            3 => header.epoch = self.one_of(&[0, u16::MAX]),
            4 => header.version = self.one_of(&[0, 2, 255]),
            5 => header.flags = word as u8 & 0xf,
            6 => header.shard = self.one_of(&[255, 256, 257, u16::MAX]),
            7 => header.cluster ^= 1 << (word & 31),
            8 => header.destination = word,
            9 => header.index ^= 1 << (word & 31),
            10 => header.tag = self.one_of(&[0, 0, u32::MAX]),
            11 => header.sequence = self.one_of(&[0, self.counter]),
            12 => header.spare_0 = word & 1,
            _ => header.spare_1 = word & 1,
        }
    }

    /// A packet of the visibility table as its senders make it.
    fn good_entry(&mut self) -> Visibility {
        let op = self.one_of(VisibilityOp::ALL);
        let entries = self.config.entries() as u32 + u32::from(self.random.once_in(10));
        self.position = self.position.wrapping_add(1);
        let (some, index) = (self.random.below(8) as usize, self.random.below(entries));
        let (index, ts) = match op {
            VisibilityOp::Look => (index, 0),
            VisibilityOp::Install => (index, self.position.wrapping_sub(self.random.below(3))),
            VisibilityOp::Clear if self.random.once_in(4) => (index, self.position),
            VisibilityOp::Clear => self.installed[some],
        };
        if op == VisibilityOp::Install {
            self.installed[some] = (index, ts);
        }
        let (home, seed) = (self.one_of(&SHARDS), self.random.word() as u8);
        let install = op == VisibilityOp::Install;
        let destination = match (install, self.random.once_in(3)) {
            (true, true) => 0,
            (true, false) => client(),
            _ => shard(home),
        };
        Visibility {
            code: (Structure::Visibility as u8) << 4 | op as u8,
            epoch: self.near(self.table.into()) as u16,
            version: INNET_VERSION,
            shard: home,
            cluster: CLUSTER,
            destination,
            index,
            fingerprint: 1 + self.random.below(3),
            ts,
            metadata: Metadata(if install { [seed; METADATA_BYTES] } else { [0; METADATA_BYTES] }),
            ..Visibility::default()
        }
    }

    /// One field is what no sender writes, or only another one.
    fn spoil_entry(&mut self, header: &mut Visibility) {
        let word = self.random.word() as u32;
        match self.random.below(13) {
            0 => header.code = word as u8,
            1 => header.code = (Structure::Visibility as u8) << 4 | (word & 0xf) as u8,
            2 => header.result = (word & 0xf) as u8,
            3 => header.epoch = self.one_of(&[0, u16::MAX]),
            4 => header.version = self.one_of(&[0, 2, 255]),
            5 => header.flags = word as u8 & 0xf,
            6 => header.shard = self.one_of(&[255, 256, 257, u16::MAX]),
            7 => header.cluster ^= 1 << (word & 31),
            8 => header.destination = word,
            9 => header.index ^= 1 << (word & 31),
            10 => header.fingerprint = self.one_of(&[0, 0, u32::MAX]),
            11 => header.ts = self.one_of(&[0, header.ts ^ 1 << 31, word]),
            _ => header.metadata.0[word as usize % METADATA_BYTES] = (word >> 16) as u8,
        }
    }

    fn header(&mut self) -> Vec<u8> {
        if self.random.once_in(2) {
            let (home, to) = (self.one_of(&SHARDS), self.one_of(&SHARDS));
            let mut header = self.cache.packet(&mut self.random, CLUSTER, home, [shard(to), client()]);
            while self.random.once_in(5) {
                cache::spoil(&mut self.random, &mut header);
            }
            return cache::bytes(header);
        }
        if self.random.once_in(2) {
            let mut header = self.good();
            while self.random.once_in(4) {
                self.spoil(&mut header);
            }
            return header.bytes().to_vec();
        }
        let mut header = self.good_entry();
        while self.random.once_in(4) {
            self.spoil_entry(&mut header);
        }
        header.bytes().to_vec()
    }

    fn packet(&mut self) -> (u16, Vec<u8>) {
        let mut bytes = self.header();
        let whole = bytes.len() as u32;
        match self.random.below(64) {
            0 => bytes.truncate(self.random.below(whole + 1) as usize),
            1 => bytes.resize((whole + self.random.below(1_400)) as usize, 0xa5),
            2 => bytes = (0..self.random.below(150)).map(|_| self.random.word() as u8).collect(),
            3..=5 => bytes[self.random.below(whole) as usize] = self.random.word() as u8,
            6 => return (self.one_of(&[0, INNET_UDP_PORT - 1, INNET_UDP_PORT.swap_bytes()]), bytes),
            _ => {}
        }
        (INNET_UDP_PORT, bytes)
    }
}

/// A run of at least so many packets; the world in the end, or what differs and after which events.
pub(crate) fn run(seed: u64, packets: u64) -> Result<World, String> {
    let mut source = Source::new(seed);
    let mut world = World::new(source.config, &cache::before(&source.config));
    let mut events = source.set_up();
    let mut done = 0;
    while world.packets < packets || done < events.len() {
        if done == events.len() {
            events.clear();
            done = 0;
            source.more(&mut events);
        }
        let event = &events[done];
        done += 1;
        let compared = world.packets.is_multiple_of(COMPARED_EVERY);
        let outcome = world.happen(event).and_then(|()| if compared { world.switch.compare() } else { Ok(()) });
        outcome.map_err(|what| explained(seed, world.packets, &what))?;
    }
    world.switch.compare().map_err(|what| explained(seed, world.packets, &what))?;
    Ok(world)
}

/// The difference with the fewest events that show it: the same are made again, as many as it took.
fn explained(seed: u64, packets: u64, what: &str) -> String {
    let mut source = Source::new(seed);
    let mut events = source.set_up();
    let mut made = 0;
    while made < packets + COMPARED_EVERY {
        let before = events.len();
        source.more(&mut events);
        made += events[before..].iter().filter(|event| matches!(event, Event::In(..) | Event::Hold(..))).count() as u64;
    }
    let config = source.config;
    let before = cache::before(&config);
    let few = shrunk(config, &before, events);
    let shown: Vec<String> = few.iter().map(|event| format!("  {event:02x?}")).collect();
    let last = difference(config, &before, &few).unwrap_or_else(|| what.to_owned());
    format!(
        "seed {seed}, packet {packets}: {what}\n{config:?}\nthe fewest events that show it are {}:\n{}\n{last}",
        few.len(),
        shown.join("\n")
    )
}
