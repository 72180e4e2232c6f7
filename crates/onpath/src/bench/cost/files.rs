//! `onpath bench model files`: reads and writes of files, under each way of answering writes, beside what is measured in Switch∆ §V and
//! Switch∆ §VI-A.

use super::model::{Setup, us};
use super::sheet::{Cell, Sheet};
use onpath_sim::cost::{Accesses, FilesShape, Kind, Load, Measured, Model, ModelConfig, Table, Tracking, Until};
use onpath_wire::tracking::Writes;

/// Servers with data nodes and with shards, as in the paper.
const SERVERS: (u16, u16) = (5, 5);
/// Sessions at most where each has its own files. Where files are shared, all that is under way is of one session: of several that write a
/// file in turns none gets its part.
const SESSIONS: u32 = 48;
/// Reads and writes under way, from the paper's least to its most.
const UNDER_WAY: [u32; 4] = [6, 48, 384, 768];
const FEW: u32 = 48;
const FULL: u32 = 96;
const USUAL: u32 = 384;
const MANY: u32 = 768;
/// The paper's keys: so many fall on these files that the first ones are used as often as its hottest.
const KEYS: u64 = 250_000_000;
const BLOCKS: u32 = 8;
/// Switch∆ §VI-A: each client has a directory with so many files.
const OWN: FilesShape = FilesShape { shared: false, files: 32, blocks: BLOCKS };
const SKEW: f64 = 0.99;
const SKEWS: [f64; 2] = [0.8, 1.2];
const BLOCK: u32 = 4_096;
const PART: u32 = 1_024;
const HALF: f64 = 0.5;
/// Nodes that have a copy beside the data node's own.
const BACKUPS: u16 = 2;
/// Virtual time before anything is measured, for each that is measured then and at most, and measured at most, ns.
const WARM_EACH_NS: u64 = 10_000;
const WARM_NS: u64 = 30_000_000;
const MEASURED_NS: u64 = 1_000_000_000;

/// How writes are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    TwoPhase,
    Chain,
    Owner,
    Network,
    AtOnce,
    Paper,
}

impl Way {
    /// The first one is what the others are compared with, as in the paper.
    const ALL: [Way; 6] = [Way::TwoPhase, Way::Chain, Way::Owner, Way::Network, Way::AtOnce, Way::Paper];

    fn word(self) -> &'static str {
        match self {
            Way::TwoPhase => "two phases",
            Way::Chain => "chain",
            Way::Owner => "owner",
            Way::Network => "network",
            Way::AtOnce => "network, learned at once",
            Way::Paper => "the paper's table",
        }
    }

    fn config(self, setup: &Setup, lab: &Lab) -> ModelConfig {
        let tracking =
            if matches!(self, Way::Network | Way::AtOnce | Way::Paper) { Tracking::Network } else { Tracking::Owner };
        let (data_servers, servers) = lab.servers;
        let clients = if lab.own { SESSIONS.min(lab.under_way) } else { 1 };
        ModelConfig {
            data_servers,
            writes: match self {
                Way::TwoPhase => Writes::TwoPhase,
                Way::Chain => Writes::Chain,
                _ => Writes::Visible,
            },
            deferred: !matches!(self, Way::AtOnce | Way::Paper),
            table: if self == Way::Paper { Table::FreeOnly } else { Table::NewestWins },
            backups: lab.backups,
            load: Load::Closed { clients, window: lab.under_way / clients },
            ..setup.config(servers, tracking)
        }
    }
}

/// How much of it is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Files, but for those of figure 12.
    pub(super) files: u32,
    /// Reads and writes measured of each run.
    pub(super) operations: u64,
}

/// One experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lab {
    servers: (u16, u16),
    under_way: u32,
    backups: u16,
    /// Each session has its own files; else one has all.
    own: bool,
    bytes: u32,
    reads: f64,
    skew: f64,
}

impl Lab {
    /// As the paper's system has it, unless told otherwise: writes only.
    const USUAL: Lab =
        Lab { servers: SERVERS, under_way: USUAL, backups: 0, own: false, bytes: BLOCK, reads: 0.0, skew: SKEW };

