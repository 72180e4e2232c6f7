//! Whatever comes in: no panic, every packet counted once, what is dropped changes nothing, and limits are kept.

#[path = "common/random.rs"]
mod random;

use onpath_dataplane::common::state::{CacheState, Entry, Lease, Pair, Stamp};
use onpath_dataplane::{
    CacheCommand, Command, Config, ConfigError, ControlError, Copy, Counter, Port, State, Switch, Tracking,
};
use onpath_wire::ids::{NodeId, Term, TrackingEpoch};
use onpath_wire::innet::cache::{Asker, EntryOf, EntryValue, Purpose, VALUE_BYTES};
use onpath_wire::innet::{EntryName, Fingerprint, INNET_UDP_PORT, InNet, METADATA_BYTES, Metadata, Visibility};
use onpath_wire::{SessionId, ShardId};
use random::Random;

const CLUSTER: u32 = 1;
const PACKETS: usize = 1_000_000;

fn switch() -> Switch {
    let mut switch =
        Switch::new(Config { index_bits: 3, stages: 3, entry_bits: 2, cache_bits: 2, ..Config::whole(CLUSTER) })
            .expect("a valid configuration");
    let route = Command::Route { node: NodeId::shard(ShardId(2)).0, port: Port(3) };
    let host = Command::Host { port: Port(0) };
    let epochs = [Command::Epoch(1), Command::Complete(1), Command::VisibilityEpoch(1), Command::VisibilityComplete(1)];
    for command in epochs.into_iter().chain([Command::Raise { shard: 2, term: 1 }, route, host]) {
        switch.control(&command).expect("a command");
    }
    let (epoch, token, node) = (1, 1, NodeId::shard(ShardId(2)).0);
    let cache = [
        CacheCommand::Begin { epoch, until: 1 },
        CacheCommand::Stamp { epoch, index: 1, number: 3 },
        CacheCommand::Admit { epoch, key: NAME, token, index: 1, number: 3 },
        CacheCommand::Any { port: Port(0) },
        CacheCommand::Report { node, threshold: 200 },
    ];
    for command in cache {
        switch.control(&Command::Cache(command)).expect("a command");
    }
    switch
}

/// The name that has an entry, and its directory.
const NAME: u64 = 0x0004_0003_0002_0001;
const DIRECTORY: u64 = 9;

/// Packets of the cache that are fine.
fn of_cache(random: &mut Random, number: u32) -> InNet {
    let (epoch, home) = (1 + u16::from(random.once_in(8)), ShardId(2));
    let of = EntryOf { key: NAME, token: 1, number: 3 + u32::from(random.once_in(8)), revision: number };
    match random.below(8) {
        0 => InNet::invalidate(CLUSTER, epoch, EntryOf { revision: number - 1, ..of }, home),
        1 | 2 => {
            let kind = [4, 8][random.below(2) as usize];
            let mode = [0o700, 0o755][random.below(2) as usize];
            let value = EntryValue { parent: DIRECTORY, id: DIRECTORY, kind, mode, uid: 1, ..EntryValue::default() };
            let revision = if random.once_in(4) { 1 } else { number };
            InNet::fill(CLUSTER, epoch, EntryOf { revision, ..of }, &value, home, NodeId::shard(home))
        }
        _ => {
            let asker = Asker { requester: NodeId::shard(home), uid: random.below(2), gid: 3 };
            let names = [(NAME, 1), (NAME + u64::from(random.once_in(8)), 1)];
            let names = &names[..1 + random.below(2) as usize];
            InNet::read(CLUSTER, epoch, (DIRECTORY, names), (Purpose::Lookup, 0), asker, NodeId::shard(home))
        }
    }
}

