//! The P4 form, as far as it can be checked without its compiler: the files hold together, the layout is the wire's, every rule is
//! cited, and the decision tables decide what the Rust form does. `bmv2.rs` compiles and runs it where that can be done.

mod cache;
mod tables;
mod visibility;

use onpath_dataplane::common::state::Pair;
use onpath_dataplane::{Command, Config, Counter, Port, State, Switch, Tracking};
use onpath_wire::ids::{NodeId, ShardId};
use onpath_wire::innet::{
    DirtySet, DirtySetOp, INNET_VERSION, InNet, InNetField, METADATA_BYTES, Structure, Visibility, header_bytes,
};
use std::collections::{BTreeMap, BTreeSet};
use tables::{Entry, Tables, dir, lookup, text, without_comments};

/// (name below dataplane/p4, text) of every P4 file.
fn files() -> Vec<(String, String)> {
    let mut names = vec![];
    for folder in ["", "common/", "dirty_set/", "visibility/", "cache/"] {
        for entry in std::fs::read_dir(dir().join(folder)).expect("a folder of dataplane/p4") {
            let name = entry.expect("an entry").file_name().into_string().expect("a name");
            names.extend(name.ends_with(".p4").then(|| format!("{folder}{name}")));
        }
    }
    names.sort();
    names.into_iter().map(|name| (name.clone(), text(&name))).collect()
}

/// All states of the parser.
fn parser() -> String {
    ["common/frame", "common/parser", "dirty_set/parser", "visibility/parser", "cache/parser"]
        .map(|name| text(&format!("{name}.p4")))
        .concat()
}

/// Words and signs; lines of the preprocessor are left out.
fn tokens(text: &str) -> Vec<String> {
    let text = without_comments(text);
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let (mut tokens, mut word) = (vec![], String::new());
    for c in code.join("\n").chars() {
        if c.is_ascii_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            tokens.push(std::mem::take(&mut word));
        }
        if !c.is_whitespace() {
            tokens.push(c.to_string());
        }
    }
    tokens
}

#[test]
fn files_hold_together() {
    const SIGNS: &str = "(){}[]<>;:,.=+-~&|^!?@#\"/*";
    for (name, text) in files() {
        let mut open: Vec<String> = vec![];
        for token in tokens(&text) {
            let pair = match token.as_str() {
                "(" | "{" | "[" => {
                    open.push(token);
                    continue;
                }
                ")" => "(",
                "}" => "{",
                "]" => "[",
                sign if sign.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || SIGNS.contains(c)) => continue,
                sign => panic!("{name}: {sign:?} is no sign of P4"),
            };
            assert_eq!(open.pop().as_deref(), Some(pair), "{name}: {token}");
        }
        assert!(open.is_empty(), "{name}: {open:?} is not closed");
        let conditions = |word: &str| text.lines().filter(|line| line.trim_start().starts_with(word)).count();
        assert_eq!(conditions("#if"), conditions("#endif"), "{name}: conditions of the preprocessor");
        for line in text.lines().filter_map(|line| line.trim_start().strip_prefix("#include ")) {
            if let Some(included) = line.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
                let beside = dir().join(&name).parent().expect("a folder").join(included);
                assert!(beside.exists(), "{name} includes {included}, which does not exist");
            } else {
                assert!(["<core.p4>", "<v1model.p4>", "<tna.p4>"].contains(&line), "{name} includes {line}");
            }
        }
    }
}

