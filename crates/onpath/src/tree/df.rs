//! `onpath df [PATH…]`: the space of mounted file systems.

use crate::cli::say;
use crate::progress::bytes;
use crate::walk::{Undone, explain};
use clap::Args;
use comfy_table::{Table, presets};
use onpath_fuse::mount::{FILESYSTEM_TYPE, mounts};
use onpath_wire::shown::Shown;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Arguments of `onpath df`.
#[derive(Args, Debug)]
pub(crate) struct DfArgs {
    /// Paths on the file systems to show [default: all mounts of Onpath].
    paths: Vec<PathBuf>,
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: DfArgs) -> anyhow::Result<()> {
    let mut failures = 0;
    let mut rows = Vec::new();
    for (source, path) in asked(&args.paths)? {
        match space(&source, &path) {
            Ok(row) => rows.push(row),
            Err(errno) => {
                failures += 1;
                eprintln!("onpath: {}: {}", path.shown(), explain(errno));
            }
        }
    }
    if args.json {
        say(&Value::Array(rows).to_string());
    } else {
        say(&table(&rows));
    }
    if failures > 0 { Err(Undone::of(failures).into()) } else { Ok(()) }
}

/// What to show: sources and paths.
fn asked(paths: &[PathBuf]) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mounts = mounts()?;
    if paths.is_empty() {
        let ours = mounts.into_iter().filter(|mount| mount.kind == FILESYSTEM_TYPE);
        return Ok(ours.map(|mount| (mount.source, mount.mountpoint)).collect());
    }
    let source = |path: &Path| {
        let path = std::path::absolute(path).unwrap_or_default();
        let over = mounts.iter().filter(|mount| path.starts_with(&mount.mountpoint));
        over.max_by_key(|mount| mount.mountpoint.as_os_str().len()).map(|mount| mount.source.clone())
    };
    Ok(paths.iter().map(|path| (source(path).unwrap_or_default(), path.clone())).collect())
}

fn space(source: &str, path: &Path) -> Result<Value, rustix::io::Errno> {
    let stat = rustix::fs::statvfs(path)?;
    let used = stat.f_blocks.saturating_sub(stat.f_bfree);
    Ok(json!({
        "source": source,
        "path": path.to_string_lossy(),
        "bytes": stat.f_blocks * stat.f_frsize,
        "used": used * stat.f_frsize,
        "available": stat.f_bavail * stat.f_frsize,
        "inodes": stat.f_files.saturating_sub(stat.f_ffree),
    }))
}

fn table(rows: &[Value]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["source", "size", "used", "available", "use%", "inodes", "mounted on"]);
    for row in rows {
        let number = |name: &str| row[name].as_u64().unwrap_or_default();
        let text = |name: &str| row[name].as_str().filter(|text| !text.is_empty()).map(|text| text.shown().to_string());
        let (used, free) = (number("used"), number("available"));
        let percent = (used * 100).div_ceil((used + free).max(1));
        table.add_row([
            text("source").unwrap_or_default(),
            bytes(number("bytes")),
            bytes(used),
            bytes(free),
            format!("{percent}%"),
            number("inodes").to_string(),
            text("path").unwrap_or_default(),
        ]);
    }
    table.to_string()
}
