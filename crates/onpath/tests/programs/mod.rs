//! Real programs on the mount, compared with the same work on the local disk.
//!
//! A program that is not installed is skipped with a reason on standard error.

mod attributes;
mod builds;
mod data;
mod git;
mod postgres;
mod space;
mod sqlite;
mod system;
mod trees;

use crate::common::random::Random;
use crate::common::{number_from_env, skipped, tool};
use std::path::Path;
use std::process::Command;

/// Whether all these programs are there; if not, says that `test` is skipped.
pub(crate) fn installed(test: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| tool(program).is_none());
    if let Some(program) = missing {
        skipped(test, &format!("{program} is not installed"));
    }
    missing.is_none()
}

/// Runs a shell script in `dir`, its words as `$1` and so on; it must succeed. Gives what it wrote to standard output.
pub(crate) fn sh(dir: &Path, script: &str, words: &[&Path]) -> String {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", &time_limit(), "sh", "-euc", script, "sh"]).args(words).current_dir(dir);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", "/nonexistent");
    for kept in ["RUSTUP_HOME", "CARGO_HOME", "RUSTUP_TOOLCHAIN"] {
        if let Some(value) = std::env::var_os(kept) {
            command.env(kept, value);
        }
    }
    let output = command.output().expect("sh runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "in {}: {script}\n{}\n{text}\n{}",
        dir.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// How many seconds a script may take: more in the long runs.
fn time_limit() -> String {
    number_from_env("ONPATH_SCRIPT_SECONDS", 240).to_string()
}

/// Some readable text, different for every seed.
fn prose(seed: u64, lines: usize) -> String {
    const WORDS: [&str; 12] =
        ["shard", "grant", "owner", "journal", "slot", "term", "stamp", "cookie", "block", "chunk", "cut", "seal"];
    let mut random = Random::new(seed);
    let line = |_| (0..8).map(|_| *random.of(&WORDS)).collect::<Vec<_>>().join(" ") + "\n";
    (0..lines).map(line).collect()
}
