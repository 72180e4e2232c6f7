//! Worlds and loads in which removed rules show soon.

use onpath_meta::ShardBounds;
use onpath_sim::workload::WorkloadConfig;
use onpath_sim::world::{Commit, FaultConfig, WorldConfig};
use onpath_sim::{SimConfig, SyncPolicy};
use onpath_wire::tracking::{Form, Writes};

/// Few names, crashes and a network that delays and doubles.
pub(crate) fn hostile(seed: u64) -> SimConfig {
    let mut config = SimConfig { operations: 700, mounts: 0, writers: 0, lockers: 0, ..SimConfig::from_seed(seed) };
    config.workload = WorkloadConfig { names: 40, directories: 3, readdir_percent: 25, ..config.workload };
    config.world =
        WorldConfig { shards: 3, processes: 3, duplicate: 0.1, reorder: 0.2, crash_every: 400, ..config.world };
    config.world.checkpoint_us = 5_000_000; // settling takes many virtual seconds
    config.world.commit = if seed.is_multiple_of(2) { Commit::Sync } else { Commit::Interval(100) };
    config
}

/// Few names that are listed often, behind a network that delays and doubles much. A third of the seeds has crashes, a third a switch
/// that fails; a third has neither, so that nothing but the rules makes anybody collect.
pub(crate) fn network(seed: u64) -> SimConfig {
    let mut config = hostile(seed).with_switch();
    config.workload = WorkloadConfig { names: 16, directories: 3, readdir_percent: 40, ..config.workload };
    let (sync, reorder_us) = (SyncPolicy::Auto, 5_000);
    let world = WorldConfig { duplicate: 0.25, reorder: 0.4, loss: 0.02, power_loss: false, ..config.world };
    let world = WorldConfig { crash_every: 0, switch_fails_every_us: 0, switch_stages: 10, sync, reorder_us, ..world };
    config.world = match seed % 3 {
        0 => WorldConfig { crash_every: 150, ..world },
        1 => WorldConfig { switch_fails_every_us: 100_000, ..world },
        _ => world,
    };
    if seed.is_multiple_of(16) {
        config.world.switch_stages = 0;
    }
    config
}

/// A short run over very few names, in which nothing but messages goes wrong.
fn small(seed: u64) -> SimConfig {
    let mut config = hostile(seed);
    config.operations = 500;
    config.workload = WorkloadConfig { names: 12, directories: 2, ..config.workload };
    let (crash_every, power_loss, clock_skew_us, commit) = (0, false, 0, Commit::Interval(100));
    let faults = FaultConfig::default();
    config.world = WorldConfig { crash_every, power_loss, clock_skew_us, commit, faults, ..config.world };
    config
}

/// Copies of requests come when everybody has gone on.
pub(crate) fn late_copies(seed: u64) -> SimConfig {
    let config = small(seed);
    let world = WorldConfig { duplicate: 0.5, reorder: 0.3, reorder_us: 300_000, ..config.world };
    SimConfig { world, ..config }
}

/// Processes die all the time, and directories are hardly read.
pub(crate) fn restarts(seed: u64) -> SimConfig {
    let config = small(seed);
    let workload = WorkloadConfig { names: 6, readdir_percent: 5, ..config.workload };
    let world = WorldConfig { shards: 4, processes: 4, crash_every: 60, reorder_us: 30_000, ..config.world };
    SimConfig { workload, world, ..config }
}

/// Names are followed by path nodes in a tree that changes all the time. Two thirds of the seeds have restarts.
pub(crate) fn paths(seed: u64) -> SimConfig {
    let config = small(seed).with_path_nodes();
    let crash_every = [0, 200, 1_000][(seed % 3) as usize];
    let world = WorldConfig { shards: 1 + (seed % 4) as u16, reorder_us: 20_000, crash_every, ..config.world };
    let world = WorldConfig { processes: world.shards, bounds: ShardBounds::default(), ..world };
    SimConfig { sessions: 1, window: 1, operations: 1_500, world, ..config }
}

/// A switch answers for files that change all the time. Two thirds of the seeds have restarts, of the controller too, and half of them a switch
/// that fails.
pub(crate) fn cached(seed: u64) -> SimConfig {
    let config = small(seed).with_switch();
    let crash_every = [0, 300, 2_000][(seed % 3) as usize];
    let switch_fails_every_us = if seed.is_multiple_of(2) { 0 } else { 900_000 };
    let world =
        WorldConfig { shards: 1 + (seed % 3) as u16, crash_every, switch_fails_every_us, cache: true, ..config.world };
    let world =
        WorldConfig { processes: world.shards, reorder_us: 20_000, switches: 1, coarse_fingerprints: None, ..world };
    SimConfig { sessions: 1, window: 1, operations: 3_000, hot: 4, world, ..config }
}

