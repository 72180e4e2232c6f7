//! One working process: told the phases one by one on its standard input, it does them in its working directory with
//! relative names and nothing else between two operations than reading the clock.

use super::placement::{self, Placement};
use super::plan::Phase;
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use hdrhistogram::Histogram;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::io::{BufRead, Write};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Longest time that a histogram tells apart, ns: one minute.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// Significant decimal digits of latencies.
const LATENCY_DIGITS: u8 = 3;
/// What is read at once of a file without bytes.
const READ_BYTES_MIN: usize = 4096;

/// Arguments of one worker.
#[derive(Args, Debug, Clone)]
pub(crate) struct WorkerArgs {
    /// Its number; part of its names.
    #[arg(long)]
    pub(super) number: u32,
    /// Files, and directories, it makes.
    #[arg(long)]
    pub(super) files: u32,
    /// Size of its files.
    #[arg(long)]
    pub(super) bytes: u64,
    /// Niceness to take.
    #[arg(long, allow_hyphen_values = true)]
    pub(super) nice: Option<i32>,
    /// CPUs to stay on.
    #[arg(long, value_delimiter = ',')]
    pub(super) cpus: Vec<usize>,
}

/// What a worker says to its coordinator: one JSON object a line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Word {
    /// It waits for its first order.
    Ready,
    /// It has done a phase, with this CPU time in user and system mode.
    Done {
        /// ns.
        cpu_ns: u64,
    },
    /// Latencies of that phase: value in ns, count.
    Latencies(Vec<(u64, u64)>),
    /// An operation has failed; the worker ends.
    Failed(String),
}

/// An order that asks for the latencies of the last phase; any other is the name of a phase.
pub(super) const REPORT: &str = "report";

/// An empty histogram of latencies in ns.
pub(super) fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS).expect("the bounds are sound")
}

pub(crate) fn work(args: &WorkerArgs) -> anyhow::Result<()> {
    let placement = Placement { nice: args.nice, cpus: args.cpus.clone() };
    placement::place_self(&placement)?;
    let mut worker = Worker::new(args)?;
    let mut histogram = latencies();
    say(&Word::Ready)?;
    for order in std::io::stdin().lock().lines() {
        let order = order?;
        if order == REPORT {
            let values = histogram.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect();
            say(&Word::Latencies(values))?;
            continue;
        }
        let Ok(phase) = Phase::from_str(&order, false) else { bail!("unknown order {order:?}") };
        histogram.reset();
        match worker.run(phase, &mut histogram) {
            Ok(cpu_ns) => say(&Word::Done { cpu_ns })?,
            Err(error) => return say(&Word::Failed(format!("{error:#}"))),
        }
    }
    Ok(())
}

fn say(word: &Word) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(word)?;
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&line)?;
    Ok(out.flush()?)
}

struct Worker {
    files: Vec<CString>,
    renamed: Vec<CString>,
    directories: Vec<CString>,
    data: Vec<u8>,
    space: Vec<u8>,
    was_renamed: bool,
}

impl Worker {
    fn new(args: &WorkerArgs) -> anyhow::Result<Worker> {
        let names = |prefix: &str| {
            let name = |n| CString::new(format!("{prefix}.{}.{n}", args.number)).expect("no zero byte");
            (0..args.files).map(name).collect()
        };
        let bytes = usize::try_from(args.bytes)?;
        Ok(Worker {
            files: names("file"),
            renamed: names("renamed"),
            directories: names("dir"),
            data: vec![0x5a; bytes],
            space: vec![0; bytes.max(READ_BYTES_MIN)],
            was_renamed: false,
        })
    }

    /// Does a phase; the CPU time it took, ns.
    fn run(&mut self, phase: Phase, histogram: &mut Histogram<u64>) -> anyhow::Result<u64> {
        let present = if self.was_renamed { &self.renamed } else { &self.files };
        let begin_ns = cpu_ns();
        match phase {
            Phase::Create => each(phase, &self.files, histogram, |name| create(name, &self.data)),
            Phase::Stat => each(phase, present, histogram, stat),
            Phase::Restat => each(phase, again(present), histogram, stat),
            Phase::Reopen => each(phase, again(present), histogram, |name| open(name).map(drop)),
            Phase::Read => each(phase, present, histogram, |name| read(name, &mut self.space, self.data.len())),
            Phase::Rename => {
                let mut to = self.renamed.iter();
                each(phase, &self.files, histogram, |from| {
                    rustix::fs::rename(from, to.next().expect("as many names as files"))
                })
            }
            Phase::Unlink => each(phase, present, histogram, rustix::fs::unlink),
            Phase::Mkdir => {
                each(phase, &self.directories, histogram, |name| rustix::fs::mkdir(name, Mode::from_raw_mode(0o755)))
            }
            Phase::Rmdir => each(phase, &self.directories, histogram, rustix::fs::rmdir),
        }?;
        self.was_renamed |= phase == Phase::Rename;
        Ok(cpu_ns() - begin_ns)
    }
}

/// CPU time of this process, ns.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

fn each<'a>(
    phase: Phase,
    names: impl IntoIterator<Item = &'a CString>,
    histogram: &mut Histogram<u64>,
    mut operation: impl FnMut(&'a CString) -> Result<(), Errno>,
) -> anyhow::Result<()> {
    let mut begin = Instant::now();
    for name in names {
        operation(name).with_context(|| format!("{phase} of {}", name.to_string_lossy()))?;
        let end = Instant::now();
        histogram.saturating_record((end - begin).as_nanos() as u64);
        begin = end;
    }
    Ok(())
}

/// The first name, as often as there are names.
fn again(names: &[CString]) -> impl Iterator<Item = &CString> {
    names.iter().map(|_| &names[0])
}

fn stat(name: &CString) -> Result<(), Errno> {
    rustix::fs::statat(CWD, name, AtFlags::SYMLINK_NOFOLLOW).map(drop)
}

fn open(name: &CString) -> Result<OwnedFd, Errno> {
    rustix::fs::open(name, OFlags::RDONLY, Mode::empty())
}

fn create(name: &CString, data: &[u8]) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file = rustix::fs::open(name, flags, Mode::from_raw_mode(0o644))?;
    if !data.is_empty() && rustix::io::write(&file, data)? < data.len() {
        return Err(Errno::NOSPC); // what a short write to a regular file means
    }
    Ok(())
}

fn read(name: &CString, space: &mut [u8], bytes: usize) -> Result<(), Errno> {
    if rustix::io::read(open(name)?, space)? == bytes { Ok(()) } else { Err(Errno::IO) }
}
