//! The cache: what its decision tables decide, over all modes, callers and wishes, and of headers that no sender writes.

use crate::tables::{Entry, Tables, lookup, text, without_comments};
use onpath_dataplane::cache::control::CacheCommand;
use onpath_dataplane::common::state::{CacheState, Lease, Stamp};
use onpath_dataplane::{Command, Config, Counter, Port, State, Switch};
use onpath_wire::innet::cache::{
    CacheOp, EntryValue, Fill, LEVEL_BYTES, LEVELS_MAX, Levels, Purpose, Read, VALUE_BYTES,
};
use onpath_wire::innet::{Cache, Common, INNET_VERSION, InNet, InNetField, Structure};
use std::collections::BTreeSet;

const EPOCH: u16 = 7;
const KEY: u64 = 0x1234_5678_9abc_def0;
const NUMBER: u32 = 5;
const DIRECTORY: u64 = 70;
const SHARD: u32 = 0x0100_0002;
const CLIENT: u32 = 0x0300_0001;
const PORT: Port = Port(1);

fn code(op: CacheOp) -> u8 {
    (Structure::Cache as u8) << 4 | op as u8
}

/// A switch that has one entry.
fn switch(value: &EntryValue) -> Switch {
    switch_at(value, 2)
}

/// The same, whose stamp has this s.
fn switch_at(value: &EntryValue, state: u32) -> Switch {
    let cache = CacheState {
        lease: Lease { epoch: EPOCH, until: 1 },
        stamps: vec![(0, Stamp { number: NUMBER, state })],
        values: vec![(0, value.bytes())],
        ..CacheState::default()
    };
    let config = Config { index_bits: 0, stages: 0, entry_bits: 0, cache_bits: 0, ..Config::whole(0) };
    let mut switch = Switch::with_state(config, &State { cache, ..State::default() }).expect("a switch");
    for node in [SHARD, CLIENT] {
        switch.control(&Command::Route { node, port: PORT }).expect("a route");
    }
    let admit = CacheCommand::Admit { epoch: EPOCH, key: KEY, token: 1, index: 0, number: NUMBER };
    for command in [CacheCommand::Any { port: PORT }, admit] {
        switch.control(&Command::Cache(command)).expect("an entry that may be asked for");
    }
    switch
}

/// A read of an entry that is the last, or above a name that has none.
fn read(last: bool, purpose: Purpose, wants: u8, (uid, gid): (u32, u32)) -> Read {
    Read {
        code: code(CacheOp::Read),
        epoch: EPOCH,
        version: INNET_VERSION,
        destination: SHARD,
        depth: if last { 1 } else { 2 },
        purpose: purpose as u8,
        wants,
        uid,
        gid,
        start: DIRECTORY,
        requester: CLIENT,
        levels: Levels::of(&[(KEY, 1), (9, 1)]),
        ..Read::default()
    }
}

/// What the Rust form says of its first level.
fn by_rust(switch: &mut Switch, read: &Read) -> &'static str {
    let (mut copies, udp_port) = (vec![], switch.config().udp_port);
    let counter = switch.step(PORT, udp_port, &read.bytes(), &mut copies);
    let InNet::Cache(Cache::Read(told)) = InNet::of_bytes(&copies[0].header).expect("a header") else {
        panic!("{counter:?} of {read:?}")
    };
    match counter {
        Counter::ReadAnswered => "passes",
        Counter::ReadDenied => "denies",
        Counter::ReadMissed if told.level == 1 => "passes",
        Counter::ReadMissed => "cannot_tell",
        other => panic!("{other:?} of {read:?}"),
    }
}

/// What the decision tables say of it.
fn by_p4<'t>(read: &Read, value: &EntryValue, tables: [&'t [Entry]; 3]) -> &'t str {
    by_p4_at(read, value, 2, tables)
}

