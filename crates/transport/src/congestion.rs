//! How fast fragments may leave: round-trip time, congestion window, pacing.
//!
//! The window doubles each round trip until a queue shows or much is lost, then grows by small steps. Loss of a few percent is no reason to
//! slow down: fragments are sent again one by one. Loss above [`LOSS_HEAVY_PERCENT`], counted over [`LOSS_SAMPLES`] fragments, or a round
//! trip that has grown by more than its target shrink the window, at most once in two round trips.

use crate::limits::{
    ACK_DELAY_US, BURST_BYTES_MAX, BURST_DATAGRAMS_MIN, BURST_US, LOSS_HEAVY_PERCENT, LOSS_SAMPLES, QUEUE_TARGET_US,
    SHORTEST_US, TIMEOUT_FIRST_US, TIMEOUT_MARGIN_US, TIMEOUT_US_MAX, WINDOW_BYTES_FIRST, WINDOW_BYTES_MAX,
    WINDOW_DATAGRAMS_MIN,
};

/// The round trip to a peer.
#[derive(Clone, Copy, Debug)]
struct RoundTrip {
    smooth_us: u64,
    deviation_us: u64,
    /// The shortest of this period and of the one before.
    shortest_us: [u64; 2],
    period_until_us: u64,
}

/// What a round trip long is counted.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// It ends when a datagram behind this one is acknowledged.
    until: u64,
    shortest_us: Option<u64>,
    /// Whether the window kept something from leaving.
    limited: bool,
    /// Whether the window was just shrunk, so that this round still tells of the old one.
    after_cut: bool,
}

#[derive(Debug)]
pub(crate) struct Congestion {
    datagram: u64,
    window: u64,
    starting: bool,
    trip: Option<RoundTrip>,
    round: Round,
    arrived: u64,
    lost: u64,
    /// Bytes that may leave now; negative after small messages, which do not wait.
    tokens: i64,
    tokens_at_us: u64,
    /// Bytes under way.
    pub(crate) in_flight: u64,
    /// Timers that ran out since something was acknowledged.
    pub(crate) timeouts: u32,
}

impl Congestion {
    /// A window for datagrams of `datagram` bytes at most.
    pub(crate) fn new(datagram: usize) -> Congestion {
        let datagram = datagram as u64;
        let mut congestion = Congestion {
            datagram,
            window: WINDOW_BYTES_FIRST.max(2 * datagram),
            starting: true,
            trip: None,
            round: Round::default(),
            arrived: 0,
            lost: 0,
            tokens: 0,
            tokens_at_us: 0,
            in_flight: 0,
            timeouts: 0,
        };
        congestion.tokens = congestion.burst();
        congestion
    }

    /// Datagrams are of so many bytes at most from now on.
    pub(crate) fn set_datagram(&mut self, datagram: usize) {
        self.datagram = datagram as u64;
        self.window = self.window.max(2 * self.datagram);
    }

    fn smallest(&self) -> u64 {
        WINDOW_DATAGRAMS_MIN * self.datagram.min(4_096)
    }

    #[cfg(test)]
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Bytes a second; nothing as long as no round trip was measured.
    fn rate(&self) -> Option<u64> {
        let smooth_us = self.trip?.smooth_us.max(1);
        let ahead = if self.starting { 2 * self.window } else { self.window + self.window / 4 };
        Some(ahead * 1_000_000 / smooth_us)
    }

    fn burst(&self) -> i64 {
        let gathered = self.rate().unwrap_or(0) / (1_000_000 / BURST_US);
        let smallest = (BURST_DATAGRAMS_MIN * self.datagram).min(BURST_BYTES_MAX).max(self.datagram);
        let first = if self.trip.is_none() { self.window } else { 0 };
        gathered.clamp(smallest, BURST_BYTES_MAX.max(smallest)).max(first) as i64
    }

    /// Lets the pacer gather what it has not up to now.
    pub(crate) fn refill(&mut self, now_us: u64) {
        let passed_us = now_us.saturating_sub(self.tokens_at_us).min(1_000_000);
        self.tokens_at_us = self.tokens_at_us.max(now_us);
        let rate = self.rate().unwrap_or(WINDOW_BYTES_FIRST * 1_000_000 / TIMEOUT_FIRST_US);
        let gathered = (rate.saturating_mul(passed_us) / 1_000_000).min(i64::MAX as u64) as i64;
        if gathered == 0 && passed_us > 0 && self.tokens < self.burst() {
            self.tokens_at_us -= passed_us; // Too little time for a byte: count it again.
            return;
        }
        self.tokens = self.tokens.saturating_add(gathered).min(self.burst());
    }

