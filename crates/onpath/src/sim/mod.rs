//! `onpath sim`: the same roles on virtual time, from a seed, every answer checked against the reference model.

mod command;
mod seeds;
mod shrinking;

use crate::cli::{TrackingForm, Writes, say};
use clap::Args;
use command::base;
use onpath_sim::SyncPolicy;
use onpath_sim::world::Commit;
use onpath_sim::{FaultKind, SimConfig};
use onpath_wire::shown::Shown;
use seeds::Sum;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

/// Arguments of `onpath sim`.
#[derive(Args, Debug)]
pub(crate) struct SimArgs {
    /// Where everything random comes from: weather, shape and load too, unless --plain.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run this many seeds from --seed on; stops at the first with a violation, unless --failures.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Run so many seeds at the same time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: u16,
    /// Run each seed twice; the second run must be the same, byte for byte.
    #[arg(long)]
    twice: bool,
    /// Go on after a violation; append the command of each seed that has one to this file.
    #[arg(long, value_name = "FILE")]
    failures: Option<PathBuf>,
    /// Client operations of each seed.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    operations: u64,
    /// 4 sessions, 2 shards in one process, no faults: the configuration of the speed figure.
    #[arg(long)]
    plain: bool,
    /// Exactly these faults instead of the seed's own: all, none, or some of loss, duplicate, reorder, kill, power, tear, flip,
    /// partition, slow, jump, clock, full, death, switch, forge.
    #[arg(long, value_delimiter = ',')]
    faults: Option<Vec<String>>,
    /// Message loss between 0 and 0.9 instead of the seed's own.
    #[arg(long)]
    loss: Option<f64>,
    /// How directories are tracked; in the network form the seed also decides how small the switch is and how often it fails.
    #[arg(long, value_enum, default_value = "owner")]
    tracking: TrackingForm,
    #[command(flatten)]
    shape: Shape,
    /// After a violation look for a smaller run that fails too, for at most two minutes; tell the shortest command and what
    /// happens in that run.
    #[arg(long)]
    shrink: bool,
    /// Tell everything that happens.
    #[arg(long)]
    narrate: bool,
    /// Only the last line of each seed, as JSON.
    #[arg(long)]
    json: bool,
    /// Nothing of seeds without a violation but a line for all of them at the end.
    #[arg(long, conflicts_with = "json")]
    summary: bool,
}

/// What else can be given instead of the seed's own.
#[derive(Args, Debug, Default)]
struct Shape {
    /// Metadata shards.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64))]
    shards: Option<u16>,
    /// Processes with shards, at most as many as those.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64))]
    processes: Option<u16>,
    /// Data nodes, among which files are spread: each with a process, those beyond the number of processes with one of their own.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64))]
    data_nodes: Option<u16>,
    /// Clients of requests about names.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=500))]
    sessions: Option<u16>,
    /// Requests that each of them has under way.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64))]
    window: Option<u16>,
    /// Names that they keep about.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    names: Option<u32>,
    /// Directories that they keep about.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    directories: Option<u32>,
    /// Users with two mounts and a directory of their own.
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..=100))]
    mounts: Option<u16>,
    /// Mounts that write to the same files.
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..=100))]
    writers: Option<u16>,
    /// Who answers writes of files.
    #[arg(long, value_enum)]
    writes: Option<Writes>,
    /// Mounts that lock the same file.
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..=100))]
    lockers: Option<u16>,
    /// Mounts that die, one after another.
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..=100))]
    mortals: Option<u16>,
    /// Sessions that come and go and cache while they are alone: 0 or 1.
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..=1))]
    cachers: Option<u16>,
    /// Mean number of messages and records between two deaths of processes.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    crash_every: Option<u64>,
    /// Which directories go into the state sync: auto, never or always.
    #[arg(long, value_parser = sync)]
    sync: Option<SyncPolicy>,
    /// When a change is acknowledged: `sync`, or `interval:MILLISECONDS`.
    #[arg(long, value_parser = commit)]
    commit: Option<Commit>,
}

fn commit(text: &str) -> Result<Commit, String> {
    let interval = text.strip_prefix("interval:").and_then(|ms| ms.parse().ok()).filter(|ms| *ms > 0);
    match (text, interval) {
        ("sync", _) => Ok(Commit::Sync),
        (_, Some(ms)) => Ok(Commit::Interval(ms)),
        _ => Err("give sync or interval:MILLISECONDS".into()),
    }
}

/// Policies by name.
const SYNC: [(&str, SyncPolicy); 3] =
    [("auto", SyncPolicy::Auto), ("never", SyncPolicy::Never), ("always", SyncPolicy::Always)];

fn sync(text: &str) -> Result<SyncPolicy, String> {
    let policy = SYNC.iter().find(|(name, _)| *name == text).map(|(_, policy)| *policy);
    policy.ok_or_else(|| "give auto, never or always".into())
}

