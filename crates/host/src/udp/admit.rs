//! Who may say what to whom: a peer speaks for its own roles, and a session only asks.

use super::peers::Other;
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{NodeClass, NodeId};
use onpath_wire::innet::{DirtySetOp, InNet};
use onpath_wire::packet::Packet;

/// A session speaks for itself only, requests to shards, path nodes and data nodes; of the switch it may ask, on the way to that shard.
pub fn may_send(session: NodeId, to: NodeId, packet: &Packet) -> bool {
    let Ok(header) = packet.header() else { return false };
    let asks = |innet: &InNet| match innet {
        InNet::DirtySet(header) => header.op() == Some(DirtySetOp::Query) && header.destination == to.0,
    };
    if packet.innet.as_deref().is_some_and(|innet| !asks(innet)) {
        return false;
    }
    header.source == session && asks_a_server(&header, to)
}

/// Whether this is a request, to one who answers such.
fn asks_a_server(header: &Header, to: NodeId) -> bool {
    matches!(
        (header.kind(), to.class()),
        (MessageKind::Request, Some(NodeClass::Shard | NodeClass::Path)) | (MessageKind::Data, Some(NodeClass::Data))
    )
}

/// A host speaks for its own roles.
pub(super) fn may_come_from(other: &Other, packet: &Packet) -> bool {
    packet.header().is_ok_and(|header| other.has(header.source))
}