/// The same, if the stamp has this s.
fn by_p4_at<'t>(read: &Read, value: &EntryValue, state: u32, [class, fits, may]: [&'t [Entry]; 3]) -> &'t str {
    let bytes = value.bytes();
    let word = |at: usize| u64::from(u32::from_be_bytes(*bytes[4 * at..].first_chunk().expect("a word")));
    let (last, wants) = (u64::from(read.depth == 1), u64::from(read.wants));
    let differs = read.start ^ value.parent;
    let class = lookup(class, &[u64::from(value.uid ^ read.uid), u64::from(value.gid ^ read.gid)]);
    let class = class.map_or(0, |entry| entry.arguments[0]);
    let state = u64::from(state);
    let keys =
        [state, differs >> 32, differs & 0xffff_ffff, last, read.purpose.into(), wants, word(4), word(2), word(3)];
    let fits = lookup(fits, &keys).map_or(0, |entry| entry.arguments[0]);
    lookup(may, &[fits, last, class, wants, word(4)]).map_or("cannot_tell", |entry| entry.action.as_str())
}

#[test]
fn levels_are_passed_as_the_rust_form_passes_them() {
    let tables = Tables::read();
    let [(class, others), (fits, _), (may, open)] = [("class.p4", "class_of"), ("fits.p4", "fits"), ("may.p4", "may")]
        .map(|(file, table)| tables.entries_of(&format!("cache/{file}"), table));
    assert_eq!((others.as_str(), open.as_str()), ("class_is", "cannot_tell"));
    let (mut cases, mut seen) = (0, BTreeSet::new());
    let kinds = [4, 8, 10, 1];
    for (kind, mode) in kinds.into_iter().flat_map(|kind| (0..0o1000).map(move |mode| (kind, mode))) {
        // All modes of a directory, and some of the rest.
        if kind != 4 && mode % 73 != 0 {
            continue;
        }
        let value = EntryValue { parent: DIRECTORY, id: 71, kind, mode, uid: 1, gid: 10, ..EntryValue::default() };
        let mut switch = switch(&value);
        for (wants, caller) in (0..32).flat_map(|wants| [(1, 11), (2, 10), (2, 11)].map(|caller| (wants, caller))) {
            let purposes: &[Purpose] = if mode % 73 == 0 { Purpose::ALL } else { &[Purpose::Access] };
            for (last, &purpose) in [false, true].into_iter().flat_map(|last| purposes.iter().map(move |of| (last, of)))
            {
                let read = read(last, purpose, wants, caller);
                let says = by_rust(&mut switch, &read);
                assert_eq!(by_p4(&read, &value, [&class, &fits, &may]), says, "{mode:o}, {read:?}");
                cases += 1;
                seen.insert(says);
            }
        }
    }
    assert!(cases > 100_000 && seen.len() == 3, "{cases} cases come to {seen:?}");
    for (parent, id) in [(DIRECTORY + 1, 71), (DIRECTORY | 1 << 32, 71), (DIRECTORY, 0), (DIRECTORY, 1 << 32)] {
        let value = EntryValue { parent, id, kind: 4, mode: 0o777, ..EntryValue::default() };
        let read = read(false, Purpose::Lookup, 0, (1, 1));
        assert_eq!(by_p4(&read, &value, [&class, &fits, &may]), by_rust(&mut switch(&value), &read), "{value:?}");
    }
    let value = EntryValue { parent: DIRECTORY, id: 71, kind: 4, mode: 0o777, ..EntryValue::default() };
    for (state, last) in [0, 1, 2, 3, 4, u32::MAX].into_iter().flat_map(|state| [(state, false), (state, true)]) {
        let read = read(last, Purpose::Lookup, 0, (1, 1));
        let says = by_rust(&mut switch_at(&value, state), &read);
        assert_eq!(by_p4_at(&read, &value, state, [&class, &fits, &may]), says, "{state}");
    }
}

