//! `onpath ln [-s] [-f] TARGET LINK` and `onpath ln [-s] [-f] TARGET… DIRECTORY`

use super::copies::Given;
use super::name::{self, joined};
use super::{AtArgs, Target, Work, is};
use anyhow::ensure;
use clap::Args;
use onpath_client::{Error, Replace, url};
use onpath_wire::shown::Shown;
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Arguments of `onpath ln`.
#[derive(Args, Debug)]
pub(crate) struct LnArgs {
    #[arg(help = paths!("Files, and the further name or the directory of further names"), required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<OsString>,
    /// Make symbolic links: a TARGET is the text that they have.
    #[arg(short, long)]
    symbolic: bool,
    /// A link takes the place of what has its name.
    #[arg(short, long)]
    force: bool,
    /// A LINK that is a directory, or a symbolic link to one, is no directory to make links in.
    #[arg(short = 'T', long, visible_short_alias = 'n')]
    no_target_directory: bool,
    #[command(flatten)]
    at: AtArgs,
}

pub(crate) fn run(args: LnArgs) -> anyhow::Result<()> {
    let mut work = args.at.begin();
    let (last, words) = args.paths.split_last().expect("two at least");
    let last = work.one(last)?;
    let targets = if args.symbolic { texts(words)? } else { files(&mut work, words, &last)? };
    let into = !args.no_target_directory && last.is_dir(&work.me);
    ensure!(into || targets.len() == 1, "{} is not a directory: several links need one", last.shown());
    let mut given = Given::default();
    for target in &targets {
        if let Err(error) = link(&work, &args, target, (&last, into), &mut given) {
            work.report.note(&error.to_string());
        }
    }
    work.end()
}

/// What a link leads to.
enum To<'a> {
    /// This text, which is symbolic.
    Text(&'a OsString),
    File(Target),
}

fn texts(words: &[OsString]) -> anyhow::Result<Vec<To<'_>>> {
    for word in words {
        let is_url = url::is_url(Path::new(word));
        ensure!(!is_url, "{} is a URL: the target of a symbolic link is a path", word.shown());
    }
    Ok(words.iter().map(To::Text).collect())
}

fn files(work: &mut Work, words: &[OsString], last: &Target) -> anyhow::Result<Vec<To<'static>>> {
    let targets = work.targets(words)?;
    for target in &targets {
        ensure!(
            target.client.source() == last.client.source(),
            "{} and {} are in different file systems: only a symbolic link leads from one to the other",
            target.shown(),
            last.shown()
        );
    }
    Ok(targets.into_iter().map(To::File).collect())
}

fn link(
    work: &Work,
    args: &LnArgs,
    target: &To<'_>,
    (last, into): (&Target, bool),
    given: &mut Given,
) -> anyhow::Result<()> {
    let (path, told) = match target {
        To::Text(text) => (text.as_bytes(), text.as_bytes().to_vec()),
        To::File(file) => (&file.path[..], file.name()),
    };
    let name = name::last(path).filter(|_| into);
    let place = name.map_or_else(|| last.clone(), |name| last.below(name));
    // A link that is a text is made again of it; a further name may be the last one that a file has.
    if let Some(name) = name.filter(|_| args.force && !args.symbolic) {
        given.is_free(name, &told)?;
    }
    make(work, args, &place, &|new| match target {
        To::Text(text) => new.client.symlink(&work.me, &new.path, text.as_bytes()).map(drop),
        To::File(file) => file.client.link(&work.me, &file.path, &new.path).map(drop),
    })?;
    name.into_iter().for_each(|name| given.give(name, &told));
    Ok(())
}

/// Makes a link; with --force beside its place first, so that the name is never missing.
fn make(work: &Work, args: &LnArgs, place: &Target, link: &dyn Fn(&Target) -> Result<(), Error>) -> Result<(), Error> {
    match link(place) {
        Err(error) if args.force && is(&error, Errno::EXIST) => {}
        result => return result,
    }
    let aside = place.beside();
    link(&aside)?;
    let renamed = aside.client.rename(&work.me, &aside.path, &place.path, Replace::Yes);
    // Of two names of one inode a rename leaves both; and one that fails leaves the first.
    match aside.client.unlink(&work.me, &aside.path) {
        Err(error) if !is(&error, Errno::NOENT) => renamed.and(Err(error)),
        _ => renamed,
    }
}

impl Target {
    /// A name in the same directory that nobody uses.
    pub(super) fn beside(&self) -> Target {
        let end = self.path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let begin = self.path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let name = &self.path[begin..end];
        let name = [b".", &name[..name.len().min(200)], name::unlike().as_bytes()].concat();
        self.with_path(joined(&self.path[..begin], &name))
    }
}
