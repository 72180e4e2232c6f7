//! Commands on paths of a file system that need no mount and no root: each is a session of its own.

/// The help of an argument that is paths of such file systems.
macro_rules! paths {
    ($what:literal $(, $more:literal)?) => {
        concat!($what, ": onpath://HOST[:PORT][,HOST…]/PATH, or with --at plain paths" $(, $more)?)
    };
}

pub(crate) mod cat;
pub(crate) mod complete;
mod copies;
pub(crate) mod get;
mod glob;
pub(crate) mod ln;
pub(crate) mod ls;
pub(crate) mod mkdir;
pub(crate) mod mv;
mod name;
mod people;
pub(crate) mod put;
pub(crate) mod rm;
pub(crate) mod stat;
pub(crate) mod touch;
pub(crate) mod tree;
mod walked;
mod when;

use crate::walk::{Report, Undone};
use anyhow::{Context, bail};
use clap::Args;
pub(crate) use name::{Place, Target, unlike};
use onpath_client::blocking::Client;
use onpath_client::{Caller, Error, ErrorKind, Options, Source, url};
use onpath_wire::shown::Shown;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
pub(crate) use walked::{Ground, WalkedTree, errno};

/// Where the paths of a command are that is for file systems without a mount.
#[derive(Args, Clone, Debug)]
pub(crate) struct AtArgs {
    /// The file system of paths that name none: the DIR of a running `onpath dev`, or onpath://HOST[:PORT][,HOST…]/.
    #[arg(long, env = "ONPATH_AT", value_name = "SOURCE")]
    at: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
}

/// Where the paths of a command are that is for mounted file systems, too: what the environment says changes nothing.
#[derive(Args, Clone, Debug)]
pub(crate) struct WordsArgs {
    /// Paths are those of a file system that need not be mounted: the DIR of a running `onpath dev`, or onpath://HOST[:PORT][,HOST…]/.
    #[arg(long, value_name = "SOURCE")]
    at: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
}

/// How a file system that is not mounted is reached, and what words mean there.
#[derive(Args, Clone, Debug)]
struct AccessArgs {
    /// The key of the cluster, if it has one.
    #[arg(long, env = "ONPATH_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// How long to look for a host that answers, seconds.
    #[arg(long, env = "ONPATH_JOIN_TIMEOUT", value_name = "SECONDS", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Take *, ? and [ in paths of file systems that are not mounted as they are; otherwise such a path stands for all that fit, as in a shell.
    #[arg(long)]
    literal: bool,
}

impl WordsArgs {
    /// What a word stands for that has to stand for one thing, and as whom that is asked for; none if it is a path of this system.
    ///
    /// # Errors
    /// One that cannot be had; a pattern that fits several.
    pub(crate) fn one(&self, word: &OsString) -> anyhow::Result<Option<(Target, Caller)>> {
        if self.at.is_none() && !url::is_url(Path::new(word)) {
            return Ok(None);
        }
        let mut work = AtArgs { at: self.at.clone(), access: self.access.clone() }.begin();
        let target = work.one(word)?;
        Ok(Some((target, work.me)))
    }

    /// What words stand for: on this system what is no URL, unless `--at` is given. Words of one file system that follow each other are
    /// together.
    ///
    /// # Errors
    /// One that cannot be had.
    pub(crate) fn grounds(&self, words: &[OsString], follow: bool) -> anyhow::Result<Vec<Ground>> {
        let mut work = AtArgs { at: self.at.clone(), access: self.access.clone() }.begin();
        let (mut grounds, mut last): (Vec<Ground>, Option<(usize, String)>) = (Vec::new(), None);
        for word in words {
            if self.at.is_none() && !url::is_url(Path::new(word)) {
                match grounds.last_mut() {
                    Some(Ground::Here(paths)) => paths.push(word.into()),
                    _ => grounds.push(Ground::Here(vec![word.into()])),
                }
                continue;
            }
            for target in work.targets(std::slice::from_ref(word))? {
                let number = work.number(&target);
                let path = PathBuf::from(OsStr::from_bytes(&target.name()));
                let same = last.replace((number, target.prefix.clone())) == Some((number, target.prefix.clone()));
                match grounds.last_mut() {
                    Some(Ground::There(_, paths)) if same => paths.push(path),
                    _ => grounds.push(Ground::There(WalkedTree::of(&target, &work.me, follow, number), vec![path])),
                }
            }
        }
        Ok(grounds)
    }
}

impl AtArgs {
    /// Where a word of the command line is.
    fn place(&self, word: &OsStr) -> anyhow::Result<Place> {
        if url::is_url(Path::new(word)) {
            let text = word
                .to_str()
                .with_context(|| format!("{}: a URL is UTF-8; write --at URL and the path", word.shown()))?;
            let (source, path) = Source::parse(text)?;
            let prefix = match text.strip_suffix(&path) {
                Some(prefix) if prefix.ends_with('/') => prefix.to_owned(),
                _ => format!("{text}/"),
            };
            return Ok(Place { source, prefix, path: rooted(path.as_bytes()) });
        }
        let Some(at) = &self.at else {
            bail!("{} names no file system: write onpath://HOST/PATH, or --at SOURCE", word.shown());
        };
        let (source, below) = Source::parse(at)?;
        if !below.is_empty() {
            bail!("--at {}: it names a path; name the file system alone", at.shown());
        }
        Ok(Place { source, prefix: String::new(), path: rooted(word.as_bytes()) })
    }

