//! Worlds and loads in which removed rules show soon.

use onpath_sim::workload::WorkloadConfig;
use onpath_sim::world::{Commit, WorldConfig};
use onpath_sim::{SimConfig, SyncPolicy};

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

/// Few names that are listed often, behind a network that delays and doubles much. A sixth of the seeds has crashes, a sixth a switch
/// that fails; a sixth has neither, so that nothing but the rules makes anybody collect. Where *sync* is decided beforehand
/// messages are later than collects take, and the switch is small.
pub(crate) fn network(seed: u64) -> SimConfig {
    let mut config = hostile(seed).with_switch();
    config.operations = 1_500;
    config.workload = WorkloadConfig { names: 16, directories: 3, readdir_percent: 40, ..config.workload };
    let (sync, reorder_us) = (SyncPolicy::Auto, 5_000);
    let world = WorldConfig { duplicate: 0.25, reorder: 0.4, loss: 0.02, power_loss: false, ..config.world };
    let world = WorldConfig { crash_every: 0, switch_fails_every_us: 0, switch_stages: 10, sync, reorder_us, ..world };
    let late = WorldConfig { reorder_us: 30_000, switch_stages: 1, coarse_fingerprints: Some(0), ..world.clone() };
    config.world = match seed % 6 {
        0 => WorldConfig { crash_every: 150, ..world },
        1 => WorldConfig { switch_fails_every_us: 100_000, ..world },
        2 => world,
        3 => WorldConfig { sync: SyncPolicy::Never, loss: 0.1, switch_fails_every_us: 20_000, ..late },
        4 if seed % 12 == 10 => {
            WorldConfig { sync: SyncPolicy::Always, shards: 4, switch_fails_every_us: 20_000, ..late }
        }
        4 => {
            config.workload = WorkloadConfig { names: 4, readdir_percent: 15, ..config.workload };
            let (shards, commit, sync) = (4, Commit::Interval(5), SyncPolicy::Always);
            WorldConfig { shards, commit, sync, duplicate: 0.0, reorder: 0.8, switch_fails_every_us: 20_000, ..late }
        }
        _ if seed % 12 == 5 => WorldConfig { sync: SyncPolicy::Never, crash_every: 150, ..late },
        _ => {
            config.window = 1;
            config.workload = WorkloadConfig { names: 40, directories: 6, readdir_percent: 60, ..config.workload };
            WorldConfig { sync: SyncPolicy::Never, reorder: 0.05, reorder_us: 5_000, ..late }
        }
    };
    if seed.is_multiple_of(16) {
        config.world.switch_stages = 0;
    }
    config
}

/// Sessions that write to one file, and append to another.
pub(crate) fn writers(seed: u64) -> SimConfig {
    SimConfig { writers: 4, ..users(seed, 4_000) }
}

/// Sessions that lock one file.
pub(crate) fn lockers(seed: u64) -> SimConfig {
    SimConfig { lockers: 4, ..users(seed, 1_333) }
}

/// Sessions that write, where acknowledged changes may be lost.
pub(crate) fn writers_that_lose_power(seed: u64) -> SimConfig {
    let world = WorldConfig {
        shards: 3,
        crash_every: 1_000,
        power_loss: true,
        duplicate: 0.05,
        commit: Commit::Interval(5),
        ..WorldConfig::default()
    };
    SimConfig { seed, operations: 2_000, writers: 4, world, ..SimConfig::default() }
}

fn users(seed: u64, crash_every: u64) -> SimConfig {
    let world =
        WorldConfig { shards: 3, processes: 3, crash_every, reorder: 0.2, loss: 0.05, ..WorldConfig::default() };
    SimConfig { seed, operations: 2_000, world, ..SimConfig::default() }
}
