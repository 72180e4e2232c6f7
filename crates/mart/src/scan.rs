//! Scans in the order of keys.

use crate::nodes::Ref;
use crate::tree::{Flavor, Tree};
use alloc::vec::Vec;
use onpath_index::{DirId, Part};

impl<F: Flavor> Tree<F> {
    /// Calls `each` for the entries below a directory in the order of their keys, until it says false: parents come before what is below.
    pub(crate) fn in_order(&self, entry: Ref, each: &mut dyn FnMut(&Tree<F>, Ref) -> bool) {
        let Some(branch) = self.branch(entry) else { return };
        // A node and the byte from which on its children are still to be seen.
        let mut rest: Vec<(Ref, u16)> = alloc::vec![(branch, 0)];
        while let Some((node, from)) = rest.pop() {
            let Some((byte, child)) = self.nodes.next_child(node, from) else { continue };
            rest.push((node, u16::from(byte) + 1));
            if child == entry {
                continue; // the leaf of the directory itself
            }
            let ends = self.nodes.value(child).is_some_and(|value| value.is_some());
            if ends && !each(self, child) {
                return;
            }
            rest.push((child, 0));
        }
    }

    /// Calls `each` with paths and directories below `from`, in the byte order of their paths with a slash at the end of each component, until
    /// it says false. Paths begin behind `from`, and have no slash at the end.
    pub fn scan(&self, from: DirId, each: &mut dyn FnMut(&[u8], Part) -> bool) {
        let Some(entry) = self.held(from) else { return };
        let mut path = Vec::new();
        let mut way: Vec<(Ref, usize)> = alloc::vec![(entry, 0)];
        self.in_order(entry, &mut |tree, at| {
            let above = tree.above(at);
            while way.last().is_some_and(|&(last, _)| Some(last) != above) {
                way.pop();
            }
            path.truncate(way.last().map_or(0, |&(_, len)| len));
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(tree.name_of(at).as_bytes());
            way.push((at, path.len()));
            each(&path, tree.part(at))
        });
    }
}
