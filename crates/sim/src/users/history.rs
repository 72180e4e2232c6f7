//! Whether what several users wrote to, cleared from and read at one place of a file has an order: every read
//! shows the last write before it, and the order keeps to the times between which each call was under way.
//!
//! Writes carry values of their own, so the question is decided exactly for them (Gibbons, Korach: "Testing shared
//! memories", 1997): all calls about one value form a *zone*; zones that no order can tell apart are a violation.
//! Where the file is truncated, here or elsewhere, a write that meets that may be done twice while it is under way
//! (docs/semantics.md), and all clears write the same nothing: then only what must be true of each read, and of each two of
//! them, is checked.

use std::collections::BTreeMap;

/// From the question to the answer, in steps of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// When it was asked.
    pub asked: u64,
    /// When it was answered.
    pub answered: u64,
}

impl Span {
    /// Whether this was answered before the other was asked.
    pub fn before(self, other: Span) -> bool {
        self.answered < other.asked
    }
}

/// All calls about one place.
#[derive(Clone, Debug, Default)]
pub struct History {
    writes: BTreeMap<u32, Span>,
    clears: Vec<Span>,
    reads: Vec<(Option<u32>, Span)>,
}

/// All calls about one value lie around `low..high`; if forward, the value is there all that time.
#[derive(Clone, Copy, Debug)]
struct Zone {
    low: u64,
    high: u64,
    forward: bool,
}

impl History {
    /// A value was written; no other call writes it.
    pub fn write(&mut self, value: u32, span: Span) {
        let before = self.writes.insert(value, span);
        assert!(before.is_none(), "values are written once");
    }

    /// Nothing was written.
    pub fn clear(&mut self, span: Span) {
        self.clears.push(span);
    }

    /// A value, or nothing, was read.
    pub fn read(&mut self, value: Option<u32>, span: Span) {
        self.reads.push((value, span));
    }

    /// Why no order explains the reads, if none does. `truncated`: whether the file ever was, at whatever place.
    pub fn judge(&self, truncated: bool) -> Result<(), String> {
        assert!(truncated || self.clears.is_empty(), "only truncations clear");
        for (value, span) in &self.reads {
            match value {
                None => self.nothing(*span)?,
                Some(value) => self.something(*value, *span)?,
            }
        }
        if truncated { self.nothing_stale() } else { self.zones() }
    }

    /// No read shows a value that was surely written over before: by a write that was answered, or one whose value
    /// another read had shown.
    fn nothing_stale(&self) -> Result<(), String> {
        for (value, read) in self.reads.iter().filter_map(|(value, read)| Some(((*value)?, *read))) {
            let write = self.writes[&value];
            let answered = self.writes.values().filter(|other| other.before(read)).map(|other| other.asked);
            let shown = self.reads.iter().filter(|(_, other)| other.before(read));
            let shown = shown.filter_map(|(other, _)| Some(self.writes.get(&(*other)?)?.asked));
            if let Some(over) = answered.chain(shown).max().filter(|over| *over > write.answered) {
                return Err(format!("{read:?} shows {value} of {write:?}, written over by a write asked at {over}"));
            }
        }
        Ok(())
    }

    /// A read of nothing: some clear, or the beginning, was not surely written over.
    fn nothing(&self, read: Span) -> Result<(), String> {
        let over = self.writes.values().filter(|write| write.before(read)).map(|write| write.asked).max();
        let Some(over) = over else { return Ok(()) };
        let explains = |clear: &&Span| clear.asked < read.answered && clear.answered > over;
        match self.clears.iter().find(explains) {
            Some(_) => Ok(()),
            None => Err(format!("{read:?} shows nothing after a write asked at {over}")),
        }
    }

    fn something(&self, value: u32, read: Span) -> Result<(), String> {
        let Some(write) = self.writes.get(&value) else { return Err(format!("{read:?} shows {value}, never written")) };
        if read.before(*write) {
            return Err(format!("{read:?} shows {value}, written at {write:?}"));
        }
        match self.clears.iter().find(|clear| write.before(**clear) && clear.before(read)) {
            None => Ok(()),
            Some(clear) => Err(format!("{read:?} shows {value} of {write:?}, which {clear:?} cleared")),
        }
    }

