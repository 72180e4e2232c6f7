//! Block space: a few large sparse data files, seen as one row of 4 KiB blocks.
//!
//! A block never is written twice before it was free in between, and it is free only when the record that freed it is
//! durable (else a power loss would bring back an index whose blocks hold other bytes) and no read that began before is
//! still going on. Free blocks are first *warm* (their old bytes still take space) and punched out of the data file
//! when nobody has taken them again within [`PUNCH_INTERVAL_US`]; then they are *clean*.

use crate::disk::Ticket;
use crate::used::Used;
use onpath_wire::ids::RecordSeq;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Pause between two rounds of punching, microseconds: `du` falls within two of them and a flush of the journal.
pub(crate) const PUNCH_INTERVAL_US: u64 = 2_000_000;
/// Punches that the host has at a time.
pub(crate) const PUNCHES_MAX: usize = 64;
/// Blocks that can be told apart; the highest number stands for a hole.
const BLOCKS_MAX: u64 = u32::MAX as u64;

/// Consecutive physical blocks of one data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

/// The runs of one write, in order of its blocks.
pub(crate) type Runs = SmallVec<[Run; 2]>;

/// Free runs, joined with their neighbours within a data file.
#[derive(Debug, Default)]
struct FreeRuns {
    by_start: BTreeMap<u32, u32>,
    by_len: BTreeSet<(u32, u32)>,
}

impl FreeRuns {
    fn insert(&mut self, mut run: Run, file_blocks: u32) {
        if !run.start.is_multiple_of(file_blocks)
            && let Some((&start, &len)) = self.by_start.range(..run.start).next_back()
            && start + len == run.start
        {
            self.remove(Run { start, len });
            run = Run { start, len: len + run.len };
        }
        let end = run.start + run.len;
        if !end.is_multiple_of(file_blocks)
            && let Some(&len) = self.by_start.get(&end)
        {
            self.remove(Run { start: end, len });
            run.len += len;
        }
        self.by_start.insert(run.start, run.len);
        self.by_len.insert((run.len, run.start));
    }

    fn remove(&mut self, run: Run) {
        self.by_start.remove(&run.start);
        self.by_len.remove(&(run.len, run.start));
    }

    /// `n` blocks in one run, out of the smallest that has so many.
    fn take(&mut self, n: u32) -> Option<Run> {
        let &(len, start) = self.by_len.range((n, 0)..).next()?;
        self.remove(Run { start, len });
        if len > n {
            self.by_start.insert(start + n, len - n);
            self.by_len.insert((len - n, start + n));
        }
        Some(Run { start, len: n })
    }

    /// The longest run.
    fn take_longest(&mut self) -> Option<Run> {
        let &(len, start) = self.by_len.last()?;
        self.remove(Run { start, len });
        Some(Run { start, len })
    }

    fn drain(&mut self) -> impl Iterator<Item = Run> {
        self.by_len.clear();
        std::mem::take(&mut self.by_start).into_iter().map(|(start, len)| Run { start, len })
    }
}

/// Freed by a record, not free yet.
#[derive(Debug)]
struct Limbo {
    freed_by: RecordSeq,
    /// Reads of lower numbers may still want the old bytes.
    reads_before: u64,
    run: Run,
}

/// The allocator. Derived from the index at start, so that it needs no records.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) file_blocks: u32,
    warm: FreeRuns,
    clean: FreeRuns,
    /// First block that was never used.
    frontier: u64,
    limbo: VecDeque<Limbo>,
    draining: VecDeque<Run>,
    punching: BTreeMap<Ticket, Run>,
    reads: BTreeSet<u64>,
    next_read: u64,
    durable: RecordSeq,
    punch_at_us: Option<u64>,
    /// Blocks punched since the start.
    pub(crate) punched: u64,
}

impl Space {
    pub(crate) fn new(file_blocks: u32) -> Space {
        assert!(file_blocks > 0, "data files have blocks");
        Space {
            file_blocks,
            warm: FreeRuns::default(),
            clean: FreeRuns::default(),
            frontier: 0,
            limbo: VecDeque::new(),
            draining: VecDeque::new(),
            punching: BTreeMap::new(),
            reads: BTreeSet::new(),
            next_read: 1,
            durable: RecordSeq(0),
            punch_at_us: None,
            punched: 0,
        }
    }

