//! The wall clock of a process among others: the system's, but for its steps.
//!
//! What a role has stamped stays stamped, and whoever is ahead of the others by more than they bear is refused until they have got there
//! . So a system's clock that steps ahead by ten seconds, if only for a moment, would shut its host out for ten. Therefore a step is not
//! followed at once: the clock goes on from where it was, as fast as the one that never steps, until others confirm the step by what
//! they stamp, or until it has lasted for [`BELIEVED_NS`].

use onpath_wire::ids::Stamp;
use onpath_wire::limits::CLOCK_SKEW_MS_MAX;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The least change that is a step, ns: half of what others bear.
const STEP_NS: i64 = CLOCK_SKEW_MS_MAX as i64 * 1_000_000 / 2;
/// A change that is followed without being written down, and the time between two readings that count as one, ns.
const DRIFT_NS: i64 = 1_000_000;
/// The system may take the processor away between two readings; so often they are taken again.
const READINGS_MAX: usize = 8;
/// A step that has lasted for so long is believed, ns.
const BELIEVED_NS: i64 = 60_000_000_000;
/// A step back is believed after so many messages that agree, and none that does not: a message may be old, but none is from the future.
const VOTES_BACK: u32 = 8;

/// What is known of a step that is not followed yet.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// When it was seen first, by the clock that never steps.
    since_ns: i64,
    /// What the system's clock is ahead of that one.
    offset_ns: i64,
    votes: u32,
}

/// Both clocks, the wall clock read first, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reading {
    pub(crate) wall_ns: i64,
    pub(crate) mono_ns: i64,
}

/// Both clocks at one moment: a pause between the two would look like a step.
fn together(source: &impl Fn() -> Reading) -> Reading {
    let mut before = source();
    for _ in 0..READINGS_MAX {
        let now = source();
        if now.mono_ns - before.mono_ns <= DRIFT_NS {
            return now;
        }
        before = now;
    }
    before
}

/// The clock, as a value.
#[derive(Debug)]
struct Wall {
    /// What it is ahead of the clock that never steps.
    offset_ns: i64,
    doubt: Option<Doubt>,
}

impl Wall {
    /// What it shows.
    fn read(&mut self, system: Reading) -> i64 {
        let offset_ns = system.wall_ns - system.mono_ns;
        let doubt = self.doubt.filter(|doubt| (offset_ns - doubt.offset_ns).abs() <= STEP_NS);
        let doubt = doubt.unwrap_or(Doubt { since_ns: system.mono_ns, offset_ns, votes: 0 });
        let is_step = (offset_ns - self.offset_ns).abs() > STEP_NS;
        if is_step && system.mono_ns - doubt.since_ns < BELIEVED_NS {
            self.doubt = Some(doubt);
        } else {
            self.follow(offset_ns);
        }
        system.mono_ns + self.offset_ns
    }

    fn follow(&mut self, offset_ns: i64) {
        (self.offset_ns, self.doubt) = (offset_ns, None);
    }

    /// Another process has stamped a message so. True if that is why a step is believed.
    fn heard(&mut self, stamp: Stamp, system: Reading) -> bool {
        let shown = self.read(system);
        let Some(doubt) = &mut self.doubt else { return false };
        let off = |from: i64| (stamp.0 as i64).saturating_sub(from).saturating_abs();
        if off(system.wall_ns) >= off(shown) {
            doubt.votes = 0;
            return false;
        }
        doubt.votes += 1;
        let agrees = off(system.wall_ns) <= 2 * STEP_NS;
        let believed = agrees && (system.wall_ns > shown || doubt.votes >= VOTES_BACK);
        if believed {
            self.follow(system.wall_ns - system.mono_ns);
        }
        believed
    }
}

/// The clock of this process.
pub(crate) struct Clock {
    /// Whether it is kept from steps.
    steady: AtomicBool,
    doubtful: AtomicBool,
    /// A copy of the offset, for those who find no step.
    offset_ns: AtomicI64,
    steps: AtomicU64,
    wall: Mutex<Wall>,
}

/// There is one, as there is one clock of the system.
pub(crate) static CLOCK: Clock = Clock::new();

