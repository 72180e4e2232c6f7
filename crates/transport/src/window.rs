//! Which of the last numbers were seen, in a fixed number of bits.

/// What is known of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It was not seen.
    New,
    /// It was.
    Before,
    /// It is older than the window.
    Unknown,
}

/// The last `64 × WORDS` numbers up to the highest one seen.
#[derive(Clone, Debug)]
pub(crate) struct Window<const WORDS: usize> {
    highest: u64,
    bits: [u64; WORDS],
}

impl<const WORDS: usize> Window<WORDS> {
    const BITS: u64 = 64 * WORDS as u64;

    pub(crate) fn new() -> Self {
        Window { highest: 0, bits: [0; WORDS] }
    }

    fn place(number: u64) -> (usize, u64) {
        ((number / 64 % WORDS as u64) as usize, 1 << (number % 64))
    }

    #[inline]
    pub(crate) fn seen(&self, number: u64) -> Seen {
        if number > self.highest {
            return Seen::New;
        }
        if self.highest - number >= Self::BITS {
            return Seen::Unknown;
        }
        let (word, bit) = Self::place(number);
        if self.bits[word] & bit == 0 { Seen::New } else { Seen::Before }
    }

    /// Remembers a number that is not older than the window.
    #[inline]
    pub(crate) fn insert(&mut self, number: u64) {
        if number > self.highest {
            self.advance(number);
        }
        let (word, bit) = Self::place(number);
        self.bits[word] |= bit;
    }

    fn advance(&mut self, number: u64) {
        let ahead = number - self.highest;
        if ahead >= Self::BITS {
            self.bits = [0; WORDS];
        } else {
            // Usually the next number, so bit by bit until a whole word can be cleared.
            let mut next = self.highest + 1;
            while next <= number {
                let (word, bit) = Self::place(next);
                if next.is_multiple_of(64) && number - next >= 63 {
                    self.bits[word] = 0;
                    next += 64;
                } else {
                    self.bits[word] &= !bit;
                    next += 1;
                }
            }
        }
        self.highest = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_number_is_new_once() {
        let mut window: Window<64> = Window::new();
        for number in [1, 2, 5, 3, 4096, 4097] {
            assert_eq!(window.seen(number), Seen::New, "{number}");
            window.insert(number);
            assert_eq!(window.seen(number), Seen::Before, "{number}");
        }
        assert_eq!(window.seen(1), Seen::Unknown, "4096 numbers behind");
        assert_eq!(window.seen(2), Seen::Before);
        assert_eq!(window.seen(4), Seen::New);
        window.insert(u64::MAX);
        assert_eq!(window.seen(4097), Seen::Unknown);
        assert_eq!(window.seen(u64::MAX - 4095), Seen::New);
    }

    #[test]
    fn it_is_a_set_of_the_last_numbers() {
        let (mut window, mut model, mut highest): (Window<2>, BTreeSet<u64>, u64) = (Window::new(), BTreeSet::new(), 0);
        let mut state = 1_u64;
        for _ in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = (highest + 1 + (state >> 33) % 40).saturating_sub((state >> 50) % 160).max(1);
            let expected = match (highest.saturating_sub(number) >= 128, model.contains(&number)) {
                (true, _) => Seen::Unknown,
                (_, true) => Seen::Before,
                _ => Seen::New,
            };
            assert_eq!(window.seen(number), expected, "{number} of {highest}");
            if expected == Seen::New {
                window.insert(number);
                model.insert(number);
                highest = highest.max(number);
            }
        }
    }
}
