//! Parsers of what comes from outside, as the fuzz targets in `fuzz/` call them; nothing else does.

use crate::cluster::config::Cluster;
use crate::{cli, copy, helper, metrics, status, top, tree};
use clap::FromArgMatches;
use onpath_client::{key, url};
use serde_json::Value;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{LazyLock, Mutex};

/// What is wrong with a configuration of a cluster; nothing if it can be used.
pub fn cluster(text: &str) -> Option<String> {
    let file = Path::new("cluster.toml");
    match Cluster::parse(file, text) {
        Err(error) => Some(error.to_string()),
        Ok(cluster) => {
            let _map = (cluster.fsid(), cluster.data_nodes(), cluster.switches(), cluster.with_switches_of(&cluster));
            for host in &cluster.hosts {
                let _place = (host.place(), cluster.part(host, None));
            }
            cluster.host(file, None).err().map(|error| error.to_string())
        }
    }
}

/// A file of keys and secrets, read and written again; none if it is no such file.
pub fn key_file(text: &str) -> Option<String> {
    key::again(text)
}

/// The names and ports in a URL.
pub fn url(text: &str) -> Option<Vec<(String, u16)>> {
    let (places, _) = url::places(text).ok()?;
    Some(places.into_iter().map(|(name, port)| (name.to_owned(), port)).collect())
}

/// Whether a command line is one of `onpath`; its first word is the name of the program.
pub fn command_line(words: Vec<OsString>) -> bool {
    static COMMAND: LazyLock<Mutex<clap::Command>> = LazyLock::new(|| Mutex::new(cli::command()));
    let found = COMMAND.lock().expect("nobody panics with it").try_get_matches_from_mut(words);
    found.and_then(|found| cli::Cli::from_arg_matches(&found)).is_ok()
}

/// Whether a command line is one of the mount helper, its options among it.
pub fn mount_helper(words: Vec<OsString>) -> bool {
    helper::understands(words)
}

/// Reads a text as a mode, and a pattern and a name from what is before and behind its first zero byte.
pub fn tree(text: &[u8]) {
    tree::read_texts(text);
}

/// The status line that a request for counters is answered with.
pub fn scrape(head: &[u8]) -> String {
    metrics::answered(head)
}

/// What is shown of what processes tell; nothing if a text is no JSON.
pub fn reports(texts: &[&str]) -> Option<String> {
    let reports: Option<Vec<Value>> = texts.iter().map(|text| serde_json::from_str(text).ok()).collect();
    let reports = reports?;
    Some(format!("{}{}", status::shown(&reports), top::shown(&reports)))
}

/// Whether these bytes are the mark of an unfinished copy called `fuzz`.
pub fn mark(bytes: &[u8]) -> bool {
    copy::is_mark(bytes)
}
