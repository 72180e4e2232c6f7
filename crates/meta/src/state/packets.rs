//! Building the messages that a shard sends.

use crate::Core;
use crate::cached;
use crate::ops::{Req, bound};
use crate::planted::{self, Planted};
use crate::state::State;
use onpath_kernel::{Need, OpId};
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::codec::{Blob, Wire};
use onpath_wire::header::{Header, MessageKind, Of, OfReply};
use onpath_wire::ids::{DataId, Generation, InodeId, NodeId, RecordSeq, RequestSeq, ShardId};
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;
use onpath_wire::way::Way;
use std::borrow::Cow;

impl State {
    pub(crate) fn header(&self, kind: MessageKind, seq: RequestSeq) -> Header {
        let mut header = Header::new(kind, NodeId::shard(self.config.shard), seq);
        header.cluster = self.config.cluster;
        header.term = self.config.term;
        header.stamp = self.clock.last();
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

    /// The record of a cut that this reply tells, unless it is known to be durable.
    fn cut_in(&self, reply: &Reply) -> Option<RecordSeq> {
        if planted::is(Planted::CutBeforeDurable) {
            return None;
        }
        match reply {
            Reply::Attr { attr, .. } | Reply::Entry { attr, .. } => self.raised.get(&attr.id).copied(),
            Reply::Attrs { attrs } if !self.raised.is_empty() => {
                attrs.iter().flatten().filter_map(|attr| self.raised.get(&attr.id)).max().copied()
            }
            // They do not name their inode.
            Reply::Reserved { .. } | Reply::Stale { .. } => self.raised.values().max().copied(),
            _ => None,
        }
    }

    /// Whether a data node has yet to say how many blocks a shrink of this file has left.
    fn is_unsettled(&self, id: InodeId) -> bool {
        let all = |generation| DataId { inode: id, generation: Generation(generation) };
        let pending = (all(0), 0, false)..=(all(u64::MAX), u32::MAX, true);
        !self.data_pending.is_empty() && self.data_pending.range(pending).any(|((_, _, drop), _)| !drop)
    }

    /// Attributes of an inode with what is to be said of them.
    pub(crate) fn told(&mut self, id: InodeId) -> Option<AttrWire> {
        let unsettled = self.is_unsettled(id);
        let mut attr = self.inodes.attr(id)?;
        attr.flags |= if unsettled { flag::UNSETTLED } else { 0 };
        Some(attr)
    }

    /// The reply, with what is to be said of its attributes.
    fn marked<'a>(&self, reply: &'a Reply) -> Cow<'a, Reply> {
        let mut reply = Cow::Borrowed(reply);
        if let Reply::Attr { attr, .. } | Reply::Entry { attr, .. } = &*reply
            && self.is_unsettled(attr.id)
            && let Reply::Attr { attr, .. } | Reply::Entry { attr, .. } = reply.to_mut()
        {
            attr.flags |= flag::UNSETTLED;
        }
        reply
    }

    /// A reply to a session, by whatever way it goes.
    pub(crate) fn reply_packet(&self, seq: RequestSeq, reply: &Reply) -> Packet {
        self.reply_resting_on(RecordSeq(0), seq, reply)
    }

    /// The same, with the record on which it rests.
    pub(crate) fn reply_resting_on(&self, record: RecordSeq, seq: RequestSeq, reply: &Reply) -> Packet {
        let mut header = self.header(MessageKind::Reply, seq);
        let untold = matches!(reply, Reply::Entry { created: true, .. }) && planted::is(Planted::CreateUntold);
        let record = if self.config.outlived && !untold { record } else { RecordSeq(0) };
        header.of = Of::Reply(OfReply { record, tracked: self.epochs.owner });
        Packet::new(&header, &*self.marked(reply))
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

/// Sends a reply to a session. That it has joined is told when it is durable: whoever opens files and takes locks must not be
/// forgotten by a power loss. One that tells a cut of a file to another host leaves when the record of that cut is durable. An early one
/// is the exception to R-16: what follows it waits.
pub(crate) fn reply(core: &mut Core, op: OpId, req: &Req, reply: &Reply) {
    let shown = &*shown_to(core, req, reply);
    if matches!(shown, Reply::Attached { .. }) {
        return reply_durably(core, req, shown);
    }
    let packet = core.state.reply_resting_on(core.reflects(op), req.seq, shown);
    if req.early {
        return core.send_after(req.from, packet, RecordSeq(0), Need::ByDestination);
    }
    let raised = core.state.cut_in(reply);
    send_with_cut(core, op, req.from, packet, raised);
}

/// The reply as its session gets it: with the way that leads there, or a bound one with the ticket of what it has opened.
pub(crate) fn shown_to<'a>(core: &mut Core, req: &Req, reply: &'a Reply) -> Cow<'a, Reply> {
    if let Some(way) = req.way.as_ref().filter(|_| matches!(reply, Reply::Entry { .. } | Reply::Missing)) {
        let reply = Blob(core.state.marked(reply).to_bytes());
        return Cow::Owned(Reply::Led { way: Way::clone(way), reply });
    }
    if req.bound.is_none() {
        return hot(core, req, reply).map_or(Cow::Borrowed(reply), Cow::Owned);
    }
    let marked = core.state.marked(reply).into_owned();
    Cow::Owned(bound::with_ticket(core, req, marked))
}

/// The reply about an inode for whose name a switch answers.
fn hot(core: &mut Core, req: &Req, reply: &Reply) -> Option<Reply> {
    let (Reply::Entry { attr, created: false, .. } | Reply::Attr { attr, .. }) = reply else { return None };
    // Who changes it does not ask for it.
    let hot = if req.remembered { core.state.cached.hot(attr.id)? } else { cached::asked_about(core, attr.id)? };
    Some(Reply::Hot { hot, reply: Blob(core.state.marked(reply).to_bytes()) })
}

fn send_with_cut(core: &mut Core, op: OpId, to: NodeId, packet: Packet, raised: Option<RecordSeq>) {
    match raised {
        None => core.send(op, to, packet),
        Some(raised) => {
            let after = core.reflects(op).max(raised);
            core.send_after(to, packet, after, Need::IfOutlived);
        }
    }
}

/// Answers the question of another shard for an inode.
pub(crate) fn answer_home_read(core: &mut Core, op: OpId, to: ShardId, seq: RequestSeq, id: InodeId) {
    let attr = core.state.told(id);
    let data = core.state.inodes.data_ref(id).unwrap_or_default();
    let packet = core.state.answer_packet(seq, &Peer::HomeAttr { attr, data });
    let raised = core.state.raised.get(&id).copied();
    send_with_cut(core, op, NodeId::shard(to), packet, raised);
}

/// Sends a reply to a session that may leave only when everything recorded so far is durable (fsync).
pub(crate) fn reply_durably(core: &mut Core, req: &Req, reply: &Reply) {
    let packet = core.state.reply_packet(req.seq, reply);
    let after = core.state.record_seq;
    core.send_after(req.from, packet, after, Need::Durable);
}
