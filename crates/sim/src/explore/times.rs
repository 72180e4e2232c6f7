//! Times of a file, as those see them who write it, set its modification time and look at it (R-19, V-7): there is one order of what was done
//! that explains what everybody was shown, and agrees with which calls were over before others began. In it each change has a later
//! time of change (ctime) than the one before, what a write leaves as modification time (mtime) is that of its change, and what somebody sets
//! stays until the next write.

use crate::users::history::Span;
use onpath_wire::attr::AttrWire;
use std::collections::HashSet;

/// What a call does to times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timed {
    /// The file is written.
    Written,
    /// Its modification time is set, of which the answer shows this.
    Set(i64, Shown),
    /// Somebody is shown this.
    Looked(Shown),
}

/// The times that somebody is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    mtime: i64,
    ctime: i64,
}

impl From<&AttrWire> for Shown {
    fn from(attr: &AttrWire) -> Shown {
        Shown { mtime: attr.mtime, ctime: attr.ctime }
    }
}

/// All that was done and answered, and the times before that.
#[derive(Clone, Debug)]
pub(super) struct Times {
    begin: Shown,
    calls: Vec<(Span, Timed)>,
}

/// The file after some of the calls.
#[derive(Clone, PartialEq, Eq, Hash)]
struct After {
    done: Vec<bool>,
    /// The time of the last change, if anybody was shown it: else it is later than that of a change before it.
    ctime: Result<i64, i64>,
    /// The modification time, if it is not that of the last change.
    set: Option<i64>,
}

impl After {
    /// The same after one more call; nothing if that could not come next.
    fn then(&self, index: usize, timed: Timed) -> Option<After> {
        let mut after = self.clone();
        after.done[index] = true;
        match timed {
            Timed::Written => (after.ctime, after.set) = (Err(self.ctime.unwrap_or_else(|before| before)), None),
            Timed::Set(value, shown) => {
                after.ctime = Err(self.ctime.unwrap_or_else(|before| before));
                after.set = Some(value);
                after = after.shows(shown)?;
            }
            Timed::Looked(shown) => after = after.shows(shown)?,
        }
        Some(after)
    }

    /// The same if somebody is shown this.
    fn shows(mut self, shown: Shown) -> Option<After> {
        let is_its = match self.ctime {
            Ok(ctime) => shown.ctime == ctime,
            Err(before) => shown.ctime > before,
        };
        self.ctime = Ok(shown.ctime);
        (is_its && shown.mtime == self.set.unwrap_or(shown.ctime)).then_some(self)
    }
}

impl Times {
    /// Nothing was done yet.
    pub(super) fn new(begin: Shown) -> Times {
        Times { begin, calls: vec![] }
    }

    /// A call is answered.
    pub(super) fn answered(&mut self, span: Span, timed: Timed) {
        self.calls.push((span, timed));
    }

    /// Looks for an order that explains what everybody was shown.
    ///
    /// # Errors
    /// There is none: the calls, in words.
    pub(super) fn judge(&self) -> Result<(), String> {
        let Shown { mtime, ctime } = self.begin;
        let none = After { done: vec![false; self.calls.len()], ctime: Ok(ctime), set: Some(mtime) };
        let (mut seen, mut todo) = (HashSet::new(), vec![none]);
        while let Some(state) = todo.pop() {
            let left = || self.calls.iter().enumerate().filter(|(index, _)| !state.done[*index]);
            // Who began when another was over comes behind it.
            let Some(until) = left().map(|(_, (span, _))| span.answered).min() else { return Ok(()) };
            let next = left().filter(|(_, (span, _))| span.asked <= until);
            todo.extend(
                next.filter_map(|(index, (_, timed))| state.then(index, *timed)).filter(|s| seen.insert(s.clone())),
            );
        }
        Err(format!("no order explains these times: {:#?}, from {:?} on", self.calls, self.begin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Shown = Shown { mtime: 100, ctime: 100 };

    fn judge(calls: &[(u64, u64, Timed)]) -> bool {
        let mut times = Times::new(BEGIN);
        calls.iter().for_each(|&(asked, answered, timed)| times.answered(Span { asked, answered }, timed));
        times.judge().is_ok()
    }

    fn looked(mtime: i64, ctime: i64) -> Timed {
        Timed::Looked(Shown { mtime, ctime })
    }

    fn set(value: i64, ctime: i64) -> Timed {
        Timed::Set(value, Shown { mtime: value, ctime })
    }

    #[test]
    fn a_write_moves_times_on() {
        assert!(judge(&[(1, 2, looked(100, 100)), (3, 4, Timed::Written), (5, 6, looked(110, 110))]));
        assert!(!judge(&[(3, 4, Timed::Written), (5, 6, looked(100, 100))]), "nobody sees the write");
        assert!(!judge(&[(3, 4, Timed::Written), (5, 6, looked(90, 90))]), "time goes back");
        assert!(!judge(&[(3, 4, Timed::Written), (5, 6, looked(100, 110))]), "only the time of the change moves");
        assert!(!judge(&[(5, 6, looked(110, 110))]), "nobody has written");
    }

    #[test]
    fn while_a_write_is_under_way_it_is_seen_or_not_and_then_seen() {
        let (before, after) = (looked(100, 100), looked(110, 110));
        assert!(judge(&[(1, 10, Timed::Written), (2, 3, before), (4, 5, after)]));
        assert!(!judge(&[(1, 10, Timed::Written), (2, 3, after), (4, 5, before)]));
        assert!(!judge(&[(1, 10, Timed::Written), (2, 3, after), (4, 5, looked(120, 120))]), "it is one write");
    }

    #[test]
    fn a_time_that_is_set_stays_until_the_next_write() {
        assert!(judge(&[(1, 2, Timed::Written), (3, 4, set(5, 120)), (5, 6, looked(5, 120))]));
        assert!(!judge(&[(1, 2, Timed::Written), (3, 4, set(5, 120)), (5, 6, looked(110, 120))]), "the write is back");
        assert!(
            !judge(&[(1, 2, set(5, 120)), (3, 4, Timed::Written), (5, 6, looked(5, 130))]),
            "the write is not seen"
        );
        assert!(judge(&[(1, 4, set(5, 120)), (2, 3, Timed::Written), (5, 6, looked(5, 120))]));
        assert!(judge(&[(1, 4, set(5, 120)), (2, 3, Timed::Written), (5, 6, looked(130, 130))]));
        assert!(!judge(&[(1, 2, Timed::Set(5, Shown { mtime: 6, ctime: 120 }))]), "its answer shows another time");
        assert!(!judge(&[(1, 2, set(5, 100))]), "a change has a time of its own");
    }
}
