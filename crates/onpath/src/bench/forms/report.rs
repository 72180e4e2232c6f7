//! Medians over rounds, and ratios to the first form within them.

use super::FormsArgs;
use super::form::Form;
use super::work::{Phase, Times};
use crate::bench::beside::Beside;
use crate::bench::net::report::{show, table};
use crate::bench::posix::Spread;
use crate::cli::say;
use serde::Serialize;

/// Version of the JSON form.
const FORMAT: u32 = 1;

/// A form in one round.
pub(super) struct Measured {
    pub(super) phases: Vec<(Phase, Times)>,
    /// Marks that the switch took, each create of [`Phase::Create`] at another shard than the directory's.
    pub(super) marked: f64,
    /// Marks for which it had no room, each such create.
    pub(super) full: f64,
    /// Removes that the switch dropped, since they came after later ones.
    pub(super) overtaken: f64,
}

impl Measured {
    fn times(&self, phase: Phase) -> &Times {
        &self.phases.iter().find(|(of, _)| *of == phase).expect("a form is asked for everything").1
    }
}

/// Marks of a form, each create one after the other at another shard than the directory's.
#[derive(Serialize)]
struct MarksOf {
    form: String,
    /// Directories that find no room in the switch.
    overflowing: usize,
    marked: Spread,
    full: Spread,
    /// Removes that the switch dropped in all phases, since they came after later ones.
    overtaken: Spread,
}

/// A form in a phase.
#[derive(Serialize)]
struct Row {
    phase: Phase,
    form: String,
    median_us: Spread,
    mean_us: Spread,
    p99_us: Spread,
    /// Answers a second.
    rate: Spread,
    median_ratio: Spread,
    mean_ratio: Spread,
    rate_ratio: Spread,
}

#[derive(Serialize)]
struct Summary {
    format: u32,
    operations: u32,
    rounds: u32,
    window: u32,
    directories: u32,
    shards: u16,
    sync: bool,
    cpu: usize,
    marks: Vec<MarksOf>,
    results: Vec<Row>,
}

fn row(all: &Beside<Form, Measured>, phase: Phase, form: Form) -> Row {
    let spread = |value: fn(&Times) -> f64| all.spread(form, |one| value(one.times(phase)));
    let ratio = |value: fn(&Times) -> f64| all.ratio(form, |one| value(one.times(phase)));
    Row {
        phase,
        form: form.to_string(),
        median_us: spread(|times| times.median / 1e3),
        mean_us: spread(|times| times.mean / 1e3),
        p99_us: spread(|times| times.p99 / 1e3),
        rate: spread(|times| times.rate),
        median_ratio: ratio(|times| times.median),
        mean_ratio: ratio(|times| times.mean),
        rate_ratio: ratio(|times| times.rate),
    }
}

/// Prints what was measured.
pub(super) fn print(args: &FormsArgs, cpu: usize, all: &Beside<Form, Measured>) -> anyhow::Result<()> {
    let FormsArgs { operations, rounds, window, directories, shards, sync, ref forms, .. } = *args;
    let marks = forms.iter().map(|&form| MarksOf {
        form: form.to_string(),
        overflowing: form.overflowing(directories as usize),
        marked: all.spread(form, |one| one.marked),
        full: all.spread(form, |one| one.full),
        overtaken: all.spread(form, |one| one.overtaken),
    });
    let results = Phase::ALL.iter().flat_map(|&phase| forms.iter().map(move |&form| row(all, phase, form)));
    let (marks, results) = (marks.collect(), results.collect());
    let format = FORMAT;
    let summary = Summary { format, operations, rounds, window, directories, shards, sync, cpu, marks, results };
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
            "{} requests each, {} rounds, {} directories, {} shards, all on CPU {}: median (least – greatest)\n\
             ÷: of the first form in the same round\n",
            self.operations, self.rounds, self.directories, self.shards, self.cpu
        );
        text += "\nMarks each create at another shard than the directory's, one under way\n";
        let rows = self.marks.iter();
        let rows = rows
            .map(|one| vec![one.form.clone(), one.overflowing.to_string(), show(&one.marked, 3), show(&one.full, 3)]);
        text += &table(&["form", "directories without room", "taken by the switch", "no room"], rows.collect());
        for phase in Phase::ALL {
            let rows = self.results.iter().filter(|row| row.phase == phase);
            if phase.is_many() {
                text += &format!("\n{}, {} under way\n", phase.title(), self.window);
                let rows = rows.map(|row| {
                    let numbers = [show(&row.rate, 0), show(&row.rate_ratio, 2), show(&row.median_us, 1)];
                    [row.form.clone()].into_iter().chain(numbers).chain([show(&row.p99_us, 1)]).collect()
                });
                text += &table(&["form", "1/s", "÷", "median, µs", "p99, µs"], rows.collect());
            } else {
                text += &format!("\n{}\n", phase.title());
                let rows = rows.map(|row| {
                    let numbers = [
                        show(&row.median_us, 1),
                        show(&row.median_ratio, 2),
                        show(&row.mean_us, 1),
                        show(&row.mean_ratio, 2),
                        show(&row.p99_us, 1),
                    ];
                    [row.form.clone()].into_iter().chain(numbers).collect()
                });
                text += &table(&["form", "median, µs", "÷", "mean, µs", "÷", "p99, µs"], rows.collect());
            }
        }
        text
    }
}
