//! setattr: chmod, chown, utimens, truncate at the inode's home.
//!
//! Semantics: ownership rules of chmod(2), chown(2), utimensat(2), truncate(2); setgid dropped by a chmod of an
//! owner outside the group, suid and sgid cleared by chown, truncate and write. A directory is collected first, and
//! if its access part changes that is recalled from every holder before anything is decided.
//! Locks: the inode, exclusive. Journals: the inode; for a shrink the trim or drop. Rules.

use super::unlink::drop_data;
use super::{Req, Step, Stop, begin, datapending, getattr, named, need_space, pages, xattr};
use crate::access::{self, Owned};
use crate::dir::{holders, owner};
use crate::files::holders as parts;
use crate::planted::{self, Planted};
use crate::state::commit::{Effects, commit};
use crate::{Core, Cx};
use onpath_kernel::{Mode, OpId};
use onpath_wire::acl::Acls;
use onpath_wire::caller::{Over, cap};
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::record::{Answer, Effect};
use onpath_wire::errno::Errno;
use onpath_wire::ids::{DataId, InodeId, Stamp};
use onpath_wire::inode::Kind;
use onpath_wire::limits::{BLOCK_BYTES, FILE_BYTES_MAX};
use onpath_wire::peer::part;
use onpath_wire::request::{SetAttr, set};

/// That it was read, and nothing else.
const READ: u32 = set::READ | set::ATIME | set::ATIME_NOW;

pub(crate) async fn run(cx: &Cx, req: &Req, id: InodeId, change: SetAttr) -> Step {
    // What others have changed in memory would be written back over the cut, and after the time that is set.
    let is_late = change.valid & (set::SIZE | set::MTIME) != 0;
    if !lock_beside_writes(cx, req, id, change).await {
        match is_late {
            true => pages::lock_written_back(cx, req, id).await,
            false if change.valid == READ => named::lock_accessed(cx, id).await,
            false => named::lock_inode(cx, id, Mode::Exclusive).await,
        }
        if !is_late {
            parts::revoke(cx, id).await;
        }
    }
    let change = SetAttr { valid: change.valid & !set::KNOWS_END, ..change };
    let step = locked(cx, req, id, change).await;
    if is_late {
        cx.with(|core| pages::end(core, id, req.session));
    }
    step
}

/// Locks a file whose part stays where it is: all that a data node may have answered was written by this session, which knows the size, and
/// commutes with this change. A time is a register of value and stamp as a directory's is, and what the session has written before has
/// an earlier stamp (V-7). False, and nothing is locked, if that is not so.
async fn lock_beside_writes(cx: &Cx, req: &Req, id: InodeId, change: SetAttr) -> bool {
    let commutes = |core: &mut Core| commutes_with_writes(core, req, id, change);
    if !cx.with(commutes) {
        return false;
    }
    named::lock_inode(cx, id, Mode::Exclusive).await;
    let commutes = cx.with(commutes);
    if !commutes {
        cx.unlock_all();
    }
    commutes
}

fn commutes_with_writes(core: &mut Core, req: &Req, id: InodeId, change: SetAttr) -> bool {
    const BITS: u16 = access::SETUID | access::SETGID;
    const OTHER: u32 = set::MODE | set::UID | set::GID | set::ATIME | set::MTIME;
    let has = |bits| change.valid & bits != 0;
    has(set::KNOWS_END)
        && has(OTHER)
        && !has(set::SIZE)
        && !(has(set::MODE) && change.mode & BITS != 0)
        && parts::is_writer_alone(&core.state, id, req.session)
        && core.state.inodes.access(id).is_some_and(|access| access.mode & BITS == 0)
}

