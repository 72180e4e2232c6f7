//! `onpath bench model`: the tables of the cost model, one a case.

use super::files::{self, Size};
use super::sheet::{Cell, Sheet};
use super::{cache, constants, paths, switchfs};
use crate::cli::say;
use clap::{Args, ValueEnum};
use onpath_sim::cost::{
    Calibration, Creates, Kind, Load, MakeDirs, Measured, Model, ModelConfig, Place, Tracking, Until,
};
use onpath_wire::ids::InodeId;
use serde_json::json;
use std::path::PathBuf;

/// Numbers of servers, unless others are wanted.
const SERVERS: [u16; 5] = [1, 2, 4, 8, 16];
/// Directories where there are many.
const MANY: u32 = 256;
/// Virtual time before anything is measured: change-logs are pushed when they are 50 ms old, all at once for the first time, ns.
const WARM_NS: u64 = 100_000_000;
/// Virtual time measured: what happens every 50 ms happens once in it, ns.
const MEASURED_NS: u64 = 50_000_000;
/// Clients for each core of the servers, and requests of each: enough to keep the cores busy.
const CLIENTS_PER_CORE: u32 = 4;
const WINDOW: u32 = 8;

/// What is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Case {
    /// Creates in one directory.
    CreateOne,
    /// Creates in 256 directories.
    CreateMany,
    /// Statdir after some creates in the directory.
    Statdir,
    /// Sticky marks and a mark for every update.
    Sticky,
    /// What SwitchFS §7.3.3 measured.
    Switchfs,
    /// Looks at paths, beside what SPMeta's figures 7, 9, 10 and 11 show.
    Paths,
    /// Reads and writes of files, beside what Switch∆'s figures 6 to 12 show.
    Files,
    /// Hot metadata answered by a switch, beside what Fletch §VIII shows.
    Cache,
}

/// Arguments of `onpath bench model`.
#[derive(Args, Debug)]
pub(crate) struct ModelArgs {
    /// What is modelled.
    #[arg(value_enum, required = true, value_name = "CASE")]
    cases: Vec<Case>,
    /// Constants from `onpath bench calibrate --out`; otherwise those that docs/internals/cost-model.md lists.
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Numbers of metadata servers; 1,2,4,8,16 unless told otherwise, 4,8,16 for paths; files and cache have the paper's.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=128))]
    servers: Vec<u16>,
    /// Cores and shards of each.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4))]
    cores: u16,
    /// From any server or client to any other, microseconds.
    #[arg(long, default_value_t = 5.0, value_parser = microseconds)]
    link_us: f64,
    /// CPU of sending or receiving one message, nanoseconds, instead of the calibrated.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    message_ns: Option<u32>,
    /// A flush of the journal, microseconds, instead of the calibrated.
    #[arg(long, value_parser = microseconds)]
    flush_us: Option<f64>,
    /// Directories of a level of the tree in which paths are.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    directories: u32,
    /// Files that are read and written.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    files: u32,
    /// Reads and writes of files that are measured of each run.
    #[arg(long, default_value_t = 12_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    operations: u64,
    /// Experiments of the case cache; all unless told otherwise.
    #[arg(long, value_enum, value_delimiter = ',')]
    experiments: Vec<cache::Experiment>,
    /// Files that the switch with a cache is given.
    #[arg(long, default_value_t = 2_500, value_parser = clap::value_parser!(u32).range(10..=50_000))]
    hot: u32,
    /// Where the work is drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn microseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(us) if (0.0..=1e6).contains(&us) => Ok(us),
        _ => Err("a number from 0 to 1000000".to_owned()),
    }
}

/// What all cases share.
pub(super) struct Setup {
    pub(super) costs: Calibration,
    /// Numbers of servers; none: those that are usual for the case.
    pub(super) servers: Vec<u16>,
    pub(super) cores: u16,
    pub(super) link_ns: u64,
    pub(super) seed: u64,
}

pub(crate) fn run(args: ModelArgs) -> anyhow::Result<()> {
    let mut costs = constants(args.calibration.as_deref())?;
    if let Some(ns) = args.message_ns {
        (costs.send_ns, costs.receive_ns) = (f64::from(ns), f64::from(ns));
    }
    if let Some(us) = args.flush_us {
        costs.flush_ns = us * 1e3;
    }
    let link_ns = (args.link_us * 1e3) as u64;
    let setup = Setup { costs, servers: args.servers, cores: args.cores, link_ns, seed: args.seed };
    let mut all = vec![];
    for case in args.cases {
        let sheets = match case {
            Case::CreateOne => vec![creates(&setup, 1)],
            Case::CreateMany => vec![creates(&setup, MANY)],
            Case::Statdir => vec![statdirs(&setup)],
            Case::Sticky => vec![sticky(&setup)],
            Case::Switchfs => switchfs::sheets(&setup),
            Case::Paths => paths::sheets(&setup, args.directories)?,
            Case::Cache => cache::sheets(&setup, args.hot, &args.experiments),
            Case::Files => files::sheets(&setup, Size { files: args.files, operations: args.operations }),
        };
        for sheet in sheets {
            if args.json { all.push(sheet.json()) } else { say(&sheet.text()) }
        }
    }
    if args.json {
        say(&serde_json::to_string_pretty(&json!({ "tables": all }))?);
    }
    Ok(())
}

impl Setup {
    /// Numbers of servers.
    pub(super) fn servers(&self) -> &[u16] {
        if self.servers.is_empty() { &SERVERS } else { &self.servers }
    }

    /// So many servers under a load that keeps them busy.
    pub(super) fn config(&self, servers: u16, tracking: Tracking) -> ModelConfig {
        let clients = CLIENTS_PER_CORE * u32::from(servers) * u32::from(self.cores);
        ModelConfig {
            seed: self.seed,
            servers,
            cores: self.cores,
            tracking,
            link_ns: self.link_ns,
            load: Load::Closed { clients, window: WINDOW },
            ..ModelConfig::new(self.costs.clone())
        }
    }
}

