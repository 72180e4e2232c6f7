//! Where the processes run and how they wait.

use crate::cli::WaitMode;
use anyhow::{Context, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::{BufRead, BufReader};
use std::process::{self, Command, Stdio};

/// The CPUs of servers and client: one for all where they wait in the kernel, else one each.
pub(in crate::bench) fn cpus(wait: WaitMode, of: &[usize]) -> anyhow::Result<(usize, usize)> {
    match (wait, of) {
        (WaitMode::Block, [first, ..]) => Ok((*first, *first)),
        (WaitMode::Spin, [first, second, ..]) => Ok((*first, *second)),
        _ => bail!("busy waiting needs two CPUs, and this process may use {of:?}: say --waits block"),
    }
}

/// The CPUs that this process may use.
pub(in crate::bench) fn own_cpus() -> anyhow::Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("the CPUs of this process")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Binds this thread, and whatever it starts from now on, to a CPU.
pub(super) fn bind_to(cpu: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("cannot bind to CPU {cpu}"))
}

/// A process of the measurement; killed when dropped.
pub(in crate::bench) struct Child(process::Child);

impl Child {
    /// Starts it and waits until it says a line with `word`, which is returned.
    pub(in crate::bench) fn start(mut command: Command, word: &str) -> anyhow::Result<(Child, String)> {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map(Child).context("cannot start another process")?;
        let mut said = BufReader::new(child.0.stdout.take().expect("piped"));
        let mut line = String::new();
        while said.read_line(&mut line)? > 0 {
            if line.contains(word) {
                return Ok((child, line.trim_end().to_owned()));
            }
            line.clear();
        }
        bail!("{:?} ended before it was ready: {}", command, child.0.wait()?)
    }
}

impl Child {
    /// Its id.
    pub(in crate::bench) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
