//! URLs of file systems: `onpath://HOST[:PORT][,HOST[:PORT]…]/`.

use super::config::{PORT, resolve};
use onpath_wire::shown::Shown;
use std::net::SocketAddr;
use std::path::Path;
use thiserror::Error;

const SCHEME: &str = "onpath://";

/// What is wrong with a URL.
#[derive(Debug, Error)]
#[error("{}: {why}; write onpath://HOST[:PORT][,HOST[:PORT]…]/", url.shown())]
pub(crate) struct UrlError {
    url: String,
    why: String,
}

/// Whether a source names hosts and not a directory.
pub(crate) fn is_url(source: &Path) -> bool {
    source.as_os_str().as_encoded_bytes().starts_with(SCHEME.as_bytes())
}

/// The addresses of the hosts that a URL names.
pub(crate) fn hosts(url: &str) -> Result<Vec<SocketAddr>, UrlError> {
    let wrong = |why: String| UrlError { url: url.to_owned(), why };
    let address =
        |(name, port): (&str, u16)| resolve(name, port).map_err(|error| wrong(format!("{}: {error}", name.shown())));
    places(url)?.into_iter().map(address).collect()
}

/// The names and ports in a URL.
pub(crate) fn places(url: &str) -> Result<Vec<(&str, u16)>, UrlError> {
    let wrong = |why: String| UrlError { url: url.to_owned(), why };
    let rest = url.strip_prefix(SCHEME).ok_or_else(|| wrong("it does not begin with onpath://".to_owned()))?;
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !path.is_empty() {
        let path = format!("/{path}");
        return Err(wrong(format!(
            "{} is a directory below the root, and only the whole file system is mounted",
            path.shown()
        )));
    }
    if hosts.is_empty() {
        return Err(wrong("it names no host".to_owned()));
    }
    hosts.split(',').map(|host| one(host).map_err(wrong)).collect()
}

fn one(host: &str) -> Result<(&str, u16), String> {
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (name, port) = match bracketed {
        Some((name, port)) => (name, port.strip_prefix(':')),
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    if name.is_empty() {
        return Err("a host without a name".to_owned());
    }
    let port = match port {
        None => PORT,
        Some(text) => text.parse().ok().filter(|&port| port != 0).ok_or(format!("{text:?} is no port"))?,
    };
    Ok((name, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_taken_apart() {
        let found = hosts("onpath://10.0.0.1,10.0.0.2:77,[::1]:78,[::1]/").unwrap();
        let text: Vec<String> = found.iter().map(SocketAddr::to_string).collect();
        assert_eq!(text, ["10.0.0.1:4796", "10.0.0.2:77", "[::1]:78", "[::1]:4796"]);
        assert_eq!(hosts("onpath://10.0.0.1").unwrap().len(), 1);
        for (url, why) in [
            ("onpath:///", "names no host"),
            ("onpath://10.0.0.1,/", "without a name"),
            ("onpath://10.0.0.1:x/", "is no port"),
            ("onpath://10.0.0.1:0/", "is no port"),
            ("onpath://10.0.0.1/deep", "/deep is a directory"),
            ("onpath://no such host/", "'no such host': "),
        ] {
            let error = hosts(url).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(is_url(Path::new("onpath://a/")) && !is_url(Path::new("/onpath:/a")));
    }
}
