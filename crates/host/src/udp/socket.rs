//! A UDP socket as the endpoint uses it: several datagrams for one peer in a system call (GSO), several of one sender in another (GRO).
//! Both are options of Linux' UDP; where the kernel or a device refuses them, datagrams go one by one.

#![allow(unsafe_code)]

use super::Wait;
use rustix::net::{Shutdown, shutdown};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes that a socket may hold each way, as far as the system lets it.
const SOCKET_BYTES: libc::c_int = 8 << 20;
/// Bytes of what GRO hands over at once.
const RECEIVE_BYTES: usize = 64 << 10;
/// Room for one control message.
const CONTROL_BYTES: usize = 64;
/// What IP and UDP put in front of a datagram: the larger of IPv4 and IPv6.
const HEADERS_BYTES: (usize, usize) = (20 + 8, 40 + 8);
/// Largest datagram that is sent, whatever a device takes: what GSO and GRO can carry.
const DATAGRAM_BYTES_MAX: usize = 65_000;
/// Datagram of a path of which nothing is known.
const DATAGRAM_BYTES_DEFAULT: usize = 1_472;
/// Smallest datagram that every path has to carry: IPv6's MTU.
const DATAGRAM_BYTES_MIN: usize = 1_280 - 48;

/// A bound UDP socket.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) socket: UdpSocket,
    /// Where it receives.
    pub(super) bound: SocketAddr,
    /// The system takes several datagrams at once.
    gso: AtomicBool,
    /// One for each of its lanes, and one.
    pub(super) lanes: Arc<()>,
}

impl Socket {
    pub(super) fn bind(address: SocketAddr) -> io::Result<Socket> {
        let socket = UdpSocket::bind(address)?;
        for (forced, plain) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
            // Beyond the system's bound only with privilege; what it gives is enough to work.
            if set(&socket, libc::SOL_SOCKET, forced, SOCKET_BYTES).is_err() {
                set(&socket, libc::SOL_SOCKET, plain, SOCKET_BYTES)?;
            }
        }
        // A kernel without it hands datagrams over one by one.
        _ = set(&socket, libc::SOL_UDP, libc::UDP_GRO, 1);
        prefer_whole(&socket, address)?;
        let bound = socket.local_addr()?;
        Ok(Socket { socket, bound, gso: AtomicBool::new(true), lanes: Arc::default() })
    }

    /// Receiving ends with `WouldBlock` after so long.
    pub(super) fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(patience))
    }

    /// Whoever waits for something to come goes on, with nothing, and nobody waits any more. Receiving with a bound of time would do, but
    /// each wait would then set a timer of the system.
    pub(super) fn stop(&self) {
        // The system says that a UDP socket is connected to nobody, and wakes who waits nevertheless (`inet_shutdown`).
        _ = shutdown(&self.socket, Shutdown::Read);
    }

    /// Sends datagrams of `segment` bytes each, the last of which may be shorter.
    pub(super) fn send(&self, to: SocketAddr, bytes: &[u8], segment: usize) -> io::Result<()> {
        if bytes.len() > segment && self.gso.load(Ordering::Relaxed) {
            let (name, name_bytes) = of_address(to);
            match send_segments(&self.socket, Some((&name, name_bytes)), bytes, segment as u16) {
                Err(error) if refused(&error) => {
                    // Older systems say so too when one of them is too long for the way.
                    self.send_one_by_one(to, bytes, segment)?;
                    tracing::info!(%error, "this system does not take several datagrams at once");
                    self.gso.store(false, Ordering::Relaxed);
                    return Ok(());
                }
                sent => return sent,
            }
        }
        self.send_one_by_one(to, bytes, segment)
    }

    fn send_one_by_one(&self, to: SocketAddr, bytes: &[u8], segment: usize) -> io::Result<()> {
        bytes.chunks(segment.max(1)).try_for_each(|datagram| self.socket.send_to(datagram, to).map(drop))
    }

    /// Receives what one or several senders have sent; waits for the first of it if it is to.
    pub(super) fn receive(&self, inbox: &mut Inbox, wait: Wait) -> io::Result<()> {
        let flags = if wait == Wait::Spin { libc::MSG_DONTWAIT } else { 0 };
        let (socket, most) = (self.socket.as_raw_fd(), inbox.most());
        inbox.prepare();
        let headers = inbox.headers.as_mut_ptr();
        // SAFETY: each header points to memory of the inbox that is writable for the lengths given and outlives the call.
        let got = unsafe {
            if most > 1 {
                libc::recvmmsg(socket, headers, most as u32, flags | libc::MSG_WAITFORONE, std::ptr::null_mut())
            } else {
                // By the call itself: the library's could be cancelled, which costs something, and no thread here is.
                let header = &mut (*headers).msg_hdr;
                let libc::iovec { iov_base: at, iov_len: room } = *header.msg_iov;
                let (name, name_bytes) = (header.msg_name, &raw mut header.msg_namelen);
                let bytes = libc::syscall(libc::SYS_recvfrom, socket, at, room, flags, name, name_bytes);
                (*headers).msg_len = bytes.max(0) as u32;
                if bytes < 0 { -1 } else { 1 }
            }
        };
        inbox.took(most, got);
        if got < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Whether the system does not take several datagrams at once.
fn refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP))
}

