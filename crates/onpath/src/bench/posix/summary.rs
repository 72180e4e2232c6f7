//! Medians over rounds, ratios between paths, and the form in which both are given as JSON.

use super::crew::Measured;
use super::placement::Placement;
use super::plan::{Case, Layout, Phase};
use super::target::Target;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Version of the JSON form.
const FORMAT: u32 = 1;

/// What was asked for.
#[derive(Debug, Serialize)]
pub(super) struct Options {
    /// Files of each process.
    pub(super) files: u32,
    /// Rounds.
    pub(super) rounds: u32,
    /// Placement of the servers.
    pub(super) servers: Placement,
    /// Placement of the workers.
    pub(super) workers: Placement,
}

/// The machine.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    /// CPUs that can be used.
    pub(super) cpus: usize,
    /// Release of the kernel.
    pub(super) kernel: String,
}

/// Everything.
#[derive(Debug, Serialize)]
pub(super) struct Summary<'a> {
    format: u32,
    pub(super) machine: Machine,
    pub(super) options: Options,
    pub(super) paths: &'a [Target],
    pub(super) results: Vec<Summarized>,
    /// Every path but the first against the first.
    pub(super) ratios: Vec<Ratio>,
    /// Shared against unique directories, of every path.
    pub(super) shared_to_unique: Vec<Shared>,
}

/// A value of several rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(in crate::bench) struct Spread {
    pub(in crate::bench) median: f64,
    pub(in crate::bench) min: f64,
    pub(in crate::bench) max: f64,
}

impl Spread {
    pub(in crate::bench) fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let n = values.len();
        assert!(n > 0, "every phase was measured in every round");
        let median = if n % 2 == 1 { values[n / 2] } else { f64::midpoint(values[n / 2 - 1], values[n / 2]) };
        Spread { median, min: values[0], max: values[n - 1] }
    }
}

/// CPU time of one operation, µs.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Cpu {
    /// Of the whole machine, whoever used it.
    pub(super) machine: Spread,
    /// Of workers and servers.
    pub(super) processes: Spread,
    /// Of the workers.
    pub(super) workers: Spread,
    /// Of the servers.
    pub(super) servers: Spread,
}

/// Latencies of all rounds, µs.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p99_9: f64,
    pub(super) max: f64,
}

/// One phase of one case on one path.
#[derive(Debug, Serialize)]
pub(super) struct Summarized {
    /// Number of the path.
    pub(super) path: usize,
    #[serde(flatten)]
    pub(super) case: Case,
    pub(super) phase: Phase,
    /// Operations of one round.
    pub(super) operations: u64,
    /// Operations per second.
    pub(super) rate: Spread,
    pub(super) cpu_us: Cpu,
    /// CPUs in use, by anybody.
    pub(super) busy_cpus: Spread,
    pub(super) latency_us: Latency,
}

/// A phase of a path divided by the same of the first path, round by round.
#[derive(Debug, Serialize)]
pub(super) struct Ratio {
    /// Number of the path.
    pub(super) path: usize,
    #[serde(flatten)]
    pub(super) case: Case,
    pub(super) phase: Phase,
    pub(super) rate: Spread,
    pub(super) cpu_machine: Spread,
    pub(super) cpu_processes: Spread,
    pub(super) latency_p50: f64,
}

/// Rate in a shared directory divided by that in unique ones, round by round.
#[derive(Debug, Serialize)]
pub(super) struct Shared {
    /// Number of the path.
    pub(super) path: usize,
    pub(super) processes: u32,
    pub(super) bytes: u64,
    pub(super) phase: Phase,
    pub(super) rate: Spread,
    /// The median divided by the first path's.
    pub(super) against_first: f64,
}

impl Measured {
    fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    fn us_each(&self, ns: u64) -> f64 {
        ns as f64 / 1e3 / self.operations as f64
    }

    fn machine_us(&self) -> f64 {
        self.us_each(self.machine_ns)
    }

    fn processes_us(&self) -> f64 {
        self.us_each(self.workers_ns + self.servers_ns)
    }
}

