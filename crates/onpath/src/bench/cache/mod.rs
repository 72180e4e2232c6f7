//! `onpath bench cache`: hot metadata answered by a switch, beside the same servers without; in turn.
//!
//! A round starts the servers of each form anew, in processes of their own on a directory that is empty: two hosts with shards and data,
//! one with a switch, and one with a path node, which leads a client at first. A form is compared with the first one of the same round.

mod report;
mod work;

use crate::bench::beside::Beside;
use crate::bench::net::apart::Apart;
use crate::bench::net::client::Client;
use crate::bench::net::place::{cpus, own_cpus};
use crate::bench::net::servers::{Servers, Shape, Switch};
use crate::cli::{WaitMode, absolute};
use clap::{Args, value_parser};
use serde::Serialize;
use std::path::PathBuf;
use work::{Cost, Phase, Work};

/// Most requests of a measurement.
const OPERATIONS_MAX: i64 = 1_000_000;
/// Most requests under way.
const WINDOW_MAX: i64 = 1_024;
/// Most files.
const FILES_MAX: i64 = 1_000;
/// Hosts, each with a shard and a data node.
const HOSTS: u16 = 2;

/// Arguments of `onpath bench cache`.
#[derive(Args, Debug)]
pub(crate) struct CacheArgs {
    /// Looks of each measurement; there are a fiftieth as many changes.
    #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u32).range(100..=OPERATIONS_MAX))]
    operations: u32,
    /// How often everything is repeated.
    #[arg(long, default_value_t = 7, value_parser = value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Requests under way at a time where there are several.
    #[arg(long, default_value_t = 32, value_parser = value_parser!(u32).range(2..=WINDOW_MAX))]
    window: u32,
    /// Files that are looked at in turn.
    #[arg(long, default_value_t = 16, value_parser = value_parser!(u32).range(1..=FILES_MAX))]
    files: u32,
    /// Where the servers keep their state; the directory for temporary files otherwise.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Compare two builds of onpath by this benchmark, in turn: give it twice.
    #[arg(long = "binary", value_name = "PATH")]
    binaries: Vec<PathBuf>,
    /// Where the host with the switch is, so that the switch can also be in the kernel, which needs root: NETNS is a network namespace,
    /// ADDRESS its address, and DEVICE by what it is reached there.
    #[arg(long, value_name = "NETNS,ADDRESS,DEVICE")]
    switch_at: Option<Apart>,
    /// Give results as JSON.
    #[arg(long)]
    json: bool,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Form {
    /// Shards alone.
    Off,
    /// A switch in user space, what is asked for often.
    Switch,
    /// The same in the kernel.
    Kernel,
}

impl Form {
    /// What can be measured there.
    fn all(apart: Option<&Apart>) -> Vec<Form> {
        [Form::Off, Form::Switch].into_iter().chain(apart.map(|_| Form::Kernel)).collect()
    }

    fn shape(self, apart: Option<&Apart>) -> Shape<'_> {
        let settings: &[_] = match self {
            Form::Off => &[],
            Form::Switch | Form::Kernel => &[("cache", "switch:s")],
        };
        Shape {
            settings,
            hosts: HOSTS,
            path: true,
            switch: Some(Switch::at(apart, self == Form::Kernel)),
            ..Shape::NETWORK
        }
    }

    fn name(self) -> &'static str {
        match self {
            Form::Off => "off",
            Form::Switch => "switch",
            Form::Kernel => "kernel",
        }
    }
}

/// A form in one round.
struct Measured(Vec<(Phase, Cost)>);

impl Measured {
    fn cost(&self, phase: Phase) -> &Cost {
        &self.0.iter().find(|(of, _)| *of == phase).expect("a form is asked for everything").1
    }
}

pub(crate) fn run(args: &CacheArgs) -> anyhow::Result<()> {
    if !args.binaries.is_empty() {
        return super::builds::compare(&args.binaries, args.rounds, args.json);
    }
    let (cpu, _) = cpus(WaitMode::Block, &own_cpus()?)?;
    let mut all = Beside::new(&Form::all(args.switch_at.as_ref()));
    for round in 0..args.rounds as usize {
        for form in all.order(round) {
            eprintln!("round {} of {}: {}", round + 1, args.rounds, form.name());
            all.add(form, round, measure(args, form, cpu)?);
        }
    }
    report::print(args, cpu, &all)
}

/// A form in a round.
fn measure(args: &CacheArgs, form: Form, cpu: usize) -> anyhow::Result<Measured> {
    let parent = absolute(&args.dir.clone().unwrap_or_else(std::env::temp_dir))?;
    let dir = tempfile::Builder::new().prefix("onpath-bench-cache").tempdir_in(parent)?;
    let servers = Servers::start(form.shape(args.switch_at.as_ref()), WaitMode::Block, HOSTS, dir.path(), cpu)?;
    let client = Client::start(&servers, WaitMode::Block, cpu)?;
    let [operations, window, files] = [args.operations, args.window, args.files].map(|number| number as usize);
    let costs = Work { servers: &servers, client: &client, operations, window, files, form }.all()?;
    client.stop()?;
    Ok(Measured(costs))
}
