//! Random packets and commands against a model made of ordinary sets: the switch must answer what the model answers, send to
//! whom it sends, and hold what it holds. Copies of old packets come again in any order, sets overflow, the switch reboots.

#[path = "common/random.rs"]
mod random;

use onpath_dataplane::{Command, Config, Copy, Counter, Port, Switch};
use onpath_wire::ids::{NodeId, SessionId, ShardId};
use onpath_wire::innet::{DirtySet, DirtySetOp, INDEX_BITS, INNET_VERSION, InNet, InNetResult, Structure};
use random::Random;
use std::collections::{BTreeMap, BTreeSet};

const CLUSTER: u32 = 77;
const SHARDS: u16 = 4;
/// By which packets of hosts come in, and others.
const PORTS: [Port; 2] = [Port(0), Port(99)];
/// Old packets that may come again.
const BAG_MAX: usize = 64;
/// Packets of the long run; ONPATH_DATAPLANE_PACKETS changes it.
const PACKETS: u64 = 1_000_000;

fn shard(number: u16) -> u32 {
    NodeId::shard(ShardId(number)).0
}

fn client() -> u32 {
    NodeId::session(SessionId(5)).0
}

/// What SPEC.md says, with sets instead of registers.
#[derive(Default)]
struct Model {
    epoch: u16,
    complete: bool,
    pairs: BTreeMap<u16, (u32, u32)>,
    marks: BTreeMap<u32, BTreeSet<u32>>,
    capacity: usize,
}

/// Result and nodes of the copies; no result: dropped.
type Answer = (Option<InNetResult>, Vec<u32>);

impl Model {
    fn step(&mut self, port: Port, packet: &DirtySet) -> Answer {
        if port != PORTS[0] && packet.op() != Some(DirtySetOp::Query) {
            return (None, vec![]); // a stranger's
        }
        let matches = packet.epoch == self.epoch && self.epoch != 0;
        let set = self.marks.entry(packet.index).or_default();
        match packet.op().expect("an operation") {
            DirtySetOp::Query => {
                let result = match (matches && self.complete, set.contains(&packet.tag)) {
                    (false, _) => InNetResult::Unknown,
                    (true, true) => InNetResult::Scattered,
                    (true, false) => InNetResult::Normal,
                };
                (Some(result), vec![packet.destination])
            }
            DirtySetOp::Insert if !matches => (Some(InNetResult::OtherEpoch), vec![shard(packet.shard)]),
            DirtySetOp::Insert => {
                if set.len() < self.capacity || set.contains(&packet.tag) {
                    set.insert(packet.tag);
                    let nodes = [shard(packet.shard), packet.destination];
                    return (Some(InNetResult::Marked), nodes.into_iter().filter(|&node| node != 0).collect());
                }
                (Some(InNetResult::Full), vec![shard(packet.shard)])
            }
            DirtySetOp::Remove => {
                let pair = self.pairs.entry(packet.shard).or_default();
                if packet.term != pair.0 || packet.sequence <= pair.1 {
                    return (None, vec![]);
                }
                pair.1 = packet.sequence;
                if matches {
                    set.remove(&packet.tag);
                }
                let result = if matches { InNetResult::Removed } else { InNetResult::OtherEpoch };
                (Some(result), vec![packet.destination])
            }
        }
    }

    fn command(&mut self, command: &Command) -> bool {
        match *command {
            Command::Epoch(epoch) if epoch != self.epoch => (self.epoch, self.complete) = (epoch, false),
            Command::Complete(epoch) if epoch == self.epoch && epoch != 0 => self.complete = true,
            Command::Complete(_) => return false,
            Command::Raise { shard, term } => {
                let pair = self.pairs.entry(shard).or_default();
                if term > pair.0 {
                    *pair = (term, 0);
                }
            }
            Command::Clear if self.epoch == 0 => self.marks.clear(),
            Command::Clear => return false,
            Command::Reboot => *self = Model { capacity: self.capacity, ..Model::default() },
            _ => {}
        }
        true
    }

    fn marks(&self) -> BTreeSet<(u32, u32)> {
        self.marks.iter().flat_map(|(&index, tags)| tags.iter().map(move |&tag| (index, tag))).collect()
    }
}

/// A small switch with its tables set, so that sets overflow often: 2^`index_bits` sets of `stages` registers.
fn switch(index_bits: u32, stages: usize) -> Switch {
    let config = Config { index_bits, stages, entry_bits: 0, ..Config::whole(CLUSTER) };
    let mut switch = Switch::new(config).expect("a valid configuration");
    set_tables(&mut switch);
    switch
}

fn set_tables(switch: &mut Switch) {
    for number in 0..SHARDS {
        let route = Command::Route { node: shard(number), port: Port(u32::from(number)) };
        switch.control(&route).expect("a route");
    }
    switch.control(&Command::Route { node: client(), port: Port(20) }).expect("a route");
    switch.control(&Command::Host { port: PORTS[0] }).expect("a host");
}

