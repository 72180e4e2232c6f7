//! The paper's experiments, one function each. What the paper says is that of its text.

use super::lab::{DEPTH, Lab, Run, Shape, Way, all};
use super::workloads::{SKEW, Workload, only, with_chmods};
use super::{Row, Table};
use crate::bench::cost::model::{Setup, us};
use crate::bench::cost::sheet::Cell;
use onpath_sim::cost::{Calibration, Kind, Locks, Order, Requests};

/// Numbers of servers of Exp#1, unless others are wanted.
const SERVERS: [u16; 2] = [16, 128];
/// A pass through the switch where that counts, ns: an assumption, not a measurement.
const PASS_NS: u64 = 1_000;
/// The load of Exp#4, beside what is done at most without the switch: there its servers begin to have queues.
const LOADED: f64 = 0.95;

fn row(experiment: &'static str, what: String, paper: impl Into<String>) -> Row {
    Row { experiment, what, paper: paper.into() }
}

fn percent(paper: f64) -> String {
    format!("{paper:+.1} %")
}

/// Two rows: the switch beside servers that follow paths, and beside clients that do.
fn gains(table: &mut Table, experiment: &'static str, what: &str, paper: [String; 2], runs: &[Run; 4]) {
    let [no_cache, ccache, fletch, plus] = runs;
    let [one, other] = paper;
    table.gain(row(experiment, format!("{what}: Fletch over NoCache"), one), no_cache, fletch);
    table.gain(row(experiment, format!("{what}: Fletch+ over CCache"), other), ccache, plus);
}

/// What Exp#1 says for each workload: Fletch over NoCache, Fletch+ over CCache, percent.
fn gains_of(workload: Workload, servers: u16) -> Option<[f64; 2]> {
    Some(match (workload, servers) {
        (Workload::Alibaba, 16) => [22.9, 8.0],
        (Workload::Training, 16) => [51.7, 33.5],
        (Workload::Thumb, 16) => [53.7, 36.3],
        (Workload::LinkedIn, 16) => [47.6, 31.5],
        (Workload::Alibaba, 128) => [11.0, 14.7],
        (Workload::Training, 128) => [134.6, 103.6],
        (Workload::Thumb, 128) => [181.6, 139.6],
        (Workload::LinkedIn, 128) => [71.2, 57.3],
        _ => return None,
    })
}

/// Exp#1, and what opens would be that are more than looks.
pub(super) fn workloads(setup: &Setup, shape: Shape, table: &mut Table) {
    let servers = if setup.servers.is_empty() { &SERVERS[..] } else { &setup.servers };
    for &servers in servers {
        let mut plans: Vec<_> = Workload::ALL.map(|workload| workload.requests(SKEW, setup.seed)).into();
        let opens = Requests { opens: true, ..Workload::Thumb.requests(SKEW, setup.seed) };
        plans.extend((servers == shape.servers).then_some(opens));
        let runs = all(setup, Shape { servers, ..shape }, &plans);
        for (workload, runs) in Workload::ALL.into_iter().zip(&runs) {
            let paper = gains_of(workload, servers).map_or([String::new(), String::new()], |paper| paper.map(percent));
            gains(table, "1", &format!("{}, {servers} servers", workload.name()), paper, runs);
        }
        let [_, ccache, fletch, _] = &runs[Workload::Thumb as usize];
        let paper = if servers == SERVERS[0] { "-38.1 %" } else { "" };
        table.gain(row("1", format!("Thumb, {servers} servers: Fletch over CCache"), paper), ccache, fletch);
        if let Some(runs) = runs.get(Workload::ALL.len()) {
            let what = format!("Thumb, {servers} servers, files opened and closed");
            gains(table, "1", &what, [String::new(), String::new()], runs);
        }
    }
}

/// What Exp#2 says of each operation, percent, in an order in which what is removed has been made.
const SINGLE: [(Kind, [f64; 2]); 8] = [
    (Kind::Open, [80.1, 74.9]),
    (Kind::Stat, [80.5, 77.5]),
    (Kind::Create, [-2.7, -4.9]),
    (Kind::Rename, [-13.2, -7.2]),
    (Kind::Unlink, [-12.7, -8.1]),
    (Kind::Mkdir, [-0.2, -3.5]),
    (Kind::Rmdir, [-14.6, -6.4]),
    (Kind::Chmod, [-36.5, -12.3]),
];