    /// Of Switch∆ §VI-A.
    fn file_system(bytes: u32, under_way: u32) -> Lab {
        Lab { servers: (1, 1), under_way, own: true, bytes, reads: HALF, ..Lab::USUAL }
    }

    fn run(&self, setup: &Setup, size: Size, way: Way) -> Run {
        let mut model = Model::new(way.config(setup, self));
        let shared = FilesShape { shared: true, files: size.files, blocks: BLOCKS };
        let (shape, keys) = if self.own { (OWN, u64::from(OWN.files)) } else { (shared, KEYS) };
        model.make_files(&shape);
        let Lab { bytes, reads, skew, .. } = *self;
        let warm_ns = WARM_NS.min(size.operations * WARM_EACH_NS);
        let until = Until { warm_ns, measured_ns: MEASURED_NS, operations: size.operations };
        Run(model.run_accesses(&Accesses { bytes, reads, skew, keys, seed: setup.seed }, until))
    }
}

/// What was measured of one.
struct Run(Measured);

impl Run {
    fn median_ns(&self, kind: Kind) -> f64 {
        self.0.of(kind).quantile_ns(0.5) as f64
    }

    fn p99_ns(&self, kind: Kind) -> f64 {
        self.0.of(kind).quantile_ns(0.99) as f64
    }

    fn rate(&self) -> f64 {
        self.0.rate(Kind::Read) + self.0.rate(Kind::Write)
    }

    /// Writes that their data nodes did not answer, of all, percent.
    fn by_homes(&self) -> f64 {
        let all = self.0.of(Kind::Write).count().max(1) as f64;
        (1.0 - self.0.written as f64 / all).max(0.0) * 100.0
    }

    /// Reads that have found a write in the table, of all, percent.
    fn pending(&self) -> f64 {
        let pending = self.0.switched.get("look_pending").copied().unwrap_or(0);
        pending as f64 * 100.0 / self.0.of(Kind::Read).count().max(1) as f64
    }
}

/// What a row tells of a run.
type Tells = fn(&Run) -> f64;

/// Of what a row tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Microseconds with two phases, and what the others differ.
    Latency,
    /// A second, and the same.
    Rate,
    /// A share by itself.
    Percent,
}

/// A row: the figure, what it tells, what the paper says.
struct Row {
    figure: &'static str,
    what: String,
    paper: &'static str,
    lab: Lab,
    tells: Tells,
    unit: Unit,
}

fn latency(figure: &'static str, what: impl Into<String>, paper: &'static str, lab: Lab, tells: Tells) -> Row {
    Row { figure, what: what.into(), paper, lab, tells, unit: Unit::Latency }
}

fn rate(figure: &'static str, what: impl Into<String>, paper: &'static str, lab: Lab) -> Row {
    Row { unit: Unit::Rate, ..latency(figure, what, paper, lab, Run::rate) }
}

fn share(figure: &'static str, what: impl Into<String>, paper: &'static str, lab: Lab, tells: Tells) -> Row {
    Row { unit: Unit::Percent, ..latency(figure, what, paper, lab, tells) }
}

const MEDIAN_WRITE: Tells = |run| run.median_ns(Kind::Write);
const MEDIAN_READ: Tells = |run| run.median_ns(Kind::Read);
const P99_WRITE: Tells = |run| run.p99_ns(Kind::Write);

