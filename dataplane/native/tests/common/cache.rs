//! Random events about the cache: few names, ids, callers and tokens, so that walks are answered, denied or miss, entries come, are
//! overwritten and go, and packets wait meanwhile.

use crate::random::Random;
use onpath_dataplane::common::state::{CacheState, State};
use onpath_dataplane::{CacheCommand, Config, Port};
use onpath_wire::innet::cache::{
    CacheOp, EntryValue, Fill, Invalidate, LEVELS_MAX, Levels, Purpose, REVISION_END, Read,
};
use onpath_wire::innet::{Cache, INNET_VERSION, InNet, Structure};

/// Keys of names, the root's first; some are counted in one place.
const KEYS: [u64; 6] = [
    0,
    0x0004_0003_0002_0001,
    0x0005_0004_0003_0002,
    0x0001_0007_0002_0001,
    0xffff_ffff_ffff_ffff,
    0x0004_0003_0002_0000,
];
/// Where the clock of a run begins: at half of it, and before it wraps.
const CLOCKS: [u32; 4] = [0, 0x7fff_fe00, 0x8000_0010, 0xffff_fe00];
/// How far a lease reaches.
const LEASE: u32 = 1_000;

/// What an admitted name has: key, token, index, number, and the last revision.
#[derive(Clone, Copy, Default)]
struct Entry {
    key: u64,
    token: u8,
    index: u32,
    number: u32,
    revision: u32,
}

/// Makes events of the cache; what it makes does not depend on what the switches do.
pub(crate) struct CacheSource {
    epoch: u16,
    clock: u32,
    number: u32,
    entries: [Entry; 6],
    /// So many of them fit.
    known: u32,
}

fn one_of<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u32) as usize]
}

/// Counters of misses that are near their end, in switches of one size.
pub(crate) fn before(config: &Config) -> State {
    let places = if config.cache_bits == 1 { 2 } else { 0 };
    let sketch = (0..3).flat_map(|row| (0..places).map(move |at| (row, at, 65_400))).collect();
    State { cache: CacheState { sketch, ..CacheState::default() }, ..State::default() }
}

impl CacheSource {
    pub(crate) fn new(random: &mut Random, config: &Config) -> CacheSource {
        let clock = one_of(random, &CLOCKS);
        let mut entries = [Entry::default(); 6];
        for (place, (entry, key)) in (0..).zip(entries.iter_mut().zip(KEYS)) {
            *entry = Entry { key, token: 1, index: place, number: 100 + place, revision: 1 };
        }
        CacheSource { epoch: 1, clock, number: 200, entries, known: (config.cached() as u32).min(6) }
    }

    /// What a cache needs after a reboot.
    pub(crate) fn set_up(&self, config: &Config, ports: [u32; 3], node: u32) -> Vec<CacheCommand> {
        let mut commands = vec![CacheCommand::Clock(self.clock), self.begin()];
        for entry in self.entries.iter().take(config.cached()) {
            commands.extend(self.admit(entry));
        }
        commands.extend([
            CacheCommand::Any { port: Port(ports[0]) },
            CacheCommand::Caller { port: Port(ports[1]), uid: 1, gid: 1 },
            CacheCommand::Caller { port: Port(ports[1]), uid: 2, gid: 3 },
            CacheCommand::Report { node, threshold: 20 },
        ]);
        commands
    }

    fn begin(&self) -> CacheCommand {
        CacheCommand::Begin { epoch: self.epoch, until: self.clock.wrapping_add(LEASE) }
    }

    fn admit(&self, entry: &Entry) -> [CacheCommand; 2] {
        let Entry { key, token, index, number, .. } = *entry;
        let epoch = self.epoch;
        [CacheCommand::Stamp { epoch, index, number }, CacheCommand::Admit { epoch, key, token, index, number }]
    }

