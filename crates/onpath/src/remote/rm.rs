//! `onpath rm [-r] [-f] [-d] PATH…`

use super::{AtArgs, Target, WalkedTree, Work, is};
use crate::tree::rmr;
use crate::walk::ManyArgs;
use clap::Args;
use onpath_client::Error;
use rustix::io::Errno;
use std::ffi::OsString;

/// Arguments of `onpath rm`.
#[derive(Args, Debug)]
pub(crate) struct RmArgs {
    #[arg(help = paths!("What to remove"), required = true, value_name = "PATH")]
    paths: Vec<OsString>,
    /// It is no failure if there is nothing at a PATH.
    #[arg(short, long)]
    force: bool,
    /// Remove empty directories, too.
    #[arg(short, long)]
    dir: bool,
    /// Remove directories with everything in them, in parallel.
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    #[command(flatten)]
    many: ManyArgs,
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
        Err(error)
            if args.force && is_missing(&error) && target.lstat(&work.me).is_err_and(|error| is_missing(&error)) =>
        {
            Ok(())
        }
        Err(error) if args.recursive && is(&error, Errno::ISDIR) => {
            remove_tree(work, args, target);
            Ok(())
        }
        Err(error) if args.dir && is(&error, Errno::ISDIR) => target.client.rmdir(&work.me, &target.path),
        result => result,
    }
}

/// What of a path says that nothing is there: a name, or a directory above it.
fn is_missing(error: &Error) -> bool {
    is(error, Errno::NOENT) || is(error, Errno::NOTDIR)
}

fn remove_tree(work: &Work, args: &RmArgs, target: &Target) {
    let (tree, root) = (WalkedTree::of(target, &work.me, false, 0), target.local_name());
    match tree.refuse(&root) {
        Ok(()) => rmr::remove(&tree, &[rmr::itself(&root).to_owned()], args.many.jobs(), args.many.quiet, &work.report),
        Err(error) => work.report.note(&error.to_string()),
    }
}
