//! The receiving side: one thread, which runs what the messages make runnable.

use super::admit::{Speaker, may_send, speaker};
use super::endpoint::Shared;
use super::hosts::source;
use super::peers::{Other, OtherState};
use super::socket::{Inbox, Socket};
use super::{THIS_PROCESS, endpoint_of_session, greet, session_of};
use crate::bound;
use crate::clock::CLOCK;
use crate::sys;
use bytes::Bytes;
use onpath_transport::{Delivered, Head, MAGIC as TRANSPORT_MAGIC, first_of, peek};
use onpath_wire::codec::Wire;
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{NodeClass, NodeId, RequestSeq, SessionNumber, ShardId};
use onpath_wire::innet::{Cache, DirtySetOp, InNet, VisibilityOp, header_bytes};
use onpath_wire::packet::Packet;
use onpath_wire::report::MountReport;
use smallvec::SmallVec;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Answers to what a peer may not ask.
type Refusals = SmallVec<[Packet; 1]>;

/// What came together.
#[derive(Default)]
struct Batch {
    delivered: Vec<Delivered>,
    messages: Vec<(NodeId, Packet)>,
    /// Peers that have something to be told, such as what has arrived.
    touched: SmallVec<[Arc<Other>; 2]>,
    /// When it came, monotonic microseconds.
    now_us: u64,
}

/// The thread of an endpoint's socket.
pub(super) fn run(shared: &Arc<Shared>) {
    let mut batch = Batch::default();
    while_open(shared, &shared.socket, |inbox| {
        batch.now_us = sys::mono_us();
        let mut datagrams = 0;
        for (run, from) in inbox.received() {
            for datagram in Datagrams(run) {
                shared.take(&mut batch, datagram, from);
                datagrams += 1;
            }
        }
        // No other thread writes it.
        let received = shared.counts.datagrams_received.load(Ordering::Relaxed);
        shared.counts.datagrams_received.store(received + datagrams, Ordering::Relaxed);
        shared.finish(&mut batch);
    });
}

/// Receives until the endpoint is stopped.
pub(super) fn while_open(shared: &Shared, socket: &Socket, mut take: impl FnMut(&mut Inbox)) {
    let mut inbox = Inbox::new();
    while !shared.stopped.load(Ordering::Acquire) {
        match socket.receive(&mut inbox, shared.wait) {
            Ok(()) => take(&mut inbox),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Who looks again and again alone on its CPU goes on at once; others get theirs where there are fewer CPUs than threads that do.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            // What an earlier datagram met on its way (nobody listens there) is told here.
            Err(error) => tracing::trace!(%error, "receiving"),
        }
    }
}

/// Whether a datagram that begins with this byte has come through a switch. As in-network code the transport's first byte is an
/// operation of structure 4, which will never be (`dataplane/SPEC.md`).
fn is_switched(code: u8) -> bool {
    code != TRANSPORT_MAGIC.to_le_bytes()[0]
}

/// The bytes in front of a datagram that begins with this one: the in-network header, if it has come through a switch. Where one of no
/// structure that is known ends nobody can say.
fn front(code: u8) -> Option<usize> {
    if is_switched(code) { header_bytes(code) } else { Some(0) }
}

/// The datagrams of a run: what the system has put together of one sender.
pub(crate) struct Datagrams<'a>(pub(crate) &'a mut [u8]);

impl<'a> Iterator for Datagrams<'a> {
    type Item = &'a mut [u8];

    fn next(&mut self) -> Option<&'a mut [u8]> {
        let run = std::mem::take(&mut self.0);
        let front = front(*run.first()?).map_or(run.len(), |bytes| bytes.min(run.len()));
        let bytes = front + first_of(&run[front..]);
        let (datagram, rest) = run.split_at_mut(bytes);
        self.0 = rest;
        Some(datagram)
    }
}

