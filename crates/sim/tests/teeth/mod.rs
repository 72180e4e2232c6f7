//! Teeth: each rule of the protocol is removed once, and must be missed: by a directed scenario, and by a *checker*, under random
//! seeds or in a systematic exploration. A panic of an assertion inside a role is counted apart.
//!
//! `just teeth` prints the table of `docs/internals/teeth.md`.

use crate::{
    cached, hot_names, intentions, kept_ways, network_form, owner_form, paths, shapes, transactions, turns, visible,
};
use means::{MEANS, Means};
use onpath_data::planted::Planted as OfData;
use onpath_meta::planted::{Planted, plant};
use onpath_path::Planted as OfPath;
use onpath_session::Planted as OfSession;
use onpath_sim::shrink::shrink;
use onpath_sim::{SimConfig, run};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::catch_unwind;
use table::table;

mod means;
mod of_paths;
mod table;

/// Seeds within which a bug of a path node is noticed.
const SEEDS_OF_PATHS: u64 = 200;

/// Seeds of each shape in which nothing may be noticed where nothing is removed.
const KEPT_SEEDS: u64 = 16;

/// Scenarios, each with a rule that it needs.
const SCENARIOS: [(Planted, fn()); 74] = [
    (Planted::ShownWithoutRecall, visible::what_a_data_node_has_answered_is_shown),
    (Planted::ListedUncollected, visible::listed::a_data_node_is_asked_about_all_lent_files_at_once),
    (Planted::TableTooEarly, visible::network::a_table_that_was_lost_shows_nothing_until_all_is_learned),
    (Planted::WriterNotAlone, visible::who_sets_a_time_beside_another_writer_is_shown_its_writes),
    (Planted::GrantDuringCollect, owner_form::an_update_at_an_answered_site_waits_for_the_end_of_the_collect),
    (Planted::OvertakenGrant, owner_form::a_grant_that_a_recall_overtook_does_not_count),
    (Planted::RecallWithoutEntries, owner_form::a_chmod_collects_what_was_made_under_the_old_mode),
    (Planted::AppliedTwice, owner_form::a_late_copy_of_a_push_is_not_applied_again),
    (Planted::NoCollect, owner_form::a_read_that_begins_later_shows_what_returned_before),
    (Planted::ChmodWithoutRecall, owner_form::a_chmod_reaches_those_who_only_look),
    (Planted::ChmodWithoutRecall, owner_form::an_acl_reaches_those_who_only_look),
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
    (Planted::PromiseWithoutDoubt, intentions::an_answer_waits_for_no_disk_and_shows_nothing),
    (Planted::PromiseWithoutLocks, intentions::an_intention_survives_its_coordinator),
    (Planted::IntentionUnconfirmed, intentions::whoever_loses_power_both_names_change_or_none),
    (Planted::IntentionUnconfirmed, intentions::whoever_loses_power_a_removed_name_and_its_link_count_agree),
    (Planted::PromisedAnew, intentions::a_promise_that_was_lost_is_not_made_anew),
    (Planted::PromiseWithoutLocks, transactions::a_promised_inode_is_locked_across_a_restart),
    (Planted::TurnsForgotten, transactions::a_turn_at_moving_directories_lasts_across_a_restart_of_its_giver),
    (Planted::ClimbUnverified, turns::what_was_seen_before_a_turn_counts_only_if_it_has_not_moved),
    (Planted::PushBeforeDurable, owner_form::a_push_leaves_when_its_records_are_durable),
    (Planted::GrantDuringCollect, owner_form::a_site_that_restarts_during_a_collect_waits_too),
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
    (Planted::AnyMark, network_form::marks::what_nobody_but_the_switch_can_say_counts),
    (Planted::MovedWithoutRecall, paths::who_moved_is_not_where_it_was),
    (Planted::GrantedWhileMoving, paths::a_promise_to_move_withholds_the_path_part),
    (Planted::WaysKept, kept_ways::a_change_is_seen_by_who_keeps_a_way),
    (Planted::ForgottenHereOnly, kept_ways::a_change_is_seen_by_who_keeps_a_way),
    (Planted::AnyPosition, kept_ways::a_change_is_seen_by_who_keeps_a_way),
    (Planted::ForgottenTooEarly, kept_ways::nobody_keeps_what_a_path_node_is_about_to_let_go),
    (Planted::BehindAlthoughDone, kept_ways::what_was_done_is_not_done_again),
    (Planted::ForgottenLeases, paths::who_is_not_heard_of_leads_nowhere),
    (Planted::ChmodWithoutRecall, paths::a_chmod_reaches_path_nodes),
    (Planted::RmdirWithoutRecall, paths::what_is_removed_leads_nowhere),
    (Planted::ChangesUncleared, cached::what_has_changed_is_not_shown_as_it_was),
    (Planted::LentForgotten, cached::a_restarted_home_has_lent_nothing),
    (Planted::InodeUnnoticed, network_form::marks::a_directory_that_was_moved_since_the_switch_answered_is_collected),
];

