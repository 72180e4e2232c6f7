//! Arguments that are looked at before anything is done.

use super::absolute;
use crate::cluster::config::Cluster;
use onpath_wire::shown::{Shown, lines};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What a path is that should be that of a DIR.
#[derive(Debug, Error)]
pub(crate) enum ArgumentError {
    /// The configuration of a cluster.
    #[error(
        "{path} is the configuration of a cluster, not a directory: `onpath serve --config {path}` serves a host of it, `onpath cluster status {path}` shows it, `onpath mount onpath://HOST/ MOUNTPOINT` mounts it",
        path = .0.shown()
    )]
    Configuration(PathBuf),
    /// Another file.
    #[error("{} is a file, not a directory: give the directory that holds the state of a file system", .0.shown())]
    File(PathBuf),
}

/// A DIR as an absolute path; it need not exist, but must not be a file.
pub(crate) fn directory(path: &Path) -> anyhow::Result<PathBuf> {
    let path = absolute(path)?;
    if path.metadata().map_or(true, |metadata| metadata.is_dir()) {
        return Ok(path);
    }
    let is_configuration = path.is_file() && Cluster::read(&path).is_ok();
    Err(if is_configuration { ArgumentError::Configuration(path) } else { ArgumentError::File(path) }.into())
}

/// What an error and its causes say, each once: many say in their own words what caused them. Nothing in it does anything to a terminal.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    lines(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_cause_is_told_once() {
        #[derive(Debug, Error)]
        #[error("nobody serves ({source})")]
        struct Outer {
            source: std::io::Error,
        }
        let cause = || std::io::Error::other("no such file");
        let error = anyhow::Error::from(Outer { source: cause() }).context("status");
        assert_eq!(told(&error), "status: nobody serves (no such file)");
        let error = Err::<(), _>(cause()).context("reading").unwrap_err();
        assert_eq!(told(&error), "reading: no such file");
    }
}
