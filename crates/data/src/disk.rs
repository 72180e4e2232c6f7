//! The node's edge to the disk: operations go out with a ticket, their completions come in with the same.

use bytes::Bytes;
use hashbrown::HashMap;
use onpath_wire::Errno;
use smallvec::SmallVec;

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
        /// The space was taken by [`DiskOp::Reserve`].
        reserved: bool,
    },
    /// Takes space for a range of one data file, made if it is not there; what is in it does not matter.
    Reserve {
        /// Number of the data file.
        file: u32,
        /// First byte.
        offset: u64,
        /// How many.
        len: u64,
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
    /// Written, reserved or punched.
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

/// Bits of a ticket that tell the operations of a group apart.
const PLACE_BITS: u32 = 16;

/// Disk operations that somebody waits for. Their number is bounded by that of operations.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    groups: HashMap<u64, Group>,
    count: u64,
}

impl Disk {
    /// Groups that have not ended.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    /// A ticket on its own.
    pub(crate) fn ticket(&mut self) -> Ticket {
        self.count += 1;
        Ticket(self.count << PLACE_BITS)
    }

    /// A group of `n` operations that end together.
    pub(crate) fn group(&mut self, n: usize) -> u64 {
        assert!((1..1 << PLACE_BITS).contains(&n), "{n} operations in a group");
        self.count += 1;
        self.groups.insert(self.count, Group { left: n, results: SmallVec::from_elem(None, n) });
        self.count
    }

    /// The ticket of an operation in a group.
    pub(crate) fn ticket_in(group: u64, place: usize) -> Ticket {
        Ticket(group << PLACE_BITS | place as u64)
    }

    /// Takes a result; returns the group if it was its last one.
    pub(crate) fn done(&mut self, ticket: Ticket, result: DiskResult) -> Option<u64> {
        let (group, place) = (ticket.0 >> PLACE_BITS, ticket.0 & ((1 << PLACE_BITS) - 1));
        let waiting = self.groups.get_mut(&group).expect("a ticket of this node");
        let slot = &mut waiting.results[place as usize];
        assert!(slot.is_none(), "a disk operation ends once");
        *slot = Some(result);
        waiting.left -= 1;
        (waiting.left == 0).then_some(group)
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
