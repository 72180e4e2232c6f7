//! Teeth: each rule of the protocol is removed once, and the simulator must notice – a directed scenario, and random
//! seeds. What counts is what checkers and scenarios say; a panic of an assertion inside a role is counted apart.

use onpath_meta::planted::{Planted, plant};
use onpath_sim::shrink::shrink;
use onpath_sim::workload::WorkloadConfig;
use onpath_sim::world::{Commit, WorldConfig};
use onpath_sim::{SimConfig, run};
use std::panic::catch_unwind;

#[path = "network_form.rs"]
mod network_form;
#[path = "owner_form.rs"]
mod owner_form;
#[path = "transactions.rs"]
mod transactions;

/// Seeds after which a planted bug counts as unnoticed.
const SEEDS_MAX: u64 = 16;

/// The same in the network form.
const NETWORK_SEEDS_MAX: u64 = 48;

/// Bugs that only a directed scenario notices (a window too small for so few seeds).
const MISSED_MAX: usize = 8;

/// The same in the network form.
const NETWORK_MISSED_MAX: usize = 10;

/// Each rule, and the scenario that needs it.
const BUGS: [(Planted, fn()); 19] = [
    (Planted::GrantDuringCollect, owner_form::an_update_at_an_answered_site_waits_for_the_end_of_the_collect),
    (Planted::OvertakenGrant, owner_form::a_grant_that_a_recall_overtook_does_not_count),
    (Planted::RecallWithoutEntries, owner_form::a_chmod_collects_what_was_made_under_the_old_mode),
    (Planted::AppliedTwice, owner_form::a_late_copy_of_a_push_is_not_applied_again),
    (Planted::NoCollect, owner_form::a_read_that_begins_later_shows_what_returned_before),
    (Planted::ChmodWithoutRecall, owner_form::a_chmod_reaches_those_who_only_look),
    (Planted::RmdirWithoutRecall, owner_form::a_site_that_asks_during_a_rmdir_hears_the_decision),
    (Planted::EmptyTableAfterRestart, owner_form::a_restarted_owner_asks_everybody),
    (Planted::OneKnownForBoth, owner_form::the_tables_of_the_two_parts_are_known_one_by_one),
    (Planted::ShownTooEarly, owner_form::a_name_of_a_former_term_is_not_shown_before_its_directory_has_it),
    (Planted::ForgetfulOfFailures, owner_form::a_refusal_is_remembered),
    (Planted::AnyTerm, owner_form::a_refused_request_is_not_executed_after_a_restart),
    (Planted::PromiseWithoutDoubt, transactions::a_promise_makes_wait_across_a_restart),
    (Planted::DecisionWithoutLook, transactions::the_destination_is_checked_again_in_the_decision),
    (Planted::AttemptWithoutParts, transactions::readers_cannot_starve_a_rename),
    (Planted::PrepareAfterEnd, transactions::a_copy_of_prepare_after_the_end_is_ignored),
    (Planted::PromiseWithoutLocks, transactions::a_promised_inode_is_locked_across_a_restart),
    (Planted::PushBeforeDurable, owner_form::a_push_leaves_when_its_records_are_durable),
    (Planted::GrantDuringCollect, owner_form::a_site_that_restarts_during_a_collect_waits_too),
];

