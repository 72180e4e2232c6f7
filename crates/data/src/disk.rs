//! The node's edge to the disk: operations go out with a ticket, their completions come in with the same.

use bytes::Bytes;
use onpath_wire::Errno;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Name of a disk operation, never repeated by a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What the host does for the node, outside of the node's lock and in any order. Offsets and lengths are whole blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskOp {
    /// Writes the parts one after another.
    Write {
        /// Number of the data file, made if it is not there.
        file: u32,
        /// First byte.
        offset: u64,
        /// What to write.
        bytes: Vec<Bytes>,
    },
    /// Reads exactly so many bytes; what was never written reads as zeros.
    Read {
        /// Number of the data file.
        file: u32,
        /// First byte.
        offset: u64,
        /// How many.
        len: u32,
    },
    /// Gives the space back to the file system.
    Punch {
        /// Number of the data file.
        file: u32,
        /// First byte.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// How much room the file system below has.
    Space,
}

/// How a disk operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskResult {
    /// Written or punched.
    Done,
    /// Read.
    Bytes(Bytes),
    /// Room, in bytes.
    Space {
        /// In all.
        total: u64,
        /// For new data.
        free: u64,
    },
    /// Failed; of a write nothing counts.
    Failed(Errno),
}

/// Results of the disk operations of one step, in the order in which they were asked for.
pub(crate) type Results = SmallVec<[DiskResult; 1]>;

#[derive(Debug)]
struct Group {
    left: usize,
    results: SmallVec<[Option<DiskResult>; 1]>,
}

/// Disk operations that somebody waits for. Their number is bounded by that of operations.
#[derive(Debug)]
pub(crate) struct Disk {
    next: u64,
    groups: BTreeMap<u64, Group>,
}

impl Default for Disk {
    fn default() -> Self {
        Disk { next: 1, groups: BTreeMap::new() }
    }
}

impl Disk {
    /// A ticket on its own.
    pub(crate) fn ticket(&mut self) -> Ticket {
        self.next += 1;
        Ticket(self.next - 1)
    }

    /// Consecutive tickets for `n` operations that end together; the first names the group.
    pub(crate) fn group(&mut self, n: usize) -> u64 {
        assert!(n > 0, "a group has operations");
        let first = self.next;
        self.next += n as u64;
        self.groups.insert(first, Group { left: n, results: SmallVec::from_elem(None, n) });
        first
    }

    /// Takes a result; returns the group if it was its last one.
    pub(crate) fn done(&mut self, ticket: Ticket, result: DiskResult) -> Option<u64> {
        let (&first, group) = self.groups.range_mut(..=ticket.0).next_back().expect("a ticket of this node");
        let place = &mut group.results[(ticket.0 - first) as usize];
        assert!(place.is_none(), "a disk operation ends once");
        *place = Some(result);
        group.left -= 1;
        (group.left == 0).then_some(first)
    }

    /// The results of a group that has ended.
    pub(crate) fn take(&mut self, group: u64) -> Option<Results> {
        if self.groups.get(&group)?.left > 0 {
            return None;
        }
        let results = self.groups.remove(&group)?.results;
        Some(results.into_iter().map(|result| result.expect("all have ended")).collect())
    }
}