    /// One command, or those that belong together.
    pub(crate) fn commands(
        &mut self,
        random: &mut Random,
        config: &Config,
        ports: [u32; 3],
        node: u32,
    ) -> Vec<CacheCommand> {
        let place = random.below(self.entries.len() as u32) as usize;
        let port = Port(one_of(random, &ports));
        let epoch = if random.once_in(12) { self.epoch ^ random.below(4) as u16 } else { self.epoch };
        match random.below(24) {
            0..=4 => {
                self.clock = match random.below(120) {
                    0 => self.clock.wrapping_add(LEASE),
                    1 => self.clock.wrapping_add(1 << 31),
                    _ => self.clock.wrapping_add(random.below(60)),
                };
                vec![CacheCommand::Clock(self.clock)]
            }
            5..=11 => {
                let until = self.clock.wrapping_add(LEASE).wrapping_sub(random.below(2) * random.below(LEASE));
                vec![CacheCommand::Renew { epoch, until }]
            }
            12 | 13 => self.new_epoch(random, config),
            14 | 15 => self.replace(random, config, place),
            16 => {
                let Entry { key, token, index, .. } = self.entries[place];
                let evict = CacheCommand::Evict { epoch, key, token };
                let number = if random.once_in(3) { self.entries[place].number } else { 0 };
                vec![evict, CacheCommand::Stamp { epoch, index, number }]
            }
            17 => {
                let Entry { key, token, .. } = self.entries[place];
                let (index, number) = (random.below(config.cached() as u32 + 1), self.number * random.below(2));
                vec![CacheCommand::Admit { epoch, key, token: token * random.below(2) as u8, index, number }]
            }
            18 => vec![CacheCommand::Any { port }],
            19 => vec![CacheCommand::Caller { port, uid: random.below(3), gid: random.below(4) }],
            20 => vec![CacheCommand::Unlist { port }, CacheCommand::Any { port: Port(ports[0]) }],
            21 => vec![CacheCommand::Report { node: node * random.below(2), threshold: random.below(60) as u16 }],
            22 => vec![CacheCommand::Reset],
            _ => vec![one_of(random, &[CacheCommand::Off, CacheCommand::Empty, self.begin()])],
        }
    }

    /// Off, empty, begin, and the entries that there were, under new numbers; rarely one of the steps is missing.
    fn new_epoch(&mut self, random: &mut Random, config: &Config) -> Vec<CacheCommand> {
        let mut commands = vec![CacheCommand::Off, CacheCommand::Empty];
        if random.once_in(8) {
            commands.remove(random.below(2) as usize);
        }
        self.epoch = self.epoch.wrapping_add(1);
        commands.push(self.begin());
        for place in 0..self.entries.len().min(config.cached()) {
            self.number += 1;
            self.entries[place] = Entry { number: self.number, revision: 1, ..self.entries[place] };
            commands.extend(self.admit(&self.entries[place]));
        }
        commands
    }

    /// A name goes, and one gets its index.
    fn replace(&mut self, random: &mut Random, config: &Config, place: usize) -> Vec<CacheCommand> {
        let Entry { key, token, index, .. } = self.entries[place];
        let epoch = self.epoch;
        let mut commands =
            vec![CacheCommand::Evict { epoch, key, token }, CacheCommand::Stamp { epoch, index, number: 0 }];
        self.number += 1;
        let any = random.below(config.cached() as u32 + 1);
        let index = if random.once_in(3) { any } else { index };
        let token = 1 + random.below(2) as u8;
        let key = if random.once_in(3) { one_of(random, &KEYS) } else { key };
        self.entries[place] = Entry { key, token, index, number: self.number, revision: 1 };
        commands.extend(self.admit(&self.entries[place]));
        commands
    }

    /// A packet as its senders make it, of `epoch` or one beside it.
    pub(crate) fn packet(&mut self, random: &mut Random, cluster: u32, shard: u16, nodes: [u32; 2]) -> Cache {
        let epoch = if random.once_in(12) { self.epoch ^ random.below(4) as u16 } else { self.epoch };
        let place = if random.once_in(8) { random.below(6) } else { random.below(self.known) } as usize;
        match random.below(7) {
            0 | 1 => {
                let entry = self.told(random, place);
                let value = value(random, place);
                Cache::Fill(fill(&entry, CacheOp::Fill, (cluster, epoch, shard), nodes[0], &value))
            }
            2 => {
                let mut entry = self.told(random, place);
                entry.revision = self.entries[place].revision.saturating_sub(random.below(2)).max(1);
                let none = EntryValue::default();
                Cache::Invalidate(fill(&entry, CacheOp::Invalidate, (cluster, epoch, shard), nodes[0], &none).entry())
            }
            _ => Cache::Read(self.read(random, (cluster, epoch), nodes)),
        }
    }

    /// An entry of which its home speaks, mostly as it is.
    fn told(&mut self, random: &mut Random, place: usize) -> Entry {
        let known = &mut self.entries[place];
        known.revision += 1;
        let mut told = Entry { revision: known.revision - random.below(3).min(known.revision - 1), ..*known };
        match random.below(24) {
            0 => told.key = one_of(random, &KEYS),
            1 => told.token = 3 - told.token.min(2),
            2 => told.number = self.number - random.below(3),
            3 => told.revision = REVISION_END - 1 - random.below(2),
            _ => {}
        }
        told
    }