/// The same for the network form, which random seeds with a switch run.
const NETWORK_BUGS: [(Planted, fn()); 30] = [
    (Planted::NoCollect, network_form::a_reader_collects_once),
    (Planted::CollectWithoutEntries, network_form::a_reader_collects_once),
    (Planted::NoHold, network_form::an_answered_site_holds_until_it_is_released),
    (Planted::PushedUnnoticed, network_form::what_was_applied_since_the_switch_answered_counts),
    (Planted::PushedUnnoticed, network_form::what_was_pushed_since_the_switch_answered_counts),
    (Planted::AnyRound, network_form::an_answer_to_an_earlier_round_does_not_end_a_collect),
    (Planted::EqualRemoves, network_form::a_copy_of_a_remove_removes_nothing),
    (Planted::ExposedUnmarked, network_form::a_retried_request_is_not_answered_before_the_mark),
    (Planted::UnlockedWhileGated, network_form::a_retried_request_is_not_answered_before_the_mark),
    (Planted::CompleteTooEarly, network_form::epochs::a_switch_that_rebooted_knows_nothing_until_all_is_marked_again),
    (Planted::AnyEpochsRemove, network_form::epochs::a_remove_of_an_earlier_epoch_removes_nothing),
    (Planted::AnyEpochsMark, network_form::epochs::an_acknowledgement_of_an_earlier_epoch_covers_nothing),
    (Planted::GrantDuringCollect, network_form::a_site_that_restarts_during_a_collect_waits_too),
    (Planted::GrantDuringCollect, network_form::nothing_is_granted_during_a_collect),
    (Planted::GenerationOutlivesCollect, network_form::an_acknowledgement_does_not_outlive_a_collect),
    (Planted::GenerationOutlivesCollect, network_form::an_acknowledgement_does_not_outlive_the_part),
    (Planted::SitesFirst, network_form::epochs::owners_hear_of_another_form_before_sites_do),
    (Planted::AnyEpochsNormal, network_form::epochs::an_answer_of_an_earlier_epoch_is_not_believed),
    (Planted::MarkNotTaken, network_form::marks::owners_take_marks_that_the_switch_has_no_room_for),
    (Planted::UnsettledTransactions, network_form::marks::a_rename_waits_for_the_marks_of_both_directories),
    (Planted::EmptyTableAfterRestart, network_form::a_restarted_owner_asks_everybody),
    (Planted::TermUnannounced, network_form::a_remove_of_an_earlier_term_removes_nothing),
    (Planted::OneOfGroup, network_form::groups::a_collect_asks_the_holders_of_all_directories_of_the_group),
    (Planted::AbandonedForgotten, network_form::groups::after_a_collect_that_was_given_up_the_group_is_scattered),
    (Planted::NoHold, network_form::groups::a_collect_holds_the_other_directories_of_the_group),
    (Planted::HeldStamp, network_form::what_was_held_moves_the_time_on),
    (Planted::RecallWaitsForMark, network_form::marks::a_recall_waits_for_no_mark),
    (Planted::HoldLowered, network_form::a_copy_of_an_earlier_collect_does_not_lower_the_hold),
    (Planted::ShownTooEarly, network_form::a_name_of_a_former_term_is_shown_when_its_directory_has_it),
    (Planted::InodeUnnoticed, network_form::marks::a_directory_that_was_moved_since_the_switch_answered_is_collected),
];

fn hostile(seed: u64) -> SimConfig {
    let mut config = SimConfig { operations: 700, mounts: 0, writers: 0, lockers: 0, ..SimConfig::from_seed(seed) };
    config.workload = WorkloadConfig { names: 40, directories: 3, readdir_percent: 25, ..config.workload };
    config.world =
        WorldConfig { shards: 3, processes: 3, duplicate: 0.1, reorder: 0.2, crash_every: 400, ..config.world };
    config.world.checkpoint_us = 5_000_000; // settling takes many virtual seconds
    config.world.commit = if seed.is_multiple_of(2) { Commit::Sync } else { Commit::Interval(100) };
    config
}

/// Few names that are listed often, behind a network that delays and doubles much. A third of the seeds has crashes, a third a switch
/// that fails; the last third has neither, so that nothing but the rules makes anybody collect.
fn hostile_network(seed: u64) -> SimConfig {
    let mut config = hostile(seed).with_switch();
    config.operations = 1_500;
    config.workload = WorkloadConfig { names: 16, directories: 3, readdir_percent: 40, ..config.workload };
    config.world = WorldConfig { duplicate: 0.25, reorder: 0.4, loss: 0.02, power_loss: false, ..config.world };
    config.world.crash_every = if seed.is_multiple_of(3) { 150 } else { 0 };
    config.world.switch_fails_every_us = if seed % 3 == 1 { 100_000 } else { 0 };
    config.world.switch_stages = if seed.is_multiple_of(8) { 0 } else { 10 };
    config
}

#[test]
fn every_scenario_fails_without_its_rule() {
    let mut passed = vec![];
    for (number, (bug, scenario)) in BUGS.into_iter().chain(NETWORK_BUGS).enumerate() {
        plant(Some(bug));
        let caught = catch_unwind(scenario).is_err();
        plant(None);
        if !caught {
            passed.push((number, bug));
        }
    }
    assert!(passed.is_empty(), "these scenarios do not need their rules: {passed:?}");
}

/// The seed that notices a bug, and how many roles panicked before.
fn noticed(bug: Option<Planted>, seeds_max: u64, config: fn(u64) -> SimConfig) -> (Option<u64>, u64) {
    plant(bug);
    let (mut found, mut panics) = (None, 0);
    for seed in 1..=seeds_max {
        match catch_unwind(|| run(&config(seed))) {
            Ok(outcome) if outcome.violations.is_empty() => {}
            Ok(_) => found = Some(seed),
            Err(_) => panics += 1,
        }
        if found.is_some() {
            break;
        }
    }
    plant(None);
    (found, panics)
}

