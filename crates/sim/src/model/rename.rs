//! rename(2) and renameat2(2) with all its flags in the model, in the kernel's order of errors.

use super::access::{W, permits};
use super::decide::{Change, Decided, Plan, Shape, inherit};
use super::{Caller, Model, Node};
use onpath_wire::codec::Blob;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::request::{NewNode, rename};

impl Model {
    pub(super) fn decide_rename(
        &self,
        caller: &Caller,
        (from_parent, from): (InodeId, &Name),
        (parent, name): (InodeId, &Name),
        flags: u32,
    ) -> Decided {
        let exchanges = flags & rename::EXCHANGE != 0;
        if !rename::is_known(flags) {
            return Err(Errno::EINVAL);
        }
        let from_dir = self.searchable(caller, from_parent)?;
        let to_dir = self.searchable(caller, parent)?;
        let (id, node) = self.child(from_parent, from)?;
        let target = self.find(parent, name);
        if to_dir.nlink == 0 {
            return Err(Errno::ENOENT);
        }
        if target.is_some() && flags & rename::NOREPLACE != 0 {
            return Err(Errno::EEXIST);
        }
        if target.is_none() && exchanges {
            return Err(Errno::ENOENT);
        }
        if node.is_dir() && self.is_ancestor(id, parent) {
            return Err(Errno::EINVAL);
        }
        if let Some(target) = target
            && from_parent != parent
            && self.is_ancestor(target.child, from_parent)
        {
            return Err(if exchanges { Errno::EINVAL } else { Errno::ENOTEMPTY });
        }
        if target.is_some_and(|target| target.child == id) {
            return Ok(Plan { change: Change::Nothing, answer: Shape::Done });
        }
        self.may_remove(caller, from_dir, node, node.is_dir())?;
        match target {
            None => self.may_add(caller, to_dir)?,
            Some(target) => {
                let other = &self.nodes[&target.child];
                self.may_remove(caller, to_dir, other, if exchanges { other.is_dir() } else { node.is_dir() })?;
            }
        }
        let moves = |node: &Node| node.is_dir() && from_parent != parent;
        let stays = |node: &Node| moves(node) && !permits(caller, node, W);
        if stays(node) || exchanges && target.is_some_and(|target| stays(&self.nodes[&target.child])) {
            return Err(Errno::EACCES);
        }
        if exchanges {
            let change = Change::Exchange { from_parent, from: from.clone(), parent, name: name.clone() };
            return Ok(Plan { change, answer: Shape::Done });
        }
        if target.is_some_and(|target| self.nodes[&target.child].entries > 0) {
            return Err(Errno::ENOTEMPTY);
        }
        let replaced = target.map(|target| target.child);
        let (from, name) = (from.clone(), name.clone());
        let whiteout = (flags & rename::WHITEOUT != 0).then(|| Box::new(whiteout(caller, from_dir, from_parent)));
        let change = Change::Rename { from_parent, from, parent, name, id, replaced, whiteout };
        Ok(Plan { change, answer: Shape::Done })
    }
}

/// What RENAME_WHITEOUT leaves behind: a character device 0/0 that nobody may open.
fn whiteout(caller: &Caller, dir: &Node, parent: InodeId) -> Node {
    let (target, open) = (Blob::default(), 0);
    inherit(caller, dir, parent, &NewNode { kind: Kind::CharDevice, mode: 0, umask: 0, rdev: 0, target, open })
}
