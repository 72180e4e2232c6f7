//! `onpath ln [-s] [-f] TARGET LINK` and `onpath ln [-s] [-f] TARGET… DIRECTORY`

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
    let (last, sources) = args.paths.split_last().expect("two at least");
    let last = work.one(last)?;
    let into = !args.no_target_directory && last.is_dir(&work.me);
    ensure!(into || sources.len() == 1, "{} is not a directory: several links need one", last.shown());
    for source in sources {
        if args.symbolic {
            let is_url = url::is_url(Path::new(source));
            ensure!(!is_url, "{} is a URL: the target of a symbolic link is a path", source.shown());
            let place = place(&last, into, name::last(source.as_bytes()));
            let made =
                make(&work, &args, &place, &|new| new.client.symlink(&work.me, &new.path, source.as_bytes()).map(drop));
            work.told(made);
            continue;
        }
        for target in work.targets(std::slice::from_ref(source))? {
            ensure!(
                target.client.source() == last.client.source(),
                "{} and {} are in different file systems: only a symbolic link leads from one to the other",
                target.shown(),
                last.shown()
            );
            let place = place(&last, into, name::last(&target.path));
            let made =
                make(&work, &args, &place, &|new| target.client.link(&work.me, &target.path, &new.path).map(drop));
            work.told(made);
        }
    }
    work.end()
}

/// Where the link of something of that name goes.
fn place(last: &Target, into: bool, name: Option<&[u8]>) -> Target {
    match name {
        Some(name) if into => last.below(name),
        _ => last.clone(),
    }
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
