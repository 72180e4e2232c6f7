//! Wall clocks that differ, jump to and fro, and are wrong beyond what may be.
//!
//! Within the bound nobody may notice anything. A machine whose clock is beyond it is refused by the others, or refuses
//! them; it must neither break anything nor be shut out for longer than it takes the others to get there.

use super::{FaultEnd, Machine};
use crate::world::queue::Event;
use crate::world::{EPOCH_NS, World};
use onpath_kernel::Now;
use onpath_wire::limits::CLOCK_SKEW_MS_MAX;
use rand::Rng;

/// How far a clock is from the right time, ns: two of them differ by less than they may.
const SKEW_NS_MAX: i64 = CLOCK_SKEW_MS_MAX as i64 * 1_000_000 / 2 - 10_000_000;
/// How far a wrong clock is off, ns: from clearly too far to what a session's lease bears.
const WRONG_NS: std::ops::Range<i64> = CLOCK_SKEW_MS_MAX as i64 * 1_600_000..3_000_000_000;
/// Longest time of a wrong clock, ns.
const WRONG_LASTS_NS_MAX: u64 = 1_000_000_000;

/// What the clocks of a machine show that is `skew_ns` off.
pub(in crate::world) fn shown(now_ns: u64, skew_ns: i64) -> Now {
    Now { mono_us: now_ns / 1000, wall_ns: (EPOCH_NS + now_ns).saturating_add_signed(skew_ns) }
}

impl World {
    /// A process or session.
    fn some_clock(&mut self) -> Machine {
        if !self.sessions.is_empty() && self.faults.rng.random_bool(0.25) {
            let session = self.faults.rng.random_range(0..self.sessions.len());
            return Machine::Alone(self.sessions[session].node);
        }
        self.some_process()
    }

    /// The usual error of a clock, and the one beyond all bounds.
    fn clock(&mut self, machine: Machine) -> Option<(&mut i64, &mut i64)> {
        match machine {
            Machine::Process(index) => {
                let process = &mut self.processes[index as usize];
                Some((&mut process.skew_ns, &mut process.wrong_ns))
            }
            Machine::Alone(node) => {
                let session = self.sessions.iter_mut().find(|session| session.node == node)?;
                Some((&mut session.skew_ns, &mut session.wrong_ns))
            }
        }
    }

    pub(super) fn clock_jumps(&mut self) {
        let machine = self.some_clock();
        let skew_ns = self.faults.rng.random_range(-SKEW_NS_MAX..=SKEW_NS_MAX);
        let Some((skew, _)) = self.clock(machine) else { return };
        let before = std::mem::replace(skew, skew_ns);
        self.counters.faults.jumps += 1;
        self.narrate(|| format!("the clock of {machine:?} jumps by {} ns", skew_ns - before));
        self.note(8, &skew_ns.to_le_bytes());
    }

    pub(super) fn clock_goes_wrong(&mut self) {
        let machine = self.some_clock();
        let ahead = self.faults.rng.random_bool(0.5);
        let off_ns = self.faults.rng.random_range(WRONG_NS) * if ahead { 1 } else { -1 };
        let lasts_ns = self.while_ns(WRONG_LASTS_NS_MAX);
        let Some((_, wrong)) = self.clock(machine) else { return };
        if std::mem::replace(wrong, off_ns) != 0 {
            *wrong = off_ns; // it was wrong before, and is right again when that time ends
            return;
        }
        self.counters.faults.wrong_clocks += 1;
        self.narrate(|| format!("the clock of {machine:?} is off by {off_ns} ns for {lasts_ns} ns"));
        self.note(9, &off_ns.to_le_bytes());
        self.queue.push(self.now_ns + lasts_ns, Event::FaultEnds(FaultEnd::ClockRight(machine)));
    }

    pub(super) fn clock_right(&mut self, machine: Machine) {
        if let Some((_, wrong)) = self.clock(machine) {
            *wrong = 0;
        }
    }
}
