//! The visibility table against a model whose positions have 64 bits: random installs, looks and clears, copies of old ones, new epochs, reboots.
//!
//! The model knows the whole position of each install, so that "newer" is what it says, and the table must agree although it compares 32
//! bits; positions begin at every quarter of them, and before they wrap.

#[path = "common/random.rs"]
mod random;

use onpath_dataplane::{Command, Config, Counter, Port, Switch};
use onpath_wire::ids::{NodeId, SessionId, ShardId, TrackingEpoch};
use onpath_wire::innet::{
    EntryName, INNET_UDP_PORT, InNet, METADATA_BYTES, Metadata, Visibility, VisibilityOp, VisibilityResult,
};
use random::Random;
use std::collections::{BTreeMap, BTreeSet};

const CLUSTER: u32 = 77;
const HOST: Port = Port(0);
const HOME: ShardId = ShardId(3);
const DATA: NodeId = NodeId(0x0200_0001);
/// Old packets that may come again.
const BAG_MAX: usize = 64;
/// Packets in all; ONPATH_DATAPLANE_PACKETS changes it.
const PACKETS: u64 = 1_000_000;

fn session() -> NodeId {
    NodeId::session(SessionId(5))
}

fn home() -> NodeId {
    NodeId::shard(HOME)
}

/// What is at an index: the position of the last install, and of which file it is and what it says unless it was cleared.
#[derive(Clone, Copy, Default)]
struct Kept {
    position: u64,
    of: Option<(u32, [u8; METADATA_BYTES])>,
}

#[derive(Default)]
struct Model {
    epoch: u16,
    complete: bool,
    entries: BTreeMap<u32, Kept>,
}

/// Result, metadata, and nodes of the copies.
type Answer = (VisibilityResult, [u8; METADATA_BYTES], BTreeSet<u32>);

impl Model {
    /// A packet whose `ts` is the lower half of `position`.
    fn step(&mut self, packet: &Visibility, position: u64) -> Answer {
        let matches = packet.epoch == self.epoch && self.epoch != 0;
        let kept = self.entries.entry(packet.index).or_default();
        let (carried, to) = (packet.metadata.0, BTreeSet::from([packet.destination]));
        match packet.op().expect("an operation") {
            VisibilityOp::Look => match kept.of {
                _ if !matches || !self.complete => (VisibilityResult::Unknown, carried, to),
                Some((of, metadata)) if of == packet.fingerprint => (VisibilityResult::Pending, metadata, to),
                _ => (VisibilityResult::None, carried, to),
            },
            VisibilityOp::Install if !matches => (VisibilityResult::OtherEpoch, carried, BTreeSet::from([home().0])),
            VisibilityOp::Install => {
                let takes = position > kept.position || position == kept.position && kept.of.is_some();
                if !takes {
                    return (VisibilityResult::Older, carried, BTreeSet::from([home().0]));
                }
                *kept = Kept { position, of: Some((packet.fingerprint, carried)) };
                let nodes = [home().0, packet.destination].into_iter().filter(|node| *node != 0);
                (VisibilityResult::Installed, carried, nodes.collect())
            }
            VisibilityOp::Clear if kept.position == position && kept.of.is_some() => {
                kept.of = None;
                (VisibilityResult::Cleared, carried, to)
            }
            VisibilityOp::Clear => (VisibilityResult::Kept, carried, to),
        }
    }

    fn command(&mut self, command: &Command) -> bool {
        match *command {
            Command::VisibilityEpoch(epoch) if epoch != self.epoch => (self.epoch, self.complete) = (epoch, false),
            Command::VisibilityComplete(epoch) if epoch == self.epoch && epoch != 0 => self.complete = true,
            Command::VisibilityComplete(_) => return false,
            Command::VisibilityClear if self.epoch == 0 => self.entries.clear(),
            Command::VisibilityClear => return false,
            Command::Reboot => *self = Model::default(),
            _ => {}
        }
        true
    }
}

fn set_tables(switch: &mut Switch) {
    for (node, port) in [home(), DATA, session()].into_iter().zip(1..) {
        switch.control(&Command::Route { node: node.0, port: Port(port) }).expect("a route");
    }
    switch.control(&Command::Host { port: HOST }).expect("a host");
}

/// A packet and the position that it means. Positions only grow, and none has a lower half of 0.
fn packet(random: &mut Random, entry_bits: u32, epoch: u16, position: &mut u64) -> (Visibility, u64) {
    let name = EntryName::new(random.below(1 << entry_bits), 1 + random.below(3)).expect("a name");
    let epoch = TrackingEpoch(if random.once_in(10) { epoch ^ random.below(4) as u16 } else { epoch });
    let near = position.saturating_sub(u64::from(random.below(6)));
    let (header, at) = match random.below(3) {
        0 => (InNet::look(CLUSTER, epoch, name, home()), 0),
        1 => {
            *position += 1 + u64::from(random.once_in(8)) * u64::from(random.below(1 << 20));
            *position += u64::from(*position as u32 == 0);
            let metadata = Metadata(std::array::from_fn(|at| (*position as usize + at) as u8));
            let writer = if random.once_in(3) { None } else { Some(session()) };
            (InNet::install(CLUSTER, epoch, name, (*position as u32, metadata), HOME, writer), *position)
        }
        _ if near as u32 == 0 => (InNet::look(CLUSTER, epoch, name, home()), 0),
        _ => (InNet::clear(CLUSTER, epoch, name, (HOME, near as u32), DATA), near),
    };
    let InNet::Visibility(header) = header else { unreachable!("it was made as one") };
    (header, at)
}

