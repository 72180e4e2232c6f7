//! The hybrid logical clock of a shard.

use onpath_wire::ids::Stamp;
use onpath_wire::limits::CLOCK_SKEW_MS_MAX;

/// Gives out stamps that grow and follow every stamp seen.
#[derive(Default, Debug)]
pub(crate) struct Clock {
    last: Stamp,
}

impl Clock {
    /// A new stamp at wall time `wall_ns`.
    pub(crate) fn stamp(&mut self, wall_ns: u64) -> Stamp {
        self.last = Stamp(wall_ns.max(self.last.0 + 1));
        self.last
    }

    /// Follows a peer's stamp; false if it is too far ahead to be believed.
    pub(crate) fn observe(&mut self, seen: Stamp, wall_ns: u64) -> bool {
        if seen.0 > wall_ns.max(self.last.0) + CLOCK_SKEW_MS_MAX * 1_000_000 {
            return false;
        }
        self.last = self.last.max(seen);
        true
    }

    /// Follows a stamp of this shard's own records.
    pub(crate) fn replayed(&mut self, seen: Stamp) {
        self.last = self.last.max(seen);
    }

    /// Whether a moment is over by this clock.
    pub(crate) fn is_past(&self, moment_ns: u64, wall_ns: u64) -> bool {
        wall_ns.max(self.last.0) > moment_ns
    }

    /// The last stamp given or seen.
    pub(crate) fn last(&self) -> Stamp {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_grow_even_when_the_clock_does_not() {
        let mut clock = Clock::default();
        let a = clock.stamp(100);
        let b = clock.stamp(90);
        assert!(b > a);
        assert!(clock.observe(Stamp(1_000), 90));
        assert_eq!(clock.stamp(90), Stamp(1_001));
        assert!(!clock.observe(Stamp(u64::MAX), 90), "a peer from the far future is refused");
        assert_eq!(clock.last(), Stamp(1_001));
    }
}
