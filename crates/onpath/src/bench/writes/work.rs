//! What is asked of a form, and what it costs.

use super::form::{Form, HOSTS};
use crate::bench::fixed_secrets;
use crate::bench::net::client::{Client, Found, Load, create, getattr};
use crate::bench::net::dirty_set::Interrupted;
use crate::bench::net::echo::{Echo, Way};
use crate::bench::net::median;
use crate::bench::net::servers::Servers;
use crate::bench::posix::Usage;
use crate::cli::WaitMode;
use anyhow::{Context, ensure};
use onpath_session::fs::{FsOp, Handle};
use onpath_wire::ids::{InodeId, NodeId};
use onpath_wire::map::ClusterMap;
use serde::Serialize;

/// Files that are made until the bytes of one are at another host than its inode.
const TRIES: usize = 64;
/// Requests for a small file: create, write, close.
const OF_SMALL: usize = 3;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Phase {
    /// Writes behind the end of a file whose bytes another host has than its inode, one under way.
    Write,
    /// The same, after each of which another client looks at the file.
    WriteAndStat,
    /// Files that are made, written once and closed, one under way.
    SmallFile,
    /// Writes behind the ends of many files, several under way.
    Writes,
}

impl Phase {
    pub(super) const ALL: [Phase; 4] = [Phase::Write, Phase::WriteAndStat, Phase::SmallFile, Phase::Writes];

    pub(super) fn title(self) -> &'static str {
        match self {
            Phase::Write => "Write behind the end of a file, one under way",
            Phase::WriteAndStat => "Write, and then a stat by another client",
            Phase::SmallFile => "Create, write and close of a file, one under way",
            Phase::Writes => "Writes behind the ends of many files",
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
    /// CPU time of the servers, µs.
    pub(super) cpu_us: f64,
    /// Records that homes have made.
    pub(super) records: f64,
    /// Flushes of hosts.
    pub(super) flushes: f64,
    /// Writes that went the way of the form: others went by the home.
    pub(super) share: f64,
}

/// Two clients of the servers of a form.
pub(super) struct Work<'a> {
    pub(super) servers: &'a Servers,
    pub(super) writer: &'a Client,
    pub(super) reader: &'a Client,
    pub(super) operations: usize,
    pub(super) window: usize,
    pub(super) bytes: usize,
    pub(super) form: Form,
    pub(super) wait: WaitMode,
    /// CPUs of servers and of clients.
    pub(super) cpu: usize,
    pub(super) clients: usize,
}

/// What hosts have counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Records of shards.
    records: u64,
    flushes: u64,
    /// Writes that data nodes have answered, and those of them that a table was to show.
    answered: u64,
    installed: u64,
    /// How files are tracked: another one when that has changed.
    epoch: u64,
}

impl Counts {
    /// Counters alone: what asking for them takes is not to be measured.
    fn of(servers: &Servers) -> anyhow::Result<Counts> {
        let mut counts = Counts::default();
        for (role, counters) in servers.counters()? {
            let of = |name: &str| counters[name].as_u64().unwrap_or(0);
            counts.flushes += of("flushes");
            counts.answered += of("writes_answered");
            counts.installed += of("writes_installed");
            if role.starts_with("shard") {
                counts.records += of("records");
                counts.epoch = counts.epoch.max(of("tracking_epoch"));
            }
        }
        Ok(counts)
    }
}

