//! What is asked of a form, and how long it takes.

use crate::bench::net::client::{Client, Found, Load, create, getattr};
use onpath_session::fs::FsOp;
use onpath_wire::ids::InodeId;
use onpath_wire::map::ClusterMap;
use serde::Serialize;

/// Warm creates in each directory: every shard gets names of it.
const WARM: usize = 16;

/// What names of creates one after the other begin with.
const CREATES: &str = "one";

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Phase {
    /// Creates in all directories in turn, one under way.
    Create,
    /// The same, each right after a stat of its directory.
    CreateAfterStatdir,
    /// Stats of directories in each of which a file has just been made, one under way.
    StatdirAfterCreate,
    /// Stats of directories that nobody changes, one under way.
    Statdir,
    /// Creates in all directories, several under way.
    CreatesInAll,
    /// The same in one directory: the first one.
    CreatesInOne,
    /// As many creates as stats in all directories, several under way.
    Mixed,
    /// Stats of directories that nobody changes, several under way.
    Statdirs,
}

impl Phase {
    pub(super) const ALL: [Phase; 8] = [
        Phase::Create,
        Phase::CreateAfterStatdir,
        Phase::StatdirAfterCreate,
        Phase::Statdir,
        Phase::CreatesInAll,
        Phase::CreatesInOne,
        Phase::Mixed,
        Phase::Statdirs,
    ];

    /// Whether several are under way.
    pub(super) fn is_many(self) -> bool {
        matches!(self, Phase::CreatesInAll | Phase::CreatesInOne | Phase::Mixed | Phase::Statdirs)
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Phase::Create => "Create, in all directories in turn, one under way",
            Phase::CreateAfterStatdir => "Create right after a stat of its directory, one under way",
            Phase::StatdirAfterCreate => "Stat of a directory right after a create in it, one under way",
            Phase::Statdir => "Stat of a directory that nobody changes, one under way",
            Phase::CreatesInAll => "Creates in all directories",
            Phase::CreatesInOne => "Creates in one directory",
            Phase::Mixed => "As many creates as stats of directories, in all directories",
            Phase::Statdirs => "Stats of directories that nobody changes",
        }
    }
}

/// How long requests took, ns, and how many were answered a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) median: f64,
    pub(super) mean: f64,
    pub(super) p99: f64,
    pub(super) rate: f64,
}

impl Times {
    fn of(mut all: Vec<u32>, rate: f64) -> Times {
        all.sort_unstable();
        let at = |share: f64| all.get((all.len() as f64 * share) as usize).copied().unwrap_or(0).into();
        let mean = all.iter().map(|&ns| f64::from(ns)).sum::<f64>() / all.len().max(1) as f64;
        Times { median: at(0.5), mean, p99: at(0.99), rate }
    }
}

/// A form's servers, asked.
pub(super) struct Work<'a> {
    pub(super) client: &'a Client,
    pub(super) dirs: &'a [InodeId],
    pub(super) operations: usize,
    pub(super) window: usize,
}

impl Work<'_> {
    /// Makes files in every directory, so that grants are held and marks are there as far as they stay.
    pub(super) fn warm(&self) -> anyhow::Result<()> {
        let dirs = self.dirs.to_vec();
        self.ask(self.dirs.len() * WARM, self.window, move |number| create(dirs[number % dirs.len()], "warm", number))?;
        Ok(())
    }

    /// The directories of those creates of [`Work::creates`] that another shard does than that of the directory: only these need a mark.
    pub(super) fn creates_away(&self, map: &ClusterMap) -> Vec<InodeId> {
        let dirs = (0..self.operations).map(|number| (number, self.dirs[number % self.dirs.len()]));
        let away = dirs.filter(|&(number, dir)| {
            let name = format!("{CREATES}{number}");
            map.shard(map.site(dir, name.as_bytes())) != map.home(dir)
        });
        away.map(|(_, dir)| dir).collect()
    }

    /// Creates, one after the other.
    pub(super) fn creates(&self) -> anyhow::Result<Times> {
        let dirs = self.dirs.to_vec();
        self.ask(self.operations, 1, move |number| create(dirs[number % dirs.len()], CREATES, number))
            .map(|(latencies, rate)| Times::of(latencies, rate))
    }

    /// Creates and stats of the directory where a file was just made; the next create there is right after a stat.
    pub(super) fn alternate(&self) -> anyhow::Result<[(Phase, Times); 2]> {
        let dirs = self.dirs.to_vec();
        let (latencies, rate) = self.ask(self.operations, 1, move |number| {
            let dir = dirs[number / 4 % dirs.len()];
            if number.is_multiple_of(2) { create(dir, "turn", number) } else { getattr(dir) }
        })?;
        // Of four: create, stat, create, stat.
        let every = |first: usize, step: usize| latencies.iter().skip(first).step_by(step).copied().collect();
        Ok([
            (Phase::CreateAfterStatdir, Times::of(every(2, 4), rate)),
            (Phase::StatdirAfterCreate, Times::of(every(1, 2), rate)),
        ])
    }

    /// The rest, several under way but for the third.
    pub(super) fn others(&self) -> anyhow::Result<[(Phase, Times); 5]> {
        let (count, window) = (self.operations, self.window);
        let run = |window, ask: &dyn Fn(Vec<InodeId>) -> Box<dyn Fn(usize) -> FsOp + Send>| {
            let (latencies, rate) = self.ask(count, window, ask(self.dirs.to_vec()))?;
            anyhow::Ok(Times::of(latencies, rate))
        };
        let all = run(window, &|dirs| Box::new(move |number| create(dirs[number % dirs.len()], "all", number)))?;
        let one = run(window, &|dirs| Box::new(move |number| create(dirs[0], "same", number)))?;
        let mixed = run(window, &|dirs| {
            Box::new(move |number| {
                let dir = dirs[number / 2 % dirs.len()];
                if number.is_multiple_of(2) { create(dir, "mixed", number) } else { getattr(dir) }
            })
        })?;
        // A stat of each brings together what is left of its updates.
        let dirs = self.dirs.to_vec();
        self.ask(self.dirs.len(), 1, move |number| getattr(dirs[number % dirs.len()]))?;
        let still = |dirs: Vec<InodeId>| -> Box<dyn Fn(usize) -> FsOp + Send> {
            Box::new(move |number| getattr(dirs[number % dirs.len()]))
        };
        let (statdir, statdirs) = (run(1, &still)?, run(window, &still)?);
        Ok([
            (Phase::CreatesInAll, all),
            (Phase::CreatesInOne, one),
            (Phase::Mixed, mixed),
            (Phase::Statdir, statdir),
            (Phase::Statdirs, statdirs),
        ])
    }

    /// Asks, and closes what that has opened.
    fn ask(
        &self,
        count: usize,
        window: usize,
        ask: impl Fn(usize) -> FsOp + Send + 'static,
    ) -> anyhow::Result<(Vec<u32>, f64)> {
        let ask = move |number: usize, _: &Found| ask(number);
        let done = self.client.run(Load { count, window, ask: Box::new(ask), timed: |_| true })?;
        if done.found.iter().any(|(_, handle)| handle.is_some()) {
            self.client.close(&done.found)?;
        }
        Ok((done.latencies, done.rate))
    }
}