/// The same where machines do not hear of each other for longer than path nodes have leases.
pub(crate) fn paths_cut_off(seed: u64) -> SimConfig {
    let config = paths(seed);
    let faults = FaultConfig { partition_every: 1_000, partitions_outlast_leases: true, ..config.world.faults };
    SimConfig { operations: 5_000, walkers: 16, world: WorldConfig { faults, ..config.world }, ..config }
}

/// Directories move into each other, and processes die all the time.
pub(crate) fn storms(seed: u64) -> SimConfig {
    let config = restarts(seed);
    let workload = WorkloadConfig { names: 8, directories: 4, moves_percent: 60, users: false, ..config.workload };
    let world = WorldConfig { shards: 3, processes: 3, ..config.world };
    SimConfig { operations: 800, workload, world, ..config }
}

/// Directories move into each other, each as if the tree were deep: what moves is walked through before its turn.
pub(crate) fn climbs(seed: u64) -> SimConfig {
    let config = storms(seed);
    let bounds = ShardBounds { turn_levels: (seed % 3) as u32, moves: 4, ..ShardBounds::default() };
    let world = WorldConfig { crash_every: 300, bounds, ..config.world };
    SimConfig { world, ..config }
}

/// Power fails often, and disks are flushed when they must be.
pub(crate) fn power_losses(seed: u64) -> SimConfig {
    let config = small(seed);
    let (commit, reorder_us) = (Commit::Interval(1_000), 100_000);
    let world = WorldConfig { crash_every: 100, power_loss: true, commit, reorder_us, ..config.world };
    SimConfig { world, ..config }
}

/// Few names are renamed, linked and removed all the time, and everybody loses power again and again. Half of the seeds have a switch, and a
/// third late copies.
pub(crate) fn renames_that_lose_power(seed: u64) -> SimConfig {
    let config = if seed.is_multiple_of(2) { small(seed).with_switch() } else { small(seed) };
    let workload = WorkloadConfig { names: 10, directories: 2, readdir_percent: 15, ..config.workload };
    let workload = WorkloadConfig { renames_percent: 40, users: false, ..workload };
    let (commit, crash_every) =
        (Commit::Interval([1, 20, 1_000][(seed % 3) as usize]), [60, 150, 400][(seed % 3) as usize]);
    let (duplicate, reorder_us) = if seed % 3 == 1 { (0.3, 100_000) } else { (0.05, 5_000) };
    let world = WorldConfig { power_loss: true, commit, crash_every, duplicate, reorder_us, ..config.world };
    SimConfig { sessions: 6, window: 2, operations: 700, workload, world, ..config }
}

/// A small world with a switch that has room and does not fail, where nothing goes into *sync*.
fn small_network(seed: u64) -> SimConfig {
    let mut config = small(seed).with_switch();
    config.workload = WorkloadConfig { names: 10, readdir_percent: 40, ..config.workload };
    let (sync, reorder_us) = (SyncPolicy::Never, 3_000);
    let world = WorldConfig { switch_stages: 10, coarse_fingerprints: None, switch_fails_every_us: 0, ..config.world };
    config.world = WorldConfig { sync, reorder_us, ..world };
    config
}

/// Somebody answers marks in the name of the switch.
pub(crate) fn forgers(seed: u64) -> SimConfig {
    let mut config = small_network(seed);
    config.world.faults.forged_percent = 30;
    config
}

/// Messages, and copies of most of them, come later than collects are repeated.
pub(crate) fn late_rounds(seed: u64) -> SimConfig {
    let config = small_network(seed);
    let world = WorldConfig { shards: 4, processes: 4, ..config.world };
    let world = WorldConfig { duplicate: 0.6, reorder: 0.3, reorder_us: 100_000, ..world };
    SimConfig { operations: 1_500, world, ..config }
}

/// Every other message is doubled.
pub(crate) fn copied_collects(seed: u64) -> SimConfig {
    let config = small_network(seed);
    let world = WorldConfig { duplicate: 0.5, reorder: 0.4, ..config.world };
    SimConfig { world, ..config }
}

/// Processes die often, the coordinator of epochs too.
pub(crate) fn network_restarts(seed: u64) -> SimConfig {
    let config = small_network(seed);
    let world = WorldConfig { crash_every: 120, duplicate: 0.3, reorder_us: 30_000, ..config.world };
    SimConfig { world, ..config }
}

