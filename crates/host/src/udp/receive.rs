//! The receiving side: one thread a socket, which runs what its messages make runnable.

use super::admit::{may_come_from, may_send};
use super::endpoint::Shared;
use super::peers::Other;
use super::socket::{RECEIVE_BYTES, Received, Socket};
use super::{greet, session_of};
use crate::sys;
use bytes::Bytes;
use onpath_transport::{Delivered, peek};
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{NodeId, RequestSeq, ShardId};
use onpath_wire::innet::{DirtySetOp, INNET_BYTES, InNet};
use onpath_wire::packet::Packet;
use smallvec::SmallVec;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What came together.
#[derive(Default)]
struct Batch {
    delivered: Vec<Delivered>,
    messages: Vec<(NodeId, Packet)>,
    touched: SmallVec<[Arc<Other>; 2]>,
}

/// The thread of the socket for what comes directly.
pub(super) fn plain(shared: &Arc<Shared>) {
    run(shared, &shared.socket, |shared, batch, datagram, from| shared.take(batch, datagram, from));
}

/// The thread of the socket for what comes through the switch.
pub(super) fn switched(shared: &Arc<Shared>) {
    let socket = shared.innet.as_ref().expect("it has one");
    run(shared, socket, |shared, batch, datagram, _| shared.take_switched(batch, datagram));
}

fn run(shared: &Arc<Shared>, socket: &Socket, take: impl Fn(&Arc<Shared>, &mut Batch, &mut [u8], SocketAddr)) {
    let mut batch = Batch::default();
    while_open(shared, socket, |bytes, Received { bytes: got, segment, from }| {
        bytes[..got].chunks_mut(segment).for_each(|datagram| take(shared, &mut batch, datagram, from));
        shared.finish(&mut batch);
    });
}

/// Receives until the endpoint is stopped.
pub(super) fn while_open(shared: &Shared, socket: &Socket, mut take: impl FnMut(&mut [u8], Received)) {
    let mut bytes = vec![0; RECEIVE_BYTES];
    while !shared.stopped.load(Ordering::Acquire) {
        match socket.receive(&mut bytes, shared.wait) {
            Ok(received) => take(&mut bytes, received),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                std::hint::spin_loop();
            }
            // What an earlier datagram met on its way (nobody listens there) is told here.
            Err(error) => tracing::trace!(%error, "receiving"),
        }
    }
}

impl Shared {
    /// A datagram from another process.
    fn take(self: &Arc<Self>, batch: &mut Batch, datagram: &mut [u8], from: SocketAddr) {
        self.counts.datagrams_received.fetch_add(1, Ordering::Relaxed);
        let head = match peek(datagram) {
            Ok(head) if head.cluster == self.config.cluster || head.handshake() => head,
            _ => return self.malformed(),
        };
        if head.handshake() {
            return greet::take(self, datagram, from);
        }
        let now_us = sys::now().mono_us;
        let other = self.peers.get(head.endpoint);
        let known = other.as_ref().is_some_and(|other| other.lock().peer.boot() == Some(head.boot));
        match other.filter(|_| known && head.to_boot == self.config.boot) {
            Some(other) => self.take_from(batch, other, datagram, None, now_us),
            None => greet::stranger(self, &head, from, now_us),
        }
    }

    /// A datagram that has come through the switch.
    fn take_switched(self: &Arc<Self>, batch: &mut Batch, datagram: &mut [u8]) {
        self.counts.datagrams_received.fetch_add(1, Ordering::Relaxed);
        let Some((header, datagram)) = datagram.split_first_chunk_mut::<INNET_BYTES>() else {
            return self.malformed();
        };
        let innet = InNet::of_bytes(header);
        let Ok(head) = peek(datagram) else { return self.malformed() };
        if innet.cluster != self.config.cluster || head.cluster != self.config.cluster || innet.result == 0 {
            return self.malformed();
        }
        if head.endpoint == self.config.me && innet.op() == Some(DirtySetOp::Insert) {
            return self.take_acknowledgement(batch, innet, head.boot);
        }
        let other = self.peers.get(head.endpoint);
        let known = other.as_ref().is_some_and(|other| other.lock().peer.boot() == Some(head.boot));
        match other.filter(|_| known && head.to_boot == self.config.boot) {
            Some(other) => self.take_from(batch, other, datagram, Some(innet), sys::now().mono_us),
            // Whoever it is greets by the direct way.
            None => _ = self.counts.strangers.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// A mark of this process has come back: what is behind the header was for somebody else, and is not looked at.
    fn take_acknowledgement(&self, batch: &mut Batch, innet: InNet, boot: u64) {
        let shard = NodeId::shard(ShardId(innet.shard));
        if boot != self.config.boot || !self.node().has(shard) {
            return self.malformed();
        }
        let header = Header::new(MessageKind::Reply, shard, RequestSeq(0));
        batch.messages.push((
            shard,
            Packet { head: header.bytes().to_vec(), bulk: Bytes::new(), innet: None }.through_switch(innet),
        ));
    }

    fn take_from(&self, batch: &mut Batch, other: Arc<Other>, datagram: &mut [u8], innet: Option<InNet>, now_us: u64) {
        let taken = {
            let mut state = other.lock();
            let taken = state.peer.receive(now_us, datagram, &mut batch.delivered);
            if taken.is_ok() {
                state.heard_us = now_us;
            }
            taken
        };
        if taken.is_err() {
            return; // the peer has counted it
        }
        for delivered in batch.delivered.drain(..) {
            let Delivered::Message(to, packet) = delivered else { continue };
            let packet = match innet {
                Some(innet) if innet.destination == to.0 => packet.through_switch(innet),
                Some(_) => {
                    self.counts.foreign.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                None => packet,
            };
            if self.admits(&other, to, &packet) {
                batch.messages.push((to, packet));
            } else {
                self.counts.foreign.fetch_add(1, Ordering::Relaxed);
            }
        }
        if !batch.touched.iter().any(|known| Arc::ptr_eq(known, &other)) {
            batch.touched.push(other);
        }
    }

    /// Whether a message is for a role here and may come from there.
    fn admits(&self, other: &Other, to: NodeId, packet: &Packet) -> bool {
        let may = match session_of(other.endpoint) {
            Some(session) => may_send(NodeId::session(session), to, packet),
            None => may_come_from(other, packet),
        };
        may && self.node().has(to)
    }

    fn finish(&self, batch: &mut Batch) {
        if !batch.messages.is_empty() {
            self.node().deliver_all(batch.messages.drain(..));
        }
        if !batch.touched.is_empty() {
            let now_us = sys::now().mono_us;
            batch.touched.drain(..).for_each(|other| self.transmit(&other, now_us));
        }
    }

    pub(super) fn malformed(&self) {
        self.counts.malformed.fetch_add(1, Ordering::Relaxed);
    }
}
