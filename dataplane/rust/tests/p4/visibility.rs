//! The visibility table: what its decision tables decide, over all keys.

use crate::tables::{Entry, Tables, lookup};
use onpath_dataplane::common::state;
use onpath_dataplane::{Command, Config, Counter, Port, State, Switch, Tracking};
use onpath_wire::ids::{NodeId, ShardId};
use onpath_wire::innet::{INNET_VERSION, InNet, METADATA_BYTES, Metadata, Structure, Visibility, VisibilityOp};
use std::collections::BTreeSet;

const HOME: u16 = 2;
const SESSION: u32 = 0x0300_0001;
const FINGERPRINT: u32 = 0x50001;
const EPOCH: u16 = 7;
const OF_PACKET: [u8; METADATA_BYTES] = [1; METADATA_BYTES];
const OF_ENTRY: [u8; METADATA_BYTES] = [2; METADATA_BYTES];

/// What became of a packet.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    counter: Counter,
    /// Fingerprint and Ts.
    gate: (u32, u32),
    kept: [u8; METADATA_BYTES],
    /// (node, result, metadata)
    copies: Vec<(u32, u8, [u8; METADATA_BYTES])>,
    unrouted: u64,
}

/// A packet and what it meets.
#[derive(Clone, Copy, Debug)]
struct Case {
    op: VisibilityOp,
    host: bool,
    tracking: Tracking,
    destination: u32,
    ts: u32,
    gate: (u32, u32),
}

impl Case {
    fn all() -> Vec<Case> {
        let runs = |epoch, complete| Tracking { epoch, complete };
        let trackings = [runs(0, false), runs(EPOCH + 1, true), runs(EPOCH, false), runs(EPOCH, true)];
        let positions = [1, 99, 100, 101, 0x8000_0063, 0x8000_0064, 0x8000_0065, u32::MAX];
        let mut all = vec![];
        for (&op, host) in VisibilityOp::ALL.iter().flat_map(|op| [true, false].map(|host| (op, host))) {
            for (tracking, destination) in trackings.into_iter().flat_map(|t| [0, SESSION].map(|node| (t, node))) {
                for (ts, of) in positions.into_iter().flat_map(|ts| [0, FINGERPRINT, 0x60002].map(|of| (ts, of))) {
                    let case = |last| Case { op, host, tracking, destination, ts, gate: (of, last) };
                    // No entry is occupied at position 0.
                    all.extend([0, 100, u32::MAX].into_iter().filter(|last| *last != 0 || of == 0).map(case));
                }
            }
        }
        all
    }

    fn header(&self) -> Visibility {
        Visibility {
            code: (Structure::Visibility as u8) << 4 | self.op as u8,
            epoch: EPOCH,
            version: INNET_VERSION,
            shard: HOME,
            destination: self.destination,
            fingerprint: FINGERPRINT,
            ts: self.ts,
            metadata: Metadata(OF_PACKET),
            ..Visibility::default()
        }
    }

    /// What the Rust form makes of it.
    fn by_rust(&self) -> Outcome {
        let entry = state::Entry { fingerprint: self.gate.0, ts: self.gate.1, metadata: OF_ENTRY };
        let before = State { visibility: self.tracking, entries: vec![(0, entry)], ..State::default() };
        let config = Config { index_bits: 0, stages: 0, entry_bits: 0, ..Config::whole(0) };
        let mut switch = Switch::with_state(config, &before).expect("a switch");
        for node in [SESSION, NodeId::shard(ShardId(HOME)).0] {
            switch.control(&Command::Route { node, port: Port(1) }).expect("a route");
        }
        switch.control(&Command::Host { port: Port(1) }).expect("a host");
        let (mut copies, port) = (vec![], Port(u32::from(self.host)));
        let counter = switch.step(port, switch.config().udp_port, &self.header().bytes(), &mut copies);
        let told = |copy: &onpath_dataplane::Copy| match InNet::of_bytes(&copy.header).expect("a header") {
            InNet::Visibility(header) => (copy.node, header.result, header.metadata.0),
            other => panic!("{other:?}"),
        };
        let (_, entry) = switch.state().entries[0];
        let unrouted = switch.counters().get(Counter::CopiesUnrouted);
        let copies = copies.iter().map(told).collect();
        Outcome { counter, gate: (entry.fingerprint, entry.ts), kept: entry.metadata, copies, unrouted }
    }

