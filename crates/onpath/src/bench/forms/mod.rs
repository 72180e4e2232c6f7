//! `onpath bench forms`: the forms of tracking beside each other, as they are compared in SwitchFS §7.3.2 and §7.3.3.
//!
//! A round starts the servers of every form anew, in processes of their own on a directory that is empty: two hosts with shards and data,
//! and one with a switch. A form is compared with the first one of the same round.

mod form;
mod report;
mod work;

use crate::bench::beside::Beside;
use crate::bench::fixed_secrets;
use crate::bench::net::client::Client;
use crate::bench::net::dirty_set::{Counts, fill, in_use, uninterrupted};
use crate::bench::net::place::{cpus, own_cpus};
use crate::bench::net::servers::Servers;
use crate::cli::{WaitMode, absolute};
use anyhow::ensure;
use clap::{Args, value_parser};
use form::Form;
use onpath_wire::map::ClusterMap;
use report::Measured;
use std::path::PathBuf;
use work::{Phase, Work};

/// Most requests of a measurement.
const OPERATIONS_MAX: i64 = 100_000;
/// Most requests under way.
const WINDOW_MAX: i64 = 1_024;
/// Most directories.
const DIRECTORIES_MAX: i64 = 10_000;
/// At least this share of the marks that should find no room has to find none.
const FULL_AT_LEAST: f64 = 0.95;

/// Arguments of `onpath bench forms`.
#[derive(Args, Debug)]
pub(crate) struct FormsArgs {
    /// Requests of each measurement.
    #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u32).range(100..=OPERATIONS_MAX))]
    operations: u32,
    /// How often everything is repeated.
    #[arg(long, default_value_t = 7, value_parser = value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Requests under way at a time where there are several.
    #[arg(long, default_value_t = 64, value_parser = value_parser!(u32).range(2..=WINDOW_MAX))]
    window: u32,
    /// Directories.
    #[arg(long, default_value_t = 64, value_parser = value_parser!(u32).range(1..=DIRECTORIES_MAX))]
    directories: u32,
    /// Forms; each is compared with the first. MARKS-PERCENT: so many of the directories find no room in the switch.
    #[arg(
        long,
        value_name = "owner|sticky[-PERCENT]|every-update[-PERCENT]",
        value_delimiter = ',',
        default_value = "owner,sticky,sticky-25,sticky-50,sticky-75,sticky-100,every-update,every-update-100"
    )]
    forms: Vec<Form>,
    /// Let directories of which reads and updates alternate go into sync, as they do unless forms are compared.
    #[arg(long)]
    sync: bool,
    /// Metadata shards.
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u16).range(2..=64))]
    shards: u16,
    /// Where the servers keep their state; the directory for temporary files otherwise.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Compare two builds of onpath by this benchmark, in turn: give it twice.
    #[arg(long = "binary", value_name = "PATH")]
    binaries: Vec<PathBuf>,
    /// Give results as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &FormsArgs) -> anyhow::Result<()> {
    if !args.binaries.is_empty() {
        return super::builds::compare(&args.binaries, args.rounds, args.json);
    }
    for (at, form) in args.forms.iter().enumerate() {
        ensure!(!args.forms[..at].contains(form), "--forms: {form} is asked for twice");
    }
    let (cpu, _) = cpus(WaitMode::Block, &own_cpus()?)?;
    let mut all = Beside::new(&args.forms);
    for round in 0..args.rounds as usize {
        for form in all.order(round) {
            let measured = uninterrupted(|| {
                eprintln!("round {} of {}: {form}", round + 1, args.rounds);
                measure(args, form, cpu)
            });
            all.add(form, round, measured?);
        }
    }
    report::print(args, cpu, &all)
}

/// A form in a round.
fn measure(args: &FormsArgs, form: Form, cpu: usize) -> anyhow::Result<Measured> {
    let parent = absolute(&args.dir.clone().unwrap_or_else(std::env::temp_dir))?;
    let dir = tempfile::Builder::new().prefix("onpath-bench-forms").tempdir_in(parent)?;
    let servers = Servers::start(form.shape(args.sync), WaitMode::Block, args.shards, dir.path(), cpu)?;
    let client = Client::start(&servers, WaitMode::Block, cpu)?;
    if form != Form::Owner {
        in_use(&servers, &client)?;
    }
    let begin = Counts::of(&servers)?;
    let count = args.directories as usize;
    let dirs = (0..count).map(|number| client.directory(&format!("dir{number}"))).collect::<Result<Vec<_>, _>>()?;
    let overflowing = form.overflowing(count);
    fill(&servers, &client, &dirs[..overflowing], begin)?;
    let (operations, window) = (args.operations as usize, args.window as usize);
    let work = Work { client: &client, dirs: &dirs, operations, window };
    work.warm()?;
    let before = begin.since(&servers)?;
    let mut phases = vec![(Phase::Create, work.creates()?)];
    let after = begin.since(&servers)?;
    let away = work.creates_away(&ClusterMap::even(args.shards, fixed_secrets().placement));
    let each = |after: u64, before: u64| (after - before) as f64 / away.len().max(1) as f64;
    let (marked, full) = (each(after.marked, before.marked), each(after.full, before.full));
    let should = each(away.iter().filter(|dir| dirs[..overflowing].contains(dir)).count() as u64, 0);
    ensure!(
        full >= should * FULL_AT_LEAST,
        "{form}: of marks as many as {full:.3} of the creates found no room in the switch; {should:.3} should have"
    );
    phases.extend(work.alternate()?);
    phases.extend(work.others()?);
    let overtaken = begin.since(&servers)?.overtaken as f64;
    client.stop()?;
    Ok(Measured { phases, marked, full, overtaken })
}
