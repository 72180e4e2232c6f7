//! Results as a table or as JSON.

use super::Measured;
use super::steps::Step;
use crate::bench::posix::{Spread, Target};
use comfy_table::{CellAlignment, Table, presets};
use onpath_wire::shown::Shown;
use serde::Serialize;

/// Version of the JSON form.
const FORMAT: u32 = 1;

#[derive(Debug, Serialize)]
struct Summary<'a> {
    format: u32,
    paths: &'a [Target],
    results: Vec<Summarized>,
}

/// One step on one path.
#[derive(Debug, Serialize)]
struct Summarized {
    path: usize,
    step: Step,
    /// Files, MiB, or reads and writes of one round.
    operations: u32,
    seconds: Spread,
    /// CPU time of an operation, µs: of the programs, of the server.
    programs_us: Spread,
    servers_us: Spread,
    /// Wall and CPU time divided by those of the first path, round by round.
    wall_ratio: Spread,
    cpu_ratio: Spread,
    /// The least CPU time of all rounds divided by the first path's: what others on the machine disturb least.
    least_cpu_ratio: f64,
}

impl Measured {
    fn cpu_ns(&self) -> f64 {
        (self.servers_ns + self.programs_ns) as f64
    }

    fn us_each(&self, ns: u64) -> f64 {
        ns as f64 / 1e3 / f64::from(self.operations)
    }
}

fn summarized(all: &[Measured], path: usize, step: Step) -> Option<Summarized> {
    let of = |path| all.iter().filter(move |m| m.path == path && m.step == step);
    let operations = of(path).next()?.operations;
    let spread = |value: &dyn Fn(&Measured) -> f64| Spread::of(of(path).map(value));
    // Too little time for any clock shows no difference.
    let quotient = |a: f64, b: f64| if b > 0.0 { a / b } else { 1.0 };
    let ratio = |value: &dyn Fn(&Measured) -> f64| {
        Spread::of(of(path).zip(of(0)).map(|(own, first)| quotient(value(own), value(first))))
    };
    let least_cpu_ns = |path| Spread::of(of(path).map(Measured::cpu_ns)).min;
    Some(Summarized {
        path,
        step,
        operations,
        seconds: spread(&|m| m.seconds),
        programs_us: spread(&|m| m.us_each(m.programs_ns)),
        servers_us: spread(&|m| m.us_each(m.servers_ns)),
        wall_ratio: ratio(&|m| m.seconds),
        cpu_ratio: ratio(&Measured::cpu_ns),
        least_cpu_ratio: quotient(least_cpu_ns(path), least_cpu_ns(0)),
    })
}

/// Prints everything.
pub(super) fn print(all: &[Measured], targets: &[Target], json: bool) -> anyhow::Result<()> {
    let steps = Step::ALL.into_iter();
    let results = steps.flat_map(|step| (0..targets.len()).filter_map(move |path| summarized(all, path, step)));
    let summary = Summary { format: FORMAT, paths: targets, results: results.collect() };
    if json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
        return Ok(());
    }
    for (number, target) in targets.iter().enumerate() {
        println!("{number}: {} ({}, served by {:?})", target.path.shown(), target.filesystem, target.servers);
    }
    println!("Medians of the rounds (least – greatest); CPU in µs an operation: a file, a MiB, or a read or write");
    println!("{}", table(&summary.results));
    Ok(())
}

fn with_spread(value: Spread, digits: usize) -> String {
    let Spread { median, min, max } = value;
    format!("{median:.digits$} ({min:.digits$} – {max:.digits$})")
}

fn table(results: &[Summarized]) -> Table {
    let mut table = Table::new();
    let header =
        ["step", "path", "operations", "seconds", "CPU programs", "CPU server", "wall ÷ 0", "CPU ÷ 0", "least CPU ÷ 0"];
    table.load_preset(presets::NOTHING).set_header(header.to_vec());
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for one in results {
        table.add_row(vec![
            one.step.to_string(),
            one.path.to_string(),
            one.operations.to_string(),
            with_spread(one.seconds, 3),
            with_spread(one.programs_us, 1),
            with_spread(one.servers_us, 1),
            with_spread(one.wall_ratio, 2),
            with_spread(one.cpu_ratio, 2),
            format!("{:.2}", one.least_cpu_ratio),
        ]);
    }
    table
}
