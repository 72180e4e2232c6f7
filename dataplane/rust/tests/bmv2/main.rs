//! The P4 form compiled by p4c-bm2-ss and run by simple_switch: every vector in which no packet waits, and what frames add (SPEC.md, *Frames*). Both are in
//! no package registry: without them nothing is tried, and the tests say so.
//!
//! ONPATH_P4_REGISTERS=all compares whole arrays after each vector instead of the sets that the vector names and those whose index
//! differs from these in one bit.

mod cache;
mod cli;
#[path = "../common/mod.rs"]
mod common;
mod control;
mod frame;
mod switch;

use common::{Step, Vector, dataplane};
use control::{Control, PLAIN, counted};
use frame::{Address, BEFORE_PAYLOAD, ETHERNET};
use onpath_dataplane::cache::control::CacheCommand;
use onpath_dataplane::{Command, Config, Counter, Port, State};
use onpath_wire::innet::{DirtySet, INDEX_BITS, InNet};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use switch::{Input, Running};

const TTL: u8 = 64;
/// By which frames come in that are of no vector.
const SENDER: u32 = 21;

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Whether the tools are there.
fn tools() -> bool {
    let there = ["p4c-bm2-ss", "simple_switch", "simple_switch_CLI"].iter().all(|program| on_path(program));
    if !there {
        onpath_testing::skipped("bmv2", "p4c-bm2-ss and simple_switch are not on PATH");
    }
    there
}

/// Compiles the program once for every configuration.
struct Programs {
    dir: tempfile::TempDir,
    made: BTreeMap<String, PathBuf>,
}

impl Programs {
    fn new() -> Programs {
        Programs { dir: tempfile::tempdir().expect("a directory"), made: BTreeMap::new() }
    }

    fn of(&mut self, config: &Config) -> Result<PathBuf, String> {
        let Config { cluster, udp_port, index_bits, stages, entry_bits, cache_bits } = config;
        let name = format!("{cluster}-{udp_port}-{index_bits}-{stages}-{entry_bits}-{cache_bits}.json");
        if let Some(path) = self.made.get(&name) {
            return Ok(path.clone());
        }
        let path = self.dir.path().join(&name);
        let defines = [
            format!("-DCLUSTER={cluster}"),
            format!("-DPORT={udp_port}"),
            format!("-DSET_BITS={index_bits}"),
            format!("-DSTAGES={stages}"),
            format!("-DENTRY_BITS={entry_bits}"),
            format!("-DCACHE_BITS={cache_bits}"),
            "-DCLOCK_IN_REGISTER".to_owned(),
        ];
        let mut compiler = std::process::Command::new("p4c-bm2-ss");
        compiler.args(["--arch", "v1model"]).args(defines).arg("-o").arg(&path).arg(dataplane().join("p4/v1model.p4"));
        let output = compiler.output().map_err(|error| format!("p4c-bm2-ss: {error}"))?;
        if !output.status.success() {
            return Err(format!("p4c-bm2-ss: {}", String::from_utf8_lossy(&output.stderr)));
        }
        self.made.insert(name, path.clone());
        Ok(path)
    }
}

/// A port of SPEC.md as one of simple_switch, which has 9 bits and keeps 511.
fn port(port: Port) -> Result<u32, String> {
    if port.0 < PLAIN { Ok(port.0) } else { Err(format!("port {}: there are 509 here", port.0)) }
}

/// The ports that a vector names.
fn ports(vector: &Vector) -> Result<BTreeSet<u32>, String> {
    let mut ports = BTreeSet::from([PLAIN]);
    let of_command = |command: &Command| match command {
        Command::Route { port, .. } | Command::Host { port } => Some(*port),
        Command::Cache(CacheCommand::Any { port } | CacheCommand::Caller { port, .. }) => Some(*port),
        _ => None,
    };
    for command in &vector.tables {
        ports.extend(of_command(command).map(port).transpose()?);
    }
    for step in &vector.steps {
        match step {
            Step::Do { command, .. } => ports.extend(of_command(command).map(port).transpose()?),
            Step::In { port: by, outs, .. } => {
                ports.insert(port(*by)?);
                for (by, _) in outs {
                    ports.insert(port(*by)?);
                }
            }
            Step::Hold { .. } | Step::Go { .. } => {}
        }
    }
    Ok(ports)
}