/// Payloads in which up to two fields are what no sender writes.
fn spoilt() -> Vec<Vec<u8>> {
    // (byte, what is written there)
    let spoils: [(usize, u8); 27] = [
        (4, 2),
        (8, 9),
        (0, 0x40),
        (0, 0x30),
        (0, 0x34),
        (5, 1),
        (6, 1),
        (1, 1),
        (1, 255),
        (16, 0),
        (16, 8),
        (16, 9),
        (16, 10),
        (17, 1),
        (18, 0),
        (18, 6),
        (18, 1),
        (18, 2),
        (19, 0x20),
        (19, 0x1f),
        (23, 0),
        (24, 0x80),
        (27, 0),
        (36, 1),
        (39, 1),
        (121, 1),
        (123, 1),
    ];
    let good = [
        read(true, Purpose::Size, 0, (1, 1)).bytes(),
        Fill { code: code(CacheOp::Fill), version: INNET_VERSION, token: 1, number: 1, revision: 1, ..Fill::default() }
            .bytes(),
    ];
    let mut all = vec![];
    for (op, good) in [(1, good[0]), (2, good[1]), (3, good[1])] {
        for (one, other) in spoils.iter().flat_map(|one| spoils.map(|other| (*one, other))) {
            let mut header = good;
            header[0] = (Structure::Cache as u8) << 4 | op;
            header[one.0] = one.1;
            header[other.0] = other.1;
            all.extend([16, 39, 40, 123, 124].map(|length| header[..length].to_vec()));
        }
        all.push(good.to_vec());
    }
    all
}

/// D-2 to D-8, D-11, D-44 and D-67 to D-72 as TNA decides them, whose parser does not.
#[test]
fn packets_of_the_cache_are_classified_as_the_rust_form_does() {
    let mut tables = Tables::read();
    tables.constants.insert("CLUSTER_NUMBER".to_owned(), 0);
    let [(reads, _), (cached, _)] =
        ["classify_read", "classify_cached"].map(|table| tables.entries_of("cache/classify.p4", table));
    let mut switch = switch(&EntryValue::default());
    switch.control(&Command::Host { port: Port(2) }).expect("a host");
    let (mut seen, udp_port) = (BTreeSet::new(), switch.config().udp_port);
    for (payload, host) in spoilt().into_iter().flat_map(|payload| [1, 2].map(|port| (payload.clone(), port == 2))) {
        let number = |at: usize, bytes: usize| {
            payload.get(at..at + bytes).map_or(0, |field| field.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)))
        };
        let (structure, op) = (number(0, 1) >> 4, number(0, 1) & 0xf);
        let whole = structure == 3 && payload.len() >= if op == 3 { 40 } else { 124 };
        let common = [number(4, 1), number(8, 4)];
        let kind = if whole && (op == 2 || op == 3) {
            let entry = [(17, 1), (18, 2), (36, 4), (16, 1), (20, 4), (24, 4)].map(|(at, bytes)| number(at, bytes));
            let own = [op, number(5, 1), number(6, 2), number(1, 1)];
            let keys: Vec<u64> = common.into_iter().chain(own).chain(entry).chain([host.into()]).collect();
            lookup(&cached, &keys)
        } else {
            let form = tables.value(if whole && op == 1 { "FORM_WHOLE" } else { "FORM_COMMON" });
            let own = [structure, op, number(5, 1), number(6, 2), number(1, 1), 0];
            let read = [(16, 1), (17, 1), (18, 1), (19, 1), (121, 3)].map(|(at, bytes)| number(at, bytes));
            let keys: Vec<u64> = [form].into_iter().chain(common).chain(own).chain(read).collect();
            lookup(&reads, &keys)
        };
        let kind = kind.map_or(Counter::DropVersion as u64, |entry| entry.arguments[0]);
        let counter = switch.step(Port(1 + u32::from(host)), udp_port, &payload, &mut vec![]);
        let wanted = match counter {
            Counter::Answered => tables.value("KIND_ANSWERED"),
            dropped if dropped.counts_drops() => dropped as u64,
            _ => tables.value(["KIND_READ", "KIND_FILL", "KIND_INVALIDATE"][op as usize - 1]),
        };
        assert_eq!(kind, wanted, "host {host}: {payload:?}, counted as {}", counter.name());
        seen.insert(counter);
    }
    assert!(seen.len() >= 10, "{seen:?}");
    // A later pass has a level, which no sender writes.
    let of_read = [tables.value("FORM_WHOLE"), INNET_VERSION.into(), 0, 3, CacheOp::Read as u64, 0, 0, 0];
    for (passes, kind) in [(0, Counter::DropReserved as u64), (1, tables.value("KIND_READ"))] {
        let keys: Vec<u64> = of_read.into_iter().chain([passes, 9, 3, 1, 0, 0]).collect();
        assert_eq!(lookup(&reads, &keys).map(|entry| entry.arguments[0]), Some(kind), "{passes} passes before");
    }
}

