//! What is asked of a form, and what it costs.

use super::{Form, HOSTS};
use crate::bench::net::client::{Client, Found, Load, create, getattr};
use crate::bench::net::median;
use crate::bench::net::servers::{Servers, is_switch};
use crate::bench::posix::Usage;
use anyhow::{Context, ensure};
use onpath_client::{Caller, OpenOptions, Options, Source, blocking};
use onpath_session::fs::{FsOp, Handle, OpenMode};
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use onpath_wire::request::{SetAttr, set};
use serde::Serialize;
use serde_json::Value;
use std::time::{Duration, Instant};

/// A switch that is asked again and again answers within this time.
const HOT_WITHIN: Duration = Duration::from_secs(30);
/// So long after a change the switch answers for the file again.
const CLEARED_FOR: Duration = Duration::from_millis(25);
/// Names of the path.
const PATH_NAMES: usize = 8;
/// Requests for an open file: open, read, close.
const OF_OPEN: usize = 3;
/// Looks for each change.
const LOOKS_EACH: usize = 50;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Phase {
    /// Attributes of files that are looked at all the time, one under way.
    Stat,
    /// Their names.
    Lookup,
    /// Their attributes, several under way.
    Stats,
    /// A path of eight names that a client without a mount keeps the way of.
    Path,
    /// Such a file opened, read and closed; the time is that of the open.
    Open,
    /// chmod of such a file, which the switch answers for just before.
    ChmodHot,
    /// A write behind the end of such a file.
    WriteHot,
    /// chmod of files that nobody looks at.
    ChmodCold,
    /// Writes behind the ends of such.
    WriteCold,
}

impl Phase {
    pub(super) const ALL: [Phase; 9] = [
        Phase::Stat,
        Phase::Lookup,
        Phase::Stats,
        Phase::Path,
        Phase::Open,
        Phase::ChmodHot,
        Phase::WriteHot,
        Phase::ChmodCold,
        Phase::WriteCold,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Phase::Stat => "stat of hot files, one under way",
            Phase::Lookup => "lookup of hot names, one under way",
            Phase::Stats => "stat of hot files, several under way",
            Phase::Path => "stat of a hot path of eight names, by a client that keeps ways",
            Phase::Open => "open, read and close of hot files: time of the open, CPU of all three",
            Phase::ChmodHot => "chmod of a hot file; CPU with the look before it, which fills its entry",
            Phase::WriteHot => "write behind the end of a hot file, in the same way",
            Phase::ChmodCold => "chmod of other files",
            Phase::WriteCold => "write behind the end of other files",
        }
    }
}

/// What one operation takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Median, µs.
    pub(super) us: f64,
    /// Operations a second.
    pub(super) rate: f64,
    /// CPU time of the hosts with shards, µs.
    pub(super) cpu_us: f64,
    /// That of the host with the switch, µs.
    pub(super) switch_us: f64,
    /// Answers of the switch.
    pub(super) share: f64,
}

/// A client of the servers of a form.
pub(super) struct Work<'a> {
    pub(super) servers: &'a Servers,
    pub(super) client: &'a Client,
    pub(super) operations: usize,
    pub(super) window: usize,
    pub(super) files: usize,
    pub(super) form: Form,
}

/// What was used and counted.
#[derive(Clone, Copy)]
struct Counts {
    hosts_ns: u64,
    switch_ns: u64,
    answered: u64,
}

impl Counts {
    /// What was used since `before`, and counted since then; what asking for it takes is in neither.
    fn since(self, servers: &Servers) -> anyhow::Result<Counts> {
        let [hosts_ns, switch_ns] = used(servers)?;
        // A thread that ends takes its time with it.
        let each = |after: u64, before: u64| after.saturating_sub(before);
        Ok(Counts {
            hosts_ns: each(hosts_ns, self.hosts_ns),
            switch_ns: each(switch_ns, self.switch_ns),
            answered: each(answered(servers)?, self.answered),
        })
    }

    fn begin(servers: &Servers) -> anyhow::Result<Counts> {
        let answered = answered(servers)?;
        let [hosts_ns, switch_ns] = used(servers)?;
        Ok(Counts { answered, hosts_ns, switch_ns })
    }
}

/// CPU time of the hosts with shards and of the one with the switch.
fn used(servers: &Servers) -> anyhow::Result<[u64; 2]> {
    let processes = servers.processes();
    let (hosts, others) = processes.split_at(usize::from(HOSTS));
    Ok([Usage::now(hosts)?.servers_ns, Usage::now(&others[..1])?.servers_ns])
}