    /// What the actions of `Gate` do: whether the packet holds the entry then.
    fn by_gate(&self, action: &str) -> (bool, (u32, u32)) {
        let (of, last) = self.gate;
        match action {
            "look" => (of == FINGERPRINT, self.gate),
            "install" => {
                let after = self.ts.wrapping_sub(last);
                let takes = last == 0 || after != 0 && after >> 31 == 0 || after == 0 && of != 0;
                (takes, if takes { (FINGERPRINT, self.ts) } else { self.gate })
            }
            "clear" => {
                let frees = of != 0 && last == self.ts;
                (frees, if frees { (0, last) } else { self.gate })
            }
            "nothing" => (false, self.gate),
            other => panic!("no action {other}"),
        }
    }

    /// What the decision tables of P4 make of it.
    fn by_p4(&self, tables: &Tables, [gate, value, verdict]: [&[Entry]; 3]) -> Outcome {
        let kind = match self.host || self.op == VisibilityOp::Look {
            true => tables.value(["KIND_LOOK", "KIND_INSTALL", "KIND_CLEAR"][self.op as usize - 1]),
            false => tables.value("COUNT_DROP_STRANGER"), // routing.p4
        };
        let tracking = tables.value(match self.tracking {
            Tracking { epoch: EPOCH, complete: true } => "TRACKING_COMPLETE",
            Tracking { epoch: EPOCH, complete: false } => "TRACKING_RUNS",
            _ => "TRACKING_OTHER",
        });
        let action = |entries, keys: &[u64]| lookup(entries, keys).map_or("nothing", |entry| entry.action.as_str());
        let (held, gate) = self.by_gate(action(gate, &[kind, tracking]));
        let (mut kept, mut carried) = (OF_ENTRY, OF_PACKET);
        match action(value, &[kind, held.into()]) {
            "read" => carried = kept,
            "write" => kept = carried,
            "nothing" => {}
            other => panic!("no action {other}"),
        }
        let keys = [kind, tracking, held.into(), 0, 0, u64::from(self.destination)];
        let entry = lookup(verdict, &keys).unwrap_or_else(|| panic!("no verdict about {self:?}"));
        let home = NodeId::shard(ShardId(HOME)).0;
        let nodes = match entry.action.as_str() {
            "discard" => vec![],
            "to_destination" => vec![self.destination],
            "to_shard" => vec![home],
            "to_shard_and_destination" => vec![home, self.destination],
            other => panic!("{other} is no verdict about {self:?}"),
        };
        let (&count, results) = entry.arguments.split_last().expect("a counter");
        let result = results.first().copied().unwrap_or_default() as u8;
        // Node 0 has no route (D-41).
        let unrouted = nodes.iter().filter(|node| **node == 0).count() as u64;
        let copies = nodes.into_iter().filter(|node| *node != 0).map(|node| (node, result, carried)).collect();
        Outcome { counter: Counter::ALL[count as usize], gate, kept, copies, unrouted }
    }
}

#[test]
fn decision_tables_of_the_table_decide_as_the_rust_form() {
    let tables = Tables::read();
    let [(gate, idle), (value, still), (verdict, _)] =
        ["visibility/gate.p4", "visibility/value.p4", "common/verdict.p4"].map(|file| tables.entries(file));
    assert_eq!((idle.as_str(), still.as_str()), ("nothing", "nothing"), "what happens without an entry");
    let (cases, mut seen) = (Case::all(), BTreeSet::new());
    for case in &cases {
        let (rust, p4) = (case.by_rust(), case.by_p4(&tables, [&gate, &value, &verdict]));
        assert_eq!(p4, rust, "P4 and Rust about {case:?}");
        seen.insert(rust.counter);
    }
    assert!(cases.len() > 1000 && seen.len() == 9, "{} cases came to {seen:?}", cases.len());
}

