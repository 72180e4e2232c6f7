//! Prometheus itself, from Debian's package.

use super::{place_of, scrape};
use crate::common::server::Site;
use crate::common::{skipped, tool};
use std::io::Write;
use std::process::{Command, Stdio};

/// A program of Prometheus; says so where it is not installed.
fn installed(test: &str, name: &str) -> Option<Command> {
    let found = tool(name);
    if found.is_none() {
        skipped(test, &format!("no {name}: scripts/setup --tests gets it from Debian's package prometheus"));
    }
    found.map(Command::new)
}

/// Prometheus' own linter says nothing of what a scrape tells.
#[test]
fn the_linter_says_nothing() {
    let test = "metrics::the_linter_says_nothing";
    let Some(mut promtool) = installed(test, "promtool") else { return };
    let Some(site) = Site::new(test) else { return };
    let mount = site.dev(&["--metrics", "0", "--tracking", "network"]);
    std::fs::write(mount.path().join("f"), "x").expect("a file");
    let text = scrape(place_of(&mount));
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = promtool.spawn().expect("promtool runs");
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("promtool reads");
    let output = child.wait_with_output().expect("promtool ends");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.is_empty(), "{said}");
    mount.stop();
}