/// A packet of any operation about few fingerprints, mostly of the present epoch and term.
fn packet(
    random: &mut Random,
    index_bits: u32,
    epoch: u16,
    terms: &[u32; SHARDS as usize],
    counters: &mut u32,
) -> DirtySet {
    let op = DirtySetOp::ALL[random.below(3) as usize];
    let sender = random.below(u32::from(SHARDS)) as u16;
    let near = |random: &mut Random, value: u32| if random.once_in(10) { value ^ random.below(4) } else { value };
    *counters += 1;
    let mut header = DirtySet {
        code: (Structure::DirtySet as u8) << 4 | op as u8,
        epoch: near(random, u32::from(epoch)) as u16,
        version: INNET_VERSION,
        shard: sender,
        cluster: CLUSTER,
        destination: if random.once_in(2) { client() } else { shard(random.below(u32::from(SHARDS)) as u16) },
        index: random.below(1 << index_bits),
        tag: 1 + random.below(14),
        term: near(random, terms[usize::from(sender)]),
        sequence: *counters - random.below((*counters).min(30)),
        ..DirtySet::default()
    };
    if op == DirtySetOp::Insert && random.once_in(3) {
        header.destination = 0;
    }
    header
}

fn command(random: &mut Random, epoch: &mut u16, terms: &mut [u32; SHARDS as usize]) -> Command {
    let shard = random.below(u32::from(SHARDS)) as u16;
    match random.below(12) {
        0 | 1 => {
            *epoch += 1;
            Command::Epoch(*epoch)
        }
        2 => Command::Epoch(0),
        3 => Command::Epoch(*epoch),
        4..=6 => Command::Complete(*epoch),
        7 => Command::Clear,
        8 | 9 => {
            terms[usize::from(shard)] += random.below(2);
            Command::Raise { shard, term: terms[usize::from(shard)] }
        }
        10 => Command::Raise { shard, term: 1 },
        _ => Command::Reboot,
    }
}

/// The registers hold what the model holds, each tag once.
fn compare(switch: &Switch, model: &Model) {
    let state = switch.state();
    let marks: BTreeSet<(u32, u32)> = state.tags.iter().map(|&(_, index, tag)| (index, tag)).collect();
    assert_eq!(marks.len(), state.tags.len(), "a tag stands twice: {:?}", state.tags);
    assert_eq!(marks, model.marks());
    assert_eq!((state.tracking.epoch, state.tracking.complete), (model.epoch, model.complete));
    let pairs: Vec<_> = state.pairs.iter().map(|&(shard, pair)| (shard, (pair.min_term, pair.counter))).collect();
    let known: Vec<_> = model.pairs.iter().filter(|(_, pair)| **pair != (0, 0)).map(|(&s, &p)| (s, p)).collect();
    assert_eq!(pairs, known);
}

fn answered(copies: &[Copy]) -> Answer {
    let headers: Vec<InNet> = copies.iter().map(|copy| InNet::of_bytes(&copy.header).expect("a header")).collect();
    let result = headers.first().and_then(|header| header.result());
    assert!(headers.iter().all(|header| header.result() == result), "copies say different things");
    (result, headers.iter().map(|header| header.destination).collect())
}

fn run(seed: u64, index_bits: u32, stages: usize, packets: u64) -> BTreeMap<&'static str, u64> {
    let mut random = Random::new(seed);
    let mut switch = switch(index_bits, stages);
    let mut model = Model { capacity: stages, ..Model::default() };
    let (mut epoch, mut terms, mut counters) = (0, [1; SHARDS as usize], 0);
    let (mut bag, mut copies, mut seen) = (vec![], vec![], BTreeMap::new());
    for number in 0..packets {
        if random.once_in(300) {
            let command = command(&mut random, &mut epoch, &mut terms);
            assert_eq!(switch.control(&command).is_ok(), model.command(&command), "{command:?}");
            if command == Command::Reboot {
                set_tables(&mut switch);
            }
        }
        let old = random.once_in(4) && !bag.is_empty();
        let header: DirtySet = if old {
            bag[random.below(bag.len() as u32) as usize]
        } else {
            packet(&mut random, index_bits, epoch, &terms, &mut counters)
        };
        if bag.len() < BAG_MAX {
            bag.push(header);
        } else if random.once_in(8) {
            let place = random.below(BAG_MAX as u32) as usize;
            bag[place] = header;
        }
        copies.clear();
        let port = PORTS[usize::from(random.once_in(20))];
        let counter = switch.step(port, switch.config().udp_port, &header.bytes(), &mut copies);
        *seen.entry(counter.name()).or_default() += 1;
        let (mut expected, mut given) = (model.step(port, &header), answered(&copies));
        expected.1.sort_unstable();
        given.1.sort_unstable();
        assert_eq!(given, expected, "seed {seed}, packet {number}: {header:?}, counted as {}", counter.name());
        if number % 1_000 == 0 {
            compare(&switch, &model);
        }
    }
    compare(&switch, &model);
    seen
}