/// The gate of TNA keeps the least position that takes effect in place of Ts: the same installs take effect, and the same clears free. But
/// after the clear of the last position an entry takes any, as if nothing had been there, and after any clear also the one that is exactly
/// half of all behind it.
#[test]
fn the_gate_of_tna_is_that_of_the_text() {
    let bar_of = |(of, last): (u32, u32)| if of == 0 && last != 0 { last.wrapping_add(1) } else { last };
    let (mut different, mut installs, mut clears) = (BTreeSet::new(), 0, 0);
    for case in Case::all() {
        let (bar, of) = (bar_of(case.gate), case.gate.0);
        let takes = bar == 0 || case.ts.wrapping_sub(bar) as i32 >= 0;
        let frees = bar == case.ts && of != 0;
        let (in_text, after) = case.by_gate("install");
        if takes == in_text {
            assert_eq!(if takes { case.ts } else { bar }, bar_of(after), "{case:?}");
        } else {
            different.insert((case.gate, case.ts));
        }
        let (in_text, after) = case.by_gate("clear");
        assert_eq!((frees, if frees { bar.wrapping_add(1) } else { bar }), (in_text, bar_of(after)), "{case:?}");
        (installs, clears) = (installs + u32::from(takes), clears + u32::from(frees));
    }
    different.retain(|(gate, _)| *gate != (0, u32::MAX));
    assert_eq!(different, BTreeSet::from([((0, 100), 0x8000_0064)]));
    assert!(installs > 100 && clears > 100, "{installs} installs take effect, {clears} clears");
}

/// Headers in which up to two fields are what no sender writes.
fn spoilt() -> Vec<Visibility> {
    let spoils: [fn(&mut Visibility); 13] = [
        |_| {},
        |header| header.version = 2,
        |header| header.cluster = 1,
        |header| header.code = header.code & 0xf0 | 4,
        |header| header.code &= 0xf0,
        |header| header.flags = 0x80,
        |header| header.shard = 256,
        |header| header.index = 1 << 16,
        |header| header.index = 1 << 31 | 1,
        |header| header.fingerprint = 0,
        |header| header.ts = 0,
        |header| header.result = 4,
        |header| header.result = 255,
    ];
    let mut all = vec![];
    for (&op, one) in VisibilityOp::ALL.iter().flat_map(|op| spoils.iter().map(move |one| (op, one))) {
        for other in spoils {
            let mut header = Visibility {
                code: (Structure::Visibility as u8) << 4 | op as u8,
                version: INNET_VERSION,
                fingerprint: FINGERPRINT,
                ts: 100,
                ..Visibility::default()
            };
            one(&mut header);
            other(&mut header);
            all.push(header);
        }
    }
    all
}

/// D-3 to D-11 and D-44 to D-46 as TNA decides them, whose parser does not.
#[test]
fn packets_of_the_table_are_classified_as_the_rust_form_does() {
    let mut tables = Tables::read();
    for (name, value) in [("CLUSTER_NUMBER", 0), ("BEYOND_ENTRIES", 0xffff_0000)] {
        tables.constants.insert(name.to_owned(), value);
    }
    let (classify, otherwise) = tables.entries("visibility/classify.p4");
    assert_eq!(otherwise, "is_kind");
    let mut switch = Switch::new(Config { index_bits: 0, stages: 0, ..Config::whole(0) }).expect("a switch");
    switch.control(&Command::Host { port: Port(1) }).expect("a host");
    let mut seen = BTreeSet::new();
    for (header, host) in spoilt().into_iter().flat_map(|header| [false, true].map(|host| (header, host))) {
        let op = header.code & 0xf;
        let keys = [header.version.into(), header.cluster, op.into(), header.flags.into(), header.shard.into()];
        let own = [header.index, header.fingerprint, header.ts, header.result.into(), host.into()];
        let keys: Vec<u64> = keys.into_iter().chain(own).map(u64::from).collect();
        let kind = lookup(&classify, &keys).map_or(Counter::DropVersion as u64, |entry| entry.arguments[0]);
        let rust = switch.step(Port(u32::from(host)), switch.config().udp_port, &header.bytes(), &mut vec![]);
        let wanted = match rust {
            Counter::Answered => tables.value("KIND_ANSWERED"),
            dropped if dropped.counts_drops() => dropped as u64,
            _ => tables.value(["KIND_LOOK", "KIND_INSTALL", "KIND_CLEAR"][usize::from(op) - 1]),
        };
        assert_eq!(kind, wanted, "host {host}: {header:?}, counted as {}", rust.name());
        seen.insert(rust);
    }
    assert!(seen.len() >= 13, "{seen:?}");
}
