//! Random events about few fingerprints, nodes and epochs, so that sets overflow, old packets come again and tables fit or do not.

use crate::both::{Event, FIRST_PEER, World, difference, prefix, shrunk};
use crate::random::Random;
use onpath_dataplane::{Command, Config, Port};
use onpath_wire::ids::{NodeId, SessionId, ShardId};
use onpath_wire::innet::{
    DirtySetOp, FLAG_MULTICAST, FLAG_REDIRECT, INDEX_BITS, INNET_BYTES, INNET_UDP_PORT, INNET_VERSION, InNet,
    STRUCTURE_DIRTY_SET,
};

const CLUSTER: u32 = 77;
/// The last one has no route.
const SHARDS: [u16; 5] = [0, 1, 2, 255, 7];
/// The last one is never set up.
const GROUPS: [u32; 3] = [9, 10, 11];
/// Ports by which packets come: that of the last one is not listed as a host's at first.
const PORTS: [u32; 3] = [1, 2, 20];
/// Old packets that may come again.
const BAG_MAX: usize = 32;
/// Packets after which registers and counters are compared.
const COMPARED_EVERY: u64 = 64;
/// The first bit that a prefix of a switch does not have: 4 indexes each.
const OWN_BITS: u32 = INDEX_BITS - 2;

/// Makes the events of one run; what it makes does not depend on what the switches do.
pub(crate) struct Source {
    random: Random,
    pub(crate) configs: Vec<Config>,
    epoch: u16,
    terms: [u32; SHARDS.len()],
    counter: u32,
    bag: Vec<(u16, Vec<u8>)>,
}

fn client() -> u32 {
    NodeId::session(SessionId(5)).0
}

fn shard(number: u16) -> u32 {
    NodeId::shard(ShardId(number)).0
}

impl Source {
    pub(crate) fn new(seed: u64) -> Source {
        let mut random = Random::new(seed);
        let switches = if random.once_in(2) { 1 } else { 4 };
        let stages = if random.once_in(8) { 10 } else { random.below(5) as usize };
        let whole = Config { stages, ..Config::whole(CLUSTER) };
        let first = random.below(1 << OWN_BITS >> 2) << 2;
        let configs = (0..switches).map(|at| Config { own: prefix(first + at, OWN_BITS), ..whole }).collect();
        Source { random, configs, epoch: 1, terms: [1; SHARDS.len()], counter: 0, bag: vec![] }
    }

