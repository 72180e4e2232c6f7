//! Packets a second through the program against a bare XDP_TX reflector on the same veth, in turn in one run, the time of a way there and back, and that
//! of a run of each.
//!
//! `cargo run --release -p onpath-xdp --example reflector -- [ROUNDS]`, as root. One thread sends 32 datagrams and waits for them to come back, then one
//! at a time, on one processor. The end of the host has an empty XDP program in both cases.

#[path = "../../tests/common/mod.rs"]
mod common;

use aya::Ebpf;
use aya::programs::{Xdp, XdpMode, loaded_programs};
use aya::sys::{Stats, enable_stats};
use common::frame::frame_to;
use common::{Network, SWITCH, route};
use onpath_dataplane::{CacheCommand, Command, Config, Counter, Port};
use onpath_wire::ids::{NodeId, SessionId, ShardId, TrackingEpoch};
use onpath_wire::innet::cache::{Asker, EntryOf, EntryValue, LEVELS_MAX, Purpose};
use onpath_wire::innet::{Fingerprint, INNET_UDP_PORT, InNet};
use onpath_xdp::{XdpConfig, XdpSwitch};
use std::error::Error;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

const WINDOW: usize = 32;
const ROUND: Duration = Duration::from_millis(700);
const EPOCH: TrackingEpoch = TrackingEpoch(1);
const SHARD: NodeId = NodeId(0x0100_0000);
/// Where reads start.
const DIRECTORY: u64 = 1000;

/// What is sent: `back` datagrams come back for each.
struct Load {
    name: &'static str,
    /// None: to the reflector.
    header: Option<InNet>,
    /// Of the payload.
    bytes: usize,
    back: usize,
}

fn loads() -> Vec<Load> {
    let (fingerprint, me) = (Fingerprint::new(5, 7).expect("a fingerprint"), NodeId::session(SessionId(1)));
    let query = InNet::query(7, EPOCH, fingerprint, me);
    let mark = |client| InNet::insert(7, EPOCH, fingerprint, (ShardId(0), 1, 1), client);
    let asker = Asker { requester: me, uid: 5, gid: 5 };
    let read = |levels: &[(u64, u8)]| InNet::read(7, EPOCH.0, (DIRECTORY, levels), (Purpose::Lookup, 0), asker, SHARD);
    let names: Vec<(u64, u8)> = (0..LEVELS_MAX as u64).map(name).collect();
    let load = |name, header, back| Load { name, header: Some(header), bytes: 64, back };
    vec![
        Load { name: "reflector", header: None, bytes: 64, back: 1 },
        load("query", query, 1),
        load("insert, one copy", mark(None), 1),
        load("insert, two copies", mark(Some(me)), 2),
        Load { name: "reflector, 148 bytes", header: None, bytes: 148, back: 1 },
        Load { bytes: 148, ..load("read, one level", read(&names[..1]), 1) },
        Load { bytes: 148, ..load("read, two levels", read(&names[..2]), 1) },
        Load { bytes: 148, ..load("read, nine levels", read(&names), 1) },
    ]
}

/// Key and token of a level.
fn name(level: u64) -> (u64, u8) {
    (0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(level + 1), 1)
}

