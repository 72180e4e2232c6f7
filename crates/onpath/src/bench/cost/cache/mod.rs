//! `onpath bench model cache`: hot metadata answered by a switch, beside what is measured in Fletch §VIII.

mod experiments;
mod lab;
mod workloads;

use super::model::Setup;
use super::sheet::{Cell, Sheet};
use clap::ValueEnum;
use lab::{DEPTH, Run, Shape};
use onpath_sim::cost::Order;

/// Servers of all experiments but the first and the last, as in the paper.
const USUAL: u16 = 16;
/// Files that stand for all others, for each that the switch is given.
const COLD: u32 = 8;

/// What of the paper's is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Experiment {
    /// Workloads, with 16 and 128 servers.
    #[value(name = "1")]
    Workloads,
    /// Single operations.
    #[value(name = "2")]
    Single,
    /// Shares of chmods, and recirculations with lock counters and without.
    #[value(name = "3")]
    Chmods,
    /// Latencies at a given load.
    #[value(name = "4")]
    Latencies,
    /// Which files are the hottest.
    #[value(name = "5")]
    Orders,
    /// Exponents of the power law.
    #[value(name = "6")]
    Skews,
    /// Depths of paths.
    #[value(name = "7")]
    Depths,
    /// Files that become the hottest.
    #[value(name = "8")]
    Changes,
}

impl Experiment {
    const ALL: [Experiment; 8] = [
        Experiment::Workloads,
        Experiment::Single,
        Experiment::Chmods,
        Experiment::Latencies,
        Experiment::Orders,
        Experiment::Skews,
        Experiment::Depths,
        Experiment::Changes,
    ];
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
    fn new(setup: &Setup, hot: u32) -> Table {
        let title = format!(
            "Hot metadata answered by a switch, beside Fletch's figures; servers of {} cores {} µs apart, {} files in the switch",
            setup.cores,
            setup.link_ns as f64 / 1e3,
            hot
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
pub(super) fn sheets(setup: &Setup, hot: u32, experiments: &[Experiment]) -> Vec<Sheet> {
    let experiments = if experiments.is_empty() { &Experiment::ALL[..] } else { experiments };
    let mut table = Table::new(setup, hot);
    let servers = setup.servers.first().copied().unwrap_or(USUAL);
    let shape = Shape { servers, hot, cold: COLD * hot, depth: DEPTH, order: Order::Random };
    for experiment in experiments {
        match experiment {
            Experiment::Workloads => experiments::workloads(setup, shape, &mut table),
            Experiment::Single => experiments::single(setup, shape, &mut table),
            Experiment::Chmods => experiments::chmods(setup, shape, &mut table),
            Experiment::Latencies => experiments::latencies(setup, shape, &mut table),
            Experiment::Orders => experiments::orders(setup, shape, &mut table),
            Experiment::Skews => experiments::skews(setup, shape, &mut table),
            Experiment::Depths => experiments::depths(setup, shape, &mut table),
            Experiment::Changes => experiments::changes(setup, shape, &mut table),
        }
    }
    vec![table.0]
}