    /// Begins the work of a command.
    pub(crate) fn begin(&self) -> Work {
        let me = Caller::of_this_process();
        Work { args: self.clone(), open: Vec::new(), me, report: Report::new() }
    }
}

/// A path of the file system; one of nothing is the root.
fn rooted(path: &[u8]) -> Vec<u8> {
    if path.is_empty() { b"/".to_vec() } else { path.to_vec() }
}

/// A command at work: its sessions, one a file system, and what has failed.
pub(crate) struct Work {
    args: AtArgs,
    open: Vec<(Source, Client)>,
    /// As whom this process acts.
    pub(crate) me: Caller,
    pub(crate) report: Report,
}

impl Work {
    /// What words of the command line stand for, in their order; a pattern that fits nothing stands for itself.
    ///
    /// # Errors
    /// A word that names no file system, or one that cannot be had, or a pattern that fits more than a command takes.
    pub(crate) fn targets(&mut self, words: &[OsString]) -> anyhow::Result<Vec<Target>> {
        let mut all = Vec::new();
        for word in words {
            let target = self.target(word)?;
            if self.args.access.literal {
                all.push(target);
                continue;
            }
            let paths = glob::expand(&target, &self.me).with_context(|| format!("cannot expand {}", target.shown()))?;
            all.extend(paths.into_iter().map(|path| target.with_path(path)));
        }
        Ok(all)
    }

    /// What a word stands for that has to stand for one thing.
    ///
    /// # Errors
    /// As [`Work::targets`]; a pattern that fits several.
    pub(crate) fn one(&mut self, word: &OsString) -> anyhow::Result<Target> {
        let mut all = self.targets(std::slice::from_ref(word))?;
        match (all.pop(), all.len()) {
            (Some(target), 0) => Ok(target),
            (_, others) => bail!("{} fits {} paths: name one of them", word.shown(), others + 1),
        }
    }

    /// What a word stands for that is no pattern.
    ///
    /// # Errors
    /// As [`Work::targets`].
    fn target(&mut self, word: &OsStr) -> anyhow::Result<Target> {
        let place = self.args.place(word)?;
        let known = self.open.iter().find(|(source, _)| *source == place.source);
        let client = match known {
            Some((_, client)) => client.clone(),
            None => {
                let client = self.connect(&place.source)?;
                self.open.push((place.source.clone(), client.clone()));
                client
            }
        };
        Ok(Target { client, prefix: place.prefix, path: place.path })
    }

    /// Which of its file systems that is.
    fn number(&self, target: &Target) -> usize {
        self.open.iter().position(|(_, client)| client.source() == target.client.source()).unwrap_or_default()
    }

    fn connect(&self, source: &Source) -> Result<Client, Error> {
        let patience = Duration::from_secs(self.args.access.timeout);
        Client::connect_to(
            source,
            &Options { key_file: self.args.access.key_file.clone(), patience, ..Options::default() },
        )
    }

    /// The result of a call; a failure is told.
    pub(crate) fn told<T>(&self, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.report.note(&error.to_string())).ok()
    }

    /// Ends all sessions.
    ///
    /// # Errors
    /// Something has failed.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        self.end_with(None)
    }

    /// The same with an exit code of its own for what has failed.
    pub(crate) fn end_with(self, code: Option<u8>) -> anyhow::Result<()> {
        self.open.into_iter().for_each(|(_, client)| client.close());
        match (self.report.failures(), code) {
            (0, _) => Ok(()),
            (failures, code) => Err(Undone::of(failures).with_code(code.unwrap_or(1)).into()),
        }
    }
}

/// Whether there is no way to the file system: it, and not a path of it, is what cannot be had.
pub(crate) fn is_out_of_reach(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Error>().is_some_and(|error| matches!(error.kind(), ErrorKind::Way(_)))
}

/// Whether that is the errno of an error.
fn is(error: &Error, errno: rustix::io::Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(at: Option<&str>) -> AtArgs {
        AtArgs { at: at.map(str::to_owned), access: AccessArgs { key_file: None, timeout: 1, literal: false } }
    }

    #[test]
    fn a_word_is_a_url_or_a_path_at_a_source() {
        let place = |at, word: &str| args(at).place(OsStr::new(word));
        let url = place(None, "onpath://127.0.0.1/a/b").unwrap();
        assert_eq!((url.path.as_slice(), url.prefix.as_str()), (&b"a/b"[..], "onpath://127.0.0.1/"));
        let plain = place(Some("onpath://127.0.0.1/"), "a/b").unwrap();
        assert_eq!((plain.source, plain.path, plain.prefix.as_str()), (url.source, url.path, ""));
        for root in ["onpath://127.0.0.1", "onpath://127.0.0.1/"] {
            let root = place(None, root).unwrap();
            assert_eq!((root.path.as_slice(), root.prefix.as_str()), (&b"/"[..], "onpath://127.0.0.1/"));
        }
        assert_eq!(place(Some("/srv/fs"), "/a").unwrap().source, Source::Dir("/srv/fs".into()));
        assert!(place(None, "/a").unwrap_err().to_string().contains("names no file system"));
        assert!(place(Some("onpath://127.0.0.1/x"), "a").unwrap_err().to_string().contains("names a path"));
    }
}