/// Exp#2.
pub(super) fn single(setup: &Setup, shape: Shape, table: &mut Table) {
    let plans = SINGLE.map(|(kind, _)| only(kind, setup.seed));
    let runs = all(setup, shape, &plans);
    for ((kind, paper), runs) in SINGLE.into_iter().zip(&runs) {
        gains(table, "2", kind.name(), paper.map(percent), runs);
    }
}

/// Shares of chmods of Exp#3, and its recirculations a request (table II): with single-level locks, with multi-level locks.
const CHMODS: [(f64, f64, f64); 5] =
    [(0.0, 7.63, 7.63), (0.25, 442.06, 37.21), (0.5, 436.29, 39.42), (0.75, 369.43, 25.67), (1.0, 1.0, 1.0)];

/// Exp#3.
pub(super) fn chmods(setup: &Setup, shape: Shape, table: &mut Table) {
    let plans = CHMODS.map(|(share, ..)| with_chmods(share, setup.seed));
    for ((share, ..), runs) in CHMODS.into_iter().zip(&all(setup, shape, &plans)) {
        let paper = match share {
            0.0 => ["above 0", "above 0"].map(str::to_owned),
            1.0 => [-36.5, -12.3].map(percent),
            _ if share > 0.5 => ["falls", "falls"].map(str::to_owned),
            _ => [String::new(), String::new()],
        };
        gains(table, "3", &format!("{} % chmods", share * 100.0), paper, runs);
    }
    for (locks, name) in
        [(Locks::Single, "single-level locks"), (Locks::Multi, "multi-level locks"), (Locks::Off, "no locks")]
    {
        let mut lab = Lab::new(setup, shape, Way::Fletch);
        lab.set_passes(locks, PASS_NS);
        for ((share, single, multi), plan) in CHMODS.into_iter().zip(&plans) {
            let run = lab.run_some(plan);
            let paper = match locks {
                Locks::Single => format!("{single}"),
                Locks::Multi => format!("{multi}"),
                Locks::Off => String::new(),
            };
            let what = format!("{} % chmods, {name}: recirculations a request", share * 100.0);
            let rates = [Cell::Text(String::new()), Cell::Number(run.rate(), 0)];
            let hits = Cell::Number(run.hits(), 1);
            table.add(row("3", what, paper), Cell::Number(run.recirculations(), 2), rates, hits);
        }
    }
}

/// Average, p95 and p99 of Exp#4, percent, with its loads: Fletch beside NoCache, Fletch+ beside CCache.
const LATENCIES: [(&str, [[f64; 3]; 2]); 2] = [
    ("opens", [[-64.6, -89.8, -87.7], [-26.9, -14.7, -77.0]]),
    ("Alibaba", [[-66.1, -65.4, -37.2], [-25.5, -63.7, -15.5]]),
];

/// Exp#4.
pub(super) fn latencies(setup: &Setup, shape: Shape, table: &mut Table) {
    let plans = [only(Kind::Open, setup.seed), Workload::Alibaba.requests(SKEW, setup.seed)];
    let pairs = [(Way::NoCache, Way::Fletch, "NoCache"), (Way::CCache, Way::FletchPlus, "CCache")];
    for (at, (without, with, without_name)) in pairs.into_iter().enumerate() {
        let mut labs = [without, with].map(|way| Lab::new(setup, shape, way));
        labs.iter_mut().for_each(|lab| lab.set_passes(Locks::Off, PASS_NS));
        for ((name, paper), plan) in LATENCIES.into_iter().zip(&plans) {
            let [most, _] = labs.each_mut().map(|lab| lab.run(plan).rate());
            let rate = LOADED * most;
            let [before, after] = labs.each_mut().map(|lab| lab.at_rate(plan, rate));
            let all = [&before, &after].map(|run| {
                let all = run.latencies();
                [all.mean_ns(), all.quantile_ns(0.95) as f64, all.quantile_ns(0.99) as f64]
            });
            for (of, figure) in ["average", "p95", "p99"].into_iter().enumerate() {
                let what = format!("{name} at {:.2} M/s: {figure}, µs, beside {without_name}", rate / 1e6);
                let [one, other] = all.map(|figures| figures[of]);
                let ours = super::percent(other / one - 1.0);
                let hits = Cell::Number(after.hits(), 1);
                table.add(row("4", what, percent(paper[at][of])), ours, [us(one), us(other)], hits);
            }
        }
    }
}

