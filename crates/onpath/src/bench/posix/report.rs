//! Results as tables.

use super::placement::Placement;
use super::summary::{Spread, Summarized, Summary};
use comfy_table::{CellAlignment, Table, presets};
use onpath_wire::shown::Shown;
use std::fmt::Write;

/// Columns that are words, not numbers.
const WORDS: usize = 5;

/// A letter for each path: A, B, … Z, then its number.
fn label(path: usize) -> String {
    u8::try_from(path).ok().filter(|path| *path < 26).map_or(path.to_string(), |n| char::from(b'A' + n).to_string())
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header.to_vec());
    for column in table.column_iter_mut().skip(WORDS) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn with_spread(value: Spread, digits: usize) -> String {
    let Spread { median, min, max } = value;
    format!("{median:.digits$} ({min:.digits$} – {max:.digits$})")
}

/// All results.
pub(super) fn tables(summary: &Summary<'_>) -> String {
    let mut text = String::new();
    describe(summary, &mut text).expect("a string takes everything");
    let mut add = |title: &str, table: Table| {
        if table.row_count() > 0 {
            writeln!(text, "\n{title}\n{table}").expect("a string takes everything");
        }
    };
    add(
        "Medians of the rounds (least – greatest); CPU in µs an operation, latencies in µs over all rounds",
        results(summary),
    );
    add("Ratios to A, round by round: median (least – greatest)", ratios(summary));
    add("Rate in a shared directory ÷ rate in unique directories", shared(summary));
    text
}

fn describe(summary: &Summary<'_>, text: &mut String) -> std::fmt::Result {
    let (machine, options) = (&summary.machine, &summary.options);
    for (number, target) in summary.paths.iter().enumerate() {
        let servers = match target.servers.as_slice() {
            [] => "no server process known".into(),
            servers => format!("served by {servers:?}"),
        };
        writeln!(text, "{}: {} ({}, {servers})", label(number), target.path.shown(), target.filesystem)?;
    }
    let placement = |Placement { nice, cpus }: &Placement| {
        let nice = nice.map_or("as it was".into(), |nice| nice.to_string());
        let cpus = if cpus.is_empty() { "not bound".into() } else { format!("on CPUs {cpus:?}") };
        format!("niceness {nice}, {cpus}")
    };
    writeln!(
        text,
        "{} CPUs, Linux {}; {} files a process, {} rounds",
        machine.cpus, machine.kernel, options.files, options.rounds
    )?;
    writeln!(text, "servers: {}; workers: {}", placement(&options.servers), placement(&options.workers))
}

fn results(summary: &Summary<'_>) -> Table {
    let header = [
        "path",
        "procs",
        "directory",
        "bytes",
        "operation",
        "rate/s",
        "CPU machine",
        "CPU processes",
        "worker",
        "server",
        "busy CPUs",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
    ];
    let mut table = table(&header);
    for Summarized { path, case, phase, rate, cpu_us, busy_cpus, latency_us: l, .. } in &summary.results {
        let mut row = words(*path, case.processes, &case.directory.to_string(), case.bytes, &phase.to_string());
        row.extend([
            with_spread(*rate, 0),
            with_spread(cpu_us.machine, 1),
            with_spread(cpu_us.processes, 1),
            format!("{:.1}", cpu_us.workers.median),
            format!("{:.1}", cpu_us.servers.median),
            format!("{:.2}", busy_cpus.median),
        ]);
        row.extend([l.p50, l.p90, l.p99, l.p99_9, l.max].map(|us| format!("{us:.1}")));
        table.add_row(row);
    }
    table
}

fn words(path: usize, processes: u32, directory: &str, bytes: u64, phase: &str) -> Vec<String> {
    vec![label(path), processes.to_string(), directory.into(), bytes.to_string(), phase.into()]
}

fn ratios(summary: &Summary<'_>) -> Table {
    let header = ["path", "procs", "directory", "bytes", "operation", "rate", "CPU machine", "CPU processes", "p50"];
    let mut table = table(&header);
    for ratio in &summary.ratios {
        let case = &ratio.case;
        let directory = case.directory.to_string();
        let mut row = words(ratio.path, case.processes, &directory, case.bytes, &ratio.phase.to_string());
        row.extend([
            with_spread(ratio.rate, 2),
            with_spread(ratio.cpu_machine, 2),
            with_spread(ratio.cpu_processes, 2),
            format!("{:.2}", ratio.latency_p50),
        ]);
        table.add_row(row);
    }
    table
}

fn shared(summary: &Summary<'_>) -> Table {
    let mut table = table(&["path", "procs", "directory", "bytes", "operation", "shared ÷ unique", "÷ that of A"]);
    for shared in &summary.shared_to_unique {
        let mut row = words(shared.path, shared.processes, "both", shared.bytes, &shared.phase.to_string());
        row.extend([with_spread(shared.rate, 2), format!("{:.2}", shared.against_first)]);
        table.add_row(row);
    }
    table
}
