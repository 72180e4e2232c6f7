//! The semantic suite `posix` through a client, in the ways that paths are followed, and whether what is left out of it has to be. `scripts/test
//! --full` runs it in more shapes.

use crate::common::{cannot_mount, skipped};
use crate::posix::all_left_out;
use std::collections::BTreeMap;
use std::process::Command;

/// Runs tests of the suite through a client in a process of its own: which have passed, and what they said.
fn run(through: &str, environment: &[(&str, &str)], arguments: &[&str]) -> (BTreeMap<String, bool>, String) {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "300"]).arg(program).args(["--test-threads", "4"]).args(arguments);
    // Here the whole of them is one test, which runs.
    command.env("ONPATH_THROUGH", through).env_remove("ONPATH_SKIPPED").envs(environment.iter().copied());
    let output = command.output().expect("timeout and this program run");
    let [said, errors] = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    let of_each = |line: &str| {
        let (test, how) = line.strip_prefix("test posix::")?.split_once(" ... ")?;
        Some((test.to_owned(), how == "ok"))
    };
    let each: BTreeMap<_, _> = said.lines().filter_map(of_each).collect();
    assert_eq!(output.status.success(), each.values().all(|passed| *passed), "{}:\n{said}{errors}", output.status);
    (each, said)
}

/// These modules of the suite pass, but for what is left out.
fn passes(through: &str, modules: &[&str], at_least: usize) {
    let filters: Vec<String> = modules.iter().map(|module| format!("posix::{module}")).collect();
    let (each, said) = run(through, &[], &filters.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(each.values().all(|passed| *passed), "ONPATH_THROUGH={through}:\n{said}");
    let left_out: Vec<_> = all_left_out().map(|(test, _)| test).collect();
    let ran = each.keys().filter(|test| !left_out.contains(&test.as_str())).count();
    assert!(ran >= at_least, "{ran} tests ran with ONPATH_THROUGH={through}");
}

#[test]
fn all_of_it_by_kept_ways() {
    if let Some(why) = cannot_mount() {
        return skipped("remote::suite::all_of_it_by_kept_ways", why);
    }
    passes("kept", &[""], 330);
}

#[test]
fn a_share_of_it_without() {
    if let Some(why) = cannot_mount() {
        return skipped("remote::suite::a_share_of_it_without", why);
    }
    let share = ["open::", "rename::", "exchange::", "link::", "symlink::", "unlinked::", "names::", "access::"];
    passes("asked", &share, 60);
    passes("names", &share, 60);
}

#[test]
fn what_is_left_out_cannot_run() {
    if let Some(why) = cannot_mount() {
        return skipped("remote::suite::what_is_left_out_cannot_run", why);
    }
    let tests: Vec<String> = all_left_out().map(|(test, _)| format!("posix::{test}")).collect();
    let mut arguments = vec!["--exact"];
    arguments.extend(tests.iter().map(String::as_str));
    let (each, _) = run("kept", &[("ONPATH_LEFT_OUT", "tried")], &arguments);
    let missing: Vec<_> = all_left_out().filter(|(test, _)| !each.contains_key(*test)).collect();
    assert!(missing.is_empty(), "left_out.txt names tests that are not there: {missing:?}");
    let can: Vec<_> = each.iter().filter(|(_, passed)| **passed).map(|(test, _)| test).collect();
    assert!(can.is_empty(), "left_out.txt names tests that can run through a client: {can:?}");
}
