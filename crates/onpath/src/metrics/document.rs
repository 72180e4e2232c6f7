//! docs/metrics.md, which is made from the descriptions of the counters.

use onpath_host::metrics::{FAMILIES, GROUPS};
use std::fmt::Write;

/// Where it is.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
/// With this variable the document is written.
const WRITE: &str = "ONPATH_WRITE_METRICS";

const BEGIN: &str = "\
# Metrics

For who runs Prometheus or reads `onpath status --counters`: what each counter is. [monitoring.md](monitoring.md) says how to scrape them, and has \
alerts and a dashboard.

This document is made from the tables in `crates/host/src/metrics/table.rs` and `crates/host/src/metrics/labelled.rs` \
(`ONPATH_WRITE_METRICS=1 cargo test -p onpath metrics`); a test compares it with them. Prometheus is told all roles of a process together, so that the number of \
series does not depend on the number of shards: it is never more than 2,100. `onpath status --counters` tells each role alone, under the name in the second column. \
Counters never become less while the process lives. A process tells the metrics of the roles that it has.

## Operations

";

fn document() -> String {
    let mut text = BEGIN.to_owned();
    for family in FAMILIES {
        let unit = Some(family.unit.word())
            .filter(|unit| !unit.is_empty())
            .map(|unit| format!(", {unit}"))
            .unwrap_or_default();
        let _ = writeln!(text, "`{}` ({}{unit}): {}\n", family.name, family.kind.word(), family.help);
        for (name, values) in family.labels {
            let _ = writeln!(text, "* `{name}`: {values}");
        }
        text.push('\n');
    }
    for group in GROUPS {
        let _ = writeln!(text, "## {}\n\n{}\n", group.role, group.about);
        text.push_str("| metric | counter | kind | unit | what |\n|---|---|---|---|---|\n");
        for metric in group.metrics {
            let (name, kind, unit) = (metric.exposed(group.role), metric.kind.word(), metric.unit.word());
            let _ = writeln!(text, "| `{name}` | `{}` | {kind} | {unit} | {} |", metric.name, metric.help);
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

#[test]
fn the_document_tells_every_metric() {
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(DOCUMENT, document()).expect("docs/metrics.md is written");
    }
    let there = std::fs::read_to_string(DOCUMENT).unwrap_or_default();
    assert!(there == document(), "docs/metrics.md does not fit the tables: {WRITE}=1 cargo test -p onpath metrics");
}
