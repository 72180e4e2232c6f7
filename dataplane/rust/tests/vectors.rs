//! SPEC.md and its vectors: every rule has one, every one names rules that exist, and the crate passes all.

mod common;

use common::{dataplane, vectors};
use onpath_dataplane::{Counter, Switch};
use onpath_wire::innet::cache::{CacheOp, CacheResult, EntryValue, Fill, Purpose, Read};
use onpath_wire::innet::{
    DirtySet, DirtySetOp, INNET_UDP_PORT, InNetResult, Structure, Visibility, VisibilityOp, VisibilityResult,
};
use std::collections::BTreeSet;
use std::process::Command;

fn spec() -> String {
    std::fs::read_to_string(dataplane().join("SPEC.md")).expect("SPEC.md")
}

/// The numbers of the rules that SPEC.md defines, in its order.
fn rules(spec: &str) -> Vec<usize> {
    let begins = spec.lines().filter_map(|line| line.strip_prefix("* **D-"));
    begins.map(|rest| rest.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")).collect()
}

#[test]
fn the_crate_passes_every_vector() {
    common::all_pass::<Switch>();
}

#[test]
fn every_rule_has_a_vector_and_every_vector_a_rule() {
    let rules = rules(&spec());
    assert!(rules.is_sorted_by(|one, next| one < next), "no number is given twice: {rules:?}");
    let rules: Vec<String> = rules.iter().map(|number| format!("D-{number}")).collect();
    let (mut shown, mut names) = (BTreeSet::new(), BTreeSet::new());
    for vector in vectors() {
        assert!(!vector.rules.is_empty(), "{} names no rule", vector.name);
        assert!(names.insert(vector.name.clone()), "two vectors {:?}", vector.name);
        for rule in vector.rules {
            assert!(rules.contains(&rule), "{} names {rule}, which SPEC.md has not", vector.name);
            shown.insert(rule);
        }
    }
    let bare: Vec<&String> = rules.iter().filter(|rule| !shown.contains(*rule)).collect();
    assert!(bare.is_empty(), "rules without a vector: {bare:?}");
}

/// Every cited rule exists: in the code of the targets too.
#[test]
fn code_cites_rules_that_exist() {
    let rules = rules(&spec());
    let folders = ["rust/src", "c/include", "p4"]
        .map(|of| ["", "common", "dirty_set", "visibility", "cache"].map(|in_it| format!("{of}/{in_it}")));
    // What is not there yet in one of the targets cites nothing.
    let there = folders.iter().flatten().map(|dir| dataplane().join(dir)).filter(|dir| dir.exists());
    for entry in there.flat_map(|dir| std::fs::read_dir(dir).expect("sources")) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("text");
        for rest in text.split("D-").skip(1) {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            let known = digits.parse().is_ok_and(|number| rules.contains(&number));
            assert!(known || digits.is_empty(), "{} cites D-{digits}", path.display());
        }
    }
}

/// The tables of SPEC.md say what `onpath_wire::innet` says.
#[test]
fn the_tables_of_the_text_are_those_of_the_code() {
    let spec = spec();
    let row = |cells: &[&str]| {
        let found = spec.lines().any(|line| {
            let mut columns = line.split('|').skip(1).map(str::trim);
            cells.iter().all(|cell| columns.next() == Some(cell))
        });
        assert!(found, "SPEC.md has no row {cells:?}");
    };
    let of_cache = Read::FIELDS.iter().chain(Fill::FIELDS).chain(EntryValue::FIELDS);
    for field in DirtySet::FIELDS.iter().chain(Visibility::FIELDS).chain(of_cache) {
        row(&[&field.at.to_string(), &field.bytes.to_string(), field.name]);
    }
    let of_dirty_set = InNetResult::ALL.iter().map(|&result| named(result as u8, &result));
    let of_table = VisibilityResult::ALL.iter().map(|&result| named(result as u8, &result));
    let of_cache = CacheResult::ALL.iter().map(|&result| named(result as u8, &result));
    of_dirty_set.chain(of_table).chain(of_cache).for_each(|result| row(&[&result]));
    let of_dirty_set = DirtySetOp::ALL.iter().map(|&op| named(op as u8, &op)).collect::<Vec<_>>().join(", ");
    let of_table = VisibilityOp::ALL.iter().map(|&op| named(op as u8, &op)).collect::<Vec<_>>().join(", ");
    let of_cache = CacheOp::ALL.iter().map(|&op| named(op as u8, &op)).collect::<Vec<_>>().join(", ");
    for (&structure, operations) in Structure::ALL.iter().zip([of_dirty_set, of_table, of_cache]) {
        row(&[&named(structure as u8, &structure), &operations]);
    }
    let purposes = Purpose::ALL.iter().map(|&of| named(of as u8, &of)).collect::<Vec<_>>().join(", ");
    row(&["18", "1", "purpose", &purposes]);
    assert!(spec.contains(&format!("({INNET_UDP_PORT} unless")), "the port");
    for counter in Counter::ALL {
        assert!(spec.contains(&format!("`{}`", counter.name())), "SPEC.md does not say when {} counts", counter.name());
    }
}

/// `6 other epoch` for `OtherEpoch`, which is 6.
fn named(number: u8, of: &impl std::fmt::Debug) -> String {
    let words = format!("{of:?}").chars().fold(String::new(), |text, c| match c.is_uppercase() {
        true if !text.is_empty() => text + " " + &c.to_lowercase().to_string(),
        _ => text + &c.to_lowercase().to_string(),
    });
    format!("{number} {words}")
}

#[test]
fn vectors_are_what_their_source_gives() {
    let made = Command::new("python3").arg(dataplane().join("vectors/make.py")).arg("--check").output();
    match made {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => onpath_testing::skipped("vectors_are_what_their_source_gives", &format!("python3: {error}")),
    }
}