/// Sends datagrams of `segment` bytes each in one call, to where the socket is connected if there is no name.
pub(super) fn send_segments(
    socket: &UdpSocket,
    name: Option<(&libc::sockaddr_storage, libc::socklen_t)>,
    bytes: &[u8],
    segment: u16,
) -> io::Result<()> {
    let mut control = Control::default();
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero bytes are a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    if let Some((name, name_bytes)) = name {
        message.msg_name = (&raw const *name).cast_mut().cast();
        message.msg_namelen = name_bytes;
    }
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: pure arithmetic.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) } as usize;
    // SAFETY: `control` is aligned, zeroed and has room for the header and two bytes of data, as CMSG_SPACE says.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as usize;
        libc::CMSG_DATA(header).cast::<u16>().write_unaligned(segment);
    }
    // SAFETY: everything that the message points to outlives the call, which only reads it.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Most runs of datagrams of one call.
const RUNS_MAX: usize = 32;
/// One of so many calls looks whether more has come than one run.
const LOOK_EVERY: u32 = 16;

/// Room for what comes at once: runs of datagrams, each of one sender.
///
/// Asking for several costs a little when there is only one, so that is done as long as there are several, and else now and then.
/// The headers point to memory of the inbox, which stays where it is when the inbox is moved: it is on the heap.
pub(super) struct Inbox {
    bytes: Vec<u8>,
    names: Vec<libc::sockaddr_storage>,
    /// What the headers point to, as they do to the names; they point to `bytes`.
    _parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    /// Headers that the last call has filled.
    got: usize,
    /// Headers that are to be made ready before the next one.
    used: usize,
    /// Runs until the next look at several.
    look_in: u32,
}

impl Inbox {
    pub(super) fn new() -> Inbox {
        let mut bytes = vec![0; RUNS_MAX * RECEIVE_BYTES];
        // SAFETY: all-zero bytes are a valid socket address and header each.
        let (name, header) = unsafe { (std::mem::zeroed(), std::mem::zeroed::<libc::mmsghdr>()) };
        let mut names: Vec<libc::sockaddr_storage> = vec![name; RUNS_MAX];
        let room = bytes.chunks_mut(RECEIVE_BYTES);
        let part = |room: &mut [u8]| libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        let mut parts: Vec<libc::iovec> = room.map(part).collect();
        let mut headers = vec![header; RUNS_MAX];
        for (index, header) in headers.iter_mut().enumerate() {
            let header = &mut header.msg_hdr;
            header.msg_name = (&raw mut names[index]).cast();
            header.msg_iov = &raw mut parts[index];
            header.msg_iovlen = 1;
        }
        Inbox { bytes, names, _parts: parts, headers, got: 0, used: RUNS_MAX, look_in: 0 }
    }

    /// How many runs to ask for: several only where one has just come, since a look at several costs more where there is nothing.
    fn most(&self) -> usize {
        if self.look_in == 0 && self.got > 0 { RUNS_MAX } else { 1 }
    }

    /// Makes those headers ready that the last call has changed.
    fn prepare(&mut self) {
        for header in &mut self.headers[..self.used] {
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        }
    }

    fn took(&mut self, most: usize, got: libc::c_int) {
        self.got = got.max(0) as usize;
        self.used = self.got.max(1);
        self.look_in = match (most, self.got) {
            (1, 0) => self.look_in,
            (1, _) => self.look_in.saturating_sub(1),
            (_, 0 | 1) => LOOK_EVERY,
            (_, _) => 0,
        };
    }

    /// What has come: runs of datagrams, one behind the other, and from where. Datagrams say themselves how long they are; the system
    /// would, too, but only in a control message.
    pub(super) fn received(&mut self) -> impl Iterator<Item = (&mut [u8], SocketAddr)> {
        let runs = self.bytes.chunks_mut(RECEIVE_BYTES).zip(&self.headers).zip(&self.names).take(self.got);
        runs.filter_map(|((room, header), name)| Some((&mut room[..header.msg_len as usize], to_address(name)?)))
    }
}

/// A socket that knows the route to an address.
pub(super) fn probe(to: SocketAddr) -> io::Result<UdpSocket> {
    let any = match to {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    Ok(socket)
}

/// A datagram that is too long for the path is refused, not cut to pieces: a switch on the way must see whole headers.
pub(super) fn prefer_whole(socket: &UdpSocket, address: SocketAddr) -> io::Result<()> {
    let (level, option) = match address {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
    };
    set(socket, level, option, libc::IP_PMTUDISC_DO)
}

/// Whether sockets that say so too may be bound to the same port.
pub(super) fn set_reuse(socket: &UdpSocket, on: bool) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, libc::c_int::from(on))
}

