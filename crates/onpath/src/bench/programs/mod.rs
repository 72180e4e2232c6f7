//! `onpath bench programs PATH…`: what people run, on several paths in turn: tar, find, git status, rsync, ls -l, rm -rf on a tree of
//! small files, then large files and direct I/O.
//!
//! A round does every step on every path, one path after the other; results are medians over the rounds, and ratios to the first path
//! within each round.

mod files;
mod material;
mod report;
mod steps;

use super::posix::{Target, Usage};
use anyhow::{Context, bail};
use clap::{Args, value_parser};
use material::Material;
use onpath_wire::shown::Shown;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use steps::{Place, Step};

/// Most files of the tree.
const FILES_MAX: i64 = 10_000_000;
/// Largest file, MiB.
const MIB_MAX: i64 = 1 << 20;
/// Most reads, and writes, of 4 KiB of one round.
const SMALL_MAX: i64 = 100_000_000;
/// Most rounds.
const ROUNDS_MAX: i64 = 1_000;

/// Arguments of `onpath bench programs`.
#[derive(Args, Debug)]
pub(crate) struct ProgramsArgs {
    /// Directories to measure, in turn; the others are compared with the first.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Files of the tree, and of the one large directory.
    #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=FILES_MAX))]
    files: u32,
    /// Size of the large file, MiB.
    #[arg(long, default_value_t = 256, value_parser = value_parser!(u32).range(1..=MIB_MAX))]
    mib: u32,
    /// Reads, and writes, of 4 KiB: direct ones at random places of the large file, others one behind the other.
    #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=SMALL_MAX))]
    small: u32,
    /// What to measure; what a step needs is made in any case.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Step::ALL)]
    steps: Vec<Step>,
    /// How often everything is repeated.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=ROUNDS_MAX))]
    rounds: u32,
    /// Name of the directory made in each PATH, and removed.
    #[arg(long, default_value = "onpath-bench")]
    subdir: String,
    /// Where to keep the tree that tar and rsync bring; best in memory.
    #[arg(long, default_value = "/dev/shm")]
    material: PathBuf,
    /// Servers of the PATHs besides those found by their FUSE connection: their CPU time counts as the server's.
    #[arg(long, value_name = "PID")]
    server_pid: Vec<u32>,
    /// Give results as JSON.
    #[arg(long)]
    json: bool,
}

/// One step on one path in one round.
#[derive(Clone, Copy, Debug)]
struct Measured {
    path: usize,
    step: Step,
    /// Files, or MiB, or reads and writes.
    operations: u32,
    seconds: f64,
    /// CPU time of the server and of the programs, ns.
    servers_ns: u64,
    programs_ns: u64,
}

pub(crate) fn run(args: &ProgramsArgs) -> anyhow::Result<()> {
    if args.subdir.is_empty() || args.subdir.contains('/') || args.subdir.starts_with('.') {
        bail!("--subdir {}: give a plain name", args.subdir);
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    let mut targets = vec![];
    for path in &args.paths {
        targets.push(Target::new(path, &args.subdir, &args.server_pid)?);
    }
    let material = Material::new(&args.material, args.files)?;
    let mut all = vec![];
    for round in 0..args.rounds {
        let mut places: Vec<Place<'_>> =
            targets.iter().map(|target| Place::new(target.work(), &material, args.mib, args.small)).collect();
        // Each step on all paths, so that what disturbs the machine for a while disturbs all.
        for step in Step::ALL {
            let wanted = args.steps.contains(&step);
            if !wanted && !args.steps.iter().any(|other| other.needs().contains(&step)) {
                continue;
            }
            for (path, target) in targets.iter().enumerate() {
                if interrupted.load(Ordering::Relaxed) {
                    bail!("interrupted");
                }
                eprintln!("round {} of {}: {}: {step}", round + 1, args.rounds, target.path.shown());
                let place = &mut places[path];
                let what = || format!("{step} in {}", target.path.shown());
                place.prepare(step).with_context(what)?;
                let before = (Usage::now(&target.servers)?, Usage::of_this_process_and_its_children()?, Instant::now());
                place.run(step).with_context(what)?;
                let seconds = before.2.elapsed().as_secs_f64();
                let programs_ns = Usage::of_this_process_and_its_children()? - before.1;
                let servers_ns = Usage::now(&target.servers)?.servers_ns.saturating_sub(before.0.servers_ns);
                if wanted {
                    all.push(Measured {
                        path,
                        step,
                        operations: place.operations(step),
                        seconds,
                        servers_ns,
                        programs_ns,
                    });
                }
            }
        }
        for place in &mut places {
            place.clean_up()?;
        }
    }
    report::print(&all, &targets, args.json)
}
