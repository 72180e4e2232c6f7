//! The ways of a socket to places to which messages go one a datagram, as they do to a switch and from it: what is there for one place
//! at a time leaves together, in one call of the system.

use super::lane::Lane;
use super::socket::Socket;
use hashbrown::HashMap;
use onpath_transport::limits::SEGMENTS_MAX;
use std::io;
use std::net::SocketAddr;

/// Places to which lanes are tried at a time.
const PLACES_MAX: usize = 1_024;
/// How often it is looked whether a lane still is the way, microseconds.
const LOOK_US: u64 = 1_000_000;
/// A place to which nothing went for so long may be forgotten, microseconds.
const IDLE_US: u64 = 10_000_000;
/// Runs that wait at a time.
const RUNS_MAX: usize = 16;
/// Bytes of a run: what one call takes.
const RUN_BYTES_MAX: usize = 60_000;

/// A lane, if there can be one, and when that was looked at.
struct Place {
    lane: Option<Lane>,
    looked_us: u64,
}

/// Datagrams for one place: all as long as the first but the last, which may be shorter and then ends it.
#[derive(Default)]
struct Run {
    to: Option<SocketAddr>,
    bytes: Vec<u8>,
    segment: usize,
}

impl Run {
    fn takes(&self, bytes: usize) -> bool {
        let whole = self.bytes.len().is_multiple_of(self.segment);
        let room = self.bytes.len() + bytes <= RUN_BYTES_MAX && self.bytes.len() < SEGMENTS_MAX * self.segment;
        whole && room && bytes <= self.segment
    }
}

/// The ways of one socket.
#[derive(Default)]
pub(super) struct Ways {
    places: HashMap<SocketAddr, Place>,
    /// What waits; those behind the first `waiting` are empty.
    runs: Vec<Run>,
    waiting: usize,
    /// Of the datagrams given up.
    failed: Option<io::Error>,
}

impl Ways {
    /// A datagram that is `head` and `body` leaves with the next [`Ways::flush`], or sooner.
    pub(super) fn push(&mut self, socket: &Socket, now_us: u64, to: SocketAddr, head: &[u8], body: &[u8]) {
        let bytes = head.len() + body.len();
        let known = self.runs[..self.waiting].iter().position(|run| run.to == Some(to));
        let at = match known {
            Some(at) if self.runs[at].takes(bytes) => at,
            Some(at) => {
                self.send(socket, now_us, at);
                at
            }
            None => {
                if self.waiting == RUNS_MAX {
                    self.send_all(socket, now_us);
                }
                self.waiting += 1;
                if self.runs.len() < self.waiting {
                    self.runs.push(Run::default());
                }
                self.waiting - 1
            }
        };
        let run = &mut self.runs[at];
        run.to = Some(to);
        if run.bytes.is_empty() {
            run.segment = bytes;
        }
        run.bytes.extend_from_slice(head);
        run.bytes.extend_from_slice(body);
    }

    /// Gives everything to the socket; the last error, if something could not be sent since the last time.
    pub(super) fn flush(&mut self, socket: &Socket, now_us: u64) -> io::Result<()> {
        self.send_all(socket, now_us);
        self.failed.take().map_or(Ok(()), Err)
    }

    fn send_all(&mut self, socket: &Socket, now_us: u64) {
        (0..self.waiting).for_each(|at| self.send(socket, now_us, at));
        self.waiting = 0;
    }

    fn send(&mut self, socket: &Socket, now_us: u64, at: usize) {
        let Run { to: Some(to), bytes, segment } = &mut self.runs[at] else { return };
        let sent = match lane(&mut self.places, socket, now_us, *to) {
            Some(place) => transmit(&mut place.lane, socket, *to, bytes, *segment),
            None => socket.send(*to, bytes, *segment),
        };
        bytes.clear();
        self.failed = sent.err().or(self.failed.take());
    }
}

/// The place there, with a lane if there can be one; none if there are too many.
fn lane<'a>(
    places: &'a mut HashMap<SocketAddr, Place>,
    socket: &Socket,
    now_us: u64,
    to: SocketAddr,
) -> Option<&'a mut Place> {
    if !places.contains_key(&to) {
        if places.len() >= PLACES_MAX {
            places.retain(|_, place| now_us < place.looked_us + IDLE_US);
        }
        if places.len() >= PLACES_MAX {
            return None;
        }
        places.insert(to, Place { lane: None, looked_us: 0 });
    }
    let place = places.get_mut(&to)?;
    if now_us >= place.looked_us + LOOK_US {
        place.looked_us = now_us;
        open(&mut place.lane, socket, to);
    }
    Some(place)
}