    fn read(&mut self, random: &mut Random, (cluster, epoch): (u32, u16), nodes: [u32; 2]) -> Read {
        let depth = if random.once_in(20) {
            random.below(LEVELS_MAX as u32) as usize
        } else {
            random.below(4).saturating_sub(1) as usize
        };
        let known = if random.once_in(8) { 6 } else { self.known };
        let mut levels = [(0, 0); LEVELS_MAX];
        for level in &mut levels[..=depth] {
            let entry = self.entries[random.below(known) as usize];
            *level = (entry.key, if random.once_in(16) { random.below(3) as u8 } else { entry.token });
        }
        let caps = if random.once_in(6) { (random.below(4) as u8) << 3 } else { 0 };
        Read {
            code: (Structure::Cache as u8) << 4 | CacheOp::Read as u8,
            epoch,
            version: INNET_VERSION,
            cluster,
            destination: nodes[0],
            depth: depth as u8 + 1,
            purpose: one_of(random, Purpose::ALL) as u8,
            wants: caps | if random.once_in(4) { random.below(8) as u8 } else { 0 },
            uid: random.below(3),
            gid: random.below(4),
            start: one_of(random, &[0, 1, 1, 1, 2, 3]),
            requester: nodes[1],
            levels: Levels::of(&levels[..=depth]),
            ..Read::default()
        }
    }
}

fn value(random: &mut Random, place: usize) -> EntryValue {
    let kind = one_of(random, &[4, 4, 4, 4, 8, 8, 10, 12]);
    let any = random.word() as u16 & 0o7777;
    let mode = one_of(random, &[0o755, 0o777, 0o711, 0o750, 0o705, 0o077, 0o644, 0, any]);
    let (parent, id) = if place == 0 { (0, 1) } else { (one_of(random, &[1, 1, 1, 2]), one_of(random, &[1, 2, 2, 0])) };
    let high = u64::from(random.once_in(16)) << (32 + random.below(32));
    EntryValue {
        parent: parent | high,
        id,
        kind,
        mode,
        uid: random.below(3),
        gid: random.below(4),
        size: random.word(),
        ..Default::default()
    }
}

fn fill(entry: &Entry, op: CacheOp, (cluster, epoch, shard): (u32, u16, u16), node: u32, value: &EntryValue) -> Fill {
    let Entry { key, token, number, revision, .. } = *entry;
    Fill {
        code: (Structure::Cache as u8) << 4 | op as u8,
        epoch,
        version: INNET_VERSION,
        shard,
        cluster,
        destination: node,
        token,
        number,
        revision,
        key,
        value: value.value(),
        ..Fill::default()
    }
}

/// One field is what no sender writes, or only another one.
pub(crate) fn spoil(random: &mut Random, header: &mut Cache) {
    let word = random.word() as u32;
    match header {
        Cache::Read(read) => match random.below(12) {
            0 => read.code = read.code & 0xf0 | (word & 0xf) as u8,
            1 => read.result = (word & 0xf) as u8,
            2 => read.epoch = one_of(random, &[0, u16::MAX]),
            3 => read.flags = word as u8 & 0xf,
            4 => read.shard = one_of(random, &[255, 256, u16::MAX]),
            5 => read.depth = one_of(random, &[0, 9, 10, 255]),
            6 => read.level = one_of(random, &[0, 1, 8, 255]),
            7 => read.purpose = one_of(random, &[0, 5, 6, 255]),
            8 => read.wants ^= 1 << (word & 7),
            9 => read.levels.0[(word % 84) as usize] ^= 1 << (word >> 8 & 7),
            10 => read.start ^= 1 << (word & 63),
            _ => read.requester = word,
        },
        Cache::Fill(fill) => {
            let mut entry = fill.entry();
            spoil_entry(random, &mut entry);
            let mut bytes = fill.bytes();
            bytes[..Invalidate::BYTES].copy_from_slice(&entry.bytes());
            *fill = Fill::of_bytes(&bytes);
        }
        Cache::Invalidate(entry) => spoil_entry(random, entry),
    }
}

fn spoil_entry(random: &mut Random, entry: &mut Invalidate) {
    let word = random.word() as u32;
    match random.below(12) {
        0 => entry.code = entry.code & 0xf0 | (word & 0xf) as u8,
        1 => entry.result = (word & 0xf) as u8,
        2 => entry.epoch = one_of(random, &[0, u16::MAX]),
        3 => entry.flags = word as u8 & 0xf,
        4 => entry.shard = one_of(random, &[255, 256, u16::MAX]),
        5 => entry.token = 0,
        6 => entry.number = one_of(random, &[0, entry.number ^ 1]),
        7 => entry.revision = one_of(random, &[0, REVISION_END, REVISION_END - 1, u32::MAX]),
        8 => entry.key ^= 1 << (word & 63),
        9 => entry.spare_0 = word as u8 & 1,
        10 => entry.spare_1 = word as u16 & 1,
        _ => entry.spare_2 = word & 1,
    }
}

/// As it is sent.
pub(crate) fn bytes(header: Cache) -> Vec<u8> {
    InNet::Cache(header).bytes().to_vec()
}
