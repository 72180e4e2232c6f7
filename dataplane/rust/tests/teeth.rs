//! Teeth: each rule of SPEC.md is removed once, and a vector of that very rule must notice.

mod common;

use onpath_dataplane::Switch;
use onpath_dataplane::common::planted::{Planted, plant};

#[test]
fn every_rule_is_needed_by_one_of_its_vectors() {
    common::every_rule_is_needed::<Switch>(plant);
}

#[test]
fn every_rule_has_a_planted_bug() {
    let spec = std::fs::read_to_string(common::dataplane().join("SPEC.md")).expect("SPEC.md");
    let rules = spec.lines().filter_map(|line| line.strip_prefix("* **D-")?.split(' ').next());
    let bugs: Vec<String> = Planted::ALL.iter().map(|bug| format!("{bug:?}")).collect();
    assert_eq!(bugs, rules.map(|rule| format!("D{rule}")).collect::<Vec<_>>());
    assert!(Planted::ALL.iter().zip(bugs).all(|(bug, name)| format!("D{}", *bug as u32) == name), "by their numbers");
}

#[test]
fn without_a_bug_all_vectors_pass() {
    plant(None);
    common::all_pass::<Switch>();
}
