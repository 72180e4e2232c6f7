//! The cache against what homes know: homes, a controller and clients keep to "What senders owe" of SPEC.md, packets of theirs are late, come
//! twice or wait inside of the switch, and each answer must be what its name led to at some moment of the call.
//!
//! A directory has names; the home of each changes it again and again: invalidate, the answer, the change, fill. The controller evicts names
//! and admits others at their indexes, and begins new epochs.

#[path = "common/random.rs"]
mod random;

use onpath_dataplane::{CacheCommand, Command, Config, Copy, Counter, Port, Step, Switch, Waiting};
use onpath_wire::ShardId;
use onpath_wire::ids::NodeId;
use onpath_wire::innet::cache::{Asker, CacheResult, EntryOf, EntryValue, Purpose, REVISION_END, VALUE_BYTES, Value};
use onpath_wire::innet::{Cache, INNET_UDP_PORT, InNet};
use random::Random;
use std::collections::BTreeMap;

const CLUSTER: u32 = 77;
const HOME: ShardId = ShardId(3);
const HOST: Port = Port(1);
const CLIENT: Port = Port(2);
const CONTROLLER: NodeId = NodeId(0x0400_0001);
const SESSION: NodeId = NodeId(0x0300_0005);
const DIRECTORY: u64 = 9;
/// Names, which share fewer indexes.
const NAMES: usize = 4;
const CACHE_BITS: u32 = 1;
/// Packets on their way, or that may come again.
const FLIGHT_MAX: usize = 24;
const STEPS: u64 = 1_500_000;

/// What a home knows of one of its names.
#[derive(Clone, Copy, Default)]
struct Name {
    /// What it leads to: counts the changes.
    size: u64,
    /// The entry that it was lent to, of this number, and its last revision; 0: to none.
    lent: u32,
    revision: u32,
    /// Whether the entry says nothing since the last fill.
    clean: bool,
    /// A change waits for the answer of this name's invalidate.
    changing: bool,
    /// What it led to at the beginning of the oldest call that is under way.
    admitted: Option<u32>,
}

/// A read under way: its name, and what that led to when it came in.
struct Call {
    name: usize,
    since: u64,
    waiting: Waiting,
}

struct World {
    random: Random,
    switch: Switch,
    epoch: u16,
    number: u32,
    names: [Name; NAMES],
    /// Of each index the name that has it.
    indexes: [Option<usize>; 1 << CACHE_BITS],
    /// What homes have sent and has not come in, and what has and may come again.
    flight: Vec<InNet>,
    calls: Vec<Call>,
    /// Fills and invalidates that wait in the switch.
    held: Vec<Waiting>,
    seen: BTreeMap<Counter, u64>,
}

fn key(name: usize) -> (u64, u8) {
    // Two of them are equal but for their tokens.
    (0x0004_0003_0002_0001 + name as u64 / 2, 1 + name as u8 % 2)
}

impl World {
    fn new(seed: u64) -> World {
        let config =
            Config { index_bits: 0, stages: 0, entry_bits: 0, cache_bits: CACHE_BITS, ..Config::whole(CLUSTER) };
        let mut world = World {
            random: Random::new(seed),
            switch: Switch::new(config).expect("a configuration"),
            epoch: 0,
            number: 0,
            names: [Name::default(); NAMES],
            indexes: [None; 1 << CACHE_BITS],
            flight: vec![],
            calls: vec![],
            held: vec![],
            seen: BTreeMap::new(),
        };
        for (node, port) in [(NodeId::shard(HOME), HOST), (SESSION, CLIENT), (CONTROLLER, Port(3))] {
            world.control(Command::Route { node: node.0, port });
        }
        world.control(Command::Host { port: HOST });
        world.cache(CacheCommand::Any { port: CLIENT });
        world.new_epoch();
        world
    }

    fn control(&mut self, command: Command) {
        self.switch.control(&command).unwrap_or_else(|refusal| panic!("{command:?}: {refusal}"));
    }

    fn cache(&mut self, command: CacheCommand) {
        self.control(Command::Cache(command));
    }

    /// The coordinator has ended an epoch, and all homes have heard of the next one: marks are void.
    fn new_epoch(&mut self) {
        self.cache(CacheCommand::Off);
        self.cache(CacheCommand::Empty);
        self.epoch += 1;
        self.cache(CacheCommand::Begin { epoch: self.epoch, until: 1 });
        self.indexes = [None; 1 << CACHE_BITS];
        for name in &mut self.names {
            *name =
                Name { size: name.size + u64::from(name.changing), changing: false, lent: 0, admitted: None, ..*name };
        }
    }

    fn of(&self, name: usize, revision: u32) -> EntryOf {
        let (key, token) = key(name);
        EntryOf { key, token, number: self.names[name].lent, revision }
    }

