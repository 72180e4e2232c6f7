//! `onpath rm [-f] [-d] PATH…`

use super::{AtArgs, Target, Work, is};
use clap::Args;
use onpath_client::Error;
use rustix::io::Errno;
use std::ffi::OsString;

/// Arguments of `onpath rm`.
#[derive(Args, Debug)]
pub(crate) struct RmArgs {
    /// What to remove: onpath://HOST[:PORT][,HOST…]/PATH, or with --at plain paths.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<OsString>,
    /// It is no failure if a PATH does not exist.
    #[arg(short, long)]
    force: bool,
    /// Remove empty directories, too.
    #[arg(short, long)]
    dir: bool,
    #[command(flatten)]
    at: AtArgs,
}

pub(crate) fn run(args: RmArgs) -> anyhow::Result<()> {
    let mut work = args.at.begin();
    for target in work.targets(&args.paths)? {
        let removed = remove(&work, &args, &target);
        work.told(removed);
    }
    work.end()
}

fn remove(work: &Work, args: &RmArgs, target: &Target) -> Result<(), Error> {
    match target.client.unlink(&work.me, &target.path) {
        Err(error) if args.force && is(&error, Errno::NOENT) => Ok(()),
        Err(error) if args.dir && is(&error, Errno::ISDIR) => target.client.rmdir(&work.me, &target.path),
        result => result,
    }
}
