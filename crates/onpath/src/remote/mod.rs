//! Commands on paths of a file system that need no mount and no root: each is a session of its own.

pub(crate) mod stat;

use anyhow::{Context, bail};
use clap::Args;
use onpath_client::blocking::Client;
use onpath_client::{Caller, Options, Source, url};
use onpath_wire::shown::Shown;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the paths of a command are.
#[derive(Args, Debug)]
pub(crate) struct AtArgs {
    /// The file system of paths that name none: the DIR of a running `onpath dev`, or onpath://HOST[:PORT][,HOST…]/.
    #[arg(long, env = "ONPATH_AT", value_name = "SOURCE")]
    at: Option<String>,
    /// The key of the cluster, if it has one.
    #[arg(long, env = "ONPATH_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// How long to look for a host that answers, seconds.
    #[arg(long, env = "ONPATH_JOIN_TIMEOUT", value_name = "SECONDS", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

/// A path and the file system in which it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    source: Source,
    /// From its root.
    pub(crate) path: Vec<u8>,
}

/// The sessions of one command: one a file system.
pub(crate) struct Clients {
    open: Vec<(Source, Client)>,
    options: Options,
    /// As whom this process acts.
    pub(crate) me: Caller,
}

impl AtArgs {
    /// Where a word of the command line is.
    pub(crate) fn place(&self, word: &OsString) -> anyhow::Result<Place> {
        if url::is_url(Path::new(word)) {
            let text = word
                .to_str()
                .with_context(|| format!("{}: a URL is UTF-8; write --at URL and the path", word.shown()))?;
            let (source, path) = Source::parse(text)?;
            return Ok(Place { source, path: rooted(path.as_bytes()) });
        }
        let Some(at) = &self.at else {
            bail!("{} names no file system: write onpath://HOST/PATH, or --at SOURCE", word.shown());
        };
        let (source, below) = Source::parse(at)?;
        if !below.is_empty() {
            bail!("--at {}: it names a path; name the file system alone", at.shown());
        }
        Ok(Place { source, path: rooted(word.as_bytes()) })
    }

    pub(crate) fn clients(&self) -> Clients {
        let options = Options { key_file: self.key_file.clone(), patience: Duration::from_secs(self.timeout) };
        Clients { open: Vec::new(), options, me: Caller::of_this_process() }
    }
}

/// A path of the file system; one of nothing is the root.
fn rooted(path: &[u8]) -> Vec<u8> {
    if path.is_empty() { b"/".to_vec() } else { path.to_vec() }
}

impl Clients {
    /// The session of a file system.
    pub(crate) fn of(&mut self, place: &Place) -> anyhow::Result<Client> {
        if let Some((_, client)) = self.open.iter().find(|(source, _)| *source == place.source) {
            return Ok(client.clone());
        }
        let client = Client::connect_to(&place.source, &self.options)?;
        self.open.push((place.source.clone(), client.clone()));
        Ok(client)
    }

    /// Ends all sessions.
    pub(crate) fn close(self) {
        self.open.into_iter().for_each(|(_, client)| client.close());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(at: Option<&str>) -> AtArgs {
        AtArgs { at: at.map(str::to_owned), key_file: None, timeout: 1 }
    }

    #[test]
    fn a_word_is_a_url_or_a_path_at_a_source() {
        let place = |at, word: &str| args(at).place(&OsString::from(word));
        let url = place(None, "onpath://127.0.0.1/a/b").unwrap();
        assert_eq!(url.path, b"a/b");
        assert_eq!(place(Some("onpath://127.0.0.1/"), "a/b").unwrap(), url);
        assert_eq!(place(None, "onpath://127.0.0.1").unwrap().path, b"/");
        assert_eq!(place(Some("/srv/fs"), "/a").unwrap().source, Source::Dir("/srv/fs".into()));
        assert!(place(None, "/a").unwrap_err().to_string().contains("names no file system"));
        assert!(place(Some("onpath://127.0.0.1/x"), "a").unwrap_err().to_string().contains("names a path"));
    }
}
