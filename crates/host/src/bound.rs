//! What a session may ask whose host knows who it is ([`Identity`](onpath_wire::identity::Identity)): as that and nobody else, and nothing
//! for which a host would have to be believed. Whoever runs it lies as he likes.

use onpath_wire::codec::Wire;
use onpath_wire::data::{DataReply, DataRequest};
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::identity::{Bound, Identity, Refusal};
use onpath_wire::ids::{NodeId, SessionNumber};
use onpath_wire::inode::Kind;
use onpath_wire::packet::Packet;
use onpath_wire::reply::Reply;
use onpath_wire::request::{NewNode, Request, RequestBody, open, set};

/// The answer to a message that such a session may not send to that role; none if it may, or if it is no message at all, as its receiver
/// sees.
pub(crate) fn refusal(bound: &Bound, to: NodeId, packet: &Packet) -> Option<Packet> {
    let header = packet.header().ok()?;
    let why = check(bound, &header, packet).err()?;
    Some(match header.kind() {
        MessageKind::Data => answer(&header, MessageKind::DataReply, to, &DataReply::Refused { why }),
        _ => answer(&header, MessageKind::Reply, to, &Reply::Refused { why }),
    })
}

/// As the receiver would say it.
fn answer(asked: &Header, kind: MessageKind, from: NodeId, body: &impl Wire) -> Packet {
    let mut header = Header::new(kind, from, asked.seq);
    (header.cluster, header.term) = (asked.cluster, asked.term);
    Packet::new(&header, body)
}

fn check(bound: &Bound, header: &Header, packet: &Packet) -> Result<(), Refusal> {
    let session = header.source.as_session();
    if session.is_none_or(|session| SessionNumber::of(session, header.seq) != bound.session) {
        return Err(Refusal::Session);
    }
    match header.kind() {
        MessageKind::Data => match packet.body() {
            Ok(DataRequest::Space) | Err(_) => Ok(()),
            // Whether the ticket is one the data node sees.
            Ok(DataRequest::Shown { request, .. }) => match DataRequest::shown(&request) {
                Some(request) if request.keeps_suid() && !bound.identity.keeps_suid() => Err(Refusal::Flag),
                Some(_) => Ok(()),
                None => Err(Refusal::Bytes),
            },
            Ok(_) => Err(Refusal::Bytes),
        },
        _ => match packet.body::<RequestBody>() {
            Ok(body) => {
                bound.identity.check(&body.caller)?;
                allowed(&bound.identity, &body.request)
            }
            Err(_) => Ok(()),
        },
    }
}

/// Whether what is executed is checked where it is executed: who asks, and what it has opened.
fn allowed(identity: &Identity, request: &Request) -> Result<(), Refusal> {
    use Request as Q;
    match request {
        Q::Lookup { .. }
        | Q::LookupLed { .. }
        | Q::Resolve { .. }
        | Q::GetAttr { .. }
        | Q::GetAttrs { .. }
        | Q::DataRef { .. }
        | Q::Link { .. }
        | Q::Unlink { .. }
        | Q::Rmdir { .. }
        | Q::Rename { .. }
        | Q::OpenAgain { .. }
        | Q::Release { .. }
        | Q::ReadDir { .. }
        | Q::ReadLink { .. }
        | Q::Access { .. }
        | Q::StatFs
        | Q::Kept
        | Q::SetLock { .. }
        | Q::TestLock { .. }
        | Q::CancelLock { .. }
        | Q::DropLocks { .. }
        | Q::ConfirmWait { .. }
        | Q::LockWaits { .. }
        | Q::Reserve { .. }
        | Q::Unreserve { .. }
        | Q::Sync { .. }
        | Q::WriteBack { .. }
        | Q::WrittenBack { .. }
        | Q::Map { .. }
        | Q::Attach { .. }
        | Q::Renew
        | Q::Detach { gone: false }
        | Q::SetXattr { .. }
        | Q::GetXattr { .. }
        | Q::ListXattr { .. }
        | Q::RemoveXattr { .. } => Ok(()),
        Q::SetAttr { set, .. } if set.valid & set::SIZE != 0 => kills(identity, set.valid & set::KILL_SUIDGID != 0),
        Q::SetAttr { .. } => Ok(()),
        Q::Create { node, .. } | Q::TmpFile { node, .. } => node_is_fine(node),
        // A shard believes an AGAIN before its operation looks at it: such an open waits for no lease and for no room.
        Q::Open { flags, .. } if flags & (open::AGAIN | open::MADE) != 0 => Err(Refusal::Flag),
        Q::Open { flags, .. } if flags & open::TRUNCATE != 0 => kills(identity, flags & open::KILL_SUIDGID != 0),
        Q::Open { .. } => Ok(()),
        // Nobody waits for it to hand back what it has cached.
        Q::RenewAlone | Q::HandBack { .. } | Q::Learn { .. } | Q::Detach { gone: true } => Err(Refusal::Flag),
    }
}

/// Who changes bytes of a file clears its set-id bits, without a capability that keeps them.
fn kills(identity: &Identity, does: bool) -> Result<(), Refusal> {
    if does || identity.keeps_suid() { Ok(()) } else { Err(Refusal::Flag) }
}

/// A device gives who may open it what the kernel of a mount has behind it: to make one takes a capability that no key and no socket gives.
/// The one of numbers 0 and 0 stands for a removed name, and is everybody's.
fn node_is_fine(node: &NewNode) -> Result<(), Refusal> {
    let removed = node.kind == Kind::CharDevice && node.rdev == 0;
    match node.kind {
        Kind::CharDevice | Kind::BlockDevice if !removed => Err(Refusal::Device),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
