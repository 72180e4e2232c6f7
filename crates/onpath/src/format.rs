//! `onpath format DIR`: makes an empty file system, without serving it.

use crate::cli::{directory, say};
use clap::Args;
use onpath_host::dir::Dir;
use onpath_wire::shown::Shown;
use std::path::PathBuf;

/// Arguments of `onpath format`.
#[derive(Args, Debug)]
pub(crate) struct FormatArgs {
    /// Where the state of the file system shall be: an empty directory, or one that does not exist yet.
    dir: PathBuf,
    /// Metadata shards [default: one a core].
    #[arg(long, env = "ONPATH_SHARDS")]
    shards: Option<u16>,
}

pub(crate) fn run(args: FormatArgs) -> anyhow::Result<()> {
    let dir = Dir::open_or_format(&directory(&args.dir)?, args.shards, None)?;
    anyhow::ensure!(
        dir.fresh,
        "{} holds a file system already; it was left alone (onpath dev {0} MOUNTPOINT mounts it)",
        args.dir.shown()
    );
    say(&format!("onpath: formatted {} with {} shards", args.dir.shown(), dir.superblock().shards()));
    Ok(())
}