impl Shared {
    /// A datagram from another process.
    fn take(self: &Arc<Self>, batch: &mut Batch, datagram: &mut [u8], from: SocketAddr) {
        if datagram.first().is_some_and(|&code| is_switched(code)) {
            return self.take_switched(batch, datagram, from);
        }
        let head = match peek(datagram) {
            Ok(head) if head.cluster == self.config.cluster || head.handshake() => head,
            _ => return self.malformed(),
        };
        if head.handshake() {
            return greet::take(self, &head, datagram, from, batch.now_us);
        }
        if !self.take_from(batch, &head, datagram, Err(from)) {
            self.counts.strangers.fetch_add(1, Ordering::Relaxed);
            self.challenge(&head, from, true, batch.now_us);
        }
    }

    /// A datagram that has come through the switch.
    fn take_switched(self: &Arc<Self>, batch: &mut Batch, datagram: &mut [u8], from: SocketAddr) {
        let Ok((innet, datagram)) = InNet::split_mut(datagram) else { return self.malformed() };
        let Ok(head) = peek(datagram) else { return self.malformed() };
        let common = innet.common();
        if common.cluster != self.config.cluster || head.cluster != self.config.cluster || common.result == 0 {
            return self.malformed();
        }
        // What nothing seals is believed of a switch's address alone.
        if !self.config.keyring.seals() && !self.hosts.is_switch(from) {
            return self.malformed();
        }
        match &innet {
            InNet::DirtySet(header) if header.op() == Some(DirtySetOp::Insert) && head.endpoint == self.config.me => {
                return self.take_acknowledgement(batch, innet, head.boot, from);
            }
            InNet::Visibility(header) if header.op() == Some(VisibilityOp::Install) && header.is_for_home() => {
                return self.take_install(batch, innet, from);
            }
            InNet::Cache(header) if header.answers() && head.endpoint == self.config.me => {
                return self.take_returned(batch, innet, &head, datagram, from);
            }
            InNet::Cache(Cache::Read(_)) if NodeId(common.destination).class() == Some(NodeClass::Controller) => {
                return self.take_report(batch, innet, from);
            }
            _ => {}
        }
        if !self.take_from(batch, &head, datagram, Ok(innet)) {
            self.counts.strangers.fetch_add(1, Ordering::Relaxed); // whoever it is greets by the direct way
        }
    }

    /// What the switch misses often, as the controller hears of it. Nothing seals the header, so it is taken of a switch alone; what it says is
    /// asked of who has asked the switch.
    fn take_report(&self, batch: &mut Batch, innet: InNet, from: SocketAddr) {
        let controller = NodeId(innet.common().destination);
        if !self.node().has(controller) || !self.hosts.is_switch(from) {
            return self.malformed();
        }
        batch.messages.push((controller, Packet::encoded(Vec::new(), Bytes::new()).through_switch(innet)));
    }

    /// A mark of this process has come back: what is behind the header was for somebody else, and is not looked at. Nothing seals the
    /// header, so only a switch can say this; that it is the answer to a mark its shard knows by the mark's token.
    fn take_acknowledgement(&self, batch: &mut Batch, innet: InNet, boot: u64, from: SocketAddr) {
        let shard = NodeId::shard(ShardId(innet.common().shard));
        if boot != self.config.boot || !self.node().has(shard) || !self.hosts.is_switch(from) {
            return self.malformed();
        }
        let header = Header::new(MessageKind::Reply, shard, RequestSeq(0));
        batch.messages.push((shard, Packet::encoded(header.bytes().to_vec(), Bytes::new()).through_switch(innet)));
    }

    /// The answer of a data node to a session, as the file's home hears of it: what is behind the header is for the session. Nothing seals
    /// the header, so it is taken of a switch alone, and the home looks who has said what is in it.
    fn take_install(&self, batch: &mut Batch, innet: InNet, from: SocketAddr) {
        let home = NodeId::shard(ShardId(innet.common().shard));
        if !self.node().has(home) || !self.hosts.is_switch(from) {
            return self.malformed();
        }
        let header = Header::new(MessageKind::DataReply, home, RequestSeq(0));
        batch.messages.push((home, Packet::encoded(header.bytes().to_vec(), Bytes::new()).through_switch(innet)));
    }

