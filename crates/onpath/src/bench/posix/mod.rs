//! `onpath bench posix PATH…`: metadata operations by several processes, several paths in turn.
//!
//! A round does every case on every path, one path after the other, so that what disturbs the machine disturbs all;
//! results are medians over the rounds with the least and the greatest, and ratios within each round.

mod crew;
mod placement;
mod plan;
mod report;
mod summary;
pub(in crate::bench) mod target;
mod usage;
mod worker;

pub(super) use summary::Spread;
pub(super) use target::Target;
pub(super) use usage::Usage;
pub(crate) use worker::{WorkerArgs, work};

use anyhow::{Context, bail};
use clap::{Args, value_parser};
use crew::{Crew, Measured};
use onpath_wire::shown::Shown;
use placement::{Placed, Placement};
use plan::{Case, Layout, Phase};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most processes of one case.
const PROCESSES_MAX: i64 = 1_024;
/// Most files of one process.
const FILES_MAX: i64 = 10_000_000;
/// Largest file, bytes: it is written by one call.
const BYTES_MAX: u64 = 16 << 20;
/// Most rounds.
const ROUNDS_MAX: i64 = 1_000;

/// Arguments of `onpath bench posix`.
#[derive(Args, Debug)]
pub(crate) struct PosixArgs {
    /// Directories to measure, in turn; the others are compared with the first.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Numbers of processes.
    #[arg(long, value_delimiter = ',', default_value = "1,4", value_parser = value_parser!(u32).range(1..=PROCESSES_MAX))]
    processes: Vec<u32>,
    /// Files, and directories, of each process.
    #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=FILES_MAX))]
    files: u32,
    /// Sizes of the files, bytes.
    #[arg(long, value_delimiter = ',', default_value = "0,4096", value_parser = value_parser!(u64).range(..=BYTES_MAX))]
    sizes: Vec<u64>,
    /// Directories of their own or one for all (that only with several processes).
    #[arg(long, value_enum, value_delimiter = ',', default_value = "unique,shared")]
    directories: Vec<Layout>,
    /// What to measure; files and directories are made and removed in any case.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "create,stat,read,rename,unlink,mkdir,rmdir")]
    phases: Vec<Phase>,
    /// How often everything is repeated.
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u32).range(1..=ROUNDS_MAX))]
    rounds: u32,
    /// Name of the directory made in each PATH, and removed.
    #[arg(long, default_value = "onpath-bench", value_parser = plain_name)]
    subdir: String,
    /// Servers of the PATHs besides those found by their FUSE connection: their CPU time counts as the server's.
    #[arg(long, value_name = "PID")]
    server_pid: Vec<u32>,
    /// Niceness of servers and workers; below 0 needs root.
    #[arg(long, allow_hyphen_values = true, value_parser = value_parser!(i32).range(-20..=19))]
    nice: Option<i32>,
    /// CPUs to bind servers and workers to, such as 0:1; either side may be empty.
    #[arg(long, value_name = "SERVERS:WORKERS", value_parser = placement::cpu_lists)]
    cpus: Option<placement::CpuLists>,
    /// Give results as JSON.
    #[arg(long)]
    json: bool,
}

pub(in crate::bench) fn plain_name(name: &str) -> anyhow::Result<String> {
    if name.is_empty() || name.contains('/') || name == "." || name == ".." {
        bail!("give a plain name");
    }
    Ok(name.to_owned())
}

pub(crate) fn run(args: PosixArgs) -> anyhow::Result<()> {
    let cases = plan::cases(&args.processes, &args.directories, &args.sizes, &args.phases)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    let mut targets = vec![];
    for path in &args.paths {
        targets.push(Target::new(path, &args.subdir, &args.server_pid)?);
    }
    let lists = args.cpus.clone().unwrap_or_default();
    let servers = Placement { nice: args.nice, cpus: lists.servers };
    let workers = Placement { nice: args.nice, cpus: lists.workers };
    let all: Vec<u32> = targets.iter().flat_map(|target| target.servers.iter().copied()).collect();
    let placed = Placed::new(&all, &servers)?;
    let worker = WorkerArgs { number: 0, files: args.files, bytes: 0, nice: workers.nice, cpus: workers.cpus.clone() };
    let mut all = vec![];
    for round in 0..args.rounds {
        for (case, phases) in &cases {
            for (path, target) in targets.iter().enumerate() {
                eprintln!("round {} of {}: {}: {case}", round + 1, args.rounds, target.path.shown());
                let worker = WorkerArgs { bytes: case.bytes, ..worker.clone() };
                let measured = measure(*case, phases, path, target, &worker, &interrupted);
                all.extend(measured.with_context(|| format!("{case} in {}", target.path.shown()))?);
            }
        }
    }
    drop(placed);
    let options = summary::Options { files: args.files, rounds: args.rounds, servers, workers };
    let summary = summary::summarize(&all, &targets, options);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    } else {
        print!("{}", report::tables(&summary));
    }
    Ok(())
}

/// One case on one path: all of its phases, one after the other.
fn measure(
    case: Case,
    phases: &[Phase],
    path: usize,
    target: &Target,
    worker: &WorkerArgs,
    interrupted: &AtomicBool,
) -> anyhow::Result<Vec<Measured>> {
    let name = format!("{}-{}-{}", case.processes, case.directory, case.bytes);
    let directories = target.make(&name, if case.directory == Layout::Unique { case.processes } else { 1 })?;
    let mut measured = vec![];
    let mut crew = Crew::start(case.processes, &directories, worker)?;
    for &phase in phases {
        if interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        measured.push(crew.run(phase, case, path, target)?);
    }
    drop(crew);
    target.remove(&name, &directories)?;
    Ok(measured)
}
