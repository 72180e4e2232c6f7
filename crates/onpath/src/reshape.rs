//! `onpath reshape DIR --shards N`: gives a file system that nobody serves another number of shards.

use crate::cli::{directory, say};
use crate::progress::Progress;
use clap::Args;
use onpath_host::dir::read_superblock;
use onpath_host::progress::Watcher;
use onpath_host::reshape::reshape;
use onpath_wire::shown::Shown;
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments of `onpath reshape`.
#[derive(Args, Debug)]
pub(crate) struct ReshapeArgs {
    /// The DIR of a file system that is not running.
    dir: PathBuf,
    /// Metadata shards that it shall have. Mounts that wait for it end.
    #[arg(long)]
    shards: u16,
    /// Show no progress.
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(args: ReshapeArgs) -> anyhow::Result<()> {
    let progress = Arc::new(Progress::new("reshaping", args.quiet));
    let dir = directory(&args.dir)?;
    let before = read_superblock(&dir)?.shards();
    let watcher: Arc<dyn Watcher> = progress.clone();
    let moved = reshape(&dir, args.shards, &watcher)?;
    progress.finish();
    if before == args.shards {
        say(&format!("onpath: {} has {before} shards already", dir.shown()));
    } else {
        say(&format!(
            "onpath: {} has {} shards now, not {before}; {moved} objects were moved",
            dir.shown(),
            args.shards
        ));
    }
    Ok(())
}
