//! What an input of a role is to the cost model: its label, and what its work grows with.

use onpath_kernel::Output;
use onpath_wire::header::{HEADER_BYTES, MessageKind};
use onpath_wire::ids::{NodeClass, NodeId};
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;
use onpath_wire::request::{Request, RequestBody};

/// Labels that are not those of messages.
pub const TICK: &str = "tick";
/// Records became durable.
pub const DURABLE: &str = "durable";
/// A packet in the switch.
pub const SWITCH: &str = "switch";
/// A client's own work for one request: encoding it, decoding the reply.
pub const CLIENT: &str = "client";

/// Every label, for tables.
pub const LABELS: &[&str] = &[
    "create",
    "unlink",
    "lookup",
    "getattr",
    "request",
    "grant ask",
    "grant answer",
    "recall",
    "recalled",
    "push",
    "applied",
    "collect",
    "collected",
    "release",
    "mark answer",
    "peer",
    TICK,
    DURABLE,
    SWITCH,
    CLIENT,
];

/// What the cost of an input grows with, beyond that of its label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Features {
    /// Entries of change-logs that come in and go out.
    pub entries: u32,
    /// Records.
    pub records: u32,
    /// Replies to sessions.
    pub replies: u32,
}

/// The label of a message that reaches a shard, and the change-log entries in it.
pub(crate) fn of_packet(packet: &Packet, to: NodeId) -> (&'static str, u32) {
    let Ok(header) = packet.header() else { return ("peer", 0) };
    if packet.innet.is_some() && header.source == to {
        return ("mark answer", 0); // the switch's answer comes back on our own message
    }
    match header.kind() {
        MessageKind::Request => (of_request(packet), 0),
        MessageKind::Peer | MessageKind::PeerAnswer => (of_peer(packet), entries(packet)),
        _ => ("peer", 0),
    }
}

fn of_request(packet: &Packet) -> &'static str {
    match packet.body::<RequestBody>().map(|body| body.request) {
        Ok(Request::Create { .. }) => "create",
        Ok(Request::Unlink { .. }) => "unlink",
        Ok(Request::Lookup { .. }) => "lookup",
        Ok(Request::GetAttr { .. }) => "getattr",
        _ => "request",
    }
}

fn of_peer(packet: &Packet) -> &'static str {
    match packet.body::<Peer>() {
        Ok(Peer::GrantAsk { .. }) => "grant ask",
        Ok(Peer::GrantAnswer { .. }) => "grant answer",
        Ok(Peer::Recall { .. }) => "recall",
        Ok(Peer::Recalled { .. }) => "recalled",
        Ok(Peer::Push { .. }) => "push",
        Ok(Peer::Applied { .. }) => "applied",
        Ok(Peer::Collect { .. }) => "collect",
        Ok(Peer::Collected { .. }) => "collected",
        Ok(Peer::Release { .. }) => "release",
        _ => "peer",
    }
}

/// Entries of change-logs in a message.
fn entries(packet: &Packet) -> u32 {
    let count = match packet.body::<Peer>() {
        Ok(Peer::Push { batch, .. } | Peer::Recalled { batch, .. }) => batch.entries.len(),
        Ok(Peer::Collected { batches, .. }) => batches.iter().map(|batch| batch.batch.entries.len()).sum(),
        _ => 0,
    };
    count as u32
}

impl Features {
    /// Counts an output.
    pub(crate) fn count(&mut self, output: &Output<()>) {
        match output {
            Output::Append { .. } => self.records += 1,
            Output::Send { to, .. } if to.class() == Some(NodeClass::Session) => self.replies += 1,
            Output::Send { packet, .. } => {
                let kind = packet.header().map(|header| header.kind());
                let peer = matches!(kind, Ok(MessageKind::Peer | MessageKind::PeerAnswer));
                if peer && packet.head.len() > HEADER_BYTES {
                    self.entries += entries(packet);
                }
            }
            Output::Flush | Output::Own(()) => {}
        }
    }
}
