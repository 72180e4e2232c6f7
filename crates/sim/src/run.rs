//! A whole simulation from a seed: a world, a workload, peace at the end, and a comparison of everything.

use crate::audit;
use crate::check::{Checks, Excuses, Load};
use crate::users::{
    Appenders, Cachers, Directories, Durable, Entangled, Hot, Lockers, Mortals, Private, User, Walkers, Writers,
};
use crate::workload::{Workload, WorkloadConfig};
use crate::world::{Commit, Counters, FaultConfig, World, WorldConfig};
use onpath_meta::{ShardBounds, SyncPolicy};
use onpath_path::IndexKind;
use onpath_wire::tracking::Form;
use std::collections::BTreeMap;

/// What is simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct SimConfig {
    /// Everything random comes from it.
    pub seed: u64,
    /// Raw clients.
    pub sessions: usize,
    /// Users of real sessions beside them, each with two mounts and a directory of their own.
    pub mounts: usize,
    /// Sessions that write to one file at the same time, and as many that append to another; where acknowledged changes may
    /// be lost, so many that each have a file, and half as many that each have a directory; 0: none.
    pub writers: usize,
    /// Sessions that lock one file, of which the last one dies, and as many that lock several files and come to wait for each other
    /// in circles; 0: none.
    pub lockers: usize,
    /// Sessions that die, one after another, with what they have open, locked and under way; 0: none.
    pub mortals: usize,
    /// Sessions that come and go, and whose kernels cache while they are alone: 1, or 0. Others of real sessions would never leave
    /// them alone.
    pub cachers: usize,
    /// Sessions that follow names by path nodes, in a tree that one more changes; 0: none.
    pub walkers: usize,
    /// Sessions that look at files for which a switch answers, while one of them changes these; 0: none.
    pub hot: usize,
    /// Requests that each client has under way at once.
    pub window: usize,
    /// Operations in all.
    pub operations: u64,
    /// The world; its seed is replaced.
    pub world: WorldConfig,
    /// The workload; its seed is replaced.
    pub workload: WorkloadConfig,
}

/// Of so many seeds in a row one is narrow ([`SimConfig::with_switch`]).
const NARROW_EVERY: u64 = 8;
/// Which one.
const NARROW: u64 = 6;

/// Of so many seeds in a row one has shards in which little may wait.
const TIGHT_EVERY: u64 = 16;
/// Which one.
const TIGHT: u64 = 15;
/// How little.
const TIGHT_BOUNDS: ShardBounds =
    ShardBounds { logs: 6, log_entries: 24, drops: 2, floor_every: 8, turn_levels: 1, moves: 2, climb_levels: 1 << 17 };

impl Default for SimConfig {
    fn default() -> Self {
        SimConfig {
            seed: 1,
            sessions: 4,
            mounts: 0,
            writers: 0,
            lockers: 0,
            mortals: 0,
            cachers: 0,
            walkers: 0,
            hot: 0,
            window: 2,
            operations: 20_000,
            world: WorldConfig::default(),
            workload: WorkloadConfig::default(),
        }
    }
}

impl SimConfig {
    /// The same with directories tracked in the network; how small the switch is and how often it fails is drawn from the seed. An
    /// eighth of the seeds is *narrow*: *sync* is never chosen, or always, there are few names, and messages are late by more than
    /// a collect takes.
    pub fn with_switch(mut self) -> SimConfig {
        let pick = |salt, n| draw(self.seed, salt, n);
        self.world.form = Form::Network;
        self.world.switch_stages = [10, 10, 10, 1, 0][pick(18, 5) as usize];
        self.world.coarse_fingerprints = [None, None, Some(0), Some(2)][pick(20, 4) as usize];
        self.world.switch_fails_every_us = [0, 0, 300_000, 2_000_000][pick(19, 4) as usize];
        self.world.faults.forged_percent = [0, 0, 20][pick(52, 3) as usize];
        (self.world.sync, self.world.reorder_us) = (SyncPolicy::Auto, WorldConfig::default().reorder_us);
        if self.seed % NARROW_EVERY == NARROW {
            self.world.sync = [SyncPolicy::Never, SyncPolicy::Always][pick(40, 2) as usize];
            self.world.reorder_us = [5_000, 30_000, 150_000][pick(41, 3) as usize];
            self.workload.names = [6, 16, 40][pick(42, 3) as usize];
            self.workload.directories = [2, 3][pick(43, 2) as usize];
        }
        self
    }

