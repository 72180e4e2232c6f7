//! What a thread has yet to do.

use onpath_wire::ids::NodeId;
use onpath_wire::packet::Packet;
use smallvec::SmallVec;
use std::cell::Cell;

/// Roles of the process that have messages, in the order in which they got them, and messages that leave.
pub(super) struct Work {
    cells: SmallVec<[usize; 8]>,
    pub(super) remote: Vec<(NodeId, Packet)>,
}

thread_local! {
    /// Room for the messages that leave next.
    static ROOM: Cell<Vec<(NodeId, Packet)>> = const { Cell::new(Vec::new()) };
}

impl Default for Work {
    fn default() -> Work {
        Work { cells: SmallVec::new(), remote: ROOM.take() }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.remote.clear();
        ROOM.set(std::mem::take(&mut self.remote));
    }
}

impl Work {
    #[inline]
    pub(super) fn add(&mut self, index: usize) {
        if !self.cells.contains(&index) {
            self.cells.push(index);
        }
    }

    /// Whether no role has messages that this knows of.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.cells.is_empty()
    }

    /// Whether there are messages of which none may leave before an earlier one.
    #[inline]
    pub(super) fn has_ordered(&self) -> bool {
        self.remote.iter().any(|(_, packet)| packet.keeps_order())
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<usize> {
        if self.cells.is_empty() { None } else { Some(self.cells.remove(0)) }
    }
}
