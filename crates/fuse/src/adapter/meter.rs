//! How many operations of each kind a mount has answered, and how long each took: counters for `onpath status` and `onpath top`.
//!
//! Latencies are counted in classes whose bounds grow by a quarter of a power of two, so that percentiles of any interval can be told
//! from two readings, with an error below 25 %.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::abi;

/// Opcodes below this are told apart; all later ones are counted as 0.
const KINDS: usize = 64;
/// Classes of latencies: four for each power of two of nanoseconds, up to 2^36 (a minute).
const CLASSES: usize = 4 * 36;

/// What one kind of operation took.
struct Kind {
    classes: [AtomicU64; CLASSES],
    nanoseconds: AtomicU64,
}

/// Counts the operations of one mount.
pub struct Meter {
    kinds: Box<[Kind]>,
}

/// An operation that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    opcode: u32,
    started: Instant,
}

impl Timing {
    pub(super) fn start(opcode: u32) -> Timing {
        Timing { opcode, started: Instant::now() }
    }

    /// Whether it has been under way for so long.
    pub(super) fn is_older(&self, than: Duration) -> bool {
        self.started.elapsed() >= than
    }
}

impl Default for Meter {
    fn default() -> Self {
        let kind = || Kind { classes: [const { AtomicU64::new(0) }; CLASSES], nanoseconds: AtomicU64::new(0) };
        Meter { kinds: (0..KINDS).map(|_| kind()).collect() }
    }
}

/// The class of a latency.
fn class(nanoseconds: u64) -> usize {
    // Below four there are no quarters.
    let nanoseconds = nanoseconds.max(4);
    let power = nanoseconds.ilog2() as usize;
    let quarter = (nanoseconds >> (power - 2)) as usize & 3;
    (4 * power + quarter).min(CLASSES - 1)
}

/// Nanoseconds below which the latencies of a class are; of the last one there is no such bound.
fn bound(class: usize) -> u64 {
    let (power, quarter) = (class / 4, class as u64 % 4);
    ((5 + quarter) << power) / 4
}

impl Meter {
    pub(super) fn count(&self, timing: Timing) {
        let took = u64::try_from(timing.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let kind = self.kinds.get(timing.opcode as usize).unwrap_or(&self.kinds[0]);
        kind.classes[class(took)].fetch_add(1, Ordering::Relaxed);
        kind.nanoseconds.fetch_add(took, Ordering::Relaxed);
    }

    /// For each kind that there was, `KIND` operations, `KIND_ns` nanoseconds in all, and `KIND_below_NS` of them that took
    /// less than NS nanoseconds, but not less than the bound before.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let mut counters = Vec::new();
        for (opcode, kind) in self.kinds.iter().enumerate() {
            let counts: Vec<u64> = kind.classes.iter().map(|count| count.load(Ordering::Relaxed)).collect();
            let all: u64 = counts.iter().sum();
            if all == 0 {
                continue;
            }
            let name = abi::opcode_name(opcode as u32).to_ascii_lowercase();
            counters.push((name.clone(), all));
            counters.push((format!("{name}_ns"), kind.nanoseconds.load(Ordering::Relaxed)));
            let classes = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            counters.extend(classes.map(|(class, count)| (format!("{name}_below_{}", bound(class)), *count)));
        }
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_bounded_and_in_order() {
        let mut before = 0;
        for nanoseconds in (0..100_000).chain([1 << 20, 1 << 30, 1 << 35]) {
            let class = class(nanoseconds);
            assert!(class >= before, "{nanoseconds}");
            assert!(nanoseconds < bound(class) && (class <= 8 || nanoseconds >= bound(class - 1)), "{nanoseconds}");
            before = class;
        }
        assert_eq!(class(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn what_is_counted_comes_out() {
        let meter = Meter::default();
        for opcode in [abi::opcode::LOOKUP, abi::opcode::LOOKUP, abi::opcode::CREATE, 4096] {
            meter.count(Timing::start(opcode));
        }
        let counters = meter.counters();
        let count = |name: &str| counters.iter().find(|(known, _)| known == name).map(|(_, count)| *count);
        assert_eq!((count("lookup"), count("create"), count("unknown")), (Some(2), Some(1), Some(1)));
        let classes = counters.iter().filter(|(name, _)| name.contains("_below_"));
        assert_eq!(classes.map(|(_, count)| count).sum::<u64>(), 4);
    }
}
