//! A lane: the way of a socket to one address, by a second socket that has the same port and is connected there.
//!
//! The system then need not look for the route of each datagram, which is an eighth of what a small one costs between two processes of a
//! machine (docs/history/benchmarks.md). A lane receives nothing: it is bound to a group's address, where nobody sends, so
//! that what comes to the port comes to the first socket, whoever sends it.

use super::socket::{Socket, prefer_whole, probe, send_segments, set_reuse};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, bind, connect, send, socket_with};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

/// Lanes of a socket at a time: each is a file descriptor.
const LANES_MAX: usize = 256;
/// The last address that organizations may give to groups of their own (RFC 2365).
const GROUP_V4: Ipv4Addr = Ipv4Addr::new(239, 255, 255, 255);
/// A group of no lasting name (RFC 4291, flag T), which is asked of no device.
const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff1e, 0, 0, 0, 0, 0, 0, 1);

/// A way to one address.
#[derive(Debug)]
pub(super) struct Lane {
    socket: UdpSocket,
    to: SocketAddr,
    /// The address that others see.
    source: IpAddr,
    /// How many there are.
    _one: Arc<()>,
}

impl Lane {
    /// A lane of `socket`; none if there are too many, or if the system would let it leave by another address than the socket's.
    pub(super) fn of(socket: &Socket, to: SocketAddr) -> io::Result<Option<Lane>> {
        let one = socket.lanes.clone();
        if Arc::strong_count(&one) > LANES_MAX + 1 {
            return Ok(None);
        }
        let source = probe(to)?.local_addr()?.ip();
        if !socket.bound.ip().is_unspecified() && socket.bound.ip() != source {
            return Ok(None);
        }
        let (family, group): (_, IpAddr) = match to {
            SocketAddr::V4(_) => (AddressFamily::INET, GROUP_V4.into()),
            SocketAddr::V6(_) => (AddressFamily::INET6, GROUP_V6.into()),
        };
        let lane = UdpSocket::from(socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?);
        prefer_whole(&lane, to)?;
        set_reuse(&lane, true)?; // as other lanes do
        // A socket that is bound to every address shares its port for this moment only: no other program may take it.
        let share = |on| if socket.bound.ip().is_unspecified() { set_reuse(&socket.socket, on) } else { Ok(()) };
        share(true)?;
        let bound = bind(&lane, &SocketAddr::new(group, socket.bound.port()));
        share(false)?;
        bound?;
        connect(&lane, &to)?;
        Ok(Some(Lane { socket: lane, to, source, _one: one }))
    }

    /// Whether it still is the way of `socket` to that address.
    pub(super) fn fits(&self, socket: &Socket, to: SocketAddr) -> bool {
        let moves = socket.bound.ip().is_unspecified();
        let source = || probe(to).and_then(|probe| probe.local_addr());
        self.to == to && (!moves || source().is_ok_and(|address| address.ip() == self.source))
    }

    /// Sends datagrams of `segment` bytes each, the last of which may be shorter.
    pub(super) fn send(&self, bytes: &[u8], segment: usize) -> io::Result<()> {
        if bytes.len() > segment {
            return send_segments(&self.socket, None, bytes, segment as u16);
        }
        send(&self.socket, bytes, SendFlags::empty())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Wait;
    use super::super::socket::Inbox;
    use super::*;

    fn received(socket: &Socket) -> (Vec<u8>, SocketAddr) {
        let mut inbox = Inbox::new();
        socket.receive(&mut inbox, Wait::Block).unwrap();
        let (bytes, from) = inbox.received().next().unwrap();
        (bytes.to_vec(), from)
    }

    /// What a lane sends comes from the socket's port, answers come to the socket, and nobody else gets the port.
    #[test]
    fn a_lane_sends_for_its_socket_and_receives_nothing() {
        let v4 = [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED].map(IpAddr::V4);
        let v6 = [Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED].map(IpAddr::V6);
        for ip in v4.into_iter().chain(v6) {
            let here: IpAddr = if ip.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
            let (a, b) = (Socket::bind((ip, 0).into()).unwrap(), Socket::bind((here, 0).into()).unwrap());
            let lane = Lane::of(&a, b.bound).unwrap().unwrap();
            assert!(lane.fits(&a, b.bound) && !lane.fits(&a, a.bound));
            let address = SocketAddr::new(here, a.bound.port());
            lane.send(b"asked", 5).unwrap();
            assert_eq!(received(&b), (b"asked".to_vec(), address));
            b.send(address, b"answered", 8).unwrap();
            assert_eq!(received(&a), (b"answered".to_vec(), b.bound));
            let second = UdpSocket::bind((here, a.bound.port())).unwrap_err();
            assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        }
    }

    #[test]
    fn lanes_are_bounded() {
        let socket = || Socket::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let (a, b) = (socket(), socket());
        let mut lanes: Vec<Lane> = (0..LANES_MAX).map(|_| Lane::of(&a, b.bound).unwrap().unwrap()).collect();
        assert!(Lane::of(&a, b.bound).unwrap().is_none());
        lanes.pop();
        assert!(Lane::of(&a, b.bound).unwrap().is_some());
    }
}