/// What the switch has answered.
fn answered(servers: &Servers) -> anyhow::Result<u64> {
    let all = servers.counters()?;
    let of = |all: &Value, name: &str| all[name].as_u64().unwrap_or(0);
    let of_switch = all.iter().filter(|(role, _)| is_switch(role));
    Ok(of_switch.map(|(_, all)| of(all, "read_answered") + of(all, "read_denied")).sum())
}

/// Latencies, ns, and operations a second.
type Took = (Vec<u32>, f64);

impl Work<'_> {
    pub(super) fn all(&self) -> anyhow::Result<Vec<(Phase, Cost)>> {
        let dir = self.client.directory("dir")?;
        let made = |prefix: &'static str| -> anyhow::Result<Vec<(InodeId, Handle)>> {
            let ask = move |number: usize, _: &Found| create(dir, prefix, number);
            let count = self.files;
            let made = self.client.run(Load { count, window: 1, ask: Box::new(ask), timed: |_| false })?;
            made.found.into_iter().map(|(id, handle)| Ok((id, handle.context("a file that is not open")?))).collect()
        };
        let (hot, cold) = (made("hot")?, made("cold")?);
        let ids: Vec<InodeId> = hot.iter().map(|(id, _)| *id).collect();
        let stat = |count, window| self.run(count, window, |number| getattr(ids[number % ids.len()]));
        let lookup = |count| self.run(count, 1, |number| named(dir, number % self.files));
        self.heat(&lookup, &stat)?;
        let (looks, changes) = (self.operations, self.operations / LOOKS_EACH);
        let mut costs = vec![
            (Phase::Stat, self.cost(looks, || stat(looks, 1))?),
            (Phase::Lookup, self.cost(looks, || lookup(looks))?),
            (Phase::Stats, self.cost(looks, || stat(looks, self.window))?),
        ];
        costs.push((Phase::Path, self.paths(looks)?));
        for (number, (_, handle)) in hot.iter().enumerate() {
            self.run(1, 1, |_| write(*handle, 0)).with_context(|| format!("bytes of hot file {number}"))?;
        }
        self.heat(&lookup, &stat)?;
        costs.push((Phase::Open, self.cost(looks, || self.opens(looks, ids.clone()))?));
        let changed = |files: &[(InodeId, Handle)], number: usize| chmod(files[number % files.len()].0, number);
        let written = |files: &[(InodeId, Handle)], number: usize| write(files[number % files.len()].1, number);
        let stat_of = |id: InodeId| self.run(1, 1, |_| getattr(id));
        // Whoever has just looked at a file has its entry filled.
        let slowly = |op: &dyn Fn(usize) -> FsOp| {
            let one = |number: usize| {
                stat_of(ids[number % ids.len()])?;
                std::thread::sleep(CLEARED_FOR);
                self.run(1, 1, |_| op(number)).map(|(latencies, _)| latencies)
            };
            let took: Vec<u32> = (0..changes).map(one).collect::<anyhow::Result<Vec<_>>>()?.concat();
            Ok((took, 0.0))
        };
        costs.push((Phase::ChmodHot, self.cost(changes, || slowly(&|number| changed(&hot, number)))?));
        costs.push((Phase::WriteHot, self.cost(changes, || slowly(&|number| written(&hot, number)))?));
        let quick = looks / 4;
        costs.push((Phase::ChmodCold, self.cost(quick, || self.run(quick, 1, |number| changed(&cold, number)))?));
        costs.push((Phase::WriteCold, self.cost(quick, || self.run(quick, 1, |number| written(&cold, number)))?));
        Ok(costs)
    }

    /// Asks until the switch answers nearly everything; where there is no cache, once.
    fn heat(
        &self,
        lookup: &dyn Fn(usize) -> anyhow::Result<Took>,
        stat: &dyn Fn(usize, usize) -> anyhow::Result<Took>,
    ) -> anyhow::Result<()> {
        let (begin, count) = (Instant::now(), 20 * self.files);
        loop {
            // A session asks the switch for names that it has looked up since it was told that there is one.
            self.client.one(&FsOp::Lookup { parent: InodeId::ROOT, name: plain("dir") })?;
            let before = answered(self.servers)?;
            lookup(count)?;
            stat(count, 1)?;
            let answered = answered(self.servers)? - before;
            if self.form == Form::Off || answered as usize >= 2 * count * 99 / 100 {
                return Ok(());
            }
            ensure!(begin.elapsed() < HOT_WITHIN, "the switch answers {answered} of {} only", 2 * count);
        }
    }

    fn run(&self, count: usize, window: usize, ask: impl Fn(usize) -> FsOp) -> anyhow::Result<Took> {
        let all: Vec<FsOp> = (0..count).map(ask).collect();
        let ask = move |number: usize, _: &Found| all[number].clone();
        let done = self.client.run(Load { count, window, ask: Box::new(ask), timed: |_| true })?;
        Ok((done.latencies, done.rate))
    }

    /// Looks at a path until the switch answers nearly every look, and then what one takes.
    fn paths(&self, count: usize) -> anyhow::Result<Cost> {
        let (source, _) = Source::parse(&self.servers.url)?;
        let (client, me) = (blocking::Client::connect_to(&source, &Options::default())?, Caller::root());
        let directories: Vec<String> =
            (1..PATH_NAMES).map(|level| (1..=level).map(|name| format!("/way{name}")).collect()).collect();
        let path = format!("{}/file", directories.last().expect("several names"));
        for directory in &directories {
            client.mkdir(&me, directory, 0o755)?;
        }
        client.open(&me, &path, &OpenOptions::create())?.close()?;
        let look = |count: usize| -> anyhow::Result<Took> {
            let begin = Instant::now();
            let mut latencies = Vec::with_capacity(count);
            for _ in 0..count {
                let asked = Instant::now();
                client.stat(&me, &path)?;
                latencies.push(asked.elapsed().as_nanos() as u32);
            }
            Ok((latencies, count as f64 / begin.elapsed().as_secs_f64()))
        };
        let (begin, tries) = (Instant::now(), 200);
        loop {
            let before = answered(self.servers)?;
            look(tries)?;
            let answered = answered(self.servers)? - before;
            if self.form == Form::Off || answered as usize >= tries * 99 / 100 {
                break;
            }
            ensure!(begin.elapsed() < HOT_WITHIN, "the switch answers {answered} of {tries} looks at a path only");
        }
        let cost = self.cost(count, || look(count))?;
        client.close();
        Ok(cost)
    }

    fn opens(&self, count: usize, ids: Vec<InodeId>) -> anyhow::Result<Took> {
        let mode = OpenMode { read: true, direct: true, ..OpenMode::default() };
        let ask = move |number: usize, found: &Found| {
            let last = || found.last().and_then(|(_, handle)| *handle).expect("the open before was answered");
            match number % OF_OPEN {
                0 => FsOp::Open { id: ids[number / OF_OPEN % ids.len()], mode },
                1 => FsOp::Read { handle: last(), offset: 0, bytes: 512, page: false },
                _ => FsOp::Release { handle: last(), flock_owner: None },
            }
        };
        let timed = |number: usize| number.is_multiple_of(OF_OPEN);
        let done = self.client.run(Load { count: OF_OPEN * count, window: 1, ask: Box::new(ask), timed })?;
        Ok((done.latencies, done.rate / OF_OPEN as f64))
    }

    fn cost(&self, operations: usize, run: impl FnOnce() -> anyhow::Result<Took>) -> anyhow::Result<Cost> {
        let before = Counts::begin(self.servers)?;
        let (latencies, rate) = run()?;
        let all = before.since(self.servers)?;
        let each = |all: u64| all as f64 / operations as f64;
        Ok(Cost {
            us: median(latencies) / 1e3,
            rate,
            cpu_us: each(all.hosts_ns) / 1e3,
            switch_us: each(all.switch_ns) / 1e3,
            share: each(all.answered),
        })
    }
}

fn plain(name: &str) -> Name {
    Name::new(name.as_bytes()).expect("a plain name")
}

fn named(parent: InodeId, number: usize) -> FsOp {
    FsOp::Lookup { parent, name: plain(&format!("hot{number}")) }
}

fn chmod(id: InodeId, number: usize) -> FsOp {
    let mode = if number.is_multiple_of(2) { 0o600 } else { 0o644 };
    FsOp::SetAttr { id, set: SetAttr { valid: set::MODE, mode, ..SetAttr::default() }, handle: None }
}

fn write(handle: Handle, number: usize) -> FsOp {
    let (data, offset) = (vec![7; 512].into(), 512 * number as u64);
    FsOp::Write { handle, offset, data, append: false, kill_suidgid: false, page: false }
}