/// From now on the lane is one of `socket` to `to`, if there can be one.
pub(super) fn open(lane: &mut Option<Lane>, socket: &Socket, to: SocketAddr) {
    if !lane.as_ref().is_some_and(|lane| lane.fits(socket, to)) {
        *lane = Lane::of(socket, to).ok().flatten();
    }
}

/// Sends datagrams of `segment` bytes each, the last of which may be shorter: by the lane, as long as that works.
pub(super) fn transmit(
    lane: &mut Option<Lane>,
    socket: &Socket,
    to: SocketAddr,
    bytes: &[u8],
    segment: usize,
) -> io::Result<()> {
    if let Some(open) = lane {
        match open.send(bytes, segment) {
            Err(error) if error.raw_os_error() != Some(libc::EMSGSIZE) => {
                tracing::debug!(%error, %to, "a lane is closed");
            }
            sent => return sent,
        }
        *lane = None;
    }
    socket.send(to, bytes, segment)
}

#[cfg(test)]
mod tests {
    use super::super::Wait;
    use super::super::receive::{Datagrams, tests::datagram};
    use super::super::socket::Inbox;
    use super::*;
    use std::net::Ipv4Addr;

    fn sockets<const N: usize>() -> [Socket; N] {
        std::array::from_fn(|_| Socket::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap())
    }

    /// All datagrams of a socket, and how many runs they came in.
    fn received(socket: &Socket) -> (Vec<Vec<u8>>, usize) {
        let (mut inbox, mut datagrams, mut runs) = (Inbox::new(), vec![], 0);
        while socket.receive(&mut inbox, Wait::Spin).is_ok() {
            for (run, _) in inbox.received() {
                datagrams.extend(Datagrams(run).map(|datagram| datagram.to_vec()));
                runs += 1;
            }
        }
        (datagrams, runs)
    }

    /// Datagrams of any length for several places: each gets its own, whole and in order, and equal ones come together.
    #[test]
    fn what_is_for_one_place_leaves_together() {
        let [socket, a, b] = sockets();
        let mut ways = Ways::default();
        let lengths = [80; 70].into_iter().chain([79, 80, 81, 81, 47, 81]).chain([30_000; 3]);
        let wanted = |mark| lengths.clone().zip(0..).map(move |(bytes, n): (_, u8)| datagram((bytes, n ^ mark)));
        for (to_a, to_b) in wanted(0).zip(wanted(128)) {
            for (place, datagram) in [(&a, to_a), (&b, to_b)] {
                ways.push(&socket, 0, place.bound, &datagram[..7], &datagram[7..]);
            }
        }
        ways.flush(&socket, 0).unwrap();
        for (place, mark) in [(&a, 0), (&b, 128)] {
            let (datagrams, runs) = received(place);
            assert_eq!(datagrams, wanted(mark).collect::<Vec<_>>());
            assert!(runs <= 8, "{runs} runs of 64, 7, 1, 3, 1, 2 and 1");
        }
    }

    /// Many places at a time get what is for them, and only so many are remembered.
    #[test]
    fn places_are_bounded() {
        let [socket, a] = sockets();
        let mut ways = Ways::default();
        let port = |n: usize| SocketAddr::from(([127, 1, (n >> 8) as u8, n as u8], 9));
        for n in 0..PLACES_MAX + 8 {
            ways.push(&socket, 1, port(n), &[], b"lost");
            assert!(ways.waiting <= RUNS_MAX);
        }
        ways.push(&socket, 1, a.bound, b"a", b"rrived");
        ways.flush(&socket, 1).unwrap();
        assert_eq!(received(&a).0, [b"arrived"]);
        assert_eq!(ways.places.len(), PLACES_MAX);
        ways.push(&socket, 1 + IDLE_US, a.bound, b"", b"again");
        ways.flush(&socket, 1 + IDLE_US).unwrap();
        assert_eq!((ways.places.len(), received(&a).0), (1, vec![b"again".to_vec()]));
    }

    #[test]
    fn errors_are_told_once() {
        let [socket, a] = sockets();
        let mut ways = Ways::default();
        ways.push(&socket, 0, a.bound, &[], &[0; 66_000]);
        ways.push(&socket, 0, a.bound, &[], b"arrives");
        assert_eq!(ways.flush(&socket, 0).unwrap_err().raw_os_error(), Some(libc::EMSGSIZE));
        ways.flush(&socket, 0).unwrap();
        assert_eq!(received(&a).0, [b"arrives"]);
    }
}