    /// Takes `n` blocks in as few runs as can be; nothing if there are not so many.
    pub(crate) fn allocate(&mut self, n: u32) -> Option<Runs> {
        let mut runs = Runs::new();
        let mut missing = n;
        while missing > 0 {
            let whole = self.warm.take(missing).or_else(|| self.clean.take(missing));
            let Some(run) = whole.or_else(|| self.extend(missing)).or_else(|| self.piece(missing)) else {
                runs.into_iter().for_each(|run| self.give_back(run));
                return None;
            };
            missing -= run.len;
            runs.push(run);
        }
        Some(runs)
    }

    fn extend(&mut self, n: u32) -> Option<Run> {
        let file_blocks = u64::from(self.file_blocks);
        let left = (file_blocks - self.frontier % file_blocks).min(BLOCKS_MAX - self.frontier);
        let len = u64::from(n).min(left) as u32;
        let run = Run { start: self.frontier as u32, len };
        self.frontier += u64::from(len);
        (len > 0).then_some(run)
    }

    fn piece(&mut self, n: u32) -> Option<Run> {
        let run = self.warm.take_longest().or_else(|| self.clean.take_longest())?;
        assert!(run.len < n, "a longer run would have been taken before");
        Some(run)
    }

    /// Blocks that were allocated and that no record ever named.
    pub(crate) fn give_back(&mut self, run: Run) {
        self.warm.insert(run, self.file_blocks);
    }

    /// Blocks that record `freed_by` freed.
    pub(crate) fn free(&mut self, freed: Run, freed_by: RecordSeq) {
        let reads_before = self.next_read;
        for run in self.within_files(freed) {
            match self.limbo.back_mut() {
                Some(last)
                    if last.freed_by == freed_by
                        && last.run.start + last.run.len == run.start
                        && !run.start.is_multiple_of(self.file_blocks) =>
                {
                    last.run.len += run.len;
                }
                _ => self.limbo.push_back(Limbo { freed_by, reads_before, run }),
            }
        }
    }

    /// The parts of a run in one data file each.
    pub(crate) fn within_files(&self, run: Run) -> impl Iterator<Item = Run> + use<> {
        let (file_blocks, mut start, mut left) = (self.file_blocks, run.start, run.len);
        std::iter::from_fn(move || {
            let len = left.min(file_blocks - start % file_blocks);
            let part = Run { start, len };
            (start, left) = (start.saturating_add(len), left - len);
            (len > 0).then_some(part)
        })
    }

    /// A read of blocks begins; it is named in [`Space::end_read`].
    pub(crate) fn begin_read(&mut self) -> u64 {
        let read = self.next_read;
        self.next_read += 1;
        self.reads.insert(read);
        read
    }

    /// Reads going on.
    pub(crate) fn reading(&self) -> usize {
        self.reads.len()
    }

    /// The read is over.
    pub(crate) fn end_read(&mut self, read: u64, now_us: u64) {
        assert!(self.reads.remove(&read), "a read ends once");
        if !self.limbo.is_empty() {
            self.release(now_us);
        }
    }

    /// Records up to here are durable.
    pub(crate) fn durable(&mut self, seq: RecordSeq, now_us: u64) {
        self.durable = self.durable.max(seq);
        self.release(now_us);
    }

    fn release(&mut self, now_us: u64) {
        let oldest = self.reads.first().copied().unwrap_or(u64::MAX);
        while let Some(first) = self.limbo.front() {
            if first.freed_by > self.durable || first.reads_before > oldest {
                break;
            }
            let run = first.run;
            self.limbo.pop_front();
            self.warm.insert(run, self.file_blocks);
        }
        if !self.warm.by_start.is_empty() && self.punch_at_us.is_none() {
            self.punch_at_us = Some(now_us + PUNCH_INTERVAL_US);
        }
    }

