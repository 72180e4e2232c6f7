//! Pieces appended to one file: each is there once and whole, none lies over another or leaves a gap, their order keeps to the
//! times between which their appends were under way, and what was once seen at a place stays there.

use super::history::Span;
use super::pattern::{Marks, PIECE_MIN};
use std::collections::BTreeMap;

/// A read that came to the end of the file.
pub(crate) struct ToEnd {
    pub(crate) span: Span,
    pub(crate) end: u64,
}

/// Which piece lies where, and when its append was under way.
#[derive(Default)]
pub(crate) struct Pieces {
    /// Length and append, by offset.
    pub(crate) seen: BTreeMap<u64, (u64, u32)>,
    /// Of all writers, in their order.
    pub(crate) lengths: Vec<u64>,
    /// Of the appends that were answered.
    pub(crate) spans: BTreeMap<u32, Span>,
    pub(crate) to_end: Vec<ToEnd>,
}

impl Pieces {
    /// A piece was seen: always the same one at the same place.
    fn see(&mut self, offset: u64, writer: u32) -> Result<(), String> {
        let length = self.lengths[writer as usize - 1];
        match self.seen.insert(offset, (length, writer)) {
            Some((_, before)) if before != writer => Err(format!("at {offset} was append {before}, now {writer}")),
            _ => Ok(()),
        }
    }

    /// Takes what a read showed from `offset` on; `to_end`: there was no more.
    pub(crate) fn read(&mut self, marks: &Marks, offset: u64, bytes: &[u8], to_end: bool) -> Result<(), String> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if rest.len() < PIECE_MIN && !to_end {
                break;
            }
            let place = offset + at as u64;
            let writer = marks.whose(rest).ok_or_else(|| format!("at {place}: no append begins here"))?;
            let length = self.lengths[writer as usize - 1] as usize;
            if rest.len() < length && to_end {
                return Err(format!("at {place}: the file ends within append {writer}"));
            }
            marks.read(&rest[..length.min(rest.len())]).map_err(|why| format!("at {place}: {why}"))?;
            self.see(place, writer)?;
            at += length;
        }
        Ok(())
    }

    /// Whether every append had returned when this was asked: an earlier read at the end may have missed some.
    pub(crate) fn all_before(&self, read: Span) -> bool {
        self.spans.values().all(|append| append.before(read))
    }

    /// What is wrong after everything was read to the end.
    pub(crate) fn judge(&self) -> Result<(), String> {
        let mut expected = 0;
        let mut places = BTreeMap::new();
        for (&offset, &(length, writer)) in &self.seen {
            if offset != expected {
                return Err(format!("append {writer} lies at {offset} instead of {expected}"));
            }
            if places.insert(writer, offset).is_some() {
                return Err(format!("append {writer} is there twice"));
            }
            expected = offset + length;
        }
        if let Some(lost) = self.spans.keys().find(|writer| !places.contains_key(writer)) {
            return Err(format!("append {lost} is lost"));
        }
        // In the order of the file nobody may have been asked after a later one was answered.
        let mut latest = (0, 0);
        for &(_, writer) in self.seen.values() {
            let Some(span) = self.spans.get(&writer) else { continue };
            if span.answered < latest.0 {
                return Err(format!("append {writer} was answered before {} was asked, and lies behind it", latest.1));
            }
            latest = latest.max((span.asked, writer));
        }
        for read in &self.to_end {
            let missed = |(writer, span): &(&u32, &Span)| span.before(read.span) && places[writer] >= read.end;
            if let Some((writer, _)) = self.spans.iter().find(missed) {
                return Err(format!("{:?} ends at {} without append {writer}", read.span, read.end));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(appends: &[(u64, u64)], seen: &[(u64, u32)]) -> Result<(), String> {
        let mut pieces = Pieces { lengths: vec![10; appends.len()], ..Pieces::default() };
        for (index, &(asked, answered)) in appends.iter().enumerate() {
            pieces.spans.insert(index as u32 + 1, Span { asked, answered });
        }
        for &(offset, writer) in seen {
            pieces.see(offset, writer)?;
        }
        pieces.judge()
    }

    #[test]
    fn an_append_is_there_once_in_order_and_without_a_gap() {
        pieces(&[(1, 2), (3, 4)], &[(0, 1), (10, 2), (0, 1)]).unwrap();
        pieces(&[(1, 4), (2, 3)], &[(0, 1), (10, 2)]).unwrap();
        pieces(&[(1, 4), (2, 3)], &[(0, 2), (10, 1)]).unwrap();
        assert!(pieces(&[(1, 2), (3, 4)], &[(0, 1)]).is_err(), "one is lost");
        assert!(pieces(&[(1, 2), (3, 4)], &[(0, 2), (10, 1)]).is_err(), "in the wrong order");
        assert!(pieces(&[(1, 2), (3, 4)], &[(0, 1), (20, 2)]).is_err(), "with a gap");
        assert!(pieces(&[(1, 2), (3, 4)], &[(0, 1), (10, 2), (20, 1)]).is_err(), "one twice");
        assert!(pieces(&[(1, 2), (3, 4)], &[(0, 1), (0, 2), (10, 2)]).is_err(), "one in the place of another");
    }

    #[test]
    fn a_read_that_was_asked_before_an_append_returned_is_not_the_last_one() {
        let mut pieces = Pieces::default();
        pieces.spans.insert(1, Span { asked: 1, answered: 3 });
        assert!(
            !pieces.all_before(Span { asked: 2, answered: 4 }) && pieces.all_before(Span { asked: 4, answered: 5 })
        );
    }

    #[test]
    fn a_read_to_the_end_shows_what_was_appended_before_it() {
        let mut pieces = Pieces { lengths: vec![10], ..Pieces::default() };
        pieces.spans.insert(1, Span { asked: 1, answered: 2 });
        pieces.see(0, 1).unwrap();
        pieces.to_end.push(ToEnd { span: Span { asked: 2, answered: 5 }, end: 0 });
        pieces.judge().unwrap();
        pieces.to_end.push(ToEnd { span: Span { asked: 3, answered: 5 }, end: 0 });
        assert!(pieces.judge().is_err());
    }
}
