//! `onpath bench cache` on small numbers.

use super::{assert_empty, assert_spread, list};
use crate::common::net::{Net, cannot_redirect};
use crate::common::{server, skipped};
use serde_json::Value;
use std::ffi::OsStr;
use std::process::Output;

/// Looks are answered by the switch where that has a cache, and nowhere else.
#[test]
fn a_switch_that_answers_is_compared() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["bench", "cache", "--operations", "400", "--rounds", "1", "--files", "2", "--window", "8", "--json"];
    let words = words.into_iter().chain(["--dir"]).map(OsStr::new).chain([dir.path().as_os_str()]);
    let output = server::run(words);
    assert_results(&output, &["switch"]);
    assert_empty(dir.path());
}

/// The same by a switch in the kernel of a host on another network.
#[test]
fn a_switch_in_the_kernel_is_compared() {
    let test = "bench::cache::a_switch_in_the_kernel_is_compared";
    if let Some(why) = cannot_redirect() {
        return skipped(test, why);
    }
    let Some(net) = Net::new(test, 2) else { return };
    net.take_redirected(1);
    let dir = tempfile::tempdir().unwrap();
    let at = format!("{},{},eth0", net.name(1), net.address(1));
    let mut command = net.command(0, server::binary());
    command.args(["bench", "cache", "--operations", "400", "--rounds", "1", "--files", "2", "--window", "8", "--json"]);
    let output = command.args(["--switch-at", &at, "--dir"]).arg(dir.path()).output().expect("it starts");
    assert_results(&output, &["switch", "kernel"]);
    assert_empty(dir.path());
}

/// What is no place of a switch is told.
#[test]
fn a_switch_is_somewhere() {
    for (words, why) in [
        (&["--switch-at", "sw,10.0.0.2"][..], "write NETNS,ADDRESS,DEVICE"),
        (&["--switch-at", "sw,::1,eth0"], "is no IPv4 address"),
        (&["--switch-at", "../sw,10.0.0.2,eth0"], "is no name of a network namespace"),
    ] {
        let output = server::run([&["bench", "cache"], words].concat().into_iter().map(OsStr::new));
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{words:?}: {output:?}");
    }
    let output = server::run(["bench", "writes", "--forms", "chain,kernel"].map(OsStr::new));
    assert!(String::from_utf8_lossy(&output.stderr).contains("say with --switch-at where it is"), "{output:?}");
}

/// Each phase of each form, and who has answered.
fn assert_results(output: &Output, switches: &[&str]) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let results = list(&report, "results");
    assert_eq!(results.len(), (1 + switches.len()) * 9, "{report}");
    for result in results {
        ["us", "us_ratio"].iter().for_each(|name| assert_spread(&result[name], f64::MIN_POSITIVE));
        ["cpu_us", "switch_us", "rate"].iter().for_each(|name| assert_spread(&result[name], 0.0));
        let is_look = ["stat", "lookup", "stats", "path"].iter().any(|look| result["phase"] == *look);
        let share = result["share"]["min"].as_f64().unwrap();
        let expected = match result["phase"].as_str() {
            _ if !switches.iter().any(|form| result["form"] == *form) => 0.0..=0.0,
            // The open, and the size for the read.
            Some("open") => 1.8..=2.02,
            // The look before a change, at first.
            Some("chmod-hot" | "write-hot") => 0.0..=1.0,
            _ if is_look => 0.9..=1.01,
            _ => 0.0..=0.0,
        };
        assert!(expected.contains(&share), "{result}");
    }
}
