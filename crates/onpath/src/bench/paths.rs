//! `onpath bench paths`: what it takes to look at a path without a mount, by its depth.
//!
//! A round starts the servers anew, on directories that are empty, and looks at the same files in each way: name by name; by a path node that knows nothing of
//! the way; by the same once more, when it knows it; by what the client keeps of its answers; and by a file that is open, for its exact attributes alone, for which who goes name by name asks once more at the end.

use super::net::place::{Child, cpus, own_cpus};
use super::net::servers::{Servers, Shape};
use super::posix::{Spread, Usage};
use crate::cli::{WaitMode, absolute, say};
use anyhow::{Context, ensure};
use clap::{Args, ValueEnum, value_parser};
use comfy_table::{CellAlignment, Table, presets};
use onpath_client::blocking::Client;
use onpath_client::{Caller, Metadata, OpenOptions, Options, Source};
use serde_json::json;
use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Most names of a path.
const DEPTH_MAX: u32 = 200;
/// Files of each depth, each at the end of a way of its own.
const WAYS: u32 = 50;

/// Arguments of `onpath bench paths`.
#[derive(Args, Debug)]
pub(crate) struct PathsArgs {
    /// Names of the paths.
    #[arg(long, value_delimiter = ',', default_value = "4,8,12")]
    #[arg(value_parser = value_parser!(u32).range(2..=i64::from(DEPTH_MAX)))]
    depths: Vec<u32>,
    /// Looks at each depth in each way that can be repeated, in each round.
    #[arg(long, default_value_t = 2_000, value_parser = value_parser!(u32).range(50..=1_000_000))]
    operations: u32,
    /// How often everything is repeated.
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// How the client speaks with the servers.
    #[arg(long, value_enum, default_value = "socket")]
    over: Over,
    /// Metadata shards.
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u16).range(1..=64))]
    shards: u16,
    /// Where the servers keep their state; the directory for temporary files otherwise.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Give results as JSON.
    #[arg(long)]
    json: bool,
}

/// How the client speaks with the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Over {
    /// The socket of a directory, whose one process has the path node too.
    Socket,
    /// UDP: one host has the shards, another one the path node, and all of them one CPU.
    Udp,
}

/// How a file is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Open,
    Serial,
    Cold,
    Warm,
    Kept,
}

impl Way {
    const ALL: [Way; 5] = [Way::Open, Way::Serial, Way::Cold, Way::Warm, Way::Kept];

    fn word(self) -> &'static str {
        match self {
            Way::Open => "open file",
            Way::Serial => "name by name",
            Way::Cold => "path node, cold",
            Way::Warm => "path node, warm",
            Way::Kept => "client's cache",
        }
    }
}

/// Of one look: elapsed time, and CPU time, µs.
#[derive(Clone, Copy, Debug)]
struct Cost {
    elapsed: f64,
    /// Of all processes.
    cpu: f64,
    /// Of those that are no shards: client and path node, or over the socket the client alone.
    before_shards: f64,
}

/// What serves in a round.
struct Served {
    /// Ended when it is dropped.
    _servers: Box<dyn Any>,
    source: Source,
    /// Processes that have shards, and that have none.
    shards: u32,
    others: Vec<u32>,
}

impl Served {
    fn start(args: &PathsArgs, dir: &Path) -> anyhow::Result<Served> {
        let client = std::process::id();
        match args.over {
            Over::Socket => {
                let state = dir.join("state");
                let mut command = Command::new("/proc/self/exe");
                command.args(["--log", "warn", "dev", "--shards", &args.shards.to_string()]).arg(&state);
                let (server, _) = Child::start(command, "serving")?;
                let shards = server.id();
                Ok(Served { _servers: Box::new(server), source: Source::Dir(state), shards, others: vec![client] })
            }
            Over::Udp => {
                let (cpu, _) = cpus(WaitMode::Block, &own_cpus()?)?;
                let servers = Servers::start(Shape::LED, WaitMode::Block, args.shards, dir, cpu)?;
                let (source, _) = Source::parse(&servers.url)?;
                let [shards, path_node] = servers.processes()[..] else { unreachable!("two hosts") };
                Ok(Served { _servers: Box::new(servers), source, shards, others: vec![client, path_node] })
            }
        }
    }
}

type Costs = BTreeMap<(u32, Way), Vec<Cost>>;

pub(crate) fn run(args: &PathsArgs) -> anyhow::Result<()> {
    let mut costs = Costs::new();
    for round in 0..args.rounds {
        eprintln!("round {} of {}", round + 1, args.rounds);
        measure(args, &mut costs)?;
    }
    print(args, &costs)
}

/// The path of a file of that depth.
fn path_of(depth: u32, way: u32) -> String {
    let directories: String = (1..depth).map(|level| format!("/depth{depth}-way{way}-level{level}")).collect();
    directories + "/file"
}