#[test]
fn a_million_random_packets_are_answered_as_sets_would() {
    let packets = std::env::var("ONPATH_DATAPLANE_PACKETS").map_or(PACKETS, |text| text.parse().expect("a number"));
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..20 {
        let index_bits = 1 + (seed as u32 & 3);
        for (name, count) in run(seed, index_bits, seed as usize % 11, packets / 20) {
            *seen.entry(name).or_default() += count;
        }
    }
    for counter in Counter::ALL {
        let about_marks = ["query_", "insert_", "remove_"].iter().any(|prefix| counter.name().starts_with(prefix));
        assert!(!about_marks || seen.contains_key(counter.name()), "{} never happened", counter.name());
    }
}

#[test]
fn a_switch_of_full_size_is_like_a_small_one() {
    run(1, INDEX_BITS, 10, 50_000);
}

/// whatever copies come in whatever order, over restarts of shards and reboots of the switch, no remove takes effect twice,
/// and none after a later one of its shard.
#[test]
fn no_remove_takes_effect_twice_or_late() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let mut switch = switch(2, 4);
        let (mut epoch, mut term, mut counter) = (1, 1, 0);
        let mut effective: Vec<(u16, u32, u32)> = vec![];
        let mut sent = vec![];
        let begin = |switch: &mut Switch, term: u32, epoch: u16| {
            switch.control(&Command::Raise { shard: 1, term }).expect("a term");
            switch.control(&Command::Epoch(epoch)).expect("an epoch");
        };
        begin(&mut switch, term, epoch);
        for _ in 0..2_000 {
            match random.below(40) {
                0 => {
                    // The shard restarts, and the control plane says so before it serves.
                    (term, counter) = (term + 1, 0);
                    switch.control(&Command::Raise { shard: 1, term }).expect("a term");
                }
                1 => {
                    epoch += 1;
                    switch.control(&Command::Reboot).expect("a reboot");
                    set_tables(&mut switch);
                    begin(&mut switch, term, epoch);
                }
                2..=20 => {
                    counter += 1;
                    let mut header = packet(&mut random, 2, epoch, &[term; 4], &mut 1);
                    header.code = (Structure::DirtySet as u8) << 4 | DirtySetOp::Remove as u8;
                    (header.shard, header.epoch) = (1, epoch);
                    (header.term, header.sequence) = (term, counter);
                    sent.push(header);
                }
                _ if sent.is_empty() => {}
                _ => {
                    let oldest = if random.once_in(2) { sent.len().saturating_sub(5) } else { 0 };
                    let header = sent[oldest + random.below((sent.len() - oldest) as u32) as usize];
                    let mut copies = vec![];
                    if switch.step(PORTS[0], switch.config().udp_port, &header.bytes(), &mut copies)
                        == Counter::RemoveDone
                    {
                        let name = (header.epoch, header.term, header.sequence);
                        let last = effective.last();
                        assert!(last.is_none_or(|last| *last < name), "seed {seed}: {name:?} after {last:?}");
                        effective.push(name);
                    }
                }
            }
        }
        assert!(effective.len() > 20, "seed {seed}: only {} removes took effect", effective.len());
    }
}

/// D-22: an insert or a query again changes nothing and is answered alike, unless it is the set that changed.
#[test]
fn queries_and_inserts_are_idempotent() {
    let (mut random, mut switch) = (Random::new(3), switch(3, 3));
    switch.control(&Command::Epoch(1)).expect("an epoch");
    switch.control(&Command::Complete(1)).expect("complete");
    let mut counters = 0;
    for _ in 0..20_000 {
        let header = packet(&mut random, 3, 1, &[1; 4], &mut counters);
        let step = |switch: &mut Switch| {
            let mut copies = vec![];
            let counter = switch.step(PORTS[0], switch.config().udp_port, &header.bytes(), &mut copies);
            (counter, copies)
        };
        let first = step(&mut switch);
        if header.op() != Some(DirtySetOp::Remove) {
            let state = switch.state();
            assert_eq!(step(&mut switch), first);
            assert_eq!(switch.state(), state);
        }
        if random.once_in(100) {
            switch.control(&Command::Epoch(0)).expect("no epoch");
            switch.control(&Command::Clear).expect("clear");
            switch.control(&Command::Epoch(1)).expect("an epoch");
            switch.control(&Command::Complete(1)).expect("complete");
        }
    }
}

/// The host runs a switch as one more role.
#[test]
fn a_switch_is_a_value_that_may_change_threads() {
    fn sendable(_: impl Send + 'static) {}
    sendable(switch(INDEX_BITS, 10));
}
