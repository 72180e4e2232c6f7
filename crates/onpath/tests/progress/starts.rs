//! A start that has much to recover. Its directory lies on a mount that stands still in the middle of it.

use super::{Inner, text};
use crate::common::process;
use crate::common::running::{On, Running};
use crate::common::server::Site;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The events of the log that are about progress.
fn events(log: &str) -> Vec<Value> {
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter(|event| event["target"] == "onpath::progress").map(|event| event["fields"].clone()).collect()
}

#[test]
fn a_recovery() {
    let Some(site) = Site::new("progress of a recovery") else { return };
    let inner = Inner::new(&site, 2);
    let still = inner.stands_still();
    let drawn = Running::start(On::Terminal, &["dev", text(&inner.dirs[0])]);
    let told = Running::start(On::Log, &["--log-json", "dev", text(&inner.dirs[1])]);
    drawn.wait_for("starting ");
    still.creeps_until(&drawn, "replaying the journal [");
    told.wait_for("starting goes on");
    drop(still);
    for running in [&drawn, &told] {
        crate::common::wait_until("it serves", || running.output().contains("onpath: serving "));
    }
    assert!(drawn.error().contains(" MiB ("), "per cent of the journal: {}", drawn.error());
    drawn.wait_for(": starting took ");
    let events = events(&told.error());
    let [first, .., last] = &events[..] else { panic!("{events:?}") };
    assert!(first["message"] == "starting goes on" && first["for_s"].as_u64().is_some_and(|s| s >= 10), "{first}");
    assert!(first["doing"].is_string(), "{first}");
    let said = last["message"].as_str().unwrap_or_default();
    assert!(said.starts_with("starting took ") && last["took_s"].as_u64().is_some_and(|s| s >= 10), "{last}");
    assert!(said.contains("replaying the journal ") && said.contains(" MiB)"), "{last}");
    for running in [drawn, told] {
        process::send(running.pid(), libc::SIGTERM);
        running.succeeds();
    }
    inner.stop();
}

/// Who waits for a server in the background sees what it does.
#[test]
fn a_recovery_in_the_background() {
    let Some(site) = Site::new("progress of a recovery in the background") else { return };
    let inner = Inner::new(&site, 2);
    let log = |n: usize| site.root().join(format!("log-background-{n}"));
    let still = inner.stands_still();
    let start =
        |on: On, n: usize| Running::start(on, &["dev", "-d", "--log-file", text(&log(n)), text(&inner.dirs[n])]);
    let (drawn, told) = (start(On::Terminal, 0), start(On::Log, 1));
    drawn.wait_for("starting ");
    still.creeps_until(&drawn, "replaying the journal [");
    told.wait_for("starting goes on");
    drop(still);
    for (n, starter) in [drawn, told].into_iter().enumerate() {
        let ended = starter.succeeds();
        assert!(ended.output.starts_with("onpath: serving "), "{}", ended.output);
        assert!(n == 1 || ended.error.contains(": starting took "), "{}", ended.error);
        process::send(server_of(&inner.dirs[n]), libc::SIGTERM);
        crate::common::wait_until("it ends", || is_free(&inner.dirs[n]));
        assert!(!fs::read_to_string(log(n)).unwrap_or_default().contains("starting"));
    }
    inner.stop();
}

/// The process that serves a DIR, as it says itself.
fn server_of(dir: &Path) -> i32 {
    let lock = fs::read_to_string(dir.join("lock")).expect("the lock");
    lock.split_whitespace().next().and_then(|pid| pid.parse().ok()).unwrap_or_else(|| panic!("{lock:?}"))
}

fn is_free(dir: &Path) -> bool {
    fs::File::open(dir.join("lock")).is_ok_and(|lock| lock.try_lock().is_ok())
}
