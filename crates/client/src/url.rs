//! URLs of file systems: `onpath://HOST[:PORT][,HOST[:PORT]…]/`.

use onpath_wire::shown::Shown;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use thiserror::Error;

const SCHEME: &str = "onpath://";
/// UDP port of a host unless it says another one.
pub const PORT: u16 = 4796;

/// What is wrong with a URL.
#[derive(Debug, Error)]
#[error("{}: {why}; write onpath://HOST[:PORT][,HOST[:PORT]…]/", url.shown())]
pub struct UrlError {
    url: String,
    why: String,
}

/// Whether a source names hosts and not a directory.
pub fn is_url(source: &Path) -> bool {
    source.as_os_str().as_encoded_bytes().starts_with(SCHEME.as_bytes())
}

/// The addresses of the hosts that a URL of a whole file system names.
///
/// # Errors
/// It is none, names a path, or a host has no address.
pub fn hosts(url: &str) -> Result<Vec<SocketAddr>, UrlError> {
    let (_, path) = places(url)?;
    if !path.is_empty() {
        let path = format!("/{path}");
        let why = format!("{} is a directory below the root, and only the whole file system is mounted", path.shown());
        return Err(UrlError { url: url.to_owned(), why });
    }
    Ok(split(url)?.0)
}

/// The addresses of the hosts that a URL names, and the path behind the slash that follows them.
///
/// # Errors
/// It is none, or a host has no address.
pub fn split(url: &str) -> Result<(Vec<SocketAddr>, &str), UrlError> {
    let wrong = |why: String| UrlError { url: url.to_owned(), why };
    let address =
        |(name, port): Place<'_>| resolve(name, port).map_err(|error| wrong(format!("{}: {error}", name.shown())));
    let (places, path) = places(url)?;
    let hosts: Result<_, _> = places.into_iter().map(address).collect();
    Ok((hosts?, path))
}

/// A host's name and its port.
type Place<'a> = (&'a str, u16);

/// The names and ports in a URL, and the path.
///
/// # Errors
/// It is none.
pub fn places(url: &str) -> Result<(Vec<Place<'_>>, &str), UrlError> {
    let wrong = |why: String| UrlError { url: url.to_owned(), why };
    let rest = url.strip_prefix(SCHEME).ok_or_else(|| wrong("it does not begin with onpath://".to_owned()))?;
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    if hosts.is_empty() {
        return Err(wrong("it names no host".to_owned()));
    }
    let places: Result<_, _> = hosts.split(',').map(|host| one(host).map_err(wrong)).collect();
    Ok((places?, path))
}

/// The first address of a name; an IPv4 one if there is one.
///
/// # Errors
/// It has none.
pub fn resolve(name: &str, port: u16) -> io::Result<SocketAddr> {
    let mut all: Vec<SocketAddr> = (name, port).to_socket_addrs()?.collect();
    all.sort_by_key(SocketAddr::is_ipv6);
    all.first().copied().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{name} has no address")))
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
