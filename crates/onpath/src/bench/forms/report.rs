//! Medians over rounds, and ratios to the first form within them.

use super::FormsArgs;
use super::form::Form;
use super::work::{Phase, Times};
use crate::bench::net::report::{show, table};
use crate::bench::posix::Spread;
use crate::cli::say;
use serde::Serialize;

/// Version of the JSON form.
const FORMAT: u32 = 1;

/// A form in one round.
pub(super) struct Measured {
    pub(super) form: Form,
    pub(super) round: usize,
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

/// What was measured up to now.
pub(super) struct Report<'a> {
    args: &'a FormsArgs,
    cpu: usize,
    all: Vec<Measured>,
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

impl<'a> Report<'a> {
    pub(super) fn new(args: &'a FormsArgs, cpu: usize) -> Report<'a> {
        Report { args, cpu, all: vec![] }
    }

    pub(super) fn add(&mut self, measured: Measured) {
        self.all.push(measured);
    }

    /// All rounds of a form.
    fn of(&self, form: Form) -> impl Iterator<Item = &Measured> {
        self.all.iter().filter(move |one| one.form == form)
    }

    /// The first form of the same round.
    fn base(&self, one: &Measured) -> &Measured {
        self.of(self.args.forms[0]).find(|base| base.round == one.round).expect("a round has every form")
    }

    fn row(&self, phase: Phase, form: Form) -> Row {
        let spread = |value: &dyn Fn(&Times) -> f64| Spread::of(self.of(form).map(|one| value(one.times(phase))));
        let ratio = |value: &dyn Fn(&Times) -> f64| {
            Spread::of(self.of(form).map(|one| value(one.times(phase)) / value(self.base(one).times(phase))))
        };
        Row {
            phase,
            form: form.to_string(),
            median_us: spread(&|times| times.median / 1e3),
            mean_us: spread(&|times| times.mean / 1e3),
            p99_us: spread(&|times| times.p99 / 1e3),
            rate: spread(&|times| times.rate),
            median_ratio: ratio(&|times| times.median),
            mean_ratio: ratio(&|times| times.mean),
            rate_ratio: ratio(&|times| times.rate),
        }
    }

    fn summary(&self) -> Summary {
        let FormsArgs { operations, rounds, window, directories, shards, sync, ref forms, .. } = *self.args;
        let marks = forms.iter().map(|&form| MarksOf {
            form: form.to_string(),
            overflowing: form.overflowing(directories as usize),
            marked: Spread::of(self.of(form).map(|one| one.marked)),
            full: Spread::of(self.of(form).map(|one| one.full)),
            overtaken: Spread::of(self.of(form).map(|one| one.overtaken)),
        });
        let results = Phase::ALL.iter().flat_map(|&phase| forms.iter().map(move |&form| self.row(phase, form)));
        let (marks, results) = (marks.collect(), results.collect());
        let (format, cpu) = (FORMAT, self.cpu);
        Summary { format, operations, rounds, window, directories, shards, sync, cpu, marks, results }
    }

    pub(super) fn print(&self, json: bool) -> anyhow::Result<()> {
        let summary = self.summary();
        if json {
            say(&serde_json::to_string_pretty(&summary)?);
        } else {
            say(&summary.text());
        }
        Ok(())
    }
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