#[test]
fn every_scenario_fails_without_its_rule() {
    let mut passed = vec![];
    for (number, (bug, scenario)) in SCENARIOS.into_iter().enumerate() {
        plant(Some(bug));
        let caught = catch_unwind(scenario).is_err();
        plant(None);
        if !caught {
            passed.push((number, bug));
        }
    }
    assert!(passed.is_empty(), "these scenarios do not need their rules: {passed:?}");
}

/// Bugs of path nodes, each with the scenario that needs its rule; whether random seeds notice it too.
const OF_PATH_NODES: [(OfPath, fn(), bool); 9] = [
    (OfPath::KeepsRecalled, paths::who_moved_is_not_where_it_was, true),
    (OfPath::OvertakenGrant, paths::a_path_part_that_a_recall_overtook_does_not_count, true),
    (OfPath::OvertakenGrant, paths::nor_does_one_that_came_with_its_name, true),
    (OfPath::NamedAsAsked, paths::a_grant_says_where_it_is, true),
    (OfPath::LeadsBeyondLease, paths::who_is_not_heard_of_leads_nowhere, false),
    (OfPath::LeaseFromAnswer, paths::a_late_lease_is_a_short_one, false),
    (OfPath::CopiedLoad, paths::a_copy_of_a_load_does_not_count, false),
    (OfPath::GivenUpUnanswered, paths::what_was_given_up_is_taken_back, false),
    (OfPath::AnyGroup, paths::a_path_node_asks_who_is_in_a_group, false),
];

#[test]
fn path_nodes_need_their_rules() {
    for (bug, scenario, by_seeds) in OF_PATH_NODES {
        onpath_path::plant(Some(bug));
        let caught = catch_unwind(scenario).is_err();
        let found = |seed: &u64| !run(&shapes::paths(*seed)).violations.is_empty();
        let seed = (1..=SEEDS_OF_PATHS).filter(|_| by_seeds).find(found);
        onpath_path::plant(None);
        println!("{bug:?}: noticed by seed {seed:?}");
        assert!(caught && seed.is_some() == by_seeds, "{bug:?}: by the scenario: {caught}, by seed {seed:?}");
    }
}

/// What seeds are of.
type Shape = fn(u64) -> SimConfig;
/// A bug of data nodes, the scenario that needs its rule, and a shape of which random seeds notice it too, if they do.
type BugOfData = (OfData, fn(), Option<Shape>);

const OF_DATA_NODES: [BugOfData; 8] = [
    (OfData::FloorsForgotten, visible::a_part_that_was_taken_back_is_worth_nothing, Some(shapes::lent)),
    (
        OfData::PartsOfFormerLife,
        visible::a_restarted_data_node_takes_no_part_that_it_may_have_given_back,
        Some(shapes::lent),
    ),
    (
        OfData::TakesUpBesideChain,
        visible::network::what_is_answered_after_a_write_of_the_home_is_of_a_later_time,
        Some(shapes::lent_in_two_phases),
    ),
    (OfData::HandsOverNothing, visible::what_a_data_node_has_answered_is_shown, Some(shapes::lent)),
    (OfData::AnsweredForgotten, visible::a_repeated_write_that_was_answered_is_answered_again, None),
    (OfData::InstallsOverOthers, visible::network::an_entry_shows_one_file_at_a_time, None),
    (OfData::AnswersPastTable, visible::network::the_table_shows_what_is_pending, Some(shapes::lent_in_tables)),
    (
        OfData::AnswersInOnePhase,
        visible::two_phase::a_write_returns_when_its_session_has_told_the_home,
        Some(shapes::lent_in_two_phases),
    ),
];

#[test]
fn data_nodes_need_their_rules() {
    let named: BTreeSet<String> = OF_DATA_NODES.iter().map(|(bug, ..)| format!("{bug:?}")).collect();
    assert_eq!(named, planted(include_str!("../../../data/src/planted.rs")));
    for (bug, scenario, shape) in OF_DATA_NODES {
        onpath_data::planted::plant(Some(bug));
        let caught = catch_unwind(scenario).is_err();
        let found =
            |shape: fn(u64) -> SimConfig| (1..=SEEDS_OF_PATHS).find(|seed| !run(&shape(*seed)).violations.is_empty());
        let seed = shape.and_then(found);
        onpath_data::planted::plant(None);
        println!("{bug:?}: noticed by seed {seed:?}");
        assert!(caught && seed.is_some() == shape.is_some(), "{bug:?}: by the scenario: {caught}, by seed {seed:?}");
    }
}

/// A bug of sessions, the scenario that needs its rule, and a shape of which random seeds notice it too; those of paths are explored.
type BugOfSession = (OfSession, fn(), Option<Shape>);

