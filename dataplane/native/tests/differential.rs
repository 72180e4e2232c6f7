//! The Rust and the C form do the same, whatever happens to them: random packets and commands, good and bad. A difference is told with its seed and the fewest events that show it.

#[path = "common/both.rs"]
mod both;
#[path = "common/events.rs"]
mod events;
#[path = "../../rust/tests/common/random.rs"]
mod random;

use both::Both;
use onpath_dataplane::common::state::{CacheState, Entry, Lease, Pair, Stamp};
use onpath_dataplane::{Command, Config, Counter, Port, State, Tracking};
use std::collections::BTreeSet;

/// Packets in all; ONPATH_DIFFERENTIAL_PACKETS changes it.
const PACKETS: u64 = 10_000_000;
/// Packets of one seed.
const RUN: u64 = 20_000;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// ONPATH_DIFFERENTIAL_SEED is the first seed.
#[test]
fn random_packets_and_commands_make_no_difference() {
    let first = number("ONPATH_DIFFERENTIAL_SEED", 1);
    let (mut packets, mut seen, mut refused) = (0, vec![0; Counter::ALL.len()], BTreeSet::new());
    for seed in first..first + number("ONPATH_DIFFERENTIAL_PACKETS", PACKETS).div_ceil(RUN) {
        let world = events::run(seed, RUN).unwrap_or_else(|what| panic!("{what}"));
        packets += world.packets;
        seen.iter_mut().zip(&world.seen).for_each(|(all, new)| *all += new);
        // No packet is counted as one of these.
        let passes = Counter::PassesRecirculated;
        seen[passes as usize] += world.switch.rust.counters().get(passes);
        refused.extend(world.refused);
    }
    println!("{packets} packets");
    for (counter, count) in Counter::ALL.iter().zip(&seen) {
        println!("{}: {count}", counter.name());
    }
    let never: Vec<_> = Counter::ALL.iter().filter(|c| !c.counts_copies() && seen[**c as usize] == 0).collect();
    assert!(never.is_empty(), "never happened: {never:?}");
    let refusals =
        ["Entry", "EpochRuns", "Full", "Known", "NodeZero", "NotEmpty", "OtherEpoch", "Passed", "Shard", "Term"];
    assert_eq!(refused.iter().collect::<Vec<_>>(), refusals.iter().collect::<Vec<_>>(), "refusals that happened");
}

/// D-41.
#[test]
fn full_tables_make_no_difference() {
    let mut both = Both::with_state(Config::whole(1), &State::default()).expect("a configuration");
    let route = |node| Command::Route { node, port: Port(node + 1) };
    let mut commands: Vec<Command> = (1..=65_537).map(route).collect();
    commands.extend([route(1), Command::Unroute { node: 1 }, route(65_537), route(65_538)]);
    let host = |port| Command::Host { port: Port(port) };
    commands.extend((0..=256).map(host));
    commands.extend([host(255), Command::Unhost { port: Port(7) }, host(256), host(257)]);
    let refused = commands.iter().filter(|command| both.control(command).expect("no difference").is_err()).count();
    assert_eq!(refused, 4, "one more route and host, and again after one went");
}

#[test]
fn configurations_make_no_difference() {
    let whole = Config::whole(1);
    assert!(Both::with_state(Config { stages: 11, ..whole }, &State::default()).is_err());
    for index_bits in [18, 32, u32::MAX] {
        assert!(Both::with_state(Config { index_bits, ..whole }, &State::default()).is_err());
    }
    for cache_bits in [17, 32, u32::MAX] {
        assert!(Both::with_state(Config { cache_bits, ..whole }, &State::default()).is_err());
    }
    for entry_bits in [17, 32, u32::MAX] {
        assert!(Both::with_state(Config { entry_bits, ..whole }, &State::default()).is_err());
    }
    let pair = Pair { min_term: 1, counter: 1 };
    let stamp = Stamp { number: 1, state: 2 };
    let of_cache = |cache| State { cache, ..State::default() };
    let entry = Entry { fingerprint: 1, ts: 2, metadata: std::array::from_fn(|at| at as u8) };
    for state in [
        State { pairs: vec![(256, pair)], ..State::default() },
        State { tags: vec![(10, 0, 1)], ..State::default() },
        State { tags: vec![(0, 1 << 17, 1)], ..State::default() },
        State { entries: vec![(1 << 16, entry)], ..State::default() },
        of_cache(CacheState { stamps: vec![(1 << 16, stamp)], ..CacheState::default() }),
        of_cache(CacheState { values: vec![(1 << 16, [1; 84])], ..CacheState::default() }),
        of_cache(CacheState { sketch: vec![(3, 0, 1)], ..CacheState::default() }),
        of_cache(CacheState { sketch: vec![(0, 1 << 16, 1)], ..CacheState::default() }),
        of_cache(CacheState { reported: vec![1 << 16], ..CacheState::default() }),
        of_cache(CacheState { hits: vec![(1 << 16, 1)], ..CacheState::default() }),
    ] {
        assert!(Both::with_state(whole, &state).is_err());
    }
    let state = State {
        tracking: Tracking { epoch: 3, complete: true },
        pairs: vec![(255, pair)],
        tags: vec![(9, 131_071, 1)],
        visibility: Tracking { epoch: 4, complete: false },
        entries: vec![(65_535, entry)],
        cache: CacheState {
            lease: Lease { epoch: 5, until: 6 },
            stamps: vec![(65_535, stamp)],
            values: vec![(65_535, [1; 84])],
            sketch: vec![(2, 65_535, 9)],
            reported: vec![65_535],
            hits: vec![(65_535, 7)],
        },
    };
    let mut both = Both::with_state(whole, &state).unwrap_or_else(|error| panic!("{error}"));
    both.compare().expect("no difference");
    assert_eq!(both.c.state(), state);
}
