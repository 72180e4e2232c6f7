//! `onpath bench writes`: who answers a write(2), and when its home hears of it; in turn.
//!
//! A round starts the servers of every form anew, in processes of their own on a directory that is empty: two hosts with shards and data,
//! and one with a switch, which only the form with tables asks. A form is compared with the first one of the same round, and a write with
//! an echo of messages as long.

mod form;
mod report;
mod work;

use crate::bench::beside::Beside;
use crate::bench::net::apart::Apart;
use crate::bench::net::client::Client;
use crate::bench::net::dirty_set::{in_use, uninterrupted};
use crate::bench::net::place::{cpus, own_cpus};
use crate::bench::net::servers::Servers;
use crate::cli::{WaitMode, absolute};
use anyhow::ensure;
use clap::{Args, value_parser};
use form::Form;
use report::Measured;
use std::path::PathBuf;
use work::Work;

/// Most requests of a measurement.
const OPERATIONS_MAX: i64 = 100_000;
/// Most requests under way.
const WINDOW_MAX: i64 = 1_024;
/// Most bytes of a write: an echo is as long.
const BYTES_MAX: i64 = 7_680;

/// Arguments of `onpath bench writes`.
#[derive(Args, Debug)]
pub(crate) struct WritesArgs {
    /// Requests of each measurement.
    #[arg(long, default_value_t = 2_000, value_parser = value_parser!(u32).range(100..=OPERATIONS_MAX))]
    operations: u32,
    /// How often everything is repeated.
    #[arg(long, default_value_t = 7, value_parser = value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Requests under way at a time where there are several, each to a file of its own.
    #[arg(long, default_value_t = 64, value_parser = value_parser!(u32).range(2..=WINDOW_MAX))]
    window: u32,
    /// Bytes of a write.
    #[arg(long, default_value_t = 4_096, value_parser = value_parser!(u32).range(1..=BYTES_MAX))]
    bytes: u32,
    /// Forms; each is compared with the first.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "chain,two-phase,owner,owner-at-once,network")]
    forms: Vec<Form>,
    /// Where the servers keep their state; the directory for temporary files otherwise.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Compare two builds of onpath by this benchmark, in turn: give it twice.
    #[arg(long = "binary", value_name = "PATH")]
    binaries: Vec<PathBuf>,
    /// How all processes wait: block, all on one CPU; spin, servers on the first CPU and clients on the second.
    #[arg(long, value_enum, default_value = "block")]
    wait: WaitMode,
    /// Where the host with the switch is, so that the switch can also be in the kernel, which needs root: NETNS is a network namespace,
    /// ADDRESS its address, and DEVICE by what it is reached there.
    #[arg(long, value_name = "NETNS,ADDRESS,DEVICE")]
    switch_at: Option<Apart>,
    /// Give results as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &WritesArgs) -> anyhow::Result<()> {
    if !args.binaries.is_empty() {
        return super::builds::compare(&args.binaries, args.rounds, args.json);
    }
    for (at, form) in args.forms.iter().enumerate() {
        ensure!(!args.forms[..at].contains(form), "--forms: {} is asked for twice", form.name());
    }
    ensure!(
        args.switch_at.is_some() || !args.forms.contains(&Form::Kernel),
        "--forms kernel: the loopback device cannot have a switch in the kernel; say with --switch-at where it is"
    );
    let at = cpus(args.wait, &own_cpus()?)?;
    let mut all = Beside::new(&args.forms);
    for round in 0..args.rounds as usize {
        for form in all.order(round) {
            let measured = uninterrupted(|| {
                eprintln!("round {} of {}: {}", round + 1, args.rounds, form.name());
                measure(args, form, at)
            });
            all.add(form, round, measured?);
        }
    }
    report::print(args, at.0, &all)
}

/// A form in a round.
fn measure(args: &WritesArgs, form: Form, (cpu, clients): (usize, usize)) -> anyhow::Result<Measured> {
    let parent = absolute(&args.dir.clone().unwrap_or_else(std::env::temp_dir))?;
    let dir = tempfile::Builder::new().prefix("onpath-bench-writes").tempdir_in(parent)?;
    let servers = Servers::start(form.shape(args.switch_at.as_ref()), args.wait, form::HOSTS, dir.path(), cpu)?;
    let (writer, reader) = (Client::start(&servers, args.wait, clients)?, Client::start(&servers, args.wait, clients)?);
    if form.has_table() {
        in_use(&servers, &writer)?;
    }
    let (operations, window, bytes) = (args.operations as usize, args.window as usize, args.bytes as usize);
    let work = Work {
        servers: &servers,
        writer: &writer,
        reader: &reader,
        operations,
        window,
        bytes,
        form,
        wait: args.wait,
        cpu,
        clients,
    };
    let (phases, echo_us) = work.all()?;
    writer.stop()?;
    reader.stop()?;
    Ok(Measured { phases, echo_us })
}
