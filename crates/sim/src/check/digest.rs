//! A hash of what the checker knows: courses of events after which it will say the same are the same to an exploration.

use super::Checker;
use xxhash_rust::xxh3::xxh3_64;

impl Checker {
    /// A hash of all that bears on what this will say: which changes happened in which order, and between which of them
    /// everything else did.
    pub(crate) fn digest(&self) -> u64 {
        self.digest.0 ^ self.digest.1
    }

    pub(super) fn happened(&mut self, what: [u64; 3]) {
        self.digest.0 = hash_of(what, self.digest.0);
    }

    pub(super) fn meanwhile(&mut self, what: [u64; 3]) {
        self.digest.1 = self.digest.1.wrapping_add(hash_of(what, self.log.end()));
    }
}

fn hash_of([a, b, c]: [u64; 3], d: u64) -> u64 {
    let mut bytes = [0; 32];
    for (to, from) in bytes.chunks_exact_mut(8).zip([a, b, c, d]) {
        to.copy_from_slice(&from.to_le_bytes());
    }
    xxh3_64(&bytes)
}
