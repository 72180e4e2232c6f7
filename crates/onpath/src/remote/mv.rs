//! `onpath mv [-n] SOURCE DEST` and `onpath mv [-n] SOURCE… DIRECTORY`

use super::copies::Given;
use super::{AtArgs, Target, Work, name};
use anyhow::ensure;
use clap::Args;
use onpath_client::Replace;
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
    let (last, sources) = args.paths.split_last().expect("two at least");
    let sources = work.targets(sources)?;
    let last = work.one(last)?;
    let into = !args.no_target_directory && last.is_dir(&work.me);
    ensure!(into || sources.len() == 1, "{} is not a directory: only one thing can get its name", last.shown());
    let mut given = Given::default();
    for source in sources {
        ensure!(
            source.client.source() == last.client.source(),
            "{} and {} are in different file systems: use onpath get and onpath put",
            source.shown(),
            last.shown()
        );
        let name = name::last(&source.path).filter(|_| into);
        let dest = name.map_or_else(|| last.clone(), |name| last.below(name));
        match rename(&work, &args, &source, (&dest, name), &mut given) {
            Ok(()) => {}
            Err(error) => work.report.note(&error.to_string()),
        }
    }
    work.end()
}

/// Renames; `name` is what the directory that things are moved into knows it by.
fn rename(
    work: &Work,
    args: &MvArgs,
    source: &Target,
    (dest, name): (&Target, Option<&[u8]>),
    given: &mut Given,
) -> anyhow::Result<()> {
    let replace = match (args.no_clobber, args.exchange) {
        (true, _) => Replace::No,
        (_, true) => Replace::Exchange,
        _ => Replace::Yes,
    };
    let is = source.lstat(&work.me)?;
    if replace == Replace::Yes
        && let Ok(there) = dest.lstat(&work.me)
    {
        // rename(2) would leave both names.
        ensure!(is.ino != there.ino, "{} and {} are the same file", source.shown(), dest.shown());
        // A directory takes the place of nothing but an empty one.
        if let Some(name) = name.filter(|_| !is.is_dir()) {
            given.is_free(name, &source.name())?;
        }
    }
    match source.client.rename(&work.me, &source.path, &dest.path, replace) {
        Err(error) if args.no_clobber && super::is(&error, Errno::EXIST) => return Ok(()),
        result => result?,
    }
    name.into_iter().for_each(|name| given.give(name, &source.name()));
    Ok(())
}
