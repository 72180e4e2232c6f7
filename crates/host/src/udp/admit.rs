//! Who may say what to whom: a peer speaks for its own roles, and a session only asks. A host with a path node passes on what sessions
//! have asked that (P-4).

use super::peers::Other;
use onpath_wire::header::{Header, MessageKind, Of};
use onpath_wire::ids::{NodeClass, NodeId, SessionNumber};
use onpath_wire::innet::cache::CacheOp;
use onpath_wire::innet::{DirtySetOp, InNet, VisibilityOp};
use onpath_wire::packet::Packet;

/// A session speaks for itself only, requests to shards, path nodes and data nodes, and answers to controllers; of the switch it may ask, on
/// the way to that shard.
pub fn may_send(session: NodeId, to: NodeId, packet: &Packet) -> bool {
    let Ok(header) = packet.header() else { return false };
    let asks = |innet: &InNet| match innet {
        InNet::DirtySet(header) => header.op() == Some(DirtySetOp::Query) && header.destination == to.0,
        InNet::Visibility(header) => header.op() == Some(VisibilityOp::Look) && header.destination == to.0,
        InNet::Cache(header) => header.op() == CacheOp::Read && header.common().destination == to.0,
    };
    if packet.innet.as_deref().is_some_and(|innet| !asks(innet)) {
        return false;
    }
    // Only path nodes pass on.
    let forwarded = header.of_request().is_some_and(|asked| asked.forwarded);
    header.source == session && !forwarded && asks_a_server(&header, to)
}

/// Whether this is a request, to one who answers such, or an answer to who asks sessions.
fn asks_a_server(header: &Header, to: NodeId) -> bool {
    matches!(
        (header.kind(), to.class()),
        (MessageKind::Request, Some(NodeClass::Shard | NodeClass::Path))
            | (MessageKind::Data, Some(NodeClass::Data))
            | (MessageKind::PeerAnswer, Some(NodeClass::Controller))
    )
}

/// In whose name a host says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    /// In that of a role of its own.
    Itself,
    /// In that of a session, which has asked its path node: as whom that may ask is looked at once more where this arrives.
    Session(SessionNumber),
}

/// In whose name a host may say this to a role: in that of its own roles, and a path node in that of sessions, to shards, if it says that
/// it passes a request on. Of what it passes on shards execute only what reads.
pub(super) fn speaker(host: &Other, to: NodeId, packet: &Packet) -> Option<Speaker> {
    let header = packet.header().ok()?;
    if host.has(header.source) {
        return Some(Speaker::Itself);
    }
    let session = header.source.as_session()?;
    let passed_on = matches!(&header.of, Of::Request(asked) if asked.forwarded);
    let may = host.has_path_node() && passed_on && to.as_shard().is_some() && packet.innet.is_none();
    may.then(|| Speaker::Session(SessionNumber::of(session, header.seq)))
}
