//! Teeth of the C form: each rule is removed from it once. A vector of that very rule must notice, and so must the comparison with
//! the Rust form, in which the rule is kept.

#[path = "common/both.rs"]
mod both;
mod common;
#[path = "common/events.rs"]
mod events;
#[path = "../../rust/tests/common/random.rs"]
mod random;

use common::runner;
use onpath_dataplane::common::planted::Planted;
use onpath_dataplane_native::{Switch, plant};

/// Seeds, of so many packets each, within which a difference is seen.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=50;
const PACKETS: u64 = 10_000;

#[test]
fn every_rule_of_the_c_form_is_needed_by_one_of_its_vectors() {
    runner::every_rule_is_needed::<Switch>(plant);
}

#[test]
fn without_a_bug_the_c_form_passes_every_vector() {
    plant(None);
    runner::all_pass::<Switch>();
}

#[test]
fn every_rule_that_is_removed_makes_a_difference() {
    let mut unnoticed = vec![];
    for &bug in Planted::ALL {
        plant(Some(bug));
        let noticed = SEEDS.into_iter().find_map(|seed| events::run(seed, PACKETS).err().map(|what| (seed, what)));
        plant(None);
        match noticed {
            None => unnoticed.push(bug),
            Some((seed, what)) => {
                let events = what.lines().find(|line| line.starts_with("the fewest")).expect("a difference is shrunk");
                println!("{bug:?}: seed {seed}, {events}");
            }
        }
    }
    assert!(unnoticed.is_empty(), "without these rules there is no difference: {unnoticed:?}");
}
