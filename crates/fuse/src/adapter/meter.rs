//! How many operations of each kind a mount has answered, how, and how long each took, for those whom it tells
//! (`onpath_wire::report`).

use crate::abi;
use onpath_wire::codec::Blob;
use onpath_wire::report::{LATENCY_CLASSES, LatencyReport, OperationReport, Outcome, latency_class};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Opcodes below this are told apart; all later ones are counted as 0.
const OPCODES: usize = 64;

/// What became of one kind of operation.
struct Kind {
    classes: [AtomicU64; LATENCY_CLASSES],
    nanoseconds: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
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
        self.age() >= than
    }

    /// For how long it has been under way.
    pub(super) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether it may wait for a lock that somebody else has.
    pub(super) fn is_of_lock(&self) -> bool {
        self.opcode == abi::opcode::SETLKW
    }
}

impl Default for Meter {
    fn default() -> Self {
        let kind = || Kind {
            classes: [const { AtomicU64::new(0) }; LATENCY_CLASSES],
            nanoseconds: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        };
        Meter { kinds: (0..OPCODES).map(|_| kind()).collect() }
    }
}

impl Meter {
    pub(super) fn count(&self, timing: Timing, outcome: Outcome) {
        let took = u64::try_from(timing.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let kind = self.kinds.get(timing.opcode as usize).unwrap_or(&self.kinds[0]);
        // A reader that comes in between must not find more that ended so than there were.
        kind.classes[latency_class(took)].fetch_add(1, Ordering::Relaxed);
        kind.nanoseconds.fetch_add(took, Ordering::Relaxed);
        match outcome {
            Outcome::Ok => {}
            Outcome::Refused => _ = kind.refused.fetch_add(1, Ordering::Release),
            Outcome::Failed => _ = kind.failed.fetch_add(1, Ordering::Release),
        }
    }

    /// What there was of each kind of which there was any.
    pub fn operations(&self) -> Vec<OperationReport> {
        let told = self.kinds.iter().enumerate().map(|(opcode, kind)| kind.told(opcode as u32));
        told.filter(|operation| !operation.latencies.is_empty()).collect()
    }
}

impl Kind {
    fn told(&self, opcode: u32) -> OperationReport {
        let (refused, failed) = (self.refused.load(Ordering::Acquire), self.failed.load(Ordering::Acquire));
        let counts = self.classes.iter().map(|count| count.load(Ordering::Relaxed)).enumerate();
        let latencies = counts.filter(|(_, count)| *count > 0);
        OperationReport {
            name: Blob(abi::opcode_name(opcode).to_ascii_lowercase().into_bytes()),
            refused,
            failed,
            nanoseconds: self.nanoseconds.load(Ordering::Relaxed),
            latencies: latencies.map(|(class, count)| LatencyReport { class: class as u8, count }).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_comes_out() {
        let meter = Meter::default();
        let looked_up = [Outcome::Ok, Outcome::Refused].map(|outcome| (abi::opcode::LOOKUP, outcome));
        for (opcode, outcome) in
            looked_up.into_iter().chain([(abi::opcode::CREATE, Outcome::Failed), (4096, Outcome::Ok)])
        {
            meter.count(Timing::start(opcode), outcome);
        }
        let counted = meter.operations().into_iter().map(|told| {
            let all: u64 = told.latencies.iter().map(|class| class.count).sum();
            (String::from_utf8(told.name.0).expect("letters"), all, told.refused, told.failed)
        });
        let wanted = [("unknown", 1, 0, 0), ("lookup", 2, 1, 0), ("create", 1, 0, 1)];
        assert!(counted.eq(wanted.map(|(name, all, refused, failed)| (name.to_owned(), all, refused, failed))));
    }
}
