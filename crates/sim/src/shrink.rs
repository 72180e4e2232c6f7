//! Shrinking: from a run that went wrong to a smaller one that goes wrong too – fewer operations, fewer users and clients,
//! fewer kinds of faults, fewer names, shards and processes.
//!
//! Once a run fails in faults of their usual strength too (`plain`: a command line can say all of it), each step is tried
//! under a few other seeds as well, since whatever is left out changes all that is drawn after it.

use crate::kinds::FaultKind;
use crate::run::{SimConfig, run};
use crate::workload::WorkloadConfig;
use crate::world::WorldConfig;
use onpath_wire::tracking::Form;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Other seeds under which a step is tried where faults have their usual strength.
const SEEDS: u64 = 8;
/// Operations by which a step that leaves something else out may be longer.
const ROOM: u64 = 50;
/// Directories and names below which there is nothing to make smaller.
const NAMES_MIN: usize = 4;

/// A run that goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What is run.
    pub config: SimConfig,
    /// Whether everything but what [`plain`] keeps is as in [`SimConfig::default`].
    pub plain: bool,
    /// What is wrong first.
    pub violation: String,
}

/// The same shape with faults of the same kinds, in their usual strength, and the usual workload.
pub fn plain(config: &SimConfig) -> SimConfig {
    let usual = SimConfig::default();
    let world = WorldConfig {
        shards: config.world.shards,
        processes: config.world.processes,
        data_nodes: config.world.data_nodes,
        crash_every: config.world.crash_every,
        commit: config.world.commit,
        form: config.world.form,
        switches: config.world.switches,
        switch_stages: config.world.switch_stages,
        switch_fails_every_us: config.world.switch_fails_every_us,
        ..usual.world
    };
    let WorkloadConfig { names, directories, .. } = config.workload;
    let workload = WorkloadConfig { names, directories, ..usual.workload };
    SimConfig { world, workload, ..config.clone() }.with_faults(&config.fault_kinds())
}

/// Runs; what is wrong first, a panic included, and after how many operations.
fn failure(config: &SimConfig) -> Option<(String, u64)> {
    match catch_unwind(AssertUnwindSafe(|| run(config))) {
        Ok(outcome) => Some((outcome.violations.into_iter().next()?, outcome.operations)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Some((format!("panic: {}", text.unwrap_or("without words")), config.operations))
        }
    }
}

/// Makes a run that goes wrong smaller, while `go_on` says so before each try; `heard` is told of every smaller one. Nothing
/// if the run is right.
pub fn shrink(
    config: &SimConfig,
    is_plain: bool,
    mut go_on: impl FnMut() -> bool,
    mut heard: impl FnMut(&Case),
) -> Option<Case> {
    let first = failure(config)?;
    let mut case = taken(config.clone(), is_plain, first);
    heard(&case);
    if !case.plain
        && let Some(found) = smaller(&plain(&case.config), case.config.seed, true, &mut go_on)
    {
        case = found;
        heard(&case);
    }
    loop {
        let before = case.clone();
        for step in STEPS {
            for candidate in step(&case.config) {
                if candidate == case.config || !go_on() {
                    continue;
                }
                if let Some(found) = smaller(&roomy(candidate, &case.config), case.config.seed, case.plain, &mut go_on)
                {
                    case = found;
                    heard(&case);
                    break;
                }
            }
        }
        if case == before || !go_on() {
            return Some(case);
        }
    }
}

/// Whatever else is left out, the same goes wrong a little later, perhaps: a run ends at what is wrong first anyway.
fn roomy(candidate: SimConfig, before: &SimConfig) -> SimConfig {
    let more = if candidate.operations == before.operations { ROOM } else { 0 };
    SimConfig { operations: candidate.operations + more, ..candidate }
}

fn taken(config: SimConfig, plain: bool, (violation, operations): (String, u64)) -> Case {
    let operations = config.operations.min(operations).max(1);
    Case { config: SimConfig { operations, ..config }, plain, violation }
}

/// The candidate, if it fails, perhaps under another seed.
fn smaller(candidate: &SimConfig, seed: u64, plain: bool, go_on: &mut impl FnMut() -> bool) -> Option<Case> {
    let others = (1..=if plain { SEEDS } else { 0 }).filter(|other| *other != seed);
    for seed in std::iter::once(seed).chain(others) {
        if !go_on() {
            return None;
        }
        let config = reseeded(candidate, seed);
        if let Some(found) = failure(&config) {
            return Some(taken(config, plain, found));
        }
    }
    None
}

