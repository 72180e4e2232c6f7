//! What a packet costs, by what becomes of it: the packets of all vectors, each again and again on its vector's switch; then
//! queries, inserts and removes at random indexes, so that a set is seldom in the cache, and looks, installs and clears of random entries.
//!
//! `cargo bench -p onpath-dataplane --bench packets -- [PACKETS]`, the number of each (default 200,000). Times are of one core, the median of
//! batches; copies are made as headers, the message is not copied.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Step, Vector};
use onpath_dataplane::{Command, Config, Counter, Port, Switch};
use onpath_wire::ids::{NodeId, ShardId, TrackingEpoch};
use onpath_wire::innet::{
    DirtySet, DirtySetOp, ENTRY_BITS, EntryName, INDEX_BITS, INNET_UDP_PORT, InNet, Metadata, Structure, VisibilityOp,
};
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

/// Packets of one batch, the unit of measurement.
const BATCH: usize = 1_000;

fn main() -> std::io::Result<()> {
    let packets = std::env::args().skip(1).find_map(|arg| arg.replace('_', "").parse().ok()).unwrap_or(200_000);
    let vectors = common::vectors();
    common::all_pass::<Switch>();
    let mut samples: BTreeMap<Counter, Vec<f64>> = BTreeMap::new();
    for vector in &vectors {
        repeat(vector, packets / vectors.len(), &mut samples);
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:<20} {:>10} {:>12}", "packets of vectors", "ns/packet", "packets/s")?;
    for (counter, times) in &mut samples {
        row(&mut out, counter.name(), times)?;
    }
    writeln!(out, "\n{:<20} {:>10} {:>12}", "random index", "ns/packet", "packets/s")?;
    for op in DirtySetOp::ALL {
        row(&mut out, &format!("{op:?}"), &mut at_random(*op, packets))?;
    }
    for op in VisibilityOp::ALL {
        row(&mut out, &format!("{op:?}"), &mut of_entries(*op, packets))?;
    }
    Ok(())
}

fn row(out: &mut impl Write, name: &str, times: &mut [f64]) -> std::io::Result<()> {
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    writeln!(out, "{name:<20} {median:>10.1} {:>12.0}", 1e9 / median)
}

/// Each packet of a vector on its switch, as often as `packets` says: a remove each time with the next sequence.
fn repeat(vector: &Vector, packets: usize, samples: &mut BTreeMap<Counter, Vec<f64>>) {
    let mut switch: Switch = vector.switch();
    for step in &vector.steps {
        match step {
            // They wait for others: their time is not theirs.
            Step::Hold { .. } | Step::Go { .. } => {}
            Step::Do { command, .. } => {
                let _refused = switch.control(command);
            }
            Step::In { port, udp_port, payload, .. } => {
                let mut copies = Vec::with_capacity(8);
                let counter = switch.clone().step(*port, *udp_port, payload, &mut copies);
                let mut payload = payload.clone();
                let accepted = matches!(counter, Counter::RemoveDone | Counter::RemoveOtherEpoch);
                let mut sequence =
                    payload.get(28..32).map_or(0, |bytes| u32::from_be_bytes(*bytes.first_chunk().expect("4")));
                // The last sequences of a term would end the run.
                sequence = if accepted { sequence.min(u32::MAX / 2) } else { sequence };
                for _ in 0..packets.div_ceil(BATCH) {
                    let begin = Instant::now();
                    for _ in 0..BATCH {
                        if accepted {
                            payload[28..32].copy_from_slice(&sequence.to_be_bytes());
                            sequence += 1;
                        }
                        copies.clear();
                        switch.step(*port, *udp_port, &payload, &mut copies);
                    }
                    samples.entry(counter).or_default().push(begin.elapsed().as_nanos() as f64 / BATCH as f64);
                }
            }
        }
    }
}