/// bmv2 has no conditions inside of actions, a table is applied once a packet, and no array is out of its turn.
#[test]
fn every_table_and_array_has_its_one_place() {
    let all: BTreeMap<String, String> = files().into_iter().collect();
    for (name, text) in &all {
        let tokens = tokens(text);
        for (at, _) in tokens.iter().enumerate().filter(|(_, token)| *token == "action") {
            let body: Vec<&String> =
                tokens[at..].iter().skip_while(|token| *token != "{").take_while(|t| *t != "}").collect();
            assert!(!body.iter().any(|token| *token == "if"), "{name}: action {} has a condition", tokens[at + 1]);
        }
        for pair in tokens.windows(2).filter(|pair| pair[0] == "table") {
            let applied = |text: &String| without_comments(text).matches(&format!("{}.apply(", pair[1])).count();
            let includes = |file: &&String| {
                let folder = file.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
                name.strip_prefix(&folder).is_some_and(|beside| all[*file].contains(&format!("\"{beside}\"")))
            };
            // Those at the top are the architectures': v1model.p4 has what it shares with others.
            let (here, of_fragment) = (applied(text), all.keys().rev().find(includes));
            let times = of_fragment.filter(|_| here == 0).map_or(here, |file| applied(&all[file]));
            assert_eq!(times, 1, "{name}: table {} is applied", pair[1]);
        }
    }
    let applied = |file: &str, prefix: &str| -> Vec<String> {
        let names = all[file].lines().filter_map(|line| line.trim().split_once(".apply(hdr")).map(|(name, _)| name);
        names.filter(|name| name.starts_with(prefix)).map(str::to_owned).collect()
    };
    let arrays: Vec<String> = (0..10).map(|stage| format!("array{stage}")).collect();
    assert_eq!(applied("dirty_set/dirty_set.p4", "array"), arrays);
    let values: Vec<String> = (0..24).map(|array| format!("value{array}")).collect();
    assert_eq!(applied("visibility/visibility.p4", ""), [&["gate".to_owned()], &values[..]].concat());
    for array in 0..24 {
        let own = format!("value{array}.apply(hdr.visibility.index, hdr.visibility.metadata_{array}, ");
        assert!(all["visibility/visibility.p4"].contains(&own), "{own}");
    }
}

#[test]
fn fields_lie_where_the_wire_has_them() {
    let text = without_comments(&text("common/innet.p4"));
    for (own, fields) in [("header dirty_set_t {", DirtySet::FIELDS), ("header visibility_t {", Visibility::FIELDS)] {
        let (mut at, mut found) = (0, vec![]);
        for header in ["header innet_t {", own] {
            let body = text.split(header).nth(1).and_then(|rest| rest.split('}').next()).expect(header);
            for field in body.split(';').map(str::trim).filter(|field| !field.is_empty()) {
                let (width, name) = field.strip_prefix("bit<").and_then(|rest| rest.split_once("> ")).expect(field);
                let bits: usize = width.parse().expect("a width");
                found.push((name.to_owned(), at, bits));
                at += bits;
            }
        }
        let halves = [("structure".to_owned(), 0, 4), ("op".to_owned(), 4, 4)];
        assert_eq!(found[..2], halves, "the code of FIELDS is two fields in P4");
        // What is longer than a register is there word by word.
        let words = |field: &InNetField| match field.bytes {
            METADATA_BYTES => (0..24).map(|n| (format!("{}_{n}", field.name), 8 * field.at + 32 * n, 32)).collect(),
            bytes => vec![(field.name.to_owned(), 8 * field.at, 8 * bytes)],
        };
        assert_eq!(found[2..], fields[1..].iter().flat_map(words).collect::<Vec<_>>());
    }
}

#[test]
fn every_rule_is_cited() {
    let spec = std::fs::read_to_string(dir().join("../SPEC.md")).expect("SPEC.md");
    let rules = spec.lines().filter_map(|line| line.strip_prefix("* **D-")?.split(' ').next()?.parse().ok());
    let rules: BTreeSet<usize> = rules.collect();
    let mut cited = BTreeSet::new();
    for text in files().into_iter().map(|(_, text)| text).chain([text("README.md")]) {
        let chunks: Vec<&str> = text.split("D-").skip(1).collect();
        let number = |chunk: &str| chunk.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
        let numbers = chunks.iter().enumerate().filter_map(|(at, chunk)| {
            let first: usize = number(chunk)?;
            // `D-2 to D-10` cites what lies between.
            let range = chunk.ends_with(" to ") && chunk.len() <= 6;
            let last = if range { chunks.get(at + 1).and_then(|next| number(next)) } else { None };
            Some(first..=last.unwrap_or(first))
        });
        cited.extend(numbers.flatten());
    }
    let bare: Vec<&usize> = rules.difference(&cited).collect();
    assert!(bare.is_empty(), "rules that no file cites: {bare:?}");
}

const SHARD: u16 = 2;
const CLIENT: u32 = 0x0300_0001;
const TAG: u32 = 0x50001;
const REGISTERS: [u32; 3] = [0, TAG, 0x60002];
const EPOCH: u16 = 7;
const TERM: u32 = 4;
const SEQUENCE: u32 = 100;

/// What became of a packet.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    counter: Counter,
    arrays: [u32; 2],
    /// The counter of its shard.
    sequence: u32,
    /// (node, result)
    copies: Vec<(u32, u8)>,
    unrouted: u64,
}