    fn zones(&self) -> Result<(), String> {
        let mut spans: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        let writes = self.writes.iter().map(|(value, span)| (*value, *span));
        let reads = self.reads.iter().filter_map(|(value, span)| Some(((*value)?, *span)));
        for (value, span) in writes.chain(reads) {
            let (first_answer, last_question) = spans.entry(value).or_insert((u64::MAX, 0));
            *first_answer = span.answered.min(*first_answer);
            *last_question = span.asked.max(*last_question);
        }
        let zone = |&(answer, question): &(u64, u64)| Zone {
            low: answer.min(question),
            high: answer.max(question),
            forward: answer < question,
        };
        let (mut forward, backward): (Vec<_>, Vec<_>) = spans.values().map(zone).partition(|zone| zone.forward);
        forward.sort_by_key(|zone| zone.low);
        for pair in forward.windows(2) {
            if pair[0].high > pair[1].low {
                return Err(format!(
                    "{:?} and {:?} overlap: each is seen before and after the other",
                    pair[0], pair[1]
                ));
            }
        }
        for zone in backward {
            let index = forward.partition_point(|other| other.low < zone.low);
            if let Some(around) = index.checked_sub(1).map(|index| forward[index])
                && around.high > zone.high
            {
                return Err(format!("{zone:?} lies within {around:?}, whose value is seen before and after"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(asked: u64, answered: u64) -> Span {
        Span { asked, answered }
    }

    fn history(writes: &[(u32, Span)], clears: &[Span], reads: &[(u32, Span)]) -> Result<(), String> {
        let mut history = History::default();
        writes.iter().for_each(|(value, span)| history.write(*value, *span));
        clears.iter().for_each(|span| history.clear(*span));
        reads.iter().for_each(|(value, span)| history.read((*value > 0).then_some(*value), *span));
        history.judge(!clears.is_empty())
    }

    #[test]
    fn what_has_an_order_is_right() {
        history(&[], &[], &[(0, span(1, 2))]).unwrap();
        history(&[(1, span(1, 10))], &[], &[(0, span(2, 3)), (1, span(4, 5))]).unwrap();
        history(&[(1, span(1, 10)), (2, span(2, 9))], &[], &[(2, span(3, 4)), (1, span(5, 20))]).unwrap();
        history(&[(1, span(1, 2)), (2, span(3, 9))], &[], &[(1, span(4, 5)), (2, span(6, 7))]).unwrap();
        history(&[(1, span(1, 2))], &[span(3, 8)], &[(1, span(4, 5)), (0, span(6, 9))]).unwrap();
        history(&[(1, span(1, 2)), (2, span(5, 6))], &[span(3, 4)], &[(2, span(7, 8))]).unwrap();
    }

    #[test]
    fn a_stale_read_is_found() {
        assert!(history(&[(1, span(1, 2)), (2, span(3, 4))], &[], &[(1, span(5, 6))]).is_err());
        assert!(history(&[(1, span(1, 2))], &[], &[(0, span(3, 4))]).is_err());
    }

    #[test]
    fn a_read_of_the_future_or_of_nobodys_value_is_found() {
        assert!(history(&[(1, span(5, 6))], &[], &[(1, span(1, 2))]).is_err());
        assert!(history(&[(1, span(1, 2))], &[], &[(7, span(3, 4))]).is_err());
    }

    #[test]
    fn values_that_go_to_and_fro_are_found() {
        // Both writes are under way all the time, but two readers agree that 1 comes before 2 and before 1.
        let writes = [(1, span(1, 100)), (2, span(2, 99))];
        assert!(history(&writes, &[], &[(1, span(3, 4)), (2, span(5, 6)), (1, span(7, 8))]).is_err());
        assert!(history(&writes, &[], &[(1, span(3, 4)), (2, span(5, 6)), (1, span(7, 8)), (2, span(9, 10))]).is_err());
    }

    #[test]
    fn beside_truncations_a_stale_read_is_found_too() {
        let clears = [span(90, 91)];
        history(&[(1, span(1, 20)), (2, span(2, 9))], &clears, &[(1, span(3, 4)), (2, span(5, 6)), (1, span(7, 8))])
            .unwrap();
        assert!(history(&[(1, span(1, 2)), (2, span(3, 4))], &clears, &[(1, span(5, 6))]).is_err());
        let both = [(1, span(1, 2)), (2, span(3, 40))];
        assert!(history(&both, &clears, &[(2, span(5, 6)), (1, span(7, 8))]).is_err(), "seen, then gone");
    }

    #[test]
    fn bytes_that_a_truncation_took_do_not_come_back() {
        assert!(history(&[(1, span(1, 2))], &[span(3, 4)], &[(1, span(5, 6))]).is_err());
        assert!(history(&[(1, span(1, 2)), (2, span(7, 8))], &[span(3, 4)], &[(0, span(9, 10))]).is_err());
    }

    #[test]
    fn a_write_that_met_a_truncation_elsewhere_may_be_done_twice() {
        let mut history = History::default();
        history.write(1, span(1, 20));
        history.write(2, span(2, 8));
        for (value, read) in [(1, span(3, 4)), (2, span(9, 10)), (1, span(11, 12))] {
            history.read(Some(value), read);
        }
        history.judge(true).unwrap();
        assert!(history.judge(false).is_err(), "else it is done once");
    }
}
