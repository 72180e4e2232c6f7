//! Work on whole trees: rmr, chmod -R, chown -R, du, find, import and export.

use super::text;
use crate::common::running::{On, Running, StandsStill};
use crate::common::server::Site;
use crate::common::wait_until;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Entries of a tree that [`plant`] makes.
const PLANTED: usize = 12;

/// A directory of eleven files.
fn plant(root: &Path) {
    fs::create_dir_all(root).expect("mkdir");
    (1..PLANTED).for_each(|n| fs::write(root.join(format!("f{n}")), "0123456789").expect("a file"));
}

/// A command on two trees, one of which does not answer: how it is called, and what it is about.
const COMMANDS: [(&[&str], &str); 5] = [
    (&["rmr"], "removing"),
    (&["chmod", "-R", "u=rwX,go="], "changing modes"),
    (&["chown", "-R", "root:root"], "changing owners"),
    (&["du"], "counting"),
    (&["find", "--name", "no such name"], "searching"),
];

/// Each command gets stuck after it has done the first tree.
#[test]
fn trees() {
    let Some(site) = Site::new("progress of work on trees") else { return };
    let mount = site.dev(&[]);
    let tree = |top: &Path, n: usize| {
        let tree = top.join(format!("tree{n}"));
        plant(&tree);
        text(&tree).to_owned()
    };
    let trees: Vec<_> = (0..2 * COMMANDS.len()).map(|n| (tree(site.root(), n), tree(mount.path(), n))).collect();
    // A mount whose kernel knows no name yet: whatever asks for anything of the second tree stands still too.
    mount.stop();
    let mount = site.dev(&[]);
    let still = StandsStill::new(mount.pid());
    let start = |on: On, (words, doing): (&[&str], &'static str), (local, mounted): &(String, String)| {
        (Running::start(on, &[words, &["--jobs", "2", local, mounted]].concat()), doing)
    };
    let (on_terminals, to_logs) = trees.split_at(COMMANDS.len());
    let drawn: Vec<_> = COMMANDS.iter().zip(on_terminals).map(|(&of, on)| start(On::Terminal, of, on)).collect();
    let logged: Vec<_> = COMMANDS.iter().zip(to_logs).map(|(&of, on)| start(On::Log, of, on)).collect();
    for (running, doing) in &drawn {
        running.wait_for(&format!("{doing} {PLANTED} entries, "));
    }
    for (running, doing) in &logged {
        running.wait_for(&format!("onpath: {doing} for 1"));
        running.wait_for(&format!(" s: {PLANTED} entries, "));
    }
    drop(still);
    for (running, doing) in drawn.into_iter().chain(logged) {
        let ended = running.succeeds();
        let last = ended.error.lines().last().unwrap_or_default().trim_start_matches(|c| c != 'o').to_owned();
        let summary = format!("onpath: {doing} took ");
        assert!(last.contains(&summary) && last.ends_with(&format!(" s: {} entries", 2 * PLANTED)), "{last:?}");
        assert!(!ended.output.contains(doing), "progress is told on standard error: {}", ended.output);
    }
    mount.stop();
}

/// Files of a tree that is copied until its mount stands still.
const COPIED: usize = 10_000;

/// An import that gets stuck in the middle knows how much is left, since the source can be counted; an export from a mount that stands still
/// cannot know it.
#[test]
fn copies() {
    let Some(site) = Site::new("progress of copies") else { return };
    let mount = site.dev(&[]);
    let (source, inside) = (site.root().join("source"), mount.path().join("inside"));
    fs::create_dir(&source).expect("mkdir");
    (0..COPIED).for_each(|n| fs::write(source.join(format!("f{n}")), "0123456789").expect("a file"));
    plant(&inside);
    let copy = |on: On, to: &Path| Running::start(on, &["import", text(&source), text(to)]);
    let copies = [On::Terminal, On::Log].map(|on| mount.path().join(format!("{on:?}")));
    let (drawn, logged) = (copy(On::Terminal, &copies[0]), copy(On::Log, &copies[1]));
    let begun = |copy: &Path| fs::read_dir(copy).is_ok_and(|entries| entries.count() > 2);
    wait_until("both copies are under way", || copies.iter().all(|copy| begun(copy)));
    let still = StandsStill::new(mount.pid());
    let out = Running::start(On::Log, &["export", text(&inside), text(&site.root().join("outside"))]);
    drawn.wait_for(&format!(" of {} entries (", grouped(COPIED + 1)));
    logged.wait_for("onpath: importing for 1");
    logged.wait_for(&format!(" of {} entries (", grouped(COPIED + 1)));
    assert!(logged.error().contains(" left\n") && drawn.error().contains("importing ["), "{:?}", logged.error());
    out.wait_for("onpath: exporting for 1");
    drop(still);
    for (copy, doing, entries) in
        [(drawn, "importing", COPIED + 1), (logged, "importing", COPIED + 1), (out, "exporting", PLANTED)]
    {
        let ended = copy.succeeds();
        let said = ended.error.lines().last().unwrap_or_default();
        let counted = format!(" s: {} entries, ", grouped(entries));
        assert!(said.contains(&format!("onpath: {doing} took ")) && said.contains(&counted), "{said}");
    }
    mount.stop();
}

/// As people write thousands.
fn grouped(number: usize) -> String {
    if number < 1_000 { number.to_string() } else { format!("{},{:03}", number / 1_000, number % 1_000) }
}

/// What is asked for as JSON stays so, and who wants no progress gets none.
#[test]
fn json_and_quiet() {
    let Some(site) = Site::new("progress beside JSON") else { return };
    let mount = site.dev(&[]);
    let tree = mount.path().join("tree");
    plant(&tree);
    let still = StandsStill::new(mount.pid());
    let json = Running::start(On::Log, &["find", "--json", text(&tree)]);
    let quiet = Running::start(On::Terminal, &["find", "--quiet", "--summary", text(&tree)]);
    json.wait_for("onpath: searching for 1");
    json.wait_for(" s: 0 entries\n");
    drop(still);
    let (json, quiet) = (json.succeeds(), quiet.succeeds());
    let counted: Value = serde_json::from_str(&json.output).expect("one object");
    assert_eq!(counted["files"].as_u64(), Some(PLANTED as u64 - 1));
    assert!(counted["seconds"].as_f64().is_some_and(|seconds| seconds >= 10.0), "{counted}");
    assert_eq!(quiet.error, "");
    mount.stop();
}

/// Nothing is shown of what is soon done.
#[test]
fn short_work() {
    let root = tempfile::tempdir().expect("a temporary directory");
    plant(root.path());
    let begun = Instant::now();
    let found = Running::start(On::Terminal, &["find", text(root.path())]).succeeds();
    let took = begun.elapsed();
    assert_eq!(found.output.lines().count(), PLANTED);
    assert!(found.error.is_empty() || took > Duration::from_secs(2), "{took:?}: {:?}", found.error);
}
