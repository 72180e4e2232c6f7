//! As much HTTP as it takes to be scraped: few connections at a time, each for one short request that changes nothing.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Connections at the same time; further ones are closed.
const CONNECTIONS_MAX: usize = 8;
/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Headers of a request.
const HEADERS_MAX: usize = 64;
/// How long a request may take to come, and its answer to be taken.
const PATIENCE: Duration = Duration::from_secs(5);
/// The classic text format of Prometheus.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// An answer.
struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
}

/// Answers scrapes with what `text` tells, as long as it tells anything.
pub(super) fn serve(
    listener: TcpListener,
    text: impl Fn() -> Option<String> + Send + Sync + 'static,
) -> io::Result<()> {
    let (text, connections) = (Arc::new(text), Arc::new(AtomicUsize::new(0)));
    std::thread::Builder::new().name("metrics".into()).spawn(move || {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a scrape");
                    std::thread::sleep(Duration::from_millis(100)); // out of descriptors, say
                    continue;
                }
            };
            if connections.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
                connections.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let (text, open) = (text.clone(), Open(connections.clone()));
            let answer = move || {
                let _open = open;
                if let Err(error) = exchange(stream, || text()) {
                    tracing::debug!(%error, "a scrape");
                }
            };
            if let Err(error) = std::thread::Builder::new().name("scrape".into()).spawn(answer) {
                tracing::debug!(%error, "no thread for a scrape");
            }
        }
    })?;
    Ok(())
}

/// A connection that is counted.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// One request and its answer.
fn exchange(mut stream: TcpStream, text: impl Fn() -> Option<String>) -> io::Result<()> {
    let head = read_head(&mut stream)?;
    let (answer, with_body) = answer(&head, text);
    stream.set_write_timeout(Some(PATIENCE))?;
    let Answer { status, kind, body } = answer;
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n{allow}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if with_body {
        stream.write_all(body.as_bytes())?;
    }
    stream.shutdown(Shutdown::Write)
}

/// Reads until the end of a request's head.
fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let (end, mut head) = (Instant::now() + PATIENCE, Vec::new());
    while head.len() < HEAD_BYTES_MAX && !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut bytes = [0; 1024];
        match stream.read(&mut bytes)? {
            0 => break,
            _ if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
            read => head.extend_from_slice(&bytes[..read.min(HEAD_BYTES_MAX - head.len())]),
        }
    }
    Ok(head)
}

/// What is answered, and whether the body goes with it.
fn answer(head: &[u8], text: impl Fn() -> Option<String>) -> (Answer, bool) {
    let say = |status: &'static str, words: &str| Answer {
        status,
        kind: "text/plain; charset=utf-8",
        body: format!("{words}\n"),
    };
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    if !request.parse(head).is_ok_and(|status| status.is_complete()) {
        return (say("400 Bad Request", "this is no HTTP request, or one with too long a head"), true);
    }
    let method = request.method.unwrap_or_default();
    let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
    let answer = match (method, path) {
        ("GET" | "HEAD", "/metrics") => match text() {
            Some(body) => Answer { status: "200 OK", kind: TEXT, body },
            None => say("503 Service Unavailable", "the process is ending"),
        },
        ("GET" | "HEAD", _) => say("404 Not Found", "the counters of this process are at /metrics"),
        _ => say("405 Method Not Allowed", "counters can only be read"),
    };
    (answer, method != "HEAD")
}

/// What is answered to a head of a request.
#[cfg(feature = "fuzzing")]
pub(crate) fn answered(head: &[u8]) -> String {
    answer(head, || Some(String::new())).0.status.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(request: &str) -> (&'static str, String, bool) {
        let (Answer { status, body, .. }, with_body) = answer(request.as_bytes(), || Some("onpath 1\n".to_owned()));
        (status, body, with_body)
    }

    #[test]
    fn counters_can_be_read_and_nothing_else() {
        let scraped = ask("GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(scraped, ("200 OK", "onpath 1\n".to_owned(), true));
        assert!(!ask("HEAD /metrics HTTP/1.0\r\n\r\n").2);
        assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").0.starts_with("405"));
        assert!(ask("GET /../../etc/passwd HTTP/1.1\r\n\r\n").0.starts_with("404"));
        for malformed in ["", "GET", "\r\n\r\n", "GET /metrics HTTP/9\r\n\r\n", "\u{0}\u{1}"] {
            assert!(ask(malformed).0.starts_with("400"), "{malformed:?}");
        }
    }
}
