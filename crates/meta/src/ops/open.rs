//! open: checks permissions at the inode's home and registers the session's open (design.md, "Sessions").
//!
//! Semantics: r, w or x by mode and ACL; ELOOP for a symlink, EISDIR for writing a directory, EACCES for executing one; O_TRUNC
//! as truncate to 0.
//! Locks: the inode, shared, or exclusive with O_TRUNC. Journals: with O_TRUNC the inode.

use super::{Req, Step, Stop, bound, named, opens, pages, setattr};
use crate::access::{self, Owned};
use crate::files::holders;
use crate::{Core, Cx};
use onpath_kernel::OpId;
use onpath_wire::attr::AttrWire;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::reply::Reply;
use onpath_wire::request::{SetAttr, open, set};
use onpath_wire::ticket::Ticket;

pub(crate) async fn run(cx: &Cx, req: &Req, id: InodeId, flags: u32) -> Step {
    let truncates = flags & open::TRUNCATE != 0;
    match truncates {
        true => pages::lock_written_back(cx, req, id).await,
        false => named::lock_shown(cx, id, &req.looked).await,
    }
    if flags & open::MAP != 0 {
        holders::revoke(cx, id).await; // pages of it may change from now on
    }
    cx.with(|core| {
        let step = step(core, cx.op(), req, id, flags);
        if truncates {
            pages::end(core, id, req.session);
        }
        step
    })
}

/// A bound session says that it had opened it before a restart, and shows that.
pub(crate) async fn again(cx: &Cx, req: &Req, id: InodeId, flags: u32, ticket: &Ticket) -> Step {
    named::lock_shown(cx, id, &req.looked).await;
    cx.with(|core| bound::reopened(core, req, id, flags | open::REGISTER, ticket))
}

/// Whether the caller may open that so.
pub(super) fn permitted(core: &mut Core, req: &Req, attr: &AttrWire, flags: u32) -> Result<(), Stop> {
    match attr.kind {
        Kind::Symlink => return Err(Errno::ELOOP.into()),
        Kind::Directory if flags & (open::WRITE | open::TRUNCATE) != 0 => return Err(Errno::EISDIR.into()),
        Kind::Directory if flags & open::EXEC != 0 => return Err(Errno::EACCES.into()),
        _ => {}
    }
    let mut want = 0;
    for (flag, bit) in [(open::READ, access::READ), (open::WRITE, access::WRITE), (open::EXEC, access::EXEC)] {
        want |= if flags & flag != 0 { bit } else { 0 };
    }
    if flags & open::TRUNCATE != 0 {
        want |= access::WRITE;
    }
    let acls = core.state.inodes.acls(attr.id);
    access::check(req, Owned::shown(attr, acls.as_deref()), attr.kind, want)
}

fn step(core: &mut Core, op: OpId, req: &Req, id: InodeId, flags: u32) -> Step {
    opens::begin_open(core, req, flags)?;
    let (attr, data) = core.state.inodes.shown(id).ok_or(Errno::ESTALE)?;
    if flags & (open::AGAIN | open::MADE) == 0 {
        permitted(core, req, &attr, flags)?;
    }
    let rights = bound::rights(flags);
    if flags & open::REGISTER != 0 {
        core.state.opens.register(id, req.session, flags & open::MAP != 0, rights)?;
        holders::opened(core, id, req.session);
    } else if req.bound.is_some() {
        core.state.opens.add_rights(id, req.session, rights);
    }
    if flags & open::REGISTER == 0 && flags & open::MAP != 0 {
        pages::changed(core, id, req.session);
    }
    let shared = core.state.opens.shared(id, req.session);
    if flags & open::TRUNCATE != 0 && attr.kind == Kind::File {
        let kill = if flags & open::KILL_SUIDGID != 0 { set::KILL_SUIDGID } else { 0 };
        let valid = set::SIZE | set::OPEN_FOR_WRITE | kill;
        return setattr::file_step(core, op, req, id, SetAttr { valid, size: 0, ..SetAttr::default() });
    }
    Ok(Reply::Attr { attr, data, shared })
}
