//! Losses of power where data nodes answer writes: seeds in which the checker did not know exactly what they may take.

use onpath_sim::{SimConfig, run};
use onpath_wire::tracking::Writes;

fn is_clean(config: SimConfig, writes: Writes) {
    let mut config = SimConfig { operations: 1_500, ..config };
    config.world.writes = writes;
    let outcome = run(&config);
    assert!(outcome.violations.is_empty(), "seed {}: {:#?}", outcome.seed, outcome.violations);
}

/// Several losses in a row: a home undoes an append, loses that, and undoes it again.
#[test]
fn an_append_is_undone_once_more() {
    is_clean(SimConfig::from_seed(100).with_path_nodes(), Writes::Visible);
    is_clean(SimConfig::from_seed(1649), Writes::Visible);
    is_clean(SimConfig::from_seed(2112).with_path_nodes(), Writes::Visible);
}

/// A home has learned of a write, by itself or from a table, whose bytes or record the data node loses.
#[test]
fn a_home_keeps_the_size_of_a_write_that_is_done_again() {
    is_clean(SimConfig::from_seed(1354), Writes::TwoPhase);
    is_clean(SimConfig::from_seed(6591), Writes::TwoPhase);
    is_clean(SimConfig::from_seed(2245).with_switch(), Writes::Visible);
    is_clean(SimConfig::from_seed(3823).with_switch(), Writes::Visible);
}

/// A process is killed before it has noted that it serves after a loss: a sync says that something may be gone.
#[test]
fn a_sync_says_that_something_may_be_gone_after_a_kill() {
    is_clean(SimConfig::from_seed(3836).with_path_nodes(), Writes::TwoPhase);
}
