//! Random numbers from a seed (xorshift), the same on every machine.

/// A generator.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `end`.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        (((self.word() >> 32) * u64::from(end)) >> 32) as u32
    }

    /// True once in `times` on average.
    pub(crate) fn once_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }
}