impl Shape {
    fn apply(&self, config: &mut SimConfig) -> anyhow::Result<()> {
        fn put<T, U: From<T>>(to: &mut U, value: Option<T>) {
            if let Some(value) = value {
                *to = value.into();
            }
        }
        put(&mut config.world.shards, self.shards);
        put(&mut config.world.processes, self.processes);
        put(&mut config.world.data_nodes, self.data_nodes);
        put(&mut config.sessions, self.sessions);
        put(&mut config.window, self.window);
        config.workload.names = self.names.map_or(config.workload.names, |n| n as usize);
        config.workload.directories = self.directories.map_or(config.workload.directories, |n| n as usize);
        put(&mut config.mounts, self.mounts);
        put(&mut config.writers, self.writers);
        put(&mut config.lockers, self.lockers);
        put(&mut config.mortals, self.mortals);
        put(&mut config.cachers, self.cachers);
        put(&mut config.world.crash_every, self.crash_every);
        put(&mut config.world.commit, self.commit);
        put(&mut config.world.sync, self.sync);
        put(&mut config.world.writes, self.writes.map(onpath_wire::tracking::Writes::from));
        config.world.in_halves &= config.world.may_halve();
        let (processes, shards) = (config.world.processes, config.world.shards);
        anyhow::ensure!(
            processes <= shards,
            "{processes} processes for {shards} shards: give --processes {shards} or less"
        );
        Ok(())
    }
}

fn config(args: &SimArgs, seed: u64) -> anyhow::Result<SimConfig> {
    let mut config = base(seed, args.plain, args.tracking == TrackingForm::Network);
    config.operations = args.operations;
    if let Some(faults) = &args.faults {
        config = config.with_faults(&kinds(faults)?);
    }
    if let Some(loss) = args.loss {
        anyhow::ensure!((0.0..=0.9).contains(&loss), "--loss {loss}: give a share between 0 and 0.9");
        config.world.loss = loss;
    }
    args.shape.apply(&mut config)?;
    Ok(config)
}

/// The kinds of faults that were asked for.
fn kinds(names: &[String]) -> anyhow::Result<Vec<FaultKind>> {
    match names {
        [all] if all == "all" => Ok(FaultKind::ALL.to_vec()),
        [none] if none == "none" => Ok(vec![]),
        names => {
            names.iter().map(|name| name.parse().map_err(|why: String| anyhow::anyhow!("--faults: {why}"))).collect()
        }
    }
}

pub(crate) fn run(args: SimArgs) -> anyhow::Result<()> {
    let (next, stop, mut sum) = (AtomicU64::new(0), AtomicBool::new(false), Sum::default());
    let (begun, mut first) = (Instant::now(), None);
    std::thread::scope(|threads| {
        let (sender, done) = channel();
        for _ in 0..args.jobs {
            let sender = sender.clone();
            threads.spawn(|| seeds::work(&args, &next, &stop, &{ sender }));
        }
        drop(sender);
        for done in done {
            let done = done.inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            let failure = done.failure(args.plain);
            sum.add(&done);
            if !args.summary || failure.is_some() {
                done.report(args.json);
            }
            let Some(failure) = failure else { continue };
            if args.summary {
                say(&failure);
            }
            match &args.failures {
                Some(file) => keep(file, &failure)?,
                None => stop.store(true, Ordering::Relaxed),
            }
            first.get_or_insert((done.config, failure));
        }
        anyhow::Ok(())
    })?;
    if args.summary {
        say(&sum.line(args.twice, begun.elapsed()));
    }
    let wrong = sum.judge();
    let Some((config, failure)) = first else {
        anyhow::ensure!(
            wrong.is_empty(),
            "all seeds together: {}; --json tells what each of them needed",
            wrong.join("; ")
        );
        return Ok(());
    };
    if args.shrink {
        shrinking::shrink_and_tell(&config, args.plain)?;
    }
    match &args.failures {
        Some(file) => anyhow::bail!("{} seeds went wrong; {} tells them", sum.failed, file.shown()),
        None => anyhow::bail!(failure),
    }
}

/// Appends a line to the file of failures.
fn keep(path: &PathBuf, failure: &str) -> anyhow::Result<()> {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    Ok(writeln!(file, "{failure}")?)
}

#[cfg(test)]
mod tests {
    use super::command::command;
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: SimArgs,
    }

    fn parsed(line: &str) -> anyhow::Result<SimConfig> {
        let args = Command::try_parse_from(line.split(' ').skip(1))?.args;
        config(&args, args.seed)
    }

    #[test]
    fn the_command_of_a_configuration_leads_back_to_it() {
        for line in [
            "onpath sim --seed 7 --operations 20000",
            "onpath sim --seed 7 --operations 300 --plain --faults loss,kill --names 30",
            "onpath sim --seed 9 --operations 300 --faults none --shards 1 --processes 1 --sessions 1 --window 1 --mounts 2",
            "onpath sim --seed 9 --operations 300 --data-nodes 5 --mounts 2",
            "onpath sim --seed 3 --operations 9 --plain --loss 0.3",
            "onpath sim --seed 3 --operations 9 --writes chain",
            "onpath sim --seed 4 --operations 9 --writes visible",
            "onpath sim --seed 4 --operations 9 --writes two-phase",
            "onpath sim --seed 5 --operations 9 --tracking network",
            "onpath sim --seed 6 --operations 9 --plain --tracking network --faults loss,switch",
            "onpath sim --seed 5 --operations 9 --tracking network --sync never",
            "onpath sim --seed 6 --operations 9 --tracking network --sync auto --names 500",
            "onpath sim --seed 12 --operations 5 --faults all --writers 0 --lockers 9 --crash-every 77 --commit interval:3",
        ] {
            let config = parsed(line).unwrap();
            assert_eq!(parsed(&command(&config, line.contains("--plain"))).unwrap(), config, "{line}");
        }
        let error = parsed("onpath sim --faults loss,fire").unwrap_err().to_string();
        assert!(error.contains("\"fire\" is no kind of fault"), "{error}");
        assert!(parsed("onpath sim --plain --shards 1 --processes 2").is_err());
    }
}