/// Everything, in the order in which it was measured.
pub(super) fn summarize<'a>(all: &[Measured], paths: &'a [Target], options: Options) -> Summary<'a> {
    let mut keys: Vec<(Case, Phase)> = vec![];
    for m in all {
        if !keys.contains(&(m.case, m.phase)) {
            keys.push((m.case, m.phase));
        }
    }
    let (mut results, mut ratios) = (vec![], vec![]);
    for &(case, phase) in &keys {
        let first = rounds(all, 0, case, phase);
        for path in 0..paths.len() {
            let own = rounds(all, path, case, phase);
            results.push(summarized(&own));
            if path > 0 {
                ratios.push(ratio(&own, &first));
            }
        }
    }
    let shared_to_unique = shared(all, &keys, paths.len());
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    Summary { format: FORMAT, machine: Machine { cpus, kernel }, options, paths, results, ratios, shared_to_unique }
}

fn rounds(all: &[Measured], path: usize, case: Case, phase: Phase) -> Vec<&Measured> {
    all.iter().filter(|m| m.path == path && m.case == case && m.phase == phase).collect()
}

fn merged(own: &[&Measured]) -> Histogram<u64> {
    let mut sum = own[0].latencies.clone();
    own[1..].iter().for_each(|m| sum.add(&m.latencies).expect("all have the same bounds"));
    sum
}

fn summarized(own: &[&Measured]) -> Summarized {
    let Measured { path, case, phase, operations, .. } = *own[0];
    let spread = |f: &dyn Fn(&Measured) -> f64| Spread::of(own.iter().map(|m| f(m)));
    let latencies = merged(own);
    let us = |quantile: f64| latencies.value_at_quantile(quantile) as f64 / 1e3;
    Summarized {
        path,
        case,
        phase,
        operations,
        rate: spread(&Measured::rate),
        cpu_us: Cpu {
            machine: spread(&Measured::machine_us),
            processes: spread(&Measured::processes_us),
            workers: spread(&|m| m.us_each(m.workers_ns)),
            servers: spread(&|m| m.us_each(m.servers_ns)),
        },
        busy_cpus: spread(&|m| m.machine_ns as f64 / 1e9 / m.seconds),
        latency_us: Latency {
            p50: us(0.5),
            p90: us(0.9),
            p99: us(0.99),
            p99_9: us(0.999),
            max: latencies.max() as f64 / 1e3,
        },
    }
}

fn ratio(own: &[&Measured], first: &[&Measured]) -> Ratio {
    let Measured { path, case, phase, .. } = *own[0];
    let spread = |f: &dyn Fn(&Measured) -> f64| Spread::of(own.iter().zip(first).map(|(a, b)| quotient(f(a), f(b))));
    let p50 = |of: &[&Measured]| merged(of).value_at_quantile(0.5) as f64;
    Ratio {
        path,
        case,
        phase,
        rate: spread(&Measured::rate),
        cpu_machine: spread(&Measured::machine_us),
        cpu_processes: spread(&Measured::processes_us),
        latency_p50: quotient(p50(own), p50(first)),
    }
}

/// Too few operations use no CPU time that a clock could tell; they show no difference.
fn quotient(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 1.0 }
}

fn shared(all: &[Measured], keys: &[(Case, Phase)], paths: usize) -> Vec<Shared> {
    let mut found: Vec<Shared> = vec![];
    for &(case, phase) in keys.iter().filter(|(case, _)| case.directory == Layout::Shared) {
        let alone = Case { directory: Layout::Unique, ..case };
        let mut of_first = 1.0;
        for path in 0..paths {
            let (shared, unique) = (rounds(all, path, case, phase), rounds(all, path, alone, phase));
            if unique.is_empty() {
                continue;
            }
            let rate = Spread::of(shared.iter().zip(&unique).map(|(s, u)| s.rate() / u.rate()));
            if path == 0 {
                of_first = rate.median;
            }
            let against_first = rate.median / of_first;
            let Case { processes, bytes, .. } = case;
            found.push(Shared { path, processes, bytes, phase, rate, against_first });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_lie_in_the_middle() {
        let odd = Spread::of([3.0, 1.0, 2.0].into_iter());
        assert_eq!((odd.median, odd.min, odd.max), (2.0, 1.0, 3.0));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0].into_iter()).median, 2.5);
    }
}
