//! `onpath bench net`: what a request over UDP takes, beside a bare echo with messages as long and the same waiting, in turn.
//!
//! A round starts the servers of every case anew, in processes of their own on a directory that is empty, asks them, and then an echo. A
//! case is compared with the echo of its round.

mod across;
pub(super) mod apart;
pub(super) mod client;
pub(super) mod dirty_set;
pub(super) mod echo;
mod packets;
pub(super) mod place;
pub(super) mod report;
pub(super) mod servers;

pub(super) use echo::{EchoArgs, serve as serve_echo};

use crate::bench::fixed_secrets;
use crate::cli::{WaitMode, absolute};
use anyhow::ensure;
use clap::{Args, value_parser};
use client::{Ask, Client, Found, Load, create, getattr};
use dirty_set::{Counts, in_use, uninterrupted};
use echo::{Echo, Way};
use onpath_wire::ids::InodeId;
use onpath_wire::map::ClusterMap;
use place::{cpus, own_cpus};
use report::{Case, Measured, Report};
use servers::{Servers, Shape};
use std::path::PathBuf;

/// Most requests of a case.
const OPERATIONS_MAX: i64 = 1_000_000;
/// Most requests under way.
const WINDOW_MAX: i64 = packets::MANY as i64;

/// Numbers that each name may take, so that names differ: with two shards every second one will do.
const TRIES: usize = 64;

/// Arguments of `onpath bench net`.
#[derive(Args, Debug)]
pub(crate) struct NetArgs {
    /// Requests of each case in each round.
    #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u32).range(100..=OPERATIONS_MAX))]
    operations: u32,
    /// How often everything is repeated.
    #[arg(long, default_value_t = 7, value_parser = value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Requests under way at a time where there are several.
    #[arg(long, default_value_t = 64, value_parser = value_parser!(u32).range(2..=WINDOW_MAX))]
    window: u32,
    /// Ways of waiting: block, all processes on the first CPU; spin, servers on the first CPU and the client on the second.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "block,spin")]
    waits: Vec<WaitMode>,
    /// What to measure.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "getattr,create,create-network,create-marked,create-after-stat"
    )]
    cases: Vec<Case>,
    /// Metadata shards.
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u16).range(1..=64))]
    shards: u16,
    /// Seal everything with a key.
    #[arg(long)]
    key: bool,
    /// Where the servers keep their state; the directory for temporary files otherwise.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Compare two builds of onpath by this benchmark, in turn: give it twice.
    #[arg(long = "binary", value_name = "PATH")]
    binaries: Vec<PathBuf>,
    /// Give results as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &NetArgs) -> anyhow::Result<()> {
    if !args.binaries.is_empty() {
        return super::builds::compare(&args.binaries, args.rounds, args.json);
    }
    let alone = args.shards == 1 && args.cases.contains(&Case::CreateMarked);
    ensure!(!alone, "creates need no mark where there is one shard: --shards 2, or other --cases");
    let own = own_cpus()?;
    let mut report = Report::new(args.operations, args.rounds, args.window);
    for &wait in &args.waits {
        report.place(wait, cpus(wait, &own)?);
    }
    for round in 0..args.rounds {
        for &wait in &args.waits {
            eprintln!("round {} of {}: {}", round + 1, args.rounds, wait.word());
            let site = Site { args, wait, cpus: cpus(wait, &own)? };
            site.round(&mut report)?;
        }
    }
    report.print(args.json)
}

/// One way of waiting in one round.
struct Site<'a> {
    args: &'a NetArgs,
    wait: WaitMode,
    cpus: (usize, usize),
}

/// What a case has shown, and how long its messages are.
struct Asked {
    p50_ns: f64,
    bytes: (usize, usize),
    /// Answers a second with a window, and datagrams each way of one.
    rate: Option<(f64, f64)>,
}

