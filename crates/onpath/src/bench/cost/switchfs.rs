//! SwitchFS §7.3.3: what the switch contributes, beside the ratios that the paper gives.

use super::model::{Setup, UNTIL, quantiles, us, with_dirs};
use super::sheet::{Cell, Sheet};
use onpath_sim::cost::{Kind, Latencies, Load, Measured, Mix, ModelConfig, Tracking, Until};

/// Metadata servers, as in the paper.
const SERVERS: u16 = 8;
/// Directories.
const DIRECTORIES: u32 = 256;
/// Cores of the tracking server, as in the paper.
const TRACKING: Tracking = Tracking::Server { cores: 12 };
/// Cores of each metadata server where the tracking server is to be filled.
const CEILING_CORES: u16 = 4;
/// Of each hundred requests of the mix, statdirs.
const STATDIR_PERCENT: u32 = 50;
/// Loads as shares of what the network form can do: the paper has 50 and 120 thousand a second.
const LOADS: [(&str, f64); 2] = [("medium load (40 % of the network form's peak)", 0.4), ("heavy load (90 %)", 0.9)];
/// Operations of one client alone.
const ALONE: u64 = 4_000;

pub(super) fn sheets(setup: &Setup) -> Vec<Sheet> {
    vec![dedicated(setup), ceiling(setup), owners(setup)]
}

/// As SwitchFS marks: every update.
fn marked(setup: &Setup, servers: u16, tracking: Tracking) -> ModelConfig {
    ModelConfig { sticky_marks: false, ..setup.config(servers, tracking) }
}

fn percent(ours: f64, base: f64) -> f64 {
    (ours / base - 1.0) * 100.0
}

fn difference(ours: f64, base: f64) -> Cell {
    Cell::Text(format!("{:+.1} %", percent(ours, base)))
}

/// Mean latency of one client that waits for every answer.
fn alone(setup: &Setup, tracking: Tracking, kind: Kind) -> Latencies {
    let config = ModelConfig { load: Load::Closed { clients: 1, window: 1 }, ..marked(setup, SERVERS, tracking) };
    let (mut model, made) = with_dirs(config, DIRECTORIES);
    let percent = if kind == Kind::Statdir { 100 } else { 0 };
    // Everybody has asked for its parts before.
    let warm = Until { operations: u64::from(DIRECTORIES) * 64, ..Until::DONE };
    model.run(&mut Mix::new(made.clone(), 0, 1), warm);
    if kind == Kind::Statdir {
        model.rest(200_000_000); // all is applied
        model.run(&mut Mix::new(made.clone(), 100, 2), warm); // and nothing is marked
    }
    model.run(&mut Mix::new(made, percent, 3), Until { operations: ALONE, ..Until::DONE }).of(kind)
}

fn dedicated(setup: &Setup) -> Sheet {
    let title = format!(
        "A tracking server instead of the switch: mean latency of one client, {SERVERS} servers {} µs apart, every update marked",
        setup.link_ns as f64 / 1e3
    );
    let mut sheet = Sheet::new(title, &["operation", "network, µs", "server, µs", "ours", "the paper"]);
    for (kind, paper) in [(Kind::Create, "+24.1 %"), (Kind::Statdir, "+13.1 %")] {
        let [network, server] = [Tracking::Network, TRACKING].map(|tracking| alone(setup, tracking, kind).mean_ns());
        sheet.row(vec![kind.name().into(), us(network), us(server), difference(server, network), paper.into()]);
    }
    sheet
}

