//! Building the messages that a shard sends.

use crate::Core;
use crate::ops::Req;
use crate::state::State;
use onpath_kernel::{Need, OpId};
use onpath_wire::codec::Wire;
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{NodeId, RequestSeq, ShardId};
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;

impl State {
    pub(crate) fn header(&self, kind: MessageKind, seq: RequestSeq) -> Header {
        let mut header = Header::new(kind, NodeId::shard(self.config.shard), seq);
        header.cluster = self.config.cluster;
        header.term = self.config.term;
        header.map_epoch = self.config.map.epoch();
        header.stamp = self.clock.last();
        header.tracking = self.epochs.asked_in();
        header
    }

    /// A message between shards.
    pub(crate) fn peer_packet(&self, seq: RequestSeq, body: &Peer) -> Packet {
        Packet::new(&self.header(MessageKind::Peer, seq), body)
    }

    /// The answer to a call of a shard or data node.
    pub(crate) fn answer_packet(&self, seq: RequestSeq, body: &impl Wire) -> Packet {
        Packet::new(&self.header(MessageKind::PeerAnswer, seq), body)
    }

    /// A request to a data node.
    pub(crate) fn data_packet(&self, seq: RequestSeq, body: &impl Wire) -> Packet {
        Packet::new(&self.header(MessageKind::Data, seq), body)
    }

    /// A reply to a session.
    pub(crate) fn reply_packet(&self, seq: RequestSeq, reply: &Reply) -> Packet {
        Packet::new(&self.header(MessageKind::Reply, seq), reply)
    }
}

/// Answers a call between shards; what it reflects is decided by the operation's locks and records.
pub(crate) fn answer_call(core: &mut Core, op: OpId, to: NodeId, seq: RequestSeq, body: &Peer) {
    let packet = core.state.answer_packet(seq, body);
    core.send(op, to, packet);
}

/// Sends a message to a shard that expects no answer to it.
pub(crate) fn tell(core: &mut Core, op: OpId, to: ShardId, body: &Peer) {
    let packet = core.state.peer_packet(RequestSeq(0), body);
    core.send(op, NodeId::shard(to), packet);
}

/// Sends a reply to a session.
pub(crate) fn reply(core: &mut Core, op: OpId, req: &Req, reply: &Reply) {
    let packet = core.state.reply_packet(req.seq, reply);
    core.send(op, req.from, packet);
}

/// Sends a reply to a session that may leave only when everything recorded so far is durable (fsync).
pub(crate) fn reply_durably(core: &mut Core, req: &Req, reply: &Reply) {
    let packet = core.state.reply_packet(req.seq, reply);
    let after = core.state.record_seq;
    core.send_after(req.from, packet, after, Need::Durable);
}