    /// Small messages and acknowledgements have left: what is paced waits for them.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.tokens = (self.tokens - bytes as i64).max(-self.burst());
    }

    /// Whether the window lets so many bytes more be under way.
    pub(crate) fn fits(&mut self, bytes: u64) -> bool {
        let fits = self.has_room(bytes);
        self.round.limited |= !fits;
        fits
    }

    /// Whether the window has room for so many bytes.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.in_flight == 0 || self.in_flight + bytes <= self.window
    }

    /// Whether the pacer lets something leave.
    pub(crate) fn may_leave(&self) -> bool {
        self.tokens > 0
    }

    /// When the pacer lets a few datagrams leave together.
    pub(crate) fn refilled_at(&self) -> u64 {
        let wanted = (8 * self.datagram as i64).min(self.burst() / 2).max(1);
        let missing = (wanted - self.tokens).max(0) as u64;
        let rate = self.rate().unwrap_or(WINDOW_BYTES_FIRST * 1_000_000 / TIMEOUT_FIRST_US).max(1);
        self.tokens_at_us + (missing * 1_000_000).div_ceil(rate)
    }

    /// A round trip was measured.
    pub(crate) fn measured(&mut self, now_us: u64, us: u64) {
        let us = us.max(1);
        let shortest = self.round.shortest_us.map_or(us, |shortest| shortest.min(us));
        self.round.shortest_us = Some(shortest);
        let Some(trip) = &mut self.trip else {
            let period_until_us = now_us + SHORTEST_US;
            self.trip = Some(RoundTrip { smooth_us: us, deviation_us: us / 2, shortest_us: [us; 2], period_until_us });
            self.tokens = self.tokens.min(self.burst());
            return;
        };
        trip.deviation_us = (3 * trip.deviation_us + trip.smooth_us.abs_diff(us)) / 4;
        trip.smooth_us = (7 * trip.smooth_us + us) / 8;
        if now_us >= trip.period_until_us {
            trip.shortest_us = [us, trip.shortest_us[0]];
            trip.period_until_us = now_us + SHORTEST_US;
        }
        trip.shortest_us[0] = trip.shortest_us[0].min(us);
    }

    /// How long after it was sent a fragment that others overtook is lost.
    pub(crate) fn overdue_us(&self) -> u64 {
        self.trip.map_or(TIMEOUT_FIRST_US, |trip| trip.smooth_us + trip.smooth_us / 4 + ACK_DELAY_US)
    }

    /// How long to wait for an acknowledgement of anything.
    pub(crate) fn timeout_us(&self) -> u64 {
        let once = self.trip.map_or(TIMEOUT_FIRST_US, |trip| {
            trip.smooth_us + (4 * trip.deviation_us).max(TIMEOUT_MARGIN_US) + ACK_DELAY_US
        });
        (once << self.timeouts.min(16)).min(TIMEOUT_US_MAX)
    }

    /// Fragments have arrived, or were lost.
    pub(crate) fn count(&mut self, arrived: u64, lost: u64) {
        self.arrived += arrived;
        self.lost += lost;
    }

    /// A timer ran out.
    pub(crate) fn timed_out(&mut self) {
        self.timeouts += 1;
        if self.timeouts > 1 {
            self.window = (self.window / 2).max(self.smallest());
        }
    }

    /// Datagram `number` has arrived, the last one sent is `last`: closes the round if it is over.
    pub(crate) fn acknowledged(&mut self, number: u64, last: u64) {
        if number < self.round.until {
            return;
        }
        let round = std::mem::replace(&mut self.round, Round { until: last + 1, ..Round::default() });
        let queued = self.queued_us(&round);
        let percent = self.loss_percent();
        let heavy = percent.is_some_and(|percent| percent > LOSS_HEAVY_PERCENT);
        let target_us =
            self.trip.map_or(0, |trip| QUEUE_TARGET_US.max(trip.shortest_us.into_iter().min().unwrap_or(0) / 2));
        if round.after_cut {
            return;
        }
        if heavy || queued > target_us {
            let by = if heavy { percent.unwrap_or(0).min(50) } else { (30 * (queued - target_us) / queued).max(5) };
            self.window = (self.window - self.window * by / 100).max(self.smallest());
            self.starting = false;
            self.round.after_cut = true;
        } else if round.limited {
            self.starting &= queued <= target_us / 2;
            let step = if self.starting { self.window } else { (self.window / 16).max(2 * self.datagram) };
            self.window = (self.window + step).min(WINDOW_BYTES_MAX);
        }
    }

    fn queued_us(&self, round: &Round) -> u64 {
        let shortest = self.trip.and_then(|trip| trip.shortest_us.into_iter().min());
        match (round.shortest_us, shortest) {
            (Some(now), Some(ever)) => now - ever.min(now),
            _ => 0,
        }
    }

    /// How much was lost, once enough is known.
    fn loss_percent(&mut self) -> Option<u64> {
        let all = self.arrived + self.lost;
        let percent = (100 * self.lost).checked_div(all)?;
        if all < LOSS_SAMPLES && (all < LOSS_SAMPLES / 8 || percent < 3 * LOSS_HEAVY_PERCENT) {
            return None;
        }
        (self.arrived, self.lost) = (0, 0);
        Some(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of 100 fragments, of which `lost` are lost, with a window that is always full.
    fn rounds(congestion: &mut Congestion, count: u64, lost: u64, round_trip_us: u64) {
        for _ in 0..count {
            congestion.measured(0, round_trip_us);
            congestion.count(100 - lost, lost);
            congestion.in_flight = u64::MAX / 2;
            assert!(!congestion.fits(1));
            let until = congestion.round.until;
            congestion.acknowledged(until, until + 100);
        }
    }

    #[test]
    fn it_grows_and_keeps_what_a_few_percent_of_loss_cost() {
        let mut congestion = Congestion::new(1_400);
        let first = congestion.window();
        rounds(&mut congestion, 3, 5, 100);
        assert!(congestion.window() >= 4 * first, "{}", congestion.window());
        rounds(&mut congestion, 100, 5, 100);
        assert_eq!(congestion.window(), WINDOW_BYTES_MAX);
    }

    #[test]
    fn heavy_loss_and_a_queue_shrink_it_down_to_a_bound() {
        for (lost, round_trip_us) in [(30, 100), (0, 5_000)] {
            let mut congestion = Congestion::new(1_400);
            rounds(&mut congestion, 20, 0, 100);
            rounds(&mut congestion, 4, lost, round_trip_us);
            assert!(congestion.window() < WINDOW_BYTES_MAX * 3 / 4, "{lost}: {}", congestion.window());
            rounds(&mut congestion, 400, lost, round_trip_us);
            assert_eq!(congestion.window(), congestion.smallest(), "{lost}");
        }
    }

    #[test]
    fn timers_back_off_up_to_a_bound() {
        let mut congestion = Congestion::new(1_400);
        assert_eq!(congestion.timeout_us(), TIMEOUT_FIRST_US);
        congestion.measured(0, 100);
        assert_eq!(congestion.timeout_us(), 100 + TIMEOUT_MARGIN_US + ACK_DELAY_US);
        for _ in 0..50 {
            congestion.timed_out();
        }
        assert_eq!((congestion.timeout_us(), congestion.window()), (TIMEOUT_US_MAX, congestion.smallest()));
    }

    #[test]
    fn the_pacer_gives_what_the_window_makes_of_the_time() {
        let mut congestion = Congestion::new(1_400);
        congestion.measured(0, 1_000);
        congestion.spend(usize::MAX >> 1);
        let (mut left, mut now_us) = (0_u64, 0);
        while now_us < 1_000_000 {
            congestion.refill(now_us);
            while congestion.may_leave() {
                congestion.spend(1_400);
                left += 1_400;
            }
            let next = congestion.refilled_at();
            assert!(next > now_us, "time passes");
            now_us = next;
        }
        let expected = 2 * WINDOW_BYTES_FIRST * 1_000;
        assert!(left.abs_diff(expected) < expected / 50, "{left} instead of {expected}");
    }
}
