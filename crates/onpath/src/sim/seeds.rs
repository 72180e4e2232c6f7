//! Runs of many seeds, on several threads.

use super::command::command;
use super::{SimArgs, config};
use crate::cli::say;
use onpath_sim::check::{Excuses, Load};
use onpath_sim::{Outcome, SimConfig};
use serde::Serialize;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// A seed that was run.
pub(super) struct Done {
    pub(super) config: SimConfig,
    pub(super) result: Result<Outcome, String>,
    pub(super) seconds: f64,
}

impl Done {
    /// Why it went wrong, if it did, and how to see that.
    pub(super) fn failure(&self, plain: bool) -> Option<String> {
        let why = match &self.result {
            Ok(outcome) if outcome.violations.is_empty() => return None,
            Ok(outcome) => format!("found {} violations", outcome.violations.len()),
            Err(panic) => format!("broke an assertion: {panic}"),
        };
        Some(format!("seed {} {why}; replay it with: {} --narrate", self.config.seed, command(&self.config, plain)))
    }

    /// Says what was found.
    pub(super) fn report(&self, json_only: bool) {
        let Ok(outcome) = &self.result else { return };
        if !json_only {
            outcome.violations.iter().take(10).for_each(|violation| say(&format!("violation: {violation}")));
            say(&format!("{:?}\n{:?}\n{}", outcome.counters, outcome.checks, excuses(&outcome.excuses)));
        }
        let line = Line {
            seed: outcome.seed,
            operations: outcome.operations,
            violations: outcome.violations.len(),
            trace: format!("{:016x}", outcome.trace),
            excuses: outcome.excuses.named().collect(),
            load: outcome.load,
            ops_per_s: (outcome.operations as f64 / self.seconds) as u64,
        };
        say(&serde_json::to_string(&line).expect("numbers and text are JSON"));
    }
}

/// All seeds of a command together.
#[derive(Default)]
pub(super) struct Sum {
    seeds: u64,
    operations: u64,
    /// Seeds that went wrong.
    pub(super) failed: u64,
    violations: u64,
    panics: u64,
    excuses: Excuses,
    load: Load,
}

/// How often what excuse was needed.
fn excuses(excuses: &Excuses) -> String {
    let each: Vec<_> = excuses.named().map(|(name, count)| format!("{name} {count}")).collect();
    format!("excuses: {}", if each.is_empty() { "none".into() } else { each.join(", ") })
}

impl Sum {
    /// Counts a seed.
    pub(super) fn add(&mut self, done: &Done) {
        self.seeds += 1;
        let (operations, violations) = match &done.result {
            Ok(outcome) => (outcome.operations, outcome.violations.len() as u64),
            Err(_) => (0, 0),
        };
        self.operations += operations;
        self.violations += violations;
        if let Ok(outcome) = &done.result {
            self.excuses.extend([outcome.excuses]);
            self.load += outcome.load;
        }
        self.panics += u64::from(done.result.is_err());
        self.failed += u64::from(violations > 0 || done.result.is_err());
    }

    /// Which excuses all seeds together have needed too often: what a single run may have of a kind because it is small counts once.
    pub(super) fn judge(&self) -> Vec<String> {
        self.excuses.judge(&self.load)
    }

    /// What there is to say at the end.
    pub(super) fn line(&self, twice: bool, took: Duration) -> String {
        let Sum { seeds, operations, failed, violations, panics, excuses: all, .. } = self;
        let runs = if twice { ", each run twice," } else { "" };
        format!(
            "{seeds} seeds{runs} with {operations} operations in {} s: {violations} violations and {panics} broken assertions \
             in {failed} seeds; {}",
            took.as_secs(),
            excuses(all)
        )
    }
}

/// The last line of a seed.
#[derive(Serialize)]
struct Line {
    seed: u64,
    operations: u64,
    violations: usize,
    trace: String,
    /// What looked wrong and passed, how often.
    excuses: BTreeMap<&'static str, u64>,
    /// What accounts for that.
    load: Load,
    ops_per_s: u64,
}

/// Runs a seed, twice if asked to: then the second run must be the first one again.
fn one(args: &SimArgs, config: SimConfig) -> Done {
    let begun = Instant::now();
    let narrate =
        || -> Option<Box<dyn FnMut(String)>> { args.narrate.then(|| Box::new(|line: String| say(&line)) as _) };
    let run = || onpath_sim::run::run_narrated(&config, narrate());
    let result = catch_unwind(AssertUnwindSafe(run)).map_err(|panic| text(&*panic));
    let seconds = begun.elapsed().as_secs_f64();
    let result = result.and_then(|first| match args.twice && onpath_sim::run(&config) != first {
        true => Err("the second run of the seed differs from the first".into()),
        false => Ok(first),
    });
    Done { config, result, seconds }
}

fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without words").into()
}

/// Runs seeds one after another until there are no more or `stop` is set.
pub(super) fn work(args: &SimArgs, next: &AtomicU64, stop: &AtomicBool, done: &Sender<anyhow::Result<Done>>) {
    while !stop.load(Ordering::Relaxed) {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let seed = args.seed.checked_add(index).filter(|_| index < args.seeds);
        let Some(seed) = seed else { return };
        if done.send(config(args, seed).map(|config| one(args, config))).is_err() {
            return;
        }
    }
}
