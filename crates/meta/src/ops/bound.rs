//! Requests of sessions of which their hosts know who they are: such a session is believed nothing that it could lie about. Whether it has a
//! file open, and how, says the table of opens; where a restart has forgotten that, the ticket that the session got when it opened it.

use super::{Req, Stop, begin};
use crate::Core;
use crate::files::holders;
use onpath_wire::codec::{Blob, Wire};
use onpath_wire::errno::Errno;
use onpath_wire::identity::Refusal;
use onpath_wire::ids::{DataId, InodeId};
use onpath_wire::limits::SESSION_LEASE_MS;
use onpath_wire::reply::Reply;
use onpath_wire::request::{LockKind, Request, open, set};
use onpath_wire::ticket::{Ticket, right};

/// Either will do.
const ANY: u8 = right::READ | right::WRITE;

/// The request as far as it is believed.
pub(crate) fn believed(core: &mut Core, req: &Req, mut request: Request) -> Result<Request, Stop> {
    match &mut request {
        Request::Open { flags, .. } => {
            let has = |bits| *flags & bits != 0;
            let maps_unwritten = has(open::MAP) && !has(open::WRITE);
            if has(open::AGAIN | open::MADE) || maps_unwritten || !has(open::READ | open::WRITE | open::EXEC) {
                return Err(refused(Refusal::Flag));
            }
            // Who executes there reads: what becomes of the bytes nobody sees.
            if has(open::EXEC) {
                *flags |= open::READ;
            }
        }
        Request::OpenAgain { id, ticket, flags } => {
            let is_its = ticket.data.inode == *id && ticket.is_of(&core.state.tickets, req.number());
            let maps = *flags & open::MAP != 0;
            if !is_its || maps && !ticket.gives(right::WRITE) {
                return Err(refused(Refusal::Flag));
            }
        }
        Request::SetAttr { id, set } => {
            if set.valid & set::READ != 0 && !core.state.opens.may(*id, req.session, right::READ) {
                return Err(refused(Refusal::Flag));
            }
            if !core.state.opens.may(*id, req.session, right::WRITE) {
                set.valid &= !set::OPEN_FOR_WRITE;
            }
        }
        Request::RemoveXattr { id, open_for_write, .. } => {
            *open_for_write &= core.state.opens.may(*id, req.session, right::WRITE);
        }
        Request::ReadDir { id, .. } => has(core, req, *id, right::READ)?,
        Request::Reserve { id }
        | Request::WriteBack { id, .. }
        | Request::WrittenBack { id, .. }
        | Request::Map { id } => has(core, req, *id, right::WRITE)?,
        // As fcntl(2) asks of a descriptor; flock(2) asks nothing.
        Request::SetLock { id, lock, .. } if !lock.flock && lock.kind != LockKind::Unlock => {
            let wanted = if lock.kind == LockKind::Write { right::WRITE } else { right::READ };
            has(core, req, *id, wanted)?;
        }
        Request::Sync { id } | Request::TestLock { id, .. } | Request::SetLock { id, .. } => has(core, req, *id, ANY)?,
        _ => {}
    }
    Ok(request)
}

fn refused(why: Refusal) -> Stop {
    Stop::Refused(why)
}

/// Refuses what only a session may ask that has opened the inode with one of these rights.
fn has(core: &Core, req: &Req, id: InodeId, rights: u8) -> Result<(), Stop> {
    if core.state.opens.may(id, req.session, rights) { Ok(()) } else { Err(refused(Refusal::Bytes)) }
}

/// The reply with what its session shows to the data node, if it has the inode of that open.
pub(crate) fn with_ticket(core: &mut Core, req: &Req, reply: Reply) -> Reply {
    let id = match (&reply, req.bound) {
        (_, None) => return reply,
        (Reply::Attr { attr, .. } | Reply::Entry { attr, .. }, _) => attr.id,
        (Reply::Reserved { .. }, Some(about)) => about,
        _ => return reply,
    };
    let rights = core.state.opens.rights(id, req.session);
    let data = core.state.inodes.data_ref(id);
    let Some(data) = data.filter(|_| rights != 0) else { return reply };
    let until_s = core.now.wall_ns / 1_000_000_000 + SESSION_LEASE_MS / 1_000;
    let bytes = (DataId { inode: id, generation: data.generation }, data.cut);
    let ticket = Ticket::new(&core.state.tickets, req.number(), bytes, rights, until_s as u32);
    Reply::Shown { ticket, reply: Blob(reply.to_bytes()) }
}

/// What an open with these bits of [`open`] gives.
pub(crate) fn rights(flags: u32) -> u8 {
    let reads = if flags & (open::READ | open::EXEC) != 0 { right::READ } else { 0 };
    let writes = if flags & open::WRITE != 0 { right::WRITE } else { 0 };
    reads | writes
}

/// Registers an open again of which only the ticket knows.
pub(crate) fn reopened(core: &mut Core, req: &Req, id: InodeId, flags: u32, ticket: &Ticket) -> Result<Reply, Stop> {
    begin(core, req)?;
    let (attr, data) = core.state.inodes.shown(id).ok_or(Errno::ESTALE)?;
    core.state.opens.register(id, req.session, flags & open::MAP != 0, ticket.rights)?;
    holders::opened(core, id, req.session);
    let shared = core.state.opens.shared(id, req.session);
    Ok(Reply::Attr { attr, data, shared })
}