    /// Evicts who has an index, if anybody, and gives it to a name that has none.
    fn admit(&mut self) {
        let (index, name) = (self.random.below(1 << CACHE_BITS), self.random.below(NAMES as u32) as usize);
        let epoch = self.epoch;
        if let Some(other) = self.indexes[index as usize].take() {
            let (key, token) = key(other);
            self.cache(CacheCommand::Evict { epoch, key, token });
            self.cache(CacheCommand::Stamp { epoch, index, number: 0 });
            // Release: the home forgets a mark of exactly this number, if it arrives.
            if self.random.once_in(2) && Some(self.names[other].lent) == self.names[other].admitted {
                self.names[other].lent = 0;
                self.names[other].changing &= false;
            }
            self.names[other].admitted = None;
        }
        if self.names[name].admitted.is_some() {
            return;
        }
        self.number += 1;
        let (number, (key, token)) = (self.number, key(name));
        self.cache(CacheCommand::Stamp { epoch, index, number });
        self.cache(CacheCommand::Admit { epoch, key, token, index, number });
        self.indexes[index as usize] = Some(name);
        self.names[name].admitted = Some(number);
    }

    /// Lend: the home marks the name and fills its entry, unless it changes it, or knows of a later one.
    fn lend(&mut self, name: usize) {
        let Some(number) = self.names[name].admitted else { return };
        let known = self.names[name];
        if known.changing || known.lent > number {
            return;
        }
        let revision = if known.lent == number { known.revision + 1 } else { 1 };
        assert!(revision < REVISION_END);
        self.names[name] = Name { lent: number, revision, clean: false, ..known };
        self.fill(name);
    }

    fn fill(&mut self, name: usize) {
        let Name { size, revision, .. } = self.names[name];
        let value = EntryValue { parent: DIRECTORY, id: 100, kind: 8, mode: 0o644, size, ..EntryValue::default() };
        let fill = InNet::fill(CLUSTER, self.epoch, self.of(name, revision), &value, HOME, CONTROLLER);
        self.send(fill);
    }

    fn send(&mut self, packet: InNet) {
        if self.flight.len() == FLIGHT_MAX {
            let place = self.random.below(FLIGHT_MAX as u32) as usize;
            self.flight.swap_remove(place);
        }
        self.flight.push(packet);
    }

    /// A change: at once if the name is lent to nobody or is clean, else it waits, and asks again.
    fn change(&mut self, name: usize) {
        let known = &mut self.names[name];
        if known.lent == 0 || known.clean {
            known.size += 1;
            known.changing = false;
            return;
        }
        known.changing = true;
        let revision = known.revision;
        let invalidate = InNet::invalidate(CLUSTER, self.epoch, self.of(name, revision), HOME);
        self.send(invalidate);
    }

    /// What the home hears: it counts if it names the mark, its last revision or a later one, and the home's epoch.
    fn told(&mut self, header: &InNet) {
        let InNet::Cache(Cache::Invalidate(answer)) = header else { return };
        let Some(name) = (0..NAMES).find(|name| key(*name) == (answer.key, answer.token)) else { return };
        let known = &mut self.names[name];
        let result = CacheResult::of_code(answer.result);
        let counts = matches!(result, Some(CacheResult::Cleared | CacheResult::NotThere));
        if !counts || answer.epoch != self.epoch || answer.number != known.lent || answer.revision < known.revision {
            return;
        }
        known.clean = true;
        if result == Some(CacheResult::NotThere) {
            known.lent = 0;
        }
        if !known.changing {
            return;
        }
        self.change(name);
        if self.names[name].lent != 0 && self.random.once_in(2) {
            self.names[name].revision += 1;
            self.names[name].clean = false;
            self.fill(name);
        }
    }

    fn counted(&mut self, counter: Counter) {
        *self.seen.entry(counter).or_default() += 1;
    }

    /// What comes of a packet of a home; it may wait.
    fn homes(&mut self, step: Step, copies: &[Copy]) {
        match step {
            Step::Waits(waiting) => self.held.push(waiting),
            Step::Counted(counter) => {
                self.counted(counter);
                for copy in copies {
                    let header = InNet::of_bytes(&copy.header).expect("a header");
                    // Answers are late, or lost, like anything else.
                    if self.random.once_in(4) {
                        self.send(header);
                    } else {
                        self.told(&header);
                    }
                }
            }
        }
    }

    /// A packet comes in, and stays in flight now and then: it comes twice.
    fn arrive(&mut self) {
        if self.flight.is_empty() {
            return;
        }
        let place = self.random.below(self.flight.len() as u32) as usize;
        let packet = if self.random.once_in(4) { self.flight[place] } else { self.flight.swap_remove(place) };
        if packet.common().result != 0 {
            return self.told(&packet);
        }
        let mut copies = vec![];
        let step = self.switch.arrive(HOST, INNET_UDP_PORT, &packet.bytes(), &mut copies);
        self.homes(step, &copies);
    }

