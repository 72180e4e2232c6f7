//! What an input of a role is to the cost model: its label, and what its work grows with.

use crate::world::role::Action;
use onpath_path::IndexKind;
use onpath_wire::data::{DataRequest, Merge};
use onpath_wire::header::{HEADER_BYTES, MessageKind};
use onpath_wire::ids::{NodeClass, NodeId};
use onpath_wire::innet::{InNet, VisibilityOp};
use onpath_wire::packet::Packet;
use onpath_wire::peer::{GrantResult, Peer, part};
use onpath_wire::request::{Request, RequestBody};

/// Labels that are not those of messages.
pub const TICK: &str = "tick";
/// Records became durable.
pub const DURABLE: &str = "durable";
/// A deadline of a data node has passed.
pub const DATA_TICK: &str = "data tick";
/// Records of a data node became durable.
pub const DATA_DURABLE: &str = "data durable";
/// A block of a data file was read or written.
pub const DISK: &str = "disk";
/// A controller is told something by its host.
pub const TOLD: &str = "told";
/// A packet in the switch.
pub const SWITCH: &str = "switch";
/// A client's own work for one request: encoding it, decoding the reply.
pub const CLIENT: &str = "client";

/// A name is looked up.
pub const LOOKUP: &str = "lookup";
/// A path node follows names; what it costs depends on how.
pub(crate) const RESOLVE: &str = "resolve";
/// It tells the way, for the session to keep.
const RESOLVE_TOLD: &str = "resolve told";
/// Shards are asked for what it does not know.
const RESOLVE_ASKING: &str = "resolve asking";
/// In a tree with reachability bits, which have spared it to check each directory.
const RESOLVE_SPECULATED: &str = "resolve speculated";
/// In the same, where they have not.
const RESOLVE_CHECKED: &str = "resolve checked";
/// A session is asked for a path, or asks for it once more.
pub(crate) const SESSION_ASKS: &str = "session asks";
/// A session is asked for a path and follows ways that it has kept.
pub(crate) const SESSION_KEPT: &str = "session kept";
/// A session hears an answer.
pub(crate) const SESSION_HEARS: &str = "session hears";

/// Every label, for tables.
pub const LABELS: &[&str] = &[
    "create",
    "unlink",
    LOOKUP,
    "lookup led",
    "getattr",
    "setattr",
    "rename",
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
    RESOLVE,
    RESOLVE_TOLD,
    RESOLVE_ASKING,
    RESOLVE_SPECULATED,
    RESOLVE_CHECKED,
    "part ask",
    "part answer",
    "part recall",
    "part recalled",
    "forget ways",
    "prepare",
    "prepared",
    "commit",
    SESSION_ASKS,
    SESSION_KEPT,
    SESSION_HEARS,
    "open",
    "data ref",
    "data write",
    "data read",
    "data asked",
    "data answer",
    "merge",
    "learn",
    "learned",
    "brought",
    "shown",
    DISK,
    DATA_TICK,
    DATA_DURABLE,
    "peer",
    TICK,
    DURABLE,
    SWITCH,
    CLIENT,
];

/// What the cost of an input grows with, beyond that of its label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Features {
    /// Entries of change-logs that come in and go out; names of a path; files of which a data node tells, and writes that it need not tell of any more.
    pub entries: u32,
    /// Records.
    pub records: u32,
    /// Replies to sessions.
    pub replies: u32,
}

/// The label of a message that reaches a role, and the change-log entries or names of a path in it.
pub(crate) fn of_packet(packet: &Packet, to: NodeId) -> (&'static str, u32) {
    let Ok(header) = packet.header() else { return ("peer", 0) };
    if packet.innet.is_some() && header.source == to {
        return ("mark answer", 0); // the switch's answer comes back on our own message
    }
    if matches!(packet.innet.as_deref(), Some(InNet::Visibility(install)) if install.op() == Some(VisibilityOp::Install))
    {
        return ("shown", 0);
    }
    let of_data = |node: NodeId| node.class() == Some(NodeClass::Data);
    match header.kind() {
        MessageKind::Request => of_request(packet),
        MessageKind::Data if of_data(to) => (of_data_request(packet), 0),
        MessageKind::Data => of_merge(packet),
        MessageKind::PeerAnswer if of_data(to) => ("learned", 0),
        MessageKind::PeerAnswer if of_data(header.source) => ("data answer", 0),
        MessageKind::Peer | MessageKind::PeerAnswer => (of_peer(packet, header.source), entries(packet)),
        _ => ("peer", 0),
    }
}