impl Clock {
    const fn new() -> Clock {
        Clock {
            steady: AtomicBool::new(false),
            doubtful: AtomicBool::new(false),
            offset_ns: AtomicI64::new(0),
            steps: AtomicU64::new(0),
            wall: Mutex::new(Wall { offset_ns: 0, doubt: None }),
        }
    }

    /// From now on steps are doubted, if they are not already: there are others whose messages tell the time.
    pub(crate) fn be_steady(&self, source: impl Fn() -> Reading) {
        if !self.steady.load(Relaxed) {
            let (mut wall, system) = self.now(&source);
            wall.follow(system.wall_ns - system.mono_ns);
            self.offset_ns.store(system.wall_ns - system.mono_ns, Relaxed);
            self.steady.store(true, Relaxed);
        }
    }

    /// What it shows now. `source` reads the system's clocks.
    #[inline]
    pub(crate) fn read(&self, source: impl Fn() -> Reading) -> Reading {
        let system = source();
        let off = system.wall_ns - system.mono_ns - self.offset_ns.load(Relaxed);
        let usual = off.abs() <= DRIFT_NS && !self.in_doubt();
        if usual || !self.steady.load(Relaxed) { system } else { self.look(&source) }
    }

    #[cold]
    fn look(&self, source: &impl Fn() -> Reading) -> Reading {
        let (mut wall, system) = self.now(source);
        let shown = wall.read(system);
        self.tell(&wall, system);
        Reading { wall_ns: shown, ..system }
    }

    /// The state, and what the system says after everything that this state was made of.
    fn now(&self, source: &impl Fn() -> Reading) -> (MutexGuard<'_, Wall>, Reading) {
        let wall = self.wall.lock().unwrap_or_else(PoisonError::into_inner);
        (wall, together(source))
    }

    /// Whether messages of others are to be listened to.
    #[inline]
    pub(crate) fn in_doubt(&self) -> bool {
        self.doubtful.load(Relaxed)
    }

    /// Another process has stamped a message so.
    pub(crate) fn heard(&self, stamp: Stamp, source: impl Fn() -> Reading) {
        let (mut wall, system) = self.now(&source);
        wall.heard(stamp, system);
        self.tell(&wall, system);
    }

    /// What has become of the clock is for all to see.
    fn tell(&self, wall: &Wall, system: Reading) {
        self.offset_ns.store(wall.offset_ns, Relaxed);
        let doubtful = wall.doubt.is_some();
        if self.doubtful.swap(doubtful, Relaxed) != doubtful {
            self.steps.fetch_add(u64::from(doubtful), Relaxed);
            let ahead_ms = (system.wall_ns - system.mono_ns - wall.offset_ns) / 1_000_000;
            match doubtful {
                true => {
                    tracing::warn!(ahead_ms, "the system's clock has stepped; not followed until others confirm it")
                }
                false => tracing::warn!("the system's clock is followed again"),
            }
        }
    }

    /// Steps that were not followed at once.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const S: i64 = 1_000_000_000;
    const NOW: i64 = 1_700_000_000 * S;

    fn wall() -> Wall {
        Wall { offset_ns: NOW, doubt: None }
    }

    /// The system's clocks at `mono_ns`, its wall clock off by so much.
    fn at(mono_ns: i64, off_ns: i64) -> Reading {
        Reading { wall_ns: NOW + mono_ns + off_ns, mono_ns }
    }

    fn stamp(mono_ns: i64, off_ns: i64) -> Stamp {
        Stamp((NOW + mono_ns + off_ns) as u64)
    }

    #[test]
    fn what_is_slewed_is_followed() {
        let mut wall = wall();
        for second in 1..1_000 {
            let off = second * STEP_NS / 4;
            assert_eq!(wall.read(at(second * S, off)), NOW + second * S + off);
        }
    }

    #[test]
    fn a_step_that_is_taken_back_was_never_seen() {
        for step in [10 * S, -10 * S] {
            let mut wall = wall();
            for second in 1..50 {
                assert_eq!(wall.read(at(second * S, step)), NOW + second * S);
                assert!(!wall.heard(stamp(second * S, -S / 1_000), at(second * S, step)), "others say otherwise");
            }
            assert_eq!(wall.read(at(50 * S, 3)), NOW + 50 * S + 3);
            assert!(wall.doubt.is_none());
        }
    }

