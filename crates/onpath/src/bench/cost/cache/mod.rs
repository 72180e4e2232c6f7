//! `onpath bench model cache`: hot metadata answered by a switch, beside what is measured in Fletch §VIII.

mod experiments;
mod lab;
mod workloads;

pub(super) use lab::Size;

use super::model::Setup;
use super::sheet::{Cell, Sheet};
use clap::ValueEnum;
use lab::Run;

/// What of the paper's is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Experiment {
    /// Workloads (Exp#1).
    #[value(name = "1")]
    Workloads,
}

impl Experiment {
    const ALL: [Experiment; 1] = [Experiment::Workloads];
}

/// A row: the experiment, what it is about, what the paper says of it.
struct Row {
    experiment: &'static str,
    what: String,
    paper: String,
}

/// The table.
struct Table(Sheet);

impl Table {
    fn new(setup: &Setup, size: Size) -> Table {
        let title = format!(
            "Hot metadata answered by a switch, beside Fletch's figures; servers of {} cores {} µs apart, {} files in the switch",
            setup.cores,
            setup.link_ns as f64 / 1e3,
            size.hot
        );
        let header = ["experiment", "what", "paper", "ours", "without", "with the switch", "answered by it, %"];
        Table(Sheet::new(title, &header))
    }

    /// How much more is done with the switch.
    fn gain(&mut self, row: Row, without: &Run, with: &Run) {
        let ours = with.rate() / without.rate() - 1.0;
        let rates = [without, with].map(|run| Cell::Number(run.rate(), 0));
        self.add(row, percent(ours), rates, Cell::Number(with.hits(), 1));
    }

    fn add(&mut self, row: Row, ours: Cell, [without, with]: [Cell; 2], hits: Cell) {
        let Row { experiment, what, paper } = row;
        self.0.row(vec![experiment.into(), what.as_str().into(), paper.as_str().into(), ours, without, with, hits]);
    }
}

/// A change, of 1.
fn percent(change: f64) -> Cell {
    Cell::Text(format!("{:+.1} %", change * 100.0))
}

/// The table of these experiments, or of all.
pub(super) fn sheets(setup: &Setup, size: Size, experiments: &[Experiment]) -> Vec<Sheet> {
    let experiments = if experiments.is_empty() { &Experiment::ALL[..] } else { experiments };
    let mut table = Table::new(setup, size);
    for experiment in experiments {
        match experiment {
            Experiment::Workloads => experiments::workloads(setup, size, &mut table),
        }
    }
    vec![table.0]
}
