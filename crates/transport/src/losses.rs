//! How much the way loses, as the numbers of the peer's datagrams tell: the other direction is taken to be like this one.

use crate::limits::{DOUBLE_FROM_PERCENT, DOUBLE_UP_TO_PERCENT, LOSS_NUMBERS};

/// What came of some numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// Datagrams that have come, and of those that are sent twice, the first copies and the second ones.
    come: u64,
    first: u64,
    second: u64,
}

/// What came of the peer's last datagrams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses {
    /// The first number that counts.
    from: u64,
    /// The first [`LOSS_NUMBERS`] from there, and as many after them: what is late has that long to come, since some go another way than
    /// others, such as through a switch.
    parts: [Part; 2],
    percent: u64,
}

impl Losses {
    /// A datagram with this number has come, for the first time.
    #[inline]
    pub(crate) fn came(&mut self, number: u64, twice: bool) {
        if self.from == 0 || number >= self.from + 4 * LOSS_NUMBERS {
            // A peer begins anywhere, and after a long silence.
            *self = Losses { from: number, percent: self.percent, ..Losses::default() };
        }
        while number >= self.from + 2 * LOSS_NUMBERS {
            let Part { come, first, second } = self.parts[0];
            // Of those that came at all at least one copy did: what is missing of the others counts as well.
            let lost = LOSS_NUMBERS.saturating_sub(come) + first.saturating_sub(second);
            self.percent = lost * 100 / (LOSS_NUMBERS + first);
            self.parts = [self.parts[1], Part::default()];
            self.from += LOSS_NUMBERS;
        }
        if let Some(part) = self.part(number) {
            part.come += 1;
            part.first += u64::from(twice);
        }
    }

    /// The second copy of a datagram has come.
    pub(crate) fn came_again(&mut self, number: u64) {
        if let Some(part) = self.part(number) {
            part.second += 1;
        }
    }

    /// Where a number is counted, if it still is.
    #[inline]
    fn part(&mut self, number: u64) -> Option<&mut Part> {
        let passed = number.checked_sub(self.from)?;
        self.parts.get_mut((passed / LOSS_NUMBERS) as usize)
    }

    /// Whether so much is lost that a second copy of what nobody acknowledges is worth its bytes, and so little that it may be chance.
    pub(crate) fn worth_doubling(&self) -> bool {
        (DOUBLE_FROM_PERCENT..=DOUBLE_UP_TO_PERCENT).contains(&self.percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of which every `one_of`th is lost, each come up to `late` places late.
    fn after(one_of: u64, late: u64) -> Losses {
        let mut losses = Losses::default();
        let mut numbers: Vec<u64> = (5_000..5_000 + 8 * LOSS_NUMBERS).filter(|n| n % one_of != 0).collect();
        numbers.sort_by_key(|n| n + n * 7 % (late + 1));
        numbers.into_iter().for_each(|number| losses.came(number, false));
        losses
    }

    /// Numbers that are sent twice, of whose copies every `one_of`th is lost.
    fn after_copies(one_of: u64) -> Losses {
        let mut losses = Losses::default();
        for number in 5_000..5_000 + 8 * LOSS_NUMBERS {
            match [2 * number, 2 * number + 1].iter().filter(|copy| *copy % one_of != 0).count() {
                0 => {}
                copies => {
                    losses.came(number, true);
                    (1..copies).for_each(|_| losses.came_again(number));
                }
            }
        }
        losses
    }

    #[test]
    fn what_is_lost_is_told_from_what_is_late() {
        for late in [0, 3, 200] {
            assert!(after(20, late).worth_doubling(), "5 % are lost");
            assert!(!after(u64::MAX, late).worth_doubling(), "nothing is lost");
            assert!(after_copies(20).worth_doubling() && !after_copies(u64::MAX).worth_doubling());
            assert!(!after(3, late).worth_doubling(), "a third is lost: something is overloaded");
        }
    }
}
