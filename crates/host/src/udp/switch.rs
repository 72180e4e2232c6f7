//! The switch in user space: packets with an in-network header come to its UDP port, pass the in-network program, and go on to the nodes
//! for which they are. Nothing behind the header is looked at.

use super::UdpError;
use super::endpoint::{Endpoint, Shared, be_patient};
use super::receive::while_open;
use super::socket::{Received, Socket};
use crate::node::{Node, Port};
use onpath_switch::Switch;
use onpath_wire::ids::NodeId;
use onpath_wire::innet::INNET_BYTES;
use smallvec::SmallVec;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Endpoint {
    /// Lets the switch role of `node` serve packets that come to `address`. The endpoint is started already.
    pub fn switch(&self, node: &Arc<Node>, role: Port<Switch>, address: SocketAddr) -> Result<(), UdpError> {
        let socket = Socket::bind(address).map_err(|source| UdpError::Bind { address, source })?;
        be_patient(&socket)?;
        let node = node.clone();
        self.shared.spawn("udp-switch", move |shared| {
            while_open(shared, &socket, |inbox| {
                for (bytes, received) in inbox.received() {
                    forward(shared, &node, &role, &socket, bytes, received);
                }
            });
        })
    }
}

/// Copies of a packet: two at most but for a multicast.
type Copies = SmallVec<[(NodeId, [u8; INNET_BYTES]); 2]>;

fn forward(shared: &Shared, node: &Node, role: &Port<Switch>, socket: &Socket, bytes: &mut [u8], received: Received) {
    for packet in bytes.chunks_mut(received.segment) {
        let Some(header) = packet.first_chunk::<INNET_BYTES>() else {
            shared.malformed();
            continue;
        };
        let mut copies = Copies::new();
        node.with_role(role, |switch| switch.step(header, |to, header| copies.push((to, *header))));
        for (to, header) in copies {
            let place = shared.peers.of_role(to).and_then(|other| other.lock().switched_place());
            let sent = place.is_some_and(|place| {
                packet[..INNET_BYTES].copy_from_slice(&header);
                socket.send(place, packet, packet.len()).is_ok()
            });
            if !sent {
                shared.counts.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
