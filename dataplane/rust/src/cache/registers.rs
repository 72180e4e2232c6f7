//! The registers of the cache, and the only way to those of an entry: a [`Gate`], for one action of one pass.
//!
//! Stamp and value are touched together: nothing of another entry comes between (D-81).
//!
//! ```
//! # use onpath_dataplane::cache::registers::Gate;
//! fn once(gate: Gate<'_>) -> bool {
//!     gate.read(7).is_some()
//! }
//! ```
//!
//! Two actions on one entry do not compile.
//!
//! ```compile_fail,E0382
//! # use onpath_dataplane::cache::registers::Gate;
//! fn twice(gate: Gate<'_>) {
//!     gate.read(7);
//!     gate.invalidate(7, 1);
//! }
//! ```

use super::counts::{Counts, Report};
use super::locks::{self, Locks};
use super::tables::{Names, Requesters};
use crate::common::planted::{Planted, planted};
use crate::common::state::{CacheState, Lease, Stamp, State};
use crate::{Config, ConfigError};
use onpath_wire::innet::cache::VALUE_BYTES;

/// Registers and tables of the cache.
#[derive(Clone, Debug)]
pub struct Registers {
    pub(super) lease: Lease,
    /// What the switch's clock shows.
    pub(super) clock: u32,
    pub(super) names: Names,
    pub(super) requesters: Requesters,
    pub(super) report: Report,
    pub(super) counts: Counts,
    pub(super) locks: locks::Counters,
    /// A power of two.
    pub(super) entries: usize,
    /// As many as entries, and as values; none before the first epoch.
    pub(super) stamps: Vec<Stamp>,
    values: Vec<[u8; VALUE_BYTES]>,
}

impl Registers {
    pub(crate) fn load(config: &Config, state: &State) -> Result<Registers, ConfigError> {
        let CacheState { lease, stamps, values, .. } = &state.cache;
        let mut registers = Registers {
            lease: *lease,
            clock: 0,
            names: Names::default(),
            requesters: Requesters::default(),
            report: Report::default(),
            counts: Counts::new(config),
            locks: locks::Counters::default(),
            entries: config.cached(),
            stamps: vec![],
            values: vec![],
        };
        if state.cache != CacheState::default() {
            registers.unfold();
            registers.counts.load(&state.cache)?;
        }
        for (index, stamp) in stamps {
            let known = registers.stamps.get_mut(*index as usize);
            *known.ok_or(ConfigError::Register { what: "stamp", at: *index })? = *stamp;
        }
        for (index, value) in values {
            let known = registers.values.get_mut(*index as usize);
            *known.ok_or(ConfigError::Register { what: "value", at: *index })? = *value;
        }
        Ok(registers)
    }

    /// A switch whose cache is never used has no arrays: they are large.
    pub(super) fn unfold(&mut self) {
        self.stamps.resize(self.entries, Stamp::default());
        self.values.resize(self.entries, [0; VALUE_BYTES]);
        self.counts.unfold();
    }

    /// Adds those that are not 0.
    pub(crate) fn tell(&self, state: &mut State) {
        let cache = &mut state.cache;
        cache.lease = self.lease;
        let stamps = (0..).zip(&self.stamps).filter(|(_, stamp)| **stamp != Stamp::default());
        cache.stamps = stamps.map(|(index, stamp)| (index, *stamp)).collect();
        let values = (0..).zip(&self.values).filter(|(_, value)| value.iter().any(|byte| *byte != 0));
        cache.values = values.map(|(index, value)| (index, *value)).collect();
        self.counts.tell(cache);
    }

    /// The entry at this index; beyond the last one it is taken modulo their number, as hardware does.
    #[inline]
    pub fn gate(&mut self, index: u32) -> Gate<'_> {
        let index = index as usize & (self.entries - 1);
        Gate { stamp: &mut self.stamps[index], value: &mut self.values[index] }
    }

    /// The epoch, which is none from the moment that the lease is found passed (D-73 to D-75).
    #[inline]
    pub(crate) fn epoch(&mut self) -> u16 {
        let Lease { epoch, until } = self.lease;
        let running = if planted(Planted::D75) { until > self.clock } else { is_after(until, self.clock) };
        if running || planted(Planted::D73) {
            return epoch;
        }
        if !planted(Planted::D74) {
            self.lease.epoch = 0;
        }
        0
    }

    /// Has lock counters from now on, all 0, or none.
    pub(crate) fn set_locks(&mut self, how: Locks) {
        self.locks = locks::Counters::new(how, self.entries);
    }

    pub(crate) fn locked(&self) -> u64 {
        self.locks.sum()
    }

    pub(crate) fn lease(&self) -> Lease {
        self.lease
    }

    pub(crate) fn missed_so_far(&self, key: u64) -> u16 {
        self.counts.estimate(key)
    }

    pub(crate) fn hits(&self, index: u32) -> u32 {
        self.counts.hits(index)
    }

    /// D-122.
    pub(crate) fn reboot(&mut self) {
        (self.lease, self.clock, self.report) = (Lease::default(), 0, Report::default());
        if !planted(Planted::D122) {
            self.names.clear();
        }
        self.requesters.clear();
        self.counts.forget();
        self.set_locks(self.locks.how);
        // What waits may still go on.
        self.stamps.fill(Stamp::default());
        self.values.fill([0; VALUE_BYTES]);
    }
}

/// Serially: less than half of the clock later.
#[inline]
pub(super) fn is_after(one: u32, other: u32) -> bool {
    one.wrapping_sub(other) as i32 > 0
}

/// Stamp and value of an entry, for one action.
#[derive(Debug)]
pub struct Gate<'r> {
    stamp: &'r mut Stamp,
    value: &'r mut [u8; VALUE_BYTES],
}

/// What a fill comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// The entry says this (D-97).
    Done,
    /// It has this revision or a later one, or was cleared up to such (D-98).
    NotNewer,
    /// The index has another entry, or none (D-99).
    NotThere,
}

impl Gate<'_> {
    /// The value, if it is that of this entry and valid (D-81, D-82).
    #[inline]
    pub fn read(self, number: u32) -> Option<[u8; VALUE_BYTES]> {
        let Stamp { number: of, state } = *self.stamp;
        let its = of == number || planted(Planted::D81);
        let valid = state != 0 && (state.is_multiple_of(2) || planted(Planted::D82));
        (its && valid).then_some(*self.value)
    }

    /// D-97 to D-99.
    #[inline]
    pub fn fill(self, number: u32, revision: u32, value: &[u8; VALUE_BYTES]) -> Filled {
        if self.stamp.number != number && !planted(Planted::D99) {
            return Filled::NotThere;
        }
        let filled = revision.wrapping_mul(2);
        if self.stamp.state >= filled && !planted(Planted::D98) {
            return Filled::NotNewer;
        }
        self.stamp.state = filled;
        if !planted(Planted::D97) {
            *self.value = *value;
        }
        Filled::Done
    }

    /// D-102 to D-104: whether the entry is this one, which says nothing up to this revision then.
    #[inline]
    pub fn invalidate(self, number: u32, revision: u32) -> bool {
        if self.stamp.number != number && !planted(Planted::D104) {
            return false;
        }
        let cleared = revision.wrapping_mul(2) | 1;
        if !planted(Planted::D102) {
            self.stamp.state = if planted(Planted::D103) { cleared } else { self.stamp.state.max(cleared) };
        }
        true
    }
}
