//! What others can make happen as often as they like is logged now and then, and counted always.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Between two lines about the same.
const PAUSE: Duration = Duration::from_secs(60);

/// When something was logged last, and how often it was not since.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<(Option<Instant>, u64)>);

impl Seldom {
    /// Something has happened: if it is to be logged, how often it has happened since the last line, this time included.
    pub(crate) fn times(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().expect("counting does not panic");
        let (last, times) = &mut *state;
        *times += 1;
        if last.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_minute_tells_of_all() {
        let (seldom, begin) = (Seldom::default(), Instant::now());
        let times = |seconds| seldom.times(begin + Duration::from_secs(seconds));
        assert_eq!(times(0), Some(1), "the first one is told at once");
        assert_eq!([1, 2, 59].map(times), [None; 3]);
        assert_eq!(times(60), Some(4));
        assert_eq!((times(61), times(1_000), times(1_001)), (None, Some(2), None));
    }
}
