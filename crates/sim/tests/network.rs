//! The network form in the simulator: marks, queries and collects through a switch that loses, is full, fails.

use onpath_sim::run::{Outcome, SimConfig, run};
use onpath_sim::world::{Commit, WorldConfig};
use onpath_wire::tracking::Form;

/// Runs a few seeds; nothing may be wrong.
fn clean(operations: u64, seeds: std::ops::Range<u64>, world: &WorldConfig) -> Vec<Outcome> {
    seeds
        .map(|seed| {
            let world = WorldConfig { form: Form::Network, ..world.clone() };
            let outcome = run(&SimConfig { seed, operations, world, ..SimConfig::default() });
            assert!(outcome.violations.is_empty(), "seed {seed}: {:#?}", outcome.violations);
            outcome
        })
        .collect()
}

#[test]
fn in_good_weather() {
    for outcome in clean(5_000, 1..6, &WorldConfig { shards: 3, processes: 3, ..WorldConfig::default() }) {
        for counter in ["insert_marked", "query_normal", "query_scattered", "remove_done"] {
            assert!(outcome.switch.contains_key(counter), "the switch has no {counter}: {:?}", outcome.switch);
        }
    }
}

#[test]
fn with_loss() {
    let world =
        WorldConfig { shards: 3, processes: 3, loss: 0.05, duplicate: 0.1, reorder: 0.1, ..WorldConfig::default() };
    clean(5_000, 1..6, &world);
}

#[test]
fn with_a_full_set() {
    clean(
        5_000,
        1..4,
        &WorldConfig { shards: 3, processes: 3, switch_stages: 0, reorder: 0.1, ..WorldConfig::default() },
    );
}

#[test]
fn with_crashes() {
    let world = WorldConfig { shards: 3, processes: 3, crash_every: 600, reorder: 0.1, ..WorldConfig::default() };
    clean(5_000, 1..6, &world);
}

#[test]
fn with_power_losses() {
    let commit = Commit::Sync;
    let world =
        WorldConfig { shards: 3, processes: 2, crash_every: 600, power_loss: true, commit, ..WorldConfig::default() };
    clean(5_000, 1..6, &world);
}

#[test]
fn with_a_switch_that_fails() {
    let world =
        WorldConfig { shards: 3, processes: 3, switch_fails_every_us: 500_000, reorder: 0.1, ..WorldConfig::default() };
    let outcomes = clean(10_000, 1..6, &world);
    assert!(outcomes.iter().all(|outcome| outcome.counters.switch_boots > 1), "it failed each time");
}

#[test]
fn with_several_switches() {
    for (switches, fails) in [(2, 0), (3, 300_000), (8, 200_000)] {
        let world = WorldConfig { switches, switch_fails_every_us: fails, reorder: 0.1, ..crowd() };
        let outcomes = clean(10_000, 1..4, &world);
        let boots = u64::from(switches) + u64::from(fails > 0);
        assert!(outcomes.iter().all(|outcome| outcome.counters.switch_boots >= boots));
        assert!(outcomes.iter().all(|outcome| outcome.switch.contains_key("query_normal")));
    }
}

#[test]
fn with_several_switches_that_fail_and_crashes() {
    let (crash_every, switch_fails_every_us) = (600, 300_000);
    clean(5_000, 1..6, &WorldConfig { switches: 3, crash_every, switch_fails_every_us, loss: 0.05, ..crowd() });
}

fn crowd() -> WorldConfig {
    WorldConfig { shards: 3, processes: 3, ..WorldConfig::default() }
}

/// Seeds that found something once.
#[test]
fn seeds_that_failed_once_are_clean() {
    for seed in
        [53, 107, 108, 119, 263, 499, 656, 944, 1032, 1446, 2040, 2050, 2257, 3011, 3549, 4142, 4219, 4284, 4288, 4560]
    {
        let config = SimConfig { operations: 1_000, ..SimConfig::from_seed(seed).with_switch() };
        let outcome = run(&config);
        assert!(outcome.violations.is_empty(), "seed {seed}: {:#?}", outcome.violations);
    }
}
