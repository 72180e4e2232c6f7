//! Blocks of a file that have a place but no bytes (fallocate(2)): they read as zeros, and the first write to one uses its
//! place. Kept as runs, so that a reservation of any size takes little memory.

use onpath_wire::disk::block::ReservedRun;
use std::collections::BTreeMap;

/// The reserved blocks of a file. Neighbours in the file that are neighbours on the disk are one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// (physical block, length) by first logical block.
    runs: BTreeMap<u32, (u32, u32)>,
}

impl Reserved {
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Bytes that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Reserved>() + self.runs.len() * 24
    }

    /// The run that this block is in.
    fn around(&self, block: u32) -> Option<ReservedRun> {
        let (&start, &(phys, len)) = self.runs.range(..=block).next_back()?;
        (block - start < len).then_some(ReservedRun { start, phys, len })
    }

    /// The place of a block.
    pub(crate) fn get(&self, block: u32) -> Option<u32> {
        self.around(block).map(|run| run.phys + (block - run.start))
    }

    /// Adds a run of blocks that are not in it.
    pub(crate) fn insert(&mut self, mut run: ReservedRun) {
        assert!(run.len > 0, "a run has blocks");
        if let Some((&start, &(phys, len))) = self.runs.range(..run.start).next_back() {
            assert!(run.start - start >= len, "reserved twice");
            if start + len == run.start && phys + len == run.phys {
                self.runs.remove(&start);
                run = ReservedRun { start, phys, len: len + run.len };
            }
        }
        if let Some((&start, &(phys, len))) = self.runs.range(run.start..).next() {
            assert!(start - run.start >= run.len, "reserved twice");
            if run.start + run.len == start && run.phys + run.len == phys {
                self.runs.remove(&start);
                run.len += len;
            }
        }
        self.runs.insert(run.start, (run.phys, run.len));
    }

    /// Takes out the blocks `first..=last`; their places go to `freed` as (first, count).
    pub(crate) fn remove(&mut self, first: u32, last: u32, freed: &mut impl FnMut(u32, u32)) {
        let cut = |runs: &mut BTreeMap<u32, (u32, u32)>, run: ReservedRun, at: u32| {
            let n = at - run.start;
            runs.insert(run.start, (run.phys, n));
            runs.insert(at, (run.phys + n, run.len - n));
        };
        if let Some(run) = self.around(first).filter(|run| run.start < first) {
            cut(&mut self.runs, run, first);
        }
        if let Some(run) = self.around(last).filter(|run| last - run.start < run.len - 1) {
            cut(&mut self.runs, run, last + 1);
        }
        while let Some((&start, &(phys, len))) = self.runs.range(first..=last).next() {
            self.runs.remove(&start);
            freed(phys, len);
        }
    }

    /// What of it lies within `first..=last`, in order.
    pub(crate) fn within(&self, first: u32, last: u32) -> impl Iterator<Item = ReservedRun> + '_ {
        let from = self.around(first).map_or(first, |run| run.start);
        self.runs.range(from..=last).map(move |(&start, &(phys, len))| {
            let skip = first.saturating_sub(start);
            let len = (len - skip).min(last - (start + skip) + 1);
            ReservedRun { start: start + skip, phys: phys + skip, len }
        })
    }

    /// All of it, in order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = ReservedRun> + '_ {
        self.runs.iter().map(|(&start, &(phys, len))| ReservedRun { start, phys, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u32, phys: u32, len: u32) -> ReservedRun {
        ReservedRun { start, phys, len }
    }

    #[test]
    fn neighbours_on_both_sides_are_one_run() {
        let mut reserved = Reserved::default();
        [run(10, 110, 5), run(20, 120, 5), run(15, 115, 5), run(25, 500, 1)]
            .into_iter()
            .for_each(|r| reserved.insert(r));
        assert_eq!(reserved.runs().collect::<Vec<_>>(), [run(10, 110, 15), run(25, 500, 1)]);
        assert_eq!((reserved.get(9), reserved.get(24), reserved.get(25)), (None, Some(124), Some(500)));
    }

    #[test]
    fn a_part_is_taken_out_of_the_middle_and_over_several_runs() {
        let mut reserved = Reserved::default();
        [run(0, 100, 10), run(12, 200, 4), run(u32::MAX - 1, 300, 2)].into_iter().for_each(|r| reserved.insert(r));
        assert_eq!(reserved.within(5, 13).collect::<Vec<_>>(), [run(5, 105, 5), run(12, 200, 2)]);
        let mut freed = vec![];
        reserved.remove(3, 4, &mut |phys, n| freed.push((phys, n)));
        reserved.remove(8, 13, &mut |phys, n| freed.push((phys, n)));
        assert_eq!(freed, [(103, 2), (108, 2), (200, 2)]);
        reserved.remove(0, u32::MAX, &mut |phys, n| freed.push((phys, n)));
        assert_eq!(freed[3..], [(100, 3), (105, 3), (202, 2), (300, 2)]);
        assert!(reserved.is_empty());
    }
}
