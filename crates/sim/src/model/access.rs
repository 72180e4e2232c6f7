//! Permission rules of the model: search, write, sticky, ownership, in the kernel's order of errors.

use super::xattr::acl_permits;
use super::{Caller, Model, Node};
use onpath_wire::caller::{Over, cap};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;

/// Permission to read.
pub(super) const R: u16 = 4;
/// Permission to write.
pub(super) const W: u16 = 2;
/// Permission to execute or search.
pub(super) const X: u16 = 1;

/// Whether `caller` has the permissions `want` on `node`.
pub(super) fn permits(caller: &Caller, node: &Node, want: u16) -> bool {
    permits_by_class(caller, node, want) || overrides(caller, node, want)
}

/// capabilities(7), CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.
fn overrides(caller: &Caller, node: &Node, want: u16) -> bool {
    let read_search = if node.is_dir() { want & W == 0 } else { want == R };
    if read_search && caller.has_over(cap::DAC_READ_SEARCH, node) {
        return true;
    }
    let executable = node.is_dir() || want & X == 0 || node.mode & 0o111 != 0;
    executable && caller.has_over(cap::DAC_OVERRIDE, node)
}

fn permits_by_class(caller: &Caller, node: &Node, want: u16) -> bool {
    let class = if caller.uid == node.uid {
        node.mode >> 6
    } else if let Some(permitted) = acl_permits(caller, node, want) {
        return permitted;
    } else if caller.in_group(node.gid) {
        node.mode >> 3
    } else {
        node.mode
    };
    class & want == want
}

/// Whether `dir` is sticky and keeps `caller` from the names of `child`.
pub(super) fn is_sticky(caller: &Caller, dir: &Node, child: &Node) -> bool {
    let owns = caller.uid == child.uid || caller.uid == dir.uid;
    dir.mode & 0o1000 != 0 && !owns && !caller.has_over(cap::FOWNER, child)
}

/// Whether `caller` owns `node` or passes as its owner.
pub(super) fn owns(caller: &Caller, node: &Node) -> bool {
    caller.uid == node.uid || caller.has(cap::FOWNER, Over::Uid(node.uid))
}

/// What clearing setuid and setgid leaves of a mode: setgid goes only where the group may execute.
pub(super) fn without_suid_sgid(mode: u16) -> u16 {
    let sgid = if mode & 0o010 != 0 { 0o2000 } else { 0 };
    mode & !(0o4000 | sgid)
}

/// What a chown or a truncation leaves of it, which tell the caller's groups: a stranger to the file's group takes setgid in any case.
pub(super) fn without_suid_sgid_by(caller: &Caller, node: &Node) -> u16 {
    let stranger = !caller.keeps_setgid(node, node.gid);
    without_suid_sgid(node.mode) & !if stranger { 0o2000 } else { 0 }
}

impl Model {
    /// The directory `id`, which the caller may search: ENOENT, ENOTDIR, EACCES.
    pub(super) fn searchable(&self, caller: &Caller, id: InodeId) -> Result<&Node, Errno> {
        let dir = self.nodes.get(&id).ok_or(Errno::ENOENT)?;
        if !dir.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        if permits(caller, dir, X) { Ok(dir) } else { Err(Errno::EACCES) }
    }

    /// May a name be added to `dir`: ENOENT if it is removed, EACCES.
    pub(super) fn may_add(&self, caller: &Caller, dir: &Node) -> Result<(), Errno> {
        if dir.nlink == 0 {
            return Err(Errno::ENOENT);
        }
        if permits(caller, dir, W | X) { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// May the name of `child` be removed from `dir`, as the name of a directory or not: EACCES, EPERM, ENOTDIR, EISDIR.
    pub(super) fn may_remove(&self, caller: &Caller, dir: &Node, child: &Node, as_dir: bool) -> Result<(), Errno> {
        if !permits(caller, dir, W | X) {
            return Err(Errno::EACCES);
        }
        match (is_sticky(caller, dir, child), as_dir, child.is_dir()) {
            (true, _, _) => Err(Errno::EPERM),
            (_, true, false) => Err(Errno::ENOTDIR),
            (_, false, true) => Err(Errno::EISDIR),
            _ => Ok(()),
        }
    }

    /// The inode that a name leads to.
    pub(super) fn child(&self, parent: InodeId, name: &Name) -> Result<(InodeId, &Node), Errno> {
        let leads = self.find(parent, name).ok_or(Errno::ENOENT)?;
        Ok((leads.child, &self.nodes[&leads.child]))
    }

    /// Whether `id` is `of` or one of the directories above it.
    pub(super) fn is_ancestor(&self, id: InodeId, of: InodeId) -> bool {
        let mut at = of;
        loop {
            if at == id {
                return true;
            }
            match self.nodes.get(&at) {
                Some(node) if at != InodeId::ROOT && node.parent.is_some() => at = node.parent,
                _ => return false,
            }
        }
    }
}
