//! How many operations of each kind a role has answered, how, and how long each took, for whoever asks the role.
//!
//! A role is used by one thread at a time, so these are plain numbers; and it has no clock but the reading that came with its input. So an
//! operation that waits for nobody takes no time here: what is told is how long others let it wait.

use onpath_wire::codec::Blob;
use onpath_wire::report::{LatencyReport, OperationReport, Outcome};

/// Latencies by their power of two of nanoseconds, up to a minute.
const POWERS: usize = 36;

/// Counts the operations of one role.
#[derive(Debug)]
pub struct Meter {
    names: &'static [&'static str],
    kinds: Box<[Counts]>,
}

/// What became of one kind of operation.
#[derive(Clone, Debug)]
struct Counts {
    powers: [u64; POWERS],
    microseconds: u64,
    refused: u64,
    failed: u64,
}

impl Meter {
    /// Nothing was done yet of the kinds that are called so.
    pub fn new(names: &'static [&'static str]) -> Meter {
        let none = Counts { powers: [0; POWERS], microseconds: 0, refused: 0, failed: 0 };
        Meter { names, kinds: vec![none; names.len()].into() }
    }

    /// An operation of the kind that has this place among the names has ended, after so many microseconds.
    pub fn count(&mut self, kind: usize, microseconds: u64, outcome: Outcome) {
        let counts = &mut self.kinds[kind];
        let power = microseconds.saturating_mul(1_000).max(1).ilog2() as usize;
        counts.powers[power.min(POWERS - 1)] += 1;
        counts.microseconds = counts.microseconds.saturating_add(microseconds);
        match outcome {
            Outcome::Ok => {}
            Outcome::Refused => counts.refused += 1,
            Outcome::Failed => counts.failed += 1,
        }
    }

    /// What there was of each kind of which there was any.
    pub fn operations(&self) -> Vec<OperationReport> {
        let all = self.names.iter().zip(&self.kinds).map(|(name, counts)| counts.told(name));
        all.filter(|operation| !operation.latencies.is_empty()).collect()
    }
}

impl Counts {
    fn told(&self, name: &str) -> OperationReport {
        let powers = self.powers.iter().enumerate().filter(|(_, count)| **count > 0);
        OperationReport {
            name: Blob(name.as_bytes().to_vec()),
            refused: self.refused,
            failed: self.failed,
            nanoseconds: self.microseconds.saturating_mul(1_000),
            // Of the four classes of a power the first: sums over whole powers are right.
            latencies: powers.map(|(power, count)| LatencyReport { class: 4 * power as u8, count: *count }).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_comes_out() {
        let mut meter = Meter::new(&["lookup", "create", "link"]);
        for (kind, microseconds, outcome) in
            [(0, 0, Outcome::Ok), (0, 5, Outcome::Refused), (1, u64::MAX, Outcome::Failed), (1, 1, Outcome::Ok)]
        {
            meter.count(kind, microseconds, outcome);
        }
        let told = |name: &str, [refused, failed, nanoseconds]: [u64; 3], latencies: [(u8, u64); 2]| OperationReport {
            name: Blob(name.as_bytes().to_vec()),
            refused,
            failed,
            nanoseconds,
            latencies: latencies.map(|(class, count)| LatencyReport { class, count }).into(),
        };
        // 5 µs are 2^12 ns and more.
        let lookup = told("lookup", [1, 0, 5_000], [(0, 1), (48, 1)]);
        let create = told("create", [0, 1, u64::MAX], [(36, 1), (140, 1)]);
        assert_eq!(meter.operations(), [lookup, create]);
    }
}