fn measure(args: &PathsArgs, costs: &mut Costs) -> anyhow::Result<()> {
    let parent = absolute(&args.dir.clone().unwrap_or_else(std::env::temp_dir))?;
    let temp = tempfile::Builder::new().prefix("onpath-bench-paths").tempdir_in(parent)?;
    let served = Served::start(args, temp.path())?;
    let connect = |path_nodes, path_cache| {
        Client::connect_to(&served.source, &Options { path_nodes, path_cache, ..Options::default() })
    };
    let (plain, led, me) = (connect(false, 0)?, connect(true, 0)?, Caller::root());
    let keeps = connect(true, Options::default().path_cache)?;
    for (depth, way) in args.depths.iter().flat_map(|&depth| (0..WAYS).map(move |way| (depth, way))) {
        let path = path_of(depth, way);
        for (at, _) in path.match_indices('/').skip(1) {
            plain.mkdir(&me, &path[..at], 0o755).with_context(|| path.clone())?;
        }
        plain.open(&me, &path, &OpenOptions::create())?.close()?;
    }
    for &depth in &args.depths {
        let paths: Vec<String> = (0..WAYS).map(|way| path_of(depth, way)).collect();
        let opened: Result<Vec<_>, _> =
            paths.iter().map(|path| plain.open(&me, path, &OpenOptions::default())).collect();
        let opened = opened?;
        for way in Way::ALL {
            let count = if way == Way::Cold { WAYS } else { args.operations };
            let look = |at: usize| match way {
                Way::Open => opened[at].stat(),
                Way::Serial => plain.stat(&me, &paths[at]),
                Way::Cold | Way::Warm => led.stat(&me, &paths[at]),
                Way::Kept => keeps.stat(&me, &paths[at]),
            };
            if way == Way::Kept {
                paths.iter().chain(&paths).try_for_each(|path| keeps.stat(&me, path).map(drop))?;
            }
            let cost = cost(count, &served, look)?;
            costs.entry((depth, way)).or_default().push(cost);
        }
    }
    let asked = led.counters();
    let looks = u64::from(args.operations + WAYS) * args.depths.len() as u64;
    ensure!(asked.lookups == 0 && asked.requests == looks, "the path node has not led: {asked:?}");
    let kept = keeps.counters();
    let looks = u64::from(args.operations) * args.depths.len() as u64;
    ensure!(kept.paths_kept >= looks && kept.paths_behind == 0, "the client has not followed paths itself: {kept:?}");
    [plain, led, keeps].into_iter().for_each(Client::close);
    Ok(())
}

/// What a look costs, of so many.
fn cost(
    count: u32,
    served: &Served,
    look: impl Fn(usize) -> Result<Metadata, onpath_client::Error>,
) -> anyhow::Result<Cost> {
    let now = || -> anyhow::Result<[u64; 2]> {
        Ok([Usage::now(&[served.shards])?.servers_ns, Usage::now(&served.others)?.servers_ns])
    };
    let (before, begun) = (now()?, Instant::now());
    for at in 0..count {
        look((at % WAYS) as usize)?;
    }
    let elapsed_us = begun.elapsed().as_secs_f64() * 1e6;
    let after = now()?;
    let [shards_us, others_us] = [0, 1].map(|of| (after[of] - before[of]) as f64 / 1e3);
    let each = |us: f64| us / f64::from(count);
    Ok(Cost { elapsed: each(elapsed_us), cpu: each(shards_us + others_us), before_shards: each(others_us) })
}

fn print(args: &PathsArgs, costs: &Costs) -> anyhow::Result<()> {
    let of = |depth, way, what: fn(&Cost) -> f64| Spread::of(costs[&(depth, way)].iter().map(what));
    // Within a round, which disturbances of the machine have in common.
    let beside = |depth, way, other: (u32, Way)| {
        let pairs = costs[&(depth, way)].iter().zip(&costs[&other]);
        Spread::of(pairs.map(|(one, other)| one.elapsed / other.elapsed))
    };
    if args.json {
        let rows = costs.keys().map(|&(depth, way)| {
            json!({
                "depth": depth,
                "way": way.word(),
                "us": of(depth, way, |cost| cost.elapsed),
                "cpu_us": of(depth, way, |cost| cost.cpu),
                "cpu_before_shards_us": of(depth, way, |cost| cost.before_shards),
                "beside_an_open_file": beside(depth, way, (depth, Way::Open)),
                "beside_name_by_name": beside(depth, way, (depth, Way::Serial)),
                "beside_the_first_depth": beside(depth, way, (args.depths[0], way)),
            })
        });
        say(&json!({ "rounds": args.rounds, "operations": args.operations, "rows": rows.collect::<Vec<_>>() })
            .to_string());
        return Ok(());
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "names",
        "way",
        "µs",
        "CPU µs",
        "before shards",
        "÷ open file",
        "÷ name by name",
        "÷ first depth",
    ]);
    for &(depth, way) in costs.keys() {
        let figures = [
            of(depth, way, |cost| cost.elapsed),
            of(depth, way, |cost| cost.cpu),
            of(depth, way, |cost| cost.before_shards),
            beside(depth, way, (depth, Way::Open)),
            beside(depth, way, (depth, Way::Serial)),
            beside(depth, way, (args.depths[0], way)),
        ];
        let cells = figures.iter().map(|figure| format!("{:.2}", figure.median));
        table.add_row([depth.to_string(), way.word().to_owned()].into_iter().chain(cells));
    }
    (2..8)
        .filter_map(|at| table.column_mut(at).map(|column| column.set_cell_alignment(CellAlignment::Right)))
        .for_each(drop);
    say(&table.to_string());
    Ok(())
}
