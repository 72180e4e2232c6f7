//! `onpath status --counters`: all counters, role by role.

use super::reading::Reading;
use comfy_table::{Table, presets};
use onpath_wire::shown::Shown;
use serde_json::{Map, Value};

/// The counters of all roles; of several hosts, each role is called after its host, too.
pub(super) fn of(reading: &Reading) -> Value {
    let several = reading.hosts.len() > 1;
    let mut all = Map::new();
    for host in &reading.hosts {
        let Some(counters) = host.report.as_ref().and_then(|report| report["counters"].as_object()) else { continue };
        for (role, counters) in counters {
            let role = if several { format!("{role}@{}", host.name) } else { role.clone() };
            all.insert(role, counters.clone());
        }
    }
    all.into()
}

/// What roles say, a line a number.
pub(crate) fn table(text: &str) -> anyhow::Result<String> {
    let status: Value = serde_json::from_str(text)?;
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(["role", "counter", "value"]);
    for (role, counters) in status.as_object().into_iter().flatten() {
        // Latencies are for `onpath top`.
        let counters = counters.as_object().into_iter().flatten().filter(|(name, _)| !name.contains("_below_"));
        for (counter, value) in counters {
            table.add_row([role.shown().to_string(), counter.shown().to_string(), value.to_string()]);
        }
    }
    Ok(table.to_string())
}