/// A packet and what it meets.
#[derive(Clone, Copy, Debug)]
struct Case {
    op: DirtySetOp,
    /// Whether it comes in by the port of a host.
    host: bool,
    tracking: Tracking,
    client: u32,
    term: u32,
    sequence: u32,
    arrays: [u32; 2],
}

impl Case {
    fn all() -> Vec<Case> {
        let runs = |epoch, complete| Tracking { epoch, complete };
        let mut all = vec![];
        for &op in DirtySetOp::ALL {
            for tracking in [runs(0, false), runs(EPOCH + 1, true), runs(EPOCH, false), runs(EPOCH, true)] {
                for (client, term) in [0, CLIENT].into_iter().flat_map(|c| [3, 4, 5].map(|term| (c, term))) {
                    for (sequence, first) in
                        [SEQUENCE, SEQUENCE + 1].into_iter().flat_map(|s| REGISTERS.map(|r| (s, r)))
                    {
                        for host in [true, false] {
                            let case = |second| {
                                let arrays = [first, second];
                                Case { op, host, tracking, client, term, sequence, arrays }
                            };
                            all.extend(REGISTERS.map(case));
                        }
                    }
                }
            }
        }
        all
    }

    fn header(&self) -> DirtySet {
        DirtySet {
            code: (Structure::DirtySet as u8) << 4 | self.op as u8,
            epoch: EPOCH,
            version: INNET_VERSION,
            shard: SHARD,
            destination: self.client,
            tag: TAG,
            term: self.term,
            sequence: self.sequence,
            ..DirtySet::default()
        }
    }

    /// What the Rust form makes of it.
    fn by_rust(&self) -> Outcome {
        let tags =
            [0, 1].map(|at| (at, 0, self.arrays[usize::from(at)])).into_iter().filter(|tag| tag.2 != 0).collect();
        let pairs = vec![(SHARD, Pair { min_term: TERM, counter: SEQUENCE })];
        let state = State { tracking: self.tracking, pairs, tags, ..State::default() };
        let mut switch =
            Switch::with_state(Config { stages: 2, entry_bits: 0, ..Config::whole(0) }, &state).expect("a switch");
        for node in [CLIENT, NodeId::shard(ShardId(SHARD)).0] {
            switch.control(&Command::Route { node, port: Port(1) }).expect("a route");
        }
        let mut copies = vec![];
        switch.control(&Command::Host { port: Port(1) }).expect("a host");
        let port = Port(u32::from(self.host));
        let counter = switch.step(port, switch.config().udp_port, &self.header().bytes(), &mut copies);
        let state = switch.state();
        let register = |at| state.tags.iter().find(|tag| tag.0 == at).map_or(0, |tag| tag.2);
        let copies =
            copies.iter().map(|copy| (copy.node, InNet::of_bytes(&copy.header).expect("a header").result)).collect();
        let unrouted = switch.counters().get(Counter::CopiesUnrouted);
        let arrays = [register(0), register(1)];
        Outcome { counter, arrays, sequence: state.pairs[0].1.counter, copies, unrouted }
    }

