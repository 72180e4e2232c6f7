//! The switch in user space: packets with an in-network header come to its UDP port, pass the in-network program, and go on to the nodes
//! for which they are. Nothing behind the header is looked at, but how long it is. What changes the dirty set is executed if it comes from the
//! address and port of a host (D-44): whoever is no host gets queries answered, and nothing is kept of them.

use super::endpoint::{Endpoint, Shared};
use super::hosts::source;
use super::peers::Other;
use super::receive::{Datagrams, while_open};
use super::socket::Socket;
use super::ways::Ways;
use super::{UdpError, session_of};
use crate::node::{Node, Port};
use crate::sys;
use onpath_switch::{Sender, Switch};
use onpath_transport::peek;
use onpath_wire::ids::NodeId;
use onpath_wire::innet::{Cache, InNetBytes, header_bytes};
use smallvec::SmallVec;
use std::net::SocketAddr;
use std::sync::Arc;

impl Endpoint {
    /// Lets the switch role of `node` serve packets that come to `address`. The endpoint is started already.
    pub fn switch(&self, node: &Arc<Node>, role: Port<Switch>, address: SocketAddr) -> Result<(), UdpError> {
        let socket = Socket::bind(address).map_err(|source| UdpError::Bind { address, source })?;
        let socket = Arc::new(socket);
        self.shared.switches.lock().expect("starting does not panic").push(socket.clone());
        let node = node.clone();
        self.shared.spawn("udp-switch", move |shared| {
            let mut ways = Ways::default();
            while_open(shared, &socket, |inbox| {
                let now_us = sys::mono_us();
                for (run, from) in inbox.received() {
                    for Copy { header, behind, to } in pass(shared, &node, &role, from, Datagrams(run)) {
                        let endpoint = shared.peers.endpoint_of(to);
                        match endpoint.and_then(|to| shared.peers.with(to, |other| other.lock().address)) {
                            Some(place) => ways.push(&socket, now_us, place, &header, behind),
                            None => shared.count_lost(),
                        }
                    }
                }
                if ways.flush(&socket, now_us).is_err() {
                    shared.count_lost();
                }
            });
        })
    }
}

/// A copy of a packet that leaves the switch.
struct Copy<'a> {
    header: InNetBytes,
    behind: &'a [u8],
    to: NodeId,
}

/// Copies of packets: two at most of each.
type Copies<'a> = SmallVec<[Copy<'a>; 2]>;

/// Whether a packet asks the cache.
fn reads(packet: &[u8]) -> bool {
    packet.first() == Some(&Cache::READ)
}

/// Whence a packet comes: a session may ask the cache by its own port, from where it was greeted.
fn sender(shared: &Shared, from: SocketAddr, packet: &[u8]) -> Sender {
    let asker = || {
        let behind = packet.get(header_bytes(*packet.first()?)?..)?;
        let endpoint = peek(behind).ok()?.endpoint;
        let session = NodeId::session(session_of(endpoint)?);
        let is_there = |other: &Arc<Other>| source(other.lock().address) == source(from);
        shared.peers.with(endpoint, is_there).filter(|is_there| *is_there).map(|_| session)
    };
    if reads(packet) { asker().map_or(Sender::Anybody, Sender::Session) } else { Sender::Anybody }
}

/// Packets that came together pass the in-network program.
fn pass<'a>(shared: &Shared, node: &Node, role: &Port<Switch>, from: SocketAddr, packets: Datagrams<'a>) -> Copies<'a> {
    let mut copies = Copies::new();
    let from_host = shared.hosts.is_host(from);
    node.with_role(role, |switch| {
        switch.set_clock(sys::mono_us());
        for packet in packets {
            let packet: &[u8] = packet;
            let sender = if from_host { Sender::Host } else { sender(shared, from, packet) };
            switch.step(sender, packet, |to, header| {
                copies.push(Copy { header: *header, behind: &packet[header.len()..], to });
            });
        }
    });
    copies
}
