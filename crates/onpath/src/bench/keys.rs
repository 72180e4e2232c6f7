//! `onpath bench keys`: what it costs hosts that a client may act as one user alone.
//!
//! A round starts the servers of each cluster anew, on directories that are empty, one that seals nothing and one with keys, and does the same with each client in turn: one
//! without a key, one whose key allows any user, and one whose key has an owner, each of whose messages is looked at.

use super::net::place::{cpus, own_cpus};
use super::net::servers::{Servers, Shape};
use super::posix::{Spread, Usage};
use crate::cli::{WaitMode, absolute, say};
use clap::{Args, value_parser};
use comfy_table::{CellAlignment, Table, presets};
use onpath_client::blocking::{Client, File};
use onpath_client::{Caller, Error, OpenOptions, Options, Source};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What is in the file that is read.
const TEXT: &[u8] = &[b'x'; 4_096];
/// Operations of each kind before those that count, a part of them.
const WARM: u32 = 10;

/// Arguments of `onpath bench keys`.
#[derive(Args, Debug)]
pub(crate) struct KeysArgs {
    /// Operations of each kind of each client in each round.
    #[arg(long, default_value_t = 3_000, value_parser = value_parser!(u32).range(100..=1_000_000))]
    operations: u32,
    /// How often everything is repeated.
    #[arg(long, default_value_t = 7, value_parser = value_parser!(u32).range(1..=1_000))]
    rounds: u32,
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

/// With what a client comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum With {
    Nothing,
    AnyUser,
    Owner,
}

impl With {
    const ALL: [With; 3] = [With::Nothing, With::AnyUser, With::Owner];

    fn word(self) -> &'static str {
        match self {
            With::Nothing => "no key",
            With::AnyUser => "a key for any user",
            With::Owner => "a key with an owner",
        }
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Getattr,
    Read,
    Create,
}

impl Act {
    const ALL: [Act; 3] = [Act::Getattr, Act::Read, Act::Create];

    fn word(self) -> &'static str {
        match self {
            Act::Getattr => "getattr",
            Act::Read => "open, read, close",
            Act::Create => "create, close",
        }
    }
}

/// CPU time of one operation, µs.
#[derive(Clone, Copy, Debug)]
struct Cost {
    servers: f64,
    client: f64,
}

type Costs = BTreeMap<(Act, With), Vec<Cost>>;

pub(crate) fn run(args: &KeysArgs) -> anyhow::Result<()> {
    // Clients look into their key files as long as this process lives.
    let (mut costs, mut dirs) = (Costs::new(), Vec::new());
    for round in 0..args.rounds {
        eprintln!("round {} of {}", round + 1, args.rounds);
        measure(args, &mut costs, &mut dirs)?;
    }
    print(args, &costs)
}

/// A client with a file of its own.
struct Comes {
    with: With,
    client: Client,
    opened: File,
    servers: Vec<u32>,
}

impl Comes {
    fn new(with: With, servers: &Servers, key_file: Option<&Path>) -> anyhow::Result<Comes> {
        let options = Options { key_file: key_file.map(Path::to_owned), ..Options::default() };
        let (source, _) = Source::parse(&servers.url)?;
        let client = Client::connect_to(&source, &options)?;
        let opened = client.open(&me(), path(with, "file"), &OpenOptions { read: true, ..OpenOptions::create() })?;
        opened.write_at(0, TEXT)?;
        Ok(Comes { with, client, opened, servers: servers.processes() })
    }

    fn does(&self, act: Act, number: u32) -> Result<(), Error> {
        match act {
            Act::Getattr => self.opened.stat().map(drop),
            Act::Read => {
                let file = self.client.open(&me(), path(self.with, "file"), &OpenOptions::default())?;
                file.read_at(0, TEXT.len())?;
                file.close()
            }
            Act::Create => {
                let path = path(self.with, &number.to_string());
                self.client.open(&me(), &path, &OpenOptions::create())?.close()
            }
        }
    }

    /// Does that from one number to another, and tells what each takes.
    fn cost(&self, act: Act, numbers: std::ops::Range<u32>) -> anyhow::Result<Cost> {
        let now = || -> anyhow::Result<[u64; 2]> {
            Ok([Usage::now(&self.servers)?.servers_ns, Usage::now(&[std::process::id()])?.servers_ns])
        };
        let (before, count) = (now()?, numbers.len() as f64);
        numbers.into_iter().try_for_each(|number| self.does(act, number))?;
        let after = now()?;
        let [servers, client] = [0, 1].map(|of| (after[of] - before[of]) as f64 / 1e3 / count);
        Ok(Cost { servers, client })
    }
}

