//! Systematic exploration of small situations: every schedule with one thing out of order, lost, doubled or broken is run and
//! compared with the model. Larger bounds are run by hand with `onpath explore`; docs/internals/exploration.md has their numbers.

use onpath_sim::explore::{Bounds, Explored, explore, replay, situation, situations};

/// More schedules than any situation has within these bounds.
const SCHEDULES_MAX: u64 = 5_000;

/// Situations of paths and of hot names in which messages are late and doubled in every run. With `ONPATH_EXPLORE=all` they are in all of them.
const IN_EVERY_RUN: [&str; 8] = [
    "hot-chmod",
    "hot-search",
    "path-acl",
    "path-chmod",
    "path-link-replaced",
    "path-load",
    "path-last-replaced",
    "path-rmdir",
];

/// Situations in which nothing but lost messages is tried in every run.
const IN_FULL_RUNS: [&str; 6] =
    ["hot-anew-lent", "hot-lent-rename", "hot-new-epoch", "path-load-copied", "path-load-given-up", "way-group"];

/// Whether a situation is explored within these bounds. `ONPATH_SITUATIONS`: only those whose names begin so.
fn is_explored(name: &str, bounds: Bounds) -> bool {
    let given = |variable| std::env::var(variable).unwrap_or_default();
    let is_long = (name.starts_with("path-") || name.starts_with("hot-")) && !IN_EVERY_RUN.contains(&name);
    let delays = bounds.late + bounds.doubled > 0 && is_long;
    let takes_long = delays || bounds.lost == 0 && IN_FULL_RUNS.contains(&name);
    name.starts_with(&given("ONPATH_SITUATIONS")) && (!takes_long || given("ONPATH_EXPLORE") == "all")
}

/// All schedules of all situations within these bounds are right; how much was seen.
fn all_are_right(bounds: Bounds) -> Explored {
    let mut sum = Explored::default();
    for situation in situations().filter(|situation| is_explored(situation.name, bounds)) {
        let begun = std::time::Instant::now();
        let explored = explore(situation, bounds, SCHEDULES_MAX);
        if let Some((schedule, why)) = &explored.wrong {
            let _ = replay(situation, schedule, Some(Box::new(|line| println!("{line}"))));
            panic!("{}: {why}; onpath explore {} --schedule {schedule}", situation.name, situation.name);
        }
        assert!(explored.complete, "{} has more schedules", situation.name);
        println!("{}: {explored:?} in {:?}", situation.name, begun.elapsed());
        sum.schedules += explored.schedules;
        sum.states += explored.states;
        sum.endings += explored.endings;
        sum.steps += explored.steps;
    }
    println!("{bounds:?}: {sum:?}");
    sum
}

#[test]
fn with_one_thing_late() {
    let seen = all_are_right(Bounds { late: 1, waits: 1, ..Bounds::default() });
    assert!(seen.schedules > 4_000 && seen.states > 30_000, "{seen:?}");
}

#[test]
fn with_one_message_lost() {
    let seen = all_are_right(Bounds { lost: 1, ..Bounds::default() });
    assert!(seen.schedules > 500 && seen.states > 10_000, "{seen:?}");
}

#[test]
fn with_one_message_doubled() {
    let seen = all_are_right(Bounds { doubled: 1, ..Bounds::default() });
    assert!(seen.schedules > 2_000 && seen.states > 30_000, "{seen:?}");
}

#[test]
fn with_one_kill() {
    let seen = all_are_right(Bounds { kills: 1, ..Bounds::default() });
    assert!(seen.schedules > 800 && seen.states > 20_000, "{seen:?}");
}

#[test]
fn with_one_power_loss() {
    let seen = all_are_right(Bounds { powers: 1, ..Bounds::default() });
    assert!(seen.schedules > 800 && seen.states > 20_000, "{seen:?}");
}

/// A change of form on the way, and a death of the coordinator in it.
#[test]
fn with_a_reboot_of_the_switch() {
    let seen = all_are_right(Bounds { reboots: 1, ..Bounds::default() });
    assert!(seen.schedules > 100 && seen.states > 4_000, "{seen:?}");
    for name in ["epoch", "sync"] {
        let bounds = Bounds { reboots: 1, kills: 1, ..Bounds::default() };
        let seen = explore(situation(name).expect("in the library"), bounds, SCHEDULES_MAX);
        assert!(seen.complete && seen.wrong.is_none(), "{name}: {seen:?}");
    }
}

/// What went wrong once (docs/history/failures.md): beyond the bounds of these tests, or a grace for orphans after a restart that there was not.
#[test]
fn schedules_that_failed_once_are_right() {
    let lock = ("lock-cancel", "4:late,6:late,11:wait,18:release0");
    for (name, schedule) in [lock, ("rename-chain", "45:kill-at3"), ("rename-chain", "49:power1")] {
        let schedule = schedule.parse().expect("a schedule");
        assert_eq!(replay(situation(name).expect("in the library"), &schedule, None), Ok(vec![]), "{name} {schedule}");
    }
}

#[test]
fn the_same_schedule_is_the_same_course() {
    let rename = situation("rename").expect("in the library");
    let schedule = "4:late,9:kill0".parse().expect("a schedule");
    let told = || {
        let lines = std::rc::Rc::new(std::cell::RefCell::new(vec![]));
        let hears = lines.clone();
        let wrong = replay(rename, &schedule, Some(Box::new(move |line| hears.borrow_mut().push(line))));
        (wrong, lines.take())
    };
    let (first, second) = (told(), told());
    assert!(first.1.iter().any(|line| line.ends_with("step 9: kill0")), "{:?}", first.1);
    assert_eq!(first, second);
    let never = "4:release3".parse().expect("a schedule");
    assert!(replay(rename, &never, None).is_err());
}
