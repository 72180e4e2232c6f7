//! Whether what several users did with one name has an order: every outcome follows from what was there before it, and the order keeps
//! to the times between which each call was under way.
//!
//! All orders are tried at once (Wing, Gong: "Testing and verifying concurrent objects", 1993): what the name may be, and which of the
//! calls under way have had their effect, from each question and each answer to the next. What two orders have in common is
//! remembered once, so the work grows with how many calls are under way at a time, not with how many there are.

use super::history::Span;
use std::collections::{BTreeSet, VecDeque};

/// Calls that may be under way at one time.
const AT_ONCE_MAX: usize = 16;

/// What came of a call. Inodes are told by their numbers, which no other ever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There was nothing, and now there is this: a create or link.
    Made(u64),
    /// There was something: a create or link that was refused.
    Exists,
    /// Whatever there was, now there is this: a rename.
    Replaced(u64),
    /// There was something, and now there is nothing: an unlink.
    Removed,
    /// There was nothing: an unlink that was refused, or a look.
    Missing,
    /// There was this: a look.
    Shown(u64),
}

impl Outcome {
    /// What there is afterwards, if this can come of what there was.
    fn after(self, before: Option<u64>) -> Option<Option<u64>> {
        match (self, before) {
            (Outcome::Made(inode), None) | (Outcome::Replaced(inode), _) => Some(Some(inode)),
            (Outcome::Exists, Some(_)) => Some(before),
            (Outcome::Removed, Some(_)) | (Outcome::Missing, None) => Some(None),
            (Outcome::Shown(inode), Some(shown)) if inode == shown => Some(before),
            _ => None,
        }
    }
}

/// All calls on one name, of which there is nothing in the beginning.
#[derive(Clone, Debug, Default)]
pub struct NameHistory {
    calls: Vec<(Outcome, Span)>,
}

/// One possible past: what there is now, and which of the calls under way have had their effect (a bit each).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Past {
    now: Option<u64>,
    done: u32,
}

impl NameHistory {
    /// A call was answered.
    pub fn add(&mut self, outcome: Outcome, span: Span) {
        self.calls.push((outcome, span));
    }

    /// How many calls there were.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Why no order explains the outcomes, if none does.
    pub fn judge(&self) -> Result<(), String> {
        let mut places: [Option<usize>; AT_ONCE_MAX] = [None; AT_ONCE_MAX];
        let mut pasts = BTreeSet::from([Past { now: None, done: 0 }]);
        for (_, answer, call) in self.events() {
            if !answer {
                let free = places.iter().position(Option::is_none);
                let free = free.ok_or_else(|| format!("more than {AT_ONCE_MAX} calls at once: too many to judge"))?;
                places[free] = Some(call);
                continue;
            }
            let place = places.iter().position(|place| *place == Some(call)).expect("it was asked before");
            pasts = self.with_effect(place, &places, &pasts);
            if pasts.is_empty() {
                return Err(self.explain(call));
            }
            places[place] = None;
        }
        Ok(())
    }

    /// All questions and answers (true) in the order of time; of those at one time the questions first.
    fn events(&self) -> Vec<(u64, bool, usize)> {
        let calls = self.calls.iter().enumerate();
        let mut events: Vec<(u64, bool, usize)> =
            calls.flat_map(|(call, (_, span))| [(span.asked, false, call), (span.answered, true, call)]).collect();
        events.sort_unstable();
        events
    }

    /// The pasts in which the call at `wanted` has had its effect, which is then forgotten: from each one before, whichever of the calls
    /// under way came first.
    fn with_effect(
        &self,
        wanted: usize,
        places: &[Option<usize>; AT_ONCE_MAX],
        before: &BTreeSet<Past>,
    ) -> BTreeSet<Past> {
        let mut todo: VecDeque<Past> = before.iter().copied().collect();
        let (mut met, mut after) = (before.clone(), BTreeSet::new());
        while let Some(past) = todo.pop_front() {
            if past.done & (1 << wanted) != 0 {
                after.insert(Past { done: past.done & !(1 << wanted), ..past });
                continue;
            }
            for (place, call) in places.iter().enumerate() {
                let Some(call) = call.filter(|_| past.done & (1 << place) == 0) else { continue };
                let Some(now) = self.calls[call].0.after(past.now) else { continue };
                let next = Past { now, done: past.done | 1 << place };
                if met.insert(next) {
                    todo.push_back(next);
                }
            }
        }
        after
    }

