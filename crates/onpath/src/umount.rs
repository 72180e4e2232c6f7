//! `onpath umount MOUNTPOINT`: as umount(8), but also of a mount whose server is gone, and it says who keeps one busy.

use clap::Args;
use std::path::PathBuf;

/// Arguments of `onpath umount`.
#[derive(Args, Debug)]
pub(crate) struct UmountArgs {
    /// Where it is mounted.
    mountpoint: PathBuf,
    /// Take it out of sight now; who uses it keeps it until they are done.
    #[arg(short, long)]
    lazy: bool,
}

pub(crate) fn run(args: UmountArgs) -> anyhow::Result<()> {
    Ok(onpath_fuse::mount::unmount(&args.mountpoint, args.lazy)?)
}