    fn one_of<T: std::marker::Copy>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u32) as usize]
    }

    /// What a switch needs after a reboot.
    fn set_up(&mut self, at: usize, events: &mut Vec<(usize, Event)>) {
        let nodes = SHARDS[..4].iter().map(|&number| shard(number)).chain([client()]);
        let routes = nodes.zip(1..).map(|(node, port)| Command::Route { node, port: Port(port) });
        let raises = SHARDS.iter().zip(self.terms).map(|(&shard, term)| Command::Raise { shard, term });
        let members = SHARDS.iter().map(|&number| shard(number)).collect();
        let peers = self.configs.iter().zip(FIRST_PEER..).enumerate().filter(|(other, _)| *other != at);
        let peers = peers.map(|(_, (config, port))| Command::Peer { prefix: config.own, port: Port(port) });
        let hosts = PORTS[..2].iter().copied().chain((0..self.configs.len() as u32).map(|at| FIRST_PEER + at));
        let hosts = hosts.map(|port| Command::Host { port: Port(port) });
        let rest = [
            Command::Group { group: GROUPS[0], members },
            Command::Group { group: GROUPS[1], members: vec![client()] },
            Command::Epoch(self.epoch),
            Command::Complete(self.epoch),
        ];
        events
            .extend(routes.chain(raises).chain(peers).chain(hosts).chain(rest).map(|command| (at, Event::Do(command))));
    }

    /// The events that every run begins with.
    pub(crate) fn begin(&mut self) -> Vec<(usize, Event)> {
        let mut events = vec![];
        (0..self.configs.len()).for_each(|at| self.set_up(at, &mut events));
        events
    }

    /// One event more, rarely several.
    pub(crate) fn more(&mut self, events: &mut Vec<(usize, Event)>) {
        let at = self.random.below(self.configs.len() as u32) as usize;
        if self.random.once_in(100) {
            return self.command(at, events);
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
            true => self.one_of(&[PORTS[2], PORTS[2], FIRST_PEER, 0]),
            false => self.one_of(&PORTS[..2]),
        };
        events.push((at, Event::In(Port(port), packet.0, packet.1)));
    }

    fn command(&mut self, at: usize, events: &mut Vec<(usize, Event)>) {
        let place = self.random.below(SHARDS.len() as u32) as usize;
        let command = match self.random.below(18) {
            kind @ 0..=2 => {
                // A new epoch, mostly for all switches and then complete.
                self.epoch = if kind == 0 { 0 } else { self.epoch.wrapping_add(1) };
                let all = if self.random.once_in(4) { at..at + 1 } else { 0..self.configs.len() };
                for at in all {
                    events.push((at, Event::Do(Command::Epoch(self.epoch))));
                    if !self.random.once_in(4) {
                        events.push((at, Event::Do(Command::Complete(self.epoch))));
                    }
                }
                return;
            }
            3 => Command::Epoch(self.epoch),
            4 => Command::Complete(self.epoch.wrapping_sub(self.random.below(2) as u16)),
            5 => Command::Clear,
            6 | 7 => {
                self.terms[place] += self.random.below(2);
                let command = Command::Raise { shard: SHARDS[place], term: self.terms[place] };
                events.extend((0..self.configs.len()).map(|at| (at, Event::Do(command.clone()))));
                return;
            }
            8 => {
                let (shard, term) = (self.one_of(&[0, 255, 256, u16::MAX]), self.one_of(&[0, 1, 2, 1 << 24]));
                Command::Raise { shard, term }
            }
            9 => Command::Route { node: self.node(), port: Port(self.random.below(30)) },
            10 => Command::Unroute { node: self.node() },
            11 => self.group(),
            12 => Command::Ungroup { group: self.one_of(&GROUPS) },
            13 => Command::Peer { prefix: self.prefix(), port: Port(self.random.below(30)) },
            14 => Command::Unpeer { prefix: self.prefix() },
            15 => Command::Host { port: Port(self.one_of(&PORTS)) },
            16 => Command::Unhost { port: Port(self.one_of(&PORTS)) },
            _ => {
                events.push((at, Event::Do(Command::Reboot)));
                if !self.random.once_in(8) {
                    self.set_up(at, events);
                }
                return;
            }
        };
        events.push((at, Event::Do(command)));
    }

    fn node(&mut self) -> u32 {
        let number = self.one_of(&SHARDS);
        self.one_of(&[shard(number), shard(number), client(), 0, 9, u32::MAX])
    }

    fn group(&mut self) -> Command {
        let count = self.one_of(&[0, 1, 2, 3, 3, 256, 257]);
        let first = if self.random.once_in(8) { 0 } else { shard(0) };
        let mut members: Vec<u32> = (first..first + count).collect();
        if self.random.once_in(6) {
            members.extend(members.last().copied());
        }
        Command::Group { group: self.one_of(&GROUPS[..2]), members }
    }

    /// A prefix near those of the switches, or none at all.
    fn prefix(&mut self) -> onpath_dataplane::Prefix {
        let own = self.configs[0].own;
        let bits = self.random.below(5) + INDEX_BITS - 3;
        let value = (own.first() >> INDEX_BITS.saturating_sub(bits)) ^ self.random.below(8);
        match self.random.below(8) {
            0 => prefix(self.random.word() as u32, bits),
            1 => prefix(self.random.below(4), self.one_of(&[0, 1, 2, 32, u32::MAX])),
            _ => prefix(value, bits),
        }
    }

    /// A value, or rarely one beside it.
    fn near(&mut self, value: u32) -> u32 {
        if self.random.once_in(10) { value ^ self.random.below(4) } else { value }
    }

    /// A packet as senders make it.
    fn good(&mut self) -> InNet {
        let op = self.one_of(DirtySetOp::ALL);
        let sender = self.random.below(SHARDS.len() as u32) as usize;
        let other = self.one_of(&SHARDS);
        let indexes = 4 * self.configs.len() as u32 + u32::from(self.random.once_in(10));
        self.counter += 1;
        let mut header = InNet {
            code: STRUCTURE_DIRTY_SET << 4 | op as u8,
            epoch: self.near(self.epoch.into()) as u16,
            version: INNET_VERSION,
            shard: SHARDS[sender],
            cluster: CLUSTER,
            destination: if self.random.once_in(2) { client() } else { shard(other) },
            index: self.configs[0].own.first() + self.random.below(indexes),
            tag: 1 + self.random.below(12),
            term: self.near(self.terms[sender]),
            sequence: self.counter - self.random.below(self.counter.min(30)),
            alternative: shard(self.one_of(&SHARDS)),
            ..InNet::default()
        };
        match op {
            DirtySetOp::Query => {}
            DirtySetOp::Insert => {
                header.flags = if self.random.once_in(3) { FLAG_REDIRECT } else { 0 };
                header.destination = if self.random.once_in(3) { 0 } else { header.destination };
            }
            DirtySetOp::Remove if self.random.once_in(3) => {
                (header.flags, header.destination) = (FLAG_MULTICAST, self.one_of(&GROUPS));
            }
            DirtySetOp::Remove => {}
        }
        header
    }

    /// One field is what no sender writes, or only another one.
    fn spoil(&mut self, header: &mut InNet) {
        let word = self.random.word() as u32;
        match self.random.below(13) {
            0 => header.code = word as u8,
            1 => header.code = STRUCTURE_DIRTY_SET << 4 | (word & 0xf) as u8,
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
            _ => header.spare = word & 1,
        }
    }

    fn packet(&mut self) -> (u16, Vec<u8>) {
        let mut header = self.good();
        while self.random.once_in(4) {
            self.spoil(&mut header);
        }
        let mut bytes = header.bytes().to_vec();
        match self.random.below(64) {
            0 => bytes.truncate(self.random.below(INNET_BYTES as u32 + 1) as usize),
            1 => bytes.resize(INNET_BYTES + self.random.below(1_400) as usize, 0xa5),
            2 => bytes = (0..self.random.below(90)).map(|_| self.random.word() as u8).collect(),
            3..=5 => bytes[self.random.below(INNET_BYTES as u32) as usize] = self.random.word() as u8,
            6 => return (self.one_of(&[0, INNET_UDP_PORT - 1, INNET_UDP_PORT.swap_bytes()]), bytes),
            _ => {}
        }
        (INNET_UDP_PORT, bytes)
    }
}

