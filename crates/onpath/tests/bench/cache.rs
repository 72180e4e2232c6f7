//! `onpath bench cache` on small numbers.

use super::{assert_empty, assert_spread, list};
use crate::common::server;
use serde_json::Value;
use std::ffi::OsStr;

/// Looks are answered by the switch where that has a cache, and nowhere else.
#[test]
fn a_switch_that_answers_is_compared() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["bench", "cache", "--operations", "400", "--rounds", "1", "--files", "2", "--window", "8", "--json"];
    let words = words.into_iter().chain(["--dir"]).map(OsStr::new).chain([dir.path().as_os_str()]);
    let output = server::run(words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let results = list(&report, "results");
    assert_eq!(results.len(), 2 * 9, "{report}");
    for result in results {
        ["us", "us_ratio"].iter().for_each(|name| assert_spread(&result[name], f64::MIN_POSITIVE));
        ["cpu_us", "switch_us", "rate"].iter().for_each(|name| assert_spread(&result[name], 0.0));
        let is_look = ["stat", "lookup", "stats", "path"].iter().any(|look| result["phase"] == *look);
        let share = result["share"]["min"].as_f64().unwrap();
        let expected = match result["phase"].as_str() {
            _ if result["form"] != "switch" => 0.0..=0.0,
            // The open, and the size for the read.
            Some("open") => 1.8..=2.02,
            // The look before a change, at first.
            Some("chmod-hot" | "write-hot") => 0.0..=1.0,
            _ if is_look => 0.9..=1.01,
            _ => 0.0..=0.0,
        };
        assert!(expected.contains(&share), "{result}");
    }
    assert_empty(dir.path());
}