    /// The call of which no order can make sense, and what came last before its answer.
    fn explain(&self, call: usize) -> String {
        const SHOWN: usize = 12;
        let (outcome, span) = self.calls[call];
        let mut around: Vec<&(Outcome, Span)> =
            self.calls.iter().filter(|(_, other)| other.asked <= span.answered).collect();
        around.sort_by_key(|(_, span)| span.answered);
        let last = &around[around.len().saturating_sub(SHOWN)..];
        let lines: Vec<String> =
            last.iter().map(|(outcome, span)| format!("{}..{} {outcome:?}", span.asked, span.answered)).collect();
        format!("{outcome:?} of {}..{} after\n  {}", span.asked, span.answered, lines.join("\n  "))
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome::{Exists, Made, Missing, Removed, Replaced, Shown};
    use super::*;

    fn judge(calls: &[(Outcome, u64, u64)]) -> Result<(), String> {
        let mut history = NameHistory::default();
        calls.iter().for_each(|&(outcome, asked, answered)| history.add(outcome, Span { asked, answered }));
        history.judge()
    }

    #[test]
    fn what_has_an_order_is_right() {
        judge(&[]).unwrap();
        judge(&[
            (Missing, 1, 2),
            (Made(7), 3, 4),
            (Exists, 5, 6),
            (Shown(7), 7, 8),
            (Removed, 9, 10),
            (Missing, 11, 12),
        ])
        .unwrap();
        judge(&[(Replaced(7), 1, 2), (Replaced(8), 3, 4), (Shown(8), 5, 6), (Replaced(8), 7, 8)]).unwrap();
        // All at once, in an order that is not that of the questions.
        judge(&[(Removed, 1, 20), (Made(9), 2, 21), (Made(8), 3, 22), (Shown(8), 4, 23)]).unwrap();
        // A look that is under way for long may show what was there in between.
        judge(&[(Made(7), 1, 2), (Shown(8), 3, 20), (Replaced(8), 4, 5), (Removed, 6, 7)]).unwrap();
        // Of two at the same moment either may be the first.
        judge(&[(Made(7), 1, 2), (Exists, 1, 2)]).unwrap();
        judge(&[(Shown(7), 1, 2), (Made(7), 2, 3)]).unwrap();
    }

    #[test]
    fn two_creates_of_one_name_are_found() {
        assert!(judge(&[(Made(7), 1, 10), (Made(8), 2, 9)]).is_err());
        assert!(
            judge(&[(Made(7), 1, 10), (Removed, 3, 4), (Made(8), 2, 9), (Removed, 20, 21), (Removed, 22, 23)]).is_err()
        );
    }

    #[test]
    fn a_name_that_is_removed_twice_is_found() {
        assert!(judge(&[(Made(7), 1, 2), (Removed, 3, 9), (Removed, 4, 8)]).is_err());
    }

    #[test]
    fn a_lost_change_is_found() {
        assert!(judge(&[(Made(7), 1, 2), (Missing, 3, 4)]).is_err(), "a create");
        assert!(judge(&[(Made(7), 1, 2), (Removed, 3, 4), (Shown(7), 5, 6)]).is_err(), "an unlink");
        assert!(judge(&[(Made(7), 1, 2), (Replaced(8), 3, 4), (Shown(7), 5, 6)]).is_err(), "a rename");
        assert!(judge(&[(Removed, 1, 2)]).is_err(), "nothing was there in the beginning");
    }

    #[test]
    fn a_look_at_the_future_or_at_what_nobody_made_is_found() {
        assert!(judge(&[(Shown(7), 1, 2), (Made(7), 3, 4)]).is_err());
        assert!(judge(&[(Made(7), 1, 2), (Shown(8), 3, 4)]).is_err());
    }

    #[test]
    fn a_name_that_is_missing_while_it_is_replaced_is_found() {
        assert!(judge(&[(Made(7), 1, 2), (Replaced(8), 3, 9), (Missing, 4, 5)]).is_err());
        assert!(judge(&[(Made(7), 1, 2), (Replaced(8), 3, 9), (Made(9), 4, 5)]).is_err());
    }

    #[test]
    fn what_is_seen_to_and_fro_is_found() {
        let both = [(Made(1), 1, 2), (Replaced(7), 3, 100), (Replaced(8), 4, 99)];
        let with = |looks: &[(Outcome, u64, u64)]| judge(&[&both[..], looks].concat());
        with(&[(Shown(1), 5, 6), (Shown(8), 7, 8), (Shown(7), 9, 10)]).unwrap();
        assert!(with(&[(Shown(7), 5, 6), (Shown(8), 7, 8), (Shown(7), 9, 10)]).is_err());
        assert!(with(&[(Shown(7), 5, 6), (Shown(1), 7, 8)]).is_err(), "back to what was replaced");
    }

    #[test]
    fn more_calls_at_once_than_can_be_judged_are_refused() {
        let calls = |n: u64| (0..n).map(|n| (Missing, n, 100)).collect::<Vec<_>>();
        judge(&calls(AT_ONCE_MAX as u64)).unwrap();
        assert!(judge(&calls(AT_ONCE_MAX as u64 + 1)).unwrap_err().contains("too many"));
    }

    /// A long history of many at once is judged soon, and one wrong outcome in its midst is seen.
    #[test]
    fn long_histories_are_judged() {
        let mut calls = vec![];
        for round in 0..2_000 {
            let at = 100 * round;
            calls.extend((0..6).map(|n| (Replaced(round * 10 + n), at + n, at + 50 + n)));
            calls.push((Shown(round * 10 + round % 6), at + 60, at + 61));
        }
        judge(&calls).unwrap();
        calls[7 * 1_000 + 6].0 = Shown(9);
        assert!(judge(&calls).is_err());
    }
}