async fn locked(cx: &Cx, req: &Req, id: InodeId, change: SetAttr) -> Step {
    if change.valid == READ {
        return cx.with(|core| accessed(core, cx.op(), req, id));
    }
    if cx.with(|core| core.state.inodes.kind(id)) != Some(Kind::Directory) {
        return cx.with(|core| file_step(core, cx.op(), req, id, change));
    }
    let access_changes = change.valid & (set::MODE | set::UID | set::GID) != 0;
    let allowed = cx.with(|core| {
        let inode = core.state.inodes.get(id).ok_or(Errno::ESTALE)?;
        let acls = core.state.inodes.acls(id);
        let changed = changed(req, inode, acls.as_deref(), change, Stamp(0));
        changed.map(|_| ())
    });
    if allowed.is_ok() {
        let all = access_changes && !planted::is(Planted::ChmodWithoutRecall);
        holders::revoke(cx, id, if all { part::ALL } else { part::APPEND }).await;
    }
    cx.with(|core| dir_step(core, cx.op(), req, id, change))
}

/// It was read. That is no change: a directory is not collected for it.
fn accessed(core: &mut Core, op: OpId, req: &Req, id: InodeId) -> Step {
    begin(core, req)?;
    if !core.state.inodes.contains(id) {
        return Err(Errno::ESTALE.into());
    }
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    let effect = Effect::Accessed { id, atime: stamp.0 as i64 };
    Ok(commit(core, op, req, stamp, Answer::Attr { id }, vec![effect]))
}

fn dir_step(core: &mut Core, op: OpId, req: &Req, id: InodeId, change: SetAttr) -> Step {
    begin(core, req)?;
    let inode = core.state.inodes.get(id).ok_or(Errno::ESTALE)?;
    if change.valid & set::SIZE != 0 {
        return Err(Errno::EISDIR.into());
    }
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    let acls = core.state.inodes.acls(id);
    let inode = changed(req, inode, acls.as_deref(), change, stamp)?;
    let reply = commit(core, op, req, stamp, Answer::Attr { id }, vec![Effect::PutInode { inode }]);
    owner::wake(core, id);
    Ok(reply)
}

/// The step for what is no directory; also O_TRUNC.
pub(crate) fn file_step(core: &mut Core, op: OpId, req: &Req, id: InodeId, change: SetAttr) -> Step {
    begin(core, req)?;
    let before = core.state.inodes.get(id).ok_or(Errno::ESTALE)?;
    if change.valid == 0 {
        return getattr::attr(core, id, false);
    }
    let stamp = core.state.clock.stamp(core.now.wall_ns);
    let acls = core.state.inodes.acls(id);
    let mut inode = changed(req, before.clone(), acls.as_deref(), change, stamp)?;
    let mut effects = Effects::new();
    let mut dropped = None;
    let mut trimmed = None;
    if change.valid & set::SIZE != 0 {
        if before.kind != Kind::File {
            return Err(Errno::EINVAL.into());
        }
        if change.size > FILE_BYTES_MAX {
            return Err(Errno::EFBIG.into());
        }
        if change.size > before.size {
            need_space(core)?;
        }
        let data = DataId { inode: id, generation: before.generation };
        let written = before.size > 0 || before.blocks_version > 0;
        if change.size == 0 && written && datapending::may_drop(core) {
            inode.generation = core.state.new_generation();
            (inode.cut, inode.blocks, inode.blocks_version) = (0, 0, 0);
            effects.push(Effect::DataPending { data, cut: 0, size: 0, keep_reserved: false, drop: true });
            dropped = Some(data);
        } else if change.size < before.size || change.size == 0 && written || has_blocks_beyond(&before, change.size) {
            inode.cut += 1;
            effects.push(Effect::DataPending {
                data,
                cut: inode.cut,
                size: change.size,
                keep_reserved: false,
                drop: false,
            });
            trimmed = Some((data, inode.cut));
        }
        inode.size = change.size;
    }
    effects.insert(0, Effect::PutInode { inode });
    if change.valid & (set::SIZE | set::UID | set::GID) != 0 {
        effects.extend(xattr::without_capabilities(core, id));
    }
    let reply = commit(core, op, req, stamp, Answer::Attr { id }, effects);
    drop_data(core, dropped);
    if let Some((data, cut)) = trimmed {
        datapending::trim_later(core, data, cut);
    }
    Ok(reply)
}