fn rows() -> Vec<Row> {
    let usual = Lab::USUAL;
    let mut rows = vec![];
    for under_way in UNDER_WAY {
        let lab = Lab { under_way, ..usual };
        rows.push(latency(
            "6",
            format!("median of a write, {under_way} under way"),
            "−43.3 … −50.0 %",
            lab,
            MEDIAN_WRITE,
        ));
    }
    rows.push(latency(
        "6",
        "p99 of a write, 6 under way",
        "−39.4 %",
        Lab { under_way: UNDER_WAY[0], ..usual },
        P99_WRITE,
    ));
    rows.push(rate("6", "writes/s, 768 under way", "+8.0 %, learned at once ±0", Lab { under_way: MANY, ..usual }));
    let half = Lab { reads: HALF, ..usual };
    rows.push(latency("7", "median of a read beside as many writes", "±0", half, MEDIAN_READ));
    for servers in [(3, 5), (5, 3), (5, 5)] {
        let what = format!("median of a write, {} data, {} metadata servers", servers.0, servers.1);
        rows.push(latency("8", what, "−41.0 … −49.2 %", Lab { servers, ..usual }, MEDIAN_WRITE));
    }
    for servers in [(6, 3), (7, 3), (8, 3), (8, 8)] {
        let what = format!("writes/s, {} data, {} metadata servers", servers.0, servers.1);
        let paper = if servers == (6, 3) || servers == (7, 3) { "+59.8 … +68.2 %" } else { "" };
        rows.push(rate("8", what, paper, Lab { servers, ..usual }));
    }
    let copied = Lab { backups: BACKUPS, under_way: FEW, ..usual };
    rows.push(latency("9", "median of a write, 3 copies, 48 under way", "−30.0 %", copied, MEDIAN_WRITE));
    for under_way in [UNDER_WAY[0], MANY] {
        let (lab, what) = (Lab { under_way, ..half }, format!("{under_way} under way"));
        let [slow, pending] = if under_way == MANY { ["4.7 %", "5.0 %"] } else { ["0.2 %"; 2] };
        rows.push(share("10a", format!("writes that homes answer, {what}"), slow, lab, Run::by_homes));
        rows.push(share("10a", format!("reads that find a write in the table, {what}"), pending, lab, Run::pending));
    }
    for skew in SKEWS {
        let (lab, what) = (Lab { skew, under_way: MANY, ..half }, format!("exponent {skew}, 768 under way"));
        let [slow, pending] = if skew > 1.0 { ["21.4 %", "28.5 %"] } else { [""; 2] };
        rows.push(share("10c", format!("writes that homes answer, {what}"), slow, lab, Run::by_homes));
        rows.push(share("10c", format!("reads that find a write in the table, {what}"), pending, lab, Run::pending));
    }
    for (figure, bytes, paper) in [("12a", BLOCK, "at most −47.7 %"), ("12b", PART, "at most −28.2 %")] {
        for under_way in [1, 16] {
            let what = format!("median of a write of {bytes} bytes, {under_way} under way");
            rows.push(latency(figure, what, paper, Lab::file_system(bytes, under_way), MEDIAN_WRITE));
        }
        let what = format!("reads and writes of {bytes} bytes a second, {FULL} under way");
        rows.push(rate(figure, what, "±0", Lab::file_system(bytes, FULL)));
    }
    rows
}

/// The table.
pub(super) fn sheets(setup: &Setup, size: Size) -> Vec<Sheet> {
    let title = format!(
        "Writes of files beside Switch∆'s figures: change against two phases, or percent; servers of {} cores {} µs apart",
        setup.cores,
        setup.link_ns as f64 / 1e3
    );
    let mut header = vec!["figure", "what", "paper", "two phases"];
    header.extend(Way::ALL.iter().skip(1).map(|way| way.word()));
    let mut sheet = Sheet::new(title, &header);
    let mut all: Vec<(Lab, Vec<Run>)> = vec![];
    for Row { figure, what, paper, lab, tells, unit } in rows() {
        let known = all.iter().position(|(other, _)| *other == lab);
        let at = known.unwrap_or_else(|| {
            all.push((lab, Way::ALL.into_iter().map(|way| lab.run(setup, size, way)).collect()));
            all.len() - 1
        });
        let told: Vec<f64> = all[at].1.iter().map(tells).collect();
        let base = match unit {
            Unit::Percent => Cell::Number(told[0], 1),
            Unit::Latency => us(told[0]),
            Unit::Rate => Cell::Number(told[0], 0),
        };
        let mut row = vec![figure.into(), what.as_str().into(), paper.into(), base];
        row.extend(told[1..].iter().map(|&one| match unit {
            Unit::Percent => Cell::Number(one, 1),
            Unit::Latency | Unit::Rate => Cell::Text(format!("{:+.1} %", (one / told[0] - 1.0) * 100.0)),
        }));
        sheet.row(row);
    }
    vec![sheet]
}
