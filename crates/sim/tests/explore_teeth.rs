//! Exploration has teeth: removed rules are found by few schedules, among them rules that random seeds hardly notice.

use onpath_meta::planted::{Planted, plant};
use onpath_sim::explore::{Bounds, explore, replay, situation};

/// More schedules than it takes to find any of these bugs.
const SCHEDULES_MAX: u64 = 600;

const NONE: Bounds = Bounds { late: 0, waits: 0, lost: 0, doubled: 0, kills: 0, powers: 0, reboots: 0 };
const LATE: Bounds = Bounds { late: 1, waits: 1, ..NONE };
const DOUBLED: Bounds = Bounds { doubled: 1, ..NONE };
const KILLS: Bounds = Bounds { kills: 1, ..NONE };

/// Each rule, a situation that needs it, and within which bounds.
const BUGS: [(Planted, &str, Bounds); 11] = [
    (Planted::ExposedUnmarked, "two-sites", NONE),
    (Planted::OneOfGroup, "group", LATE),
    (Planted::UnsettledTransactions, "rename", LATE),
    (Planted::RmdirWithoutRecall, "mkdir-rmdir", LATE),
    (Planted::NoHold, "collect", LATE),
    (Planted::GenerationOutlivesCollect, "collect", LATE),
    (Planted::ChmodWithoutRecall, "closed", LATE),
    (Planted::AppliedTwice, "sync", DOUBLED),
    (Planted::EmptyTableAfterRestart, "two-sites", KILLS),
    (Planted::AnyTerm, "create-unlink", KILLS),
    (Planted::PromiseWithoutLocks, "three-names", KILLS),
];

/// The schedule that finds a bug is a command line that finds it again, and finds nothing where the rule is kept. Random seeds of
/// `teeth.rs` do not notice RmdirWithoutRecall, ChmodWithoutRecall and PromiseWithoutLocks.
#[test]
fn removed_rules_are_found() {
    for (bug, name, bounds) in BUGS {
        let situation = situation(name).expect("in the library");
        plant(Some(bug));
        let explored = explore(situation, bounds, SCHEDULES_MAX);
        let Some((schedule, why)) = explored.wrong else { panic!("{bug:?} is not found in {name}") };
        let again = replay(situation, &schedule.to_string().parse().expect("its own words"), None);
        plant(None);
        println!("{bug:?} in {name}: schedule {schedule} of {}: {why}", explored.schedules);
        assert_eq!(again.map(|all| all.first().cloned()), Ok(Some(why)), "{bug:?} in {name}");
        assert_eq!(replay(situation, &schedule, None), Ok(vec![]), "with the rule of {bug:?}");
    }
}
