//! Files that are written through a shared mapping here while another mount has them open.
//!
//! Each mount has pages of its own: a store into one is seen elsewhere when the page is written back, and then covers what the others have
//! stored into the same page. Programs that take such a file for common memory lose data by that without an error. The kernel says
//! nothing of mmap(2), so it is noticed when a page is written back, and told once.

use crate::request::Operation;
use hashbrown::HashSet;
use rustix::fs::OFlags;

/// Inodes that are remembered; of further ones nothing is noticed.
const INODES_MAX: usize = 1024;

/// What a request has to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mapping {
    Nothing,
    /// It asks for a handle by which the file could be mapped and written.
    Possible,
    /// It brings a page that was written in memory.
    WrittenBack,
}

impl Mapping {
    pub(super) fn of(operation: &Operation<'_>) -> Mapping {
        let is_mappable = |flags| OFlags::from_bits_retain(flags) & (OFlags::ACCMODE | OFlags::APPEND) == OFlags::RDWR;
        match *operation {
            Operation::Open { flags, .. } if is_mappable(flags) => Mapping::Possible,
            Operation::Write { from_cache: true, .. } => Mapping::WrittenBack,
            _ => Mapping::Nothing,
        }
    }
}

/// Inodes of which such a handle was given while another session had them open.
#[derive(Debug, Default)]
pub(super) struct Beside(HashSet<u64>);

impl Beside {
    /// Such a handle was given; `shared` if another session has the file open.
    pub(super) fn opened(&mut self, node: u64, shared: bool) {
        if !shared {
            self.0.remove(&node);
        } else if self.0.len() < INODES_MAX {
            self.0.insert(node);
        }
    }

    /// A page comes back; true if that is to be told.
    pub(super) fn written_back(&mut self, node: u64) -> bool {
        !self.0.is_empty() && self.0.remove(&node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_once_and_only_if_others_have_it() {
        let mut beside = Beside::default();
        assert!(!beside.written_back(7));
        beside.opened(7, true);
        assert!(beside.written_back(7) && !beside.written_back(7));
        beside.opened(8, true);
        beside.opened(8, false);
        assert!(!beside.written_back(8), "the others have closed it");
        (0..=INODES_MAX as u64).for_each(|node| beside.opened(node, true));
        assert!(!beside.written_back(INODES_MAX as u64), "bounded");
    }
}