    /// A request of a session here, which the switch has answered: what is behind the header was for its home, and says who had asked for what.
    /// Nothing seals the header, so only a switch can say this.
    fn take_returned(&self, batch: &mut Batch, innet: InNet, head: &Head, datagram: &mut [u8], from: SocketAddr) {
        let is_its = head.boot == self.config.boot && self.hosts.is_switch(from);
        let asked = self.peers.of_boot(head.to_boot).filter(|_| is_its);
        let sent = asked.and_then(|asked| asked.lock().peer.open_own(head, datagram));
        let source = sent.as_ref().and_then(|packet| packet.header().ok()).map(|header| header.source);
        match (sent, source.filter(|source| source.as_session().is_some() && self.node().has(*source))) {
            (Some(packet), Some(source)) => batch.messages.push((source, packet.through_switch(innet))),
            _ => self.malformed(),
        }
    }

    /// Takes a datagram from a process that is known, for the present life of this one, through a switch or from an address; false if it
    /// is not known.
    fn take_from(&self, batch: &mut Batch, head: &Head, datagram: &mut [u8], way: Result<InNet, SocketAddr>) -> bool {
        let innet = way.ok();
        let take = |other: &Arc<Other>| {
            let mut state = other.lock();
            if state.peer.boot() != Some(head.boot) {
                return false;
            }
            if let Err(from) = way
                && !self.may_be(&state, from)
            {
                self.malformed();
                return true;
            }
            if state.peer.receive_as(batch.now_us, head, datagram, &mut batch.delivered).is_err() {
                return true; // the peer has counted it
            }
            state.heard_us = batch.now_us;
            let Some(bound) = self.bound(&mut state) else {
                batch.delivered.clear();
                return true;
            };
            let due = state.peer.next_deadline().is_some();
            drop(state);
            let mut refusals = Refusals::new();
            for (to, mut packet) in batch.delivered.drain(..) {
                if to == THIS_PROCESS && innet.is_none() {
                    self.reported(other, &packet);
                    continue;
                }
                if let Some(innet) = innet {
                    packet = packet.through_switch(innet);
                }
                let astray = innet.is_some_and(|innet| innet.common().destination != to.0);
                match self.admits(other, to, &packet).filter(|_| !astray) {
                    Some(Speaker::Itself) => {
                        if let Some(refusal) = bound.as_ref().and_then(|bound| bound::refusal(bound, to, &packet)) {
                            refusals.push(refusal);
                            continue;
                        }
                        packet.bound = bound.is_some();
                        batch.messages.push((to, packet));
                    }
                    Some(Speaker::Session(session)) => {
                        let taken = self.passed_on(session, to, packet).map(|packet| (to, packet));
                        batch.messages.extend(taken);
                    }
                    None => _ = self.counts.foreign.fetch_add(1, Ordering::Relaxed),
                }
            }
            let due = due || !refusals.is_empty();
            self.refuse(other, refusals, batch.now_us);
            if due && !batch.touched.iter().any(|known| Arc::ptr_eq(known, other)) {
                batch.touched.push(other.clone());
            }
            true
        };
        head.to_boot == self.config.boot && self.peers.with(head.endpoint, take).unwrap_or(false)
    }

