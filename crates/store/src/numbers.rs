//! Up to where a role may give out numbers that never repeat: what its records say, whatever became of the numbers.

use onpath_wire::disk::record::Counter;
use std::collections::BTreeMap;

/// Each kind of numbers, with the last that is reserved.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReservedNumbers(BTreeMap<Counter, u64>);

impl ReservedNumbers {
    /// The last number that is reserved; 0 if none is.
    pub fn upto(&self, counter: Counter) -> u64 {
        self.0.get(&counter).copied().unwrap_or(0)
    }

    /// Numbers up to this one are reserved.
    pub fn raise(&mut self, counter: Counter, upto: u64) {
        let last = self.0.entry(counter).or_default();
        *last = upto.max(*last);
    }

    /// All kinds of which some are reserved.
    pub fn all(&self) -> impl Iterator<Item = (Counter, u64)> {
        self.0.iter().map(|(counter, upto)| (*counter, *upto))
    }
}
