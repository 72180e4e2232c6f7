//! The inode numbers that programs are shown.

use onpath_wire::ids::InodeId;

/// What st_ino and d_ino are of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// Its id: one an inode, below 2^53.
    #[default]
    Whole,
    /// The low 32 bits of its id XORed with the others, for programs that cannot take more: several inodes may have the same.
    Folded,
}

impl Numbers {
    /// The number of an inode; never 0, which is none.
    pub(super) fn of(self, id: InodeId) -> u64 {
        match self {
            Numbers::Whole => id.0,
            Numbers::Folded => ((id.0 ^ id.0 >> 32) & u64::from(u32::MAX)).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::ids::{Birth, Slot};
    use onpath_wire::inode::Kind;

    #[test]
    fn folded_numbers_have_32_bits_and_are_mostly_distinct() {
        let ids = (0..100_000u32).map(|n| InodeId::new(Slot(n as u16), Birth(3), (n >> 16) as u16, Kind::File));
        let folded: std::collections::BTreeSet<u64> = ids.map(|id| Numbers::Folded.of(id)).collect();
        assert_eq!(folded.len(), 100_000, "while few inodes of a birth share a slot");
        assert!(folded.iter().all(|number| (1..1 << 32).contains(number)));
        assert_eq!([Numbers::Folded, Numbers::Whole].map(|numbers| numbers.of(InodeId::ROOT)), [1, 1]);
        let last = InodeId::new(Slot(u16::MAX), Birth::MAX, u16::MAX, Kind::Directory);
        assert_eq!(Numbers::Folded.of(last), u64::from(u32::MAX) ^ ((1 << 21) - 1));
    }
}