impl Site<'_> {
    fn round(&self, report: &mut Report) -> anyhow::Result<()> {
        let wanted = |case: Case| self.args.cases.contains(&case);
        for case in [Case::Getattr, Case::Create] {
            if wanted(case) {
                self.compare(report, case, &self.owner(case)?)?;
            }
        }
        // The processes of these cases do not have a CPU each.
        for case in [Case::RenameAcross, Case::RenameAcrossThird, Case::UnlinkAcross] {
            if wanted(case) && self.wait == WaitMode::Block {
                self.compare(report, case, &across::measure(self, case)?)?;
            }
        }
        for case in [Case::CreateNetwork, Case::CreateMarked, Case::CreateAfterStat] {
            if wanted(case) && self.wait == WaitMode::Block {
                self.compare(report, case, &uninterrupted(|| self.network(case))?)?;
            }
        }
        Ok(())
    }

    fn started<T>(
        &self,
        shape: Shape<'_>,
        shards: u16,
        run: impl FnOnce(&Client, &Servers) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let parent = absolute(&self.args.dir.clone().unwrap_or_else(std::env::temp_dir))?;
        let dir = tempfile::Builder::new().prefix("onpath-bench-net").tempdir_in(parent)?;
        let shape = Shape { key: self.args.key, ..shape };
        let servers = Servers::start(shape, self.wait, shards, dir.path(), self.cpus.0)?;
        let client = Client::start(&servers, self.wait, self.cpus.1)?;
        let result = run(&client, &servers)?;
        client.stop()?;
        Ok(result)
    }

    /// One host and a directory whose updates it tracks itself.
    fn owner(&self, case: Case) -> anyhow::Result<Asked> {
        self.started(Shape::OWNER, self.args.shards, |client, _| {
            let dir = client.directory("dir")?;
            let run = |prefix: &'static str, count: usize, window: usize, file: Option<InodeId>| {
                let ask: Ask = match file {
                    Some(id) => Box::new(move |_, _| getattr(id)),
                    None => Box::new(move |number, _| create(dir, prefix, number)),
                };
                let begin = client.traffic();
                let done = client.run(Load { count, window, ask, timed: |_| true })?;
                let traffic = client.traffic();
                if file.is_none() {
                    client.close(&done.found)?;
                }
                let each = traffic.datagrams_since(begin) as f64 / count as f64;
                anyhow::Ok((done, traffic.bytes_since(begin), each))
            };
            let (count, window) = (self.args.operations as usize, self.args.window as usize);
            let (first, ..) = run("warm", count / 10, 1, None)?; // the grant is held from now on
            let file = (case == Case::Getattr).then_some(first.found[0].0);
            run("warmer", count / 10, 1, file)?;
            let (one, bytes, _) = run("one", count, 1, file)?;
            let (many, _, datagrams) = run("many", count, window, file)?;
            Ok(Asked { p50_ns: median(one.latencies), bytes, rate: Some((many.rate, datagrams)) })
        })
    }

    /// Two hosts and a switch, which tracks directories from before the first request until the last one.
    fn network(&self, case: Case) -> anyhow::Result<Asked> {
        let looks = case == Case::CreateAfterStat;
        let marks = case == Case::CreateMarked;
        let shape = if marks { Shape::MARKED } else { Shape::NETWORK };
        self.started(shape, self.args.shards, |client, servers| {
            in_use(servers, client)?;
            let begin = Counts::of(servers)?;
            let dir = client.directory("dir")?;
            let map = ClusterMap::even(self.args.shards, fixed_secrets().placement);
            let run = |prefix: &'static str, creates: usize| {
                // Names that the directory's own shard has need no mark.
                let map = map.clone();
                let away = move |number: &usize| {
                    !marks || map.shard(map.site(dir, format!("{prefix}{number}").as_bytes())) != map.home(dir)
                };
                let ask = move |number: usize, _: &Found| match number % 2 {
                    0 if looks => getattr(dir),
                    _ => create(dir, prefix, (TRIES * number..).find(&away).unwrap_or(number)),
                };
                let (count, timed): (_, fn(usize) -> bool) =
                    if looks { (2 * creates, |number| number % 2 == 1) } else { (creates, |_| true) };
                let begin = client.traffic();
                let done = client.run(Load { count, window: 1, ask: Box::new(ask), timed })?;
                let bytes = client.traffic().bytes_since(begin);
                client.close(&done.found)?;
                anyhow::Ok((done, bytes))
            };
            let count = self.args.operations as usize;
            run("warm", count / 10)?;
            let before = begin.since(servers)?;
            let (done, bytes) = run("one", count)?;
            let marked = begin.since(servers)?.marked - before.marked;
            ensure!(!marks || marked >= count as u64, "the switch took {marked} marks of {count} creates");
            Ok(Asked { p50_ns: median(done.latencies), bytes, rate: None })
        })
    }

    fn compare(&self, report: &mut Report, case: Case, asked: &Asked) -> anyhow::Result<()> {
        let (count, window) = (self.args.operations as usize, self.args.window as usize);
        let echo = |way| Echo::start(way, self.wait, asked.bytes, self.cpus);
        let echo_ns = {
            let one = echo(Way::One)?;
            one.latencies(count / 10)?;
            median(one.latencies(count)?)
        };
        report.add(Measured { wait: self.wait, case, bytes: asked.bytes, ns: asked.p50_ns, echo_ns, rate: None });
        if let Some((rate, datagrams)) = asked.rate {
            let many = echo(Way::Many)?.rate(count, window)?;
            let packed = echo(Way::Packed)?.rate(count, window)?;
            report.rate(report::Rate { rate, datagrams, many, packed });
        }
        Ok(())
    }
}

pub(in crate::bench) fn median(mut all: Vec<u32>) -> f64 {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0).into()
}