    /// What the decision tables of P4 make of it.
    fn by_p4(&self, tables: &Tables, step: &[Entry], verdict: &[Entry]) -> Outcome {
        let header = self.header();
        let kind = match self.host || self.op == DirtySetOp::Query {
            true => tables.value(["KIND_QUERY", "KIND_INSERT", "KIND_REMOVE"][self.op as usize - 1]),
            false => tables.value("COUNT_DROP_STRANGER"), // routing.p4
        };
        let tracking = match self.tracking {
            Tracking { epoch: EPOCH, complete: true } => "TRACKING_COMPLETE",
            Tracking { epoch: EPOCH, complete: false } => "TRACKING_RUNS",
            _ => "TRACKING_OTHER",
        };
        let tracking = tables.value(tracking);
        let order = tables.value(
            ["TERM_EQUAL", "TERM_AHEAD", "TERM_LOWER"][match self.term.cmp(&TERM) {
                std::cmp::Ordering::Equal => 0,
                std::cmp::Ordering::Greater => 1,
                std::cmp::Ordering::Less => 2,
            }],
        );
        let remove = kind == tables.value("KIND_REMOVE");
        let admitted = u64::from(remove && self.term == TERM && self.sequence > SEQUENCE);
        let (mut held, mut arrays) = (0, self.arrays);
        for register in &mut arrays {
            match lookup(step, &[kind, tracking, admitted, held]).map_or("nothing", |entry| &entry.action) {
                "query" => held |= u64::from(*register == TAG),
                "conditional_insert" => {
                    *register = if *register == 0 { TAG } else { *register };
                    held = u64::from(*register == TAG);
                }
                "conditional_remove" => *register = if *register == TAG { 0 } else { *register },
                "nothing" => {}
                other => panic!("no action {other}"),
            }
        }
        let order = if remove { order } else { 0 };
        let keys = [kind, tracking, held, admitted, order, u64::from(header.destination)];
        let entry = lookup(verdict, &keys).unwrap_or_else(|| panic!("no verdict about {self:?}"));
        let nodes = match entry.action.as_str() {
            "discard" => vec![],
            "to_destination" => vec![header.destination],
            "to_shard" => vec![NodeId::shard(ShardId(SHARD)).0],
            "to_shard_and_destination" => vec![NodeId::shard(ShardId(SHARD)).0, header.destination],
            other => panic!("{other} is no verdict about {self:?}"),
        };
        let (&count, results) = entry.arguments.split_last().expect("a counter");
        let result = results.first().copied().unwrap_or_default() as u8;
        // Node 0 has no route (D-41).
        let unrouted = nodes.iter().filter(|node| **node == 0).count() as u64;
        let copies = nodes.into_iter().filter(|node| *node != 0).map(|node| (node, result)).collect();
        let sequence = if admitted == 1 { self.sequence } else { SEQUENCE };
        Outcome { counter: Counter::ALL[count as usize], arrays, sequence, copies, unrouted }
    }
}

#[test]
fn decision_tables_decide_as_the_rust_form() {
    let tables = Tables::read();
    let ((step, otherwise), (verdict, plain)) =
        (tables.entries("dirty_set/array.p4"), tables.entries("common/verdict.p4"));
    assert_eq!((otherwise.as_str(), plain.as_str()), ("nothing", "pass"), "what happens without an entry");
    let (cases, mut seen) = (Case::all(), BTreeSet::new());
    for case in &cases {
        let (rust, p4) = (case.by_rust(), case.by_p4(&tables, &step, &verdict));
        assert_eq!(p4, rust, "P4 and Rust about {case:?}");
        seen.insert(rust.counter);
    }
    assert!(cases.len() > 1000 && seen.len() == 12, "{} cases came to {seen:?}", cases.len());
}

/// To bmv2 a case of the parser whose mask is 0 is another `default`, and the last one counts. What a switch has no sets or entries
/// for always has the bits above an index.
#[test]
fn no_case_of_the_parser_has_a_mask_of_nothing() {
    let (tables, mut masks) = (Tables::read(), 0);
    for line in without_comments(&parser()).lines() {
        for mask in line.split("&&&").skip(1).map(|rest| rest.trim_start().split([',', ')', ':']).next().unwrap_or(""))
        {
            masks += 1;
            assert!(
                ["BEYOND_SETS", "BEYOND_ENTRIES"].contains(&mask) || tables.number(mask).is_some_and(|mask| mask > 0),
                "{line}"
            );
        }
    }
    assert!(masks > 5, "{masks} masks");
}

/// What the parser says is what counts, and each counter of packets has one place where it counts.
#[test]
fn the_verdict_has_an_entry_for_every_counter() {
    let tables = Tables::read();
    let (verdict, _) = tables.entries("common/verdict.p4");
    let counted: BTreeSet<Counter> =
        verdict.iter().map(|entry| Counter::ALL[*entry.arguments.last().expect("a counter") as usize]).collect();
    // Those of the cache are in a table of their own.
    let packets = |counter: &&Counter| counter.counts_packets() && !counter.is_of_cache();
    let wanted = Counter::ALL.iter().filter(packets).filter(|counter| **counter != Counter::Plain);
    assert_eq!(counted, wanted.copied().collect());
    let parser = without_comments(&parser());
    let routing = without_comments(&text("common/routing.p4"));
    for &counter in Counter::ALL.iter().filter(|counter| counter.counts_drops()) {
        let (name, upper) = (counter.name(), counter.name().to_uppercase());
        let said =
            parser.contains(&format!("state {name} {{ meta.kind = (bit<8>)COUNT_{upper}; transition accept; }}"));
        let by_tables = routing.contains(&format!("meta.kind = (bit<8>)COUNT_{upper};"));
        assert_eq!(by_tables, counter == Counter::DropStranger, "{name}");
        let entry = lookup(&verdict, &[counter as u64, 0, 0, 0, 0, 0]);
        assert_eq!(entry.is_some(), said || by_tables, "{name}");
        if let Some(entry) = entry {
            assert_eq!((entry.action.as_str(), &entry.arguments[..]), ("discard", &[counter as u64][..]));
            assert!(
                by_tables || parser.matches(&format!(": {name};")).count() >= 1,
                "no check of the parser ends in {name}"
            );
        }
    }
    let answered = lookup(&verdict, &[tables.value("KIND_ANSWERED"), 0, 0, 0, 0, 0]).expect("an entry");
    assert_eq!((answered.action.as_str(), answered.arguments[0]), ("route", Counter::Answered as u64));
}

