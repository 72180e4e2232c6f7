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
use onpath_wire::request::{NewNode, Request, RequestBody, SetAttr, open, set};

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

/// Whether it is checked where it is executed, by who asks alone.
fn allowed(identity: &Identity, request: &Request) -> Result<(), Refusal> {
    use Request as Q;
    match request {
        Q::Lookup { .. }
        | Q::GetAttr { .. }
        | Q::GetAttrs { .. }
        | Q::DataRef { .. }
        | Q::Link { .. }
        | Q::Unlink { .. }
        | Q::Rmdir { .. }
        | Q::Rename { .. }
        | Q::Release { .. }
        | Q::ReadLink { .. }
        | Q::Access { .. }
        | Q::StatFs
        | Q::Kept
        | Q::Attach { .. }
        | Q::Renew
        | Q::Detach { gone: false }
        | Q::SetXattr { .. }
        | Q::GetXattr { .. }
        | Q::ListXattr { .. }
        | Q::RemoveXattr { open_for_write: false, .. } => Ok(()),
        Q::SetAttr { set, .. } => attributes(identity, set),
        Q::Create { node, .. } | Q::TmpFile { node, .. } => node_is_fine(node),
        Q::Open { flags, .. } => {
            let kills = flags & open::KILL_SUIDGID != 0 || identity.keeps_suid();
            let skips = flags & (open::AGAIN | open::MADE) != 0 || flags & open::TRUNCATE != 0 && !kills;
            if skips { Err(Refusal::Flag) } else { Ok(()) }
        }
        // Nobody waits for it to hand back what it has cached.
        Q::RenewAlone | Q::HandBack { .. } | Q::Detach { gone: true } | Q::RemoveXattr { open_for_write: true, .. } => {
            Err(Refusal::Flag)
        }
        // Whether it has the file open is not looked at.
        Q::ReadDir { .. }
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
        | Q::Map { .. } => Err(Refusal::Bytes),
    }
}

fn attributes(identity: &Identity, change: &SetAttr) -> Result<(), Refusal> {
    let has = |bit| change.valid & bit != 0;
    let kills = has(set::KILL_SUIDGID) || identity.keeps_suid();
    if has(set::READ) || has(set::OPEN_FOR_WRITE) || has(set::SIZE) && !kills {
        return Err(Refusal::Flag);
    }
    Ok(())
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
