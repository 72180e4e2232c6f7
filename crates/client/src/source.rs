//! What names a file system, and perhaps a file of it.

use crate::error::{Error, ErrorKind};
use crate::url;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Where a file system is: the DIR of a running `onpath dev`, or hosts of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The directory in which a process of this machine keeps it.
    Dir(PathBuf),
    /// Some of its hosts, by address, and what people call them.
    Hosts(Vec<SocketAddr>, String),
}

impl Source {
    /// A source as it is written: a DIR, or `onpath://HOST[:PORT][,HOST[:PORT]…]/`. What follows the slash is a path in the file system.
    ///
    /// # Errors
    /// A URL that is none, or whose hosts have no address.
    pub fn parse(text: &str) -> Result<(Source, String), Error> {
        if !url::is_url(Path::new(text)) {
            let dir = std::path::absolute(text).map_err(|error| Error::new(ErrorKind::Source(error.to_string())))?;
            return Ok((Source::Dir(dir), String::new()));
        }
        let (hosts, path) = url::split(text).map_err(|error| Error::new(ErrorKind::Source(error.to_string())))?;
        let named = text[..text.len() - path.len()].trim_end_matches('/').to_owned();
        Ok((Source::Hosts(hosts, named), path.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_hosts_and_a_path() {
        let (source, path) = Source::parse("onpath://127.0.0.1,127.0.0.2:77/a/b c").unwrap();
        let hosts = ["127.0.0.1:4796", "127.0.0.2:77"].map(|host| host.parse().unwrap()).to_vec();
        assert_eq!(source, Source::Hosts(hosts, "onpath://127.0.0.1,127.0.0.2:77".to_owned()));
        assert_eq!(path, "a/b c");
        assert_eq!(Source::parse("onpath://127.0.0.1").unwrap().1, "");
        assert_eq!(Source::parse("/srv/fs").unwrap(), (Source::Dir("/srv/fs".into()), String::new()));
        assert!(Source::parse("onpath:///a").unwrap_err().to_string().contains("names no host"));
    }
}
