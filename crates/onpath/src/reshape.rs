//! `onpath reshape DIR --shards N`: gives a file system that nobody serves another number of shards.

use crate::cli::{directory, say};
use crate::walk::Progress;
use clap::Args;
use onpath_host::dir::read_superblock;
use onpath_host::reshape::{Step, reshape};
use std::path::PathBuf;

/// Arguments of `onpath reshape`.
#[derive(Args, Debug)]
pub(crate) struct ReshapeArgs {
    /// The DIR of a file system that is not running.
    dir: PathBuf,
    /// Metadata shards that it shall have. Mounts that wait for it end.
    #[arg(long)]
    shards: u16,
    /// Show no progress (it is shown on terminals only).
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(args: ReshapeArgs) -> anyhow::Result<()> {
    let dir = directory(&args.dir)?;
    let before = read_superblock(&dir)?.shards;
    let progress = Progress::of("moving", "objects", args.quiet);
    let mut moved = 0u64;
    reshape(&dir, args.shards, &mut |step| match step {
        Step::Settling(_) => {}
        Step::Whole(objects) => progress.set_whole(objects),
        Step::Moved => {
            moved += 1;
            progress.entry();
        }
    })?;
    progress.finish();
    if before == args.shards {
        say(&format!("onpath: {} has {before} shards already", dir.display()));
    } else {
        say(&format!(
            "onpath: {} has {} shards now, not {before}; {moved} objects were moved",
            dir.display(),
            args.shards
        ));
    }
    Ok(())
}