/// Sessions that write to one file, and append to another.
pub(crate) fn writers(seed: u64) -> SimConfig {
    SimConfig { writers: 4, ..users(seed, 4_000) }
}

/// Shards in which little may wait for others, and which raise their floors often.
pub(crate) fn tight(seed: u64) -> SimConfig {
    let mut config = hostile(seed);
    config.world.bounds = ShardBounds { logs: 3, log_entries: 12, drops: 2, floor_every: 4, ..ShardBounds::default() };
    config
}

/// Sessions that die, one after another, and a mount with files of its own. Half of the seeds have no crashes, which would free locks.
pub(crate) fn mortals(seed: u64) -> SimConfig {
    SimConfig { mortals: 4, mounts: 1, ..users(seed, if seed.is_multiple_of(2) { 0 } else { 1_333 }) }
}

/// Sessions that come and go, and cache while they are alone.
pub(crate) fn cachers(seed: u64) -> SimConfig {
    SimConfig { cachers: 1, sessions: 1, ..users(seed, if seed.is_multiple_of(2) { 0 } else { 1_333 }) }
}

/// Sessions that lock one file.
pub(crate) fn lockers(seed: u64) -> SimConfig {
    SimConfig { lockers: 4, ..users(seed, 1_333) }
}

/// Sessions that write, where acknowledged changes may be lost. In every other seed all roles have one journal.
pub(crate) fn writers_that_lose_power(seed: u64) -> SimConfig {
    let world = WorldConfig {
        shards: 3,
        data_nodes: data_nodes(seed),
        crash_every: 1_000,
        power_loss: true,
        duplicate: 0.05,
        commit: Commit::Interval(5),
        ..WorldConfig::default()
    };
    SimConfig { seed, operations: 2_000, writers: 4, world, ..SimConfig::default() }
}

/// The same on more hosts, so that names of a directory and its home are on different ones.
pub(crate) fn directories_that_lose_power(seed: u64) -> SimConfig {
    let config = writers_that_lose_power(seed);
    SimConfig { world: WorldConfig { processes: 3, data_nodes: 2, ..config.world }, ..config }
}

/// One or two.
pub(crate) fn data_nodes(seed: u64) -> u16 {
    1 + u16::from(seed.is_multiple_of(2))
}

fn users(seed: u64, crash_every: u64) -> SimConfig {
    let world =
        WorldConfig { shards: 3, processes: 3, crash_every, reorder: 0.2, loss: 0.05, ..WorldConfig::default() };
    SimConfig { seed, operations: 2_000, world, ..SimConfig::default() }
}

/// Sessions that write and read the same files, which are lent to data nodes. Two thirds of the seeds have restarts.
pub(crate) fn lent(seed: u64) -> SimConfig {
    let config = writers(seed);
    let crash_every = [0, 300, 1_500][(seed % 3) as usize];
    let world =
        WorldConfig { writes: Writes::Visible, shards: 2, processes: 2, data_nodes: 3, crash_every, ..config.world };
    SimConfig { operations: 1_500, mounts: 3, world, ..config }
}

/// The same with more writers and without restarts.
pub(crate) fn lent_to_many(seed: u64) -> SimConfig {
    let config = lent(seed);
    SimConfig { writers: 10, world: WorldConfig { crash_every: 0, ..config.world }, ..config }
}

/// The same where sessions bring homes what data nodes have recorded.
pub(crate) fn lent_in_two_phases(seed: u64) -> SimConfig {
    let config = lent(seed);
    SimConfig { world: WorldConfig { writes: Writes::TwoPhase, ..config.world }, ..config }
}

/// The same where tables of switches show what is pending. A third of the seeds has restarts, and a third switches that fail; half of them
/// have one entry for all files of a data node, the others two switches.
pub(crate) fn lent_in_tables(seed: u64) -> SimConfig {
    let config = lent(seed);
    let narrow = seed.is_multiple_of(2);
    let coarse_fingerprints = narrow.then_some(0);
    let switch_fails_every_us = [0, 100_000, 0][(seed % 3) as usize];
    let crash_every = [0, 0, 300][(seed % 3) as usize];
    let (form, switches) = (Form::Network, if narrow { 1 } else { 2 });
    let world = WorldConfig { form, switches, coarse_fingerprints, switch_fails_every_us, crash_every, ..config.world };
    SimConfig { world, ..config }
}
