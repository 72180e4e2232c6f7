//! `onpath status DIR`: counters of a running file system.

use crate::cli::{absolute, say};
use clap::Args;
use comfy_table::{Table, presets};
use onpath_host::stream::request_status;
use serde_json::Value;
use std::path::PathBuf;

/// Arguments of `onpath status`.
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// The DIR of the running `onpath dev`.
    dir: PathBuf,
    /// Print JSON: an object of roles, each an object of counters.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: StatusArgs) -> anyhow::Result<()> {
    let text = request_status(&absolute(&args.dir)?)?;
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
        for (counter, value) in counters.as_object().into_iter().flatten() {
            table.add_row([role.clone(), counter.clone(), value.to_string()]);
        }
    }
    say(&table.to_string());
    Ok(())
}
