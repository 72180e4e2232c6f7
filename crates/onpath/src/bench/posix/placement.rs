//! Niceness and CPUs of workers and servers.

use anyhow::{Context, bail};
use rustix::process::{Pid, getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

/// Where and how urgently processes run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Placement {
    /// Niceness; none: as it is.
    pub(super) nice: Option<i32>,
    /// CPUs; none: as it is.
    pub(super) cpus: Vec<usize>,
}

/// CPUs of `--cpus SERVER:WORKERS`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuLists {
    pub(super) servers: Vec<usize>,
    pub(super) workers: Vec<usize>,
}

/// Parses `SERVER:WORKERS`, each a list such as `0,2-3`, or empty for "not bound".
pub(super) fn cpu_lists(text: &str) -> anyhow::Result<CpuLists> {
    let Some((servers, workers)) = text.split_once(':') else {
        bail!("write SERVERS:WORKERS, such as 0:1, :0-1 (servers not bound) or 0: (workers not bound)");
    };
    Ok(CpuLists { servers: cpus(servers)?, workers: cpus(workers)? })
}

fn cpus(list: &str) -> anyhow::Result<Vec<usize>> {
    let number = |text: &str| {
        let cpu: usize = text.parse().with_context(|| format!("{text:?} is not the number of a CPU"))?;
        if cpu >= CpuSet::MAX_CPU { bail!("CPU {cpu} is beyond {}", CpuSet::MAX_CPU - 1) } else { Ok(cpu) }
    };
    let mut cpus = vec![];
    for part in list.split(',').filter(|part| !part.is_empty()) {
        match part.split_once('-') {
            Some((first, last)) => cpus.extend(number(first)?..=number(last)?),
            None => cpus.push(number(part)?),
        }
    }
    Ok(cpus)
}

fn set_of(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    set
}

fn place(thread: Option<Pid>, placement: &Placement) -> anyhow::Result<()> {
    if let Some(nice) = placement.nice {
        setpriority_process(thread, nice)
            .with_context(|| format!("cannot set niceness {nice} (below 0 needs root)"))?;
    }
    if !placement.cpus.is_empty() {
        sched_setaffinity(thread, &set_of(&placement.cpus))
            .with_context(|| format!("cannot bind to CPUs {:?}: are they there?", placement.cpus))?;
    }
    Ok(())
}

/// Places this process, which has one thread.
pub(super) fn place_self(placement: &Placement) -> anyhow::Result<()> {
    place(None, placement)
}

/// Threads of other processes, placed; as before when dropped.
pub(super) struct Placed {
    before: Vec<(Pid, i32, CpuSet)>,
}

impl Placed {
    /// Places all threads of these processes; threads they start later inherit it.
    pub(super) fn new(processes: &[u32], placement: &Placement) -> anyhow::Result<Placed> {
        let mut placed = Placed { before: vec![] };
        if *placement == Placement::default() {
            return Ok(placed);
        }
        for &process in processes {
            for thread in threads(process)? {
                placed.before.push((thread, getpriority_process(Some(thread))?, sched_getaffinity(Some(thread))?));
                place(Some(thread), placement).with_context(|| format!("server {process}"))?;
            }
        }
        Ok(placed)
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        for (thread, nice, cpus) in &self.before {
            // A thread that has ended needs no place.
            _ = setpriority_process(Some(*thread), *nice);
            _ = sched_setaffinity(Some(*thread), cpus);
        }
    }
}

fn threads(process: u32) -> anyhow::Result<Vec<Pid>> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).with_context(|| format!("no process {process}"))?;
    let mut threads = vec![];
    for task in tasks {
        let number = task?.file_name().to_string_lossy().parse()?;
        threads.extend(Pid::from_raw(number));
    }
    Ok(threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_parsed() {
        let lists = cpu_lists("0:1,3-5").unwrap();
        assert_eq!((lists.servers, lists.workers), (vec![0], vec![1, 3, 4, 5]));
        assert_eq!(cpu_lists(":").unwrap(), CpuLists::default());
        assert!(cpu_lists("0").unwrap_err().to_string().contains("SERVERS:WORKERS"));
        assert!(cpu_lists("0:x").is_err());
        assert!(cpu_lists("0:99999").is_err());
    }
}
