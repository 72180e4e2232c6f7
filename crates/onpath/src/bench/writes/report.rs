//! Medians over rounds, and ratios to the first form within them.

use super::WritesArgs;
use super::form::Form;
use super::work::{Cost, Phase};
use crate::bench::beside::Beside;
use crate::bench::net::report::{show, table};
use crate::bench::posix::Spread;
use crate::cli::say;
use serde::Serialize;

/// Version of the JSON form.
const FORMAT: u32 = 1;

/// A form in one round.
pub(super) struct Measured {
    pub(super) phases: Vec<(Phase, Cost)>,
    /// An echo of messages as long as those of [`Phase::Write`], µs.
    pub(super) echo_us: f64,
}

impl Measured {
    fn cost(&self, phase: Phase) -> &Cost {
        &self.phases.iter().find(|(of, _)| *of == phase).expect("a form is asked for everything").1
    }
}

/// A form in a phase.
#[derive(Serialize)]
struct Row {
    phase: Phase,
    form: Form,
    us: Spread,
    us_ratio: Spread,
    /// Of the write of [`Phase::Write`] to an echo of messages as long.
    echo_ratio: Option<Spread>,
    /// Operations a second.
    rate: Spread,
    rate_ratio: Spread,
    /// CPU time of the servers an operation, µs.
    cpu_us: Spread,
    cpu_ratio: Spread,
    /// Records of homes an operation.
    records: Spread,
    /// Flushes of all hosts an operation.
    flushes: Spread,
    /// Writes that went the way of the form: others went by the home.
    share: Spread,
}

#[derive(Serialize)]
struct Summary {
    format: u32,
    operations: u32,
    rounds: u32,
    window: u32,
    bytes: u32,
    cpu: usize,
    results: Vec<Row>,
}

fn row(all: &Beside<Form, Measured>, phase: Phase, form: Form) -> Row {
    let spread = |value: fn(&Cost) -> f64| all.spread(form, |one| value(one.cost(phase)));
    let ratio = |value: fn(&Cost) -> f64| all.ratio(form, |one| value(one.cost(phase)));
    Row {
        phase,
        form,
        us: spread(|cost| cost.us),
        us_ratio: ratio(|cost| cost.us),
        echo_ratio: (phase == Phase::Write).then(|| all.spread(form, |one| one.cost(phase).us / one.echo_us)),
        rate: spread(|cost| cost.rate),
        rate_ratio: ratio(|cost| cost.rate),
        cpu_us: spread(|cost| cost.cpu_us),
        cpu_ratio: ratio(|cost| cost.cpu_us),
        records: spread(|cost| cost.records),
        flushes: spread(|cost| cost.flushes),
        share: spread(|cost| cost.share),
    }
}

/// Prints what was measured.
pub(super) fn print(args: &WritesArgs, cpu: usize, all: &Beside<Form, Measured>) -> anyhow::Result<()> {
    let WritesArgs { operations, rounds, window, bytes, ref forms, .. } = *args;
    let results = Phase::ALL.iter().flat_map(|&phase| forms.iter().map(move |&form| row(all, phase, form)));
    let (format, results) = (FORMAT, results.collect());
    let summary = Summary { format, operations, rounds, window, bytes, cpu, results };
    if args.json {
        say(&serde_json::to_string_pretty(&summary)?);
    } else {
        say(&summary.text());
    }
    Ok(())
}

impl Summary {
    fn text(&self) -> String {
        let mut text = format!(
            "{} requests each, {} rounds, {} bytes, all on CPU {}: median (least – greatest)\n\
             ÷: of the first form in the same round; CPU time of the servers, records of homes and flushes of hosts each operation;\n             this way: writes that were answered as the form has it, not by the home\n",
            self.operations, self.rounds, self.bytes, self.cpu
        );
        for phase in Phase::ALL {
            let (title, many) = (phase.title(), phase == Phase::Writes);
            text += &if many { format!("\n{title}, {} under way\n", self.window) } else { format!("\n{title}\n") };
            let rows = self.results.iter().filter(|row| row.phase == phase).map(|row| {
                let took = match many {
                    true => [show(&row.rate, 0), show(&row.rate_ratio, 2)],
                    false => [show(&row.us, 1), show(&row.us_ratio, 2)],
                };
                let echo = row.echo_ratio.as_ref().map_or(String::new(), |ratio| show(ratio, 2));
                let cost = [
                    show(&row.cpu_us, 1),
                    show(&row.cpu_ratio, 2),
                    show(&row.records, 3),
                    show(&row.flushes, 3),
                    show(&row.share, 2),
                ];
                [row.form.name()].into_iter().chain(took).chain([echo]).chain(cost).collect()
            });
            let took = if many { "1/s" } else { "µs" };
            let header = ["form", took, "÷", "÷ echo", "CPU, µs", "÷", "records", "flushes", "this way"];
            text += &table(&header, rows.collect());
        }
        text
    }
}
