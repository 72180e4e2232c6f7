//! Callers of every kind (capabilities, user namespaces) over several shards: what each may do is what the model says.

use onpath_sim::workload::WorkloadConfig;
use onpath_sim::world::WorldConfig;
use onpath_sim::{SimConfig, run};

#[test]
fn capabilities_decide_on_every_shard_as_in_the_model() {
    for seed in 1..=6 {
        let world = WorldConfig { loss: 0.02, duplicate: 0.02, processes: 2, shards: 3, ..WorldConfig::default() };
        let workload = WorkloadConfig { names: 300, capable: true, ..WorkloadConfig::default() };
        let outcome = run(&SimConfig { seed, operations: 4_000, world, workload, ..SimConfig::default() });
        assert!(outcome.violations.is_empty(), "seed {seed}: {:#?}", outcome.violations);
    }
}
