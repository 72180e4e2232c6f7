//! Teeth: each rule of SPEC.md is removed once, and a vector of that very rule must notice.

mod common;

use common::vectors;
use onpath_dataplane::planted::{Planted, plant};
use std::panic::catch_unwind;

#[test]
fn every_rule_is_needed_by_one_of_its_vectors() {
    let vectors = vectors();
    let mut unnoticed = vec![];
    for &bug in Planted::ALL {
        let rule = format!("{bug:?}").replace('D', "D-");
        plant(Some(bug));
        let noticed: Vec<&str> = vectors
            .iter()
            .filter(|vector| vector.rules.contains(&rule))
            .filter(|vector| catch_unwind(|| vector.run()).is_ok_and(|result| result.is_err()))
            .map(|vector| vector.name.as_str())
            .collect();
        plant(None);
        match noticed.first() {
            None => unnoticed.push(rule),
            Some(first) => println!("{rule}: {} vectors notice, the first is {first:?}", noticed.len()),
        }
    }
    assert!(unnoticed.is_empty(), "no vector needs these rules: {unnoticed:?}");
}

#[test]
fn every_rule_has_a_planted_bug() {
    let spec = std::fs::read_to_string(common::dataplane().join("SPEC.md")).expect("SPEC.md");
    let rules = spec.lines().filter(|line| line.starts_with("* **D-")).count();
    let bugs: Vec<String> = Planted::ALL.iter().map(|bug| format!("{bug:?}")).collect();
    assert_eq!(bugs, (1..=rules).map(|rule| format!("D{rule}")).collect::<Vec<_>>());
}

#[test]
fn without_a_bug_all_vectors_pass() {
    plant(None);
    vectors().iter().for_each(|vector| vector.run().unwrap_or_else(|what| panic!("{}: {what}", vector.name)));
}
