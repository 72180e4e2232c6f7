//! `onpath bench writes` on small numbers.

use super::{assert_empty, assert_spread, list};
use crate::common::{server, skipped};
use serde_json::Value;
use std::ffi::OsStr;
use tempfile::TempDir;

/// Every form is asked for everything, and its writes are answered as it has it.
#[test]
fn ways_to_answer_writes_are_compared() {
    let dir = in_memory();
    let forms = ["chain", "two-phase", "owner", "owner-at-once", "network"];
    let words = ["bench", "writes", "--operations", "400", "--rounds", "2", "--window", "8", "--json", "--forms"];
    let forms_words = forms.join(",");
    let words =
        words.into_iter().chain([forms_words.as_str(), "--dir"]).map(OsStr::new).chain([dir.path().as_os_str()]);
    let output = server::run(words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let results = list(&report, "results");
    assert_eq!(results.len(), 4 * forms.len(), "{report}");
    for result in results {
        for name in ["us", "us_ratio", "rate", "rate_ratio"] {
            assert_spread(&result[name], f64::MIN_POSITIVE);
        }
        for name in ["cpu_us", "records", "flushes"] {
            assert_spread(&result[name], 0.0);
        }
        // Files of which somebody wants to know at once are not lent for long.
        if result["phase"] != "write-and-stat" {
            assert!(result["share"]["min"].as_f64().unwrap() >= 0.9, "{result}");
        }
        assert_eq!(result["echo_ratio"].is_null(), result["phase"] != "write", "{result}");
    }
    assert_empty(dir.path());
    let twice = server::run(["bench", "writes", "--forms", "owner,owner"].map(OsStr::new));
    assert!(String::from_utf8_lossy(&twice.stderr).contains("asked for twice"), "{twice:?}");
}

/// Servers that spin on one CPU let each other run, also where each has to answer the others.
#[test]
fn servers_that_spin_share_a_cpu() {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        return skipped("bench::writes::servers_that_spin_share_a_cpu", "spinning needs two CPUs");
    }
    let dir = in_memory();
    let words =
        ["bench", "writes", "--wait", "spin", "--operations", "1000", "--rounds", "1", "--forms", "chain,network"];
    let words = words.into_iter().chain(["--json", "--dir"]).map(OsStr::new).chain([dir.path().as_os_str()]);
    let output = server::run(words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(list(&report, "results").len(), 8, "{report}");
    assert_empty(dir.path());
}

/// A directory whose flushes take no time.
fn in_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a directory on tmpfs")
}
