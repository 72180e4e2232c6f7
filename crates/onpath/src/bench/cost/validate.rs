//! `onpath bench validate`: what the model predicts for one process, beside the real one.
//!
//! The real one is the server that `onpath dev` runs, without a mount: a thread a core spins over its clients, whose requests it
//! brings to the shards itself, as a thread of a mount does. Rates are given for the CPU time that the threads had, so that what
//! else a machine does is left out.

use super::machine::cpu_ns;
use super::sheet::{Cell, Sheet};
use super::{calibrate, constants};
use crate::bench::fixed_secrets;
use crate::cli::say;
use anyhow::{Context, anyhow};
use clap::Args;
use onpath_host::journal::Commit;
use onpath_host::node::{Link, Node};
use onpath_host::progress::Unwatched;
use onpath_host::server::{CHECKPOINT_BYTES, Server, ServerBuilder, ServerOptions, TrackingOptions};
use onpath_sim::cost::{
    Answered, Calibration, Clients, Cluster, Creates, Kind, Load, MakeDirs, Model, ModelConfig, Place, Tracking, Until,
    Work,
};
use onpath_wire::ids::{InodeId, NodeId, SessionId};
use onpath_wire::packet::Packet;
use onpath_wire::shown::Shown;
use onpath_wire::tracking::Writes;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Instant;

/// Files that are there before anything is measured, as a share of those that are made.
const BEFORE: u64 = 4;
/// Sessions of the clients, far from those that the server gives out.
const FIRST_SESSION: u32 = 1 << 20;

/// Arguments of `onpath bench validate`.
#[derive(Args, Debug)]
pub(crate) struct ValidateArgs {
    /// Constants from `onpath bench calibrate --out`; they are measured first otherwise.
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Files that each configuration makes.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    files: u64,
    /// Where the file systems are made; the directory for temporary files otherwise.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What is run on both.
struct Case {
    name: &'static str,
    shards: u16,
    threads: u32,
    clients: u32,
    directories: u32,
}

const CASES: [Case; 3] = [
    Case { name: "1 shard, 1 client", shards: 1, threads: 1, clients: 1, directories: 1 },
    Case { name: "2 shards, 4 clients, a directory each", shards: 2, threads: 2, clients: 4, directories: 4 },
    Case { name: "2 shards, 4 clients, one directory", shards: 2, threads: 2, clients: 4, directories: 1 },
];

/// Creates, then statdirs of unchanged directories.
struct Outcome {
    rate: f64,
    median_ns: f64,
    p99_ns: f64,
}

pub(crate) fn run(args: ValidateArgs) -> anyhow::Result<()> {
    let costs = match &args.calibration {
        Some(file) => constants(Some(file))?,
        None => calibrate::measure(args.files as u32 / 2, args.dir.clone(), false)?,
    };
    let parent = args.dir.unwrap_or_else(std::env::temp_dir);
    let title = format!("{} creates in one process: predicted and measured ({})", args.files, costs.machine);
    let header = ["configuration", "what", "predicted", "measured", "error, %"];
    let mut sheet = Sheet::new(title, &header);
    for case in &CASES {
        let predicted = predict(case, costs.clone(), args.files);
        let dir = parent.join(format!("onpath-validate-{}", std::process::id()));
        let measured = measure(case, &dir, args.files);
        if dir.exists() {
            std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.shown()))?;
        }
        let measured = measured?;
        for (what, predicted, measured) in [
            ("creates/s", predicted.rate, measured.rate),
            ("median, µs", predicted.median_ns / 1e3, measured.median_ns / 1e3),
            ("p99, µs", predicted.p99_ns / 1e3, measured.p99_ns / 1e3),
        ] {
            let digits = if what == "creates/s" { 0 } else { 2 };
            let numbers = [predicted, measured].map(|value| Cell::Number(value, digits));
            let error = Cell::Text(format!("{:+.0}", (predicted / measured - 1.0) * 100.0));
            sheet.row([case.name.into(), what.into()].into_iter().chain(numbers).chain([error]).collect());
        }
    }
    if args.json {
        say(&serde_json::to_string_pretty(&sheet.json())?)
    } else {
        say(&sheet.text())
    }
    Ok(())
}

fn outcome(latencies: &mut [u64], rate: f64) -> Outcome {
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize] as f64;
    Outcome { rate, median_ns: at(0.5), p99_ns: at(0.99) }
}

fn predict(case: &Case, costs: Calibration, files: u64) -> Outcome {
    let mut model = Model::new(ModelConfig {
        cores: case.threads as u16,
        shards: Some(case.shards),
        tracking: Tracking::Owner,
        clients_inside: true,
        load: Load::Closed { clients: case.clients, window: 1 },
        ..ModelConfig::new(costs)
    });
    let mut making = MakeDirs::new(case.directories);
    model.run(&mut making, Until::DONE);
    let until = |operations| Until { operations, ..Until::DONE };
    let dirs = making.made;
    model.run(&mut Creates::new(dirs.clone(), Place::Own, case.clients, 0), until(files / BEFORE));
    let measured = model.run(&mut Creates::new(dirs, Place::Own, case.clients, 1), until(files));
    let all = measured.of(Kind::Create);
    Outcome {
        rate: measured.rate(Kind::Create),
        median_ns: all.quantile_ns(0.5) as f64,
        p99_ns: all.quantile_ns(0.99) as f64,
    }
}