    /// What a path node passes on in the name of a session (P-4), as this host takes it: if it knows that session by its own greeting,
    /// and may take this from it. Who was not greeted is not answered either, so nothing is lost by what is dropped.
    fn passed_on(&self, session: SessionNumber, to: NodeId, packet: Packet) -> Option<Packet> {
        let client = self.peers.get(endpoint_of_session(session.id()));
        let bound = client.and_then(|client| {
            let mut state = client.lock();
            if state.session == session { self.bound(&mut state) } else { None }
        });
        let Some(bound) = bound else {
            self.counts.foreign.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        if bound.as_ref().is_some_and(|bound| bound::refusal(bound, to, &packet).is_some()) {
            // Its key has another owner since it was asked; the session hears that when it asks this host itself.
            self.counts.disallowed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Packet { bound: bound.is_some(), ..packet })
    }

    /// Answers what a peer may not ask.
    fn refuse(&self, other: &Other, refusals: Refusals, now_us: u64) {
        if refusals.is_empty() {
            return;
        }
        self.counts.disallowed.fetch_add(refusals.len() as u64, Ordering::Relaxed);
        let mut state = other.lock();
        let session = NodeId::session(state.session.id());
        refusals.into_iter().for_each(|refusal| self.queue(&mut state, now_us, session, refusal));
    }

    /// Whether a datagram that nothing seals may come from that peer: from its address alone.
    pub(super) fn may_be(&self, state: &OtherState, from: SocketAddr) -> bool {
        self.config.keyring.seals() || source(state.address) == source(from)
    }

    /// A mount has told what it did.
    fn reported(&self, other: &Other, packet: &Packet) {
        let is_client = self.serves && session_of(other.endpoint).is_some();
        match MountReport::from_bytes(&packet.head) {
            Ok(report) if is_client => {
                let (session, holder) = {
                    let state = other.lock();
                    (state.session, state.holder)
                };
                self.node().mounts().tell(session, self.name_of(holder), &report);
            }
            _ => _ = self.counts.foreign.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// In whose name a message is said that is for a role here; nothing if it may not come from there.
    fn admits(&self, other: &Other, to: NodeId, packet: &Packet) -> Option<Speaker> {
        let speaker = match session_of(other.endpoint) {
            Some(session) => may_send(NodeId::session(session), to, packet).then_some(Speaker::Itself),
            None => speaker(other, to, packet),
        };
        if speaker == Some(Speaker::Itself)
            && CLOCK.in_doubt()
            && let Ok(header) = packet.header()
        {
            CLOCK.heard(header.stamp, sys::reading);
        }
        speaker.filter(|_| self.node().has(to))
    }

    fn finish(&self, batch: &mut Batch) {
        if !batch.messages.is_empty() {
            self.node().deliver_all(batch.messages.drain(..));
        }
        if !batch.touched.is_empty() {
            let now_us = sys::mono_us();
            batch.touched.drain(..).for_each(|other| self.transmit(&other, now_us));
        }
    }

    pub(super) fn malformed(&self) {
        self.counts.malformed.fetch_add(1, Ordering::Relaxed);
    }

    /// A message could not be sent.
    pub(super) fn count_lost(&self) {
        self.counts.lost.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use onpath_transport::{EndpointId, HEAD_BYTES};
    use onpath_wire::innet::{DirtySet, Structure};

    /// A datagram of so many bytes, some of which are `mark`.
    pub(in super::super) fn datagram((bytes, mark): (usize, u8)) -> Vec<u8> {
        let (endpoint, length) = (EndpointId(u32::from(mark)), bytes as u32);
        let head = Head { flags: 0, cluster: 1, endpoint, check: 0, number: 1, boot: 1, to_boot: 1, length };
        [&head.bytes()[..], &vec![mark; bytes - HEAD_BYTES]].concat()
    }

    /// What has come through a switch, what has not, and what is no datagram of ours, last.
    #[test]
    fn runs_are_cut_into_datagrams() {
        let header = [(Structure::DirtySet as u8) << 4; DirtySet::BYTES];
        let switched = |bytes| [&header[..], &datagram((bytes, 1))].concat();
        let all = [datagram((44, 0)), switched(60), switched(45), datagram((65_000, 4)), vec![9; 50]];
        let mut run = all.concat();
        assert_eq!(Datagrams(&mut run).map(|datagram| datagram.to_vec()).collect::<Vec<_>>(), all);
        for bytes in 0..header.len() + HEAD_BYTES {
            let mut short = switched(100)[..bytes].to_vec();
            assert!(Datagrams(&mut short).map(|datagram| datagram.len()).eq((bytes > 0).then_some(bytes)));
        }
    }

    /// Both kinds come to one port, and each is taken for what it is.
    #[test]
    fn what_came_through_a_switch_is_told_from_what_did_not() {
        for &op in DirtySetOp::ALL {
            assert!(is_switched((Structure::DirtySet as u8) << 4 | op as u8), "{op:?}");
        }
        assert!(!is_switched(TRANSPORT_MAGIC.to_le_bytes()[0]));
    }
}