/// The frame in which a vector's payload comes in.
fn incoming(by: u32, udp_port: u16, payload: &[u8], config: &Config) -> Vec<u8> {
    let to = Address { udp_port, ..Address::of_switch(config.udp_port) };
    let good = DirtySet { code: 0x11, version: 1, cluster: config.cluster, tag: 1, ..DirtySet::default() };
    frame::padded(frame::udp(Address::of_sender(by), to, 17, 0, payload), &good.bytes())
}

/// The frame in which a copy goes out.
fn outgoing(payload: &[u8], config: &Config) -> Vec<u8> {
    let (header, _) = InNet::split(payload).expect("a copy has a whole header");
    frame::udp(Address::of_switch(config.udp_port), Address::of_node(header.common().destination), TTL, 0, payload)
}

/// What is wrong with what came out.
fn compared(given: Vec<(u32, Vec<u8>)>, mut wanted: Vec<(u32, Vec<u8>)>) -> Result<(), String> {
    let mut given: Vec<_> =
        given.into_iter().map(|(port, frame)| (port, frame::without_padding(&frame).to_vec())).collect();
    given.sort();
    wanted.sort();
    (given == wanted).then_some(()).ok_or_else(|| format!("out come {given:02x?} instead of {wanted:02x?}"))
}

/// The sets to look into after a vector; none to look into all.
fn sets(vector: &Vector) -> Option<BTreeSet<u32>> {
    if std::env::var("ONPATH_P4_REGISTERS").is_ok_and(|which| which == "all") {
        return None;
    }
    let of_packet = |step: &Step| match step {
        Step::In { payload, .. } => payload.first_chunk().map(|bytes| DirtySet::of_bytes(bytes).index),
        _ => None,
    };
    let of_registers = vector.before.tags.iter().chain(&vector.after.tags).map(|tag| tag.1);
    let named = vector.steps.iter().filter_map(of_packet).chain(of_registers);
    let near = named.flat_map(|index| (0..INDEX_BITS).map(move |bit| index ^ 1 << bit).chain([index]));
    let last = vector.config.sets() as u32 - 1;
    Some(near.map(|index| index & last).chain([0, last]).collect())
}

/// The steps between two reboots.
fn lives(vector: &Vector) -> Vec<&[Step]> {
    let reboot = |step: &Step| matches!(step, Step::Do { command: Command::Reboot, .. });
    vector.steps.split(reboot).collect()
}

fn run(vector: &Vector, programs: &mut Programs) -> Result<(), String> {
    let (program, ports, config) = (programs.of(&vector.config)?, ports(vector)?, &vector.config);
    let lives = lives(vector);
    for (number, steps) in lives.iter().enumerate() {
        let frames: Result<Vec<Input>, String> = steps
            .iter()
            .filter_map(|step| match step {
                Step::In { port: by, udp_port, payload, .. } => {
                    Some(port(*by).map(|by| (by, incoming(by, *udp_port, payload, config))))
                }
                _ => None,
            })
            .collect();
        let mut running = Running::start(&program, &ports, &frames?)?;
        let mut control = Control::new(*config, &mut running, &ports)?;
        if number == 0 {
            control.load(&mut running.cli, &vector.before)?;
            for command in &vector.tables {
                if !control.command(&mut running.cli, command)? {
                    return Err(format!("{command:?} is refused"));
                }
            }
        }
        for (at, step) in steps.iter().enumerate() {
            run_step(&mut running, &mut control, step, config).map_err(|what| format!("step {}: {what}", at + 1))?;
        }
        if number + 1 == lives.len() {
            return after(&mut running, &control, vector);
        }
    }
    Ok(())
}

