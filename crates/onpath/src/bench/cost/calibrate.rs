//! `onpath bench calibrate`: the constants of the cost model, measured on this machine with the real code.

use super::machine::{self, Around};
use crate::cli::say;
use anyhow::Context;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use onpath_sim::cost::{Calibration, Clock, calibrate};
use onpath_wire::shown::Shown;
use std::path::PathBuf;
use std::time::Instant;

/// Arguments of `onpath bench calibrate`.
#[derive(Args, Debug)]
pub(crate) struct CalibrateArgs {
    /// Files in each file system that is exercised: more of them cost more cache misses.
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    files: u32,
    /// Where the journal is tried out; the directory for temporary files otherwise.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Measure CPU time instead of elapsed time, on a machine that has other things to do: reading that clock disturbs more.
    #[arg(long)]
    cpu_time: bool,
    /// Write the constants to this file, for --calibration.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: CalibrateArgs) -> anyhow::Result<()> {
    let calibration = measure(args.files, args.dir, args.cpu_time)?;
    let json = serde_json::to_string_pretty(&calibration)?;
    if let Some(out) = &args.out {
        std::fs::write(out, format!("{json}\n")).with_context(|| format!("cannot write {}", out.shown()))?;
    }
    if args.json {
        say(&json)
    } else {
        show(&calibration)
    }
    Ok(())
}

/// Measures everything.
pub(super) fn measure(files: u32, dir: Option<PathBuf>, cpu_time: bool) -> anyhow::Result<Calibration> {
    let parent = dir.unwrap_or_else(std::env::temp_dir);
    let dir = parent.join(format!("onpath-calibrate-{}", std::process::id()));
    std::fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.shown()))?;
    let around = machine::measure(&dir);
    std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.shown()))?;
    let Around { dispatch_ns, journal_ns, datagram_ns, disk_ns, flush_ns } = around?;
    // An input takes about a microsecond, and reading a thread's CPU clock is a system call; the few inputs during which the
    // machine does something else are left out as outliers.
    let begin = Instant::now();
    let elapsed = move || begin.elapsed().as_nanos() as u64;
    let clock: Clock = if cpu_time { Box::new(machine::cpu_ns) } else { Box::new(elapsed) };
    let inputs = calibrate::measure(clock, files);
    let round = |ns: f64| (ns * 10.0).round() / 10.0;
    Ok(Calibration {
        machine: format!("{} with {files} files", processor()),
        inputs,
        dispatch_ns: round(dispatch_ns),
        journal_ns: round(journal_ns),
        send_ns: round(datagram_ns),
        receive_ns: round(datagram_ns),
        disk_ns: round(disk_ns),
        flush_ns: flush_ns.round(),
    })
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1).map(str::to_owned));
    model.unwrap_or_else(|| "a processor without a name".to_owned())
}

fn show(calibration: &Calibration) {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["input", "base, ns", "+ entry", "+ record", "+ reply", "measured"]);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    let ns = |value: f64| if value == 0.0 { String::new() } else { format!("{value:.0}") };
    for (label, line) in &calibration.inputs {
        let costs = [line.base_ns, line.entry_ns, line.record_ns, line.reply_ns].map(ns);
        table.add_row([label.clone()].into_iter().chain(costs).chain([line.samples.to_string()]));
    }
    say(&format!("{}\n\n{table}\n", calibration.machine));
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(["around the roles", "ns"]);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    for (what, value) in [
        ("runtime, each input", calibration.dispatch_ns),
        ("journal, each record", calibration.journal_ns),
        ("a message to another server: sending", calibration.send_ns),
        ("a message to another server: receiving", calibration.receive_ns),
        ("a block of a data file, in memory", calibration.disk_ns),
        ("a flush of the journal, elapsed", calibration.flush_ns),
    ] {
        table.add_row([what.to_owned(), format!("{value:.0}")]);
    }
    say(&table.to_string());
}
