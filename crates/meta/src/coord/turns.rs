//! Whose turn it is at moving directories, whose it is next, and which directories have moved lately: what the coordinator module knows.
//!
//! Users take turns, not requests: who asks for many waits for himself. What has moved is told with each turn, so that what somebody has
//! seen of the tree before it need not be looked at again.

use onpath_wire::ids::{InodeId, ShardId, Term, TxnId};
use std::collections::{BTreeMap, VecDeque};

/// Who asks for a turn.
pub(crate) type Asker = (ShardId, TxnId);

/// The turns. Volatile: a new term asks everybody first.
#[derive(Default)]
pub(crate) struct Turns {
    holder: Option<Asker>,
    /// Who waits, by user.
    waiting: BTreeMap<u32, VecDeque<Asker>>,
    /// The users of those, in the order of their next turns.
    order: VecDeque<u32>,
    /// Nobody may move directories since a former term.
    pub(crate) known: bool,
    moves: Moves,
}

/// Directories that have moved, with the numbers of the turns in which they have.
#[derive(Default)]
struct Moves {
    last: u64,
    /// What moved in this turn or before is not known any more.
    floor: u64,
    log: VecDeque<(u64, InodeId)>,
}

impl Turns {
    /// A new term: nothing that has a number of a former one is known.
    pub(crate) fn begin(&mut self, term: Term) {
        self.moves = Moves { last: term.first_seq(), floor: term.first_seq(), log: VecDeque::new() };
    }

    /// Whose turn it is.
    pub(crate) fn holder(&self) -> Option<Asker> {
        self.holder
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    /// Somebody waits for a turn, for this user; whose turn it is waits for none.
    pub(crate) fn wait(&mut self, uid: u32, asker: Asker) {
        if self.holder == Some(asker) {
            return;
        }
        let of_user = self.waiting.entry(uid).or_default();
        if of_user.is_empty() {
            self.order.push_back(uid);
        }
        if !of_user.contains(&asker) {
            of_user.push_back(asker);
        }
    }

    /// Somebody waits no longer.
    pub(crate) fn leave(&mut self, uid: u32, asker: Asker) {
        let Some(of_user) = self.waiting.get_mut(&uid) else { return };
        of_user.retain(|other| *other != asker);
        if of_user.is_empty() {
            self.waiting.remove(&uid);
            self.order.retain(|other| *other != uid);
        }
    }

    /// Gives the next turn, if it may be given: to the user whose last one was longest ago, or who came first. Whoever `is_over` gets none.
    pub(crate) fn give(&mut self, is_over: impl Fn(Asker) -> bool) {
        while self.known && self.holder.is_none() {
            let Some(uid) = self.order.pop_front() else { return };
            let of_user = self.waiting.get_mut(&uid).expect("it is in order while it waits");
            self.holder = of_user.pop_front().filter(|&asker| !is_over(asker));
            if of_user.is_empty() {
                self.waiting.remove(&uid);
            } else {
                self.order.push_back(uid);
            }
        }
    }

    /// The holder of this turn says that it is over, and what has moved in it. False if it is over already.
    pub(crate) fn end(&mut self, guard: TxnId, moved: &[InodeId], remembered: usize) -> bool {
        let ends = self.take_back(guard);
        if ends && !moved.is_empty() {
            self.moves.add(moved, remembered);
        }
        ends
    }

    /// This turn is over, and nobody knows what has moved in it. False if it was over already.
    pub(crate) fn lose(&mut self, guard: TxnId) -> bool {
        let ends = self.take_back(guard);
        if ends {
            self.moves.forget();
        }
        ends
    }

    fn take_back(&mut self, guard: TxnId) -> bool {
        let ends = self.holder.is_some_and(|(_, holder)| holder == guard);
        if ends {
            self.holder = None;
        }
        ends
    }

    /// The number of the last turn in which something has moved.
    pub(crate) fn number(&self) -> u64 {
        self.moves.last
    }

    /// What has moved after this turn; none if that is not known.
    pub(crate) fn moved_since(&self, number: u64) -> Option<Vec<InodeId>> {
        let Moves { last, floor, log } = &self.moves;
        let later = log.iter().rev().take_while(|(turn, _)| *turn > number).map(|&(_, dir)| dir);
        (*floor..=*last).contains(&number).then(|| later.collect())
    }
}

impl Moves {
    fn add(&mut self, moved: &[InodeId], remembered: usize) {
        self.last += 1;
        self.log.extend(moved.iter().map(|&dir| (self.last, dir)));
        while self.log.len() > remembered {
            let (turn, _) = self.log.pop_front().expect("there are more than none");
            self.floor = turn;
        }
    }

