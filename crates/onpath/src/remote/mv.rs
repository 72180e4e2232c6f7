//! `onpath mv [-n] SOURCE DEST` and `onpath mv [-n] SOURCE… DIRECTORY`

use super::{AtArgs, Target, Work, is, name};
use anyhow::ensure;
use clap::Args;
use onpath_client::{Error, Replace};
use rustix::io::Errno;
use std::ffi::OsString;

/// Arguments of `onpath mv`.
#[derive(Args, Debug)]
pub(crate) struct MvArgs {
    #[arg(help = paths!("What to rename, and its new name or the directory that it goes into"), required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<OsString>,
    /// Leave what is there already, and what would take its place.
    #[arg(short, long, conflicts_with = "exchange")]
    no_clobber: bool,
    /// What is there already is replaced, as it is without this option.
    #[arg(short, long, conflicts_with = "no_clobber")]
    force: bool,
    /// Let both change places.
    #[arg(long)]
    exchange: bool,
    /// A DEST that is a directory, or a symbolic link to one, is no directory to move things into.
    #[arg(short = 'T', long)]
    no_target_directory: bool,
    #[command(flatten)]
    at: AtArgs,
}

pub(crate) fn run(args: MvArgs) -> anyhow::Result<()> {
    let mut work = args.at.begin();
    let mut sources = work.targets(&args.paths)?;
    let last = sources.pop().expect("two at least");
    let into = !args.no_target_directory && last.is_dir(&work.me);
    ensure!(into || sources.len() == 1, "{} is not a directory: only one thing can get its name", last.shown());
    for source in sources {
        ensure!(
            source.client.source() == last.client.source(),
            "{} and {} are in different file systems: use onpath get and onpath put",
            source.shown(),
            last.shown()
        );
        let dest = match name::last(&source.path) {
            Some(name) if into => last.below(name),
            _ => last.clone(),
        };
        match rename(&work, &args, &source, &dest) {
            Ok(true) => {}
            Ok(false) => work.report.note(&format!("{} and {} are the same file", source.shown(), dest.shown())),
            Err(error) => work.report.note(&error.to_string()),
        }
    }
    work.end()
}

/// Renames; false if both are names of one file.
fn rename(work: &Work, args: &MvArgs, source: &Target, dest: &Target) -> Result<bool, Error> {
    let replace = match (args.no_clobber, args.exchange) {
        (true, _) => Replace::No,
        (_, true) => Replace::Exchange,
        _ => Replace::Yes,
    };
    if replace == Replace::Yes
        && let (Ok(is), Ok(there)) = (source.lstat(&work.me), dest.lstat(&work.me))
        && is.ino == there.ino
    {
        // rename(2) would leave both names.
        return Ok(false);
    }
    match source.client.rename(&work.me, &source.path, &dest.path, replace) {
        Err(error) if args.no_clobber && is(&error, Errno::EXIST) => Ok(true),
        result => result.map(|()| true),
    }
}
