//! Every kind of fault, alone and together: it really happens, as the counters say, and nothing is wrong after it.

use onpath_sim::world::{Commit, FaultCounters, WorldConfig};
use onpath_sim::{FaultKind, Outcome, SimConfig, run};

/// A few seeds with these faults, the sum of what went wrong in them.
fn weather(kinds: &[FaultKind], config: SimConfig) -> Outcome {
    let mut sum: Option<Outcome> = None;
    for seed in 1..=3 {
        let world = WorldConfig { shards: 3, processes: 2, ..config.world.clone() };
        let config = SimConfig { seed, world, operations: 2_500, ..config.clone() }.with_faults(kinds);
        let outcome = run(&config);
        assert!(outcome.violations.is_empty(), "seed {seed}: {:#?}\n{config:#?}", outcome.violations);
        sum = Some(match sum {
            None => outcome,
            Some(sum) => add(sum, &outcome),
        });
    }
    sum.expect("some seeds")
}

fn add(mut sum: Outcome, more: &Outcome) -> Outcome {
    let (to, from) = (&mut sum.counters, &more.counters);
    to.kills += from.kills;
    to.power_losses += from.power_losses;
    let (to, from) = (&mut to.faults, &from.faults);
    *to = FaultCounters {
        partitions: to.partitions + from.partitions,
        cut: to.cut + from.cut,
        slow: to.slow + from.slow,
        slowed: to.slowed + from.slowed,
        jumps: to.jumps + from.jumps,
        wrong_clocks: to.wrong_clocks + from.wrong_clocks,
        refused: to.refused + from.refused,
        full: to.full + from.full,
        no_space: to.no_space + from.no_space,
        torn: to.torn + from.torn,
        flipped: to.flipped + from.flipped,
        spoilt_blocks: to.spoilt_blocks + from.spoilt_blocks,
        forged: to.forged + from.forged,
        deaths: to.deaths + from.deaths,
        successors: to.successors + from.successors,
    };
    sum
}

/// Users of real sessions beside the raw clients.
fn crowded() -> SimConfig {
    SimConfig { mounts: 1, writers: 2, lockers: 3, ..SimConfig::default() }
}

#[test]
fn messages_of_one_direction_are_lost_for_a_while() {
    let counters = weather(&[FaultKind::Partition], crowded()).counters.faults;
    assert!(counters.partitions > 3 && counters.cut > 50, "{counters:?}");
}

#[test]
fn machines_are_slow_for_a_while() {
    let counters = weather(&[FaultKind::Slow], crowded()).counters.faults;
    assert!(counters.slow > 3 && counters.slowed > 200, "{counters:?}");
}

#[test]
fn clocks_jump_within_their_bound_and_nobody_notices() {
    let counters = weather(&[FaultKind::Jump], crowded()).counters.faults;
    assert!(counters.jumps > 5 && counters.refused == 0, "{counters:?}");
}

#[test]
fn clocks_beyond_their_bound_are_refused_and_nothing_breaks() {
    let counters = weather(&[FaultKind::Clock], crowded()).counters.faults;
    assert!(counters.wrong_clocks > 2 && counters.refused > 20, "{counters:?}");
}

#[test]
fn full_disks_refuse_what_needs_space_and_nothing_is_half_done() {
    let counters = weather(&[FaultKind::Full], crowded()).counters.faults;
    assert!(counters.full > 3 && counters.no_space > 3, "{counters:?}");
}

#[test]
fn torn_and_flipped_ends_of_journals_are_cut() {
    for commit in [Commit::Sync, Commit::Interval(20)] {
        let world = WorldConfig { crash_every: 600, commit, ..WorldConfig::default() };
        let users = usize::from(commit == Commit::Sync);
        let config = SimConfig { mounts: users, writers: 2 * users, world, ..SimConfig::default() };
        let outcome = weather(&[FaultKind::Tear, FaultKind::Flip], config);
        let counters = outcome.counters.faults;
        assert!(counters.torn > 1 && counters.flipped > 1, "{counters:?}");
        assert!(outcome.counters.kills > 1 && outcome.counters.power_losses > 1, "{:?}", outcome.counters);
        assert!(users == 0 || counters.spoilt_blocks > 0, "{counters:?}");
    }
}

#[test]
fn the_dead_leave_neither_locks_nor_files_nor_parts_of_appends() {
    let counters = weather(&[FaultKind::Death], SimConfig::default()).counters.faults;
    assert!(counters.deaths >= 6, "{counters:?}");
}

#[test]
fn everything_at_once() {
    let counters = weather(&FaultKind::ALL, SimConfig::default()).counters.faults;
    assert!(counters.partitions > 0 && counters.slow > 0 && counters.jumps > 0 && counters.full > 0, "{counters:?}");
}

#[test]
fn a_session_that_has_joined_outlives_a_power_loss() {
    let world = WorldConfig { crash_every: 300, commit: Commit::Interval(100), ..WorldConfig::default() };
    let outcome =
        weather(&[FaultKind::Power, FaultKind::Death], SimConfig { world, mortals: 8, ..SimConfig::default() });
    assert!(outcome.counters.power_losses > 5 && outcome.counters.faults.deaths > 10, "{:?}", outcome.counters);
}