fn run_step(running: &mut Running, control: &mut Control, step: &Step, config: &Config) -> Result<(), String> {
    match step {
        Step::Do { command, refused } => {
            let accepted = control.command(&mut running.cli, command)?;
            (accepted != *refused).then_some(()).ok_or_else(|| format!("{command:?}: accepted is {accepted}"))
        }
        Step::In { port: by, udp_port, payload, pass, outs } => {
            let wanted = match pass {
                true => {
                    let frame = incoming(port(*by)?, *udp_port, payload, config);
                    vec![(PLAIN, frame::without_padding(&frame).to_vec())]
                }
                false => outs.iter().map(|(port, payload)| (port.0, outgoing(payload, config))).collect(),
            };
            compared(running.next()?, wanted)
        }
        Step::Hold { .. } | Step::Go { .. } => Err("no packet can be made to wait here".to_owned()),
    }
}

fn after(running: &mut Running, control: &Control, vector: &Vector) -> Result<(), String> {
    let state: State = control.state(&mut running.cli, sets(vector).as_ref())?;
    if state != vector.after {
        return Err(format!("registers after: {state:?} instead of {:?}", vector.after));
    }
    let counts = counters(running)?;
    if counts != vector.counts {
        return Err(format!("counters after: {counts:?} instead of {:?}", vector.counts));
    }
    Ok(())
}

/// The counters that are not 0; fences are left out.
fn counters(running: &mut Running) -> Result<BTreeMap<String, u64>, String> {
    let mut counts = BTreeMap::new();
    for &counter in Counter::ALL {
        let cell = counter as usize;
        let cli = &mut running.cli;
        let mut count = match counter.counts_copies() {
            true => counted(cli, "ingress.copies", cell)? + counted(cli, "egress.copies", cell)?,
            false => counted(cli, "ingress.packets", cell)?,
        };
        if counter == Counter::Plain {
            count = count.checked_sub(running.fences()).ok_or("fewer frames were counted than came in")?;
        }
        if count != 0 {
            counts.insert(counter.name().to_owned(), count);
        }
    }
    Ok(counts)
}

#[test]
fn the_p4_form_passes_every_vector() {
    if !tools() {
        return;
    }
    let (mut programs, vectors) = (Programs::new(), common::vectors_without_waiting());
    let failed: Vec<String> = vectors
        .iter()
        .filter_map(|vector| {
            let what = run(vector, &mut programs).err()?;
            Some(format!("{} ({}): {what}", vector.name, vector.rules.join(" ")))
        })
        .collect();
    assert!(failed.is_empty(), "{} of {} vectors fail:\n{}", failed.len(), vectors.len(), failed.join("\n"));
}

/// A frame, and what it must do.
struct Framed {
    what: &'static str,
    frame: Vec<u8>,
    /// The copy; without one the frame passes as it is.
    copy: Option<Vec<u8>>,
}

const CLUSTER: u32 = 0x0c1a_57e2;
const NODE: u32 = 0x0100_0000;
const NODE_PORT: u32 = 10;

/// Changes of a frame at these places.
fn with(frame: &[u8], changes: &[(usize, u8)]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    for &(at, value) in changes {
        frame[at] = value;
    }
    frame
}