/// Packets that are fine, to be spoilt.
fn good(random: &mut Random, number: u32) -> InNet {
    let fingerprint = Fingerprint::new(random.below(16), 1 + random.below(9)).expect("a fingerprint");
    let (epoch, shard) = (TrackingEpoch(1), (ShardId(2), Term(1), number));
    let mark = (ShardId(2), 1, number);
    let client = NodeId::session(SessionId(1));
    let name = EntryName::new(random.below(5), 1 + random.below(3)).expect("a name");
    let install = |writer| {
        let metadata = Metadata([number as u8; METADATA_BYTES]);
        InNet::install(CLUSTER, epoch, name, (number, metadata), ShardId(2), writer)
    };
    match random.below(12) {
        8.. if number > 1 => of_cache(random, number),
        0 => InNet::query(CLUSTER, epoch, fingerprint, NodeId::shard(ShardId(2))),
        1 => InNet::insert(CLUSTER, epoch, fingerprint, mark, Some(client)),
        2 => InNet::insert(CLUSTER, epoch, fingerprint, mark, None),
        3 => install(None),
        4 => install(Some(client)),
        5 => InNet::look(CLUSTER, epoch, name, NodeId::shard(ShardId(2))),
        6 => InNet::clear(CLUSTER, epoch, name, (ShardId(2), number - random.below(number.min(3))), client),
        _ => {
            let epoch = TrackingEpoch(1 + u16::from(random.once_in(8)));
            InNet::remove(CLUSTER, epoch, fingerprint, shard, NodeId::shard(ShardId(2)))
        }
    }
}

/// A payload: noise, or a good packet with bits turned, bytes replaced, cut or lengthened.
fn payload(random: &mut Random, number: u32) -> Vec<u8> {
    if random.once_in(8) {
        return (0..random.below(90)).map(|_| random.word() as u8).collect();
    }
    let mut bytes = good(random, number).bytes().to_vec();
    let whole = bytes.len() as u32;
    for _ in 0..random.below(4) {
        let at = random.below(whole.min(45)) as usize;
        bytes[at] = if random.once_in(2) { bytes[at] ^ 1 << random.below(8) } else { random.word() as u8 };
    }
    match random.below(6) {
        0 => bytes.truncate(random.below(whole + 1) as usize),
        1 => bytes.resize((whole + random.below(2000)) as usize, 0xa5),
        _ => {}
    }
    bytes
}

fn totals(switch: &Switch) -> (u64, u64) {
    let sum = |which: fn(Counter) -> bool| {
        let counters = Counter::ALL.iter().filter(|&&counter| which(counter));
        counters.map(|&counter| switch.counters().get(counter)).sum()
    };
    (sum(Counter::counts_packets), sum(Counter::counts_copies))
}

#[test]
fn every_packet_is_counted_once_and_what_is_dropped_changes_nothing() {
    let (mut random, mut switch) = (Random::new(5), switch());
    let (mut copies, mut sent): (Vec<Copy>, u64) = (vec![], 0);
    let mut seen = std::collections::BTreeSet::new();
    for number in 1..=PACKETS as u64 {
        let payload = payload(&mut random, number as u32);
        let port = if random.once_in(50) { random.word() as u16 } else { INNET_UDP_PORT };
        // Whole states are compared only now and then: it is the slow part.
        let before = (number % 16 == 0).then(|| switch.state());
        copies.clear();
        let counter = switch.step(Port(u32::from(random.once_in(8))), port, &payload, &mut copies);
        seen.insert(counter);
        let (packets, all_copies) = totals(&switch);
        sent += copies.len() as u64;
        assert_eq!((packets, switch.counters().get(Counter::CopiesSent)), (number, sent), "{payload:02x?}");
        assert!(all_copies >= sent);
        if counter.counts_drops() || counter == Counter::Plain {
            assert!(copies.is_empty(), "dropped, but a copy left: {payload:02x?}");
            assert!(before.is_none_or(|before| before == switch.state()), "dropped, but changed: {payload:02x?}");
        }
        for copy in &copies {
            let out = copy.payload(&payload);
            assert_eq!(out.len(), payload.len());
            let same = |at: usize| out[at] == payload[at];
            let looked = if counter == Counter::LookPending { 28..Visibility::BYTES } else { 0..0 };
            let read = counter.is_of_cache() && payload[0] == 0x31;
            let walked = |at: usize| at == 17 || (28..36).contains(&at) || counter == Counter::ReadAnswered && at >= 40;
            let written =
                |at: usize| at == 1 || (12..16).contains(&at) || looked.contains(&at) || read && at < 124 && walked(at);
            assert!((0..out.len()).all(|at| same(at) || written(at)), "{payload:02x?}");
        }
    }
    let never: Vec<_> = Counter::ALL.iter().filter(|c| c.counts_packets() && !seen.contains(c)).collect();
    assert!(never.is_empty(), "never happened: {never:?}");
}