/// Headers in which up to two fields are what no sender writes, in payloads that are whole or end early.
fn spoilt() -> Vec<(DirtySet, usize)> {
    let good = |op: DirtySetOp| DirtySet {
        code: (Structure::DirtySet as u8) << 4 | op as u8,
        version: INNET_VERSION,
        tag: TAG,
        ..DirtySet::default()
    };
    let spoils: [fn(&mut DirtySet); 14] = [
        |_| {},
        |header| header.version = 2,
        |header| header.cluster = 1,
        |header| header.code ^= 0x30,
        |header| header.code = header.code & 0xf0 | 4,
        |header| header.code &= 0xf0,
        |header| header.flags = 0x80,
        |header| header.spare_0 = 1,
        |header| header.spare_1 = 1 << 31,
        |header| header.shard = 256,
        |header| header.index = 1 << 17,
        |header| header.tag = 0,
        |header| header.result = 4,
        |header| header.result = 255,
    ];
    let mut all = vec![];
    for (&op, one) in DirtySetOp::ALL.iter().flat_map(|op| spoils.iter().map(move |one| (op, one))) {
        for other in spoils {
            let mut header = good(op);
            one(&mut header);
            other(&mut header);
            all.extend([16, 39, 40, 60].map(|length| (header, length)));
        }
    }
    all
}

/// D-2 to D-11 and D-44 as TNA decides them, whose parser does not.
#[test]
fn packets_are_classified_as_the_rust_form_does() {
    let mut tables = Tables::read();
    for (name, value) in [("CLUSTER_NUMBER", 0), ("BEYOND_SETS", 0xfffe_0000)] {
        tables.constants.insert(name.to_owned(), value);
    }
    let (classify, otherwise) = tables.entries("dirty_set/classify.p4");
    assert_eq!(otherwise, "is_kind");
    let mut switch = Switch::new(Config { stages: 0, ..Config::whole(0) }).expect("a switch");
    switch.control(&Command::Host { port: Port(1) }).expect("a host");
    let mut seen = BTreeSet::new();
    for (header, length) in spoilt() {
        for host in [false, true] {
            let whole = header_bytes(header.code).unwrap_or(DirtySet::BYTES);
            let form = tables.value(if length < whole { "FORM_COMMON" } else { "FORM_WHOLE" });
            // What stands for fields that are not there decides nothing.
            let [structure, op] = [header.code >> 4, header.code & 0xf].map(u64::from);
            let own = [header.spare_0, header.spare_1].map(u64::from);
            let fields =
                [u64::from(header.shard), header.index.into(), header.tag.into(), header.result.into(), host.into()];
            let common = [form, header.version.into(), header.cluster.into(), structure, op, header.flags.into()];
            let keys: Vec<u64> = common.into_iter().chain(own).chain(fields).collect();
            let kind = lookup(&classify, &keys).map_or(Counter::DropVersion as u64, |entry| entry.arguments[0]);
            let mut payload = header.bytes().to_vec();
            payload.resize(length, 0);
            let rust = switch.step(Port(u32::from(host)), switch.config().udp_port, &payload, &mut vec![]);
            let wanted = match rust {
                Counter::Answered => tables.value("KIND_ANSWERED"),
                dropped
                    if dropped.counts_drops()
                        && dropped != Counter::DropTermAhead
                        && dropped != Counter::DropNotNewer =>
                {
                    dropped as u64
                }
                _ => tables.value(["KIND_QUERY", "KIND_INSERT", "KIND_REMOVE"][op as usize - 1]),
            };
            assert_eq!(kind, wanted, "{length} bytes, host {host}: {header:?}, counted as {}", rust.name());
            seen.insert(rust);
        }
    }
    assert!(seen.len() >= 13, "{seen:?}");
}