    /// When [`Space::tick`] has something to do, monotonic microseconds.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.punch_at_us
    }

    /// Punches that the host has.
    pub(crate) fn punching(&self) -> usize {
        self.punching.len()
    }

    /// Somebody needs room on the disk: what is free, and what becomes free, is punched without delay.
    pub(crate) fn hurry(&mut self, now_us: u64) {
        self.punch_at_us = Some(now_us);
    }

    /// Chooses what is to be punched; [`Space::next_punch`] hands it out.
    pub(crate) fn tick(&mut self, now_us: u64) {
        if self.punch_at_us.is_some_and(|at| at <= now_us) {
            self.punch_at_us = None;
            self.draining.extend(self.warm.drain());
        }
    }

    /// The next run to punch, under this ticket, unless the host has enough to do.
    pub(crate) fn next_punch(&mut self, ticket: Ticket) -> Option<Run> {
        if self.punching.len() >= PUNCHES_MAX {
            return None;
        }
        let run = self.draining.pop_front()?;
        self.punching.insert(ticket, run);
        Some(run)
    }

    /// A punch is done; false if the ticket is none of a punch.
    pub(crate) fn end_punch(&mut self, ticket: Ticket) -> bool {
        let Some(run) = self.punching.remove(&ticket) else { return false };
        self.punched += u64::from(run.len);
        self.clean.insert(run, self.file_blocks);
        true
    }

    /// Whether free blocks still take space on the disk.
    pub(crate) fn pending(&self) -> bool {
        let idle = self.limbo.is_empty() && self.warm.by_start.is_empty();
        !(idle && self.draining.is_empty() && self.punching.is_empty())
    }

    /// Takes over what the index uses; everything else in the `files` existing data files is to be punched, since the
    /// lost tail of the journal may have used it.
    pub(crate) fn rebuild(&mut self, used: &Used, files: u32) {
        let end = (u64::from(files) * u64::from(self.file_blocks)).max(used.end());
        self.frontier = end.next_multiple_of(u64::from(self.file_blocks)).min(BLOCKS_MAX);
        let mut block = used.next(0, false);
        while block < self.frontier {
            // Looked for once, however many files there are before it.
            let end = used.next(block, true).min(self.frontier);
            let free = Run { start: block as u32, len: (end - block) as u32 };
            self.draining.extend(self.within_files(free));
            block = used.next(end, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u32, len: u32) -> Run {
        Run { start, len }
    }

    #[test]
    fn a_freed_block_is_used_again_when_its_record_is_durable_and_its_readers_are_gone() {
        let mut space = Space::new(64);
        assert_eq!(space.allocate(4).unwrap().as_slice(), [run(0, 4)]);
        let read = space.begin_read();
        (0..4).for_each(|phys| space.free(run(phys, 1), RecordSeq(7)));
        assert_eq!(space.allocate(1).unwrap().as_slice(), [run(4, 1)]);
        space.durable(RecordSeq(7), 0);
        assert_eq!(space.allocate(1).unwrap().as_slice(), [run(5, 1)], "a reader may still want it");
        space.end_read(read, 0);
        assert_eq!(space.allocate(3).unwrap().as_slice(), [run(0, 3)]);
    }

    #[test]
    fn what_stays_free_is_punched_and_nobody_takes_it_meanwhile() {
        let mut space = Space::new(64);
        space.allocate(8).unwrap();
        [3, 1, 2].into_iter().for_each(|phys| space.free(run(phys, 1), RecordSeq(1)));
        space.durable(RecordSeq(1), 10);
        assert_eq!(space.next_deadline(), Some(10 + PUNCH_INTERVAL_US));
        space.tick(10 + PUNCH_INTERVAL_US);
        assert_eq!(space.next_punch(Ticket(1)), Some(run(1, 3)));
        assert_eq!(space.next_punch(Ticket(2)), None);
        assert_eq!(space.allocate(3).unwrap().as_slice(), [run(8, 3)]);
        assert!(space.end_punch(Ticket(1)) && !space.end_punch(Ticket(2)));
        assert_eq!(space.allocate(3).unwrap().as_slice(), [run(1, 3)]);
        assert!(!space.pending());
    }

    #[test]
    fn a_run_never_crosses_the_end_of_a_data_file() {
        let mut space = Space::new(8);
        assert_eq!(space.allocate(12).unwrap().as_slice(), [run(0, 8), run(8, 4)]);
        space.free(run(4, 8), RecordSeq(1));
        space.durable(RecordSeq(1), 0);
        assert_eq!(space.allocate(8).unwrap().as_slice(), [run(12, 4), run(4, 4)]);
    }

    #[test]
    fn the_space_of_a_lost_tail_is_found() {
        let mut space = Space::new(8);
        let mut used = Used::default();
        assert!(used.insert(2) && used.insert(9) && !used.insert(9));
        space.rebuild(&used, 3);
        let punches: Vec<_> = (0..).map_while(|n| space.next_punch(Ticket(n))).collect();
        assert_eq!(punches, [run(0, 2), run(3, 5), run(8, 1), run(10, 6), run(16, 8)]);
    }
}