#[test]
fn configurations_that_cannot_be_are_refused() {
    let whole = Config::whole(CLUSTER);
    assert_eq!(Switch::new(Config { stages: 11, ..whole }).err(), Some(ConfigError::Stages(11)));
    for index_bits in [18, 32, u32::MAX] {
        assert_eq!(Switch::new(Config { index_bits, ..whole }).err(), Some(ConfigError::IndexBits(index_bits)));
    }
    for cache_bits in [17, 32, u32::MAX] {
        assert_eq!(Switch::new(Config { cache_bits, ..whole }).err(), Some(ConfigError::CacheBits(cache_bits)));
    }
    for entry_bits in [17, 32, u32::MAX] {
        assert_eq!(Switch::new(Config { entry_bits, ..whole }).err(), Some(ConfigError::EntryBits(entry_bits)));
    }
    let entry = Entry { fingerprint: 1, ts: 2, metadata: [3; METADATA_BYTES] };
    let pair = Pair { min_term: 1, counter: 1 };
    let stamp = Stamp { number: 1, state: 2 };
    let of_cache = |cache| State { cache, ..State::default() };
    let states = [
        State { pairs: vec![(256, pair)], ..State::default() },
        State { tags: vec![(10, 0, 1)], ..State::default() },
        State { tags: vec![(0, 1 << 17, 1)], ..State::default() },
        State { entries: vec![(1 << 16, entry)], ..State::default() },
        of_cache(CacheState { stamps: vec![(1 << 16, stamp)], ..CacheState::default() }),
        of_cache(CacheState { values: vec![(1 << 16, [1; VALUE_BYTES])], ..CacheState::default() }),
        of_cache(CacheState { sketch: vec![(3, 0, 1)], ..CacheState::default() }),
        of_cache(CacheState { sketch: vec![(0, 1 << 16, 1)], ..CacheState::default() }),
        of_cache(CacheState { reported: vec![1 << 16], ..CacheState::default() }),
        of_cache(CacheState { hits: vec![(1 << 16, 1)], ..CacheState::default() }),
    ];
    for state in states {
        assert!(matches!(Switch::with_state(whole, &state), Err(ConfigError::Register { .. })), "{state:?}");
    }
    let state = State {
        tracking: Tracking { epoch: 3, complete: true },
        pairs: vec![(255, pair)],
        tags: vec![(9, 5, 1)],
        visibility: Tracking { epoch: 4, complete: false },
        entries: vec![(0xffff, entry)],
        cache: CacheState {
            lease: Lease { epoch: 5, until: 6 },
            stamps: vec![(0xffff, stamp)],
            values: vec![(0xffff, [1; VALUE_BYTES])],
            sketch: vec![(2, 0xffff, 9)],
            reported: vec![0xffff],
            hits: vec![(0xffff, 7)],
        },
    };
    assert_eq!(Switch::with_state(whole, &state).expect("all of these exist").state(), state);
}

/// D-41.
#[test]
fn tables_are_bounded() {
    let mut switch = Switch::new(Config::whole(CLUSTER)).expect("valid");
    let route = |node| Command::Route { node, port: Port(1) };
    for node in 1..=65_536 {
        switch.control(&route(node)).expect("room");
    }
    assert_eq!(switch.control(&route(65_537)), Err(ControlError::Full("routes", 65_536)));
    switch.control(&route(1)).expect("a known node");
    switch.control(&Command::Unroute { node: 1 }).expect("away");
    switch.control(&route(65_537)).expect("room again");

    let host = |port| Command::Host { port: Port(port) };
    for port in 0..256 {
        switch.control(&host(port)).expect("room");
    }
    assert_eq!(switch.control(&host(256)), Err(ControlError::Full("hosts", 256)));
    switch.control(&host(255)).expect("a known host");
    switch.control(&Command::Unhost { port: Port(0) }).expect("away");
    switch.control(&host(256)).expect("room again");
}
