//! What the cache counts: how often names are missed, and how often entries answer (D-106 to D-110, D-121).

use crate::common::planted::{Planted, planted};
use crate::common::state::CacheState;
use crate::{Config, ConfigError};

/// Rows of the sketch: as many counters of a key.
pub const ROWS: usize = 3;

/// Who hears of names that are missed often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Report {
    /// 0: nobody.
    pub(crate) node: u32,
    pub(crate) threshold: u16,
}

/// A count-min sketch with a bit for what it has told, and counters of entries: arrays of the egress.
#[derive(Clone, Debug)]
pub struct Counts {
    /// A power of two.
    places: usize,
    /// Row after row.
    sketch: Vec<u16>,
    reported: Vec<bool>,
    hits: Vec<u32>,
}

impl Counts {
    pub(crate) fn new(config: &Config) -> Counts {
        Counts { places: config.cached(), sketch: vec![], reported: vec![], hits: vec![] }
    }

    /// The arrays, which are not there before.
    pub(crate) fn unfold(&mut self) {
        self.sketch.resize(ROWS * self.places, 0);
        self.reported.resize(self.places, false);
        self.hits.resize(self.places, 0);
    }

    /// Loads what has unfolded.
    pub(crate) fn load(&mut self, state: &CacheState) -> Result<(), ConfigError> {
        let places = self.places;
        let there = |what, at: u32| if (at as usize) < places { Ok(at as usize) } else { Err(missing(what, at)) };
        for &(row, at, count) in &state.sketch {
            if usize::from(row) >= ROWS {
                return Err(missing("row", row.into()));
            }
            self.sketch[usize::from(row) * places + there("sketch", at)?] = count;
        }
        for &at in &state.reported {
            self.reported[there("reported", at)?] = true;
        }
        for &(at, count) in &state.hits {
            self.hits[there("hits", at)?] = count;
        }
        Ok(())
    }

    /// Adds those that are not 0.
    pub(crate) fn tell(&self, state: &mut CacheState) {
        for (row, places) in (0..).zip(self.sketch.chunks_exact(self.places)) {
            let used = (0..).zip(places).filter(|(_, count)| **count != 0);
            state.sketch.extend(used.map(|(at, count)| (row, at, *count)));
        }
        state.reported = (0..).zip(&self.reported).filter(|(_, told)| **told).map(|(at, _)| at).collect();
        state.hits = (0..).zip(&self.hits).filter(|(_, count)| **count != 0).map(|(at, count)| (at, *count)).collect();
    }

    /// Where a key is counted in a row; beyond the last one the bit that it was told.
    #[inline]
    fn place(&self, key: u64, row: usize) -> usize {
        (key >> (16 * row)) as usize & 0xffff & (self.places - 1)
    }

    /// Counts a miss of a key (D-106, D-107); whether that is to be told (D-108).
    #[inline]
    pub(crate) fn missed(&mut self, key: u64, report: Report) -> bool {
        let mut least = u16::MAX;
        for row in 0..ROWS {
            let place = row * self.places + self.place(key, row);
            let more = match planted(Planted::D107) {
                true => self.sketch[place].wrapping_add(1),
                false => self.sketch[place].saturating_add(1),
            };
            self.sketch[place] = more;
            least = least.min(more);
        }
        if report.node == 0 || least <= report.threshold {
            return false;
        }
        let place = self.place(key, ROWS);
        let told = std::mem::replace(&mut self.reported[place], true);
        !told || planted(Planted::D108)
    }

    /// D-110.
    #[inline]
    pub(crate) fn hit(&mut self, index: u32) {
        let place = index as usize & (self.places - 1);
        self.hits[place] = self.hits[place].wrapping_add(1);
    }

    /// D-121.
    pub(crate) fn reset(&mut self) {
        self.sketch.fill(0);
        self.hits.fill(0);
        if !planted(Planted::D121) {
            self.reported.fill(false);
        }
    }

    /// D-122.
    pub(crate) fn forget(&mut self) {
        self.sketch.fill(0);
        self.reported.fill(false);
        self.hits.fill(0);
    }

    /// How often this key was missed in this period, or more.
    pub(crate) fn estimate(&self, key: u64) -> u16 {
        let counts = (0..ROWS).map(|row| self.sketch.get(row * self.places + self.place(key, row)));
        counts.map(|count| count.copied().unwrap_or_default()).min().unwrap_or_default()
    }

    /// How often the entry at this index has answered in this period.
    pub(crate) fn hits(&self, index: u32) -> u32 {
        self.hits.get(index as usize).copied().unwrap_or_default()
    }
}

fn missing(what: &'static str, at: u32) -> ConfigError {
    ConfigError::Register { what, at }
}