/// Statdirs of directories that nobody changes: each asks the tracker.
fn ceiling(setup: &Setup) -> Sheet {
    let title = format!(
        "Statdirs of unchanged directories, servers of {CEILING_CORES} cores, tracking server of 12 (the paper: at most 11 million/s)"
    );
    let mut sheet = Sheet::new(
        title,
        &["servers", "network, statdirs/s", "server, statdirs/s", "tracking server busy, %", "median, µs"],
    );
    for &servers in setup.servers() {
        let run = |tracking| -> Measured {
            let few = setup.config(servers, tracking);
            let load = Load::Closed { clients: few.load.clients() * 4, window: 8 };
            let (mut model, made) = with_dirs(ModelConfig { cores: CEILING_CORES, load, ..few }, DIRECTORIES);
            let until = Until { warm_ns: 1_000_000, measured_ns: 5_000_000, ..UNTIL };
            model.run(&mut Mix::new(made, 100, setup.seed), until)
        };
        let (network, server) = (run(Tracking::Network), run(TRACKING));
        let busy = server.utilisation.last().copied().unwrap_or_default() * 100.0;
        let rates = [&network, &server].map(|measured| Cell::Number(measured.rate(Kind::Statdir), 0));
        let [median, ..] = quantiles(&server, Kind::Statdir);
        sheet
            .row([u64::from(servers).into()].into_iter().chain(rates).chain([Cell::Number(busy, 0), median]).collect());
    }
    sheet
}

/// How an owner is compared with the switch.
struct Comparison {
    name: &'static str,
    /// Statdirs between the creates, percent.
    statdirs: u32,
    sticky_marks: bool,
}

const COMPARISONS: [Comparison; 2] = [
    Comparison {
        name: "creates alone; SwitchFS marks every one, owners have given append parts",
        statdirs: 0,
        sticky_marks: false,
    },
    Comparison {
        name: "as many statdirs as creates: nearly every create asks its owner",
        statdirs: STATDIR_PERCENT,
        sticky_marks: true,
    },
];

fn owners(setup: &Setup) -> Sheet {
    let title = format!(
        "Owners instead of the switch: creates, {SERVERS} servers, {DIRECTORIES} directories; owner against network"
    );
    let mut sheet = Sheet::new(title, &["work", "load", "what", "network", "owner", "ours", "the paper"]);
    for comparison in &COMPARISONS {
        let config =
            |tracking| ModelConfig { sticky_marks: comparison.sticky_marks, ..setup.config(SERVERS, tracking) };
        let work = |dirs| Mix::new(dirs, comparison.statdirs, setup.seed);
        let [network, owner] = [Tracking::Network, Tracking::Owner].map(|tracking| {
            let (mut model, made) = with_dirs(config(tracking), DIRECTORIES);
            model.run(&mut work(made), UNTIL).rate(Kind::Create)
        });
        let million = |rate: f64| Cell::Number(rate / 1e6, 2);
        let row: [Cell; 4] = [comparison.name.into(), "peak".into(), "creates/s, millions".into(), million(network)];
        sheet.row(row.into_iter().chain([million(owner), difference(owner, network), "-10 %".into()]).collect());
        let all = network * 100.0 / f64::from(100 - comparison.statdirs);
        for ((load, share), paper) in
            LOADS.into_iter().zip([["+23.2 %", "+24.9 %", "+107.4 %"], ["+36.9 %", "+80.8 %", "+36.4 %"]])
        {
            let [network, owner] = [Tracking::Network, Tracking::Owner].map(|tracking| {
                let base = config(tracking);
                let open = Load::Open { clients: base.load.clients(), rate: all * share };
                let (mut model, made) = with_dirs(ModelConfig { load: open, ..base }, DIRECTORIES);
                model.run(&mut work(made), UNTIL).of(Kind::Create)
            });
            for ((what, share), paper) in
                [("median, µs", 0.5), ("p90, µs", 0.9), ("p99, µs", 0.99)].into_iter().zip(paper)
            {
                let [network, owner] = [&network, &owner].map(|all| all.quantile_ns(share) as f64);
                let row: [Cell; 5] = [comparison.name.into(), load.into(), what.into(), us(network), us(owner)];
                sheet.row(row.into_iter().chain([difference(owner, network), paper.into()]).collect());
            }
        }
    }
    sheet
}