/// A vector's packet of this operation at random indexes, after one tag was put into every set.
fn at_random(op: DirtySetOp, packets: usize) -> Vec<f64> {
    let vectors = common::vectors();
    let (vector, port, packet) = vectors
        .iter()
        .find_map(|vector| match vector.steps.as_slice() {
            [Step::In { port, payload, outs, .. }] if !outs.is_empty() && vector.config.stages == 10 => {
                let header = DirtySet::of_bytes(payload.first_chunk()?);
                (header.op() == Some(op) && header.result == 0 && vector.config.index_bits == INDEX_BITS)
                    .then_some((vector, *port, payload))
            }
            _ => None,
        })
        .expect("a vector for every operation");
    let mut switch: Switch = vector.switch();
    let is_host = |command: &Command| match command {
        Command::Host { port } => Some(*port),
        _ => None,
    };
    let host = vector.tables.iter().find_map(is_host).expect("a host");
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut header = DirtySet::of_bytes(packet.first_chunk().expect("a whole header"));
    let mut copies = Vec::with_capacity(8);
    for index in 0..1 << INDEX_BITS {
        let mark =
            DirtySet { code: (Structure::DirtySet as u8) << 4 | DirtySetOp::Insert as u8, index, tag: 1, ..header };
        assert_eq!(switch.step(host, vector.config.udp_port, &mark.bytes(), &mut copies), Counter::InsertMarked);
        copies.clear();
    }
    let mut step = |switch: &mut Switch, header: &mut DirtySet, copies: &mut Vec<_>| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (header.index, header.tag) = (random as u32 & 0x1_ffff, (random >> 32) as u32 & 3 | 1);
        header.sequence = header.sequence.wrapping_add(1);
        let mut payload = [0; DirtySet::BYTES + 100];
        payload[..DirtySet::BYTES].copy_from_slice(&header.bytes());
        copies.clear();
        switch.step(port, vector.config.udp_port, &payload, copies)
    };
    let mut times = vec![];
    for _ in 0..packets.div_ceil(BATCH) {
        let begin = Instant::now();
        for _ in 0..BATCH {
            step(&mut switch, &mut header, &mut copies);
        }
        times.push(begin.elapsed().as_nanos() as f64 / BATCH as f64);
    }
    times
}

/// Packets of the visibility table about random entries, all of which are occupied at first.
fn of_entries(op: VisibilityOp, packets: usize) -> Vec<f64> {
    let (host, epoch, home, data) = (Port(1), TrackingEpoch(1), ShardId(0), NodeId(0x0200_0001));
    let mut switch = Switch::direct(Config::whole(1)).expect("a configuration");
    for command in [Command::Host { port: host }, Command::VisibilityEpoch(1), Command::VisibilityComplete(1)] {
        switch.control(&command).expect("a command");
    }
    let (mut copies, mut ts, mut random) = (Vec::with_capacity(8), 0u32, 0x9e37_79b9_7f4a_7c15_u64);
    let mut step = |switch: &mut Switch, op: VisibilityOp, index: u32| {
        let name = EntryName::new(index, 7).expect("a name");
        ts += 1;
        let header = match op {
            VisibilityOp::Look => InNet::look(1, epoch, name, NodeId::shard(home)),
            VisibilityOp::Install => InNet::install(1, epoch, name, (ts, Metadata::default()), home, Some(data)),
            VisibilityOp::Clear => InNet::clear(1, epoch, name, (home, index + 1), data),
        };
        copies.clear();
        switch.step(host, INNET_UDP_PORT, &header.bytes(), &mut copies);
    };
    (0..1 << ENTRY_BITS).for_each(|index| step(&mut switch, VisibilityOp::Install, index));
    let mut times = vec![];
    for _ in 0..packets.div_ceil(BATCH) {
        let begin = Instant::now();
        for _ in 0..BATCH {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            step(&mut switch, op, random as u32 & 0xffff);
        }
        times.push(begin.elapsed().as_nanos() as f64 / BATCH as f64);
    }
    times
}