/// SPEC.md, *Frames*: what only a target that sees frames can get wrong.
fn framed(config: &Config) -> Vec<Framed> {
    const IP: usize = ETHERNET;
    const UDP: usize = ETHERNET + 20;
    let query = DirtySet {
        code: 0x11,
        epoch: 7,
        version: 1,
        cluster: CLUSTER,
        destination: NODE,
        index: 5,
        tag: 0x50001,
        ..DirtySet::default()
    };
    let payload = |result, message: &[u8]| [&DirtySet { result, ..query }.bytes()[..], message].concat();
    let (from, to) = (Address::of_sender(SENDER), Address::of_switch(config.udp_port));
    let good = frame::udp(from, to, 17, 0, &payload(0, b"message"));
    let copy = |message: &[u8]| Some(outgoing(&payload(1, message), config));
    let passes = |what, frame| Framed { what, frame, copy: None };
    let works = |what, frame, copy| Framed { what, frame, copy };
    let plus = |frame: &[u8], tail: &[u8]| [frame, tail].concat();
    let options = plus(&with(&good[..UDP], &[(IP, 0x46), (IP + 3, good[IP + 3] + 4)]), &[1, 1, 1, 1]);
    let vlan = plus(&plus(&good[..12], &[0x81, 0, 0, 5]), &good[12..]);
    vec![
        works("a good one", good.clone(), copy(b"message")),
        works("padding is no part of the payload", plus(&good, &[0xee; 9]), copy(b"message")),
        works("an odd length", frame::udp(from, to, 17, 0, &payload(0, b"odd")), copy(b"odd")),
        works("the last hop of its sender", frame::udp(from, to, 1, 0, &payload(0, b"")), copy(b"")),
        works("a checksum of UDP becomes none", frame::udp(from, to, 17, 0x1234, &payload(0, b"sum")), copy(b"sum")),
        passes("a damaged IPv4 header", with(&good, &[(IP + 10, good[IP + 10] ^ 1)])),
        passes("options of IPv4", frame::sealed(plus(&options, &good[UDP..]))),
        passes("a first fragment", frame::sealed(with(&good, &[(IP + 6, 0x20)]))),
        passes("a later fragment", frame::sealed(with(&good, &[(IP + 7, 1)]))),
        passes("TCP", frame::sealed(with(&good, &[(IP + 9, 6)]))),
        passes("UDP is shorter than IPv4 says", with(&good, &[(UDP + 5, good[UDP + 5] - 1)])),
        passes("UDP is longer than IPv4 says", with(&good, &[(UDP + 5, good[UDP + 5] + 1)])),
        passes("UDP without room for its header", with(&good, &[(UDP + 4, 0), (UDP + 5, 7)])),
        passes("a frame shorter than it says", good[..good.len() - 1].to_vec()),
        passes("a frame that ends in the in-network header", good[..BEFORE_PAYLOAD + 20].to_vec()),
        passes("a VLAN", vlan),
        passes("IPv6", with(&good, &[(12, 0x86), (13, 0xdd)])),
        passes("an answer to the switch", with(&good, &[(UDP + 2, good[UDP]), (UDP + 3, good[UDP + 1])])),
    ]
}

#[test]
fn frames_are_looked_at_as_the_text_says() {
    if !tools() {
        return;
    }
    let config = Config::whole(CLUSTER);
    frames_of(&config).unwrap_or_else(|what| panic!("{what}"));
}

fn frames_of(config: &Config) -> Result<(), String> {
    let (program, ports) = (Programs::new(), BTreeSet::from([PLAIN, SENDER, NODE_PORT]));
    let (mut program, framed) = (program, framed(config));
    let json = program.of(config)?;
    let inputs: Vec<Input> = framed.iter().map(|framed| (SENDER, framed.frame.clone())).collect();
    let mut running = Running::start(&json, &ports, &inputs)?;
    let mut control = Control::new(*config, &mut running, &ports)?;
    for command in [Command::Epoch(7), Command::Complete(7), Command::Route { node: NODE, port: Port(NODE_PORT) }] {
        assert!(control.command(&mut running.cli, &command)?, "{command:?}");
    }
    let copies = framed.iter().filter(|framed| framed.copy.is_some()).count() as u64;
    let plain = framed.len() as u64 - copies;
    for Framed { what, frame, copy } in framed {
        let wanted = match copy {
            Some(copy) => (NODE_PORT, copy),
            None => (PLAIN, frame::without_padding(&frame).to_vec()),
        };
        compared(running.next()?, vec![wanted]).map_err(|why| format!("{what}: {why}"))?;
    }
    let wanted = [("copies_sent", copies), ("plain", plain), ("query_normal", copies)];
    let wanted = wanted.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    let counts = counters(&mut running)?;
    (counts == wanted).then_some(()).ok_or_else(|| format!("counters: {counts:?} instead of {wanted:?}"))
}