/// The largest datagram that leaves for `to` whole, by the route that the system has now.
pub(super) fn datagram_bytes_to(to: SocketAddr) -> usize {
    let asked = || -> io::Result<usize> {
        let socket = probe(to)?;
        let (mtu, headers) = match to {
            SocketAddr::V4(_) => (get(&socket, libc::IPPROTO_IP, libc::IP_MTU)?, HEADERS_BYTES.0),
            SocketAddr::V6(_) => (get(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU)?, HEADERS_BYTES.1),
        };
        Ok((mtu as usize).saturating_sub(headers))
    };
    asked().map_or(DATAGRAM_BYTES_DEFAULT, |bytes| bytes.clamp(DATAGRAM_BYTES_MIN, DATAGRAM_BYTES_MAX))
}

/// Room for control messages, aligned as the system wants it.
#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

impl Default for Control {
    fn default() -> Control {
        Control([0; CONTROL_BYTES])
    }
}

fn set(socket: &UdpSocket, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value outlives the call and is as long as said.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn get(socket: &UdpSocket, level: libc::c_int, option: libc::c_int) -> io::Result<libc::c_int> {
    let (mut value, mut bytes): (libc::c_int, _) = (0, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the value and its length are valid for writes and outlive the call.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut bytes) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

fn of_address(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all-zero bytes are a valid socket address.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let bytes = match address {
        SocketAddr::V4(v4) => {
            let name = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: a sockaddr_storage has room and alignment for every socket address.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(name) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let name = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(name) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, bytes as libc::socklen_t)
}

fn to_address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that this is what is there.
            let name = unsafe { (&raw const *storage).cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::from((IpAddr::V4(ip), u16::from_be(name.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that this is what is there.
            let name = unsafe { (&raw const *storage).cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
            Some(SocketAddr::from((IpAddr::V6(ip), u16::from_be(name.sin6_port))))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::receive::{Datagrams, tests::datagram};
    use super::*;

    #[test]
    fn datagrams_go_together_and_come_apart() {
        for ip in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let (a, b) = (Socket::bind((ip, 0).into()).unwrap(), Socket::bind((ip, 0).into()).unwrap());
            let to = SocketAddr::from((ip, b.bound.port()));
            let sent: Vec<Vec<u8>> = [300; 13].into_iter().chain([80]).zip(0..).map(datagram).collect();
            a.send(to, &sent.concat(), 300).unwrap();
            b.set_patience(Duration::from_secs(10)).unwrap();
            let (mut got, mut inbox) = (Vec::new(), Inbox::new());
            while got.len() < sent.len() {
                b.receive(&mut inbox, Wait::Block).unwrap();
                for (run, from) in inbox.received() {
                    assert_eq!(from, SocketAddr::from((ip, a.bound.port())));
                    got.extend(Datagrams(run).map(|datagram| datagram.to_vec()));
                }
            }
            assert_eq!(got, sent);
            assert_eq!(datagram_bytes_to(to), DATAGRAM_BYTES_MAX, "the loopback device takes 64 KiB");
        }
    }

    /// Many at once, one by one, none, and many again: each comes once, whole, with its sender.
    #[test]
    fn what_has_gathered_comes_together() {
        let socket = || Socket::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let (senders, b, mut inbox) = ([socket(), socket()], socket(), Inbox::new());
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, b.bound.port()));
        let (mut calls, mut all) = (0, 0);
        for count in [1, 1, 100, 1, 40, 2].into_iter().chain([1; 2 * LOOK_EVERY as usize]).chain([70]) {
            for number in 0..count {
                senders[number % 2].send(to, &vec![number as u8; 8 + number], 1_000).unwrap();
            }
            let mut number = 0;
            while number < count {
                b.receive(&mut inbox, Wait::Spin).unwrap();
                calls += 1;
                for (bytes, from) in inbox.received() {
                    assert_eq!(bytes, vec![number as u8; 8 + number]);
                    assert_eq!(from.port(), senders[number % 2].bound.port());
                    number += 1;
                }
            }
            all += count;
            assert_eq!(number, count);
            assert_eq!(b.receive(&mut inbox, Wait::Spin).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            assert_eq!(inbox.received().count(), 0, "nothing has come, and nothing comes twice");
        }
        assert!(calls < all / 2, "{calls} calls for {all} datagrams");
    }

    /// Whoever waits when a socket is stopped, and whoever would afterwards, goes on with nothing.
    #[test]
    fn nobody_waits_at_a_stopped_socket() {
        let socket = Socket::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let waits = || {
            let mut inbox = Inbox::new();
            socket.receive(&mut inbox, Wait::Block).unwrap();
            assert!(inbox.received().all(|(run, _)| run.is_empty()));
        };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(waits);
            while !waiting.is_finished() {
                socket.stop();
                std::thread::yield_now();
            }
        });
        waits();
    }

    #[test]
    fn too_long_a_datagram_is_refused() {
        let a = Socket::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let error = a.send(SocketAddr::from((Ipv4Addr::LOCALHOST, 9)), &[0; 66_000], 66_000).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
    }
}
