//! Fletch's lock counters (Fletch §V-A), to compare with: off unless somebody asks for them, and in no other form of the program.
//!
//! A read raises a counter for each of its names before it begins, and lowers it when it has passed that name; one that is missed keeps the
//! rest until its shard has answered. An invalidate waits, by recirculating, while the counter of its name is above 0. No answer depends on it:
//! stamps say what is valid (SPEC.md, "Lock counters, to compare").

use onpath_wire::innet::cache::{LEVELS_MAX, Read};

/// Counters of an array, as Fletch's switch has them (Fletch §VII).
const PLACES: usize = 1 << 14;
/// An invalidate passes a counter after so many passes, whatever it says: one that leaked would keep it for ever.
pub(crate) const PASSES_MAX: usize = 1 << 14;

/// Which lock counters there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Locks {
    /// None.
    #[default]
    Off,
    /// One for a whole path: that of its first level, from the first pass to the last.
    Single,
    /// One for each level, in an array of the level's own, until that level is passed.
    Multi,
}

/// The counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) how: Locks,
    /// Array after array, one for each level of a path.
    counters: Vec<u16>,
    /// Which counter the readers of an entry raise, by index.
    of_entry: Vec<u32>,
}

impl Counters {
    pub(crate) fn new(how: Locks, entries: usize) -> Counters {
        let size = |of: usize| if how == Locks::Off { 0 } else { of };
        Counters { how, counters: vec![0; size(LEVELS_MAX * PLACES)], of_entry: vec![0; size(entries)] }
    }

    /// The counter of a level of a path.
    fn place(&self, read: &Read, level: usize) -> usize {
        let level = if self.how == Locks::Single { 0 } else { level };
        level * PLACES + read.levels.at(level).0 as usize % PLACES
    }

    /// The levels whose counters a read holds that has come to this one, without what one counter stands for twice.
    fn held(&self, read: &Read, from: usize) -> std::ops::Range<usize> {
        match self.how {
            Locks::Off => 0..0,
            Locks::Single => 0..1,
            Locks::Multi => from..read.depth.into(),
        }
    }

    /// A read begins whose last name has an entry; `index` gives that of a level's name, if it has one.
    pub(crate) fn raise(&mut self, read: &Read, index: impl Fn(usize) -> Option<u32>) {
        for level in self.held(read, 0) {
            let place = self.place(read, level);
            self.counters[place] = self.counters[place].saturating_add(1);
        }
        for level in 0..usize::from(read.depth) {
            let place = self.place(read, level) as u32;
            if let Some(entry) = index(level).and_then(|index| self.of_entry.get_mut(index as usize)) {
                *entry = place;
            }
        }
    }

    /// A level is passed that is not the last one.
    pub(crate) fn passed(&mut self, read: &Read, level: usize) {
        if self.how == Locks::Multi {
            self.lower(self.place(read, level));
        }
    }

    /// A read is over that has come to this level.
    pub(crate) fn over(&mut self, read: &Read, level: usize) {
        self.held(read, level).for_each(|level| self.lower(self.place(read, level)));
    }

    fn lower(&mut self, place: usize) {
        self.counters[place] = self.counters[place].saturating_sub(1);
    }

    /// Whether somebody reads the entry at this index.
    pub(crate) fn is_read(&self, index: u32) -> bool {
        self.of_entry.get(index as usize).is_some_and(|place| self.counters[*place as usize] > 0)
    }

    /// The sum of all counters.
    pub(crate) fn sum(&self) -> u64 {
        self.counters.iter().map(|count| u64::from(*count)).sum()
    }
}
