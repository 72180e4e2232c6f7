//! setattr in the model: chmod, chown, truncate and utimens with their ownership rules.

use super::access::{W, owns, permits, without_suid_sgid_by};
use super::decide::{Change, Decided, Plan, Shape};
use super::{Caller, Model, Node, Time};
use onpath_wire::caller::cap;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::limits::FILE_BYTES_MAX;
use onpath_wire::request::{SetAttr, set};

impl Model {
    pub(super) fn decide_setattr(&self, caller: &Caller, id: InodeId, to: &SetAttr) -> Decided {
        let old = self.existing(id)?;
        let has = |bits: u32| to.valid & bits != 0;
        let answer = Shape::Attr { id, exact: true };
        if has(set::READ) {
            let mut node = Box::new(old.clone());
            node.atime = Time { value: i64::MIN, exact: false };
            node.changes += 1; // a late answer tells of the time before
            // It is no reason to collect a directory.
            return Ok(Plan { change: Change::Attributes { id, node }, answer: Shape::Attr { id, exact: false } });
        }
        if has(set::SIZE) {
            may_truncate(caller, old, to)?;
        }
        if has(set::UID) && !(caller.uid == old.uid && to.uid == old.uid) && !caller.has_over(cap::CHOWN, old) {
            return Err(Errno::EPERM);
        }
        let may_give = || caller.uid == old.uid && (to.gid == old.gid || caller.in_group(to.gid));
        if has(set::GID) && !may_give() && !caller.has_over(cap::CHOWN, old) {
            return Err(Errno::EPERM);
        }
        // Bits that a chown takes are changed as by chmod(2).
        let chown = has(set::UID | set::GID) && !old.is_dir();
        if chown && without_suid_sgid_by(caller, old) != old.mode && !owns(caller, old) {
            return Err(Errno::EPERM);
        }
        if has(set::MODE) && !owns(caller, old) {
            return Err(Errno::EPERM);
        }
        may_set_times(caller, old, to)?;
        let changes = set::MODE | set::UID | set::GID | set::SIZE | set::ATIME | set::MTIME | set::KILL_SUIDGID;
        if !has(changes) {
            return Ok(Plan { change: Change::Nothing, answer });
        }
        let node = Box::new(with(caller, old, to));
        Ok(Plan { change: Change::Attributes { id, node }, answer })
    }
}

fn may_truncate(caller: &Caller, node: &Node, to: &SetAttr) -> Result<(), Errno> {
    match node.kind {
        Kind::Directory => return Err(Errno::EISDIR),
        Kind::File => {}
        _ => return Err(Errno::EINVAL),
    }
    if to.valid & set::OPEN_FOR_WRITE == 0 && !permits(caller, node, W) {
        return Err(Errno::EACCES);
    }
    if to.size > FILE_BYTES_MAX { Err(Errno::EFBIG) } else { Ok(()) }
}

/// Both times "now" need ownership or write permission, anything else ownership. Times that come with a new
/// size are those of a write.
fn may_set_times(caller: &Caller, node: &Node, to: &SetAttr) -> Result<(), Errno> {
    if to.valid & (set::ATIME | set::MTIME) == 0 || to.valid & set::SIZE != 0 || owns(caller, node) {
        return Ok(());
    }
    let touch = set::ATIME | set::MTIME | set::ATIME_NOW | set::MTIME_NOW;
    match to.valid & touch == touch {
        true if permits(caller, node, W) => Ok(()),
        true => Err(Errno::EACCES),
        false => Err(Errno::EPERM),
    }
}

fn with(caller: &Caller, old: &Node, to: &SetAttr) -> Node {
    let has = |bits: u32| to.valid & bits != 0;
    let mut node = old.clone();
    node.touch();
    if has(set::UID) {
        node.uid = to.uid;
    }
    if has(set::GID) {
        node.gid = to.gid;
    }
    let kills = has(set::KILL_SUIDGID) && (has(set::SIZE) || owns(caller, old));
    if (has(set::UID | set::GID) || kills) && !node.is_dir() {
        node.mode = without_suid_sgid_by(caller, old);
    }
    if has(set::UID | set::GID | set::SIZE) && !node.is_dir() {
        node.without_capabilities();
    }
    if has(set::MODE) {
        node.mode = to.mode & 0o7777;
        if !caller.keeps_setgid(&node, node.gid) {
            node.mode &= !0o2000;
        }
    }
    if has(set::SIZE) {
        node.size = to.size;
        node.modify();
    }
    let time = |now: u32, value: i64, before: Time| match has(now) {
        true => Time::after(before.value),
        false => Time::exact(value),
    };
    if has(set::ATIME) {
        node.atime = time(set::ATIME_NOW, to.atime, Time::after(i64::MIN));
    }
    if has(set::MTIME) {
        node.mtime = time(set::MTIME_NOW, to.mtime, Time::after(node.ctime.value));
    }
    node
}