    #[test]
    fn a_step_that_lasts_is_believed() {
        let mut wall = wall();
        assert_eq!(wall.read(at(S, 10 * S)), NOW + S);
        assert_eq!(wall.read(at(59 * S, 10 * S)), NOW + 59 * S);
        // Another step is not the same one.
        assert_eq!(wall.read(at(60 * S, -10 * S)), NOW + 60 * S);
        assert_eq!(wall.read(at(119 * S, -10 * S)), NOW + 119 * S);
        assert_eq!(wall.read(at(120 * S, -10 * S)), NOW + 110 * S);
    }

    /// A machine that slept, or whose clock was wrong when it started and is right now.
    #[test]
    fn a_step_that_others_confirm_is_followed_at_once() {
        let mut asleep = wall();
        assert_eq!(asleep.read(at(S, 3_600 * S)), NOW + S);
        assert!(asleep.heard(stamp(S, 3_600 * S - S / 5), at(S, 3_600 * S)));
        assert_eq!(asleep.read(at(2 * S, 3_600 * S)), NOW + 3_602 * S);
        let mut ahead = wall();
        for n in 1..i64::from(VOTES_BACK) {
            assert!(!ahead.heard(stamp(n, -10 * S), at(n, -10 * S)), "one old message proves nothing");
        }
        assert!(!ahead.heard(stamp(90, 0), at(100, -10 * S)), "and a new one is against it");
        for n in 101..100 + i64::from(VOTES_BACK) {
            assert!(!ahead.heard(stamp(n, -10 * S), at(n, -10 * S)));
        }
        assert!(ahead.heard(stamp(200, -10 * S), at(200, -10 * S)));
        assert_eq!(ahead.read(at(S, -10 * S)), NOW - 9 * S);
    }

    #[test]
    fn the_clock_of_a_process_is_steady_when_it_shall_be() {
        let clock = Clock::new();
        let shows = |mono_ns, off_ns| clock.read(|| at(mono_ns, off_ns)).wall_ns;
        assert_eq!(shows(S, 10 * S), NOW + 11 * S);
        clock.be_steady(|| at(2 * S, 0));
        assert_eq!(shows(3 * S, 10 * S), NOW + 3 * S);
        assert_eq!((shows(4 * S, 5), clock.steps()), (NOW + 4 * S + 5, 1));
        assert_eq!(shows(5 * S, -10 * S), NOW + 5 * S + 5);
        assert!(clock.in_doubt());
        (0..VOTES_BACK as i64).for_each(|n| clock.heard(stamp(5 * S + n, -10 * S), || at(5 * S + n, -10 * S)));
        assert_eq!((shows(6 * S, -10 * S), clock.steps()), (NOW - 4 * S, 2));
        assert!(!clock.in_doubt());
    }

    /// Between the two clocks the process stood still for a second, some times.
    #[test]
    fn a_pause_between_both_readings_is_no_step() {
        let clock = Clock::new();
        clock.be_steady(|| at(0, 0));
        let readings = Cell::new(0);
        let paused = || {
            readings.set(readings.get() + 1);
            let now = at(readings.get() * S, 0);
            if readings.get() < 4 { Reading { mono_ns: now.mono_ns + S, ..now } } else { at(5 * S, 0) }
        };
        assert_eq!(clock.read(paused), at(5 * S, 0));
        assert_eq!((clock.steps(), clock.in_doubt()), (0, false));
    }

    /// A thread has read the clock before a step, and compares it when another one knows of the step.
    #[test]
    fn an_old_reading_does_not_end_a_doubt() {
        let clock = Clock::new();
        clock.be_steady(|| at(0, 0));
        let readings = Cell::new(0);
        let other = || {
            readings.set(readings.get() + 1);
            if readings.get() == 1 { at(S, 2 * DRIFT_NS) } else { at(S, 10 * S) }
        };
        assert_eq!(clock.read(|| at(S, 10 * S)), at(S, 0));
        assert_eq!(clock.read(other), at(S, 0));
        assert_eq!((clock.steps(), clock.in_doubt()), (1, true));
    }
}
