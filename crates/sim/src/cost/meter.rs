//! Measuring what the inputs of roles cost on a real machine, one by one.

use super::calibration::Line;
use super::fit;
use super::label::Features;
use std::collections::BTreeMap;

/// A clock, ns; only differences count.
pub type Clock = Box<dyn FnMut() -> u64>;

/// Readings of the clock that are taken to know what one costs.
const READINGS: usize = 10_001;

/// Times of inputs.
pub struct Meter {
    clock: Clock,
    reading_ns: u64,
    samples: BTreeMap<(&'static str, Features), Vec<u64>>,
}

impl Meter {
    /// A meter by this clock.
    pub fn new(mut clock: Clock) -> Meter {
        let mut readings: Vec<u64> = (0..READINGS)
            .map(|_| {
                let begin = clock();
                clock() - begin
            })
            .collect();
        readings.sort_unstable();
        Meter { clock, reading_ns: readings[READINGS / 2], samples: BTreeMap::new() }
    }

    /// The time, for [`Meter::took`].
    pub(crate) fn now_ns(&mut self) -> u64 {
        (self.clock)()
    }

    /// What began then is over; what it grows with is known only now.
    pub(crate) fn took(&mut self, took_ns: u64, label: &'static str, features: Features) {
        self.samples.entry((label, features)).or_default().push(took_ns.saturating_sub(self.reading_ns));
    }

    /// The line through the samples of each label.
    pub fn lines(self) -> BTreeMap<String, Line> {
        let mut points: BTreeMap<&'static str, Vec<fit::Point>> = BTreeMap::new();
        for ((label, features), mut samples) in self.samples {
            samples.sort_unstable();
            // The mean of the middle half: during some inputs the machine does something else.
            let middle = &samples[samples.len() / 4..samples.len() - samples.len() / 4];
            let mean_ns = middle.iter().sum::<u64>() as f64 / middle.len() as f64;
            points.entry(label).or_default().push(fit::Point { features, mean_ns, samples: samples.len() });
        }
        points.into_iter().map(|(label, points)| (label.to_owned(), fit::line(&points))).collect()
    }
}