/// A run of at least so many packets; the world in the end, or what differs and after which events.
pub(crate) fn run(seed: u64, packets: u64) -> Result<World, String> {
    let mut source = Source::new(seed);
    let mut world = World::new(&source.configs);
    let mut events = source.begin();
    let mut done = 0;
    while world.packets < packets || done < events.len() {
        if done == events.len() {
            events.clear();
            done = 0;
            source.more(&mut events);
        }
        let (at, event) = &events[done];
        done += 1;
        let compared = world.packets.is_multiple_of(COMPARED_EVERY);
        let outcome = world.happen(*at, event).and_then(|()| if compared { world.compare() } else { Ok(()) });
        outcome.map_err(|what| explained(seed, world.packets, &what))?;
    }
    world.compare().map_err(|what| explained(seed, world.packets, &what))?;
    Ok(world)
}

/// The difference with the fewest events that show it: the same are made again, as many as it took.
fn explained(seed: u64, packets: u64, what: &str) -> String {
    let mut source = Source::new(seed);
    let mut events = source.begin();
    let mut made = 0;
    while made < packets + COMPARED_EVERY {
        let before = events.len();
        source.more(&mut events);
        made += events[before..].iter().filter(|(_, event)| matches!(event, Event::In(..))).count() as u64;
    }
    let configs = source.configs;
    let few = shrunk(&configs, events);
    let shown: Vec<String> = few.iter().map(|(at, event)| format!("  switch {at}: {event:02x?}")).collect();
    let last = difference(&configs, &few).unwrap_or_else(|| what.to_owned());
    format!(
        "seed {seed}, packet {packets}: {what}\n{configs:?}\nthe fewest events that show it are {}:\n{}\n{last}",
        few.len(),
        shown.join("\n")
    )
}