    fn go_on(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let place = self.random.below(self.held.len() as u32) as usize;
        let waiting = self.held.swap_remove(place);
        let mut copies = vec![];
        let step = self.switch.go_on(waiting, &mut copies);
        self.homes(step, &copies);
    }

    fn call(&mut self) {
        let name = self.random.below(NAMES as u32) as usize;
        let asker = Asker { requester: SESSION, uid: 1, gid: 1 };
        let (levels, what) = ([key(name)], (Purpose::Stat, 0));
        let read = InNet::read(CLUSTER, self.epoch, (DIRECTORY, &levels), what, asker, NodeId::shard(HOME));
        let since = self.names[name].size;
        match self.switch.arrive(CLIENT, INNET_UDP_PORT, &read.bytes(), &mut vec![]) {
            Step::Waits(waiting) => self.calls.push(Call { name, since, waiting }),
            Step::Counted(counter) => self.counted(counter),
        }
    }

    /// A read goes on, and its answer is one that was true meanwhile.
    fn answer(&mut self) -> Result<(), String> {
        if self.calls.is_empty() {
            return Ok(());
        }
        let place = self.random.below(self.calls.len() as u32) as usize;
        let Call { name, since, waiting } = self.calls.swap_remove(place);
        let mut copies = vec![];
        let counter = match self.switch.go_on(waiting, &mut copies) {
            Step::Waits(waiting) => {
                self.calls.push(Call { name, since, waiting });
                return Ok(());
            }
            Step::Counted(counter) => counter,
        };
        self.counted(counter);
        if counter != Counter::ReadAnswered {
            return Ok(());
        }
        let bytes: &[u8; VALUE_BYTES] = copies[0].header[40..].first_chunk().expect("a value");
        let (size, now) = (EntryValue::of(&Value(*bytes)).size, self.names[name].size);
        // A change that waits may have been made already, or not.
        let fits = (since..=now).contains(&size);
        if fits { Ok(()) } else { Err(format!("name {name} led to {since} to {now}, and {size} is answered")) }
    }

    fn step(&mut self) -> Result<(), String> {
        let name = self.random.below(NAMES as u32) as usize;
        match self.random.below(200) {
            0 => self.new_epoch(),
            1..=6 => self.admit(),
            7..=30 => self.lend(name),
            31..=50 => self.change(name),
            51..=90 => self.arrive(),
            91..=130 => self.go_on(),
            131..=165 => {
                if self.calls.len() < 8 {
                    self.call();
                }
            }
            _ => return self.answer(),
        }
        Ok(())
    }
}

/// Runs of one seed each; what is answered wrongly, and how often each counter counted.
fn run(seed: u64, steps: u64, seen: &mut BTreeMap<Counter, u64>) -> Result<(), String> {
    let mut world = World::new(seed);
    for step in 0..steps {
        world.step().map_err(|what| format!("seed {seed}, step {step}: {what}"))?;
    }
    for (counter, count) in world.seen {
        *seen.entry(counter).or_default() += count;
    }
    Ok(())
}

#[test]
fn what_is_answered_was_true_at_some_moment_of_the_call() {
    let mut seen = BTreeMap::new();
    for seed in 1..=STEPS / 50_000 {
        run(seed, 50_000, &mut seen).unwrap_or_else(|what| panic!("{what}"));
    }
    println!("{seen:?}");
    let wanted = [Counter::ReadAnswered, Counter::ReadMissed, Counter::FillDone, Counter::FillNotNewer];
    let more = [Counter::FillNotThere, Counter::FillOtherEpoch, Counter::InvalidateDone, Counter::InvalidateNotThere];
    for counter in wanted.into_iter().chain(more) {
        assert!(seen.get(&counter).is_some_and(|count| *count > 100), "{counter:?}: {seen:?}");
    }
}

/// The rules without which an answer is false: each is removed, and some seed must notice.
#[cfg(feature = "planted")]
#[test]
fn without_its_rules_the_cache_answers_what_is_false() {
    use onpath_dataplane::common::planted::{Planted, plant};
    let rules = [Planted::D80, Planted::D81, Planted::D82, Planted::D96, Planted::D98, Planted::D99, Planted::D102];
    let mut unnoticed = vec![];
    for rule in rules {
        plant(Some(rule));
        let noticed = (1..=40).find_map(|seed| run(seed, 50_000, &mut BTreeMap::new()).err());
        plant(None);
        match noticed {
            Some(what) => println!("{rule:?}: {what}"),
            None => unnoticed.push(rule),
        }
    }
    assert!(unnoticed.is_empty(), "nothing false is answered without {unnoticed:?}");
}