/// The same under another seed, which also decides about the switch, if there is one.
fn reseeded(config: &SimConfig, seed: u64) -> SimConfig {
    let other = SimConfig { seed, ..config.clone() };
    let drawn = seed != config.seed && config.world.form == Form::Network;
    if drawn { other.with_switch().with_faults(&config.fault_kinds()) } else { other }
}

/// A step gives smaller configurations, the smallest first.
type Step = fn(&SimConfig) -> Vec<SimConfig>;

const STEPS: [Step; 15] = [
    |c| {
        let WorldConfig { switches, switch_stages, reorder_us, sync, .. } = WorldConfig::default();
        let world = WorldConfig { form: Form::Owner, switches, switch_stages, reorder_us, sync, ..c.world.clone() };
        vec![without(&SimConfig { world, ..c.clone() }, FaultKind::Switch)]
    },
    |c| fewer(c, c.operations, 1, |c, n| c.operations = n),
    |c| FaultKind::ALL.into_iter().map(|kind| without(c, kind)).collect(),
    |c| fewer(c, c.cachers as u64, 0, |c, n| c.cachers = n as usize),
    |c| fewer(c, c.mortals as u64, 0, |c, n| c.mortals = n as usize),
    |c| fewer(c, c.lockers as u64, 0, |c, n| c.lockers = n as usize),
    |c| fewer(c, c.writers as u64, 0, |c, n| c.writers = n as usize),
    |c| fewer(c, c.mounts as u64, 0, |c, n| c.mounts = n as usize),
    |c| fewer(c, c.sessions as u64, 1, |c, n| c.sessions = n as usize),
    |c| fewer(c, c.window as u64, 1, |c, n| c.window = n as usize),
    |c| fewer(c, c.workload.directories as u64, 1, |c, n| c.workload.directories = n as usize),
    |c| fewer(c, c.workload.names as u64, NAMES_MIN as u64, |c, n| c.workload.names = n as usize),
    |c| fewer(c, c.world.data_nodes.into(), 1, |c, n| c.world.data_nodes = n as u16),
    |c| fewer(c, c.world.processes.into(), 1, |c, n| c.world.processes = n as u16),
    |c| {
        fewer(c, c.world.shards.into(), 1, |c, n| {
            c.world.shards = n as u16;
            c.world.processes = c.world.processes.min(n as u16);
        })
    },
];

fn without(config: &SimConfig, kind: FaultKind) -> SimConfig {
    let kinds: Vec<_> = config.fault_kinds().into_iter().filter(|other| *other != kind).collect();
    config.clone().with_faults(&kinds)
}

/// With `least`, a quarter, half, and nearly all of `n`.
fn fewer(config: &SimConfig, n: u64, least: u64, put: fn(&mut SimConfig, u64)) -> Vec<SimConfig> {
    let mut tries = vec![least, n / 4, n / 2, n * 3 / 4, n * 9 / 10, n.saturating_sub(1)];
    tries.retain(|less| *less < n && *less >= least);
    tries.dedup();
    let with = |less: &u64| {
        let mut config = config.clone();
        put(&mut config, *less);
        config
    };
    tries.iter().map(with).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_only_make_smaller() {
        let config = SimConfig { mounts: 3, writers: 2, lockers: 2, cachers: 1, ..SimConfig::default() }
            .with_faults(&FaultKind::ALL);
        for (index, step) in STEPS.into_iter().enumerate() {
            let smaller = step(&config);
            assert!(!smaller.is_empty() || index == 13, "step {index}");
        }
        let none = fewer(&config, 1, 1, |_, _| unreachable!("nothing is less than least"));
        assert!(none.is_empty());
    }

    #[test]
    fn a_run_that_is_right_is_not_shrunk() {
        let config = SimConfig { operations: 50, ..SimConfig::default() };
        assert_eq!(shrink(&config, true, || true, |_| unreachable!("nothing to hear")), None);
    }

    #[test]
    fn plain_weather_keeps_the_kinds_of_faults() {
        for seed in 1..50 {
            let config = SimConfig::from_seed(seed);
            let calm = plain(&config);
            assert_eq!(calm.fault_kinds(), config.fault_kinds());
            assert_eq!(plain(&calm), calm);
        }
    }
}
