//! `onpath status DIR`: counters of a running file system.

use crate::cli::say;
use crate::inspect::serving;
use clap::Args;
use comfy_table::{Table, presets};
use onpath_host::stream::request_status;
use serde_json::Value;
use std::path::PathBuf;

/// Arguments of `onpath status`.
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// The DIR of the running `onpath dev`, or a path on a mount of it.
    dir: PathBuf,
    /// Print JSON: an object of roles, each an object of counters.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: StatusArgs) -> anyhow::Result<()> {
    let text = request_status(&serving(&args.dir)?)?;
    if args.json {
        say(&text);
        return Ok(());
    }
    table(&text)
}

/// Prints what roles say, a line a number.
pub(crate) fn table(text: &str) -> anyhow::Result<()> {
    let status: Value = serde_json::from_str(text)?;
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(["role", "counter", "value"]);
    for (role, counters) in status.as_object().into_iter().flatten() {
        // Latencies are for `onpath top`.
        let counters = counters.as_object().into_iter().flatten().filter(|(name, _)| !name.contains("_below_"));
        for (counter, value) in counters {
            table.add_row([role.clone(), counter.clone(), value.to_string()]);
        }
    }
    say(&table.to_string());
    Ok(())
}
