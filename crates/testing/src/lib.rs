//! What the tests of all crates share: how one that cannot run says so.

use std::fs::OpenOptions;
use std::io::Write;

/// The environment variable that names the file to which each skipped test is appended, one a line; `scripts/test` counts them.
const LIST: &str = "ONPATH_SKIPPED";

/// Says that a test could not run, and why: on the real standard error (libtest captures only the print macros), and in the file that
/// `ONPATH_SKIPPED` names.
///
/// # Panics
/// When that file cannot be written: a test that did not run must not count as passed.
pub fn skipped(what: &str, reason: &str) {
    let line = format!("skipped: {what}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os(LIST) {
        // One write a line: several tests append at once.
        let mut list = OpenOptions::new().create(true).append(true).open(path).expect("the list of skipped tests");
        list.write_all(line.as_bytes()).expect("a line in the list of skipped tests");
    }
}