    /// The same with path nodes, and sessions that follow names by them.
    pub fn with_path_nodes(mut self) -> SimConfig {
        self.world.path_nodes = 1 + draw(self.seed, 60, 2) as u16;
        self.world.path_loads = draw(self.seed, 63, 2) == 0;
        self.world.path_index = IndexKind::ALL[draw(self.seed, 62, 3) as usize];
        self.world.path_bytes = self.world.path_index.bytes_min() * [1, 8][draw(self.seed, 61, 2) as usize];
        (self.walkers, self.cachers) = (3, 0);
        self
    }

    /// A configuration drawn from the seed alone: weather, shape and load differ from seed to seed.
    pub fn from_seed(seed: u64) -> SimConfig {
        let pick = |salt, n| draw(seed, salt, n);
        let rough = pick(1, 4);
        let world = WorldConfig {
            shards: [1, 2, 2, 3, 4][pick(2, 5) as usize],
            processes: [1, 1, 2, 3][pick(3, 4) as usize],
            data_nodes: [1, 1, 2, 3][pick(51, 4) as usize],
            loss: [0.0, 0.01, 0.05, 0.1][rough as usize],
            duplicate: [0.0, 0.01, 0.05, 0.1][pick(4, 4) as usize],
            reorder: [0.0, 0.02, 0.1, 0.2][pick(5, 4) as usize],
            crash_every: [0, 300, 2_000, 10_000][pick(6, 4) as usize],
            power_loss: pick(7, 2) == 0,
            commit: [Commit::Interval(100), Commit::Sync][pick(8, 2) as usize],
            checkpoint_us: [5_000, 50_000][pick(15, 2) as usize],
            clock_skew_us: [0, 1_000, 100_000][pick(9, 3) as usize],
            faults: FaultConfig {
                partition_every: [0, 0, 1_000, 5_000][pick(30, 4) as usize],
                partitions_outlast_leases: false,
                slow_every: [0, 0, 2_000][pick(31, 3) as usize],
                jump_every: [0, 1_000][pick(32, 2) as usize],
                wrong_clock_every: [0, 0, 0, 5_000][pick(33, 4) as usize],
                full_every: [0, 0, 3_000][pick(34, 3) as usize],
                torn_percent: [0, 50][pick(35, 2) as usize],
                flipped_percent: [0, 50][pick(36, 2) as usize],
                forged_percent: 0,
            },
            bounds: if seed % TIGHT_EVERY == TIGHT { TIGHT_BOUNDS } else { ShardBounds::default() },
            ..WorldConfig::default()
        };
        let in_halves = world.may_halve() && pick(39, 3) == 0;
        let world = WorldConfig { processes: world.processes.min(world.shards), in_halves, ..world };
        let workload = WorkloadConfig {
            names: [30, 200, 1_500][pick(10, 3) as usize],
            directories: [2, 6, 24][pick(11, 3) as usize],
            readdir_percent: [10, 25][pick(12, 2) as usize],
            ..WorkloadConfig::default()
        };
        let alone = pick(50, 4) == 0;
        let mixed = |drawn: usize| if alone { 0 } else { drawn };
        SimConfig {
            seed,
            sessions: 4 + pick(13, 3) as usize,
            window: 1 + pick(14, 3) as usize,
            mounts: mixed([0, 0, 1][pick(38, 3) as usize]),
            writers: mixed([0, 4][pick(16, 2) as usize]),
            lockers: mixed([0, 3][pick(17, 2) as usize]),
            mortals: mixed([0, 0, 3][pick(37, 3) as usize]),
            cachers: usize::from(alone),
            world,
            workload,
            ..SimConfig::default()
        }
    }
}

/// In how many bytes each walker keeps ways: some keep none.
fn kept_bytes(config: &SimConfig) -> Vec<usize> {
    let bytes = |walker| [0, IndexKind::Hi.bytes_min(), 1 << 20][draw(config.seed, 70 + walker, 3) as usize];
    (0..config.walkers as u64).map(bytes).collect()
}

/// One of `n` things that a seed decides.
fn draw(seed: u64, salt: u64, n: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(&salt.to_le_bytes(), seed) % n
}

