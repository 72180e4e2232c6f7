//! Sockets behind a switch: what they send by it, and hear from it.

use crate::common::SWITCH;
use onpath_wire::innet::{INNET_UDP_PORT, InNet};
use std::net::{SocketAddr, UdpSocket};

/// Sends a message by the switch.
pub(crate) fn send(socket: &UdpSocket, header: &InNet) {
    let payload = [&header.bytes()[..], b"the message"].concat();
    socket.send_to(&payload, (SWITCH, INNET_UDP_PORT)).expect("sent");
}

/// The header of the next datagram, which comes from the switch and has the message whole.
pub(crate) fn received(socket: &UdpSocket) -> InNet {
    let mut bytes = [0; 2048];
    let (length, from) = socket.recv_from(&mut bytes).expect("a datagram in time");
    assert_eq!(from, SocketAddr::from((SWITCH, INNET_UDP_PORT)));
    match InNet::split(&bytes[..length]).expect("a header") {
        (header, b"the message") => header,
        other => panic!("{other:?}"),
    }
}

/// No datagram has come that was not received.
pub(crate) fn nothing_more(sockets: &[&UdpSocket]) {
    for socket in sockets {
        socket.set_nonblocking(true).expect("a socket");
        assert!(socket.recv_from(&mut [0; 64]).is_err(), "a datagram too many");
        socket.set_nonblocking(false).expect("a socket");
    }
}
