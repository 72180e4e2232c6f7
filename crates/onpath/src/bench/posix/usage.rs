//! CPU time: of the machine, of server processes.

use anyhow::Context;
use std::path::Path;

/// CPU time up to a moment, ns.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Usage {
    /// All processes, interrupts and the kernel's own threads; tells 1/100 s apart.
    pub(in crate::bench) machine_ns: u64,
    /// The server processes; tells some milliseconds apart.
    pub(in crate::bench) servers_ns: u64,
}

impl Usage {
    /// What was used up to now.
    pub(in crate::bench) fn now(servers: &[u32]) -> anyhow::Result<Usage> {
        let mut servers_ns = 0;
        for &server in servers {
            servers_ns += process_ns(server)?;
        }
        Ok(Usage { machine_ns: machine_ns()?, servers_ns })
    }

    /// CPU time of this process and of its children that have ended, ns; tells 1/100 s apart.
    pub(in crate::bench) fn of_this_process_and_its_children() -> anyhow::Result<u64> {
        let stat = std::fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
        process_ticks(&stat, 4).map(ticks_ns).context("cannot read /proc/self/stat")
    }
}

/// User, nice, system, irq and softirq time of all CPUs.
fn machine_ns() -> anyhow::Result<u64> {
    let stat = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    machine_ticks(&stat).map(ticks_ns).context("/proc/stat has no line for all CPUs")
}

fn machine_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    // user nice system idle iowait irq softirq …
    Some(fields.get(..3)?.iter().chain(fields.get(5..7)?).sum())
}

fn ticks_ns(ticks: u64) -> u64 {
    ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second()
}

/// CPU time of a process. The scheduler's own account of its threads is finer than ticks, where there is one.
fn process_ns(process: u32) -> anyhow::Result<u64> {
    let proc = format!("/proc/{process}");
    let tasks = std::fs::read_dir(Path::new(&proc).join("task"))
        .with_context(|| format!("server process {process} is gone: is the file system still mounted?"))?;
    let mut sum_ns = 0;
    for task in tasks {
        let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else { continue };
        sum_ns += text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    if sum_ns > 0 {
        return Ok(sum_ns);
    }
    let stat = std::fs::read_to_string(format!("{proc}/stat"))?;
    process_ticks(&stat, 2).map(ticks_ns).with_context(|| format!("cannot read {proc}/stat"))
}

/// User and system time of the process; with 4 fields those of its children that have ended too.
fn process_ticks(stat: &str, fields: usize) -> Option<u64> {
    // The command, in parentheses, may hold anything.
    let all: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    all.get(11..11 + fields)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc_are_found() {
        assert_eq!(machine_ticks("cpu  1 2 4 800 1600 32 64 128 0 0\ncpu0 0 0\n"), Some(1 + 2 + 4 + 32 + 64));
        assert_eq!(machine_ticks("intr 1"), None);
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 11 22 1 2 20 0 1";
        assert_eq!((process_ticks(stat, 2), process_ticks(stat, 4)), (Some(33), Some(36)));
    }

    #[test]
    fn a_process_that_is_gone_is_said_to_be() {
        let error = process_ns(u32::MAX).unwrap_err().to_string();
        assert!(error.contains("is gone"), "{error}");
    }
}
