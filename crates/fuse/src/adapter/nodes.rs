//! Node ids of the kernel: inode ids with their parts turned, so that the low bits differ most.
//!
//! The kernel finds inodes in a hash table whose hash takes little notice of a number's high bits. An inode id varies
//! most in its top 16 bits (the slot); given out as it is, the inodes of a mount would share few chains. No program sees node ids:
//! st_ino, also that of /proc, is the inode id.

use onpath_wire::ids::{INODE_ID_BITS, InodeId, SLOT_SHIFT};

/// Most inodes have one node. A FIFO, socket or device that a caller may not open has another one for them, with the same attributes: the kernel
/// asks nobody who opens it or connects, and behind another node is another pipe, no socket, no device. So has a symlink that
/// fs.protected_symlinks keeps from the caller. The top bit tells them apart; no inode id has it.
const APART: u64 = 1 << 63;
/// FUSE's number for the root.
const ROOT: u64 = 1;
/// Bits of the slot, which become the lowest.
const SLOT_BITS: u32 = INODE_ID_BITS - SLOT_SHIFT;
const ID_MASK: u64 = (1 << INODE_ID_BITS) - 1;

/// The kernel's number of an inode.
pub(super) fn node_id(id: InodeId) -> u64 {
    if id == InodeId::ROOT { ROOT } else { id.0 << SLOT_BITS & ID_MASK | id.0 >> SLOT_SHIFT }
}

/// The same for those who are to be kept apart.
pub(super) fn apart(id: InodeId) -> u64 {
    node_id(id) | APART
}

/// Whether it is a node for those.
pub(super) fn is_apart(node: u64) -> bool {
    node & APART != 0
}

/// The node of all others.
pub(super) fn common(node: u64) -> u64 {
    node & !APART
}

/// The inode that the kernel means.
pub(super) fn inode_id(node: u64) -> InodeId {
    if node == ROOT {
        return InodeId::ROOT;
    }
    let node = common(node);
    InodeId(node << SLOT_SHIFT & ID_MASK | node >> SLOT_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::ids::{Birth, Slot};
    use onpath_wire::inode::Kind;

    #[test]
    fn node_ids_lead_back_and_differ_in_the_low_bits() {
        let ids = (0..1_000u16).map(|slot| InodeId::new(Slot(slot * 64), Birth(7), 1 + slot % 3, Kind::File));
        let nodes: Vec<u64> = ids.clone().map(node_id).collect();
        assert!(ids.eq(nodes.iter().copied().map(inode_id)));
        let low: std::collections::BTreeSet<u64> = nodes.iter().map(|node| node & 0xffff).collect();
        assert_eq!(low.len(), 1_000);
        assert_eq!((node_id(InodeId::ROOT), inode_id(1)), (1, InodeId::ROOT));
    }

    #[test]
    fn every_inode_has_room_for_two_nodes() {
        for birth in [Birth(1), Birth::MAX] {
            let id = InodeId::new(Slot(u16::MAX), birth, u16::MAX, Kind::Directory);
            assert!(!is_apart(node_id(id)) && is_apart(apart(id)));
            assert_eq!((inode_id(apart(id)), common(apart(id))), (id, node_id(id)));
        }
    }
}
