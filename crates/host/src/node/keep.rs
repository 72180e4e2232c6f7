//! What a checkpoint asks of the roles of a node: images, and what became of them.

use super::Node;
use onpath_store::{Changes, Cold, Image, Recoverable};
use onpath_wire::ids::{Lsn, NodeId};
use std::sync::Arc;

impl Node {
    /// Addresses of the roles that have durable state, with their numbers of ranges.
    pub fn recoverable(&self) -> Vec<(NodeId, u32)> {
        let cells = self.cells.iter().enumerate();
        cells
            .filter_map(|(index, cell)| {
                let ranges = cell.ranges();
                self.resume(index);
                ranges.map(|ranges| (cell.address(), ranges))
            })
            .collect()
    }

    /// The present state of a range of a role, and the lsn of the last batch that it can reflect. Takes the role's lock for a piece
    /// of the image at a time; in between whoever found the role locked is served.
    pub fn image(&self, role: NodeId, range: u32) -> Option<(Image, Lsn)> {
        let index = self.local(role)?;
        let begun = self.cells[index].begin_image(self, range);
        self.resume(index);
        let (mut image, lsn) = begun?;
        let mut more = true;
        while more {
            let mut changes = Changes::default();
            more = self.with_recoverable(role, |role| role.more_of_image(&mut changes))?;
            image.changes.add(changes);
        }
        Some((image, lsn))
    }

    fn with_recoverable<T>(&self, role: NodeId, act: impl FnOnce(&mut dyn Recoverable) -> T) -> Option<T> {
        let index = self.local(role)?;
        let mut act = Some(act);
        let mut done = None;
        self.cells[index].recoverable(&mut |role| done = act.take().map(|act| act(role)));
        self.resume(index);
        done
    }

    /// From now on a role's objects that are not in its memory are as this store has them.
    pub fn attach_store(&self, role: NodeId, cold: Arc<dyn Cold>) {
        let attached = self.with_recoverable(role, |role| role.attach(cold));
        assert!(attached.is_none_or(|attached| attached.is_ok()), "of a later store nothing is read at once");
    }

    /// The image of a range of a role that was taken last is `kept`, or will not be.
    pub fn settle(&self, role: NodeId, range: u32, kept: bool) {
        while self.with_recoverable(role, |role| role.settle_some(range, kept)) == Some(true) {}
    }

    /// Bytes that a role's objects take in memory.
    pub fn memory(&self, role: NodeId) -> u64 {
        self.with_recoverable(role, |role| role.memory()).unwrap_or(0)
    }

    /// Bytes that a role's objects have left and only they take again.
    pub fn spare(&self, role: NodeId) -> u64 {
        self.with_recoverable(role, |role| role.spare()).unwrap_or(0)
    }

    /// Lets a role forget a part of what the store has too.
    pub fn forget(&self, role: NodeId, part: u32) {
        self.with_recoverable(role, |role| role.forget(part));
    }
}