/// A system with directories.
pub(super) fn with_dirs(config: ModelConfig, count: u32) -> (Model, Vec<InodeId>) {
    let load = Load::Closed { clients: config.load.clients(), window: 1 };
    let mut model = Model::new(config);
    let mut making = MakeDirs::new(count);
    model.run_under(load, &mut making, Until::DONE);
    (model, making.made)
}

pub(super) const UNTIL: Until = Until { warm_ns: WARM_NS, measured_ns: MEASURED_NS, operations: u64::MAX };

pub(super) fn us(ns: f64) -> Cell {
    Cell::Number(ns / 1e3, 1)
}

/// Median, p90 and p99.
pub(super) fn quantiles(measured: &Measured, kind: Kind) -> [Cell; 3] {
    let all = measured.of(kind);
    [0.5, 0.9, 0.99].map(|share| us(all.quantile_ns(share) as f64))
}

/// The mean of the metadata servers, and the busiest.
fn busy(measured: &Measured, servers: u16) -> [Cell; 2] {
    let servers = &measured.utilisation[..usize::from(servers)];
    let mean = servers.iter().sum::<f64>() / servers.len() as f64;
    [mean, servers.iter().copied().fold(0.0, f64::max)].map(|share| Cell::Number(share * 100.0, 0))
}

const FORMS: [Tracking; 3] = [Tracking::Owner, Tracking::Network, Tracking::Sync];

fn creates(setup: &Setup, dirs: u32) -> Sheet {
    let title = format!(
        "Creates in {}; servers of {} cores {} µs apart, {} requests under way a core",
        if dirs == 1 { "one directory".to_owned() } else { format!("{dirs} directories") },
        setup.cores,
        setup.link_ns as f64 / 1e3,
        CLIENTS_PER_CORE * WINDOW,
    );
    let header = [
        "servers",
        "form",
        "creates/s",
        "a core",
        "median, µs",
        "p90, µs",
        "p99, µs",
        "cores busy, %",
        "busiest server, %",
    ];
    let mut sheet = Sheet::new(title, &header);
    for &servers in setup.servers() {
        for tracking in FORMS {
            let config = setup.config(servers, tracking);
            let clients = config.load.clients();
            let (mut model, made) = with_dirs(config, dirs);
            let measured = model.run(&mut Creates::new(made, Place::Anywhere, clients, setup.seed), UNTIL);
            let rate = measured.rate(Kind::Create);
            let mut row = vec![u64::from(servers).into(), tracking.name().into(), Cell::Number(rate, 0)];
            row.push(Cell::Number(rate / f64::from(servers * setup.cores), 0));
            row.extend(quantiles(&measured, Kind::Create));
            row.extend(busy(&measured, servers));
            sheet.row(row);
        }
    }
    sheet
}

/// Creates before a statdir.
const UPDATES: [u32; 4] = [1, 10, 100, 1_000];
/// Statdirs of each.
const STATDIRS: u32 = 30;

fn statdirs(setup: &Setup) -> Sheet {
    let title = format!(
        "Statdir after k creates of one client, {WINDOW} under way, in the directory, and these creates: mean µs; servers {} µs apart",
        setup.link_ns as f64 / 1e3
    );
    let mut sheet = Sheet::new(title, &["servers", "form", "operation", "k = 1", "k = 10", "k = 100", "k = 1000"]);
    for &servers in setup.servers() {
        for tracking in FORMS {
            let load = Load::Closed { clients: 1, window: WINDOW };
            let (mut model, made) = with_dirs(ModelConfig { load, ..setup.config(servers, tracking) }, 1);
            let measured = UPDATES.map(|updates| {
                let mut work = Creates::new(made.clone(), Place::Own, 1, u64::from(updates)).with_statdirs(updates);
                let turns = Until { operations: u64::from((updates + 1) * STATDIRS), ..Until::DONE };
                model.run(&mut work, turns)
            });
            for kind in [Kind::Statdir, Kind::Create] {
                let means = measured.iter().map(|measured| us(measured.of(kind).mean_ns()));
                let row = [u64::from(servers).into(), tracking.name().into(), kind.name().into()];
                sheet.row(row.into_iter().chain(means).collect());
            }
        }
    }
    sheet
}

fn sticky(setup: &Setup) -> Sheet {
    let title = format!(
        "Creates in the network form, servers of {} cores: sticky marks, and a mark for every update",
        setup.cores
    );
    let header = ["servers", "directories", "marks", "creates/s", "median, µs", "p99, µs", "messages a create"];
    let mut sheet = Sheet::new(title, &header);
    for &servers in setup.servers() {
        for (dirs, sticky_marks) in [(1, true), (1, false), (MANY, true), (MANY, false)] {
            let config = ModelConfig { sticky_marks, ..setup.config(servers, Tracking::Network) };
            let clients = config.load.clients();
            let (mut model, made) = with_dirs(config, dirs);
            let measured = model.run(&mut Creates::new(made, Place::Anywhere, clients, setup.seed), UNTIL);
            let [median, _, p99] = quantiles(&measured, Kind::Create);
            let messages = measured.messages as f64 / measured.of(Kind::Create).count().max(1) as f64;
            let marks = if sticky_marks { "sticky" } else { "every update" };
            let rate = Cell::Number(measured.rate(Kind::Create), 0);
            let row = vec![u64::from(servers).into(), u64::from(dirs).into(), marks.into(), rate, median, p99];
            sheet.row(row.into_iter().chain([Cell::Number(messages, 2)]).collect());
        }
    }
    sheet
}
