//! Teeth: each rule of the protocol is removed once, and the simulator must notice – a directed scenario, and random
//! seeds. What counts is what checkers and scenarios say; a panic of an assertion inside a role is counted apart.

use onpath_meta::planted::{Planted, plant};
use onpath_sim::world::{Commit, WorldConfig};
use onpath_sim::workload::WorkloadConfig;
use onpath_sim::{SimConfig, run};
use std::panic::catch_unwind;

#[path = "owner_form.rs"]
mod owner_form;
#[path = "transactions.rs"]
mod transactions;

/// Seeds after which a planted bug counts as unnoticed.
const SEEDS_MAX: u64 = 60;

/// What removing a rule is noticed by.
#[derive(Debug, Default)]
struct Noticed {
    scenario: bool,
    seed: Option<u64>,
    panics: u64,
}

fn hostile(seed: u64) -> SimConfig {
    let mut config = SimConfig { operations: 1_500, ..SimConfig::from_seed(seed) };
    config.workload = WorkloadConfig { names: 40, directories: 3, readdir_percent: 25, ..config.workload };
    config.world = WorldConfig { shards: 3, processes: 3, duplicate: 0.1, reorder: 0.2, crash_every: 400, ..config.world };
    config.world.commit = if seed.is_multiple_of(2) { Commit::Sync } else { Commit::Interval(100) };
    config
}

fn notice(bug: Planted, scenario: Option<fn()>) -> Noticed {
    let mut noticed = Noticed::default();
    plant(Some(bug));
    noticed.scenario = scenario.is_some_and(|scenario| catch_unwind(scenario).is_err());
    for seed in 1..=SEEDS_MAX {
        match catch_unwind(|| run(&hostile(seed))) {
            Ok(outcome) if outcome.violations.is_empty() => {}
            Ok(_) => {
                noticed.seed = Some(seed);
                break;
            }
            Err(_) => noticed.panics += 1,
        }
    }
    plant(None);
    noticed
}

#[test]
fn every_removed_rule_is_noticed() {
    let bugs: [(Planted, Option<fn()>); 18] = [
        (
            Planted::GrantDuringCollect,
            Some(owner_form::an_update_at_an_answered_site_waits_for_the_end_of_the_collect),
        ),
        (Planted::OvertakenGrant, Some(owner_form::a_grant_that_a_recall_overtook_does_not_count)),
        (Planted::RecallWithoutEntries, Some(owner_form::a_chmod_collects_what_was_made_under_the_old_mode)),
        (Planted::AppliedTwice, Some(owner_form::a_late_copy_of_a_push_is_not_applied_again)),
        (Planted::NoCollect, Some(owner_form::a_read_that_begins_later_shows_what_returned_before)),
        (Planted::ChmodWithoutRecall, Some(owner_form::a_chmod_collects_what_was_made_under_the_old_mode)),
        (Planted::RmdirWithoutRecall, Some(owner_form::a_site_that_asks_during_a_rmdir_hears_the_decision)),
        (Planted::EmptyTableAfterRestart, Some(owner_form::a_restarted_owner_asks_everybody)),
        (Planted::OneKnownForBoth, Some(owner_form::the_tables_of_the_two_parts_are_known_one_by_one)),
        (Planted::ShownTooEarly, Some(owner_form::a_name_of_a_former_term_is_not_shown_before_its_directory_has_it)),
        (Planted::ForgetfulOfFailures, Some(owner_form::a_refusal_is_remembered)),
        (Planted::AnyTerm, Some(owner_form::a_refused_request_is_not_executed_after_a_restart)),
        (Planted::PromiseWithoutDoubt, Some(transactions::a_promise_makes_wait_across_a_restart)),
        (Planted::DecisionWithoutLook, Some(transactions::the_destination_is_checked_again_in_the_decision)),
        (Planted::PrepareAfterEnd, Some(transactions::a_copy_of_prepare_after_the_end_is_ignored)),
        (Planted::PromiseWithoutLocks, Some(transactions::a_promise_makes_wait_across_a_restart)),
        (Planted::PushBeforeDurable, Some(owner_form::a_push_leaves_when_its_records_are_durable)),
        (Planted::GrantDuringCollect, Some(owner_form::a_site_that_restarts_during_a_collect_waits_too)),
    ];
    let mut unnoticed = vec![];
    for (bug, scenario) in bugs {
        let noticed = notice(bug, scenario);
        println!("{bug:?}: {noticed:?}");
        if !noticed.scenario {
            unnoticed.push((bug, noticed));
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}