fn of_request(packet: &Packet) -> (&'static str, u32) {
    let label = match packet.body::<RequestBody>().map(|body| body.request) {
        Ok(Request::Create { .. }) => "create",
        Ok(Request::Unlink { .. }) => "unlink",
        Ok(Request::Lookup { .. }) => LOOKUP,
        Ok(Request::GetAttr { .. }) => "getattr",
        Ok(Request::SetAttr { .. }) => "setattr",
        Ok(Request::Rename { .. }) => "rename",
        Ok(Request::Open { .. }) => "open",
        Ok(Request::DataRef { .. }) => "data ref",
        Ok(Request::Learn { .. }) => "brought",
        Ok(Request::LookupLed { way, .. }) => return ("lookup led", way.dirs.len() as u32),
        Ok(Request::Resolve { names, tell, .. }) => {
            return (if tell { RESOLVE_TOLD } else { RESOLVE }, names.len() as u32);
        }
        _ => "request",
    };
    (label, 0)
}

fn of_data_request(packet: &Packet) -> &'static str {
    match packet.body::<DataRequest>() {
        Ok(DataRequest::Write { .. }) => "data write",
        Ok(DataRequest::Read { .. }) => "data read",
        _ => "data asked",
    }
}

/// What a data node tells a home, and of how many files.
fn of_merge(packet: &Packet) -> (&'static str, u32) {
    match packet.body::<Merge>() {
        Ok(Merge::Answered { all }) => ("learn", all.len() as u32),
        _ => ("merge", 0),
    }
}

/// Whether a session asks for something by a name, or for what is in a directory that it has named.
pub(crate) fn is_by_name(label: &str) -> bool {
    ["create", "unlink", LOOKUP, "getattr", "rename", "open"].contains(&label)
}

/// Whether a path node was asked for a path.
pub(crate) fn is_walk(label: &str) -> bool {
    label.starts_with(RESOLVE)
}

/// The label of a walk, of which only what came of it says how it was done.
pub(crate) fn of_walk(asked: &'static str, index: IndexKind, speculated: bool, outputs: &[Action]) -> &'static str {
    let is_question = |output: &Action| match output {
        Action::Send { packet, .. } => packet.header().is_ok_and(|header| header.kind() == MessageKind::Peer),
        _ => false,
    };
    match index {
        _ if outputs.iter().any(is_question) || outputs.is_empty() => RESOLVE_ASKING,
        _ if asked == RESOLVE_TOLD => RESOLVE_TOLD,
        IndexKind::Hi => RESOLVE,
        IndexKind::Mart | IndexKind::Art if speculated => RESOLVE_SPECULATED,
        IndexKind::Mart | IndexKind::Art => RESOLVE_CHECKED,
    }
}

fn of_peer(packet: &Packet, from: NodeId) -> &'static str {
    let is_path_node = from.class() == Some(NodeClass::Path);
    match packet.body::<Peer>() {
        Ok(Peer::GrantAsk { .. } | Peer::DirectoryAsk { .. }) if is_path_node => "part ask",
        Ok(Peer::Recalled { .. }) if is_path_node => "part recalled",
        Ok(Peer::GrantAnswer { result: GrantResult::Path { .. }, .. } | Peer::DirectoryIs { .. }) => "part answer",
        Ok(Peer::Recall { parts, .. }) if parts == part::PATH => "part recall",
        Ok(Peer::GrantAsk { .. }) => "grant ask",
        Ok(Peer::GrantAnswer { .. }) => "grant answer",
        Ok(Peer::Recall { .. }) => "recall",
        Ok(Peer::Recalled { .. }) => "recalled",
        Ok(Peer::Push { .. }) => "push",
        Ok(Peer::Applied { .. }) => "applied",
        Ok(Peer::Collect { .. }) => "collect",
        Ok(Peer::Collected { .. }) => "collected",
        Ok(Peer::Release { .. }) => "release",
        Ok(Peer::ForgetWays { .. }) => "forget ways",
        Ok(Peer::Prepare { .. }) => "prepare",
        Ok(Peer::Prepared { .. }) => "prepared",
        Ok(Peer::Commit { .. }) => "commit",
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
    pub(crate) fn count(&mut self, output: &Action) {
        match output {
            Action::Append { .. } => self.records += 1,
            Action::Send { to, .. } if to.class() == Some(NodeClass::Session) => self.replies += 1,
            Action::Send { packet, .. } => {
                let kind = packet.header().map(|header| header.kind());
                let peer = matches!(kind, Ok(MessageKind::Peer | MessageKind::PeerAnswer));
                if peer && packet.head.len() > HEADER_BYTES {
                    self.entries += entries(packet);
                } else if kind == Ok(MessageKind::Data) {
                    self.entries += of_merge(packet).1;
                }
            }
            Action::Flush | Action::Disk { .. } => {}
        }
    }
}