/// Exp#5.
pub(super) fn orders(setup: &Setup, shape: Shape, table: &mut Table) {
    for (order, name) in [
        (Order::Random, "any files the hottest"),
        (Order::HighFirst, "those near the root the hottest"),
        (Order::LowFirst, "those far from the root the hottest"),
    ] {
        let runs = all(setup, Shape { order, ..shape }, &[Workload::Thumb.requests(SKEW, setup.seed)]);
        let paper = ["+53.7 … +69.0 %", "+30.2 … +44.7 %"].map(str::to_owned);
        gains(table, "5", &format!("Thumb, {name}"), paper, &runs[0]);
    }
}

/// What Exp#6 says of an exponent.
fn of_skew(workload: Workload, skew: f64) -> [&'static str; 2] {
    match (workload, skew) {
        (_, 0.0) => ["at least -5.0 %"; 2],
        (Workload::Thumb, 1.0) => ["2.43×", "1.90×"],
        (Workload::LinkedIn, 1.0) => ["+84.3 %", "+45.1 %"],
        _ => [""; 2],
    }
}

/// Exp#6.
pub(super) fn skews(setup: &Setup, shape: Shape, table: &mut Table) {
    let each = || [0.0, 0.8, 1.0].into_iter().flat_map(|skew| Workload::ALL.map(|workload| (workload, skew)));
    let plans: Vec<_> = each().map(|(workload, skew)| workload.requests(skew, setup.seed)).collect();
    let runs = all(setup, shape, &plans);
    for ((workload, skew), runs) in each().zip(&runs) {
        let paper = of_skew(workload, skew).map(str::to_owned);
        gains(table, "6", &format!("{}, exponent {skew}", workload.name()), paper, runs);
    }
}

/// Exp#7.
pub(super) fn depths(setup: &Setup, shape: Shape, table: &mut Table) {
    for depth in [3, 5, 7, DEPTH] {
        let runs = all(setup, Shape { depth, ..shape }, &[Workload::Thumb.requests(SKEW, setup.seed)]);
        let paper = ["+53.7 … +77.9 %", "+34.1 … +36.3 %"].map(str::to_owned);
        gains(table, "7", &format!("Thumb, at most {depth} names"), paper, &runs[0]);
    }
}

/// The paper's servers of Exp#8.
const TWO: u16 = 2;
/// Servers so many times slower: fewer requests pass in a second, as in the paper.
const SLOWER: f64 = 5.0;
/// Seconds that are looked at after a change.
const SECONDS: usize = 8;
/// By then as much as before is done.
const AGAIN: f64 = 0.95;

/// Exp#8: what a change of the hottest files does to the rate. The paper's changes come every 20 s; the switch has then all that it will have.
pub(super) fn changes(setup: &Setup, shape: Shape, table: &mut Table) {
    let costs = slower(&setup.costs);
    let setup = Setup { costs, servers: vec![], ..*setup };
    for (way, name) in [(Way::Fletch, "Fletch"), (Way::FletchPlus, "Fletch+")] {
        let mut lab = Lab::changing(&setup, Shape { servers: TWO, ..shape }, way);
        for (hot_in, workload) in (0..).zip([Workload::Alibaba, Workload::Thumb]) {
            let plan = |hot_in| Requests { hot_in, ..workload.requests(SKEW, setup.seed) };
            lab.second(&plan(hot_in)); // until everybody knows what the switch has
            let before = lab.second(&plan(hot_in));
            let after: Vec<Run> = (0..SECONDS).map(|_| lab.second(&plan(hot_in + 1))).collect();
            let what = format!("{}, {name}, 2 servers", workload.name());
            let dip = row("8", format!("{what}: the second after a change"), "dips");
            table.gain(dip, &before, &after[0]);
            let again = after.iter().position(|run| run.rate() >= AGAIN * before.rate());
            let again = again.map_or("none".into(), |second| Cell::Number(second as f64, 0));
            let last = &after[SECONDS - 1];
            let rates = [&before, last].map(|run| Cell::Number(run.rate(), 0));
            let what = format!("{what}: whole seconds before {} % of it again", AGAIN * 100.0);
            table.add(row("8", what, "quickly"), again, rates, Cell::Number(last.hits(), 1));
        }
    }
}

fn slower(costs: &Calibration) -> Calibration {
    let mut costs = costs.clone();
    for line in costs.inputs.values_mut() {
        for ns in [&mut line.base_ns, &mut line.entry_ns, &mut line.record_ns, &mut line.reply_ns] {
            *ns *= SLOWER;
        }
    }
    for ns in [&mut costs.dispatch_ns, &mut costs.journal_ns, &mut costs.send_ns, &mut costs.receive_ns] {
        *ns *= SLOWER;
    }
    costs
}
