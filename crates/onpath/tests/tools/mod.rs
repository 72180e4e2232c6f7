//! The everyday tools: whole trees, copies in and out, live counters, completions and manual pages.

pub(crate) mod copies;
mod errors;
mod generated;
pub(crate) mod resumed;
mod shown;
mod sums;
mod swapped;
mod top;
mod trees;

use serde_json::Value;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Output;

/// Runs `onpath ARGS…`.
fn onpath(args: &[&str]) -> Output {
    crate::common::server::run(args.iter().map(OsStr::new))
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs `onpath ARGS… --json`, which must succeed, and gives what it printed.
#[track_caller]
fn json(args: &[&str]) -> Value {
    let output = onpath(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {}", said(&output)))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}