/// Who asks where anybody may be named.
fn me() -> Caller {
    Caller::root()
}

fn directory(with: With) -> String {
    format!("/{}", with.word().replace(' ', "-"))
}

fn path(with: With, name: &str) -> String {
    format!("{}/{name}", directory(with))
}

fn measure(args: &KeysArgs, costs: &mut Costs, dirs: &mut Vec<TempDir>) -> anyhow::Result<()> {
    let parent = absolute(&args.dir.clone().unwrap_or_else(std::env::temp_dir))?;
    let (cpu, _) = cpus(WaitMode::Block, &own_cpus()?)?;
    let temp = || tempfile::Builder::new().prefix("onpath-bench-keys").tempdir_in(&parent);
    let (plain_dir, sealed_dir) = (temp()?, temp()?);
    let start = |key, dir: &Path| Servers::start(Shape { key, ..Shape::OWNER }, WaitMode::Block, args.shards, dir, cpu);
    let (plain, sealed) = (start(false, plain_dir.path())?, start(true, sealed_dir.path())?);
    for (servers, with) in [(&plain, &With::ALL[..1]), (&sealed, &With::ALL[1..])] {
        let options = Options { key_file: servers.key_file.clone(), ..Options::default() };
        let client = Client::connect_to(&Source::parse(&servers.url)?.0, &options)?;
        for &with in with {
            client.mkdir(&me(), directory(with), 0o777)?;
        }
        client.close();
    }
    let come = With::ALL.into_iter().map(|with| match with {
        With::Nothing => Comes::new(with, &plain, None),
        With::AnyUser => Comes::new(with, &sealed, sealed.any_user.as_deref()),
        With::Owner => Comes::new(with, &sealed, sealed.owner.as_deref()),
    });
    let come = come.collect::<anyhow::Result<Vec<Comes>>>()?;
    let warm = args.operations / WARM;
    for act in Act::ALL {
        for one in &come {
            one.cost(act, 0..warm)?;
        }
        for one in &come {
            let cost = one.cost(act, warm..warm + args.operations)?;
            costs.entry((act, one.with)).or_default().push(cost);
        }
    }
    for Comes { client, opened, .. } in come {
        opened.close()?;
        client.close();
    }
    dirs.extend([plain_dir, sealed_dir]);
    Ok(())
}

fn print(args: &KeysArgs, costs: &Costs) -> anyhow::Result<()> {
    let of = |act, with, what: fn(&Cost) -> f64| Spread::of(costs[&(act, with)].iter().map(what));
    // Within a round, which disturbances of the machine have in common.
    let beside = |act, with, other| {
        let pairs = costs[&(act, with)].iter().zip(&costs[&(act, other)]);
        Spread::of(pairs.map(|(one, other)| one.servers / other.servers))
    };
    if args.json {
        let rows = costs.keys().map(|&(act, with)| {
            json!({
                "operation": act.word(),
                "with": with.word(),
                "servers_us": of(act, with, |cost| cost.servers),
                "client_us": of(act, with, |cost| cost.client),
                "beside_no_key": beside(act, with, With::Nothing),
                "beside_any_user": beside(act, with, With::AnyUser),
            })
        });
        let rows: Vec<_> = rows.collect();
        say(&json!({ "rounds": args.rounds, "operations": args.operations, "rows": rows }).to_string());
        return Ok(());
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "operation",
        "client with",
        "servers, µs",
        "client, µs",
        "servers ÷ no key",
        "servers ÷ any user",
    ]);
    let shown = |spread: &Spread| format!("{:.2} ({:.2} – {:.2})", spread.median, spread.min, spread.max);
    for &(act, with) in costs.keys() {
        let figures = [
            of(act, with, |cost| cost.servers),
            of(act, with, |cost| cost.client),
            beside(act, with, With::Nothing),
            beside(act, with, With::AnyUser),
        ];
        table.add_row([act.word(), with.word()].map(str::to_owned).into_iter().chain(figures.iter().map(shown)));
    }
    (2..6)
        .filter_map(|at| table.column_mut(at).map(|column| column.set_cell_alignment(CellAlignment::Right)))
        .for_each(drop);
    say(&format!("CPU time of one operation, {} rounds: median (least – greatest)\n{table}", args.rounds));
    Ok(())
}
