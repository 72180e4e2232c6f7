//! The switch in user space: packets with an in-network header come to its UDP port, pass the in-network program, and go on to the nodes
//! for which they are. Nothing behind the header is looked at, but how long it is. What changes the dirty set is executed if it comes from the
//! address and port of a host (D-44): whoever is no host gets queries answered, and nothing is kept of them.

use super::UdpError;
use super::endpoint::Endpoint;
use super::receive::{Datagrams, while_open};
use super::socket::Socket;
use super::ways::Ways;
use crate::node::{Node, Port};
use crate::sys;
use onpath_switch::Switch;
use onpath_wire::ids::NodeId;
use onpath_wire::innet::InNetBytes;
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
                    let from_host = shared.hosts.is_host(from);
                    for Copy { header, behind, to } in pass(&node, &role, from_host, Datagrams(run)) {
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

/// Packets that came together pass the in-network program.
fn pass<'a>(node: &Node, role: &Port<Switch>, from_host: bool, packets: Datagrams<'a>) -> Copies<'a> {
    let mut copies = Copies::new();
    node.with_role(role, |switch| {
        for packet in packets {
            let packet: &[u8] = packet;
            switch.step(from_host, packet, |to, header| {
                copies.push(Copy { header: *header, behind: &packet[header.len()..], to });
            });
        }
    });
    copies
}