fn command(random: &mut Random, epoch: &mut u16) -> Command {
    match random.below(9) {
        0..=2 => {
            *epoch += 1;
            Command::VisibilityEpoch(*epoch)
        }
        3 => Command::VisibilityEpoch(0),
        4..=6 => Command::VisibilityComplete(*epoch),
        7 => Command::VisibilityClear,
        _ => Command::Reboot,
    }
}

/// The entries hold what the model holds.
fn compare(switch: &Switch, model: &Model) {
    let state = switch.state();
    assert_eq!((state.visibility.epoch, state.visibility.complete), (model.epoch, model.complete));
    let entries = state.entries.iter().map(|(index, entry)| (*index, (entry.fingerprint, entry.ts)));
    let known = model.entries.iter().filter(|(_, kept)| kept.position != 0);
    let known = known.map(|(&index, kept)| (index, (kept.of.map_or(0, |(of, _)| of), kept.position as u32)));
    assert_eq!(entries.collect::<Vec<_>>(), known.collect::<Vec<_>>());
    for (index, entry) in state.entries {
        let of = model.entries[&index].of;
        assert!(of.is_none_or(|(_, metadata)| metadata == entry.metadata), "entry {index}");
    }
}

fn run(seed: u64, packets: u64, seen: &mut BTreeSet<Counter>) {
    let mut random = Random::new(seed);
    let entry_bits = random.below(4);
    let config = Config { index_bits: 0, stages: 0, entry_bits, ..Config::whole(CLUSTER) };
    let mut switch = Switch::new(config).expect("a valid configuration");
    set_tables(&mut switch);
    let begins = [0, 0x4000_0000, 0x8000_0000, 0xc000_0000, 0xffff_ff00, 0x1_7fff_ff00];
    let (mut model, mut epoch, mut position) = (Model::default(), 0, begins[seed as usize % begins.len()]);
    let (mut bag, mut copies): (Vec<(Visibility, u64)>, _) = (vec![], vec![]);
    for number in 0..packets {
        if random.once_in(300) {
            let command = command(&mut random, &mut epoch);
            assert_eq!(switch.control(&command).is_ok(), model.command(&command), "{command:?}");
            if command == Command::Reboot {
                set_tables(&mut switch);
            }
        }
        // What is older than half of all positions does not come any more.
        bag.retain(|(_, at)| *at == 0 || position - at < 1 << 31);
        let (header, at) = match random.once_in(4) && !bag.is_empty() {
            true => bag[random.below(bag.len() as u32) as usize],
            false => packet(&mut random, entry_bits, epoch, &mut position),
        };
        if bag.len() < BAG_MAX {
            bag.push((header, at));
        } else if random.once_in(8) {
            let place = random.below(BAG_MAX as u32) as usize;
            bag[place] = (header, at);
        }
        copies.clear();
        let counter = switch.step(HOST, INNET_UDP_PORT, &header.bytes(), &mut copies);
        seen.insert(counter);
        let (result, metadata, nodes) = model.step(&header, at);
        let told: BTreeSet<u32> = copies.iter().map(|copy| copy.node).collect();
        assert_eq!(told, nodes, "seed {seed}, packet {number}: {header:?}, counted as {}", counter.name());
        for copy in &copies {
            let wanted =
                Visibility { result: result as u8, destination: copy.node, metadata: Metadata(metadata), ..header };
            let InNet::Visibility(given) = InNet::of_bytes(&copy.header).expect("a header") else { panic!("another") };
            assert_eq!(given, wanted, "seed {seed}, packet {number}: counted as {}", counter.name());
        }
        if number % 1_000 == 0 {
            compare(&switch, &model);
        }
    }
    compare(&switch, &model);
}

#[test]
fn a_million_random_packets_are_answered_as_whole_positions_would() {
    let packets = std::env::var("ONPATH_DATAPLANE_PACKETS").map_or(PACKETS, |text| text.parse().expect("a number"));
    let mut seen = BTreeSet::new();
    for seed in 0..24 {
        run(seed, packets / 24, &mut seen);
    }
    for counter in Counter::ALL {
        let about_entries = ["look_", "install_", "clear_"].iter().any(|prefix| counter.name().starts_with(prefix));
        assert!(!about_entries || seen.contains(counter), "{} never happened", counter.name());
    }
}
