//! Files that somebody may have mapped to be written. The kernel writes dirty pages back when it likes, and a write moves the modification time;
//! utimensat(2) must not be undone by what was dirty before it. The kernel says of no mapping and of no dirty page, so all files count that are
//! open for both reading and writing.

use hashbrown::HashMap;
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle};
use onpath_wire::ids::InodeId;
use onpath_wire::request::set;

use super::Expected;
use super::nodes::inode_id;

/// Handles that are open for reading and writing, and of which inodes: bounded by the handles of the session.
#[derive(Debug, Default)]
pub(super) struct Mappable {
    handles: HashMap<Handle, InodeId>,
    inodes: HashMap<InodeId, u32>,
}

impl Mappable {
    /// An open of this node is about to be answered; of a create it is the directory's.
    pub(super) fn opened(&mut self, expected: &Expected, node: u64, result: &FsResult) {
        if !matches!(expected, Expected::OpenFile { read_write: true } | Expected::OpenNameless { read_write: true }) {
            return;
        }
        let (handle, inode) = match result {
            Ok(FsReply::Opened(opened)) => (opened.handle, inode_id(node)),
            Ok(FsReply::Created { attr, opened, .. }) => (opened.handle, attr.id),
            _ => return,
        };
        self.handles.insert(handle, inode);
        *self.inodes.entry(inode).or_default() += 1;
    }

    /// A request comes: the inode whose pages are to be written back before it is done.
    pub(super) fn asks(&mut self, op: &FsOp) -> Option<InodeId> {
        match *op {
            FsOp::Release { handle, .. } if !self.handles.is_empty() => {
                let inode = self.handles.remove(&handle)?;
                let count = self.inodes.get_mut(&inode).expect("counted when it was opened");
                *count -= 1;
                if *count == 0 {
                    self.inodes.remove(&inode);
                }
                None
            }
            // The kernel writes nothing back while it waits for a change of the size; it never asks for both.
            FsOp::SetAttr { id, set, .. } if set.valid & (set::MTIME | set::SIZE) == set::MTIME => {
                self.inodes.contains_key(&id).then_some(id)
            }
            _ => None,
        }
    }
}