/// Gives the names of all levels entries, and has the program fill them.
fn fill_cache(switch: &mut XdpSwitch) -> Result<(), Box<dyn Error>> {
    let (_, now) = switch.cache_epoch()?;
    switch.control(&Command::Cache(CacheCommand::Any { port: Port(NodeId::session(SessionId(1)).0) }))?;
    switch.control(&Command::Cache(CacheCommand::Begin { epoch: EPOCH.0, until: now.wrapping_add(1 << 24) }))?;
    // What is given to the program comes in by the loopback device, which is number 1 everywhere.
    switch.list(1, SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 1), 9000))?;
    for level in 0..LEVELS_MAX as u64 {
        let ((key, token), index) = (name(level), 1000 * level as u32);
        let number = index + 1;
        switch.control(&Command::Cache(CacheCommand::Stamp { epoch: EPOCH.0, index, number }))?;
        switch.control(&Command::Cache(CacheCommand::Admit { epoch: EPOCH.0, key, token, index, number }))?;
        let (parent, id, kind, mode) = (DIRECTORY + level, DIRECTORY + level + 1, 4, 0o755);
        let value = EntryValue { parent, id, kind, mode, ..EntryValue::default() };
        let of = EntryOf { key, token, number, revision: 1 };
        let fill = InNet::fill(7, EPOCH.0, of, &value, ShardId(0), NodeId::shard(ShardId(0)));
        switch.try_frame(&frame_to(INNET_UDP_PORT, &fill.bytes()), 1)?;
    }
    match switch.count(Counter::FillDone)? {
        filled if filled == LEVELS_MAX as u64 => Ok(()),
        filled => Err(format!("{filled} of {LEVELS_MAX} entries were filled").into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(7), |text| text.parse())?;
    let network = Network::of(1)?;
    let object = compiled()?;
    let mut passing = Ebpf::load(&object)?;
    let empty: &mut Xdp = passing.program_mut("empty").ok_or("no program")?.try_into()?;
    network.hosts[0].at.within(|| empty.load().and_then(|()| empty.attach("eth0", XdpMode::Driver)))?;
    let socket = network.hosts[0].socket(9000);
    let loads = loads();
    let mut rates = vec![vec![]; loads.len()];
    let mut trips = vec![vec![]; loads.len()];
    let mut times = vec![vec![]; loads.len()];
    for round in 0..2 * rounds {
        // Every second round the kernel takes the time of each run, which costs some.
        let timed = (round % 2 == 1).then(|| enable_stats(Stats::RunTime)).transpose()?;
        for (place, load) in loads.iter().enumerate() {
            let Sample { rate, trip_ns, run_ns } = measured(&network, &object, load, &socket)?;
            if timed.is_some() {
                times[place].push(run_ns);
            } else {
                rates[place].push(rate);
                trips[place].push(trip_ns);
            }
        }
    }
    let mut out = std::io::stdout().lock();
    let heads = ["packets/s", "of the reflector", "ns there and back", "more", "ns/run"];
    writeln!(out, "{:<20} {:>12} {:>16} {:>18} {:>6} {:>8}", "", heads[0], heads[1], heads[2], heads[3], heads[4])?;
    let (mut bare, mut bare_trips) = (0.0, vec![]);
    for (place, load) in loads.iter().enumerate() {
        // Packets are compared with a reflector's of the same length.
        if load.header.is_none() {
            (bare, bare_trips) = (median(&mut rates[place].clone()), trips[place].clone());
        }
        // What the program adds is compared within each round: the machine is not the same all the time.
        let mut more: Vec<f64> = trips[place].iter().zip(&bare_trips).map(|(trip, bare)| trip - bare).collect();
        let (rate, trip, time) = (median(&mut rates[place]), median(&mut trips[place]), median(&mut times[place]));
        let more = median(&mut more);
        writeln!(out, "{:<20} {rate:>12.0} {:>16.2} {trip:>18.0} {more:>6.0} {time:>8.0}", load.name, rate / bare)?;
    }
    Ok(())
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn compiled() -> Result<Vec<u8>, Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/reflector/reflector.c");
    let multiarch = std::process::Command::new("cc").arg("-print-multiarch").output()?.stdout;
    let headers = format!("-I/usr/include/{}", String::from_utf8_lossy(&multiarch).trim());
    let output = std::process::Command::new("clang")
        .args(["-target", "bpf", "-O2", "-g", &headers, "-c", "-o", "-"])
        .arg(here)
        .output()?;
    if output.status.success() { Ok(output.stdout) } else { Err(String::from_utf8_lossy(&output.stderr).into()) }
}

/// What a round has shown.
struct Sample {
    /// Packets a second, 32 at a time.
    rate: f64,
    /// The median of the times of one packet there and, with all its copies, back.
    trip_ns: f64,
    /// Of a run of the program, if that is taken.
    run_ns: f64,
}

/// One round.
fn measured(network: &Network, object: &[u8], load: &Load, socket: &UdpSocket) -> Result<Sample, Box<dyn Error>> {
    let Some(header) = load.header else {
        let mut all = Ebpf::load(object)?;
        let program: &mut Xdp = all.program_mut("reflector").ok_or("no program")?.try_into()?;
        network.switch.within(|| program.load().and_then(|()| program.attach("port0", XdpMode::Driver)))?;
        return bounced(socket, &vec![0; load.bytes], 1, "reflector");
    };
    let mut switch = network.attach(XdpConfig { program: Config::whole(7), address: SWITCH })?;
    for node in [NodeId::session(SessionId(1)), NodeId::shard(ShardId(0))] {
        route(&mut switch, node.0, network.hosts[0].way(9000));
    }
    switch.control(&Command::Host { port: Port(NodeId::shard(ShardId(0)).0) })?;
    switch.control(&Command::Epoch(EPOCH.0))?;
    switch.control(&Command::Complete(EPOCH.0))?;
    let mut payload = header.bytes().to_vec();
    payload.resize(load.bytes, 0);
    if matches!(header, InNet::Cache(_)) {
        fill_cache(&mut switch)?;
    }
    let sample = bounced(socket, &payload, load.back, "onpath_switch")?;
    let answered = switch.count(Counter::ReadAnswered)?;
    if matches!(header, InNet::Cache(_)) && answered == 0 { Err("no read was answered".into()) } else { Ok(sample) }
}

fn bounced(socket: &UdpSocket, payload: &[u8], back: usize, program: &str) -> Result<Sample, Box<dyn Error>> {
    common::pin_to(0);
    let (began, mut packets, mut bytes) = (Instant::now(), 0u64, [0; 256]);
    while began.elapsed() < ROUND {
        for _ in 0..WINDOW {
            socket.send_to(payload, (SWITCH, INNET_UDP_PORT))?;
        }
        for _ in 0..WINDOW * back {
            socket.recv(&mut bytes)?;
        }
        packets += WINDOW as u64;
    }
    let rate = packets as f64 / began.elapsed().as_secs_f64();
    let (began, mut trips) = (Instant::now(), vec![]);
    while began.elapsed() < ROUND {
        let left = Instant::now();
        socket.send_to(payload, (SWITCH, INNET_UDP_PORT))?;
        for _ in 0..back {
            socket.recv(&mut bytes)?;
        }
        trips.push(left.elapsed().as_nanos() as f64);
    }
    let trip_ns = median(&mut trips);
    let runs = loaded_programs().filter_map(Result::ok).filter(|info| info.name_as_str() == Some(program));
    let (time, count) =
        runs.fold((0, 0), |(time, count), info| (time + info.run_time().as_nanos(), count + info.run_count()));
    Ok(Sample { rate, trip_ns, run_ns: time as f64 / count.max(1) as f64 })
}