const OF_SESSIONS: [BugOfSession; 4] = [
    (OfSession::SearchUnasked, hot_names::a_directory_that_is_closed_is_passed_by_nobody, Some(shapes::cached)),
    (OfSession::KeepsLateWays, kept_ways::a_late_answer_is_not_kept, None),
    (OfSession::RestsOnFormerWay, kept_ways::what_was_followed_before_counts_no_more, None),
    (OfSession::PresentPosition, kept_ways::a_shard_begins_anew, None),
];

/// Bugs of sessions that seeds notice.
fn of_sessions_by_seeds() -> impl Iterator<Item = String> {
    OF_SESSIONS.into_iter().filter(|(.., shape)| shape.is_some()).map(|(bug, ..)| format!("{bug:?}"))
}

#[test]
fn sessions_need_their_rules() {
    let named: BTreeSet<String> = OF_SESSIONS.iter().map(|(bug, ..)| format!("{bug:?}")).collect();
    assert_eq!(named, planted(include_str!("../../../session/src/planted.rs")));
    for (bug, scenario, shape) in OF_SESSIONS {
        onpath_session::plant(Some(bug));
        let caught = catch_unwind(scenario).is_err();
        let found = |shape: Shape| (1..=SEEDS_OF_PATHS).find(|seed| !run(&shape(*seed)).violations.is_empty());
        let seed = shape.and_then(found);
        onpath_session::plant(None);
        println!("{bug:?}: noticed by seed {seed:?}");
        assert!(caught && seed.is_some() == shape.is_some(), "{bug:?}: by the scenario: {caught}, by seed {seed:?}");
    }
}

/// Every bug that there is in this source.
fn planted(source: &str) -> BTreeSet<String> {
    let variants = source.lines().filter_map(|line| line.strip_prefix("    ")?.strip_suffix(','));
    variants.filter(|name| name.chars().all(char::is_alphanumeric)).map(str::to_owned).collect()
}

#[test]
fn a_checker_notices_every_removed_rule() {
    // The others are rules of paths alone, which exploration misses (of_paths.rs).
    let named = MEANS.iter().map(|(_, bug, _)| *bug).chain(of_paths::of_homes()).map(|bug| format!("{bug:?}"));
    assert_eq!(named.collect::<BTreeSet<_>>(), planted(include_str!("../../../meta/src/planted.rs")));
    // `ONPATH_TEETH_ONLY`: the bug of this name alone.
    let only = std::env::var("ONPATH_TEETH_ONLY").ok();
    let is_meant = |bug: &Planted| only.as_ref().is_none_or(|name| format!("{bug:?}") == *name);
    let means: Vec<_> = MEANS.iter().copied().filter(|(_, bug, _)| is_meant(bug)).collect();
    let missed = table(&means);
    assert!(missed.is_empty(), "no checker noticed: {missed:#?}");
}

#[test]
fn random_seeds_notice_nothing_where_every_rule_is_kept() {
    let shapes = MEANS.iter().filter_map(|(.., means)| match means {
        Means::Seeds(name, shape) => Some((*name, *shape)),
        Means::Explored(..) => None, // tests/explore.rs
    });
    for (name, shape) in shapes.collect::<BTreeMap<_, _>>() {
        for seed in 1..=KEPT_SEEDS {
            let violations = run(&shape(seed)).violations;
            assert!(violations.is_empty(), "{name}, seed {seed}: {violations:#?}");
        }
    }
}

/// Tries of a shrinking.
const TRIES: u32 = 400;
/// Runs that are shrunk, each of which becomes small.
const SHRUNK: usize = 2;

#[test]
fn a_run_that_notices_a_removed_rule_is_shrunk() {
    plant(Some(Planted::NoCollect));
    let large = (1..).map(shapes::hostile).filter(|config| !run(config).violations.is_empty()).take(SHRUNK);
    let small: Vec<_> = large.map(shrunk).collect();
    plant(None);
    for config in &small {
        let names = config.workload.names;
        println!(
            "{} operations of {} clients, {names} names, faults {:?}",
            config.operations,
            config.sessions,
            config.fault_kinds()
        );
    }
    for config in small {
        assert!(config.operations < 20 && config.sessions == 1, "{config:?}");
        assert!(config.lockers + config.mortals == 0 && config.workload.names < 10, "{config:?}");
        assert!(config.fault_kinds().len() <= 1, "{config:?}");
        assert!(run(&config).violations.is_empty(), "with the rule the smaller run is right");
    }
}

fn shrunk(large: SimConfig) -> SimConfig {
    let large = SimConfig { mortals: 2, lockers: 2, ..large };
    let mut tries = 0;
    let go_on = || {
        tries += 1;
        tries <= TRIES
    };
    let case = shrink(&large, false, go_on, |_| {}).expect("the large run fails");
    assert_eq!(run(&case.config).violations.first(), Some(&case.violation), "the smaller run fails every time");
    case.config
}