/// Replies, for the clients of one thread each.
struct Replies {
    /// Of each thread: replies with the client's address.
    threads: Vec<Mutex<VecDeque<(NodeId, Packet)>>>,
    clients: u32,
}

impl Replies {
    fn thread_of(&self, client: NodeId) -> usize {
        // The clients of a thread have sessions side by side.
        let each = self.clients as usize / self.threads.len();
        (client.number() - FIRST_SESSION) as usize % self.clients as usize / each
    }
}

impl Link for Replies {
    fn send(&self, to: NodeId, packet: Packet) {
        let queue = &self.threads[self.thread_of(to)];
        queue.lock().expect("nobody panics with it").push_back((to, packet));
    }
}

fn measure(case: &Case, dir: &Path, files: u64) -> anyhow::Result<Outcome> {
    let commit = Commit::Interval(100);
    let options = ServerOptions {
        shards: Some(case.shards),
        secrets: Some(fixed_secrets()),
        commit,
        checkpoint_bytes: CHECKPOINT_BYTES,
        memory_bytes: None,
        path: None,
        tracking: TrackingOptions::default(),
        writes: Writes::Chain,
        deferred: true,
    };
    let server = ServerBuilder::open(dir, options, Arc::new(Unwatched))?.start()?;
    let threads = (0..case.threads).map(|_| Mutex::default()).collect();
    let replies = Arc::new(Replies { threads, clients: case.clients });
    server.node.attach_default(replies.clone());
    let result = drive(case, &server, &replies, files);
    server.stop()?;
    result
}

fn drive(case: &Case, server: &Server, replies: &Arc<Replies>, files: u64) -> anyhow::Result<Outcome> {
    // Sessions of each phase are new ones: a window of a former one is nobody's business.
    let crew = |phase: u32, thread: u32, count: u32| {
        let superblock = server.dir.superblock();
        let cluster = Cluster {
            number: superblock.fsid as u32,
            map: superblock.map(),
            term: server.dir.term,
            first_session: SessionId(FIRST_SESSION + phase * case.clients + thread * count),
        };
        Clients::new(cluster, Load::Closed { clients: count, window: 1 })
    };
    let mut making = MakeDirs::new(case.directories);
    spin(&mut crew(0, 0, 1), &mut making, &server.node, &replies.threads[0], u64::MAX);
    let dirs: Vec<InodeId> = making.made;
    let each = case.clients / case.threads;
    let mut last = None;
    for (phase, files) in [(1, files / BEFORE), (2, files)] {
        let barrier = Barrier::new(case.threads as usize);
        let run = |thread: u32| {
            let mut clients = crew(phase, thread, each);
            // Every client has its own directory, or all have one.
            let own = (0..each).map(|client| dirs[(thread * each + client) as usize % dirs.len()]).collect();
            let mut work = Creates::new(own, Place::Own, each, u64::from(phase * case.threads + thread));
            barrier.wait();
            let begin_ns = cpu_ns();
            let queue = &replies.threads[thread as usize];
            let answered = spin(&mut clients, &mut work, &server.node, queue, files / u64::from(case.threads));
            (answered, cpu_ns() - begin_ns)
        };
        let results: Vec<(Vec<Answered>, u64)> = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..case.threads).map(|thread| scope.spawn(move || run(thread))).collect();
            handles
                .into_iter()
                .map(|handle| handle.join().map_err(|_| anyhow!("a client panicked")))
                .collect::<Result<_, _>>()
        })?;
        last = Some(results);
    }
    let results = last.expect("two phases were run");
    // A thread that spins is never idle: its CPU time is the time that it would have taken alone.
    let rate = results.iter().map(|(answered, ns)| answered.len() as f64 * 1e9 / *ns as f64).sum();
    let mut latencies: Vec<u64> = results.iter().flat_map(|(answered, _)| answered).map(|one| one.latency_ns).collect();
    Ok(outcome(&mut latencies, rate))
}

/// A thread's clients ask until so many requests are answered, or until they have nothing more to ask.
fn spin(
    clients: &mut Clients,
    work: &mut dyn Work,
    node: &Node,
    replies: &Mutex<VecDeque<(NodeId, Packet)>>,
    operations: u64,
) -> Vec<Answered> {
    let begin = Instant::now();
    let now_ns = || begin.elapsed().as_nanos() as u64;
    let mut answered = Vec::new();
    clients.over = false;
    for client in 0..clients.number() {
        while let Some((to, packet)) = clients.ask(client, work, now_ns()) {
            node.deliver(to, packet);
        }
    }
    while clients.under_way() > 0 {
        let reply = replies.lock().expect("nobody panics with it").pop_front();
        let Some((to, packet)) = reply else {
            std::hint::spin_loop();
            continue;
        };
        let client = clients.at(to);
        answered.extend(clients.hear(client, &packet, work, now_ns()));
        clients.over |= answered.len() as u64 >= operations;
        while let Some((to, packet)) = clients.ask(client, work, now_ns()) {
            node.deliver(to, packet);
        }
    }
    answered
}
