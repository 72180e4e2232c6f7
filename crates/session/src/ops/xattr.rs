//! Extended attributes: one question to the inode's home. What a directory amounts to is asked for as one, too (`sum`).

use crate::fs::{FsReply, FsResult};
use crate::op::{Op, attr};
use crate::ops::attr::seen;
use crate::ops::sum;
use onpath_wire::codec::Blob;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::limits::XATTR_VALUE_BYTES_MAX;
use onpath_wire::reply::Reply;
use onpath_wire::request::Request;
use onpath_wire::xattr::{CAPABILITY, DIRECTORY_SUM, XattrName};

/// Sets an attribute; `flags` as of setxattr(2).
pub(crate) async fn set(op: &mut Op, id: InodeId, name: XattrName, value: Vec<u8>, flags: u32) -> FsResult {
    if name.as_bytes() == DIRECTORY_SUM {
        return Err(Errno::EPERM);
    }
    if value.len() > XATTR_VALUE_BYTES_MAX {
        return Err(Errno::E2BIG);
    }
    change(op, id, Request::SetXattr { id, name, value: Blob(value), flags }).await
}

/// Removes an attribute. A write takes a file's capabilities, and so may whoever has it open for writing.
pub(crate) async fn remove(op: &mut Op, id: InodeId, name: XattrName) -> FsResult {
    if name.as_bytes() == DIRECTORY_SUM {
        return Err(Errno::EPERM);
    }
    let capability = name.as_bytes() == CAPABILITY;
    let open_for_write = capability && op.with(|core| core.state.opens.is_open_for_write(id));
    change(op, id, Request::RemoveXattr { id, name, open_for_write }).await
}

async fn change(op: &mut Op, id: InodeId, request: Request) -> FsResult {
    let (attr, data, _) = attr(op.ask(request).await?)?;
    op.with(|core| core.state.learn(id, data));
    seen(op, attr, true);
    Ok(FsReply::Done)
}

/// The value of an attribute. `probe`: only its length is wanted. So the kernel asks for the capabilities of a file before it
/// writes to it: what the home has said at the open is good enough for that, because a write takes them anyway.
pub(crate) async fn get(op: &mut Op, id: InodeId, name: XattrName, probe: bool) -> FsResult {
    if name.as_bytes() == DIRECTORY_SUM {
        return Box::pin(sum::of(op, id)).await;
    }
    let pid = op.caller.pid;
    let before_write = probe && pid != 0 && name.as_bytes() == CAPABILITY;
    if before_write && op.with(|core| core.state.opens.take_without_xattrs(id, pid, core.now.mono_us)) {
        return Err(Errno::ENODATA);
    }
    value(op.ask(Request::GetXattr { id, name }).await?)
}

/// The names of the attributes that the caller may see.
pub(crate) async fn list(op: &mut Op, id: InodeId) -> FsResult {
    value(op.ask(Request::ListXattr { id }).await?)
}

fn value(reply: Reply) -> FsResult {
    match reply {
        Reply::Value { value } => Ok(FsReply::Value(value.0)),
        _ => Err(Errno::EIO),
    }
}