/// Whether a truncate to the very size of a file has something to take away: blocks that fallocate(2) has reserved behind its end. There are some
/// if it has more blocks than its size needs.
fn has_blocks_beyond(inode: &Inode, size: u64) -> bool {
    size == inode.size && inode.blocks > size.div_ceil(BLOCK_BYTES)
}

/// The inode with everything but its size changed, or why the caller may not.
fn changed(req: &Req, mut inode: Inode, acls: Option<&Acls>, change: SetAttr, stamp: Stamp) -> Result<Inode, Stop> {
    let has = |bit| change.valid & bit != 0;
    if has(set::SIZE) && !has(set::OPEN_FOR_WRITE) {
        access::check(req, Owned::of(&inode, acls), inode.kind, access::WRITE)?;
    }
    change_owner(req, &mut inode, change)?;
    if has(set::MODE) {
        access::owner(req, inode.uid)?;
        inode.mode = change.mode & 0o7777;
        if inode.mode & access::SETGID != 0 && !access::keeps_setgid(req, inode.uid, inode.gid)? {
            inode.mode &= !access::SETGID;
        }
    }
    // Without a size it is a chown that keeps both ids, or comes before a write, which says by itself that it clears the bits.
    let bits = inode.mode & (access::SETUID | access::SETGID) != 0 && !inode.is_dir();
    if has(set::KILL_SUIDGID) && bits && (has(set::SIZE) || access::is_allowed(access::owner(req, inode.uid))?) {
        inode.mode = access::without_suid(req, &inode)?;
    }
    let now = stamp.0 as i64;
    if has(set::ATIME) || has(set::MTIME) {
        // Write permission is enough only for both times at once and now, as utimensat(2) without times does.
        if !(has(set::ATIME_NOW) && has(set::MTIME_NOW)) {
            access::owner(req, inode.uid)?;
        } else if req.caller.uid != inode.uid {
            let writes = access::check(req, Owned::of(&inode, acls), inode.kind, access::WRITE);
            let over = Over::Uid(inode.uid);
            access::or_capable(req, access::is_allowed(writes), cap::FOWNER, over, Errno::EACCES)?;
        }
        if has(set::ATIME) {
            inode.atime = if has(set::ATIME_NOW) { now } else { change.atime };
        }
    }
    if has(set::MTIME) {
        inode.mtime = if has(set::MTIME_NOW) { now } else { change.mtime };
        inode.mtime_stamp = stamp;
    } else if has(set::SIZE) {
        inode.mtime = now;
        inode.mtime_stamp = stamp;
    }
    inode.ctime = now;
    Ok(inode)
}

fn change_owner(req: &Req, inode: &mut Inode, change: SetAttr) -> Result<(), Stop> {
    let uid = (change.valid & set::UID != 0).then_some(change.uid);
    let gid = (change.valid & set::GID != 0).then_some(change.gid);
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    // The owner may keep the owner, and give a group that is theirs; all else takes a capability.
    let owns = req.caller.uid == inode.uid;
    let own_group = match gid {
        Some(gid) if owns && gid != inode.gid => access::in_group(req, gid),
        _ => Ok(owns),
    };
    let allowed = if uid.is_some_and(|uid| !owns || uid != inode.uid) { Ok(false) } else { own_group };
    access::or_capable(req, allowed, cap::CHOWN, Over::Inode(inode.uid, inode.gid), Errno::EPERM)?;
    if !inode.is_dir() {
        let mode = access::without_suid(req, inode)?;
        // Linux takes the bits as a chmod does, which is the owner's (setattr_prepare).
        if mode != inode.mode {
            access::owner(req, inode.uid)?;
        }
        inode.mode = mode;
    }
    inode.uid = uid.unwrap_or(inode.uid);
    inode.gid = gid.unwrap_or(inode.gid);
    Ok(())
}