impl Work<'_> {
    /// All of it, and how long the echo of a write takes, µs.
    pub(super) fn all(&self) -> anyhow::Result<(Vec<(Phase, Cost)>, f64)> {
        let dir = self.writer.directory("dir")?;
        let count = self.operations;
        let made = self.made(dir, "one", TRIES)?;
        let map = ClusterMap::even(HOSTS, fixed_secrets().placement).with_data_nodes(&[1, 2]);
        let apart = |id| map.data(id) != NodeId::data(map.home(id).0 + 1); // a host has the shard before its number
        let (_, handle) = *made.iter().find(|(id, _)| apart(*id)).context("no file has its bytes elsewhere")?;
        self.writes(&[handle], 0, count / 10, 1)?; // from now on the file is lent, if files are
        let mut bytes = (0, 0);
        let write = self.cost(count, || {
            let begin = self.writer.traffic();
            let took = self.writes(&[handle], count / 10, count, 1)?;
            bytes = self.writer.traffic().bytes_each(begin, count);
            Ok(took)
        })?;
        self.writer.close(&opened(&made))?;
        let pairs = count / 4;
        let made = self.made(dir, "looked-at", 1)?;
        let (id, handle) = made[0];
        let seen = self.cost(pairs, || self.writes_seen(id, handle, pairs))?;
        self.writer.close(&opened(&made))?;
        let files = count / 4;
        self.small_files(dir, "warm", files / 10)?;
        let small = self.cost(files, || self.small_files(dir, "small", files))?;
        let made = self.made(dir, "many", self.window)?;
        let handles: Vec<Handle> = made.iter().map(|(_, handle)| *handle).collect();
        self.writes(&handles, 0, 4 * self.window, self.window)?;
        let many = self.cost(count, || self.writes(&handles, 4 * self.window, count, self.window))?;
        self.writer.close(&opened(&made))?;
        let echo = Echo::start(Way::One, self.wait, bytes, (self.cpu, self.clients))?;
        echo.latencies(count / 10)?;
        let echo_us = median(echo.latencies(count)?) / 1e3;
        let costs = [write, seen, small, many];
        Ok((Phase::ALL.into_iter().zip(costs).collect(), echo_us))
    }

    /// What that many operations cost, each with a write, which tell their latencies (ns) and their rate.
    fn cost(&self, operations: usize, run: impl FnOnce() -> anyhow::Result<(Vec<u32>, f64)>) -> anyhow::Result<Cost> {
        let used = || Ok::<u64, anyhow::Error>(Usage::now(&self.servers.processes())?.servers_ns);
        let (before, began) = (Counts::of(self.servers)?, used()?);
        let (latencies, rate) = run()?;
        let (ended, after) = (used()?, Counts::of(self.servers)?);
        ensure!(after.epoch == before.epoch, Interrupted);
        let went = match self.form {
            Form::Chain => operations as u64,
            Form::TwoPhase | Form::Owner | Form::OwnerAtOnce => after.answered - before.answered,
            Form::Network | Form::Kernel => after.installed - before.installed,
        };
        let share = went as f64 / operations as f64;
        let each = |after: u64, before: u64| (after - before) as f64 / operations as f64;
        Ok(Cost {
            us: median(latencies) / 1e3,
            rate,
            cpu_us: each(ended, began) / 1e3,
            records: each(after.records, before.records),
            flushes: each(after.flushes, before.flushes),
            share,
        })
    }

    /// New files, open.
    fn made(&self, dir: InodeId, prefix: &'static str, count: usize) -> anyhow::Result<Vec<(InodeId, Handle)>> {
        let ask = move |number: usize, _: &Found| create(dir, prefix, number);
        let made = self.writer.run(Load { count, window: 1, ask: Box::new(ask), timed: |_| false })?;
        made.found.into_iter().map(|(id, handle)| Ok((id, handle.context("a file that is not open")?))).collect()
    }

    /// Writes behind the ends of files, in turn, the first one of this number.
    fn writes(&self, handles: &[Handle], first: usize, count: usize, window: usize) -> anyhow::Result<(Vec<u32>, f64)> {
        let (handles, bytes) = (handles.to_vec(), self.bytes);
        let ask = move |number: usize, _: &Found| {
            let number = first + number;
            write(handles[number % handles.len()], number / handles.len() * bytes, bytes)
        };
        let done = self.writer.run(Load { count, window, ask: Box::new(ask), timed: |_| true })?;
        Ok((done.latencies, done.rate))
    }

    /// Writes behind the end, and looks of the other client, in turn.
    fn writes_seen(&self, id: InodeId, handle: Handle, count: usize) -> anyhow::Result<(Vec<u32>, f64)> {
        let one = |client: &Client, op: FsOp| -> anyhow::Result<u32> {
            let ask = move |_: usize, _: &Found| op.clone();
            let done = client.run(Load { count: 1, window: 1, ask: Box::new(ask), timed: |_| true })?;
            done.latencies.first().copied().context("no answer")
        };
        let pair = |number: usize| {
            Ok(one(self.writer, write(handle, number * self.bytes, self.bytes))? + one(self.reader, getattr(id))?)
        };
        let took = (0..count).map(pair).collect::<anyhow::Result<Vec<u32>>>()?;
        let rate = count as f64 * 1e9 / took.iter().map(|&ns| f64::from(ns)).sum::<f64>();
        Ok((took, rate))
    }

    fn small_files(&self, dir: InodeId, prefix: &'static str, count: usize) -> anyhow::Result<(Vec<u32>, f64)> {
        let bytes = self.bytes;
        let ask = move |number: usize, found: &Found| {
            let handle = found.last().and_then(|(_, handle)| *handle);
            match (number % OF_SMALL, handle) {
                (1, Some(handle)) => write(handle, 0, bytes),
                (2, Some(handle)) => FsOp::Release { handle, flock_owner: None },
                _ => create(dir, prefix, number / OF_SMALL),
            }
        };
        let done = self.writer.run(Load { count: OF_SMALL * count, window: 1, ask: Box::new(ask), timed: |_| true })?;
        let took = done.latencies.chunks(OF_SMALL).map(|of_file| of_file.iter().sum()).collect();
        Ok((took, done.rate / OF_SMALL as f64))
    }
}

fn write(handle: Handle, offset: usize, bytes: usize) -> FsOp {
    let data = vec![7; bytes].into();
    FsOp::Write { handle, offset: offset as u64, data, append: false, kill_suidgid: false, page: false }
}

fn opened(made: &[(InodeId, Handle)]) -> Vec<(InodeId, Option<Handle>)> {
    made.iter().map(|(id, handle)| (*id, Some(*handle))).collect()
}
