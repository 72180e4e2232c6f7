//! `onpath complete-path WORD`: what completions of shells ask for names of file systems that are not mounted.

use super::name::joined;
use super::{AtArgs, Work, glob};
use crate::cli::say;
use clap::Args;
use onpath_client::FileType;
use std::ffi::OsString;
use std::time::Duration;

/// Somebody waits with a finger on the key: what takes longer is not worth it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Names that are printed; nobody looks through more.
const NAMES_MAX: usize = 1_000;

/// Arguments of `onpath complete-path`.
#[derive(Args, Debug)]
pub(crate) struct CompleteArgs {
    /// What is typed so far.
    word: OsString,
    #[command(flatten)]
    at: AtArgs,
}

/// Prints each path that begins so, directories with a slash at their end. Whatever is wrong, nothing is said: the shell would show it in the
/// middle of a line.
pub(crate) fn run(args: CompleteArgs) -> anyhow::Result<()> {
    let limit = || {
        std::thread::sleep(PATIENCE);
        std::process::exit(0);
    };
    std::thread::Builder::new().name("limit".into()).spawn(limit)?;
    let mut work = args.at.begin();
    let names = names(&mut work, &args.word).unwrap_or_default();
    names.iter().for_each(say);
    _ = work.end(); // nothing was told, so nothing has failed
    Ok(())
}

fn names(work: &mut Work, word: &OsString) -> anyhow::Result<Vec<Vec<u8>>> {
    let target = work.target(word)?;
    let literal = work.args.access.literal;
    let path = if literal { target.path.clone() } else { glob::plain(&target.path) };
    let path: &[u8] = if word.is_empty() { b"" } else { &path };
    let cut = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (dir, begin) = path.split_at(cut);
    let mut names = Vec::new();
    let mut listing = target.client.list(&work.me, if dir.is_empty() { b"/" } else { dir }, false)?;
    while let Some(page) = listing.next()? {
        let fitting = page.into_iter().filter(|entry| {
            let hidden = entry.name.starts_with(b".") && !begin.starts_with(b".");
            // A line for each, of text.
            let is_text = std::str::from_utf8(&entry.name).is_ok_and(|name| !name.chars().any(char::is_control));
            entry.name.starts_with(begin) && !hidden && is_text
        });
        names.extend(fitting.map(|entry| {
            let slash: &[u8] = if entry.file_type == FileType::Directory { b"/" } else { b"" };
            let path = joined(dir, &entry.name);
            // Once it is taken over it means this name alone.
            let word = if literal { path } else { glob::escaped(&path) };
            [&target.with_path(word).name(), slash].concat()
        }));
        if names.len() >= NAMES_MAX {
            break;
        }
    }
    names.truncate(NAMES_MAX);
    names.sort_unstable();
    Ok(names)
}