/// Each counter of the cache has one place where it counts; passes are counted by both actions that go on.
#[test]
fn the_outcome_counts_every_packet_of_the_cache() {
    let tables = Tables::read();
    let (outcome, _) = tables.entries("cache/outcome.p4");
    let counts = |entry: &&Entry| entry.action == "to_destination" || entry.action == "not_asked";
    let counter = |entry: &Entry| Counter::ALL[*entry.arguments.last().expect("a counter") as usize];
    let counted: BTreeSet<Counter> = outcome.iter().filter(counts).map(counter).collect();
    let architectures = [vec!["v1model.p4"], vec!["tna_cache.p4", "cache/tna_egress.p4"]];
    for files in architectures {
        let code = files.iter().map(|file| without_comments(&text(file))).collect::<String>().replace("(bit<8>)", "");
        for of in Counter::ALL.iter().filter(|of| of.is_of_cache()) {
            let by_action = code.matches(&format!("packets.count(COUNT_{})", of.name().to_uppercase())).count();
            let wanted = if of.counts_packets() { 1 } else { 2 };
            assert_eq!(by_action + usize::from(counted.contains(of)), wanted, "{files:?}: {}", of.name());
        }
    }
}

#[test]
fn fields_of_the_cache_lie_where_the_wire_has_them() {
    let text = without_comments(&text("cache/innet.p4"));
    let found = |header: &str| -> Vec<(String, usize)> {
        let body =
            text.split(&format!("header {header} {{")).nth(1).and_then(|rest| rest.split('}').next()).expect(header);
        let fields = body.split(';').map(str::trim).filter(|field| !field.is_empty());
        let field = |field: &str| {
            let (width, name) = field.strip_prefix("bit<").and_then(|rest| rest.split_once("> ")).expect("a field");
            (name.to_owned(), width.parse().expect("a width"))
        };
        fields.map(field).collect()
    };
    let words = |field: &InNetField| match field.bytes {
        bytes @ 0..=4 => vec![(field.name.to_owned(), 8 * bytes)],
        bytes => (0..bytes / 4).map(|word| (format!("{}_{word}", field.name), 32)).collect(),
    };
    let own = |all: &[InNetField]| all[Common::FIELDS.len()..all.len() - 1].iter().flat_map(words).collect::<Vec<_>>();
    assert_eq!(found("cache_read_t"), own(Read::FIELDS));
    assert_eq!(found("cache_entry_t"), own(Fill::FIELDS));
    assert_eq!(found("cache_value_t"), Fill::FIELDS.last().map(words).expect("a value"));
    let levels = found("cache_levels_t");
    assert_eq!(levels.iter().map(|(_, bits)| bits).sum::<usize>(), 8 * VALUE_BYTES);
    for level in 0..LEVELS_MAX {
        let before: usize = levels[..3 * level].iter().map(|(_, bits)| bits).sum();
        let of = [("key", "_0", 32), ("key", "_1", 32), ("token", "", 8)];
        let of = of.map(|(name, half, bits)| (format!("{name}_{level}{half}"), bits));
        assert_eq!((before, &levels[3 * level..3 * level + 3]), (8 * LEVEL_BYTES * level, &of[..]));
    }
    for array in 0..VALUE_BYTES / 4 {
        let place = format!("cached{array}.apply(meta.index, hdr.value.value_{array}, ");
        assert_eq!(crate::tables::text("cache/cache.p4").matches(&place).count(), 1, "{place}");
    }
}
