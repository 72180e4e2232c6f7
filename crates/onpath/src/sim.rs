//! `onpath sim`: the same roles on virtual time, from a seed, every answer checked against the reference model.

use crate::cli::{TrackingForm, say};
use clap::Args;
use onpath_sim::{Outcome, SimConfig};
use serde::Serialize;
use std::time::Instant;

/// Arguments of `onpath sim`.
#[derive(Args, Debug)]
pub(crate) struct SimArgs {
    /// Where everything random comes from: weather, shape and load too, unless --plain.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run this many seeds from --seed on; stops at the first with a violation.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Client operations of each seed.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    operations: u64,
    /// 4 sessions, 2 shards in one process, no faults: the configuration of the speed figure.
    #[arg(long)]
    plain: bool,
    /// Message loss between 0 and 0.9 instead of the seed's own.
    #[arg(long)]
    loss: Option<f64>,
    /// How directories are tracked; in the network form the seed also decides how small the switch is and how often it fails.
    #[arg(long, value_enum, default_value = "owner")]
    tracking: TrackingForm,
    /// Tell everything that happens.
    #[arg(long)]
    narrate: bool,
    /// Only the last line of each seed, as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: SimArgs) -> anyhow::Result<()> {
    for seed in args.seed..args.seed.saturating_add(args.seeds) {
        let mut config =
            if args.plain { SimConfig { seed, ..SimConfig::default() } } else { SimConfig::from_seed(seed) };
        config.operations = args.operations;
        if args.tracking == TrackingForm::Network {
            config = config.with_switch();
        }
        if let Some(loss) = args.loss {
            anyhow::ensure!((0.0..=0.9).contains(&loss), "--loss {loss}: give a share between 0 and 0.9");
            config.world.loss = loss;
        }
        let begun = Instant::now();
        let narrator: Option<Box<dyn FnMut(String)>> =
            args.narrate.then(|| Box::new(|line: String| say(&line)) as Box<dyn FnMut(String)>);
        let outcome = onpath_sim::run::run_narrated(&config, narrator);
        report(&outcome, begun.elapsed().as_secs_f64(), args.json);
        if !outcome.violations.is_empty() {
            let plain = if args.plain { " --plain" } else { "" };
            let tracking = if args.tracking == TrackingForm::Network { " --tracking network" } else { "" };
            let again = format!("{plain}{tracking}");
            anyhow::bail!(
                "seed {seed} found {} violations; replay it with: onpath sim --seed {seed} --operations {}{again} --narrate",
                outcome.violations.len(),
                args.operations
            );
        }
    }
    Ok(())
}

/// The last line of a seed.
#[derive(Serialize)]
struct Line {
    seed: u64,
    operations: u64,
    violations: usize,
    trace: String,
    ops_per_s: u64,
}

fn report(outcome: &Outcome, seconds: f64, json_only: bool) {
    if !json_only {
        outcome.violations.iter().take(10).for_each(|violation| say(&format!("violation: {violation}")));
        say(&format!("{:?}\n{:?}", outcome.counters, outcome.checks));
    }
    let line = Line {
        seed: outcome.seed,
        operations: outcome.operations,
        violations: outcome.violations.len(),
        trace: format!("{:016x}", outcome.trace),
        ops_per_s: (outcome.operations as f64 / seconds) as u64,
    };
    let line = serde_json::to_string(&line).expect("numbers and text are JSON");
    say(&line);
}
