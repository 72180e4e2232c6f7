//! `--metrics`: what Prometheus is told, and what it makes of that.

pub(crate) mod prometheus;
mod scraped;

use crate::common::server::Mount;
use crate::common::wait_until;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Where a process says that its metrics are.
fn place(said: impl Fn() -> String) -> SocketAddr {
    let mut place = None;
    wait_until("metrics are served", || {
        let said = said();
        let mut words = said.split("metrics are at http://").skip(1);
        place = words.next().and_then(|rest| rest.split('/').next()?.parse().ok());
        place.is_some()
    });
    place.expect("just seen")
}

pub(crate) fn place_of(mount: &Mount) -> SocketAddr {
    place(|| mount.said())
}

/// What is answered to these bytes, with the head.
fn exchange(at: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(at).expect("somebody listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket has a patience");
    stream.write_all(request).expect("the request is taken");
    let mut answer = Vec::new();
    // Who sends more than is read may be told so before the answer has come.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).expect("text")
}

/// The text of a scrape.
fn scrape(at: SocketAddr) -> String {
    let answer = exchange(at, b"GET /metrics HTTP/1.1\r\nHost: onpath\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    body.to_owned()
}

/// The series of a scrape, each with its value.
fn series(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pair = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        (name.to_owned(), value.parse().expect("a number"))
    };
    lines.map(pair).collect()
}

/// The sum of the operations of a kind with such a result, at all mounts.
fn operations(text: &str, operation: &str, result: &str) -> f64 {
    ["mount", "told"].map(|role| operations_of(text, role, operation, result)).iter().sum()
}

/// That of those who answer.
fn operations_of(text: &str, role: &str, operation: &str, result: &str) -> f64 {
    let wanted = |name: &str| {
        let labels = [format!("operation=\"{operation}\""), format!("result=\"{result}\""), format!("role=\"{role}\"")];
        name.starts_with("onpath_operations_total{") && labels.iter().all(|label| name.contains(label))
    };
    series(text).into_iter().filter(|(name, _)| wanted(name)).map(|(_, value)| value).sum()
}
