//! `onpath umount MOUNTPOINT`: as umount(8), but also of a mount whose server is gone, it says who keeps one busy, and it returns when the
//! process that served the mount has ended.

use clap::Args;
use onpath_fuse::mount::{server_at, unmount};
use std::path::PathBuf;
use std::time::Duration;

/// How long a server is waited for, which may have much to write.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

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
    let server = if args.lazy { None } else { server_at(&args.mountpoint)? };
    unmount(&args.mountpoint, args.lazy)?;
    if let Some(server) = server
        && let Err(pid) = server.ends_within(ENDS_WITHIN)
    {
        eprintln!("onpath: unmounted; process {pid}, which served it, goes on");
    }
    Ok(())
}
