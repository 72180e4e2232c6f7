//! The processes of one case: started, told the phases, measured.

use super::plan::{Case, Phase};
use super::target::Target;
use super::usage::Usage;
use super::worker::{self, REPORT, Word, WorkerArgs};
use anyhow::{Context, bail};
use clap::ValueEnum;
use hdrhistogram::Histogram;
use onpath_wire::shown::Shown;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

/// One phase of one case on one path in one round.
#[derive(Debug)]
pub(super) struct Measured {
    /// Number of the path.
    pub(super) path: usize,
    /// Which case.
    pub(super) case: Case,
    /// Which phase.
    pub(super) phase: Phase,
    /// Operations of all processes.
    pub(super) operations: u64,
    /// From the first start to the last end.
    pub(super) seconds: f64,
    /// CPU time of the whole machine meanwhile, others included, ns.
    pub(super) machine_ns: u64,
    /// CPU time of the workers, ns.
    pub(super) workers_ns: u64,
    /// CPU time of the servers, ns.
    pub(super) servers_ns: u64,
    /// Latencies, ns.
    pub(super) latencies: Histogram<u64>,
}

struct Worker {
    child: Child,
    orders: ChildStdin,
    words: BufReader<ChildStdout>,
    directory: PathBuf,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It waits for an order that will not come, or it is of no use any more.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Workers that wait for orders.
pub(super) struct Crew {
    workers: Vec<Worker>,
    files: u32,
}

impl Crew {
    /// Starts a process in each of `directories` (all of them in the first if there are fewer).
    pub(super) fn start(processes: u32, directories: &[PathBuf], args: &WorkerArgs) -> anyhow::Result<Crew> {
        let mut workers = vec![];
        for number in 0..processes {
            let directory = directories.get(number as usize).unwrap_or(&directories[0]);
            workers.push(Worker::start(directory, &WorkerArgs { number, ..args.clone() })?);
        }
        for worker in &mut workers {
            let word = worker.hear()?;
            anyhow::ensure!(matches!(word, Word::Ready), "a worker begins with {word:?}");
        }
        Ok(Crew { workers, files: args.files })
    }

    /// Has a phase done by all workers at the same time.
    pub(super) fn run(&mut self, phase: Phase, case: Case, path: usize, target: &Target) -> anyhow::Result<Measured> {
        let order = phase.to_possible_value().expect("no phase is hidden").get_name().to_owned();
        let before = Usage::now(&target.servers)?;
        let begin = Instant::now();
        for worker in &mut self.workers {
            worker.tell(&order)?;
        }
        let mut workers_ns = 0;
        for worker in &mut self.workers {
            match worker.hear()? {
                Word::Done { cpu_ns } => workers_ns += cpu_ns,
                word => bail!("a worker answers {order} with {word:?}"),
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        let after = Usage::now(&target.servers)?;
        Ok(Measured {
            path,
            case,
            phase,
            operations: u64::from(self.files) * self.workers.len() as u64,
            seconds,
            machine_ns: after.machine_ns - before.machine_ns,
            workers_ns,
            servers_ns: after.servers_ns.saturating_sub(before.servers_ns),
            latencies: self.latencies()?,
        })
    }

    fn latencies(&mut self) -> anyhow::Result<Histogram<u64>> {
        let mut all = worker::latencies();
        for worker in &mut self.workers {
            worker.tell(REPORT)?;
            match worker.hear()? {
                Word::Latencies(values) => {
                    values.into_iter().for_each(|(value, count)| all.saturating_record_n(value, count));
                }
                word => bail!("a worker reports {word:?}"),
            }
        }
        Ok(all)
    }
}

impl Worker {
    fn start(directory: &Path, args: &WorkerArgs) -> anyhow::Result<Worker> {
        let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
        command.args(["bench", "worker"]).current_dir(directory);
        command.args(["--number", &args.number.to_string(), "--files", &args.files.to_string()]);
        command.args(["--bytes", &args.bytes.to_string()]);
        if let Some(nice) = args.nice {
            command.args(["--nice", &nice.to_string()]);
        }
        if !args.cpus.is_empty() {
            let cpus: Vec<String> = args.cpus.iter().map(ToString::to_string).collect();
            command.args(["--cpus", &cpus.join(",")]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let shown = directory.shown();
        let mut child = command.spawn().with_context(|| format!("cannot start a process in {shown}"))?;
        let orders = child.stdin.take().expect("piped");
        let words = BufReader::new(child.stdout.take().expect("piped"));
        Ok(Worker { child, orders, words, directory: directory.to_owned() })
    }

    fn tell(&mut self, order: &str) -> anyhow::Result<()> {
        writeln!(self.orders, "{order}").context("a worker has ended early")
    }

    fn hear(&mut self) -> anyhow::Result<Word> {
        let mut line = String::new();
        if self.words.read_line(&mut line)? == 0 {
            bail!("the process in {} has ended early", self.directory.shown());
        }
        match serde_json::from_str(&line)? {
            Word::Failed(why) => bail!("in {}: {why}", self.directory.shown()),
            word => Ok(word),
        }
    }
}
