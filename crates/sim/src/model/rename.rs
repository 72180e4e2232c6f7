//! rename(2) and renameat2(2) with RENAME_NOREPLACE in the model, in the kernel's order of errors.

use super::access::{W, permits};
use super::decide::{Change, Decided, Plan, Shape};
use super::{Caller, Model};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use onpath_wire::request::rename;

impl Model {
    pub(super) fn decide_rename(
        &self,
        caller: &Caller,
        (from_parent, from): (InodeId, &Name),
        (parent, name): (InodeId, &Name),
        flags: u32,
    ) -> Decided {
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
        if node.is_dir() && self.is_ancestor(id, parent) {
            return Err(Errno::EINVAL);
        }
        if let Some(target) = target
            && from_parent != parent
            && self.is_ancestor(target.child, from_parent)
        {
            return Err(Errno::ENOTEMPTY);
        }
        if target.is_some_and(|target| target.child == id) {
            return Ok(Plan { change: Change::Nothing, answer: Shape::Done });
        }
        self.may_remove(caller, from_dir, node, node.is_dir())?;
        match target {
            None => self.may_add(caller, to_dir)?,
            Some(target) => self.may_remove(caller, to_dir, &self.nodes[&target.child], node.is_dir())?,
        }
        if node.is_dir() && from_parent != parent && !permits(caller, node, W) {
            return Err(Errno::EACCES);
        }
        if target.is_some_and(|target| self.nodes[&target.child].entries > 0) {
            return Err(Errno::ENOTEMPTY);
        }
        let replaced = target.map(|target| target.child);
        let (from, name) = (from.clone(), name.clone());
        Ok(Plan { change: Change::Rename { from_parent, from, parent, name, id, replaced }, answer: Shape::Done })
    }
}