    fn forget(&mut self) {
        self.last += 1;
        self.floor = self.last;
        self.log.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::ids::TxnSeq;

    fn asker(seq: u64) -> Asker {
        (ShardId(1), TxnId { coordinator: ShardId(1), seq: TxnSeq(seq) })
    }

    fn turns() -> Turns {
        let mut turns = Turns::default();
        turns.begin(Term(3));
        turns.known = true;
        turns
    }

    /// Gives the next turn and ends it.
    fn next(turns: &mut Turns) -> Option<u64> {
        turns.give(|_| false);
        let (_, guard) = turns.holder()?;
        assert!(turns.end(guard, &[], 8));
        Some(guard.seq.0)
    }

    #[test]
    fn users_take_turns() {
        let mut turns = turns();
        (0..1_000).for_each(|n| turns.wait(1_000, asker(n)));
        turns.wait(1_000, asker(5)); // a copy
        assert_eq!((turns.waiting(), next(&mut turns)), (1_000, Some(0)));
        [(7, 2_000), (7, 2_001), (8, 3_000)].into_iter().for_each(|(uid, n)| turns.wait(uid, asker(n)));
        let order: Vec<_> = (0..6).map_while(|_| next(&mut turns)).collect();
        assert_eq!(order, [1, 2_000, 3_000, 2, 2_001, 3], "a user waits for one turn of each other");
        assert_eq!((turns.waiting(), turns.order.len()), (996, 1));
        (5..1_000).for_each(|n| turns.leave(1_000, asker(n)));
        assert_eq!((turns.waiting(), turns.order.len()), (1, 1));
        turns.give(|_| false);
        turns.wait(1_000, asker(4)); // a copy of who has it
        turns.leave(1_000, asker(4));
        assert_eq!((turns.holder(), turns.waiting(), turns.order.len()), (Some(asker(4)), 0, 0));
    }

    #[test]
    fn a_turn_is_given_to_nobody_who_has_gone_and_not_before_it_may() {
        let mut turns = turns();
        turns.known = false;
        [1, 2, 3].into_iter().for_each(|n| turns.wait(n as u32, asker(n)));
        assert_eq!(next(&mut turns), None);
        turns.known = true;
        turns.give(|(_, guard)| guard.seq.0 != 2);
        assert_eq!(turns.holder(), Some(asker(2)));
        turns.give(|_| false);
        assert_eq!((turns.holder(), turns.waiting()), (Some(asker(2)), 1), "one at a time");
        assert!(!turns.end(asker(3).1, &[], 8) && turns.end(asker(2).1, &[], 8));
    }

    #[test]
    fn what_has_moved_is_known_for_a_while() {
        let mut turns = turns();
        let (begin, dirs) = (turns.number(), [1, 2, 3, 4].map(InodeId));
        let moves = |turns: &mut Turns, n: u64, moved: Option<&[InodeId]>| {
            turns.wait(0, asker(n));
            turns.give(|_| false);
            assert!(match moved {
                Some(moved) => turns.end(asker(n).1, moved, 3),
                None => turns.lose(asker(n).1),
            });
        };
        assert_eq!(turns.moved_since(begin), Some(vec![]));
        assert_eq!(
            (turns.moved_since(begin - 1), turns.moved_since(begin + 1)),
            (None, None),
            "of no turn of this term"
        );
        moves(&mut turns, 1, Some(&dirs[..2]));
        moves(&mut turns, 2, Some(&[]));
        moves(&mut turns, 3, Some(&dirs[2..3]));
        assert_eq!(turns.moved_since(begin), Some(vec![dirs[2], dirs[1], dirs[0]]));
        assert_eq!(turns.moved_since(begin + 1), Some(vec![dirs[2]]));
        moves(&mut turns, 4, Some(&dirs[3..]));
        assert_eq!(turns.moved_since(begin), None, "there were more than are remembered");
        assert_eq!(turns.moved_since(begin + 1), Some(vec![dirs[3], dirs[2]]));
        let before = turns.number();
        moves(&mut turns, 5, None);
        assert_eq!((turns.moved_since(before), turns.moved_since(turns.number())), (None, Some(vec![])));
    }
}
