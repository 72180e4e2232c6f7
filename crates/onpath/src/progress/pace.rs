//! When progress is shown, by the time since the work began. No clock: who uses it gives the time.

use std::time::Duration;

/// Work that takes less is nobody's concern: nothing is shown of it.
pub(super) const LONG: Duration = Duration::from_secs(2);
/// How often a bar is drawn.
const DRAWN_EVERY: Duration = Duration::from_millis(200);
/// How often a line is written where there is no terminal.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// When it is shown next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    every: Duration,
    next: Duration,
}

impl Pace {
    /// That of a bar on a terminal.
    pub(super) fn of_bar() -> Pace {
        Pace { every: DRAWN_EVERY, next: LONG }
    }

    /// That of lines in a log.
    pub(super) fn of_lines() -> Pace {
        Pace { every: TOLD_EVERY, next: TOLD_EVERY }
    }

    /// How long nothing is to be shown yet; none: it is to be shown now, once. What was missed is left out.
    pub(super) fn wait(&mut self, now: Duration) -> Option<Duration> {
        if now < self.next {
            return Some(self.next - now);
        }
        let missed = (now - self.next).as_nanos() / self.every.as_nanos();
        self.next += self.every * (missed as u32 + 1);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_bar_is_drawn_from_the_second_second_on() {
        let mut pace = Pace::of_bar();
        assert_eq!(pace.wait(ms(0)), Some(ms(2_000)));
        assert_eq!(pace.wait(ms(1_999)), Some(ms(1)));
        assert_eq!(pace.wait(ms(2_000)), None);
        assert_eq!(pace.wait(ms(2_000)), Some(ms(200)));
        assert_eq!(pace.wait(ms(2_250)), None);
        assert_eq!(pace.wait(ms(2_250)), Some(ms(150)), "what comes late does not move the rest");
    }

    #[test]
    fn lines_come_every_ten_seconds_and_missed_ones_are_left_out() {
        let mut pace = Pace::of_lines();
        assert_eq!(pace.wait(ms(9_999)), Some(ms(1)));
        assert_eq!(pace.wait(ms(10_000)), None);
        assert_eq!(pace.wait(ms(10_000)), Some(ms(10_000)));
        assert_eq!(pace.wait(ms(51_000)), None, "this process stood still for half a minute");
        assert_eq!(pace.wait(ms(51_000)), Some(ms(9_000)));
    }
}