#[test]
fn random_seeds_notice_removed_rules_and_nothing_else() {
    assert_eq!(noticed(None, SEEDS_MAX, hostile), (None, 0), "without a planted bug");
    let found = BUGS.map(|(bug, _)| (bug, noticed(Some(bug), SEEDS_MAX, hostile)));
    found.iter().for_each(|(bug, (seed, panics))| println!("{bug:?}: seed {seed:?}, {panics} panics before"));
    let missed = found.iter().filter(|(_, (seed, _))| seed.is_none()).count();
    assert!(missed <= MISSED_MAX, "{missed} of {} bugs were not noticed: {found:?}", BUGS.len());
}

#[test]
fn random_seeds_with_a_switch_notice_removed_rules_and_nothing_else() {
    assert_eq!(noticed(None, NETWORK_SEEDS_MAX, hostile_network), (None, 0), "without a planted bug");
    let found = NETWORK_BUGS.map(|(bug, _)| (bug, noticed(Some(bug), NETWORK_SEEDS_MAX, hostile_network)));
    found.iter().for_each(|(bug, (seed, panics))| println!("{bug:?}: seed {seed:?}, {panics} panics before"));
    let missed = found.iter().filter(|(_, (seed, _))| seed.is_none()).count();
    assert!(missed <= NETWORK_MISSED_MAX, "{missed} of {} bugs were not noticed: {found:?}", NETWORK_BUGS.len());
}

/// Seeds after which a bug that only users notice counts as unnoticed.
const USERS_SEEDS_MAX: u64 = 48;

/// Bugs of which only users of real sessions tell, who write and lock the same files.
const USERS_BUGS: [Planted; 4] =
    [Planted::ReservationWithoutFence, Planted::TrimsOvertake, Planted::LocksWithoutGrace, Planted::CutBeforeDurable];

#[test]
fn users_of_one_file_notice_removed_rules() {
    for bug in USERS_BUGS {
        let lossy = bug == Planted::CutBeforeDurable;
        plant(Some(bug));
        let (writers, lockers) = if bug == Planted::LocksWithoutGrace { (0, 4) } else { (4, 0) };
        let notices = |seed: u64| {
            let world = match lossy {
                true => WorldConfig { crash_every: 1_000, power_loss: true, duplicate: 0.05, ..WorldConfig::default() },
                false => WorldConfig {
                    crash_every: 4_000 / (1 + lockers as u64 / 2),
                    processes: 3,
                    reorder: 0.2,
                    loss: 0.05,
                    ..WorldConfig::default()
                },
            };
            let world = WorldConfig { shards: 3, commit: Commit::Interval(if lossy { 5 } else { 100 }), ..world };
            let config = SimConfig { seed, operations: 2_000, writers, lockers, world, ..SimConfig::default() };
            !run(&config).violations.is_empty()
        };
        let found = (1..=USERS_SEEDS_MAX).find(|seed| notices(*seed));
        plant(None);
        println!("{bug:?}: seed {found:?}");
        assert!(found.is_some(), "{bug:?} is not noticed");
    }
}

/// Tries of a shrinking.
const TRIES: u32 = 400;

#[test]
fn a_run_that_notices_a_removed_rule_is_shrunk() {
    plant(Some(Planted::NoCollect));
    let large = (1..=SEEDS_MAX).map(hostile).find(|config| !run(config).violations.is_empty());
    let large = SimConfig { mortals: 2, lockers: 2, ..large.expect("random seeds notice this bug") };
    let mut tries = 0;
    let go_on = || {
        tries += 1;
        tries <= TRIES
    };
    let case = shrink(&large, false, go_on, |_| {}).expect("the large run fails");
    assert_eq!(run(&case.config).violations.first(), Some(&case.violation), "the smaller run fails every time");
    plant(None);
    println!("{} operations of {} clients: {}", case.config.operations, case.config.sessions, case.violation);
    let config = &case.config;
    assert!(config.operations < 60 && config.sessions <= 2 && config.lockers + config.mortals == 0, "{config:?}");
    assert!(config.fault_kinds().len() <= 1 && config.workload.names < 40, "{:?}", config.fault_kinds());
    assert!(run(config).violations.is_empty(), "with the rule the smaller run is right");
}
