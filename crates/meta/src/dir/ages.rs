//! For how long updates have been pending, without a time for each: now and then it is noted how far change-logs had come.

use onpath_wire::ids::LogSeq;
use std::collections::VecDeque;

/// Between two notes, microseconds.
const NOTE_EVERY_US: u64 = 500_000;
/// Notes that are kept.
const NOTES_MAX: usize = 64;

/// When change-logs had come to which position.
#[derive(Debug, Default)]
pub(crate) struct Ages {
    /// Times, monotonic microseconds, and the position of an entry that there was then; both grow.
    notes: VecDeque<(u64, LogSeq)>,
    /// The same of the last entry: it need not have a note if nothing came after it.
    last: (u64, LogSeq),
}

impl Ages {
    /// An entry is at that position now. `floor`: up to where everything is applied, which is asked only when there are many notes.
    pub(crate) fn note(&mut self, now_us: u64, seq: LogSeq, floor: impl FnOnce() -> LogSeq) {
        if seq > self.last.1 {
            self.last = (now_us, seq);
        }
        if self.notes.back().is_some_and(|(at_us, last)| now_us < at_us + NOTE_EVERY_US || seq <= *last) {
            return;
        }
        if self.notes.len() >= NOTES_MAX {
            let floor = floor();
            while self.notes.front().is_some_and(|(_, at)| *at <= floor) {
                self.notes.pop_front();
            }
        }
        // The oldest one tells for how long, so that it is better to be without further ones.
        if self.notes.len() < NOTES_MAX {
            self.notes.push_back((now_us, seq));
        }
    }

    /// For how long what is above the floor has been pending at least, microseconds.
    pub(crate) fn oldest(&self, now_us: u64, floor: LogSeq) -> u64 {
        let first = self.notes.iter().chain([&self.last]).find(|(_, seq)| *seq > floor);
        first.map_or(0, |(at_us, _)| now_us.saturating_sub(*at_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entry_that_is_not_applied_counts() {
        let mut ages = Ages::default();
        let second = 1_000_000;
        for number in 1..=20 {
            ages.note(number * second, LogSeq(10 * number), || LogSeq(0));
        }
        assert_eq!(ages.oldest(21 * second, LogSeq(0)), 20 * second);
        assert_eq!(ages.oldest(21 * second, LogSeq(55)), 15 * second);
        assert_eq!(ages.oldest(21 * second, LogSeq(200)), 0);
    }

    #[test]
    fn a_few_entries_and_none_after_them_are_old_in_the_end() {
        let mut ages = Ages::default();
        for (at_us, seq) in [(0, 1), (100_000, 2), (200_000, 3)] {
            ages.note(at_us, LogSeq(seq), || LogSeq(0));
        }
        assert_eq!(ages.oldest(20_200_000, LogSeq(1)), 20_000_000);
        assert_eq!(ages.oldest(20_200_000, LogSeq(3)), 0);
    }

    #[test]
    fn notes_are_bounded_and_the_oldest_one_stays() {
        let mut ages = Ages::default();
        for number in 1..=1_000 {
            ages.note(number * NOTE_EVERY_US, LogSeq(number), || LogSeq(3));
        }
        assert_eq!(ages.notes.len(), NOTES_MAX);
        assert_eq!(ages.oldest(1_000 * NOTE_EVERY_US, LogSeq(3)), 996 * NOTE_EVERY_US);
    }
}