/// How a simulation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Operations answered.
    pub operations: u64,
    /// What was found wrong.
    pub violations: Vec<String>,
    /// Hash of everything that happened.
    pub trace: u64,
    /// What the world did.
    pub counters: Counters,
    /// What was checked.
    pub checks: Checks,
    /// What looked wrong and passed.
    pub excuses: Excuses,
    /// What accounts for that.
    pub load: Load,
    /// What the switch counted, if there was one.
    pub switch: BTreeMap<&'static str, u64>,
    /// Most names alive at once.
    pub names_max: usize,
}

/// Virtual time after which an operation that is not answered counts as stuck, ns.
const STUCK_NS: u64 = 120_000_000_000;

/// Users of real sessions.
fn begin_users(world: &mut World, config: &SimConfig) -> Vec<Box<dyn User>> {
    let mut users: Vec<Box<dyn User>> = vec![];
    let may_lose = config.world.power_loss && config.world.commit != Commit::Sync;
    for user in 0..if may_lose { 0 } else { config.mounts as u64 } {
        users.push(Box::new(Private::begin(world, config.seed + user)));
    }
    match config.writers {
        0 => {}
        writers if may_lose => {
            world.hold_crashes();
            for user in 0..writers as u64 {
                users.push(Box::new(Durable::begin(world, config.seed + user)));
            }
            for user in 0..writers.div_ceil(2) as u64 {
                users.push(Box::new(Directories::begin(world, config.seed + user)));
            }
        }
        writers => {
            users.push(Box::new(Writers::begin(world, config.seed, writers)));
            users.push(Box::new(Appenders::begin(world, config.seed, writers)));
        }
    }
    if config.lockers > 0 && !may_lose {
        users.push(Box::new(Lockers::begin(world, config.seed, config.lockers)));
        users.push(Box::new(Entangled::begin(world, config.seed, config.lockers)));
    }
    if config.cachers > 0 && !may_lose {
        users.push(Box::new(Cachers::begin(world, config.seed)));
    }
    if config.walkers > 0 && !may_lose {
        users.push(Box::new(Walkers::begin(world, config.seed, &kept_bytes(config))));
    }
    if config.hot > 0 && !may_lose {
        users.push(Box::new(Hot::begin(world, config.seed, config.hot)));
    }
    if config.mortals > 0 {
        if may_lose {
            world.hold_crashes();
        }
        users.push(Box::new(Mortals::begin(world, config.seed, config.mortals, !config.world.power_loss)));
    }
    users
}

/// Runs a simulation.
pub fn run(config: &SimConfig) -> Outcome {
    run_narrated(config, None)
}

/// Runs a simulation; `narrator` hears everything that happens, in words.
pub fn run_narrated(config: &SimConfig, narrator: Option<Box<dyn FnMut(String)>>) -> Outcome {
    let mut world = World::new(WorldConfig { seed: config.seed, ..config.world.clone() });
    world.narrator = narrator;
    let mut workload = Workload::new(WorkloadConfig { seed: config.seed ^ 0x9e37, ..config.workload.clone() });
    for _ in 0..config.sessions {
        world.add_client();
    }
    let (mut operations, mut names_max) = (0, 0);
    let opener = world.add_client();
    world.submit(opener, Workload::opening());
    let _ = world.step(STUCK_NS);
    for client in 0..config.sessions {
        for _ in 0..config.window {
            let asked = workload.next(&world.checker.model);
            world.submit(client, asked);
        }
    }
    let mut users = begin_users(&mut world, config);
    while operations < config.operations && world.checker.violations.is_empty() {
        let done = world.step(world.now_ns() + STUCK_NS);
        operations += 1;
        if !world.is_rough() && users.iter().all(|user| user.is_settled()) {
            world.roughen();
        }
        names_max = names_max.max(world.checker.model.names_live());
        match (done, world.finished()) {
            (None, None) => world.checker.violation("no operation is answered any more".into()),
            (Some(done), _) => {
                workload.learn(&done.asked, &done.reply);
                let asked = workload.next(&world.checker.model);
                world.submit(done.client, asked);
            }
            (None, Some(finished)) => audit::pass_on(&mut world, &mut users, finished),
        }
    }
    if world.checker.violations.is_empty() {
        operations += audit::settle(&mut world, &mut users);
        world.judge_excuses();
    }
    Outcome {
        seed: config.seed,
        operations,
        trace: world.digest(),
        counters: world.counters(),
        switch: world.switch_counters(),
        checks: world.checker.checks,
        excuses: world.checker.excuses,
        load: world.load(),
        violations: std::mem::take(&mut world.checker.violations),
        names_max,
    }
}
