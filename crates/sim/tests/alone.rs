//! Sessions that cache while they are alone, and hand that back before another one acts.

use onpath_sim::world::WorldConfig;
use onpath_sim::{SimConfig, run};

fn cachers(seed: u64) -> SimConfig {
    let world =
        WorldConfig { shards: 2, processes: 2, loss: 0.02, duplicate: 0.05, reorder: 0.1, ..WorldConfig::default() };
    SimConfig { seed, sessions: 1, operations: 3_000, cachers: 1, world, ..SimConfig::default() }
}

/// Nothing that a kernel answers by itself is old, and it answers a lot, whatever else goes wrong.
#[test]
fn what_is_cached_is_true() {
    let (mut cached, mut successors) = (0, 0);
    for seed in 1..=12 {
        let mut config = cachers(seed);
        config.world.crash_every = if seed % 2 == 0 { 0 } else { 600 };
        let outcome = run(&config);
        assert_eq!(outcome.violations, Vec::<String>::new(), "seed {seed}");
        cached += outcome.counters.cached;
        successors += outcome.counters.faults.successors;
    }
    assert!(cached > 1_000, "{cached} answers");
    assert!(successors > 12, "{successors} sessions had the id of one that was over");
}
